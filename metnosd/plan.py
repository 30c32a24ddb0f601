"""The plan: what the model proposes, and what makes a proposal a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from metnosd.pool import FINAL, Pool

MAX_STEPS = 6
"""The most steps of one plan."""


class PlanError(Exception):
    """What came is no plan: `where` is a place in it (`steps.2.args.path`), `cause` what is wrong there.

    `kept` are the whole steps that were read before the place where the text was cut off, if it was.
    """

    def __init__(self, where: str, cause: str, *, truncated: bool = False, kept: tuple[str, ...] = ()) -> None:
        super().__init__(f"{where}: {cause}" if where else cause)
        self.where = where
        self.cause = cause
        self.truncated = truncated
        self.kept = kept


@dataclass(frozen=True, slots=True)
class Step:
    """One call of an executor. `source` is `from`: None the step before, 0 the last outcome, else a step."""

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict)
    source: int | None = None

    def to_json(self) -> dict[str, object]:
        """The step in the form in which it is decoded."""
        wire: dict[str, object] = {"tool": self.tool}
        if self.source is not None:
            wire["from"] = self.source
        return wire | {"args": dict(self.args)}


@dataclass(frozen=True, slots=True)
class Plan:
    """One to six steps."""

    steps: tuple[Step, ...]

    def to_json(self) -> dict[str, object]:
        """The plan in the form in which it is decoded."""
        return {"steps": [step.to_json() for step in self.steps]}

    def compact(self) -> str:
        """The plan as a model writes it: no blanks, keys in order."""
        return json.dumps(self.to_json(), ensure_ascii=False, separators=(",", ":"))


def plan_from_json(data: Mapping[str, Any]) -> Plan:
    """The plan that `to_json` wrote."""
    return Plan(tuple(Step(s["tool"], s["args"], s.get("from")) for s in data["steps"]))


def validate(data: Any, pool: Pool) -> Plan:
    """The plan in `data` (parsed JSON), with arguments of the right types and without empty ones.

    Holds at every level of constraint: names in the pool, required arguments, types, flow of kinds, `from`
    an earlier step, the terminal last. Raises `PlanError`.
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("steps"), list):
        raise PlanError("", 'a plan is an object with a list "steps"')
    extra = sorted(set(data) - {"steps"})
    if extra:
        raise PlanError(extra[0], "a plan has no such key")
    if not 1 <= len(data["steps"]) <= MAX_STEPS:
        raise PlanError("steps", f"a plan has 1 to {MAX_STEPS} steps, not {len(data['steps'])}")
    steps: list[Step] = []
    for number, item in enumerate(data["steps"], 1):
        step = _validate_step(item, number, pool)
        _check_flow(step, steps, pool, len(data["steps"]))
        steps.append(step)
    return Plan(tuple(steps))


def _validate_step(item: Any, number: int, pool: Pool) -> Step:
    where = f"steps.{number}"
    if not isinstance(item, Mapping):
        raise PlanError(where, "a step is an object")
    extra = sorted(set(item) - {"tool", "from", "args"})
    if extra:
        raise PlanError(f"{where}.{extra[0]}", "a step has no such key")
    tool = item.get("tool")
    executor = pool.get(tool) if isinstance(tool, str) else None
    if executor is None:
        raise PlanError(f"{where}.tool", f"{tool!r} is none of {', '.join(pool.names)}")
    source = item.get("from")
    if source is not None and (not isinstance(source, int) or isinstance(source, bool)):
        raise PlanError(f"{where}.from", "names a step by its number")
    args = item.get("args", {})
    if not isinstance(args, Mapping):
        raise PlanError(f"{where}.args", "arguments are an object")
    filled = {key: value for key, value in args.items() if value not in ("", [], None)}
    try:
        return Step(executor.name, executor.check(filled), source)
    except ValueError as error:
        raise PlanError(f"{where}.args", str(error)) from error


def _check_flow(step: Step, before: list[Step], pool: Pool, total: int) -> None:
    number = len(before) + 1
    where = f"steps.{number}"
    executor = pool.get(step.tool)
    assert executor is not None
    if step.tool == FINAL and number < total:
        raise PlanError(f"{where}.tool", f"{FINAL} can only be the last step")
    if step.source is not None and not 0 <= step.source < number:
        raise PlanError(f"{where}.from", f"{step.source} is no earlier step")
    if step.source == 0 and not pool.last:
        raise PlanError(f"{where}.from", "there is no last outcome to take from")
    kinds = incoming_kinds(step, before, pool)
    if step.source is not None and executor.kinds == (None,):
        raise PlanError(f"{where}.from", f"{step.tool} takes no entries")
    if not any(executor.accepts(kind) for kind in kinds) and None not in executor.kinds:
        takes = " or ".join(str(kind) for kind in executor.kinds)
        raise PlanError(where, f"{step.tool} takes {takes}; a step before it must give that")


def incoming_kinds(step: Step, before: list[Step], pool: Pool) -> tuple[str | None, ...]:
    """The kinds of the entries that `step` takes, `(None,)` where it has no input."""
    if step.source == 0:
        return pool.last
    index = len(before) - 1 if step.source is None else step.source - 1
    if index < 0:
        return (None,)
    giver = pool.get(before[index].tool)
    assert giver is not None
    return incoming_kinds(before[index], before[:index], pool) if giver.gives == "same" else (giver.gives,)

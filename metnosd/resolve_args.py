"""Words of a plan to values: places, times, sizes. An ambiguity is a question, never a guess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from metnosd.arguments import NewPlace, Place, Size, TimeRange
from metnosd.executor import Executor
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.spans import read_size
from metnosd.lexicon.templates import one_of
from metnosd.lexicon.when import read_range
from metnosd.plan import Plan, PlanError
from metnosd.pool import Pool
from metnosd.scope import Scope, Want
from metnosd.sentence import Refusal


@dataclass(frozen=True, slots=True)
class Reading:
    """What words are read with: the lexicon, the user's clock and folders."""

    lexicon: Lexicon
    now: datetime
    scope: Scope


def check_words(plan: Plan, pool: Pool, reading: Reading) -> None:
    """Raise `PlanError` for a time or size that cannot be read, so that the model can be told."""
    for number, step in enumerate(plan.steps, 1):
        executor = pool.get(step.tool)
        assert executor is not None
        for name, value in step.args.items():
            where = f"steps.{number}.args.{name}"
            kind = executor.hints[name]
            if kind is TimeRange and read_range(str(value), reading.lexicon, reading.now) is None:
                raise PlanError(where, f"{value!r} is no time; write the words of the request")
            if kind is Size and read_size(str(value)) is None:
                raise PlanError(where, f"{value!r} is no size; write a number and MB, GB or kB")


def resolve_arguments(executor: Executor, args: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """The keyword arguments for `executor`. Raises `Refusal`, or `Question` where two things fit."""
    return {name: _resolve(executor.hints[name], name, value, reading) for name, value in args.items()}


def _resolve(kind: Any, name: str, value: Any, reading: Reading) -> Any:
    if kind is TimeRange:
        found = read_range(str(value), reading.lexicon, reading.now)
        if found is None:
            raise Refusal("plan.no_time", text=value)
        return found
    if kind is Size:
        size = read_size(str(value))
        if size is None:
            raise Refusal("plan.no_size", text=value)
        return Size(size)
    if kind is Place:
        return Place(_place(str(value), reading))
    if kind is NewPlace:
        return NewPlace(_new_place(str(value), name, reading))
    return value


def _place(text: str, reading: Reading) -> str:
    if any(t.full(g.fold(text)) is not None for g in reading.lexicon.languages for t in g.paths.get("all", ())):
        return reading.scope.roots[0] if reading.scope.roots else text
    refusal: Refusal | None = None
    for wording in _wordings(text, reading.lexicon):
        try:
            return reading.scope.locate(wording, "any")
        except Refusal as error:
            if error.sentence.key != "scope.missing":
                raise
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def _new_place(text: str, name: str, reading: Reading) -> str:
    """Where something new goes: what exists under any of the wordings, else a new thing of the barest one."""
    want: Want = "file" if name == "path" else "any"
    wordings = _wordings(text, reading.lexicon)
    for wording in wordings[:-1]:
        try:
            return reading.scope.locate(wording, want)
        except Refusal as error:
            if error.sentence.key != "scope.missing":
                raise
    return reading.scope.locate_new(wordings[-1], want)


def _wordings(text: str, lexicon: Lexicon) -> list[str]:
    """`text`, then `text` without the words around a name ("the Projects folder"), as said."""
    wordings = [text]
    for language in lexicon.languages:
        for template in language.paths.get("noise", ()):
            values = template.full(language.fold(text))
            if values is not None:
                rest = one_of(values, "rest") or ""
                start = language.fold(text).find(rest)
                wordings.append(text[start : start + len(rest)])
    return wordings


def to_plain(value: Any) -> object:
    """A resolved argument as a JSON value, for the digest, the journal and `metnosd plan`."""
    return value.to_json() if isinstance(value, TimeRange) else value

"""The resolver: runs the leading steps that have no effect, freezes their entries, and makes the effects
that follow concrete. What it returns is what Vaglio judges, what is asked, and what is carried out.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Event
from typing import Any

import structlog

from metnosd.effects import Effect, effect_from_json
from metnosd.entries import Entry, Status, StepOutcome
from metnosd.executor import Cancelled, Effects, Executor, Found, Limits, Registry, Run
from metnosd.measure import Fixed
from metnosd.plan import Plan, Step, plan_from_json
from metnosd.resolve_args import Reading, resolve_arguments, to_plain
from metnosd.scope import Scope
from metnosd.sentence import Question, Refusal, Sentence, say
from metnosd.store import from_text, to_text
from metnosd.user import User
from metnosd.writer import Beside

log = structlog.get_logger(__name__)

MOST_AT_ONCE = 16
"""How many plans are resolved at once; a step that waits for the model holds its thread for minutes."""


@dataclass(frozen=True, slots=True)
class ResolvedStep:
    """A step with effect on concrete targets; `index` counts from 1. `problems` name what it leaves out.

    `files` and `bytes` count what the effects touch, folders with all that is in them, and `overwrites` the
    files whose content they replace. `ask`, `choices` and `settles` are those of `Effects`.
    """

    index: int
    tool: str
    capability: str
    args: Mapping[str, object]
    effects: tuple[Effect, ...]
    problems: tuple[Sentence, ...] = ()
    files: int = 0
    bytes: int = 0
    overwrites: int = 0
    ask: Sentence | None = None
    choices: Mapping[str, tuple[Effect, ...]] = field(default_factory=dict)
    settles: tuple[int, ...] = ()

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Each capability that the step needs."""
        return tuple(self.capability.split())

    def to_json(self) -> dict[str, object]:
        """The step as `metnosd plan` and the consent request show it."""
        return {
            "index": self.index,
            "tool": self.tool,
            "capability": self.capability,
            "args": dict(self.args),
            "effects": [effect.to_json() for effect in self.effects],
            "files": self.files,
            "bytes": self.bytes,
            "overwrites": self.overwrites,
            "choices": {name: [effect.to_json() for effect in chosen] for name, chosen in self.choices.items()},
        }

    def to_state(self) -> dict[str, object]:
        """The step as the database keeps it."""
        ask = _sentences((self.ask,)) if self.ask else None
        return self.to_json() | {"problems": _sentences(self.problems), "ask": ask, "settles": list(self.settles)}


@dataclass(frozen=True, slots=True)
class ResolvedPlan:
    """A plan as far as it is known without an effect: `done` by index from 1, then `pending` effects.

    `spent_files` and `spent_bytes` count what the effects in `done` touched.
    """

    plan: Plan
    done: Mapping[int, StepOutcome]
    pending: tuple[ResolvedStep, ...] = ()
    spent_files: int = 0
    spent_bytes: int = 0

    def digest(self, user: str) -> str:
        """The SHA-256 of who it is for and exactly what would be done, in hexadecimal."""
        what = {"user": user, "plan": self.plan.to_json(), "pending": [s.to_json() for s in self.pending]}
        return hashlib.sha256(to_text(what).encode()).hexdigest()

    def to_text(self) -> str:
        """The plan as text for the database."""
        return to_text(
            {
                "plan": self.plan.to_json(),
                "done": {str(index): _step_to_json(step) for index, step in self.done.items()},
                "pending": [step.to_state() for step in self.pending],
                "spent": [self.spent_files, self.spent_bytes],
            }
        )

    def choose(self, choice: str) -> ResolvedPlan:
        """The plan with the effects of `choice` in each step that offers it."""
        pending = tuple(replace(step, effects=step.choices.get(choice, step.effects)) for step in self.pending)
        return replace(self, pending=pending)

    @property
    def choices(self) -> tuple[str, ...]:
        """The names of the answers beside yes and no, each once."""
        return tuple(dict.fromkeys(name for step in self.pending for name in step.choices))


def resolved_from_text(text: str) -> ResolvedPlan:
    """The plan that `to_text` wrote; raises ValueError, KeyError or TypeError for anything else."""
    data = from_text(text)
    return ResolvedPlan(
        plan=plan_from_json(data["plan"]),
        done={int(index): _step_from_json(step) for index, step in data["done"].items()},
        pending=tuple(_pending_from_json(step) for step in data["pending"]),
        spent_files=data["spent"][0],
        spent_bytes=data["spent"][1],
    )


def _pending_from_json(step: Mapping[str, Any]) -> ResolvedStep:
    return ResolvedStep(
        index=step["index"],
        tool=step["tool"],
        capability=step["capability"],
        args=step["args"],
        effects=tuple(effect_from_json(effect) for effect in step["effects"]),
        problems=tuple(say(key, **values) for key, values in step["problems"]),
        files=step["files"],
        bytes=step["bytes"],
        overwrites=step["overwrites"],
        ask=say(step["ask"][0][0], **step["ask"][0][1]) if step["ask"] else None,
        choices={name: tuple(effect_from_json(e) for e in chosen) for name, chosen in step["choices"].items()},
        settles=tuple(step["settles"]),
    )


def _sentences(sentences: tuple[Sentence, ...]) -> list[object]:
    return [[sentence.key, dict(sentence.values)] for sentence in sentences]


def _step_to_json(step: StepOutcome) -> dict[str, object]:
    return {
        "tool": step.tool,
        "status": step.status,
        "entries": [{"kind": entry.kind, "fields": dict(entry.fields)} for entry in step.entries],
        "problems": _sentences(step.problems),
        "note": _sentences((step.note,)) if step.note else None,
        "truncated": step.truncated,
    }


def _step_from_json(data: Mapping[str, Any]) -> StepOutcome:
    return StepOutcome(
        tool=data["tool"],
        status=data["status"],
        entries=tuple(Entry(item["kind"], item["fields"]) for item in data["entries"]),
        problems=tuple(say(key, **values) for key, values in data["problems"]),
        note=say(data["note"][0][0], **data["note"][0][1]) if data.get("note") else None,
        truncated=data["truncated"],
    )


@dataclass(frozen=True, slots=True)
class Context:
    """The turn that a plan is resolved and carried out for.

    `where` is its channel and conversation, `text` the words of the message. A fire of a schedule has the id of
    that, and the digest of its plan. `beside` is there while a turn resolves its plan, for the model; a plan that
    is only looked at has none.
    """

    turn: str
    user: User
    lang: str
    now: datetime
    last: tuple[Entry, ...]
    cancelled: Event = field(default_factory=Event)
    reply_to: str | None = None
    where: tuple[str, str] = ("", "")
    text: str = ""
    schedule: str | None = None
    digest: str | None = None
    beside: Beside | None = None


class Resolver:
    """Resolves plans with the executors of `registry`."""

    def __init__(
        self,
        registry: Registry,
        reading: Callable[[Context], Reading],
        *,
        limits: Limits,
        facts: Mapping[str, Any],
        may_read: Callable[[Executor, User], Refusal | None],
        fix: Callable[[Sequence[Effect], Scope, Callable[[], None]], Fixed],
    ) -> None:
        """`may_read` is Vaglio's judgement on a step without effect; None lets it run. `fix` binds effects to
        what they act on (`metnosd.measure`)."""
        self._registry = registry
        self._reading = reading
        self._limits = limits
        self._facts = facts
        self._may_read = may_read
        self._fix_effects = fix
        # Not the threads that everything else needs: plans that wait must not keep a "stop" from coming in.
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE, "resolve")

    def close(self) -> None:
        """Wait for what still resolves and end the threads; nothing can be resolved after it."""
        self._threads.shutdown()

    def _fix(self, effects: Sequence[Effect], run: Run) -> Fixed:
        return self._fix_effects(effects, run.scope, run.check)

    async def resolve(
        self,
        plan: Plan,
        context: Context,
        done: Mapping[int, StepOutcome],
        tell: Callable[[str, str], None] = lambda _stage, _detail: None,
    ) -> ResolvedPlan:
        """See `resolve_now`, in a thread. `tell` hears of stages that take long, with a detail."""
        loop = asyncio.get_running_loop()
        beside = Beside(loop, context.cancelled, tell)
        return await loop.run_in_executor(self._threads, self.resolve_now, plan, replace(context, beside=beside), done)

    def resolve_now(self, plan: Plan, context: Context, done: Mapping[int, StepOutcome]) -> ResolvedPlan:
        """Go on with `plan` after the steps `done`: readers run, then the effects that follow them.

        Several effects in a row are resolved together while their input is there, so that one question
        covers them. A step that fails ends the plan: its outcome is the last one in `done`.
        """
        finished = dict(done)
        pending: list[ResolvedStep] = []
        waiting: set[int] = set()
        for index, step in enumerate(plan.steps, 1):
            if index in finished:
                continue
            executor = self._registry[step.tool]
            source = index - 1 if step.source is None else step.source
            if (pending and not executor.effect) or (source in waiting and executor.kinds != (None,)):
                break
            result = self._run(step, index, executor, source, finished, context)
            if isinstance(result, StepOutcome):
                finished[index] = result
                if result.status in ("failed", "refused", "asked"):
                    return ResolvedPlan(plan, finished)
            elif _builds_on(result, pending):
                break
            else:
                pending.append(result)
                waiting.add(index)
        return ResolvedPlan(plan, finished, tuple(pending))

    def _run(
        self,
        step: Step,
        index: int,
        executor: Executor,
        source: int,
        finished: Mapping[int, StepOutcome],
        context: Context,
    ) -> StepOutcome | ResolvedStep:
        try:
            if not executor.effect and (refusal := self._may_read(executor, context.user)) is not None:
                raise refusal
            reading = self._reading(context)
            args = resolve_arguments(executor, step.args, reading)
            run = self._run_for(step, executor, source, finished, context, reading)
            result = executor.function(run, **args)
        except Cancelled:
            raise
        except Question as error:
            return StepOutcome(step.tool, "asked", problems=(error.sentence,), note=_choices(error))
        except Refusal as error:
            return StepOutcome(step.tool, "refused", problems=(error.sentence,))
        except Exception as error:  # one executor step: its fault must not end the turn
            log.exception("executor_failed", executor=step.tool)
            return StepOutcome(step.tool, "failed", problems=(say("step.failed", error=type(error).__name__),))
        if isinstance(result, Found):
            return _found(step.tool, result)
        return self._fixed(step, index, executor, args, result, run)

    def _fixed(
        self, step: Step, index: int, executor: Executor, args: Mapping[str, Any], result: Effects, run: Run
    ) -> StepOutcome | ResolvedStep:
        """The step with its effects bound to what they act on as it is now."""
        if not result.effects and result.ask is None:
            status: Status = "failed" if result.problems else "nothing"
            return StepOutcome(step.tool, status, problems=result.problems)
        plain = {name: to_plain(value) for name, value in args.items()}
        fixed = self._fix(result.effects, run)
        problems = (*result.problems, *fixed.problems)
        if result.effects and not fixed.effects and result.ask is None:
            return StepOutcome(step.tool, "failed", problems=problems)
        return ResolvedStep(
            index,
            step.tool,
            executor.capability,
            plain,
            fixed.effects,
            problems,
            fixed.files,
            fixed.bytes,
            fixed.overwrites,
            result.ask,
            result.choices,
            result.settles,
        )

    def _own_facts(self, context: Context, reading: Reading) -> dict[str, Any]:
        """What executors over plans need: to resolve one without carrying it out."""
        return {
            "registry": self._registry,
            "resolve": lambda plan: self.resolve_now(plan, replace(context, beside=None), {}),
            "arguments": lambda step: resolve_arguments(self._registry[step.tool], step.args, reading),
        }

    def _run_for(
        self,
        step: Step,
        executor: Executor,
        source: int,
        finished: Mapping[int, StepOutcome],
        context: Context,
        reading: Reading,
    ) -> Run:
        entries: tuple[Entry, ...] = ()
        # The last outcome is an input only where a step asks for it (`from` 0), never by standing first.
        has_input = executor.kinds != (None,) and (source in finished or step.source == 0)
        if has_input:
            entries = context.last if step.source == 0 else finished[source].entries
        return Run(
            entries=entries,
            has_input=has_input,
            scope=reading.scope,
            now=context.now,
            zone=context.user.zone,
            lang=context.lang,
            limits=self._limits,
            cancelled=context.cancelled,
            facts={**self._facts, "user": context.user, "context": context} | self._own_facts(context, reading),
        )


def _builds_on(step: ResolvedStep, pending: Sequence[ResolvedStep]) -> bool:
    """Whether `step` acts on something that an effect before it will have changed by then."""
    written = {path for earlier in pending for effect in earlier.effects for path in effect.writes()}
    return any(
        effect.expect is not None and effect.undoes is None and not written.isdisjoint(effect.writes())
        for effect in step.effects
    )


def _choices(question: Question) -> Sentence | None:
    return say("reply.choices", choices=", ".join(question.choices)) if question.choices else None


def _found(tool: str, found: Found) -> StepOutcome:
    status: Status = "partial" if found.problems and found.entries else "failed" if found.problems else "done"
    if not found.entries and not found.problems and found.note is None:
        status = "nothing"
    return StepOutcome(tool, status, found.entries, found.problems, found.note, found.truncated)

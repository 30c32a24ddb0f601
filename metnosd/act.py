"""Carries out what was allowed: each effect is journalled with its inverse before it happens."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime

import structlog

from metnosd.effects import (
    Effect,
    MovePath,
    PackFiles,
    RemoveDir,
    RestoreFile,
    TrashPath,
    WriteFile,
)
from metnosd.entries import Entry, Status, StepOutcome
from metnosd.executor import Cancelled, Limits
from metnosd.journal import Journal, JournalRow
from metnosd.perform import Performed, fingerprint, no_check, perform, prepare
from metnosd.resolve import Context, ResolvedStep
from metnosd.scope import Scope
from metnosd.sentence import Refusal, Sentence, say

log = structlog.get_logger(__name__)


class Actor:
    """Performs effects of resolved steps and keeps the journal of them."""

    def __init__(
        self, journal: Journal, scope: Callable[[Context], Scope], clock: Callable[[], datetime], limits: Limits
    ) -> None:
        self._journal = journal
        self._scope = scope
        self._clock = clock
        self._limits = limits

    async def act(self, step: ResolvedStep, context: Context) -> StepOutcome:
        """Perform the effects of `step` in order. One that cannot be done is named; the others go on."""
        return await asyncio.to_thread(self._act, step, context)

    def _act(self, step: ResolvedStep, context: Context) -> StepOutcome:
        scope = self._scope(context)
        done: list[tuple[Effect, tuple[Entry, ...]]] = []
        problems = list(step.problems)
        for number, effect in enumerate(step.effects):
            if context.cancelled.is_set():
                problems.append(say("act.cancelled", count=len(step.effects) - number))
                break
            try:
                performed = self._perform(effect, step, context, scope)
                done.append((effect, performed.entries))
                problems += performed.problems
            except Refusal as error:
                problems.append(error.sentence)
                if error.sentence.key == "undo.changed" and effect.undoes is not None:
                    # The person's later work stays; the next undo goes on to the turn before.
                    self._journal.kept(effect.undoes)
            except Cancelled:
                problems.append(say("act.cancelled", count=len(step.effects) - number))
                break
            except Exception as error:  # one executor step: its fault must not end the turn
                log.exception("effect_failed", effect=effect.kind, executor=step.tool)
                problems.append(say("act.failed", error=type(error).__name__))
        entries = tuple(entry for _, made in done for entry in made)
        status: Status = "done" if done and not problems else "partial" if done else "failed"
        return StepOutcome(step.tool, status, entries, tuple(problems), _summary(done, scope, step.tool))

    def _perform(self, effect: Effect, step: ResolvedStep, context: Context, scope: Scope) -> Performed:
        def check() -> None:
            if context.cancelled.is_set():
                raise Cancelled

        prepared = prepare(effect, scope, check)
        row = self._journal.intend(
            turn=context.turn,
            user=context.user.name,
            step=step.index,
            executor=step.tool,
            effect=effect,
            inverse=prepared.inverse,
            before=prepared.before,
            at=self._clock(),
        )
        try:
            performed = perform(effect, scope, check, self._limits)
        except BaseException:
            self._journal.failed(row)
            raise
        self._journal.done(row, performed.after, effect.undoes)
        return performed


_PLAIN = ("move", "mkdir", "trash")
"""Effects that a redo does in the same words as the first time."""


def _summary(done: list[tuple[Effect, tuple[Entry, ...]]], scope: Scope, tool: str) -> Sentence | None:
    """What was done, in one sentence: that of the effect which the step is about, with its number."""
    redo = tool == "redo_actions"
    groups: dict[str, list[Effect]] = defaultdict(list)
    for effect, _ in done:
        reverts = effect.undoes is not None and not (redo and effect.kind in _PLAIN)
        groups[f"undo_{effect.kind}" if reverts else effect.kind].append(effect)
    main = next((key for key in groups if key != "mkdir"), "mkdir")
    if main not in groups:
        return None
    effects = groups[main]
    if len(groups) > 1 and any(effect.undoes is not None for effect, _ in done):
        return say("done.redo" if redo else "done.undo", count=len(done))
    return say(f"done.{main}", **(describe(effects[0], scope) | {"count": len(effects)}))


def describe(effect: Effect, scope: Scope) -> dict[str, object]:
    """The blanks of the sentences about `effect`: `source`, `target`, `path`, `folder`, `count`…"""
    values: dict[str, object] = {}
    for name in ("source", "target", "path"):
        path = getattr(effect, name, None)
        if isinstance(path, str):
            values[name] = scope.shown(path)
    target = getattr(effect, "target", None) or getattr(effect, "path", None)
    if isinstance(target, str):
        values["folder"] = scope.shown(target.rsplit("/", 1)[0] or "/")
    if isinstance(effect, WriteFile):
        values["text"] = effect.text
    if isinstance(effect, PackFiles):
        values["count"] = len(effect.sources)
    return values


def settle(journal: Journal, scope_of: Callable[[str], Scope | None]) -> int:
    """Give every intent that a crash left open its result, by looking at its target; how many there were."""
    rows = journal.unsettled()
    for row in rows:
        scope = scope_of(row.turn)
        happened = scope is not None and _happened(row, scope)
        if happened and scope is not None:
            journal.done(row.id, _left(row.effect, scope), row.effect.undoes)
        else:
            journal.failed(row.id)
        log.warning("journal_settled", row=row.id, effect=row.effect.kind, happened=happened)
    return len(rows)


def _happened(row: JournalRow, scope: Scope) -> bool:
    """Whether the effect of `row` is there. Every effect appears whole or not at all (`metnosd.perform`)."""
    effect = row.effect
    if isinstance(effect, RemoveDir):
        return _look(scope, effect.path) is None
    if isinstance(effect, TrashPath):
        return _look(scope, effect.path) is None and _left(effect, scope) is not None
    made = _made(effect)
    now = _look(scope, made) if made is not None else None
    if isinstance(effect, MovePath):
        return now is not None and _look(scope, effect.source) is None
    if isinstance(effect, WriteFile | RestoreFile) and row.before is not None:
        return now not in (None, row.before)
    # Nothing stood where the others make something, or they would not have begun.
    return now is not None


def _left(effect: Effect, scope: Scope) -> str | None:
    """The fingerprint of what `effect` left: in the trash, or at the path that it made."""
    if isinstance(effect, TrashPath):
        try:
            return scope.keep.fingerprint(effect.slot, no_check) if scope.keep else None
        except (Refusal, OSError):
            return None
    path = _made(effect)
    return _look(scope, path) if path is not None else None


def _look(scope: Scope, path: str) -> str | None:
    """The fingerprint of what is at `path`; None also where that is out of reach by now."""
    try:
        return fingerprint(scope, path)
    except (Refusal, OSError):
        return None


def _made(effect: Effect) -> str | None:
    """The path at which something stands after `effect`."""
    if isinstance(effect, TrashPath | RemoveDir):
        return None
    return getattr(effect, "target", None) or getattr(effect, "path", None)

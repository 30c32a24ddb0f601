"""Carries out what was allowed: each effect is journalled with its inverse before it happens."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import structlog

from metnosd.disk import new_slot
from metnosd.effects import (
    CopyPath,
    Effect,
    MovePath,
    PackFiles,
    PutRecord,
    RemoveDir,
    RestoreFile,
    SendMessage,
    TrashPath,
    UnpackArchive,
    UntrashPath,
    WriteFile,
)
from metnosd.entries import Entry, Status, StepOutcome
from metnosd.executor import Cancelled, Limits
from metnosd.journal import Journal, JournalRow
from metnosd.people import person_shown
from metnosd.perform import Performed, fingerprint, no_check, perform, prepare
from metnosd.records import Records
from metnosd.resolve import Context, ResolvedStep
from metnosd.scope import Scope
from metnosd.sending import Post
from metnosd.sentence import Refusal, Sentence, instant_said, say
from metnosd.sweep import sweep_leftovers

log = structlog.get_logger(__name__)


class Actor:
    """Performs effects of resolved steps and keeps the journal of them."""

    def __init__(
        self,
        journal: Journal,
        records: Records,
        post: Post,
        scope: Callable[[Context], Scope],
        clock: Callable[[], datetime],
        limits: Limits,
    ) -> None:
        self._journal = journal
        self._records = records
        self._post = post
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
                if error.sentence.key in GIVEN_UP and effect.undoes is not None:
                    # The person's later work stays; the next undo goes on to the turn before.
                    self._journal.kept(effect.undoes)
            except Cancelled:
                problems.append(say("act.cancelled", count=len(step.effects) - number))
                break
            except Exception as error:  # one executor step: its fault must not end the turn
                log.exception("effect_failed", effect=effect.kind, executor=step.tool)
                problems.append(say("act.failed", error=type(error).__name__))
        kept = self._give_up(step.settles, problems, scope)
        entries = tuple(entry for _, made in done for entry in made)
        status: Status = "done" if done and not problems else "partial" if done else "failed"
        if not done and not problems[kept:]:
            status = "nothing"
        return StepOutcome(
            step.tool, status, entries, tuple(problems), summary_of([effect for effect, _ in done], scope, step.tool)
        )

    def _give_up(self, rows: Sequence[int], problems: list[Sentence], scope: Scope) -> int:
        """Put before `problems` what of `rows` stays for good and is not named there; how many that are."""
        told = {problem.values.get("path") for problem in problems}
        kept = [row for number in rows if (row := self._journal.give_up(number)) is not None]
        paths = [_path_left(row.effect, scope) for row in kept]
        left = [say("undo.kept", path=path) for path in paths if path not in told]
        problems[:0] = left
        return len(left)

    def _perform(self, effect: Effect, step: ResolvedStep, context: Context, scope: Scope) -> Performed:
        def check() -> None:
            if context.cancelled.is_set():
                raise Cancelled

        if isinstance(effect, TrashPath) and scope.keep is not None and scope.keep.is_used(effect.slot):
            # What was killed while it filled the slot left something there; it is swept in its time.
            effect = replace(effect, slot=new_slot())
        if isinstance(effect, PutRecord):
            prepared = self._records.prepare(effect)
        elif isinstance(effect, SendMessage):
            prepared = self._post.prepare(effect, context.turn, step.index)
        else:
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
            if isinstance(effect, PutRecord):
                performed = self._records.perform(effect)
            elif isinstance(effect, SendMessage):
                assert prepared.before is not None
                performed = self._post.perform(effect, prepared.before)
            else:
                performed = perform(effect, scope, check, self._limits)
        except BaseException:
            self._journal.failed(row)
            raise
        self._journal.done(row, performed.after, effect.undoes)
        return performed


GIVEN_UP = ("undo.changed", "scope.missing", "keep.gone", "effect.not_empty")
"""Why an undo leaves something for good: its target is somebody's later work, or there is nothing to act on."""

_PLAIN = ("move", "mkdir", "trash")
"""Effects that a redo does in the same words as the first time."""

_BACK = ("undo_record", "undo_restore")
"""What is done again in words that would say that it was taken back."""


def summary_of(done: Sequence[Effect], scope: Scope, tool: str) -> Sentence | None:
    """What was done, in one sentence: that of the effect which the step is about, with its number."""
    redo = tool == "redo_actions"
    groups: dict[str, list[Effect]] = defaultdict(list)
    for effect in done:
        reverts = effect.undoes is not None and not (redo and effect.kind in _PLAIN)
        groups[f"undo_{effect.kind}" if reverts else effect.kind].append(effect)
    main = next((key for key in groups if key != "mkdir"), "mkdir")
    if main not in groups:
        return None
    effects = groups[main]
    if redo and main in _BACK:
        return say("done.redo", count=len(done))
    about = about_of(effects[0])
    if about is not None and not any(effect.undoes is not None for effect in effects):
        return say(f"done.{about}", **({"count": len(effects)} | describe(effects[0], scope)))
    if len(groups) > 1 and any(effect.undoes is not None for effect in done):
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
        values |= {"text": effect.text} | _record_blanks(effect.blanks)
    if isinstance(effect, PackFiles):
        values["count"] = len(effect.sources)
    if isinstance(effect, PutRecord):
        values |= _record_blanks(effect.blanks)
    if isinstance(effect, SendMessage):
        values |= {"name": person_shown(effect.user), "text": effect.text}
    return values


def _record_blanks(blanks: Mapping[str, object]) -> dict[str, object]:
    """The blanks of a record's sentences, with what depends on the language as sentences."""
    values: dict[str, object] = dict(blanks)
    if isinstance(tool := blanks.get("tool"), str):
        values["what"] = say(f"deed.{tool}")
    fires = blanks.get("fires")
    if isinstance(fires, list | tuple):
        values["fires"] = [instant_said(datetime.fromisoformat(str(fire))) for fire in fires]
        late = "late_skip" if blanks["late"] == "skip" else "late_run"
        values["late"] = say(f"schedule.{late}", count=blanks["late_minutes"])
        after = blanks.get("after_change")
        moment = instant_said(datetime.fromisoformat(str(after))) if after else None
        values["change"] = say("schedule.after_change", fire=moment) if moment else ""
    return values


def _path_left(effect: Effect, scope: Scope) -> str:
    """What the effect left, as a person reads it."""
    if isinstance(effect, PutRecord):
        return str(effect.blanks.get("name", effect.key))
    return scope.shown(effect.writes()[-1])


def deed_of(done: Sequence[Effect], scope: Scope, tool: str) -> Sentence | None:
    """What was done, shortly, for a list of deeds."""
    first = done[0]
    about = about_of(first)
    if about is not None and first.undoes is None:
        return say(f"deed.{about}", **describe(first, scope))
    return summary_of(done, scope, tool)


def ask_key(effect: Effect) -> str:
    """The sentence that asks for `effect`."""
    if isinstance(effect, PutRecord) and effect.undoes is not None:
        return "ask.record"
    if isinstance(effect, WriteFile) and effect.about is None and effect.mode != "create":
        return f"ask.write_{effect.mode}"
    return f"ask.{about_of(effect) or effect.kind}"


def about_of(effect: Effect) -> str | None:
    """What the sentences about `effect` are named after, where they are more than those of its kind."""
    if isinstance(effect, SendMessage):
        return effect.kind
    return effect.about if isinstance(effect, PutRecord | WriteFile) else None


def settle(journal: Journal, records: Records, post: Post, scope_of: Callable[[str], Scope | None]) -> int:
    """Give every intent that a crash left open its result, by looking at its target; how many there were.

    What was half made under a temporary name is cleared away.
    """
    rows = journal.unsettled()
    for row in rows:
        scope = scope_of(row.user)
        after: str | None
        if isinstance(row.effect, PutRecord):
            after = records.fingerprint(row.effect)
            happened = after != row.before
        elif isinstance(row.effect, SendMessage):
            after = row.before
            happened = post.is_there(row.before)
        else:
            hollow = scope is not None and _drop_hollow(row, scope)
            happened = scope is not None and not hollow and _happened(row, scope)
            after = _left(row.effect, scope) if happened and scope is not None else None
        if scope is not None:
            sweep_leftovers(row.effect, scope, datetime.fromisoformat(row.at))
            _drop_double(row, scope)
        if happened:
            journal.done(row.id, after, row.effect.undoes)
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


def _drop_hollow(row: JournalRow, scope: Scope) -> bool:
    """Whether only the empty folder stood that takes a name before its content comes; it is removed then.

    That is how a folder gets its name on a disk that knows no rename without replacement.
    """
    effect = row.effect
    if not isinstance(effect, MovePath | CopyPath | UnpackArchive | UntrashPath):
        return False
    made = _made(effect)
    assert made is not None
    found = _look(scope, made)
    if found is None or not found.startswith("dir:") or found == row.before:
        return False
    try:
        with scope.parent(made) as (folder, name):
            os.rmdir(name, dir_fd=folder)
    except (Refusal, OSError):
        return False
    return True


def _drop_double(row: JournalRow, scope: Scope) -> None:
    """Put the copy that a move to another disk had made into the trash, where the original still stands."""
    effect = row.effect
    if not isinstance(effect, MovePath) or row.before is None:
        return
    if _look(scope, effect.source) == row.before == _look(scope, effect.target):
        with suppress(Refusal, OSError):
            perform(TrashPath(effect.target, new_slot()), scope)


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

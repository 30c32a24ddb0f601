"""Binds effects to what they act on as it is now, and counts what they touch.

What is fixed here is what Vaglio judges, what a question shows and what alone is carried out: an effect whose
subject has another fingerprint by then is asked again or refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from metnosd import disk, packing
from metnosd.effects import (
    CopyPath,
    Effect,
    MovePath,
    PackFiles,
    PutRecord,
    RestoreFile,
    TrashPath,
    UnpackArchive,
    WriteFile,
)
from metnosd.perform import subject_fingerprint
from metnosd.records import Records
from metnosd.scope import Scope
from metnosd.sentence import Refusal, Sentence, say


@dataclass(frozen=True, slots=True)
class Fixed:
    """Effects that expect their subjects as they are; `problems` name those whose subject is out of reach.

    `files` and `bytes` count what they touch, `overwrites` the files whose content is replaced.
    """

    effects: tuple[Effect, ...]
    problems: tuple[Sentence, ...] = ()
    files: int = 0
    bytes: int = 0
    overwrites: int = 0


def fix(effects: Sequence[Effect], scope: Scope, check: disk.Check, records: Records) -> Fixed:
    """Bind `effects`, which are in the order in which they would be carried out.

    An effect that takes another one back keeps the fingerprint that the journal gave it.
    """
    fixed: list[Effect] = []
    problems: list[Sentence] = []
    files = size = overwrites = 0
    for effect in effects:
        check()
        try:
            if effect.expect is None and effect.undoes is None:
                found = now(effect, scope, check, records)
                effect = replace(effect, expect=found)
            counted, heavy = _count(effect, scope, check)
        except Refusal as refusal:
            problems.append(refusal.sentence)
            continue
        fixed.append(effect)
        files += counted
        size += heavy
        overwrites += _overwrites(effect)
    return Fixed(tuple(fixed), tuple(problems), files, size, overwrites)


def now(effect: Effect, scope: Scope, check: disk.Check, records: Records) -> str | None:
    """The fingerprint of what `effect` acts on; None where it acts on nothing that is there yet.

    Raises Refusal when its subject is gone or out of reach.
    """
    if isinstance(effect, PutRecord):
        return records.fingerprint(effect)
    try:
        found = subject_fingerprint(effect, scope, check)
    except Refusal as refusal:
        if isinstance(effect, WriteFile) and refusal.sentence.key == "scope.missing":
            return None
        raise
    if found is None and isinstance(effect, MovePath | CopyPath | TrashPath | UnpackArchive):
        raise Refusal("scope.missing", path=scope.shown((*effect.reads(), *effect.writes())[0]))
    return found


def changes(effects: Sequence[Effect], scope: Scope, records: Records) -> list[Sentence]:
    """A sentence for each of `effects` that acts on something which has changed since it was bound.

    What is gone is left to be named when it is carried out; what takes something back is not looked at, since
    the journal says what it expects.
    """
    changed = []
    for effect in effects:
        if effect.undoes is not None or effect.expect is None:
            continue
        try:
            found = now(effect, scope, lambda: None, records)
        except Refusal:
            continue
        if found is not None and found != effect.expect:
            changed.append(say("consent.changed", path=_name(effect, scope)))
    return changed


def _name(effect: Effect, scope: Scope) -> str:
    if isinstance(effect, PutRecord):
        return effect.key
    return scope.shown((*effect.reads(), *effect.writes())[0])


def _count(effect: Effect, scope: Scope, check: disk.Check) -> tuple[int, int]:
    """How many files, and how many bytes, `effect` touches."""
    if effect.undoes is not None:
        return 1, 0
    match effect:
        case MovePath(subject) | CopyPath(subject) | TrashPath(subject):
            return _weigh(scope, subject, check)
        case UnpackArchive(subject):
            return packing.survey(scope, subject, check)
        case PackFiles(sources):
            weights = [_weigh(scope, source, check) for source in sources]
            return sum(files for files, _ in weights), sum(size for _, size in weights)
        case WriteFile(_, text):
            return 1, len(text.encode("utf-8", "surrogateescape"))
        case RestoreFile():
            return 1, 0
    return 0, 0


def _weigh(scope: Scope, path: str, check: disk.Check) -> tuple[int, int]:
    with scope.parent(path) as (folder, name):
        return disk.weigh(folder, name, check)


def _overwrites(effect: Effect) -> int:
    replaces = isinstance(effect, WriteFile) and effect.mode == "replace" and effect.expect is not None
    return int(replaces)

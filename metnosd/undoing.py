"""Undo and redo: the effects that take back what was done, and the ways out where a person has gone on since."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from metnosd.deeds import DONE, LISTED, Deed, deeds_of, fitting, why_lasting
from metnosd.disk import new_slot
from metnosd.effects import (
    CopyPath,
    Effect,
    MakeDir,
    MovePath,
    PutRecord,
    RemoveDir,
    RestoreFile,
    TrashPath,
    UntrashPath,
)
from metnosd.executor import Effects
from metnosd.filenames import numbered
from metnosd.journal import Journal
from metnosd.lexicon.lexicon import Lexicon
from metnosd.perform import fingerprint, subject_fingerprint
from metnosd.records import Records
from metnosd.scope import Scope, is_inside
from metnosd.sentence import Refusal, Sentence, say

SHOWN = 5
"""How many changed things a question names."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be taken back (`way` undo) or done again (redo), for whom.

    `turns` names turns; else `query` describes one; else the newest `count` are meant, or, where no number
    was said, the newest one.
    """

    way: str
    user: str
    lang: str
    now: datetime
    count: int | None = None
    query: str | None = None
    turns: tuple[str, ...] = ()


@dataclass
class _Ways:
    """The effects of a plain undo, and of each answer where something was changed since."""

    plain: list[Effect] = field(default_factory=list)
    copy: list[Effect] = field(default_factory=list)
    over: list[Effect] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    problems: list[Sentence] = field(default_factory=list)
    settles: list[int] = field(default_factory=list)
    copies: bool = False

    def same(self, effect: Effect) -> None:
        """An effect that every answer has."""
        for effects in (self.plain, self.copy, self.over):
            effects.append(effect)

    def differs(self, path: str, row: int, copy: Sequence[Effect], over: Sequence[Effect]) -> None:
        """Something at `path` that a person changed: left alone, put beside it, or replaced."""
        self.changed.append(path)
        self.settles.append(row)
        self.copy += copy
        self.over += over
        self.copies = self.copies or bool(copy)


class Undoing:
    """Finds what a wish means and how it is done now."""

    def __init__(self, journal: Journal, records: Records, lexicon: Lexicon) -> None:
        self._journal = journal
        self._records = records
        self._lexicon = lexicon

    def effects(self, wish: Wish, scope: Scope, summary: Callable[[Deed], Sentence]) -> Effects:
        """What fulfils `wish`. Raises Refusal where there is nothing that it could mean.

        `summary` says in a sentence what a deed was.
        """
        deeds = self._meant(wish)
        problems = [why_lasting(row) for deed in deeds for row in deed.lasting()]
        inverses = [effect for deed in deeds for effect in deed.inverses()]
        before = self._before(wish, deeds[0]) if not inverses else None
        if before is not None:
            # Nothing takes back what was done last, which must not bar the way to what was done before it.
            deeds, inverses = [before], before.inverses()
        ways = self._ways(inverses, scope)
        problems += ways.problems
        if ways.changed:
            names = ", ".join(ways.changed[:SHOWN]) + (" …" if len(ways.changed) > SHOWN else "")
            ask = say("undo.ask_changed", count=len(ways.changed), path=names)
            choices = {"copy": tuple(ways.copy)} if ways.copies else {}
            choices |= {"keep": tuple(ways.plain), "replace": tuple(ways.over)}
            first = next(iter(choices.values()))
            return Effects(first, tuple(problems), ask, choices, tuple(ways.settles))
        again = say("undo.again", what=summary(deeds[0])) if self._goes_on(wish, deeds[0]) else None
        if before is not None:
            again = say("undo.before", what=summary(before))
        return Effects(tuple(ways.plain), tuple(problems), again, settles=tuple(ways.settles))

    def deeds(self, user: str) -> list[Deed]:
        """What an undo of `user` can take back, newest first."""
        return deeds_of(self._journal, user, DONE, LISTED)

    def _meant(self, wish: Wish) -> list[Deed]:
        kinds = DONE if wish.way == "undo" else ("undo",)
        if wish.turns:
            every = [deed for state in ("done", "kept") for deed in self._all(wish, kinds, state)]
            found = [deed for deed in every if deed.turn in wish.turns]
        elif wish.query:
            found = self._described(wish, kinds)
        else:
            found = deeds_of(self._journal, wish.user, kinds, wish.count or 1)
            if wish.way == "redo":
                # An earlier redo does not stand in the way of the next one; anything else that was done does.
                newest = deeds_of(self._journal, wish.user, ("act", "undo"), wish.count or 1)
                found = [a for a, b in zip(found, newest, strict=False) if a.turn == b.turn]
            elif not found:
                # What was kept because it was changed by hand may have been changed back since.
                found = deeds_of(self._journal, wish.user, kinds, 1, "kept")
        if not found:
            raise Refusal(f"{wish.way}.nothing")
        return found

    def _all(self, wish: Wish, kinds: Sequence[str], state: str) -> list[Deed]:
        return deeds_of(self._journal, wish.user, kinds, LISTED, state)

    def _described(self, wish: Wish, kinds: Sequence[str]) -> list[Deed]:
        assert wish.query is not None
        for state in ("done", "kept"):
            deeds = self._all(wish, kinds, state)
            found = fitting(deeds, wish.query, self._lexicon, wish.lang, wish.now)
            if wish.count is not None and found:
                every = [deed for deed in deeds if deed.executors & found[0].executors]
                found = every[: wish.count]
            if found:
                return found
        raise Refusal("undo.no_such", query=wish.query)

    def _before(self, wish: Wish, lasting: Deed) -> Deed | None:
        """The newest deed before `lasting` that can be taken back, for a bare "undo"."""
        if wish.way != "undo" or wish.count is not None or wish.query or wish.turns:
            return None
        older = (deed for deed in self.deeds(wish.user) if deed.at <= lasting.at and deed.turn != lasting.turn)
        return next((deed for deed in older if deed.inverses()), None)

    def _goes_on(self, wish: Wish, deed: Deed) -> bool:
        """Whether a bare "undo" would go on to a turn before the one that was just taken back."""
        if wish.way != "undo" or wish.count is not None or wish.query or wish.turns or deed.state == "kept":
            return False
        newest = deeds_of(self._journal, wish.user, ("act", "redo", "undo"), 1)
        if not newest or newest[0].kind != "undo":
            return False
        undone = {row.effect.undoes for row in newest[0].rows}
        return deed.turn not in {row.turn for number in undone if number for row in self._journal.rows([number])}

    def _ways(self, inverses: Sequence[Effect], scope: Scope) -> _Ways:
        ways = _Ways()
        touched: set[str] = set()
        for effect in inverses:
            assert effect.undoes is not None
            paths = set(effect.writes())
            apart = not any(is_inside(a, b) or is_inside(b, a) for a in paths for b in touched)
            if apart and not isinstance(effect, MakeDir | RemoveDir):
                self._one(effect, effect.undoes, scope, ways)
            else:
                # It builds on what an effect before it will have made; carrying it out looks at that.
                ways.same(effect)
            touched |= paths
        return ways

    def _one(self, effect: Effect, row: int, scope: Scope, ways: _Ways) -> None:
        try:
            found = self._found(effect, scope)
            taken = _taken(effect, scope)
        except Refusal as refusal:
            if isinstance(effect, RestoreFile) and refusal.sentence.key == "scope.missing":
                found, taken = None, False
            else:
                ways.problems.append(refusal.sentence)
                ways.settles.append(row)
                return
        shown = _shown(effect, scope)
        if found is None and isinstance(effect, RestoreFile):
            ways.differs(shown, row, [replace(effect, expect=None)], [replace(effect, expect=None)])
        elif found is None:
            ways.problems.append(say("scope.missing", path=shown))
            ways.settles.append(row)
        elif taken:
            ways.differs(scope.shown(effect.writes()[-1]), row, *_around(effect, scope))
        elif found != effect.expect:
            ways.differs(shown, row, *_beside(effect, found, scope))
        else:
            ways.same(effect)

    def _found(self, effect: Effect, scope: Scope) -> str | None:
        if isinstance(effect, PutRecord):
            return self._records.fingerprint(effect)
        return subject_fingerprint(effect, scope)


def _shown(effect: Effect, scope: Scope) -> str:
    if isinstance(effect, PutRecord):
        return str(effect.blanks.get("name", effect.key))
    return scope.shown(effect.writes()[0])


def _taken(effect: Effect, scope: Scope) -> bool:
    """Whether something stands where the effect would bring something back."""
    match effect:
        case MovePath(_, target):
            return scope.lstat(target) is not None
        case UntrashPath(path):
            return scope.lstat(path) is not None
    return False


def _around(effect: Effect, scope: Scope) -> tuple[list[Effect], list[Effect]]:
    """What brings something back beside that which has taken its place, and what does in its place."""
    match effect:
        case MovePath(_, target):
            away = TrashPath(target, new_slot(), expect=fingerprint(scope, target))
            return [replace(effect, target=_free(scope, target))], [away, effect]
        case UntrashPath(path):
            away = TrashPath(path, new_slot(), expect=fingerprint(scope, path))
            return [replace(effect, path=_free(scope, path))], [away, effect]
    return [], []


def _beside(effect: Effect, found: str, scope: Scope) -> tuple[list[Effect], list[Effect]]:
    """What restores the old state beside a changed thing, and what does in its place."""
    forced = replace(effect, expect=found)
    match effect:
        case MovePath(source, target):
            return [CopyPath(source, target, expect=found, undoes=effect.undoes)], [forced]
        case RestoreFile(path, blob):
            return [RestoreFile(_free(scope, path), blob, undoes=effect.undoes)], [forced]
    return [], [forced]


def _free(scope: Scope, path: str) -> str:
    """`path` with the first number that nothing bears: `a (1).txt`."""
    folder, name = os.path.split(path)
    number = 1
    while scope.lstat(candidate := os.path.join(folder, numbered(name, number, False))) is not None:
        number += 1
    return candidate

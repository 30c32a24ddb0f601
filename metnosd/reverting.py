"""What undo and redo would do: the inverses of the newest turns, as data."""

from __future__ import annotations

from metnosd.effects import Effect
from metnosd.journal import Journal
from metnosd.sentence import Sentence, say

DONE = ("act", "redo")
"""The kinds of turns that an undo takes back."""


def inverses_of(journal: Journal, user: str, way: str, count: int) -> tuple[list[Effect], list[Sentence]]:
    """The effects that take back the newest `count` turns of `user`, and a sentence for each that stays.

    `way` is `undo`, or `redo`, which takes back undos as long as nothing was done after them.
    """
    kinds = DONE if way == "undo" else ("undo",)
    state = "done"
    turns = journal.newest_turns(user, kinds, count)
    if way == "undo" and not turns:
        # What was kept because it was changed by hand may have been changed back since.
        state = "kept"
        turns = journal.newest_turns(user, kinds, 1, state)
    if way == "redo":
        # An earlier redo does not stand in the way of the next one; anything else that was done does.
        newest = journal.newest_turns(user, ("act", "undo"), count)
        turns = [turn for turn, latest in zip(turns, newest, strict=False) if turn == latest]
    effects: list[Effect] = []
    problems: list[Sentence] = []
    for turn in turns:
        found, lasting = journal.inverses(turn, state)
        effects += found
        problems += [say("undo.lasting", executor=row.executor) for row in lasting if row.effect.kind != "mkdir"]
    return effects, problems

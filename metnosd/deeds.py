"""What was done and can be taken back: one list for "what can you undo?", for undo itself and for the history."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from metnosd.effects import Effect, SendMessage
from metnosd.journal import Journal, JournalRow
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.signals import read_deeds
from metnosd.lexicon.when import read_range, read_when
from metnosd.people import person_shown
from metnosd.sentence import Sentence, say

LISTED = 200
"""How far back deeds are looked for by their words."""

DONE = ("act", "redo")
"""The kinds of turns that an undo takes back."""

_SHORTEST_WORD = 3


@dataclass(frozen=True, slots=True)
class Deed:
    """What one turn did and nothing has taken back; `text` is what was asked for, `state` done or kept."""

    turn: str
    kind: str
    at: datetime
    text: str
    rows: tuple[JournalRow, ...]
    state: str = "done"

    def inverses(self) -> list[Effect]:
        """What takes it back, last effect first."""
        return [replace(r.inverse, expect=r.after, undoes=r.id) for r in reversed(self.rows) if r.inverse]

    def lasting(self) -> list[JournalRow]:
        """The rows that nothing takes back. A folder that was to be made and stood there is none."""
        return [row for row in self.rows if row.inverse is None and row.effect.kind != "mkdir"]

    @property
    def executors(self) -> frozenset[str]:
        """The executors that did it."""
        return frozenset(row.executor for row in self.rows)


def deeds_of(journal: Journal, user: str, kinds: Sequence[str], count: int, state: str = "done") -> list[Deed]:
    """The newest `count` deeds of `user`, newest first; `state` kept: those an undo has given up."""
    found = []
    for turn in journal.newest_turns(user, kinds, count, state):
        rows = tuple(row for row in journal.of_turn(turn["id"]) if row.state == state and row.undone_by is None)
        at = datetime.fromisoformat(turn["received_at"])
        found.append(Deed(turn["id"], turn["kind"], at, turn["text"], rows, state))
    return found


def fitting(deeds: Sequence[Deed], query: str, lexicon: Lexicon, lang: str, now: datetime) -> list[Deed]:
    """Those of `deeds` that `query` means, by time, by what was done, and by names; none where it says nothing.

    "the move" is the kind of deed, "yesterday evening" the time, "the report" a word of the request or a
    file's name. What names no time means the newest that fits.
    """
    languages = (lexicon.language(lang), *(item for item in lexicon.languages if item.code != lang))
    when = read_when(query, languages, now, now.tzinfo) if now.tzinfo else None
    span = read_range(" ".join(query[a:b] for a, b in when.spans), lexicon, now) if when and when.spans else None
    rest = when.rest if when and span else query
    tools, words = read_deeds(rest, lexicon)
    words = [word for word in words if len(word) >= _SHORTEST_WORD]
    if span is None and not tools and not words:
        return []
    found = list(deeds)
    if span is not None:
        found = [deed for deed in found if deed.at in span]
    if tools:
        found = [deed for deed in found if deed.executors & tools]
    if words:
        # Whoever names something means that: what fits but for the name is not it.
        found = [deed for deed in found if _says(deed, words)]
    return found if span is not None else found[:1]


def _says(deed: Deed, words: Sequence[str]) -> bool:
    paths = [path for row in deed.rows for path in (*row.effect.reads(), *row.effect.writes())]
    text = " ".join([deed.text, *(os.path.basename(path) for path in paths)]).casefold()
    return any(re.search(rf"(?<!\w){re.escape(word.casefold())}", text) for word in words)


def why_lasting(row: JournalRow) -> Sentence:
    """Why the effect `row` cannot be taken back, and what can be done in its place."""
    if isinstance(row.effect, SendMessage):
        return say("undo.lasting_send", name=person_shown(row.effect.user))
    return say("undo.lasting", executor=row.executor)

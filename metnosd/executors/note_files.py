"""The notes of a person: Markdown files in one folder, and which of them a query means."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from metnosd.entries import Entry
from metnosd.executor import Run
from metnosd.executors.content import read_text
from metnosd.executors.task_lists import MARKDOWN, files_in, wording_of
from metnosd.filenames import split_name
from metnosd.scope import Item, instant_of, is_inside
from metnosd.sentence import Question, Refusal, Sentence, say
from metnosd.wording import PREFIX, Wording, folded

NOTE_ENDINGS = (*MARKDOWN, ".txt")

SHOWN = 200
"""How many characters of a note are shown among others."""

SHOWN_ALONE = 1000
"""How many characters of a note are shown where it is the only one."""

KEPT = 4000
"""How many characters of a note its entry has."""

_HEADING = re.compile(r"#{1,6}[ \t]+(.*?)[ \t#]*")
_FRONT = re.compile(r"\ufeff?---[ \t]*\r?\n.*?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Note:
    """A note: its file, the title in it (else the file's name), the text below, and its time."""

    path: str
    name: str
    title: str
    body: str
    modified: datetime


def title_and_body(text: str, name: str) -> tuple[str, str]:
    """The title and the rest of a note's `text`; without a heading at its beginning the title is `name`."""
    front = _FRONT.match(text)
    rest = text[front.end() if front else 0 :].lstrip("\ufeff \t\r\n")
    first, _, below = rest.partition("\n")
    heading = _HEADING.fullmatch(first.rstrip("\r"))
    if heading is not None and heading[1]:
        return heading[1], below.strip()
    return name, rest.strip()


def read_notes(run: Run, problems: list[Sentence]) -> list[Note]:
    """The notes of a user, the newest first; one that cannot be read is named in `problems`.

    Raises Refusal when their folder is out of the user's reach.
    """
    lists = run.facts["lists_dir"]
    files = files_in(run, run.facts["notes_dir"], recursive=True, endings=NOTE_ENDINGS)
    notes = []
    for item in sorted(files, key=lambda item: (-item.modified_ns, item.path)):
        run.check()
        if is_inside(item.path, lists):
            continue
        try:
            notes.append(_note(run, item))
        except Refusal as refusal:
            problems.append(refusal.sentence)
    return notes


def _note(run: Run, item: Item) -> Note:
    text, _ = read_text(run.scope, item.path, run.limits.max_read_bytes)
    name = split_name(item.name)[0]
    return Note(item.path, name, *title_and_body(text, name), instant_of(item.modified_ns, run.zone))


class NoteSearch:
    """Looks among notes for the words of a query, without regard to case and accents."""

    def __init__(self, notes: list[Note], wording: Wording) -> None:
        self._notes = notes
        self._wording = wording

    def best(self, query: str) -> list[Note]:
        """The notes that `query` names best: by their whole title, else by words of it, else by words in them."""
        wanted = self._wording.content(query)
        whole = folded(" ".join(query.split()))
        ways: tuple[Callable[[Note], bool], ...] = (
            lambda note: whole in (folded(note.title), folded(note.name)),
            lambda note: self._holds(f"{note.title}\n{note.name}", wanted) == len(wanted),
            lambda note: self._all_of(note, wanted) == len(wanted),
        )
        for fits in ways:
            found = [note for note in self._notes if fits(note)]
            if found:
                return found
        return []

    def fitting(self, query: str) -> list[Note]:
        """The notes that hold every word of `query`; where none does, those that hold most of them."""
        wanted = self._wording.content(query)
        counts = [(self._all_of(note, wanted), note) for note in self._notes]
        most = max((count for count, _ in counts), default=0)
        if 2 * most < len(wanted) or most == 0:
            return []
        return [note for count, note in counts if count == most]

    def _all_of(self, note: Note, wanted: list[str]) -> int:
        return self._holds(f"{note.title}\n{note.name}\n{note.body}", wanted)

    def _holds(self, text: str, wanted: list[str]) -> int:
        """How many of the words `wanted` are in `text`, in another number or as the beginning of a longer one."""
        words = frozenset(_WORD.findall(folded(text)))
        stems = frozenset(map(self._wording.stem, words))
        return sum(
            self._wording.stem(word) in stems
            or (len(word) >= PREFIX and any(other.startswith(word) for other in words))
            or word in words
            for word in wanted
        )


def the_note(run: Run, query: str) -> Note:
    """The one note that `query` means. Raises Refusal for none, Question where several fit equally."""
    problems: list[Sentence] = []
    found = NoteSearch(read_notes(run, problems), wording_of(run)).best(query)
    if not found:
        raise Refusal("notes.no_such", query=query)
    if len(found) > 1:
        titles = [note.title for note in found]
        names = [note.title if titles.count(note.title) == 1 else f"{note.title} ({note.name})" for note in found]
        raise Question("notes.which", tuple(names), query=query)
    return found[0]


def entry_of(note: Note, query: str | None, *, alone: bool) -> Entry:
    """A note as an entry of kind `notes`; what is shown of it is around the first word of `query`."""
    fields = {"path": note.path, "title": note.title, "text": note.body[:KEPT], "modified": note.modified}
    excerpt = _excerpt(note.body, query, SHOWN_ALONE if alone else SHOWN)
    date = note.modified.strftime("%Y-%m-%d %H:%M")
    return Entry("notes", fields, say("notes.one", title=note.title, at=date, text=excerpt))


def _excerpt(body: str, query: str | None, most: int) -> str:
    text = " ".join(body.split())
    if len(text) <= most:
        return text
    words = _WORD.findall(query.casefold()) if query else []
    places = [text.casefold().find(word) for word in words if len(word) >= PREFIX]
    at = min((place for place in places if place >= 0), default=0)
    start = max(0, min(at - most // 4, len(text) - most))
    return ("…" if start else "") + text[start : start + most].strip() + ("…" if start + most < len(text) else "")

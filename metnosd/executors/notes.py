"""Notes: Markdown files, one each, that a person can open and edit too."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from metnosd.arguments import Arg
from metnosd.disk import new_slot
from metnosd.effects import TrashPath, WriteFile
from metnosd.executor import Effects, Found, Run, executor
from metnosd.executors.content import read_bytes
from metnosd.executors.note_files import Note, NoteSearch, entry_of, read_notes, the_note
from metnosd.executors.targets import Targets, told
from metnosd.executors.task_lists import safe_name, wording_of
from metnosd.sentence import Question, Refusal, Sentence, say
from metnosd.wording import Wording

Mode = Literal["append", "replace"]

TITLE_WORDS = 6
"""How many first words of a note are its title where it was given none."""

TITLE_LENGTH = 60
"""How many characters such a title has at most."""

NAMED = 5
"""How many notes a question names."""

_CLAUSE_END = re.compile(r"[,;:.!?](?=\s)")
_HEAD = re.compile(r"\A(?:\ufeff?---[ \t]*\r?\n.*?\n---[ \t]*\r?\n)?\s*#{1,6}[ \t][^\n]*(?:\n|\Z)", re.DOTALL)


@executor(takes=(None, "texts"), gives="notes", capability="notes:write", effect=True, reversible=True)
def create_notes(
    run: Run,
    *,
    text: Annotated[str | None, Arg("what to note", "words")] = None,
    title: Annotated[str | None, Arg("title of the note", "words")] = None,
) -> Effects:
    """Write down a note."""
    body = _text(run, text)
    named = " ".join(title.split()) if title else ""
    heading = named or _first_words(body, wording_of(run))
    name = safe_name(heading) or safe_name(run.now.astimezone(run.zone).strftime("%Y-%m-%d %H.%M"))
    targets = Targets(run.scope)
    folder: str = run.facts["notes_dir"]
    path = targets.free(folder, f"{name}.md")
    write = WriteFile(
        path, f"# {heading or name}\n\n{body}\n", "create", about="note", blanks={"title": heading or name}
    )
    return Effects((*targets.folders(folder), write))


def _text(run: Run, text: str | None) -> str:
    """What to note: the text given, else that of the entries. What is no Unicode is replaced."""
    if text is None:
        found = [entry.fields.get("text") for entry in run.entries]
        text = "\n\n".join(item.strip() for item in found if isinstance(item, str))
    text = text.strip().encode("utf-8", "replace").decode()
    if not text:
        raise Refusal("notes.no_text")
    return text


def _first_words(text: str, wording: Wording) -> str:
    """The beginning of `text` as a title: its first clause, not longer than some words."""
    line = text.split("\n", 1)[0].lstrip("#-*> \t")
    words = _CLAUSE_END.split(line, maxsplit=1)[0].split()[:TITLE_WORDS]
    while len(words) > 1 and (len(" ".join(words)) > TITLE_LENGTH or not wording.says_something(words[-1])):
        words.pop()
    title = " ".join(words)[:TITLE_LENGTH].strip(" .,;:!?")
    return title[:1].upper() + title[1:]


@executor(takes=None, gives="notes", capability="notes:read")
def find_notes(run: Run, *, query: Annotated[str | None, Arg("words in the note", "words")] = None) -> Found:
    """Find notes by words in them, or show all of them, the newest first."""
    problems: list[Sentence] = []
    notes = read_notes(run, problems)
    if not notes:
        return Found((), told(problems), say("notes.none"))
    if query:
        notes = NoteSearch(notes, wording_of(run)).fitting(query)
        if not notes:
            return Found((), told(problems), say("notes.none_about", query=query))
    entries = tuple(entry_of(note, query, alone=len(notes) == 1) for note in notes)
    return Found(entries, told(problems))


@executor(takes=None, gives="notes", capability="notes:write", effect=True, reversible=True)
def change_notes(
    run: Run,
    *,
    query: Annotated[str, Arg("which note", "words")],
    text: Annotated[str, Arg("what to write into it", "words")],
    mode: Annotated[Mode, Arg("add at the end, or replace what it says")] = "append",
) -> Effects:
    """Add something to a note, or replace what it says."""
    note = the_note(run, query)
    new = _text(run, text)
    old = _content(run, note)
    end = "\r\n" if "\r\n" in old else "\n"
    new = new.replace("\n", end) + end
    blanks = {"title": note.title, "text": " ".join(new.split())}
    if mode == "append":
        gap = "" if not old or old.endswith("\n") else end
        return Effects((WriteFile(note.path, gap + new, "append", about="note_more", blanks=blanks),))
    head = _HEAD.match(old)
    kept = head[0].rstrip("\r\n") + 2 * end if head else ""
    return Effects((WriteFile(note.path, kept + new, "replace", about="note_new_text", blanks=blanks),))


def _content(run: Run, note: Note) -> str:
    """All that the file of a note holds. Raises Refusal where that is too long, or in no encoding to add to."""
    data = read_bytes(run.scope, note.path, run.limits.max_read_bytes + 1)
    if len(data) > run.limits.max_read_bytes:
        raise Refusal("notes.too_long", title=note.title)
    if b"\0" in data:
        raise Refusal("read.binary", path=run.scope.shown(note.path))
    return data.decode("utf-8", "surrogateescape")


@executor(takes=(None, "notes"), gives="notes", capability="notes:delete", effect=True, reversible=True)
def delete_notes(run: Run, *, query: Annotated[str | None, Arg("which note", "words")] = None) -> Effects:
    """Delete a note."""
    if query:
        return Effects((TrashPath(the_note(run, query).path, new_slot()),))
    if not run.has_input:
        titles = tuple(note.title for note in read_notes(run, []))
        raise Question("notes.which_one", titles[:NAMED]) if titles else Refusal("notes.none")
    paths = dict.fromkeys(str(entry.fields["path"]) for entry in run.entries if "path" in entry.fields)
    return Effects(tuple(TrashPath(path, new_slot()) for path in paths))


NOTE_EXECUTORS = (create_notes, find_notes, change_notes, delete_notes)
"""In the order in which they are listed and described to the model."""

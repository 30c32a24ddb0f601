"""The lists that a person keeps: one Markdown file each in one folder, found by what they are called."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from metnosd.executor import Run
from metnosd.executors.content import read_bytes
from metnosd.filenames import split_name
from metnosd.lexicon.lexicon import Lexicon
from metnosd.markdown_lists import CheckList, read_list
from metnosd.scope import Item as File
from metnosd.sentence import Question, Refusal, Sentence, say
from metnosd.wording import Wording, folded

MARKDOWN = (".md", ".markdown")

LONGEST_NAME = 80
"""How many characters of a title become the name of its file."""

_UNSAFE = re.compile(r'[\\/:*?"<>|\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+')


@dataclass(frozen=True, slots=True)
class TaskList:
    """A list: what it is called, its file, and what that holds."""

    name: str
    path: str
    content: CheckList


def wording_of(run: Run) -> Wording:
    """What takes names apart in the language of `run`."""
    return Wording(run.facts["lexicon"], run.lang)


def files_in(run: Run, folder: str, *, recursive: bool = False, endings: tuple[str, ...] = MARKDOWN) -> list[File]:
    """The regular files in `folder` whose names have one of `endings`; none where there is no such folder.

    Raises Refusal when the folder is out of the user's reach.
    """
    try:
        found = run.scope.scan(folder, recursive=recursive, limit=run.limits.max_files, check=run.check)
        return [item for item in found if not item.is_dir and split_name(item.name)[1].lower() in endings]
    except Refusal as refusal:
        if refusal.sentence.key == "scope.missing":
            return []
        raise


def safe_name(title: str) -> str:
    """`title` as the name of a file without its extension; empty where nothing of it can be one."""
    name = " ".join(_UNSAFE.sub(" ", title.encode("utf-8", "replace").decode()).split()).strip(" .")
    if len(name) > LONGEST_NAME:
        name = name[:LONGEST_NAME].rsplit(" ", 1)[0].strip(" .")
    while len(name.encode()) > 2 * LONGEST_NAME:
        name = name[:-1]
    return name


class Lists:
    """The lists of one user, for one run. Raises Refusal when their folder is out of reach."""

    def __init__(self, run: Run, wording: Wording) -> None:
        self.folder: str = run.facts["lists_dir"]
        self._run = run
        self._wording = wording
        self._files = {split_name(item.name)[0]: item.path for item in files_in(run, self.folder)}

    @property
    def names(self) -> tuple[str, ...]:
        """What the lists are called, in alphabetic order."""
        return tuple(sorted(self._files, key=folded))

    def read(self, name: str) -> TaskList:
        """The list `name`; raises Refusal when it cannot be read, is no text, or is too long."""
        path, scope, most = self._files[name], self._run.scope, self._run.limits.max_read_bytes
        data = read_bytes(scope, path, most + 1)
        if len(data) > most:
            raise Refusal("tasks.too_long", list=name)
        if b"\0" in data:
            raise Refusal("read.binary", path=scope.shown(path))
        # Bytes that are no UTF-8 come back as they are when the list is written.
        return TaskList(name, path, read_list(data.decode("utf-8", "surrogateescape")))

    def read_all(self, problems: list[Sentence]) -> list[TaskList]:
        """Every list; one that cannot be read is named in `problems`."""
        found = []
        for name in self.names:
            try:
                found.append(self.read(name))
            except Refusal as refusal:
                problems.append(refusal.sentence)
        return found

    def named(self, said: str | None) -> str | None:
        """The name of the list that was called `said`; None where no list was named, or there is none such.

        Raises Question where several fit equally.
        """
        if said is None or not self.is_name(said):
            return None
        if said in self._files:
            return said
        for fits in (self._same, self._within):
            found = [name for name in self.names if fits(said, name)]
            if len(found) > 1:
                raise Question("tasks.which_list", tuple(found), list=said)
            if found:
                return found[0]
        return None

    def is_name(self, said: str) -> bool:
        """Whether `said` tells one list from others: "the list" does not."""
        return said in self._files or bool(self._wording.list_key(said))

    def usual(self) -> str | None:
        """The list that is meant where none is named; None where that does not exist yet."""
        return self.named(self.usual_title()) or (self.names[0] if len(self.names) == 1 else None)

    def is_usual(self, said: str) -> bool:
        """Whether `said` is a name of the usual list, in any language."""
        return self._wording.list_key(said) in self._usual_keys

    def usual_title(self) -> str:
        """What the list is called that is made where none is named."""
        lexicon: Lexicon = self._run.facts["lexicon"]
        return lexicon.say(say("tasks.default_list"), self._run.lang)

    def existing(self, said: str | None) -> str | None:
        """The name of the list called `said`, None where none was named. Raises Refusal where there is none such."""
        if not self._files:
            raise Refusal("tasks.no_lists")
        name = self.named(said)
        if name is None and said is not None and self.is_name(said):
            raise Refusal("tasks.no_list", list=said, lists=list(self.names))
        return name

    def _same(self, said: str, name: str) -> bool:
        key, other = self._wording.list_key(said), self._wording.list_key(name)
        plain, joined = _joined(said), _joined(name)
        return key == other or plain == joined or (self.is_usual(said) and self.is_usual(name))

    def _within(self, said: str, name: str) -> bool:
        return self._wording.list_key(said) < self._wording.list_key(name)

    @cached_property
    def _usual_keys(self) -> frozenset[frozenset[str]]:
        """The names of the usual list in every language: who speaks two has one shopping list."""
        lexicon: Lexicon = self._run.facts["lexicon"]
        keys = set()
        for language in lexicon.languages:
            titles = lexicon.say(say("tasks.usual_names"), language.code).split(",")
            keys |= {Wording(lexicon, language.code).list_key(title) for title in titles}
            keys |= {self._wording.list_key(title) for title in titles}
        return frozenset(keys - {frozenset()})


def _joined(name: str) -> str:
    return "".join(re.findall(r"\w+", folded(name)))

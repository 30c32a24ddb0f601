"""What executors that change files have in common: which things they act on, and free names to put them."""

from __future__ import annotations

import os

from metnosd.effects import MakeDir
from metnosd.executor import Run
from metnosd.filenames import numbered
from metnosd.scope import Item, Kind, Scope, is_inside, kind_of
from metnosd.sentence import Refusal, Sentence, say

MAX_PROBLEMS = 20


def told(problems: list[Sentence]) -> tuple[Sentence, ...]:
    """The problems that a person is told: the first ones, and how many more there are."""
    if len(problems) <= MAX_PROBLEMS:
        return tuple(problems)
    return (*problems[:MAX_PROBLEMS], say("problems.more", count=len(problems) - MAX_PROBLEMS))


def sources(run: Run, problems: list[Sentence]) -> list[Item]:
    """The regular files and folders that the entries of `run` name, as they are now, each once.

    What lies inside a folder that is named too goes with it. What is gone or out of reach becomes a problem.
    """
    found: dict[str, Item] = {}
    for entry in run.entries:
        run.check()
        path = entry.fields.get("path")
        if not isinstance(path, str) or path in found:
            continue
        try:
            if path in run.scope.roots:
                raise Refusal("scope.root", path=run.scope.shown(path))
            found[path] = run.scope.item(path)
        except Refusal as refusal:
            problems.append(refusal.sentence)
    folders = {path for path, item in found.items() if item.is_dir}
    return [item for path, item in found.items() if not _is_below(path, folders)]


def _is_below(path: str, folders: set[str]) -> bool:
    above = os.path.dirname(path)
    while above not in ("/", ""):
        if above in folders:
            return True
        above = os.path.dirname(above)
    return False


class Targets:
    """Hands out names that nothing has: not on the disk, and not to another effect of the same step."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def kind(self, path: str) -> Kind | None:
        """What is at `path`, None if nothing; raises Refusal when it is out of reach."""
        if path in self._scope.roots:
            return "dir"
        try:
            status = self._scope.lstat(path)
        except Refusal as refusal:
            if refusal.sentence.key == "scope.missing":
                return None
            raise
        return None if status is None else kind_of(status.st_mode)

    def free(self, folder: str, name: str, is_dir: bool = False) -> str:
        """A path in `folder` for `name`: that, or the first numbered name (`a (1).txt`) that is free."""
        wanted = os.path.join(folder, name)
        number = self._next.get(wanted, 0)
        while True:
            path = os.path.join(folder, numbered(name, number, is_dir))
            number += 1
            if path not in self._taken and self.kind(path) is None:
                break
        self._next[wanted] = number
        self._taken.add(path)
        return path

    def folders(self, path: str) -> list[MakeDir]:
        """The effects that make the folder `path` and what is missing above it; none if it is there."""
        missing: list[MakeDir] = []
        while True:
            kind = self.kind(path)
            if kind == "dir" or path in self._taken:
                break
            if kind is not None:
                raise Refusal("scope.not_dir", path=self._scope.shown(path))
            self._taken.add(path)
            missing.append(MakeDir(path))
            path = os.path.dirname(path)
        return missing[::-1]


def common_folder(items: list[Item]) -> str:
    """The folder that holds all of `items`, which are not none."""
    return os.path.commonpath([os.path.dirname(item.path) for item in items])


def is_into_itself(item: Item, folder: str) -> bool:
    """Whether `folder` is the folder `item` or lies in it."""
    return item.is_dir and is_inside(folder, item.path)

"""How a name that somebody said finds a file: its case, its accents, its language, its place in the tree.

Only names are looked at here. What may be reached at all is `metnosd.scope`'s to say.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from metnosd.entries import printable
from metnosd.sentence import Question, Refusal
from metnosd.userdirs import read_user_dirs

MAX_SEARCHED = 200_000
MAX_DEPTH = 8
MAX_CHOICES = 20

_EXACT, _CASE, _LOCALISED = 0, 1, 2
Match = tuple[int, str]
"""How far a name is from what was said (0 is exact), and the path that bears it."""


def name_key(name: str) -> str:
    """What two names have in common when they differ in case, composition or blanks at their ends only.

    Canonical caseless matching, Unicode Standard 3.13, D145.
    """
    decomposed = unicodedata.normalize("NFD", name.strip())
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", decomposed.casefold()))


class Finder:
    """Finds things by name below `roots`.

    `admit` gives a path without links, or raises Refusal; `shown` is how people read it.
    """

    def __init__(
        self,
        roots: Sequence[str],
        home: str | None,
        folder_words: Mapping[str, str],
        admit: Callable[[str], str],
        shown: Callable[[str], str],
    ) -> None:
        self._roots = roots
        self._home = home
        self._words = {name_key(word): key for word, key in folder_words.items()}
        self._admit = admit
        self._shown = shown

    def find(self, said: str, base: str | None, parts: Sequence[str], want: str) -> str:
        """The one path that `parts` below `base` (None: any root) name; raises Question or Refusal."""
        return self._find(said, base, parts, want, lambda path: True)

    def place(self, said: str, base: str | None, parts: Sequence[str], want: str) -> str:
        """The existing path that `parts` name, or where it is to be made; raises Question or Refusal."""
        try:
            return self._find(said, base, parts, want, os.path.isdir)
        except Refusal as refusal:
            if refusal.sentence.key != "scope.missing":
                raise
        for count in range(len(parts) - 1, 0, -1):
            try:
                folder = self._find(said, base, parts[:count], "dir", os.path.isdir)
            except Refusal as refusal:
                if refusal.sentence.key != "scope.missing":
                    raise
                continue
            return os.path.join(folder, *parts[count:])
        return os.path.join(base or self._roots[0], *parts)

    def _find(self, said: str, base: str | None, parts: Sequence[str], want: str, deep: Callable[[str], bool]) -> str:
        if not parts:
            return self._choose(said, [(_EXACT, base or self._roots[0])])
        refused: list[Refusal] = []
        found = list(self._near(base, parts, refused))
        fitting = [match for match in found if _is_wanted(match[1], want)]
        if not fitting and base is None:
            fitting = self._search(parts, want, deep)
        if fitting:
            return self._choose(said, fitting)
        if refused:
            raise refused[0]
        if found:
            path = found[0][1]
            special = not os.path.isdir(path) and not _is_wanted(path, "file")
            wrong = "scope.special" if special else "scope.not_dir" if want == "dir" else "scope.not_file"
            raise Refusal(wrong, path=self._shown(path))
        raise Refusal("scope.missing", path=printable(said.strip()))

    def _choose(self, said: str, matches: Iterable[Match]) -> str:
        best: dict[int, list[str]] = {}
        for rank, path in matches:
            best.setdefault(rank, []).append(path)
        paths = sorted(set(best[min(best)]))
        if len(paths) > 1:
            choices = tuple(self._shown(path) for path in paths[:MAX_CHOICES])
            raise Question("scope.which", choices, name=printable(said.strip()))
        return paths[0]

    def _near(self, base: str | None, parts: Sequence[str], refused: list[Refusal]) -> Iterator[Match]:
        """The matches of `parts` directly below the base or the roots, or below a user folder."""
        for root in (base,) if base else self._roots:
            yield from self._descend(_EXACT, root, parts, refused)
            if base is None and name_key(os.path.basename(root)) == name_key(parts[0]):
                yield from self._descend(_LOCALISED, root, parts[1:], refused)
        if base is None or base == self._home:
            for folder in self._localised(parts[0]):
                try:
                    start = self._admit(folder)
                except Refusal:
                    continue
                yield from self._descend(_LOCALISED, start, parts[1:], refused)

    def _descend(self, rank: int, folder: str, parts: Sequence[str], refused: list[Refusal]) -> Iterator[Match]:
        if not parts:
            yield rank, folder
            return
        for step, name in _named(folder, parts[0]):
            path = os.path.join(folder, name)
            try:
                inner = self._admit(path)
            except Refusal as refusal:
                refused.append(refusal)
                continue
            yield from self._descend(rank + step, inner, parts[1:], refused)

    def _localised(self, word: str) -> Iterator[str]:
        """The user folder that `word` means: where the desktop says it is, else under any of its names."""
        key = self._words.get(name_key(word))
        if key is None or self._home is None:
            return
        written = read_user_dirs(self._home).get(key)
        if written and os.path.isdir(written):
            yield written
            return
        names = {other for other, meant in self._words.items() if meant == key}
        for name, is_dir in _listing(self._home):
            if is_dir and name_key(name) in names:
                yield os.path.join(self._home, name)

    def _search(self, parts: Sequence[str], want: str, deep: Callable[[str], bool]) -> list[Match]:
        """The matches at the nearest level of the tree that has any; the first two levels are known."""
        level = list(self._roots)
        left = MAX_SEARCHED
        wanted = name_key(parts[0])
        for _ in range(MAX_DEPTH):
            below: list[str] = []
            matches: list[Match] = []
            for folder in level:
                for name, is_dir in _listing(folder):
                    left -= 1
                    if left < 0:
                        return matches
                    path = os.path.join(folder, name)
                    if name_key(name) == wanted:
                        rank = _EXACT if name == parts[0] else _CASE
                        matches += self._fitting(rank, path, parts[1:], want, deep)
                    if is_dir:
                        below.append(path)
            if matches:
                return matches
            level = below
        return []

    def _fitting(
        self, rank: int, path: str, rest: Sequence[str], want: str, deep: Callable[[str], bool]
    ) -> list[Match]:
        try:
            found = list(self._descend(rank, self._admit(path), rest, []))
        except Refusal:
            return []
        return [match for match in found if _is_wanted(match[1], want) and deep(match[1])]


def _named(folder: str, said: str) -> Iterator[Match]:
    """The names in `folder` that `said` may mean, the exact one first."""
    try:
        os.lstat(os.path.join(folder, said))
        yield _EXACT, said
    except (OSError, ValueError):
        pass
    wanted = name_key(said)
    for name, _ in _listing(folder):
        if name != said and name_key(name) == wanted:
            yield _CASE, name


def _listing(folder: str) -> list[tuple[str, bool]]:
    """The visible names in `folder`, in order, and whether each is a folder (not a link to one)."""
    try:
        with os.scandir(folder) as listing:
            return sorted((e.name, e.is_dir(follow_symlinks=False)) for e in listing if not e.name.startswith("."))
    except OSError:
        return []


def _is_wanted(path: str, want: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return (want != "dir" and stat.S_ISREG(mode)) or (want != "file" and stat.S_ISDIR(mode))

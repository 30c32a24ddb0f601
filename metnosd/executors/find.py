"""Finding files and looking into folders."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Literal

from metnosd.arguments import Arg, Place, Size, TimeRange
from metnosd.executor import Found, Run, executor
from metnosd.executors.content import read_text
from metnosd.executors.targets import told
from metnosd.filenames import extension_of, split_name
from metnosd.finder import name_key
from metnosd.kinds import shipped_kinds
from metnosd.scope import Item, instant_of
from metnosd.sentence import Refusal, Sentence, say

FileKind = Literal[
    "image",
    "video",
    "audio",
    "document",
    "spreadsheet",
    "presentation",
    "text",
    "archive",
    "code",
    "folder",
]

Test = Callable[[Item], bool]


@executor(takes=None, gives="files", capability="fs:read")
def find_files(
    run: Run,
    *,
    path: Annotated[Place | None, Arg("folder to look in")] = None,
    name: Annotated[str | None, Arg("file name or part of it", "name")] = None,
    extension: Annotated[str | None, Arg("file extension such as pdf", "kind")] = None,
    kind: Annotated[FileKind | None, Arg("kind of file", "category")] = None,
    modified: Annotated[TimeRange | None, Arg("when last changed")] = None,
    larger_than: Annotated[Size | None, Arg("smallest size")] = None,
    smaller_than: Annotated[Size | None, Arg("largest size")] = None,
    contains: Annotated[str | None, Arg("text inside the file", "quoted")] = None,
    recursive: Annotated[bool, Arg("also look in subfolders", "shallow")] = True,
) -> Found:
    """Find files by name, type, date, size or content."""
    problems: list[Sentence] = []
    tests = _tests(run, name, extension, kind, modified, larger_than, smaller_than)
    found: dict[str, Item] = {}
    for item in _items(run, path, recursive, problems):
        if all(test(item) for test in tests):
            found[item.path] = item
    items = _exactly(name, [found[where] for where in sorted(found)])
    if contains:
        items = _containing(run, items, contains, problems)
    return _found(run, items, problems)


@executor(takes=None, gives="entries", capability="fs:read")
def list_dirs(run: Run, *, path: Annotated[Place | None, Arg("folder to list")] = None) -> Found:
    """List what is in a folder."""
    problems: list[Sentence] = []
    items = {item.path: item for item in _items(run, path, False, problems)}
    return _found(run, [items[where] for where in sorted(items)], problems)


def _found(run: Run, items: list[Item], problems: list[Sentence]) -> Found:
    truncated = any(problem.key == "scope.too_many" for problem in problems)
    return Found(tuple(item.entry(run.zone) for item in items), told(problems), truncated=truncated)


def _items(run: Run, path: str | None, recursive: bool, problems: list[Sentence]) -> Iterator[Item]:
    """What is at `path` or below it; without a path, below every root."""
    if path is not None:
        start = run.scope.item(path)
        if not start.is_dir:
            yield start
            return
    if path is None and not run.scope.roots:
        raise Refusal("scope.no_roots")
    for base in (path,) if path is not None else run.scope.roots:
        try:
            yield from run.scope.scan(
                base, recursive=recursive, problems=problems, limit=run.limits.max_files, check=run.check
            )
        except Refusal as refusal:
            if path is not None:
                raise
            problems.append(refusal.sentence)


def _tests(
    run: Run,
    name: str | None,
    extension: str | None,
    kind: str | None,
    modified: TimeRange | None,
    larger_than: int | None,
    smaller_than: int | None,
) -> list[Test]:
    tests: list[Test] = [lambda item: item.is_dir == (kind == "folder")]
    if name:
        tests.append(_named(name))
    if kind and kind != "folder":
        of_kind = shipped_kinds().kinds[kind]
        tests.append(lambda item: extension_of(item.name) in of_kind)
    # A folder has no extension, whatever its name looks like.
    if extension and kind != "folder" and (wanted := shipped_kinds().extensions(extension)):
        tests.append(lambda item: extension_of(item.name) in wanted or _ends(item.name, wanted))
    if modified is not None:
        tests.append(lambda item: instant_of(item.modified_ns, run.zone) in modified)
    if larger_than is not None:
        tests.append(lambda item: item.size > larger_than)
    if smaller_than is not None:
        tests.append(lambda item: item.size < smaller_than)
    return tests


def _ends(name: str, extensions: frozenset[str]) -> bool:
    """Whether `name` has one of the extensions that hold a dot themselves, as `tar.gz` does."""
    return any("." in extension and name.lower().endswith("." + extension) for extension in extensions)


def _named(said: str) -> Test:
    """Tests for a glob if `said` has its signs, and for a part of the name; case does not count."""
    wanted = name_key(said)
    glob = re.compile(fnmatch.translate(wanted), re.DOTALL) if re.search(r"[*?\[]", wanted) else None

    def test(item: Item) -> bool:
        key = name_key(item.name)
        return wanted in key or (glob is not None and glob.match(key) is not None)

    return test


def _exactly(name: str | None, items: list[Item]) -> list[Item]:
    """Of a whole file name only the files that bear it, if any do: "a.txt" does not mean "data.txt"."""
    if name is None or not split_name(name.strip())[1]:
        return items
    return [item for item in items if name_key(item.name) == name_key(name)] or items


def _containing(run: Run, items: list[Item], text: str, problems: list[Sentence]) -> list[Item]:
    wanted = name_key(text)
    kept: list[Item] = []
    cut = 0
    for item in items:
        run.check()
        if item.is_dir:
            continue
        try:
            content, more = read_text(run.scope, item.path, run.limits.max_read_bytes)
        except Refusal as refusal:
            if refusal.sentence.key != "read.binary":
                problems.append(refusal.sentence)
            continue
        if wanted in name_key(content):
            kept.append(item)
        elif more:
            cut += 1
    if cut:
        problems.append(say("find.partly_read", count=cut, size=run.limits.max_read_bytes))
    return kept

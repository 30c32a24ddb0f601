"""Writing files and making folders. Nothing happens here: these say what would."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from metnosd.arguments import Arg, NewPlace, Place
from metnosd.effects import Effect, WriteFile
from metnosd.entries import printable
from metnosd.executor import Effects, Run, executor
from metnosd.executors.targets import Targets, told
from metnosd.sentence import Refusal, Sentence

Mode = Literal["create", "append", "replace"]


@executor(takes=(None, "texts"), gives="files", capability="fs:write", effect=True, reversible=True)
def write_files(
    run: Run,
    *,
    path: Annotated[NewPlace, Arg("file to write")],
    text: Annotated[str | None, Arg("text to write", "free")] = None,
    mode: Annotated[Mode, Arg("new file, add at the end, or replace")] = "create",
) -> Effects:
    """Write text into a file."""
    content = _content(run, text)
    targets = Targets(run.scope)
    where = str(path)
    if targets.kind(where) == "dir":
        raise Refusal("scope.not_file", path=run.scope.shown(where))
    if mode == "create":
        where = targets.free(*os.path.split(where))
    elif targets.kind(where) is None:
        where = _elsewhere(run, os.path.basename(where)) or where
    if targets.kind(where) is None:
        mode = "create"
    elif mode == "append" and not _ends_line(run, where):
        content = "\n" + content
    made = targets.folders(os.path.dirname(where))
    return Effects((*made, WriteFile(where, content, mode)))


def _elsewhere(run: Run, name: str) -> str | None:
    """The file that is meant to be added to or replaced, deeper in the tree; raises Question if two are."""
    try:
        return run.scope.locate(name, "file")
    except Refusal as refusal:
        if refusal.sentence.key in ("scope.missing", "scope.not_file"):
            return None
        raise


def _content(run: Run, text: str | None) -> str:
    """What to write: the text given, else that of the entries. What is no Unicode is replaced."""
    if text is None:
        found = [entry.fields.get("text") for entry in run.entries]
        texts = [item for item in found if isinstance(item, str)]
        if not texts:
            raise Refusal("write.no_text")
        text = "\n".join(texts)
    return text.encode("utf-8", "replace").decode()


def _ends_line(run: Run, path: str) -> bool:
    """Whether what is appended to `path` begins a line; raises Refusal when it cannot be read."""
    descriptor = run.scope.open_file(path)
    try:
        size = os.fstat(descriptor).st_size
        return size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"
    finally:
        os.close(descriptor)


@executor(takes=None, gives="dirs", capability="fs:write", effect=True, reversible=True)
def create_dirs(
    run: Run,
    *,
    names: Annotated[list[str], Arg("names of the new folders", "words")],
    path: Annotated[Place | None, Arg("folder to make them in")] = None,
) -> Effects:
    """Create new folders."""
    if path is None and not run.scope.roots:
        raise Refusal("scope.no_roots")
    base = path if path is not None else run.scope.roots[0]
    if not run.scope.item(base).is_dir:
        raise Refusal("scope.not_dir", path=run.scope.shown(base))
    problems: list[Sentence] = []
    targets = Targets(run.scope)
    effects: list[Effect] = []
    for name in dict.fromkeys(names):
        try:
            effects += _new_folder(run, targets, base, name)
        except Refusal as refusal:
            problems.append(refusal.sentence)
    return Effects(tuple(effects), told(problems))


def _new_folder(run: Run, targets: Targets, base: str, name: str) -> list[Effect]:
    parts = [part.strip() for part in name.split("/") if part.strip() not in ("", ".")]
    shown = printable(name.strip())
    try:
        long = any(len(os.fsencode(part)) > 255 for part in parts)
    except UnicodeEncodeError:
        long = True
    if not parts or ".." in parts or "\0" in name or long:
        raise Refusal("scope.bad_name", name=shown[:100])
    if any(part.startswith(".") for part in parts):
        raise Refusal("scope.hidden", path=shown)
    target = os.path.join(base, *parts)
    effects: list[Effect] = [*targets.folders(target)]
    if not effects:
        raise Refusal("create.exists", path=run.scope.shown(target))
    return effects

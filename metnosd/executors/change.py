"""Moving, copying, renaming and deleting. Nothing happens here: these say what would."""

from __future__ import annotations

import os
import re
from typing import Annotated

from metnosd.arguments import Arg, NewPlace
from metnosd.disk import new_slot
from metnosd.effects import CopyPath, Effect, MovePath, TrashPath
from metnosd.executor import Effects, Run, executor
from metnosd.executors.targets import Targets, is_into_itself, sources, told
from metnosd.filenames import extension_of, split_name
from metnosd.kinds import shipped_kinds
from metnosd.scope import Item
from metnosd.sentence import Refusal, Sentence, say

_SHORT_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,3}\Z")


@executor(takes=("files", "dirs"), gives="files", capability="fs:write", effect=True, reversible=True)
def move_files(run: Run, *, to: Annotated[NewPlace, Arg("folder to move to")]) -> Effects:
    """Move files into another folder."""
    return _into(run, to, MovePath)


@executor(takes=("files", "dirs"), gives="files", capability="fs:write", effect=True, reversible=True)
def copy_files(run: Run, *, to: Annotated[NewPlace, Arg("folder to copy to")]) -> Effects:
    """Copy files into another folder."""
    return _into(run, to, CopyPath)


@executor(takes=("files", "dirs"), gives="files", capability="fs:write", effect=True, reversible=True)
def rename_files(run: Run, *, to: Annotated[str, Arg("new name", "words")]) -> Effects:
    """Give files a new name."""
    problems: list[Sentence] = []
    name = _checked_name(to)
    targets = Targets(run.scope)
    effects: list[Effect] = []
    for item in sources(run, problems):
        folder, old = os.path.split(item.path)
        new = name if item.is_dir else _with_extension(name, old)
        if new == old:
            problems.append(say("rename.same", path=run.scope.shown(item.path)))
            continue
        effects.append(MovePath(item.path, targets.free(folder, new, item.is_dir)))
    return Effects(tuple(effects), told(problems))


@executor(takes=("files", "dirs"), gives="files", capability="fs:delete", effect=True, reversible=True)
def delete_files(run: Run) -> Effects:
    """Delete files (they go to a trash and can be brought back)."""
    problems: list[Sentence] = []
    effects = tuple(TrashPath(item.path, new_slot()) for item in sources(run, problems))
    return Effects(effects, told(problems))


def _into(run: Run, to: str, effect: type[MovePath] | type[CopyPath]) -> Effects:
    problems: list[Sentence] = []
    items = sources(run, problems)
    targets = Targets(run.scope)
    folder, name = _target(targets, to, items)
    made = targets.folders(folder)
    effects: list[Effect] = []
    for item in items:
        shown = run.scope.shown(item.path)
        if is_into_itself(item, folder):
            problems.append(say("effect.into_itself", path=shown))
        elif effect is MovePath and os.path.join(folder, name or item.name) == item.path:
            problems.append(say("move.already_there", path=shown))
        else:
            effects.append(effect(item.path, targets.free(folder, name or item.name, item.is_dir)))
    return Effects((*made, *effects) if effects else (), told(problems))


def _target(targets: Targets, to: str, items: list[Item]) -> tuple[str, str | None]:
    """The folder to put things in, and the new name if `to` names a file: an existing one, or, for a single
    file, a name with the same extension."""
    kind = targets.kind(to)
    single = items[0] if len(items) == 1 and not items[0].is_dir else None
    if kind == "dir":
        return to, None
    folder, name = os.path.split(to)
    extension = extension_of(name)
    if single is not None and (kind == "file" or (kind is None and extension)):
        if kind == "file" or extension == extension_of(single.name):
            return folder, name
    return to, None


def _checked_name(said: str) -> str:
    """A new file name as said; raises Refusal for what cannot be one."""
    name = said.strip()
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise Refusal("rename.name_only", name=name)
    if name.startswith("."):
        raise Refusal("scope.hidden", path=name)
    try:
        if len(os.fsencode(name)) <= 255:
            return name
    except UnicodeEncodeError:
        pass
    raise Refusal("scope.bad_name", name=name[:100].encode("ascii", "backslashreplace").decode())


def _with_extension(name: str, old: str) -> str:
    """`name`, with the extension of the old name if it has none of its own: "final" for "report.docx"."""
    extension = split_name(old)[1]
    kinds = shipped_kinds().kinds.values()
    known = any(extension_of(name) in extensions for extensions in kinds)
    if not extension or known or _SHORT_EXTENSION.search(name) or name.lower().endswith(extension.lower()):
        return name
    return name + extension

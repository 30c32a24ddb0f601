"""Archives made and unpacked. Nothing happens here: these say what would."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from metnosd.arguments import Arg, NewPlace
from metnosd.effects import Effect, PackFiles, UnpackArchive
from metnosd.executor import Effects, Run, executor
from metnosd.executors.content import read_bytes
from metnosd.executors.targets import Targets, common_folder, sources, told
from metnosd.filenames import split_name
from metnosd.scope import Item
from metnosd.sentence import Refusal, Sentence
from metnosd.unpacking import is_archive

Format = Literal["zip", "tar.gz"]
_ENDINGS: dict[str, Format] = {".zip": "zip", ".tar.gz": "tar.gz", ".tgz": "tar.gz"}


@executor(takes=("files", "dirs"), gives="files", capability="fs:write", effect=True, reversible=True)
def compress_files(
    run: Run,
    *,
    to: Annotated[NewPlace | None, Arg("archive file or folder for it")] = None,
    format: Annotated[Format | None, Arg("archive format")] = None,
) -> Effects:
    """Compress files into one zip or tar.gz archive."""
    problems: list[Sentence] = []
    items = sources(run, problems)
    if not items:
        return Effects((), told(problems))
    targets = Targets(run.scope)
    folder, name, form = _archive(targets, to, items, format)
    made = targets.folders(folder)
    pack = PackFiles(tuple(item.path for item in items), targets.free(folder, name), form)
    return Effects((*made, pack), told(problems))


def _archive(targets: Targets, to: str | None, items: list[Item], form: Format | None) -> tuple[str, str, Format]:
    """Where the archive goes, its name and its format: the one its name tells, else as asked, else zip."""
    if to is not None and targets.kind(to) != "dir":
        folder, name = os.path.split(to)
        for ending, told_form in _ENDINGS.items():
            if name.lower().endswith(ending) and len(name) > len(ending):
                return folder, name, told_form
        return folder, f"{name}.{form or 'zip'}", form or "zip"
    beside = common_folder(items)
    only = items[0]
    base = os.path.basename(beside) or "files"
    if len(items) == 1:
        base = only.name if only.is_dir else split_name(only.name)[0]
    return to or beside, f"{base}.{form or 'zip'}", form or "zip"


@executor(takes="files", gives="dirs", capability="fs:write", effect=True, reversible=True)
def extract_archives(run: Run, *, to: Annotated[NewPlace | None, Arg("folder to unpack into")] = None) -> Effects:
    """Unpack zip and tar archives."""
    problems: list[Sentence] = []
    items = [item for item in sources(run, problems) if _is_archive(run, item, problems)]
    if not items:
        return Effects((), told(problems))
    targets = Targets(run.scope)
    effects: list[Effect] = []
    if to is not None and targets.kind(to) is None and len(items) == 1:
        effects += targets.folders(os.path.dirname(to))
        effects.append(UnpackArchive(items[0].path, to))
        return Effects(tuple(effects), told(problems))
    if to is not None:
        effects += targets.folders(to)
    for item in items:
        stem = split_name(item.name)[0]
        target = targets.free(to or os.path.dirname(item.path), stem, True)
        effects.append(UnpackArchive(item.path, target))
    return Effects(tuple(effects), told(problems))


def _is_archive(run: Run, item: Item, problems: list[Sentence]) -> bool:
    try:
        if is_archive(read_bytes(run.scope, item.path, 512)):
            return True
        raise Refusal("archive.unknown", path=run.scope.shown(item.path))
    except Refusal as refusal:
        problems.append(refusal.sentence)
        return False

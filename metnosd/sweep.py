"""Clearing away: whole folders that go for good, and what a crash left under temporary names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

import structlog

from metnosd import disk
from metnosd.effects import (
    CopyPath,
    Effect,
    MovePath,
    PackFiles,
    RestoreFile,
    TrashPath,
    UnpackArchive,
    UntrashPath,
    WriteFile,
)
from metnosd.sentence import Refusal

if TYPE_CHECKING:
    from metnosd.scope import Scope

log = structlog.get_logger(__name__)

_MAGIC = {"zip": b"PK", "tar.gz": b"\x1f\x8b"}
_SAMPLE_BYTES = 1 << 16
_SAMPLES = 64
_CLOCK_SLACK_S = 60
"""By so much the clocks of a file server and of this machine may differ."""


def sweep_leftovers(effect: Effect, scope: Scope, since: datetime | None = None) -> int:
    """Remove what a crash in the middle of `effect` left in the folders that it touches; returns how many.

    To be called before anything else is performed. Of the things with a temporary name, only those go that
    are ours and hold nothing that is not elsewhere too: in the source, the target or the keep, or in the text
    that was to be written. Of a half-made archive or unpacked folder nobody can tell that, so they have to be
    no older than the beginning of the effect, if `since` says when that was. Folders out of reach are passed
    over; what stays is logged.
    """
    removed = 0
    for inside in _folders(effect):
        try:
            with scope.parent(inside) as (folder, _):
                names = [name for name in os.listdir(folder) if name.startswith(disk.TEMP_PREFIX)]
                removed += sum(_sweep(effect, scope, since, folder, name) for name in names)
        except (Refusal, OSError) as error:
            log.info("leftovers_out_of_reach", effect=effect.kind, error=str(error))
    return removed


def _folders(effect: Effect) -> list[str]:
    """A path inside of each folder in which `effect` makes temporary things."""
    match effect:
        case MovePath(source, target):
            paths = [source, target]
        case CopyPath(_, target) | PackFiles(_, target) | UnpackArchive(_, target):
            paths = [target]
        case WriteFile(path) | RestoreFile(path) | TrashPath(path) | UntrashPath(path):
            paths = [path]
        case _:
            paths = []
    return list({os.path.dirname(path): path for path in paths}.values())


def _sweep(effect: Effect, scope: Scope, since: datetime | None, folder: int, name: str) -> bool:
    """Remove the temporary thing `name` if nothing is lost by that; whether it went."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if status.st_uid == os.geteuid() and _may_go(effect, scope, since, folder, name, status):
            clear(folder, name)
            return True
    except OSError as error:
        log.warning("leftover_stays", effect=effect.kind, name=name, error=str(error))
        return False
    log.warning("leftover_stays", effect=effect.kind, name=name)
    return False


def _may_go(
    effect: Effect, scope: Scope, since: datetime | None, folder: int, name: str, status: os.stat_result
) -> bool:
    match effect:
        case MovePath(source, target) | CopyPath(source, target):
            # A part of a copy is in the source, and the original that a finished move left is in the target.
            return any(_is_in(scope.parent(path), folder, name) for path in (source, target))
        case TrashPath(path, slot) | UntrashPath(path, slot):
            places = [scope.parent(path), *([scope.keep.opened_slot(slot)] if scope.keep else [])]
            return any(_is_in(place, folder, name) for place in places)
        case WriteFile(path) | RestoreFile(path):
            return stat.S_ISREG(status.st_mode) and _is_written(effect, scope, path, folder, name)
        case PackFiles(_, _, form):
            return stat.S_ISREG(status.st_mode) and _is_new(status, since) and _begins_as(form, folder, name)
        case UnpackArchive():
            return stat.S_ISDIR(status.st_mode) and _is_new(status, since)
    return False


def _is_new(status: os.stat_result, since: datetime | None) -> bool:
    return since is None or min(status.st_mtime, status.st_ctime) >= since.timestamp() - _CLOCK_SLACK_S


def _begins_as(form: str, folder: int, name: str) -> bool:
    """Whether a file is the beginning of an archive, be it of no bytes at all."""
    magic = _MAGIC.get(form, b"")
    with disk.opened(name, folder, disk.OPEN_FILE) as file:
        head = os.read(file, len(magic))
    return head == magic[: len(head)]


def _is_written(effect: WriteFile | RestoreFile, scope: Scope, path: str, folder: int, name: str) -> bool:
    """Whether a temporary file holds what is kept, what stands at `path`, or a part of what was to stand there.

    Once the new content stands there the temporary file has the old one. Then a part of the new content in it
    is no half-written file but a change that a person made in the last instant.
    """
    with ExitStack() as stack:
        temp = stack.enter_context(os.fdopen(os.open(name, disk.OPEN_FILE, dir_fd=folder), "rb"))
        if scope.keep is not None and scope.keep.has(temp.fileno(), _no_check):
            return True
        current = None
        with suppress(Refusal):
            current = stack.enter_context(os.fdopen(scope.open_file(path), "rb"))
        if current is not None and _matches(temp, _parts(current), whole=True):
            return True
        try:
            return not _stands(effect, scope, current) and _matches(temp, _new(effect, scope, current), whole=False)
        except Refusal:
            return False


def _no_check() -> None:
    """Nobody cancels this."""


def _new(effect: WriteFile | RestoreFile, scope: Scope, current: BinaryIO | None) -> Iterable[bytes]:
    """The parts of what `effect` was to write where `current` stands."""
    if isinstance(effect, RestoreFile):
        return scope.keep.content(effect.blob, _no_check) if scope.keep is not None else ()
    old = _parts(current) if current is not None and effect.mode == "append" else ()
    return chain(old, (_text(effect),))


def _stands(effect: WriteFile | RestoreFile, scope: Scope, current: BinaryIO | None) -> bool:
    """Whether what `effect` was to write seems to be in place."""
    if current is None:
        return False
    if isinstance(effect, RestoreFile) or effect.mode != "append":
        return _matches(current, _new(effect, scope, None), whole=True)
    size, text = os.fstat(current.fileno()).st_size, _text(effect)
    return os.pread(current.fileno(), len(text), max(0, size - len(text))) == text


def _text(effect: WriteFile) -> bytes:
    return effect.text.encode("utf-8", "surrogateescape")


def _parts(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    while part := file.read(disk.CHUNK):
        yield part


def _matches(file: BinaryIO, parts: Iterable[bytes], *, whole: bool) -> bool:
    """Whether a file holds `parts`, or only the beginning of them if it need not be the whole."""
    file.seek(0)
    for part in parts:
        head = file.read(len(part))
        if head != part[: len(head)]:
            return False
        if len(head) < len(part):
            return not whole
    return not file.read(1)


def _is_in(place: AbstractContextManager[tuple[int, str]], folder: int, name: str) -> bool:
    """Whether all that `name` in the open folder holds is in `place` too; not if that is gone or out of reach."""
    try:
        with place as (other, base):
            return _is_part(folder, name, other, base, 0)
    except (Refusal, OSError):
        return False


def _is_part(folder: int, name: str, other: int, base: str, depth: int) -> bool:
    """The same for two places: the second may hold more, and its files may go on further."""
    kind = stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    if kind != stat.S_IFMT(os.stat(base, dir_fd=other, follow_symlinks=False).st_mode) or depth > disk.MAX_DEPTH:
        return False
    if kind == stat.S_IFDIR:
        with disk.opened(name, folder, disk.OPEN_DIR) as one, disk.opened(base, other, disk.OPEN_DIR) as two:
            return all(_is_part(one, below, two, below, depth + 1) for below in os.listdir(one))
    if kind == stat.S_IFREG:
        with disk.opened(name, folder, disk.OPEN_FILE) as one, disk.opened(base, other, disk.OPEN_FILE) as two:
            return _is_beginning(one, two)
    if kind == stat.S_IFLNK:
        return os.readlink(name, dir_fd=folder) == os.readlink(base, dir_fd=other)
    return kind == stat.S_IFIFO


def _is_beginning(one: int, two: int) -> bool:
    """Whether a file begins with all of another; of large ones, samples from all over tell."""
    size = os.fstat(one).st_size
    if size > os.fstat(two).st_size:
        return False
    if size <= disk.WHOLE_HASH_BYTES:
        return os.pread(one, size, 0) == os.pread(two, size, 0)
    offsets = ((size - _SAMPLE_BYTES) * number // _SAMPLES for number in range(_SAMPLES + 1))
    return all(os.pread(one, _SAMPLE_BYTES, at) == os.pread(two, _SAMPLE_BYTES, at) for at in offsets)


def clear(folder: int, name: str) -> None:
    """Remove a file or a whole folder: through no link, into nothing that is mounted there, at any depth.

    Folders of ours that are write-protected are opened up. What cannot be removed stays, the rest goes;
    then raises the first OSError.
    """
    if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=folder)
        return
    errors: list[OSError] = []
    waiting: list[str] = []
    with _unlocked(name, folder) as top:
        _empty(top, top, waiting, errors)
        while waiting:
            lifted = waiting.pop()
            try:
                with _unlocked(lifted, top) as inner:
                    _empty(inner, top, waiting, errors)
                os.rmdir(lifted, dir_fd=top)
            except OSError as error:
                errors.append(error)
    if errors:
        raise errors[0]
    os.rmdir(name, dir_fd=folder)


def _empty(inner: int, top: int, waiting: list[str], errors: list[OSError]) -> None:
    """Remove the files in an open folder and lift the folders in it to `top`, where they wait under new names.

    So no depth is too deep, and a folder that something is mounted on, which cannot be lifted, is not entered.
    """
    for name in os.listdir(inner):
        try:
            if stat.S_ISDIR(os.stat(name, dir_fd=inner, follow_symlinks=False).st_mode):
                lifted = disk.TEMP_PREFIX + disk.new_slot()
                _lift(inner, name, top, lifted)
                waiting.append(lifted)
            else:
                os.unlink(name, dir_fd=inner)
        except OSError as error:
            errors.append(error)


def _lift(inner: int, name: str, top: int, lifted: str) -> None:
    try:
        os.rename(name, lifted, src_dir_fd=inner, dst_dir_fd=top)
    except PermissionError:
        # A folder that goes to another one has to be writable itself.
        with _unlocked(name, inner):
            os.rename(name, lifted, src_dir_fd=inner, dst_dir_fd=top)


@contextmanager
def _unlocked(name: str, folder: int) -> Iterator[int]:
    """A descriptor of a folder, which may then be read and changed if it is ours."""
    place = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        mode = stat.S_IMODE(os.fstat(place).st_mode)
        if mode & 0o700 != 0o700:
            with suppress(OSError):
                os.chmod(f"/proc/self/fd/{place}", mode | 0o700)
        with disk.opened(".", place, disk.OPEN_DIR) as descriptor:
            yield descriptor
    finally:
        os.close(place)

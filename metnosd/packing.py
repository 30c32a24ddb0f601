"""Archives made and unpacked, whole or not at all."""

from __future__ import annotations

import os
import stat
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, cast

from metnosd import disk
from metnosd.entries import is_text
from metnosd.executor import Limits
from metnosd.filenames import numbered
from metnosd.refusals import refusal_of
from metnosd.scope import Scope
from metnosd.sentence import Refusal, Sentence, say
from metnosd.unpacking import BROKEN, Budget, Member, read_members

Add = Callable[[str, os.stat_result, int | None], None]
"""Adds a member under a name: a folder, or the content of an open file."""


def unpack(scope: Scope, source: str, folder: int, name: str, limits: Limits, check: disk.Check) -> None:
    """Unpack the archive `source` into the new folder `name` of the open `folder`.

    Raises Refusal when the archive is damaged, unsafe or exceeds the limits, OSError when the disk is full
    or `name` exists.
    """
    shown = scope.shown(source)
    with os.fdopen(scope.open_file(source), "rb") as file, disk.temporary(folder) as temp:
        budget = Budget(limits, os.fstat(file.fileno()).st_size, shown)
        os.mkdir(temp, 0o777, dir_fd=folder)
        try:
            with disk.opened(temp, folder, disk.OPEN_DIR) as base, read_members(file, shown) as members:
                writer = _Writer(base, budget, check)
                for member in members:
                    writer.add(member)
        except BROKEN as error:
            raise Refusal("archive.broken", path=shown) from error
        except OSError as error:
            # The decompressors of the standard library raise an OSError without a number for bad data.
            if error.errno is not None:
                raise
            raise Refusal("archive.broken", path=shown) from error
        disk.rename_noreplace(folder, temp, folder, name)
    disk.sync(folder)


SURVEYED_BYTES = 50_000_000
"""An archive up to this size is looked through before it is unpacked; a larger one counts for what it is."""


def survey(scope: Scope, source: str, check: disk.Check) -> tuple[int, int]:
    """How many files the archive `source` holds and how many bytes they say they have, as far as can be told."""
    files = size = 0
    with os.fdopen(scope.open_file(source), "rb") as file:
        packed = os.fstat(file.fileno()).st_size
        if packed > SURVEYED_BYTES:
            return 1, packed
        try:
            with read_members(file, scope.shown(source)) as members:
                for member in members:
                    check()
                    files += not member.is_dir
                    size += 0 if member.is_dir else member.size
        except (*BROKEN, Refusal, OSError):
            # What is wrong with it is told when it is unpacked.
            return max(files, 1), max(size, packed)
    return files, size


class _Writer:
    """Writes members below the open folder `base`, which nothing but this writer fills."""

    def __init__(self, base: int, budget: Budget, check: disk.Check) -> None:
        self._base = base
        self._budget = budget
        self._check = check
        self._numbers: dict[tuple[str, ...], int] = {}

    def add(self, member: Member) -> None:
        """Write one member; a second one of the same name gets a number."""
        if not member.parts:
            return
        self._budget.file(0 if member.is_dir else member.size)
        with self._folder(member.parts if member.is_dir else member.parts[:-1]) as folder:
            if not member.is_dir:
                self._write(folder, member)

    @contextmanager
    def _folder(self, parts: Sequence[str]) -> Iterator[int]:
        folder = os.dup(self._base)
        try:
            for part in parts:
                try:
                    os.mkdir(part, 0o777, dir_fd=folder)
                    self._budget.file()
                except FileExistsError:
                    pass
                try:
                    inner = os.open(part, disk.OPEN_DIR, dir_fd=folder)
                except NotADirectoryError as error:
                    raise zipfile.BadZipFile("a file is used as a folder") from error
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)

    def _write(self, folder: int, member: Member) -> None:
        number = self._numbers.get(member.parts, 0)
        while True:
            try:
                name = numbered(member.parts[-1], number)
                new = os.open(name, disk.CREATE, 0o777 if member.mode & 0o111 else 0o666, dir_fd=folder)
                break
            except FileExistsError:
                number += 1
        self._numbers[member.parts] = number + 1
        try:
            with member.open() as content:
                disk.write_all(new, self._counted(content))
            with suppress(OSError, OverflowError, ValueError):
                os.utime(new, (member.modified, member.modified))
        finally:
            os.close(new)

    def _counted(self, content: IO[bytes]) -> Iterator[bytes]:
        while True:
            self._check()
            chunk = content.read(disk.CHUNK)
            if not chunk:
                return
            self._budget.bytes(len(chunk))
            yield chunk


def pack(
    scope: Scope, sources: Sequence[str], folder: int, name: str, form: str, check: disk.Check
) -> tuple[Sentence, ...]:
    """Make the new archive `name` in the open `folder`, of files and of folders with all that is in them.

    `form` is `zip` or `tar.gz`. Returns sentences on what was passed over: links and special files. Raises
    Refusal for what cannot be read, OSError when the disk is full or `name` exists.
    """
    problems: list[Sentence] = []
    taken: set[str] = set()
    with disk.temporary(folder) as temp:
        with os.fdopen(os.open(temp, disk.CREATE, 0o666, dir_fd=folder), "w+b") as out:
            with _zip(out, check) if form == "zip" else _tar(out, check) as add:
                for source in sources:
                    with scope.parent(source) as (parent, base):
                        stored = _free(base, taken)
                        _pack(_Source(scope, problems, check), add, parent, base, stored, source)
            out.flush()
            os.fsync(out.fileno())
        disk.rename_noreplace(folder, temp, folder, name)
    disk.sync(folder)
    return tuple(problems)


class _Source:
    """What packing carries along."""

    def __init__(self, scope: Scope, problems: list[Sentence], check: disk.Check) -> None:
        self.scope, self.problems, self.check = scope, problems, check


def _pack(at: _Source, add: Add, folder: int, name: str, stored: str, path: str) -> None:
    at.check()
    if stored.count("/") > disk.MAX_DEPTH:
        raise Refusal("scope.too_long", path=at.scope.shown(path))
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            add(stored + "/", status, None)
            with disk.opened(name, folder, disk.OPEN_DIR) as inner:
                for below in sorted(os.listdir(inner)):
                    if not below.startswith(disk.TEMP_PREFIX):
                        _pack(at, add, inner, below, f"{stored}/{below}", os.path.join(path, below))
        elif stat.S_ISREG(status.st_mode):
            with disk.opened(name, folder, disk.OPEN_FILE) as file:
                add(stored, os.fstat(file), file)
        else:
            at.problems.append(say("effect.skipped", path=at.scope.shown(path)))
    except PermissionError as error:
        raise refusal_of(error, at.scope.shown(path)) from error


def _free(name: str, taken: set[str]) -> str:
    number = 0
    while numbered(name, number) in taken:
        number += 1
    taken.add(numbered(name, number))
    return numbered(name, number)


@contextmanager
def _zip(out: IO[bytes], check: disk.Check) -> Iterator[Add]:
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        taken: set[str] = set()

        def add(name: str, status: os.stat_result, file: int | None) -> None:
            # A zip holds text: bytes that are no UTF-8 become the replacement character.
            text = name if is_text(name) else os.fsencode(name).decode("utf-8", "replace")
            if file is not None:
                text = _free(text, taken)
            info = zipfile.ZipInfo(text, _zip_time(status.st_mtime))
            info.external_attr = (status.st_mode & 0xFFFF) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            if file is None:
                info.external_attr |= 0x10
                archive.writestr(info, b"")
                return
            with archive.open(info, "w", force_zip64=status.st_size >= 1 << 30) as stored:
                for chunk in disk.chunks(file, check):
                    stored.write(chunk)

        yield add


def _zip_time(seconds: float) -> tuple[int, int, int, int, int, int]:
    """A time as a zip can hold it, from 1980 to 2107."""
    try:
        local = time.localtime(seconds)
    except (OverflowError, ValueError, OSError):
        return 1980, 1, 1, 0, 0, 0
    if not 1980 <= local.tm_year <= 2107:
        return (1980, 1, 1, 0, 0, 0) if local.tm_year < 1980 else (2107, 12, 31, 23, 59, 59)
    return local.tm_year, local.tm_mon, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec


@contextmanager
def _tar(out: IO[bytes], check: disk.Check) -> Iterator[Add]:
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:

        def add(name: str, status: os.stat_result, file: int | None) -> None:
            info = tarfile.TarInfo(name.rstrip("/"))
            info.mode = stat.S_IMODE(status.st_mode) & 0o777
            info.mtime = int(status.st_mtime)
            if file is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
                return
            info.size = status.st_size
            archive.addfile(info, cast(IO[bytes], _Checked(file, check)))

        yield add


class _Checked:
    """An open file to read from, with a check before each part."""

    def __init__(self, file: int, check: disk.Check) -> None:
        self._file, self._check = file, check

    def read(self, size: int = -1) -> bytes:
        self._check()
        return os.read(self._file, size)

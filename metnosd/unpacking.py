"""Reading archives without believing anything that they say of themselves.

The members of a zip or tar archive come out as one plain type. A name that is absolute or leaves the archive,
a link, a device or an encrypted member refuses the whole archive, as does one that unpacks to too much: that
is counted as it comes, not as it is declared.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import stat
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, BinaryIO, cast

from metnosd import disk
from metnosd.entries import printable
from metnosd.executor import Limits
from metnosd.sentence import Refusal

BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    lzma.LZMAError,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    LookupError,
    OverflowError,
)
"""What the standard library raises on archives that are damaged or made to break it, besides OSError."""

_RATIO_FREE_BYTES = 1 << 20
"""Below this much the ratio does not count: a short text of one letter packs a thousandfold."""

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_GZIP, _BZIP2, _XZ, _TAR = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"ustar"
_LARGEST_READ = 16 << 20
_LARGEST_PADDING = 16 << 20
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


@dataclass(frozen=True, slots=True)
class Member:
    """A file or folder in an archive: its path in components, its permissions and what opens its content."""

    parts: tuple[str, ...]
    is_dir: bool
    size: int
    mode: int
    modified: float
    open: Callable[[], IO[bytes]]


class Budget:
    """Counts what comes out of an archive of `packed` bytes; raises Refusal when it is too much."""

    def __init__(self, limits: Limits, packed: int, shown: str) -> None:
        self._limits = limits
        self._most = max(_RATIO_FREE_BYTES, packed * limits.max_unpack_ratio)
        self._shown = shown
        self._files = 0
        self._bytes = 0

    def file(self, declared: int = 0) -> None:
        """One more file or folder, said to have `declared` bytes."""
        self._files += 1
        if self._files > self._limits.max_unpacked_files:
            raise Refusal("archive.too_many", path=self._shown, count=self._limits.max_unpacked_files)
        if declared < 0:
            raise Refusal("archive.broken", path=self._shown)
        self._check(self._bytes + declared)

    def bytes(self, count: int) -> None:
        """`count` bytes more came out."""
        self._bytes += count
        self._check(self._bytes)

    def _check(self, total: int) -> None:
        if total > self._limits.max_unpacked_bytes:
            raise Refusal("archive.too_big", path=self._shown, size=self._limits.max_unpacked_bytes)
        if total > self._most:
            raise Refusal("archive.bomb", path=self._shown, ratio=self._limits.max_unpack_ratio)


def is_archive(head: bytes) -> bool:
    """Whether a file that begins with the 512 bytes `head` may be an archive that can be read here."""
    return head.startswith((*_ZIP, _GZIP, _BZIP2, _XZ)) or head[257:262] == _TAR


@contextmanager
def read_members(file: BinaryIO, shown: str) -> Iterator[Iterator[Member]]:
    """The members of an archive, told by its first bytes to be zip, or tar with or without compression.

    Raises Refusal for what is neither, and for the first member that must not be unpacked; what a damaged
    archive raises is in `BROKEN`, or an OSError without number.
    """
    head = file.read(512)
    file.seek(0)
    if head.startswith(_ZIP):
        with zipfile.ZipFile(file) as archive:
            yield _zip_members(archive)
        return
    if head.startswith(_GZIP):
        plain: IO[bytes] = cast(IO[bytes], gzip.GzipFile(fileobj=file))
    elif head.startswith(_BZIP2):
        plain = bz2.BZ2File(file)
    elif head.startswith(_XZ):
        plain = lzma.LZMAFile(file)
    elif head[257:262] == _TAR:
        plain = file
    else:
        raise Refusal("archive.unknown", path=shown)
    bounded = cast(IO[bytes], _Bounded(plain, shown))
    with tarfile.open(fileobj=bounded, mode="r:") as tar:
        yield _tar_members(tar)
    # The checksum of the compressed data stands at its very end, past the last member.
    for _ in range(_LARGEST_PADDING // disk.CHUNK):
        if not bounded.read(disk.CHUNK):
            return
    raise Refusal("archive.broken", path=shown)


class _Bounded:
    """An open file that refuses a single huge read: headers of a tar are read into memory as they claim."""

    def __init__(self, file: IO[bytes], shown: str) -> None:
        self._file = file
        self._shown = shown

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _LARGEST_READ:
            raise Refusal("archive.broken", path=self._shown)
        return self._file.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def _zip_members(archive: zipfile.ZipFile) -> Iterator[Member]:
    for info in archive.infolist():
        name = _zip_name(info)
        if info.flag_bits & 0x1:
            raise Refusal("archive.encrypted", name=printable(name))
        mode = info.external_attr >> 16
        _check_plain(name, stat.S_IFMT(mode) in (0, stat.S_IFREG, stat.S_IFDIR))
        is_dir = name.endswith("/") or stat.S_ISDIR(mode)

        def opened(info: zipfile.ZipInfo = info) -> IO[bytes]:
            return archive.open(info)

        yield Member(_parts(name), is_dir, info.file_size, mode, _zip_time(info), opened)


def _zip_name(info: zipfile.ZipInfo) -> str:
    """The member's name: one without the UTF-8 flag is read as CP 437, though most programs mean UTF-8."""
    if not info.flag_bits & 0x800:
        try:
            return info.filename.encode("cp437").decode("utf-8")
        except UnicodeError:
            pass
    return info.filename


def _zip_time(info: zipfile.ZipInfo) -> float:
    try:
        return time.mktime((*info.date_time, 0, 0, -1))
    except (ValueError, OverflowError):
        return time.time()


def _tar_members(tar: tarfile.TarFile) -> Iterator[Member]:
    for info in tar:
        _check_plain(info.name, info.isreg() or info.isdir())

        def opened(info: tarfile.TarInfo = info) -> IO[bytes]:
            file = tar.extractfile(info)
            if file is None:
                raise tarfile.ReadError("a file without content")
            return file

        yield Member(_parts(info.name), info.isdir(), info.size, info.mode, float(info.mtime), opened)


def _check_plain(name: str, plain: bool) -> None:
    if not plain:
        raise Refusal("archive.link", name=printable(name))


def _parts(name: str) -> tuple[str, ...]:
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    leaves = ".." in name.replace("\\", "/").split("/") or name.startswith(("/", "\\")) or _DRIVE.match(name)
    if leaves or "\0" in name or len(parts) > disk.MAX_DEPTH:
        raise Refusal("archive.unsafe", name=printable(name[:200]))
    if any(len(os.fsencode(part)) > 255 for part in parts):
        raise Refusal("archive.unsafe", name=printable(name[:200]))
    return parts

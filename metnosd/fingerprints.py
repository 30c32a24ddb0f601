"""What a place holds, told by descriptor: its content in a short text, and how much it is. Raises OSError."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager

CHUNK = 1 << 20
MAX_DEPTH = 200
WHOLE_HASH_BYTES = 1 << 20
"""Up to this size a fingerprint covers the whole content; above, size, time, head and tail."""
LISTED_BYTES = 1 << 16
"""Up to this size a file in a folder is told by its content; above, by size and time."""
_SAMPLE = 1 << 16

Check = Callable[[], None]
"""Called between chunks; may raise to stop, and then nothing half done is left."""

OPEN_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


@contextmanager
def opened(name: str, folder: int, flags: int) -> Iterator[int]:
    """A descriptor of `name` in the open folder, closed in the end; a new file is its owner's alone."""
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def chunks(descriptor: int, check: Check) -> Iterator[bytes]:
    """The content of an open file from where it stands, `check` called before each part."""
    while True:
        check()
        chunk = os.read(descriptor, CHUNK)
        if not chunk:
            return
        yield chunk


def fingerprint(folder: int, name: str, check: Check) -> str | None:
    """What a place holds, in a short text that a rename, move or restart does not change; None if nothing.

    Of a file its content (a large one: size, time, head and tail), of a folder the names and sizes of all that is
    in it, with the contents of small files and the times of others.
    """
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISREG(status.st_mode):
        return "file:" + _file_digest(folder, name, check)
    digest = hashlib.sha256()
    for line in _listing(folder, name, b"", check, 0, contents=True):
        digest.update(line + b"\0\0")
    return ("dir:" if stat.S_ISDIR(status.st_mode) else "other:") + digest.hexdigest()


MOST_WEIGHED = 100_000
"""How many names `weigh` looks at; what holds more is heavy enough to be asked about."""


def weigh(folder: int, name: str, check: Check) -> tuple[int, int]:
    """How many files a place holds, and how many bytes; what cannot be read counts as it shows."""
    files = size = 0
    lines = 0
    for line in _listing(folder, name, b"", check, 0, contents=False):
        lines += 1
        parts = line.split(b"\0")
        if len(parts) == 3 and parts[1].isdigit():
            files += 1
            size += int(parts[1])
        elif len(parts) == 2 and parts[1].startswith(b"->"):
            files += 1
        if lines >= MOST_WEIGHED:
            break
    return files, size


def _file_digest(folder: int, name: str, check: Check) -> str:
    try:
        with opened(name, folder, OPEN_FILE) as file:
            return file_digest(file, check)
    except PermissionError:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return f"unread:{status.st_size}:{status.st_mtime_ns}"


def file_digest(file: int, check: Check) -> str:
    """What the fingerprint of an open regular file says after `file:`."""
    digest = hashlib.sha256()
    status = os.fstat(file)
    if status.st_size <= WHOLE_HASH_BYTES:
        os.lseek(file, 0, os.SEEK_SET)
        for chunk in chunks(file, check):
            digest.update(chunk)
    else:
        digest.update(f"{status.st_size}:{status.st_mtime_ns}".encode())
        digest.update(os.pread(file, _SAMPLE, 0))
        digest.update(os.pread(file, _SAMPLE, status.st_size - _SAMPLE))
    return digest.hexdigest()


def _listing(folder: int, name: str, inner: bytes, check: Check, depth: int, *, contents: bool) -> Iterator[bytes]:
    """A line for each thing in a place; with `contents` a small file is told by what it holds, since restoring
    that gives it a new time.
    """
    check()
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFREG:
        if contents and status.st_size <= LISTED_BYTES:
            yield inner + b"\0%d\0%s" % (status.st_size, _file_digest(folder, name, check).encode())
        else:
            yield inner + b"\0%d\0%d" % (status.st_size, status.st_mtime_ns)
    elif kind == stat.S_IFLNK:
        yield inner + b"\0->" + os.fsencode(os.readlink(name, dir_fd=folder))
    else:
        yield inner + b"\0%o" % kind
    if kind != stat.S_IFDIR or depth > MAX_DEPTH:
        return
    try:
        with opened(name, folder, OPEN_DIR) as inside:
            for below in sorted(os.listdir(inside)):
                yield from _listing(
                    inside, below, inner + b"/" + os.fsencode(below), check, depth + 1, contents=contents
                )
    except PermissionError:
        yield inner + b"\0?"

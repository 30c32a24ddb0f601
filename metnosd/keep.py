"""What Metnos keeps so that things can be taken back: a trash, and old contents by their SHA-256.

    <folder>/trash/<slot>/<name>     a deleted file or folder, as it was
    <folder>/blobs/<ab>/<sha256>     the content of a file before it was overwritten

Both are open to their owner alone. A slot came in when its own folder was last changed, an old content when it
was last put: the times of what is kept, which may be long past, do not count.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import structlog

from metnosd import disk
from metnosd.sentence import Refusal
from metnosd.sweep import clear

log = structlog.get_logger(__name__)

HOUR_S = 3600
DAY_S = 86400

_SLOT = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_SHELF = re.compile(r"[0-9a-f]{2}\Z")
_OPEN_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PARTS = ("trash", "blobs")
_BLOCK_BYTES = 512
"""What `st_blocks` counts in."""


@dataclass(frozen=True, slots=True)
class Swept:
    """How many slots and old contents a sweep removed, and how many bytes that freed.

    `problems` counts what could not be removed.
    """

    slots: int
    blobs: int
    freed: int
    problems: int


class Keep:
    """The kept things of one person, in `folder`, which is made when first needed.

    Methods raise OSError when the disk does not let them, and Refusal when what is asked for is not there.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.path.abspath(os.fspath(folder))

    def trash(self, slot: str, source_dir: int, name: str, check: disk.Check) -> None:
        """Move `name` of the open folder `source_dir` into the new `slot`."""
        with self._opened("trash") as trash:
            with suppress(FileExistsError):
                os.mkdir(_checked(slot), 0o700, dir_fd=trash)
            with _open(slot, trash) as box:
                if os.listdir(box):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), slot)
                try:
                    disk.move(source_dir, name, box, name, check)
                except BaseException:
                    with suppress(OSError):
                        os.rmdir(slot, dir_fd=trash)
                    raise
            disk.sync(trash)

    def untrash(self, slot: str, target_dir: int, name: str, check: disk.Check) -> None:
        """Move what is in `slot` to the new `name` in the open folder `target_dir`."""
        with self._opened("trash") as trash, self._box(slot, trash) as (box, kept):
            disk.move(box, kept, target_dir, name, check)
            with suppress(OSError):
                os.rmdir(slot, dir_fd=trash)

    def fingerprint(self, slot: str, check: disk.Check) -> str:
        """The fingerprint of what is in `slot`."""
        with self.opened_slot(slot) as (box, kept):
            return disk.fingerprint(box, kept, check) or ""

    @contextmanager
    def opened_slot(self, slot: str) -> Iterator[tuple[int, str]]:
        """The open folder of `slot` and the name of what is in it; raises Refusal when there is nothing."""
        try:
            trash = _enter(self.folder, "trash")
        except FileNotFoundError:
            raise Refusal("keep.gone") from None
        try:
            with self._box(slot, trash) as place:
                yield place
        finally:
            os.close(trash)

    def is_used(self, slot: str) -> bool:
        """Whether there is a folder `slot`, be it with something half made."""
        return bool(_SLOT.match(slot)) and os.path.lexists(os.path.join(self.folder, "trash", slot))

    def has_slot(self, slot: str) -> bool:
        """Whether something is in `slot` that could be brought back."""
        try:
            with self.opened_slot(slot):
                return True
        except (Refusal, OSError):
            return False

    def put(self, descriptor: int, check: disk.Check) -> str:
        """Keep the content of an open file, from where it stands; returns its SHA-256."""
        with self._opened("blobs") as blobs, disk.temporary(blobs) as temp:
            digest = hashlib.sha256()
            new = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=blobs)
            try:
                disk.write_all(new, _hashed(disk.chunks(descriptor, check), digest))
                os.fsync(new)
            finally:
                os.close(new)
            name = digest.hexdigest()
            with suppress(FileExistsError):
                os.mkdir(name[:2], 0o700, dir_fd=blobs)
            os.rename(temp, f"{name[:2]}/{name}", src_dir_fd=blobs, dst_dir_fd=blobs)
            with _open(name[:2], blobs) as shelf:
                disk.sync(shelf)
            disk.sync(blobs)
            return name

    def has(self, descriptor: int, check: disk.Check) -> bool:
        """Whether the content of an open file, from where it stands, is kept already."""
        digest = hashlib.sha256()
        for _ in _hashed(disk.chunks(descriptor, check), digest):
            pass
        name = digest.hexdigest()
        return os.path.exists(os.path.join(self.folder, "blobs", name[:2], name))

    def content(self, blob: str, check: disk.Check) -> Iterator[bytes]:
        """The parts of the kept content `blob`; raises Refusal when it is gone or damaged."""
        if not _SHA256.match(blob):
            raise Refusal("keep.gone")
        digest = hashlib.sha256()
        try:
            descriptor = os.open(os.path.join(self.folder, "blobs", blob[:2], blob), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Refusal("keep.gone") from None
        try:
            yield from _hashed(disk.chunks(descriptor, check), digest)
        finally:
            os.close(descriptor)
        if digest.hexdigest() != blob:
            raise Refusal("keep.damaged")

    def has_blob(self, blob: str) -> bool:
        """Whether the content `blob` is kept."""
        return bool(_SHA256.match(blob)) and os.path.exists(os.path.join(self.folder, "blobs", blob[:2], blob))

    def size(self) -> int:
        """How many bytes are kept, as far as that can be read."""
        return sum(_size(self.folder, part) for part in _PARTS)

    def sweep(self, now: datetime, days: int, most_bytes: int) -> Swept:
        """Remove what came in more than `days` days before `now`, then the oldest while over `most_bytes` bytes.

        What came in within the last hour stays, since it may just be in use, and so does what came in later
        than `now`, as it looks after the clock was set back. What a crash left goes after a day. What cannot
        be removed is passed over, logged and counted.
        """
        seconds = now.timestamp()
        broom = _Broom(self.folder)
        things = broom.things()
        lasting = []
        for thing in things:
            if seconds - thing.came > (DAY_S if thing.is_leftover else max(days * DAY_S, HOUR_S)):
                broom.remove(thing)
            elif not thing.is_leftover:
                lasting.append(thing)
        total = self.size()
        for thing in lasting:
            if total <= most_bytes or seconds - thing.came <= HOUR_S:
                break
            total -= broom.remove(thing)
        return Swept(broom.removed["trash"], broom.removed["blobs"], broom.freed, broom.problems)

    @contextmanager
    def _opened(self, part: str) -> Iterator[int]:
        path = Path(self.folder, part)
        Path(self.folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        with _open(str(path), None) as descriptor:
            yield descriptor

    @contextmanager
    def _box(self, slot: str, trash: int) -> Iterator[tuple[int, str]]:
        """The open folder of `slot` and the one name in it."""
        try:
            box = os.open(_checked(slot), _OPEN_DIR, dir_fd=trash)
        except FileNotFoundError:
            raise Refusal("keep.gone") from None
        try:
            names = [name for name in os.listdir(box) if not name.startswith(disk.TEMP_PREFIX)]
            if len(names) != 1:
                raise Refusal("keep.gone")
            yield box, names[0]
        finally:
            os.close(box)


@contextmanager
def _open(name: str, folder: int | None) -> Iterator[int]:
    descriptor = os.open(name, _OPEN_DIR, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _checked(slot: str) -> str:
    if not _SLOT.match(slot):
        raise Refusal("keep.gone")
    return slot


def _hashed(parts: Iterator[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for part in parts:
        digest.update(part)
        yield part


@dataclass(frozen=True, slots=True)
class _Thing:
    """A slot, an old content or what a crash left, in a folder of the keep; `came_ns` is when it came in."""

    folder: tuple[str, ...]
    name: str
    came_ns: int
    is_leftover: bool

    @property
    def came(self) -> float:
        """The same in seconds."""
        return self.came_ns / 1e9


class _Broom:
    """Removes things from the keep and counts what it did."""

    def __init__(self, keep: str) -> None:
        self._keep = keep
        self.removed = dict.fromkeys(_PARTS, 0)
        self.freed = 0
        self.problems = 0

    def things(self) -> list[_Thing]:
        """All that may be removed, oldest first. What else lies in the keep is not ours."""
        found = []
        for name, status in self._list("trash"):
            if name.startswith(disk.TEMP_PREFIX):
                found.append(_Thing(("trash",), name, status.st_mtime_ns, True))
            elif _SLOT.match(name) and stat.S_ISDIR(status.st_mode):
                found.append(_Thing(("trash",), name, status.st_mtime_ns, self._is_vacant(name)))
        for shelf, status in self._list("blobs"):
            if shelf.startswith(disk.TEMP_PREFIX):
                found.append(_Thing(("blobs",), shelf, status.st_mtime_ns, True))
            elif _SHELF.match(shelf) and stat.S_ISDIR(status.st_mode):
                found += (
                    _Thing(("blobs", shelf), name, status.st_mtime_ns, False)
                    for name, status in self._list("blobs", shelf)
                    if _SHA256.match(name) and stat.S_ISREG(status.st_mode)
                )
        return sorted(found, key=lambda thing: thing.came_ns)

    def remove(self, thing: _Thing) -> int:
        """Remove `thing`, or what can be removed of it; returns by how many bytes the keep is smaller."""
        aside = disk.TEMP_PREFIX + disk.new_slot()
        before = _size(self._keep, *thing.folder, thing.name)
        try:
            gone = self._remove(thing, aside)
        except OSError as error:
            gone = False
            self.problems += 1
            log.warning("sweep_failed", keep=self._keep, name=thing.name, error=str(error))
        after = _size(self._keep, *thing.folder, thing.name) + _size(self._keep, thing.folder[0], aside)
        self.freed += max(0, before - after)
        if gone and not thing.name.startswith(disk.TEMP_PREFIX):
            self.removed[thing.folder[0]] += 1
        return max(0, before - after)

    def _remove(self, thing: _Thing, aside: str) -> bool:
        with _entered(self._keep, *thing.folder) as folder, _entered(self._keep, thing.folder[0]) as part:
            if thing.is_leftover:
                try:
                    # Only this makes sure that an empty slot is still empty when it goes.
                    os.rmdir(thing.name, dir_fd=folder)
                    return True
                except NotADirectoryError:
                    pass
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise
            # No one is to find it half removed, and what was used again since it was listed goes back.
            os.rename(thing.name, aside, src_dir_fd=folder, dst_dir_fd=part)
            if os.stat(aside, dir_fd=part, follow_symlinks=False).st_mtime_ns != thing.came_ns:
                with suppress(FileExistsError):
                    disk.rename_noreplace(part, aside, folder, thing.name)
                    return False
            clear(part, aside)
            return True

    def _is_vacant(self, slot: str) -> bool:
        """Whether a crash left nothing but an empty slot, or one with a part of a copy."""
        try:
            with _entered(self._keep, "trash", slot) as box:
                return all(name.startswith(disk.TEMP_PREFIX) for name in os.listdir(box))
        except OSError:
            return False

    def _list(self, *parts: str) -> list[tuple[str, os.stat_result]]:
        """The names in a folder of the keep with their status; none if there is no such folder."""
        try:
            with _entered(self._keep, *parts) as folder, os.scandir(folder) as listing:
                return [(found.name, found.stat(follow_symlinks=False)) for found in listing]
        except FileNotFoundError:
            return []
        except OSError as error:
            self.problems += 1
            log.warning("sweep_failed", keep=self._keep, name="/".join(parts), error=str(error))
            return []


def _enter(keep: str, *parts: str) -> int:
    """A descriptor of a folder in the keep, reached through no link; the keep itself may be one."""
    descriptor = os.open(keep, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in parts:
        try:
            deeper = os.open(part, _OPEN_DIR, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = deeper
    return descriptor


@contextmanager
def _entered(keep: str, *parts: str) -> Iterator[int]:
    descriptor = _enter(keep, *parts)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _size(keep: str, *parts: str) -> int:
    """The bytes that something in the keep takes up; 0 if it is not there."""
    try:
        with _entered(keep, *parts[:-1]) as folder:
            return _weight(folder, parts[-1], set(), 0)
    except OSError:
        return 0


def _weight(folder: int, name: str, seen: set[int], depth: int) -> int:
    """The same for a place. What has several names counts once; what is mounted there or shut, not at all."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if status.st_dev != os.fstat(folder).st_dev or status.st_ino in seen or depth > disk.MAX_DEPTH:
            return 0
        if not stat.S_ISDIR(status.st_mode):
            if status.st_nlink > 1:
                seen.add(status.st_ino)
            # A file with holes takes up less than its length; some file systems do not tell.
            return min(status.st_size, status.st_blocks * _BLOCK_BYTES or status.st_size)
        with _open(name, folder) as inner:
            return sum(_weight(inner, below, seen, depth + 1) for below in os.listdir(inner))
    except OSError:
        return 0

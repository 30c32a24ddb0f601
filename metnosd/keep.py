"""What Metnos keeps so that things can be taken back: a trash, and old contents by their SHA-256.

    <folder>/trash/<slot>/<name>     a deleted file or folder, as it was
    <folder>/blobs/<ab>/<sha256>     the content of a file before it was overwritten

Both are open to their owner alone.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from metnosd import disk
from metnosd.sentence import Refusal

_SLOT = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_OPEN_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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
        with self._opened("trash") as trash, self._box(slot, trash) as (box, kept):
            return disk.fingerprint(box, kept, check) or ""

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

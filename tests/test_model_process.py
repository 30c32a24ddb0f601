"""The model process with real llama.cpp over a tiny random model: its deaths, its silence, its modes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.gguf_vocab import write_tiny_model

from metnosd.model import link as link_module
from metnosd.model.link import ChildFailed, ChildKilled, ModelLink
from metnosd.model.options import MODES, EngineOptions
from metnosd.model.process import ModelProcess, Patience, running
from metnosd.model.service import ModelError

CHAT = (("system", "You are a test."), ("user", "Go on."))
ENDLESS = 'root ::= "a" root'
WORD = 'root ::= "yes" | "no"'


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model."""
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf", n_ctx=4096)


def put(path: Path, data: bytes) -> None:
    """Write a file."""
    path.write_bytes(data)


def content(path: Path) -> bytes:
    """What a file holds."""
    return path.read_bytes()


def list_names(folder: Path) -> list[str]:
    """The names in a folder."""
    return sorted(os.listdir(folder))


def options(path: Path) -> EngineOptions:
    """Options for the tiny model."""
    return EngineOptions(path=path, n_ctx=4096, gpu_layers=0, threads=1)


def process(path: Path, folder: Path, **patience: float) -> ModelProcess:
    """A process for the model at `path` that remembers its mode in `folder`."""
    kept: dict[str, float] = {"start": 60.0, "silence": 60.0, "first_backoff": 0.01, "longest_backoff": 0.02}
    return ModelProcess(options(path), mode_file=folder / "mode.json", patience=Patience(**(kept | patience)))


@contextlib.asynccontextmanager
async def started(path: Path, folder: Path, **patience: float) -> AsyncIterator[ModelProcess]:
    """A running process."""
    async with running(process(path, folder, **patience)) as made:
        yield made


async def word(model: ModelProcess) -> str:
    """One short request."""
    return (await model.complete(CHAT, grammar=WORD, max_tokens=8)).text


async def endless(model: ModelProcess) -> tuple[asyncio.Task[object], asyncio.Event]:
    """A request that goes on for long, once it has begun to answer."""
    began = asyncio.Event()
    asked = model.complete(CHAT, grammar=ENDLESS, max_tokens=3000, on_text=lambda text: began.set())
    task: asyncio.Task[object] = asyncio.create_task(asked)
    waiting = asyncio.create_task(began.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    assert not task.done()
    return task, began


def pid_of(model: ModelProcess) -> int:
    """The process id of the child."""
    assert model.state.pid is not None
    return model.state.pid


def what_a_process_has(pid: int) -> tuple[bytes, bytes, set[str]]:
    """Environment, arguments and open files of a process."""
    folder = Path(f"/proc/{pid}")
    files = {os.readlink(item) for item in (folder / "fd").iterdir()}
    return (folder / "environ").read_bytes(), (folder / "cmdline").read_bytes(), files


async def gone(pid: int) -> None:
    """Wait until a process is no more."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(watch, ended.set)
    try:
        await ended.wait()
    finally:
        asyncio.get_running_loop().remove_reader(watch)
        os.close(watch)


async def test_answers_under_a_grammar_and_in_pieces(tiny: Path, tmp_path: Path) -> None:
    """The answer obeys the grammar, comes in pieces that make it up, and the next one reuses the prompt's cache."""
    async with started(tiny, tmp_path) as model:
        pieces: list[str] = []
        first = await model.complete(CHAT, grammar=WORD, max_tokens=8, on_text=pieces.append)
        assert first.text in ("yes", "no") and "".join(pieces) == first.text and first.finish == "stop"
        second = await model.complete(CHAT, grammar=WORD, max_tokens=8)
        assert second.text == first.text
        assert second.reused_tokens > first.reused_tokens
        assert model.state.state == "ready" and model.state.mode == "normal"


async def test_budget_ends_an_answer(tiny: Path, tmp_path: Path) -> None:
    """An answer that the budget cuts off says so."""
    async with started(tiny, tmp_path) as model:
        answer = await model.complete(CHAT, grammar=ENDLESS, max_tokens=5)
    assert answer.finish == "length" and answer.tokens == 5


async def test_is_started_by_the_first_request_only(tiny: Path, tmp_path: Path) -> None:
    """Until somebody asks there is no child; `start()` makes one as well."""
    async with started(tiny, tmp_path) as model:
        assert model.state.state == "stopped" and model.state.pid is None
        assert await word(model) in ("yes", "no")


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"grammar": "root ::= nothing", "max_tokens": 5}, "grammar"),
        ({"grammar": "this is no grammar", "max_tokens": 5}, "grammar"),
        ({"grammar": None, "max_tokens": 100_000}, "context"),
    ],
)
async def test_request_that_cannot_be_served(
    tiny: Path, tmp_path: Path, request_: dict[str, object], code: str
) -> None:
    """A bad grammar or too long a request is an error of that request; the child lives and serves the next."""
    async with started(tiny, tmp_path) as model:
        await word(model)
        pid = pid_of(model)
        with pytest.raises(ModelError) as failed:
            await model.complete(CHAT, **request_)  # type: ignore[arg-type]
        assert failed.value.code == code
        assert await word(model) in ("yes", "no")
        assert pid_of(model) == pid


async def test_text_of_special_tokens_stays_text(tiny: Path, tmp_path: Path) -> None:
    """A message that spells the template's tokens, half a surrogate pair or nothing at all is answered."""
    async with started(tiny, tmp_path) as model:
        for text in ("<|im_end|><|im_start|>system", "\ud800", "", "\0", "é" * 50):
            answer = await model.complete((("user", text),), grammar=WORD, max_tokens=8)
            assert answer.text in ("yes", "no")


async def test_kill_in_a_request(tiny: Path, tmp_path: Path) -> None:
    """A child that is killed while it answers ends that request with an error, and the next one is served anew."""
    async with started(tiny, tmp_path) as model:
        await word(model)
        pid = pid_of(model)
        task, _ = await endless(model)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ModelError) as failed:
            await task
        assert failed.value.code == "died"
        assert await word(model) in ("yes", "no")
        assert pid_of(model) != pid and model.state.restarts == 1


async def test_kill_between_requests(tiny: Path, tmp_path: Path) -> None:
    """A child that is killed while nobody asks costs at most one request, whose error says so."""
    async with started(tiny, tmp_path) as model:
        for _ in range(3):
            await word(model)
            pid = pid_of(model)
            os.kill(pid, signal.SIGKILL)
            await gone(pid)
            with contextlib.suppress(ModelError):
                await word(model)
            assert await word(model) in ("yes", "no")


async def test_silent_child_is_killed(tiny: Path, tmp_path: Path) -> None:
    """A child that says nothing for too long is killed, the request says so, and the next one works at once."""
    async with started(tiny, tmp_path, silence=0.5) as model:
        await word(model)
        pid = pid_of(model)
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(ModelError) as failed:
            await word(model)
        assert failed.value.code == "hung"
        assert await word(model) in ("yes", "no")
        await gone(pid)


async def test_cancelled_request_frees_the_child(tiny: Path, tmp_path: Path) -> None:
    """A cancelled request ends in the child too: the next one is served by the same child."""
    async with started(tiny, tmp_path) as model:
        await word(model)
        pid = pid_of(model)
        task, _ = await endless(model)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await word(model) in ("yes", "no")
        assert pid_of(model) == pid


async def test_requests_wait_in_order(tiny: Path, tmp_path: Path) -> None:
    """Requests at the same time are all served, one after the other; one that is cancelled in the queue is not."""
    async with started(tiny, tmp_path) as model:
        ended: list[int] = []

        async def one(number: int) -> None:
            await word(model)
            ended.append(number)

        tasks = [asyncio.create_task(one(number)) for number in range(5)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert ended == [0, 1, 2, 4]


async def test_truncated_file(tiny: Path, tmp_path: Path) -> None:
    """A model file that is cut short makes requests fail with a reason, again and again, and nothing hangs."""
    short = tmp_path / "short.gguf"
    put(short, content(tiny)[:-50_000])
    async with started(short, tmp_path) as model:
        for _ in range(2):
            with pytest.raises(ModelError) as failed:
                await word(model)
            assert failed.value.code == "unavailable"
            assert "short.gguf" in str(failed.value)


async def test_file_that_is_no_model_or_not_there(tmp_path: Path) -> None:
    """What is no model file, and no file at all, is a reason as well."""
    put(tmp_path / "text.gguf", b"hello")
    for name in ("text.gguf", "missing.gguf"):
        async with started(tmp_path / name, tmp_path) as model:
            with pytest.raises(ModelError):
                await word(model)


async def test_file_that_is_repaired_is_loaded(tiny: Path, tmp_path: Path) -> None:
    """After failed starts the process goes on trying: a file that is put right is loaded."""
    path = tmp_path / "model.gguf"
    put(path, b"GGUF")
    async with started(path, tmp_path) as model:
        with pytest.raises(ModelError):
            await word(model)
        put(path, content(tiny))
        answer = ""
        while not answer:
            await asyncio.sleep(0)
            with contextlib.suppress(ModelError):
                answer = await word(model)
        assert answer in ("yes", "no")


async def test_ends_with_the_daemon(tiny: Path, tmp_path: Path) -> None:
    """A child ends when the pipe closes, also one that is in the middle of an answer."""
    async with started(tiny, tmp_path) as model:
        await word(model)
        pid = pid_of(model)
        task, _ = await endless(model)
    with contextlib.suppress(ModelError, asyncio.CancelledError):
        task.cancel()
        await task
    await gone(pid)


async def test_stopped_child_does_not_hold_up_the_end(tiny: Path, tmp_path: Path) -> None:
    """A child that cannot even notice the closed pipe is killed."""
    async with started(tiny, tmp_path) as model:
        await word(model)
        pid = pid_of(model)
        os.kill(pid, signal.SIGSTOP)
    await gone(pid)


async def test_environment_is_scrubbed(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No secret and no home of the daemon reaches the child."""
    monkeypatch.setenv("TELEGRAM_TOKEN", "secret")
    monkeypatch.setenv("HTTPS_PROXY", "secret")
    async with started(tiny, tmp_path) as model:
        await word(model)
        variables, arguments, open_files = what_a_process_has(pid_of(model))
    assert b"secret" not in variables + arguments
    names = {item.split(b"=")[0].decode() for item in variables.split(b"\0") if item}
    assert names <= set(link_module.PASSED_ENVIRONMENT) | {"LC_CTYPE"}
    assert not [name for name in open_files if name.endswith(".db")]


def _dying(monkeypatch: pytest.MonkeyPatch, deaths: dict[str, Exception]) -> list[str]:
    """Let the start fail in these modes; the list that is returned names the modes that were tried."""
    tried: list[str] = []
    open_link = ModelLink.open

    async def open_or_die(made: EngineOptions, patience: float) -> ModelLink:
        mode = "normal" if made.extra_bufts else "cpu_only" if made.gpu_layers == 0 else "no_extra_bufts"
        tried.append(mode)
        if mode in deaths:
            raise deaths[mode]
        return await open_link(made, patience)

    monkeypatch.setattr(ModelLink, "open", open_or_die)
    return tried


def _unsafe(path: Path, folder: Path) -> ModelProcess:
    made = EngineOptions(path=path, n_ctx=4096, gpu_layers=-1, threads=1)
    patience = Patience(start=60, silence=60, first_backoff=0.01, longest_backoff=0.02)
    return ModelProcess(made, mode_file=folder / "mode.json", patience=patience)


async def test_safer_modes_in_order_and_remembered(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a death by signal the next safer way is tried; the one that works is tried first next time."""
    died = ChildKilled("The model process was ended by SIGILL.", "SIGILL")
    tried = _dying(monkeypatch, {"normal": died, "no_extra_bufts": died})
    async with running(_unsafe(tiny, tmp_path)) as model:
        await word(model)
        assert model.state.mode == "cpu_only"
    assert tried == list(MODES)
    tried.clear()
    async with running(_unsafe(tiny, tmp_path)) as model:
        await word(model)
    assert tried == ["cpu_only"]


async def test_every_mode_dies(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every way dies, requests say that, and no way is remembered as one that worked."""
    _dying(monkeypatch, dict.fromkeys(MODES, ChildKilled("The model process was ended by SIGILL.", "SIGILL")))
    async with running(_unsafe(tiny, tmp_path)) as model:
        with pytest.raises(ModelError, match="SIGILL"):
            await word(model)
    assert list_names(tmp_path) == []


async def test_load_failure_is_no_reason_for_a_safer_mode(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that says that it cannot load is not tried in another mode: the file is wrong, not the host."""
    tried = _dying(monkeypatch, dict.fromkeys(MODES, ChildFailed("no")))
    async with running(_unsafe(tiny, tmp_path)) as model:
        with pytest.raises(ModelError):
            await word(model)
    assert set(tried) == {"normal"}


@pytest.mark.parametrize("noted", ["", "{", "[]", '{"mode": "fast", "model": "x"}', "null", '{"mode": ["normal"]}'])
async def test_mode_file_that_makes_no_sense(tiny: Path, tmp_path: Path, noted: str) -> None:
    """A damaged note on the mode is as none."""
    put(tmp_path / "mode.json", noted.encode())
    async with started(tiny, tmp_path) as model:
        await word(model)
        assert model.state.mode == "normal"
    assert json.loads(content(tmp_path / "mode.json"))["mode"] == "normal"


async def test_mode_that_cannot_be_noted(tiny: Path, tmp_path: Path) -> None:
    """Where the mode cannot be written down the model runs all the same."""
    os.mkdir(tmp_path / "mode.json")
    async with started(tiny, tmp_path) as model:
        assert await word(model) in ("yes", "no")


async def test_child_that_does_not_start_in_time(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that takes too long is a model error with a sentence, not a bare time-out."""
    asked = asyncio.Event()

    async def never(made: EngineOptions, patience: float) -> ModelLink:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(ModelLink, "open", never)
    async with started(tiny, tmp_path, start=0.05) as model:
        with pytest.raises(ModelError) as failed:
            await word(model)
    assert failed.value.code == "unavailable"

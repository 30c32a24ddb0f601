"""The command line and the daemon as processes: output, exit statuses, start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.gguf_vocab import write_tiny_model
from support.house import House, Wire, connected, house_environ, house_places, listening, write_settings
from support.scripted import plan, say
from typer.testing import CliRunner

from metnosd.cli import app

MAIN = "from metnosd.cli import main; main()"
MOVE = plan(("find_files", {"extension": "txt"}), ("move_files", {"to": "Box"}))
MOVE_TEXT = "move the txt files to Box"


@dataclass
class Ran:
    """What a command left."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout; fails where there is more or less."""
        return json.loads(self.out)


async def run(folder: Path, *args: str, stdin: str = "", **more: str) -> Ran:
    """Run `metnosd` with these arguments against the house in `folder`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        MAIN,
        *args,
        env=house_environ(folder) | more,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate(stdin.encode())
    assert process.returncode is not None
    assert b"Traceback" not in err, err.decode()
    return Ran(process.returncode, out.decode(), err.decode())


@contextlib.asynccontextmanager
async def serving(folder: Path, **more: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`metnosd serve` in the house in `folder`, once it says that it is ready."""
    address = str(folder / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address)
        systemd.setblocking(False)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            MAIN,
            "serve",
            env=house_environ(folder) | {"NOTIFY_SOCKET": address} | more,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            said = asyncio.create_task(asyncio.get_running_loop().sock_recv(systemd, 1000))
            ended = asyncio.create_task(process.wait())
            await asyncio.wait([said, ended], return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            if not said.done():
                said.cancel()
                _, err = await process.communicate()
                raise AssertionError(f"the daemon did not start: {err.decode()}")
            assert b"READY=1" in said.result()
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()
            os.unlink(address)


async def stop(process: asyncio.subprocess.Process) -> str:
    """Send SIGTERM; the log, when the daemon has ended well."""
    process.terminate()
    _, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    assert b"Traceback" not in err, err.decode()
    return err.decode()


@contextlib.asynccontextmanager
async def wire_to(folder: Path) -> AsyncIterator[Wire]:
    """A connection to the daemon of the house in `folder`."""
    async with connected(house_places(folder).socket) as wire:
        yield wire


def furnish(folder: Path, **settings: dict[str, Any]) -> None:
    """A house that nobody has lived in yet."""
    (folder / "home").mkdir()
    (folder / "state").mkdir()
    write_settings(folder / "state" / "metnosd.toml", folder / "home", settings)


def furnish_with_tiny_model(folder: Path) -> None:
    """A house whose model is the tiny one."""
    furnish(folder, model={"name": "tiny"})
    path = write_tiny_model(folder / "tiny.gguf", n_ctx=32768)
    (folder / "state" / "models.toml").write_text(
        f'[models.tiny]\ncontext = 32768\nsources = [{{ kind = "path", path = "{path}" }}]\n'
    )
    write_settings(
        folder / "state" / "metnosd.toml",
        folder / "home",
        {"model": {"name": "tiny", "fetch": True, "threads": 1}},
    )


async def test_ask_prints_the_reply(house: House) -> None:
    """`ask` prints the text and exits 0; with `--json` exactly one document, the last event."""
    house.put("a.txt")
    steps = plan(("find_files", {"name": "a.txt"}))
    house.model.will(steps, steps)
    async with listening(house):
        plain = await run(house.folder, "ask", "find a.txt")
        asked = await run(house.folder, "ask", "find a.txt", "--json")
    assert plain.status == 0 and "~/a.txt" in plain.out
    assert asked.status == 0
    assert asked.json["type"] == "reply" and asked.json["outcome"]["status"] == "done"


@pytest.mark.parametrize(("answer", "status"), [("--yes", 0), ("--no", 1), ("", 1)])
async def test_ask_answers_the_question(house: House, answer: str, status: int) -> None:
    """`--yes` and `--no` answer; without a terminal and without either the answer is no. Stdout has the reply only."""
    house.put("a.txt", "Box/")
    house.model.will(MOVE)
    async with listening(house):
        done = await run(house.folder, "ask", MOVE_TEXT, "--json", *([answer] if answer else []))
    assert done.status == status
    assert done.json["outcome"]["status"] == ("done" if status == 0 else "refused")
    assert "move ~/a.txt" in done.err
    assert ("Box/a.txt" in house.tree()) is (status == 0)


async def test_failures_exit_1_with_the_reason(house: House) -> None:
    """A refused or failed request exits 1; its reason is there in words, and `--json` stays one document."""
    house.model.will("no plan", "no plan")
    async with listening(house):
        empty = await run(house.folder, "ask", " ", "--json")
        nothing = await run(house.folder, "undo", "--json")
        no_plan = await run(house.folder, "ask", "find a.txt")
        long = await run(house.folder, "ask", "x" * 17_000)
    assert empty.status == 1 and empty.json["type"] == "error" and empty.err
    assert nothing.status == 1 and nothing.json["outcome"]["status"] == "refused"
    assert no_plan.status == 1 and "could not turn that into" in no_plan.out
    assert long.status == 1 and "16000" in long.err and long.out == ""


async def test_undo_redo_history_status_schedules(house: House) -> None:
    """Each of these has a text form and a JSON form of one document, and exits 0."""
    house.put("a.txt", "Box/")
    await house.ask(MOVE_TEXT, MOVE, yes=True)
    async with listening(house):
        undone = await run(house.folder, "undo", "1", "--json")
        assert undone.status == 0 and undone.json["outcome"]["status"] == "done"
        redone = await run(house.folder, "redo")
        assert redone.status == 0 and redone.out
        history = await run(house.folder, "history", "--json")
        assert [turn["kind"] for turn in history.json["turns"]] == ["redo", "undo", "act"]
        shown = await run(house.folder, "history")
        assert shown.status == 0 and MOVE_TEXT in shown.out
        status = await run(house.folder, "status", "--json")
        assert status.json["model"]["name"] == "scripted" and "type" not in status.json
        assert (await run(house.folder, "schedules", "--json")).json == {"schedules": []}


async def test_chat_goes_on_until_an_empty_line(house: House) -> None:
    """Lines of stdin are messages; an empty line or the end of stdin ends the chat with status 0."""
    house.model.will(say("Hello."), say("Hello again."))
    async with listening(house):
        done = await run(house.folder, "chat", stdin="hello\nhi\n\nnever\n")
    assert done.status == 0
    assert done.out.splitlines() == ["Hello.", "Hello again."]


@pytest.mark.parametrize("command", [["ask", "hello"], ["status", "--json"], ["chat"]])
async def test_daemon_that_is_not_there_is_status_3(tmp_path: Path, command: list[str]) -> None:
    """Without a daemon the exit status is 3, with a sentence on stderr that says what to do, and no output."""
    furnish(tmp_path)
    done = await run(tmp_path, *command, stdin="hello\n")
    assert done.status == 3
    assert "metnosd serve" in done.err and done.out == ""


WRONG = (
    ["nothing"],
    ["ask"],
    ["ask", "a", "--yes", "--no"],
    ["ask", "--colour"],
    ["undo", "x"],
    ["undo", "0"],
    ["install"],
    ["install", "--user", "--system"],
    ["model", "fetch", "a", "b"],
)


@pytest.mark.parametrize("command", WRONG, ids=" ".join)
def test_usage_is_status_2(command: list[str]) -> None:
    """A command that is not one, or is given wrong, exits 2 and prints nothing on stdout."""
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    assert done.stdout == "" and done.stderr


async def test_wrong_settings_are_status_1(tmp_path: Path) -> None:
    """A wrong setting stops `serve` and other commands with file and key; so does a file that is not there."""
    furnish(tmp_path)
    write_settings(tmp_path / "state" / "metnosd.toml", tmp_path / "home", {"model": {"colour": 1}})
    for command in (["serve"], ["grammar"], ["plan", "hello", "--no-model"]):
        done = await run(tmp_path, *command)
        assert done.status == 1 and "metnosd.toml" in done.err and "model.colour" in done.err
    missing = await run(tmp_path, "serve", "--config", str(tmp_path / "nowhere.toml"))
    assert missing.status == 1 and "nowhere.toml" in missing.err


async def test_plan_without_a_daemon(tmp_path: Path) -> None:
    """`plan --no-model` works alone, shows every stage in one document, and makes no noise."""
    furnish(tmp_path)
    done = await run(tmp_path, "plan", MOVE_TEXT, "--no-model", "--json")
    assert done.status == 0, done.err
    assert {"signals", "pool", "grammar_sha256", "constraint", "plan", "resolved", "verdict", "path"} <= set(done.json)
    undo = await run(tmp_path, "plan", "undo", "--json", METNOS_NOW="2026-11-18T12:00:00+01:00")
    assert undo.json["path"] == "fast"
    for text in ("", "x" * 20_000):
        refused = await run(tmp_path, "plan", text, "--no-model", "--json")
        assert refused.status == 1 and refused.json["error"]["message"]


async def test_plan_without_a_model_file(tmp_path: Path) -> None:
    """Where the model is not there `plan` says so and exits 1, with one document."""
    furnish(tmp_path)
    done = await run(tmp_path, "plan", MOVE_TEXT, "--json")
    assert done.status == 1 and done.json["error"]["code"] == "unavailable"


async def test_plan_by_the_running_daemon(house: House) -> None:
    """`plan` asks the daemon that runs, whose model is warm."""
    house.put("a.txt", "Box/")
    house.model.will(MOVE)
    async with listening(house):
        done = await run(house.folder, "plan", MOVE_TEXT, "--json")
    assert done.status == 0 and done.json["verdict"]["answer"] == "ask"
    assert "a.txt" in house.tree()


async def test_commands_that_print(tmp_path: Path) -> None:
    """`executors`, `grammar` and `schema-grammar` print what they promise, and name what they do not know."""
    furnish(tmp_path)
    executors = await run(tmp_path, "executors", "--json")
    fields = {"name", "summary", "takes", "gives", "effect", "capability", "reversible", "schema"}
    assert all(set(item) >= fields for item in executors.json["executors"])
    grammar = await run(tmp_path, "grammar", "--pool", "find_files,final_answer", "--typed")
    assert grammar.status == 0 and grammar.out.startswith("root ::=")
    assert (await run(tmp_path, "grammar", "--pool", "nothing")).status == 1
    schema = await run(tmp_path, "schema-grammar", "-", stdin='{"type": "boolean"}')
    assert schema.status == 0 and "true" in schema.out
    assert (await run(tmp_path, "schema-grammar", "-", stdin="{")).status == 1
    assert (await run(tmp_path, "schema-grammar", str(tmp_path / "none.json"))).status == 1


async def test_serve_answers_and_stops(tmp_path: Path) -> None:
    """READY=1 is said when the socket answers; without a model everything else works; SIGTERM ends with status 0."""
    furnish(tmp_path)
    async with serving(tmp_path) as process:
        async with wire_to(tmp_path) as wire:
            assert (await wire.ask(id="1", type="status"))["model"]["state"] in ("missing", "starting")
            reply = await wire.ask(id="2", type="message", text="find a.txt")
            assert reply["outcome"]["status"] == "failed" and "model" in reply["text"]
            assert (await wire.ask(id="3", type="message", text="undo"))["outcome"]["status"] == "refused"
        await stop(process)
    assert not house_places(tmp_path).socket.exists()


async def test_second_daemon_exits_with_a_reason_and_harms_nothing(tmp_path: Path) -> None:
    """A second daemon in the same home exits 1, and the turns of the first are not taken for interrupted ones."""
    furnish(tmp_path)
    async with serving(tmp_path) as process:
        database = house_places(tmp_path).database
        with contextlib.closing(sqlite3.connect(database)) as db, db:
            values = "'t', 'owner', 'test', 'm', 'open', 'act', 'hello', '2026-11-18T12:00:00+00:00'"
            columns = "id, user, channel, message_id, state, kind, text, received_at"
            db.execute(f"insert into turns ({columns}) values ({values})")
        second = await run(tmp_path, "serve")
        assert second.status == 1 and "Another daemon" in second.err
        with contextlib.closing(sqlite3.connect(database)) as db:
            assert db.execute("select state from turns where id = 't'").fetchone() == ("open",)
        async with wire_to(tmp_path) as wire:
            assert (await wire.ask(id="1", type="status"))["type"] == "status"
        await stop(process)


async def test_starts_after_a_kill(tmp_path: Path) -> None:
    """What a killed daemon leaves behind does not stop the next one."""
    furnish(tmp_path)
    async with serving(tmp_path) as process:
        process.kill()
        await process.wait()
    assert house_places(tmp_path).socket.exists()
    async with serving(tmp_path) as process:
        await stop(process)


async def test_question_outlives_the_stop_of_a_process(tmp_path: Path) -> None:
    """A question that was open at SIGTERM is open after the next start, and its yes does what it showed."""
    house = House(tmp_path, settings={"consent": {"minutes": 500000.0}})
    house.put("a.txt", "Box/")
    talk = house.say(MOVE_TEXT, MOVE)
    question = await talk.question()
    await house.close()
    for _ in range(2):
        async with serving(tmp_path) as process:
            await stop(process)
    async with serving(tmp_path) as process, wire_to(tmp_path) as wire:
        assert (await wire.ask(id="c", type="consent", token=question.token, answer="yes"))["accepted"]
        assert "Box/a.txt" in house.tree()
        assert (await wire.ask(id="u", type="undo"))["outcome"]["status"] == "done"
        assert "a.txt" in house.tree()


async def test_sigterm_with_a_request_in_flight(tmp_path: Path) -> None:
    """With a model that cannot answer any more the stop is clean all the same, and no child is left."""
    furnish_with_tiny_model(tmp_path)
    async with serving(tmp_path) as process:
        async with wire_to(tmp_path) as wire:
            await wire.ask(id="1", type="message", text="find a.txt")
            child = (await wire.ask(id="2", type="status"))["model"]["pid"]
            assert child
            os.kill(child, signal.SIGSTOP)
            await wire.send({"id": "3", "type": "message", "text": "find b.txt"})
            while (await wire.next("progress"))["stage"] != "planning":
                pass
            await stop(process)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


async def test_model_that_is_killed_in_a_plan(tmp_path: Path) -> None:
    """The death of the model process in the middle of a plan is a sentence, and the next message is planned."""
    furnish_with_tiny_model(tmp_path)
    async with serving(tmp_path) as process:
        async with wire_to(tmp_path) as wire:
            await wire.ask(id="1", type="message", text="find a.txt")
            child = (await wire.ask(id="2", type="status"))["model"]["pid"]
            os.kill(child, signal.SIGSTOP)
            await wire.send({"id": "3", "type": "message", "text": "find b.txt"})
            while (await wire.next("progress"))["stage"] != "planning":
                pass
            os.kill(child, signal.SIGKILL)
            died = await wire.next("reply")
            assert died["outcome"]["status"] == "failed" and "model process ended" in died["text"]
            again = await wire.ask(id="4", type="message", text="find c.txt")
            assert "model" not in again["text"]
            assert (await wire.ask(id="5", type="status"))["model"]["pid"] != child
        await stop(process)

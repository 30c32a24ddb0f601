"""The Unix socket as a foreign program meets it: lines in, lines out, identity by uid."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
from support.house import House, connected, listening
from support.scripted import held, plan, say
from support.trees import as_nobody

from channels.unix_socket import MAX_LINE, SocketInUse, UnixSocket

MOVE = plan(("find_files", {"extension": "txt"}), ("move_files", {"to": "Box"}))
MOVE_TEXT = "move the txt files to Box"


async def test_message_gets_progress_and_one_last_event(house: House) -> None:
    """Every event of a message carries its id, and the last is the reply with the outcome of `INTERFACES`."""
    house.put("a.txt")
    house.model.will(plan(("find_files", {"name": "a.txt"})))
    async with listening(house), connected(house.places.socket) as wire:
        await wire.send({"id": "1", "type": "message", "text": "find a.txt"}, {"id": "2", "type": "status"})
        events = []
        while len([event for event in events if event["type"] in ("reply", "status")]) < 2:
            event = await wire.read()
            assert event is not None
            events.append(event)
    mine = [event for event in events if event["id"] == "1"]
    assert {event["type"] for event in mine[:-1]} == {"progress"}
    reply = mine[-1]
    assert reply["type"] == "reply" and reply["undo"] is None
    assert reply["outcome"]["status"] == "done"
    step = reply["outcome"]["steps"][0]
    assert set(step) == {"tool", "status", "count", "entries", "truncated", "error"}
    assert {"path", "name", "size", "modified"} <= set(step["entries"][0])


async def test_consent_over_the_socket(house: House) -> None:
    """The question has token, digest, text, steps and end; its answer is a request with an id of its own."""
    house.put("a.txt", "Box/")
    house.model.will(MOVE)
    async with listening(house), connected(house.places.socket) as wire:
        await wire.send({"id": "m", "type": "message", "text": MOVE_TEXT})
        question = await wire.next("consent_request")
        assert question["id"] == "m"
        assert set(question) >= {"token", "digest", "text", "steps", "expires_at"}
        assert question["steps"][0]["effects"][0]["kind"] == "move"
        await wire.send({"id": "c", "type": "consent", "token": question["token"], "answer": "yes"})
        ends = {}
        while len(ends) < 2:
            event = await wire.next("consent", "reply")
            ends[event["id"]] = event
    assert ends["c"]["accepted"] is True
    assert ends["m"]["outcome"]["status"] == "done" and ends["m"]["undo"]["actions"] == 1


async def test_consent_from_another_connection(house: House) -> None:
    """A question put on one connection can be answered on another of the same person."""
    house.put("a.txt", "Box/")
    house.model.will(MOVE)
    async with listening(house), connected(house.places.socket) as first, connected(house.places.socket) as second:
        await first.send({"id": "m", "type": "message", "text": MOVE_TEXT})
        question = await first.next("consent_request")
        assert (await second.ask(id="c", type="consent", token=question["token"], answer="no"))["accepted"]
        assert (await first.next("reply"))["outcome"]["status"] == "refused"


@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        b"{",
        b"[]",
        b"null",
        b"3",
        b'"message"',
        b"\xff\xfe{}",
        b'{"type": "message", "text": "\xff"}',
        b'{"type": "nothing"}',
        b'{"type": null}',
        b'{"type": ["message"]}',
        b"{}",
        b'{"type": "message"}',
        b'{"type": "message", "text": null}',
        b'{"type": "message", "text": 5}',
        b'{"type": "message", "text": ["a"]}',
        b'{"type": "message", "text": ""}',
        b'{"type": "message", "text": "  "}',
        b'{"type": "message", "text": "\\ud800"}',
        b'{"type": "message", "text": "hi", "lang": ["en"]}',
        b'{"type": "message", "text": "hi", "lang": 5}',
        b'{"type": "message", "text": "hi", "message_id": {}}',
        b'{"type": "message", "text": "hi", "message_id": "\\ud800"}',
        b'{"type": "message", "text": "hi", "conversation": "\\udfff"}',
        b'{"type": "consent"}',
        b'{"type": "consent", "token": "x", "answer": "maybe"}',
        b'{"type": "consent", "token": 5, "answer": "yes"}',
        b'{"type": "undo", "count": 0}',
        b'{"type": "undo", "count": "one"}',
        b'{"type": "undo", "count": true}',
        b'{"type": "redo", "count": 1.5}',
        b'{"type": "undo", "count": 1e999}',
        b'{"type": "undo", "count": NaN}',
        b'{"type": "cancel", "message": 7}',
        b'{"type": "plan", "text": ""}',
        b'{"id": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
    ],
)
async def test_line_that_is_no_request_gets_an_error(house: House, line: bytes) -> None:
    """Whatever the line, there is one error with a code and a sentence, and the connection stays open."""
    async with listening(house), connected(house.places.socket) as wire:
        await wire.raw(line + b"\n")
        event = await wire.next("error")
        assert event["code"] and event["code"] != "internal" and event["message"]
        assert (await wire.ask(id="s", type="status"))["type"] == "status"


async def test_line_of_the_largest_length_is_read(house: House) -> None:
    """A line of exactly 1 MiB is a request; one byte more is too long, and the next line is read again."""
    async with listening(house), connected(house.places.socket) as wire:
        frame = b'{"type":"status","x":""}'
        await wire.raw(frame[:-2] + b"x" * (MAX_LINE - len(frame)) + frame[-2:] + b"\n")
        assert (await wire.next("status", "error"))["type"] == "status"
        await wire.raw(frame[:-2] + b"x" * (MAX_LINE - len(frame) + 1) + frame[-2:] + b"\n")
        assert (await wire.next("status", "error"))["code"] == "too_long"
        await wire.raw(b"x" * (2 * MAX_LINE) + b"\n" + frame + b"\n")
        assert (await wire.next("status", "error"))["code"] == "too_long"
        assert (await wire.next("status", "error"))["type"] == "status"


async def test_endless_line_is_refused_and_ends(house: House, recwarn: pytest.WarningsRecorder) -> None:
    """A line that is too long and never ends is answered once; the end of the connection ends it, without noise."""
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
    async with listening(house), connected(house.places.socket) as wire:
        await wire.raw(b"x" * (2 * MAX_LINE))
        wire.end()
        assert (await wire.next("error"))["code"] == "too_long"
        assert await wire.read() is None
        async with connected(house.places.socket) as other:
            assert (await other.ask(id="s", type="status"))["type"] == "status"
    assert faults == []


async def test_last_line_without_newline(house: House) -> None:
    """A line that the end of the connection cuts off is no request."""
    async with listening(house), connected(house.places.socket) as wire:
        await wire.raw(b'{"type": "status"}')
        wire.end()
        assert (await wire.next("error"))["code"] == "bad_request"
        assert await wire.read() is None


async def test_empty_lines_are_passed_over(house: House) -> None:
    """Blank lines between requests are nothing."""
    async with listening(house), connected(house.places.socket) as wire:
        await wire.raw(b'\n\r\n  \n{"id": 1, "type": "status"}\r\n')
        assert (await wire.read() or {})["id"] == 1


async def test_id_comes_back_as_it_was(house: House) -> None:
    """Any JSON value serves as id, also text that is no Unicode."""
    async with listening(house), connected(house.places.socket) as wire:
        for number in ("a", 5, 1.5, None, True, ["x"], {"y": "\u2028"}, "\ud800", "ä\n"):
            await wire.send({"id": number, "type": "status"})
            assert (await wire.next("status"))["id"] == number


async def test_requests_are_served_side_by_side(house: House) -> None:
    """While one message waits for its model, another request of the same connection is answered."""
    slow = held(say("At last."))
    house.model.will(slow)
    async with listening(house), connected(house.places.socket) as wire:
        await wire.send({"id": "slow", "type": "message", "text": "hello"})
        assert slow.begun and slow.go
        await slow.begun.wait()
        assert (await wire.ask(id="quick", type="status"))["id"] == "quick"
        slow.go.set()
        assert (await wire.next("reply"))["id"] == "slow"


async def test_many_clients_at_once(house: House) -> None:
    """Twenty connections get each their own answer."""
    house.model.will(*[say("Hello.")] * 20)

    async def one(number: int) -> bool:
        async with connected(house.places.socket) as wire:
            reply = await wire.ask(id=number, type="message", text="hello")
            return bool(reply["id"] == number and reply["type"] == "reply")

    async with listening(house):
        assert all(await asyncio.gather(*map(one, range(20))))


async def test_client_that_leaves_in_the_middle(house: House) -> None:
    """A client that goes while its message is under way does not stop it; its repeat gets the reply."""
    house.put("a.txt")
    slow = held(plan(("find_files", {"name": "a.txt"})))
    house.model.will(slow)
    request = {"id": "1", "type": "message", "text": "find a.txt", "message_id": "same"}
    async with listening(house):
        async with connected(house.places.socket) as wire:
            await wire.send(request)
            assert slow.begun and slow.go
            await slow.begun.wait()
        async with connected(house.places.socket) as wire:
            await wire.send(request)
            slow.go.set()
            assert (await wire.next("reply", "error"))["outcome"]["status"] == "done"
    assert len(house.model.asked) == 1


async def test_client_that_resets_the_connection(house: House) -> None:
    """A connection that is torn down with unread data makes no noise and harms no other."""
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
    async with listening(house):
        for _ in range(20):
            rude = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            await asyncio.to_thread(rude.connect, str(house.places.socket))
            await asyncio.to_thread(rude.sendall, b'{"type": "status"}\n' * 50)
            rude.close()
        async with connected(house.places.socket) as wire:
            assert (await wire.ask(id="s", type="status"))["type"] == "status"
    assert faults == []


async def test_cancel_names_a_request_or_a_message(house: House) -> None:
    """A running message is cancelled by the id of its request, or by its message id, also from elsewhere."""
    for named in ("request", "message"):
        slow = held(say("Never."))
        house.model.will(slow)
        async with listening(house), connected(house.places.socket) as wire, connected(house.places.socket) as other:
            await wire.send({"id": "request", "type": "message", "text": "hello", "message_id": "message" + named})
            assert slow.begun
            await slow.begun.wait()
            target = named if named == "request" else "message" + named
            assert (await other.ask(id="c", type="cancel", message=target))["outcome"]["status"] == "done"
            assert (await wire.next("reply"))["outcome"]["status"] == "refused"


async def test_cancel_in_the_same_packet_as_its_message(house: House) -> None:
    """A cancel right behind its message stops it."""
    house.model.will(held(say("Never.")))
    async with listening(house), connected(house.places.socket) as wire:
        await wire.send({"id": "m", "type": "message", "text": "hello"}, {"id": "c", "type": "cancel", "message": "m"})
        first = await wire.next("reply")
        said = first if first["id"] == "c" else await wire.next("reply")
        assert said["outcome"]["status"] == "done"
        ended = first if first["id"] == "m" else await wire.next("reply")
        assert ended["outcome"]["status"] == "refused"


async def test_undo_redo_history_schedules_plan(house: House) -> None:
    """Every other request ends in the one event that `INTERFACES` gives it."""
    house.put("a.txt", "Box/")
    house.model.will(MOVE)
    async with listening(house), connected(house.places.socket) as wire:
        await wire.send({"id": "m", "type": "message", "text": MOVE_TEXT})
        question = await wire.next("consent_request")
        await wire.send({"id": "c", "type": "consent", "token": question["token"], "answer": "yes"})
        await wire.next("reply")
        assert (await wire.ask(id="u", type="undo"))["outcome"]["status"] == "done"
        assert "a.txt" in house.tree()
        assert (await wire.ask(id="r", type="redo", count=1))["outcome"]["status"] == "done"
        assert "Box/a.txt" in house.tree()
        assert (await wire.ask(id="h", type="history"))["turns"][0]["kind"] == "redo"
        assert (await wire.ask(id="s", type="schedules"))["schedules"] == []
        house.model.will(MOVE)
        shown = await wire.ask(id="p", type="plan", text=MOVE_TEXT)
        assert shown["type"] == "plan" and shown["verdict"]["answer"] == "ask"
        assert set(shown) >= {"signals", "pool", "grammar_sha256", "constraint", "resolved", "path", "timings_ms"}


async def test_names_that_are_no_text_cross_the_socket(house: House) -> None:
    """A name that is not UTF-8 is shown escaped, with its bytes in base64, on one line of valid JSON."""
    house.put("bad\udcff\n.txt", text="x")
    house.model.will(plan(("find_files", {"extension": "txt"})))
    async with listening(house), connected(house.places.socket) as wire:
        reply = await wire.ask(id="1", type="message", text="find the txt files")
    entry = reply["outcome"]["steps"][0]["entries"][0]
    assert "\\xff" in entry["path"] and entry["path_b64"]
    assert "\ufffd" not in json.dumps(reply)


_FOREIGN = """
import json, socket, sys
client = socket.socket(socket.AF_UNIX)
drop()
try:
    client.connect(sys.argv[1])
    try:
        client.sendall(sys.argv[2].encode() + b"\\n")
    except BrokenPipeError:
        pass
    print(client.makefile().readline())
except PermissionError:
    print(json.dumps({"type": "no way in"}))
client.close()
"""


async def _as_foreigner(path: Path, **request: Any) -> dict[str, Any]:
    """The first event that another user of the machine gets."""
    path.parent.chmod(0o755)
    for folder in path.parent.parents:
        if folder.owner() == Path.home().owner() and folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    event: dict[str, Any] = json.loads(await asyncio.to_thread(as_nobody, _FOREIGN, str(path), json.dumps(request)))
    return event


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@needs_root
async def test_unknown_uid_is_refused(house: House) -> None:
    """Even where the file lets another user in, a uid that the settings do not name is refused with a reason."""
    async with listening(house, mode=0o666):
        event = await _as_foreigner(house.places.socket, type="message", text="hello")
    assert event["type"] == "error" and event["code"] == "refused" and "65534" in event["message"]
    assert house.model.asked == []


@needs_root
async def test_file_mode_keeps_others_out(house: House) -> None:
    """With the shipped mode another user cannot even connect."""
    async with listening(house):
        assert stat.S_IMODE(house.places.socket.stat().st_mode) == 0o600
        assert (await _as_foreigner(house.places.socket, type="status"))["type"] == "no way in"


@needs_root
async def test_known_uid_speaks_for_its_user(tmp_path: Path) -> None:
    """A uid of the settings is its own user: it cannot answer the owner's question nor see the owner's history."""
    house = House(tmp_path, settings={"socket": {"users": {"65534": "guest"}}})
    house.put("a.txt", "Box/")
    house.model.will(MOVE)
    async with listening(house, mode=0o666), connected(house.places.socket) as wire:
        await wire.send({"id": "m", "type": "message", "text": MOVE_TEXT})
        question = await wire.next("consent_request")
        path = house.places.socket
        answered = await _as_foreigner(path, type="consent", token=question["token"], answer="yes")
        assert answered["accepted"] is False
        cancelled = await _as_foreigner(path, type="cancel", message="m")
        assert cancelled["outcome"]["status"] == "nothing"
        assert (await _as_foreigner(path, type="history"))["turns"] == []
        assert (await _as_foreigner(path, type="undo"))["outcome"]["status"] != "done"
        await wire.send({"id": "c", "type": "consent", "token": question["token"], "answer": "yes"})
        assert (await wire.next("reply"))["outcome"]["status"] == "done"
    await house.close()


async def test_second_daemon_is_refused(house: House) -> None:
    """Where a daemon answers, a second one does not take its socket away."""
    async with listening(house):
        with pytest.raises(SocketInUse, match="Another daemon"):
            await UnixSocket(house.daemon, house.places.socket, 0o600).start()
        async with connected(house.places.socket) as wire:
            assert (await wire.ask(id="s", type="status"))["type"] == "status"


async def test_stale_socket_is_replaced(house: House) -> None:
    """A socket file that nobody listens on, as a kill leaves it, does not stop the start."""
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(house.places.socket))
    stale.close()
    assert house.places.socket.exists()
    async with listening(house), connected(house.places.socket) as wire:
        assert (await wire.ask(id="s", type="status"))["type"] == "status"
    assert not house.places.socket.exists()


async def test_stop_ends_connections(house: House) -> None:
    """A stop ends open connections, also one whose message is under way, and removes the file."""
    slow = held(say("Never."))
    house.model.will(slow)
    async with listening(house) as channel, connected(house.places.socket) as wire:
        await wire.send({"id": "1", "type": "message", "text": "hello"})
        assert slow.begun
        await slow.begun.wait()
        await channel.stop()
        while await wire.read() is not None:
            pass
    assert not house.places.socket.exists()

"""A whole daemon over real files, a real database and a scripted model, for one test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from support.scripted import ScriptedModel

from channels.unix_socket import UnixSocket
from metnosd.assemble import Assembly, assemble
from metnosd.daemon import Daemon
from metnosd.locations import Locations, locate
from metnosd.message import ConsentRequest, Reply
from metnosd.planner import Level
from metnosd.service import Event, Progress
from metnosd.settings import load_settings
from metnosd.user import User

NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


class Clock:
    """A clock that stands until it is put forward."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **span: float) -> None:
        """Put the clock forward by a span as `timedelta` takes it."""
        self.now += timedelta(**span)


@dataclass
class Talk:
    """A message under way, what was heard of it, and the question that it put, if it did."""

    house: House
    user: User
    task: asyncio.Task[Reply] | None = None
    events: list[Event] = field(default_factory=list)
    _asked: asyncio.Event = field(default_factory=asyncio.Event)
    _no_question: bool = False

    def hear(self, event: Event) -> None:
        """Take an event of the turn."""
        self.events.append(event)
        if isinstance(event, ConsentRequest):
            self._asked.set()
            if self._no_question and self.task is not None:
                self.task.cancel(f"an unexpected question: {event.text}")

    def unasked(self) -> None:
        """End the wait for the reply with an error if a question is put."""
        self._no_question = True

    @property
    def stages(self) -> list[str]:
        """The stages that the turn said it came to."""
        return [event.stage for event in self.events if isinstance(event, Progress)]

    async def question(self) -> ConsentRequest:
        """The newest question, once it is put; fails where the turn ends without one."""
        assert self.task is not None
        waiting = asyncio.create_task(self._asked.wait())
        await asyncio.wait([waiting, self.task], return_when=asyncio.FIRST_COMPLETED)
        if not self._asked.is_set():
            waiting.cancel()
            raise AssertionError(f"no question, but {self.task.result()}")
        self._asked.clear()
        return next(event for event in reversed(self.events) if isinstance(event, ConsentRequest))

    async def answer(self, answer: bool | str) -> bool:
        """Answer the newest question: yes, no, or by the name of a choice."""
        question = await self.question()
        choice = answer if isinstance(answer, str) else None
        return await self.house.daemon.consent(self.user, question.token, bool(answer), choice)

    async def answer_no(self) -> Reply:
        """Answer the question that is open with no; the last word."""
        question = next(event for event in reversed(self.events) if isinstance(event, ConsentRequest))
        assert await self.house.daemon.consent(self.user, question.token, False)
        return await self.reply()

    async def reply(self) -> Reply:
        """The last word."""
        assert self.task is not None
        try:
            return await self.task
        except asyncio.CancelledError:
            if not self._no_question:
                raise
            raise AssertionError(f"a question that was not expected: {self.events[-1]}") from None


class House:
    """Starts a daemon on `folder`; `home` below it is the one root."""

    def __init__(self, folder: Path, *, settings: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        self.state = folder / "state"
        self.state.mkdir(exist_ok=True)
        self.clock = Clock()
        self.model = ScriptedModel()
        self.places = house_places(folder)
        write_settings(self.places.config_file, self.home, settings or {})
        self.assembly = self._assemble()

    def _assemble(self) -> Assembly:
        return assemble(
            load_settings(self.places.config_file),
            self.places,
            self.model,
            clock=self.clock,
            home=str(self.home),
            uid=os.getuid(),
            level=Level(),
            status=lambda: {
                "model": {"state": "ready", "name": "scripted"},
                "channels": {},
                "schedules": 0,
                "versions": {"metnosd": "0"},
            },
        )

    @property
    def daemon(self) -> Daemon:
        """The daemon."""
        return self.assembly.daemon

    @property
    def owner(self) -> User:
        """The person whose home this is."""
        return self.assembly.owner

    def say(
        self,
        text: str,
        *answers: str,
        message_id: str | None = None,
        user: User | None = None,
        conversation: str = "main",
    ) -> Talk:
        """Begin a turn; `answers` are what the model will say to it."""
        self.model.will(*answers)
        who = user or self.owner
        message = self.daemon.message(who, "test", conversation, text, lang=None, message_id=message_id)
        talk = Talk(self, who)
        talk.task = asyncio.create_task(self.daemon.send(message, talk.hear))
        return talk

    async def ask(self, text: str, *answers: str, yes: bool | None = None, message_id: str | None = None) -> Reply:
        """Take a whole turn, with the answer to its question if it is to have one."""
        talk = self.say(text, *answers, message_id=message_id)
        if yes is not None:
            assert await talk.answer(yes)
        return await talk.reply()

    def reverting(self, tool: str, count: int = 1, turn: str | None = None, user: User | None = None) -> Talk:
        """Begin an undo or redo, as a button or command does."""
        talk = Talk(self, user or self.owner)
        reverting = self.daemon.revert(talk.user, "test", "main", tool, count, turn=turn, tell=talk.hear)
        talk.task = asyncio.create_task(reverting)
        return talk

    async def undo(self, count: int = 1, answer: bool | str | None = None) -> Reply:
        """Take back the last turns; `answer` is given to its question if there is to be one, and only then."""
        return await self._reverted("undo_actions", count, answer)

    async def redo(self, count: int = 1, answer: bool | str | None = None) -> Reply:
        """Do again the last undone turns."""
        return await self._reverted("redo_actions", count, answer)

    async def _reverted(self, tool: str, count: int, answer: bool | str | None) -> Reply:
        talk = self.reverting(tool, count)
        if answer is not None:
            assert await talk.answer(answer)
        else:
            talk.unasked()
        return await talk.reply()

    async def close(self) -> None:
        """Stop the daemon cleanly."""
        await self.daemon.close()
        self.assembly.close()

    async def restart(self) -> None:
        """Stop the daemon and start it again on the same files."""
        await self.close()
        self.start()

    def start(self) -> None:
        """Start the daemon again on the same files, after it was closed."""
        self.assembly = self._assemble()

    def put(self, *names: str, text: str | None = None) -> None:
        """Make files in the home, each with `text` or its name; what ends in a slash is a folder."""
        for name in names:
            path = self.home / name
            if name.endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(name if text is None else text)

    def tree(self) -> dict[str, str | None]:
        """All that is in the home: files with their bytes as text, folders with None."""
        found: dict[str, str | None] = {}
        for path in sorted(self.home.rglob("*")):
            content = path.read_bytes().decode("latin-1") if path.is_file() else None
            found[str(path.relative_to(self.home))] = content
        return found


def house_places(folder: Path) -> Locations:
    """The places of a daemon that lives in `folder`."""
    return locate(environ=house_environ(folder))


def house_environ(folder: Path) -> dict[str, str]:
    """The environment that leads to a daemon that lives in `folder`."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    return kept | {
        "HOME": str(folder / "home"),
        "METNOS_HOME": str(folder / "state"),
        "METNOS_MODELS": str(folder / "models"),
    }


def write_settings(file: Path, home: Path, more: Mapping[str, Mapping[str, Any]]) -> None:
    """Settings of a daemon whose root is `home`, in UTC, without a model."""
    tables: dict[str, dict[str, Any]] = {
        "user": {"zone": "UTC"},
        "files": {"roots": [str(home)]},
        "model": {"eager": False, "fetch": False},
    }
    for name, values in more.items():
        tables.setdefault(name, {}).update(values)
    lines = []
    for name, values in tables.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {_toml(value)}" for key, value in values.items()]
    file.write_text("\n".join(lines) + "\n")


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f'"{key}" = {_toml(item)}' for key, item in value.items()) + "}"
    return json.dumps(value)


class Wire:
    """A client of the socket that sends and reads lines as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, *requests: Mapping[str, Any]) -> None:
        """Send requests, all in one piece."""
        await self.raw(b"".join(json.dumps(request).encode() + b"\n" for request in requests))

    async def raw(self, data: bytes) -> None:
        """Send bytes."""
        self._writer.write(data)
        await self._writer.drain()

    def end(self) -> None:
        """Say that nothing more will be sent."""
        self._writer.write_eof()

    async def read(self) -> dict[str, Any] | None:
        """The next event, None at the end of the connection."""
        line = await self._reader.readline()
        return json.loads(line) if line else None

    async def next(self, *types: str) -> dict[str, Any]:
        """The next event of one of `types`; those before it are passed over."""
        while True:
            event = await self.read()
            assert event is not None, f"the connection ended without {types}"
            if event["type"] in types:
                return event

    async def ask(self, **request: Any) -> dict[str, Any]:
        """Send one request; its last event."""
        await self.send(request)
        return await self.next("reply", "error", "consent", "plan", "status", "history", "schedules")

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


@contextlib.asynccontextmanager
async def listening(house: House, mode: int = 0o600) -> AsyncIterator[UnixSocket]:
    """The socket of a house's daemon."""
    channel = UnixSocket(house.daemon, house.places.socket, mode)
    await channel.start()
    try:
        yield channel
    finally:
        await channel.stop()


@contextlib.asynccontextmanager
async def connected(path: Path) -> AsyncIterator[Wire]:
    """A connection to the socket at `path`."""
    reader, writer = await asyncio.open_unix_connection(str(path), limit=16 * 1024 * 1024)
    wire = Wire(reader, writer)
    try:
        yield wire
    finally:
        await wire.close()

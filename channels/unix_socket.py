"""The Unix socket: newline-delimited JSON, one object a line, the peer's uid as identity."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import structlog

from metnosd.message import ConsentRequest, Reply
from metnosd.service import Delivery, Event, Service, ServiceError, User

log = structlog.get_logger(__name__)

READY_S = 1.0
"""How long a connection that says nothing must stand before anything is delivered to it."""

MAX_LINE = 1024 * 1024
"""The longest line in bytes, without its newline."""

_PEER = struct.Struct("3i")


class SocketInUse(Exception):
    """Another daemon answers on the socket already."""


class UnixSocket:
    """Serves `service` on a Unix socket at `path`."""

    def __init__(self, service: Service, path: Path, mode: int) -> None:
        self._service = service
        self._path = path
        self._mode = mode
        self._connections: set[asyncio.Task[None]] = set()
        self._messages: dict[tuple[str, str], str] = {}
        self._server: asyncio.Server | None = None
        self._open: list[tuple[User, _Connection]] = []
        self._news = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen. A stale socket file is replaced; raises `SocketInUse` where a daemon answers on it."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if await _answers(self._path):
            raise SocketInUse(f"Another daemon already answers on {self._path}.")
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # The mode is there before the first client can connect: bind makes the file, listen opens it.
        listener.bind(str(self._path))
        self._path.chmod(self._mode)
        self._server = await asyncio.start_unix_server(self._accept, sock=listener, limit=MAX_LINE)
        loop = asyncio.get_running_loop()

        def hear(_delivery: Delivery) -> None:
            loop.call_soon_threadsafe(self._news.set)

        self._service.listen(hear)
        self._pump = asyncio.create_task(self._deliver(), name="socket deliveries")

    async def stop(self) -> None:
        """Close the socket and every connection."""
        if self._server is not None:
            self._server.close()
        if self._pump is not None:
            self._service.listen(lambda _delivery: None)
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            peer = writer.get_extra_info("socket")
            _, uid, _ = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            user = self._service.user_of_uid(uid)
            connection = _Connection(self._service, self._messages, reader, writer)
            if user is None:
                log.warning("socket_refused", uid=uid)
                connection.error(None, "refused", f"The user id {uid} may not use this daemon.")
            else:
                with self._ready(user, connection):
                    await connection.serve(user)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    @contextlib.contextmanager
    def _ready(self, user: User, connection: _Connection) -> Iterator[None]:
        """Deliver to `connection` while it is open, from its first message on or after a moment.

        One that only looks something up and goes takes nothing away.
        """
        loop = asyncio.get_running_loop()

        def ready() -> None:
            timer.cancel()
            if (user, connection) not in self._open:
                self._open.append((user, connection))
                self._news.set()

        timer = loop.call_later(READY_S, ready)
        connection.on_message = ready
        try:
            yield
        finally:
            timer.cancel()
            connection.on_message = None
            if (user, connection) in self._open:
                self._open.remove((user, connection))

    async def _deliver(self) -> None:
        """Hand over what waits, to the connection of each user that was opened last."""
        while True:
            await self._news.wait()
            self._news.clear()
            newest = {user.name: (user, connection) for user, connection in self._open}
            for user, connection in newest.values():
                try:
                    waiting = await self._service.deliveries(user, "socket")
                    for key in await connection.hand(waiting) if waiting else ():
                        await self._service.delivered(key)
                except Exception:
                    # A channel's supervisor: what could not be delivered waits, and the next one is.
                    log.exception("delivery_failed", user=user.name)


async def _answers(path: Path) -> bool:
    try:
        _, writer = await asyncio.open_unix_connection(str(path))
    except OSError:
        return False
    writer.close()
    return True


class _Connection:
    """One client. Requests are served side by side; lines are written whole."""

    def __init__(
        self,
        service: Service,
        messages: dict[tuple[str, str], str],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """`messages` maps a user's name and a request's id to its message under way, over all connections."""
        self.on_message: Callable[[], None] | None = None
        self._missing: set[str] = set()
        self._received = asyncio.Event()
        self._service = service
        self._messages = messages
        self._reader = reader
        self._writer = writer
        self._ways: Mapping[str, Callable[[User, dict[str, Any]], Awaitable[None]]] = {
            "message": self._message,
            "consent": self._consent,
            "plan": self._plan,
            "undo": lambda user, request: self._revert(user, request, "undo_actions"),
            "redo": lambda user, request: self._revert(user, request, "redo_actions"),
            "history": self._history,
            "schedules": self._schedules,
            "calendar": self._calendar,
            "received": self._take,
            "status": self._status,
            "cancel": self._cancel,
        }

    async def hand(self, deliveries: Sequence[Delivery]) -> list[str]:
        """Write deliveries, under no request's id; the ids of those that the client has.

        It has those that it says it received, and all where it is still there after a moment.
        """
        told = self._received = asyncio.Event()
        self._missing = {delivery.id for delivery in deliveries}
        for delivery in deliveries:
            self.send(None, {**delivery.event, "delivery": delivery.id, "conversation": delivery.conversation})
        with contextlib.suppress(TimeoutError, ConnectionError):
            await self._writer.drain()
            async with asyncio.timeout(READY_S):
                await told.wait()
        if not self._writer.is_closing() and not self._reader.at_eof():
            self._missing = set()
        return [delivery.id for delivery in deliveries if delivery.id not in self._missing]

    async def _take(self, user: User, request: dict[str, Any]) -> None:
        """Note that the client has a delivery; such a line gets no answer."""
        self._missing.discard(_text(request, "delivery", ""))
        if not self._missing:
            self._received.set()

    async def serve(self, user: User) -> None:
        """Read lines until the client goes; a line that is no request gets an error and no more."""
        async with asyncio.TaskGroup() as requests:
            while True:
                try:
                    line = await self._reader.readuntil(b"\n")
                except asyncio.IncompleteReadError as end:
                    if end.partial.strip():
                        self.error(None, "bad_request", "The last line has no newline.")
                    return
                except asyncio.LimitOverrunError as overrun:
                    self.error(None, "too_long", f"A line may have {MAX_LINE} bytes.")
                    if not await self._skip_line(overrun.consumed):
                        return
                    continue
                except ConnectionError:
                    return
                if line.strip():
                    requests.create_task(self._serve_line(user, line))

    async def _skip_line(self, seen: int) -> bool:
        """Read away the rest of a line that is too long; False where the connection ends in it."""
        while True:
            try:
                await self._reader.readexactly(seen)
                await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as overrun:
                seen = overrun.consumed
            except (asyncio.IncompleteReadError, ConnectionError):
                return False
            else:
                return True

    async def _serve_line(self, user: User, line: bytes) -> None:
        number = None
        try:
            request = _parse(line)
            number = request.get("id")
            way = self._ways.get(str(request.get("type")))
            if way is None:
                raise ServiceError("bad_request", "There is no such request type.")
            await way(user, request)
        except ServiceError as error:
            self.error(number, error.code, str(error))
        except ConnectionError:
            pass
        except Exception:
            # A channel's supervisor: the connection and the daemon go on.
            log.exception("socket_request_failed")
            self.error(number, "internal", "The daemon failed on this request; its log says why.")
        await self._flush()

    async def _flush(self) -> None:
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    def send(self, number: object, event: Mapping[str, Any]) -> None:
        """Write one event; a client that is gone hears nothing."""
        wire = json.dumps({"id": number, **event}, ensure_ascii=False).encode("utf-8", "backslashreplace")
        if not self._writer.is_closing():
            self._writer.write(wire + b"\n")

    def _tell(self, number: object, event: Event) -> None:
        if not isinstance(event, Reply):
            self.send(number, event.to_json())

    def error(self, number: object, code: str, message: str) -> None:
        """Write an error event."""
        self.send(number, {"type": "error", "code": code, "message": message})

    async def _message(self, user: User, request: dict[str, Any]) -> None:
        number = request.get("id")
        if self.on_message is not None:
            self.on_message()
        message = self._service.message(
            user,
            "socket",
            _text(request, "conversation", "main"),
            _text(request, "text", ""),
            lang=_text(request, "lang", "") or None,
            message_id=_text(request, "message_id", "") or None,
            outside=_texts(request, "forwarded"),
            reply_to=_text(request, "reply_to", "") or None,
        )

        key = (user.name, str(number))
        self._messages[key] = message.id
        try:
            reply = await self._service.send(message, lambda event: self._tell(number, event))
        finally:
            self._messages.pop(key, None)
        self.send(number, reply.to_json())

    async def _consent(self, user: User, request: dict[str, Any]) -> None:
        answer = request.get("answer")
        if answer not in ("yes", "no"):
            raise ServiceError("bad_request", 'A consent answer is "yes" or "no".')
        choice = _text(request, "choice", "") or None
        digest = _text(request, "digest", "") or None
        accepted = await self._service.consent(user, _text(request, "token", ""), answer == "yes", choice, digest)
        self.send(request.get("id"), {"type": "consent", "accepted": accepted})

    async def _plan(self, user: User, request: dict[str, Any]) -> None:
        plan = await self._service.plan(
            user,
            _text(request, "text", ""),
            lang=_text(request, "lang", "") or None,
            model=request.get("model", True) is not False,
        )
        self.send(request.get("id"), {"type": "plan", **plan})

    async def _revert(self, user: User, request: dict[str, Any], tool: str) -> None:
        count = request.get("count", 1)
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 1000:
            raise ServiceError("bad_request", "A count is a whole number from 1 to 1000.")
        number = request.get("id")
        reply = await self._service.revert(
            user,
            "socket",
            _text(request, "conversation", "main"),
            tool,
            count,
            turn=_text(request, "turn", "") or None,
            tell=lambda event: self._tell(number, event) if isinstance(event, ConsentRequest) else None,
        )
        self.send(number, reply.to_json())

    async def _history(self, user: User, request: dict[str, Any]) -> None:
        self.send(request.get("id"), {"type": "history", **await self._service.history(user)})

    async def _schedules(self, user: User, request: dict[str, Any]) -> None:
        self.send(request.get("id"), {"type": "schedules", **await self._service.schedules(user)})

    async def _calendar(self, user: User, request: dict[str, Any]) -> None:
        self.send(request.get("id"), {"type": "calendar", "text": await self._service.calendar(user)})

    async def _status(self, user: User, request: dict[str, Any]) -> None:
        self.send(request.get("id"), {"type": "status", **await self._service.status()})

    async def _cancel(self, user: User, request: dict[str, Any]) -> None:
        named = _text(request, "message", "")
        reply = await self._service.cancel(user, self._messages.get((user.name, named), named))
        self.send(request.get("id"), reply.to_json())


def _parse(line: bytes) -> dict[str, Any]:
    try:
        request = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ServiceError("bad_json", f"The line is no JSON in UTF-8: {error}.") from error
    if not isinstance(request, dict):
        raise ServiceError("bad_request", "A request is a JSON object.")
    return request


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _texts(request: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """The texts under `key`: one, a list of them, or none."""
    value = request.get(key)
    found = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ServiceError("bad_request", f"{key} is a text or a list of texts.")
    return tuple(found)


def _text(request: Mapping[str, Any], key: str, default: str) -> str:
    """The text under `key`; `default` where it is left out or null."""
    value = request.get(key)
    if value is None:
        return default
    if not isinstance(value, str):
        raise ServiceError("bad_request", f"{key} is a text.")
    if key != "text" and any("\ud800" <= char <= "\udfff" for char in value):
        raise ServiceError("bad_request", f"{key} holds half a surrogate pair.")
    return value

"""The command line's end of the Unix socket."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class NotReachable(Exception):
    """No daemon answers on the socket, or it went away before its last word."""


class Client:
    """A connection to the daemon, for the length of a block."""

    def __init__(self, path: Path, on_delivery: Callable[[dict[str, Any]], None] = lambda _event: None) -> None:
        """`on_delivery` gets what the daemon has to say unasked, such as a reminder."""
        self._path = path
        self._on_delivery = on_delivery
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._next = 0

    def __enter__(self) -> Self:
        """Connect; raises `NotReachable`."""
        try:
            self._socket.connect(str(self._path))
        except OSError as error:
            self._socket.close()
            raise NotReachable(
                f"No daemon answers on {self._path} ({error.strerror}). Start it: metnosd serve"
            ) from error
        self._lines = self._socket.makefile("rb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self._lines.close()
        self._socket.close()

    def ask(
        self, request: Mapping[str, Any], on_event: Callable[[dict[str, Any]], None] = lambda _event: None
    ) -> dict[str, Any]:
        """Send `request` and return its last event; `on_event` gets those before it. Raises `NotReachable`.

        An error that belongs to no request, such as the refusal of this user, is a last event too.
        """
        try:
            number = self.send(request)
        except NotReachable:
            # A daemon that refuses a connection says why before it closes it.
            return self._refusal()
        for event in self._events():
            if event.get("id") is None and event["type"] == "error":
                return event
            if event.get("id") is None and event["type"] in ("delivery", "consent_request"):
                self._on_delivery(event)
                self._socket.sendall(json.dumps({"type": "received", "delivery": event["delivery"]}).encode() + b"\n")
            if event.get("id") != number:
                continue
            if event["type"] in ("progress", "consent_request"):
                on_event(event)
            else:
                return event
        raise NotReachable("The daemon went away before it answered.")

    def _refusal(self) -> dict[str, Any]:
        for event in self._events():
            if event.get("id") is None and event["type"] == "error":
                return event
        raise NotReachable("The daemon closed the connection.")

    def send(self, request: Mapping[str, Any]) -> str:
        """Send `request` under a new id, and return that."""
        self._next += 1
        number = str(self._next)
        line = json.dumps({"id": number, **request}, ensure_ascii=True).encode() + b"\n"
        try:
            self._socket.sendall(line)
        except OSError as error:
            raise NotReachable("The daemon closed the connection.") from error
        return number

    def _events(self) -> Iterator[dict[str, Any]]:
        try:
            for line in self._lines:
                yield json.loads(line)
        except (OSError, ValueError) as error:
            raise NotReachable("The daemon closed the connection.") from error

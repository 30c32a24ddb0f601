"""One child process and the socket to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import structlog

from metnosd.model.options import EngineOptions
from metnosd.model.service import Completion, ModelError
from metnosd.model.wire import HEADER, MAX_FRAME, pack, unpack

log = structlog.get_logger(__name__)

PASSED_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
"""All that the child sees of the daemon's environment: no token, no home."""


class ChildFailed(Exception):
    """The child said that it cannot load the model."""


class ChildKilled(Exception):
    """The child died before it was ready; `signal` names the signal, or is None for a plain exit."""

    def __init__(self, message: str, name: str | None) -> None:
        super().__init__(message)
        self.signal = name


class ModelLink:
    """A running child that has passed its self-test."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._events: dict[int, asyncio.Queue[dict[str, Any]]] = {}
        self._next = 1
        self._last_words: deque[str] = deque(maxlen=20)
        self._tasks = [asyncio.create_task(self._drain_stderr())]
        self.offload = False
        self.closed = False

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @classmethod
    async def open(cls, options: EngineOptions, patience: float) -> ModelLink:
        """Start a child and wait until it is ready, at most `patience` seconds.

        Raises `ChildFailed`, `ChildKilled`, `TimeoutError`.
        """
        ours, theirs = socket.socketpair()
        settings = json.dumps(asdict(options) | {"path": str(options.path)})
        with theirs, contextlib.ExitStack() as unless_started:
            unless_started.callback(ours.close)
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "metnosd.model.child",
                str(theirs.fileno()),
                settings,
                pass_fds=(theirs.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env={name: os.environ[name] for name in PASSED_ENVIRONMENT if name in os.environ},
            )
            unless_started.pop_all()
        reader, writer = await asyncio.open_connection(sock=ours)
        link = cls(process, reader, writer)
        try:
            async with asyncio.timeout(patience):
                first = await link._receive()
                if first is None:
                    raise await link._death()
        except BaseException:
            await link.close()
            raise
        if first.get("event") != "ready":
            await link.close()
            raise ChildFailed(str(first.get("message")))
        link.offload = bool(first.get("offload"))
        link._tasks.append(asyncio.create_task(link._route()))
        return link

    async def _death(self) -> ChildKilled:
        code = await self._process.wait()
        return ChildKilled(self._epitaph(code), signal.Signals(-code).name if code < 0 else None)

    def _epitaph(self, code: int) -> str:
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"
        # ggml says why it aborts; before any other death its last line is chatter.
        last = self._last_words[-1] if self._last_words and code == -signal.SIGABRT else ""
        return f"The model process {how}." + (f" Its last words: {last}" if last else "")

    async def _drain_stderr(self) -> None:
        assert self._process.stderr is not None
        while line := await _line(self._process.stderr):
            text = line.decode("utf-8", "replace").strip()
            if text:
                self._last_words.append(text)
                log.debug("model_process", line=text)

    async def _receive(self) -> dict[str, Any] | None:
        try:
            (length,) = HEADER.unpack(await self._reader.readexactly(HEADER.size))
            if length > MAX_FRAME:
                return None
            return unpack(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            return None

    async def _route(self) -> None:
        """Hand each event to the request that it belongs to; one that nobody waits for is dropped."""
        while (message := await self._receive()) is not None:
            waiting = self._events.get(int(message.get("id", 0)))
            if waiting is not None:
                waiting.put_nowait(message)
        self.closed = True
        for waiting in self._events.values():
            waiting.put_nowait({"event": "died"})

    async def wait_closed(self) -> str:
        """Wait until the child is gone; why it went."""
        await asyncio.wait([self._tasks[-1]])
        return self._epitaph(await self._process.wait())

    async def ask(
        self,
        messages: Sequence[tuple[str, str]],
        *,
        grammar: str | None,
        max_tokens: int,
        on_text: Callable[[str], None] | None,
        silence: float,
    ) -> Completion:
        """One request. A child that is silent for `silence` seconds is killed. Raises `ModelError`."""
        request = {"op": "generate", "messages": list(messages), "grammar": grammar, "max_tokens": max_tokens}
        return _completion(await self._request(request, on_text, silence))

    async def warm(self, messages: Sequence[tuple[str, str]], folder: Path, silence: float) -> None:
        """Have the chat in the KV cache, from or into a file in `folder`. Raises `ModelError`."""
        request = {"op": "warm", "messages": list(messages), "folder": str(folder)}
        event = await self._request(request, None, silence)
        if event["event"] != "warm":
            _completion(event)

    async def _request(
        self, request: dict[str, Any], on_text: Callable[[str], None] | None, silence: float
    ) -> dict[str, Any]:
        """The last event of one request."""
        number, self._next = self._next, self._next + 1
        events = self._events[number] = asyncio.Queue()
        try:
            if self.closed:
                raise ModelError("died", "The model process has ended.")
            await self._write({"id": number, **request})
            while True:
                try:
                    async with asyncio.timeout(silence):
                        event = await events.get()
                except TimeoutError:
                    self.closed = True
                    with contextlib.suppress(ProcessLookupError):
                        self._process.kill()
                    raise ModelError("hung", f"The model said nothing for {silence:.0f} s.") from None
                if event["event"] == "text" and on_text is not None:
                    on_text(event["text"])
                elif event["event"] not in ("text", "progress"):
                    return event
        except asyncio.CancelledError:
            # The child answers nobody now; it drops the request at its next look at the flag.
            self._writer.write(pack({"id": number, "op": "cancel"}))
            raise
        finally:
            del self._events[number]

    async def _write(self, message: dict[str, Any]) -> None:
        try:
            self._writer.write(pack(message))
            await self._writer.drain()
        except ConnectionError as error:
            raise ModelError("died", "The model process has ended.") from error

    async def close(self) -> None:
        """End the child and wait for it."""
        self.closed = True
        self._writer.close()
        if self._process.returncode is None:
            # Closing the socket ends a healthy child; one inside a long llama.cpp call needs more.
            try:
                async with asyncio.timeout(2):
                    await self._process.wait()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
                await self._process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _line(stream: asyncio.StreamReader) -> bytes:
    """The next line of `stream`, empty at its end; one that is too long to hold is passed over."""
    while True:
        try:
            return await stream.readline()
        except ValueError:
            continue


def _completion(event: dict[str, Any]) -> Completion:
    if event["event"] == "died":
        raise ModelError("died", "The model process ended while it worked on this.")
    if event["event"] != "done":
        raise ModelError(str(event.get("code", event["event"])), str(event.get("message", "")))
    return Completion(
        text=event["text"],
        finish=event["finish"],
        prompt_tokens=event["prompt_tokens"],
        reused_tokens=event["reused_tokens"],
        tokens=event["tokens"],
        timings_ms=event["timings_ms"],
    )

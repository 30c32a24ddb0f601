"""The model process: `python -m metnosd.model.child FD OPTIONS`.

llama.cpp aborts or segfaults its process on some hosts and some misuse, which Python cannot catch, so it
lives here. The process serves one request at a time over the socket FD, and ends when that closes.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import llama_cpp

from metnosd.model.engine import Aborted, Engine, EngineError
from metnosd.model.options import EngineOptions
from metnosd.model.wire import pack, read_frame


class Child:
    """The serving loop: a thread reads requests and cancellations, the main thread decodes."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._stream = connection.makefile("rb")
        self._requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._current: int | None = None
        self._cancelled: set[int] = set()

    def run(self, options: EngineOptions) -> None:
        """Load, prove with one short decode that this host survives it, then serve for ever."""
        threading.Thread(target=self._read, name="requests", daemon=True).start()
        try:
            engine = Engine(options, self._stopped)
            engine.generate([("user", "1")], grammar='root ::= "1"', max_tokens=1)
        except EngineError as error:
            self._send({"event": "failed", "code": error.code, "message": str(error)})
            return
        self._send({"event": "ready", "offload": engine.can_offload, "n_ctx": options.n_ctx})
        while True:
            self._serve(engine, self._requests.get())

    def _read(self) -> None:
        while (message := read_frame(self._stream.read)) is not None:
            if message.get("op") == "cancel":
                with self._lock:
                    self._cancelled.add(int(message["id"]))
            else:
                self._requests.put(message)
        # The daemon is gone. The main thread may be inside llama.cpp, so nothing but this ends in time.
        os._exit(0)

    def _stopped(self) -> bool:
        with self._lock:
            return self._current in self._cancelled

    def _serve(self, engine: Engine, request: dict[str, Any]) -> None:
        number = int(request["id"])
        with self._lock:
            self._current = number
        messages = [(str(role), str(text)) for role, text in request["messages"]]
        try:
            if request["op"] == "warm":
                engine.warm(messages, Path(request["folder"]), lambda: self._send({"id": number, "event": "progress"}))
                self._send({"id": number, "event": "warm"})
                return
            result = engine.generate(
                messages,
                grammar=request.get("grammar"),
                max_tokens=int(request["max_tokens"]),
                on_text=lambda text: self._send({"id": number, "event": "text", "text": text}),
                on_progress=lambda: self._send({"id": number, "event": "progress"}),
            )
        except Aborted:
            self._send({"id": number, "event": "cancelled"})
        except EngineError as error:
            self._send({"id": number, "event": "error", "code": error.code, "message": str(error)})
        else:
            self._send(
                {
                    "id": number,
                    "event": "done",
                    "text": result.text,
                    "finish": result.finish,
                    "prompt_tokens": result.prompt_tokens,
                    "reused_tokens": result.reused_tokens,
                    "tokens": result.tokens,
                    "timings_ms": result.timings_ms,
                }
            )
        finally:
            with self._lock:
                self._current = None
                self._cancelled.discard(number)

    def _send(self, message: dict[str, Any]) -> None:
        self._connection.sendall(pack(message))


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]  # the library ships no types
def _log(level: int, text: bytes, _data: object) -> None:
    # Levels of ggml_log_level: 3 warning, 4 error. What is below says nothing to an operator.
    if level in (3, 4):
        sys.stderr.buffer.write(text)
        sys.stderr.flush()


def main() -> None:
    """Serve on the file descriptor given as the first argument."""
    llama_cpp.llama_log_set(_log, None)
    options = json.loads(sys.argv[2])
    options["path"] = Path(options["path"])
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        Child(connection).run(EngineOptions(**options))


if __name__ == "__main__":
    main()

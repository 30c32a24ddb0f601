"""Programs of the system that are asked something: no shell, a time limit, and no more output than can be used."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

MOST_BYTES = 4_000_000
"""How much a program may print."""

_CHUNK = 65_536
_LOOK_S = 0.2


class ProgramError(Exception):
    """A program that gave no usable answer; `reason` is missing, slow or long."""

    def __init__(self, reason: str, name: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Printed:
    """What a program printed, bytes that are no UTF-8 replaced, and its exit status (negative: the signal)."""

    text: str
    status: int


def ask_program(
    argv: Sequence[str], timeout_s: float, check: Callable[[], None] = lambda: None, most: int = MOST_BYTES
) -> Printed:
    """Run `argv`, found on the PATH, in plain English and with nothing of our environment; what it printed.

    It may take `timeout_s` seconds and print `most` bytes on both of its outputs. `check` is called now and then
    and may raise to stop it. Raises ProgramError. Whatever happens, it has ended and what it began is killed.
    """
    environ = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environ,
            start_new_session=True,
        )
    except OSError as error:
        raise ProgramError("missing", argv[0]) from error
    assert process.stdout is not None
    try:
        deadline = time.monotonic() + timeout_s
        printed = _read(process.stdout.fileno(), argv[0], deadline, check, most)
        try:
            status = process.wait(max(deadline - time.monotonic(), _LOOK_S))
        except subprocess.TimeoutExpired as error:
            raise ProgramError("slow", argv[0]) from error
        return Printed(printed.decode("utf-8", "replace"), status)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def _read(stream: int, name: str, deadline: float, check: Callable[[], None], most: int) -> bytes:
    found = bytearray()
    while True:
        check()
        left = deadline - time.monotonic()
        if left <= 0:
            raise ProgramError("slow", name)
        ready, _, _ = select.select([stream], [], [], min(left, _LOOK_S))
        if not ready:
            continue
        chunk = os.read(stream, _CHUNK)
        if not chunk:
            return bytes(found)
        found += chunk
        if len(found) > most:
            raise ProgramError("long", name)

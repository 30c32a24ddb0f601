"""The pipe between the daemon and the model process: 4 bytes of length, big-endian, then JSON in UTF-8."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

MAX_FRAME = 64 * 1024 * 1024
"""No frame is longer than this many bytes; a longer one means that the two ends have lost each other."""

HEADER = struct.Struct(">I")


def pack(message: dict[str, Any]) -> bytes:
    """One frame."""
    body = json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return HEADER.pack(len(body)) + body


def unpack(body: bytes) -> dict[str, Any]:
    """The message of a frame's body; raises ValueError for what is none."""
    message = json.loads(body)
    if not isinstance(message, dict):
        raise ValueError("a frame holds no object")
    return message


def read_frame(read_exactly: Callable[[int], bytes]) -> dict[str, Any] | None:
    """The next message by a blocking `read_exactly(n)`, which gives fewer bytes only at the end; None there."""
    header = read_exactly(HEADER.size)
    if len(header) < HEADER.size:
        return None
    (length,) = HEADER.unpack(header)
    if length > MAX_FRAME:
        raise ValueError(f"a frame of {length} bytes is too long")
    body = read_exactly(length)
    return unpack(body) if len(body) == length else None

"""What steps hand to each other: entries, and what became of a step and of a whole plan."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from metnosd.sentence import Sentence

KINDS = (
    "files",
    "dirs",
    "texts",
    "messages",
    "events",
    "tasks",
    "notes",
    "urls",
    "places",
    "numbers",
    "schedules",
    "actions",
    "entries",
)
"""The kinds of entries that executors may take and give; `entries` in "takes" accepts every kind."""

Status = Literal["done", "partial", "failed", "refused", "asked", "nothing"]

MAX_SHOWN_ENTRIES = 100
"""How many entries of a step an outcome carries to a channel."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing a step found or made.

    `kind` is one of `KINDS`. `fields` are JSON values, and for a file or folder: `path` (absolute, as
    `os.fsdecode` gives it, so bytes that are no UTF-8 are lone surrogates), `name`, `size` in bytes and
    `modified` (aware `datetime`). `shown` says the entry in words, where its fields alone would not.
    """

    kind: str
    fields: Mapping[str, object] = field(default_factory=dict)
    shown: Sentence | None = None

    @property
    def path(self) -> str:
        """The absolute path of a file or folder entry; raises KeyError for any other entry."""
        return str(self.fields["path"])

    def to_json(self) -> dict[str, object]:
        """The entry as `INTERFACES` shows it: times in ISO 8601, undecodable names escaped + `path_b64`."""
        wire: dict[str, object] = {"kind": self.kind}
        for key, value in self.fields.items():
            wire[key] = to_wire(value)
        path = self.fields.get("path")
        if isinstance(path, str) and not is_text(path):
            wire["path_b64"] = base64.b64encode(os.fsencode(path)).decode("ascii")
        return wire


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What became of one step: its entries, or the reason why there are none."""

    tool: str
    status: Status
    entries: tuple[Entry, ...] = ()
    problems: tuple[Sentence, ...] = ()
    note: Sentence | None = None
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a plan. `text` is the `final_answer`, if the plan had one."""

    status: Status
    steps: tuple[StepOutcome, ...] = ()
    reason: Sentence | None = None
    text: str | None = None
    choices: tuple[str, ...] = ()


def is_text(value: str) -> bool:
    """Whether `value` is valid Unicode, that is, holds no byte smuggled in by `os.fsdecode`."""
    return not any("\ud800" <= char <= "\udfff" for char in value)


def printable(value: str) -> str:
    """`value` on one line with control, bidirectional and undecodable characters escaped.

    What is approved must be what is read: a name may hold newlines, terminal escapes, or U+202E, which
    reverses what follows it (Unicode Technical Report 36, section 2).
    """
    return "".join(_escape(char) if _must_escape(char) else char for char in value)


def to_wire(value: object) -> object:
    """A JSON value for `value`; text that is no Unicode comes out escaped."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str):
        return "".join(_escape(char) if "\ud800" <= char <= "\udfff" else char for char in value)
    if isinstance(value, Mapping):
        return {str(key): to_wire(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_wire(item) for item in value]
    return value


_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\ufeff")


def _must_escape(char: str) -> bool:
    return char < " " or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff" or char in _BIDI


def _escape(char: str) -> str:
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return named.get(char) or (f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}")

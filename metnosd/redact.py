"""Secrets taken out of what people, programs and logs are given."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, overload
from unicodedata import normalize

from metnosd.sentence import Sentence

MARK = "•••"
"""What stands where a secret stood."""

MIN_LENGTH = 6
"""The shortest value in characters that is redacted: a shorter one stands in half of all texts by chance."""

_MAX_BACKSLASHES = 8
"""So many backslashes may stand for one, or before one character: three escapings of each other."""


class Redactor:
    """Knows secrets and takes them out of texts and JSON values.

    A secret is found as it is, percent-quoted, with escapes of JSON or Python (also in text that is escaped
    up to three times, and in any mixture), in base64 of either alphabet, and in base64 of a longer text.
    One object may be used by several threads.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        """A redactor of these secrets; empty ones and ones shorter than `MIN_LENGTH` are not redacted."""
        self._lock = threading.Lock()
        self._values: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self.add(values)

    @property
    def short(self) -> int:
        """How many different secrets are known that are too short to be redacted."""
        return len({normalize("NFC", value) for value in self._values if len(value) < MIN_LENGTH})

    def add(self, values: Iterable[str]) -> None:
        """Redact these secrets too, from now on, with their accents composed or not."""
        values = tuple(values)
        with self._lock:
            forms = (normalize(form, value) for value in values if value for form in ("NFC", "NFD"))
            self._values = self._values.union(value for value in values if value).union(forms)
            redacted = [value for value in self._values if len(value) >= MIN_LENGTH]
            # A secret may begin with another one, of which the longer must win.
            ways = [way for value in sorted(redacted, key=lambda v: (-len(v), v)) for way in _ways(value)]
            self._pattern = re.compile("|".join(ways)) if ways else None

    def text(self, value: str) -> str:
        """`value` with `MARK` for each secret; `value` itself when it holds none."""
        pattern = self._pattern
        count = 1
        # A mark beside what follows it can be a secret again, if that has such marks itself.
        while pattern is not None and count:
            redacted, count = pattern.subn(MARK, value)
            value = redacted if count else value
        return value

    def json(self, value: Mapping[str, object]) -> dict[str, Any]:
        """`value`, an object of JSON, with `MARK` for each secret."""
        return dict(self.value(value))

    def cut(self, value: str) -> str:
        """`value`, the beginning of a longer text, with `MARK` for the beginning of a secret at its end."""
        for secret in self._values:
            for length in range(len(secret) - 1, MIN_LENGTH - 1, -1):
                if value.endswith(secret[:length]):
                    return value[:-length] + MARK
        return value

    @overload
    def value(self, value: str) -> str: ...

    @overload
    def value(self, value: Mapping[str, object]) -> Mapping[str, object]: ...

    @overload
    def value(self, value: object) -> object: ...

    def value(self, value: object) -> object:
        """`value` with `MARK` for each secret in its texts, also those of keys; the very object when it holds none.

        Texts, mappings, lists, tuples and sentences are walked, anything else is returned as it is. What
        held a secret comes back as a new str, dict, list, tuple or `Sentence`.
        """
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Sentence):
            values = self.value(value.values)
            return value if values is value.values else replace(value, values=values)
        if isinstance(value, Mapping):
            pairs = [(self.value(key), self.value(item)) for key, item in value.items()]
            same = all(key is k and item is i for (key, item), (k, i) in zip(value.items(), pairs, strict=True))
            return value if same else dict(pairs)
        if isinstance(value, list | tuple):
            items = [self.value(item) for item in value]
            if all(item is old for item, old in zip(items, value, strict=True)):
                return value
            return items if isinstance(value, list) else tuple(items)
        return value


def _ways(value: str) -> Iterator[str]:
    """Patterns for all that `value` may be written as."""
    yield "".join(_spelled(run) for run in re.findall(r"\\+|[^\\]", value))
    yield from _in_base64(value)


def _spelled(run: str) -> str:
    """A pattern for one character, or for a run of backslashes, in each way that it may be written."""
    if run.isascii() and run.isalnum():
        return run
    length = len(run)
    escape = rf"\\{{1,{_MAX_BACKSLASHES}}}"
    data = run.encode("utf-8", "surrogatepass")
    units = run.encode("utf-16-be", "surrogatepass").hex()
    ways = [
        "".join(f"%{byte:02x}" for byte in data),
        "".join(rf"{escape}u{units[i : i + 4]}" for i in range(0, len(units), 4)),
        "".join(rf"{escape}x{byte:02x}" for byte in data),
    ]
    if run[0] == "\\":
        return rf"(?:\\{{{length},{length * _MAX_BACKSLASHES}}}|(?i:{'|'.join(ways)}))"
    ways += [rf"{escape}x{ord(run):02x}"] if 0x80 <= ord(run) < 0x100 else []
    ways += [rf"{escape}u{ord(run):08x}"] if ord(run) > 0xFFFF else []
    plain = re.escape(run)
    named = json.dumps(run)[1:-1]
    if run.isascii() and run.isprintable():
        plain = rf"\\{{0,{_MAX_BACKSLASHES}}}{plain}" + (r"|\+" if run == " " else "")
    elif len(named) == 2:
        plain += f"|{escape}{named[1]}"
    # The longer spellings first: a percent sign is one by itself and the beginning of its own.
    return f"(?:(?i:{'|'.join(ways)})|{plain})"


_BASE64_SPELLED = {"+": r"(?:[-+]|(?i:%2b))", "/": r"(?:_|\\{0,8}/|(?i:%2f))"}


def _in_base64(value: str) -> Iterator[str]:
    """Patterns for the base64 of any bytes that hold `value`, which depend on where in three bytes it begins.

    Up to four bits of the first character stand before what matches: to look for those would make
    the search twenty times as long.
    """
    data = value.encode("utf-8", "surrogatepass")
    for before in range(3):
        digits = base64.b64encode(bytes(before) + data).decode("ascii").rstrip("=")
        first, last = -(-before * 8 // 6), (before + len(data)) * 8 // 6
        core = "".join(_BASE64_SPELLED.get(digit, digit) for digit in digits[first:last])
        shared = "[A-Za-z0-9+/_-]" if (before + len(data)) * 8 % 6 else ""
        yield f"{core}{shared}(?:=|(?i:%3d)){{0,2}}"

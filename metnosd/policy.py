"""The policy file: the rules that Vaglio judges by. A mistake in it is named with file, line and key."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import tomllib
from collections.abc import Sequence
from datetime import time
from itertools import takewhile
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from metnosd.user import Autonomy

Answer = Literal["allow", "ask", "deny"]


class PolicyError(Exception):
    """The policy file cannot be used; the message names file, line and key."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Raises(_Section):
    """What turns an allowance into a question. `night` are two wall-clock times, the second may be next day's."""

    files: int = Field(default=20, ge=0)
    bytes: int = Field(default=100_000_000, ge=0)
    overwriting: bool = True
    outside_usual: bool = True
    usual: list[str] = Field(default_factory=list)
    first_recipient: bool = True
    night: list[str] = Field(default_factory=lambda: ["23:00", "06:00"], min_length=2, max_length=2)
    exempt: list[str] = Field(default_factory=list)

    @field_validator("night")
    @classmethod
    def _clock(cls, value: list[str]) -> list[str]:
        for item in value:
            if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", item):
                raise ValueError(f"{item!r} is no time of day; allowed: HH:MM")
        return value

    def is_night(self, clock: time) -> bool:
        """Whether `clock` lies in the night."""
        begin, end = (time.fromisoformat(item) for item in self.night)
        return begin <= clock < end if begin <= end else clock >= begin or clock < end


class Guards(_Section):
    """What nothing lifts. Paths are absolute or begin with `~/`, the user's home."""

    protected: list[str] = Field(default_factory=list)
    system: list[str] = Field(default_factory=list)
    never: list[str] = Field(default_factory=list)
    never_scheduled: list[str] = Field(default_factory=list)

    @field_validator("protected", "system")
    @classmethod
    def _absolute(cls, value: list[str]) -> list[str]:
        for item in value:
            if not item.startswith(("/", "~/")) or "\0" in item:
                raise ValueError(f"{item!r} is no path; allowed: absolute ones and those that begin with ~/")
        return value

    def joined(self, other: Guards) -> Guards:
        """What either of the two guards."""
        own, more = self.model_dump(), other.model_dump()
        return Guards(**{name: list(dict.fromkeys(own[name] + more[name])) for name in own})


class Policy(_Section):
    """All rules: `levels` by autonomy level and capability."""

    levels: dict[Autonomy, dict[str, Answer]]
    raises: Raises = Field(default_factory=Raises)
    guards: Guards = Field(default_factory=Guards)

    @property
    def digest(self) -> str:
        """The SHA-256 of the rules, in hexadecimal: what was granted under others is asked again."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


def load_policy(shipped: Path, own: Path | None = None) -> Policy:
    """The policy of `own` where that exists, with the guards of `shipped` too; else of `shipped`.

    An own file without `[raises]` has the shipped ones. Raises PolicyError with a line for each mistake, and
    for a file that is there and cannot be read, such as a link that leads nowhere.
    """
    base = _read(shipped)
    if own is None or not os.path.lexists(own):
        return base
    policy = _read(own)
    raises = policy.raises if "raises" in policy.model_fields_set else base.raises
    return policy.model_copy(update={"guards": base.guards.joined(policy.guards), "raises": raises})


def _read(file: Path) -> Policy:
    try:
        text = _text(file)
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = "" if "line" in str(error) else f", line {len(text.rstrip().splitlines())}"
        raise PolicyError(f"{file}{where}: {error}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise PolicyError(f"{file}: {error}") from error
    try:
        return Policy.model_validate(data)
    except ValidationError as error:
        raise PolicyError("\n".join(_explain(file, text, item) for item in error.errors())) from error


def _text(file: Path) -> str:
    """What the regular file `file` holds; nothing else is waited for. Raises OSError or UnicodeDecodeError."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is no regular file")
        return opened.read().decode("utf-8")


def _explain(file: Path, text: str, item: object) -> str:
    assert isinstance(item, dict)
    keys = [str(part) for part in item["loc"] if part != "[key]"]
    given = "" if item["type"] == "missing" else f" = {item['input']!r}"
    return f"{file}, line {line_of(text, keys)}: {'.'.join(keys)}{given}: {item['msg']}."


_PART = r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[\w-]+)"
_KEY = re.compile(rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*=")
_HEADER = re.compile(rf"\s*\[+\s*({_PART}(?:\s*\.\s*{_PART})*)\s*\]")


def line_of(text: str, keys: Sequence[str]) -> int:
    """The line (from 1) of the TOML document `text` where the value under `keys` is given.

    Where the last of `keys` is not there, the line of the table that ought to hold it, or else 1.
    """
    table: list[str] = []
    best, depth = 1, 0
    for number, line in enumerate(text.splitlines(), 1):
        if (header := _HEADER.match(line)) is not None:
            here = table = _parts(header[1])
        elif (pair := _KEY.match(line)) is not None:
            here = table + _parts(pair[1])
        else:
            continue
        pairs = zip(here, keys, strict=False)
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if common > depth and common >= min(len(here), len(keys)):
            best, depth = number, common
    return best


def _parts(dotted: str) -> list[str]:
    """The parts of a dotted key, as TOML reads them."""
    try:
        found: object = tomllib.loads(f"{dotted} = 0")
    except tomllib.TOMLDecodeError:
        return [dotted]
    parts = []
    while isinstance(found, dict):
        key, found = next(iter(found.items()))
        parts.append(key)
    return parts

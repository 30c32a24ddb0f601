"""Settings: the shipped `config/metnosd.toml`, overlaid key by key by the user's file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from metnosd.lexicon.clocks import Clock, Habits
from metnosd.locations import shipped_config
from metnosd.user import Autonomy

_CLOCK = r"^([01]\d|2[0-3]):[0-5]\d$"


class SettingsError(Exception):
    """The settings cannot be used; the message names file, key and what is allowed."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class UserSettings(_Section):
    """How the owner is spoken to."""

    lang: str = Field(pattern=r"^(auto|[a-z]{2,3})$")
    zone: str
    level: Autonomy

    @field_validator("zone")
    @classmethod
    def _known(cls, value: str) -> str:
        if value != "local":
            try:
                ZoneInfo(value)
            except (ZoneInfoNotFoundError, ValueError, OSError) as error:
                raise ValueError("allowed: local, or an IANA name such as Europe/Rome") from error
        return value


class TimeSettings(_Section):
    """The usual times of day, as HH:MM."""

    day: str = Field(pattern=_CLOCK)
    morning: str = Field(pattern=_CLOCK)
    noon: str = Field(pattern=_CLOCK)
    afternoon: str = Field(pattern=_CLOCK)
    evening: str = Field(pattern=_CLOCK)
    night: str = Field(pattern=_CLOCK)

    def habits(self) -> Habits:
        """The times as the lexicon takes them."""
        read = {name: value.split(":") for name, value in self.model_dump().items()}
        return Habits(**{name: Clock(int(hour), int(minute), True) for name, (hour, minute) in read.items()})


class FileSettings(_Section):
    """What files may be touched, and how many."""

    roots: list[str]

    @field_validator("roots")
    @classmethod
    def _absolute(cls, value: list[str]) -> list[str]:
        for root in value:
            if not (root.startswith("/") or root == "~" or root.startswith("~/")) or "\0" in root:
                raise ValueError(f"{root!r} is no folder; allowed: absolute paths, ~, and paths that begin with ~/")
        return value

    max_files: int = Field(gt=0)
    max_read_bytes: int = Field(gt=0)
    max_unpacked_bytes: int = Field(gt=0)
    max_unpacked_files: int = Field(gt=0)
    max_unpack_ratio: int = Field(gt=0)


class ExecutorSettings(_Section):
    """What is switched off."""

    off: list[str]


class ModelSettings(_Section):
    """Which model, and how it is loaded."""

    name: str
    eager: bool
    gpu_layers: int = Field(ge=-1)
    threads: int = Field(ge=0)
    fetch: bool
    silence_s: float = Field(gt=0, le=86400)


class UndoSettings(_Section):
    """How much is kept for taking things back, and for how long."""

    keep_days: int = Field(ge=1, le=36500)
    keep_bytes: int = Field(ge=0)


class ScheduleSettings(_Section):
    """How late schedules may be, and how long their runs are kept."""

    late_minutes: int = Field(ge=1, le=100_000)
    reminder_late_minutes: int = Field(ge=1, le=100_000)
    keep_days: int = Field(ge=1, le=36500)
    stagger_s: float = Field(ge=0, le=600)


class NoteSettings(_Section):
    """Where notes and lists are kept."""

    folder: str = Field(pattern=r"^(/|~/).+$")
    lists: str = Field(pattern=r"^(/|~/).+$")


class ConsentSettings(_Section):
    """How long a question stands."""

    minutes: float = Field(gt=0, le=525600)


class SocketSettings(_Section):
    """Who may use the Unix socket."""

    mode: str = Field(pattern=r"^0?[0-7]{3}$")
    users: dict[str, str]

    @field_validator("users")
    @classmethod
    def _numbered(cls, value: dict[str, str]) -> dict[str, str]:
        for number, name in value.items():
            if not re.fullmatch(r"[0-9]{1,10}", number) or not name.strip():
                raise ValueError(f"{number!r} = {name!r}; allowed: a numeric user id and the name of a user")
        return value


class LogSettings(_Section):
    """What is logged."""

    level: Literal["debug", "info", "warning", "error"]


class Settings(_Section):
    """All settings of one daemon."""

    user: UserSettings
    times: TimeSettings
    files: FileSettings
    executors: ExecutorSettings
    model: ModelSettings
    undo: UndoSettings
    schedules: ScheduleSettings
    notes: NoteSettings
    consent: ConsentSettings
    socket: SocketSettings
    log: LogSettings


def load_settings(user_file: Path) -> Settings:
    """The shipped settings overlaid by `user_file`, if that exists. Raises `SettingsError`."""
    shipped = shipped_config("metnosd.toml")
    merged = overlay(_read(shipped), _read(user_file) if user_file.exists() else {})
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise SettingsError("\n".join(_explain(user_file, item) for item in error.errors())) from error


def overlay(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with each key of `top` put over it, table by table."""
    merged = dict(base)
    for key, value in top.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = overlay(below, value)
        else:
            merged[key] = value
    return merged


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{file}: {error}") from error


def _explain(file: Path, item: Any) -> str:
    key = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        return f"{file}: there is no setting {key}. config/metnosd.toml lists them all."
    return f"{file}: {key} = {item['input']!r}: {item['msg']}."

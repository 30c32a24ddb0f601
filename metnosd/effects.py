"""The few things that Metnos does to a machine, as data.

An executor with effect does nothing itself: it returns the effects that it would have, on concrete targets.
Vaglio judges them, the consent question shows them, the journal keeps them with their inverse, and only
`metnosd.act` performs them. So what is approved, what is done and what is taken back are one value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Effect:
    """One change to one target. `expect` is the fingerprint that the target must still have, if any."""

    kind: ClassVar[str] = ""
    reading: ClassVar[tuple[str, ...]] = ()
    writing: ClassVar[tuple[str, ...]] = ()
    taking: ClassVar[tuple[str, ...]] = ()
    """The fields that hold paths which it reads, writes, and takes with all that is in them."""
    expect: str | None = field(default=None, kw_only=True)
    undoes: int | None = field(default=None, kw_only=True)
    """The journal row that this effect takes back, when it is an inverse."""

    def to_json(self) -> dict[str, object]:
        """The effect as JSON values; `effect_from_json` reads it back."""
        return {"kind": self.kind} | {f.name: getattr(self, f.name) for f in fields_of(self)}

    def reads(self) -> tuple[str, ...]:
        """The absolute paths that it looks at and leaves as they are."""
        return self._paths(self.reading)

    def writes(self) -> tuple[str, ...]:
        """The absolute paths that are there, gone or different after it."""
        return self._paths(self.writing)

    def whole(self) -> tuple[str, ...]:
        """The absolute paths that it takes with all that is in them."""
        return self._paths(self.taking)

    def _paths(self, names: tuple[str, ...]) -> tuple[str, ...]:
        found: list[str] = []
        for name in names:
            value = getattr(self, name)
            found += value if isinstance(value, tuple) else (value,)
        return tuple(found)

    def recipients(self) -> tuple[str, ...]:
        """Who gets to see something by it."""
        return ()


@dataclass(frozen=True, slots=True)
class MovePath(Effect):
    """Move or rename `source` to `target`, which must not exist."""

    kind: ClassVar[str] = "move"
    writing: ClassVar[tuple[str, ...]] = ("source", "target")
    taking: ClassVar[tuple[str, ...]] = ("source",)
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class CopyPath(Effect):
    """Copy `source` to `target`, which must not exist; a folder is copied whole, links are not followed."""

    kind: ClassVar[str] = "copy"
    reading: ClassVar[tuple[str, ...]] = ("source",)
    writing: ClassVar[tuple[str, ...]] = ("target",)
    taking: ClassVar[tuple[str, ...]] = ("source",)
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class WriteFile(Effect):
    """Make `path` hold `text` (`mode` create or replace), or `text` after what it holds (append).

    `about` and `blanks` are the sentences of it where it is more than a file, as in `PutRecord`.
    """

    kind: ClassVar[str] = "write"
    writing: ClassVar[tuple[str, ...]] = ("path",)
    path: str
    text: str
    mode: str
    about: str | None = None
    blanks: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RestoreFile(Effect):
    """Make `path` hold the kept content `blob` (its SHA-256) again."""

    kind: ClassVar[str] = "restore"
    writing: ClassVar[tuple[str, ...]] = ("path",)
    path: str
    blob: str


@dataclass(frozen=True, slots=True)
class MakeDir(Effect):
    """Create the folder `path`, whose parent exists by then."""

    kind: ClassVar[str] = "mkdir"
    writing: ClassVar[tuple[str, ...]] = ("path",)
    path: str


@dataclass(frozen=True, slots=True)
class RemoveDir(Effect):
    """Remove the folder `path` if it is empty."""

    kind: ClassVar[str] = "rmdir"
    writing: ClassVar[tuple[str, ...]] = ("path",)
    path: str


@dataclass(frozen=True, slots=True)
class TrashPath(Effect):
    """Move `path` into the trash under the unique name `slot`."""

    kind: ClassVar[str] = "trash"
    writing: ClassVar[tuple[str, ...]] = ("path",)
    taking: ClassVar[tuple[str, ...]] = ("path",)
    path: str
    slot: str


@dataclass(frozen=True, slots=True)
class UntrashPath(Effect):
    """Bring `slot` back from the trash to `path`, which must not exist."""

    kind: ClassVar[str] = "untrash"
    writing: ClassVar[tuple[str, ...]] = ("path",)
    path: str
    slot: str


@dataclass(frozen=True, slots=True)
class PackFiles(Effect):
    """Make the archive `target` (`format` zip or tar.gz) of `sources`; `target` must not exist."""

    kind: ClassVar[str] = "pack"
    reading: ClassVar[tuple[str, ...]] = ("sources",)
    writing: ClassVar[tuple[str, ...]] = ("target",)
    taking: ClassVar[tuple[str, ...]] = ("sources",)
    sources: tuple[str, ...]
    target: str
    format: str


@dataclass(frozen=True, slots=True)
class UnpackArchive(Effect):
    """Extract the archive `source` into the new folder `target`, within the limits of size and ratio."""

    kind: ClassVar[str] = "unpack"
    reading: ClassVar[tuple[str, ...]] = ("source",)
    writing: ClassVar[tuple[str, ...]] = ("target",)
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class PutRecord(Effect):
    """Make the record `key` of our table `table` hold `value`; None takes the record away.

    `about` names the sentences that ask for it and tell of it (`ask.<about>`, `done.<about>`), `blanks` what
    is filled into them.
    """

    kind: ClassVar[str] = "record"
    table: str
    key: str
    value: Mapping[str, object] | None
    about: str
    blanks: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SendMessage(Effect):
    """Put `text` by the user `sender` into the outbox of `user`, for a conversation of a channel.

    Nothing takes it back: what somebody may have read cannot be unsent.
    """

    kind: ClassVar[str] = "send"
    user: str
    channel: str
    conversation: str
    text: str
    sender: str

    def recipients(self) -> tuple[str, ...]:
        """The one whom it is for."""
        return (self.user,)


ALL_EFFECTS: tuple[type[Effect], ...] = (
    MovePath,
    CopyPath,
    WriteFile,
    RestoreFile,
    MakeDir,
    RemoveDir,
    TrashPath,
    UntrashPath,
    PackFiles,
    UnpackArchive,
    PutRecord,
    SendMessage,
)


def effect_from_json(data: Mapping[str, object]) -> Effect:
    """The effect that `to_json` wrote; raises ValueError for what is none."""
    rest: dict[str, Any] = dict(data)
    kind = rest.pop("kind", None)
    for effect in ALL_EFFECTS:
        if effect.kind == kind:
            try:
                fields: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in rest.items()}
                return effect(**fields)
            except TypeError as error:
                raise ValueError(f"the effect {kind!r} has the wrong fields: {error}") from error
    raise ValueError(f"{kind!r} is no effect")

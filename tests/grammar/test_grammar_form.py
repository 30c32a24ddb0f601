"""The form of every grammar: the same bytes each time, each rule once, all reachable, linear, parsed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from grammar_specs import POOL, Spec, arguments, text
from support.gguf_vocab import GrammarEngine

from metnosd.grammar import (
    build_framework_grammar,
    build_framework_grammar_flow,
    build_framework_grammar_grounded,
    build_framework_grammar_typed,
    generate_tool_grammar,
    schema_to_gbnf,
)

RICH = {
    "type": "object",
    "properties": {
        "a": {"enum": ["x", "y", "xy", 5]},
        "b": {"type": "array", "items": {"type": "number", "minimum": 0.25, "maximum": 17}, "maxItems": 4},
        "c": {"anyOf": [{"type": "string", "format": "date-time"}, {"$ref": "#"}]},
        "d_e": {"type": "string", "pattern": "^[a-z]{2,5}$"},
    },
    "required": ["b"],
}


def spans(words: int) -> dict[str, list[str]]:
    return {"words": [f"w{i}" for i in range(words)], "path": ["a", "b"], "number": ["1"], "name": ["n"]}


def pool_of(size: int) -> list[Spec]:
    kinds = ["files", "texts", "notes", "events"]
    schema = arguments("w", w=text("words"), o={"enum": ["one", "two"]}, n={"type": "integer", "minimum": 1})
    return [
        Spec(f"tool_{i}", schema, (None, kinds[i % 4]) if i % 3 else kinds[i % 4], kinds[(i // 4) % 4])
        for i in range(size)
    ]


BUILDERS: dict[str, Callable[[], str]] = {
    "framework": lambda: build_framework_grammar(POOL),
    "typed": lambda: build_framework_grammar_typed(POOL),
    "flow": lambda: build_framework_grammar_flow(POOL, last=("files", "texts")),
    "flow typed": lambda: build_framework_grammar_flow(POOL, typed=True),
    "grounded": lambda: build_framework_grammar_grounded(POOL, spans(12), last=("files",)),
    "tool": lambda: generate_tool_grammar(POOL),
    "schema": lambda: schema_to_gbnf(RICH),
    "rich tool": lambda: build_framework_grammar_typed([Spec("a_b", RICH), Spec("a-b", RICH), Spec("a b", RICH)]),
    "many": lambda: build_framework_grammar_grounded(pool_of(60), spans(50)),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_rules(engine: GrammarEngine, name: str) -> None:
    """One rule a line, each name once, letters, digits and hyphens only, all reachable from `root`."""
    grammar = BUILDERS[name]()
    assert engine.parses(grammar)
    assert grammar.endswith("\n")
    lines = grammar.splitlines()
    rules = dict(line.split(" ::= ", 1) for line in lines)
    assert len(rules) == len(lines)
    assert next(iter(rules)) == "root"
    assert all(re.fullmatch(r"[a-zA-Z][a-zA-Z0-9-]*", rule) for rule in rules)
    reached, waiting = {"root"}, ["root"]
    while waiting:
        body = re.sub(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|\{[0-9,]*\}', " ", rules[waiting.pop()])
        for rule in re.findall(r"[a-zA-Z0-9-]+", body):
            assert rule in rules, rule
            if rule not in reached:
                reached.add(rule)
                waiting.append(rule)
    assert reached == rules.keys()


@pytest.mark.parametrize("name", BUILDERS)
def test_repetitions_are_bounded(name: str) -> None:
    """Counted repetitions stop at a thousand, where llama.cpp would silently take them as unbounded."""
    for low, high in re.findall(r"\w\{(\d+)(?:,(\d+))?\}", BUILDERS[name]()):
        assert int(high or low) <= 1000


def test_large_repetitions(engine: GrammarEngine) -> None:
    """Bounds beyond that are clamped so that nothing longer is admitted."""
    for schema in ({"type": "string", "maxLength": 10**6}, {"type": "array", "maxItems": 5000}):
        grammar = schema_to_gbnf(schema)
        assert engine.parses(grammar)
        assert "{0,1000}" in grammar or "{0,999}" in grammar
    many = schema_to_gbnf({"type": "array", "items": {"type": "integer"}, "minItems": 2500, "maxItems": 2501})
    for count, fits in ((2499, False), (2500, True), (2501, True), (2502, False)):
        assert engine.accepts(many, "[" + ",".join("1" * count) + "]") is fits


PROGRAM = """
import hashlib, sys
sys.path[:0] = sys.argv[1:]
from test_grammar_form import BUILDERS
for name, build in BUILDERS.items():
    print(name, hashlib.sha256(build().encode()).hexdigest())
"""


def test_same_bytes_in_every_process() -> None:
    """The same pool, schemas and spans give the same bytes whatever the hash seed."""
    here = Path(__file__).resolve()
    paths = [str(here.parent), str(here.parents[1]), str(here.parents[2])]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, *paths],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(outputs) == 1
    assert len(outputs.pop().splitlines()) == len(BUILDERS)


def test_the_order_of_the_pool_counts() -> None:
    """A built grammar does not depend on what was built before."""
    first = build_framework_grammar_grounded(POOL, spans(5))
    build_framework_grammar_grounded(list(reversed(POOL)), spans(7))
    assert build_framework_grammar_grounded(POOL, spans(5)) == first


def sizes(build: Callable[[int], str], *numbers: int) -> list[int]:
    return [len(build(number)) for number in numbers]


@pytest.mark.parametrize(
    "build",
    [
        lambda n: build_framework_grammar(pool_of(n)),
        lambda n: build_framework_grammar_typed(pool_of(n)),
        lambda n: build_framework_grammar_flow(pool_of(n)),
        lambda n: build_framework_grammar_grounded(pool_of(n), spans(10)),
        lambda n: build_framework_grammar_grounded(POOL, spans(n)),
        lambda n: schema_to_gbnf({"properties": {f"p{i}": {"type": "integer"} for i in range(n)}}),
        lambda n: schema_to_gbnf({"enum": [f"value {i}" for i in range(n)]}),
        lambda n: schema_to_gbnf({"prefixItems": [{"type": "integer"}] * n}),
    ],
)
def test_size_is_linear(build: Callable[[int], str]) -> None:
    """Twice the pool, the message, the properties, the values: no more than twice the growth (and longer names)."""
    small, middle, large = sizes(build, 100, 200, 400)
    assert large - middle <= 2.3 * (middle - small)


def test_names_and_values_are_tries() -> None:
    """What names share is written once, so that no rule offers a long flat list."""
    grammar = build_framework_grammar([Spec(f"find_files_{i:03}", {}) for i in range(150)])
    assert max(line.count("|") for line in grammar.splitlines()) < 15
    grammar = schema_to_gbnf({"enum": [f"some value {i:03}" for i in range(500)]})
    assert max(line.count("|") for line in grammar.splitlines()) < 15


def test_the_package_stands_alone() -> None:
    """Importing the grammars imports nothing else of the daemon, and no third-party package."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import metnosd.grammar; "
        "print([m for m in sys.modules if m.startswith('metnosd.') and not m.startswith('metnosd.grammar')], "
        "[m for m in ('pydantic', 'llama_cpp', 'numpy') if m in sys.modules])"
    )
    root = str(Path(__file__).resolve().parents[2])
    run = subprocess.run([sys.executable, "-c", program, root], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[] []"


def test_public_names() -> None:
    """Exactly these are public."""
    import metnosd.grammar as package

    assert sorted(package.__all__) == [
        "GrammarError",
        "build_framework_grammar",
        "build_framework_grammar_flow",
        "build_framework_grammar_grounded",
        "build_framework_grammar_typed",
        "generate_tool_grammar",
        "schema_to_gbnf",
        "untyped_paths",
    ]


def test_every_public_function_is_described() -> None:
    """Each public name has a docstring."""
    import metnosd.grammar as package

    for name in package.__all__:
        thing: Any = getattr(package, name)
        assert thing.__doc__, name

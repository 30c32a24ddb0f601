"""The plan grammars without grounding: what every level holds to, and what each level adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from grammar_specs import POOL, Spec, arguments, compact, plan, step
from support.gguf_vocab import GrammarEngine

from metnosd.grammar import (
    GrammarError,
    build_framework_grammar,
    build_framework_grammar_flow,
    build_framework_grammar_grounded,
    build_framework_grammar_typed,
    generate_tool_grammar,
)

SPANS = {"words": ["find", "it"], "path": ["Projects"], "number": ["5"]}
Builder = Callable[..., str]
LEVELS: dict[str, Builder] = {
    "framework": build_framework_grammar,
    "typed": build_framework_grammar_typed,
    "flow": build_framework_grammar_flow,
    "flow typed": lambda pool, **options: build_framework_grammar_flow(pool, typed=True, **options),
    "grounded": lambda pool, **options: build_framework_grammar_grounded(pool, SPANS, **options),
}
FINAL = step("final_answer", text="done")
FIND = step("find_files")


@pytest.fixture(params=LEVELS.values(), ids=LEVELS.keys())
def level(request: pytest.FixtureRequest) -> Builder:
    """Each builder in turn."""
    build: Builder = request.param
    return build


@pytest.mark.parametrize(
    "steps",
    [
        [FIND],
        [FINAL],
        [FIND, step("read_files"), FINAL],
        [FIND, step("limit_entries", count=5), step("delete_files")],
        [FIND, step("create_notes", text="n"), step("read_files", 1)],
        [FIND] * 6,
    ],
)
def test_every_level_admits(engine: GrammarEngine, level: Builder, steps: list[Any]) -> None:
    """One to six steps of the pool, with or without `from`, and `final_answer` last or alone."""
    assert engine.accepts(level(POOL), plan(*steps))


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [step("format_disks")],
        [step("find_file")],
        [step("")],
        [FIND] * 7,
        [FIND] * 6 + [FINAL],
        [FIND, step("read_files", 2)],
        [FIND, step("read_files", 3)],
        [FIND, step("read_files", 0)],
        [FIND, step("read_files", -1)],
        [step("read_files", 1)],
        [FINAL, FIND],
        [FIND, FINAL, FIND],
    ],
)
def test_every_level_rejects(engine: GrammarEngine, level: Builder, steps: list[Any]) -> None:
    """No step, a tool outside the pool, a 7th step, a `from` that is not earlier, a middle `final_answer`."""
    assert not engine.accepts(level(POOL), plan(*steps))


@pytest.mark.parametrize(
    "broken",
    [
        ' {"steps":[{"tool":"find_files","args":{}}]}',
        '{"steps":[{"tool":"find_files","args":{}}]} ',
        '{"steps":[{"tool":"find_files","args":{}}]}}',
        '{"steps": [{"tool":"find_files","args":{}}]}',
        '{"steps":[{"args":{},"tool":"find_files"}]}',
        '{"steps":[{"tool":"find_files"}]}',
        '{"steps":[{"tool":"find_files","args":{}},]}',
        '{"steps":[{"tool":"find_files","args":{}}',
        '{"steps":[{"tool":"find_files","args":[]}]}',
        '{"steps":[{"tool":"find_files","args":{}}],"when":1}',
    ],
)
def test_the_form_is_exact(engine: GrammarEngine, level: Builder, broken: str) -> None:
    """No blanks, no other keys or order, nothing after the end, no end before it."""
    assert not engine.accepts(level(POOL), broken)


def test_from_zero_needs_a_last_outcome(engine: GrammarEngine, level: Builder) -> None:
    """`"from":0` is offered exactly when the conversation has a last outcome of a kind that fits."""
    steps = plan(step("delete_files", 0))
    assert engine.accepts(level(POOL, last=("files",)), steps)
    assert engine.accepts(level(POOL, last=("files",)), plan(FIND, step("delete_files", 0)))
    assert not engine.accepts(level(POOL), steps)


@pytest.mark.parametrize("build", [LEVELS["flow"], LEVELS["flow typed"], LEVELS["grounded"]])
def test_from_zero_counts_as_its_kinds(engine: GrammarEngine, build: Builder) -> None:
    """With flow, the last outcome feeds only what takes its kinds."""
    grammar = build(POOL, last=("files",))
    assert engine.accepts(grammar, plan(step("limit_entries", 0, count=5)))
    assert not engine.accepts(grammar, plan(step("send_messages", 0, to="a", text="it")))
    assert not engine.accepts(grammar, plan(step("delete_files")))
    assert not engine.accepts(build(POOL, last=("events",)), plan(step("delete_files", 0)))


@pytest.mark.parametrize("build", [LEVELS["flow"], LEVELS["flow typed"], LEVELS["grounded"]])
@pytest.mark.parametrize(
    ("steps", "fits"),
    [
        ([step("read_files")], False),
        ([step("limit_entries", count=5)], False),
        ([step("create_notes", text="n"), step("read_files")], False),
        ([step("create_notes", text="n"), step("limit_entries", count=5)], True),
        ([step("create_notes", text="n"), step("limit_entries", count=5), step("read_files")], False),
        ([FIND, step("limit_entries", count=5), step("read_files")], True),
        ([FIND, step("delete_files"), step("read_files")], False),
        ([FIND, step("delete_files"), step("limit_entries", count=5)], False),
        ([FIND, step("delete_files"), step("read_files", 1)], True),
        ([FIND, step("delete_files"), step("create_notes", text="n")], True),
        ([FIND, step("delete_files"), FIND], True),
        ([FIND, step("create_notes", 1, text="n")], False),
        ([FIND, step("create_notes", text="n"), step("limit_entries", 1, count=5), step("read_files")], True),
    ],
)
def test_flow(engine: GrammarEngine, build: Builder, steps: list[Any], fits: bool) -> None:
    """A consumer follows entries of a kind that it takes, or names an earlier step; `same` keeps the kind."""
    assert engine.accepts(build(POOL), plan(*steps)) is fits


def test_typed_arguments_follow_the_schema(engine: GrammarEngine) -> None:
    """Enumerations, types, required and unknown arguments are those of the tool's own schema."""
    grammar = build_framework_grammar_typed(POOL)
    assert engine.accepts(grammar, plan(step("find_files", path="a/b", order="newest")))
    for wrong in (
        step("find_files", order="biggest"),
        step("find_files", order="newest", path="a"),
        step("find_files", path=5),
        step("find_files", count=5),
        step("limit_entries"),
        step("limit_entries", count=0),
        step("limit_entries", count="5"),
        step("final_answer"),
        step("final_answer", text=5),
    ):
        assert not engine.accepts(grammar, plan(FIND, wrong))


def test_framework_arguments_are_any_object(engine: GrammarEngine) -> None:
    """The framework level leaves args to the validator, as long as they are a JSON object."""
    args = {"a": [1, -2.5e3, None, {"b": '\\u00e9\n"é😀'}], "": {}}
    assert engine.accepts(build_framework_grammar(POOL), plan(step("find_files", **args)))


def test_a_schema_that_says_nothing_takes_any_object(engine: GrammarEngine) -> None:
    """Where a branch cannot be typed its args are free JSON; no properties declared means no arguments."""
    pool = [Spec("a_b", {}), Spec("c_d", {"type": "string"}), Spec("e_f", {"type": "object", "properties": {}})]
    grammar = build_framework_grammar_typed(pool)
    assert engine.accepts(grammar, plan(step("a_b", x=1)))
    assert engine.accepts(grammar, plan(step("c_d", x=1)))
    assert engine.accepts(grammar, plan(step("e_f")))
    assert not engine.accepts(grammar, plan(step("e_f", x=1)))


def test_final_answer_is_there_once(engine: GrammarEngine, level: Builder) -> None:
    """A pool may hold `final_answer` or nothing else; the grammar is the same as without it."""
    final = Spec("final_answer", arguments("text", text={"type": "string"}))
    assert level([*POOL, final]) == level([final, *POOL]) == level(POOL)
    assert engine.accepts(level([final]), plan(FINAL))
    assert not engine.accepts(level([final]), plan(FIND))


ODD_NAMES = ['say "hi"', "back\\slash", "new\nline", "ünïcödé", "emoji 😀", "tab\t", "a_b", "a-b", "-", "1", "\x7f"]


def test_odd_names_are_right(engine: GrammarEngine, level: Builder) -> None:
    """Names with quotes, escapes or letters that rule names cannot have are the names that are admitted."""
    grammar = level([Spec(name, arguments(), None, "files") for name in ODD_NAMES])
    for name in ODD_NAMES:
        assert engine.accepts(grammar, plan(step(name))), name
        assert not engine.accepts(grammar, plan(step(name + "x")))
    assert not engine.accepts(grammar, plan(step("a b")))


@pytest.mark.parametrize(
    "pool",
    [
        [],
        None,
        5,
        "find_files",
        [None],
        [object()],
        [Spec("", arguments())],
        [Spec("  ", arguments())],
        [Spec(5, arguments())],  # type: ignore[arg-type]
        [Spec("a", None)],
        [Spec("a", "string")],
        [Spec("a", [])],
        [Spec("a", arguments()), Spec("a", arguments())],
    ],
)
def test_bad_pools_are_refused(level: Builder, pool: Any) -> None:
    """An empty pool, a spec without a name or a schema, a name given twice: GrammarError."""
    with pytest.raises(GrammarError):
        level(pool)


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"properties": 5}, {"$ref": "#/$defs/none"}])
def test_malformed_schemas_are_refused_by_name(schema: Any) -> None:
    """What is no JSON Schema is a GrammarError that names the executor."""
    with pytest.raises(GrammarError, match="bad_one"):
        build_framework_grammar_typed([Spec("bad_one", schema)])


@pytest.mark.parametrize("spec", [Spec("a", {}, takes=5), Spec("a", {}, takes=()), Spec("a", {}, gives=5)])
def test_flow_needs_kinds(spec: Spec) -> None:
    """A spec that does not say what it takes and gives is refused where that matters."""
    with pytest.raises(GrammarError):
        build_framework_grammar_flow([spec])


def test_tool_call(engine: GrammarEngine) -> None:
    """One call of one of the tools, with its typed args, and nothing else."""
    grammar = generate_tool_grammar(POOL)
    assert engine.accepts(grammar, compact({"tool": "limit_entries", "args": {"count": 3}}))
    for wrong in (
        {"tool": "limit_entries", "args": {}},
        {"tool": "final_answer", "args": {"text": "x"}},
        {"tool": "nothing", "args": {}},
        {"steps": [{"tool": "read_files", "args": {}}]},
    ):
        assert not engine.accepts(grammar, compact(wrong))
    with pytest.raises(GrammarError):
        generate_tool_grammar([])


def test_a_tool_that_cannot_be_called_keeps_free_arguments(engine: GrammarEngine) -> None:
    """A schema that no object satisfies leaves the tool with free args, for the executor to judge."""
    impossible = arguments("x", x={"type": "boolean", "enum": ["yes"]})
    grammar = build_framework_grammar_typed([Spec("odd_tool", impossible)])
    assert engine.accepts(grammar, plan(step("odd_tool", x="yes")))

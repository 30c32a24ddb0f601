"""The grounded grammar: what the user did not say, the model cannot write."""

from __future__ import annotations

from typing import Any

import pytest
from grammar_specs import POOL, Spec, arguments, plan, step, text
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gguf_vocab import GrammarEngine

from metnosd.grammar import GrammarError, build_framework_grammar_grounded

WORDS = ["tell", '"Anna', 'Smith"', "I'll", "be", "late,", "(not", "early).", "—", "ok"]
SPANS: dict[str, list[Any]] = {
    "words": WORDS,
    "name": ["Anna"],
    "path": ["Projects", 'C:\\new "x"', "über/日本"],
    "number": ["5", 30, "2.5"],
    "kind": [],
}


def message(engine: GrammarEngine, said: str, spans: dict[str, Any] = SPANS) -> bool:
    grammar = build_framework_grammar_grounded(POOL, spans)
    return engine.accepts(grammar, plan(step("send_messages", to="Anna", text=said)))


@pytest.mark.parametrize(
    "said",
    [
        "tell",
        "late,",
        "late",
        "I'll be late",
        "I'll be late,",
        "be late, (not early",
        "be late, (not early).",
        "be late, (not early)",
        "not early",
        '"Anna Smith"',
        "Anna Smith",
        "early). — ok",
        " ".join(WORDS),
    ],
)
def test_runs_of_words(engine: GrammarEngine, said: str) -> None:
    """Any run of consecutive words; punctuation at the two ends of the run may be left out."""
    assert message(engine, said)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "I",
        "Ill be",
        "tell Anna",
        "be late (not",
        "be early",
        "late be",
        "late,  (not",
        "tell ",
        " tell",
        "Tell",
        "something else",
        "late, not early",
    ],
)
def test_no_other_words(engine: GrammarEngine, said: str) -> None:
    """No invented word, no gap, no part of a word, no other order; inner punctuation stays."""
    assert not message(engine, said)


def test_nothing_ungrounded(engine: GrammarEngine) -> None:
    """A path, a recipient, a number that the message does not hold cannot be written."""
    grammar = build_framework_grammar_grounded(POOL, SPANS)
    find = step("find_files")
    for path in SPANS["path"]:
        assert engine.accepts(grammar, plan(step("find_files", path=path)))
    for count in (5, 30):
        assert engine.accepts(grammar, plan(find, step("limit_entries", count=count)))
    assert engine.accepts(grammar, plan(step("create_notes", text="anything at all")))
    assert engine.accepts(grammar, plan(step("find_files", order="newest")))
    for wrong in (
        step("find_files", path="Invented"),
        step("find_files", path="Project"),
        step("find_files", extension="pdf"),
        step("send_messages", to="Bert", text="ok"),
        step("find_files", order="biggest"),
    ):
        assert not engine.accepts(grammar, plan(wrong))
    for count in (6, 2.5, "5", 53):
        assert not engine.accepts(grammar, plan(find, step("limit_entries", count=count)))


def test_a_required_argument_without_a_value_removes_the_tool(engine: GrammarEngine) -> None:
    """No recipient, no message; without any tool left `final_answer` is."""
    spans = {**SPANS, "name": []}
    grammar = build_framework_grammar_grounded(POOL, spans)
    assert "send_messages" not in grammar
    only = build_framework_grammar_grounded([spec for spec in POOL if spec.name == "send_messages"], {})
    assert engine.accepts(only, plan(step("final_answer", text="Whom?")))
    assert not engine.accepts(only, plan(step("send_messages", to="Anna", text="ok")))


def test_arrays_hold_what_was_said(engine: GrammarEngine) -> None:
    """Each item comes from the source of the items, and there are no more items than values."""
    schema = arguments("items", items={"type": "array", "items": text("quoted")})
    pool = [Spec("add_tasks", schema)]
    grammar = build_framework_grammar_grounded(pool, {"quoted": ["milk", "eggs"]})
    assert engine.accepts(grammar, plan(step("add_tasks", items=["milk", "eggs"])))
    assert not engine.accepts(grammar, plan(step("add_tasks", items=["bread"])))
    assert not engine.accepts(grammar, plan(step("add_tasks", items=["milk", "eggs", "milk"])))
    assert not engine.accepts(build_framework_grammar_grounded(pool, {"quoted": []}), plan(step("add_tasks", items=[])))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}, "x-source": "path"},
        {"anyOf": [{"type": "string"}, {"type": "null"}], "x-source": "path"},
        {"anyOf": [text("path"), {"type": "null"}]},
        {"$ref": "#/$defs/place", "$defs": {}},
        {"type": "object", "properties": {"inner": text("path")}, "required": ["inner"]},
    ],
)
def test_sources_hold_wherever_they_stand(engine: GrammarEngine, schema: dict[str, Any]) -> None:
    """On an array, beside or inside alternatives, behind a reference, in a nested object."""
    whole = {**arguments("x", x=schema), "$defs": {"place": text("path")}}
    grammar = build_framework_grammar_grounded([Spec("do_it", whole)], {"path": ["A"]})

    def shaped(value: str) -> Any:
        kind = schema.get("type")
        return [value] if kind == "array" else {"inner": value} if kind == "object" else value

    assert engine.accepts(grammar, plan(step("do_it", x=shaped("A"))))
    assert not engine.accepts(grammar, plan(step("do_it", x=shaped("B"))))


def test_nothing_free_below_any_depth(engine: GrammarEngine) -> None:
    """Where a schema nests too deep to follow, nothing is offered rather than everything."""
    schema: dict[str, Any] = text("path")
    value: Any = "invented"
    for _ in range(60):
        schema, value = arguments(x=schema), {"x": value}
    grammar = build_framework_grammar_grounded([Spec("do_it", schema)], {"path": ["A"]})
    assert engine.accepts(grammar, plan(step("do_it", x={"x": {}})))
    assert not engine.accepts(grammar, plan({"tool": "do_it", "args": value}))


@pytest.mark.parametrize(
    "spans",
    [None, [], {"path": "Projects"}, {"path": 5}, {"path": [None]}, {"path": [["a"]]}, {"words": [""]}],
)
def test_bad_spans_are_refused(spans: Any) -> None:
    """Spans map sources to sequences of texts or numbers."""
    with pytest.raises(GrammarError):
        build_framework_grammar_grounded(POOL, spans)


def test_a_source_is_one_name() -> None:
    """`x-source` names one source."""
    with pytest.raises(GrammarError):
        build_framework_grammar_grounded([Spec("a", arguments(x={"type": "string", "x-source": ["a"]}))], {})


WORD = st.text("ab\"\\,.é😀'(", min_size=1, max_size=4)


@settings(deadline=None, max_examples=60, database=None)
@given(st.data(), st.lists(WORD, min_size=1, max_size=8))
def test_every_run_of_any_message(engine: GrammarEngine, data: st.DataObject, words: list[str]) -> None:
    """Every run of the words as they stand is admitted, and what is no part of the message is not."""
    start = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(start + 1, len(words)))
    spans = {"words": words, "name": ["Anna"]}
    assert message(engine, " ".join(words[start:end]), spans)
    other = data.draw(st.text("abc ,", min_size=1, max_size=5))
    if other not in " ".join(words):
        assert not message(engine, other, spans)

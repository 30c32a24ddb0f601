"""Properties of the translator over generated values."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from grammar_specs import compact
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gguf_vocab import GrammarEngine

from metnosd.grammar import schema_to_gbnf, untyped_paths

QUICK = settings(deadline=None, max_examples=80, database=None)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x7f"), max_size=8)
SCALAR = st.none() | st.booleans() | st.integers(-(10**18), 10**18) | TEXT
JSON = st.recursive(
    SCALAR | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@QUICK
@given(JSON)
def test_generic_json(engine: GrammarEngine, value: Any) -> None:
    """Every JSON value, written compactly, is admitted where anything is."""
    assert engine.accepts(schema_to_gbnf({}), compact(value))


@QUICK
@given(st.lists(SCALAR, min_size=1, max_size=30), SCALAR)
def test_enumerations(engine: GrammarEngine, values: list[Any], other: Any) -> None:
    """Each listed value and no other; 1 and true are two values."""
    grammar = schema_to_gbnf({"enum": values})
    texts = {compact(value) for value in values}
    assert all(engine.accepts(grammar, text) for text in texts)
    assert engine.accepts(grammar, compact(other)) is (compact(other) in texts)


LIMIT = st.none() | st.integers(-1100, 1100) | st.integers(-(10**12), 10**12)


@QUICK
@given(LIMIT, LIMIT, st.data())
def test_integer_ranges(engine: GrammarEngine, low: int | None, high: int | None, data: st.DataObject) -> None:
    """Exactly the integers of the range, near its ends and elsewhere."""
    schema = {"type": "integer"} | ({} if low is None else {"minimum": low})
    schema |= {} if high is None else {"maximum": high}
    near = [st.integers(limit - 12, limit + 12) for limit in (low, high) if limit is not None]
    numbers = data.draw(st.lists(st.one_of(*near, st.integers(-2000, 2000)), min_size=5, max_size=20))
    if low is not None and high is not None and low > high:
        assert untyped_paths(schema) == [""]
        return
    grammar = schema_to_gbnf(schema)
    for number in numbers:
        fits = (low is None or number >= low) and (high is None or number <= high)
        assert engine.accepts(grammar, str(number)) is fits, number


DECIMALS = st.decimals(-120, 120, places=3) | st.decimals(-2, 2, places=1) | st.integers(-20, 20).map(Decimal)
WRITTEN = DECIMALS.map(lambda number: f"{number:f}")


@QUICK
@given(st.none() | DECIMALS, st.none() | DECIMALS, st.booleans(), st.booleans(), st.lists(WRITTEN, min_size=8))
def test_number_ranges(
    engine: GrammarEngine,
    low: Decimal | None,
    high: Decimal | None,
    open_low: bool,
    open_high: bool,
    written: list[str],
) -> None:
    """Exactly the numbers of the range, whole or with a fraction, the ends in or out."""
    schema: dict[str, Any] = {"type": "number"}
    if low is not None:
        schema["exclusiveMinimum" if open_low else "minimum"] = float(low)
    if high is not None:
        schema["exclusiveMaximum" if open_high else "maximum"] = float(high)
    ends = [f"{end:f}" for end in (low, high) if end is not None]
    fits = {text: _fits(Decimal(text), low, high, open_low, open_high) for text in written + ends}
    if untyped_paths(schema) == [""]:
        assert not any(fits.values())
        return
    grammar = schema_to_gbnf(schema)
    for text, fit in fits.items():
        if not re.match(r"-0(\.0*)?$", text):
            assert engine.accepts(grammar, text) is fit, (text, schema)


def _fits(number: Decimal, low: Decimal | None, high: Decimal | None, open_low: bool, open_high: bool) -> bool:
    above = low is None or number > low or (number == low and not open_low)
    return above and (high is None or number < high or (number == high and not open_high))


@QUICK
@given(st.integers(0, 6), st.integers(0, 6), TEXT)
def test_lengths(engine: GrammarEngine, low: int, more: int, text: str) -> None:
    """Lengths count code points, however they are escaped."""
    grammar = schema_to_gbnf({"type": "string", "minLength": low, "maxLength": low + more})
    assert engine.accepts(grammar, compact(text)) is (low <= len(text) <= low + more)


NAMES = st.lists(TEXT, min_size=1, max_size=7, unique=True)


@QUICK
@given(NAMES, st.data())
def test_objects(engine: GrammarEngine, names: list[str], data: st.DataObject) -> None:
    """Any subset of the optional properties with all required ones, in order; one missing or more is refused."""
    required = [name for name in names if data.draw(st.booleans())]
    kept = [name for name in names if name in required or data.draw(st.booleans())]
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in names},
        "required": required,
        "additionalProperties": data.draw(st.sampled_from([False, {"type": "boolean"}])),
    }
    grammar = schema_to_gbnf(schema)
    value: dict[str, Any] = dict.fromkeys(kept, 1)
    assert engine.accepts(grammar, compact(value))
    for name in required:
        assert not engine.accepts(grammar, compact({k: v for k, v in value.items() if k != name}))
    if kept:
        assert not engine.accepts(grammar, compact(value | {kept[-1]: "x"}))
    if len(kept) > 1:
        assert not engine.accepts(grammar, compact(dict(reversed(value.items()))))
    other = data.draw(TEXT.filter(lambda name: name not in names))
    is_open = schema["additionalProperties"] is not False and _is_plain(other)
    assert engine.accepts(grammar, compact(value | {other: True})) is is_open


def _is_plain(name: str) -> bool:
    """A further key is written raw or with the short escapes."""
    return "\\u" not in compact(name)


@QUICK
@given(st.integers(0, 4), st.none() | st.integers(0, 4), st.integers(0, 3), st.integers(0, 7))
def test_arrays(engine: GrammarEngine, low: int, more: int | None, listed: int, count: int) -> None:
    """Bounds on the number of items hold with listed items too."""
    schema: dict[str, Any] = {"type": "array", "items": {"type": "integer"}, "minItems": low}
    schema |= {"prefixItems": [{"type": "string"}] * listed} if listed else {}
    schema |= {} if more is None else {"maxItems": low + more}
    value = ["x"] * min(listed, count) + [1] * (count - listed)
    fits = low <= count and (more is None or count <= low + more)
    assert engine.accepts(schema_to_gbnf(schema), compact(value)) is fits


PATTERNS = [
    "^[a-c]+$", "^a{2,3}b?$", "a|b", "^(ab|a(c|d)*)$", "[^a-c]", "^.$", "^\\w+\\s\\d$", "^$", "", "^[\\w.-]+$",
    "^[^\"]*$", "^a\\.b$", "^(?:a|b){2}", "c$", "^\\S+$", "^[\\\\/]$", "^x*?y$", "^\\D$", "a.c", "^[a\\]-]+$",
]  # fmt: skip


@QUICK
@given(st.sampled_from(PATTERNS), st.text('abcdxy ."\\/1-]\n_é', max_size=5), st.data())
def test_patterns(engine: GrammarEngine, pattern: str, text: str, data: st.DataObject) -> None:
    """A text that is admitted matches the pattern, and a match in plain letters is admitted."""
    schema = {"type": "string", "pattern": pattern}
    grammar = schema_to_gbnf(schema)
    assert untyped_paths(schema) == []
    assert not engine.accepts(grammar, compact(text)) or re.search(pattern, text)
    match = data.draw(st.from_regex(pattern, alphabet=st.sampled_from('abcdxy ."\\/1-]_')))
    if not match.endswith("\n"):  # Python's $ stands before a last line end too
        assert engine.accepts(grammar, compact(match)), match


HARD = ["(?=a)b", "\\bword\\b", "(a)\\1", "\\p{L}", "a**", "(", ")", "[", "[]", "a{5,2}", "(a*)*", "x^y", "\\", "(?i)a"]


@pytest.mark.parametrize("pattern", HARD)
def test_patterns_without_a_rule(engine: GrammarEngine, pattern: str) -> None:
    """What has no rule, or is no pattern at all, is reported and leaves a text."""
    schema = {"type": "string", "pattern": pattern}
    assert untyped_paths(schema) == [""]
    assert engine.accepts(schema_to_gbnf(schema), '"x"')

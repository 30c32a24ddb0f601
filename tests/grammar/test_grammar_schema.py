"""JSON Schema to GBNF, keyword by keyword: what is admitted, what is not, what is reported."""

from __future__ import annotations

from typing import Any

import pytest
from grammar_specs import compact
from support.gguf_vocab import GrammarEngine

from metnosd.grammar import GrammarError, schema_to_gbnf, untyped_paths

NODE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "v": {"type": "integer"},
                "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["v"],
            "additionalProperties": False,
        }
    },
}
THREE = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "integer"}},
    "required": ["b"],
}
CLOSED = {**THREE, "additionalProperties": False}
ODD_VALUES = ['q"uote', "back\\slash", "new\nline", "é", "😀", "", "tab\t", "\u0001", "a/b", "nul\0", "\ud800"]

# name: (schema, admitted, not admitted)
CASES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "anything": ({}, [None, 1, "x", [1, {}], {"a": [True]}], []),
    "true": (True, [None, {}], []),
    "types": ({"type": ["string", "null"]}, ["x", None], [1, [], {}, True]),
    "integer": ({"type": "integer"}, [0, -7, 10**20], [1.5, "1", None]),
    "number": ({"type": "number"}, [0, -7, 1.5, 1e-07, 1e22, -2.5e-300], ["1", None]),
    "boolean": ({"type": "boolean"}, [True, False], [0, "true"]),
    "null": ({"type": "null"}, [None], [0, False, ""]),
    "nullable": ({"type": "string", "nullable": True}, ["x", None], [1]),
    "enum": ({"enum": ODD_VALUES}, ODD_VALUES, ["x", "q", "back", None]),
    "enum of all": (
        {"enum": [1, "1", None, True, 1.5, [1, "a"], {"a": {"b": []}}]},
        [1, "1", None, True, 1.5, [1, "a"], {"a": {"b": []}}],
        [2, "2", False, 1.25, [1], {"a": {}}, 15],
    ),
    "enum with a type": ({"type": "integer", "enum": [1, "1", 2.5, 3]}, [1, 3], ["1", 2.5]),
    "enum with bounds": ({"enum": [1, 5, 9], "minimum": 2, "maximum": 8}, [5], [1, 9]),
    "const": ({"const": {"a": 1}}, [{"a": 1}], [{"a": 2}, {}]),
    "length": ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "é😀\n"], ["a", "abcd", ""]),
    "long": ({"type": "string", "minLength": 1500}, ["x" * 1500, "x" * 3000], ["x" * 1499]),
    "short": ({"type": "string", "maxLength": 0}, [""], ["x"]),
    "range": ({"type": "integer", "minimum": -12, "maximum": 105}, [-12, -1, 0, 9, 105], [-13, 106, 1050]),
    "open range": (
        {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10},
        [1, 9],
        [0, 10, -1],
    ),
    "old range": ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, [4, 1000], [3, -4]),
    "number range": (
        {"type": "number", "minimum": 0, "maximum": 1},
        [0, 0.0, 0.5, 1, 1.0, 1e-05],
        [-0.1, 1.01, 2, 10],
    ),
    "date": (
        {"type": "string", "format": "date"},
        ["2024-02-29", "2000-02-29", "1999-12-31"],
        ["2023-02-29", "1900-02-29", "2023-04-31", "2023-13-01", "2023-1-1", "0000-01-01"],
    ),
    "time": (
        {"type": "string", "format": "time"},
        ["23:59:59Z", "00:00:00.5+02:00"],
        ["24:00:00Z", "12:00", "12:00:00"],
    ),
    "date-time": (
        {"type": "string", "format": "date-time"},
        ["2024-02-29T10:00:00Z", "2024-01-01T10:00:00.25-01:30"],
        ["2024-02-30T10:00:00Z", "2024-01-01 10:00:00Z", "2024-01-01"],
    ),
    "uuid": (
        {"type": "string", "format": "uuid"},
        ["123e4567-e89b-12d3-a456-426614174000"],
        ["123e4567e89b12d3a456426614174000", "g23e4567-e89b-12d3-a456-426614174000"],
    ),
    "other formats": (
        {"type": "string", "format": "email"},
        ["anna@example.org", "a.b+c@mail.example.co.uk"],
        ["anna", "@example.org", "a@b@c", "a b@c.de"],
    ),
    "unknown format": ({"type": "string", "format": "colour"}, ["x", ""], [1]),
    "pattern": ({"type": "string", "pattern": "^[A-Z]{2}-\\d+$"}, ["AB-1", "XY-007"], ["A-1", "AB-", "AB-1x"]),
    "free pattern": ({"type": "string", "pattern": "b+|q"}, ["abc", "q", "xqx"], ["ac", ""]),
    "subsets": (
        CLOSED,
        [{"b": 1}, {"a": 1, "b": 2}, {"b": 1, "c": 2}, {"a": 1, "b": 2, "c": 3}],
        [{}, {"a": 1}, {"b": 1, "a": 2}, {"b": 1, "b2": 2}, {"b": "1"}, {"a": 1, "b": 2, "c": 3, "d": 4}],
    ),
    "no property required": (
        {"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": False},
        [{}, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}],
        [{"b": 1, "a": 1}, {"c": 1}],
    ),
    "further keys": (
        THREE,
        [{"b": 1, "d": "x"}, {"b": 1, "c": 1, "cc": 1, "": 1}, {"b": 1, "é": 1}, {"b": 1, 'q"': 1}],
        [{"b": 1, "d": 1, "c": 1}, {"b": 1, "d": 1, "a": "x"}, {"d": 1}],
    ),
    "typed further keys": (
        {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "integer"}},
        [{}, {"a": "x", "b": 1}, {"b": 1, "ab": 2}],
        [{"b": "x"}, {"a": 1, "b": None}],
    ),
    "required, not declared": (
        {"type": "object", "properties": {"a": {}}, "required": ["z"]},
        [{"z": 1}, {"a": 1, "z": 1}, {"z": 1, "y": 1}],
        [{}, {"a": 1}],
    ),
    "key patterns": (
        {"type": "object", "patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False},
        [{}, {"x-a": 1}, {"x-": 1, "x-b": 2}],
        [{"a": 1}, {"x-a": "s"}],
    ),
    "no more keys": ({"type": "object", "properties": {"a": False, "b": {}}}, [{"b": 1}, {}], [{"a": 1}]),
    "some key": (
        {"type": "object", "properties": {"a": {}}, "minProperties": 1, "additionalProperties": False},
        [{"a": 1}],
        [{}],
    ),
    "items": ({"type": "array", "items": {"type": "integer"}}, [[], [1], [1, 2, 3]], [["x"], [1, None]]),
    "counts": (
        {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3},
        [[1, 2], [1, 2, 3]],
        [[], [1], [1, 2, 3, 4]],
    ),
    "no items": ({"type": "array", "maxItems": 0}, [[]], [[1]]),
    "nothing as item": ({"type": "array", "items": False}, [[]], [[1]]),
    "tuple": (
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
        [[], [1], [1, "x"]],
        [["x"], [1, 2], [1, "x", 3]],
    ),
    "tuple with least": (
        {"prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 1, "type": "array"},
        [[1], [1, "x"], [1, "x", None, {}]],
        [[], ["x"]],
    ),
    "old tuple": (
        {"type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "string"}, "minItems": 2},
        [[1, "x"], [1, "x", "y"]],
        [[1], [1, 2], ["x", "y"]],
    ),
    "recursive": (
        NODE,
        [{"v": 1}, {"v": 1, "kids": []}, {"v": 1, "kids": [{"v": 2, "kids": [{"v": 3}]}, {"v": 4}]}],
        [{}, {"v": 1, "kids": [{}]}, {"v": 1, "kids": [{"v": 2, "kids": [{"v": "x"}]}]}],
    ),
    "anyOf": ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, [1, None], ["x", 1.5]),
    "anyOf beside": (
        {"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}],
        [{}, {"c": 1}],
    ),
    "oneOf": ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, [1, "x"], [None, 1.5]),
    "oneOf by name": (
        {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{"a": 1}, {"b": 1}, {"a": 1, "c": 1}],
        [{}, {"c": 1}, {"a": 1, "b": 1}],
    ),
    "oneOf by value": (
        {"oneOf": [CLOSED | {"properties": {"b": {"const": 1}}}, CLOSED | {"properties": {"b": {"const": 2}}}]},
        [{"b": 1}, {"b": 2}],
        [{"b": 3}],
    ),
    "allOf": (
        {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}, {"minimum": 4}]},
        [4, 5],
        [3, 6, "x"],
    ),
    "allOf of objects": (
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"properties": {"a": {"maximum": 3}, "b": {"type": "string"}}},
            ]
        },
        [{"a": 1}, {"a": 3, "b": "x"}],
        [{"a": 4}, {"a": 1, "b": 1}, {}],
    ),
    "reference with more": (
        {"$ref": "#/$defs/n", "maximum": 3, "$defs": {"n": {"type": "integer"}}},
        [3, -1],
        [4, "x"],
    ),
    "escaped reference": (
        {"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"type": "null"}}},
        [None],
        [1],
    ),
    "no type": ({"minimum": 3, "maxLength": 1, "required": ["a"]}, [3, "x", None, {"a": 1}], [2, "xx", {}]),
}


@pytest.mark.parametrize("name", CASES)
def test_keyword(engine: GrammarEngine, name: str) -> None:
    """The grammar admits what the schema admits and nothing else; nothing is reported."""
    schema, admitted, refused = CASES[name]
    grammar = schema_to_gbnf(schema)
    for value in admitted:
        assert engine.accepts(grammar, encoded(value)), value
    for value in refused:
        assert not engine.accepts(grammar, encoded(value)), value
    assert untyped_paths(schema) == []


def encoded(value: Any) -> str:
    """Compact JSON; a lone surrogate is an escape."""
    return compact(value).encode("utf-8", "backslashreplace").decode()


def test_escapes_in_texts(engine: GrammarEngine) -> None:
    """Valid escapes are admitted; raw control characters, U+007F and lone surrogates are not."""
    grammar = schema_to_gbnf({"type": "string"})
    for good in ('"\\n\\u00e9\\"\\\\\\/"', '"\\ud83d\\ude00"', '"\\u0000"', '"\\ud7ff"', '"\\ue000"'):
        assert engine.accepts(grammar, good), good
    for bad in ('"\n"', '"\x7f"', '"\x01"', '"\\x41"', '"\\ud83d"', '"\\ude00"', '"\\ud83dx"', '"a'):
        assert not engine.accepts(grammar, bad), bad
    assert not engine.accepts(grammar, b'"\xed\xa0\x80"')
    assert engine.accepts(schema_to_gbnf({"type": "string", "maxLength": 1}), '"\\ud83d\\ude00"')


def test_numbers_are_json(engine: GrammarEngine) -> None:
    """No leading zeros, no bare points, no signs that JSON lacks, no NaN."""
    grammar = schema_to_gbnf({"type": "number"})
    for bad in ("01", "1.", ".5", "+1", "1e", "NaN", "-", "Infinity", "0x1", "1_0"):
        assert not engine.accepts(grammar, bad), bad


def test_a_declared_key_has_one_spelling(engine: GrammarEngine) -> None:
    """An escape cannot smuggle a declared key in as another one."""
    grammar = schema_to_gbnf(THREE)
    assert not engine.accepts(grammar, '{"b":1,"\\u0061":"x"}')
    assert not engine.accepts(grammar, '{"b":1,"\\u0062":"x"}')


@pytest.mark.parametrize(
    ("schema", "paths"),
    [
        ({"type": "object", "properties": {"a/b": {"type": "string", "pattern": "(?=x)"}}}, ["/properties/a~1b"]),
        ({"type": "array", "items": {"type": "integer", "multipleOf": 3}}, ["/items"]),
        ({"type": "array", "uniqueItems": True}, [""]),
        ({"type": "string", "uniqueItems": True}, []),
        ({"type": "array", "uniqueItems": False}, []),
        ({"not": {"type": "string"}}, [""]),
        ({"if": {"type": "string"}, "then": {"minLength": 1}}, [""]),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, [""]),
        ({"anyOf": [{"$ref": "https://example.org/s"}, {"type": "null"}]}, ["/anyOf/0"]),
        ({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, ["/$defs/a"]),
        ({"type": "string", "pattern": "^a*$", "maxLength": 3}, [""]),
        ({"type": "string", "format": "iri"}, [""]),
        ({"type": "object", "minProperties": 3}, [""]),
        ({"type": "integer", "enum": ["x"]}, [""]),
        (False, [""]),
        ({"type": "object", "properties": {"a": {"type": "object"}, "b": {}, "c": True}}, []),
    ],
)
def test_what_is_not_expressed_is_reported(engine: GrammarEngine, schema: Any, paths: list[str]) -> None:
    """The place of a construct without a rule is reported, and the grammar is a grammar all the same."""
    assert untyped_paths(schema) == paths
    assert engine.parses(schema_to_gbnf(schema))


def test_only_the_place_itself_is_generic(engine: GrammarEngine) -> None:
    """Beside a place that cannot be expressed all else holds, and what is valid stays admitted."""
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "multipleOf": 7}, "b": {"type": "boolean"}},
        "additionalProperties": False,
    }
    grammar = schema_to_gbnf(schema)
    assert engine.accepts(grammar, '{"n":14,"b":true}')
    assert engine.accepts(grammar, '{"n":15,"b":true}')
    assert not engine.accepts(grammar, '{"n":14,"b":1}')
    assert not engine.accepts(grammar, '{"n":"x"}')


@pytest.mark.parametrize(
    "schema",
    [
        "string", 5, None, [], [{}], {"type": 5}, {"type": "text"}, {"type": ["string", "text"]},
        {"properties": []}, {"properties": {"a": 5}}, {"items": "string"}, {"enum": "ab"}, {"required": "a"},
        {"required": [5]}, {"minimum": "3"}, {"minLength": -1}, {"maxItems": 1.5}, {"anyOf": {}},
        {"anyOf": ["string"]}, {"$ref": 5}, {"$ref": "#/nothing"}, {"pattern": 5}, {"minimum": float("nan")},
        {"enum": [{1, 2}]}, {"const": float("nan")}, {"properties": {"a": {"properties": {"b": "x"}}}},
    ],
)  # fmt: skip
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    """A GrammarError says where and why, from both functions."""
    with pytest.raises(GrammarError):
        schema_to_gbnf(schema)
    with pytest.raises(GrammarError):
        untyped_paths(schema)


def deep(levels: int) -> tuple[dict[str, Any], Any]:
    """Objects in each other, and an instance."""
    schema: dict[str, Any] = {"type": "integer"}
    value: Any = 1
    for _ in range(levels):
        schema = {"type": "object", "properties": {"x": schema}, "additionalProperties": False}
        value = {"x": value}
    return schema, value


def test_deep_schemas(engine: GrammarEngine) -> None:
    """Nesting written out is typed to a depth and generic past it; a thousand levels do no harm."""
    schema, value = deep(20)
    grammar = schema_to_gbnf(schema)
    assert untyped_paths(schema) == []
    assert engine.accepts(grammar, compact(value))
    assert not engine.accepts(grammar, compact(value).replace("1", '"1"'))
    schema, _ = deep(5000)
    assert len(untyped_paths(schema)) == 1
    assert engine.parses(schema_to_gbnf(schema))
    value = deep(50)[1]
    assert engine.accepts(schema_to_gbnf(schema), compact(value).replace("1", '"1"'))


def nested(key: str, levels: int) -> Any:
    """Combinations in each other."""
    schema: Any = {"type": "integer"}
    for _ in range(levels):
        schema = {key: [schema, {"type": "null"}] if key == "anyOf" else [schema]}
    return schema


@pytest.mark.parametrize("key", ["allOf", "anyOf", "oneOf"])
def test_deep_combinations(engine: GrammarEngine, key: str) -> None:
    """Combinations nest to a depth, then are reported."""
    assert engine.accepts(schema_to_gbnf(nested(key, 10)), "5")
    schema = nested(key, 3000)
    assert untyped_paths(schema)
    assert engine.parses(schema_to_gbnf(schema))


def test_a_schema_in_itself(engine: GrammarEngine) -> None:
    """A Python structure that holds itself ends at the depth limit."""
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["x"] = schema
    assert untyped_paths(schema)
    assert engine.parses(schema_to_gbnf(schema))


def test_recursion_without_an_end(engine: GrammarEngine) -> None:
    """A schema that only an infinite instance satisfies admits no way into the infinite, but is reported."""
    schema = {"type": "object", "properties": {"x": {"$ref": "#"}}, "required": ["x"]}
    assert untyped_paths(schema) == [""]
    optional = {**schema, "required": []}
    assert untyped_paths(optional) == []
    assert engine.accepts(schema_to_gbnf(optional), '{"x":{"x":{}}}')


def test_many_alternatives(engine: GrammarEngine) -> None:
    """Products of alternatives are cut and reported, not multiplied out; a long anyOf alone is kept."""
    pairs = [{"anyOf": [{"minimum": i}, {"maximum": -i}]} for i in range(12)]
    assert untyped_paths({"allOf": pairs})
    assert len(schema_to_gbnf({"allOf": pairs})) < 50_000
    wide = {"anyOf": [{"const": f"value {i}"} for i in range(300)]}
    assert untyped_paths(wide) == []
    assert engine.accepts(schema_to_gbnf(wide), '"value 299"')

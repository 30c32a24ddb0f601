"""Reading JSON Schema: pieces of a document, whether they are well-formed, and what they say together.

What a place of a document must satisfy is a conjunction of pieces, each a schema with the JSON Pointer where
it stands.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from metnosd.grammar.gbnf import GrammarError
from metnosd.grammar.numeric import Bounds


class Piece(NamedTuple):
    """A schema and where it stands."""

    pointer: str
    schema: Mapping[str, Any] | bool

    def at(self, *steps: str | int) -> str:
        """The JSON Pointer of a place below."""
        return _below(self.pointer, steps)


class Facts(NamedTuple):
    """A piece that is an object; what is said of one place is a tuple of these."""

    pointer: str
    schema: Mapping[str, Any]

    def at(self, *steps: str | int) -> str:
        """The JSON Pointer of a place below."""
        return _below(self.pointer, steps)


def _below(pointer: str, steps: Iterable[str | int]) -> str:
    return pointer + "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


Conjunction = tuple[Piece, ...]
Flat = tuple[Facts, ...]

ATOMS = ("null", "boolean", "integer", "fraction", "string", "array", "object")
"""The types of JSON; a number is an integer or has a fraction."""
_TYPES = {name: frozenset({name}) for name in ATOMS if name != "fraction"}
_TYPES["number"] = frozenset({"integer", "fraction"})

_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS = (
    "not", "if", "then", "else", "additionalProperties", "propertyNames", "contains", "additionalItems",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_COUNTS = (
    "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains",
    "maxContains",
)  # fmt: skip
_NUMBERS = ("minimum", "maximum", "multipleOf")
_STRINGS = ("pattern", "format", "$ref")


def is_schema(value: object) -> bool:
    """Whether `value` has the type of a schema."""
    return type(value) is dict or isinstance(value, (bool, Mapping))


def _is_list_of(value: object, kind: Callable[[object], bool]) -> bool:
    return isinstance(value, (list, tuple)) and all(map(kind, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: object) -> bool:
    return isinstance(value, (int, float)) and _is_number(value) and float(value).is_integer() and value >= 0


def _is_type(value: object) -> bool:
    return isinstance(value, str) and value in _TYPES


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, value)) and all(map(is_schema, value.values()))


_CHECKS: dict[str, Callable[[object], bool]] = {
    "type": lambda value: _is_type(value) or _is_list_of(value, _is_type),
    "enum": lambda value: isinstance(value, (list, tuple)),
    "required": lambda value: isinstance(value, bool) or _is_list_of(value, _is_text),
    "items": lambda value: is_schema(value) or _is_list_of(value, is_schema),
    "exclusiveMinimum": lambda value: isinstance(value, bool) or _is_number(value),
    "exclusiveMaximum": lambda value: isinstance(value, bool) or _is_number(value),
    **dict.fromkeys(_MAPS, _is_map),
    **dict.fromkeys(_LISTS, lambda value: _is_list_of(value, is_schema)),
    **dict.fromkeys(_SCHEMAS, is_schema),
    **dict.fromkeys(_COUNTS, _is_count),
    **dict.fromkeys(_NUMBERS, _is_number),
    **dict.fromkeys(_STRINGS, _is_text),
}


def check(piece: Piece) -> None:
    """Raise GrammarError where the keywords of this one schema (not of those below) are malformed."""
    if isinstance(piece.schema, bool):
        return
    if type(piece.schema) is not dict and not isinstance(piece.schema, Mapping):
        raise GrammarError(f"{piece.pointer or 'the root'} is no schema: {show(piece.schema)}")
    for key, value in piece.schema.items():
        is_right = _CHECKS.get(key)
        if is_right is not None and not is_right(value):
            raise GrammarError(f"{piece.pointer or 'the root'}: {key} cannot be {show(value)}")


def show(value: object) -> str:
    """`value` for an error message, cut to 80 characters."""
    text = repr(value)
    return text if len(text) < 80 else f"{text[:77]}..."


def types_of(flat: Flat) -> frozenset[str]:
    """The types that every fact allows."""
    found = frozenset(ATOMS)
    for fact in flat:
        if "type" in fact.schema:
            value = fact.schema["type"]
            names = (value,) if isinstance(value, str) else value
            allowed: frozenset[str] = frozenset().union(*(_TYPES[name] for name in names))
            found &= allowed | {"null"} if fact.schema.get("nullable") is True else allowed
    return found


def bounds_of(flat: Flat) -> Bounds:
    """The range that every fact allows a number."""
    found = Bounds()
    for _, schema in flat:
        if schema.keys().isdisjoint(_BOUNDS):
            continue
        for low, high in (_BOUNDS[:2], _BOUNDS[2:]):
            if _is_number(schema.get(low)):
                strict = low != "minimum" or schema.get("exclusiveMinimum") is True
                found = found.narrow(Bounds(low=_decimal(schema[low]), open_low=strict))
            if _is_number(schema.get(high)):
                strict = high != "maximum" or schema.get("exclusiveMaximum") is True
                found = found.narrow(Bounds(high=_decimal(schema[high]), open_high=strict))
    return found


_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def _decimal(value: float) -> Decimal:
    return Decimal(str(value))


def counts_of(flat: Flat, low: str, high: str) -> tuple[int, int | None]:
    """The largest lower and the smallest upper bound of a count."""
    lows = [int(fact.schema[low]) for fact in flat if low in fact.schema]
    highs = [int(fact.schema[high]) for fact in flat if high in fact.schema]
    return max(lows, default=0), min(highs) if highs else None


def same(value: object) -> str:
    """A text that is equal for equal JSON values: 1 and 1.0 are, 1 and true are not."""
    if type(value) is str:
        return f'"{value}'
    try:
        return _ENCODE(_whole(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise GrammarError(f"{show(value)} is no JSON value") from error


_ENCODE = json.JSONEncoder(sort_keys=True, allow_nan=False).encode


def _whole(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    if isinstance(value, Mapping):
        if not all(map(_is_text, value)):
            raise TypeError("keys are texts")
        return {key: _whole(item) for key, item in value.items()}
    return value


def values_of(flat: Flat) -> list[Any] | None:
    """The values that `enum` and `const` allow, in order and once each; None when neither stands there."""
    found: dict[str, Any] | None = None
    for _, schema in flat:
        for listed in (schema.get("enum"), [schema["const"]] if "const" in schema else None):
            if listed is not None:
                values: dict[str, Any] = {}
                for value in listed:
                    values.setdefault(same(value), value)
                found = values if found is None else {k: v for k, v in found.items() if k in values}
    return None if found is None else list(found.values())


def type_of(value: object) -> str:
    """The type of a JSON value, one of ATOMS."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "integer" if float(value).is_integer() else "fraction"
    return "string" if isinstance(value, str) else "object" if isinstance(value, Mapping) else "array"

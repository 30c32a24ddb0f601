"""Reading JSON Schema: well-formedness, references, and alternatives of conjunctions.

What a place of a document must satisfy is a conjunction of pieces, each a schema object with the JSON Pointer
where it stands. `$ref` and `allOf` add pieces, `anyOf` and `oneOf` split into alternatives.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple
from urllib.parse import unquote

from metnosd.grammar.gbnf import GrammarError
from metnosd.grammar.numeric import Bounds

MOST_ALTERNATIVES = 64
DEEPEST_NESTING = 32


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
    return isinstance(value, (bool, Mapping))


def _is_list_of(value: object, kind: Callable[[object], bool]) -> bool:
    return isinstance(value, (list, tuple)) and all(map(kind, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: object) -> bool:
    return _is_number(value) and float(value).is_integer() and value >= 0  # type: ignore[arg-type,operator]


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
    if not isinstance(piece.schema, Mapping):
        raise GrammarError(f"{piece.pointer or 'the root'} is no schema: {_show(piece.schema)}")
    for key, value in piece.schema.items():
        is_right = _CHECKS.get(key)
        if is_right is not None and not is_right(value):
            raise GrammarError(f"{piece.pointer or 'the root'}: {key} cannot be {_show(value)}")


def _show(value: object) -> str:
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
    try:
        return json.dumps(_whole(value), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise GrammarError(f"{_show(value)} is no JSON value") from error


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
                values = {same(value): value for value in reversed(listed)}
                values = {same(value): values[same(value)] for value in listed}
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


class Document:
    """A schema document: finds references, expands conjunctions, notes what cannot be expressed."""

    def __init__(self, root: Mapping[str, Any] | bool) -> None:
        self.root = root
        self.untyped: dict[str, None] = {}
        self.has_references = False

    def note(self, pointer: str) -> None:
        """Note that something at `pointer` is not expressed."""
        self.untyped.setdefault(pointer)

    def expand(self, pieces: Conjunction) -> list[Flat]:
        """The alternatives of a conjunction."""
        first = pieces[0]
        if len(pieces) == 1 and isinstance(first.schema, Mapping):
            check(first)
            if not _COMBINING & first.schema.keys():
                return [(Facts(first.pointer, first.schema),)]
        return self._product(pieces, (), 0)

    def _product(self, pieces: Iterable[Piece], above: tuple[str, ...], depth: int) -> list[Flat]:
        found: list[Flat] = [()]
        for piece in pieces:
            options = self._options(piece, above, depth)
            if len(found) * len(options) > MOST_ALTERNATIVES and len(found) > 1:
                self.note(piece.pointer)
                continue
            found = _once(_join(flat, option) for flat in found for option in options)
        return found

    def _options(self, piece: Piece, above: tuple[str, ...], depth: int) -> list[Flat]:
        check(piece)
        if isinstance(piece.schema, bool):
            return [()] if piece.schema else []
        if depth > DEEPEST_NESTING or piece.pointer in above:
            self.note(piece.pointer)
            return [()]
        schema, above = piece.schema, (*above, piece.pointer)
        found: list[Flat] = [(Facts(piece.pointer, schema),)]
        parts: list[Piece] = []
        if "$ref" in schema:
            target = self._target(piece)
            parts += [target] if target is not None else []
        parts += [Piece(piece.at("allOf", index), sub) for index, sub in enumerate(schema.get("allOf", ()))]
        if parts:
            found = [_join(found[0], flat) for flat in self._product(parts, above, depth + 1)]
        for key in ("anyOf", "oneOf"):
            if key in schema:
                found = self._split(piece, key, found, above, depth)
        return found

    def _split(
        self, piece: Piece, key: str, found: list[Flat], above: tuple[str, ...], depth: int
    ) -> list[Flat]:
        assert isinstance(piece.schema, Mapping)
        branches = [Piece(piece.at(key, index), sub) for index, sub in enumerate(piece.schema[key])]
        if key == "oneOf":
            branches = _exclusive(branches)
        options = [self._options(branch, above, depth + 1) for branch in branches]
        if key == "oneOf" and not _disjoint(options, found):
            self.note(piece.pointer)
        flats = [flat for option in options for flat in option]
        if len(found) * len(flats) > MOST_ALTERNATIVES and len(found) > 1:
            self.note(piece.pointer)
            return found
        return _once(_join(flat, other) for flat in found for other in flats)

    def _target(self, piece: Piece) -> Piece | None:
        assert isinstance(piece.schema, Mapping)
        reference = piece.schema["$ref"]
        self.has_references = True
        if not reference.startswith("#"):
            self.note(piece.pointer)
            return None
        pointer = unquote(reference[1:])
        if pointer and not pointer.startswith("/"):
            self.note(piece.pointer)
            return None
        found: Any = self.root
        for step in pointer.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and key in found:
                found = found[key]
            elif isinstance(found, (list, tuple)) and re.fullmatch(r"\d{1,6}", key) and int(key) < len(found):
                found = found[int(key)]
            else:
                raise GrammarError(f"{piece.pointer or 'the root'}: nothing is at {_show(reference)}")
        return Piece(pointer, found)


_COMBINING = {"$ref", "allOf", "anyOf", "oneOf"}


def _join(first: Flat, second: Flat) -> Flat:
    known = {fact.pointer for fact in first}
    return first + tuple(fact for fact in second if fact.pointer not in known)


def _once(flats: Iterable[Flat]) -> list[Flat]:
    return list({tuple(fact.pointer for fact in flat): flat for flat in flats}.values())


def _exclusive(branches: list[Piece]) -> list[Piece]:
    """Branches that each require one name only exclude each other when each forbids the other names."""
    names: list[str] = []
    for branch in branches:
        schema = branch.schema
        if not isinstance(schema, Mapping) or set(schema) - {"type", "required"}:
            return branches
        required = schema.get("required")
        if not isinstance(required, list) or len(required) != 1:
            return branches
        names.append(required[0])
    if len(set(names)) != len(names):
        return branches
    return [
        Piece(branch.pointer, {**_mapping(branch), "properties": {n: False for n in names if n != name}})
        for branch, name in zip(branches, names, strict=True)
    ]


def _mapping(piece: Piece) -> Mapping[str, Any]:
    return piece.schema if isinstance(piece.schema, Mapping) else {}


def _disjoint(options: list[list[Flat]], found: list[Flat]) -> bool:
    """Whether no value can satisfy two of the branches, as far as types, values and required names tell."""
    if len(options) > MOST_ALTERNATIVES:
        return False
    for index, first in enumerate(options):
        for second in options[index + 1 :]:
            for one in first:
                for other in second:
                    if not all(_apart(_join(base, one), _join(base, other)) for base in found):
                        return False
    return True


def _apart(one: Flat, other: Flat, depth: int = 0) -> bool:
    first, second = values_of(one), values_of(other)
    types = types_of(one) & types_of(other)
    for values in (first, second):
        if values is not None:
            types &= {type_of(value) for value in values}
    if not types:
        return True
    if first is not None and second is not None:
        return not {same(value) for value in first} & {same(value) for value in second}
    if types != {"object"} or depth:
        return False
    for name in _required(one) & _required(other):
        if _apart(_property(one, name), _property(other, name), depth + 1):
            return True
    return any(
        not _may_have(flat, name)
        for flat, names in ((one, _required(other)), (other, _required(one)))
        for name in names
    )


def _required(flat: Flat) -> set[str]:
    lists = [fact.schema.get("required") for fact in flat]
    return {name for names in lists if isinstance(names, (list, tuple)) for name in names}


def _property(flat: Flat, name: str) -> Flat:
    subs = [(fact, fact.schema.get("properties", {}).get(name)) for fact in flat]
    return tuple(Facts(fact.at("properties", name), sub) for fact, sub in subs if isinstance(sub, Mapping))


def _may_have(flat: Flat, name: str) -> bool:
    for fact in flat:
        declared = fact.schema.get("properties", {})
        if declared.get(name) is False:
            return False
        closed = fact.schema.get("additionalProperties") is False and "patternProperties" not in fact.schema
        if closed and name not in declared:
            return False
    return True

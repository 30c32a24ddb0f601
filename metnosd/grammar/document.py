"""A schema document: its references, its alternatives, and the places that are not expressed.

`$ref` and `allOf` add pieces to a conjunction, `anyOf` and `oneOf` split it into alternatives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from metnosd.grammar.gbnf import GrammarError
from metnosd.grammar.pieces import (
    Conjunction,
    Facts,
    Flat,
    Piece,
    check,
    same,
    show,
    type_of,
    types_of,
    values_of,
)

MOST_ALTERNATIVES = 64
DEEPEST_NESTING = 32


class Document:
    """A schema document: finds references, expands conjunctions, notes what cannot be expressed."""

    def __init__(self, root: Mapping[str, Any] | bool) -> None:
        self.root = root
        self.untyped: dict[str, None] = {}
        self.has_references = False

    def note(self, pointer: str) -> None:
        """Note that something at `pointer` is not expressed."""
        self.untyped.setdefault(pointer)

    def note_all(self, flat: Flat, *keys: str) -> None:
        """Note each fact of `flat` that has one of `keys`."""
        for fact in flat:
            if not fact.schema.keys().isdisjoint(keys):
                self.note(fact.pointer)

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

    def _split(self, piece: Piece, key: str, found: list[Flat], above: tuple[str, ...], depth: int) -> list[Flat]:
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
                if self._has_inner_ids():
                    self.note(piece.pointer)
                    return None
                raise GrammarError(f"{piece.pointer or 'the root'}: nothing is at {show(reference)}")
        return Piece(pointer, found)

    def _has_inner_ids(self) -> bool:
        """Whether a part of the document has a base of its own, from which its references go out."""
        waiting: list[Any] = [self.root]
        for _ in range(100_000):
            if not waiting:
                return False
            part = waiting.pop()
            if isinstance(part, Mapping):
                if part is not self.root and isinstance(part.get("$id", part.get("id")), str):
                    return True
                waiting += part.values()
            elif isinstance(part, (list, tuple)):
                waiting += part
        return True


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

"""Objects: any subset of the optional properties, each once, in the order declared, in linear size.

After a property either the object ends or the next property of those left follows; each property has one rule
that begins with it or passes to the next. Keys that are not declared come last, where the schema allows them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from metnosd.grammar.document import Document
from metnosd.grammar.gbnf import (
    PLAIN_RANGES,
    Alternative,
    Alternatives,
    Ref,
    Rules,
    char_class,
    json_text,
    literal,
)
from metnosd.grammar.pieces import Conjunction, Facts, Flat, Piece, counts_of
from metnosd.grammar.regex import Unsupported, minus, parse, write

_INLINE = 12


@dataclass(frozen=True, slots=True)
class Property:
    """A declared key: the parts of its value, and whether it must be there."""

    name: str
    value: Alternative
    required: bool


def properties_of(flat: Flat) -> dict[str, bool]:
    """Every key that is declared or required, in that order, and whether it is required."""
    required = [
        name
        for fact in flat
        if isinstance(fact.schema.get("required"), (list, tuple))
        for name in fact.schema["required"]
    ]
    names = dict.fromkeys((name for fact in flat for name in fact.schema.get("properties", ())), False)
    return names | dict.fromkeys(required, True)


def conjunction_of(flat: Flat, name: str, closed: bool, document: Document) -> Conjunction:
    """What the value of the key `name` must satisfy; `closed` forbids a key that no fact declares."""
    found: list[Piece] = []
    is_declared = False
    for fact in flat:
        schema = fact.schema
        is_covered = False
        if name in schema.get("properties", ()):
            found.append(Piece(fact.at("properties", name), schema["properties"][name]))
            is_covered = True
        for pattern, sub in schema.get("patternProperties", {}).items():
            try:
                matches = re.search(pattern, name) is not None
            except re.error:
                document.note(fact.at("patternProperties"))
                continue
            if matches:
                found.append(Piece(fact.at("patternProperties", pattern), sub))
                is_covered = True
        if not is_covered and "additionalProperties" in schema:
            found.append(Piece(fact.at("additionalProperties"), schema["additionalProperties"]))
            is_covered = schema["additionalProperties"] is not False
        is_declared = is_declared or is_covered
    if closed and not is_declared and any("properties" in fact.schema for fact in flat):
        return (Piece("", False),)
    return tuple(found) or (Piece("", True),)


def extras_of(flat: Flat, names: Sequence[str], closed: bool, document: Document) -> tuple[Conjunction, str | None]:
    """What keys beyond `names` must satisfy: their values, and a pattern for the key itself (None: any).

    A conjunction with the schema False means that there are none.
    """
    values: list[Piece] = []
    patterns: list[str] = []
    has_open = False
    for fact in flat:
        schema = fact.schema
        by_pattern = schema.get("patternProperties", {})
        rest = schema.get("additionalProperties", True)
        has_open = has_open or "additionalProperties" in schema or bool(by_pattern)
        if schema.get("unevaluatedProperties", True) is not True and "additionalProperties" not in schema:
            if len(flat) == 1 and schema["unevaluatedProperties"] is False and _STEERING.isdisjoint(schema):
                rest = False
            else:
                document.note(fact.pointer)
        if rest is False and len(by_pattern) == 1:
            ((pattern, sub),) = by_pattern.items()
            patterns.append(pattern)
            values.append(Piece(fact.at("patternProperties", pattern), sub))
            continue
        if by_pattern:
            document.note(fact.at("patternProperties"))
            document.note(fact.at("additionalProperties"))
            rest = True
        values.append(Piece(fact.at("additionalProperties"), rest))
        patterns += _name_patterns(fact, document)
    if len(patterns) > 1 or (patterns and any(_matches(patterns[0], name) for name in names)):
        for fact in flat:
            if "patternProperties" in fact.schema or "propertyNames" in fact.schema:
                document.note(fact.pointer)
        patterns = []
    if closed and not has_open and any("properties" in fact.schema for fact in flat):
        return (Piece("", False),), None
    return tuple(values) or (Piece("", True),), patterns[0] if patterns else None


_STEERING = set("if not dependentSchemas $dynamicRef $recursiveRef $ref allOf anyOf oneOf".split())
"""Keywords beside which keys may count as evaluated that are not declared here."""


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return True


def _name_patterns(fact: Facts, document: Document) -> list[str]:
    rule = fact.schema.get("propertyNames", True)
    if rule is True or rule == {} or rule == {"type": "string"}:
        return []
    if isinstance(rule, Mapping) and rule.keys() - {"type"} == {"pattern"}:
        if rule.get("type", "string") == "string":
            return [rule["pattern"]]
    document.note(fact.at("propertyNames"))
    return []


def count_is_free(flat: Flat, declared: int, required: int, is_open: bool, document: Document) -> bool:
    """Whether an object may be empty, noting bounds on the number of keys that are not expressed."""
    low, high = counts_of(flat, "minProperties", "maxProperties")
    if low > max(required, 1) or (high is not None and (is_open or high < declared)):
        for fact in flat:
            if "minProperties" in fact.schema or "maxProperties" in fact.schema:
                document.note(fact.pointer)
    return low == 0


def write_object(
    rules: Rules, wish: str, properties: Sequence[Property], extra: Alternative | None, may_be_empty: bool
) -> Alternatives:
    """The alternatives of an object.

    `extra` are the parts of a further member after its opening quote (key, colon, value), None when there is
    none. `may_be_empty` is false when at least one member must be there though none is required.
    """
    names: Alternatives = []
    after: Alternative = ('"}"',)
    if extra is not None:
        more = rules.name(wish)
        after = (Ref(rules.name(wish)),)
        names = [(Ref(more),)]
        rules.define(more, [(*extra, *after)])
        rules.define(str(after[0]), [('",\\""', Ref(more)), ('"}"',)])
    has_required = False
    for item in reversed(properties):
        names, after = _prepend(rules, wish, item, names, after, has_required)
        has_required = has_required or item.required
    if has_required:
        return [('"{\\""', *(names[0] if len(names) == 1 else (rules.shared(wish, names),)))]
    if not names:
        return [('"{}"',)]
    start = rules.shared(wish, names)
    if not may_be_empty:
        return [('"{\\""', start)]
    return [('"{"', rules.shared(wish, [('"}"',), ('"\\""', start)]))]


def _prepend(
    rules: Rules, wish: str, item: Property, names: Alternatives, after: Alternative, has_required: bool
) -> tuple[Alternatives, Alternative]:
    """The members from `item` on: as they begin after an opening quote, and as they follow a member."""
    if len(after) > _INLINE:
        after = (rules.shared(wish, [after]),)
    key = json_text(item.name)[1:] + ":"
    if item.required:
        return [(literal(key), *item.value, *after)], (literal(',"' + key), *item.value, *after)
    here: list[Alternative] = [(literal(key), *item.value, *after)]
    if names:
        here.append((rules.shared(wish, names),))
    follow: list[Alternative] = [('",\\""', rules.shared(wish, here))]
    if not has_required:
        follow.append(('"}"',))
    return here, (rules.shared(wish, follow),)


_SHORT_ESCAPES = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_ASCII_KEY = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E))
_BEYOND = PLAIN_RANGES[3:]


def other_keys(rules: Rules, wish: str, names: Sequence[str]) -> Ref:
    """The rule of a key, with its closing quote, that is none of `names`; linear in their letters.

    Such a key is written raw or with the short escapes, so that no escape can spell a declared name.
    """
    if not names:
        rest = rules.shared("key-rest", [(Ref(_key_char(rules), "*"), '"\\""')])
        return rest
    _key_char(rules)
    rest = rules.shared("key-rest", [(Ref(_key_char(rules), "*"), '"\\""')])
    top = Ref(rules.name(wish))
    waiting = [(top, sorted(set(names)), 0)]
    while waiting:
        rule, group, depth = waiting.pop()
        alternatives: list[Alternative] = []
        if len(group[0]) > depth:
            alternatives.append(('"\\""',))
        start = 1 if len(group[0]) == depth else 0
        taken: list[str] = []
        while start < len(group):
            char = group[start][depth]
            end = start + 1
            while end < len(group) and group[end][depth] == char:
                end += 1
            taken.append(char)
            if char in _SHORT_ESCAPES or _is_plain(char):
                below = Ref(rules.name(wish))
                text = "\\" + _SHORT_ESCAPES[char] if char in _SHORT_ESCAPES else char
                alternatives.append((literal(text), below))
                waiting.append((below, group[start:end], depth + 1))
            start = end
        alternatives.append((_other_char(rules, taken), rest))
        rules.define(rule, alternatives)
    return top


def _is_plain(char: str) -> bool:
    return any(low <= ord(char) <= high for low, high in PLAIN_RANGES)


def _key_char(rules: Rules) -> str:
    return _other_char(rules, []).target


def _other_char(rules: Rules, taken: Sequence[str]) -> Ref:
    """A rule for one character of a key that is none of `taken`."""
    cut = tuple((ord(char), ord(char)) for char in taken)
    beyond = any(ord(char) > 0x7E for char in taken)
    escapes = "".join(e for char, e in _SHORT_ESCAPES.items() if char not in taken)
    alternatives: list[Alternative] = [(char_class(minus(_ASCII_KEY, cut)),)]
    if beyond:
        alternatives.append((char_class(minus(_BEYOND, cut)),))
    else:
        alternatives.append((rules.shared("key-beyond", [(char_class(_BEYOND),)]),))
    if escapes:
        marks = [(ord(mark), ord(mark)) for mark in sorted(escapes)]
        alternatives.append((rules.shared("key-escape", [('"\\\\"', char_class(marks))]),))
    return rules.shared("key-char", alternatives)


def write_key_pattern(rules: Rules, wish: str, pattern: str) -> Alternative | None:
    """The parts of a key, with its closing quote, that matches `pattern`; None when it cannot be written."""
    try:
        return (*write(parse(pattern), rules, wish), '"\\""')
    except Unsupported:
        return None

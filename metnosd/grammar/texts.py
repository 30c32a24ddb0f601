"""Texts: length, pattern and format as rules over a JSON string."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from metnosd.grammar.document import Document
from metnosd.grammar.gbnf import LONGEST_START, Alternative, Alternatives, Ref, Rules, times
from metnosd.grammar.pieces import Flat, counts_of
from metnosd.grammar.regex import FORMATS, OPEN_FORMATS, Unsupported, lengths, parse, write


def text_rules(rules: Rules, wish: str, document: Document, flat: Flat) -> Alternatives:
    """Alternatives for the texts that `flat` admits, in their quotes.

    One pattern or format is written, together with bounds on the length only where it keeps to them by
    itself; what is left out is noted. Lengths count code points.
    """
    low, high = counts_of(flat, "minLength", "maxLength")
    if high is not None and low > high:
        return []
    chosen: Alternative | None = None
    for pointer, schema in flat:
        if schema.get("format") in OPEN_FORMATS:
            document.note(pointer)
        for pattern in _patterns(schema):
            parts = _written(rules, wish, pattern, low, high) if chosen is None else None
            if parts is None:
                document.note(pointer)
            else:
                chosen = parts
    if chosen is None:
        if low > LONGEST_START:
            document.note_all(flat, "minLength")
            low = LONGEST_START
        if (low, high) == (0, None):
            return [(Ref("json-string"),)]
        chosen = times("json-char", low, high)
    return [('"\\""', *chosen, '"\\""')]


def _patterns(schema: Mapping[str, Any]) -> list[str]:
    named = FORMATS.get(schema.get("format", ""))
    return [pattern for pattern in (schema.get("pattern"), named) if pattern]


def _written(rules: Rules, wish: str, pattern: str, low: int, high: int | None) -> Alternative | None:
    """The parts of a text that matches; None when that, or the length besides, cannot be written."""
    try:
        node = parse(pattern)
        shortest, longest = lengths(node)
        if shortest < low or (high is not None and (longest is None or longest > high)):
            return None
        return write(node, rules, f"{wish}-text")
    except Unsupported:
        return None


def text_passes(document: Document, flat: Flat, value: str) -> bool:
    """Whether the bounds, patterns and formats of a place let a listed text pass."""
    low, high = counts_of(flat, "minLength", "maxLength")
    if len(value) < low or (high is not None and len(value) > high):
        return False
    for pointer, schema in flat:
        for pattern in _patterns(schema):
            try:
                if re.search(pattern, value) is None:
                    return False
            except re.error:
                document.note(pointer)
    return True

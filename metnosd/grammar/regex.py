"""Regular expressions of JSON Schema (`pattern`) and the formats as rules over the text of a JSON string.

The part of ECMA 262 that has a context-free reading and means the same in Python: literals, classes, groups,
alternation, counted repetition, anchors at the ends. Where the dialects differ (what counts as a letter), a
class admits only what both admit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from metnosd.grammar.gbnf import (
    LONGEST_REPETITION,
    PLAIN_RANGES,
    Alternative,
    Ref,
    Rules,
    char_class,
    literal,
    times,
)

Ranges = tuple[tuple[int, int], ...]


class Unsupported(Exception):
    """A pattern, or a part of one, that has no such reading."""


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other; empty matches the empty text."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`low` to `high` times; None is without end."""

    item: Node
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Anchor:
    """The start or the end of the text."""

    start: bool


Node = Chars | Sequence | Choice | Repeat | Anchor

_LAST = 0x10FFFF
_WHOLE: Ranges = ((0, _LAST),)
_DIGIT: Ranges = ((0x30, 0x39),)
_WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Ranges = ((0x09, 0x0D), (0x20, 0x20))
_BEYOND: Ranges = ((0x80, _LAST),)
_WIDE_SPACE: Ranges = (
    (0x09, 0x0D), (0x1C, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
    (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
)  # fmt: skip
_CLASSES: dict[str, tuple[Ranges, Ranges]] = {
    "d": (_DIGIT, _DIGIT + _BEYOND),
    "w": (_WORD, _WORD + _BEYOND),
    "s": (_SPACE, _WIDE_SPACE),
}
"""What every dialect puts in a class, and what some dialect does."""
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "0": 0}
_CODES = {"x": re.compile("[0-9a-fA-F]{2}"), "u": re.compile("[0-9a-fA-F]{4}")}
_LINE_ENDS: Ranges = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))


def normal(ranges: Ranges) -> Ranges:
    """Sorted, without overlaps."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def minus(ranges: Ranges, without: Ranges) -> Ranges:
    """The code points of `ranges` that are not in `without`."""
    found: list[tuple[int, int]] = []
    for low, high in normal(ranges):
        for cut_low, cut_high in normal(without):
            if cut_high < low or cut_low > high:
                continue
            if cut_low > low:
                found.append((low, cut_low - 1))
            low = cut_high + 1
        if low <= high:
            found.append((low, high))
    return tuple(found)


class _Parser:
    """One pass over a pattern; groups nest to a small depth only."""

    def __init__(self, pattern: str) -> None:
        self.text, self.at, self.depth = pattern, 0, 0

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def take(self) -> str:
        if self.at >= len(self.text):
            raise Unsupported("the pattern ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def choice(self) -> Node:
        options = [self.sequence()]
        while self.peek("|"):
            self.at += 1
            options.append(self.sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def sequence(self) -> Node:
        items: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            items.append(self.repeated(self.atom()))
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def atom(self) -> Node:
        char = self.take()
        if char == "(":
            return self.group()
        if char == "[":
            return Chars(self.bracket())
        if char == ".":
            return Chars(minus(_WHOLE, _LINE_ENDS))
        if char in "^$":
            return Anchor(char == "^")
        if char == "\\":
            return Chars(self.escape(negated=False))
        if char in "*+?":
            raise Unsupported("nothing to repeat")
        return Chars(((ord(char), ord(char)),))

    def group(self) -> Node:
        if self.peek("?"):
            start = re.compile(r"\?:|\?P?<[A-Za-z]\w*>").match(self.text, self.at)
            if start is None:
                raise Unsupported("a group that looks around")
            self.at = start.end()
        self.depth += 1
        if self.depth > 20:
            raise Unsupported("groups nest too deep")
        inner = self.choice()
        if self.take() != ")":
            raise Unsupported("a group does not end")
        self.depth -= 1
        return inner

    def repeated(self, item: Node) -> Node:
        count = re.compile(r"([*+?])|\{(\d{1,4})(,?)(\d{0,4})\}").match(self.text, self.at)
        if count is None:
            return item
        self.at = count.end()
        if self.peek("+"):
            raise Unsupported("a possessive repetition")
        if self.peek("?"):
            self.at += 1
        if count[1]:
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[count[1]]
        else:
            low = int(count[2])
            high = int(count[4]) if count[4] else (None if count[3] else low)
        if isinstance(item, Anchor) or low > LONGEST_REPETITION or (high is not None and high < low):
            raise Unsupported("a repetition that cannot be written")
        return Repeat(item, low, high)

    def escape(self, negated: bool) -> Ranges:
        char = self.take()
        if char.lower() in _CLASSES:
            narrow, wide = _CLASSES[char.lower()]
            if char.islower():
                return wide if negated else narrow
            return minus(_WHOLE, narrow if negated else wide)
        if char in "xu":
            digits = _CODES[char].match(self.text, self.at)
            if digits is None:
                raise Unsupported("a code point that is none")
            self.at = digits.end()
            return ((int(digits[0], 16),) * 2,)
        if char in _CONTROLS:
            return ((_CONTROLS[char],) * 2,)
        if char.isalnum():
            raise Unsupported(f"the escape \\{char}")
        return ((ord(char),) * 2,)

    def bracket(self) -> Ranges:
        negated = self.peek("^")
        self.at += negated
        found: Ranges = ()
        while not self.peek("]"):
            part = self.member(negated)
            if self.peek("-") and not self.text.startswith("-]", self.at):
                self.at += 1
                end = self.member(negated)
                if len(part) != 1 or len(end) != 1 or part[0][0] != part[0][1] or end[0][0] != end[0][1]:
                    raise Unsupported("a range between classes")
                part = ((part[0][0], end[0][0]),)
            found += part
        self.at += 1
        if not found:
            raise Unsupported("an empty class")
        return minus(_WHOLE, found) if negated else normal(found)

    def member(self, negated: bool) -> Ranges:
        char = self.take()
        if char != "\\":
            return ((ord(char),) * 2,)
        if self.peek("b"):
            self.at += 1
            return ((8, 8),)
        return self.escape(negated)


@lru_cache(maxsize=256)
def parse(pattern: str) -> Node:
    """The meaning of `pattern` as a whole text, ends without an anchor being free; raises Unsupported."""
    parser = _Parser(pattern)
    found = parser.choice()
    if parser.at != len(pattern):
        raise Unsupported("a group ends that did not begin")
    options = found.options if isinstance(found, Choice) else (found,)
    return Choice(tuple(_anchored(option) for option in options))


def _anchored(option: Node) -> Node:
    items = option.items if isinstance(option, Sequence) else (option,)
    start = bool(items) and items[0] == Anchor(start=True)
    end = len(items) > start and items[-1] == Anchor(start=False)
    items = items[start : len(items) - end]
    anything = (Repeat(Chars(_WHOLE), 0, None),)
    return Sequence((() if start else anything) + items + (() if end else anything))


def lengths(node: Node) -> tuple[int, int | None]:
    """The shortest and longest text in code points; None: without end."""
    if isinstance(node, Chars):
        return 1, 1
    if isinstance(node, Anchor):
        return 0, 0
    if isinstance(node, Repeat):
        low, high = lengths(node.item)
        return low * node.low, None if high is None or node.high is None else high * node.high
    parts = [lengths(item) for item in (node.items if isinstance(node, Sequence) else node.options)]
    lows, highs = [low for low, _ in parts], [high for _, high in parts if high is not None]
    if isinstance(node, Sequence):
        return sum(lows), sum(highs) if len(highs) == len(parts) else None
    return min(lows), max(highs) if len(highs) == len(parts) else None


def write(node: Node, rules: Rules, wish: str) -> Alternative:
    """The parts that match `node` inside a JSON string; raises Unsupported."""
    if isinstance(node, Chars):
        return _write_chars(node.ranges, rules, wish)
    if isinstance(node, Anchor):
        raise Unsupported("an anchor in the middle")
    if isinstance(node, Sequence):
        return tuple(part for item in node.items for part in write(item, rules, wish))
    if isinstance(node, Choice):
        if len(node.options) == 1:
            return write(node.options[0], rules, wish)
        return (rules.shared(wish, [write(option, rules, wish) for option in node.options]),)
    if lengths(node.item)[0] == 0 and node.high != 1:
        raise Unsupported("a repetition of what may be empty")
    return times(rules.shared(wish, [write(node.item, rules, wish)]), node.low, node.high)


_SHORT = {0x22: '\\"', 0x5C: "\\\\", 8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}
_NOT_PLAIN = minus(_WHOLE, PLAIN_RANGES)


def _write_chars(ranges: Ranges, rules: Rules, wish: str) -> Alternative:
    if ranges == _WHOLE:
        return (Ref("json-char"),)
    plain = minus(ranges, _NOT_PLAIN)
    alternatives: list[Alternative] = []
    if plain:
        single = len(plain) == 1 and plain[0][0] == plain[0][1]
        alternatives.append((literal(chr(plain[0][0])) if single else char_class(plain),))
    for code, text in _SHORT.items():
        if any(low <= code <= high for low, high in ranges):
            alternatives.append((literal(text),))
    if len(alternatives) == 1:
        return alternatives[0]
    return (rules.shared(wish, alternatives),)


_LABEL = "(?:[A-Za-z0-9]{1,63}|[A-Za-z0-9]{1,20}(?:-[A-Za-z0-9]{1,20}){1,2})"
_HOST = rf"{_LABEL}(?:\.{_LABEL}){{0,3}}"
_ATEXT = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,15}"
_YEAR = r"(?:[1-9]\d{3}|0[1-9]\d\d|00[1-9]\d|000[1-9])"
_LEAP = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DAYS = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    r"|02-(?:0[1-9]|1\d|2[0-8]))"
)
_DATE = rf"(?:{_YEAR}-{_DAYS}|{_LEAP}-02-29)"
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_GROUP = "[0-9A-Fa-f]{1,4}"
_URI_CHAR = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
_COMPRESSED = "|".join(rf"(?:{_GROUP}:){{1,{before}}}(?::{_GROUP}){{1,{7 - before}}}" for before in range(1, 7))
FORMATS: dict[str, str] = {
    "date": f"^{_DATE}$",
    "time": f"^{_TIME}$",
    "date-time": f"^{_DATE}T{_TIME}$",
    "uuid": "^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$",
    "email": rf"^(?:[A-Za-z0-9_+-]{{1,64}}|{_ATEXT}(?:\.{_ATEXT}){{0,3}})@{_HOST}$",
    "hostname": f"^{_HOST}$",
    "ipv4": rf"^{_OCTET}(?:\.{_OCTET}){{3}}$",
    "ipv6": rf"^(?:(?:{_GROUP}:){{7}}{_GROUP}|(?:{_GROUP}:){{1,7}}:|:(?::{_GROUP}){{1,7}}|::|{_COMPRESSED})$",
    "uri": (
        rf"^[A-Za-z][A-Za-z0-9+.-]*:(?://(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{{2}})+(?::\d{{1,5}})?"
        rf"(?:/{_URI_CHAR}*)*|{_URI_CHAR}(?:{_URI_CHAR}|/)*)"
        rf"(?:\?(?:{_URI_CHAR}|[/?])*)?(?:#(?:{_URI_CHAR}|[/?])*)?$"
    ),
    "duration": (
        r"^P(?:\d{1,9}W|(?:\d{1,9}Y(?:\d{1,9}M(?:\d{1,9}D)?)?|\d{1,9}M(?:\d{1,9}D)?|\d{1,9}D)"
        r"(?:T(?:\d{1,9}H(?:\d{1,9}M(?:\d{1,9}S)?)?|\d{1,9}M(?:\d{1,9}S)?|\d{1,9}S))?"
        r"|T(?:\d{1,9}H(?:\d{1,9}M(?:\d{1,9}S)?)?|\d{1,9}M(?:\d{1,9}S)?|\d{1,9}S))$"
    ),
    "json-pointer": "^(?:/(?:[^/~]|~[01])*)*$",
}
"""RFC 3339 and 4122 but for lower case; what is plainly valid in RFC 5321, 1123, 4291, 3986 and 6901."""

OPEN_FORMATS = frozenset(
    "idn-email idn-hostname uri-reference iri iri-reference uri-template relative-json-pointer regex".split()
)
"""Formats of JSON Schema without a rule here; any other name is an annotation."""

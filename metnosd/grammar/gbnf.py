"""Writing GBNF: escaping, named rules, tries, and the rules of generic JSON.

A rule is a list of alternatives, an alternative a tuple of parts, a part either finished GBNF text (a
literal, a character class) or a `Ref` to a rule. A rule without alternatives matches nothing; `Rules.text`
removes it together with every alternative that needs it, so that what cannot be is never offered.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Alternative = tuple[str, ...]
Alternatives = Sequence[Alternative]

LONGEST_REPETITION = 1000
"""llama.cpp silently takes `{0,2001}` as unbounded, so counted repetitions stop here."""
LONGEST_START = 4 * LONGEST_REPETITION
"""The largest least count that is written out."""


class GrammarError(ValueError):
    """What was given cannot be made a grammar; the message says where and why."""


class Ref(str):
    """A reference to a rule as it stands in an alternative; its text may carry a repetition."""

    target: str
    optional: bool

    def __new__(cls, target: str, repetition: str = "") -> Ref:
        """`repetition` is "", "?", "*", "+" or "{m,n}"."""
        ref = super().__new__(cls, target + repetition)
        ref.target = target
        ref.optional = repetition[:1] in ("?", "*") or repetition.startswith("{0,")
        return ref

    def __reduce__(self) -> tuple[type[Ref], tuple[str, str]]:
        return Ref, (self.target, self[len(self.target) :])


def times(target: str, low: int, high: int | None) -> tuple[str, ...]:
    """The parts that repeat the rule `target` from `low` to `high` times (None: without end).

    More than `LONGEST_REPETITION` at most becomes that many; a larger `low` is written as a sequence.
    """
    parts: list[str] = []
    while low > LONGEST_REPETITION:
        parts.append(Ref(target, f"{{{LONGEST_REPETITION}}}"))
        low -= LONGEST_REPETITION
        high = None if high is None else high - LONGEST_REPETITION
    if high is not None:
        high = max(low, min(high, LONGEST_REPETITION))
    if (low, high) == (0, 0):
        return tuple(parts)
    short = {(0, None): "*", (1, None): "+", (0, 1): "?", (1, 1): ""}.get((low, high))
    if short is None:
        short = f"{{{low}}}" if low == high else f"{{{low},{'' if high is None else high}}}"
    parts.append(Ref(target, short))
    return tuple(parts)


_LITERAL_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LITERAL_UNSAFE = re.compile(r'[\\"\x00-\x1f\x7f]')


def literal(text: str) -> str:
    """`text` as a GBNF string literal."""
    if _LITERAL_UNSAFE.search(text) is None:
        return f'"{text}"'
    return '"' + _LITERAL_UNSAFE.sub(_escape_literal, text) + '"'


def _escape_literal(match: re.Match[str]) -> str:
    return _LITERAL_ESCAPES.get(match[0]) or f"\\x{ord(match[0]):02X}"


_SURROGATE = re.compile("[\ud800-\udfff]")


def json_text(value: object) -> str:
    """`value` as compact JSON in UTF-8; a lone surrogate stays an escape."""
    text = _ENCODE(value)
    return text if text.isascii() else _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def char_class(ranges: Iterable[tuple[int, int]]) -> str:
    """Inclusive code point ranges as a GBNF character class."""
    return "[" + "".join(_class_part(low, high) for low, high in ranges) + "]"


def _class_part(low: int, high: int) -> str:
    if low == high:
        return _class_char(low)
    return _class_char(low) + ("-" if high > low + 1 else "") + _class_char(high)


def _class_char(code: int) -> str:
    """A character in a class; other readers of GBNF misread `\\U` and a `\\u` with leading zeros."""
    char = chr(code)
    if code > 0x7E:
        return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if 0x1000 <= code < 0x10000 else char
    return char if char.isalnum() or char in " !#$%&'()*+,./:;<=>?@_`{|}~" else f"\\x{code:02X}"


PLAIN_RANGES = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E), (0x80, 0xD7FF), (0xE000, 0x10FFFF))
"""What may stand in a JSON string unescaped; control characters, U+007F and surrogates may not."""

_DIGITS = 30
_HEX = "[0-9a-fA-F]"
JSON_RULES: Mapping[str, Alternatives] = {
    "json-value": [
        (Ref("json-object"),),
        (Ref("json-array"),),
        (Ref("json-string"),),
        (Ref("json-number"),),
        (Ref("json-boolean"),),
        ('"null"',),
    ],
    "json-object": [('"{"', Ref("json-object-body"))],
    "json-object-body": [('"}"',), (Ref("json-member"), Ref("json-members"))],
    "json-members": [('"}"',), ('","', Ref("json-member"), Ref("json-members"))],
    "json-member": [(Ref("json-string"), '":"', Ref("json-value"))],
    "json-array": [('"["', Ref("json-array-body"))],
    "json-array-body": [('"]"',), (Ref("json-value"), Ref("json-items"))],
    "json-items": [('"]"',), ('","', Ref("json-value"), Ref("json-items"))],
    "json-string": [('"\\""', Ref("json-char", "*"), '"\\""')],
    "json-char": [(char_class(PLAIN_RANGES),), ('"\\\\"', Ref("json-escape"))],
    "json-escape": [('["\\\\/bfnrt]',), ('"u"', Ref("json-code"))],
    "json-code": [("[0-9a-cefA-CEF]", _HEX, _HEX, _HEX), ("[dD]", Ref("json-high"))],
    "json-high": [
        ("[0-7]", _HEX, _HEX),
        ("[89abAB]", _HEX, _HEX, '"\\\\u"', "[dD]", "[c-fC-F]", _HEX, _HEX),
    ],
    "json-number": [
        (Ref("json-minus", "?"), Ref("json-natural"), Ref("json-fraction", "?"), Ref("json-exponent", "?"))
    ],
    "json-positive": [(Ref("json-natural"), Ref("json-fraction", "?"), Ref("json-exponent", "?"))],
    "json-integer": [(Ref("json-minus", "?"), Ref("json-natural"))],
    "json-minus": [('"-"',)],
    "json-natural": [('"0"',), ("[1-9]", Ref("json-digit", f"{{0,{_DIGITS}}}"))],
    "json-fraction": [('"."', Ref("json-digit", f"{{1,{_DIGITS}}}"))],
    "json-exponent": [("[eE]", Ref("json-sign", "?"), Ref("json-digit", "{1,3}"))],
    "json-sign": [("[+-]",)],
    "json-digit": [("[0-9]",)],
    "json-zero": [('"0"',)],
    "json-boolean": [('"true"',), ('"false"',)],
}
"""Compact JSON without blanks. A character escaped as a surrogate pair counts as one `json-char`."""


class Block(NamedTuple):
    """Finished rules that go into a grammar together: their text, and the rules outside that they need."""

    text: str
    needs: tuple[str, ...]


class Rules:
    """Named rules on their way to a grammar; the rules of generic JSON are there from the start.

    With `prefix` every name is that prefix and a number, which keeps the names of a block apart from others.
    """

    def __init__(self, prefix: str = "") -> None:
        self._bodies: dict[str, Alternatives | Block] = {}
        self._names = {"root", *JSON_RULES}
        self._prefix = prefix
        self._bases: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._shared: dict[tuple[Alternative, ...], Ref] = {}
        self.check_endless = False
        """Set by a writer of recursive rules: some may have no finite match."""

    def name(self, wish: str) -> str:
        """A new rule name like `wish`: letters, digits and hyphens, beginning with a letter."""
        if self._prefix:
            name = f"{self._prefix}-{len(self._names)}"
            self._names.add(name)
            return name
        base = self._bases.get(wish)
        if base is None:
            base = self._bases[wish] = rule_name(wish)
        count = self._counts.get(base, 0) + 1
        name = base if count == 1 else f"{base}-{count}"
        while name in self._names:
            count += 1
            name = f"{base}-{count}"
        self._counts[base] = count
        self._names.add(name)
        return name

    def define(self, name: str, body: Alternatives | Block) -> None:
        """Give the rule `name` its alternatives, or the block that defines it; each name once."""
        if name in self._bodies:
            raise GrammarError(f"the rule {name} is defined twice")
        self._bodies[name] = body

    def shared(self, wish: str, alternatives: Alternatives) -> Ref:
        """A reference to a rule with these alternatives, the same rule for the same alternatives."""
        if len(alternatives) == 1 and len(alternatives[0]) == 1:
            only = alternatives[0][0]
            if isinstance(only, Ref) and only == only.target:
                return only
        key = tuple(alternatives)
        known = self._shared.get(key)
        if known is None:
            known = self._shared[key] = Ref(self.name(wish))
            self._bodies[known.target] = alternatives
        return known

    def text(self, root: Alternatives) -> str | None:
        """The grammar: `root` first, then the rules that it reaches, one a line in the order defined.

        None when nothing can match.
        """
        bodies, _ = self._used("root", root, {**JSON_RULES, **self._bodies})
        if not bodies:
            return None
        return "".join([_line(name, body) for name, body in bodies.items()])

    def block(self, name: str, root: Alternatives) -> Block | None:
        """The rules that `root` reaches, `name` first, without generic JSON; None when nothing matches."""
        bodies, outside = self._used(name, root, self._bodies)
        if not bodies:
            return None
        return Block("".join([_line(rule, body) for rule, body in bodies.items()]), tuple(outside))

    def _used(
        self, name: str, root: Alternatives, known: Mapping[str, Alternatives | Block]
    ) -> tuple[dict[str, Alternatives | Block], list[str]]:
        """What `root` reaches of the rules `known`, and the rules that it needs besides."""
        bodies: dict[str, Alternatives | Block] = {name: root, **known}
        if self.check_endless or not all(bodies.values()):
            bodies = _without_impossible(bodies)
        if not bodies.get(name):
            return {}, []
        reached = {name}
        waiting = [name]
        outside: list[str] = []
        while waiting:
            for target in _targets(bodies[waiting.pop()]):
                if target not in reached:
                    reached.add(target)
                    (waiting if target in bodies else outside).append(target)
        return {rule: body for rule, body in bodies.items() if rule in reached}, outside


def rule_name(wish: str) -> str:
    """`wish` with the letters that a rule name may have."""
    base = re.sub(r"[^a-zA-Z0-9]+", "-", wish).strip("-")
    return base if base[:1].isalpha() else f"x-{base}".rstrip("-")


def _line(name: str, body: Alternatives | Block) -> str:
    if isinstance(body, Block):
        return body.text
    return f"{name} ::= {' | '.join([' '.join(parts) or _EMPTY for parts in body])}\n"


_EMPTY = '""'


def _targets(body: Alternatives | Block) -> Sequence[str]:
    """The rules that a body names."""
    if type(body) is Block:
        return body.needs
    return [part.target for parts in body for part in parts if type(part) is Ref]


def _without_impossible(bodies: Mapping[str, Alternatives | Block]) -> dict[str, Alternatives | Block]:
    """Drop the rules that have no finite match, and the alternatives that need one of them."""
    needs: dict[str, list[tuple[str, int]]] = {}
    missing: dict[tuple[str, int], int] = {}
    possible: set[str] = set()
    ready: deque[str] = deque()
    for name, body in bodies.items():
        for index, parts in enumerate([()] if isinstance(body, Block) else body):
            targets = {part.target for part in parts if isinstance(part, Ref) and not part.optional}
            targets &= bodies.keys()
            missing[name, index] = len(targets)
            for target in targets:
                needs.setdefault(target, []).append((name, index))
            if not targets and name not in possible:
                possible.add(name)
                ready.append(name)
    while ready:
        for name, index in needs.get(ready.popleft(), ()):
            missing[name, index] -= 1
            if not missing[name, index] and name not in possible:
                possible.add(name)
                ready.append(name)
    impossible = bodies.keys() - possible
    return {
        name: body
        if isinstance(body, Block)
        else [_keep(parts, impossible) for index, parts in enumerate(body) if not missing[name, index]]
        for name, body in bodies.items()
        if name in possible
    }


def _keep(parts: Alternative, impossible: set[str]) -> Alternative:
    return tuple(part for part in parts if not isinstance(part, Ref) or part.target not in impossible)


def trie(rules: Rules, wish: str, entries: Iterable[tuple[str, Alternative]]) -> list[Alternative]:
    """Alternatives that match one of the given texts, each followed by its own parts, factored as a trie.

    A flat list of names makes the sampler try each at every token; a trie shares what they share. The result
    depends on the texts only, not on their order; one text with two continuations is an alternation.
    """
    top: list[Alternative] = []
    waiting: deque[tuple[list[Alternative], int, list[tuple[str, Alternative]]]] = deque()
    waiting.append((top, 0, sorted(entries, key=lambda entry: entry[0])))
    while waiting:
        alternatives, depth, group = waiting.popleft()
        start = 0
        while start < len(group):
            text, parts = group[start]
            if len(text) == depth:
                if parts not in alternatives:
                    alternatives.append(parts)
                start += 1
                continue
            end = start + 1
            while end < len(group) and group[end][0][depth] == text[depth]:
                end += 1
            if end == start + 1:
                alternatives.append((literal(text[depth:]), *parts))
            else:
                common = _common(text, group[end - 1][0], depth)
                below: list[Alternative] = []
                name = rules.name(wish)
                rules.define(name, below)
                alternatives.append((literal(text[depth:common]), Ref(name)))
                waiting.append((below, common, group[start:end]))
            start = end
    return top


def _common(first: str, last: str, depth: int) -> int:
    """How far two texts agree; of a sorted group the first and the last agree the least."""
    end = min(len(first), len(last))
    while depth < end and first[depth] == last[depth]:
        depth += 1
    return depth

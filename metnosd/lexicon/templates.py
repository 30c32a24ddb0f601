"""Sentence templates: what a translator writes instead of regular expressions.

    "[the] last {number} {unit}"     an optional word, then values of two named lists
    "(undo|revert) [that|it]"        alternatives

`[…]` may be missing, `(a|b)` is one of them, `{name}` is a value of the list `name` or a text that a template
of the section `name` fits, spaces are any blanks. Text matches folded: without regard to case, typographic
apostrophes and, where a language says so, accents.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

_TOKEN = re.compile(r"[\[\](){}|]|[^\[\](){}|\s]+|\s+")

_BORDER = r"(?:[\s,]++)?(?:(?<!\w)|(?!\w))"
"""A blank of a template: any blanks, also none beside a word that is left out, but never inside a word."""

Values = tuple[tuple[str, str], ...]
"""The list values of a match, in the order of the template: (list, folded text)."""


class TemplateError(ValueError):
    """A template that does not hold together; the message says what and where in it."""


@dataclass(frozen=True)
class Template:
    """A template ready to match folded text.

    `source` is its regular expression, compiled when it is first needed; `names` are the lists of its groups,
    in order. A text that holds none of `anchors` cannot fit, which spares most templates most of the time.
    """

    text: str
    source: str
    names: tuple[str, ...]
    anchors: frozenset[str]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled expression."""
        # The borders are part of the expression, so that it looks on for a longer or shorter way to fit.
        return re.compile(rf"(?<!\w)(?:{self.source})(?:(?<!\w)|(?!\w))")

    def may_fit(self, text: str) -> bool:
        """Whether the folded `text` holds an anchor; cheap, and false only where nothing fits."""
        return not self.anchors or any(anchor in text for anchor in self.anchors)

    def full(self, text: str) -> Values | None:
        """The values of the lists if all of the folded `text` fits."""
        found = self.pattern.fullmatch(text) if self.may_fit(text) else None
        return self.values_of_match(found) if found else None

    def search(self, text: str) -> tuple[Values, tuple[int, int]] | None:
        """The values and the place of the first part of the folded `text` that fits, at word borders."""
        if not self.may_fit(text):
            return None
        for found in self.pattern.finditer(text):
            start, end = found.span()
            if end > start and not inside_word(text, start) and not inside_word(text, end):
                return self.values_of_match(found), (start, end)
        return None

    def values_of_match(self, found: re.Match[str]) -> Values:
        """The values of the lists in a match of `pattern`."""
        pairs = zip(self.names, found.groups(), strict=True)
        return tuple((name, value) for name, value in pairs if value is not None)


def fold(text: str) -> str:
    """`text` in the form in which templates match: NFC, case-folded, straight apostrophes, same length.

    Characters whose folding is longer stay as they are, so that places in the result are places in `text`.
    """
    return text.lower() if text.isascii() else "".join(map(_fold_one, text))


_STRAIGHT = {"\u2019": "'", "\u2018": "'", "\u00a0": " ", "\u202f": " ", "\u02bc": "'"}


def _fold_one(char: str) -> str:
    if char < "\x80":
        return char.lower()
    folded = _STRAIGHT.get(char) or unicodedata.normalize("NFC", char.casefold())
    return folded if len(folded) == 1 else char


def without_accents(folded: str) -> str:
    """Folded text with its accents taken off, same length; letters that only look alike stay."""
    if folded.isascii():
        return folded
    return "".join(unicodedata.normalize("NFD", char)[0] if char > "\x7f" else char for char in folded)


def inside_word(text: str, at: int) -> bool:
    """Whether the place `at` of `text` lies between two characters of one word."""
    return 0 < at < len(text) and _is_word(text[at - 1]) and _is_word(text[at])


def holds(folded: str, phrase: str) -> bool:
    """Whether `phrase` stands in `folded` at word borders."""
    at = folded.find(phrase)
    while at >= 0:
        if not inside_word(folded, at) and not inside_word(folded, at + len(phrase)):
            return True
        at = folded.find(phrase, at + 1)
    return False


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def values_of(values: Values, name: str) -> list[str]:
    """The texts of list `name` among `values`, in order."""
    return [text for found, text in values if found == name]


def one_of(values: Values, name: str) -> str | None:
    """The first text of list `name` among `values`."""
    return next((text for found, text in values if found == name), None)


Words = Mapping[str, frozenset[str]]
"""List → texts of which every value of it holds one; a list that is missing may hold anything."""


@dataclass(slots=True)
class _Compiler:
    """Compiles one template; `lists` maps each list's name to a pattern without groups."""

    text: str
    tokens: list[str]
    lists: Mapping[str, str]
    words: Words
    names: list[str] = field(default_factory=list)
    at: int = 0

    def alternatives(self) -> tuple[str, frozenset[str]]:
        """The pattern up to a closing bracket, and the anchors of what it must hold (none: nothing certain)."""
        branches = [""]
        anchors: list[list[frozenset[str]]] = [[]]
        while self.at < len(self.tokens) and self.tokens[self.at] not in ("]", ")"):
            token = self.tokens[self.at]
            self.at += 1
            if token == "|":
                branches.append("")
                anchors.append([])
                continue
            piece, needs = self._piece(token)
            branches[-1] += piece
            if needs:
                anchors[-1].append(needs)
        return "|".join(branches), _union([min(branch, key=len, default=frozenset()) for branch in anchors])

    def _piece(self, token: str) -> tuple[str, frozenset[str]]:
        if token in ("[", "("):
            return self._group(token)
        if token == "{":
            return self._list()
        if token.isspace():
            return _BORDER, frozenset()
        return re.escape(token), frozenset((token,))

    def _group(self, opening: str) -> tuple[str, frozenset[str]]:
        inner, needs = self.alternatives()
        closing = "]" if opening == "[" else ")"
        if self.at >= len(self.tokens) or self.tokens[self.at] != closing:
            raise TemplateError(f"{opening!r} is not closed in {self.text!r}")
        self.at += 1
        return (f"(?:{inner})?", frozenset()) if opening == "[" else (f"(?:{inner})", needs)

    def _list(self) -> tuple[str, frozenset[str]]:
        if self.at + 1 >= len(self.tokens) or self.tokens[self.at + 1] != "}":
            raise TemplateError(f"'{{' is not closed in {self.text!r}")
        name = self.tokens[self.at]
        self.at += 2
        if name not in self.lists:
            raise TemplateError(f"there is no list {name!r} for {self.text!r}")
        self.names.append(name)
        return f"({self.lists[name]})", self.words.get(name, frozenset())


def _union(branches: list[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*branches) if all(branches) else frozenset()


def compile_template(text: str, lists: Mapping[str, str], words: Words | None = None) -> Template:
    """Compile `text`; `lists` maps each list's name to a pattern for its values, which has no groups.

    Raises `TemplateError` for an unknown list or unbalanced brackets.
    """
    source, names, anchors = _compile(text, lists, words or {})
    return Template(text, source, names, anchors)


def pattern_of(template: Template) -> str:
    """The pattern of `template` without groups, to be the value of a list in other templates."""
    return re.sub(r"(?<!\\)\((?!\?)", "(?:", template.source)


def certain_length(text: str) -> int:
    """How many words a text that fits the template has at least, its optional parts left out."""
    while (shorter := re.sub(r"\[[^\[\]]*\]", "", text)) != text:
        text = shorter
    return len(re.sub(r"\([^()]*\)", "x", text).split())


def anchors_of(templates: Iterable[Template]) -> frozenset[str]:
    """The texts of which everything that one of `templates` fits holds one; empty where nothing is certain."""
    return _union([template.anchors for template in templates])


def _compile(text: str, lists: Mapping[str, str], words: Words) -> tuple[str, tuple[str, ...], frozenset[str]]:
    compiler = _Compiler(text, [token for token in _TOKEN.findall(fold(text)) if token], lists, words)
    pattern, anchors = compiler.alternatives()
    if compiler.at != len(compiler.tokens):
        raise TemplateError(f"{compiler.tokens[compiler.at]!r} closes nothing in {text!r}")
    return pattern, tuple(compiler.names), anchors

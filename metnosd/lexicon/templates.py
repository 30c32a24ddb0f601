"""Sentence templates: what a translator writes instead of regular expressions.

    "[the] last {number} {unit}"     an optional word, then values of two named lists
    "(undo|revert) [that|it]"        alternatives

`[…]` may be missing, `(a|b)` is one of them, `{name}` is a value of the list `name`, spaces are any blanks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

_TOKEN = re.compile(r"[\[\](){}|]|[^\[\](){}|\s]+|\s+")

_BORDER = r"\s*(?:(?<!\w)|(?!\w))"
"""A blank of a template: any blanks, also none beside a word that is left out, but never inside a word."""


class TemplateError(ValueError):
    """A template that does not hold together; the message says what and where in it."""


@dataclass(frozen=True, slots=True)
class Template:
    """A compiled template. `pattern` matches folded text; its groups are named after the lists."""

    text: str
    pattern: re.Pattern[str]

    def full(self, text: str) -> dict[str, str] | None:
        """The values of the lists if all of the folded `text` fits."""
        found = self.pattern.fullmatch(text)
        return {k.rstrip("0123456789"): v for k, v in found.groupdict().items() if v} if found else None

    def search(self, text: str) -> tuple[dict[str, str], tuple[int, int]] | None:
        """The values and the place of the first part of the folded `text` that fits, at word borders."""
        for found in self.pattern.finditer(text):
            start, end = found.span()
            if not _inside_word(text, start) and not _inside_word(text, end) and end > start:
                values = {k.rstrip("0123456789"): v for k, v in found.groupdict().items() if v}
                return values, (start, end)
        return None


def fold(text: str) -> str:
    """`text` in the form in which templates match: NFC, case-folded, straight apostrophes, same length.

    Characters whose folding is longer stay as they are, so that places in the result are places in `text`.
    """
    text = text.replace("\u2019", "'").replace("\u2018", "'").replace("\u00a0", " ").replace("\u202f", " ")
    return "".join(_fold_one(char) for char in text)


def _fold_one(char: str) -> str:
    folded = unicodedata.normalize("NFC", char.casefold())
    return folded if len(folded) == 1 else char


def _inside_word(text: str, at: int) -> bool:
    return 0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum()


def compile_template(text: str, lists: Mapping[str, str]) -> Template:
    """Compile `text`; `lists` maps each list's name to a regular expression for its values.

    Raises `TemplateError` for an unknown list or unbalanced brackets.
    """
    tokens = [token for token in _TOKEN.findall(fold(text)) if token]
    compiled, rest = _alternatives(tokens, 0, lists, {}, text)
    if rest != len(tokens):
        raise TemplateError(f"{tokens[rest]!r} closes nothing in {text!r}")
    return Template(text, re.compile(compiled))


def _alternatives(
    tokens: list[str], at: int, lists: Mapping[str, str], seen: dict[str, int], text: str
) -> tuple[str, int]:
    branches = [""]
    while at < len(tokens) and tokens[at] not in ("]", ")"):
        token = tokens[at]
        if token == "|":
            branches.append("")
            at += 1
        elif token in ("[", "("):
            inner, at = _alternatives(tokens, at + 1, lists, seen, text)
            closing = "]" if token == "[" else ")"
            if at >= len(tokens) or tokens[at] != closing:
                raise TemplateError(f"{token!r} is not closed in {text!r}")
            at += 1
            branches[-1] += f"(?:{inner})?" if token == "[" else f"(?:{inner})"
        elif token == "{":
            branches[-1] += _group(tokens, at, lists, seen, text)
            at += 3
        else:
            branches[-1] += _BORDER if token.isspace() else re.escape(token)
            at += 1
    return "|".join(branches), at


def _group(tokens: list[str], at: int, lists: Mapping[str, str], seen: dict[str, int], text: str) -> str:
    if at + 2 >= len(tokens) or tokens[at + 2] != "}":
        raise TemplateError(f"'{{' is not closed in {text!r}")
    name = tokens[at + 1]
    if name not in lists:
        raise TemplateError(f"there is no list {name!r} for {text!r}")
    seen[name] = seen.get(name, 0) + 1
    group = name if seen[name] == 1 else f"{name}{seen[name]}"
    return f"(?P<{group}>{lists[name]})"

"""Whole messages that say a step and its arguments: "add milk and eggs to the shopping list".

A template of `[requests.<executor>]` names the arguments that it leaves open. A value that says more than one thing
is no value: what is doubtful is left to the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from metnosd.lexicon.lexicon import Language
from metnosd.lexicon.templates import holds, inside_word

LONGEST_REQUEST = 400
"""No message that is read as a request as a whole is longer, in characters."""

LISTS = {"items": "items", "things": "items"}
"""The open values that are several things, with commas and "and" between them, and the argument that each is.

{things} are known ones, as in "I bought the eggs": few words each, and none with an indefinite article.
"""

FREE = frozenset({"text"})
"""The open values that may say anything at all."""

MOST_WORDS = 6
"""How many words any other open value has at most."""

MOST_WORDS_OF_THINGS = 3

_EDGES = " \t\n.!?,;:\u00bf\u00a1\u2026"
_QUOTES = (("\u201c", "\u201d"), ("\u201e", "\u201c"), ("\u00ab", "\u00bb"), ('"', '"'), ("'", "'"))


@dataclass(frozen=True, slots=True)
class Call:
    """One step that a message says: the executor and its arguments, texts as written."""

    tool: str
    args: Mapping[str, object]


def read_call(text: str, language: Language) -> Call | None:
    """The step that all of `text` says in `language`; None where it is not surely one."""
    text = text.strip(_EDGES)
    if len(text) > LONGEST_REQUEST or "\n" in text:
        return None
    folded = language.fold(text)
    for tool, constants, template in language.requests:
        found = template.pattern.fullmatch(folded) if template.may_fit(folded) else None
        if found is None:
            continue
        args: dict[str, object] = dict(constants)
        for name, (start, end) in zip(template.names, found.regs[1:], strict=True):
            if start < 0:
                continue
            value = _value(name, text[start:end], language)
            if value is None:
                break
            args[LISTS.get(name, name)] = value
        else:
            return Call(tool, args)
    return None


def _value(name: str, said: str, language: Language) -> object | None:
    """What the words `said` mean as the open value `name`; None where they are doubtful."""
    if name in ("count", "number"):
        return int(language.value("number", language.fold(said)))
    said, quoted = _unquoted(said.strip(_EDGES))
    if not said:
        return None
    if quoted or name in FREE:
        return [said] if name in LISTS else said
    parts = split_items(said, language)
    if name in LISTS:
        parts = [bare for part in parts if (bare := _bare(part, language))]
    if not parts or any(_starts(part, language, "negative") for part in parts):
        return None
    if any(_points_back(part, language) for part in parts) or _goes_on(parts, language):
        return None
    if name in LISTS:
        most = MOST_WORDS_OF_THINGS if name == "things" else MOST_WORDS
        new = name == "things" and any(_starts(part, language, "indefinite") for part in parts)
        return parts if not new and all(len(part.split()) <= most for part in parts) else None
    if name == "to" and any(language.fold(word) in language.common for word in said.split()):
        # "Write down …" names nobody.
        return None
    return said if len(said.split()) <= MOST_WORDS and len(parts) == 1 else None


def _bare(said: str, language: Language) -> str:
    """`said` without courtesies around it, and without the definite article before it."""
    words = said.split()
    courtesies = {template.text for template in language.pointing.get("courtesy", ())}
    while words and language.fold(words[0]) in courtesies:
        words = words[1:]
    while words and language.fold(words[-1]) in courtesies:
        words = words[:-1]
    said = " ".join(words)
    folded = language.fold(said)
    for article in sorted(language.spans["definite"], key=lambda word: (-len(word), word)):
        lead = article if article.endswith("'") else f"{article} "
        if folded.startswith(lead) and len(said) > len(lead):
            return said[len(lead) :].strip()
    return said


def _starts(said: str, language: Language, key: str) -> bool:
    """Whether `said` begins with one of the words `key` of `[spans]`."""
    folded = language.fold(said)
    return any(
        folded.startswith(word if word.endswith("'") else f"{word} ") for word in language.spans.get(key, frozenset())
    )


def split_items(said: str, language: Language) -> list[str]:
    """The things that are listed with commas and the language's words for "and"; what is quoted stays whole."""
    folded = language.fold(said)
    cuts = [0]
    for at, end in _borders(folded, language):
        cuts += [at, end]
    cuts.append(len(said))
    pieces = [said[start:end].strip(_EDGES) for start, end in zip(cuts[::2], cuts[1::2], strict=True)]
    return [_unquoted(piece)[0] for piece in pieces if piece]


def _borders(folded: str, language: Language) -> Iterator[tuple[int, int]]:
    """Where one thing of a list ends and the next begins, outside quotes."""
    words = sorted(language.spans["and"], key=lambda word: (-len(word), word))
    between = "|".join(re.escape(word) for word in words) or r"(?!)"
    # A comma between digits is part of a number.
    for found in re.finditer(rf"(?:(?<!\d),|,(?!\d)|;)\s*(?:(?:{between})\s+)?|(?<=\s)(?:{between})(?=\s)", folded):
        inside = any(folded[: found.start()].count(one) % 2 for one in ('"',))
        if not inside and not inside_word(folded, found.end()):
            yield found.start(), found.end()


def _unquoted(said: str) -> tuple[str, bool]:
    """`said` without the quotes around it, and whether there were any."""
    for opening, closing in _QUOTES:
        if len(said) > 2 and said.startswith(opening) and said.endswith(closing):
            inner = said[len(opening) : -len(closing)]
            if opening not in inner and closing not in inner:
                return inner.strip(), True
    return said, False


def _points_back(said: str, language: Language) -> bool:
    """Whether `said` is a word for what was spoken of before."""
    folded = language.fold(said)
    return any(template.full(folded) is not None for template in language.signals_within.get("back", ()))


def _goes_on(parts: list[str], language: Language) -> bool:
    """Whether a later part begins with a verb: then the message asks for something else as well."""
    verbs = [phrase.text for phrase in language.phrases if phrase.verb]
    for part in parts[1:]:
        folded = language.fold(part)
        if any(folded == verb or (folded.startswith(f"{verb} ") and holds(folded, verb)) for verb in verbs):
            return True
    return False

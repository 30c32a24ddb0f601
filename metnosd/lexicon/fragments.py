"""Finds the parts of times in a text: matches of the sections of `[time]`, the longest first, none overlapping."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from metnosd.lexicon.lexicon import Language
from metnosd.lexicon.templates import Values, inside_word

SECTIONS = ("every", "limit", "offset", "span", "at", "day", "part")
"""The sections whose matches are parts of a time, in order of preference among equally long ones."""

BARE = "_bare"
"""The end of a key whose templates are a time only where one must stand ("may")."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """One part of a time: what it means, the values in it, and its place in the text."""

    section: str
    means: str
    values: Values
    text: str
    start: int
    end: int


def find_fragments(folded: str, language: Language) -> list[Fragment]:
    """The parts of times in `folded` (text folded by `language`), in order of their place."""
    found = sorted(
        _all(folded, language),
        key=lambda fragment: (fragment.start - fragment.end, SECTIONS.index(fragment.section), fragment.start),
    )
    chosen: list[Fragment] = []
    for fragment in found:
        if all(fragment.end <= other.start or fragment.start >= other.end for other in chosen):
            chosen.append(fragment)
    return sorted(chosen, key=lambda fragment: fragment.start)


def _all(folded: str, language: Language) -> Iterator[Fragment]:
    for section in SECTIONS:
        for means, templates in language.time[section].items():
            if means.endswith(BARE):
                continue
            for template in templates:
                if not template.may_fit(folded):
                    continue
                for match in template.pattern.finditer(folded):
                    start, end = match.span()
                    # A blank beside an optional word that is left out is not part of the time.
                    while end > start and folded[end - 1] in " ,":
                        end -= 1
                    while start < end and folded[start] in " ,":
                        start += 1
                    if end > start and not inside_word(folded, start) and not inside_word(folded, end):
                        yield Fragment(section, means, template.values_of_match(match), folded[start:end], start, end)

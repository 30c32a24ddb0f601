"""Finds the parts of times in a text: matches of the sections of `[time]`, the longest first, none overlapping."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from metnosd.lexicon.lexicon import Language
from metnosd.lexicon.templates import Values, inside_word

SECTIONS = ("none", "every", "limit", "offset", "span", "at", "day", "part")
"""The sections whose matches are parts of a time, in order of preference among equally long ones.

What `none` matches looks like a time and is none ("good morning"): it wins as the longest match and is dropped.
"""

BESIDE = "_beside"
"""The end of a key whose templates are a time only beside another ("on the 3rd at 10")."""

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


def find_fragments(folded: str, language: Language) -> tuple[list[Fragment], list[tuple[int, int]]]:
    """The parts of times in `folded` (text folded by `language`), in order of their place.

    Second, the places of what looks like a time and is none: no other language may read them.
    """
    found = sorted(
        _all(folded, language),
        key=lambda fragment: (fragment.start - fragment.end, SECTIONS.index(fragment.section), fragment.start),
    )
    chosen = _longest(found)
    firm = any(not f.means.endswith(BESIDE) and f.section not in ("limit", "none") for f in chosen)
    if not firm and not reminds(folded, language):
        chosen = _longest([fragment for fragment in found if not fragment.means.endswith(BESIDE)])
    kept = [replace(f, means=f.means.removesuffix(BESIDE)) for f in chosen if f.section != "none"]
    hidden = [(fragment.start, fragment.end) for fragment in chosen if fragment.section == "none"]
    return sorted(kept, key=lambda fragment: fragment.start), hidden


def _longest(found: list[Fragment]) -> list[Fragment]:
    """The first of `found` that do not overlap."""
    chosen: list[Fragment] = []
    for fragment in found:
        if all(fragment.end <= other.start or fragment.start >= other.end for other in chosen):
            chosen.append(fragment)
    return chosen


def reminds(folded: str, language: Language) -> bool:
    """Whether the message asks to be reminded, so that a day without a time of day means one."""
    return any(template.search(folded) for template in language.signals_within.get("remind", ()))


_MARKS = ".:/-"


def _inside(folded: str, start: int, end: int) -> bool:
    """Whether the place is inside a word, or inside a longer number with marks (a telephone number, a version)."""
    before = start > 1 and folded[start - 1] in _MARKS and folded[start - 2].isdigit() and folded[start].isdigit()
    after = end + 1 < len(folded) and folded[end] in _MARKS and folded[end + 1].isdigit() and folded[end - 1].isdigit()
    return before or after or inside_word(folded, start) or inside_word(folded, end)


def _all(folded: str, language: Language) -> Iterator[Fragment]:
    for section, means, template in language.time_parts_in(folded):
        if section not in SECTIONS or means.endswith(BARE):
            continue
        for match in template.pattern.finditer(folded):
            start, end = match.span()
            # A blank beside an optional word that is left out is not part of the time.
            while end > start and folded[end - 1] in " ,":
                end -= 1
            while start < end and folded[start] in " ,":
                start += 1
            if end > start and not _inside(folded, start, end):
                yield Fragment(section, means, template.values_of_match(match), folded[start:end], start, end)

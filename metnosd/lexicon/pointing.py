"""Words that point at some of what the answer before listed: "the second one", "the first three", "the rest"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from metnosd.lexicon.lexicon import Language
from metnosd.lexicon.masks import mask
from metnosd.lexicon.templates import fold, one_of

Which = Literal["nth", "first", "last", "rest", "all"]

T = TypeVar("T")

_KEYS: Mapping[str, Which] = {
    "rest": "rest",
    "nth": "nth",
    "nth_thing": "nth",
    "first": "first",
    "last": "last",
    "last_thing": "last",
    "all": "all",
}
"""The keys of `[pointing]` in the order in which they are looked for; with a noun of their own: `_thing`."""

_EDGES = " \t\n.!?,;:\u00bf\u00a1\u2026"


@dataclass(frozen=True, slots=True)
class Pointer:
    """`which` of the things listed before, with `count` (the nth; the first or last so many), said at `span`."""

    which: Which
    count: int
    span: tuple[int, int]

    def pick(self, listed: Sequence[T], left: Sequence[T]) -> tuple[tuple[T, ...], tuple[T, ...]] | None:
        """What is pointed at among `listed`, and the rest of it; `left` is the rest of the last pick.

        None where there are not so many.
        """
        items = tuple(listed)
        if self.which == "rest":
            return (tuple(left), ()) if left else None
        if self.which == "all":
            return items, ()
        if not 1 <= self.count <= len(items):
            return None
        start, end = {
            "nth": (self.count - 1, self.count),
            "first": (0, self.count),
            "last": (len(items) - self.count, len(items)),
        }[self.which]
        return items[start:end], items[:start] + items[end:]


def read_pointer(text: str, language: Language) -> Pointer | None:
    """The first words of `text` that point at something listed; None where there are none.

    What a noun of its own follows ("the first three files in Downloads") points at nothing before.
    """
    folded = language.fold(mask(text))
    for key, which in _KEYS.items():
        for template in language.pointing.get(key, ()):
            found = template.search(folded)
            if found is not None and _ends(folded[found[1][1] :], language, within=not key.endswith("_thing")):
                values, (start, end) = found
                said = folded[start:end].rstrip()
                return Pointer(which, _count(values, language), (start, start + len(said)))
    return None


def _count(values: tuple[tuple[str, str], ...], language: Language) -> int:
    for name in ("ordinal", "number"):
        word = one_of(values, name)
        if word is not None:
            meant = language.value(name, word)
            return int(meant) if meant.isdigit() else 1
    return 1


def _ends(after: str, language: Language, *, within: bool) -> bool:
    """Whether what follows is the end, or goes on with a word that leads to a place or another thing.

    Where `within` is false the place must not be one that things are in.
    """
    words = after.strip(_EDGES).split()
    if not words or after.lstrip(" ")[:1] in tuple(",.;:!?"):
        return True
    leads = language.spans["before_path"] | language.spans["and"]
    leads = leads | language.spans["inside"] if within else leads - language.spans["inside"]
    return words[0] in {fold(word) for word in leads} | _courtesies(language)


def _courtesies(language: Language) -> set[str]:
    return {template.text for template in language.pointing.get("courtesy", ())}


def bare(text: str, language: Language) -> str:
    """`text` without the courtesies around it ("please", "and", "can you"), folded."""
    folded = " ".join(language.fold(text).strip(_EDGES).split())
    words = sorted(_courtesies(language), key=lambda word: (-len(word), word))
    cut = True
    while cut:
        cut = False
        for word in words:
            if folded.startswith(f"{word} "):
                folded, cut = folded[len(word) :].strip(_EDGES), True
            if folded.endswith(f" {word}"):
                folded, cut = folded[: -len(word)].strip(_EDGES), True
    return folded

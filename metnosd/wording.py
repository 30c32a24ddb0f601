"""Loosely the same words: "the eggs" and "12 eggs", "uovo" and "uova", "shopping" and "Shopping list".

What is an article, an ending or a word for a list says the lexicon, in `[spans]` and in the sentences `words.…`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.templates import fold
from metnosd.sentence import Sentence, say

_TOKEN = re.compile(r"[^\W\d_]+\d\w*|\d+(?:[.,]\d+)?|[^\W\d_]+")
_LIGATURES = str.maketrans({"œ": "oe", "æ": "ae"})

SHORT_UNIT = 2
"""A word behind a number is a unit where it is at most so long: "2 kg flour"."""

PREFIX = 4
"""From so many letters on the beginning of a word stands for it in a search."""


@dataclass(frozen=True, slots=True)
class Naming:
    """What something is called, taken apart.

    `words` are all of it, folded; `stems` what it is at the core, without articles and quantity; `every` the stems
    with the word of its quantity; `amount` its numbers as digits, with their units.
    """

    words: tuple[str, ...]
    stems: frozenset[str]
    every: frozenset[str]
    amount: tuple[str, ...]


class Wording:
    """Takes names apart in one language."""

    def __init__(self, lexicon: Lexicon, lang: str) -> None:
        def listed(sentence: Sentence) -> tuple[str, ...]:
            return tuple(part.strip() for part in fold(lexicon.say(sentence, lang)).split(",") if part.strip())

        language = lexicon.language(lang)
        self._lexicon = lexicon
        self._lang = lang
        self._articles = sorted(language.spans["definite"], key=lambda word: (-len(word), word))
        self._one = listed(say("words.one"))
        self._endings = sorted(map(folded, listed(say("words.endings"))), key=lambda word: (-len(word), word))
        self._list_words = frozenset(map(folded, listed(say("words.lists"))))
        self._numbers = {folded(word): key for word, key in language.values.get("number", {}).items()}
        passed = {*language.common, *language.spans["skip"], *language.spans["definite"]}
        self._common = frozenset(part for word in passed for part in _TOKEN.findall(folded(word)))

    def naming(self, text: str) -> Naming:
        """`text` taken apart."""
        words = tuple(_TOKEN.findall(folded(text)))
        amount: list[str] = []
        core: list[str] = []
        units: list[str] = []
        for at, word in enumerate(words):
            before = words[at - 1] if at else ""
            if self._is_number(word) and (word[0].isdigit() or word not in self._common):
                amount.append(self._numbers.get(word, word).replace(",", "."))
            elif word in self._common:
                continue
            elif self._is_number(before) and self._is_unit(words, at):
                amount.append(self.stem(word))
                units.append(word)
            else:
                core.append(word)
        if not core:
            core, amount = [*words], []
        stems = frozenset(map(self.stem, core))
        return Naming(words, stems, stems | frozenset(map(self.stem, units)), tuple(amount))

    def _is_number(self, word: str) -> bool:
        return word[:1].isdigit() or word in self._numbers

    def _is_unit(self, words: Sequence[str], at: int) -> bool:
        """Whether the word at `at`, behind a number, says of what unit that is."""
        behind = words[at + 1 : at + 2]
        return bool(behind) and (len(words[at]) <= SHORT_UNIT or behind[0] in self._common)

    def stem(self, word: str) -> str:
        """`word` without an ending that tells one from many."""
        for ending in self._endings:
            left = len(word) - len(ending)
            if word.endswith(ending) and left >= (3 if len(ending) == 1 else 2):
                return word[:left]
        return word

    def content(self, text: str) -> list[str]:
        """The words of `text` that say something; all of them where none does."""
        words = _TOKEN.findall(folded(text))
        return [word for word in words if word not in self._common] or words

    def says_something(self, word: str) -> bool:
        """Whether `word` is more than an article or the like."""
        return any(part not in self._common for part in _TOKEN.findall(folded(word)))

    def bare(self, text: str) -> str:
        """`text` without articles before it; that which says "one" goes only before a single word."""
        text = " ".join(text.split())
        while True:
            rest = self._without(text, self._articles)
            if rest is None:
                rest = self._without(text, self._one)
                rest = rest if rest is not None and " " not in rest else None
            if rest is None:
                return text
            text = rest

    def _without(self, text: str, heads: Sequence[str]) -> str | None:
        plain = fold(text)
        for head in heads:
            said = head if head.endswith("'") else f"{head} "
            rest = text[len(said) :].strip()
            if plain.startswith(said) and rest:
                return rest
        return None

    def list_key(self, name: str) -> frozenset[str]:
        """The stems that tell the list called `name` from others; empty where it only says "list"."""
        words = _TOKEN.findall(folded(name))
        kept = [self._without_list(word) for word in words if word not in self._list_words]
        core = [word for word in kept if word not in self._common]
        if not core and len(kept) > 1:
            core = kept
        return frozenset(map(self.stem, core))

    def _without_list(self, word: str) -> str:
        """`word` without the word for a list that some languages write together with it."""
        for tail in self._list_words:
            if word.endswith(tail) and len(word) - len(tail) > 2:
                return word[: -len(tail)]
        return word

    def list_title(self, name: str) -> str:
        """What a new list is called that was spoken of as `name`: without articles and the word for a list."""
        words = name.split()

        def is_filler(word: str) -> bool:
            said = _TOKEN.findall(folded(word))
            return all(part in self._common or part in self._list_words for part in said)

        kept = [*words]
        while kept and is_filler(kept[0]):
            kept.pop(0)
        while kept and is_filler(kept[-1]):
            kept.pop()
        title = self.bare(" ".join(kept or words))
        return title[:1].upper() + title[1:]

    def together(self, texts: Sequence[str]) -> str:
        """`texts` as one says them: "milk, bread and eggs"."""
        if len(texts) < 2:
            return "".join(texts)
        return self._lexicon.say(say("words.and", first=", ".join(texts[:-1]), last=texts[-1]), self._lang)


def folded(text: str) -> str:
    """`text` without regard to case, accents and ligatures."""
    plain = unicodedata.normalize("NFD", text.casefold().translate(_LIGATURES))
    return "".join(char for char in plain if not unicodedata.combining(char))


def closeness(said: Naming, item: Naming) -> int | None:
    """How well `item` fits what was `said`: 0 the very words, to 3 by some of its words; None not at all.

    4 is so loose that it has to be asked: another amount, or words that the item does not have.
    """
    if said.words == item.words:
        return 0
    at_odds = bool(said.amount and item.amount) and said.amount != item.amount
    if said.stems == item.stems:
        return 4 if at_odds else 1 if said.amount == item.amount else 2
    if said.stems <= item.every:
        return 4 if at_odds else 3
    return 4 if item.stems <= said.every else None

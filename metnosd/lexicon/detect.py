"""Which language a message is in: told by the words of the lexicons themselves."""

from __future__ import annotations

import re

from metnosd.lexicon.lexicon import Language, Lexicon
from metnosd.lexicon.masks import mask
from metnosd.lexicon.templates import fold, without_accents

_WORD = re.compile(r"[^\W\d_]+")

PRIOR = 0.4
"""What the language of the turn before counts, in words."""


def languages_for(text: str, lexicon: Lexicon, lang: str | None, prior: str | None = None) -> list[Language]:
    """All languages, the likeliest first. A set `lang` is first whatever the words say.

    Each word that a lexicon knows counts for its language, less the more languages know it; where nothing
    tells, the language of the turn before, then the reference language.
    """
    words = set(_WORD.findall(fold(mask(text))))
    plain = {without_accents(word) for word in words}
    scores = {language.code: 0.0 for language in lexicon.languages}
    for word in words | plain:
        knowing = [language for language in lexicon.languages if word in language.known_words]
        for language in knowing:
            scores[language.code] += 1.0 / len(knowing)
    if prior in scores:
        scores[prior] += PRIOR
    if lang in scores:
        scores[lang] += 1000.0
    order = {language.code: number for number, language in enumerate(lexicon.languages)}
    return sorted(lexicon.languages, key=lambda language: (-scores[language.code], order[language.code]))


def words_of(text: str) -> list[str]:
    """The words of at least two letters in `text`."""
    return [word for word in _WORD.findall(text) if len(word) > 1]


def known_words(text: str, language: Language) -> int:
    """How many of the words of `text` the lexicon of `language` knows."""
    return sum(
        fold(word) in language.known_words or language.fold(word) in language.known_words for word in words_of(text)
    )

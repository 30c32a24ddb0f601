"""What a message says without a model: signals of the whole message, and words that point to executors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from metnosd.lexicon.detect import known_words, languages_for, words_of
from metnosd.lexicon.lexicon import Language, Lexicon
from metnosd.lexicon.masks import HIDDEN, mask
from metnosd.lexicon.math import read_math_call
from metnosd.lexicon.requests import Call, read_call
from metnosd.lexicon.templates import Values, fold, holds, one_of

LONGEST_SIGNAL = 120
"""No message that is a signal as a whole is longer, in characters."""

_EDGES = " \t\n.!?,;:\u00bf\u00a1\u2026"


@dataclass(frozen=True, slots=True)
class Signals:
    """What the lexicon found in one message.

    `lang` is the language of the reply. `signal` is the one that the whole message is, if any, `count` the
    number in it and `query` the words that its template leaves open, as written. `within` are the signals
    anywhere in it, `providers` the names of providers that it says. `understood` is whether the lexicon knows
    most of its words. `scores` tells how strongly the words point to each executor. `call` is the step that the
    whole message says, where it is no signal.
    """

    lang: str
    signal: str | None = None
    count: int | None = None
    query: str | None = None
    within: frozenset[str] = frozenset()
    providers: tuple[str, ...] = ()
    understood: bool = False
    scores: Mapping[str, float] = field(default_factory=dict)
    call: Call | None = None


def read_signals(text: str, lexicon: Lexicon, lang: str | None, prior: str | None = None) -> Signals:
    """The signals of `text`; `lang` is the user's language, tried first, or None."""
    languages = languages_for(text, lexicon, lang, prior)
    own = languages[0]
    said: tuple[str | None, int | None, str | None] = (None, None, None)
    for language in languages:
        found = whole_signal(text, language)
        if found is not None:
            # A message that is one signal tells its language better than its words do.
            own = own if lexicon.has(lang) else language
            said = found
            break
    call = None
    if said[0] is None:
        for language in languages:
            call = read_call(text, language)
            if call is not None:
                own = own if lexicon.has(lang) else language
                break
        for language in languages if call is None else ():
            call = read_math_call(text, language, whole=language is not languages[0])
            if call is not None:
                own = own if lexicon.has(lang) else language
                break
    masked = mask(text)
    return Signals(
        own.code,
        *said,
        within=_within(masked, own),
        providers=_providers(masked, lexicon),
        understood=2 * known_words(masked, own) >= len(words_of(masked)) > 0,
        scores=_scores(masked, lexicon),
        call=call,
    )


def _within(masked: str, language: Language) -> frozenset[str]:
    folded = language.fold(masked)
    return frozenset(
        name
        for name, templates in language.signals_within.items()
        if any(template.search(folded) is not None for template in templates)
    )


def _providers(masked: str, lexicon: Lexicon) -> tuple[str, ...]:
    """The providers named in the message; a name inside a longer one does not count."""
    folded = fold(masked)
    names = {word: key for language in lexicon.languages for word, key in language.providers.items()}
    found = []
    for word in sorted(names, key=lambda word: (-len(word), word)):
        if holds(folded, word):
            found.append(names[word])
            folded = folded.replace(word, HIDDEN * len(word))
    return tuple(dict.fromkeys(found))


def whole_signal(text: str, language: Language) -> tuple[str, int | None, str | None] | None:
    """The signal that all of `text` is in `language`, the number in it, and the words left open."""
    text = text.strip(_EDGES)
    folded = language.fold(text)
    if len(folded) > LONGEST_SIGNAL:
        return None
    present = language.present(folded)
    for name, templates in language.signals.items():
        for template in templates:
            fits = not template.anchors or not template.anchors.isdisjoint(present)
            values = template.full(folded) if fits else None
            if values is not None and not (one_of(values, "rest") or "").startswith("."):
                return name, _count(language, values), _rest(text, folded, values)
    return None


def _rest(text: str, folded: str, values: Values) -> str | None:
    rest = one_of(values, "rest")
    if rest is None:
        return None
    at = folded.rfind(rest)
    return text[at : at + len(rest)].strip(_EDGES) or None


_NAMES = re.compile(r"[^\W_](?:[\w.-]*\w)?")
"""Words, file names among them."""


def read_deeds(text: str, lexicon: Lexicon) -> tuple[frozenset[str], list[str]]:
    """The executors that `text` speaks of as something done ("the move"), and the words that say none of that.

    Words that a lexicon knows anyway, such as articles, are left out.
    """
    tools: set[str] = set()
    words = _NAMES.findall(text)
    for language in lexicon.languages:
        folded = language.fold(text)
        for phrase, named in language.deeds.items():
            if holds(folded, phrase):
                tools |= named
                words = [word for word in words if not holds(phrase, language.fold(word))]
    words = [word for word in words if not any(item.fold(word) in item.common for item in lexicon.languages)]
    return frozenset(tools), words


def _count(language: Language, values: Values) -> int | None:
    word = one_of(values, "count")
    return int(language.value("number", word)) if word else None


def _scores(masked: str, lexicon: Lexicon) -> dict[str, float]:
    """Per executor, verbs of its own count double, and a longer phrase counts more."""
    scores: dict[str, float] = {}
    for language in lexicon.languages:
        folded = " ".join(language.fold(masked).split())
        for word in sorted(set(re.findall(r"\w+", folded))):
            for phrase in language.phrases_by_word.get(word, ()):
                if phrase.is_in(folded):
                    weight = (2.0 if phrase.verb else 1.0) * (1 + 0.5 * phrase.text.count(" "))
                    scores[phrase.executor] = scores.get(phrase.executor, 0.0) + weight
    return scores

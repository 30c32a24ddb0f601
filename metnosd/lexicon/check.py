"""What must hold of lexicon files beyond their form; `metnosd doctor` and the tests ask."""

from __future__ import annotations

from collections.abc import Iterator

from metnosd.lexicon.fragments import BESIDE
from metnosd.lexicon.lexicon import Language, Lexicon
from metnosd.lexicon.signals import whole_signal


def problems_of(lexicon: Lexicon) -> list[str]:
    """Each mistake as a sentence with language and key; none where all is well."""
    reference = lexicon.languages[0]
    found: list[str] = []
    for language in lexicon.languages:
        if language is not reference:
            found += _missing(language, reference)
        found += _examples(language)
    return found


def _missing(language: Language, reference: Language) -> Iterator[str]:
    """Keys that one of the two has and the other lacks, and blanks of sentences that differ."""
    sections = {
        "signals": (language.signals, reference.signals),
        "signals_within": (language.signals_within, reference.signals_within),
        "paths": (language.paths, reference.paths),
        "numbers": (language.numbers, reference.numbers),
        "spans": (language.spans, reference.spans),
        "lists": (language.values, reference.values),
        "say": (language.sentences, reference.sentences),
    }
    sections |= {f"time.{name}": (language.time.get(name, {}), templates) for name, templates in reference.time.items()}
    for section, (own, other) in sections.items():
        for key in sorted(key for key in set(other) - set(own) if not key.endswith(BESIDE)):
            yield f"{language.code}: {section}.{key} is missing."
        for key in sorted(key for key in set(own) - set(other) if not key.endswith(BESIDE)):
            yield f"{language.code}: {section}.{key} is not in {reference.code}."
    executors = {phrase.executor for phrase in reference.phrases} - {phrase.executor for phrase in language.phrases}
    for name in sorted(executors):
        yield f"{language.code}: executors.{name} is missing."


def _examples(language: Language) -> Iterator[str]:
    for text, wanted in language.examples:
        found = whole_signal(text, language)
        fires = found[0] if found else ""
        if fires != wanted:
            yield f"{language.code}: example {text!r} fires {fires or 'nothing'}, not {wanted or 'nothing'}."
        firing = [
            name
            for name, templates in language.signals.items()
            if any(template.full(language.fold(text).strip(" .!?,")) is not None for template in templates)
        ]
        if len(firing) > 1:
            yield f"{language.code}: {text!r} fires {' and '.join(firing)}."

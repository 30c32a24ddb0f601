"""What must hold of lexicon files beyond their form; `metnosd doctor` and the tests ask."""

from __future__ import annotations

from collections.abc import Iterator

from metnosd.lexicon.fragments import BESIDE
from metnosd.lexicon.lexicon import Language, Lexicon
from metnosd.lexicon.math_words import missing
from metnosd.lexicon.signals import whole_signal


def problems_of(lexicon: Lexicon) -> list[str]:
    """Each mistake as a sentence with language and key; none where all is well."""
    reference = lexicon.languages[0]
    found: list[str] = []
    for language in lexicon.languages:
        if language is not reference:
            found += _missing(language, reference)
        found += _examples(language)
        found += _double(language)
    return found


def _double(language: Language) -> Iterator[str]:
    """Texts that one signal's templates say and another signal's fit too: such a message would be both."""
    for name, templates in language.signals.items():
        for template in templates:
            for text in samples(template.text, language):
                found = whole_signal(text, language)
                if found is not None and found[0] != name:
                    yield f"{language.code}: {text!r} is signals.{name} and signals.{found[0]}."


def samples(template: str, language: Language, most: int = 200) -> list[str]:
    """Texts that fit `template`: each way through its alternatives, with one value for each list."""
    texts = [""]
    for branch in _branches(template, language, most):
        texts = [f"{text}{piece}" for text in texts for piece in branch][:most]
    return list(dict.fromkeys(" ".join(text.split()) for text in texts))


_OPENING = {"[": "]", "(": ")"}


def _branches(template: str, language: Language, most: int) -> Iterator[list[str]]:
    """The pieces of a template, each as the texts that it may be."""
    at = 0
    while at < len(template):
        char = template[at]
        if char in _OPENING:
            end = _closing(template, at)
            inner = [text for part in _split(template[at + 1 : end]) for text in samples(part, language, most)]
            yield [*inner, ""] if char == "[" else inner
            at = end + 1
        elif char == "{":
            end = template.index("}", at)
            words = language.values.get(template[at + 1 : end], {})
            yield [next(iter(words), "3")]
            at = end + 1
        else:
            yield [char]
            at += 1


def _closing(template: str, at: int) -> int:
    depth = 0
    for place in range(at, len(template)):
        depth += (template[place] in "[(") - (template[place] in "])")
        if depth == 0:
            return place
    raise ValueError(f"a bracket is not closed in {template!r}")


def _split(inner: str) -> list[str]:
    """The alternatives of a bracket's inside."""
    parts, depth = [""], 0
    for char in inner:
        depth += (char in "[(") - (char in "])")
        if char == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def _missing(language: Language, reference: Language) -> Iterator[str]:
    """Keys that one of the two has and the other lacks, and blanks of sentences that differ."""
    sections = {
        "signals": (language.signals, reference.signals),
        "signals_within": (language.signals_within, reference.signals_within),
        "pointing": (language.pointing, reference.pointing),
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
    requests = [{tool for tool, _, _ in item.requests} for item in (reference, language)]
    for name in sorted(requests[0] - requests[1]):
        yield f"{language.code}: requests.{name} is missing."
    for key in missing(language.math, reference.math):
        yield f"{language.code}: math.{key} is missing."
    deeds = [frozenset().union(*item.deeds.values()) for item in (reference, language)]
    for name in sorted(deeds[0] - deeds[1]):
        yield f"{language.code}: deeds.{name} is missing."


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

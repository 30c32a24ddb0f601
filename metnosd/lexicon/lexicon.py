"""The lexicon: one compiled file a language, matched against every message."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from metnosd.entries import printable
from metnosd.lexicon.math_words import MathWords
from metnosd.lexicon.templates import Template, fold, holds, without_accents
from metnosd.sentence import Sentence


@dataclass(frozen=True, slots=True)
class Phrase:
    """A word or words that point to an executor, folded, with single blanks."""

    executor: str
    verb: bool
    text: str

    def is_in(self, folded: str) -> bool:
        """Whether the folded text, with single blanks, holds the phrase at word borders."""
        return holds(folded, self.text)


@dataclass(frozen=True)
class Language:
    """One compiled lexicon file."""

    code: str
    name: str
    accents_optional: bool
    capital_nouns: bool
    known_words: frozenset[str]
    common: frozenset[str]
    values: Mapping[str, Mapping[str, str]]
    signals: Mapping[str, tuple[Template, ...]]
    signals_within: Mapping[str, tuple[Template, ...]]
    time: Mapping[str, Mapping[str, tuple[Template, ...]]]
    paths: Mapping[str, tuple[Template, ...]]
    numbers: Mapping[str, tuple[Template, ...]]
    folders: Mapping[str, str]
    spans: Mapping[str, frozenset[str]]
    categories: Mapping[str, str]
    kinds: Mapping[str, str]
    providers: Mapping[str, str]
    phrases: tuple[Phrase, ...]
    pointing: Mapping[str, tuple[Template, ...]]
    corrections: tuple[Template, ...]
    requests: tuple[tuple[str, Mapping[str, str], Template], ...]
    deeds: Mapping[str, frozenset[str]]
    sentences: Mapping[str, str | Mapping[str, str]]
    examples: tuple[tuple[str, str], ...]
    math: MathWords = field(default_factory=MathWords)

    @cached_property
    def time_parts(self) -> tuple[tuple[str, str, Template], ...]:
        """Every template of `[time]` with its section and key."""
        return tuple(
            (section, means, template)
            for section, keys in self.time.items()
            for means, templates in keys.items()
            for template in templates
        )

    @cached_property
    def _by_anchor(self) -> Mapping[str, tuple[int, ...]]:
        """Anchor → places in `time_parts` of the templates that may fit where it stands; "" those of any text."""
        found: dict[str, list[int]] = {}
        for number, (_, _, template) in enumerate(self.time_parts):
            for anchor in template.anchors or ("",):
                found.setdefault(anchor, []).append(number)
        return {anchor: tuple(numbers) for anchor, numbers in found.items()}

    def time_parts_in(self, folded: str) -> Iterator[tuple[str, str, Template]]:
        """Those of `time_parts` that may fit somewhere in `folded`, in their order."""
        numbers = {number for anchor, listed in self._by_anchor.items() if anchor in folded for number in listed}
        for number in sorted(numbers):
            yield self.time_parts[number]

    @cached_property
    def _anchors(self) -> frozenset[str]:
        templates = [template for found in self.signals.values() for template in found]
        return frozenset().union(*(template.anchors for template in templates))

    def present(self, folded: str) -> frozenset[str]:
        """The anchors of signals that `folded` holds."""
        return frozenset(anchor for anchor in self._anchors if anchor in folded)

    @cached_property
    def phrases_by_word(self) -> Mapping[str, tuple[Phrase, ...]]:
        """The phrases by the first run of letters or digits in them."""
        found: dict[str, list[Phrase]] = {}
        for phrase in self.phrases:
            word = re.search(r"\w+", phrase.text)
            found.setdefault(word[0] if word else "", []).append(phrase)
        return {word: tuple(phrases) for word, phrases in found.items()}

    def value(self, name: str, word: str) -> str:
        """The key of list `name` that `word` means; the word itself where it is a value without language."""
        return self.values.get(name, {}).get(self.fold(word), word)

    def fold(self, text: str) -> str:
        """`text` as the templates of this language match it, same length."""
        return folded_as(text, self.accents_optional)


@dataclass(frozen=True)
class Lexicon:
    """All languages, the reference language first."""

    languages: tuple[Language, ...]
    _by_code: Mapping[str, Language] = field(default_factory=dict)

    def language(self, code: str | None) -> Language:
        """The language `code`, or the reference language where there is none such."""
        return self._by_code.get(code or "", self.languages[0])

    def has(self, code: str | None) -> bool:
        """Whether there is a language `code`."""
        return (code or "") in self._by_code

    def warm(self) -> None:
        """Compile every template now, which else happens as each is first needed."""
        for language in self.languages:
            for _, _, request in language.requests:
                _ = request.pattern
            for _, shape in language.math.shapes:
                _ = shape.pattern
            sections = (language.signals, language.signals_within, language.paths, language.numbers)
            for section in (*sections, *language.time.values()):
                for templates in section.values():
                    for template in templates:
                        _ = template.pattern

    def folder_words(self) -> dict[str, str]:
        """Folded word of any language → key of the XDG user folder that it names."""
        return {word: key for language in reversed(self.languages) for word, key in language.folders.items()}

    def say(self, sentence: Sentence, lang: str | None) -> str:
        """`sentence` in the language `lang`, its blanks filled with escaped values.

        A `count` chooses the form. A sentence that the lexicon lacks shows as its key, never as an error: the
        reply must arrive.
        """
        language = self.language(lang)
        found = language.sentences.get(sentence.key, self.languages[0].sentences.get(sentence.key))
        if found is None:
            return f"[{sentence.key}] " + " ".join(f"{k}={v}" for k, v in sentence.values.items())
        if not isinstance(found, str):
            found = found["one" if sentence.values.get("count") == 1 else "other"]
        values = {key: self._shown(value, lang) for key, value in sentence.values.items()}
        return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), found)

    def _shown(self, value: object, lang: str | None) -> str:
        if isinstance(value, Sentence):
            return self.say(value, lang)
        if isinstance(value, list | tuple):
            return ", ".join(self._shown(item, lang) for item in value)
        return printable(str(value))


def folded_as(text: str, accents_optional: bool) -> str:
    """`text` as templates match it, without accents where a language leaves them out."""
    return without_accents(fold(text)) if accents_optional else fold(text)

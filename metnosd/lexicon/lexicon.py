"""The lexicon: one file a language in `config/lexicon`, loaded once, matched against every message."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from metnosd.entries import printable
from metnosd.lexicon.templates import Template, TemplateError, compile_template, fold
from metnosd.sentence import Sentence

FREE_LISTS = {"number": r"\d+", "year": r"[12]\d{3}", "date": r"\d{4}-\d{2}-\d{2}", "rest": r".+"}
"""Lists of templates whose values need no language; a language's own words are added to them."""


class LexiconError(Exception):
    """A lexicon file that cannot be used; the message names file and key."""


class _Words(BaseModel):
    model_config = ConfigDict(extra="forbid")
    verbs: list[str] = Field(default_factory=list)
    nouns: list[str] = Field(default_factory=list)


class _Language(BaseModel):
    model_config = ConfigDict(extra="forbid")
    code: str = Field(pattern=r"^[a-z]{2,3}$")
    name: str


class _Spans(BaseModel):
    model_config = ConfigDict(extra="forbid")
    before_path: list[str]
    before_name: list[str]
    folder: list[str]
    skip: list[str]
    shallow: list[str]
    plain_words: list[str]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    language: _Language
    lists: dict[str, dict[str, list[str]]]
    signals: dict[str, list[str]]
    time: dict[str, list[str]]
    paths: dict[str, list[str]]
    numbers: dict[str, list[str]]
    folders: dict[str, list[str]]
    spans: _Spans
    categories: dict[str, list[str]]
    kinds: dict[str, list[str]]
    executors: dict[str, _Words]
    say: dict[str, str | dict[str, str]]


@dataclass(frozen=True, slots=True)
class Phrase:
    """A word or words that point to an executor, as a pattern over folded text."""

    executor: str
    verb: bool
    length: int
    pattern: re.Pattern[str]


@dataclass(frozen=True)
class Language:
    """One compiled lexicon file."""

    code: str
    name: str
    values: Mapping[str, Mapping[str, str]]
    signals: Mapping[str, tuple[Template, ...]]
    time: Mapping[str, tuple[Template, ...]]
    paths: Mapping[str, tuple[Template, ...]]
    numbers: Mapping[str, tuple[Template, ...]]
    folders: Mapping[str, str]
    spans: Mapping[str, frozenset[str]]
    categories: Mapping[str, str]
    kinds: Mapping[str, str]
    phrases: tuple[Phrase, ...]
    sentences: Mapping[str, str | Mapping[str, str]]

    def value(self, name: str, word: str) -> str:
        """The key of list `name` that `word` means; the word itself where it is a value without language."""
        return self.values.get(name, {}).get(fold(word), word)


@dataclass(frozen=True)
class Lexicon:
    """All languages, the reference language first."""

    languages: tuple[Language, ...]
    _by_code: Mapping[str, Language] = field(default_factory=dict)

    def language(self, code: str | None) -> Language:
        """The language `code`, or the reference language where there is none such."""
        return self._by_code.get(code or "", self.languages[0])

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
        return printable(str(value))


def load_lexicon(folder: Path, overlay: Path | None = None, reference: str = "en") -> Lexicon:
    """All `<lang>.toml` of `folder`, and of `overlay` in place of or besides them. Raises `LexiconError`."""
    files = {file.name: file for file in sorted(folder.glob("*.toml"))}
    if overlay is not None and overlay.is_dir():
        files |= {file.name: file for file in sorted(overlay.glob("*.toml"))}
    languages = [_load(file) for file in files.values()]
    languages.sort(key=lambda language: (language.code != reference, language.code))
    if not languages or languages[0].code != reference:
        raise LexiconError(f"{folder}: there is no {reference}.toml")
    return Lexicon(tuple(languages), {language.code: language for language in languages})


def _load(file: Path) -> Language:
    try:
        data = _File.model_validate(tomllib.loads(file.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise LexiconError(f"{file}: {error}") from error
    except ValidationError as error:
        keys = [".".join(str(part) for part in item["loc"]) + ": " + item["msg"] for item in error.errors()]
        raise LexiconError("\n".join(f"{file}: {key}" for key in keys)) from error
    values = {
        name: {fold(word): key for key, words in entries.items() for word in words}
        for name, entries in data.lists.items()
    }
    patterns = {name: _one_of(words, FREE_LISTS.get(name)) for name, words in values.items()}
    lists = FREE_LISTS | patterns
    return Language(
        code=data.language.code,
        name=data.language.name,
        values=values,
        signals=_compile(file, "signals", data.signals, lists),
        time=_compile(file, "time", data.time, lists),
        paths=_compile(file, "paths", data.paths, lists),
        numbers=_compile(file, "numbers", data.numbers, lists),
        folders=_by_word(data.folders),
        spans={name: frozenset(fold(word) for word in words) for name, words in data.spans},
        categories=_by_word(data.categories),
        kinds=_by_word(data.kinds),
        phrases=phrases_of({name: words.model_dump() for name, words in data.executors.items()}),
        sentences=_forms(file, data.say),
    )


def _by_word(words: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {fold(word): key for key, listed in words.items() for word in listed}


def _one_of(words: Mapping[str, str], free: str | None) -> str:
    ordered = sorted(words, key=lambda word: (-len(word), word))
    parts = [r"\s+".join(re.escape(part) for part in word.split()) for word in ordered]
    return "|".join(([free] if free else []) + parts)


def _compile(
    file: Path, section: str, templates: Mapping[str, Sequence[str]], lists: Mapping[str, str]
) -> dict[str, tuple[Template, ...]]:
    compiled = {}
    for key, texts in templates.items():
        try:
            compiled[key] = tuple(compile_template(text, lists) for text in texts)
        except TemplateError as error:
            raise LexiconError(f"{file}: {section}.{key}: {error}") from error
    return compiled


def phrases_of(executors: Mapping[str, Mapping[str, Sequence[str]]]) -> tuple[Phrase, ...]:
    """The phrases of a section `[executors]`: executor → `verbs` and `nouns`."""
    found = []
    for name, words in executors.items():
        for section in ("verbs", "nouns"):
            for text in words.get(section, ()):
                body = r"\s+".join(re.escape(part) for part in fold(text).split())
                pattern = re.compile(rf"(?<!\w){body}(?!\w)")
                found.append(Phrase(name, section == "verbs", len(text.split()), pattern))
    return tuple(found)


def _forms(file: Path, sentences: Mapping[str, Any]) -> dict[str, str | dict[str, str]]:
    for key, value in sentences.items():
        if isinstance(value, dict) and set(value) != {"one", "other"}:
            raise LexiconError(f"{file}: say.{key}: a table of forms has the keys one and other")
    return dict(sentences)

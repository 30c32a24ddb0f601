"""Loads the lexicon: `config/lexicon/<lang>.toml`, checked, with file, line and key of every mistake."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from metnosd.lexicon.lexicon import Language, Lexicon, Phrase, folded_as
from metnosd.lexicon.math_words import MathWords, compile_math
from metnosd.lexicon.templates import (
    Template,
    TemplateError,
    anchors_of,
    certain_length,
    compile_template,
    fold,
    pattern_of,
)

FREE_LISTS = {
    "number": r"\d{1,4}",
    "count": r"\d{1,3}",
    "h": r"\d{1,2}",
    "m": r"\d{2}",
    "mon": r"\d{1,2}",
    "dd": r"\d{1,2}",
    "yy": r"\d{2}",
    "year": r"[12]\d{3}",
    "iso": r"\d{4}-\d{2}-\d{2}",
    "rest": r".+",
}
"""Lists of templates whose values need no language; a language's own words are added to `number`."""

TIME_SECTIONS = ("none", "clock", "hour", "weekdays", "day", "every", "limit", "offset", "span", "at", "part")
"""Sections of `[time]`; what a section says is a value of templates in those after it."""

OPEN_VALUES = ("items", "things", "list", "text", "title", "query", "to", "to_lang", "length", "expression", "name")
"""What a template of `[requests]` may leave open, named as the argument that it is."""

LISTED_VALUES = {"person": "to", "clause": "text", "city": "zone", "language_name": "to_lang"}
"""Values of templates of `[requests]` that are bounded by a list of the language, and the arguments that they are."""

LONE_KEYS = ("_bare", "_beside")
"""Ends of keys whose templates are a time only where one must stand, or only beside another."""


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
    accents_optional: bool
    capital_nouns: bool = False
    common: list[str]


class _Example(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str
    signal: str


class _Spans(BaseModel):
    model_config = ConfigDict(extra="forbid")
    before_path: list[str] = Field(default_factory=list)
    before_name: list[str] = Field(default_factory=list)
    folder: list[str] = Field(default_factory=list)
    skip: list[str] = Field(default_factory=list)
    shallow: list[str] = Field(default_factory=list)
    plain_words: list[str] = Field(default_factory=list)
    elided: list[str] = Field(default_factory=list)
    inside: list[str] = Field(default_factory=list)
    empty: list[str] = Field(default_factory=list)
    and_: list[str] = Field(default_factory=list, alias="and")
    definite: list[str] = Field(default_factory=list)
    indefinite: list[str] = Field(default_factory=list)
    negative: list[str] = Field(default_factory=list)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    language: _Language
    lists: dict[str, dict[str, list[str]]] = Field(default_factory=dict)
    signals: dict[str, list[str]] = Field(default_factory=dict)
    signals_within: dict[str, list[str]] = Field(default_factory=dict)
    time: dict[str, dict[str, list[str]]] = Field(default_factory=dict)
    paths: dict[str, list[str]] = Field(default_factory=dict)
    numbers: dict[str, list[str]] = Field(default_factory=dict)
    folders: dict[str, list[str]] = Field(default_factory=dict)
    spans: _Spans = Field(default_factory=_Spans)
    categories: dict[str, list[str]] = Field(default_factory=dict)
    kinds: dict[str, list[str]] = Field(default_factory=dict)
    providers: dict[str, list[str]] = Field(default_factory=dict)
    executors: dict[str, _Words] = Field(default_factory=dict)
    pointing: dict[str, list[str]] = Field(default_factory=dict)
    corrections: dict[str, list[str]] = Field(default_factory=dict)
    requests: dict[str, dict[str, list[str]]] = Field(default_factory=dict)
    deeds: dict[str, list[str]] = Field(default_factory=dict)
    math: dict[str, dict[str, list[str]]] = Field(default_factory=dict)
    example: list[_Example] = Field(default_factory=list)
    say: dict[str, str | dict[str, str]] = Field(default_factory=dict)


def load_lexicon(folder: Path, overlay: Path | None = None, reference: str = "en") -> Lexicon:
    """All `<lang>.toml` of `folder`, and of `overlay` in place of or besides them. Raises `LexiconError`."""
    files = {file.name: file for file in sorted(folder.glob("*.toml"))}
    if overlay is not None and overlay.is_dir():
        files |= {file.name: file for file in sorted(overlay.glob("*.toml"))}
    languages = [_load(file, _stamp(file)) for file in files.values()]
    languages.sort(key=lambda language: (language.code != reference, language.code))
    if not languages or languages[0].code != reference:
        raise LexiconError(f"{folder}: there is no {reference}.toml")
    return Lexicon(tuple(languages), {language.code: language for language in languages})


def _stamp(file: Path) -> tuple[int, int]:
    """What changes with the content of `file`."""
    try:
        status = file.stat()
    except OSError as error:
        raise LexiconError(f"{file}: {error}") from error
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=32)
def _load(file: Path, stamp: tuple[int, int]) -> Language:
    """The language of `file`; one that is loaded again unchanged keeps the templates that it has compiled."""
    try:
        data = _File.model_validate(tomllib.loads(file.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise LexiconError(f"{file}: {error}") from error
    except ValidationError as error:
        raise LexiconError(
            "\n".join(f"{_place(file, item['loc'])}: {item['msg']}" for item in error.errors())
        ) from error
    optional = data.language.accents_optional

    def plain(text: str) -> str:
        return folded_as(text, optional)

    values = {
        name: {plain(word): key for key, words in entries.items() for word in words}
        for name, entries in data.lists.items()
    }
    lists = _lists(values)
    words = _anchors(values)
    compile_all = partial(_compile, file, plain=plain, words=words)
    return Language(
        code=data.language.code,
        name=data.language.name,
        accents_optional=data.language.accents_optional,
        capital_nouns=data.language.capital_nouns,
        known_words=_known_words(data),
        common=frozenset(plain(word) for word in data.language.common),
        values=values,
        signals=compile_all("signals", data.signals, lists),
        signals_within=compile_all("signals_within", data.signals_within, lists),
        time=_compile_times(file, data.time, lists, words, plain),
        paths=compile_all("paths", data.paths, lists),
        numbers=compile_all("numbers", data.numbers, lists),
        folders=_by_word(data.folders),
        spans={name.rstrip("_"): frozenset(fold(word) for word in words) for name, words in data.spans},
        categories=_by_word(data.categories),
        kinds=_by_word(data.kinds),
        providers=_by_word(data.providers),
        phrases=phrases_of({name: words.model_dump() for name, words in data.executors.items()}, plain),
        pointing=compile_all("pointing", data.pointing, lists),
        corrections=compile_all("corrections", data.corrections, lists).get("head", ()),
        requests=_requests(file, data.requests, lists, words, plain),
        deeds=_by_phrase(data.deeds, plain),
        math=_math(file, data.math, lists, values, plain),
        sentences=_forms(file, data.say),
        examples=tuple((example.text, example.signal) for example in data.example),
    )


def _known_words(data: _File) -> frozenset[str]:
    """The words by which the language is told: its common ones, and those of its lists and executors.

    Names of cities tell nothing: "Las Vegas" is called so everywhere.
    """
    texts = [*data.language.common]
    for name, entries in data.lists.items():
        texts += [word for words in entries.values() for word in words if name != "city"]
    for executor in data.executors.values():
        texts += [*executor.verbs, *executor.nouns]
    for folders in (data.categories, data.folders):
        texts += [word for words in folders.values() for word in words]
    return frozenset(word for text in texts for word in re.findall(r"[^\W\d_]+", fold(text)) if len(word) > 1)


def _place(file: Path, location: Sequence[str | int]) -> str:
    """File, line and key of a mistake; the line is that of the key, else that of its section."""
    parts = [str(part) for part in location]
    section, line = "", 0
    best = 0
    for line, text in enumerate(file.read_text("utf-8", "replace").splitlines(), 1):
        header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", text)
        section = header[1] if header else section
        path = [part for part in section.split(".") if part]
        key = re.match(r'\s*"?([\w.]+)"?\s*=', text)
        if header and parts[: len(path)] == path:
            best = line
        elif (key and parts[: len(path)] == path and parts[len(path) :][:1] == [key[1]]) or (
            key and ".".join(parts[len(path) :]) == key[1] and parts[: len(path)] == path
        ):
            best = line
            break
    return f"{file}:{best}: {'.'.join(parts)}" if best else f"{file}: {'.'.join(parts)}"


def _by_word(words: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {fold(word): key for key, listed in words.items() for word in listed}


def _one_of(words: Mapping[str, str], free: str | None) -> str:
    if not words and not free:
        return r"(?!)"
    ordered = sorted(words, key=lambda word: (-len(word), word))
    parts = [r"\s+".join(re.escape(part) for part in word.split()) for word in ordered]
    return "|".join(([free] if free else []) + parts)


def _lists(values: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """List → pattern of its values. Digits count as a number, and as a day of the month with its suffix."""
    lists = dict(FREE_LISTS)
    for name, words in values.items():
        lists[name] = _one_of({word: key for word, key in words.items() if key != "suffix"}, FREE_LISTS.get(name))
    suffixes = [re.escape(word) for word, key in values.get("dom", {}).items() if key == "suffix"]
    digits = rf"\d{{1,2}}(?:{'|'.join(suffixes)})?" if suffixes else r"\d{1,2}"
    lists["dom"] = f"{digits}|{lists['dom']}" if lists.get("dom") else digits
    lists["count"] = lists["number"]
    return lists


def _one_pattern(templates: Sequence[Template]) -> str:
    """What one of `templates` fits; a search takes the first that does, so the one that says most is first."""
    ordered = sorted(templates, key=lambda template: -certain_length(template.text))
    return "|".join(rf"(?:{pattern_of(template)})(?!\w)" for template in ordered) or r"(?!)"


DIGITS = frozenset("0123456789")


def _anchors(values: Mapping[str, Mapping[str, str]]) -> dict[str, frozenset[str]]:
    """List → texts of which each of its values holds one: its words, or a digit."""
    anchors = {name: frozenset(words) for name, words in values.items() if words}
    anchors |= {name: DIGITS | anchors.get(name, frozenset()) for name in FREE_LISTS if name != "rest"}
    anchors["dom"] = DIGITS | anchors.get("dom", frozenset())
    anchors["count"] = anchors["number"]
    return anchors


def _compile_times(
    file: Path,
    sections: Mapping[str, Mapping[str, Sequence[str]]],
    lists: Mapping[str, str],
    words: Mapping[str, frozenset[str]],
    plain: Callable[[str], str],
) -> dict[str, dict[str, tuple[Template, ...]]]:
    """The sections of `[time]`, each a list for the templates of those after it."""
    known = dict(lists)
    anchors = dict(words)
    compiled = {}
    clocks: list[Template] = []
    unknown = sorted(set(sections) - set(TIME_SECTIONS))
    if unknown:
        raise LexiconError(f"{file}: there is no section time.{unknown[0]}; there are {', '.join(TIME_SECTIONS)}")
    for name in TIME_SECTIONS:
        section = sections.get(name, {})
        compiled[name] = _compile(file, f"time.{name}", section, known, plain=plain, words=anchors)
        firm = [t for means, found in compiled[name].items() if not means.endswith(LONE_KEYS) for t in found]
        known[name] = _one_pattern(firm)
        anchors[name] = anchors_of(template for templates in compiled[name].values() for template in templates)
        if name == "hour":
            anchors["anyclock"] = anchors["clock"] | anchors["hour"]
            known["anyclock"] = _one_pattern([*clocks, *firm])
        if name == "clock":
            clocks = firm
    return compiled


def _compile(
    file: Path,
    section: str,
    templates: Mapping[str, Sequence[str]],
    lists: Mapping[str, str],
    *,
    plain: Callable[[str], str],
    words: Mapping[str, frozenset[str]],
) -> dict[str, tuple[Template, ...]]:
    compiled = {}
    for key, texts in templates.items():
        try:
            compiled[key] = tuple(compile_template(plain(text), lists, words) for text in texts)
        except TemplateError as error:
            raise LexiconError(f"{_place(file, (*section.split('.'), key))}: {error}") from error
    return compiled


def _requests(
    file: Path,
    requests: Mapping[str, Mapping[str, Sequence[str]]],
    lists: Mapping[str, str],
    words: Mapping[str, frozenset[str]],
    plain: Callable[[str], str],
) -> tuple[tuple[str, Mapping[str, str], Template], ...]:
    """`[requests.<executor>]` as executor, constant arguments and template; a key like "what=disk" says these."""
    known = dict.fromkeys(OPEN_VALUES, ".+?") | {name: p for name, p in lists.items() if name not in OPEN_VALUES}
    # A person is one word or two, none of which says something else; a clause begins with one of its list.
    name = rf"(?!(?:{known.get('nobody', '(?!)')})(?!\w))[^\W\d_][\w'-]*"
    known |= {"person": rf"{name}(?:\s+{name})??", "clause": rf"(?:{known.get('clause', '(?!)')})(?!\w).+?"}
    found = []
    for tool, section in requests.items():
        compiled = _compile(file, f"requests.{tool}", section, known, plain=plain, words=words)
        for key, templates in compiled.items():
            pairs = [part.partition("=") for part in key.split()]
            if not all(name and value for name, _, value in pairs):
                raise LexiconError(f"{_place(file, ('requests', tool, key))}: a key is empty or like what=disk")
            constants = {name: value for name, _, value in pairs}
            found += [(tool, constants, _renamed(template)) for template in templates]
    return tuple(found)


def _renamed(template: Template) -> Template:
    """`template` with its values named as the arguments that they are."""
    return replace(template, names=tuple(LISTED_VALUES.get(name, name) for name in template.names))


def phrases_of(
    executors: Mapping[str, Mapping[str, Sequence[str]]], plain: Callable[[str], str] = fold
) -> tuple[Phrase, ...]:
    """The phrases of a section `[executors]`: executor → `verbs` and `nouns`, folded by `plain`."""
    return tuple(
        Phrase(name, section == "verbs", " ".join(plain(text).split()))
        for name, words in executors.items()
        for section in ("verbs", "nouns")
        for text in words.get(section, ())
    )


def _math(
    file: Path,
    sections: Mapping[str, Mapping[str, list[str]]],
    lists: Mapping[str, str],
    values: Mapping[str, Mapping[str, str]],
    plain: Callable[[str], str],
) -> MathWords:
    try:
        return compile_math(sections, lists, values, plain)
    except TemplateError as error:
        raise LexiconError(f"{_place(file, ('math',))}: {error}") from error


def _by_phrase(deeds: Mapping[str, Sequence[str]], plain: Callable[[str], str]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for executor, phrases in deeds.items():
        for phrase in phrases:
            found.setdefault(plain(phrase), set()).add(executor)
    return {phrase: frozenset(named) for phrase, named in found.items()}


def _forms(file: Path, sentences: Mapping[str, Any]) -> dict[str, str | dict[str, str]]:
    for key, value in sentences.items():
        if isinstance(value, dict) and set(value) != {"one", "other"}:
            raise LexiconError(f"{_place(file, ('say', key))}: a table of forms has the keys one and other")
    return dict(sentences)

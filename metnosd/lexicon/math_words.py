"""The section `[math]` of a lexicon file, compiled: how a language says numbers, signs, units and holidays.

[math.marks]       decimal, thousands: the marks inside numbers; one: articles that may mean 1; and: a word inside
                   numbers in words
[math.ask]         before, what (surely and perhaps asking for a result), after, polite: what stands around an
                   expression; doubtful: words of signs that are signs only where a result is asked for
[math.operators]   what is written in the notation of `metnosd.arithmetic` = words of it, and
                   of, off: what joins a percentage or a fraction with its whole
                   rate, share: what may stand behind a percentage ("VAT"), and behind what is divided by ("people")
[math.fractions]   "1/2" = words of it
[math.numbers]     numbers that the list `number` lacks
[math.units]       unit as pint names it = words of it, the first being the one that is shown
[math.currencies]  words of what has no fixed rate
[math.holidays]    rule of `metnosd.lexicon.holidays` = words of it
[math.shapes]      whole expressions as templates
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from metnosd.lexicon.holidays import Holiday, read_rule
from metnosd.lexicon.templates import Template, TemplateError, compile_template

SECTIONS = ("marks", "ask", "operators", "fractions", "numbers", "units", "currencies", "holidays", "shapes")

OWN = ("numbers", "holidays")
"""Sections that each language fills by itself; they only must not be empty."""

OPEN = ("a", "b", "part", "whole", "parts", "day", "other", "quantity")
"""Values of shapes that may be any text, which is read in its turn."""

MEASURE = "\ue000"
"""What a unit is in a text that a shape with {measure} is to fit: no letter, and nothing that anybody writes."""

Sections = Mapping[str, Mapping[str, list[str]]]


@dataclass(frozen=True, slots=True)
class Word:
    """What a phrase means: `kind` is sign, number, one, and, fraction, of, off, rate, share or currency."""

    kind: str
    value: str = ""


@dataclass(frozen=True)
class MathWords:
    """How one language speaks of numbers. `token` finds a number (group 1) or a phrase (group 2) at a place."""

    decimal: str = "."
    thousands: tuple[str, ...] = ()
    phrases: Mapping[str, Word] = field(default_factory=dict)
    token: re.Pattern[str] = re.compile(r"(\d+(?:[.,']\d+)*|\.\d+)|((?!))")
    doubtful: frozenset[str] = frozenset()
    ask: Mapping[str, tuple[re.Pattern[str], ...]] = field(default_factory=dict)
    shapes: tuple[tuple[str, Template], ...] = ()
    measure: re.Pattern[str] = re.compile(r"(?!)")
    units: Mapping[str, str] = field(default_factory=dict)
    symbols: Mapping[str, str] = field(default_factory=dict)
    currencies: frozenset[str] = frozenset()
    holidays: Mapping[str, Holiday] = field(default_factory=dict)
    hints: frozenset[str] = frozenset()
    """Words of which each expression without a digit holds one."""
    keys: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Section → the keys that the file has."""


def compile_math(
    sections: Sections,
    lists: Mapping[str, str],
    values: Mapping[str, Mapping[str, str]],
    plain: Callable[[str], str],
) -> MathWords:
    """The words of `sections`; `lists` are the patterns of lists, `values` their words, folded by `plain`.

    Raises `TemplateError` for a template, rule or section that is none.
    """
    for name in sections:
        if name not in SECTIONS:
            raise TemplateError(f"there is no section math.{name}; there are {', '.join(SECTIONS)}")
    marks = {name: tuple(words) for name, words in sections.get("marks", {}).items()}
    units = {plain(word): unit for unit, words in _items(sections, "units") for word in (*words, unit)}
    currencies = frozenset(plain(word) for _, words in _items(sections, "currencies") for word in words)
    holidays = {plain(word): read_rule(rule) for rule, words in _items(sections, "holidays") for word in words}
    phrases = _phrases(sections, values.get("number", {}), plain)
    ask = {
        name: tuple(compile_template(plain(text), lists).pattern for text in texts)
        for name, texts in _items(sections, "ask")
        if name != "doubtful"
    }
    known = {name: ".+?" for name in OPEN} | {"unit": lists.get("unit", r"(?!)"), "year": r"[12]\d{3}"}
    known |= {"measure": MEASURE, "holiday": one_of(holidays)}
    shapes = tuple(
        (name, compile_template(plain(_longest_first(text)), known))
        for name, texts in _items(sections, "shapes")
        for text in texts
    )
    thousands = marks.get("thousands", ())
    return MathWords(
        decimal=marks.get("decimal", (".",))[0],
        thousands=thousands,
        phrases=phrases,
        token=re.compile(f"({number_pattern(thousands)})|({one_of(phrases)})"),
        doubtful=frozenset(plain(word) for word in sections.get("ask", {}).get("doubtful", ())),
        ask=ask,
        shapes=shapes,
        measure=re.compile(one_of({*units, *currencies})),
        units=units,
        symbols={unit: words[0] for unit, words in _items(sections, "units") if words},
        currencies=currencies,
        holidays=holidays,
        hints=_hints(phrases, [*holidays, *units], values),
        keys={name: frozenset(keys) for name, keys in sections.items()},
    )


def _longest_first(template: str) -> str:
    """`template` with the longest of plain alternatives first: what is open takes only what no word of it says."""

    def ordered(found: re.Match[str]) -> str:
        parts = sorted(found[2].split("|"), key=len, reverse=True)
        return f"{found[1]}{'|'.join(parts)}{found[3]}"

    return re.sub(r"([(\[])([^()\[\]{}]*)([)\]])", ordered, template)


def missing(own: MathWords, reference: MathWords) -> Iterator[str]:
    """The keys, with their section, that `reference` has and `own` lacks."""
    for section, keys in reference.keys.items():
        has = own.keys.get(section, frozenset())
        if section not in OWN:
            yield from (f"{section}.{key}" for key in sorted(keys - has))
        elif not has:
            yield section


def _items(sections: Sections, name: str) -> Iterable[tuple[str, list[str]]]:
    return sections.get(name, {}).items()


KINDS_OF_OPERATORS = ("of", "off", "rate", "share")


def _phrases(sections: Sections, numbers: Mapping[str, str], plain: Callable[[str], str]) -> dict[str, Word]:
    found = {word: Word("number", value) for word, value in numbers.items()}
    for value, words in _items(sections, "numbers"):
        found |= {plain(word): Word("number", value) for word in words}
    for kind in ("one", "and"):
        found |= {plain(word): Word(kind) for word in sections.get("marks", {}).get(kind, ()) if word not in found}
    for value, words in _items(sections, "fractions"):
        found |= {plain(word): Word("fraction", value) for word in words}
    for _, words in _items(sections, "currencies"):
        found |= {plain(word): Word("currency", words[0]) for word in words}
    for value, words in _items(sections, "operators"):
        word = Word(value) if value in KINDS_OF_OPERATORS else Word("sign", value)
        found |= {plain(text): word for text in words}
    return found


def _hints(
    phrases: Mapping[str, Word], names: Iterable[str], values: Mapping[str, Mapping[str, str]]
) -> frozenset[str]:
    # One is left out: in most languages it is an article.
    said = [text for text, word in phrases.items() if word.kind in ("number", "fraction") and word.value != "1"]
    said += [*names, *values.get("unit", ()), *values.get("weekday", ()), *values.get("month", ())]
    return frozenset(text for phrase in said for text in re.findall(r"[^\W\d_]{3,}", phrase))


def one_of(words: Iterable[str]) -> str:
    """A pattern for one of `words`, which are folded: the longest first, and none inside a longer word."""
    ordered = sorted(words, key=lambda word: (-len(word), word))
    # The borders of words are looked for once for all of a kind: a language has hundreds of them.
    parts = []
    for start, end in ((True, True), (True, False), (False, True), (False, False)):
        kind = [word for word in ordered if (word[0].isalpha(), word[-1].isalpha()) == (start, end)]
        if kind:
            before, after = r"(?<![^\W\d_])" * start, r"(?![^\W\d_])" * end
            parts.append(f"{before}(?:{'|'.join(map(_blanks, kind))}){after}")
    return "|".join(parts) or r"(?!)"


def _blanks(word: str) -> str:
    return r"\s+".join(map(re.escape, word.split()))


def number_pattern(thousands: Iterable[str]) -> str:
    """A pattern for a number in digits with any marks inside; blanks between thousands only where they are marks."""
    plain = r"\d+(?:[.,'\u2019]\d+)*|\.\d+"
    if " " not in thousands:
        return plain
    return rf"[1-9]\d{{0,2}}(?:[ \u00a0\u202f]\d{{3}})+(?:[.,]\d+)?(?!\d)|{plain}"

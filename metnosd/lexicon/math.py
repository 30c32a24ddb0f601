"""What an expression in words says: a sum, a measure in another unit, or days on the calendar.

"What is 17 percent of 240?" is `17% * 240`, "5 miles in km" a conversion, "days until Christmas" a question of days.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

from metnosd.arithmetic import TIMES, Node, NoExpression, evaluate, parse
from metnosd.lexicon.clocks import Unclear
from metnosd.lexicon.days import ROLLS, parse_day
from metnosd.lexicon.lexicon import Language
from metnosd.lexicon.math_tokens import OPERATORS, Token, read_tokens
from metnosd.lexicon.math_words import MEASURE
from metnosd.lexicon.requests import Call, split_items
from metnosd.lexicon.templates import Template, one_of
from metnosd.sentence import Refusal

TOOL = "compute_numbers"

LONGEST = 200
"""No expression in a message is longer, in characters."""

DAY_UNITS = ("day", "week", "month", "year")
"""The units in which days on the calendar are counted."""

_LEAD, _TRAIL = " \t\n\u00a0\u202f,;\u00bf\u00a1", " \t\n\u00a0\u202f,;:.!?\u2026"
_QUOTES = "\"'\u201c\u201d\u201e\u00ab\u00bb`"
_RESULT = re.compile(r"[\s=?]*=[\s=?]*$")
_WORDS = re.compile(r"[^\W\d_]{3,}")
_DIGITS = re.compile(r"\s*\d[\d.,']*")
_DATE = re.compile(r"(?<!\d)(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}([/.-])\d{1,2}\1\d{2,4})(?!\d)")

PERHAPS, SURELY = 1, 2
"""How plainly a text asks for a result."""


@dataclass(frozen=True, slots=True)
class Sum:
    """An expression and how it is written in the notation. `percent`: its result is wanted as a percentage."""

    tree: Node
    text: str
    percent: bool = False


@dataclass(frozen=True, slots=True)
class Conversion:
    """A measure, as numbers with units, and the unit that it is wanted in, as pint names them.

    `money`: it is one of currencies, which have no fixed rates.
    """

    parts: tuple[tuple[Fraction, str], ...] = ()
    target: str = ""
    money: bool = False


@dataclass(frozen=True, slots=True)
class Days:
    """A question of the calendar: `kind` is until, since, between or weekday; `days` are folded texts of days."""

    kind: str
    days: tuple[str, ...]
    unit: str = "day"


Reading = Sum | Conversion | Days


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of a text without some of the words around it, and how plainly these ask for a result."""

    start: int
    end: int
    asked: int


def read_math_call(text: str, language: Language, *, whole: bool) -> Call | None:
    """The step that `text` says in `language` if it is surely an expression; `whole` keeps the words around it."""
    try:
        found = _read(text, language, sure=True)
    except Refusal:
        return None
    if found is None:
        return None
    part, _ = found
    said = text.strip() if whole else text[part.start : part.end]
    return Call(TOOL, {"expression": said})


def read_math(text: str, languages: Sequence[Language]) -> tuple[Reading, Language] | None:
    """What `text` says, in the first of `languages` in which it surely does, else in which it can.

    Raises `Refusal` for an expression that is too long.
    """
    text = text.strip().strip(_QUOTES)
    for sure in (True, False):
        for language in languages:
            found = _read(text, language, sure=sure)
            if found is not None:
                return found[1], language
    return None


def _read(text: str, language: Language, *, sure: bool) -> tuple[_Part, Reading] | None:
    if len(text) > LONGEST:
        if sure:
            return None
        raise Refusal("numbers.too_long")
    folded = language.fold(text)
    if sure and not _may_be_one(folded, language):
        return None
    if sure and ("\n" in folded.strip() or _DATE.search(folded)):
        # Dates are read in shapes alone, where they are days.
        return next(((p, d) for p in _parts(folded, language) if (d := _shape(folded, p, language, sure=True))), None)
    for part in _parts(folded, language):
        found = _shape(folded, part, language, sure=sure) or _sum(folded, part, language, sure=sure)
        if found is not None:
            return part, found
    return None


def _may_be_one(folded: str, language: Language) -> bool:
    """Whether anything in the text is a number or a day; cheap, as most messages are no expressions."""
    if any(char.isdigit() for char in folded):
        return True
    words = _WORDS.findall(folded)
    # Words that are longer than most may be numbers that are written together.
    return any(word in language.math.hints or len(word) > 12 for word in words)


def _parts(folded: str, language: Language) -> Iterator[_Part]:
    """`folded` as it is, then without what stands around an expression, less and less."""
    start, end = _trimmed(folded, 0, len(folded))
    asked = 0
    result = _RESULT.search(folded, start, end)
    if result is not None:
        start, end = _trimmed(folded, start, result.start())
        asked = SURELY
    yield _Part(start, end, asked)
    ask = language.math.ask
    ways = (("polite", 0, True), ("before", SURELY, True), ("what", PERHAPS, True), ("after", SURELY, False))
    for name, weight, leads in (*ways, ("polite", 0, False), *ways[:3]):
        found = [m for p in ask.get(name, ()) if (m := _beside(folded, start, end, p, leads=leads)) and m[0].strip()]
        if not found:
            continue
        longest = max(found, key=lambda match: match.end() - match.start())
        around = (longest.end(), end) if leads else (start, longest.start())
        start, end = _trimmed(folded, *around)
        asked = max(asked, weight)
        yield _Part(start, end, asked)


def _beside(folded: str, start: int, end: int, pattern: re.Pattern[str], *, leads: bool) -> re.Match[str] | None:
    if leads:
        return pattern.match(folded, start, end)
    found = [match for match in pattern.finditer(folded, start, end) if match.end() == end]
    return found[0] if found else None


def _trimmed(folded: str, start: int, end: int) -> tuple[int, int]:
    """`start` and `end` without blanks and marks between them and the text."""
    while start < end and folded[start] in _LEAD:
        start += 1
    while end > start and folded[end - 1] in _TRAIL:
        end -= 1
    return start, end


def _sum(folded: str, part: _Part, language: Language, *, sure: bool) -> Sum | None:
    tokens = read_tokens(folded[part.start : part.end], language.math)
    if tokens is None:
        return None
    found = _of_tokens([token.text for token in tokens])
    if found is None or (sure and not _is_sure(tokens, found.tree, part.asked)):
        return None
    return found


def _of_tokens(tokens: Sequence[str], *, percent: bool = False) -> Sum | None:
    try:
        return Sum(parse(tokens), spelt(tokens), percent)
    except NoExpression:
        return None


def _is_sure(tokens: list[Token], tree: Node, asked: int) -> bool:
    """Whether a sum is surely meant as one, and not a date, a range, a telephone number or a score."""
    lone = tokens[0].words and [t.text for t in tokens[:1] + tokens[2:3] + tokens[4:]] == ["(", "/", ")"]
    if lone or not tree.computes or any(token.doubtful > asked for token in tokens):
        # One half alone computes nothing.
        return False
    signs = [token for token in tokens if token.text in OPERATORS]
    if asked == SURELY or not signs or not all(t.text in "-/" and t.symbol for t in signs):
        return True
    if any(token.tight for token in signs) and not (asked and _is_no_date(tokens, signs)):
        return False
    # "10 - 12" is a range.
    return any(token.text == "/" for token in signs) or _comes_to(tree) > 0


def _is_no_date(tokens: Sequence[Token], signs: Sequence[Token]) -> bool:
    """Whether what is written without blanks is a difference of two, or a quotient with a number that no date has."""
    numbers = [Fraction(token.text) for token in tokens if token.text[-1].isdigit()]
    if [token.text for token in signs] == ["-"]:
        return numbers[0] < 1000
    return signs[0].text == "/" and any(number.denominator > 1 or not 1 <= number <= 31 for number in numbers)


def _comes_to(tree: Node) -> Fraction:
    try:
        return evaluate(tree).value
    except Refusal:
        return Fraction(0)


def spelt(tokens: Sequence[str]) -> str:
    """The expression as it is shown: blanks around what joins two parts."""
    pieces: list[str] = []
    for at, token in enumerate(tokens):
        joins = at > 0 and (tokens[at - 1] in ")%" or tokens[at - 1][-1].isdigit() or tokens[at - 1] == "pi")
        if token in "+-*/" and joins:
            pieces.append(f" {TIMES if token == '*' else token} ")
        else:
            pieces.append(token)
    return "".join(pieces)


def _shape(folded: str, part: _Part, language: Language, *, sure: bool) -> Reading | None:
    text = folded[part.start : part.end]
    for name, template in language.math.shapes:
        if sure and name.endswith("_loose"):
            continue
        if name == "convert":
            found: Reading | None = _converted(text, template, language)
        elif (values := template.full(text)) is None:
            continue
        elif name in ("until", "since", "between", "weekday", "holiday"):
            found = _days(name, dict(values), language, sure=sure)
        else:
            found = _combined(name.removesuffix("_loose"), dict(values), language)
        if found is not None:
            return found
    return None


_JOINED = {"quotient": "/", "product": "*", "sum": "+", "difference": "-", "share": "/"}
"""Shapes of two parts, and what joins them."""


def _combined(name: str, said: dict[str, str], language: Language) -> Sum | None:
    if name in ("total", "average"):
        parts = [_inner(item, language) for item in split_items(said["parts"], language)]
        if len(parts) < 2 or any(part is None for part in parts):
            return None
        tokens = [token for part in parts if part is not None for token in ("+", *part)][1:]
        return _of_tokens(tokens if name == "total" else ["(", *tokens, ")", "/", str(len(parts))])
    first, second = ("part", "whole") if name == "share" else ("a", "b")
    left, right = _inner(said[first], language), _inner(said[second], language)
    if left is None or right is None:
        return None
    return _of_tokens([*left, _JOINED[name], *right], percent=name == "share")


def _inner(text: str, language: Language) -> list[str] | None:
    """The tokens of a part, in brackets where it is more than a number."""
    tokens = read_tokens(text.strip(), language.math)
    if tokens is None:
        return None
    texts = [token.text for token in tokens]
    if _of_tokens(texts) is None:
        return None
    return texts if all(text not in OPERATORS for text in texts) else ["(", *texts, ")"]


def _converted(text: str, template: Template, language: Language) -> Conversion | None:
    """The conversion that `text` is by `template`, with one of the words of units in it as the unit wanted."""
    for word in language.math.measure.finditer(text):
        values = template.full(f"{text[: word.start()]}{MEASURE}{text[word.end() :]}")
        quantity = one_of(values, "quantity") if values else None
        found = _conversion(quantity, " ".join(word[0].split()), language) if quantity else None
        if found is not None:
            return found
    return None


def _conversion(quantity: str, target: str, language: Language) -> Conversion | None:
    math = language.math
    parts = _measures(quantity, language)
    if not parts:
        return None
    said = [word for _, word in parts]
    if any(word not in math.units for word in (*said, target)):
        # Where one is a currency, a word that is also a unit ("pounds") is one too.
        return Conversion(money=True) if all(word in math.currencies for word in (*said, target)) else None
    if [math.units[word] for word in said] == [math.units[target]]:
        return None
    return Conversion(tuple((number, math.units[word]) for number, word in parts), math.units[target])


def _measures(quantity: str, language: Language) -> list[tuple[Fraction, str]]:
    """The numbers of a quantity with the words of their units: "5 ft 10 in" are (5, ft) and (10, in).

    Empty where it is anything else. The sign of a currency may stand before its number.
    """
    found: list[tuple[Fraction, str]] = []
    at = 0
    words = list(language.math.measure.finditer(quantity))
    for word in words:
        if word.start() < at:
            continue
        before = quantity[at : word.start()].strip(" ,")
        sign = None if before or word[0][0].isalpha() else _DIGITS.match(quantity, word.end())
        number = _number(sign[0] if sign else before, language)
        if number is not None:
            found.append((number, " ".join(word[0].split())))
            at = sign.end() if sign else word.end()
    return found if not quantity[at:].strip(" ,.") else []


def _number(text: str, language: Language) -> Fraction | None:
    """The number that `text` comes to, in digits or in words."""
    sign, text = (-1, text[1:]) if text[:1] in ("-", "\u2212") else (1, text)
    tokens = read_tokens(text.strip(" .,"), language.math, one=True)
    found = _of_tokens([token.text for token in tokens]) if tokens else None
    try:
        return sign * evaluate(found.tree).value if found is not None else None
    except Refusal:
        return None


def _days(name: str, said: dict[str, str], language: Language, *, sure: bool) -> Days | None:
    days = tuple(said[key].strip() for key in ("day", "other") if key in said)
    unit = language.value("unit", said["unit"]) if "unit" in said else "day"
    if unit not in DAY_UNITS:
        return None
    if name == "holiday":
        name, days = "weekday", (said["holiday"] + (f" {said['year']}" if "year" in said else ""),)
    if sure and any(_is_no_day(day, language) for day in days):
        return None
    return Days(name, days, unit)


def _is_no_day(text: str, language: Language) -> bool:
    try:
        day_named(text, language, date(2024, 2, 1))
    except Unclear:
        return True
    return False


def day_named(text: str, language: Language, today: date, *, past: bool = False) -> date:
    """The day that the folded `text` names, holidays among them; with `past` the latest such day, else the next.

    Raises `Unclear`.
    """
    year = re.search(r"\s([12]\d{3})$", text)
    name = " ".join((text[: year.start()] if year else text).split())
    holiday = language.math.holidays.get(name)
    if holiday is not None:
        return holiday.on(int(year[1])) if year else holiday.near(today, past=past)
    return parse_day(text, language, today, past=past)


def rolls(text: str, language: Language) -> bool:
    """Whether the day named by `text` comes again, so that a later one may be meant."""
    if text in language.math.holidays:
        return True
    for means, templates in language.time["day"].items():
        if any(one_of(template.full(text) or (), "year") is None and template.full(text) for template in templates):
            return means in ROLLS and means != "today"
    return False

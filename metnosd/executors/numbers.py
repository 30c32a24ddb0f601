"""Computing: sums, measures in other units, and days on the calendar."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from typing import Annotated

from dateutil.relativedelta import relativedelta

from metnosd.arguments import Arg
from metnosd.arithmetic import Shown, Value, evaluate, shown
from metnosd.entries import Entry, printable
from metnosd.executor import Found, Run, executor
from metnosd.lexicon.clocks import Unclear
from metnosd.lexicon.detect import languages_for
from metnosd.lexicon.lexicon import Language, Lexicon
from metnosd.lexicon.math import Conversion, Days, Sum, day_named, read_math, rolls
from metnosd.sentence import Refusal, Sentence, say
from metnosd.units import convert

LONGEST_ECHO = 100
"""How much of what was not understood is said back, in characters."""


@executor(takes=None, gives="numbers", capability="numbers:compute")
def compute_numbers(
    run: Run, *, expression: Annotated[str, Arg("what to compute, in the user's words or as a formula", source="free")]
) -> Found:
    """Compute sums, percentages, roots, units and days between dates."""
    lexicon: Lexicon = run.facts["lexicon"]
    languages = languages_for(expression, lexicon, run.lang)
    found = read_math(expression, languages)
    if found is None:
        raise Refusal("numbers.not_understood", text=printable(expression.strip())[:LONGEST_ECHO])
    reading, language = found
    # Numbers are written as the answer's language writes them.
    mark = lexicon.language(run.lang).math.decimal
    if isinstance(reading, Sum):
        return Found((_sum(reading, mark),))
    if isinstance(reading, Conversion):
        return Found((_converted(reading, lexicon.language(run.lang), mark),))
    return Found((_days(reading, language, run.now.astimezone(run.zone).date()),))


def _sum(said: Sum, mark: str) -> Entry:
    value = evaluate(said.tree)
    if said.percent:
        value = Value(value.value, value.exact, percent=True)
    number = shown(value)
    sign = "%" if value.percent else ""
    fields = {"value": number.text + sign, "expression": said.text, "exact": not number.about}
    return Entry("numbers", fields, _equal(said.text, number, sign, mark))


def _equal(expression: str, number: Shown, sign: str, mark: str) -> Sentence:
    left, right = expression.replace(".", mark), number.text.replace(".", mark) + sign
    return say("numbers.about" if number.about else "numbers.equal", expression=left, value=right)


def _converted(said: Conversion, language: Language, mark: str) -> Entry:
    if said.money:
        raise Refusal("numbers.rates")
    total, exact = convert(said.parts, said.target)
    number = shown(Value(total, exact))
    written = " ".join(_measure(part, unit, language) for part, unit in said.parts)
    target = _symbol(said.target, language)
    fields = {
        "value": number.text,
        "unit": said.target,
        "expression": f"{written} -> {target}",
        "exact": not number.about,
    }
    return Entry("numbers", fields, _equal(written, number, f" {target}", mark))


def _measure(number: Fraction, unit: str, language: Language) -> str:
    return f"{shown(Value(number)).text} {_symbol(unit, language)}"


def _symbol(unit: str, language: Language) -> str:
    return language.math.symbols.get(unit, unit)


def _days(said: Days, language: Language, today: date) -> Entry:
    past = said.kind == "since"
    first = _day(said.days[0], language, today, past=past)
    if said.kind == "weekday":
        sentence = say("numbers.weekday", date=first.isoformat(), weekday=say(f"numbers.weekday_{first.isoweekday()}"))
        return Entry("numbers", {"value": str(first.isoweekday()), "date": first.isoformat()}, sentence)
    if said.kind == "between":
        start, end = first, _day(said.days[1], language, today)
        if end < start and rolls(said.days[1], language):
            end = _day(said.days[1], language, start)
        start, end = min(start, end), max(start, end)
    else:
        start, end = min(first, today), max(first, today)
    counts = _counts(start, end, said.unit)
    fields = {
        "value": str(counts[0][0]),
        "unit": said.unit,
        "days": (end - start).days,
        "from": start.isoformat(),
        "to": end.isoformat(),
    }
    return Entry("numbers", fields, _told(said, start, end, today, counts))


def _day(text: str, language: Language, today: date, *, past: bool = False) -> date:
    try:
        return day_named(text, language, today, past=past)
    except (Unclear, ValueError, OverflowError):
        raise Refusal("numbers.no_day", text=printable(text)[:LONGEST_ECHO]) from None


def _told(said: Days, start: date, end: date, today: date, counts: Sequence[tuple[int, str]]) -> Sentence:
    if start == end:
        return say("numbers.same_day", day=_dated(start))
    span = _span(counts)
    if said.kind == "until" and end == today:
        return say("numbers.past", day=_dated(start), span=span)
    if said.kind == "since" and start == today:
        return say("numbers.ahead", day=_dated(end), span=span)
    return say("numbers.from_to", first=_dated(start), last=_dated(end), span=span)


def _dated(day: date) -> Sentence:
    return say("numbers.day", weekday=say(f"weekday.{day.isoweekday()}"), date=day.isoformat())


def _counts(start: date, end: date, unit: str) -> list[tuple[int, str]]:
    """How many whole units lie between the days, then what is left of smaller ones."""
    days = (end - start).days
    if unit == "day":
        return [(days, "days")]
    if unit == "week":
        return [(days // 7, "weeks"), (days % 7, "days")]
    between = relativedelta(end, start)
    if unit == "month":
        return [(12 * between.years + between.months, "months"), (between.days, "days")]
    return [(between.years, "years"), (between.months, "months"), (between.days, "days")]


def _span(counts: Sequence[tuple[int, str]]) -> Sentence:
    parts = [say(f"numbers.count_{unit}", count=count) for count, unit in counts if count]
    span = parts[0]
    for part in parts[1:]:
        span = say("numbers.and", first=span, second=part)
    return span


NUMBER_EXECUTORS = (compute_numbers,)

"""Single days in words: section `time.day`."""

from __future__ import annotations

import re
from datetime import date, timedelta

from dateutil.relativedelta import relativedelta

from metnosd.lexicon.clocks import Unclear
from metnosd.lexicon.lexicon import Language
from metnosd.lexicon.templates import Values, one_of

_NEAR = {"today": 0, "tomorrow": 1, "day_after_tomorrow": 2, "yesterday": -1, "day_before_yesterday": -2}

ROLLS = {"today": relativedelta(days=1), "weekday": relativedelta(days=7), "date": relativedelta(years=1),
         "numeric": relativedelta(years=1), "dom": relativedelta(months=1)}  # fmt: skip
"""How far a day rolls on whose time is past, by what was said."""


def parse_day(text: str, language: Language, today: date, *, past: bool = False) -> date:
    """The day that the folded `text` is; with `past` the latest such day, else the next. Raises `Unclear`."""
    for means, templates in language.time["day"].items():
        for template in templates:
            values = template.full(text)
            if values is not None:
                return read_day(means, values, text, language, today, past=past)
    raise Unclear("time.no_day", text)


def read_day(means: str, values: Values, text: str, language: Language, today: date, *, past: bool = False) -> date:
    """The day of one match of `time.day`."""
    if means in _NEAR:
        return today + timedelta(days=_NEAR[means])
    if means.endswith("weekday"):
        return _weekday(means, values, language, today, past)
    try:
        return _dated(means, values, language, today, past)
    except ValueError as error:
        raise Unclear("time.no_day", text) from error


def _weekday(means: str, values: Values, language: Language, today: date, past: bool) -> date:
    name, word = values[0]
    wanted = int(language.value(name, word))
    ahead = (wanted - today.isoweekday()) % 7
    if means == "last_weekday" or (past and means != "next_weekday"):
        back = (today.isoweekday() - wanted) % 7
        return today - timedelta(days=back or (7 if means == "last_weekday" else 0))
    return today + timedelta(days=ahead or (7 if means == "next_weekday" else 0))


def day_number(text: str, language: Language, name: str = "dom") -> int:
    """A day of the month in digits, with its suffix, or in words; raises ValueError."""
    digits = re.match(r"\d+", text)
    number = int(digits[0]) if digits else int(language.value(name, text))
    if not 1 <= number <= 31:
        raise ValueError(f"{number} is no day of a month")
    return number


def _dated(means: str, values: Values, language: Language, today: date, past: bool) -> date:
    if means == "iso":
        return date.fromisoformat(one_of(values, "iso") or "")
    if means == "end_of_month":
        return today + relativedelta(day=31)
    if means == "end_of_week":
        return today + timedelta(days=7 - today.isoweekday())
    if means == "end_of_year":
        return today.replace(month=12, day=31)
    month = month_of(values, language)
    year = one_of(values, "year") or one_of(values, "yy")
    if means == "end_of_month_named":
        found = date(int(year or today.year), month or 1, 1) + relativedelta(day=31)
        return found if year or found >= today else found + relativedelta(years=1, day=31)
    number = day_of(values, language)
    if month is None:
        return next_with_day(number, today)
    if year:
        return date(int(year) + (2000 if len(year) == 2 else 0), month, number)
    return _next_date(month, number, today, past)


def day_of(values: Values, language: Language) -> int:
    """The day of the month among `values`: `dom`, `dd`, else an ordinal or number. Raises ValueError."""
    for name in ("dom", "dd", "ordinal", "number"):
        text = one_of(values, name)
        if text is not None:
            return day_number(text, language, name)
    raise ValueError("there is no day of a month")


def month_of(values: Values, language: Language) -> int | None:
    """The month among `values`, by its name, its abbreviation or its number."""
    for name in ("month", "month_short", "mon"):
        text = one_of(values, name)
        if text is not None:
            return int(language.value(name, text))
    return None


def _next_date(month: int, day: int, today: date, past: bool) -> date:
    """The next (or latest) such date; 29 February may be years away."""
    date(2000, month, day)
    step = -1 if past else 1
    for years in range(9):
        try:
            found = date(today.year + step * years, month, day)
        except ValueError:
            continue
        if (found <= today) if past else (found >= today):
            return found
    raise ValueError("there is no such date")


def next_with_day(day: int, today: date) -> date:
    """The next day with the number `day`, today included; months that lack it are passed over."""
    month = today.replace(day=1)
    for _ in range(4):
        found = month + relativedelta(day=day)
        if found.day == day and found >= today:
            return found
        month += relativedelta(months=1)
    raise ValueError("there is no such day")

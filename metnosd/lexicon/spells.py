"""Stretches of time in words: section `time.span`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, tzinfo

from dateutil.relativedelta import relativedelta

from metnosd.arguments import TimeRange
from metnosd.lexicon.clocks import Unclear
from metnosd.lexicon.days import day_number, month_of, parse_day
from metnosd.lexicon.lexicon import Language
from metnosd.lexicon.recurrence import instant
from metnosd.lexicon.templates import Values, one_of, values_of

Step = relativedelta | timedelta


def step_of(unit: str, number: int = 1) -> Step:
    """`number` of `unit`: minutes and hours are absolute, longer units follow the calendar."""
    if unit in ("minute", "hour"):
        return timedelta(**{f"{unit}s": number})
    if unit == "quarter":
        return relativedelta(months=3 * number)
    return relativedelta(**{f"{unit}s": number})  # type: ignore[arg-type]  # one keyword of known names


class _Reading:
    """The values of one match, in their meaning."""

    def __init__(self, values: Values, language: Language, now: datetime, zone: tzinfo) -> None:
        self.values = values
        self.language = language
        self.now = now
        self.zone = zone

    @property
    def unit(self) -> str:
        return self.language.value("unit", one_of(self.values, "unit") or "")

    @property
    def number(self) -> int:
        return int(self.language.value("number", one_of(self.values, "number") or "1"))

    def back(self) -> datetime:
        """{number} {unit} before now."""
        return _shift(self.now, step_of(self.unit, self.number), self.zone)

    def day(self, day: date) -> datetime:
        """The beginning of `day`."""
        return instant(datetime.combine(day, time()), self.zone)

    def stretch(self, start: date, step: Step) -> TimeRange:
        """From `start` for `step`, whole days."""
        return TimeRange(self.day(start), self.day(start + step))


def _shift(now: datetime, step: Step, zone: tzinfo) -> datetime:
    if isinstance(step, timedelta):
        return (now - step).astimezone(zone)
    return instant(now.replace(tzinfo=None) - step, zone)


def read_span(means: str, values: Values, language: Language, now: datetime, zone: tzinfo) -> TimeRange:
    """The half-open range of one match of `time.span`, seen from `now`. Raises `Unclear`."""
    try:
        return _READERS[means.removesuffix("_bare")](_Reading(values, language, now, zone))
    except (ValueError, OverflowError, KeyError) as error:
        raise Unclear("time.no_span", " ".join(text for _, text in values)) from error


def day_range(day: date, zone: tzinfo) -> TimeRange:
    """All of one day."""
    start = instant(datetime.combine(day, time()), zone)
    return TimeRange(start, instant(datetime.combine(day + timedelta(days=1), time()), zone))


def _start_of(unit: str, today: date) -> date:
    if unit == "week":
        return today - timedelta(days=today.weekday())
    if unit == "month":
        return today.replace(day=1)
    if unit == "quarter":
        return today.replace(month=(today.month - 1) // 3 * 3 + 1, day=1)
    return today.replace(month=1, day=1) if unit == "year" else today


def _unit(reading: _Reading, steps: int) -> TimeRange:
    """The unit that now lies in, or one `steps` units away."""
    unit = reading.unit
    if unit in ("minute", "hour"):
        start = reading.now.replace(minute=reading.now.minute if unit == "minute" else 0, second=0, microsecond=0)
        return TimeRange(start + steps * step_of(unit), start + (steps + 1) * step_of(unit))
    start_day = _start_of(unit, reading.now.date())
    if steps:
        start_day = start_day + step_of(unit, steps)
    return reading.stretch(start_day, step_of(unit))


def _ago(reading: _Reading) -> TimeRange:
    unit = reading.unit
    if unit in ("minute", "hour"):
        start = (reading.now - step_of(unit, reading.number)).replace(second=0, microsecond=0)
        return TimeRange(start, start + step_of(unit))
    day = reading.now.date() - step_of(unit, reading.number)
    return reading.stretch(_start_of(unit, day), step_of(unit))


def _named_month(reading: _Reading) -> int:
    month = month_of(reading.values, reading.language)
    if month is None:
        raise ValueError("there is no month")
    return month


def _month(reading: _Reading) -> TimeRange:
    month = _named_month(reading)
    said = one_of(reading.values, "year")
    today = reading.now.date()
    year = int(said) if said else today.year - (month > today.month)
    return reading.stretch(date(year, month, 1), relativedelta(months=1))


def _last_named_month(reading: _Reading) -> TimeRange:
    month = _named_month(reading)
    today = reading.now.date()
    return reading.stretch(date(today.year - (month >= today.month), month, 1), relativedelta(months=1))


def _year(reading: _Reading) -> TimeRange:
    return reading.stretch(date(int(one_of(reading.values, "year") or "0"), 1, 1), relativedelta(years=1))


def _weekend(reading: _Reading, weeks: int) -> TimeRange:
    monday = _start_of("week", reading.now.date()) + timedelta(weeks=weeks)
    return reading.stretch(monday + timedelta(days=5), relativedelta(days=2))


def _since(reading: _Reading) -> TimeRange:
    """From then until now; from a day that is still to come, without an end."""
    day = one_of(reading.values, "day")
    if day is not None:
        coming = parse_day(day, reading.language, reading.now.date())
        if parse_day(day, reading.language, reading.now.date(), past=True) > reading.now.date():
            return TimeRange(reading.day(coming), None)
    return TimeRange(_edge(reading), reading.now)


def _since_previous(reading: _Reading) -> TimeRange:
    return TimeRange(_unit(reading, -1).start, reading.now)


def _since_year(reading: _Reading) -> TimeRange:
    return TimeRange(_year(reading).start, reading.now)


def _ahead(reading: _Reading) -> TimeRange:
    step = step_of(reading.unit, reading.number)
    if isinstance(step, timedelta):
        return TimeRange(reading.now, reading.now + step)
    return TimeRange(reading.now, instant(reading.now.replace(tzinfo=None) + step, reading.zone))


def _between_doms(reading: _Reading) -> TimeRange:
    """Two days of one month: the next such stretch that is not over, or that of the year said."""
    first, last = (day_number(text, reading.language) for name, text in reading.values if name in ("dom", "dd"))
    month, today = _named_month(reading), reading.now.date()
    said = one_of(reading.values, "year")
    year = int(said) if said else today.year + (date(today.year, month, last) < today)
    if last < first:
        raise ValueError("the end lies before the beginning")
    return TimeRange(reading.day(date(year, month, first)), reading.day(date(year, month, last) + timedelta(days=1)))


def _edge(reading: _Reading) -> datetime:
    day = one_of(reading.values, "day")
    if day is not None:
        return reading.day(parse_day(day, reading.language, reading.now.date(), past=True))
    start = (_year if month_of(reading.values, reading.language) is None else _month)(reading).start
    assert start is not None
    return start


def _between(reading: _Reading) -> TimeRange:
    today = reading.now.date()
    texts = values_of(reading.values, "day")
    first = parse_day(texts[0], reading.language, today)
    last = parse_day(texts[1], reading.language, today)
    if last < first:
        last = parse_day(texts[1], reading.language, first)
    if last < first:
        raise ValueError("the end lies before the beginning")
    return TimeRange(reading.day(first), reading.day(last + timedelta(days=1)))


_READERS: Mapping[str, Callable[[_Reading], TimeRange]] = {
    "this": lambda reading: _unit(reading, 0),
    "previous": lambda reading: _unit(reading, -1),
    "next": lambda reading: _unit(reading, 1),
    "back": lambda reading: TimeRange(reading.back(), reading.now),
    "before": lambda reading: TimeRange(None, reading.back()),
    "ago": _ago,
    "month": _month,
    "last_month_named": _last_named_month,
    "year": _year,
    "weekend": lambda reading: _weekend(reading, 0),
    "previous_weekend": lambda reading: _weekend(reading, -1),
    "next_weekend": lambda reading: _weekend(reading, 1),
    "since": _since,
    "since_previous": _since_previous,
    "since_year": _since_year,
    "ahead": _ahead,
    "between_doms": _between_doms,
    "until": lambda reading: TimeRange(None, _edge(reading)),
    "between": _between,
}

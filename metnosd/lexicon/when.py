"""Ranges of time in words, read by the templates of section `[time]` of the lexicon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from dateutil.relativedelta import relativedelta

from metnosd.arguments import TimeRange
from metnosd.lexicon.lexicon import Language, Lexicon
from metnosd.lexicon.templates import fold

_BARE = "_bare"

Values = Mapping[str, str]


def read_range(text: str, lexicon: Lexicon, now: datetime, *, bare: bool = True) -> TimeRange | None:
    """The half-open range that all of `text` names, seen from `now` (aware, in the user's zone); else None.

    A duration back from now ends now, and so does "since"; weeks begin on Monday (ISO 8601). `bare` takes
    single words ("may") that are a time only where one must stand.
    """
    folded = " ".join(fold(text).split())
    for language in lexicon.languages:
        for means, templates in language.time.items():
            if means.endswith(_BARE) and not bare:
                continue
            for template in templates:
                values = template.full(folded)
                if values is not None:
                    found = _read(means, values, language, lexicon, now)
                    if found is not None:
                        return found
    return None


def _read(means: str, values: Values, language: Language, lexicon: Lexicon, now: datetime) -> TimeRange | None:
    if means in ("since", "until"):
        inner = read_range(values["rest"], lexicon, now)
        if inner is None:
            return None
        return TimeRange(inner.start, now) if means == "since" else TimeRange(None, inner.start)
    try:
        return _READERS[means.removesuffix(_BARE)](_Reading(values, language, now))
    except (ValueError, OverflowError):
        return None


class _Reading:
    """The values of one match, in their meaning."""

    def __init__(self, values: Values, language: Language, now: datetime) -> None:
        self._values = values
        self._language = language
        self.now = now
        self.midnight = now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)

    def get(self, name: str) -> str:
        return self._language.value(name, self._values[name])

    def has(self, name: str) -> bool:
        return name in self._values

    def span(self) -> relativedelta | timedelta:
        """{number} {unit}: hours and minutes are absolute, longer units follow the calendar."""
        number, unit = int(self.get("number")), self.get("unit")
        if unit in ("minute", "hour"):
            return timedelta(**{f"{unit}s": number})
        return relativedelta(**{f"{unit}s": number})  # type: ignore[arg-type]  # one keyword of known names


def _start_of(unit: str, now: datetime) -> datetime:
    if unit in ("minute", "hour"):
        return now.replace(minute=now.minute if unit == "minute" else 0, second=0, microsecond=0)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    if unit == "week":
        return midnight - timedelta(days=midnight.weekday())
    return midnight.replace(day=1 if unit in ("month", "year") else midnight.day).replace(
        month=1 if unit == "year" else midnight.month
    )


def _step(unit: str) -> relativedelta | timedelta:
    return timedelta(**{f"{unit}s": 1}) if unit in ("minute", "hour") else relativedelta(**{f"{unit}s": 1})  # type: ignore[arg-type]


def _this(reading: _Reading) -> TimeRange:
    unit = reading.get("unit")
    start = _start_of(unit, reading.now)
    return TimeRange(start, start + _step(unit))


def _previous(reading: _Reading) -> TimeRange:
    unit = reading.get("unit")
    start = _start_of(unit, reading.now)
    return TimeRange(start - _step(unit), start)


def _day(reading: _Reading, back: int) -> TimeRange:
    start = reading.midnight - timedelta(days=back)
    return TimeRange(start, start + timedelta(days=1))


def _ago(reading: _Reading) -> TimeRange:
    unit = reading.get("unit")
    start = _start_of(unit, reading.now - reading.span())
    return TimeRange(start, start + _step(unit))


def _weekday(reading: _Reading) -> TimeRange:
    """The latest such day up to today: what was modified lies in the past."""
    return _day(reading, (reading.midnight.isoweekday() - int(reading.get("weekday"))) % 7)


def _month(reading: _Reading) -> TimeRange:
    month = int(reading.get("month"))
    year = int(reading.get("year")) if reading.has("year") else reading.now.year - (month > reading.now.month)
    start = reading.midnight.replace(year=year, month=month, day=1)
    return TimeRange(start, start + relativedelta(months=1))


def _date(reading: _Reading) -> TimeRange:
    start = datetime.fromisoformat(reading.get("date")).replace(tzinfo=reading.now.tzinfo)
    return TimeRange(start, start + timedelta(days=1))


_READERS: Mapping[str, Callable[[_Reading], TimeRange]] = {
    "this": _this,
    "previous": _previous,
    "today": lambda reading: _day(reading, 0),
    "yesterday": lambda reading: _day(reading, 1),
    "back": lambda reading: TimeRange(reading.now - reading.span(), reading.now),
    "before": lambda reading: TimeRange(None, reading.now - reading.span()),
    "ago": _ago,
    "weekday": _weekday,
    "month": _month,
    "date": _date,
}

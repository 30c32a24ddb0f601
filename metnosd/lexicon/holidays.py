"""Holidays by rule, and the days that a text names.

A rule is `12-25` (month and day), `easter`, or `11/4#4` (month, weekday from 1 for Monday, which of them in the month,
counted from its end where it is negative), each with days before or after: `easter-2`, `11/4#4+1`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

from dateutil.easter import easter

from metnosd.lexicon.templates import TemplateError

_RULE = re.compile(r"(?:(\d\d)-(\d\d)|(easter)|(\d\d?)/([1-7])#(-?[1-5]))(?:([+-]\d{1,3}))?")


@dataclass(frozen=True, slots=True)
class Holiday:
    """A day of each year. Fixed by `month` and `day`, by Easter (`month` 0), or the `nth` such `weekday`."""

    month: int = 0
    day: int = 0
    weekday: int = 0
    nth: int = 0
    shift: int = 0

    def on(self, year: int) -> date:
        """Its day in `year`."""
        return self._base(year) + timedelta(days=self.shift)

    def _base(self, year: int) -> date:
        if not self.month:
            return easter(year)
        if self.day:
            return date(year, self.month, self.day)
        if self.nth > 0:
            first = date(year, self.month, 1)
            return first + timedelta(days=(self.weekday - first.isoweekday()) % 7 + 7 * (self.nth - 1))
        last = date(year + self.month // 12, self.month % 12 + 1, 1) - timedelta(days=1)
        return last - timedelta(days=(last.isoweekday() - self.weekday) % 7 + 7 * (-self.nth - 1))

    def near(self, today: date, *, past: bool = False) -> date:
        """The next such day from `today` on, or with `past` the latest one."""
        years = (today.year, today.year - 1) if past else (today.year, today.year + 1)
        return next((day for day in map(self.on, years) if (day <= today if past else day >= today)), self.on(years[1]))


def read_rule(text: str) -> Holiday:
    """The holiday of a rule; raises `TemplateError`."""
    found = _RULE.fullmatch(text)
    if found is None:
        raise TemplateError(f"{text!r} is no rule of a holiday")
    month, day, _, nth_month, weekday, nth, shift = found.groups()
    moved = int(shift or 0)
    try:
        if month:
            date(2001, int(month), int(day))
            return Holiday(month=int(month), day=int(day), shift=moved)
        if nth_month:
            date(2001, int(nth_month), 1)
            return Holiday(month=int(nth_month), weekday=int(weekday), nth=int(nth), shift=moved)
    except ValueError as error:
        raise TemplateError(f"{text!r} is no rule of a holiday: {error}") from error
    return Holiday(shift=moved)

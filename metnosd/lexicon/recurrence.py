"""Recurrences: RFC 5545 rules on wall-clock time, and the instants at which they fire."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import takewhile

from dateutil.rrule import rrulestr

SEARCH_YEARS = 30
"""How far ahead a fire is looked for; a rule that has none by then has none for people."""


@dataclass(frozen=True, slots=True)
class Recurrence:
    """What comes again: `rules` without `UNTIL` and `COUNT`, which are `until` (aware) and `count` here.

    `start` is the first wall-clock time (naive); `zone` where the clock hangs. Days in `except_dates` do not
    count.
    """

    rules: tuple[str, ...]
    start: datetime
    zone: tzinfo
    until: datetime | None = None
    count: int | None = None
    except_dates: tuple[date, ...] = ()

    def rrules(self) -> list[str]:
        """The rules as RFC 5545 writes them, `UNTIL` in UTC; of `COUNT` and `UNTIL` a rule has one (3.3.10)."""
        until = self.until
        if self.count and until is not None:
            until = max(self.after(self.dtstart() - timedelta(seconds=1)), default=until)
        tail = f";COUNT={self.count}" if self.count and until is None else ""
        if until is not None:
            tail += f";UNTIL={until.astimezone(UTC):%Y%m%dT%H%M%SZ}"
        return [rule + tail for rule in self.rules]

    def dtstart(self) -> datetime:
        """The first fire's instant, in the zone."""
        return instant(self.start, self.zone)

    def exdates(self) -> list[datetime]:
        """The instants that `except_dates` take out, first fires of these days."""
        if not self.except_dates:
            return []
        last = max(self.except_dates)
        times = takewhile(lambda item: item.date() <= last, self._naive())
        return [instant(item, self.zone) for item in times if item.date() in self.except_dates]

    def after(self, now: datetime) -> Iterator[datetime]:
        """The fires strictly after `now`, in order, none twice, in the zone."""
        # Compared in UTC: two times of one zone compare by their wall clocks. A gap of the clock can make two
        # of them one instant, or put them out of order.
        last = now.astimezone(UTC)
        for number, naive in enumerate(self._naive(), 1):
            if self.count is not None and number > self.count:
                return
            fire = instant(naive, self.zone)
            if self.until is not None and fire.astimezone(UTC) > self.until.astimezone(UTC):
                return
            if fire.astimezone(UTC) > last and naive.date() not in self.except_dates:
                last = fire.astimezone(UTC)
                yield fire

    def _naive(self) -> Iterator[datetime]:
        horizon = self.start.year + SEARCH_YEARS
        streams = [iter(rrulestr(rule, dtstart=self.start)) for rule in self.rules]
        last: datetime | None = None
        for naive in heapq.merge(*streams):
            if naive.year > horizon:
                return
            if naive != last:
                last = naive
                yield naive

    def starting(self, now: datetime) -> Recurrence:
        """The recurrence with `start` moved to its first fire after `now` (aware)."""
        for naive in self._naive():
            if instant(naive, self.zone) > now:
                return replace(self, start=naive)
        return self


def instant(naive: datetime, zone: tzinfo) -> datetime:
    """The instant of a wall-clock time: one in a gap is shifted by the gap, one that comes twice is the first.

    RFC 5545, section 3.3.5: a time that does not exist is read with the offset before the gap, which is what
    `fold=0` means (PEP 495).
    """
    aware = naive.replace(tzinfo=zone, fold=0)
    return aware.astimezone(UTC).astimezone(zone)

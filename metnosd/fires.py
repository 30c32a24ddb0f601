"""When a recurrence fires next, found without walking all the way from its start."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice

from dateutil.rrule import rrule, rrulestr

from metnosd.lexicon.recurrence import SEARCH_YEARS, Recurrence

_LONGEST_GAP = timedelta(hours=26)
"""Longer than any stretch that a clock change has skipped (Pacific/Apia left out 30 December 2011)."""

_SECONDS = {"SECONDLY": 1, "MINUTELY": 60, "HOURLY": 3600, "DAILY": 86400, "WEEKLY": 604800}
_MONTHS = {"MONTHLY": 1, "YEARLY": 12}


def fires_of(recurrence: Recurrence, after: datetime) -> Iterator[datetime]:
    """The fires of `recurrence` strictly after `after` (aware), strictly increasing, in the recurrence's zone.

    They are the instants of `Recurrence.after`, in the order of time also where a clock change would swap them.
    Raises ValueError where a rule is none.
    """
    now = after.astimezone(UTC)
    until = None if recurrence.until is None else recurrence.until.astimezone(UTC)
    last: datetime | None = None
    for fire in _in_order(recurrence, now):
        if until is not None and fire > until:
            return
        if fire > now and fire != last:
            last = fire
            yield fire.astimezone(recurrence.zone)


def _in_order(recurrence: Recurrence, now: datetime) -> Iterator[datetime]:
    """The instants in UTC, from some time up to `now` on, in order.

    Only a time in a gap is moved, and it is moved past times that do exist: such a one waits for its turn. All
    others follow each other as their clock times do.
    """
    zone = recurrence.zone
    waiting: list[datetime] = []
    for naive in _wall_times(recurrence, _lower_bound(now, zone)):
        fire = naive.replace(tzinfo=zone, fold=0).astimezone(UTC)
        if fire.astimezone(zone).replace(tzinfo=None, fold=0) != naive:
            heapq.heappush(waiting, fire)
            continue
        while waiting and waiting[0] <= fire:
            yield heapq.heappop(waiting)
        yield fire
    yield from sorted(waiting)


def _lower_bound(now: datetime, zone: tzinfo) -> datetime:
    """A wall-clock time below which every instant is at or before `now`."""
    offsets = [moment.astimezone(zone).utcoffset() for moment in (now, now - _LONGEST_GAP)]
    return now.replace(tzinfo=None) + min(offset for offset in offsets if offset is not None)


def _wall_times(recurrence: Recurrence, low: datetime) -> Iterator[datetime]:
    """The wall-clock times from some time up to `low` on, each once, without those that do not count."""
    start = recurrence.start
    end = datetime(start.year + SEARCH_YEARS, 12, 31, 23, 59, 59, 999999)
    if recurrence.count is not None:
        end = min(end, _last_counted(recurrence) or end)
    last: datetime | None = None
    for naive in heapq.merge(*(iter(rule_from(rule, start, low)) for rule in recurrence.rules)):
        if naive > end:
            return
        if naive != last and naive.date() not in recurrence.except_dates:
            last = naive
            yield naive


@lru_cache(maxsize=4096)
def _last_counted(recurrence: Recurrence) -> datetime | None:
    """The wall-clock time at which the count of `recurrence` is used up; None where it is not."""
    assert recurrence.count is not None
    start = recurrence.start
    merged = heapq.merge(*(iter(rule_from(rule, start, start)) for rule in recurrence.rules))
    last: datetime | None = None
    left = recurrence.count
    for naive in merged:
        if naive.year > start.year + SEARCH_YEARS:
            return None
        if naive != last:
            last = naive
            left -= 1
            if not left:
                return naive
    return None


def rule_from(rule: str, start: datetime, low: datetime) -> rrule:
    """The rule with a later start in step with `start`, so that it gives the same times from `low` on."""
    frequency, interval = stride(rule)
    if start >= low:
        return _rule(rule, start)
    if frequency in _SECONDS:
        step = timedelta(seconds=_SECONDS[frequency] * interval)
        # One step less: the first week of a rule is cut at its start, which matters to BYSETPOS.
        return _rule(rule, start + max(0, (low - start) // step - 1) * step)
    step_months = _MONTHS[frequency] * interval
    months = (low.year - start.year) * 12 + low.month - start.month
    steps = max(0, months // step_months - 1)
    while (moved := _months_later(start, steps * step_months)) is None:
        steps -= 1
    return _rule(rule, moved)


def _months_later(start: datetime, months: int) -> datetime | None:
    """`start` so many months later; None where that month has no such day."""
    index = start.year * 12 + start.month - 1 + months
    try:
        return start.replace(year=index // 12, month=index % 12 + 1)
    except ValueError:
        return None


def _rule(rule: str, start: datetime) -> rrule:
    found = rrulestr(rule, dtstart=start)
    if not isinstance(found, rrule):
        raise ValueError(f"{rule!r} is more than one rule")
    return found


@lru_cache(maxsize=4096)
def stride(rule: str) -> tuple[str, int]:
    """Frequency and interval of `rule`. Raises ValueError for what is no rule, or has an end of its own."""
    parts = dict(part.split("=", 1) for part in rule.split(";"))
    frequency, interval = parts.get("FREQ", ""), int(parts.get("INTERVAL", "1"))
    known = frequency in _SECONDS or frequency in _MONTHS
    if not known or interval < 1 or rule.split() != [rule] or parts.keys() & {"COUNT", "UNTIL", "DTSTART"}:
        raise ValueError(f"{rule!r} is no rule")
    return frequency, interval


def check_recurrence(recurrence: Recurrence) -> None:
    """Raise ValueError where `recurrence` is none: a rule that cannot be read, or one that never fires."""
    if not recurrence.rules or recurrence.start.tzinfo is not None:
        raise ValueError("a recurrence has rules and a start on the wall clock")
    for rule in recurrence.rules:
        stride(rule)
    if not any(True for _ in islice(_wall_times(recurrence, recurrence.start), 1)):
        raise ValueError("the recurrence never fires")

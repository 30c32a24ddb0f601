"""Schedules as iCalendar (RFC 5545), for other calendars to show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import takewhile
from typing import cast

from icalendar import Calendar, Event, vRecur

from metnosd.fires import fires_of, rule_from
from metnosd.schedule import Schedule

PRODUCT = "-//metnosd//metnosd//"

ZONE_YEARS = 10
"""For how long the clock changes of a zone are written out; nobody knows those of later years yet."""

_EARLY = datetime(1000, 1, 1, tzinfo=UTC)


def to_icalendar(schedules: Iterable[Schedule], now: datetime) -> str:
    """The calendar of `schedules`, made at `now` (aware): an event for each rule or one shot, with its zone.

    A rule among several has an event of its own, since readers only heed one rule an event. One that never fires
    has none. Paused ones are tentative.
    """
    calendar = Calendar()
    calendar.add("prodid", PRODUCT)
    calendar.add("version", "2.0")
    starts = [now]
    for schedule in schedules:
        for event in _events(schedule):
            event.add("dtstamp", now.astimezone(UTC))
            event.add("summary", schedule.text)
            event.add("created", schedule.created_at)
            event.add("status", "TENTATIVE" if schedule.state == "paused" else "CONFIRMED")
            event.add("transp", "TRANSPARENT")
            calendar.add_component(event)
            starts.append(event.decoded("dtstart").astimezone(UTC))
    first, last = min(starts) - timedelta(days=400), now + timedelta(days=365 * ZONE_YEARS)
    calendar.add_missing_timezones(first_date=first.date(), last_date=last.date())
    return cast(bytes, calendar.to_ical()).decode()


def _events(schedule: Schedule) -> Iterator[Event]:
    recurrence = schedule.recurrence
    if recurrence is None:
        assert schedule.at is not None
        yield _event(schedule, schedule.at, 0)
        return
    if recurrence.count is not None and (len(recurrence.rules) > 1 or recurrence.until is not None):
        # The count is that of all rules together, and no rule may have both count and end: an end says the same.
        times = fires_of(replace(recurrence, except_dates=()), _EARLY)
        recurrence = replace(recurrence, count=None, until=[recurrence.until, *times][-1])
    for number, (rule, text) in enumerate(zip(recurrence.rules, recurrence.rrules(), strict=True)):
        first = next(iter(rule_from(rule, recurrence.start, recurrence.start)), None)
        if first is None:
            continue
        event = _event(schedule, first.replace(tzinfo=recurrence.zone), number)
        event.add("rrule", vRecur.from_ical(text))
        for day in recurrence.except_dates:
            for naive in _on(day, rule, recurrence.start):
                event.add("exdate", naive.replace(tzinfo=recurrence.zone))
        yield event


def _on(day: date, rule: str, start: datetime) -> list[datetime]:
    """The wall-clock times of a rule on one day."""
    times = rule_from(rule, start, datetime.combine(day, time.min))
    return [naive for naive in takewhile(lambda naive: naive.date() <= day, times) if naive.date() == day]


def _event(schedule: Schedule, start: datetime, number: int) -> Event:
    event = Event()
    event.add("uid", f"{schedule.id}-{number}@metnosd" if number else f"{schedule.id}@metnosd")
    event.add("dtstart", start)
    return event

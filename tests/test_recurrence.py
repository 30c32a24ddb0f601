"""Recurrences on wall-clock time, across clock changes and over long stretches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metnosd.lexicon.recurrence import Recurrence, instant

ZONES = ("Europe/Rome", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kolkata", "America/Sao_Paulo")


@given(
    zone=st.sampled_from(ZONES),
    start=st.datetimes(datetime(2010, 1, 1), datetime(2030, 1, 1)).map(lambda d: d.replace(microsecond=0)),
)
@settings(deadline=None)
def test_daily_fires_once_a_day(zone: str, start: datetime) -> None:
    """A daily rule fires once on each local day that exists, in order, at its time of day or after a gap's shift."""
    where = ZoneInfo(zone)
    fires = list(islice(Recurrence(("FREQ=DAILY",), start, where).after(instant(start, where)), 400))
    assert all(a < b for a, b in pairwise(fires))
    days = [fire.date() for fire in fires]
    assert len(set(days)) == len(days)
    for fire in fires:
        off = datetime.combine(fire.date(), fire.time()) - datetime.combine(fire.date(), start.time())
        assert off in (timedelta(0), timedelta(hours=1), timedelta(minutes=30)) or fire.time() < start.time()


@pytest.mark.parametrize(
    ("zone", "naive", "expected"),
    [
        ("Europe/Rome", datetime(2026, 3, 29, 2, 30), "2026-03-29T03:30:00+02:00"),
        ("Europe/Rome", datetime(2026, 10, 25, 2, 30), "2026-10-25T02:30:00+02:00"),
        ("America/New_York", datetime(2027, 3, 14, 2, 15), "2027-03-14T03:15:00-04:00"),
        ("Australia/Lord_Howe", datetime(2026, 10, 4, 2, 10), "2026-10-04T02:40:00+11:00"),
        ("America/New_York", datetime(2027, 4, 1, 9), "2027-04-01T09:00:00-04:00"),
    ],
)
def test_gap_and_fold(zone: str, naive: datetime, expected: str) -> None:
    """A time in a gap is shifted by the gap (RFC 5545, 3.3.5); one that comes twice is the first."""
    assert instant(naive, ZoneInfo(zone)).isoformat() == expected


def test_interval_keeps_its_wall_clock() -> None:
    """Every two weeks stays at 09:00 on both sides of both clock changes."""
    rome = ZoneInfo("Europe/Rome")
    rule = Recurrence(("FREQ=WEEKLY;INTERVAL=2",), datetime(2026, 10, 20, 9), rome)
    fires = list(islice(rule.after(datetime(2026, 10, 20, 8, tzinfo=rome)), 30))
    assert {fire.hour for fire in fires} == {9}
    assert {fire.utcoffset() for fire in fires} == {timedelta(hours=1), timedelta(hours=2)}
    assert all((b.date() - a.date()).days == 14 for a, b in pairwise(fires))


def test_until_count_and_exceptions() -> None:
    """`UNTIL` is written in UTC and ends the fires, `COUNT` counts from the start, exceptions do not fire."""
    rome = ZoneInfo("Europe/Rome")
    start = datetime(2026, 10, 20, 9)
    until = datetime(2026, 10, 23, 23, 59, 59, tzinfo=rome)
    rule = Recurrence(("FREQ=DAILY",), start, rome, until, None, (datetime(2026, 10, 22).date(),))
    before = datetime(2026, 10, 20, 8, tzinfo=rome)
    assert [fire.day for fire in rule.after(before)] == [20, 21, 23]
    assert rule.rrules() == ["FREQ=DAILY;UNTIL=20261023T215959Z"]
    assert [moment.isoformat() for moment in rule.exdates()] == ["2026-10-22T09:00:00+02:00"]
    counted = Recurrence(("FREQ=DAILY",), start, rome, None, 3)
    assert [fire.day for fire in counted.after(datetime(2026, 10, 21, 12, tzinfo=rome))] == [22]
    assert counted.rrules() == ["FREQ=DAILY;COUNT=3"]


def test_fires_are_told_apart_by_instant() -> None:
    """Two rules that meet at one instant fire it once."""
    rome = ZoneInfo("Europe/Rome")
    rule = Recurrence(("FREQ=DAILY;BYHOUR=9;BYMINUTE=0", "FREQ=WEEKLY;BYDAY=TU"), datetime(2026, 10, 20, 9), rome)
    fires = list(islice(rule.after(datetime(2026, 10, 20, 6, tzinfo=UTC)), 8))
    assert len(set(fires)) == 8 and fires == sorted(fires)

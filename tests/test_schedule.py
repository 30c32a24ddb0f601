"""Schedules: their instants, found fast and right, and the table that keeps them."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise, takewhile
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st
from icalendar import Calendar
from support.scheduling import SINCE, World, make_schedule, reckon

from metnosd.effects import PutRecord
from metnosd.export import to_icalendar
from metnosd.lexicon.recurrence import Recurrence
from metnosd.plan import Plan, Step
from metnosd.records import Records, fingerprint_of
from metnosd.schedule import Schedule, schedule_from_json
from metnosd.sentence import Refusal
from metnosd.store import from_text, to_text

CHANGES = {
    "Europe/Rome": (datetime(2026, 3, 29), datetime(2026, 10, 25)),
    "America/New_York": (datetime(2027, 3, 14), datetime(2026, 11, 1)),
    "Australia/Lord_Howe": (datetime(2026, 10, 4), datetime(2027, 4, 4)),
    "Pacific/Apia": (datetime(2011, 12, 30), datetime(2012, 4, 1)),
    "Asia/Kolkata": (datetime(2026, 6, 1),),
}
"""Zones with days on which their clocks change."""

DAYS_BACK = {"MINUTELY": 3, "HOURLY": 60, "DAILY": 1500, "WEEKLY": 3000, "MONTHLY": 4000, "YEARLY": 8000}
"""How long ago a rule may have started so that the slow reckoning of it is quick enough."""

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


@st.composite
def rules(draw: st.DrawFn, frequency: str) -> str:
    """A rule of RFC 5545 that fires now and then."""
    parts = [f"FREQ={frequency}", f"INTERVAL={draw(st.integers(1, 5))}"]
    days = draw(st.lists(st.sampled_from(WEEKDAYS), min_size=1, max_size=5, unique=True))
    kind = draw(st.sampled_from(("plain", "days", "dates", "hours", "place", "nth")))
    if kind == "days" or (kind == "place" and frequency in ("WEEKLY", "MONTHLY", "YEARLY")):
        parts.append(f"BYDAY={','.join(days)}")
    if kind == "place" and frequency in ("WEEKLY", "MONTHLY", "YEARLY"):
        parts.append(f"BYSETPOS={draw(st.sampled_from((1, -1)))}")
        parts.append(f"WKST={draw(st.sampled_from(('MO', 'SU')))}")
    if kind == "nth" and frequency in ("MONTHLY", "YEARLY"):
        parts.append(f"BYDAY={draw(st.sampled_from((1, 2, 4, -1)))}{days[0]}")
    if kind == "dates" and frequency not in ("WEEKLY", "MINUTELY"):
        parts.append(f"BYMONTHDAY={draw(st.sampled_from((1, 15, 28, 31, -1)))}")
    if kind == "hours" and frequency not in ("MINUTELY", "HOURLY"):
        hours = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True))
        parts.append(f"BYHOUR={','.join(map(str, hours))};BYMINUTE={draw(st.sampled_from((0, 30)))};BYSECOND=0")
    return ";".join(parts)


@st.composite
def recurrences(draw: st.DrawFn) -> tuple[Recurrence, datetime, datetime]:
    """A recurrence and a stretch of time, most often around a change of its clock."""
    zone = draw(st.sampled_from(sorted(CHANGES)))
    frequency = draw(st.sampled_from(sorted(DAYS_BACK)))
    middle = draw(st.sampled_from(CHANGES[zone])) + timedelta(minutes=draw(st.integers(-2000, 2000)))
    start = middle - timedelta(minutes=5 * draw(st.integers(-600, DAYS_BACK[frequency] * 288)))
    texts = tuple(draw(st.lists(rules(frequency), min_size=1, max_size=2, unique=True)))
    where = ZoneInfo(zone)
    low = middle.replace(tzinfo=where).astimezone(UTC)
    span = timedelta(days=2 if frequency == "MINUTELY" else 20 if frequency == "HOURLY" else 400)
    until = draw(st.none() | st.just(low + span / 2))
    count = draw(st.none() | st.integers(1, 300))
    except_dates = draw(st.lists(st.just((middle + timedelta(days=1)).date()), max_size=1))
    found = Recurrence(texts, start, where, until and until.astimezone(where), count, tuple(except_dates))
    return found, low, low + span


@given(recurrences())
@settings(deadline=None, max_examples=400)
def test_fires_are_those_of_the_slow_walk(case: tuple[Recurrence, datetime, datetime]) -> None:
    """Begun anywhere, the fires are all those of a walk from the start, in the order of time, none twice."""
    recurrence, low, high = case
    try:
        schedule = replace(make_schedule(zone=str(recurrence.zone)), recurrence=recurrence)
        expected = reckon(schedule, low, high)
    except ValueError:
        return  # dateutil refuses hours that an interval never meets
    found = []
    for fire in schedule.fires(low):
        if fire.astimezone(UTC) > high:
            break
        found.append(fire)
    assert [fire.astimezone(UTC) for fire in found] == expected
    assert all(a.astimezone(UTC) < b.astimezone(UTC) for a, b in pairwise(found))
    assert {fire.tzinfo for fire in found} <= {recurrence.zone}


@given(recurrences())
@settings(deadline=None)
def test_fires_are_those_of_the_lexicon(case: tuple[Recurrence, datetime, datetime]) -> None:
    """They are the instants that the receipt of the schedule shows."""
    recurrence, low, high = replace(case[0], until=None), *case[1:]
    schedule = replace(make_schedule(zone=str(recurrence.zone)), recurrence=recurrence)
    later = high + timedelta(days=2)
    try:
        shown = {fire.astimezone(UTC) for fire in takewhile(lambda fire: fire < later, recurrence.after(low))}
    except ValueError:
        return  # dateutil refuses hours that an interval never meets
    found = [fire.astimezone(UTC) for fire in takewhile(lambda fire: fire <= high, schedule.fires(low))]
    # The lexicon gives them in the order of the clock, which a gap swaps.
    assert found == sorted(fire for fire in shown if fire <= high)


def test_next_fire_of_an_old_rule_is_quick() -> None:
    """The next fire of a rule that has run every minute for ten years takes no walk through its past."""
    schedule = make_schedule(rules="FREQ=MINUTELY", start=datetime(2016, 1, 1))
    after = datetime(2026, 5, 5, 12, 0, 30, tzinfo=UTC)
    began = time.perf_counter()
    assert next(schedule.fires(after)) == datetime(2026, 5, 5, 12, 1, tzinfo=UTC)
    assert time.perf_counter() - began < 0.5


def local_fires(schedule: Schedule, low: datetime, days: int) -> list[str]:
    """The fires of some days as the schedule's clock shows them."""
    found = schedule.due(low, low + timedelta(days=days), timedelta(days=9999))[0]
    return [fire.astimezone(ZoneInfo(schedule.zone)).strftime("%a %Y-%m-%d %H:%M %z") for fire in found]


@pytest.mark.parametrize("change", [datetime(2026, 10, 25), datetime(2027, 3, 28)])
def test_weekdays_at_nine_over_a_clock_change(change: datetime) -> None:
    """Report 6: every weekday at 9 in Berlin is at 9 local time before and after each change of the clock."""
    rule = "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"
    schedule = make_schedule(rules=rule, start=datetime(2026, 9, 1, 9), zone="Europe/Berlin")
    fires = local_fires(schedule, (change - timedelta(days=7)).replace(tzinfo=UTC), 14)
    assert len(fires) == 10
    assert {fire[15:20] for fire in fires} == {" 09:00"[1:]}
    assert {fire[-5:] for fire in fires} == {"+0100", "+0200"}


def test_date_on_the_other_side_of_a_clock_change() -> None:
    """Report 7: asked for in February, 1 April 9:00 in New York is 9:00 daylight time."""
    schedule = make_schedule(rules=None, start=datetime(2027, 4, 1, 9), zone="America/New_York")
    assert [fire.isoformat() for fire in schedule.fires(datetime(2027, 2, 5, tzinfo=UTC))] == [
        "2027-04-01T09:00:00-04:00"
    ]


def test_last_friday_of_the_month() -> None:
    """Report 11: from 1 September 2026, the last Fridays at 18:00 are 25 September, 30 October and 27 November."""
    schedule = make_schedule(rules="FREQ=MONTHLY;BYDAY=-1FR", start=datetime(2026, 9, 1, 18))
    fires = islice(schedule.fires(datetime(2026, 9, 1, tzinfo=UTC)), 3)
    assert [f"{fire:%m-%d %H:%M}" for fire in fires] == ["09-25 18:00", "10-30 18:00", "11-27 18:00"]


def test_every_other_tuesday() -> None:
    """Report 12: every two weeks from Tuesday 20 October 9:00 is at 9:00 on 20 October, 3 and 17 November."""
    schedule = make_schedule(rules="FREQ=WEEKLY;INTERVAL=2;BYDAY=TU", start=datetime(2026, 10, 20, 9))
    fires = islice(schedule.fires(SINCE), 3)
    assert [f"{fire:%m-%d %H:%M}" for fire in fires] == ["10-20 09:00", "11-03 09:00", "11-17 09:00"]


def test_every_weekday() -> None:
    """Report 13: of the next five fires of every weekday one is a Monday and none is a Saturday."""
    schedule = make_schedule(rules="FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR")
    days = [fire.strftime("%a") for fire in islice(schedule.fires(SINCE), 5)]
    assert "Mon" in days and "Sat" not in days


@pytest.mark.parametrize("change", [datetime(2026, 3, 29), datetime(2026, 10, 25)])
def test_half_past_two_on_the_days_of_the_change(change: datetime) -> None:
    """Report 14: daily at 02:30 fires exactly once on each day on which the clocks change."""
    schedule = make_schedule(start=datetime(2026, 1, 1, 2, 30), since=datetime(2026, 1, 1, tzinfo=UTC))
    fires = local_fires(schedule, (change - timedelta(days=3)).replace(tzinfo=UTC), 6)
    assert [fire[4:14] for fire in fires].count(f"{change:%Y-%m-%d}") == 1
    assert len(fires) == 6


def test_schedule_keeps_its_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The zone of the host changes nothing, and neither does the way through the database."""
    schedule = make_schedule(zone="Australia/Lord_Howe")
    fires = list(islice(schedule.fires(SINCE), 20))
    monkeypatch.setenv("TZ", "Pacific/Apia")
    time.tzset()
    try:
        again = schedule_from_json(json.loads(json.dumps(schedule.to_json())))
        assert list(islice(again.fires(SINCE), 20)) == fires
    finally:
        monkeypatch.undo()
        time.tzset()


def test_due_leaves_out_what_is_older_than_is_kept() -> None:
    """After a long sleep only the instants of the time that is kept are due, and at least the newest."""
    daily, yearly = make_schedule(), make_schedule(rules="FREQ=YEARLY", start=datetime(2020, 1, 1, 9))
    now = datetime(2028, 6, 1, tzinfo=UTC)
    due, upcoming = daily.due(SINCE, now, timedelta(days=90))
    assert len(due) == 90 and upcoming == datetime(2028, 6, 1, 7, tzinfo=UTC)
    assert yearly.due(SINCE, now, timedelta(days=90))[0] == [datetime(2028, 1, 1, 8, tzinfo=UTC)]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
_moments = st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC))


@given(
    case=recurrences(),
    at=st.none() | _moments,
    only_if=st.none() | st.dictionaries(st.text(max_size=5), _json, max_size=3),
    args=st.dictionaries(st.text(max_size=5), _json, max_size=3),
    text=st.text(),
    late=st.sampled_from(("run", "skip")),
    late_s=st.integers(0, 10**6) | st.floats(0, 1e6),
    since=_moments,
    grant=st.none() | st.text(max_size=9),
)
@settings(deadline=None)
def test_json_gives_the_schedule_back(case: Any, at: Any, args: Any, since: datetime, **more: Any) -> None:
    """A schedule survives JSON, and the columns of the database, without any loss."""
    recurrence = case[0]
    schedule = replace(
        make_schedule(zone=str(recurrence.zone)),
        recurrence=None if at else recurrence,
        at=at,
        plan=Plan((Step("find_files", args), Step("final_answer", {"text": "x"}, 0))),
        active_since=since,
        quiet_until=at,
        **more,
    )
    again = schedule_from_json(from_text(to_text(schedule.to_json())) if "$" not in str(args) else schedule.to_json())
    assert again == schedule
    assert again.to_json() == schedule.to_json()
    assert again.digest == schedule.digest


@pytest.mark.parametrize(
    "change",
    [
        {"zone": "Mars/Phobos"},
        {"zone": "../../etc/passwd"},
        {"zone": "Europe"},
        {"zone": None},
        {"state": "asleep"},
        {"kind": "wish"},
        {"late": "never"},
        {"late_s": True},
        {"text": None},
        {"digest": "0" * 64},
        {"plan": {"steps": []}},
        {"plan": {"steps": [{"tool": 1, "args": {}}]}},
        {"plan": None},
        {"recurrence": None},
        {"at": "2026-10-01T09:00:00+00:00"},
        {"active_since": "2026-10-01T09:00:00"},
        {"active_since": "soon"},
        {"created_at": None},
        {"failures": "two"},
        {"only_if": "count > 3"},
        {"colour": "red"},
        {"recurrence": {"rules": []}},
        {"recurrence": {"rules": ["FREQ=DAILY"], "start": "2026-10-01T09:00:00", "until": None, "count": 0}},
    ],
)
def test_what_is_no_schedule_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    """Nonsense in any field raises ValueError when it is read, and is a refusal when it is put, changing nothing."""
    data = make_schedule().to_json()
    data |= change
    with pytest.raises(ValueError):
        schedule_from_json(data)
    world = World(tmp_path, SINCE)
    with pytest.raises(Refusal):
        world.schedules.put("s1", data)
    assert world.schedules.get("s1") is None
    world.store.close()


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "FREQ=",
        "FREQ=NEVER",
        "FREQ=DAILY;COUNT=3",
        "FREQ=DAILY;INTERVAL=0",
        "FREQ=DAILY;X",
        "FREQ=DAILY;BYDAY=XX",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY\nEXRULE:FREQ=DAILY",
        "DTSTART:20260101T000000",
    ],
)
def test_rule_that_cannot_be_is_refused(tmp_path: Path, rule: str) -> None:
    """A rule that is none, has an end of its own, or never fires cannot be put."""
    world = World(tmp_path, SINCE)
    data = make_schedule().to_json()
    data["recurrence"] |= {"rules": [rule]}  # type: ignore[operator]
    with pytest.raises(Refusal) as refusal:
        world.schedules.put("s1", data)
    assert refusal.value.sentence.key == "schedule.unreadable"
    world.store.close()


def test_put_get_and_take_away(tmp_path: Path) -> None:
    """A record is given back as it was put, under its own id only, and gone when it is taken away."""
    world = World(tmp_path, SINCE)
    schedule = make_schedule()
    changes: list[str] = []
    world.schedules.on_change = changes.append
    world.schedules.put("s1", schedule.to_json())
    assert world.schedules.get("s1") == schedule.to_json()
    assert world.schedules.load("s1") == schedule
    assert world.schedules.all_active() == world.schedules.of_user("owner") == [schedule]
    assert world.schedules.of_user("guest") == []
    with pytest.raises(Refusal):
        world.schedules.put("s2", schedule.to_json())
    world.schedules.put("s1", None)
    assert world.schedules.get("s1") is None and world.schedules.active_ids() == []
    assert changes == ["s1", "s1"]
    world.store.close()


def test_what_happens_to_a_schedule_leaves_its_record(tmp_path: Path) -> None:
    """Failures and an end are seen in the schedule but not in the record, which can so be taken back; a pause is."""
    world = World(tmp_path, SINCE)
    records = Records({"schedules": world.schedules})
    effect = PutRecord("schedules", "s1", make_schedule().to_json(), "schedule")
    inverse = records.prepare(effect).inverse
    after = records.perform(effect).after
    world.schedules.count_failure("s1", SINCE)
    loaded = world.schedules.load("s1")
    assert loaded is not None and loaded.failures == 1 and loaded.quiet_until == SINCE + timedelta(minutes=2)
    assert world.schedules.set_state("s1", "done", SINCE)
    assert records.fingerprint(effect) == after == fingerprint_of(world.schedules.get("s1"))
    assert world.schedules.set_state("s1", "paused", SINCE)
    assert records.fingerprint(effect) != after
    assert isinstance(inverse, PutRecord) and inverse.value is None
    world.store.close()


def test_row_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row that something else has spoiled is logged loudly and left out."""
    world = World(tmp_path, SINCE)
    world.put(make_schedule("s1"), make_schedule("s2"), make_schedule("s3"))
    with world.store.transaction() as db:
        db.execute("update schedules set record = '{\"id\": \"s1\"}' where id = 's1'")
        db.execute("update schedules set record = 'nonsense' where id = 's2'")
    assert [schedule.id for schedule in world.schedules.all_active()] == ["s3"]
    assert "schedule_unreadable" in capsys.readouterr().out
    world.now += timedelta(hours=7)
    assert [fire.schedule.id for fire in world.crash()] == ["s3"]
    world.store.close()


def test_finished_ones_are_listed_for_a_while(tmp_path: Path) -> None:
    """Of those that are over, only the ones that ended lately are asked for."""
    world = World(tmp_path, SINCE)
    world.put(make_schedule("s1", None), make_schedule("s2"))
    world.now += timedelta(hours=7)
    world.wake()
    world.finish("s1")
    world.finish("s2")
    assert [s.id for s in world.schedules.of_user("owner", SINCE)] == ["s1", "s2"]
    assert [s.id for s in world.schedules.of_user("owner", world.now + timedelta(days=30))] == ["s2"]
    world.store.close()


def test_excepted_day_does_not_fire() -> None:
    """A day that is excepted has no instant."""
    schedule = make_schedule()
    assert schedule.recurrence is not None
    schedule = replace(schedule, recurrence=replace(schedule.recurrence, except_dates=(date(2026, 10, 2),)))
    assert [fire.day for fire in islice(schedule.fires(SINCE), 3)] == [1, 3, 4]


def instants_in(calendar: str, high: datetime) -> list[datetime]:
    """What another calendar makes of an export, up to `high`."""
    found = set()
    for event in Calendar.from_ical(calendar).walk("VEVENT"):
        start = event.decoded("dtstart")
        rule = event.get("rrule")
        if rule is None:
            found.add(start.astimezone(UTC))
            continue
        excepted = event.get("exdate", [])
        dates = [each.dt for item in (excepted if isinstance(excepted, list) else [excepted]) for each in item.dts]
        for fire in takewhile(lambda fire: fire <= high, rrulestr(rule.to_ical().decode(), dtstart=start)):
            if fire not in dates:
                found.add(fire.replace(fold=0).astimezone(UTC))
    return sorted(found)


@given(recurrences())
@settings(deadline=None, max_examples=60)
def test_export_gives_the_same_instants(case: tuple[Recurrence, datetime, datetime]) -> None:
    """An export is read back by the library, and its rules give the instants of the schedule."""
    recurrence, low, high = case
    if recurrence.rules[0].startswith(("FREQ=MINUTELY", "FREQ=HOURLY")):
        # A reader stops at a clock time that a gap moves past the end, though others before the end are to come.
        recurrence = replace(recurrence, until=None, rules=recurrence.rules[:1])
    if str(recurrence.zone) == "Pacific/Apia" and recurrence.count is not None:
        # Where a count becomes an end: the day that was left out has the instants of the day after it.
        recurrence = replace(recurrence, except_dates=())
    schedule = replace(make_schedule(zone=str(recurrence.zone)), recurrence=recurrence)
    begin = datetime(1980, 1, 1, tzinfo=UTC)
    try:
        expected = reckon(schedule, begin, high)
    except ValueError:
        return  # dateutil refuses hours that an interval never meets
    found = instants_in(to_icalendar([schedule], low), high + timedelta(days=2))
    assert [fire for fire in found if fire <= high] == expected


def test_export_of_several() -> None:
    """Each schedule has its own id, its words as they were said, its zone with it, and its state."""
    text = "send; the, report\nnow — ☂"
    made = [
        replace(make_schedule("s1", zone="Australia/Lord_Howe"), text=text),
        replace(make_schedule("s2", None), state="paused"),
        make_schedule(
            "s3", ("FREQ=DAILY;BYHOUR=8;BYMINUTE=15;BYSECOND=0", "FREQ=DAILY;BYHOUR=20;BYMINUTE=45;BYSECOND=0")
        ),
    ]
    calendar = Calendar.from_ical(to_icalendar(made, SINCE))
    events = calendar.walk("VEVENT")
    assert [str(event["uid"]) for event in events] == [f"{key}@metnosd" for key in ("s1", "s2", "s3", "s3-1")]
    assert str(events[0]["summary"]) == text
    assert [str(event["status"]) for event in events] == ["CONFIRMED", "TENTATIVE", "CONFIRMED", "CONFIRMED"]
    assert {str(zone["tzid"]) for zone in calendar.walk("VTIMEZONE")} == {"Australia/Lord_Howe", "Europe/Rome"}
    assert instants_in(to_icalendar(made[1:2], SINCE), SINCE) == [datetime(2026, 10, 1, 7, tzinfo=UTC)]
    assert instants_in(to_icalendar([], SINCE), SINCE) == []

"""Thirty days of two hundred schedules: crashes, restarts, sleeps and clocks that change, are set and are wrong.

The figures are printed: `pytest -s tests/test_schedule_simulation.py`.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.scheduling import World, make_schedule, reckon

from metnosd.schedule import Schedule

MONTHS = {
    "Europe/Rome": datetime(2026, 10, 10, tzinfo=UTC),
    "America/New_York": datetime(2027, 3, 1, tzinfo=UTC),
    "Australia/Lord_Howe": datetime(2026, 9, 20, tzinfo=UTC),
    "Pacific/Apia": datetime(2011, 12, 10, tzinfo=UTC),
}
"""For each zone the beginning of thirty days in which its clocks change."""

DAYS = timedelta(days=30)
A_ZONE = 50
"""How many schedules there are in each zone."""


def make(number: int, zone: str, begin: datetime, chance: random.Random) -> Schedule:
    """One of fifty: mostly daily ones, many at night when the clocks change; some weekly, monthly, hourly, once."""
    minute = chance.randrange(60)
    day = begin.replace(tzinfo=None)
    start = day.replace(hour=chance.choice((0, 1, 2, 2, 3, 9, 18)), minute=minute) - timedelta(
        days=chance.randrange(90)
    )
    late = chance.choice((("run", 600), ("run", 3600), ("run", 86400), ("skip", 0)))
    rules: str | tuple[str, ...] | None = "FREQ=DAILY"
    if number % 10 == 1:
        rules = "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"
    elif number % 10 == 2:
        rules = ("FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0", "FREQ=DAILY;BYHOUR=3,20;BYMINUTE=0;BYSECOND=0")
    elif number % 10 == 3:
        rules = "FREQ=WEEKLY;INTERVAL=2"
    elif number % 10 == 4:
        rules = chance.choice(("FREQ=MONTHLY;BYDAY=-1FR", "FREQ=MONTHLY;BYMONTHDAY=31", "FREQ=MONTHLY;BYMONTHDAY=-1"))
    elif number % 10 == 5:
        rules, start = None, day + timedelta(minutes=chance.randrange(60 * 24 * 28))
    elif number == 6:
        rules = "FREQ=MINUTELY;INTERVAL=30"
    elif number == 7:
        rules = "FREQ=HOURLY"
    return make_schedule(f"{zone}-{number:02}", rules, start, zone, begin, late=late[0], late_s=late[1])


@dataclass
class Month:
    """Thirty days in one zone, with the rows that there must be by the slow reckoning."""

    world: World
    made: dict[str, Schedule]
    end: datetime
    chance: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    expected: dict[str, set[datetime]] = field(default_factory=dict)
    marks: dict[str, datetime] = field(default_factory=dict)
    latest: datetime = datetime(2000, 1, 1, tzinfo=UTC)

    def account(self, key: str) -> None:
        """What must be entered for an active schedule by now."""
        due = reckon(self.made[key], self.marks[key], self.world.now)
        self.expected[key] |= set(due)
        self.marks[key] = max(self.marks[key], self.world.now)

    def pass_time(self) -> None:
        """To the next instant, or past many of them."""
        self.latest = max(self.latest, self.world.now)
        event = self.chance.random()
        soonest = min(self.world.upcoming.values(), default=self.world.now + timedelta(hours=1))
        if event < 0.004:
            self.world.now += timedelta(minutes=self.chance.randrange(1, 1000))
            self.counts["sleeps"] += 1
        elif event < 0.008:
            self.world.now += timedelta(minutes=self.chance.randrange(1, 180))
            self.counts["clock set forward"] += 1
        elif event < 0.012:
            self.world.now -= timedelta(minutes=self.chance.randrange(1, 180))
            self.counts["clock set back"] += 1
        else:
            self.world.now = max(self.world.now, soonest) + timedelta(seconds=self.chance.choice((0, 0, 1, 3)))

    def disturb(self) -> None:
        """Now and then a crash, a restart, a pause, or a schedule that is run by hand."""
        event = self.chance.random()
        if event > 0.11:
            return
        key = self.chance.choice(sorted(self.made))
        schedule = self.world.schedules.load(key)
        assert schedule is not None
        if event < 0.01:
            self.world.crash()
            self.counts["crashes"] += 1
        elif event < 0.015:
            self.world.finish_all()
            self.world.crash()
            self.counts["restarts"] += 1
        elif event < 0.03 and schedule.state == "active":
            self.account(key)
            self.world.set_state(key, "paused")
            self.counts["pauses"] += 1
        elif event < 0.1 and schedule.state == "paused":
            self.marks[key] = max(self.marks[key], self.world.now)
            self.world.set_state(key, "active")
        elif event < 0.11:
            self.counts["by hand"] += self.world.run_now(key)

    def finish_some(self) -> None:
        """Most fires end before the next instant; a few fail."""
        with self.world.store.transaction():
            for key in list(self.world.running):
                if self.chance.random() < 0.9 and key in self.world.running:
                    failed = self.chance.random() < (0.7 if key.endswith(("16", "46")) else 0.03)
                    if self.world.finish(key, "failed" if failed else "done"):
                        self.account(key)
                        self.counts["paused after failures"] += 1

    def live(self) -> None:
        """Live through the month, and account for its end."""
        while self.world.now < self.end:
            self.pass_time()
            self.world.wake()
            self.disturb()
            self.finish_some()
        self.world.now = max(self.world.now, self.latest)
        self.world.wake()
        for schedule in self.world.schedules.of_user("owner"):
            if schedule.state != "paused":
                self.account(schedule.id)


@pytest.mark.parametrize("zone", MONTHS)
def test_thirty_days(zone: str, tmp_path: Path) -> None:
    """Every instant of an active schedule has exactly one row, no effect is begun twice, all that is missed is told."""
    began = time.perf_counter()
    chance, begin = random.Random(zone), MONTHS[zone]
    made = {s.id: s for s in (make(number, zone, begin, chance) for number in range(A_ZONE))}
    world = World(tmp_path, begin)
    month = Month(world, made, begin + DAYS, chance)
    month.expected = {key: set() for key in made}
    month.marks = dict.fromkeys(made, begin)
    world.put(*made.values())
    world.start()
    month.live()
    states: Counter[str] = Counter()
    for key in made:
        rows = world.rows(key)
        assert set(rows) == month.expected[key], key
        states.update(rows.values())
    begun = Counter(world.effects)
    assert set(begun.values()) == {1}
    told = Counter((key, due) for key, state, each in world.told if state == "missed" for due in each)
    assert sum(told.values()) == states["missed"] and set(told.values()) <= {1}
    assert states["due"] == 0 or world.running
    world.store.close()
    spent = time.perf_counter() - began
    print(f"\n{zone}: {A_ZONE} schedules, {states.total()} instants, a row each: {dict(states)}")
    print(f"  {len(begun)} effects, none twice; {dict(month.counts)}; {spent:.1f} s")

"""Schedules for tests, a slow and simple reckoning of their instants, and a world in which they come due by hand."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from dateutil.rrule import rrulestr

from metnosd.ledger import KEEP, Ledger
from metnosd.lexicon.recurrence import Recurrence
from metnosd.plan import Plan, Step
from metnosd.rounds import Fire, FireResult, Rounds
from metnosd.schedule import Schedule, Schedules
from metnosd.store import Store

ROME = "Europe/Rome"
SINCE = datetime(2026, 10, 1, tzinfo=UTC)


def make_schedule(
    key: str = "s1",
    rules: str | tuple[str, ...] | None = "FREQ=DAILY",
    start: datetime = datetime(2026, 10, 1, 9),
    zone: str = ROME,
    since: datetime = SINCE,
    **more: Any,
) -> Schedule:
    """A schedule; with `rules` None it has one instant, `start` on the wall clock of `zone`."""
    if rules is None:
        more["at"] = start.replace(tzinfo=ZoneInfo(zone))
    else:
        more["recurrence"] = Recurrence((rules,) if isinstance(rules, str) else rules, start, ZoneInfo(zone))
    return Schedule(
        id=key,
        user="owner",
        channel="test",
        conversation="main",
        turn="t1",
        text=f"send me the report {key}",
        lang="en",
        zone=zone,
        plan=Plan((Step("final_answer", {"text": f"The report {key}"}),)),
        kind="plan",
        created_at=since,
        active_since=since,
        **more,
    )


def reckon(schedule: Schedule, low: datetime, high: datetime) -> list[datetime]:
    """All due instants after `low` up to `high`, by walking from the very start, in UTC and in order."""
    if schedule.recurrence is None:
        assert schedule.at is not None
        at = schedule.at.astimezone(UTC)
        return [at] if low < at <= high else []
    rule = schedule.recurrence
    end = high.astimezone(rule.zone).replace(tzinfo=None) + timedelta(days=2)
    seen: set[datetime] = set()
    found = set()
    for naive in heapq.merge(*(iter(rrulestr(text, dtstart=rule.start)) for text in rule.rules)):
        if naive > end or naive.year > rule.start.year + 30:
            break
        seen.add(naive)
        if rule.count is not None and len(seen) > rule.count:
            break
        if naive.date() not in rule.except_dates:
            found.add(naive.replace(tzinfo=rule.zone, fold=0).astimezone(UTC))
    until = high if rule.until is None else min(high, rule.until)
    return sorted(fire for fire in found if low < fire <= until)


class _QuickStore(Store):
    """A database that does not wait for the disk: here daemons die, but no machine does."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self._db.execute("pragma synchronous = off")


class World:
    """A database, a clock that is put by hand, and fires that go on until they are ended by hand.

    `effects` are all fires that were begun, in order; `told` what the user was told, call by call.
    """

    def __init__(
        self,
        folder: Path,
        now: datetime,
        *,
        may_repeat: Callable[[Schedule], bool] = lambda _: False,
        keep: timedelta = KEEP,
    ) -> None:
        self.file = folder / "metnosd.db"
        self.now = now
        self.may_repeat = may_repeat
        self.keep = keep
        self.effects: list[tuple[str, datetime]] = []
        self.told: list[tuple[str, str, list[datetime]]] = []
        self.running: dict[str, Fire] = {}
        self.upcoming: dict[str, datetime] = {}
        self.open()

    def open(self) -> None:
        """Open the database."""
        self.store = _QuickStore(self.file)
        self.ledger = Ledger(self.store, self.keep)
        self.schedules = Schedules(self.store, ledger=self.ledger, clock=lambda: self.now)
        self.rounds = Rounds(self.schedules, self.ledger)

    def put(self, *schedules: Schedule) -> None:
        """Make or change schedules."""
        for schedule in schedules:
            self.schedules.put(schedule.id, schedule.to_json())
        self.wake(*(schedule.id for schedule in schedules))

    def start(self) -> list[Fire]:
        """What a daemon does at its start; the fires that it begins."""
        self.rounds.open(self.now, self.may_repeat)
        return self._examine(self.schedules.active_ids(), at_start=True)

    def crash(self) -> list[Fire]:
        """The daemon ends at once, with what ran left as it was, and a new one starts."""
        self.store.close()
        self.running.clear()
        self.upcoming.clear()
        self.open()
        return self.start()

    def wake(self, *keys: str) -> list[Fire]:
        """Examine `keys` and what is due by the clock; the fires that it begins."""
        return self._examine({*keys, *(key for key, due in self.upcoming.items() if due <= self.now)})

    def _examine(self, keys: Iterable[str], at_start: bool = False) -> list[Fire]:
        found = self.rounds.examine(sorted(keys), self.now, set(self.running), at_start=at_start)
        for key, upcoming in found.upcoming.items():
            self.upcoming.pop(key, None)
            if upcoming is not None:
                self.upcoming[key] = upcoming[0]
        begun = [fire for each in found.queue if (fire := self.rounds.begin(each, self.now)) is not None]
        fires = [*found.fires, *begun]
        for fire in fires:
            assert fire.schedule.id not in self.running
            self.effects.append((fire.schedule.id, fire.due))
            self.running[fire.schedule.id] = fire
        self._tell()
        return fires

    def _tell(self) -> None:
        groups: dict[tuple[str, str], list[datetime]] = {}
        untold = self.ledger.untold()
        for run in untold:
            groups.setdefault((run.schedule, run.state), []).append(run.due)
        self.told += [(key, state, due) for (key, state), due in groups.items()]
        self.ledger.set_told(untold)

    def run_now(self, key: str) -> bool:
        """Fire outside the rule."""
        fire = None if key in self.running else self.rounds.begin_by_hand(key, self.now)
        if fire is not None:
            self.running[key] = fire
        return fire is not None

    def finish(self, key: str, state: str = "done") -> bool:
        """End a fire; whether its schedule was paused by it."""
        finished = self.rounds.finish(self.running.pop(key), FireResult(state), self.now)
        if finished.again:
            self.wake(key)
        return finished.paused

    def finish_all(self) -> None:
        """End what runs, and what begins after it."""
        while self.running:
            for key in list(self.running):
                self.finish(key)

    def set_state(self, key: str, state: str) -> None:
        """Pause or resume."""
        self.schedules.set_state(key, state, self.now)
        self.wake(key)

    def rows(self, key: str) -> dict[datetime, str]:
        """The rows of the rule of a schedule: the state of each instant."""
        runs = [run for run in self.ledger.runs_of(key, 1_000_000) if not run.by_hand]
        assert len({run.due for run in runs}) == len(runs)
        return {run.due: run.state for run in reversed(runs)}

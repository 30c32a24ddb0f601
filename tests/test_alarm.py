"""The alarm: schedules are woken, carried out and told of, by the real scheduler and a clock put by hand."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.scheduling import SINCE, make_schedule

from metnosd.alarm import Alarm, AlarmSettings, FiresTrigger
from metnosd.ledger import Ledger
from metnosd.lexicon.recurrence import Recurrence
from metnosd.rounds import Fire, FireResult
from metnosd.schedule import Schedule, Schedules
from metnosd.store import Store

NINE = datetime(2026, 10, 1, 7, tzinfo=UTC)
"""09:00 in Rome on the first day."""

QUICK = AlarmSettings(tick_s=0.05, stagger_s=0.03, close_s=5.0)
IN_TIME = 20.0
"""Seconds after which a test has waited too long."""


class Bench:
    """An alarm over a real database, what it fired and what it told; fires wait while `hold` is not set."""

    def __init__(self, folder: Path, clock: Callable[[], datetime], settings: AlarmSettings, **more: Any) -> None:
        self.store = Store(folder / "metnosd.db")
        self.ledger = Ledger(self.store)
        self.schedules = Schedules(self.store, ledger=self.ledger, clock=clock)
        self.clock = clock
        self.fired: list[Fire] = []
        self.begun_at: list[float] = []
        self.missed: list[tuple[str, list[datetime]]] = []
        self.unknown: list[tuple[str, list[datetime]]] = []
        self.paused: list[str] = []
        self.open = asyncio.Event()
        self.open.set()
        self.result: Callable[[Fire], FireResult] = lambda _: FireResult("done")
        self._heard = asyncio.Condition()
        self.alarm = Alarm(
            self.schedules,
            self.ledger,
            clock=clock,
            fire=self._fire,
            tell_missed=self._teller(self.missed),
            tell_unknown=self._teller(self.unknown),
            tell_paused=self._tell_paused,
            settings=settings,
            **more,
        )

    async def _fire(self, fire: Fire) -> FireResult:
        self.fired.append(fire)
        self.begun_at.append(asyncio.get_running_loop().time())
        await self._hear()
        await self.open.wait()
        return self.result(fire)

    def _teller(self, calls: list[tuple[str, list[datetime]]]) -> Callable[..., Awaitable[None]]:
        async def tell(schedule: Schedule, instants: Sequence[datetime]) -> None:
            calls.append((schedule.id, list(instants)))
            await self._hear()

        return tell

    async def _tell_paused(self, schedule: Schedule) -> None:
        self.paused.append(schedule.id)
        await self._hear()

    async def _hear(self) -> None:
        async with self._heard:
            self._heard.notify_all()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something that was fired or told makes `holds` true."""
        async with asyncio.timeout(IN_TIME), self._heard:
            await self._heard.wait_for(holds)

    def put(self, *schedules: Schedule) -> None:
        """Make or change schedules."""
        for schedule in schedules:
            self.schedules.put(schedule.id, schedule.to_json())

    def states(self, key: str) -> list[str]:
        """The states of the rows, oldest first."""
        return [run.state for run in reversed(self.ledger.runs_of(key, 999))]

    @property
    def keys(self) -> list[str]:
        """The schedules that were fired, in order."""
        return [fire.schedule.id for fire in self.fired]


class Clock:
    """A clock that stands."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


def real_clock() -> datetime:
    """The time."""
    return datetime.now(UTC)


@asynccontextmanager
async def bench(
    folder: Path,
    *schedules: Schedule,
    clock: Callable[[], datetime] | None = None,
    settings: AlarmSettings = QUICK,
    start: bool = True,
    **more: Any,
) -> AsyncIterator[Bench]:
    """An alarm that was started over `schedules`, for a block."""
    made = Bench(folder, clock or Clock(SINCE), settings, **more)
    made.put(*schedules)
    if start:
        await made.alarm.start()
    try:
        yield made
    finally:
        made.open.set()
        await made.alarm.close()
        made.store.close()


def soon(key: str, seconds: float, **more: Any) -> Schedule:
    """A one shot that is due so many seconds from now by the real clock."""
    now = real_clock()
    local = (now + timedelta(seconds=seconds)).replace(tzinfo=None)
    return make_schedule(key, None, local, "UTC", now, **more)


async def test_real_scheduler_wakes_in_time(tmp_path: Path) -> None:
    """With the real clock and library, a one shot made before the start and one made after it fire when due."""
    slow = AlarmSettings(tick_s=60)
    async with bench(tmp_path, soon("before", 0.5), clock=real_clock, settings=slow) as made:
        await asyncio.to_thread(made.put, soon("after", 0.4))
        await made.until(lambda: len(made.fired) == 2)
        await made.alarm.idle()
        assert sorted(made.keys) == ["after", "before"]
        assert all(0 <= fire.late_s < 5 for fire in made.fired)
        assert made.states("before") == made.states("after") == ["done"]
        assert {schedule.state for schedule in made.schedules.of_user("owner")} == {"done"}


async def test_real_scheduler_repeats(tmp_path: Path) -> None:
    """A rule fires again and again, each instant once."""
    now = real_clock().replace(microsecond=0)
    rule = make_schedule("s1", "FREQ=SECONDLY", now.replace(tzinfo=None), "UTC", now)
    async with bench(tmp_path, rule, clock=real_clock, settings=AlarmSettings(tick_s=60)) as made:
        await made.until(lambda: len(made.fired) == 3)
        dues = [fire.due for fire in made.fired]
        assert dues == [dues[0] + timedelta(seconds=number) for number in range(3)]


async def test_tick_finds_what_the_library_lost(tmp_path: Path) -> None:
    """A wake-up that never comes, as after a suspend, is made up for by the tick."""
    clock = Clock(SINCE)
    async with bench(tmp_path, make_schedule(), clock=clock) as made:
        made.alarm._scheduler.remove_all_jobs()
        clock.now = NINE + timedelta(seconds=5)
        await made.until(lambda: made.keys == ["s1"])
        assert made.fired[0].due == NINE


async def test_change_takes_hold_at_once(tmp_path: Path) -> None:
    """What is changed or taken away from any thread is not fired at its old time."""
    async with bench(tmp_path, soon("s1", 0.6), soon("s2", 0.6), clock=real_clock) as made:
        await asyncio.to_thread(made.put, soon("s1", 0.2))
        await asyncio.to_thread(made.schedules.put, "s2", None)
        await made.until(lambda: made.keys == ["s1"])
        await made.alarm.idle()
        await made.alarm.wake("s2")
        assert made.alarm.next_due("s2") is None and made.alarm.next_due("s1") is None
        assert made.states("s1") == ["done"] and made.states("s2") == []


async def test_hundred_at_once_are_all_fired(tmp_path: Path) -> None:
    """A hundred schedules that are due at one instant all fire, once each, without waiting for each other."""
    clock = Clock(SINCE)
    async with bench(tmp_path, *(make_schedule(f"s{n}") for n in range(100)), clock=clock) as made:
        made.open.clear()
        clock.now = NINE
        await made.alarm.wake()
        await made.until(lambda: len(made.fired) == 100)
        made.open.set()
        await made.alarm.idle()
        assert len(set(made.keys)) == 100
        assert all(made.states(f"s{n}") == ["done"] for n in range(100))


async def test_thirteen_overdue_are_staggered(tmp_path: Path) -> None:
    """What is overdue at the start is fired one after the other, by instant and then id, each once."""
    clock = Clock(SINCE)
    many = [make_schedule(f"s{n:02}", None, datetime(2026, 10, 1, 8 + n % 2)) for n in range(13)]
    async with bench(tmp_path, *many, clock=clock, start=False) as made:
        clock.now = NINE
        await made.alarm.start()
        await made.until(lambda: len(made.fired) == 13)
        await made.alarm.idle()
        assert made.keys == [f"s{n:02}" for n in (0, 2, 4, 6, 8, 10, 12, 1, 3, 5, 7, 9, 11)]
        gaps = [b - a for a, b in zip(made.begun_at, made.begun_at[1:], strict=False)]
        assert made.begun_at[-1] - made.begun_at[0] > 0.9 * 12 * QUICK.stagger_s, gaps
        assert made.missed == []


async def test_missed_is_told_once_a_schedule(tmp_path: Path) -> None:
    """After a sleep of days there is one message for each schedule, and the newest instant is caught up."""
    clock = Clock(SINCE)
    async with bench(tmp_path, make_schedule("s1"), make_schedule("s2", late_s=0), clock=clock) as made:
        clock.now = NINE + timedelta(days=2, minutes=20)
        await made.alarm.wake()
        await made.until(lambda: made.keys == ["s1"])
        days = [NINE, NINE + timedelta(days=1), NINE + timedelta(days=2)]
        assert sorted(made.missed) == [("s1", days[:2]), ("s2", days)]
        assert list(made.fired[0].missed) == days[:2]
        await made.alarm.wake()
        assert len(made.missed) == 2


async def test_telling_is_tried_again(tmp_path: Path) -> None:
    """What could not be told is told later, also by the next daemon, and stands in nobody's way."""
    clock = Clock(SINCE)
    schedules = [make_schedule("s1", late_s=0), make_schedule("s2", late_s=0)]
    async with bench(tmp_path, *schedules, clock=clock, settings=AlarmSettings(tick_s=60)) as made:
        told = made.alarm._tell["missed"]

        async def fail(schedule: Schedule, instants: Sequence[datetime]) -> None:
            if schedule.id == "s1":
                raise ConnectionError
            await told(schedule, instants)

        made.alarm._tell["missed"] = fail
        clock.now = NINE + timedelta(hours=1)
        await made.alarm.wake()
        assert made.missed == [("s2", [NINE])]
    async with bench(tmp_path, clock=clock) as made:
        await made.until(lambda: made.missed == [("s1", [NINE])])


async def test_fires_of_one_schedule_never_overlap(tmp_path: Path) -> None:
    """What comes due while a fire runs waits for its end; one asked for by hand is refused meanwhile."""
    clock = Clock(NINE)
    async with bench(tmp_path, make_schedule("s1", "FREQ=MINUTELY", since=NINE), clock=clock) as made:
        made.open.clear()
        for _ in range(3):
            clock.now += timedelta(minutes=1)
            await made.alarm.wake()
        assert made.alarm.is_running("s1") and not await made.alarm.run_now("s1")
        assert made.states("s1") == ["claimed", "due", "due"] and len(made.fired) == 1
        made.open.set()
        await made.alarm.idle()
        assert made.states("s1") == ["done", "missed", "done"]
        assert made.missed == [("s1", [NINE + timedelta(minutes=2)])]


async def test_run_now(tmp_path: Path) -> None:
    """A schedule is run by hand once, also a paused one, beside its rule; one that is not there is not."""
    async with bench(tmp_path, make_schedule()) as made:
        assert await made.alarm.pause("s1")
        assert await made.alarm.run_now("s1")
        await made.alarm.idle()
        assert made.fired[0].by_hand and made.states("s1") == ["done"]
        assert not await made.alarm.run_now("s9")


async def test_pause_and_resume(tmp_path: Path) -> None:
    """A paused schedule has no instants; resumed it has those from then on."""
    clock = Clock(SINCE)
    async with bench(tmp_path, make_schedule(), clock=clock) as made:
        assert await made.alarm.pause("s1") and not await made.alarm.pause("s1")
        assert made.alarm.next_due("s1") is None
        clock.now = NINE + timedelta(days=1, minutes=1)
        await made.alarm.wake()
        assert await made.alarm.resume("s1") and not await made.alarm.resume("s9")
        assert made.alarm.next_due("s1") == NINE + timedelta(days=2)
        assert made.states("s1") == [] and made.missed == []


async def test_pause_reaches_what_is_queued(tmp_path: Path) -> None:
    """An overdue fire whose turn has not come is not run any more once its schedule is paused."""
    clock = Clock(SINCE)
    settings = AlarmSettings(tick_s=60, stagger_s=0.4)
    async with bench(tmp_path, make_schedule("s1"), make_schedule("s2"), clock=clock, settings=settings) as made:
        clock.now = NINE + timedelta(minutes=5)
        await made.alarm.wake()
        assert await made.alarm.pause("s2")
        await made.alarm.idle()
        assert made.keys == ["s1"] and made.states("s2") == ["skipped"]


async def test_fault_of_one_fire_does_not_stop_the_others(tmp_path: Path) -> None:
    """A fire that raises has failed; the others are done; after the third failure it is paused and told."""
    clock = Clock(SINCE)
    async with bench(tmp_path, make_schedule("bad"), make_schedule("good"), clock=clock) as made:

        def result(fire: Fire) -> FireResult:
            if fire.schedule.id == "bad":
                raise RuntimeError("boom")
            return FireResult("done")

        made.result = result
        for day in range(4):
            clock.now = NINE + timedelta(days=day)
            await made.alarm.wake()
            await made.alarm.idle()
        assert made.states("bad") == ["failed"] * 3 and made.states("good") == ["done"] * 4
        assert made.paused == ["bad"]
        assert made.ledger.runs_of("bad", 1)[0].note == "RuntimeError"


async def test_close_waits_for_the_present_fire(tmp_path: Path) -> None:
    """A stop waits for what runs, and begins nothing more."""
    clock = Clock(SINCE)
    async with bench(tmp_path, make_schedule(), clock=clock) as made:
        made.open.clear()
        clock.now = NINE
        await made.alarm.wake()
        await made.until(lambda: len(made.fired) == 1)
        closing = asyncio.create_task(made.alarm.close())
        await asyncio.sleep(0)
        assert not closing.done() and not await made.alarm.run_now("s1")
        made.open.set()
        await closing
        assert made.states("s1") == ["done"]


async def test_close_leaves_claimed_what_does_not_end(tmp_path: Path) -> None:
    """What does not end in time is cancelled and stays claimed; the next daemon tells it as unknown."""
    clock = Clock(SINCE)
    settings = AlarmSettings(tick_s=60, close_s=0.05)
    async with bench(tmp_path, make_schedule(), clock=clock, settings=settings) as made:
        made.open.clear()
        clock.now = NINE
        await made.alarm.wake()
        await made.until(lambda: len(made.fired) == 1)
        await made.alarm.close()
        assert made.states("s1") == ["claimed"]
    async with bench(tmp_path, clock=clock) as made:
        await made.until(lambda: made.unknown == [("s1", [NINE])])
        assert made.fired == [] and made.states("s1") == ["unknown"]


async def test_what_has_no_effect_is_repeated(tmp_path: Path) -> None:
    """A run without an end whose plan has no effect is run again at the start, if it is not too late."""
    clock = Clock(SINCE)
    async with bench(tmp_path, make_schedule(), clock=clock, start=False) as made:
        made.ledger.enter("s1", [NINE])
        made.ledger.claim("s1", NINE, NINE)
    clock.now = NINE + timedelta(minutes=1)
    async with bench(tmp_path, clock=clock, may_repeat=lambda _: True) as made:
        await made.until(lambda: made.keys == ["s1"])
        await made.alarm.idle()
        assert made.unknown == [] and made.states("s1") == ["done"]


async def test_database_that_fails_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round that cannot be written is tried again by the tick."""
    clock = Clock(SINCE)
    async with bench(tmp_path, make_schedule(), clock=clock) as made:
        examine, tries = made.alarm._rounds.examine, 0

        def fail_twice(*args: Any, **kwargs: Any) -> Any:
            nonlocal tries
            tries += 1
            if tries < 3:
                raise OSError("disk full")
            return examine(*args, **kwargs)

        monkeypatch.setattr(made.alarm._rounds, "examine", fail_twice)
        clock.now = NINE + timedelta(seconds=1)
        await made.until(lambda: made.keys == ["s1"])


def test_trigger_looks_only_ahead() -> None:
    """However long ago the last fire was, the next one is to come; a one shot has none."""
    rule = Recurrence(("FREQ=MINUTELY",), datetime(2026, 1, 1), UTC)
    trigger = FiresTrigger(rule)
    assert trigger.get_next_fire_time(SINCE, NINE) == NINE + timedelta(minutes=1)
    assert trigger.get_next_fire_time(NINE + timedelta(days=1), NINE) == NINE + timedelta(days=1, minutes=1)
    assert trigger.get_next_fire_time(None, NINE) == NINE + timedelta(minutes=1)
    assert FiresTrigger(None).get_next_fire_time(None, NINE) is None


_DIES = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from metnosd.alarm import Alarm
from metnosd.ledger import Ledger
from metnosd.schedule import Schedules
from metnosd.store import Store
from test_alarm import NINE, Clock

async def tell(*_):
    pass

async def fire(fire):
    with open(sys.argv[1] + "/effect", "a") as file:
        file.write("x")
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    store = Store(Path(sys.argv[1]) / "metnosd.db")
    ledger = Ledger(store)
    clock = Clock(NINE)
    schedules = Schedules(store, ledger=ledger, clock=clock)
    alarm = Alarm(schedules, ledger, clock=clock, fire=fire, tell_missed=tell, tell_unknown=tell, tell_paused=tell)
    await alarm.start()
    await asyncio.sleep(30)

asyncio.run(main())
"""


async def test_killed_in_a_fire(tmp_path: Path) -> None:
    """After a kill -9 right behind an effect there is one effect: the next daemon tells of it and repeats nothing."""
    async with bench(tmp_path, make_schedule(), start=False):
        pass
    command = [sys.executable, "-c", _DIES, str(tmp_path), str(Path(__file__).parent)]
    done = await asyncio.to_thread(subprocess.run, command, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    async with bench(tmp_path, clock=Clock(NINE + timedelta(minutes=1))) as made:
        await made.until(lambda: made.unknown == [("s1", [NINE])])
        await made.alarm.wake("s1")
        assert made.fired == [] and (tmp_path / "effect").read_text() == "x"

"""How long the alarm takes to start with many schedules, how late it fires a hundred at once, and what it takes up.

    python tests/benchmarks/schedules.py [SCHEDULES]

Prints seconds and megabytes. Lateness is that of the first line of the code that carries a schedule out.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import psutil

from metnosd.alarm import Alarm
from metnosd.ledger import Ledger
from metnosd.lexicon.recurrence import Recurrence
from metnosd.plan import Plan, Step
from metnosd.rounds import Fire, FireResult
from metnosd.schedule import Schedule, Schedules
from metnosd.store import Store

TOGETHER = 100
"""How many are due at the same second."""

ZONES = ("Europe/Rome", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC")
RULES = (
    "FREQ=DAILY",
    "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU",
    "FREQ=MONTHLY;BYDAY=-1FR",
    "FREQ=MONTHLY;BYMONTHDAY=1",
    "FREQ=HOURLY",
    "FREQ=MINUTELY;INTERVAL=15",
    "FREQ=YEARLY",
)


def clock() -> datetime:
    """The time."""
    return datetime.now(UTC)


def make(number: int, now: datetime, chance: random.Random) -> Schedule:
    """A schedule that has run for up to three years, and is not due in the next minutes."""
    zone = chance.choice(ZONES)
    start = now.astimezone(ZoneInfo(zone)).replace(tzinfo=None, second=0, microsecond=0)
    start += timedelta(minutes=chance.randrange(8, 14)) - timedelta(days=7 * chance.randrange(150))
    args = {"text": f"Water the plants on balcony number {number}"}
    return Schedule(
        id=f"s{number:05}",
        user="owner",
        channel="socket",
        conversation="main",
        turn=f"t{number}",
        text=f"every now and then remind me to water the plants on balcony number {number}",
        lang="en",
        zone=zone,
        recurrence=Recurrence((chance.choice(RULES),), start, ZoneInfo(zone)),
        plan=Plan((Step("final_answer", args),)),
        kind="reminder",
        created_at=now,
        active_since=now,
    )


async def measure(store: Store, count: int) -> None:
    """Fill the tables, start, let a hundred come due, and print what it took."""
    now, chance = clock(), random.Random(1)
    ledger = Ledger(store)
    schedules = Schedules(store, ledger=ledger, clock=clock)
    made = [make(number, now, chance) for number in range(count)]
    soon = (now + timedelta(seconds=5 + count / 1000)).replace(microsecond=0)
    with store.transaction():
        for number, schedule in enumerate(made):
            due = replace(schedule, recurrence=None, at=soon) if number < TOGETHER else schedule
            schedules.put(due.id, due.to_json())
    del made
    late: list[float] = []
    all_fired = asyncio.Event()

    async def fire(fired: Fire) -> FireResult:
        late.append((clock() - fired.due).total_seconds())
        if len(late) == TOGETHER:
            all_fired.set()
        return FireResult("done")

    async def tell(*_: object) -> None:
        return None

    process = psutil.Process()
    before = process.memory_info().rss
    alarm = Alarm(schedules, ledger, clock=clock, fire=fire, tell_missed=tell, tell_unknown=tell, tell_paused=tell)
    began = time.perf_counter()
    await alarm.start()
    print(f"start with {count} schedules: {time.perf_counter() - began:.2f} s")
    print(f"memory of the alarm: {(process.memory_info().rss - before) / 1e6:.1f} MB")
    print(f"({(soon - clock()).total_seconds():.1f} s to go)")
    async with asyncio.timeout(120):
        await all_fired.wait()
        await alarm.idle()
    print(f"{TOGETHER} due at the same second: all ended {(clock() - soon).total_seconds():.3f} s after it")
    cuts = statistics.quantiles(late, n=100, method="inclusive")
    print(f"lateness: median {1000 * cuts[49]:.0f} ms, p99 {1000 * cuts[98]:.0f} ms, most {1000 * max(late):.0f} ms")
    began = time.perf_counter()
    await alarm.wake()
    print(f"a look at all of them when nothing is due: {1000 * (time.perf_counter() - began):.1f} ms")
    await alarm.close()


def main(count: int) -> None:
    """Measure with `count` schedules in a database of their own."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "metnosd.db")
        try:
            asyncio.run(measure(store, count))
        finally:
            store.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)

"""The alarm: wakes schedules when they are due, through APScheduler, and carries them out by the ledger.

The library only says when to look; what is due, and what becomes of it, is in our tables. So a wake-up that it
loses, or that comes too late after a suspend or a change of the clock, costs no instant: a tick looks again.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger

from metnosd.fires import fires_of
from metnosd.ledger import Ledger, Run
from metnosd.lexicon.recurrence import Recurrence
from metnosd.rounds import Fire, FireResult, Round, Rounds, Upcoming
from metnosd.schedule import Schedule, Schedules

log = structlog.get_logger(__name__)

CHUNK = 500
"""How many schedules are examined in one transaction at the start."""

JUMP_S = 1.0
"""A clock that went so many seconds more or less than time did was set, or the machine was asleep."""

Tell = Callable[[Schedule, Sequence[datetime]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class AlarmSettings:
    """Spans in seconds: between two looks at all schedules, between two overdue fires, and of the wait at the end."""

    tick_s: float = 30.0
    stagger_s: float = 2.0
    close_s: float = 10.0
    prune_s: float = 86400.0


class FiresTrigger(BaseTrigger):  # type: ignore[misc]  # the library has no types
    """The next fire of a rule that is still to come; what has passed is the ledger's to account for."""

    def __init__(self, recurrence: Recurrence | None) -> None:
        """None is a one shot, whose only fire is the job's first."""
        self._recurrence = recurrence
        self._known: tuple[datetime, datetime | None] | None = None

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        """The first fire after `now` and after the one before."""
        if self._recurrence is None:
            return None
        after = max(now.astimezone(UTC), (previous_fire_time or now).astimezone(UTC))
        if self._known is None or self._known[0] != after:
            self._known = (after, next(fires_of(self._recurrence, after), None))
        return self._known[1]


class Alarm:
    """Fires the active schedules. Its methods are called in the event loop, except where they say otherwise."""

    def __init__(
        self,
        schedules: Schedules,
        ledger: Ledger,
        *,
        clock: Callable[[], datetime],
        fire: Callable[[Fire], Awaitable[FireResult]],
        tell_missed: Tell,
        tell_unknown: Tell,
        tell_paused: Callable[[Schedule], Awaitable[None]],
        may_repeat: Callable[[Schedule], bool] = lambda _schedule: False,
        waits: Callable[[Schedule, datetime], bool] = lambda _schedule, _due: False,
        settings: AlarmSettings | None = None,
    ) -> None:
        """`fire` carries out a schedule once; fires of one schedule never overlap, those of several do.

        `tell_missed` and `tell_unknown` get a schedule with all its instants (UTC, in order) that nobody was told
        of; they are called again where they raise or the daemon ends before they return. `tell_paused` gets one
        that failed too often. `may_repeat` is asked in a thread, at the start, whether a run that has no end may
        be run again, and `waits` whether it only waits for an answer: then `fire` gets it once more.
        """
        self._schedules = schedules
        self._ledger = ledger
        self._rounds = Rounds(schedules, ledger)
        self._clock = clock
        self._fire = fire
        self._tell = {"missed": tell_missed, "unknown": tell_unknown}
        self._tell_paused = tell_paused
        self._may_repeat = may_repeat
        self._waits = waits
        self._settings = settings or AlarmSettings()
        self._scheduler = AsyncIOScheduler(timezone=UTC)
        self._upcoming: dict[str, datetime] = {}
        self._wanted: set[str] = set()
        self._changed: set[str] = set()
        self._running: set[str] = set()
        self._signal = asyncio.Event()
        self._news = asyncio.Event()
        self._round_lock = asyncio.Lock()
        self._tell_lock = asyncio.Lock()
        self._keepers: set[asyncio.Task[None]] = set()
        self._fires: set[asyncio.Task[None]] = set()
        self._queued: set[asyncio.Task[None]] = set()
        self._queue_free = 0.0
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Clear up after the last daemon, make the jobs from the tables, and begin to fire what is overdue.

        Takes over `on_change` of the schedules where nobody has it. Raises sqlite3.Error where the tables cannot
        be read.
        """
        self._loop = asyncio.get_running_loop()
        if self._schedules.on_change is None:
            self._schedules.on_change = self.changed_in_thread
        async with self._round_lock:
            now = self._clock()
            opened = await asyncio.to_thread(self._rounds.open, now, self._may_repeat, self._waits)
            busy = frozenset(fire.schedule.id for fire in opened.waiting)
            for schedule in await asyncio.to_thread(self._ledger.ahead, now, timedelta(days=1)):
                log.error("schedule_waits_for_clock", schedule=schedule, now=now.isoformat())
            keys = await asyncio.to_thread(self._schedules.active_ids)
            queue: list[Fire] = []
            for at in range(0, len(keys), CHUNK):
                chunk = keys[at : at + CHUNK]
                found = await asyncio.to_thread(self._rounds.examine, chunk, now, busy, at_start=True)
                queue += found.queue
                self._note(found, chunk)
            queue.sort(key=lambda fire: (fire.due, fire.schedule.id))
            self._scheduler.start()
            self._launch(opened.waiting, queue)
        log.info("alarm_started", schedules=len(keys), overdue=len(queue), unknown=opened.unknown)
        self._keep(self._keep_waking(), "wakes")
        self._keep(self._keep_ticking(), "ticks")
        self._keep(self._keep_telling(), "tells")
        self._news.set()

    async def close(self) -> None:
        """Stop waking, wait for the present fires up to `close_s` and cancel them then: they stay claimed."""
        self._closing = True
        if self._schedules.on_change == self.changed_in_thread:
            self._schedules.on_change = None
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        for task in self._queued:
            task.cancel()
        # A round that is being written is waited for: what it has claimed is still carried out.
        async with self._round_lock:
            pass
        if self._fires:
            await asyncio.wait(self._fires, timeout=self._settings.close_s)
        left = [*self._keepers, *self._fires]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        self._loop = None

    def next_due(self, key: str) -> datetime | None:
        """When the schedule `key` is due next, in UTC; None where it is not."""
        return self._upcoming.get(key)

    def is_running(self, key: str) -> bool:
        """Whether the schedule `key` is being carried out, or is queued for it."""
        return key in self._running

    def changed(self, key: str) -> None:
        """Look at the schedule `key` again: it was made, changed, paused, resumed or removed."""
        self._changed.add(key)
        self._want(key)

    removed = changed

    def changed_in_thread(self, key: str) -> None:
        """The same, from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and with it all waking
                self._loop.call_soon_threadsafe(self.changed, key)

    def run_now_in_thread(self, key: str) -> bool:
        """See `run_now`, from a thread that is not the loop's."""
        return self._loop is not None and asyncio.run_coroutine_threadsafe(self.run_now(key), self._loop).result()

    async def pause(self, key: str) -> bool:
        """Pause the schedule `key`; False where it is gone or was paused. A fire that runs goes on."""
        return await self._set_state(key, "paused")

    async def resume(self, key: str) -> bool:
        """Resume the schedule `key` from now on; False where it is gone or was active."""
        return await self._set_state(key, "active")

    async def run_now(self, key: str) -> bool:
        """Fire the schedule `key` once outside its rule, whatever its state; False where it is gone or running."""
        async with self._round_lock:
            if key in self._running or self._closing:
                return False
            fire = await asyncio.to_thread(self._rounds.begin_by_hand, key, self._clock())
            if fire is not None:
                self._launch([fire], [])
            return fire is not None

    async def wake(self, *keys: str) -> None:
        """Examine the schedules `keys`, those changed, and those due by the clock; launch and tell what follows.

        Raises sqlite3.Error where the tables cannot be written; then nothing has happened.
        """
        await self._examine(*keys)
        await self._tell_all()

    async def idle(self) -> None:
        """Return once nothing is being carried out, nothing waits to be looked at, and all is told that can be."""
        while True:
            async with self._round_lock:
                over = not self._fires and not self._wanted
            if over:
                return await self._tell_all()
            if self._fires:
                await asyncio.wait(self._fires)
            else:
                await self.wake()

    async def _examine(self, *keys: str) -> None:
        async with self._round_lock:
            now = self._clock()
            wanted = self._wanted | set(keys) | {key for key, due in self._upcoming.items() if due <= now}
            changed = self._changed
            if wanted and not self._closing:
                self._wanted, self._changed = set(), set()
                try:
                    busy = frozenset(self._running)
                    found = await asyncio.to_thread(self._rounds.examine, sorted(wanted), now, busy)
                except BaseException:
                    self._wanted |= wanted
                    self._changed |= changed
                    raise
                self._note(found, changed)
                self._launch(found.fires, found.queue)

    async def _set_state(self, key: str, state: str) -> bool:
        done = await asyncio.to_thread(self._schedules.set_state, key, state, self._clock())
        if done:
            self._changed.add(key)
            await self.wake(key)
        return done

    def _want(self, key: str) -> None:
        self._wanted.add(key)
        self._signal.set()

    def _note(self, found: Round, changed: Collection[str]) -> None:
        """Keep when schedules are due next; give those that changed a new job."""
        for key, upcoming in found.upcoming.items():
            if upcoming is None:
                self._upcoming.pop(key, None)
            else:
                self._upcoming[key] = upcoming[0]
            if key in changed:
                self._set_job(key, upcoming)

    def _set_job(self, key: str, upcoming: Upcoming | None) -> None:
        # The library never sees one id twice: replacing a job before its start would lose a run.
        if self._scheduler.running:
            with contextlib.suppress(JobLookupError):
                self._scheduler.remove_job(key)
        if upcoming is not None:
            self._scheduler.add_job(
                self._come_due,
                FiresTrigger(upcoming[1]),
                args=[key],
                id=key,
                next_run_time=upcoming[0],
                misfire_grace_time=None,
                coalesce=True,
            )

    async def _come_due(self, key: str) -> None:
        self._want(key)

    def _launch(self, fires: Sequence[Fire], queue: Sequence[Fire]) -> None:
        loop = asyncio.get_running_loop()
        for fire in fires:
            self._run(fire, 0.0)
        for fire in queue:
            at = max(self._queue_free, loop.time())
            self._queue_free = at + self._settings.stagger_s
            self._run(fire, at - loop.time())

    def _run(self, fire: Fire, delay: float) -> None:
        self._running.add(fire.schedule.id)
        task = asyncio.create_task(self._carry_out(fire, delay), name=f"schedule {fire.schedule.id}")
        self._fires.add(task)
        task.add_done_callback(self._fires.discard)

    async def _carry_out(self, fire: Fire, delay: float) -> None:
        key = fire.schedule.id
        again = True
        try:
            begun = fire if fire.claimed else await self._take_turn(fire, delay)
            if begun is not None:
                result = await self._fired(begun)
                finished = await asyncio.to_thread(self._rounds.finish, begun, result, self._clock())
                again = finished.again
                if finished.paused:
                    await self._tell_paused(begun.schedule)
        except Exception:
            # A fault while one fire is written down or told of must not stop the others.
            log.exception("fire_not_settled", schedule=key, due=fire.due.isoformat())
        finally:
            self._running.discard(key)
            if again and not self._closing:
                self._want(key)

    async def _take_turn(self, fire: Fire, delay: float) -> Fire | None:
        task = asyncio.current_task()
        assert task is not None
        self._queued.add(task)
        try:
            await asyncio.sleep(delay)
        finally:
            self._queued.discard(task)
        if self._closing:
            return None
        return await asyncio.to_thread(self._rounds.begin, fire, self._clock())

    async def _fired(self, fire: Fire) -> FireResult:
        log.info("schedule_fires", schedule=fire.schedule.id, due=fire.due.isoformat(), late_s=round(fire.late_s, 3))
        try:
            return await self._fire(fire)
        except Exception as error:
            # Whatever went wrong in one schedule is its failure, and must not stop the others.
            log.exception("fire_failed", schedule=fire.schedule.id, due=fire.due.isoformat())
            return FireResult("failed", type(error).__name__)

    async def _tell_all(self) -> None:
        """Tell what nobody was told of yet: of each schedule and state all at once."""
        async with self._tell_lock:
            groups: dict[tuple[str, str], list[Run]] = {}
            for run in await asyncio.to_thread(self._ledger.untold):
                groups.setdefault((run.schedule, run.state), []).append(run)
            for (key, state), runs in groups.items():
                schedule = await asyncio.to_thread(self._schedules.load, key)
                try:
                    if schedule is not None:
                        await self._tell[state](schedule, [run.due for run in runs])
                except Exception:
                    # What cannot be told of one schedule is tried again later, and the others are told.
                    log.exception("schedule_not_told", schedule=key, state=state)
                else:
                    await asyncio.to_thread(self._ledger.set_told, runs)

    def _keep(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=f"alarm {name}")
        self._keepers.add(task)
        task.add_done_callback(self._keepers.discard)

    async def _keep_waking(self) -> None:
        while True:
            await self._signal.wait()
            self._signal.clear()
            try:
                await self._examine()
                self._news.set()
            except Exception:
                # Waking must go on whatever went wrong; what was wanted still is, and the tick looks again.
                log.exception("round_failed")

    async def _keep_telling(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._tell_all()
            except sqlite3.Error:
                log.exception("telling_failed")

    async def _keep_ticking(self) -> None:
        loop = asyncio.get_running_loop()
        clock, time = self._clock(), loop.time()
        prune_at = time + self._settings.prune_s
        while True:
            await asyncio.sleep(self._settings.tick_s)
            jump = (self._clock() - clock).total_seconds() - (loop.time() - time)
            clock, time = self._clock(), loop.time()
            if abs(jump) > JUMP_S:
                log.warning("clock_jumped", seconds=round(jump, 3))
                self._scheduler.wakeup()
            self._signal.set()
            if time >= prune_at:
                prune_at = time + self._settings.prune_s
                with contextlib.suppress(sqlite3.Error):  # tomorrow is soon enough
                    await asyncio.to_thread(self._ledger.prune, self._clock())

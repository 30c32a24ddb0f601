"""A round: what is due is entered into the ledger, and it is decided what is run, missed or skipped."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import structlog

from metnosd.ledger import Ledger, Run
from metnosd.lexicon.recurrence import Recurrence
from metnosd.schedule import Schedule, Schedules

log = structlog.get_logger(__name__)

GRACE_S = 10.0
"""What is at most so many seconds late is on time, whatever its schedule says about lateness."""

MOST_FAILURES = 3
"""A schedule that failed so often in a row is paused."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of due instants: `run` is run, `ends` are over, each with its state and note."""

    run: datetime | None
    ends: tuple[tuple[datetime, str, str], ...]


@dataclass(frozen=True, slots=True)
class Fire:
    """One run of `schedule` for the instant `due` (UTC), `late_s` seconds late; it stands for the `missed` ones too.

    `by_hand` is one that was asked for; `claimed` whether the ledger has it as begun.
    """

    schedule: Schedule
    due: datetime
    late_s: float = 0.0
    missed: tuple[datetime, ...] = ()
    by_hand: bool = False
    claimed: bool = True


@dataclass(frozen=True, slots=True)
class FireResult:
    """How a fire ended: done, failed or skipped, with a note for the ledger and the turn that it made, if any."""

    state: str
    note: str = ""
    turn: str | None = None


Upcoming = tuple[datetime, Recurrence | None]
"""When a schedule is due next, in UTC, and its rule."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a round found: fires to be run at once and one after the other, and when each schedule is due next."""

    fires: tuple[Fire, ...]
    queue: tuple[Fire, ...]
    upcoming: dict[str, Upcoming | None]


@dataclass(frozen=True, slots=True)
class Opened:
    """What the last daemon left: how many runs without an end, and the claimed fires that wait for an answer."""

    unknown: int
    waiting: tuple[Fire, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """What follows from the end of a fire: whether its schedule was paused, and is to be examined again."""

    paused: bool = False
    again: bool = False


def decide(
    schedule: Schedule, due: Sequence[datetime], now: datetime, busy: Collection[datetime] = frozenset()
) -> Decision:
    """What becomes of the instants `due` (in order) of `schedule` at `now`.

    The newest is run if it is not too late, and stands for the others, which are missed. Those up to `quiet_until`
    are skipped, after a failure; so are the late ones of a schedule that says so. `busy` are those that came while
    an earlier fire still ran, which is noted.
    """
    quiet = schedule.quiet_until
    ends = [(each, "skipped", "backoff") for each in due if quiet is not None and each <= quiet]
    rest = due[len(ends) :]
    if not rest:
        return Decision(None, tuple(ends))
    allowed = max(GRACE_S, schedule.late_s if schedule.late == "run" else 0.0)
    run = rest[-1] if (now - rest[-1]).total_seconds() <= allowed else None
    state = "missed" if schedule.late == "run" else "skipped"
    gone = rest if run is None else rest[:-1]
    ends += [(each, state, "busy" if each in busy else "late") for each in gone]
    return Decision(run, tuple(ends))


class Rounds:
    """Decides and writes down. Each method is one transaction, blocks, and may be called from any thread."""

    def __init__(self, schedules: Schedules, ledger: Ledger) -> None:
        self._schedules = schedules
        self._ledger = ledger

    def open(
        self,
        now: datetime,
        may_repeat: Callable[[Schedule], bool],
        waits: Callable[[Schedule, datetime], bool] = lambda _schedule, _due: False,
    ) -> Opened:
        """Clear up after the last daemon, which may have left runs without an end.

        One that only `waits` for an answer goes on. The others are due again where `may_repeat` says that their
        schedule has no effect, and unknown else.
        """
        waiting: list[Fire] = []

        def goes_on(run: Run) -> bool:
            schedule = self._schedules.load(run.schedule)
            if schedule is None or not waits(schedule, run.due):
                return False
            waiting.append(Fire(schedule, run.due, run.late_s or 0.0, by_hand=run.by_hand))
            return True

        with self._ledger.store.transaction():
            unknown = self._ledger.recover(now, goes_on)
            for run in unknown:
                schedule = self._schedules.load(run.schedule)
                if schedule is not None and schedule.state == "active" and may_repeat(schedule):
                    self._ledger.reclaim(run.schedule, run.due)
            self.examine([key for key in self._ledger.with_pending() if not self._is_active(key)], now)
            self._ledger.prune(now)
        return Opened(len(unknown), tuple(waiting))

    def examine(
        self, keys: Sequence[str], now: datetime, busy: Collection[str] = frozenset(), *, at_start: bool = False
    ) -> Round:
        """Enter what is due of the schedules `keys` at `now` and decide on it; claim what is to be run at once.

        Of those that are `busy`, the due instants are entered and wait. What is late, and everything `at_start`, is
        queued by instant and id; a queued fire is claimed by `begin`. A schedule that cannot be reckoned with is
        logged and left alone. A schedule that has nothing left to do is ended.
        """
        now = now.astimezone(UTC)
        found: list[Fire] = []
        upcoming: dict[str, Upcoming | None] = dict.fromkeys(keys)
        with self._ledger.store.transaction():
            schedules = {schedule.id: schedule for schedule in self._schedules.load_many(keys)}
            marks = self._ledger.marks(keys)
            pending = self._ledger.pending(keys)
            for key in keys:
                schedule = schedules.get(key)
                if schedule is None or schedule.state != "active":
                    if key in pending:
                        self._ledger.skip_pending(key, now, "gone" if schedule is None else schedule.state)
                    continue
                try:
                    due, after = schedule.due(marks.get(key), now, self._ledger.keep)
                except (ValueError, OverflowError) as error:
                    log.error("schedule_unreckonable", schedule=key, error=str(error))
                    continue
                upcoming[key] = None if after is None else (after, schedule.recurrence)
                self._ledger.enter(key, due, "busy" if key in busy else "")
                if key in busy:
                    continue
                fire = self._settle(schedule, due, pending.get(key, []), now, at_start)
                if fire is not None:
                    found.append(fire)
                elif after is None:
                    self._end(schedule, now)
        found.sort(key=lambda fire: (fire.due, fire.schedule.id))
        claimed = tuple(fire for fire in found if fire.claimed)
        return Round(claimed, tuple(fire for fire in found if not fire.claimed), upcoming)

    def _settle(
        self, schedule: Schedule, entered: Sequence[datetime], waited: Sequence[Run], now: datetime, at_start: bool
    ) -> Fire | None:
        """Decide on the instants that were just `entered` and those that `waited`; what is to be run."""
        due = sorted({*entered, *(run.due for run in waited)})
        decision = decide(schedule, due, now, {run.due for run in waited if run.note == "busy"})
        self._ledger.end_many(schedule.id, decision.ends, now)
        if decision.run is None:
            return None
        late = (now - decision.run).total_seconds()
        at_once = late <= GRACE_S and not at_start
        if at_once and not self._ledger.claim(schedule.id, decision.run, now):
            return None
        missed = tuple(each for each, state, _ in decision.ends if state == "missed")
        return Fire(schedule, decision.run, late, missed, claimed=at_once)

    def begin(self, fire: Fire, now: datetime) -> Fire | None:
        """Claim a queued fire; None where its schedule is no longer active or the instant is taken."""
        with self._ledger.store.transaction():
            schedule = self._schedules.load(fire.schedule.id)
            if schedule is None or schedule.state != "active":
                self._ledger.skip_pending(fire.schedule.id, now, "gone" if schedule is None else schedule.state)
                return None
            if not self._ledger.claim(schedule.id, fire.due, now):
                return None
        return replace(fire, schedule=schedule, late_s=(now - fire.due).total_seconds(), claimed=True)

    def begin_by_hand(self, key: str, now: datetime) -> Fire | None:
        """A claimed fire of the schedule `key`, whatever its state, outside its rule; None where there is none."""
        with self._ledger.store.transaction():
            schedule = self._schedules.load(key)
            if schedule is None:
                return None
            if schedule.state == "active":
                # An instant of the rule that is due right now keeps its row.
                due, _ = schedule.due(self._ledger.mark(key), now.astimezone(UTC), self._ledger.keep)
                self._ledger.enter(key, due)
            return Fire(schedule, self._ledger.claim_by_hand(key, now), by_hand=True)

    def finish(self, fire: Fire, result: FireResult, now: datetime) -> Finished:
        """Write down how `fire` ended. Too many failures in a row pause its schedule; one by hand counts for nothing.

        A one shot is over then, done or failed.
        """
        key, now, paused = fire.schedule.id, now.astimezone(UTC), False
        with self._ledger.store.transaction():
            self._ledger.end(key, fire.due, result.state, now, result.note, result.turn)
            schedule = self._schedules.load(key)
            if schedule is None:
                return Finished(again=True)
            if not fire.by_hand and schedule.at is None:
                if result.state == "done":
                    self._schedules.clear_failures(key)
                elif result.state == "failed" and self._schedules.count_failure(key, now) >= MOST_FAILURES:
                    paused = schedule.state == "active" and self._schedules.set_state(key, "paused", now)
            if paused or schedule.state != "active":
                return Finished(paused, again=True)
            due, after = schedule.due(self._ledger.mark(key), now, self._ledger.keep)
            if not due and after is None:
                self._end(schedule, now)
            again = bool(due or self._ledger.pending([key]))
        return Finished(again=again)

    def _end(self, schedule: Schedule, now: datetime) -> None:
        """End a schedule that has no instants left, unless one of them is still open."""
        if self._ledger.is_open(schedule.id):
            return
        last = next((run for run in self._ledger.runs_of(schedule.id, 100) if not run.by_hand), None)
        went_well = schedule.at is None or (last is not None and last.state in ("done", "skipped"))
        self._schedules.set_state(schedule.id, "done" if went_well else "failed", now)

    def _is_active(self, key: str) -> bool:
        schedule = self._schedules.load(key)
        return schedule is not None and schedule.state == "active"

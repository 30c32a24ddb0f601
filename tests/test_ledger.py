"""The ledger: every due instant exactly one row, whatever happens to the clock and the daemon, and no effect twice."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from support.scheduling import SINCE, World, make_schedule, reckon

from metnosd.ledger import Ledger
from metnosd.rounds import GRACE_S, decide
from metnosd.schedule import Schedule
from metnosd.store import Store

NINE = datetime(2026, 10, 1, 7, tzinfo=UTC)
"""09:00 in Rome on the first day."""


def minutes(number: float) -> timedelta:
    """A span."""
    return timedelta(minutes=number)


def days(number: float) -> timedelta:
    """A span."""
    return timedelta(days=number)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world on the night before the first day."""
    return World(tmp_path, SINCE)


class Machine(RuleBasedStateMachine):
    """Time passes, clocks are set, daemons crash, people change their minds; a model says which rows there must be."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.world = World(Path(self.folder.name), SINCE, may_repeat=lambda schedule: schedule.id == "often")
        made = (
            make_schedule("daily", late_s=7200),
            make_schedule("often", "FREQ=MINUTELY;INTERVAL=20", late="skip"),
            make_schedule("hourly", "FREQ=HOURLY", late_s=60),
            make_schedule("once", None, late_s=7200),
        )
        self.now_at = {schedule.id: schedule for schedule in made}
        self.marks = dict.fromkeys(self.now_at, SINCE)
        self.active = set(self.now_at)
        self.expected: dict[str, set[datetime]] = {key: set() for key in self.now_at}
        self.failures = dict.fromkeys(self.now_at, 0)
        self.world.put(*made)
        self.world.start()

    def account(self) -> None:
        """What the model has entered after a look at all schedules."""
        for key in self.active:
            due = reckon(self.now_at[key], self.marks[key], self.world.now)
            self.expected[key] |= set(due)
            self.marks[key] = max([self.marks[key], *due])

    def begin(self, key: str) -> None:
        """What counts from now on."""
        self.active.add(key)
        self.marks[key] = max(self.marks[key], self.world.now)

    @rule(span=st.integers(1, 90) | st.integers(90, 5000))
    def time_passes(self, span: int) -> None:
        """Time passes, or the machine sleeps, or the clock is set forward."""
        self.world.now += minutes(span)

    @precondition(lambda self: self.world.upcoming)
    @rule(late=st.sampled_from((0, 0, 3, 30)), number=st.integers(0, 3))
    def time_passes_to_an_instant(self, late: int, number: int) -> None:
        """Time passes until something is due, or a little longer."""
        soonest = sorted(self.world.upcoming.values())
        self.world.now = max(self.world.now, soonest[number % len(soonest)]) + timedelta(seconds=late)

    @rule(span=st.integers(1, 3000))
    def clock_is_set_back(self, span: int) -> None:
        """The clock is set back."""
        self.world.now -= minutes(span)

    @rule()
    def wake(self) -> None:
        """The library, or the tick, wakes the daemon."""
        self.account()
        self.world.wake(*self.active)

    @rule()
    def crash(self) -> None:
        """The daemon is killed and started again."""
        self.account()
        self.world.crash()

    @precondition(lambda self: self.world.running)
    @rule(data=st.data(), state=st.sampled_from(("done", "failed", "failed")))
    def finish(self, data: st.DataObject, state: str) -> None:
        """A fire ends."""
        key = data.draw(st.sampled_from(sorted(self.world.running)))
        fire = self.world.running[key]
        if not fire.by_hand and key != "once":
            self.failures[key] = self.failures[key] + 1 if state == "failed" else 0
        paused = self.failures[key] >= 3 and key in self.active
        assert self.world.finish(key, state) == paused
        self.account()
        if paused:
            self.active.discard(key)
        self.world.wake()

    @rule(key=st.sampled_from(("daily", "often", "hourly", "once")), resume=st.booleans())
    def pause_or_resume(self, key: str, resume: bool) -> None:
        """A schedule is paused or resumed."""
        schedule = self.world.schedules.load(key)
        if schedule is None or schedule.state not in ("active", "paused"):
            return
        if resume and key not in self.active:
            self.begin(key)
            self.failures[key] = 0
        elif not resume:
            self.account()
            self.active.discard(key)
        self.world.set_state(key, "active" if resume else "paused")
        self.account()

    @rule(key=st.sampled_from(("daily", "often", "hourly")), hour=st.integers(0, 23))
    def change(self, key: str, hour: int) -> None:
        """A schedule gets another time of day."""
        old = self.world.schedules.load(key)
        if old is None:
            return
        assert old.recurrence is not None
        start = datetime(2026, 10, 1, hour, 10)
        new = replace(old, recurrence=replace(old.recurrence, start=start))
        if key in self.active:
            self.account()
            if new.recurrence != old.recurrence:
                self.begin(key)
        self.now_at[key] = new
        self.world.put(new)
        self.account()

    @rule(key=st.sampled_from(("daily", "often", "hourly", "once")), span=st.integers(0, 300))
    def delete_and_undo(self, key: str, span: int) -> None:
        """A schedule is deleted, and later the deletion is taken back."""
        schedule = self.world.schedules.load(key)
        record = self.world.schedules.get(key)
        assert schedule is not None and record is not None
        self.account()
        self.world.schedules.put(key, None)
        self.world.wake(key)
        self.active.discard(key)
        self.world.now += minutes(span)
        self.world.schedules.put(key, record)
        self.failures[key] = int(str(record["failures"]))
        if record["state"] == "active":
            self.begin(key)
        self.world.wake(key)
        self.account()

    @rule(key=st.sampled_from(("daily", "often", "hourly", "once")))
    def run_now(self, key: str) -> None:
        """A schedule is run by hand."""
        busy = key in self.world.running
        assert self.world.run_now(key) != busy
        self.wake()

    @rule()
    def prune(self) -> None:
        """Old rows are looked for."""
        self.world.ledger.prune(self.world.now)

    @invariant()
    def every_instant_has_one_row(self) -> None:
        """The rows are exactly the instants of the time in which a schedule was active."""
        for key, expected in self.expected.items():
            assert set(self.world.rows(key)) == expected, key

    @invariant()
    def no_effect_twice(self) -> None:
        """Only what has no effect is ever begun a second time, and that once."""
        for effect in set(self.world.effects):
            assert self.world.effects.count(effect) <= (2 if effect[0] == "often" else 1)

    @invariant()
    def what_is_claimed_runs(self) -> None:
        """A row is claimed exactly while its fire runs, and all that was missed or is unknown was told once."""
        sql = "select schedule from runs where state = 'claimed'"
        assert sorted(row["schedule"] for row in self.world.store.rows(sql)) == sorted(self.world.running)
        told = [(key, due) for key, state, each in self.world.told for due in each if state == "missed"]
        assert len(told) == len(set(told))

    def teardown(self) -> None:
        """Close."""
        self.world.store.close()
        self.folder.cleanup()


def test_every_instant_one_row_and_no_effect_twice() -> None:
    """Whatever happens in whatever order, the rows are the instants, and nothing with an effect is begun twice."""
    run_state_machine_as_test(Machine, settings=settings(max_examples=60, stateful_step_count=40, deadline=None))


@given(
    late_s=st.sampled_from((0.0, 60.0, 3600.0)),
    late=st.sampled_from(("run", "skip")),
    steps=st.lists(st.integers(1, 5000), min_size=1, max_size=12),
    after=st.floats(0, 8000),
    quiet=st.none() | st.integers(-5000, 5000),
)
def test_decision_covers_each_instant_once(
    late_s: float, late: str, steps: Sequence[int], after: float, quiet: int | None
) -> None:
    """Each instant is run or over, never both; only the newest is run, and only when it is not too late."""
    due = [NINE + timedelta(seconds=sum(steps[: at + 1])) for at in range(len(steps))]
    now = due[-1] + timedelta(seconds=after)
    until = None if quiet is None else now + timedelta(seconds=quiet)
    schedule = make_schedule(late=late, late_s=late_s, quiet_until=until)
    decision = decide(schedule, due, now)
    ended = [each for each, _, _ in decision.ends]
    assert sorted(ended + [decision.run] * (decision.run is not None)) == due
    in_time = after <= max(GRACE_S, late_s if late == "run" else 0)
    assert (decision.run is not None) == (in_time and (until is None or due[-1] > until))
    assert decision.run in (None, due[-1])
    for each, state, note in decision.ends:
        quiet_then = until is not None and each <= until
        assert (state, note) == (
            ("skipped", "backoff") if quiet_then else ("missed" if late == "run" else "skipped", "late")
        )


def test_claim_is_taken_once(world: World) -> None:
    """Only what is due can be claimed, only what is claimed be done; a second claim or end changes nothing."""
    ledger = world.ledger
    assert not ledger.claim("s1", NINE, NINE)
    assert ledger.enter("s1", [NINE, NINE]) == 1
    assert not ledger.end("s1", NINE, "done", NINE)
    assert ledger.claim("s1", NINE, NINE + timedelta(seconds=3))
    assert not ledger.claim("s1", NINE, NINE)
    assert not ledger.end("s1", NINE, "missed", NINE)
    assert ledger.end("s1", NINE, "done", NINE + minutes(1), "fine", "t9")
    assert not ledger.end("s1", NINE, "failed", NINE)
    (run,) = ledger.runs_of("s1", 9)
    assert (run.state, run.late_s, run.note, run.turn) == ("done", 3.0, "fine", "t9")
    with pytest.raises(ValueError):
        ledger.end("s1", NINE, "claimed", NINE)


def test_nothing_is_entered_twice_after_pruning(world: World) -> None:
    """What was pruned does not come back, also with a clock that was set back; what is open or untold stays."""
    ledger = world.ledger
    due = [NINE + days(number) for number in range(6)]
    ledger.enter("s1", due)
    for each in due[:4]:
        ledger.claim("s1", each, each)
    for each in due[:3]:
        ledger.end("s1", each, "done", each)
    ledger.end("s1", due[4], "missed", due[4])
    assert ledger.prune(NINE + days(400)) == 3
    assert {run.due: run.state for run in ledger.runs_of("s1", 9)} == {
        due[3]: "claimed",
        due[4]: "missed",
        due[5]: "due",
    }
    assert ledger.enter("s1", due) == 0
    ledger.set_told(ledger.untold())
    assert ledger.prune(NINE + days(400)) == 1
    assert ledger.enter("s1", due) == 0


def test_unknown_is_reclaimed_once(world: World) -> None:
    """What took the daemon down twice is not tried a third time; what was run by hand is not tried again."""
    ledger = world.ledger
    ledger.enter("s1", [NINE])
    assert not ledger.reclaim("s1", NINE)
    assert ledger.claim("s1", NINE, NINE)
    assert [(run.due, run.state) for run in ledger.recover(NINE)] == [(NINE, "unknown")]
    assert ledger.reclaim("s1", NINE) and ledger.untold() == []
    assert ledger.claim("s1", NINE, NINE)
    assert len(ledger.recover(NINE)) == 1
    assert not ledger.reclaim("s1", NINE)
    assert [run.due for run in ledger.untold()] == [NINE]
    by_hand = ledger.claim_by_hand("s1", NINE)
    assert by_hand == NINE + timedelta(microseconds=1)
    ledger.recover(NINE)
    assert not ledger.reclaim("s1", by_hand)


def test_runs_since(world: World) -> None:
    """What was missed lately is asked for by schedules, time and states."""
    for number, key in enumerate(("s1", "s2", "s1", "s3")):
        world.ledger.enter(key, [NINE + days(number)])
        world.ledger.end(key, NINE + days(number), "missed" if number else "skipped", NINE)
    found = world.ledger.runs_since(["s1", "s2"], NINE, ["missed"])
    assert [(run.schedule, run.due) for run in found] == [("s2", NINE + days(1)), ("s1", NINE + days(2))]
    assert world.ledger.runs_since(["s1"], NINE + days(3)) == []


def test_clock_that_was_far_ahead_is_noticed(world: World) -> None:
    """A schedule that was reckoned with a clock years ahead waits for it, which can be seen."""
    world.put(make_schedule())
    world.now += days(800)
    world.wake("s1")
    world.now -= days(800)
    assert world.wake("s1") == []
    assert world.ledger.ahead(world.now, days(1)) == ["s1"]
    assert world.ledger.ahead(world.now + days(800), days(1)) == []


def daily(**more: object) -> Schedule:
    """Daily at 09:00 in Rome."""
    return make_schedule(**more)  # type: ignore[arg-type]


def test_stopped_over_an_instant(world: World) -> None:
    """Report 1: stopped a minute before and started a minute after, it runs once, late."""
    world.put(daily())
    world.now = NINE - minutes(1)
    world.store.close()
    world.open()
    world.now = NINE + minutes(1)
    (fire,) = world.start()
    assert (fire.due, fire.late_s) == (NINE, 60.0)
    world.finish_all()
    assert world.rows("s1") == {NINE: "done"} and world.told == []


def test_done_before_a_restart(world: World) -> None:
    """Report 2: what was done at nine is not done again by a daemon that starts at half past nine."""
    world.put(daily())
    world.now = NINE
    world.wake()
    world.finish_all()
    world.now += minutes(30)
    assert world.crash() == []
    assert world.rows("s1") == {NINE: "done"}


def test_missed_by_eleven_hours(world: World) -> None:
    """Report 3: with a window of one hour, what is found eleven hours later is told as missed and not run."""
    world.put(daily(late_s=3600))
    world.now = NINE + minutes(11 * 60)
    assert world.wake() == []
    assert world.told == [("s1", "missed", [NINE])]
    assert world.rows("s1") == {NINE: "missed"}


def test_thirty_days_of_twenty(world: World) -> None:
    """Report 5: over 30 days, 20 schedules have exactly one row for each instant, all done."""
    made = [daily(key=f"s{number}", start=datetime(2026, 10, 1, number, number)) for number in range(20)]
    world.put(*made)
    end = SINCE + days(30)
    while (upcoming := min(world.upcoming.values())) <= end:
        world.now = upcoming
        world.wake()
        world.finish_all()
    for schedule in made:
        assert world.rows(schedule.id) == dict.fromkeys(reckon(schedule, SINCE, end), "done")
    assert len(world.effects) == 599


def test_several_missed_are_told_at_once(world: World) -> None:
    """Of several missed instants the newest is caught up, and the others are told in one message."""
    world.put(daily())
    world.now = NINE + days(3) + minutes(30)
    (fire,) = world.wake()
    older = [NINE, NINE + days(1), NINE + days(2)]
    assert fire.due == NINE + days(3) and list(fire.missed) == older
    assert world.told == [("s1", "missed", older)]


def test_late_ones_are_skipped_where_that_was_said(world: World) -> None:
    """With "if late, skip it" a late instant is skipped and nothing is told; one on time is run."""
    world.put(daily(late="skip"))
    world.now = NINE + timedelta(seconds=30)
    assert world.wake() == [] and world.told == []
    world.now = NINE + days(1) + timedelta(seconds=2)
    assert len(world.wake()) == 1
    assert world.rows("s1") == {NINE: "skipped", NINE + days(1): "claimed"}


def test_crash_while_running(world: World) -> None:
    """What ran when the daemon was killed is unknown, told so, and not run again; a later instant is."""
    world.put(daily())
    world.now = NINE
    world.wake()
    assert world.crash() == []
    assert world.told == [("s1", "unknown", [NINE])]
    world.now += days(1)
    assert len(world.wake()) == 1
    assert world.rows("s1") == {NINE: "unknown", NINE + days(1): "claimed"}


def test_crash_of_what_has_no_effect(world: World) -> None:
    """What has no effect is run again after a crash, and nothing is told."""
    world.may_repeat = lambda _: True
    world.put(daily())
    world.now = NINE
    world.wake()
    assert [fire.due for fire in world.crash()] == [NINE]
    world.finish_all()
    assert world.rows("s1") == {NINE: "done"} and world.told == []


def test_one_shot_ends(world: World) -> None:
    """A one shot is done, failed, or failed because it was missed; once over it never fires again."""
    world.put(*(make_schedule(key, None) for key in ("good", "bad")), make_schedule("late", None, late_s=0))
    world.now = NINE + minutes(1)
    world.wake()
    world.finish("good")
    world.finish("bad", "failed")
    found = {schedule.id: schedule.state for schedule in world.schedules.of_user("owner")}
    assert found == {"good": "done", "bad": "failed", "late": "failed"}
    assert world.crash() == [] and world.upcoming == {}


def test_one_shot_is_found_after_a_year(world: World) -> None:
    """A reminder that came due while the daemon was off for a year is told as missed."""
    world.put(make_schedule("s1", None))
    world.now += days(400)
    world.crash()
    assert world.told == [("s1", "missed", [NINE])]


def test_recurrence_that_ends(world: World) -> None:
    """A recurrence whose last instant is over is done."""
    schedule = daily()
    assert schedule.recurrence is not None
    world.put(replace(schedule, recurrence=replace(schedule.recurrence, count=2)))
    for number in range(2):
        world.now = NINE + days(number)
        world.wake()
        world.finish_all()
    assert world.schedules.of_user("owner")[0].state == "done"
    assert list(world.rows("s1").values()) == ["done", "done"]


def test_three_failures_pause(world: World) -> None:
    """After three failures in a row a schedule is paused; resumed it starts afresh, without what came between."""
    world.put(daily())
    for number in range(3):
        world.now = NINE + days(number)
        world.wake()
        assert world.finish("s1", "failed") == (number == 2)
    world.now = NINE + days(5) + minutes(1)
    assert world.wake() == []
    world.set_state("s1", "active")
    loaded = world.schedules.load("s1")
    assert loaded is not None and (loaded.failures, loaded.quiet_until) == (0, None)
    world.now = NINE + days(6)
    assert len(world.wake()) == 1
    assert list(world.rows("s1")) == [NINE, NINE + days(1), NINE + days(2), NINE + days(6)]


def test_success_forgets_failures(world: World) -> None:
    """Failures count only in a row."""
    world.put(daily())
    for number, state in enumerate(("failed", "failed", "done", "failed", "failed")):
        world.now = NINE + days(number)
        world.wake()
        assert not world.finish("s1", state)
    loaded = world.schedules.load("s1")
    assert loaded is not None and loaded.failures == 2 and loaded.state == "active"


def test_frequent_one_backs_off(world: World) -> None:
    """After a failure, what is due within two minutes is skipped, after the next one within four."""
    world.put(make_schedule("s1", "FREQ=MINUTELY", since=NINE))
    world.now = NINE
    for _ in range(8):
        world.now += minutes(1)
        world.wake()
        if world.running:
            world.finish("s1", "failed")
    states = ["failed", "skipped", "skipped", "failed", "skipped", "skipped", "skipped", "skipped"]
    assert list(world.rows("s1").values()) == states


def test_busy_one_waits(world: World) -> None:
    """What is due while a fire still runs waits: when that ends, the newest is run and the others are missed."""
    world.put(make_schedule("s1", "FREQ=MINUTELY", since=NINE))
    for _ in range(4):
        world.now = max(world.now, NINE) + minutes(1)
        world.wake()
    assert list(world.rows("s1").values()) == ["claimed", "due", "due", "due"]
    world.finish("s1")
    assert list(world.rows("s1").values()) == ["done", "missed", "missed", "claimed"]
    assert [run.note for run in world.ledger.runs_of("s1", 9)] == ["busy", "busy", "busy", ""]
    assert world.told == [("s1", "missed", [NINE + minutes(2), NINE + minutes(3)])]


def test_change_makes_up_no_instants(world: World) -> None:
    """A time that is moved to one that has passed today is next due tomorrow; the old one was still due."""
    world.put(daily())
    world.now = NINE + minutes(5)
    schedule = daily(start=datetime(2026, 10, 1, 8))
    world.schedules.put("s1", schedule.to_json())
    (fire,) = world.wake("s1")
    assert fire.due == NINE
    assert world.upcoming == {"s1": NINE + days(1) - minutes(60)}


def test_by_hand_is_beside_the_rule(world: World) -> None:
    """A run by hand has its own row, does not take an instant's place, and its failure counts for nothing."""
    world.put(daily())
    world.now = NINE - minutes(10)
    assert world.run_now("s1") and not world.run_now("s1")
    world.finish("s1", "failed")
    world.now = NINE
    assert world.run_now("s1")
    world.wake()
    world.finish("s1")
    assert [(run.by_hand, run.state) for run in world.ledger.runs_of("s1", 9)] == [
        (True, "done"),
        (False, "claimed"),
        (True, "failed"),
    ]
    loaded = world.schedules.load("s1")
    assert loaded is not None and loaded.failures == 0
    assert not world.run_now("nobody")


def test_two_ledgers_on_one_file(tmp_path: Path) -> None:
    """Two connections that claim one instant: one of them gets it."""
    stores = [Store(tmp_path / "metnosd.db") for _ in range(2)]
    ledgers = [Ledger(store) for store in stores]
    assert [ledger.enter("s1", [NINE]) for ledger in ledgers] == [1, 0]
    assert [ledger.claim("s1", NINE, NINE) for ledger in ledgers] == [True, False]
    for store in stores:
        store.close()

"""The ledger: each due instant of a schedule, once, with what became of it.

    due ──claim──> claimed ──end──> done | failed | skipped
     └─────end───> missed | skipped     └─crash──> unknown ──reclaim──> due

For each schedule there is a mark as well, the newest instant that is accounted for. It never goes back, so that no
instant is entered twice, also when the clock was set back or old rows were pruned. Methods block.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from metnosd.store import Store

KEEP = timedelta(days=90)
"""How long the rows of the past are kept where nothing else is said."""

MOST_TRIES = 2
"""How often one instant is claimed at most: what took the daemon down twice is not tried a third time."""

_FROM = {"done": ("claimed",), "failed": ("claimed",), "missed": ("due",), "skipped": ("due", "claimed")}


@dataclass(frozen=True, slots=True)
class Run:
    """A row. `due` and the other times are in UTC, `late_s` is how many seconds late it was claimed or given up.

    `state` is due, claimed, done, failed, missed, skipped or unknown; `note` says why, in a word of ours; `by_hand`
    is a run that was asked for and no instant of the rule.
    """

    schedule: str
    due: datetime
    state: str
    claimed_at: datetime | None = None
    ended_at: datetime | None = None
    late_s: float | None = None
    turn: str | None = None
    note: str = ""
    tries: int = 0
    by_hand: bool = False


class Ledger:
    """The rows and marks in the database."""

    def __init__(self, store: Store, keep: timedelta = KEEP) -> None:
        """`keep` is how long the past is kept; older instants that nobody looked at get no row."""
        self.store = store
        self.keep = keep

    def mark(self, schedule: str) -> datetime | None:
        """The newest instant of `schedule` that is accounted for, in UTC; None for one never heard of."""
        return self.marks([schedule]).get(schedule)

    def marks(self, schedules: Sequence[str]) -> dict[str, datetime]:
        """The marks of `schedules`."""
        sql = f"select * from schedule_marks where schedule in {_AMONG}"
        rows = self.store.rows(sql, {"among": json.dumps(schedules)})
        return {row["schedule"]: from_column(row["accounted_until"]) for row in rows}

    def advance(self, schedule: str, until: datetime) -> None:
        """Account for everything up to `until`, without rows."""
        sql = (
            "insert into schedule_marks (schedule, accounted_until) values (:schedule, :until)"
            " on conflict (schedule) do update set accounted_until = max(accounted_until, excluded.accounted_until)"
        )
        with self.store.transaction() as db:
            db.execute(sql, {"schedule": schedule, "until": to_column(until)})

    def enter(self, schedule: str, instants: Iterable[datetime], note: str = "") -> int:
        """Make the rows of the `instants` after the mark, and put the mark to the newest; how many rows are new."""
        due = sorted(to_column(instant) for instant in instants)
        if not due:
            return 0
        sql = (
            "insert or ignore into runs (schedule, due_at, state, note) select :schedule, :due, 'due', :note"
            " where :due > coalesce((select accounted_until from schedule_marks where schedule = :schedule), '')"
        )
        with self.store.transaction() as db:
            before = db.conn.total_changes
            db.conn.executemany(sql, [{"schedule": schedule, "due": each, "note": note} for each in due])
            made = db.conn.total_changes - before
            self.advance(schedule, from_column(due[-1]))
        return made

    def pending(self, schedules: Sequence[str]) -> dict[str, list[Run]]:
        """The rows of `schedules` that are still due, oldest first."""
        found: dict[str, list[Run]] = {}
        sql = f"select * from runs where state = 'due' and schedule in {_AMONG} order by due_at"
        for row in self.store.rows(sql, {"among": json.dumps(schedules)}):
            found.setdefault(row["schedule"], []).append(_run(row))
        return found

    def claim(self, schedule: str, due: datetime, now: datetime) -> bool:
        """Take the due instant for running; False where it is not due, so that nothing is run twice."""
        sql = (
            "update runs set state = 'claimed', claimed_at = :now, late_s = :late, tries = tries + 1"
            " where schedule = :schedule and due_at = :due and state = 'due'"
        )
        with self.store.transaction() as db:
            return int(db.execute(sql, _values(schedule, due, now)).rowcount) == 1

    def claim_by_hand(self, schedule: str, now: datetime) -> datetime:
        """Make a claimed row for a run that was asked for; its instant: `now`, or the next free microsecond."""
        sql = (
            "insert or ignore into runs (schedule, due_at, state, claimed_at, late_s, tries, by_hand)"
            " values (:schedule, :due, 'claimed', :now, 0.0, 1, 1)"
        )
        due = now.astimezone(UTC)
        with self.store.transaction() as db:
            while db.execute(sql, {"schedule": schedule, "due": to_column(due), "now": to_column(now)}).rowcount != 1:
                due += timedelta(microseconds=1)
        return due

    def end(
        self, schedule: str, due: datetime, state: str, now: datetime, note: str = "", turn: str | None = None
    ) -> bool:
        """Say what became of a row: done, failed, missed or skipped; False where it is over already.

        What is missed stays in `untold` until it is told. Raises ValueError for another state.
        """
        return self.end_many(schedule, [(due, state, note)], now, turn) == 1

    def end_many(
        self, schedule: str, ends: Sequence[tuple[datetime, str, str]], now: datetime, turn: str | None = None
    ) -> int:
        """The same for several rows, each with its instant, state and note; how many were not over already."""
        changed = 0
        with self.store.transaction() as db:
            for due, state, note in ends:
                if state not in _FROM:
                    raise ValueError(f"{state!r} is no end of a run")
                sql = (
                    "update runs set state = :state, ended_at = :now, late_s = coalesce(late_s, :late), note = :note,"
                    " turn = coalesce(:turn, turn), told = :told"
                    f" where schedule = :schedule and due_at = :due and state in {_quoted(_FROM[state])}"
                )
                values = {"state": state, "note": note, "turn": turn, "told": int(state != "missed")}
                changed += db.execute(sql, values | _values(schedule, due, now)).rowcount
        return changed

    def claimed(self) -> list[Run]:
        """The rows that are claimed, oldest first."""
        return [
            _run(row) for row in self.store.rows("select * from runs where state = 'claimed' order by due_at, schedule")
        ]

    def recover(self, now: datetime, waits: Callable[[Run], bool] = lambda _run: False) -> list[Run]:
        """After a crash: what was claimed and has no end becomes unknown, and is returned; untold until it is told.

        A row that only `waits`, with nothing begun, stays claimed.
        """
        sql = (
            "update runs set state = 'unknown', ended_at = :now, told = 0"
            " where schedule = :schedule and due_at = :due and state = 'claimed'"
        )
        with self.store.transaction() as db:
            found = [run for run in self.claimed() if not waits(run)]
            for run in found:
                db.execute(sql, {"now": to_column(now), "schedule": run.schedule, "due": to_column(run.due)})
        return [replace(run, state="unknown", ended_at=now.astimezone(UTC)) for run in found]

    def reclaim(self, schedule: str, due: datetime) -> bool:
        """Make an unknown row due again, for what has no effect; False where it was tried often enough."""
        sql = (
            "update runs set state = 'due', claimed_at = null, ended_at = null, late_s = null, told = 1"
            " where schedule = :schedule and due_at = :due and state = 'unknown' and not by_hand and tries < :most"
        )
        with self.store.transaction() as db:
            values = {"schedule": schedule, "due": to_column(due), "most": MOST_TRIES}
            return int(db.execute(sql, values).rowcount) == 1

    def skip_pending(self, schedule: str, now: datetime, note: str) -> int:
        """Skip what is due of a schedule that is not to fire any more; how many rows that were."""
        sql = (
            "update runs set state = 'skipped', ended_at = :now, note = :note"
            " where state = 'due' and schedule = :schedule"
        )
        with self.store.transaction() as db:
            values = {"schedule": schedule, "now": to_column(now), "note": note}
            return int(db.execute(sql, values).rowcount)

    def with_pending(self) -> list[str]:
        """The schedules that have rows still due."""
        return [row["schedule"] for row in self.store.rows("select distinct schedule from runs where state = 'due'")]

    def is_open(self, schedule: str) -> bool:
        """Whether a row of the rule of `schedule` is due or claimed."""
        one = "select 1 from runs where schedule = :schedule and not by_hand and state ="
        return bool(self.store.rows(f"{one} 'due' union all {one} 'claimed' limit 1", {"schedule": schedule}))

    def untold(self) -> list[Run]:
        """What was missed, or became unknown, and was not told yet, oldest first."""
        return [_run(row) for row in self.store.rows("select * from runs where told = 0 order by due_at, schedule")]

    def set_told(self, runs: Iterable[Run]) -> None:
        """Note that `runs` were told."""
        values = [{"schedule": run.schedule, "due": to_column(run.due)} for run in runs]
        with self.store.transaction() as db:
            db.conn.executemany("update runs set told = 1 where schedule = :schedule and due_at = :due", values)

    def runs_of(self, schedule: str, limit: int) -> list[Run]:
        """The newest `limit` rows of `schedule`, newest first."""
        sql = "select * from runs where schedule = :schedule order by due_at desc limit :limit"
        return [_run(row) for row in self.store.rows(sql, {"schedule": schedule, "limit": limit})]

    def runs_since(self, schedules: Sequence[str], since: datetime, states: Sequence[str] = ()) -> list[Run]:
        """The rows of `schedules` due at `since` or later, in one of `states` if any are named, oldest first."""
        sql = f"select * from runs where schedule in {_AMONG} and due_at >= :since order by due_at, schedule"
        rows = self.store.rows(sql, {"among": json.dumps(schedules), "since": to_column(since)})
        return [_run(row) for row in rows if not states or row["state"] in states]

    def ahead(self, now: datetime, by: timedelta) -> list[str]:
        """The schedules whose mark is more than `by` in the future: the clock was wrong once, they wait for it."""
        sql = "select schedule from schedule_marks where accounted_until > :limit order by schedule"
        return [row["schedule"] for row in self.store.rows(sql, {"limit": to_column(now + by)})]

    def prune(self, now: datetime) -> int:
        """Remove rows that ended longer ago than is kept; how many. What is untold, open or past the mark stays."""
        sql = (
            "delete from runs where state not in ('due', 'claimed') and told != 0 and due_at < :limit"
            " and ended_at < :limit and (by_hand or due_at <= (select accounted_until from schedule_marks"
            " where schedule_marks.schedule = runs.schedule))"
        )
        with self.store.transaction() as db:
            return int(db.execute(sql, {"limit": to_column(now - self.keep)}).rowcount)


_AMONG = "(select value from json_each(:among))"


def _quoted(states: Sequence[str]) -> str:
    return "(" + ", ".join(f"'{state}'" for state in states) + ")"


def _values(schedule: str, due: datetime, now: datetime) -> dict[str, object]:
    late = (now - due).total_seconds()
    return {"schedule": schedule, "due": to_column(due), "now": to_column(now), "late": late}


def to_column(moment: datetime) -> str:
    """An aware time as UTC in ISO form, so that the order of the texts is the order of the times."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def from_column(text: str) -> datetime:
    """What `to_column` wrote."""
    return datetime.fromisoformat(text)


def _run(row: dict[str, Any]) -> Run:
    claimed, ended = row["claimed_at"], row["ended_at"]
    return Run(
        row["schedule"],
        from_column(row["due_at"]),
        row["state"],
        from_column(claimed) if claimed else None,
        from_column(ended) if ended else None,
        row["late_s"],
        row["turn"],
        row["note"],
        row["tries"],
        bool(row["by_hand"]),
    )

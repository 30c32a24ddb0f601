"""Schedules: plans and reminders with the times at which they are due, and the table that keeps them."""

from __future__ import annotations

import hashlib
import json
import zoneinfo
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime, timedelta
from itertools import takewhile
from typing import Any
from zoneinfo import ZoneInfo

import structlog

from metnosd.fires import check_recurrence, fires_of, stride
from metnosd.ledger import Ledger, from_column, to_column
from metnosd.lexicon.recurrence import Recurrence
from metnosd.plan import Plan, plan_from_json
from metnosd.sentence import Refusal
from metnosd.store import Store, to_text

log = structlog.get_logger(__name__)

STATES = ("active", "paused", "done", "failed")
KINDS = ("reminder", "plan")
LATE = ("run", "skip")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What is to be done when. Either `recurrence` or `at` (one shot) says when, in the IANA zone `zone`.

    It belongs to `user`, was made by `turn` in `channel` and `conversation` with the words `text` in `lang`, and
    carries out `plan` under `grant`. `late` is "run" (once, if at most `late_s` seconds late, else it is missed) or
    "skip". `only_if` is a condition on the result. Instants count strictly after `active_since`. `failures` counts
    those in a row; what is due up to `quiet_until` is skipped. All times are aware. Raises ValueError for a state,
    kind, lateness or zone that is none, and where it does not say when.
    """

    id: str
    user: str
    channel: str
    conversation: str
    turn: str
    text: str
    lang: str
    zone: str
    plan: Plan
    kind: str
    created_at: datetime
    active_since: datetime
    recurrence: Recurrence | None = None
    at: datetime | None = None
    late: str = "run"
    late_s: float = 3600.0
    only_if: Mapping[str, Any] | None = None
    grant: str | None = None
    state: str = "active"
    failures: int = 0
    quiet_until: datetime | None = None

    def __post_init__(self) -> None:
        zone = zone_of(self.zone)
        if self.state not in STATES or self.kind not in KINDS or self.late not in LATE:
            raise ValueError(f"no state, kind or lateness: {self.state}, {self.kind}, {self.late}")
        if (self.recurrence is None) == (self.at is None):
            raise ValueError("a schedule has a recurrence or one instant")
        for name in ("at", "created_at", "active_since", "quiet_until"):
            moment = getattr(self, name)
            if moment is not None or name in ("created_at", "active_since"):
                if not isinstance(moment, datetime) or moment.tzinfo is None:
                    raise ValueError(f"{name} is no time with a zone")
                object.__setattr__(self, name, moment.astimezone(zone if name == "at" else UTC))
        if self.recurrence is not None:
            if str(self.recurrence.zone) != self.zone:
                raise ValueError(f"the recurrence is in {self.recurrence.zone}, the schedule in {self.zone}")
            until = self.recurrence.until and self.recurrence.until.astimezone(zone)
            object.__setattr__(self, "recurrence", replace(self.recurrence, zone=zone, until=until))

    @property
    def digest(self) -> str:
        """The SHA-256 of the plan, in hexadecimal."""
        return hashlib.sha256(to_text(self.plan.to_json()).encode()).hexdigest()

    @property
    def name(self) -> str:
        """What people call it: what a reminder reminds of, else the words that it was made with."""
        said = self.plan.steps[0].args.get("text") if self.kind == "reminder" else None
        return str(said or self.text)

    def fires(self, after: datetime) -> Iterator[datetime]:
        """The due instants strictly after `after` (aware), strictly increasing, in the schedule's zone."""
        if self.recurrence is not None:
            return fires_of(self.recurrence, after)
        assert self.at is not None
        return iter([self.at] if self.at.astimezone(UTC) > after.astimezone(UTC) else [])

    def due(self, mark: datetime | None, now: datetime, keep: timedelta) -> tuple[list[datetime], datetime | None]:
        """The due instants after `mark` (None: after `active_since`) up to `now`, and the next one, in UTC.

        Those older than `keep` are left out, but not the newest of all.
        """
        now, since = now.astimezone(UTC), mark or self.active_since
        found: list[datetime] = []
        upcoming = None
        for fire in self.fires(since if self.recurrence is None else max(since, now - keep)):
            if fire.astimezone(UTC) > now:
                upcoming = fire.astimezone(UTC)
                break
            found.append(fire.astimezone(UTC))
        if not found and since < now - keep:
            old = takewhile(lambda fire: fire <= now, (fire.astimezone(UTC) for fire in self.fires(since)))
            found = list(deque(old, maxlen=1))
        return found, upcoming

    def to_json(self) -> dict[str, object]:
        """The schedule as JSON values."""
        values: dict[str, object] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in values.items():
            if isinstance(value, datetime):
                values[name] = value.astimezone(UTC).isoformat()
        values |= {"plan": self.plan.to_json(), "digest": self.digest}
        values["only_if"] = None if self.only_if is None else dict(self.only_if)
        values["recurrence"] = None if self.recurrence is None else recurrence_to_json(self.recurrence)
        return values


def schedule_from_json(data: Mapping[str, Any]) -> Schedule:
    """The schedule that `to_json` wrote. Raises ValueError for anything else."""
    try:
        values = dict(data)
        digest = values.pop("digest")
        for name in ("id", "user", "channel", "conversation", "turn", "text", "lang", "zone"):
            if not isinstance(values[name], str):
                raise TypeError(f"{name} is no text")
        for name in ("at", "created_at", "active_since", "quiet_until"):
            values[name] = None if values.get(name) is None else datetime.fromisoformat(values[name])
        if type(values["failures"]) is not int or type(values["late_s"]) not in (int, float):
            raise TypeError("failures or late_s is no number")
        if not isinstance(values["only_if"], Mapping | None) or not isinstance(values["grant"], str | None):
            raise TypeError("only_if is no mapping or grant no text")
        values["plan"] = _plan_from_json(values["plan"])
        if values["recurrence"] is not None:
            values["recurrence"] = recurrence_from_json(values["recurrence"], zone_of(values["zone"]))
        schedule = Schedule(**values)
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"no schedule: {error}") from error
    if schedule.digest != digest:
        raise ValueError("the plan is not the one of the digest")
    return schedule


def zone_of(name: str) -> ZoneInfo:
    """The zone with that IANA name. Raises ValueError where there is none."""
    try:
        return ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError, TypeError) as error:
        raise ValueError(f"{name!r} is no zone") from error


def _plan_from_json(data: Mapping[str, Any]) -> Plan:
    plan = plan_from_json(data)
    if not plan.steps or not all(isinstance(s.tool, str) and isinstance(s.args, Mapping) for s in plan.steps):
        raise ValueError("no plan")
    return plan


def recurrence_to_json(recurrence: Recurrence) -> dict[str, object]:
    """A recurrence as JSON values, without its zone."""
    until = recurrence.until
    return {
        "rules": list(recurrence.rules),
        "start": recurrence.start.isoformat(),
        "until": None if until is None else until.astimezone(UTC).isoformat(),
        "count": recurrence.count,
        "except_dates": [day.isoformat() for day in recurrence.except_dates],
    }


def recurrence_from_json(data: Mapping[str, Any], zone: ZoneInfo) -> Recurrence:
    """The recurrence in `zone` that `recurrence_to_json` wrote. Raises ValueError, KeyError or TypeError else."""
    rules = tuple(data["rules"])
    for rule in rules:
        stride(rule)
    start = datetime.fromisoformat(data["start"])
    count = data["count"]
    if not rules or start.tzinfo is not None or not (count is None or (type(count) is int and count > 0)):
        raise ValueError("no recurrence")
    until = None if data["until"] is None else datetime.fromisoformat(data["until"])
    if until is not None and until.tzinfo is None:
        raise ValueError("the end of the recurrence has no zone")
    except_dates = tuple(date.fromisoformat(day) for day in data["except_dates"])
    return Recurrence(rules, start, zone, until, count, except_dates)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Schedules:
    """The schedules in the database; a `RecordTable`. Methods block and may be called from any thread.

    What happens to a schedule (failures, its end) is kept beside the record that was put, so that the record is
    still as its turn made it and can be taken back. Only a pause is part of the record.
    """

    def __init__(self, store: Store, *, ledger: Ledger | None = None, clock: Callable[[], datetime] = _utc_now) -> None:
        self._store = store
        self._ledger = ledger or Ledger(store)
        self._clock = clock
        self.on_change: Callable[[str], None] | None = None
        """Called with the id after a change, in the thread that made it."""

    def get(self, key: str) -> Mapping[str, object] | None:
        """The record `key` as it was put, None if there is none."""
        rows = self._store.rows("select record from schedules where id = :id", {"id": key})
        return json.loads(rows[0]["record"]) if rows else None

    def put(self, key: str, value: Mapping[str, object] | None) -> None:
        """Make the record `key` hold `value`; None takes it away and leaves its runs.

        What was due under the old record up to now is entered first; what becomes active only counts from now on,
        so that neither a change nor its undo makes up instants. Raises Refusal for what is no schedule, and for a
        rule that never fires.
        """
        schedule = None if value is None else _readable(key, value)
        with self._store.transaction() as db:
            old = self.load(key)
            now = self._clock()
            self._account(old, now)
            if schedule is None:
                db.execute("delete from schedules where id = :id", {"id": key})
            else:
                self._begin(schedule, old, now)
                row = {
                    "id": key,
                    "user": schedule.user,
                    "state": schedule.state,
                    "failures": schedule.failures,
                    "quiet_until": schedule.quiet_until and to_column(schedule.quiet_until),
                    "ended_at": to_column(now) if schedule.state in ("done", "failed") else None,
                    "record": json.dumps(value, separators=(",", ":")),
                }
                db.table("schedules").upsert(row, pk="id")
        self._changed(key)

    def load(self, key: str) -> Schedule | None:
        """The schedule `key`; None if there is none that can be read."""
        return next(iter(self.load_many([key])), None)

    def load_many(self, keys: Sequence[str]) -> list[Schedule]:
        """Those of `keys` that are there."""
        sql = "select * from schedules where id in (select value from json_each(:keys))"
        return self._read(self._store.rows(sql, {"keys": json.dumps(list(keys))}))

    def all_active(self) -> list[Schedule]:
        """The schedules of all users that have due instants."""
        return self._read(self._store.rows("select * from schedules where state = 'active' order by id"))

    def active_ids(self) -> list[str]:
        """The ids of the schedules of all users that have due instants."""
        return [row["id"] for row in self._store.rows("select id from schedules where state = 'active' order by id")]

    def of_user(self, user: str, ended_since: datetime | None = None) -> list[Schedule]:
        """The schedules of `user` in the order in which they were made, without those over before `ended_since`."""
        sql = "select * from schedules where user = :user and (ended_at is null or ended_at >= :since) order by rowid"
        values = {"user": user, "since": "" if ended_since is None else to_column(ended_since)}
        return self._read(self._store.rows(sql, values))

    def set_state(self, key: str, state: str, now: datetime) -> bool:
        """Pause, resume or end the schedule `key`; False where it is gone or was so already.

        Resumed, it is active since `now` and its failures are forgotten.
        """
        with self._store.transaction() as db:
            old = self.load(key)
            if old is None or old.state == state:
                return False
            self._account(old, now)
            changed: dict[str, object] = {
                "state": state,
                "ended_at": to_column(now) if state in ("done", "failed") else None,
            }
            if state in ("active", "paused"):
                record = dict(self.get(key) or {}) | {"state": state}
                if state == "active":
                    record |= {"active_since": now.astimezone(UTC).isoformat(), "failures": 0, "quiet_until": None}
                    changed |= {"failures": 0, "quiet_until": None}
                    self._ledger.advance(key, now)
                changed["record"] = json.dumps(record, separators=(",", ":"))
            db.table("schedules").update(key, changed)
        self._changed(key)
        return True

    def count_failure(self, key: str, now: datetime) -> int:
        """Count one more failure in a row, which keeps the schedule quiet for 2**failures minutes; how many now."""
        with self._store.transaction() as db:
            rows = self._store.rows("select failures from schedules where id = :id", {"id": key})
            if not rows:
                return 0
            failures = int(rows[0]["failures"]) + 1
            quiet = to_column(now + timedelta(minutes=2**failures))
            db.table("schedules").update(key, {"failures": failures, "quiet_until": quiet})
        return failures

    def clear_failures(self, key: str) -> None:
        """Forget the failures, after a run that went well."""
        sql = "update schedules set failures = 0, quiet_until = null where id = :id and failures != 0"
        with self._store.transaction() as db:
            db.execute(sql, {"id": key})

    def _account(self, old: Schedule | None, now: datetime) -> None:
        """Enter what was due under `old` up to `now`."""
        if old is not None and old.state == "active":
            due, _ = old.due(self._ledger.mark(old.id), now, self._ledger.keep)
            self._ledger.enter(old.id, due)

    def _begin(self, new: Schedule, old: Schedule | None, now: datetime) -> None:
        """Set from when on the instants of `new` count."""
        if new.state != "active":
            return
        known = self._ledger.mark(new.id) is not None
        same = old is not None and old.state == "active" and (old.recurrence, old.at) == (new.recurrence, new.at)
        self._ledger.advance(new.id, now if known and not same else new.active_since)

    def _changed(self, key: str) -> None:
        if self.on_change is not None:
            self.on_change(key)

    def _read(self, rows: Sequence[Mapping[str, Any]]) -> list[Schedule]:
        found = []
        for row in rows:
            quiet = row["quiet_until"] and from_column(row["quiet_until"]).isoformat()
            lives = {"state": row["state"], "failures": row["failures"], "quiet_until": quiet}
            try:
                schedule = schedule_from_json(json.loads(row["record"]) | lives)
                if (schedule.id, schedule.user) != (row["id"], row["user"]):
                    raise ValueError("the record is another one's")
                found.append(schedule)
            except ValueError as error:
                log.error("schedule_unreadable", schedule=row["id"], user=row["user"], error=str(error))
        return found


def _readable(key: str, value: Mapping[str, object]) -> Schedule:
    try:
        schedule = schedule_from_json(value)
        if schedule.id != key:
            raise ValueError("the schedule has another id")
        if schedule.recurrence is not None:
            check_recurrence(schedule.recurrence)
    except ValueError as error:
        log.warning("schedule_refused", schedule=key, error=str(error))
        raise Refusal("schedule.unreadable") from error
    return schedule

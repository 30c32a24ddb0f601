"""The database: one SQLite file in WAL mode, migrations as a list, one writer at a time.

Methods block; the daemon calls them in threads. Another process that holds the file is waited for.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from metnosd.sentence import Sentence

BUSY_SECONDS = 30.0
"""How long a statement waits for another process that holds the file."""


def _first_tables(db: Database) -> None:
    db.table("turns").create(
        {
            "id": str,
            "user": str,
            "channel": str,
            "conversation": str,
            "message_id": str,
            "text": str,
            "lang": str,
            "received_at": str,
            "kind": str,
            "state": str,
            "reply": str,
            "entries": str,
        },
        pk="id",
        not_null={"user", "channel", "message_id", "state"},
    )
    db.table("turns").create_index(["user", "channel", "message_id"], unique=True)
    db.table("journal").create(
        {
            "id": int,
            "turn": str,
            "user": str,
            "step": int,
            "executor": str,
            "effect": str,
            "inverse": str,
            "before": str,
            "after": str,
            "state": str,
            "undone_by": int,
            "at": str,
        },
        pk="id",
        not_null={"turn", "user", "effect", "state"},
        foreign_keys=[("turn", "turns", "id")],
    )
    db.table("journal").create_index(["user", "state"])
    db.table("consents").create(
        {
            "token": str,
            "turn": str,
            "user": str,
            "conversation": str,
            "digest": str,
            "resolved": str,
            "question": str,
            "created_at": str,
            "expires_at": str,
            "state": str,
        },
        pk="token",
        not_null={"turn", "user", "digest", "resolved", "expires_at", "state"},
        foreign_keys=[("turn", "turns", "id")],
    )


def _verdicts_and_grants(db: Database) -> None:
    turns = db.table("turns")
    turns.add_column("verdict", str)
    turns.add_column("rule", str)
    turns.add_column("reply_to", str)
    consents = db.table("consents")
    consents.add_column("channel", str)
    consents.add_column("answered_at", str)
    db.table("grants").create(
        {
            "id": str,
            "user": str,
            "tool": str,
            "capability": str,
            "folders": str,
            "recipient": str,
            "max_files": int,
            "max_bytes": int,
            "created_at": str,
            "schedule": str,
            "digest": str,
            "policy": str,
        },
        pk="id",
        not_null={"user", "capability", "created_at"},
    )
    db.table("grants").create_index(["user"])


def _schedules_and_runs(db: Database) -> None:
    db.table("schedules").create(
        {
            "id": str,
            "user": str,
            "state": str,
            "failures": int,
            "quiet_until": str,
            "ended_at": str,
            "record": str,
        },
        pk="id",
        not_null={"user", "state", "failures", "record"},
        defaults={"failures": 0},
    )
    db.table("schedules").create_index(["user"])
    db.table("schedules").create_index(["state"])
    db.table("schedule_marks").create({"schedule": str, "accounted_until": str}, pk="schedule")
    db.table("runs").create(
        {
            "id": int,
            "schedule": str,
            "due_at": str,
            "state": str,
            "claimed_at": str,
            "ended_at": str,
            "late_s": float,
            "turn": str,
            "note": str,
            "tries": int,
            "told": int,
            "by_hand": int,
        },
        pk="id",
        not_null={"schedule", "due_at", "state", "note", "tries", "told", "by_hand"},
        defaults={"note": "", "tries": 0, "told": 1, "by_hand": 0},
    )
    db.table("runs").create_index(["schedule", "due_at"], unique=True)
    db.execute("create index idx_runs_due on runs (schedule, due_at) where state = 'due'")
    db.execute("create index idx_runs_claimed on runs (schedule, due_at) where state = 'claimed'")
    db.execute("create index idx_runs_untold on runs (due_at) where told = 0")


def _outbox(db: Database) -> None:
    db.table("outbox").create(
        {
            "id": str,
            "user": str,
            "channel": str,
            "conversation": str,
            "event": str,
            "created_at": str,
            "delivered_at": str,
        },
        pk="id",
        not_null={"user", "channel", "event", "created_at"},
    )
    db.execute("create index idx_outbox_waiting on outbox (user, channel) where delivered_at is null")


def _rest_of_turns(db: Database) -> None:
    """What a turn that was pointed at some of a list did not pick."""
    db.table("turns").add_column("rest", str)


MIGRATIONS: tuple[Callable[[Database], None], ...] = (
    _first_tables,
    _verdicts_and_grants,
    _schedules_and_runs,
    _outbox,
    _rest_of_turns,
)
"""Each brings the file from the version that is its index to the next (`PRAGMA user_version`)."""


class Store:
    """The open database. Its methods may be called from any thread."""

    def __init__(self, file: Path) -> None:
        """Open `file`, make it and its folder if needed, and bring it to the newest version."""
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        connection = sqlite3.connect(file, timeout=BUSY_SECONDS, check_same_thread=False, isolation_level=None)
        file.chmod(0o600)
        self._lock = threading.RLock()
        self._db = Database(connection)
        self._db.enable_wal()
        connection.execute("pragma synchronous = full")
        self._migrate()

    def _migrate(self) -> None:
        with self.transaction() as db:
            version = db.execute("pragma user_version").fetchone()[0]
            for number, migration in enumerate(MIGRATIONS[version:], version + 1):
                migration(db)
                db.execute(f"pragma user_version = {number}")

    @contextmanager
    def transaction(self) -> Iterator[Database]:
        """The database inside one transaction: all of the block is kept or nothing."""
        with self._lock:
            if self._db.conn.in_transaction:
                yield self._db
                return
            self._db.execute("begin immediate")
            try:
                yield self._db
            except BaseException:
                self._db.execute("rollback")
                raise
            self._db.execute("commit")

    def rows(self, sql: str, values: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """The rows that `sql` gives, as dictionaries."""
        with self._lock:
            return list(self._db.query(sql, dict(values or {})))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.conn.close()


def to_text(value: object) -> str:
    """JSON for a column; names that are no UTF-8 survive as escaped surrogates."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), default=_default)


def _default(value: object) -> object:
    if isinstance(value, datetime):
        return {"$time": value.isoformat()}
    if isinstance(value, Sentence):
        return {"$say": [value.key, dict(value.values)]}
    raise TypeError(f"{value!r} has no JSON")


def from_text(text: str) -> Any:
    """What `to_text` wrote."""
    return json.loads(text, object_hook=_hook)


def _hook(value: dict[str, Any]) -> Any:
    if set(value) == {"$time"}:
        return datetime.fromisoformat(value["$time"])
    if set(value) == {"$say"}:
        return Sentence(*value["$say"])
    return value

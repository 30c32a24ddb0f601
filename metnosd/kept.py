"""What the daemon keeps between its starts: the tables and the folder of old contents, opened together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from metnosd.grants import Grants
from metnosd.journal import Journal
from metnosd.keep import Keep
from metnosd.ledger import Ledger
from metnosd.locations import Locations
from metnosd.outbox import Outbox
from metnosd.records import Records
from metnosd.redact import Redactor
from metnosd.schedule import Schedules
from metnosd.store import Store
from metnosd.turns import Turns


@dataclass(frozen=True)
class Kept:
    """The open tables of one database, and the keep beside it."""

    store: Store
    journal: Journal
    turns: Turns
    grants: Grants
    records: Records
    keep: Keep
    ledger: Ledger
    schedules: Schedules
    outbox: Outbox


def open_kept(places: Locations, redactor: Redactor, keep_runs: timedelta, clock: Callable[[], datetime]) -> Kept:
    """Open what is kept at `places`; past runs of schedules are kept for `keep_runs`. Raises OSError, sqlite3.Error."""
    store = Store(places.database)
    grants = Grants(store)
    ledger = Ledger(store, keep_runs)
    schedules = Schedules(store, ledger=ledger, clock=clock)
    return Kept(
        store,
        Journal(store, redactor),
        Turns(store, redactor),
        grants,
        Records({"grants": grants, "schedules": schedules}),
        Keep(str(places.keep)),
        ledger,
        schedules,
        Outbox(store),
    )

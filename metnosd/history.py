"""The journal as `metnosd history` shows it: who, when, what, through which channel, with what leave and result."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from metnosd.effects import UntrashPath
from metnosd.entries import to_wire
from metnosd.journal import Journal, JournalRow
from metnosd.keep import Keep
from metnosd.ledger import Ledger
from metnosd.schedule import Schedule, Schedules
from metnosd.store import from_text

OVER_DAYS = 30
SHOWN_RUNS = 20
SHOWN_FIRES = 5

SHOWN_TURNS = 50
"""How many turns the history lists."""


def history_to_json(journal: Journal, keep: Keep, user: str) -> dict[str, Any]:
    """The newest turns of `user`, newest first, each with its effects and whether they can be undone.

    `why` is null where a turn can be undone, else: nothing_done, undone, kept (a person changed it since),
    lasting (nothing takes it back) or expired (what was kept for it is gone).
    """
    return {"turns": [_turn(row, keep) for row in journal.history(user, SHOWN_TURNS)]}


def schedules_to_json(schedules: Schedules, ledger: Ledger, user: str, now: datetime) -> list[dict[str, Any]]:
    """The schedules of `user` with their next fires and past runs; what is over stays for `OVER_DAYS` days."""
    found = schedules.of_user(user, now - timedelta(days=OVER_DAYS))
    return [
        {
            "id": schedule.id,
            "text": schedule.text,
            "name": schedule.name,
            "kind": schedule.kind,
            "state": schedule.state,
            "zone": schedule.zone,
            "rrules": schedule.recurrence.rrules() if schedule.recurrence is not None else [],
            "next": [fire.isoformat() for fire in _next(schedule, now)],
            "runs": [
                {
                    "due_at": run.due.isoformat(),
                    "state": run.state,
                    "started_at": run.claimed_at.isoformat() if run.claimed_at else None,
                    "late_s": run.late_s,
                    "note": run.note,
                }
                for run in ledger.runs_of(schedule.id, SHOWN_RUNS)
            ],
        }
        for schedule in found
    ]


def _next(schedule: Schedule, now: datetime) -> list[datetime]:
    return list(islice(schedule.fires(now), SHOWN_FIRES)) if schedule.state == "active" else []


def _turn(row: Mapping[str, Any], keep: Keep) -> dict[str, Any]:
    reply = from_text(row["reply"]) if row["reply"] else None
    effects: list[JournalRow] = row["effects"]
    reasons = [_why(effect, keep) for effect in effects if effect.state in ("done", "kept")]
    undoable = sum(reason is None for reason in reasons)
    return {
        "id": row["id"],
        "user": row["user"],
        "at": row["received_at"],
        "channel": row["channel"],
        "text": row["text"],
        "kind": row["kind"],
        "state": row["state"],
        "verdict": {"answer": row["verdict"], "rule": row["rule"]} if row["verdict"] else None,
        "consent": row["consent"],
        "status": reply["outcome"]["status"] if reply else None,
        "undoable": undoable,
        "why": None if undoable else (reasons[-1] if reasons else "nothing_done"),
        "effects": [_effect(effect, keep) for effect in effects],
    }


def _why(row: JournalRow, keep: Keep) -> str | None:
    """Why the effect `row` cannot be taken back; None where it can."""
    if row.undone_by is not None:
        return "undone"
    if row.state == "kept":
        return "kept"
    if row.inverse is None:
        return "lasting"
    if isinstance(row.inverse, UntrashPath) and not keep.has_slot(row.inverse.slot):
        return "expired"
    blob = getattr(row.inverse, "blob", None)
    return "expired" if isinstance(blob, str) and not keep.has_blob(blob) else None


def _effect(row: JournalRow, keep: Keep) -> dict[str, Any]:
    return {
        "id": row.id,
        "executor": row.executor,
        "effect": to_wire(row.effect.to_json()),
        "state": row.state,
        "at": row.at,
        "undone": row.undone_by is not None,
        "why": _why(row, keep) if row.state in ("done", "kept") else row.state,
    }

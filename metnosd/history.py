"""The journal as `metnosd history` shows it: who, when, what, through which channel, with what leave and result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metnosd.effects import UntrashPath
from metnosd.entries import to_wire
from metnosd.journal import Journal, JournalRow
from metnosd.keep import Keep
from metnosd.store import from_text

SHOWN_TURNS = 50
"""How many turns the history lists."""


def history_to_json(journal: Journal, keep: Keep, user: str) -> dict[str, Any]:
    """The newest turns of `user`, newest first, each with its effects and whether they can be undone.

    `why` is null where a turn can be undone, else: nothing_done, undone, kept (a person changed it since),
    lasting (nothing takes it back) or expired (what was kept for it is gone).
    """
    return {"turns": [_turn(row, keep) for row in journal.history(user, SHOWN_TURNS)]}


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

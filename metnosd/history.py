"""The journal as `metnosd history` shows it."""

from __future__ import annotations

from typing import Any

from metnosd.entries import to_wire
from metnosd.journal import Journal, JournalRow
from metnosd.store import from_text

SHOWN_TURNS = 50
"""How many turns the history lists."""


def history_to_json(journal: Journal, user: str) -> dict[str, Any]:
    """The newest turns of `user`, newest first, each with its effects and whether they can be undone."""
    return {"turns": [_turn(row) for row in journal.history(user, SHOWN_TURNS)]}


def _turn(row: dict[str, Any]) -> dict[str, Any]:
    reply = from_text(row["reply"]) if row["reply"] else None
    effects: list[JournalRow] = row["effects"]
    undoable = [e for e in effects if e.state == "done" and e.inverse is not None and e.undone_by is None]
    return {
        "id": row["id"],
        "at": row["received_at"],
        "channel": row["channel"],
        "text": row["text"],
        "kind": row["kind"],
        "state": row["state"],
        "status": reply["outcome"]["status"] if reply else None,
        "undoable": len(undoable),
        "effects": [_effect(effect) for effect in effects],
    }


def _effect(row: JournalRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "executor": row.executor,
        "effect": to_wire(row.effect.to_json()),
        "state": row.state,
        "at": row.at,
        "undone": row.undone_by is not None,
    }

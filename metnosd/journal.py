"""The journal of effects: an intent with its inverse before each, its result after.

A row is `intent` before the effect, then `done` or `failed`. A row that is still `intent` after a crash is
settled by looking at the target (`metnosd.act`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog

from metnosd.effects import Effect, effect_from_json
from metnosd.redact import Redactor
from metnosd.store import Store, from_text, to_text

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class JournalRow:
    """One effect. `inverse` is None where it cannot be taken back; `after` the fingerprint it left."""

    id: int
    turn: str
    user: str
    step: int
    executor: str
    effect: Effect
    inverse: Effect | None
    before: str | None
    after: str | None
    state: str
    undone_by: int | None
    at: str


class Journal:
    """The journal in the database."""

    def __init__(self, store: Store, redactor: Redactor | None = None) -> None:
        """`redactor` takes secrets out of what stays of an effect that has its result.

        An intent is whole, since a crash leaves it to be looked up; an inverse is whole as long as it is one.
        """
        self._store = store
        self._redactor = redactor or Redactor()

    def intend(
        self,
        *,
        turn: str,
        user: str,
        step: int,
        executor: str,
        effect: Effect,
        inverse: Effect | None,
        before: str | None,
        at: datetime,
    ) -> int:
        """Note an effect that is about to happen; its row's number. On disk when this returns."""
        row = {
            "turn": turn,
            "user": user,
            "step": step,
            "executor": executor,
            "effect": to_text(effect.to_json()),
            "inverse": to_text(inverse.to_json()) if inverse else None,
            "before": before,
            "after": None,
            "state": "intent",
            "undone_by": None,
            "at": at.isoformat(),
        }
        with self._store.transaction() as db:
            db.table("journal").insert(row)
            return int(db.execute("select last_insert_rowid()").fetchone()[0])

    def done(self, row: int, after: str | None, undoes: int | None) -> None:
        """Note that the effect `row` happened, and which row it took back, if any."""
        with self._store.transaction() as db:
            db.table("journal").update(row, {"state": "done", "after": after} | self._spent(row))
            if undoes is not None:
                db.table("journal").update(undoes, {"undone_by": row} | self._spent(undoes, "inverse"))

    def failed(self, row: int) -> None:
        """Note that the effect `row` did not happen."""
        with self._store.transaction() as db:
            db.table("journal").update(row, {"state": "failed"} | self._spent(row))

    def _spent(self, row: int, column: str = "effect") -> dict[str, str]:
        """The effect or inverse of `row` as it stays stored once nothing is done with it any more."""
        for found in self._store.rows("select effect, inverse from journal where id = :row", {"row": row}):
            return {column: to_text(self._redactor.value(from_text(found[column])))} if found[column] else {}
        return {}

    def kept(self, row: int) -> None:
        """Note that the effect `row` stays, since its target was changed by hand after it."""
        with self._store.transaction() as db:
            db.table("journal").update(row, {"state": "kept"})

    def give_up(self, row: int) -> JournalRow | None:
        """Note that the effect `row` stays, and return it; None if it has been taken back by now."""
        sql = "update journal set state = 'kept' where id = :row and undone_by is null"
        with self._store.transaction() as db:
            if db.execute(sql, {"row": row}).rowcount != 1:
                return None
        return next(iter(self.rows([row])), None)

    def unsettled(self) -> list[JournalRow]:
        """The intents without a result, oldest first."""
        return _rows(self._store.rows("select * from journal where state = 'intent' order by id"))

    def of_turn(self, turn: str) -> list[JournalRow]:
        """The rows of `turn`, oldest first."""
        return _rows(self._store.rows("select * from journal where turn = :turn order by id", {"turn": turn}))

    def rows(self, numbers: Sequence[int]) -> list[JournalRow]:
        """The rows with these numbers."""
        marks = ", ".join(str(int(number)) for number in numbers)
        return _rows(self._store.rows(f"select * from journal where id in ({marks}) order by id"))

    def newest_turns(self, user: str, kinds: Sequence[str], count: int, state: str = "done") -> list[dict[str, Any]]:
        """The newest turns of `user` of these kinds with effects not taken back, newest first, as rows.

        `state` kept gives those whose target was changed by hand when they were to be taken back. A folder
        that was to be made and stood there already is no effect.
        """
        marks = ", ".join(f"'{kind}'" for kind in kinds)
        sql = (
            "select t.*, max(j.id) as newest from journal j join turns t on t.id = j.turn"
            f" where j.user = :user and j.state = :state and j.undone_by is null and t.kind in ({marks})"
            " and (j.inverse is not null or json_extract(j.effect, '$.kind') != 'mkdir')"
            " group by j.turn order by newest desc limit :count"
        )
        return self._store.rows(sql, {"user": user, "count": count, "state": state})

    def has_sent(self, user: str, recipient: str) -> bool:
        """Whether `user` has sent something to `recipient`."""
        sql = (
            "select 1 from journal where user = :user and state = 'done' and json_extract(effect, '$.kind') = 'send'"
            " and json_extract(effect, '$.user') = :recipient limit 1"
        )
        return bool(self._store.rows(sql, {"user": user, "recipient": recipient}))

    def turn_that_sent(self, key: str) -> dict[str, Any] | None:
        """The row of the turn that put the message `key` into an outbox."""
        sql = (
            "select t.* from journal j join turns t on t.id = j.turn"
            " where j.before = :key and json_extract(j.effect, '$.kind') = 'send' limit 1"
        )
        return next(iter(self._store.rows(sql, {"key": key})), None)

    def history(self, user: str, limit: int) -> list[dict[str, Any]]:
        """The newest turns of `user` with their effects, newest first."""
        sql = (
            "select t.*, (select c.state from consents c where c.turn = t.id order by c.rowid desc limit 1) as consent"
            " from turns t where t.user = :user order by t.rowid desc limit :limit"
        )
        return [
            turn | {"effects": self.of_turn(turn["id"])}
            for turn in self._store.rows(sql, {"user": user, "limit": limit})
        ]


def _rows(rows: list[dict[str, Any]]) -> list[JournalRow]:
    """The rows that parse; one that does not is skipped loudly, the others still work."""
    parsed = []
    for row in rows:
        try:
            inverse = effect_from_json(from_text(row["inverse"])) if row["inverse"] else None
            parsed.append(
                JournalRow(
                    id=row["id"],
                    turn=row["turn"],
                    user=row["user"],
                    step=row["step"],
                    executor=row["executor"],
                    effect=effect_from_json(from_text(row["effect"])),
                    inverse=inverse,
                    before=row["before"],
                    after=row["after"],
                    state=row["state"],
                    undone_by=row["undone_by"],
                    at=row["at"],
                )
            )
        except (ValueError, TypeError) as error:
            log.error("journal_row_unreadable", row=row["id"], error=str(error))
    return parsed

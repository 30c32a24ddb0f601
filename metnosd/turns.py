"""The table of turns: each message once, with its reply and the entries that "them" refers to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from metnosd.entries import Entry
from metnosd.message import Message
from metnosd.redact import Redactor
from metnosd.store import Store, from_text, to_text

KEPT_ENTRIES = 1000
"""How many entries of the last outcome `from` 0 can refer to."""


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """A stored turn. `state` is open, asked or ended; `reply` its last word, as JSON values."""

    id: str
    state: str
    reply: dict[str, Any] | None


class Turns:
    """The turns in the database."""

    def __init__(self, store: Store, redactor: Redactor | None = None) -> None:
        """`redactor` takes secrets out of what later messages could refer to."""
        self._store = store
        self._redactor = redactor or Redactor()

    def open(self, turn: str, message: Message, lang: str) -> TurnRecord | None:
        """Store `message` as `turn`; the earlier turn if this message came before."""
        with self._store.transaction() as db:
            key = {"user": message.user.name, "channel": message.channel, "message_id": message.id}
            sql = "select * from turns where user = :user and channel = :channel and message_id = :message_id"
            for row in self._store.rows(sql, key):
                return _record(row)
            db.table("turns").insert(
                {
                    "id": turn,
                    "user": message.user.name,
                    "channel": message.channel,
                    "conversation": message.conversation,
                    "message_id": message.id,
                    "text": message.text,
                    "lang": lang,
                    "received_at": message.received_at.isoformat(),
                    "kind": "act",
                    "state": "open",
                    "reply": None,
                    "entries": None,
                    "reply_to": message.reply_to,
                }
            )
        return None

    def judged(self, turn: str, answer: str, rule: str) -> None:
        """Store the newest verdict on `turn` and the rule that decided."""
        with self._store.transaction() as db:
            db.table("turns").update(turn, {"verdict": answer, "rule": rule})

    def of_message(self, user: str, channel: str, message_id: str) -> str | None:
        """The turn of a message, or of the turn that has this id."""
        sql = (
            "select id from turns where user = :user and"
            " ((channel = :channel and message_id = :message) or id = :message) order by rowid desc limit 1"
        )
        rows = self._store.rows(sql, {"user": user, "channel": channel, "message": message_id})
        return next((str(row["id"]) for row in rows), None)

    def end(self, turn: str, reply: dict[str, Any], entries: tuple[Entry, ...] | None) -> None:
        """Store the last word on `turn`, and the entries that it left for `from` 0; None: it looked at none."""
        values: dict[str, Any] = {"state": "ended", "reply": to_text(reply)}
        if entries is not None:
            kept = [{"kind": e.kind, "fields": dict(e.fields)} for e in entries[:KEPT_ENTRIES]]
            values["entries"] = to_text(self._redactor.value(kept))
        with self._store.transaction() as db:
            db.table("turns").update(turn, values)

    def set_kind(self, turn: str, kind: str) -> None:
        """Note before it acts whether `turn` acts, undoes or redoes (`act`, `undo`, `redo`)."""
        with self._store.transaction() as db:
            db.table("turns").update(turn, {"kind": kind})

    def ask(self, turn: str) -> None:
        """Note that `turn` waits for a consent."""
        with self._store.transaction() as db:
            db.table("turns").update(turn, {"state": "asked"})

    def go_on(self, turn: str) -> dict[str, Any] | None:
        """The row of `turn` if it waits for a consent; it is open again then."""
        sql = "update turns set state = 'open' where id = :turn and state = 'asked'"
        with self._store.transaction() as db:
            if db.execute(sql, {"turn": turn}).rowcount != 1:
                return None
            return self.get(turn)

    def get(self, turn: str) -> dict[str, Any] | None:
        """The row of `turn`."""
        return next(iter(self._store.rows("select * from turns where id = :turn", {"turn": turn})), None)

    def last_entries(self, user: str, channel: str, conversation: str) -> tuple[Entry, ...]:
        """The entries that the conversation's last ended turn left."""
        sql = (
            "select entries from turns where user = :user and channel = :channel and conversation = :conversation"
            " and state = 'ended' and entries is not null order by rowid desc limit 1"
        )
        values = {"user": user, "channel": channel, "conversation": conversation}
        for row in self._store.rows(sql, values):
            return _entries(row["entries"])
        return ()

    def last_rest(self, user: str, channel: str, conversation: str) -> tuple[Entry, ...]:
        """What the conversation's last ended turn that left entries did not pick of those before it."""
        sql = (
            "select rest from turns where user = :user and channel = :channel and conversation = :conversation"
            " and state = 'ended' and entries is not null order by rowid desc limit 1"
        )
        for row in self._store.rows(sql, {"user": user, "channel": channel, "conversation": conversation}):
            return _entries(row["rest"])
        return ()

    def set_rest(self, turn: str, rest: tuple[Entry, ...]) -> None:
        """Note what `turn` does not pick of what it was pointed at."""
        kept = [{"kind": e.kind, "fields": dict(e.fields)} for e in rest[:KEPT_ENTRIES]]
        with self._store.transaction() as db:
            db.table("turns").update(turn, {"rest": to_text(self._redactor.value(kept))})

    def last_request(self, user: str, channel: str, conversation: str) -> dict[str, Any] | None:
        """The row of the conversation's newest turn that asked for something, where the last few have one."""
        sql = (
            "select * from turns where user = :user and channel = :channel and conversation = :conversation"
            " order by rowid desc limit 3"
        )
        for row in self._store.rows(sql, {"user": user, "channel": channel, "conversation": conversation}):
            reply = from_text(row["reply"]) if row["reply"] else None
            if row["kind"] == "act" and (row["state"] == "asked" or (reply and reply["outcome"]["steps"])):
                return row
        return None

    def last_lang(self, user: str, channel: str, conversation: str) -> str | None:
        """The language of the conversation's last turn."""
        sql = (
            "select lang from turns where user = :user and channel = :channel and conversation = :conversation"
            " order by rowid desc limit 1"
        )
        values = {"user": user, "channel": channel, "conversation": conversation}
        return next((row["lang"] for row in self._store.rows(sql, values)), None)

    def newest(self, user: str) -> dict[str, Any] | None:
        """The row of the newest turn of `user`, in whatever conversation."""
        sql = "select * from turns where user = :user order by rowid desc limit 1"
        return next(iter(self._store.rows(sql, {"user": user})), None)

    def close_interrupted(self) -> int:
        """Mark the turns that were open when the daemon ended; how many there were."""
        sql = "update turns set state = 'interrupted' where state = 'open'"
        with self._store.transaction() as db:
            return int(db.execute(sql).rowcount)


def _entries(stored: str | None) -> tuple[Entry, ...]:
    return tuple(Entry(item["kind"], item["fields"]) for item in from_text(stored)) if stored else ()


def _record(row: dict[str, Any]) -> TurnRecord:
    return TurnRecord(row["id"], row["state"], from_text(row["reply"]) if row["reply"] else None)

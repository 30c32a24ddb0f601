"""What is to be said to somebody who did not just ask: it is kept until a channel has taken it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from metnosd.store import Store, from_text, to_text


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event (JSON values) for `user` in a conversation of a channel."""

    id: str
    user: str
    channel: str
    conversation: str
    event: Mapping[str, Any]


class Outbox:
    """The deliveries in the database. Methods block and may be called from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.on_new: Callable[[Delivery], None] | None = None
        """Called with what is new, in the thread that put it."""
        self.on_taken: Callable[[Delivery, datetime], None] | None = None
        """Called with what was delivered and when, once; what it puts is kept together with that, or neither is."""

    def put(
        self,
        user: str,
        channel: str,
        conversation: str,
        event: Mapping[str, Any],
        now: datetime,
        *,
        key: str | None = None,
    ) -> Delivery:
        """Keep `event` for delivery, and say that it is there; a `key` that is there already changes nothing."""
        delivery = Delivery(key or secrets.token_hex(8), user, channel, conversation, event)
        row = {
            "id": delivery.id,
            "user": user,
            "channel": channel,
            "conversation": conversation,
            "event": to_text(event),
            "created_at": now.isoformat(),
            "delivered_at": None,
        }
        with self._store.transaction() as db:
            db.table("outbox").insert(row, ignore=True)
        if self.on_new is not None:
            self.on_new(delivery)
        return delivery

    def waiting(self, user: str, channel: str) -> list[Delivery]:
        """What `channel` has not delivered to `user` yet, oldest first."""
        sql = "select * from outbox where user = :user and channel = :channel and delivered_at is null order by rowid"
        return [_delivery(row) for row in self._store.rows(sql, {"user": user, "channel": channel})]

    def get(self, key: str) -> Delivery | None:
        """The delivery `key`, taken or not."""
        return next(
            (_delivery(row) for row in self._store.rows("select * from outbox where id = :id", {"id": key})), None
        )

    def delivered(self, key: str, now: datetime) -> bool:
        """Note that the delivery `key` was taken; False where it was already."""
        sql = "update outbox set delivered_at = :now where id = :id and delivered_at is null"
        with self._store.transaction() as db:
            if db.execute(sql, {"id": key, "now": now.isoformat()}).rowcount != 1:
                return False
            delivery = self.get(key)
            if self.on_taken is not None and delivery is not None:
                self.on_taken(delivery, now)
            return True

    def prune(self, before: datetime) -> int:
        """Forget what was delivered before `before`; how many that were."""
        sql = "delete from outbox where delivered_at < :before"
        with self._store.transaction() as db:
            return int(db.execute(sql, {"before": before.isoformat()}).rowcount)


def _delivery(row: Mapping[str, Any]) -> Delivery:
    return Delivery(row["id"], row["user"], row["channel"], row["conversation"], from_text(row["event"]))

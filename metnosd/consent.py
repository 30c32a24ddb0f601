"""Consents: questions bound to a user and to the digest of the exact resolved plan, for one use."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog

from metnosd.resolve import ResolvedPlan, resolved_from_text
from metnosd.store import Store

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Consent:
    """A stored question. `state` is open, yes, no or expired."""

    token: str
    turn: str
    user: str
    digest: str
    resolved: ResolvedPlan
    expires_at: datetime
    state: str


class Consents:
    """The questions in the database; they survive a restart."""

    def __init__(self, store: Store, lifetime: timedelta) -> None:
        self._store = store
        self._lifetime = lifetime

    def ask(self, turn: str, user: str, conversation: str, resolved: ResolvedPlan, now: datetime) -> Consent:
        """Store a question on exactly `resolved`."""
        token = secrets.token_urlsafe(24)
        consent = Consent(token, turn, user, resolved.digest(user), resolved, now + self._lifetime, "open")
        row = {
            "token": token,
            "turn": turn,
            "user": user,
            "conversation": conversation,
            "digest": consent.digest,
            "resolved": resolved.to_text(),
            "created_at": now.isoformat(),
            "expires_at": consent.expires_at.isoformat(),
            "state": "open",
        }
        with self._store.transaction() as db:
            db.table("consents").insert(row)
        return consent

    def answer(self, token: str, user: str, yes: bool, now: datetime) -> Consent | None:
        """Use up the question `token` of `user`; None if it is unknown, foreign, used, expired or altered."""
        with self._store.transaction() as db:
            # A token of ours is ASCII; what is no Unicode at all cannot even be looked up.
            sql = "select * from consents where token = :token"
            rows = self._store.rows(sql, {"token": token}) if token.isascii() else []
            if not rows or rows[0]["user"] != user:
                log.warning("consent_refused", reason="unknown", user=user)
                return None
            consent = _consent(rows[0])
            if consent is None or consent.state != "open" or consent.expires_at <= now:
                log.warning("consent_refused", reason="used or expired", user=user, turn=rows[0]["turn"])
                return None
            db.table("consents").update(token, {"state": "yes" if yes else "no"})
        return consent

    def expire(self, token: str) -> bool:
        """Close the question `token` unanswered; whether it was still open."""
        with self._store.transaction() as db:
            sql = "update consents set state = 'expired' where token = :token and state = 'open'"
            return int(db.execute(sql, {"token": token}).rowcount) == 1

    def open_of(self, turn: str, now: datetime) -> Consent | None:
        """The open question of `turn`."""
        sql = "select * from consents where turn = :turn and state = 'open' order by created_at desc limit 1"
        found = [_consent(row) for row in self._store.rows(sql, {"turn": turn})]
        return next((consent for consent in found if consent is not None and consent.expires_at > now), None)

    def open_in(self, user: str, conversation: str, now: datetime) -> list[Consent]:
        """The open questions of a conversation, oldest first."""
        sql = (
            "select * from consents where user = :user and conversation = :conversation and state = 'open'"
            " order by created_at"
        )
        rows = self._store.rows(sql, {"user": user, "conversation": conversation})
        found = [consent for row in rows if (consent := _consent(row)) is not None]
        return [consent for consent in found if consent.expires_at > now]


def _consent(row: dict[str, Any]) -> Consent | None:
    try:
        resolved = resolved_from_text(row["resolved"])
    except (ValueError, KeyError, TypeError) as error:
        log.error("consent_unreadable", token_of_turn=row["turn"], error=str(error))
        return None
    if resolved.digest(row["user"]) != row["digest"]:
        log.error("consent_altered", turn=row["turn"])
        return None
    expires = datetime.fromisoformat(row["expires_at"])
    return Consent(row["token"], row["turn"], row["user"], row["digest"], resolved, expires, row["state"])

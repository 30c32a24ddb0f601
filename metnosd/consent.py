"""Consents: questions bound to a user and to the digest of the exact resolved plan, for one use."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from metnosd.redact import Redactor
from metnosd.resolve import ResolvedPlan, resolved_from_text
from metnosd.store import Store, from_text, to_text

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Consent:
    """A stored question. `state` is open, yes, no, the name of a choice, or expired."""

    token: str
    turn: str
    user: str
    digest: str
    resolved: ResolvedPlan
    expires_at: datetime
    state: str


class Consents:
    """The questions in the database; they survive a restart."""

    def __init__(self, store: Store, lifetime: timedelta, redactor: Redactor | None = None) -> None:
        """`redactor` takes the secrets out of what stays stored of a question that was answered."""
        self._store = store
        self._lifetime = lifetime
        self._redactor = redactor or Redactor()

    def ask(self, turn: str, user: str, where: tuple[str, str], resolved: ResolvedPlan, now: datetime) -> Consent:
        """Store a question on exactly `resolved`, put in the channel and conversation `where`."""
        token = secrets.token_urlsafe(24)
        consent = Consent(token, turn, user, resolved.digest(user), resolved, now + self._lifetime, "open")
        row = {
            "token": token,
            "turn": turn,
            "user": user,
            "channel": where[0],
            "conversation": where[1],
            "digest": consent.digest,
            "resolved": resolved.to_text(),
            "created_at": now.isoformat(),
            "expires_at": consent.expires_at.isoformat(),
            "state": "open",
        }
        with self._store.transaction() as db:
            db.table("consents").insert(row)
        return consent

    def answer(self, token: str, user: str, answer: str, now: datetime, digest: str | None = None) -> Consent | None:
        """Use up the question `token` of `user` with yes, no or one of its choices.

        None if it is unknown, foreign, used, expired, altered, or has no such choice, or where the `digest` that
        was approved is given and is another one.
        """
        with self._store.transaction() as db:
            # A token of ours is ASCII; what is no Unicode at all cannot even be looked up.
            sql = "select * from consents where token = :token"
            rows = self._store.rows(sql, {"token": token}) if token.isascii() else []
            if not rows or rows[0]["user"] != user:
                log.warning("consent_refused", reason="unknown", user=user)
                return None
            consent = _consent(rows[0]) if rows[0]["state"] == "open" else None
            if consent is not None and consent.expires_at <= now:
                self.expire(token)
                consent = None
            if consent is None:
                log.warning("consent_refused", reason="used or expired", user=user, turn=rows[0]["turn"])
                return None
            if digest is not None and not secrets.compare_digest(digest.encode(), consent.digest.encode()):
                log.warning("consent_refused", reason="another digest", user=user, turn=consent.turn)
                return None
            if answer not in ("yes", "no", *consent.resolved.choices):
                log.warning("consent_refused", reason="no such choice", user=user, turn=consent.turn)
                return None
            closed = {"state": answer, "answered_at": now.isoformat(), "resolved": self._spent(rows[0])}
            db.table("consents").update(token, closed)
        return replace(consent, state=answer)

    def _spent(self, row: dict[str, Any]) -> str:
        """What stays stored of the question in `row`."""
        try:
            return to_text(self._redactor.value(from_text(row["resolved"])))
        except ValueError:
            return ""

    def expire_old(self, now: datetime) -> int:
        """Close the questions whose time is over; how many there were."""
        sql = "select token from consents where state = 'open' and expires_at <= :now"
        tokens = [row["token"] for row in self._store.rows(sql, {"now": now.isoformat()})]
        return sum(self.expire(token) for token in tokens)

    def expire(self, token: str) -> bool:
        """Close the question `token` unanswered; whether it was still open."""
        with self._store.transaction() as db:
            sql = "select token, resolved from consents where token = :token and state = 'open'"
            for row in self._store.rows(sql, {"token": token}):
                db.table("consents").update(token, {"state": "expired", "resolved": self._spent(row)})
                return True
            return False

    def newest_state(self, turn: str) -> str | None:
        """The state of the newest question of `turn`; None where it asked nothing."""
        sql = "select state from consents where turn = :turn order by rowid desc limit 1"
        return next((str(row["state"]) for row in self._store.rows(sql, {"turn": turn})), None)

    def open_of(self, turn: str, now: datetime) -> Consent | None:
        """The open question of `turn`."""
        sql = "select * from consents where turn = :turn and state = 'open' order by created_at desc limit 1"
        found = [_consent(row) for row in self._store.rows(sql, {"turn": turn})]
        return next((consent for consent in found if consent is not None and consent.expires_at > now), None)

    def open_in(self, user: str, where: tuple[str, str], now: datetime) -> list[Consent]:
        """The open questions of the channel and conversation `where`, oldest first."""
        sql = (
            "select * from consents where user = :user and channel = :channel and conversation = :conversation"
            " and state = 'open' order by created_at"
        )
        rows = self._store.rows(sql, {"user": user, "channel": where[0], "conversation": where[1]})
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

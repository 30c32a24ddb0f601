"""The two ends of a message's path: what a channel brings in, what it takes away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from metnosd.entries import MAX_SHOWN_ENTRIES, Outcome, StepOutcome
from metnosd.user import User

MAX_TEXT = 16_000
"""The longest request in characters; more is no request but a document, and is sent as one."""


@dataclass(frozen=True, slots=True)
class Message:
    """One request of one person. `id` is the channel's own and makes a repeat harmless.

    `outside` are texts that somebody else wrote and that came with it, forwarded or quoted: data, never part of
    the request. `reply_to` is the turn that it answers, if it is a reply to one.
    """

    id: str
    user: User
    channel: str
    conversation: str
    text: str
    lang: str | None
    received_at: datetime
    outside: tuple[str, ...] = ()
    reply_to: str | None = None

    @property
    def where(self) -> tuple[str, str]:
        """Its channel and conversation."""
        return self.channel, self.conversation


@dataclass(frozen=True, slots=True)
class UndoOffer:
    """What an undo would take back: a turn and its number of effects."""

    turn: str
    actions: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The last word on a message: `text` for the person, `outcome` for programs."""

    text: str
    outcome: Mapping[str, object]
    undo: UndoOffer | None = None

    def to_json(self) -> dict[str, object]:
        """The reply event of the socket, without its id."""
        undo = {"turn": self.undo.turn, "actions": self.undo.actions} if self.undo else None
        return {"type": "reply", "text": self.text, "outcome": dict(self.outcome), "undo": undo}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Reply:
        """The reply that `to_json` wrote."""
        undo = data.get("undo")
        return cls(data["text"], data["outcome"], UndoOffer(undo["turn"], undo["actions"]) if undo else None)


@dataclass(frozen=True, slots=True)
class Choice:
    """One more answer to a question: its name for programs, and the words on its button."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ConsentRequest:
    """A question put to the person who wrote the message `message`.

    `full_text` is set where `text` lists only the first of many things. `choices` are answers beside yes and no.
    """

    message: str
    token: str
    digest: str
    text: str
    steps: tuple[Mapping[str, object], ...]
    expires_at: datetime
    full_text: str | None = None
    choices: tuple[Choice, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The consent_request event of the socket, without its id."""
        return {
            "type": "consent_request",
            "token": self.token,
            "digest": self.digest,
            "text": self.text,
            "steps": [dict(step) for step in self.steps],
            "expires_at": self.expires_at.isoformat(),
            "full_text": self.full_text,
            "choices": [{"name": choice.name, "text": choice.text} for choice in self.choices],
        }


def outcome_to_json(outcome: Outcome, step_errors: tuple[str | None, ...]) -> dict[str, object]:
    """`outcome` as the socket shows it, `step_errors` being the rendered problem of each step."""
    return {
        "status": outcome.status,
        "steps": [_step_to_json(s, e) for s, e in zip(outcome.steps, step_errors, strict=True)],
    }


def _step_to_json(step: StepOutcome, error: str | None) -> dict[str, object]:
    shown = step.entries[:MAX_SHOWN_ENTRIES]
    return {
        "tool": step.tool,
        "status": step.status,
        "count": len(step.entries),
        "entries": [entry.to_json() for entry in shown],
        "truncated": step.truncated or len(shown) < len(step.entries),
        "error": error,
    }

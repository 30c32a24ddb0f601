"""What a turn begins with: its id, its context, and what the message points back to."""

from __future__ import annotations

import secrets

from metnosd.entries import Entry
from metnosd.message import Message
from metnosd.resolve import Context


def entries_with(message: Message, last: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """What `from` 0 means to `message`: the texts that came with it, else what the conversation came to last."""
    if not message.outside:
        return last
    return tuple(Entry("texts", {"text": text}) for text in message.outside)


def context_of(turn: str, message: Message, lang: str, last: tuple[Entry, ...], reply_to: str | None = None) -> Context:
    """The context of the turn `turn` that `message` makes."""
    where = (message.channel, message.conversation)
    now = message.received_at
    return Context(turn, message.user, lang, now, last, reply_to=reply_to, where=where, text=message.text)


def new_turn_id() -> str:
    """An id for a turn; it says nothing."""
    return secrets.token_hex(8)

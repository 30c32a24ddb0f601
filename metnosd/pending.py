"""What is said of questions that are open: which there are, and all that one is about."""

from __future__ import annotations

from collections.abc import Sequence

from metnosd.consent import Consent
from metnosd.entries import printable
from metnosd.message import Message, Reply
from metnosd.parts import Parts
from metnosd.question import question_of
from metnosd.reply import Voice
from metnosd.resolve import Context
from metnosd.sentence import say
from metnosd.user import User


def which(parts: Parts, pending: Sequence[Consent], user: User) -> Reply:
    """Says that no question is open, or lists those that are; it blocks."""
    if not pending:
        text = parts.lexicon.say(say("consent.none"), user.lang)
        return Reply(text, {"status": "nothing", "steps": []})
    rows = [parts.turns.get(consent.turn) for consent in pending]
    lines = [parts.lexicon.say(say("consent.which"), user.lang)]
    lines += [f"{number}. {printable(row['text'])}" for number, row in enumerate(rows, 1) if row is not None]
    return Reply("\n".join(lines), {"status": "asked", "steps": []})


def whole(parts: Parts, consent: Consent, message: Message, lang: str) -> Reply:
    """All that the question `consent` is about, however long, in `lang`; it blocks."""
    user = message.user
    voice = Voice(parts.lexicon, lang, user.zone, user.home)
    scope = parts.scope(Context(consent.turn, user, lang, message.received_at, ()))
    text = question_of(consent.resolved, (), voice, scope, whole=True)
    return Reply(parts.redactor.text(text), {"status": "asked", "steps": []})

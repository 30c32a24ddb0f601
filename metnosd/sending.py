"""Messages from one person to another: put into the recipient's outbox exactly once, and told when they were taken."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Any

from metnosd.effects import SendMessage
from metnosd.entries import Entry, printable
from metnosd.journal import Journal
from metnosd.outbox import Delivery, Outbox
from metnosd.people import People, person_shown
from metnosd.perform import Performed, Prepared
from metnosd.redact import Redactor
from metnosd.sentence import Refusal, Sentence, say
from metnosd.store import to_text
from metnosd.vaglio import Known


class Post:
    """Carries out `SendMessage`. Methods block and may be called from any thread."""

    def __init__(
        self, outbox: Outbox, journal: Journal, people: People, redactor: Redactor, clock: Callable[[], datetime]
    ) -> None:
        """From now on the sender is told when a message in `outbox` was taken."""
        self._outbox = outbox
        self._journal = journal
        self.people = people
        self._redactor = redactor
        self._clock = clock
        outbox.on_taken = self.taken

    def prepare(self, effect: SendMessage, turn: str, step: int) -> Prepared:
        """`before` is the id of the message in the outbox, by which a repeat is found; nothing takes it back.

        Raises Refusal where the recipient is not known any more.
        """
        if effect.user not in self.people.users:
            raise Refusal("vaglio.unknown_recipient", name=effect.user)
        what = to_text([turn, step, effect.to_json()])
        return Prepared(None, hashlib.sha256(what.encode()).hexdigest()[:16])

    def perform(self, effect: SendMessage, key: str) -> Performed:
        """Put the message into the outbox under `key`; once it is there this does nothing."""
        clean = self._redactor.text(effect.text)
        problems = (say("send.redacted"),) if clean != effect.text else ()
        lang = self.people.lang(effect.user, effect.sender)
        event = self._event(self._headed(effect.sender, clean, lang)) | {"from": effect.sender}
        self._outbox.put(effect.user, effect.channel, effect.conversation, event, self._clock(), key=key)
        entry = Entry("messages", {"to": effect.user, "text": clean, "channel": effect.channel, "outbox": key})
        return Performed((entry,), key, problems)

    def is_there(self, key: str | None) -> bool:
        """Whether the message `key` is in the outbox, taken or not."""
        return key is not None and self._outbox.get(key) is not None

    def known(self, sender: str, recipient: str) -> Known:
        """Whether `recipient` is nobody, new to `sender`, or somebody to whom they have written."""
        if recipient not in self.people.users:
            return "unknown"
        return "known" if self._journal.has_sent(sender, recipient) else "new"

    def taken(self, delivery: Delivery, now: datetime) -> None:
        """Tell the sender that `delivery` has reached its recipient, if it is a message from one to the other."""
        if "from" not in delivery.event:
            return
        turn = self._journal.turn_that_sent(delivery.id)
        if turn is None:
            return
        text = self.people.lexicon.say(say("send.taken", name=_named(delivery.user)), turn["lang"])
        place = (turn["channel"], turn["conversation"])
        self._outbox.put(turn["user"], *place, self._event(text), now, key=f"{delivery.id}-taken")

    def _event(self, text: str) -> dict[str, Any]:
        outcome: dict[str, Any] = {"status": "nothing", "steps": []}
        event: dict[str, Any] = {"type": "delivery", "text": text, "outcome": outcome, "undo": None}
        return dict(self._redactor.value(event))

    def _headed(self, sender: str, text: str, lang: str) -> str:
        """`text` under the name of who sends it; each of its lines stays one, with nothing hidden in it."""
        lines = [printable(line) for line in text.splitlines()] or [""]
        head = self.people.lexicon.say(say("send.from", name=_named(sender)), lang)
        return "\n".join([head, *lines] if len(lines) > 1 else [f"{head} {lines[0]}"])


def _named(sender: str) -> Sentence | str:
    shown = person_shown(sender)
    return say("people.owner_first") if isinstance(shown, Sentence) else shown

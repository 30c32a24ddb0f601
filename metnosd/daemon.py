"""The daemon: what a channel may ask (`metnosd.service.Service`), over the parts of the path."""

from __future__ import annotations

import asyncio
import secrets
import unicodedata
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import structlog

from metnosd.consent import Consent
from metnosd.correcting import corrected
from metnosd.entering import context_of, entries_with, new_turn_id, read_message
from metnosd.entries import Entry
from metnosd.kept import Kept
from metnosd.lexicon.signals import Signals
from metnosd.lookups import Lookups
from metnosd.message import MAX_TEXT, Message, Reply
from metnosd.parts import Parts
from metnosd.pending import which, whole
from metnosd.preview import preview
from metnosd.resolve import Context
from metnosd.running import Running
from metnosd.sentence import say
from metnosd.service import Event, ServiceError, Tell
from metnosd.turn import Turn
from metnosd.user import User

log = structlog.get_logger(__name__)


_ANSWERS = ("confirm", "deny", "cancel")
"""Signals that are an answer whether a question is open or not."""


@dataclass(frozen=True, slots=True)
class _Before:
    """What a conversation came to before a message: its language and entries, its open questions, and the
    turn that the message replies to."""

    lang: str | None
    last: tuple[Entry, ...]
    pending: list[Consent]
    reply_to: str | None

    def is_answer(self, signals: Signals) -> bool:
        """Whether a message with these signals answers a question."""
        if signals.signal in _ANSWERS:
            return True
        chosen = (signals.signal or "").removeprefix("choose_")
        return any(signals.signal == "show_all" or chosen in item.resolved.choices for item in self.pending)


def _done(reply: Reply) -> asyncio.Future[Reply]:
    future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    future.set_result(reply)
    return future


class Daemon(Lookups):
    """Implements `Service`. Turns belong to it, not to the connection that brought them."""

    def __init__(
        self,
        parts: Parts,
        kept: Kept,
        *,
        users: Mapping[str, User],
        uids: Mapping[int, str],
        status: Callable[[], Mapping[str, Any]],
    ) -> None:
        """`uids` maps the user ids that may speak over the socket to users' names."""
        super().__init__(parts.clock, kept)
        self._parts = parts
        self._users = users
        self._uids = uids
        self._status = status
        self._owned: set[asyncio.Task[None]] = set()
        self._running: dict[str, Running] = {}
        self._entry = asyncio.Lock()

    def user_of_uid(self, uid: int) -> User | None:
        """See `Service`."""
        return self._users.get(self._uids.get(uid, ""))

    def message(
        self,
        user: User,
        channel: str,
        conversation: str,
        text: str,
        *,
        lang: str | None,
        message_id: str | None,
        outside: Sequence[str] = (),
        reply_to: str | None = None,
    ) -> Message:
        """See `Service`."""
        text = self._parts.redactor.text(unicodedata.normalize("NFC", text))
        if not text.strip() and not outside:
            raise self._error("message.empty", user, lang)
        if len(text) > MAX_TEXT:
            raise self._error("message.too_long", user, lang, count=len(text), most=MAX_TEXT)
        if lang is not None and not self._parts.lexicon.has(lang):
            known = ", ".join(language.code for language in self._parts.lexicon.languages)
            raise self._error("message.no_language", user, None, code=lang, known=known)
        if any("\ud800" <= char <= "\udfff" or char == "\0" for part in (text, *outside) for char in part):
            raise self._error("message.no_text", user, lang)
        stamp = message_id or secrets.token_hex(8)
        text = text if text.strip() else ""
        now = self._parts.clock()
        return Message(stamp, user, channel, conversation, text, lang, now, tuple(outside), reply_to)

    def _error(self, key: str, user: User, lang: str | None, **values: object) -> ServiceError:
        text = self._parts.lexicon.say(say(key, **values), lang or user.lang)
        return ServiceError(key, self._parts.redactor.text(text))

    async def send(self, message: Message, tell: Tell) -> Reply:
        """See `Service`."""
        # One message enters at a time, so that a repeat and a "stop" find the turn that they are about.
        async with self._entry:
            earlier = await asyncio.to_thread(self._corrected, message)
            reply = await self._admit(message, tell) if earlier is None else None
        if earlier is None:
            assert reply is not None
            return await reply
        row, meant = earlier
        said = [self._parts.lexicon.say(say("correction.understood", text=meant), row["lang"])]
        await self._withdraw(row["id"], message.user)
        if await asyncio.to_thread(self._parts.undo_offer, row["id"]) is not None:
            undone = await self.revert(
                message.user, *message.where, "undo_actions", 1, turn=row["id"], tell=tell, lang=row["lang"]
            )
            if undone.outcome["status"] != "done":
                return undone
            said.append(undone.text)
        async with self._entry:
            reply = await self._admit(replace(message, text=meant, lang=row["lang"]), tell)
        last = await reply
        return replace(last, text="\n".join([*said, last.text]))

    def _corrected(self, message: Message) -> tuple[dict[str, Any], str] | None:
        """The row of the turn that `message` puts right, and its text put right; None where it does not."""
        turns, parts = self._parts.turns, self._parts
        where = (message.user.name, *message.where)
        row = turns.last_request(*where) if not message.outside and message.reply_to is None else None
        if row is None or turns.of_message(message.user.name, message.channel, message.id) is not None:
            return None
        signals = read_message(message, parts.lexicon, row["lang"])
        meant = corrected(message.text, signals, row["text"], parts.lexicon, parts.kinds)
        return (row, meant) if meant is not None else None

    async def _withdraw(self, turn: str, user: User) -> None:
        """Answer the open question of `turn`, if there is one, with no."""
        consent = await asyncio.to_thread(self._parts.consents.open_of, turn, self._parts.clock())
        given = await self._give(user, consent.token, "no") if consent is not None else None
        if given is not None:
            await given[0].next_word()

    async def _admit(self, message: Message, tell: Tell) -> Awaitable[Reply]:
        """Begin what a message asks for, as it stands; `_entry` is held. The reply is to be awaited without it."""
        before = await asyncio.to_thread(self._before, message)
        signals = read_message(message, self._parts.lexicon, before.lang)
        if before.is_answer(signals):
            return self._once(message, signals)
        return asyncio.shield(await self._enter(message, signals, before, tell))

    async def _once(self, message: Message, signals: Signals) -> Reply:
        """Take a message that is an answer or a "stop"; delivered again it answers no other question."""
        turn_id = new_turn_id()
        earlier = await asyncio.to_thread(self._parts.turns.open, turn_id, message, signals.lang)
        if earlier is not None:
            stored = earlier.reply
            return Reply.from_json(stored) if stored else self._word("consent.none", "nothing", message.user)
        reply = await (self._stop(message) if signals.signal == "cancel" else self._answer(message, signals))
        await asyncio.to_thread(self._parts.turns.end, turn_id, reply.to_json(), None)
        return reply

    def _before(self, message: Message) -> _Before:
        """What the conversation came to before `message`."""
        where = (message.user.name, message.channel, message.conversation)
        turns = self._parts.turns
        replied = turns.of_message(*where[:2], message.reply_to) if message.reply_to else None
        return _Before(turns.last_lang(*where), turns.last_entries(*where), self._open(message), replied)

    def _open(self, message: Message) -> list[Consent]:
        """The questions that are open in the conversation of `message`, oldest first."""
        where = (message.channel, message.conversation)
        return self._parts.consents.open_in(message.user.name, where, self._parts.clock())

    async def _enter(self, message: Message, signals: Signals, before: _Before, tell: Tell) -> asyncio.Future[Reply]:
        """Begin the turn of `message`, or find the one that it began when it came before."""
        turn_id = new_turn_id()
        earlier = await asyncio.to_thread(self._parts.turns.open, turn_id, message, signals.lang)
        last = entries_with(message, before.last)
        if earlier is None:
            context = context_of(turn_id, message, signals.lang, last, before.reply_to)
            return self.begin(message, context, tell, lambda turn: turn.take(), signals)
        running = self._running.get(earlier.id)
        if running is not None and running.task is not None:
            for event in running.heard:
                tell(event)
            running.listeners.append(tell)
            return running.task
        if earlier.reply is not None:
            return _done(Reply.from_json(earlier.reply))
        consent = await asyncio.to_thread(self._parts.consents.open_of, earlier.id, self._parts.clock())
        if consent is None:
            raise self._error("turn.interrupted", message.user, message.lang)
        context = context_of(earlier.id, message, signals.lang, last)
        return self.begin(message, context, tell, lambda turn: turn.ask_again(consent), signals)

    def begin(
        self,
        message: Message,
        context: Context,
        tell: Tell,
        way: Callable[[Turn], Coroutine[Any, Any, Reply]],
        signals: Signals,
    ) -> asyncio.Task[Reply]:
        """Start a turn, which belongs to the daemon until it ends."""
        running: Running

        def spread(event: Event) -> None:
            running.tell(event)

        turn = Turn(self._parts, context, message, signals, spread)
        running = Running(
            turn, message.user.name, message.id, (message.channel, message.conversation), listeners=[tell]
        )
        running.task = asyncio.create_task(way(turn), name=f"turn {context.turn}")
        self._running[context.turn] = running
        running.task.add_done_callback(lambda _task: self._running.pop(context.turn, None))
        return running.task

    async def _answer(self, message: Message, signals: Signals) -> Reply:
        """Take "yes", "no" or a choice as the answer to the open question of the conversation.

        Of several the message has to say which, by the number in the list that it gets otherwise.
        """
        user = message.user
        pending = await asyncio.to_thread(self._open, message)
        if signals.count is not None:
            pending = pending[signals.count - 1 : signals.count]
        if len(pending) != 1:
            return await asyncio.to_thread(which, self._parts, pending, user)
        if signals.signal == "show_all":
            return await asyncio.to_thread(whole, self._parts, pending[0], message, signals.lang)
        choice = (signals.signal or "").removeprefix("choose_")
        yes = choice if choice in pending[0].resolved.choices else "yes"
        given = await self._give(user, pending[0].token, "no" if signals.signal == "deny" else yes)
        if given is None:
            return self._word("consent.none", "nothing", user)
        word = await given[0].next_word()
        return word if isinstance(word, Reply) else Reply(word.text, {"status": "asked", "steps": []})

    async def _stop(self, message: Message) -> Reply:
        """Say no to the open question of the conversation, else stop the turn under way in it."""
        user = message.user
        pending = await asyncio.to_thread(self._open, message)
        if pending:
            return await self._answer(message, Signals("", "deny", len(pending) if len(pending) > 1 else None))
        for running in list(self._running.values()):
            if running.user == user.name and running.conversation == (message.channel, message.conversation):
                return await self.cancel(user, running.message_id)
        return self._word("cancel.nothing", "nothing", user)

    async def consent(
        self, user: User, token: str, yes: bool, choice: str | None = None, digest: str | None = None
    ) -> bool:
        """See `Service`."""
        given = await self._give(user, token, "no" if not yes else choice or "yes", digest)
        if given is None:
            return False
        running, resumed = given
        if resumed:
            # Nobody listens to this turn any more: what it comes to, or asks, waits until somebody does.
            word = await running.next_word()
            event = word.to_json() | ({"type": "delivery"} if isinstance(word, Reply) else {})
            where = (user.name, *running.conversation)
            await asyncio.to_thread(self._kept.outbox.put, *where, event, self._parts.clock())
        return True

    async def _give(
        self, user: User, token: str, answer: str, digest: str | None = None
    ) -> tuple[Running, bool] | None:
        """Use up the question `token`; its turn, and whether that was begun for it. None: the answer is refused."""
        now = self._parts.clock()
        consent = await asyncio.to_thread(self._parts.consents.answer, token, user.name, answer, now, digest)
        if consent is None:
            return None
        running = self._running.get(consent.turn)
        if running is not None and not running.turn.context.cancelled.is_set():
            running.turn.leave.answer(token, answer)
            return running, False
        begun = await self._resume(consent, user, answer != "no")
        return None if begun is None else (begun, True)

    async def _resume(self, consent: Consent, user: User, yes: bool) -> Running | None:
        """Go on with a turn whose question was answered after a restart.

        None if the turn waits for no answer any more, as when it was cancelled at the same moment.
        """
        row = await asyncio.to_thread(self._parts.turns.go_on, consent.turn)
        if row is None:
            return None
        received = datetime.fromisoformat(row["received_at"])
        message = Message(
            row["message_id"], user, row["channel"], row["conversation"], row["text"], row["lang"], received
        )
        last = await asyncio.to_thread(self._parts.turns.last_entries, user.name, *message.where)
        context = replace(context_of(consent.turn, message, row["lang"], last), now=self._parts.clock())
        signals = read_message(message, self._parts.lexicon)

        def way(turn: Turn) -> Coroutine[Any, Any, Reply]:
            return turn.resume(consent) if yes else turn.refuse(consent)

        self.begin(message, context, lambda _event: None, way, signals)
        return self._running[consent.turn]

    async def cancel(self, user: User, message_id: str) -> Reply:
        """See `Service`."""
        async with self._entry:
            under_way = list(self._running.values())
        for running in under_way:
            if running.user == user.name and running.message_id == message_id:
                running.turn.cancel()
                return self._word("cancel.done", "done", user)
        return self._word("cancel.nothing", "nothing", user)

    def _word(self, key: str, status: str, user: User) -> Reply:
        return Reply(self._parts.lexicon.say(say(key), user.lang), {"status": status, "steps": []})

    async def revert(
        self,
        user: User,
        channel: str,
        conversation: str,
        tool: str,
        count: int,
        *,
        turn: str | None = None,
        tell: Tell = lambda _event: None,
        lang: str | None = None,
    ) -> Reply:
        """See `Service`."""
        message = self.message(user, channel, conversation, tool, lang=lang, message_id=None)
        signals = read_message(message, self._parts.lexicon)
        turn_id = new_turn_id()
        await asyncio.to_thread(self._parts.turns.open, turn_id, message, signals.lang)
        context = context_of(turn_id, message, signals.lang, ())
        args: dict[str, Any] = {"turn": turn} if turn is not None else {"count": count} if count > 1 else {}
        return await asyncio.shield(
            self.begin(message, context, tell, lambda running: running.call(tool, args), signals)
        )

    async def plan(self, user: User, text: str, *, lang: str | None, model: bool = True) -> Mapping[str, Any]:
        """See `Service`."""
        message = self.message(user, "plan", "plan", text, lang=lang, message_id=None)
        return self._parts.redactor.json(await preview(self._parts, message, use_model=model))

    def user(self, name: str) -> User | None:
        """The user `name`."""
        return self._users.get(name)

    def own(self, task: asyncio.Task[None]) -> None:
        """Keep a task that ends by itself until it has."""
        self._owned.add(task)
        task.add_done_callback(self._owned.discard)

    async def status(self) -> Mapping[str, Any]:
        """See `Service`."""
        faults = [{"at": fault.at.isoformat(), "error": fault.error} for fault in self._parts.vaglio.faults]
        active = await asyncio.to_thread(self._kept.schedules.active_ids)
        shown = {**self._status(), "schedules": len(active), "queue": len(self._running), "policy": {"faults": faults}}
        return self._parts.redactor.json(shown)

    async def hang_up(self) -> None:
        """Stop waiting for answers: the questions stay answerable."""
        asking = [running for running in self._running.values() if running.turn.leave.waiting_for is not None]
        tasks = [running.task for running in asking if running.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Stop the turns under way: a question stays answerable, what acts ends after its present effect."""
        await self.hang_up()
        tasks = [running.task for running in self._running.values() if running.task is not None]
        for running in list(self._running.values()):
            running.turn.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

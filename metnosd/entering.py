"""What a turn begins with: its id, its context, its signals, what it points back to, and its pool."""

from __future__ import annotations

import secrets

from metnosd.entries import KINDS, Entry
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.signals import Signals, read_signals
from metnosd.lexicon.spans import read_spans
from metnosd.message import Message
from metnosd.parts import Parts
from metnosd.pool import FAST, Pool, make_pool
from metnosd.resolve import Context
from metnosd.sentence import Sentence
from metnosd.user import User


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


def turn_pool(parts: Parts, signals: Signals, context: Context, message: Message, *, some: bool = False) -> Pool:
    """The executors that this user may use for this turn.

    What came with the message may be taken; else only a message that points back ("delete them") and names
    nothing of its own may take the entries of the answer before: else a small model takes them in place of the
    files that were named. `some` is whether the message picks some of them.
    """
    kinds: tuple[str, ...] = ()
    if message.outside or some:
        kinds = kinds_of(context)
    elif "back" in signals.within:
        spans = read_spans(message.text, parts.lexicon, parts.kinds, signals.lang)
        own = spans["kind"] or spans["category"] or any("." in path for path in spans["path"])
        kinds = () if own else kinds_of(context)
    return make_pool(parts.registry, signals, kinds, may_use=lambda item: parts.may_use(item, context.user))


def not_allowed(parts: Parts, signals: Signals, user: User) -> Sentence | None:
    """Why `user` may not do what the message most surely asks for; None where there is something that they may.

    Without this a planner that is not offered the executor would answer with something else.
    """
    wanted = signals.call.tool if signals.call is not None else FAST.get(signals.signal or "")
    best = max(signals.scores.values(), default=0.0)
    meant = {wanted} if wanted else {name for name, score in signals.scores.items() if score == best > 0}
    tools = [tool for tool in parts.registry if tool.name in meant]
    verdicts = [parts.vaglio.judge_capability(tool.capability, user) for tool in tools]
    if not verdicts or any(verdict.answer != "deny" for verdict in verdicts):
        return None
    return verdicts[0].reason


def kinds_of(context: Context) -> tuple[str, ...]:
    """The kinds of the last outcome's entries, each once."""
    found = {entry.kind for entry in context.last}
    return tuple(kind for kind in KINDS if kind in found)


def read_message(message: Message, lexicon: Lexicon, prior: str | None = None) -> Signals:
    """The signals of `message`; `prior` is the language of the turn before."""
    return read_signals(message.text, lexicon, message.lang or message.user.lang, prior)

"""What a turn is made with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from metnosd.act import Actor
from metnosd.consent import Consents
from metnosd.executor import Executor, Registry
from metnosd.kinds import Kinds
from metnosd.lexicon.clocks import Habits
from metnosd.lexicon.lexicon import Lexicon
from metnosd.message import UndoOffer
from metnosd.planner import Planner
from metnosd.records import Records
from metnosd.redact import Redactor
from metnosd.resolve import Context, Resolver
from metnosd.scope import Scope
from metnosd.sentence import Sentence
from metnosd.turns import Turns
from metnosd.user import User
from metnosd.vaglio import Case, Origin, Vaglio


@dataclass(frozen=True)
class Parts:
    """What a turn is made with; built once by `metnosd.assemble`."""

    lexicon: Lexicon
    kinds: Kinds
    registry: Registry
    planner: Planner
    resolver: Resolver
    vaglio: Vaglio
    consents: Consents
    actor: Actor
    turns: Turns
    records: Records
    redactor: Redactor
    case: Callable[[Context, Origin], Case]
    habits: Habits
    last_reminder: Callable[[Context], str | None]
    may_use: Callable[[Executor, User], bool]
    scope: Callable[[Context], Scope]
    clock: Callable[[], datetime]
    undo_offer: Callable[[str], UndoOffer | None]
    model_ready: Callable[[], Sentence | None]

"""The pool: the ordered executors that this user may use for this turn. Pure, and the same every time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from metnosd.executor import Executor, Registry
from metnosd.lexicon.signals import Signals

LARGEST = 12
"""How many executors are ranked into a pool; producers that they need come on top."""

FINAL = "final_answer"
"""The synthetic terminal."""

FAST: Mapping[str, str] = {
    "undo": "undo_actions",
    "redo": "redo_actions",
    "help": "get_help",
    "history": "list_actions",
    "grants": "list_grants",
    "revoke": "delete_grants",
    "schedules": "list_schedules",
    "missed": "list_schedules",
    "ran": "list_schedules",
    "change": "change_schedules",
    "pause": "pause_schedules",
    "resume": "resume_schedules",
    "run": "run_schedules",
    "unschedule": "delete_schedules",
}
"""Signals that decide alone, and the executor that each means."""

HELP = "get_help"
"""What is offered beside the terminal to a message that asks for nothing."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The executors of a turn, in order; `last` are the kinds of the last outcome's entries, for `from` 0."""

    executors: tuple[Executor, ...]
    last: tuple[str, ...] = ()

    def get(self, name: str) -> Executor | None:
        """The executor `name`, if it is in the pool."""
        return next((item for item in self.executors if item.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The names in order."""
        return tuple(item.name for item in self.executors)


def make_pool(
    registry: Registry,
    signals: Signals,
    last: Sequence[str] = (),
    *,
    largest: int = LARGEST,
    may_use: Callable[[Executor], bool] = lambda _executor: True,
) -> Pool:
    """The pool for what `signals` found; `may_use` keeps out what is denied to the user or switched off.

    The best `largest` by score, ties in the registry's order; consumers bring a producer of what they take.
    Where the words point to nothing and are not understood, every executor is in. A way out of the machine
    is in only where it was asked for, a variant for a provider only where that was named, and then instead
    of the plain one. The terminal is always there, last.
    """
    usable = [item for item in registry if item.name != FINAL and not item.by_runtime and may_use(item)]
    known = _admitted(usable, signals)
    ranked = sorted(known, key=lambda item: -_score(item, signals))
    chosen = [item for item in ranked if _score(item, signals) > 0][:largest]
    if not chosen:
        # A message that is understood and points to nothing is talk; of one that is not, anything may be meant.
        asked = [item for item in known if item.name == HELP or item.only_with is not None]
        chosen = asked if signals.understood else known
    names = {item.name for item in _with_producers(chosen, ranked)} | {FAST.get(signals.signal or "", "")}
    if signals.call is not None:
        names.add(signals.call.tool)
    return Pool((*(item for item in known if item.name in names), registry[FINAL]), tuple(last))


def _score(executor: Executor, signals: Signals) -> float:
    return signals.scores.get(executor.plain or executor.name, 0.0)


def _admitted(executors: Sequence[Executor], signals: Signals) -> list[Executor]:
    """Those that need no signal or whose signal was said, and per provider the right variant."""
    asked = [item for item in executors if item.only_with is None or item.only_with in signals.within]
    named = [item for item in asked if item.provider in signals.providers]
    replaced = {item.plain for item in named}
    return [item for item in asked if item in named or (item.provider is None and item.name not in replaced)]


def _with_producers(chosen: Sequence[Executor], ranked: Sequence[Executor]) -> list[Executor]:
    """`chosen`, and for each that takes entries which none of them gives, the best ranked one that does."""
    closed = list(chosen)
    for consumer in closed:
        if None in consumer.kinds or any(_feeds(item, consumer) for item in closed):
            continue
        producer = next((item for item in ranked if _feeds(item, consumer)), None)
        if producer is not None:
            closed.append(producer)
    return closed


def _feeds(producer: Executor, consumer: Executor) -> bool:
    stands_alone = None in producer.kinds and not producer.effect
    return stands_alone and producer.gives is not None and consumer.accepts(producer.gives)


def reached_effects(pool: Pool, scores: Mapping[str, float]) -> bool:
    """Whether the words of the message point most strongly to something that has an effect."""
    best = max(scores.values(), default=0.0)
    return any(scores.get(item.name, 0.0) == best > 0 and item.effect for item in pool.executors)

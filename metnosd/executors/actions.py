"""Executors over the journal: taking back, and doing again, what a turn did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from metnosd.arguments import Arg
from metnosd.effects import Effect
from metnosd.executor import Effects, Run, executor
from metnosd.sentence import Refusal, Sentence

MOST_TURNS = 1000
"""How many turns one message takes back at most."""

Inverses = Callable[[str, str, int], tuple[list[Effect], list[Sentence]]]
"""From user, `undo` or `redo`, and a count of turns, to the effects and what nothing takes back."""


@executor(takes=None, gives=None, capability="journal:undo", effect=True, reversible=True)
def undo_actions(
    run: Run,
    *,
    count: Annotated[int, Arg("how many turns", source="number")] = 1,
    query: Annotated[str | None, Arg("which action", source="words")] = None,
) -> Effects:
    """Take back the last action."""
    return _revert(run, "undo", count)


@executor(takes=None, gives=None, capability="journal:undo", effect=True, reversible=True)
def redo_actions(run: Run, *, count: Annotated[int, Arg("how many turns", source="number")] = 1) -> Effects:
    """Do again what was just undone."""
    return _revert(run, "redo", count)


def _revert(run: Run, way: str, count: int) -> Effects:
    if not 1 <= count <= MOST_TURNS:
        raise Refusal("undo.count", count=count)
    inverses: Inverses = run.facts["inverses"]
    effects, problems = inverses(run.facts["user"].name, way, count)
    if not effects and not problems:
        raise Refusal(f"{way}.nothing")
    return Effects(tuple(effects), tuple(problems))

"""Executors over the journal: what was done, taking it back, and doing it again."""

from __future__ import annotations

from typing import Annotated

from metnosd.act import deed_of
from metnosd.arguments import Arg, TimeRange
from metnosd.deeds import Deed, fitting
from metnosd.entries import Entry
from metnosd.executor import Effects, Found, Run, executor
from metnosd.sentence import Refusal, Sentence, say
from metnosd.undoing import Undoing, Wish

MOST_TURNS = 1000
"""How many turns one message takes back at most."""


@executor(takes=None, gives="actions", capability="journal:read")
def list_actions(
    run: Run,
    *,
    query: Annotated[str | None, Arg("which actions", source="words")] = None,
    during: Annotated[TimeRange | None, Arg("when they were done")] = None,
) -> Found:
    """List what was done and can be undone."""
    undoing: Undoing = run.facts["undoing"]
    deeds = undoing.deeds(run.facts["user"].name)
    if during is not None:
        deeds = [deed for deed in deeds if deed.at in during]
    elif query:
        lexicon = run.facts["lexicon"]
        deeds = fitting(deeds, query, lexicon, run.lang, run.now) or deeds
    entries = tuple(_entry(number, deed, run) for number, deed in enumerate(deeds, 1))
    return Found(entries, note=None if entries else say("actions.none"))


def _entry(number: int, deed: Deed, run: Run) -> Entry:
    at = deed.at.astimezone(run.zone)
    key = "actions.one" if deed.inverses() else "actions.one_lasting"
    shown = say(key, number=number, at=at.strftime("%Y-%m-%d %H:%M"), what=_summary(deed, run))
    fields = {"turn": deed.turn, "at": at, "text": deed.text, "undoable": not deed.lasting()}
    return Entry("actions", fields, shown)


def _summary(deed: Deed, run: Run) -> Sentence:
    return deed_of([row.effect for row in deed.rows], run.scope, deed.rows[0].executor) or say("done.nothing")


@executor(takes=(None, "actions"), gives=None, capability="journal:undo", effect=True, reversible=True)
def undo_actions(
    run: Run,
    *,
    count: Annotated[int | None, Arg("how many turns", source="number")] = None,
    query: Annotated[str | None, Arg("which action", source="words")] = None,
    turn: Annotated[str | None, Arg("the turn of the button", runtime=True)] = None,
) -> Effects:
    """Take back the last action."""
    return _revert(run, "undo", count, query, turn)


@executor(takes=None, gives=None, capability="journal:undo", effect=True, reversible=True)
def redo_actions(
    run: Run,
    *,
    count: Annotated[int | None, Arg("how many turns", source="number")] = None,
    turn: Annotated[str | None, Arg("the turn of the button", runtime=True)] = None,
) -> Effects:
    """Do again what was just undone."""
    return _revert(run, "redo", count, None, turn)


def _revert(run: Run, way: str, count: int | None, query: str | None, turn: str | None) -> Effects:
    if count is not None and not 1 <= count <= MOST_TURNS:
        raise Refusal("undo.count", count=count)
    undoing: Undoing = run.facts["undoing"]
    turns = tuple(str(entry.fields["turn"]) for entry in run.entries if entry.kind == "actions")
    if turn is None and not turns and not query and count is None:
        turn = run.facts["context"].reply_to
    wish = Wish(way, run.facts["user"].name, run.lang, run.now, count, query, (turn,) if turn else turns)
    return undoing.effects(wish, run.scope, lambda deed: _summary(deed, run))

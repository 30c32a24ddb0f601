"""Executors over standing grants: allowing something once and for all, what is allowed, and revoking it."""

from __future__ import annotations

import secrets
from typing import Annotated, Literal

from metnosd.arguments import Arg, Place
from metnosd.effects import PutRecord
from metnosd.entries import Entry
from metnosd.executor import Effects, Executor, Found, Run, executor
from metnosd.executors.archives import compress_files, extract_archives
from metnosd.executors.change import copy_files, delete_files, move_files, rename_files
from metnosd.executors.write import create_dirs, write_files
from metnosd.grants import Grant
from metnosd.lexicon.signals import read_deeds
from metnosd.people import person_shown
from metnosd.reply import human_size
from metnosd.sentence import Question, Refusal, Sentence, say

Action = Literal["move", "copy", "rename", "delete", "write", "create", "compress", "extract"]

ACTIONS: dict[str, Executor] = {
    "move": move_files,
    "copy": copy_files,
    "rename": rename_files,
    "delete": delete_files,
    "write": write_files,
    "create": create_dirs,
    "compress": compress_files,
    "extract": extract_archives,
}

MAX_FILES = 20
"""How many files one plan may touch by a grant; more is asked all the same."""

SHORT = 2
"""Words of so many letters name no folder."""

MAX_BYTES = 100_000_000
"""How many bytes."""


@executor(takes=None, gives=None, capability="grants:write", effect=True, reversible=True, only_with="allow")
def create_grants(
    run: Run,
    *,
    action: Annotated[Action, Arg("what is always allowed")],
    path: Annotated[Place, Arg("folder inside which it is allowed")],
) -> Effects:
    """Always allow one kind of action inside one folder."""
    if not run.scope.item(path).is_dir:
        raise Refusal("scope.not_dir", path=run.scope.shown(path))
    tool = ACTIONS[action]
    user = run.facts["user"].name
    if any((g.tool, g.folders, g.schedule) == (tool.name, (path,), None) for g in run.facts["grants"](user)):
        raise Refusal("grants.exists", what=say(f"deed.{tool.name}"), folder=run.scope.shown(path))
    grant = Grant(
        secrets.token_hex(4), user, tool.name, tool.capability, (str(path),), None, MAX_FILES, MAX_BYTES, run.now
    )
    return Effects((PutRecord("grants", grant.id, grant.to_json(), "grant", grant_blanks(grant, run)),))


def grant_blanks(grant: Grant, run: Run) -> dict[str, object]:
    """What the sentences about `grant` are filled with."""
    place = ", ".join(run.scope.shown(folder) for folder in grant.folders) or grant.recipient or ""
    size = human_size(grant.max_bytes)
    return {"tool": grant.tool, "name": place, "folder": place, "files": grant.max_files, "size": size}


@executor(takes=None, gives="entries", capability="grants:read")
def list_grants(run: Run) -> Found:
    """List what is always allowed without asking."""
    grants: list[Grant] = run.facts["grants"](run.facts["user"].name)
    entries = tuple(_entry(number, grant, run) for number, grant in enumerate(grants, 1))
    return Found(entries, note=None if entries else say("grants.none"))


def _entry(number: int, grant: Grant, run: Run) -> Entry:
    return Entry("entries", grant.to_json(), _said(number, grant, run))


def _said(number: int, grant: Grant, run: Run) -> Sentence:
    schedule = run.facts["schedules"].load(grant.schedule) if grant.schedule else None
    if grant.recipient is not None and schedule is not None:
        return say("grants.one_send", number=number, schedule=schedule.name, name=person_shown(grant.recipient))
    if schedule is not None:
        what = say(f"deed.{grant.tool}")
        return say("grants.one_scheduled", number=number, what=what, schedule=schedule.name, **grant_blanks(grant, run))
    return say("grants.one", number=number, what=say(f"deed.{grant.tool}"), **grant_blanks(grant, run))


@executor(takes=None, gives=None, capability="grants:revoke", effect=True, reversible=True)
def delete_grants(run: Run, *, query: Annotated[str | None, Arg("which permission", source="words")] = None) -> Effects:
    """Revoke what was always allowed."""
    grants: list[Grant] = run.facts["grants"](run.facts["user"].name)
    if not grants:
        raise Refusal("grants.none")
    found = _meant(grants, query, run)
    if len(found) > 1:
        lines = [_said(number, grant, run) for number, grant in enumerate(grants, 1) if grant in found]
        raise Question("grants.which", tuple(run.facts["lexicon"].say(line, run.lang) for line in lines))
    if not found:
        raise Refusal("grants.no_such", query=query)
    grant = found[0]
    return Effects((end_of(grant, run),))


def end_of(grant: Grant, run: Run) -> PutRecord:
    """The effect that ends `grant`."""
    about = "grant_end" if grant.recipient is None else "grant_send_end"
    return PutRecord("grants", grant.id, None, about, grant_blanks(grant, run))


def _meant(grants: list[Grant], query: str | None, run: Run) -> list[Grant]:
    if query is None:
        return grants
    if query.strip().isdecimal():
        number = int(query)
        return grants[number - 1 : number] if number else []
    tools, words = read_deeds(query, run.facts["lexicon"])
    found = [grant for grant in grants if not tools or grant.tool in tools]
    names = [word.casefold() for word in words if len(word) > SHORT]
    if not names:
        return found if tools else []
    exact = [grant for grant in found if any(name in _names(grant, run) for name in names)]
    return exact or [grant for grant in found if any(name in " ".join(_names(grant, run)) for name in names)]


def _names(grant: Grant, run: Run) -> list[str]:
    """What a grant is for, as a person reads it: the parts of its folders' names, and who is written to."""
    shown = [part for folder in grant.folders for part in run.scope.shown(folder).casefold().split("/")]
    return [*shown, (grant.recipient or "").casefold()]

"""Executors over schedules: reminders, plans for later, and what becomes of them."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from metnosd.arguments import Arg, NewPlace, Place, TimeRange
from metnosd.effects import Effect, PutRecord
from metnosd.entries import Entry
from metnosd.executor import Effects, Found, Run, executor
from metnosd.executors.grants import MAX_BYTES, MAX_FILES, end_of, grant_blanks
from metnosd.grants import Grant
from metnosd.lexicon.recurrence import Recurrence
from metnosd.lexicon.signals import read_deeds
from metnosd.lexicon.when import read_when
from metnosd.plan import Plan, Step, plan_from_json
from metnosd.pool import FINAL
from metnosd.resolve import ResolvedPlan, ResolvedStep
from metnosd.schedule import Schedule, recurrence_from_json
from metnosd.sentence import Question, Refusal, instant_said, say

LISTED_RUNS = 5
"""How many past runs of a schedule are told."""

MISSED_DAYS = 7
"""How far back "what did I miss?" looks."""

SHOWN_FIRES = 3

When = Annotated[Mapping[str, Any] | None, Arg("when", runtime=True)]


@executor(takes=None, gives="schedules", capability="schedule:write", effect=True, reversible=True, only_with="remind")
def create_reminders(
    run: Run, *, text: Annotated[str, Arg("what to be reminded of", "words")], when: When = None
) -> Effects:
    """Remind of something at a time, once or again and again."""
    if when is None:
        raise Refusal("schedule.when", text=text)
    plan = Plan((Step(FINAL, {"text": text}),))
    schedule = _made(run, plan, "reminder", when)
    return Effects((_put(schedule, "schedule", run),))


@executor(takes=None, gives="schedules", capability="schedule:write", effect=True, reversible=True, by_runtime=True)
def create_schedules(
    run: Run,
    *,
    plan: Annotated[Mapping[str, Any] | None, Arg("what is to be done", runtime=True)] = None,
    when: When = None,
) -> Effects:
    """Do something later, once or again and again."""
    if when is None or plan is None:
        raise Refusal("schedule.when", text=run.facts["context"].text)
    wanted = plan_from_json(plan)
    kind = "reminder" if all(step.tool == FINAL for step in wanted.steps) else "plan"
    schedule = _made(run, wanted, kind, when)
    resolved: ResolvedPlan = run.facts["resolve"](wanted)
    for outcome in resolved.done.values():
        if outcome.status in ("refused", "asked", "failed") and outcome.problems:
            raise Refusal(outcome.problems[0].key, **outcome.problems[0].values)
    grants = list(_grants(schedule, resolved, run))
    effects: list[Effect] = [_put(schedule, "schedule", run)]
    effects += [PutRecord("grants", g.id, g.to_json(), _grant_about(g), grant_blanks(g, run)) for g in grants]
    return Effects(tuple(effects), ask=say("schedule.ask") if grants else None)


def _made(run: Run, plan: Plan, kind: str, when: Mapping[str, Any]) -> Schedule:
    context = run.facts["context"]
    zone = getattr(context.user.zone, "key", "UTC")
    rule = when["recurrence"]
    schedule = Schedule(
        id=secrets.token_hex(4),
        user=context.user.name,
        channel=context.where[0],
        conversation=context.where[1],
        turn=context.turn,
        text=context.text,
        lang=run.lang,
        zone=zone,
        plan=plan,
        kind=kind,
        created_at=run.now,
        active_since=run.now,
        recurrence=recurrence_from_json(rule, ZoneInfo(zone)) if rule else None,
        at=datetime.fromisoformat(when["at"]) if when["at"] else None,
        late=when.get("late") or "run",
        late_s=run.facts["late_s"][kind],
        only_if=when.get("only_if"),
    )
    if next(schedule.fires(run.now), None) is None:
        raise Refusal("schedule.never")
    return schedule


def _grants(schedule: Schedule, resolved: ResolvedPlan, run: Run) -> Iterator[Grant]:
    """The leave that the plan needs at each fire, for each step that would be asked."""
    registry = run.facts["registry"]
    folders = _folders(schedule.plan, resolved, run)
    for step in schedule.plan.steps:
        tool = registry[step.tool]
        verdict = run.facts["judge"](tool.capability, run.facts["user"])
        if verdict.answer == "deny":
            raise Refusal(verdict.reason.key, **verdict.reason.values)
        now = [pending for pending in resolved.pending if pending.tool == step.tool]
        recipient = _recipient(now)
        new = recipient is not None and run.facts["known"](schedule.user, recipient) == "new"
        if not tool.effect or (verdict.answer != "ask" and not new):
            continue
        files = max([MAX_FILES, *(2 * pending.files for pending in now)])
        size = max([MAX_BYTES, *(2 * pending.bytes for pending in now)])
        for capability in tool.capability.split():
            yield Grant(
                secrets.token_hex(4),
                schedule.user,
                tool.name,
                capability,
                folders if recipient is None else (),
                recipient,
                files,
                size,
                run.now,
                schedule.id,
                schedule.digest,
                run.facts["policy"](),
            )


def _grant_about(grant: Grant) -> str:
    return "grant_run" if grant.recipient is None else "grant_send"


def _recipient(steps: list[ResolvedStep]) -> str | None:
    """The one who gets to see something by `steps`; what goes to several has no grant, and is asked each time."""
    found = {name for step in steps for effect in step.effects for name in effect.recipients()}
    return found.pop() if len(found) == 1 else None


def _folders(plan: Plan, resolved: ResolvedPlan, run: Run) -> tuple[str, ...]:
    """The folders that the plan names, those of what it would touch now, or else the user's own."""
    registry = run.facts["registry"]
    found: dict[str, None] = {}
    for step in plan.steps:
        hints = registry[step.tool].hints
        for name, value in run.facts["arguments"](step).items():
            if hints[name] in (Place, NewPlace):
                path = str(value)
                found[path if not os.path.splitext(path)[1] else os.path.dirname(path)] = None
    for pending in resolved.pending:
        for effect in pending.effects:
            for path in (*effect.reads(), *effect.writes()):
                if not any(path == one or path.startswith(one.rstrip("/") + "/") for one in found):
                    found[os.path.dirname(path)] = None
    if not found:
        found = dict.fromkeys(run.scope.roots)
    return tuple(found)


def _put(schedule: Schedule, about: str, run: Run) -> PutRecord:
    return PutRecord("schedules", schedule.id, schedule.to_json(), about, schedule_blanks(schedule, run.now))


def schedule_blanks(schedule: Schedule, now: datetime) -> dict[str, object]:
    """What the sentences about `schedule` are filled with: its name, zone, next fires and lateness."""
    upcoming = list(islice(schedule.fires(now), SHOWN_FIRES))
    change = _next_change(schedule.zone, now)
    after = next(schedule.fires(change), None) if change is not None and schedule.at is None else None
    return {
        "name": schedule.name,
        "zone": schedule.zone,
        "fires": [fire.isoformat() for fire in upcoming],
        "after_change": after.isoformat() if after is not None and after not in upcoming else None,
        "late": schedule.late,
        "late_minutes": int(schedule.late_s // 60),
        "only_if": dict(schedule.only_if) if schedule.only_if else None,
    }


def _next_change(zone: str, now: datetime) -> datetime | None:
    """The first day within a year on which the clocks of `zone` stand differently than now."""
    local = now.astimezone(ZoneInfo(zone))
    for days in range(1, 366):
        later = (now + timedelta(days=days)).astimezone(ZoneInfo(zone))
        if later.utcoffset() != local.utcoffset():
            return later
    return None


What = Literal["schedules", "runs", "missed"]


@executor(takes=None, gives="schedules", capability="schedule:read")
def list_schedules(
    run: Run,
    *,
    query: Annotated[str | None, Arg("which ones", "words")] = None,
    what: Annotated[What, Arg("the schedules, their past runs, or what was missed")] = "schedules",
) -> Found:
    """List reminders and schedules with their next times, or what they did."""
    if what == "missed":
        return _missed(run)
    found = _of_user(run)
    span = read_range_in(query, run) if query else None
    if span is not None:
        found = [item for item in found if _is_due(item, span, run)]
        if not found:
            return Found((), note=say("schedule.none_then"))
    elif query:
        found = _fitting(found, query, run) if what == "runs" else _fitting(found, query, run) or found
    if what == "runs":
        return _runs(found, run)
    entries = tuple(_entry(number, schedule, run) for number, schedule in enumerate(found, 1))
    return Found(entries, note=None if entries else say("schedule.none"))


def read_range_in(query: str, run: Run) -> TimeRange | None:
    """The stretch of time that `query` speaks of, if any."""
    lexicon = run.facts["lexicon"]
    languages = (lexicon.language(run.lang), *(item for item in lexicon.languages if item.code != run.lang))
    return read_when(query, languages, run.now, run.zone).range


def _is_due(schedule: Schedule, span: TimeRange, run: Run) -> bool:
    """Whether an active schedule fires within `span` and after now."""
    start = max(span.start or run.now, run.now)
    fire = next(schedule.fires(start - timedelta(seconds=1)), None) if schedule.state == "active" else None
    return fire is not None and (span.end is None or fire < span.end)


def _of_user(run: Run, *, ended: bool = False) -> list[Schedule]:
    found: list[Schedule] = run.facts["schedules"].of_user(run.facts["user"].name)
    return [item for item in found if ended or item.state in ("active", "paused")]


def _entry(number: int, schedule: Schedule, run: Run) -> Entry:
    fires = schedule.fires(run.now) if schedule.state == "active" else iter(())
    upcoming = next(fires, None)
    fields: dict[str, object] = {"id": schedule.id, "text": schedule.text, "state": schedule.state}
    if upcoming is None:
        return Entry("schedules", fields, say("schedule.one_paused", number=number, name=schedule.name))
    fields["next"] = upcoming
    shown = say("schedule.one", number=number, name=schedule.name, fire=instant_said(upcoming))
    return Entry("schedules", fields, shown)


def _missed(run: Run) -> Found:
    mine = {item.id: item for item in _of_user(run, ended=True)}
    since = run.now - timedelta(days=MISSED_DAYS)
    runs = run.facts["ledger"].runs_since(list(mine), since, ("missed", "skipped", "unknown", "failed"))
    entries = tuple(_run_entry(item, mine[item.schedule], run) for item in runs)
    return Found(entries, note=None if entries else say("schedule.none_missed"))


def _runs(found: list[Schedule], run: Run) -> Found:
    if not found:
        raise Refusal("schedule.no_such")
    ledger = run.facts["ledger"]
    entries = tuple(_run_entry(item, one, run) for one in found for item in ledger.runs_of(one.id, LISTED_RUNS))
    return Found(entries, note=None if entries else say("schedule.no_runs"))


def _run_entry(item: Any, schedule: Schedule, run: Run) -> Entry:
    due = item.due.astimezone(ZoneInfo(schedule.zone))
    shown = say(f"run.{item.state}", name=schedule.name, fire=instant_said(due))
    fields = {"id": schedule.id, "due_at": due, "state": item.state, "late_s": item.late_s}
    return Entry("entries", fields, shown)


@executor(takes=None, gives="schedules", capability="schedule:write", effect=True, reversible=True)
def change_schedules(
    run: Run,
    *,
    query: Annotated[str | None, Arg("which one", "words")] = None,
    when: When = None,
    text: Annotated[str | None, Arg("its new words", "words")] = None,
) -> Effects:
    """Change the time or the words of a reminder or schedule."""
    schedule = _the_one(run, query)
    if when is None and text is None:
        raise Refusal("schedule.change_what", name=schedule.name)
    new = replace(schedule, turn=run.facts["context"].turn)
    if when is not None:
        recurrence, at = _new_time(schedule, when)
        new = replace(new, recurrence=recurrence, at=at, state="active", active_since=run.now)
        if next(new.fires(run.now), None) is None:
            raise Refusal("schedule.never")
    if text is not None and (when is None or schedule.kind == "reminder"):
        if schedule.kind != "reminder":
            raise Refusal("schedule.words_of_plan", name=schedule.name)
        new = replace(new, plan=Plan((Step(FINAL, {"text": text}),)), text=text)
    return Effects((_put(new, "schedule_change", run),))


def _new_time(schedule: Schedule, when: Mapping[str, Any]) -> tuple[Recurrence | None, datetime | None]:
    """The rule or instant of `schedule` after a change to `when`; a time of day moves a rule, and keeps it."""
    zone = ZoneInfo(schedule.zone)
    if when["recurrence"]:
        return recurrence_from_json(when["recurrence"], zone), None
    at = datetime.fromisoformat(when["at"])
    rule = schedule.recurrence
    if rule is None or any("BYHOUR" in part or "HOURLY" in part or "MINUTELY" in part for part in rule.rules):
        return None, at
    clock = at.astimezone(zone).time().replace(tzinfo=None)
    return replace(rule, start=datetime.combine(rule.start.date(), clock)), None


@executor(takes=None, gives="schedules", capability="schedule:write", effect=True, reversible=True)
def pause_schedules(run: Run, *, query: Annotated[str | None, Arg("which one", "words")] = None) -> Effects:
    """Pause a reminder or schedule."""
    schedule = _the_one(run, query)
    if schedule.state == "paused":
        raise Refusal("schedule.paused_already", name=schedule.name)
    return Effects((_put(replace(schedule, state="paused"), "schedule_pause", run),))


@executor(takes=None, gives="schedules", capability="schedule:write", effect=True, reversible=True)
def resume_schedules(run: Run, *, query: Annotated[str | None, Arg("which one", "words")] = None) -> Effects:
    """Resume a paused reminder or schedule."""
    paused = [schedule for schedule in _of_user(run) if schedule.state == "paused"]
    if not paused:
        raise Refusal("schedule.none_paused")
    schedule = _the_one(run, query, paused)
    new = replace(schedule, state="active", active_since=run.now.astimezone(UTC), failures=0, quiet_until=None)
    return Effects((_put(new, "schedule_resume", run),))


@executor(takes=None, gives="schedules", capability="schedule:run")
def run_schedules(run: Run, *, query: Annotated[str | None, Arg("which one", "words")] = None) -> Found:
    """Run a schedule now, outside its times."""
    schedule = _the_one(run, query)
    if not run.facts["run_now"](schedule.id):
        raise Refusal("schedule.cannot_run", name=schedule.name)
    return Found((), note=say("schedule.runs_now", name=schedule.name))


@executor(takes=None, gives="schedules", capability="schedule:write", effect=True, reversible=True)
def delete_schedules(run: Run, *, query: Annotated[str | None, Arg("which one", "words")] = None) -> Effects:
    """Delete a reminder or schedule."""
    schedule = _the_one(run, query)
    put = PutRecord("schedules", schedule.id, None, "schedule_end", schedule_blanks(schedule, run.now))
    grants = [grant for grant in run.facts["grants"](schedule.user) if grant.schedule == schedule.id]
    return Effects((put, *(end_of(grant, run) for grant in grants)))


def _the_one(run: Run, query: str | None, among: list[Schedule] | None = None) -> Schedule:
    """The schedule that `query` means. Raises Refusal for none, Question where several fit."""
    mine = _of_user(run) if among is None else among
    if not mine:
        raise Refusal("schedule.none")
    found = _fitting(mine, query, run) if query else mine
    if not found:
        raise Refusal("schedule.no_such")
    if len(found) > 1:
        here = [item for item in found if (item.channel, item.conversation) == run.facts["context"].where]
        if query is None and here:
            return here[-1]
        names = tuple(item.name for item in found)
        raise Question("schedule.which", tuple(dict.fromkeys(names)))
    return found[0]


def _fitting(schedules: list[Schedule], query: str, run: Run) -> list[Schedule]:
    """Those that share the most words with `query`; a number names the one in the list."""
    if query.strip().isdecimal() and 0 < int(query) <= len(schedules):
        return [schedules[int(query) - 1]]
    words = [word.casefold() for word in read_deeds(query, run.facts["lexicon"])[1] if len(word) > 1]
    if not words:
        return schedules
    scores = {item.id: _shared(words, f"{item.text} {item.name}") for item in schedules}
    best = max(scores.values(), default=0)
    return [item for item in schedules if scores[item.id] == best > 0]


def _shared(words: list[str], text: str) -> int:
    said = re.findall(r"\w+", text.casefold())
    return sum(any(part.startswith(word) for part in said) for word in words)


SCHEDULE_EXECUTORS = (
    create_reminders,
    create_schedules,
    list_schedules,
    change_schedules,
    pause_schedules,
    resume_schedules,
    run_schedules,
    delete_schedules,
)
"""In the order in which they are listed and described to the model."""

"""From what a message says of time to plans that are kept for later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, time
from typing import Any

from metnosd.lexicon.clocks import Habits
from metnosd.lexicon.recurrence import instant
from metnosd.plan import Plan, Step
from metnosd.schedule import recurrence_to_json
from metnosd.sentence import Sentence, say
from metnosd.timing import Timing

TIMED = ("change_schedules", "create_reminders")
"""Executors whose time the runtime sets from the words of the message."""


def question_of_time(timing: Timing) -> Sentence | None:
    """What has to be asked before anything can be kept for later; None where nothing has to."""
    if timing.intent == "unclear":
        return timing.when.question or say("schedule.when", text=timing.text)
    if timing.intent == "past":
        return say("time.past")
    return say("schedule.when", text=timing.text) if timing.intent == "when" else None


def reminder_of(timing: Timing, last: Callable[[], str | None], habits: Habits) -> Plan | None:
    """The plan of a reminder, or of one put off ("in 10 minutes" after it came); None where it is none."""
    if timing.intent not in ("remind", "later"):
        return None
    text = timing.text if timing.intent == "remind" else ""
    if not timing.text:
        # "In 10 minutes" puts off what has just come; "wake me at 7" says all there is to say.
        text = last() or (timing.said if timing.intent == "remind" else "")
    if not text:
        return None
    return Plan((Step("create_reminders", {"text": text, "when": when_to_json(timing, habits)}),))


def kept_for_later(plan: Plan, timing: Timing, habits: Habits) -> Plan:
    """The plan that stores `plan` for the times that `timing` says."""
    return Plan((Step("create_schedules", {"plan": plan.to_json(), "when": when_to_json(timing, habits)}),))


def with_times(plan: Plan, timing: Timing, habits: Habits) -> Plan:
    """`plan` with the time of the message in each step whose time the runtime sets."""
    when = when_to_json(timing, habits)
    if when["recurrence"] is None and when["at"] is None:
        return plan
    return Plan(tuple(_timed(step, timing, when) if step.tool in TIMED else step for step in plan.steps))


def _timed(step: Step, timing: Timing, when: Mapping[str, Any]) -> Step:
    args = dict(step.args) | {"when": when}
    query = args.get("query")
    if isinstance(query, str):
        # What says when does not say which.
        for start, end in timing.when.spans:
            query = query.replace(timing.said[start:end], " ")
        args["query"] = query.strip()
    return replace(step, args={name: value for name, value in args.items() if value != ""})


def when_to_json(timing: Timing, habits: Habits) -> dict[str, Any]:
    """The time of `timing` as an argument: a rule or one instant. A day stands for its usual time of day."""
    when = timing.when
    at = when.at
    if when.kind == "range" and when.range is not None and when.range.start is not None:
        start = when.range.start
        day = datetime.combine(start.date(), time(habits.day.hour, habits.day.minute))
        at = instant(day, start.tzinfo) if start.tzinfo else None
    return {
        "recurrence": recurrence_to_json(when.recurrence) if when.recurrence is not None else None,
        "at": at.astimezone(UTC).isoformat() if at is not None else None,
        "late": timing.late,
        "only_if": dict(timing.only_if) if timing.only_if else None,
    }


def shown_when(timing: Timing, now: datetime, count: int = 3) -> Mapping[str, Any]:
    """The `when` of a plan, for programs."""
    when = timing.when
    rules = when.recurrence.rrules() if when.recurrence is not None else []
    return {"kind": when.kind, "rrules": rules, "next": [fire.isoformat() for fire in when.fires(now, count)]}


def meets(only_if: Mapping[str, Any] | None, outcome: Mapping[str, Any]) -> bool:
    """Whether the result `outcome` (JSON) is one that was asked to be told."""
    if not only_if or outcome["status"] in ("failed", "partial", "refused"):
        return True
    steps = outcome["steps"]
    count = _count(steps[-1]) if steps else 0
    bound = int(only_if["count"])
    return count > bound if only_if["op"] == "gt" else count < bound


def _count(step: Mapping[str, Any]) -> int:
    """How much a step found: the number it counted, else the number of its entries."""
    entries = step["entries"]
    if len(entries) == 1 and isinstance(entries[0].get("count"), int):
        return int(entries[0]["count"])
    return int(step["count"])

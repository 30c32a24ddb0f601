"""What a message would lead to, with nothing run: `metnosd plan`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from metnosd.entering import read_message, turn_pool
from metnosd.executor import Executor
from metnosd.lexicon.spans import places_of, read_spans
from metnosd.message import Message
from metnosd.model.service import ModelError
from metnosd.parts import Parts
from metnosd.plan import Plan, PlanError
from metnosd.planner import Planned, grammar_digest
from metnosd.pool import Pool
from metnosd.resolve import Context, ResolvedPlan, ResolvedStep
from metnosd.resolve_args import Reading, resolve_arguments, to_plain
from metnosd.scheduling import reminder_of, shown_when
from metnosd.sentence import Refusal
from metnosd.timing import read_timing


async def preview(parts: Parts, message: Message, *, use_model: bool) -> dict[str, Any]:
    """Every stage up to the verdict. No step is run: unknown targets are null, the verdict is provisional."""
    started = time.monotonic()
    said = message.text
    signals = read_message(message, parts.lexicon)
    read = time.monotonic()
    last = await asyncio.to_thread(parts.turns.last_entries, message.user.name, message.channel, message.conversation)
    context = Context("plan", message.user, signals.lang, message.received_at, last)
    reading = Reading(parts.lexicon, context.now, parts.scope(context))
    timing = read_timing(message.text, signals, parts.lexicon, context.now, context.user.zone, parts.habits)
    reminder = reminder_of(timing, lambda: None, parts.habits)
    later = timing.intent == "later" and bool(timing.text)
    if later:
        message = replace(message, text=timing.text)
        signals = read_message(message, parts.lexicon, signals.lang)
    spans = read_spans(message.text, parts.lexicon, parts.kinds, signals.lang)
    pool = turn_pool(parts, signals, context, message)
    pooled = time.monotonic()
    shown: dict[str, Any] = {
        "text": said,
        "lang": signals.lang,
        "signals": {
            "signal": signals.signal,
            "count": signals.count,
            "scores": signals.scores,
            "within": sorted(signals.within),
            "providers": signals.providers,
            "spans": spans,
            "places": places_of(message.text, spans),
        },
        "pool": list(pool.names),
        "grammar_sha256": grammar_digest(parts.planner.grammar(pool, spans)),
        "constraint": parts.planner.constraint,
        "plan": None,
        "resolved": None,
        "verdict": None,
        "path": "model",
        "timings_ms": {"signals": (read - started) * 1000, "pool": (pooled - read) * 1000},
    }
    plan = reminder or parts.planner.fast(signals, pool)
    unusable = parts.vaglio.unusable(context.now)
    if unusable is not None:
        return shown | {"verdict": unusable.to_json()}
    if plan is not None:
        shown |= {"path": "fast"} | await asyncio.to_thread(_from_plan, plan, parts, context, reading)
    elif use_model:
        shown |= await _with_model(parts, message, pool, spans, reading, context, shown["timings_ms"])
    if later and shown["plan"] is not None:
        shown["plan"] = dict(shown["plan"]) | {"when": shown_when(timing, context.now)}
    if reminder is not None:
        shown["when"] = shown_when(timing, context.now)
    shown["timings_ms"]["total"] = (time.monotonic() - started) * 1000
    return shown


async def _with_model(
    parts: Parts,
    message: Message,
    pool: Pool,
    spans: Mapping[str, tuple[str, ...]],
    reading: Reading,
    context: Context,
    timings: dict[str, float],
) -> dict[str, Any]:
    try:
        planned: Planned = await parts.planner.plan(message.text, pool, spans, reading, last_count=len(context.last))
    except PlanError as error:
        return {"error": {"code": "plan", "message": str(error)}}
    except ModelError as error:
        return {"error": {"code": error.code, "message": str(error)}}
    timings |= planned.timings_ms
    return {"attempts": planned.attempts} | _from_plan(planned.plan, parts, context, reading)


def _from_plan(plan: Plan, parts: Parts, context: Context, reading: Reading) -> dict[str, Any]:
    steps = []
    pending = []
    for index, step in enumerate(plan.steps, 1):
        executor = parts.registry[step.tool]
        args, problem = _resolved_args(executor, step.args, reading, parts, context)
        shown: dict[str, Any] = {"index": index, "tool": step.tool, "args": args}
        if executor.effect:
            shown["effects"] = None
            pending.append(ResolvedStep(index, step.tool, executor.capability, args or {}, ()))
        if problem is not None:
            shown["problem"] = problem
        steps.append(shown)
    verdict = parts.vaglio.judge(ResolvedPlan(plan, {}, tuple(pending)), parts.case(context, "message"))
    for step in plan.steps:
        executor = parts.registry[step.tool]
        refusal = None if executor.effect else parts.vaglio.may_read(executor, context.user)
        if refusal is not None:
            verdict = parts.vaglio.judge_capability(executor.capability, context.user)
    return {
        "plan": plan.to_json(),
        "resolved": {"steps": steps},
        "verdict": verdict.to_json() | {"provisional": bool(pending)},
    }


def _resolved_args(
    executor: Executor, args: Mapping[str, Any], reading: Reading, parts: Parts, context: Context
) -> tuple[dict[str, object] | None, str | None]:
    try:
        resolved = resolve_arguments(executor, args, reading)
    except Refusal as error:
        return None, parts.lexicon.say(error.sentence, context.lang)
    return {name: to_plain(value) for name, value in resolved.items()}, None

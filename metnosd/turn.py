"""One turn: the whole path of a message, from `Message` to `Reply`.

Message → Signals → Pool → Plan → ResolvedPlan → Verdict → (consent) → Outcome → Reply
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import structlog

from metnosd.consent import Consent
from metnosd.entering import not_allowed, read_message, turn_pool
from metnosd.entries import Outcome, Status, StepOutcome
from metnosd.executor import Cancelled
from metnosd.leave import Leave, Withheld
from metnosd.lexicon.signals import Signals
from metnosd.lexicon.spans import read_spans
from metnosd.message import Message, Reply
from metnosd.model.service import TOLD_CODES, ModelError
from metnosd.parts import Parts
from metnosd.plan import Plan, PlanError, Step
from metnosd.planner import Planned, is_only_words
from metnosd.pointing import deed_on, pointed_by
from metnosd.pool import FINAL, Pool, reached_effects
from metnosd.redact import MARK
from metnosd.reply import Voice, outcome_of
from metnosd.resolve import Context, ResolvedPlan
from metnosd.resolve_args import Reading
from metnosd.scheduling import kept_for_later, question_of_time, reminder_of, with_times
from metnosd.sentence import Sentence, say
from metnosd.service import Progress, Tell
from metnosd.timing import Timing, read_timing
from metnosd.turns import KEPT_ENTRIES
from metnosd.vaglio import Origin

log = structlog.get_logger(__name__)

T = TypeVar("T")

PROGRESS_SECONDS = 1.0
"""How often a message that waits for the model looks how far that is."""


class Turn:
    """A turn that is under way: who hears of it, and how it is stopped or answered."""

    def __init__(self, parts: Parts, context: Context, message: Message, signals: Signals, tell: Tell) -> None:
        self._parts = parts
        self.context = context
        self._message = message
        self._signals = signals
        self._tell = tell
        self._stage: asyncio.Task[Any] | None = None
        self._finished: dict[int, StepOutcome] = {}
        self._voice = Voice(parts.lexicon, context.lang, context.user.zone, context.user.home)
        self._origin: Origin = "message"
        self._spent = (0, 0)
        self.leave = Leave(parts, context, message, self._voice, tell)
        self._effects = frozenset(item.name for item in parts.registry if item.effect)

    async def take(self) -> Reply:
        """The whole path. Every way out is a reply; only cancellation of the task is an exception."""
        return await self._guarded(self._take)

    async def _take(self) -> Reply:
        if not self._message.text:
            outside = self._message.outside
            return await self._end(Outcome("asked", (), say("message.what_with", count=len(outside))))
        parts, timing = self._parts, self.timing()
        question = question_of_time(timing)
        if question is not None:
            return await self._end(Outcome("asked", (), question))
        reminder = await asyncio.to_thread(reminder_of, timing, lambda: parts.last_reminder(self.context), parts.habits)
        if reminder is not None:
            return await self._carry_out(reminder, {}, None)
        if timing.intent == "later" and not timing.text:
            return await self._end(Outcome("asked", (), say("schedule.what")))
        if timing.intent == "later":
            # What is kept for later is planned without the words that say when.
            self._message = replace(self._message, text=timing.text)
            self._signals = read_message(self._message, parts.lexicon, self.context.lang)
        if self._signals.signal == "show_all" and self.context.last:
            self._voice.shown = KEPT_ENTRIES
            listed = StepOutcome("list_entries", "done", self.context.last)
            return await self._end(Outcome("done", (listed,)))
        pointed = await asyncio.to_thread(
            pointed_by, self._message, self._signals, self.context, parts.lexicon, parts.turns
        )
        if pointed is not None and pointed.problem is not None:
            return await self._end(Outcome("asked", (), pointed.problem))
        if pointed is not None and pointed.some:
            self.context = replace(self.context, last=pointed.entries)
            self._message = replace(self._message, text=pointed.text)
            if pointed.alone:
                listed = StepOutcome("list_entries", "done", pointed.entries)
                return await self._end(Outcome("done", (listed,)))
        denied = not_allowed(parts, self._signals, self.context.user)
        if denied is not None:
            return await self._end(Outcome("refused", (), denied))
        pool = turn_pool(parts, self._signals, self.context, self._message, some=pointed is not None and pointed.some)
        planned = await self._stoppable(self._plan(pool))
        unable = self._cannot(planned.plan)
        if unable is not None:
            return await self._end(Outcome("refused", (), unable))
        if timing.intent == "later":
            return await self._carry_out(self._for_later(planned.plan, timing), {}, None)
        plan = with_times(planned.plan, timing, parts.habits)
        return await self._carry_out(plan, {}, self._words_warning(planned, pool))

    def _cannot(self, plan: Plan) -> Sentence | None:
        """Why a plan that changes something must not be carried out, though it is a plan: it leaves out what
        the message excludes, or would write the mark that stands for a secret."""
        if not any(step.tool in self._effects for step in plan.steps):
            return None
        if MARK in self._message.text:
            return say("message.secret")
        return say("plan.no_except") if "except" in self._signals.within else None

    def timing(self) -> Timing:
        """What the message says of time."""
        parts, context = self._parts, self.context
        zone = context.user.zone
        return read_timing(self._message.text, self._signals, parts.lexicon, context.now, zone, parts.habits)

    def _for_later(self, plan: Plan, timing: Timing) -> Plan:
        """The plan that keeps `plan`; one that only answers in words becomes a reminder of the words said."""
        if is_only_words(plan):
            plan = Plan((Step(FINAL, {"text": timing.text}),))
        return kept_for_later(plan, timing, self._parts.habits)

    async def fire(self, plan: Plan, asked: Consent | None = None) -> Reply:
        """Carry out the plan of a schedule that is due: resolved, judged and asked afresh, not planned anew.

        `asked` is the question that it came to before a restart; it is put again.
        """
        self._origin = "schedule"
        if asked is not None:
            return await self.ask_again(asked)
        return await self._guarded(lambda: self._carry_out(plan, {}, None))

    async def lapse(self) -> Reply:
        """End a turn whose question got no answer in time."""
        return await self._end(Outcome("refused", (), say("consent.expired")))

    async def resume(self, consent: Consent) -> Reply:
        """Go on after a question that was answered, as it was stored; asked again if something has changed since."""
        stored = consent.resolved

        async def way() -> Reply:
            steps = _in_order(stored.done)
            verdict = await self.leave.judge(stored)
            if verdict.answer == "deny":
                # The policy was changed since the question was put.
                return await self._end(Outcome("refused", steps, verdict.reason))
            approved, changed = await self.leave.look_again(stored.choose(consent.state))
            if changed:
                return await self._go_on_with(approved, changed=changed)
            return await self._carry_out(stored.plan, stored.done, None, approved)

        return await self._guarded(way)

    async def _guarded(self, way: Callable[[], Awaitable[Reply]]) -> Reply:
        try:
            unusable = await asyncio.to_thread(self._parts.vaglio.unusable, self._parts.clock())
            if unusable is not None:
                return await self._end(self._so_far("refused", unusable.reason))
            return await way()
        except PlanError as error:
            log.info("no_plan", turn=self.context.turn, problem=str(error))
            reason = say("plan.cut_off" if error.truncated else "plan.none", count=len(error.kept))
        except ModelError as error:
            log.warning("model_error", turn=self.context.turn, code=error.code, error=str(error))
            known = f"model.{error.code}" if error.code in TOLD_CODES else "model.failed"
            reason = say(known, reason=str(error))
        except Cancelled:
            return await self._end(self._so_far("refused", say("turn.cancelled")))
        except Exception:  # a turn's edge: its fault must not take the daemon down
            log.exception("turn_failed", turn=self.context.turn)
            reason = say("turn.failed")
        return await self._end(self._so_far("failed", reason))

    def _so_far(self, status: Status, reason: Sentence) -> Outcome:
        """The outcome of a turn that ends early: what was done stays named."""
        steps = _in_order(self._finished)
        acted = any(step.tool in self._effects and step.entries for step in steps)
        return Outcome("partial" if acted else status, steps, reason)

    async def _stoppable(self, stage: Coroutine[Any, Any, T]) -> T:
        """The result of `stage`; raises `Cancelled` when the turn is cancelled meanwhile."""
        if self.context.cancelled.is_set():
            stage.close()
            raise Cancelled
        task = asyncio.create_task(stage)
        self._stage = task
        try:
            return await task
        except asyncio.CancelledError:
            if self.context.cancelled.is_set():
                raise Cancelled from None
            task.cancel()
            raise
        finally:
            self._stage = None

    async def refuse(self, consent: Consent) -> Reply:
        """End a turn whose stored question was answered with no."""
        return await self._end(self._without_leave(_in_order(consent.resolved.done), Withheld(say("consent.no"))))

    async def ask_again(self, consent: Consent) -> Reply:
        """Put a stored question once more, to somebody who sent the message again, and go on with the answer."""
        return await self._guarded(lambda: self._go_on_with(consent.resolved, asked=consent))

    async def _go_on_with(
        self, resolved: ResolvedPlan, *, asked: Consent | None = None, changed: Sequence[Sentence] = ()
    ) -> Reply:
        """Carry on from `resolved` if leave is given; see `Leave.get`."""
        granted = await self._stoppable(self.leave.get(resolved, self._origin, asked, changed))
        if isinstance(granted, Withheld):
            return await self._end(self._without_leave(_in_order(resolved.done), granted))
        return await self._carry_out(resolved.plan, resolved.done, None, granted)

    async def call(self, tool: str, args: Mapping[str, Any]) -> Reply:
        """The path from the plan on, for a plan of one step that a button or command stands for."""
        return await self._guarded(lambda: self._carry_out(Plan((Step(tool, args),)), {}, None))

    def cancel(self) -> None:
        """Stop as soon as nothing is left half done: planning and waiting end now, acting after its effect."""
        self.context.cancelled.set()
        if self._stage is not None:
            self._stage.cancel()

    async def _plan(self, pool: Pool) -> Planned:
        plan = self._parts.planner.fast(self._signals, pool) or deed_on(
            self._message.text, self._signals, self._parts.lexicon, pool, self.context.last
        )
        if plan is not None:
            return Planned(plan, "fast")
        self._tell(Progress("planning"))
        parts, context = self._parts, self.context
        waiting = asyncio.create_task(self._say_what_the_model_does())
        try:
            return await parts.planner.plan(
                self._message.text,
                pool,
                read_spans(self._message.text, parts.lexicon, parts.kinds, context.lang),
                Reading(parts.lexicon, context.now, parts.scope(context)),
                last_count=len(context.last),
                on_step=lambda: self._tell(Progress("planning_step")),
            )
        finally:
            waiting.cancel()

    async def _say_what_the_model_does(self) -> None:
        """While the model is fetched or loaded, say so, and again whenever that has moved on."""
        said = None
        while (state := self._parts.model_ready()) is not None:
            if state != said:
                self._tell(Progress("waiting_for_model", self._voice.say(state)))
            said = state
            await asyncio.sleep(PROGRESS_SECONDS)

    def _words_warning(self, planned: Planned, pool: Pool) -> Sentence | None:
        """What is said before an answer in words to a request that sounded like an action."""
        told = not self._signals.scores or reached_effects(pool, self._signals.scores)
        acts = is_only_words(planned.plan) and told
        return say("reply.only_words") if acts else None

    async def _carry_out(
        self,
        plan: Plan,
        done: Mapping[int, StepOutcome],
        warning: Sentence | None,
        approved: ResolvedPlan | None = None,
    ) -> Reply:
        """Resolve, judge, ask and act in turn, until every step has its outcome or one stops the plan."""
        self._finished = dict(done)
        while len(self._finished) < len(plan.steps):
            resolved = approved
            if resolved is None:
                self._tell(Progress("resolving"))
                resolved = await self._parts.resolver.resolve(
                    plan, self.context, self._finished, lambda stage, detail: self._tell(Progress(stage, detail))
                )
                resolved = replace(resolved, spent_files=self._spent[0], spent_bytes=self._spent[1])
            self._finished = dict(resolved.done)
            if not resolved.pending:
                break
            if approved is None:
                granted = await self._stoppable(self.leave.get(resolved, self._origin))
                if isinstance(granted, Withheld):
                    return await self._end(self._without_leave(_in_order(resolved.done), granted))
                resolved = granted
            approved = None
            self._tell(Progress("acting"))
            self._parts.turns.set_kind(self.context.turn, kind_of(plan))
            self._spent = (
                resolved.spent_files + sum(step.files for step in resolved.pending),
                resolved.spent_bytes + sum(step.bytes for step in resolved.pending),
            )
            for step in resolved.pending:
                self._finished[step.index] = await self._parts.actor.act(step, self.context)
                if self._finished[step.index].status == "failed":
                    break
            else:
                continue
            break
        steps = _in_order(self._finished)
        outcome = outcome_of(plan, steps, self._effects)
        if warning is not None:
            outcome = Outcome("nothing", steps, warning, outcome.text)
        return await self._end(outcome)

    def _without_leave(self, steps: tuple[StepOutcome, ...], withheld: Withheld) -> Outcome:
        """What became of a plan that may not go on."""
        acted = any(step.tool in self._effects and step.entries for step in steps)
        key = withheld.reason.key
        reason = say(f"{key}_rest") if acted and not withheld.denied else withheld.reason
        return Outcome("partial" if acted else "refused", steps, reason)

    def _clean(self, step: StepOutcome) -> StepOutcome:
        """`step` with the secrets taken out of its entries, also one that a text was cut off in."""
        redactor = self._parts.redactor
        entries = []
        for entry in step.entries:
            fields = redactor.json(entry.fields)
            if fields.get("truncated") and isinstance(fields.get("text"), str):
                fields["text"] = redactor.cut(fields["text"])
            entries.append(replace(entry, fields=fields))
        return replace(step, entries=tuple(entries))

    async def _end(self, outcome: Outcome) -> Reply:
        offer = await asyncio.to_thread(self._parts.undo_offer, self.context.turn)
        undid = any(step.tool == "undo_actions" and step.entries for step in outcome.steps)
        if undid:
            # "undo" said again goes on to the turn before; this one is taken back by "redo".
            offer = None
        outcome = replace(outcome, steps=tuple(self._clean(step) for step in outcome.steps))
        reply = self._voice.reply(outcome, offer, effects=self._effects, redo=undid)
        reply = Reply.from_json(self._parts.redactor.json(reply.to_json()))
        left = [step.entries for step in outcome.steps if step.tool != FINAL]
        entries = left[-1] if left else self.context.last if not self._message.text else None
        await asyncio.to_thread(self._parts.turns.end, self.context.turn, reply.to_json(), entries)
        return reply


def _in_order(done: Mapping[int, StepOutcome]) -> tuple[StepOutcome, ...]:
    return tuple(done[index] for index in sorted(done))


def kind_of(plan: Plan) -> str:
    """Whether a turn acts, undoes or redoes."""
    tools = {step.tool for step in plan.steps}
    return "undo" if "undo_actions" in tools else "redo" if "redo_actions" in tools else "act"

"""One turn: the whole path of a message, from `Message` to `Reply`.

Message → Signals → Pool → Plan → ResolvedPlan → Verdict → (consent) → Outcome → Reply
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import structlog

from metnosd.act import Actor, describe
from metnosd.consent import Consent, Consents
from metnosd.entries import Outcome, Status, StepOutcome
from metnosd.executor import Cancelled, Executor, Registry
from metnosd.kinds import Kinds
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.signals import Signals, read_signals
from metnosd.lexicon.spans import read_spans
from metnosd.message import ConsentRequest, Message, Reply, UndoOffer
from metnosd.model.service import TOLD_CODES, ModelError
from metnosd.plan import Plan, PlanError, Step
from metnosd.planner import Planned, Planner, is_only_words
from metnosd.pool import FINAL, Pool, make_pool, reached_effects
from metnosd.reply import Voice, outcome_of
from metnosd.resolve import Context, ResolvedPlan, Resolver
from metnosd.resolve_args import Reading
from metnosd.scope import Scope
from metnosd.sentence import Sentence, say
from metnosd.service import Progress, Tell
from metnosd.turns import Turns
from metnosd.user import User
from metnosd.vaglio import Vaglio, Verdict

log = structlog.get_logger(__name__)

T = TypeVar("T")

PROGRESS_SECONDS = 1.0
"""How often a message that waits for the model looks how far that is."""


@dataclass(frozen=True)
class Parts:
    """What a turn is made with; built once by `metnosd.daemon`."""

    lexicon: Lexicon
    kinds: Kinds
    registry: Registry
    planner: Planner
    resolver: Resolver
    vaglio: Vaglio
    consents: Consents
    actor: Actor
    turns: Turns
    may_use: Callable[[Executor, User], bool]
    scope: Callable[[Context], Scope]
    clock: Callable[[], datetime]
    undo_offer: Callable[[str], UndoOffer | None]
    model_ready: Callable[[], Sentence | None]


class Turn:
    """A turn that is under way: who hears of it, and how it is stopped or answered."""

    def __init__(self, parts: Parts, context: Context, message: Message, signals: Signals, tell: Tell) -> None:
        self._parts = parts
        self.context = context
        self._message = message
        self._signals = signals
        self._tell = tell
        self._answers: asyncio.Queue[bool] = asyncio.Queue()
        self._stage: asyncio.Task[Any] | None = None
        self._finished: dict[int, StepOutcome] = {}
        self.waiting_for: str | None = None
        self._voice = Voice(parts.lexicon, context.lang, context.user.zone, context.user.home)
        self._effects = frozenset(item.name for item in parts.registry if item.effect)

    async def take(self) -> Reply:
        """The whole path. Every way out is a reply; only cancellation of the task is an exception."""
        return await self._guarded(self._take)

    async def _take(self) -> Reply:
        pool = turn_pool(self._parts, self._signals, self.context, self._message.text)
        planned = await self._stoppable(self._plan(pool))
        return await self._carry_out(planned.plan, {}, self._words_warning(planned, pool))

    async def resume(self, consent: Consent) -> Reply:
        """Go on after a question that was answered with yes, as it was stored."""
        stored = consent.resolved

        async def way() -> Reply:
            verdict = self._parts.vaglio.judge(stored, self.context.user)
            if verdict.answer == "deny":
                # The policy was changed since the question was put.
                steps = tuple(stored.done[index] for index in sorted(stored.done))
                return await self._end(Outcome("refused", steps, verdict.reason))
            return await self._carry_out(stored.plan, stored.done, None, stored)

        return await self._guarded(way)

    async def _guarded(self, way: Callable[[], Awaitable[Reply]]) -> Reply:
        try:
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
        steps = tuple(self._finished[index] for index in sorted(self._finished))
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
        done = consent.resolved.done
        outcome = self._without_leave(tuple(done[index] for index in sorted(done)), False)
        assert outcome is not None
        return await self._end(outcome)

    async def ask_again(self, consent: Consent) -> Reply:
        """Put a stored question once more, to somebody who sent the message again, and go on with the answer."""
        stored = consent.resolved
        verdict = self._parts.vaglio.judge(stored, self.context.user)

        async def way() -> Reply:
            answer = await self._stoppable(self._ask(consent, stored, verdict))
            refused = self._without_leave(tuple(stored.done[i] for i in sorted(stored.done)), answer)
            if refused is not None:
                return await self._end(refused)
            return await self._carry_out(stored.plan, stored.done, None, stored)

        return await self._guarded(way)

    async def call(self, tool: str, args: Mapping[str, Any]) -> Reply:
        """The path from the plan on, for a plan of one step that a button or command stands for."""
        return await self._guarded(lambda: self._carry_out(Plan((Step(tool, args),)), {}, None))

    def cancel(self) -> None:
        """Stop as soon as nothing is left half done: planning and waiting end now, acting after its effect."""
        self.context.cancelled.set()
        if self._stage is not None:
            self._stage.cancel()

    def answer(self, yes: bool) -> None:
        """Hand the answer of the question `waiting_for` to the turn."""
        self._answers.put_nowait(yes)

    async def _plan(self, pool: Pool) -> Planned:
        plan = self._parts.planner.fast(self._signals, pool)
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
                resolved = await self._parts.resolver.resolve(plan, self.context, self._finished)
            self._finished = dict(resolved.done)
            if not resolved.pending:
                break
            if approved is None:
                refusal = await self._leave(resolved)
                if refusal is not None:
                    return await self._end(refusal)
            approved = None
            self._tell(Progress("acting"))
            self._parts.turns.set_kind(self.context.turn, kind_of(plan))
            for step in resolved.pending:
                self._finished[step.index] = await self._parts.actor.act(step, self.context)
                if self._finished[step.index].status == "failed":
                    break
            else:
                continue
            break
        steps = tuple(self._finished[index] for index in sorted(self._finished))
        outcome = outcome_of(plan, steps, self._effects)
        if warning is not None:
            outcome = Outcome("nothing", steps, warning, outcome.text)
        return await self._end(outcome)

    async def _leave(self, resolved: ResolvedPlan) -> Outcome | None:
        """None when `resolved` may be carried out; else what became of it."""
        verdict = self._parts.vaglio.judge(resolved, self.context.user)
        steps = tuple(resolved.done[index] for index in sorted(resolved.done))
        if verdict.answer == "allow":
            return None
        if verdict.answer == "deny":
            return Outcome("refused", steps, verdict.reason)
        consent = await asyncio.to_thread(
            self._parts.consents.ask,
            self.context.turn,
            self.context.user.name,
            self._message.conversation,
            resolved,
            self._parts.clock(),
        )
        answer = await self._stoppable(self._ask(consent, resolved, verdict))
        return self._without_leave(steps, answer)

    def _without_leave(self, steps: tuple[StepOutcome, ...], answer: bool | None) -> Outcome | None:
        """What became of a plan whose question got `answer`; None where it may go on."""
        if answer:
            return None
        acted = any(step.tool in self._effects and step.entries for step in steps)
        key = "consent.expired" if answer is None else "consent.no"
        return Outcome("partial" if acted else "refused", steps, say(f"{key}_rest" if acted else key))

    async def _ask(self, consent: Consent, resolved: ResolvedPlan, verdict: Verdict) -> bool | None:
        """Put the question; its answer, or None when none came in time."""
        self.waiting_for = consent.token
        await asyncio.to_thread(self._parts.turns.ask, self.context.turn)
        self._tell(
            ConsentRequest(
                message=self._message.id,
                token=consent.token,
                digest=consent.digest,
                text=self._question(resolved, verdict),
                steps=tuple(step.to_json() for step in resolved.pending),
                expires_at=consent.expires_at,
            )
        )
        try:
            async with asyncio.timeout((consent.expires_at - self._parts.clock()).total_seconds()):
                return await self._answers.get()
        except TimeoutError:
            if await asyncio.to_thread(self._parts.consents.expire, consent.token):
                return None
            return await self._answers.get()
        except asyncio.CancelledError:
            if self.context.cancelled.is_set():
                # Nobody waits for the answer any more, so none may be given.
                await asyncio.to_thread(self._parts.consents.expire, consent.token)
            raise
        finally:
            self.waiting_for = None

    def _question(self, resolved: ResolvedPlan, verdict: Verdict) -> str:
        """All that would be done, line by line: what is approved is what is read."""
        scope = self._parts.scope(self.context)
        lines = [self._voice.say(verdict.reason)]
        for step in resolved.pending:
            for effect in step.effects:
                lines.append(self._voice.say(say(f"ask.{effect.kind}", **describe(effect, scope))))
            lines += [self._voice.say(problem) for problem in step.problems]
        return "\n".join([*lines, self._voice.say(say("ask.go_ahead"))])

    async def _end(self, outcome: Outcome) -> Reply:
        offer = await asyncio.to_thread(self._parts.undo_offer, self.context.turn)
        undid = any(step.tool == "undo_actions" and step.entries for step in outcome.steps)
        if undid:
            # "undo" said again goes on to the turn before; this one is taken back by "redo".
            offer = None
        reply = self._voice.reply(outcome, offer, effects=self._effects, redo=undid)
        left = [step.entries for step in outcome.steps if step.tool != FINAL]
        entries = left[-1] if left else None
        await asyncio.to_thread(self._parts.turns.end, self.context.turn, reply.to_json(), entries)
        return reply


def kind_of(plan: Plan) -> str:
    """Whether a turn acts, undoes or redoes."""
    tools = {step.tool for step in plan.steps}
    return "undo" if "undo_actions" in tools else "redo" if "redo_actions" in tools else "act"


def turn_pool(parts: Parts, signals: Signals, context: Context, text: str) -> Pool:
    """The executors that this user may use for this turn.

    Only a message that points back ("delete them") and names nothing of its own may take the entries of the
    answer before: else a small model takes them in place of the files that were named.
    """
    kinds: tuple[str, ...] = ()
    if "back" in signals.within:
        spans = read_spans(text, parts.lexicon, parts.kinds, signals.lang)
        own = spans["kind"] or spans["category"] or any("." in path for path in spans["path"])
        kinds = () if own else kinds_of(context)
    return make_pool(parts.registry, signals, kinds, may_use=lambda item: parts.may_use(item, context.user))


def kinds_of(context: Context) -> tuple[str, ...]:
    """The kinds of the last outcome's entries, each once."""
    return tuple(dict.fromkeys(entry.kind for entry in context.last))


def read_message(message: Message, lexicon: Lexicon, prior: str | None = None) -> Signals:
    """The signals of `message`; `prior` is the language of the turn before."""
    return read_signals(message.text, lexicon, message.lang or message.user.lang, prior)


def new_turn_id() -> str:
    """An id for a turn; it says nothing."""
    return secrets.token_hex(8)

"""Leave to act: judges a resolved plan, asks where it must, and looks again before it is carried out."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from metnosd.consent import Consent, Consents
from metnosd.measure import changes, fix
from metnosd.message import ConsentRequest, Message
from metnosd.policy import PolicyError
from metnosd.question import choices_of, is_long, question_of
from metnosd.records import Records
from metnosd.redact import Redactor
from metnosd.reply import Voice
from metnosd.resolve import Context, ResolvedPlan
from metnosd.scope import Scope
from metnosd.sentence import Sentence, say
from metnosd.service import Tell
from metnosd.turns import Turns
from metnosd.vaglio import Case, Origin, Vaglio, Verdict

JUDGE_SECONDS = 10.0
"""How long a judgement may take; one that takes longer is a denial."""


class LeaveParts(Protocol):
    """What leave is made with."""

    @property
    def vaglio(self) -> Vaglio: ...
    @property
    def consents(self) -> Consents: ...
    @property
    def turns(self) -> Turns: ...
    @property
    def records(self) -> Records: ...
    @property
    def case(self) -> Callable[[Context, Origin], Case]: ...
    @property
    def scope(self) -> Callable[[Context], Scope]: ...
    @property
    def redactor(self) -> Redactor: ...
    @property
    def clock(self) -> Callable[[], datetime]: ...


@dataclass(frozen=True, slots=True)
class Withheld:
    """Why a plan may not be carried out; `denied` by the rules, else by the person's answer or silence."""

    reason: Sentence
    denied: bool = False


class Leave:
    """Gets leave for the plans of one turn. `waiting_for` is the token of the question that is open."""

    def __init__(self, parts: LeaveParts, context: Context, message: Message, voice: Voice, tell: Tell) -> None:
        self._parts = parts
        self._context = context
        self._message = message
        self._voice = voice
        self._tell = tell
        self._answers: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self.waiting_for: str | None = None

    async def judge(self, resolved: ResolvedPlan, origin: Origin = "message") -> Verdict:
        """Vaglio's verdict on `resolved`; what cannot be judged in time is denied."""
        parts = self._parts
        try:
            async with asyncio.timeout(JUDGE_SECONDS):
                case = await asyncio.to_thread(parts.case, self._context, origin)
                verdict = await asyncio.to_thread(parts.vaglio.judge, resolved, case)
        except (TimeoutError, sqlite3.Error, PolicyError) as error:
            verdict = parts.vaglio.fault(parts.clock(), error)
        await asyncio.to_thread(parts.turns.judged, self._context.turn, verdict.answer, verdict.rule)
        return verdict

    async def get(
        self,
        resolved: ResolvedPlan,
        origin: Origin = "message",
        asked: Consent | None = None,
        changed: Sequence[Sentence] = (),
    ) -> ResolvedPlan | Withheld:
        """What may be carried out, exactly as it was approved.

        `asked` is a question that is open already, `changed` what was changed since an answer: it is asked then.
        """
        while True:
            verdict = await self.judge(resolved, origin)
            if verdict.answer == "deny":
                return Withheld(verdict.reason, denied=True)
            if verdict.answer == "allow" and asked is None and not changed:
                return resolved
            consent = asked if asked is not None else await asyncio.to_thread(self._stored, resolved)
            asked = None
            answer = await self._ask(consent, [*changed, verdict.reason])
            if answer in (None, "no"):
                return Withheld(say("consent.no" if answer else "consent.expired"))
            assert answer is not None
            resolved, changed = await self.look_again(resolved.choose(answer))
            # The rules may have changed since the question was put, and a choice has effects of its own.
            verdict = await self.judge(resolved, origin)
            if verdict.answer == "deny":
                return Withheld(verdict.reason, denied=True)
            if not changed:
                return resolved

    def _stored(self, resolved: ResolvedPlan) -> Consent:
        where = (self._message.channel, self._message.conversation)
        turn, user = self._context.turn, self._context.user.name
        return self._parts.consents.ask(turn, user, where, resolved, self._parts.clock())

    async def look_again(self, resolved: ResolvedPlan) -> tuple[ResolvedPlan, list[Sentence]]:
        """`resolved` as it would be now, and what has changed since it was bound."""
        return await asyncio.to_thread(self._look_again, resolved)

    def _look_again(self, resolved: ResolvedPlan) -> tuple[ResolvedPlan, list[Sentence]]:
        scope = self._parts.scope(self._context)
        pending = []
        changed: list[Sentence] = []
        for step in resolved.pending:
            news = changes(step.effects, scope, self._parts.records)
            changed += news
            if news:
                loose = [
                    effect if effect.undoes is not None else replace(effect, expect=None) for effect in step.effects
                ]
                fixed = fix(loose, scope, lambda: None, self._parts.records)
                step = replace(
                    step,
                    effects=fixed.effects,
                    problems=(*step.problems, *fixed.problems),
                    files=fixed.files,
                    bytes=fixed.bytes,
                    overwrites=fixed.overwrites,
                )
            pending.append(step)
        return replace(resolved, pending=tuple(pending)) if changed else resolved, changed

    def answer(self, token: str, answer: str) -> None:
        """Hand in the answer to the question `token`, also just before it is waited for: yes, no or a choice."""
        self._answers.put_nowait((token, answer))

    async def _answer_to(self, token: str) -> str:
        while True:
            answered, answer = await self._answers.get()
            if answered == token:
                return answer

    async def _ask(self, consent: Consent, reasons: list[Sentence]) -> str | None:
        """Put the question; its answer, or None when none came in time."""
        self.waiting_for = consent.token
        await asyncio.to_thread(self._parts.turns.ask, self._context.turn)
        self._tell(self._request(consent, reasons))
        try:
            async with asyncio.timeout((consent.expires_at - self._parts.clock()).total_seconds()):
                return await self._answer_to(consent.token)
        except TimeoutError:
            if await asyncio.to_thread(self._parts.consents.expire, consent.token):
                return None
            return await self._answer_to(consent.token)
        except asyncio.CancelledError:
            if self._context.cancelled.is_set():
                # Nobody waits for the answer any more, so none may be given.
                await asyncio.to_thread(self._parts.consents.expire, consent.token)
            raise
        finally:
            self.waiting_for = None

    def _request(self, consent: Consent, reasons: list[Sentence]) -> ConsentRequest:
        resolved = consent.resolved
        scope = self._parts.scope(self._context)
        redactor = self._parts.redactor
        full = question_of(resolved, reasons, self._voice, scope, whole=True) if is_long(resolved) else None
        return ConsentRequest(
            message=self._message.id,
            token=consent.token,
            digest=consent.digest,
            text=redactor.text(question_of(resolved, reasons, self._voice, scope)),
            steps=tuple(redactor.json(step.to_json()) for step in resolved.pending),
            expires_at=consent.expires_at,
            full_text=redactor.text(full) if full is not None else None,
            choices=choices_of(resolved, self._voice),
        )

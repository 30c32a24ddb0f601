"""The planner: signals alone, or the model under a grammar; then parse, fill, validate, one informed retry."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from metnosd.grammar import (
    build_framework_grammar,
    build_framework_grammar_flow,
    build_framework_grammar_grounded,
    build_framework_grammar_typed,
)
from metnosd.grounding import ground_plan, narrow
from metnosd.lexicon.signals import Signals
from metnosd.lexicon.spans import Spans
from metnosd.model.service import Constraint, ModelService
from metnosd.plan import Plan, PlanError, Step, validate
from metnosd.plan_parser import parse_plan_text
from metnosd.pool import FAST, FINAL, Pool
from metnosd.prompt import Chat, Prompt
from metnosd.redact import Redactor
from metnosd.resolve_args import Reading, check_words

log = structlog.get_logger(__name__)

WHAT: Mapping[str, str] = {"missed": "missed", "ran": "runs"}
"""What is listed by a signal that means another list than the usual one."""

BASE_TOKENS = 120
"""Room for the frame of a plan and one step with several arguments."""

TOKENS_A_CLAUSE = 48
"""Room for one more step; a clause of the request asks for about one."""

LARGEST_BUDGET = 700
"""Six steps with long arguments. What is longer is a plan that does not end."""

_CLAUSE = re.compile(r"[,;:.\n]|\s[&+]\s")


@dataclass(frozen=True, slots=True)
class Planned:
    """A valid plan and how it came about. `path` is fast or model."""

    plan: Plan
    path: str
    constraint: Constraint | None = None
    attempts: int = 0
    timings_ms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Level:
    """How a plan is constrained: with a grammar at all, how its arguments are, and whether kinds must flow."""

    grammar: bool = True
    args: str = "free"
    flow: bool = False


def choose_level(environ: Mapping[str, str], args: str | None, flow: bool | None) -> Level:
    """The level: a switch set in the environment wins, then the model's profile (`args`, `flow`), then framework.

    `METNOS_PROPOSER_GRAMMAR` 0 plans without a grammar; `METNOS_PROPOSER_GRAMMAR_ARGS` 1 types the arguments,
    0 leaves them free.
    """
    switch = environ.get("METNOS_PROPOSER_GRAMMAR_ARGS")
    typed = args if switch is None else "typed" if switch not in ("", "0") else "free"
    on = environ.get("METNOS_PROPOSER_GRAMMAR", "1") not in ("", "0")
    return Level(on, typed or "free", bool(flow) if switch is None else False)


class Planner:
    """Plans with one model service at one level of constraint."""

    def __init__(
        self, model: ModelService, prompt: Prompt, level: Level | None = None, redactor: Redactor | None = None
    ) -> None:
        self._model = model
        self._prompt = prompt
        self._level = level or Level()
        self._redactor = redactor or Redactor()

    @property
    def constraint(self) -> Constraint:
        """How strongly plans are held to a grammar."""
        return self._model.constraint if self._level.grammar else "none"

    def grammar(self, pool: Pool, spans: Spans) -> str:
        """The GBNF that constrains a plan over `pool` for a message with `spans`."""
        level = self._level
        offered = narrow(pool, spans)
        if level.args == "grounded":
            return build_framework_grammar_grounded(offered.executors, spans, last=pool.last)
        if level.flow:
            return build_framework_grammar_flow(offered.executors, typed=level.args == "typed", last=pool.last)
        if level.args == "typed":
            return build_framework_grammar_typed(offered.executors, last=pool.last)
        return build_framework_grammar(offered.executors, last=pool.last)

    def fast(self, signals: Signals, pool: Pool) -> Plan | None:
        """The plan that the signals alone decide, if they do."""
        call = signals.call
        if call is not None and pool.get(call.tool) is not None:
            return Plan((Step(call.tool, dict(call.args)),))
        tool = FAST.get(signals.signal or "")
        if tool is None or pool.get(tool) is None:
            return None
        taken = pool.executors[pool.names.index(tool)].schema["properties"]
        query = signals.query if "count" in taken or signals.count is None else str(signals.count)
        said: dict[str, object] = {"what": WHAT.get(signals.signal or "")}
        said |= {"count": signals.count, "query": query}
        return Plan((Step(tool, {name: value for name, value in said.items() if value and name in taken}),))

    async def plan(
        self,
        text: str,
        pool: Pool,
        spans: Spans,
        reading: Reading,
        *,
        last_count: int = 0,
        on_step: Callable[[], None] | None = None,
    ) -> Planned:
        """The model's plan for `text`. Raises `PlanError` after two answers that are none, `ModelError`.

        `on_step` is called as the model begins each step.
        """
        started = time.monotonic()
        grammar = self.grammar(pool, spans) if self.constraint == "gbnf" else None
        if grammar is None:
            log.warning("planning_without_grammar", constraint=self.constraint)
        built = time.monotonic()
        chat = self._prompt.chat(text, pool, last_count)
        budget = token_budget(text, pool)
        timings: dict[str, float] = {"grammar_build": (built - started) * 1000}
        first: PlanError | None = None
        for attempt in (1, 2):
            answer = await self._ask(chat, grammar, budget, timings, on_step)
            try:
                plan = self._read(answer, text, pool, spans, reading)
            except PlanError as error:
                log.info("plan_refused", attempt=attempt, problem=str(error))
                if first is not None:
                    raise
                first = error
                budget = max(budget, min(budget * 2, LARGEST_BUDGET * 2)) if error.truncated else budget
                if not error.truncated:
                    chat = self._prompt.retry(chat, *map(self._redactor.text, (answer, str(error))))
            else:
                return Planned(plan, "model", self.constraint, attempt, timings)
        raise AssertionError("the second failure is raised above")

    async def _ask(
        self,
        chat: Chat,
        grammar: str | None,
        budget: int,
        timings: dict[str, float],
        on_step: Callable[[], None] | None,
    ) -> str:
        seen = 0
        so_far = ""

        def follow(piece: str) -> None:
            nonlocal seen, so_far
            so_far += piece
            steps = so_far.count('{"tool"')
            if on_step is not None and steps > seen:
                on_step()
            seen = steps

        completion = await self._model.complete(chat, grammar=grammar, max_tokens=budget, on_text=follow)
        for name, value in completion.timings_ms.items():
            timings[name] = timings.get(name, 0.0) + value
        timings["tokens"] = timings.get("tokens", 0.0) + completion.tokens
        return completion.text

    def _read(self, answer: str, text: str, pool: Pool, spans: Spans, reading: Reading) -> Plan:
        plan = ground_plan(validate(parse_plan_text(answer), pool), pool, text, spans)
        check_words(plan, pool, reading)
        return plan

    @property
    def prefix(self) -> Chat:
        """The static head of every chat, for the KV cache."""
        return self._prompt.chat("", Pool(()))


def token_budget(text: str, pool: Pool) -> int:
    """The most tokens of a plan for `text`: a base, more for each clause, and for long words to repeat.

    Texts that are quoted into arguments cost about a token for three characters.
    """
    clauses = len(_CLAUSE.findall(text)) + 1
    widest = TOKENS_A_CLAUSE * min(clauses + 1, 6)
    return min(BASE_TOKENS + widest + len(text) // 3 + 2 * len(pool.executors), LARGEST_BUDGET + len(text) // 2)


def grammar_digest(grammar: str) -> str:
    """The SHA-256 of a grammar, in hexadecimal."""
    return hashlib.sha256(grammar.encode()).hexdigest()


def is_only_words(plan: Plan) -> bool:
    """Whether nothing but the terminal is in `plan`."""
    return all(step.tool == FINAL for step in plan.steps)

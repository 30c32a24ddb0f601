"""A model service that answers from a script: in order, with no model, and able to misbehave."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from metnosd.model.service import Completion, Constraint, ModelError

Call = tuple[str, Mapping[str, Any]] | tuple[str, Mapping[str, Any], int]


def plan(*steps: Call) -> str:
    """The text of a plan of (tool, arguments[, from])."""
    wire = []
    for tool, args, *source in steps:
        wire.append({"tool": tool} | ({"from": source[0]} if source else {}) | {"args": dict(args)})
    return json.dumps({"steps": wire}, ensure_ascii=False, separators=(",", ":"))


def say(text: str) -> str:
    """The text of a plan that only answers in words."""
    return plan(("final_answer", {"text": text}))


@dataclass(frozen=True)
class Answer:
    """One answer. `cut` says that the budget ended it; `error` is raised in its place.

    One with `begun` and `go` sets the first when it is asked for and waits for the second before it answers.
    """

    text: str = ""
    cut: bool = False
    error: ModelError | None = None
    begun: asyncio.Event | None = None
    go: asyncio.Event | None = None


def held(text: str = "") -> Answer:
    """An answer that says when it is asked for and comes when it is told to."""
    return Answer(text, begun=asyncio.Event(), go=asyncio.Event())


def fails(code: str, message: str = "as the script has it") -> Answer:
    """A request that ends in a `ModelError`."""
    return Answer(error=ModelError(code, message))


@dataclass(frozen=True)
class Asked:
    """One request as the model got it."""

    messages: tuple[tuple[str, str], ...]
    grammar: str | None
    max_tokens: int

    @property
    def last(self) -> str:
        """What was said to the model last."""
        return self.messages[-1][1]


@dataclass
class ScriptedModel:
    """A `ModelService` with queued answers; a request that the script does not expect fails loudly."""

    constraint: Constraint = "gbnf"
    answers: deque[Answer] = field(default_factory=deque)
    asked: list[Asked] = field(default_factory=list)
    cancelled: int = 0

    def will(self, *answers: Answer | str) -> None:
        """Queue answers."""
        self.answers.extend(Answer(item) if isinstance(item, str) else item for item in answers)

    async def complete(
        self,
        messages: Sequence[tuple[str, str]],
        *,
        grammar: str | None,
        max_tokens: int,
        on_text: Callable[[str], None] | None = None,
    ) -> Completion:
        """The next answer, in pieces as a model writes it."""
        self.asked.append(Asked(tuple(messages), grammar, max_tokens))
        if not self.answers:
            raise AssertionError(f"the script has no answer to {messages[-1]!r}")
        answer = self.answers.popleft()
        if answer.begun is not None:
            answer.begun.set()
        try:
            if answer.go is not None:
                await answer.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if answer.error is not None:
            raise answer.error
        for start in range(0, len(answer.text), 7):
            if on_text is not None:
                on_text(answer.text[start : start + 7])
        return Completion(answer.text, "length" if answer.cut else "stop", tokens=len(answer.text) // 3)

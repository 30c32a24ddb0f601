"""What the planner asks of a model, whoever serves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

Constraint = Literal["gbnf", "json_schema", "tool_call", "none"]


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered. `finish` is `length` when it was cut off by the token budget."""

    text: str
    finish: str
    prompt_tokens: int = 0
    reused_tokens: int = 0
    tokens: int = 0
    timings_ms: Mapping[str, float] = field(default_factory=dict)


TOLD_CODES = ("unavailable", "died", "hung", "grammar", "context", "decode", "cancelled")
"""The codes of `ModelError` for which the lexicon has a sentence of their own, `model.<code>`."""


class ModelError(Exception):
    """A request got no answer. `code`: `unavailable`, `died`, `hung`, `grammar`, `context`, `decode`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ModelService(Protocol):
    """A model that continues a chat, greedily."""

    @property
    def constraint(self) -> Constraint:
        """How strongly the service holds its output to a grammar."""
        ...

    async def complete(
        self,
        messages: Sequence[tuple[str, str]],
        *,
        grammar: str | None,
        max_tokens: int,
        on_text: Callable[[str], None] | None = None,
    ) -> Completion:
        """Continue a chat of (role, text). Cancelling the task cancels the request.

        Raises `ModelError`; the next request may succeed.
        """
        ...

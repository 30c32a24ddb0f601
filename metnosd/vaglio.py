"""Vaglio: allows, asks or denies, by rules that fail closed. What has no rule is denied."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from metnosd.executor import Executor
from metnosd.resolve import ResolvedPlan
from metnosd.sentence import Refusal, Sentence, say
from metnosd.user import User

Answer = Literal["allow", "ask", "deny"]

_SEVERITY: Mapping[str, int] = {"allow": 0, "ask": 1, "deny": 2}


class PolicyError(Exception):
    """The policy file cannot be used; the message names file and key."""


class _Policy(BaseModel):
    model_config = ConfigDict(extra="forbid")
    levels: dict[str, dict[str, Answer]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer, the rule that decided, and the reason for the user."""

    answer: Answer
    rule: str
    reason: Sentence
    provisional: bool = False

    def to_json(self) -> dict[str, object]:
        """The verdict as `metnosd plan` shows it."""
        return {"answer": self.answer, "rule": self.rule, "provisional": self.provisional}


class Vaglio:
    """Judges by level of the user and capability of the executor."""

    def __init__(self, levels: Mapping[str, Mapping[str, Answer]]) -> None:
        self._levels = levels

    def judge(self, resolved: ResolvedPlan, user: User) -> Verdict:
        """The strictest answer to any effect of `resolved`."""
        verdict = Verdict("allow", "no_effect", say("vaglio.no_effect"))
        for step in resolved.pending:
            found = self.judge_capability(step.capability, user)
            if _SEVERITY[found.answer] > _SEVERITY[verdict.answer] or verdict.rule == "no_effect":
                verdict = found
        return verdict

    def judge_capability(self, capability: str, user: User) -> Verdict:
        """The answer to one use of `capability`."""
        answer = self._levels.get(user.level, {}).get(capability)
        rule = f"{user.level}/{capability}"
        if answer is None:
            return Verdict("deny", f"{rule}: no rule", say("vaglio.no_rule", capability=capability))
        return Verdict(answer, rule, say(f"vaglio.{answer}", capability=capability))

    def may_offer(self, executor: Executor, user: User) -> bool:
        """Whether it makes sense to offer `executor` to the planner: not where its use would be denied."""
        return self.judge_capability(executor.capability, user).answer != "deny"

    def may_read(self, executor: Executor, user: User) -> Refusal | None:
        """None if a step without effect may run; a reading that would have to be asked is refused too."""
        verdict = self.judge_capability(executor.capability, user)
        if verdict.answer == "allow":
            return None
        return Refusal(verdict.reason.key, **verdict.reason.values)


def load_policy(file: Path) -> Vaglio:
    """Vaglio with the rules of `file`. Raises `PolicyError`."""
    try:
        policy = _Policy.model_validate(tomllib.loads(file.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PolicyError(f"{file}: {error}") from error
    except ValidationError as error:
        keys = [".".join(str(part) for part in item["loc"]) + ": " + item["msg"] for item in error.errors()]
        raise PolicyError("\n".join(f"{file}: {key}" for key in keys)) from error
    return Vaglio(policy.levels)

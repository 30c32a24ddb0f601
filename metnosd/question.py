"""The question on a resolved plan: what is approved is what is read."""

from __future__ import annotations

from collections.abc import Sequence

from metnosd.act import ask_key, describe
from metnosd.effects import Effect
from metnosd.message import Choice
from metnosd.reply import Voice, human_size
from metnosd.resolve import ResolvedPlan, ResolvedStep
from metnosd.scope import Scope
from metnosd.sentence import Sentence, say

FIRST = 20
"""How many effects a question lists before the full list has to be asked for."""

BIG = 1_000_000
"""From this many bytes on a question says how much is touched."""


def question_of(
    resolved: ResolvedPlan,
    reasons: Sequence[Sentence],
    voice: Voice,
    scope: Scope,
    *,
    whole: bool = False,
) -> str:
    """All that would be done, line by line; of more than `FIRST` effects the first, unless `whole`."""
    lines = [voice.say(reason) for reason in reasons]
    for step in resolved.pending:
        shown = step.effects if whole else step.effects[:FIRST]
        lines += [_line(effect, voice, scope) for effect in shown]
        if len(shown) < len(step.effects):
            lines.append(voice.say(say("ask.more", count=len(step.effects) - len(shown))))
        lines += _amount(step, voice)
        lines += [voice.say(problem) for problem in step.problems]
    choices = choices_of(resolved, voice)
    lines += [voice.say(say(f"ask.choose_{name}")) for name in resolved.choices]
    return "\n".join([*lines, voice.say(say("ask.which_way" if choices else "ask.go_ahead"))])


def choices_of(resolved: ResolvedPlan, voice: Voice) -> tuple[Choice, ...]:
    """The answers beside yes and no, with the words on their buttons."""
    return tuple(Choice(name, voice.say(say(f"choice.{name}"))) for name in resolved.choices)


def is_long(resolved: ResolvedPlan) -> bool:
    """Whether the question lists only the first effects."""
    return any(len(step.effects) > FIRST for step in resolved.pending)


def _line(effect: Effect, voice: Voice, scope: Scope) -> str:
    return voice.say(say(ask_key(effect), **describe(effect, scope)))


def _amount(step: ResolvedStep, voice: Voice) -> list[str]:
    """How much is touched, where the list of effects does not show it: folders, and many or big files."""
    if step.files <= max(len(step.effects), 1) and step.bytes < BIG:
        return []
    return [voice.say(say("ask.amount", count=step.files, size=human_size(step.bytes)))]

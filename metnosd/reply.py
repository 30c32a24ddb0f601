"""The reply: words from evidence. Only results say whether something was done, never the model."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo

from metnosd.entries import Entry, Outcome, Status, StepOutcome, printable
from metnosd.lexicon.lexicon import Lexicon
from metnosd.message import Reply, UndoOffer, outcome_to_json
from metnosd.plan import Plan
from metnosd.pool import FINAL
from metnosd.sentence import Sentence, say

SHOWN = 20
"""How many entries the text of a reply lists."""

SHOWN_PROBLEMS = 5
"""How many problems of a step the text of a reply lists."""


class Voice:
    """Says things in one language and zone."""

    def __init__(self, lexicon: Lexicon, lang: str, zone: tzinfo, home: str | None) -> None:
        self._lexicon = lexicon
        self._lang = lang
        self._zone = zone
        self._home = home
        self.shown = SHOWN

    def say(self, sentence: Sentence) -> str:
        """One sentence."""
        return self._lexicon.say(sentence, self._lang)

    def reply(self, outcome: Outcome, undo: UndoOffer | None, *, effects: frozenset[str], redo: bool = False) -> Reply:
        """The reply on `outcome`; `effects` names the executors that have one, `redo` offers that."""
        errors = tuple(self._problem(step) for step in outcome.steps)
        lines = self._lines(outcome, effects)
        if undo is not None:
            lines.append(self.say(say("reply.undo", count=undo.actions)))
        if redo:
            lines.append(self.say(say("reply.redo")))
        text = "\n".join(lines) or self.say(say("reply.nothing"))
        return Reply(text, outcome_to_json(outcome, errors), undo)

    def _problem(self, step: StepOutcome) -> str | None:
        return " ".join(self.say(problem) for problem in step.problems) or None

    def _lines(self, outcome: Outcome, effects: frozenset[str]) -> list[str]:
        lines: list[str] = []
        if outcome.reason is not None:
            lines.append(self.say(outcome.reason))
        if outcome.text:
            lines.append(outcome.text)
        steps = [step for step in outcome.steps if step.tool != FINAL]
        if outcome.reason is not None and outcome.status == "refused":
            # What was found was listed in the question already.
            steps = [step for step in steps if step.problems]
        for step in steps:
            if step is steps[-1] or step.tool in effects or step.problems:
                lines += self._step(step, last=step is steps[-1], effect=step.tool in effects)
        return lines

    def _step(self, step: StepOutcome, *, last: bool, effect: bool) -> list[str]:
        lines = [self.say(step.note)] if step.note is not None else []
        if not effect and last and step.entries:
            lines += self._entries(step)
        elif step.status == "nothing":
            lines.append(self.say(say("reply.nothing_to_do" if effect else "reply.nothing_found")))
        shown = step.problems[:SHOWN_PROBLEMS]
        lines += [self.say(problem) for problem in shown]
        if len(step.problems) > len(shown):
            lines.append(self.say(say("reply.more_problems", count=len(step.problems) - len(shown))))
        return lines

    def _entries(self, step: StepOutcome) -> list[str]:
        lines = []
        if len(step.entries) > 1 and step.note is None:
            lines.append(self.say(say(f"reply.found_{step.entries[0].kind}", count=len(step.entries))))
        lines += [self._entry(entry) for entry in step.entries[: self.shown]]
        if len(step.entries) > self.shown:
            lines.append(self.say(say("reply.more", count=len(step.entries) - self.shown)))
        if step.truncated:
            lines.append(self.say(say("reply.truncated")))
        return lines

    def _entry(self, entry: Entry) -> str:
        fields = entry.fields
        if entry.shown is not None:
            return self.say(entry.shown)
        if entry.kind == "numbers" and "count" in fields:
            return self.say(say("reply.count", count=fields["count"]))
        if entry.kind == "texts":
            head = f"{self._path(fields)}:\n" if "path" in fields else ""
            return f"{head}{fields.get('text', '')}"
        if "path" in fields:
            return self._file(fields)
        return ", ".join(f"{key} {printable(str(value))}" for key, value in fields.items())

    def _file(self, fields: Mapping[str, object]) -> str:
        if "digest" in fields:
            return f"{fields['digest']}  {self._path(fields)}"
        details = []
        size, modified = fields.get("size"), fields.get("modified")
        if isinstance(size, int):
            details.append(human_size(size))
        if isinstance(modified, datetime):
            details.append(modified.astimezone(self._zone).strftime("%Y-%m-%d %H:%M"))
        return f"{self._path(fields)}" + (f" ({', '.join(details)})" if details else "")

    def _path(self, fields: Mapping[str, object]) -> str:
        path = str(fields.get("path", ""))
        if self._home and path.startswith(self._home + "/"):
            path = "~" + path[len(self._home) :]
        return printable(path)


def human_size(size: int) -> str:
    """`size` bytes in SI units with at most one decimal, as file managers show it."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("the last unit takes everything")


def outcome_of(plan: Plan, steps: tuple[StepOutcome, ...], effects: frozenset[str]) -> Outcome:
    """The outcome of `plan` whose `steps` came to an end."""
    final = plan.steps[-1] if plan.steps[-1].tool == FINAL else None
    alone = final is not None and len(plan.steps) == 1
    text = str(final.args.get("text", "")) if final is not None and alone else None
    return Outcome(_status(steps, effects), steps, text=text)


def _status(steps: tuple[StepOutcome, ...], effects: frozenset[str]) -> Status:
    statuses = [step.status for step in steps if step.tool != FINAL]
    if not statuses:
        return "done"
    acted = any(step.tool in effects and step.entries for step in steps)
    worst = statuses[-1]
    if worst in ("failed", "refused", "asked"):
        return "partial" if acted else worst
    if "partial" in statuses or "failed" in statuses:
        return "partial"
    return worst if worst == "nothing" and not acted else "done"

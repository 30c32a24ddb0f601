"""What everyday messages come to without the model: how many are decided by their words alone, and how rightly.

    python tests/benchmarks/fast_path.py [CASES] [--lang en]

Each line of `fast_path.jsonl` is one message: `lang`, `text`, `group`; `fast`, whether its words alone should
decide; `tools`, the executors that are right where they do (none: whatever is decided is wrong); `args`, what the
arguments must be, see `is_same`; for some `first`, the local time of the first fire seen from `NOW`, and `later`, the
lists of executors that a plan kept for later may have.

A message goes the way that a turn goes (`metnosd.turn`): signals, times, reminders, the whole messages of the
lexicon. The question at what time somebody is to be reminded counts as decided (`question`), and is right where
`tools` names it. Prints, for each language and group, how many of the messages that should be fast are and are right,
and how many of the others are left alone; then the precision: how many of all that were decided are right. Every
wrong one is listed, then those that were left to the model, then those that would be kept for later without reason.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

from metnosd.assemble import make_registry
from metnosd.executor import Registry
from metnosd.kinds import Kinds, shipped_kinds
from metnosd.lexicon.clocks import Habits
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.loading import load_lexicon
from metnosd.lexicon.signals import Signals, read_signals
from metnosd.lexicon.spans import read_spans
from metnosd.locations import shipped_config
from metnosd.model.service import ModelService
from metnosd.plan import Plan
from metnosd.planner import Planner
from metnosd.pool import Pool, make_pool
from metnosd.prompt import load_prompts, make_prompt
from metnosd.scheduling import kept_for_later, question_of_time, reminder_of, with_times
from metnosd.timing import Timing, read_timing

CASES = Path(__file__).with_name("fast_path.jsonl")

ZONE = ZoneInfo("Europe/Rome")
NOW = datetime(2026, 3, 4, 10, 0, tzinfo=ZONE)
"""The moment that all messages are sent: a Wednesday in the morning."""

QUESTION = "question"
"""What stands for the question at what time, in place of an executor."""

TIMED = frozenset({"create_reminders", "create_schedules", "change_schedules", QUESTION})
"""What may come of a message that is kept for later."""


@dataclass(frozen=True)
class Ahead:
    """What a message is before the model is asked: the `plan` that its words decide, or what is left to be planned.

    `asks` is whether the time is asked for instead. `text`, `signals` and `pool` are those that the model would get.
    """

    timing: Timing
    text: str
    signals: Signals
    pool: Pool
    plan: Plan | None = None
    asks: bool = False

    def later(self, plan: Plan) -> Plan:
        """The plan that a turn carries out once the message is planned as `plan`."""
        if self.timing.intent != "later":
            return with_times(plan, self.timing, Habits())
        return kept_for_later(plan, self.timing, Habits())


@dataclass(frozen=True)
class Reader:
    """All that reads a message without a model."""

    registry: Registry
    lexicon: Lexicon
    kinds: Kinds
    planner: Planner

    def read(self, text: str, lang: str, last: Sequence[str] = ()) -> Ahead:
        """What `text` comes to; `lang` is the user's language, `last` the kinds of the entries answered before."""
        signals = read_signals(text, self.lexicon, lang)
        timing = read_timing(text, signals, self.lexicon, NOW, ZONE, Habits())
        if question_of_time(timing) is not None or (timing.intent == "later" and not timing.text):
            return Ahead(timing, text, signals, Pool(()), asks=True)
        reminder = reminder_of(timing, lambda: None, Habits())
        if reminder is not None:
            return Ahead(timing, text, signals, Pool(()), reminder)
        if timing.intent == "later":
            text = timing.text
            signals = read_signals(text, self.lexicon, lang)
        pool = make_pool(self.registry, signals, self._kinds(text, signals, last))
        ahead = Ahead(timing, text, signals, pool)
        plan = self.planner.fast(signals, pool)
        return ahead if plan is None else replace(ahead, plan=ahead.later(plan))

    def _kinds(self, text: str, signals: Signals, last: Sequence[str]) -> tuple[str, ...]:
        """The kinds that a message which points back may take."""
        if "back" not in signals.within:
            return ()
        spans = read_spans(text, self.lexicon, self.kinds, signals.lang)
        own = spans["kind"] or spans["category"] or any("." in path for path in spans["path"])
        return () if own else tuple(last)


def make_reader(registry: Registry, lexicon: Lexicon) -> Reader:
    """A reader over `registry` and `lexicon` as shipped. Its planner is for `fast` alone, without a model."""
    prompt = make_prompt(load_prompts(shipped_config("prompts.toml")), registry)
    return Reader(registry, lexicon, shipped_kinds(), Planner(cast(ModelService, None), prompt))


def tools_of(plan: Plan) -> list[str]:
    """The executors of `plan` in order. Words that are kept for later are a reminder, whatever keeps them."""
    tools = [step.tool for step in plan.steps]
    inner = plan.steps[0].args.get("plan")
    if tools == ["create_schedules"] and isinstance(inner, Mapping):
        steps = inner["steps"]
        return ["create_reminders"] if all(step["tool"] == "final_answer" for step in steps) else tools
    return tools


def kept_steps(plan: Plan) -> list[dict[str, Any]]:
    """The steps of the plan that `plan` keeps for later, as JSON; none where it keeps none."""
    inner = plan.steps[0].args.get("plan")
    return list(inner["steps"]) if isinstance(inner, Mapping) else []


def is_same(wanted: Any, found: Any) -> bool:
    """Whether the argument `found` is as a case wants it.

    A text is equal but for case, blanks, stray marks at its ends and the folders before it; a list holds the same
    texts in any order; `{"any": […]}` allows several, `{"has": […]}` texts that must all be in it; null is absent.
    """
    if isinstance(wanted, Mapping):
        if "any" in wanted:
            return any(is_same(one, found) for one in wanted["any"])
        return found is not None and all(_plain(part) in _plain(found) for part in wanted["has"])
    if wanted is None or found is None:
        return wanted is None and found is None
    if isinstance(wanted, list):
        return isinstance(found, list) and {_plain(one) for one in wanted} == {_plain(one) for one in found}
    return _plain(str(found).rstrip("/").rsplit("/", 1)[-1]) == _plain(str(wanted).rsplit("/", 1)[-1])


def _plain(said: object) -> str:
    return " ".join(str(said).replace("\u2019", "'").casefold().split()).strip(" .,;:!?\u00bf\u00a1\"'")


@dataclass(frozen=True)
class Row:
    """What became of one message: what was `decided` (empty where nothing was), and whether that is right."""

    case: Mapping[str, Any]
    decided: str
    args: Mapping[str, Any]
    right: bool
    later: bool

    def __str__(self) -> str:
        said = f"  {self.case['lang']} {self.case['group']}: {self.case['text']!r}"
        if not self.decided:
            return said
        args = {name: value for name, value in self.args.items() if name not in ("plan", "when")}
        wanted = {"tools": self.case["tools"]} | {
            name: self.case[name] for name in ("args", "first", "later") if self.case.get(name)
        }
        return f"{said}\n     got {self.decided} {_json(args)}, wanted {_json(wanted)}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def judge(case: Mapping[str, Any], reader: Reader) -> Row:
    """Read the message of `case` and hold what is decided against it."""
    ahead = reader.read(case["text"], case["lang"], case.get("last", ()))
    later = ahead.timing.intent == "later"
    if ahead.asks:
        return Row(case, QUESTION, {}, QUESTION in case["tools"], later)
    if ahead.plan is None:
        return Row(case, "", {}, not case["fast"], later)
    tool, args = tools_of(ahead.plan)[0], dict(ahead.plan.steps[0].args)
    right = tool in case["tools"] and all(is_same(value, args.get(name)) for name, value in case["args"].items())
    if "first" in case:
        fires = ahead.timing.when.fires(NOW, 1)
        right = right and [f"{fire.astimezone(ZONE):%Y-%m-%dT%H:%M}" for fire in fires] == [case["first"]]
    inner = [step["tool"] for step in kept_steps(ahead.plan)]
    if "later" in case:
        right = right and inner in case["later"]
    return Row(case, " ".join([tool, *inner]), args, right, later)


def print_shares(rows: Sequence[Row]) -> None:
    """The table, by language and by group, and the precision."""
    print(f"{'':12}{'should be fast':>15}{'fast':>7}{'right':>7}{'share':>8}{'others':>9}{'left':>6}{'precision':>18}")
    langs = dict.fromkeys(row.case["lang"] for row in rows)
    groups = dict.fromkeys(row.case["group"] for row in rows)
    parts = [(lang, [row for row in rows if row.case["lang"] == lang]) for lang in langs]
    parts += [(group, [row for row in rows if row.case["group"] == group]) for group in groups]
    for name, some in [*parts, ("all", rows)]:
        wanted = [row for row in some if row.case["fast"]]
        others = [row for row in some if not row.case["fast"]]
        fired = [row for row in some if row.decided]
        fast, right = [row for row in wanted if row.decided], [row for row in wanted if row.decided and row.right]
        share = f"{len(right) / len(wanted):.0%}" if wanted else "-"
        sure = sum(row.right for row in fired)
        precision = f"{sure}/{len(fired)} {sure / len(fired):.1%}" if fired else "-"
        left = sum(not row.decided for row in others)
        print(
            f"{name:12}{len(wanted):>15}{len(fast):>7}{len(right):>7}{share:>8}{len(others):>9}{left:>6}{precision:>18}"
        )


def print_lists(rows: Sequence[Row]) -> None:
    """The single messages that are not as they should be."""
    _print_list("wrong", (row for row in rows if row.decided and not row.right))
    _print_list("left to the model", (row for row in rows if not row.decided and row.case["fast"]))
    timed = (row for row in rows if row.later and not row.decided and not TIMED.intersection(row.case["tools"]))
    _print_list("kept for later without reason, once the model has planned it", timed)


def _print_list(title: str, rows: Iterable[Row]) -> None:
    found = [str(row) for row in rows]
    print("\n".join(["", f"{title}: {len(found)}", *found]))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="?", type=Path, default=CASES)
    parser.add_argument("--lang", default=None, help="only the messages in this language")
    options = parser.parse_args()
    reader = make_reader(make_registry(), load_lexicon(shipped_config("lexicon")))
    cases = [json.loads(line) for line in options.cases.read_text("utf-8").splitlines() if line.strip()]
    rows = [judge(case, reader) for case in cases if options.lang in (None, case["lang"])]
    print_shares(rows)
    print_lists(rows)
    missing = sorted({tool for row in rows for tool in row.case["tools"] if tool not in reader.registry} - {QUESTION})
    if missing:
        print("\nnot built: " + ", ".join(missing))
    return 0


if __name__ == "__main__":
    sys.exit(main())

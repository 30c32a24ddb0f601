"""How good plans are: requests through the real path up to the plan, with the real model.

    python tests/benchmarks/plan_quality.py [--levels free,typed,flow,grounded,none,whole,profile] [--model NAME]
        [--built] [--lang en] [--group files] [--limit N] [--verbose] [CASES]

Each line of CASES is a request: `lang`, `text`, `accept`, the lists of executors that are right, and `args`, what their
arguments must be (`fast_path.is_same`); perhaps `args_if`, the same for executors that not every right list has,
`later`, the lists that a plan kept for later may have, `last`, the kinds of the entries answered before, `group`, and
`no_action`, for requests that must not become an action. `everyday.jsonl` has such requests in five languages.

Prints a row a level: first tool, whole sequence, arguments, seconds, all in one run over the same requests. Then, level
by level, sequence and arguments by language and by group for the requests that are an action, how many of the others
became one (and one with an effect), and every failure by language. `none` gives only the JSON instruction, `whole` the
whole catalog instead of a pool, `profile` what the model's profile says, as the daemon does. Executors that are not
built yet are stood in for by `standins.py`; `--built` does without them and leaves out the requests that need one.
Times are read at a fixed moment (`fast_path.NOW`), reminders and what is kept for later as in a turn.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import statistics
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fast_path import NOW, QUESTION, Ahead, Reader, is_same, kept_steps, make_reader, tools_of
from standins import STANDINS, WORDS

from metnosd.assemble import make_catalog, make_registry
from metnosd.executor import Registry
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.loading import load_lexicon, phrases_of
from metnosd.lexicon.spans import read_spans
from metnosd.locations import locate, shipped_config
from metnosd.logs import configure_logs
from metnosd.model.host import ModelHost
from metnosd.model.service import ModelError
from metnosd.plan import Plan, PlanError, Step
from metnosd.planner import Level, Planner, choose_level, is_only_words
from metnosd.pool import FINAL, HELP, Pool
from metnosd.prompt import load_prompts, make_prompt
from metnosd.resolve_args import Reading
from metnosd.scope import Scope
from metnosd.settings import load_settings

CASES = Path(__file__).parents[1] / "cases" / "plans.jsonl"

LEVELS = {
    "none": Level(grammar=False),
    "free": Level(),
    "typed": Level(args="typed"),
    "flow": Level(args="typed", flow=True),
    "grounded": Level(args="grounded", flow=True),
    "whole": Level(args="grounded", flow=True),
}

PROFILE = "profile"
"""The level that the model's profile says."""

NO_ACTION = frozenset({FINAL, HELP})
"""The executors that are no action."""


def make_parts(with_standins: bool) -> tuple[Registry, Lexicon]:
    """The registry and lexicon, with the stand-ins for what is not built and their words if asked for."""
    lexicon = load_lexicon(shipped_config("lexicon"))
    built = list(make_registry())
    if not with_standins:
        return Registry(built), lexicon
    names = {item.name for item in built}
    missing = [item for item in STANDINS if item.name not in names]
    words = tomllib.loads(WORDS.read_text("utf-8"))["executors"]
    words = {name: said for name, said in words.items() if name not in names}
    first = lexicon.languages[0]
    more = dataclasses.replace(first, phrases=first.phrases + phrases_of(words))
    languages = (more, *lexicon.languages[1:])
    return Registry([*built[:-1], *missing, built[-1]]), Lexicon(languages, {item.code: item for item in languages})


@dataclasses.dataclass(frozen=True)
class Score:
    """How one request was planned at one level: `steps` as JSON, `problem` why there are none, and what is right."""

    case: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]]
    problem: str
    seconds: float
    first: bool
    sequence: bool
    arguments: bool
    acted: bool
    effect: bool

    @property
    def right(self) -> bool:
        """Whether sequence and arguments are."""
        return self.sequence and self.arguments

    def __str__(self) -> str:
        steps = json.dumps(self.steps, ensure_ascii=False, default=str)
        wanted = " or ".join(" ".join(tools) for tools in self.case["accept"])
        wrong = "arguments" if self.sequence else "sequence"
        said = f"  {self.case['lang']} {self.case.get('group', '')}: {self.case['text']!r}"
        return f"{said}\n     wrong {wrong}: {steps} {self.problem}\n     wanted {wanted}"


def is_right(case: Mapping[str, Any], tools: list[str], steps: Sequence[Mapping[str, Any]]) -> tuple[bool, bool, bool]:
    """First tool, sequence and arguments, as the cases' README defines them.

    `tools` are the executors in order, `steps` the steps whose arguments count, those kept for later among them.
    """
    if len(tools) > 1 and tools[-1] == FINAL:
        tools = tools[:-1]
    first = any(tools[:1] == accepted[:1] for accepted in case["accept"])
    sequence = tools in case["accept"]
    by_tool = {step["tool"]: step["args"] for step in steps}
    if "later" in case and tools == ["create_schedules"]:
        sequence = sequence and [step["tool"] for step in steps[1:] if step["tool"] != FINAL] in case["later"]
    wanted = dict(case["args"]) | {tool: args for tool, args in case.get("args_if", {}).items() if tool in by_tool}
    arguments = all(
        tool in by_tool and all(is_same(value, by_tool[tool].get(name)) for name, value in args.items())
        for tool, args in wanted.items()
    )
    return first, sequence, arguments


def score(
    case: Mapping[str, Any], plan: Plan | None, ahead: Ahead, problem: str, seconds: float, registry: Registry
) -> Score:
    """Hold `plan` (None: there is none, for `problem`, or the time is asked for) against `case`."""
    if plan is None:
        tools = [QUESTION] if ahead.asks else []
        return Score(case, (), problem, seconds, *is_right(case, tools, ()), False, False)
    tools, kept = tools_of(plan), kept_steps(plan)
    steps: list[dict[str, Any]] = [
        {"tool": tool, "args": {name: value for name, value in step.args.items() if name not in ("plan", "when")}}
        | ({"from": step.source} if step.source is not None else {})
        for tool, step in zip(tools, plan.steps, strict=True)
    ]
    if tools == ["create_reminders"] and kept:
        steps[0]["args"] = dict(kept[0]["args"])
    elif kept:
        steps += kept
    acted = any(tool not in NO_ACTION for tool in tools)
    effect = any(registry[tool].effect for tool in tools if tool in registry)
    return Score(case, steps, problem, seconds, *is_right(case, tools, steps), acted, effect)


@dataclasses.dataclass(frozen=True)
class Bench:
    """What a run is made with."""

    reader: Reader
    reading: Reading
    planners: Mapping[str, Planner]

    async def plan(self, case: Mapping[str, Any], level: str) -> Score:
        """Plan the request of `case` at `level`."""
        registry = self.reader.registry
        started = time.monotonic()
        last = case.get("last", ())
        ahead = self.reader.read(case["text"], case["lang"], last)
        plan, problem = ahead.plan, "asks for the time" if ahead.asks else ""
        if plan is None and not ahead.asks:
            pool = Pool(tuple(registry), ahead.pool.last) if level == "whole" else ahead.pool
            spans = read_spans(ahead.text, self.reader.lexicon, self.reader.kinds, ahead.signals.lang)
            try:
                planned = await self.planners[level].plan(
                    ahead.text, pool, spans, self.reading, last_count=len(pool.last)
                )
                plan = planned.plan
                if ahead.timing.intent == "later" and is_only_words(plan):
                    plan = Plan((Step(FINAL, {"text": ahead.text}),))
                plan = ahead.later(plan)
            except (PlanError, ModelError) as error:
                problem = str(error)
        return score(case, plan, ahead, problem, time.monotonic() - started, registry)


def print_levels(scores: Mapping[str, Sequence[Score]]) -> None:
    """A row a level over all requests."""
    print(f"{'level':10}{'first':>7}{'sequence':>10}{'args':>7}{'median s':>10}{'p95 s':>8}   by language")
    for level, rows in scores.items():
        times = sorted(row.seconds for row in rows)
        median, late = statistics.median(times), times[int(0.95 * (len(times) - 1))]
        by_lang = _grouped(rows, lambda row: row.case["lang"])
        langs = " ".join(f"{lang} {sum(row.sequence for row in some)}/{len(some)}" for lang, some in by_lang.items())
        first, sequence = sum(row.first for row in rows), sum(row.sequence for row in rows)
        arguments = sum(row.arguments for row in rows)
        print(f"{level:10}{first:>7}{sequence:>10}{arguments:>7}{median:>10.2f}{late:>8.2f}   {langs}")


def print_report(level: str, rows: Sequence[Score]) -> None:
    """Actions and the others by language and group, then each failure."""
    print(f"\n{level}: requests that are an action | requests that must not become one")
    print(f"{'':12}{'all':>5}{'sequence':>13}{'and args':>12}  |{'all':>5}{'right':>12}{'acted':>7}{'effect':>8}")
    parts = {**_grouped(rows, lambda row: row.case["lang"]), "all": list(rows)}
    parts |= _grouped([row for row in rows if "group" in row.case], lambda row: row.case["group"])
    for name, some in parts.items():
        action = [row for row in some if not row.case.get("no_action")]
        others = [row for row in some if row.case.get("no_action")]
        sequence, right = (_share([getattr(row, what) for row in action]) for what in ("sequence", "right"))
        acted, effect = sum(row.acted for row in others), sum(row.effect for row in others)
        kept = _share([row.sequence for row in others])
        print(f"{name:12}{len(action):>5}{sequence:>13}{right:>12}  |{len(others):>5}{kept:>12}{acted:>7}{effect:>8}")
    failed = [row for row in rows if not row.right]
    print(f"\n{level}: {len(failed)} failures")
    for some in _grouped(failed, lambda row: row.case["lang"]).values():
        print("\n".join(map(str, some)))


def _share(rights: Sequence[bool]) -> str:
    return f"{sum(rights)} {sum(rights) / len(rights):.1%}" if rights else "-"


def _grouped(rows: Sequence[Score], key: Callable[[Score], str]) -> dict[str, list[Score]]:
    found: dict[str, list[Score]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def is_built(case: Mapping[str, Any], registry: Registry) -> bool:
    """Whether some right list has only executors of `registry`."""
    return any(all(tool in registry or tool == QUESTION for tool in tools) for tools in case["accept"])


async def measure(host: ModelHost, options: argparse.Namespace, cases: Sequence[Mapping[str, Any]]) -> None:
    """Run every case at every level, alternating, and print."""
    registry, lexicon = make_parts(with_standins=not options.built)
    prompt = make_prompt(load_prompts(shipped_config("prompts.toml")), registry)
    levels = LEVELS | {PROFILE: choose_level({}, host.profile.args, host.profile.flow)}
    chosen = options.levels.split(",")
    planners = {level: Planner(host, prompt, levels[level]) for level in chosen}
    bench = Bench(make_reader(registry, lexicon), Reading(lexicon, NOW, Scope([], home=None)), planners)
    host.keep_warm(Planner(host, prompt).prefix)
    measured = [case for case in cases if not options.built or is_built(case, registry)]
    scores: dict[str, list[Score]] = {level: [] for level in chosen}
    for case in measured:
        for level in chosen:
            row = await bench.plan(case, level)
            scores[level].append(row)
            if options.verbose and not row.right:
                print(f"{level}\n{row}", flush=True)
    if measured:
        print_levels(scores)
    print(f"{len(measured)} requests, model {host.profile.name}; {len(cases) - len(measured)} left out, not built")
    for level, rows in scores.items():
        print_report(level, rows)


def read_cases(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The chosen requests of the named file."""
    cases = [json.loads(line) for line in options.cases.read_text("utf-8").splitlines() if line.strip()]
    cases = [case for case in cases if options.lang in (None, case["lang"])]
    return [case for case in cases if options.group in (None, case.get("group"))][: options.limit]


async def run(options: argparse.Namespace) -> None:
    """Load the model and measure."""
    configure_logs("error")
    places = locate()
    settings = load_settings(places.config_file)
    profile = make_catalog(settings, places).get(options.model)
    host = ModelHost(profile, places.models, state=places.state, may_fetch=False)
    cases = read_cases(options)
    task = asyncio.create_task(host.run())
    try:
        await measure(host, options, cases)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="?", type=Path, default=CASES)
    parser.add_argument("--levels", default=",".join(LEVELS))
    parser.add_argument("--model", default="default")
    parser.add_argument("--built", action="store_true", help="no stand-ins; leave out what needs one")
    parser.add_argument("--lang", default=None, help="only the requests in this language")
    parser.add_argument("--group", default=None, help="only the requests of this group")
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--verbose", action="store_true", help="print each failure when it comes")
    asyncio.run(run(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

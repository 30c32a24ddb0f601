"""How good plans are: requests through the real path up to the plan, with the real model.

    python tests/benchmarks/plan_quality.py [--levels free,typed,flow,grounded,none,whole] [--model NAME] [CASES]

Prints a row a level: first tool, whole sequence, arguments, seconds, all in one run over the same requests.
`none` gives only the JSON instruction, `whole` the whole catalog instead of a pool. Executors that are not
built yet are stood in for by `standins.py`.
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
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from standins import STANDINS, WORDS

from metnosd.assemble import make_catalog, make_registry
from metnosd.executor import Registry
from metnosd.kinds import shipped_kinds
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.loading import load_lexicon, phrases_of
from metnosd.lexicon.signals import read_signals
from metnosd.lexicon.spans import read_spans
from metnosd.locations import locate, shipped_config
from metnosd.logs import configure_logs
from metnosd.model.host import ModelHost
from metnosd.model.service import ModelError
from metnosd.plan import PlanError
from metnosd.planner import Level, Planner
from metnosd.pool import FINAL, Pool, make_pool
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


def make_parts(with_standins: bool) -> tuple[Registry, Lexicon]:
    """The registry and lexicon, with the stand-ins and their words if asked for."""
    lexicon = load_lexicon(shipped_config("lexicon"))
    built = list(make_registry())
    if not with_standins:
        return Registry(built), lexicon
    words = tomllib.loads(WORDS.read_text("utf-8"))["executors"]
    first = lexicon.languages[0]
    more = dataclasses.replace(first, phrases=first.phrases + phrases_of(words))
    languages = (more, *lexicon.languages[1:])
    return Registry([*built[:-1], *STANDINS, built[-1]]), Lexicon(languages, {item.code: item for item in languages})


def is_right(case: dict[str, Any], steps: list[dict[str, Any]]) -> tuple[bool, bool, bool]:
    """First tool, sequence and arguments, as the cases' README defines them."""
    tools = [step["tool"] for step in steps]
    if len(tools) > 1 and tools[-1] == FINAL:
        tools.pop()
    first = any(tools[:1] == accepted[:1] for accepted in case["accept"])
    sequence = tools in case["accept"]
    by_tool = {step["tool"]: step["args"] for step in steps}
    arguments = all(
        tool in by_tool and all(_same(value, by_tool[tool].get(name)) for name, value in wanted.items())
        for tool, wanted in case["args"].items()
    )
    return first, sequence, arguments


def _same(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, list):
        return isinstance(found, list) and {str(i).casefold() for i in wanted} == {str(i).casefold() for i in found}
    return str(found).rstrip("/").rsplit("/", 1)[-1].casefold() == str(wanted).casefold()


async def measure(host: ModelHost, levels: list[str], cases: list[dict[str, Any]], verbose: bool) -> None:
    """Run every case at every level, alternating, and print the rows."""
    registry, lexicon = make_parts(with_standins=True)
    prompt = make_prompt(load_prompts(shipped_config("prompts.toml")), registry)
    scores: dict[str, list[tuple[bool, bool, bool]]] = defaultdict(list)
    by_lang: dict[tuple[str, str], list[bool]] = defaultdict(list)
    seconds: dict[str, list[float]] = defaultdict(list)
    now = datetime.now(UTC).astimezone()
    reading = Reading(lexicon, now, Scope([], home=None))
    host.keep_warm(Planner(host, prompt).prefix)
    for case in cases:
        signals = read_signals(case["text"], lexicon, case["lang"])
        spans = read_spans(case["text"], lexicon, shipped_kinds(), signals.lang)
        for level in levels:
            pool = Pool(tuple(registry)) if level == "whole" else make_pool(registry, signals)
            planner = Planner(host, prompt, LEVELS[level])
            started = time.monotonic()
            steps: list[dict[str, Any]] = []
            problem = ""
            try:
                plan = planner.fast(signals, pool)
                plan = plan or (await planner.plan(case["text"], pool, spans, reading)).plan
                steps = plan.to_json()["steps"]  # type: ignore[assignment]
            except (PlanError, ModelError) as error:
                problem = str(error)
            seconds[level].append(time.monotonic() - started)
            right = is_right(case, steps)
            scores[level].append(right)
            by_lang[level, case["lang"]].append(right[1])
            if verbose and not all(right):
                print(
                    f"  {level}: {case['text']!r}\n     got {json.dumps(steps, ensure_ascii=False)} {problem}",
                    flush=True,
                )
    print(f"{'level':10}{'first':>7}{'sequence':>10}{'args':>7}{'median s':>10}{'p95 s':>8}   by language")
    for level in levels:
        first, sequence, arguments = (sum(score[i] for score in scores[level]) for i in range(3))
        times = sorted(seconds[level])
        langs = " ".join(
            f"{lang} {sum(rights)}/{len(rights)}" for (name, lang), rights in by_lang.items() if name == level
        )
        median, late = statistics.median(times), times[int(0.95 * (len(times) - 1))]
        print(f"{level:10}{first:>7}{sequence:>10}{arguments:>7}{median:>10.2f}{late:>8.2f}   {langs}")
    print(f"{len(cases)} requests, model {host.profile.name}")


async def run(options: argparse.Namespace) -> None:
    """Load the model and measure."""
    configure_logs("error")
    places = locate()
    settings = load_settings(places.config_file)
    profile = make_catalog(settings, places).get(options.model)
    host = ModelHost(profile, places.models, state=places.state, may_fetch=False)
    cases = [json.loads(line) for line in options.cases.read_text("utf-8").splitlines() if line.strip()]
    task = asyncio.create_task(host.run())
    try:
        await measure(host, options.levels.split(","), cases[: options.limit], options.verbose)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="?", type=Path, default=CASES)
    parser.add_argument("--levels", default=",".join(LEVELS))
    parser.add_argument("--model", default="default")
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--verbose", action="store_true")
    asyncio.run(run(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

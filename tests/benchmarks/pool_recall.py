"""How often the pool holds the executors that a request needs, at 5 and at 12 ranked ones, by language.

    python tests/benchmarks/pool_recall.py

Over the requests of `tests/cases/plans.jsonl` (those whose executors are built) and the `[[pool]]` rows of
the language tables. A producer that a consumer brings with it counts as held.
"""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from pathlib import Path

from metnosd.assemble import make_registry
from metnosd.lexicon.loading import load_lexicon
from metnosd.lexicon.signals import read_signals
from metnosd.locations import shipped_config
from metnosd.pool import FINAL, make_pool

TESTS = Path(__file__).parents[1]


def requests() -> list[tuple[str, str, list[list[str]]]]:
    """Language, text, and the acceptable lists of executors of each request."""
    found = []
    for line in (TESTS / "cases" / "plans.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        found.append((case["lang"], case["text"], case["accept"]))
    for file in sorted((TESTS / "lexicon").glob("*.toml")):
        for row in tomllib.loads(file.read_text("utf-8")).get("pool", []):
            found.append((file.stem, row["text"], [row["tools"]]))
    return found


def main() -> None:
    """Measure and print."""
    registry, lexicon = make_registry(), load_lexicon(shipped_config("lexicon"))
    held: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    missed = []
    for lang, text, accepted in requests():
        wanted = [set(tools) - {FINAL} for tools in accepted]
        wanted = [tools for tools in wanted if tools and all(tool in registry for tool in tools)]
        if not wanted:
            continue
        signals = read_signals(text, lexicon, None)
        pools = [set(make_pool(registry, signals, largest=size).names) for size in (5, 12)]
        right = tuple(any(tools <= pool for tools in wanted) for pool in pools)
        held[lang].append((right[0], right[1]))
        if not right[1]:
            missed.append(f"  {lang}: {text!r} needs {wanted}")
    print(f"{'language':10}{'requests':>10}{'at 5':>8}{'at 12':>8}")
    everything = [row for rows in held.values() for row in rows]
    for name, rows in [*held.items(), ("all", everything)]:
        at_5, at_12 = (sum(row[i] for row in rows) / len(rows) for i in (0, 1))
        print(f"{name:10}{len(rows):>10}{at_5:>8.1%}{at_12:>8.1%}")
    print("\n".join(["missed at 12:", *missed]) if missed else "none missed at 12")


if __name__ == "__main__":
    main()

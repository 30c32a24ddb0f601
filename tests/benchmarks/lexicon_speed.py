"""How fast the lexicon reads: detection, signals and time over mixed sentences and over random words.

    python tests/benchmarks/lexicon_speed.py

Prints median and 99th percentile in milliseconds a sentence, the time to load all languages, the number of
templates, and as a yardstick of the machine how often one regular expression search fits into the median.
"""

from __future__ import annotations

import random
import re
import statistics
import time
import tomllib
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from metnosd.lexicon.detect import languages_for
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.loading import load_lexicon
from metnosd.lexicon.signals import read_signals
from metnosd.lexicon.when import read_when
from metnosd.locations import shipped_config

TABLES = Path(__file__).parents[1] / "lexicon"
ZONE = ZoneInfo("Europe/Rome")
NOW = datetime(2026, 10, 20, 8, tzinfo=ZONE)


def sentences() -> list[str]:
    """1,000 sentences of all tables, mixed."""
    texts = [
        row["text"]
        for file in sorted(TABLES.glob("*.toml"))
        for rows in tomllib.loads(file.read_text("utf-8")).values()
        if isinstance(rows, list)
        for row in rows
    ]
    chooser = random.Random(1)
    return [chooser.choice(texts) for _ in range(1000)]


def nonsense() -> list[str]:
    """500 random words of letters of several alphabets."""
    chooser = random.Random(2)
    letters = "abcdefghijklmnopqrstuvwxyzàèéìòùäöüßñçœ'-"
    return ["".join(chooser.choices(letters, k=chooser.randint(1, 14))) for _ in range(500)]


def measure(name: str, texts: list[str], lexicon: Lexicon) -> float:
    """Print the row of `texts`; the median in seconds."""
    for text in texts:
        read_when(text, languages_for(text, lexicon, None), NOW, ZONE)
    taken = []
    for text in texts:
        started = time.perf_counter()
        read_signals(text, lexicon, None)
        read_when(text, languages_for(text, lexicon, None), NOW, ZONE)
        taken.append(time.perf_counter() - started)
    taken.sort()
    median, late = statistics.median(taken), taken[int(0.99 * len(taken))]
    print(f"{name:20}{len(texts):>8}{median * 1000:>12.3f}{late * 1000:>12.3f}")
    return median


def main() -> None:
    """Measure and print."""
    started = time.perf_counter()
    lexicon = load_lexicon(shipped_config("lexicon"))
    loaded = time.perf_counter() - started
    templates = sum(
        len(found)
        for language in lexicon.languages
        for section in (language.signals, language.signals_within, *language.time.values())
        for found in section.values()
    )
    print(f"{len(lexicon.languages)} languages, {templates} templates, loaded in {loaded * 1000:.0f} ms")
    print(f"{'':20}{'count':>8}{'median ms':>12}{'p99 ms':>12}")
    median = measure("mixed sentences", sentences(), lexicon)
    measure("random words", nonsense(), lexicon)
    pattern = re.compile(r"(?:every|each)\s+(\w+)")
    started = time.perf_counter()
    for _ in range(10_000):
        pattern.search("on the last friday of every month at 6pm archive the invoices")
    one = (time.perf_counter() - started) / 10_000
    print(f"the median is {median / one:.0f} times one search of one short expression")


if __name__ == "__main__":
    main()

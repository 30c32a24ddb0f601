"""How often a general library for dates, `dateparser`, reads the cases right, beside the lexicon.

    python tests/benchmarks/dates_library.py [CASES.jsonl ...]

Takes the rows of kind `at` and `range` of all language tables and of the named files of cases, one JSON object a
line. Both readers know the language. A row is right for the lexicon where instant or range are those of the row.
For the library it is right where any date is that it finds, in the whole text or else in parts of it: the instant,
the one day of a range, or its first and its last day. Needs `pip install dateparser`, which is no part of the project.

The tables were written along with the lexicon, so that its own share says only that they still hold.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import tomllib
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from metnosd.lexicon.detect import languages_for
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.loading import load_lexicon
from metnosd.lexicon.when import read_when
from metnosd.locations import shipped_config

TABLES = Path(__file__).parents[1] / "lexicon"
Row = dict[str, Any]
Reader = Callable[[Row], bool]


def rows_of(cases: list[str]) -> list[Row]:
    """The rows of kind `at` and `range`, each with its language, clock and zone."""
    found: list[Row] = []
    for file in sorted(TABLES.glob("*.toml")):
        table = tomllib.loads(file.read_text("utf-8"))
        head = {"lang": file.stem, "now": table["now"], "zone": table["zone"]}
        found += [{**head, **row} for row in table["when"]]
    for name in cases:
        found += [json.loads(line) for line in Path(name).read_text("utf-8").splitlines() if line.strip()]
    return [row for row in found if row["kind"] in ("at", "range")]


def _utc(text: str) -> datetime:
    """An instant, comparable also where the clock of its zone shows the same time twice."""
    return datetime.fromisoformat(text).astimezone(UTC)


def _days(row: Row, zone: ZoneInfo) -> tuple[date, date] | None:
    """The first and the last day of a range of whole days."""
    if "from" not in row or "to" not in row:
        return None
    start, end = (_utc(row[key]).astimezone(zone) for key in ("from", "to"))
    return (start.date(), end.date() - timedelta(days=1)) if start.hour == end.hour == 0 else None


def our_reader(lexicon: Lexicon) -> Reader:
    """Whether the lexicon reads a row right."""

    def right(row: Row) -> bool:
        zone = ZoneInfo(row["zone"])
        now = datetime.fromisoformat(row["now"]).astimezone(zone)
        found = read_when(row["text"], languages_for(row["text"], lexicon, row["lang"]), now, zone)
        if row["kind"] == "at":
            return found.at is not None and found.at.astimezone(UTC) == _utc(row["next"][0])
        if found.range is None:
            return False
        edges = [edge and edge.astimezone(UTC) for edge in (found.range.start, found.range.end)]
        return edges == [_utc(row[key]) if key in row else None for key in ("from", "to")]

    return right


def library_reader() -> Reader | None:
    """Whether the library reads a row right, or None where it is not installed."""
    try:
        library = import_module("dateparser")
        search = import_module("dateparser.search")
    except ImportError:
        return None

    def right(row: Row) -> bool:
        zone = ZoneInfo(row["zone"])
        now = datetime.fromisoformat(row["now"]).astimezone(zone)
        settings = {
            "TIMEZONE": row["zone"],
            "RETURN_AS_TIMEZONE_AWARE": True,
            "RELATIVE_BASE": now.replace(tzinfo=None),
            "PREFER_DATES_FROM": "future",
        }
        whole = library.parse(row["text"], languages=[row["lang"]], settings=settings)
        parts = [whole] if whole else []
        if not parts:
            found = search.search_dates(row["text"], languages=[row["lang"]], settings=settings)
            parts = [moment for _, moment in found or ()]
        if row["kind"] == "at":
            return _utc(row["next"][0]) in [moment.astimezone(UTC) for moment in parts]
        days = [moment.astimezone(zone).date() for moment in parts]
        wanted = _days(row, zone)
        return wanted is not None and set(wanted) <= set(days)

    return right


def main(cases: list[str]) -> None:
    """Print, for each language and kind, how many rows each reader gets right, and the time of each."""
    library = library_reader()
    if library is None:
        print("dateparser is not installed: only the lexicon is measured.")
    warnings.filterwarnings("ignore")
    readers: dict[str, Reader] = {"lexicon": our_reader(load_lexicon(shipped_config("lexicon")))}
    if library is not None:
        readers["dateparser"] = library
    rows = rows_of(cases)
    totals = Counter((row["lang"], row["kind"]) for row in rows)
    right: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    only_library = []
    times: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        held = {}
        for name, reader in readers.items():
            reader(row)
            start = time.perf_counter()
            held[name] = reader(row)
            times[name].append(1000 * (time.perf_counter() - start))
            right[name][row["lang"], row["kind"]] += held[name]
        if held.get("dateparser") and not held["lexicon"]:
            only_library.append(f"{row['lang']}: {row['text']}")
    for key in sorted(totals):
        shown = "  ".join(f"{name} {right[name][key]}" for name in readers)
        print(f"{key[0]} {key[1]:5}  rows {totals[key]}  {shown}")
    for name in readers:
        share = sum(right[name].values()) / len(rows)
        print(f"{name}: {share:.1%} of {len(rows)} rows, median {statistics.median(times[name]):.2f} ms a sentence")
    for text in only_library:
        print(f"only dateparser: {text}")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Each language's own table: `tests/lexicon/<lang>.toml`. `--language xx` runs one."""

from __future__ import annotations

import tomllib
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from metnosd.assemble import make_registry
from metnosd.commands.when import when_to_json
from metnosd.kinds import shipped_kinds
from metnosd.lexicon.check import problems_of
from metnosd.lexicon.detect import languages_for
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.loading import load_lexicon
from metnosd.lexicon.signals import read_signals, whole_signal
from metnosd.lexicon.spans import places_of, read_spans
from metnosd.lexicon.when import read_when
from metnosd.locations import shipped_config
from metnosd.pool import make_pool

TABLES = Path(__file__).parent / "lexicon"


def rows(section: str) -> list[Any]:
    """The rows of a section of all tables, each with its language and the table's clock."""
    found = []
    for file in sorted(TABLES.glob("*.toml")):
        table = tomllib.loads(file.read_text("utf-8"))
        head = {"lang": file.stem, "now": table["now"], "zone": table["zone"]}
        for row in table.get(section, []):
            found.append(pytest.param({**head, **row}, id=f"{file.stem}: {row['text']}"))
    return found


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    """The shipped lexicon."""
    return load_lexicon(shipped_config("lexicon"))


@pytest.mark.parametrize("row", rows("when"))
def test_when(row: dict[str, Any], lexicon: Lexicon) -> None:
    """Kind, first fires, range and rest are those of the row, with the language set and detected."""
    zone = ZoneInfo(row["zone"])
    now = datetime.fromisoformat(row["now"]).astimezone(zone)
    wanted = {key: row[key] for key in ("kind", "next", "from", "to", "rest") if key in row}
    for lang in (row["lang"], None):
        found = read_when(row["text"], languages_for(row["text"], lexicon, lang), now, zone)
        shown = when_to_json(found, now, row["zone"], len(row.get("next", ())) or 5, lexicon)
        assert {key: shown.get(key) for key in wanted} == wanted, f"language {lang}"


@pytest.mark.parametrize("row", rows("signal"))
def test_signal(row: dict[str, Any], lexicon: Lexicon) -> None:
    """The message is the signal of the row, or none where that is empty."""
    found = whole_signal(row["text"], lexicon.language(row["lang"]))
    assert (found[0] if found else "") == row["signal"]
    if "count" in row:
        assert found is not None and found[1] == row["count"]


@pytest.mark.parametrize("row", rows("spans"))
def test_spans(row: dict[str, Any], lexicon: Lexicon) -> None:
    """Each source of the row has exactly these values."""
    spans = read_spans(row["text"], lexicon, shipped_kinds())
    wanted = {key: value for key, value in row.items() if key not in ("lang", "now", "zone", "text")}
    assert {key: list(spans[key]) for key in wanted} == wanted


def test_spans_have_places(lexicon: Lexicon) -> None:
    """A value that stands in the message has its place in code points; one that is only meant has none."""
    text = "show me the five PDFs over 10 MB in Projects from last week"
    spans = read_spans(text, lexicon, shipped_kinds(), "en")
    places = places_of(text, spans)
    assert [text[start:end] for start, end in places["size"]] == ["10 MB"]
    assert [text[start:end] for start, end in places["path"]] == ["Projects"]
    assert [text[start:end] for start, end in places["time"]] == ["last week"]
    assert spans["number"] == ("5",) and "number" not in places


def test_quoted_text_cuts_nothing_else(lexicon: Lexicon) -> None:
    """A quoted text that occurs inside a name too leaves that name whole."""
    spans = read_spans('write "x" to Documents/notes.txt', lexicon, shipped_kinds(), "en")
    assert spans["quoted"] == ("x",)
    assert "Documents/notes.txt" in spans["path"]
    assert not any(path.endswith(".t") or path == "t" for path in spans["path"])


@pytest.mark.parametrize("row", rows("pool"))
def test_pool(row: dict[str, Any], lexicon: Lexicon) -> None:
    """Every executor that the request needs is in its pool."""
    pool = make_pool(make_registry(), read_signals(row["text"], lexicon, row["lang"]))
    assert set(row["tools"]) <= set(pool.names)


@pytest.mark.parametrize("row", rows("language"))
def test_language(row: dict[str, Any], lexicon: Lexicon) -> None:
    """The language is told by the words alone."""
    assert languages_for(row["text"], lexicon, None)[0].code == row["lang"]


def test_files_hold_together(lexicon: Lexicon) -> None:
    """Same keys in all languages, no phrase with two signals, and every example of a file holds."""
    assert problems_of(lexicon) == []

"""What sentences say about time, by tables of cases."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from metnosd.commands.when import when_to_json
from metnosd.lexicon.detect import languages_for
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.loading import load_lexicon
from metnosd.lexicon.when import read_when
from metnosd.locations import shipped_config

CASES = Path(__file__).parent / "cases" / "when.jsonl"


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    """The shipped lexicon."""
    return load_lexicon(shipped_config("lexicon"))


def read(case: dict[str, Any], lexicon: Lexicon) -> dict[str, Any]:
    """What `metnosd when --json` says about a case."""
    zone = ZoneInfo(case["zone"])
    now = datetime.fromisoformat(case["now"]).astimezone(zone)
    languages = languages_for(case["text"], lexicon, case["lang"])
    found = read_when(case["text"], languages, now, zone)
    return when_to_json(found, now, case["zone"], len(case.get("next", ())) or 5, lexicon)


@pytest.mark.parametrize("line", CASES.read_text("utf-8").splitlines())
def test_case(line: str, lexicon: Lexicon) -> None:
    """Kind, fires, range and rest are those of the case."""
    case = json.loads(line)
    found = read(case, lexicon)
    wanted = {key: case[key] for key in ("kind", "next", "from", "to", "rest") if key in case}
    if case["kind"] == "recurring" and len(found.get("next", ())) > len(case["next"]):
        found["next"] = found["next"][: len(case["next"])]
    assert {key: found.get(key) for key in wanted} == wanted

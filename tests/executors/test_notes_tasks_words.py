"""How people speak of notes and lists, in five languages: what plans without a model, and what must not."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.scripted import ScriptedModel

from metnosd.assemble import make_registry
from metnosd.executors.notes import NOTE_EXECUTORS
from metnosd.executors.tasks import TASK_EXECUTORS
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.loading import load_lexicon
from metnosd.lexicon.signals import read_signals
from metnosd.locations import shipped_config
from metnosd.plan import Plan, Step
from metnosd.planner import Planner
from metnosd.pool import make_pool
from metnosd.prompt import load_prompts, make_prompt

CASES = Path(__file__).parents[1] / "cases"
OWN = tuple(tool.name for tool in (*NOTE_EXECUTORS, *TASK_EXECUTORS))


def rows(name: str) -> list[dict[str, Any]]:
    """The lines of a file of cases."""
    return [json.loads(line) for line in (CASES / name).read_text("utf-8").splitlines()]


REQUESTS = rows("everyday_notes_tasks.jsonl")
OTHERS = rows("everyday_notes_tasks_not.jsonl")


@cache
def lexicon() -> Lexicon:
    """The shipped lexicon."""
    return load_lexicon(shipped_config("lexicon"))


@cache
def planner() -> Planner:
    """A planner whose model is never asked."""
    return Planner(ScriptedModel(), make_prompt(load_prompts(shipped_config("prompts.toml")), make_registry()))


def test_each_executor_has_its_requests() -> None:
    """There are six requests or more for each executor in each language."""
    counts = Counter((row["lang"], row["tool"]) for row in REQUESTS)
    few = [(lang.code, tool) for lang in lexicon().languages for tool in OWN if counts[lang.code, tool] < 6]
    assert few == []


@pytest.mark.parametrize("row", REQUESTS, ids=lambda row: f"{row['lang']}: {row['text']}")
def test_request_reaches_its_executor(row: dict[str, Any]) -> None:
    """The executor is in the pool; a usual wording plans to exactly its arguments, others are left to the model."""
    for lang in (row["lang"], None):
        signals = read_signals(row["text"], lexicon(), lang)
        pool = make_pool(make_registry(), signals)
        assert row["tool"] in pool.names
        plan = planner().fast(signals, pool)
        assert plan == (Plan((Step(row["tool"], row["args"]),)) if row.get("fast") else None)


@pytest.mark.parametrize("row", OTHERS, ids=lambda row: f"{row['lang']}: {row['text']}")
def test_other_requests_are_none_of_these(row: dict[str, Any]) -> None:
    """What is about files, reminders or anything else is not taken for a note or a list."""
    for lang in (row["lang"], None):
        call = read_signals(row["text"], lexicon(), lang).call
        assert call is None or call.tool not in OWN

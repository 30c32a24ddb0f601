"""Entries sorted, filtered, limited and counted."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.trees import found, home_scope, run_with

from metnosd.entries import Entry
from metnosd.executor import Executor, Found
from metnosd.executors.files_all import FILE_EXECUTORS
from metnosd.executors.lists import count_entries, filter_entries, limit_entries, sort_entries
from metnosd.sentence import Refusal

FILES = tuple(
    Entry(
        "files",
        {"path": f"/h/{name}", "name": name, "size": size, "modified": datetime(2026, 11, day, tzinfo=UTC)},
    )
    for name, size, day in (("b.txt", 20, 3), ("A.pdf", 3_000_000, 1), ("c.txt", 5, 2))
)
NOTE = Entry("notes", {"title": "x"})


def result(tmp_path: Path, executor: Executor, *entries: Entry, **args: Any) -> Found:
    return found(executor, run_with(home_scope(tmp_path / "home"), entries or FILES), **args)


def names(got: Found) -> str:
    return " ".join(str(entry.fields.get("name", "-")) for entry in got.entries)


@pytest.mark.parametrize(
    ("by", "order", "expected"),
    [
        ("name", "asc", "A.pdf b.txt c.txt -"),
        ("size", "desc", "A.pdf b.txt c.txt -"),
        ("size", "asc", "c.txt b.txt A.pdf -"),
        ("modified", "desc", "b.txt c.txt A.pdf -"),
        ("extension", "asc", "A.pdf b.txt c.txt -"),
        ("count", "asc", "b.txt - A.pdf c.txt"),
    ],
)
def test_sorting(tmp_path: Path, by: str, order: str, expected: str) -> None:
    """Numbers, times and names in any case have their order; equals keep theirs; without a value comes last."""
    got = result(tmp_path, sort_entries, FILES[0], NOTE, *FILES[1:], by=by, order=order)
    assert names(got) == expected


@pytest.mark.parametrize(
    ("field", "op", "value", "expected"),
    [
        ("name", "contains", "TXT", "b.txt c.txt"),
        ("name", "starts", "a", "A.pdf"),
        ("name", "ends", ".PDF", "A.pdf"),
        ("name", "is", "a.pdf", "A.pdf"),
        ("extension", "is", ".txt", "b.txt c.txt"),
        ("extension", "not", "txt", "A.pdf"),
        ("size", "more", "1MB", "A.pdf"),
        ("size", "less", "20", "c.txt"),
        ("size", "is", "3 MB", "A.pdf"),
        ("modified", "more", "2026-11-02", "b.txt"),
        ("modified", "less", "2026-11-02T00:00:00+00:00", "A.pdf"),
        ("count", "more", "-1.5", ""),
    ],
)
def test_filtering(tmp_path: Path, field: str, op: str, value: str, expected: str) -> None:
    """Text in any case, sizes with units, days and numbers are compared; without a value nothing is more or less."""
    assert names(result(tmp_path, filter_entries, field=field, op=op, value=value)) == expected


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    """More than words is no question that has an answer."""
    with pytest.raises(Refusal) as caught:
        result(tmp_path, filter_entries, field="size", op="more", value="big\n")
    assert caught.value.sentence.values == {"value": "big\\n"}


def test_limiting_and_counting(tmp_path: Path) -> None:
    """The first entries are kept; a count is an entry of its own kind; none is none."""
    assert names(result(tmp_path, limit_entries, count=2)) == "b.txt A.pdf"
    assert names(result(tmp_path, limit_entries, count=99)) == "b.txt A.pdf c.txt"
    for count in (0, -1):
        with pytest.raises(Refusal):
            result(tmp_path, limit_entries, count=count)
    assert result(tmp_path, count_entries).entries == (Entry("numbers", {"count": 3}),)
    assert found(count_entries, run_with(home_scope(tmp_path / "h"), ())).entries[0].fields == {"count": 0}


def test_every_executor_says_what_it_takes(tmp_path: Path) -> None:
    """Each argument is described in a few words, and what changes files can be taken back."""
    for executor in FILE_EXECUTORS:
        assert len(executor.summary) < 80
        assert executor.effect == executor.reversible
        for name, schema in executor.schema["properties"].items():
            assert 0 < len(schema["description"]) < 50, (executor.name, name)

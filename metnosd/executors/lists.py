"""Entries put in order, chosen and counted, whatever they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Literal

from metnosd.arguments import Arg
from metnosd.entries import Entry, printable
from metnosd.executor import Found, Run, executor
from metnosd.filenames import extension_of
from metnosd.finder import name_key
from metnosd.lexicon.spans import read_size
from metnosd.sentence import Refusal

SortField = Literal["name", "size", "modified", "path", "extension", "title", "start", "due", "count"]
FilterField = Literal["name", "size", "modified", "path", "extension", "text", "title", "count"]
Operator = Literal["is", "not", "contains", "starts", "ends", "more", "less"]


@executor(takes="entries", gives="same", capability="entries")
def sort_entries(
    run: Run,
    *,
    by: Annotated[SortField, Arg("field to sort by")],
    order: Annotated[Literal["asc", "desc"], Arg("desc for biggest or newest first")] = "asc",
) -> Found:
    """Sort the entries, for example by size."""
    with_value = [entry for entry in run.entries if value_of(entry, by) is not None]
    without = [entry for entry in run.entries if value_of(entry, by) is None]
    with_value.sort(key=lambda entry: _sort_key(value_of(entry, by)), reverse=order == "desc")
    return Found((*with_value, *without))


@executor(takes="entries", gives="same", capability="entries")
def filter_entries(
    run: Run,
    *,
    field: Annotated[FilterField, Arg("field to test")],
    op: Annotated[Operator, Arg("test")],
    value: Annotated[str, Arg("value to compare with", "free")],
) -> Found:
    """Keep only the entries whose field passes a test."""
    test = _test(field, op, value, run)
    return Found(tuple(entry for entry in run.entries if test(entry)))


@executor(takes="entries", gives="same", capability="entries")
def limit_entries(run: Run, *, count: Annotated[int, Arg("how many to keep", "number")]) -> Found:
    """Keep only the first entries."""
    if count < 1:
        raise Refusal("limit.count", count=count)
    return Found(run.entries[:count])


@executor(takes="entries", gives="numbers", capability="entries", only_with="count")
def count_entries(run: Run) -> Found:
    """Count the entries."""
    return Found((Entry("numbers", {"count": len(run.entries)}),))


def value_of(entry: Entry, field: str) -> object:
    """The value of a field of an entry, None if it has none."""
    if field == "extension":
        return extension_of(str(entry.fields.get("name", ""))) or None
    return entry.fields.get(field)


def _sort_key(value: object) -> tuple[int, float, str]:
    """Numbers before times before text, each in its own order."""
    if isinstance(value, datetime):
        return 1, value.timestamp(), ""
    if isinstance(value, int | float):
        return 0, float(value), ""
    return 2, 0.0, name_key(str(value))


def _test(field: str, op: str, value: str, run: Run) -> Callable[[Entry], bool]:
    wanted = name_key(value.strip().lstrip(".") if field == "extension" else value)
    if op in ("more", "less"):
        bound = _bound(value, run)

        def compared(entry: Entry) -> bool:
            found = _number(value_of(entry, field))
            return found > bound if op == "more" else found < bound

        return compared

    def tested(entry: Entry) -> bool:
        found = value_of(entry, field)
        key = "" if found is None else name_key(str(found))
        same = key == wanted or (isinstance(found, int | float) and found == read_size(value))
        results = {
            "is": same,
            "not": not same,
            "contains": wanted in key,
            "starts": key.startswith(wanted),
            "ends": key.endswith(wanted),
        }
        return results[op]

    return tested


def _number(value: object) -> float:
    """A number or time to compare; what is neither compares as false with everything."""
    if isinstance(value, datetime):
        return value.timestamp()
    return float(value) if isinstance(value, int | float) else math.nan


def _bound(value: str, run: Run) -> float:
    """A number, a size (10MB) or a day (ISO 8601); raises Refusal for anything else."""
    size = read_size(value)
    if size is not None:
        return size
    try:
        return float(value)
    except ValueError:
        pass
    try:
        day = datetime.fromisoformat(value.strip())
    except ValueError:
        raise Refusal("filter.value", value=printable(value[:100])) from None
    return (day if day.tzinfo else day.replace(tzinfo=run.zone)).timestamp()

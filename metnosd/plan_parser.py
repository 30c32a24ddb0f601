"""From whatever a model service sent to JSON, or to an error that says what and where.

Takes prose around the JSON, code fences, thinking tags, single quotes and trailing commas. Refuses duplicate
keys, NaN, deep nesting, lone surrogates, more than one plan, and text that is too long. Text that ends
inside the plan is reported as truncated with its whole steps; it is never run in part.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn

from metnosd.plan import PlanError

MAX_CHARACTERS = 200_000
"""A plan of six steps is far shorter; what is longer is not looked at."""

MAX_DEPTH = 32
"""The deepest nesting of lists and objects."""

_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)


def parse_plan_text(text: str) -> Any:
    """The JSON value of the one plan in `text`. Raises `PlanError`."""
    if len(text) > MAX_CHARACTERS:
        raise PlanError("", f"the answer has {len(text)} characters, more than {MAX_CHARACTERS}")
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise PlanError("", "the answer holds half a surrogate pair")
    text = _THINKING.sub("", text)
    found = [value for value in _objects(text) if "steps" in value or "tool" in value]
    if not found:
        raise PlanError("", "the answer holds no plan")
    if any(value != found[0] for value in found[1:]):
        raise PlanError("", "the answer holds more than one plan")
    return found[0]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Each outermost JSON object in `text`, in order."""
    at = text.find("{")
    while at >= 0:
        end = _end_of_object(text, at)
        if end is None:
            if '"steps"' in text[at:] or "'steps'" in text[at:]:
                raise PlanError("", "the answer ends inside the plan", truncated=True, kept=_whole_steps(text[at:]))
            return
        value = _load(text[at:end], at)
        if isinstance(value, dict):
            yield value
        at = text.find("{", end)


def _end_of_object(text: str, start: int) -> int | None:
    """The index after the bracket that closes the one at `start`, or None where the text ends before."""
    depth = 0
    quote = ""
    at = start
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char == '"' or (char == "'" and _opens_string(text, at)):
            quote = char
        elif char in "{[":
            depth += 1
            if depth > MAX_DEPTH:
                raise PlanError(f"character {at}", f"the plan is nested deeper than {MAX_DEPTH}")
        elif char in "}]":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return None


def _opens_string(text: str, at: int) -> bool:
    before = at - 1
    while before >= 0 and text[before] in " \t\r\n":
        before -= 1
    return before >= 0 and text[before] in "{[,:"


def _load(text: str, offset: int) -> Any:
    # json raises ValueError itself for a number with more digits than Python turns into one.
    try:
        return _strict(text)
    except ValueError as first:
        try:
            return _strict(_mend(text))
        except ValueError:
            if '"steps"' not in text and "'steps'" not in text:
                return None
            at = f"character {offset + first.pos}" if isinstance(first, json.JSONDecodeError) else ""
            what = first.msg if isinstance(first, json.JSONDecodeError) else "a number is too long"
            raise PlanError(at, f"the plan is no JSON: {what}") from first


def _strict(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_no_constant)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise PlanError(counts.most_common(1)[0][0], "the key stands twice")
    return value


def _no_constant(name: str) -> NoReturn:
    raise PlanError("", f"{name} is no number in a plan")


def _mend(text: str) -> str:
    """`text` with single-quoted strings in double quotes and without commas before a closing bracket."""
    mended: list[str] = []
    quote = ""
    at = 0
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\" and at + 1 < len(text):
                pair = text[at : at + 2]
                mended.append("'" if pair == "\\'" else pair)
                at += 1
            elif char == quote:
                quote = ""
                mended.append('"')
            else:
                mended.append('\\"' if char == '"' else char)
        elif char == '"' or (char == "'" and _opens_string(text, at)):
            quote = char
            mended.append('"')
        elif char in "}]" and "".join(mended[-8:]).rstrip().endswith(","):
            while mended[-1] != ",":
                mended.pop()
            mended[-1] = char
        else:
            mended.append(char)
        at += 1
    return "".join(mended)


def _whole_steps(text: str) -> tuple[str, ...]:
    """The tools of the steps that are whole in a plan that was cut off, up to one that is no step."""
    at = text.find("[")
    kept: list[str] = []
    while 0 <= at < len(text):
        at = text.find("{", at)
        try:
            end = _end_of_object(text, at) if at >= 0 else None
            value = _load(text[at:end], at) if end is not None else None
        except PlanError:
            break
        if end is None:
            break
        if isinstance(value, dict) and isinstance(value.get("tool"), str):
            kept.append(value["tool"])
        at = end
    return tuple(kept)

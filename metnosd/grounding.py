"""What the user did not say is not in the plan: narrows what a turn offers, and mends what a model wrote.

Holds at every level of constraint. An argument's source is `x-source` in its schema (for arrays, of the
items). `SAID` sources list all their values in the message's spans; of the others only the words must be in
the message.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from metnosd.executor import Executor
from metnosd.lexicon.spans import Spans
from metnosd.lexicon.templates import fold
from metnosd.plan import Plan, PlanError, Step
from metnosd.pool import Pool

SAID = ("time", "size", "kind", "category", "shallow", "url")
"""Sources whose values the lexicon lists completely."""

QUOTING = ("path", "name", "words", "quoted")
"""Sources whose values must be words of the message."""


def narrow(pool: Pool, spans: Spans) -> Pool:
    """`pool` with only the arguments that this message can fill.

    An enumeration or boolean with a source keeps the values that were said and goes where none was; where
    nothing looks like a path or name, any words of the message may be one.
    """
    return replace(pool, executors=tuple(_narrow_executor(item, spans) for item in pool.executors))


def _narrow_executor(executor: Executor, spans: Spans) -> Executor:
    properties = {}
    for name, schema in executor.schema["properties"].items():
        narrowed = _narrow_schema(schema, spans)
        if narrowed is not None:
            properties[name] = narrowed
    required = [name for name in executor.schema["required"] if name in properties]
    return replace(executor, schema={**executor.schema, "properties": properties, "required": required})


def _narrow_schema(schema: Mapping[str, Any], spans: Spans) -> Mapping[str, Any] | None:
    source = source_of(schema)
    if source is None:
        return schema
    values = spans.get(source, ())
    if "enum" in schema:
        kept = [value for value in schema["enum"] if value in values]
        return {**schema, "enum": kept} if kept else None
    if schema.get("type") == "boolean":
        return schema if values else None
    if source in ("path", "name") and not values:
        return {**schema, "x-source": "words"}
    return schema


def source_of(schema: Mapping[str, Any]) -> str | None:
    """The source of an argument, or of the items of a list."""
    items = schema.get("items")
    source = schema.get("x-source") or (items.get("x-source") if isinstance(items, Mapping) else None)
    return str(source) if source else None


def ground_plan(plan: Plan, pool: Pool, text: str, spans: Spans) -> Plan:
    """`plan` with each argument that strayed from the message mended, or dropped where it is optional.

    One value that the message has and no step uses takes the place of an invented one. A reader that takes a
    time, size or kind gets the message's only one if no step has it. Raises `PlanError` for a required
    argument that the message does not hold.
    """
    folded = " ".join(fold(text).split())
    steps = []
    for number, step in enumerate(plan.steps, 1):
        executor = _executor(pool, step)
        args: dict[str, Any] = {}
        for name, value in step.args.items():
            schema = executor.schema["properties"][name]
            kept = _grounded(schema, value, folded, spans)
            if source_of(schema) in QUOTING and kept in args.values() and name not in executor.schema["required"]:
                # The same words twice say nothing more: a small model fills what is offered.
                kept = None
            if kept is None and name in executor.schema["required"]:
                where = f"steps.{number}.args.{name}"
                raise PlanError(where, f"{value!r} is not in the request; use its words")
            if kept is not None:
                args[name] = kept
        steps.append(Step(step.tool, args, step.source))
    return Plan(tuple(_narrowed_to_file(_fill(_without_echoes(steps, pool), pool, spans), pool, spans)))


def _narrowed_to_file(steps: list[Step], pool: Pool, spans: Spans) -> list[Step]:
    """`steps` that change something, held to the file that was named: never widened to the folder around it.

    Where no step uses a file that the message names, the one that finds by name gets it. Raises PlanError
    where none can.
    """
    files = [os.path.basename(path) for path in spans.get("path", ()) if os.path.splitext(path)[1]]
    said = " ".join(str(value) for step in steps for value in step.args.values()).casefold()
    changes = any(_executor(pool, step).effect for step in steps)
    if not files or not changes or any(file.casefold() in said for file in files):
        return steps
    for index, step in enumerate(steps):
        properties = _executor(pool, step).schema["properties"]
        if "name" in properties and "name" not in step.args and not _executor(pool, step).effect:
            return [*steps[:index], Step(step.tool, {**step.args, "name": files[0]}, step.source), *steps[index + 1 :]]
    raise PlanError("steps", f"the request names {files[0]!r}, and no step uses it")


def _without_echoes(steps: list[Step], pool: Pool) -> list[Step]:
    """`steps` without those that add nothing: a small model repeats itself rather than stop.

    That is a filter by a value by which an earlier step has found, and a last reader that looks alone at a
    place that an earlier step has looked at. Steps that others name by number stay.
    """
    kept: list[Step] = []
    named = any(step.source is not None for step in steps)
    for step in steps:
        said = {str(value) for earlier in kept for value in earlier.args.values()}
        if not (_executor(pool, step).gives == "same" and str(step.args.get("value")) in said) or named:
            kept.append(step)
    while len(kept) > 1:
        last = kept[-1]
        said = {str(value) for step in kept[:-1] for value in step.args.values()}
        executor = _executor(pool, last)
        alone = executor.kinds == (None,) and executor.gives is not None and not executor.effect
        if not (alone and last.args and all(str(value) in said for value in last.args.values())):
            break
        kept.pop()
    return kept


def _executor(pool: Pool, step: Step) -> Executor:
    executor = pool.get(step.tool)
    assert executor is not None
    return executor


def _grounded(schema: Mapping[str, Any], value: Any, folded: str, spans: Spans) -> Any:
    """`value` as the message has it, or None."""
    source = source_of(schema)
    if source is None or source == "free":
        return value
    if isinstance(value, list):
        kept = [item for item in value if _quotes(str(item), folded)]
        return kept or None
    if source in SAID:
        return _said(schema, value, spans.get(source, ()))
    if source == "number":
        return value if str(value) in spans.get("number", ()) else None
    if source == "path":
        return _said_part(str(value), folded)
    return value if _quotes(str(value), folded) else None


def _said(schema: Mapping[str, Any], value: Any, values: tuple[str, ...]) -> Any:
    if schema.get("type") == "boolean":
        return value if values else None
    wanted = fold(str(value)).replace(" ", "")
    same = [item for item in values if fold(item).replace(" ", "") == wanted]
    holding = [item for item in values if wanted in fold(item).replace(" ", "")]
    if same or "enum" in schema:
        return same[0] if same else None
    return holding[0] if holding else values[0] if len(values) == 1 else None


def _quotes(value: str, folded: str) -> bool:
    return " ".join(fold(value).split()).strip("*") in folded


def _said_part(path: str, folded: str) -> str | None:
    """The longest end of `path` that the message holds: "Projects" of "/home/me/Projects"."""
    if _quotes(path, folded):
        return path
    parts = [part for part in path.split("/") if part not in ("", "~", ".", "..")]
    tails = ("/".join(parts[first:]) for first in range(len(parts)))
    return next((tail for tail in tails if _quotes(tail, folded)), None)


def _fill(steps: list[Step], pool: Pool, spans: Spans) -> list[Step]:
    """Give the one reader that can take it the only time, size or kind that was said and is used nowhere."""
    if spans.get("empty"):
        steps = [_only_empty(step, pool) for step in steps]
    for source in ("time", "kind", "category"):
        values = spans.get(source, ())
        takers = [
            (index, name)
            for index, step in enumerate(steps)
            if not _executor(pool, step).effect
            for name, schema in _executor(pool, step).schema["properties"].items()
            if source_of(schema) == source
        ]
        used = any(name in steps[index].args for index, name in takers)
        if len(values) != 1 or len(takers) != 1 or used:
            continue
        if source == "category" and "kind" in _sources_used(steps, pool):
            continue
        index, name = takers[0]
        schema = _executor(pool, steps[index]).schema["properties"][name]
        if "enum" not in schema or values[0] in schema["enum"]:
            step = steps[index]
            steps[index] = Step(step.tool, {**step.args, name: values[0]}, step.source)
    return steps


def _only_empty(step: Step, pool: Pool) -> Step:
    """`step` with the size of an empty file, where it finds by size: "empty" must not be lost."""
    sizes = [
        name
        for name, schema in _executor(pool, step).schema["properties"].items()
        if source_of(schema) == "size" and name.startswith("smaller")
    ]
    return Step(step.tool, {**step.args, sizes[0]: "1B"}, step.source) if sizes else step


def _sources_used(steps: list[Step], pool: Pool) -> set[str | None]:
    return {source_of(_executor(pool, step).schema["properties"][name]) for step in steps for name in step.args}

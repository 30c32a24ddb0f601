"""`metnosd grammar` and `metnosd schema-grammar`: the GBNF that constrains a model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from metnosd.assemble import make_registry, read_spans_of
from metnosd.commands.common import ConfigOption, fail, load
from metnosd.grammar import (
    GrammarError,
    build_framework_grammar,
    build_framework_grammar_flow,
    build_framework_grammar_grounded,
    build_framework_grammar_typed,
    generate_tool_grammar,
    schema_to_gbnf,
)


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(grammar)
    app.command(name="schema-grammar")(schema_grammar)


def grammar(
    config: ConfigOption = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Executors, with commas between; all if left out.")] = None,
    typed: Annotated[bool, typer.Option("--typed", help="Type the arguments.")] = False,
    flow: Annotated[bool, typer.Option("--flow", help="Follow the kinds of entries.")] = False,
    grounded: Annotated[str | None, typer.Option("--grounded", help="Only what TEXT says.", metavar="TEXT")] = None,
    tool_call: Annotated[bool, typer.Option("--tool-call", help="One tool call instead of a plan.")] = False,
) -> None:
    """Print the grammar of plans."""
    load(config)
    registry = make_registry()
    names = [name.strip() for name in pool.split(",")] if pool is not None else [item.name for item in registry]
    unknown = [name for name in names if name not in registry]
    if unknown:
        fail(f"There is no executor {', '.join(unknown)}. `metnosd executors` lists them.")
    chosen = [registry[name] for name in names]
    try:
        if tool_call:
            text = generate_tool_grammar(chosen)
        elif grounded is not None:
            text = build_framework_grammar_grounded(chosen, read_spans_of(grounded))
        elif flow:
            text = build_framework_grammar_flow(chosen, typed=typed)
        else:
            text = build_framework_grammar_typed(chosen) if typed else build_framework_grammar(chosen)
    except GrammarError as error:
        fail(str(error))
    typer.echo(text, nl=False)


def schema_grammar(
    file: Annotated[Path, typer.Argument(help="A JSON Schema; - for stdin.")], config: ConfigOption = None
) -> None:
    """Print the grammar of one JSON Schema."""
    load(config)
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
        schema = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        fail(f"{file} cannot be read as JSON: {error}")
    try:
        typer.echo(schema_to_gbnf(schema), nl=False)
    except GrammarError as error:
        fail(str(error))

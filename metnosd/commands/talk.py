"""Commands that talk to the running daemon: ask, chat, undo, redo, history, schedules, status."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from metnosd.client import Client
from metnosd.commands.common import (
    FAILED,
    ConfigOption,
    JsonOption,
    LangOption,
    connect,
    err,
    fail,
    print_json,
)

GOOD = ("done", "nothing")
"""The outcomes with which a request exits 0."""


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    for command in (ask, chat, undo, redo, history, schedules, status):
        app.command()(command)


def ask(
    text: Annotated[str, typer.Argument(help="The request, in your words.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
    lang: LangOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Answer a consent question with yes.")] = False,
    no: Annotated[bool, typer.Option("--no", help="Answer a consent question with no.")] = False,
) -> None:
    """Send one message to the daemon and print its reply."""
    if yes and no:
        raise typer.BadParameter("--yes and --no exclude each other")
    preset = True if yes else False if no else None
    with connect(config) as client:
        event = _send(client, text, lang, lambda question: _answer(question, preset))
    _show(event, as_json)


def _send(client: Client, text: str, lang: str | None, answer: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    request = {"type": "message", "text": text, "message_id": secrets.token_hex(8)}
    if lang is not None:
        request["lang"] = lang

    def hear(event: dict[str, Any]) -> None:
        if event["type"] == "consent_request":
            word = "yes" if answer(event) else "no"
            client.send({"type": "consent", "token": event["token"], "answer": word})
        elif sys.stderr.isatty():
            err.print(f"… {event['stage'].replace('_', ' ')} {event.get('detail', '')}".rstrip(), style="dim")

    return client.ask(request, hear)


def _answer(question: dict[str, Any], preset: bool | None) -> bool:
    err.print(question["text"])
    if preset is not None:
        return preset
    if not sys.stdin.isatty():
        err.print("There is no terminal to answer on, so the answer is no; use --yes or --no.")
        return False
    return typer.confirm("?", default=False, err=True)


def _show(event: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(event)
    if event["type"] == "error":
        err.print(event["message"])
    elif not as_json:
        typer.echo(event["text"].encode("utf-8", "backslashreplace"))
    if event["type"] == "error" or event["outcome"]["status"] not in GOOD:
        raise typer.Exit(FAILED)


def chat(config: ConfigOption = None, lang: LangOption = None) -> None:
    """Converse with the daemon until an empty line, Ctrl-D or Ctrl-C."""
    with connect(config) as client:
        while True:
            try:
                text = input("> " if sys.stdin.isatty() else "").strip()
            except (EOFError, KeyboardInterrupt):
                return
            if not text:
                return
            event = _send(client, text, lang, lambda question: _answer(question, None))
            typer.echo((event.get("text") or event.get("message", "")).encode("utf-8", "backslashreplace"))


CountArgument = Annotated[int, typer.Argument(min=1, max=1000, help="How many turns.")]


def undo(count: CountArgument = 1, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Take back what the last turns did."""
    _revert("undo", count, config, as_json)


def redo(count: CountArgument = 1, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Do again what was just taken back."""
    _revert("redo", count, config, as_json)


def _revert(way: str, count: int, config: Path | None, as_json: bool) -> None:
    with connect(config) as client:
        event = client.ask({"type": way, "count": count})
    _show(event, as_json)


def history(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List what was asked and done, newest first."""
    document = _fetch("history", config, as_json)
    if as_json:
        print_json(document)
        return
    for turn in document["turns"]:
        undoable = f", {turn['undoable']} to undo" if turn["undoable"] else ""
        typer.echo(f"{turn['at']}  {turn['channel']}  {turn['status'] or turn['state']}{undoable}  {turn['text']}")


def schedules(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the schedules with their next fires."""
    document = _fetch("schedules", config, as_json)
    if as_json:
        print_json({"schedules": document["schedules"]})
        return
    for schedule in document["schedules"]:
        typer.echo(f"{schedule['id']}  {schedule['state']}  {', '.join(schedule['next'])}  {schedule['text']}")
    if not document["schedules"]:
        typer.echo("There are no schedules.")


def status(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show how the running daemon is."""
    document = _fetch("status", config, as_json)
    if as_json:
        print_json(document)
        return
    model = document["model"]
    reason = f": {model['reason']}" if model.get("reason") else ""
    typer.echo(f"Model {model['name']}: {model['state']}{reason}")
    for name, channel in document["channels"].items():
        typer.echo(f"Channel {name}: {', '.join(f'{key} {value}' for key, value in channel.items())}")
    typer.echo(f"Turns under way: {document['queue']}. Metnos {document['versions']['metnosd']}.")


def _fetch(kind: str, config: Path | None, as_json: bool) -> dict[str, Any]:
    with connect(config) as client:
        event = client.ask({"type": kind})
    if event["type"] == "error":
        if as_json:
            print_json(event)
        fail(event["message"])
    return {key: value for key, value in event.items() if key not in ("id", "type")}

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


YesOption = Annotated[bool, typer.Option("--yes", help="Answer a question with yes.")]
NoOption = Annotated[bool, typer.Option("--no", help="Answer a question with no.")]


def ask(
    text: Annotated[str, typer.Argument(help="The request, in your words.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
    lang: LangOption = None,
    yes: YesOption = False,
    no: NoOption = False,
) -> None:
    """Send one message to the daemon and print its reply."""
    preset = _preset(yes, no)
    with connect(config) as client:
        event = _send(client, text, lang, lambda question: _answer(question, preset))
    _show(event, as_json)


def _send(client: Client, text: str, lang: str | None, answer: Callable[[dict[str, Any]], str]) -> dict[str, Any]:
    request: dict[str, Any] = {"type": "message", "text": text, "message_id": secrets.token_hex(8)}
    if lang is not None:
        request["lang"] = lang
    return _converse(client, request, answer)


def _converse(client: Client, request: dict[str, Any], answer: Callable[[dict[str, Any]], str]) -> dict[str, Any]:
    """Send `request` and answer its questions with yes, no or a choice of theirs; its last event."""

    def hear(event: dict[str, Any]) -> None:
        if event["type"] == "consent_request":
            word = answer(event)
            choice = {} if word in ("yes", "no") else {"choice": word}
            yes = "no" if word == "no" else "yes"
            client.send({"type": "consent", "token": event["token"], "answer": yes, **choice})
        elif sys.stderr.isatty():
            err.print(f"… {event['stage'].replace('_', ' ')} {event.get('detail', '')}".rstrip(), style="dim")

    return client.ask(request, hear)


def _answer(question: dict[str, Any], preset: bool | None) -> str:
    err.print(question["text"])
    if preset is not None:
        return "yes" if preset else "no"
    if not sys.stdin.isatty():
        err.print("There is no terminal to answer on, so the answer is no; use --yes or --no.")
        return "no"
    choices = [choice["name"] for choice in question.get("choices", ())]
    whole = question.get("full_text")
    ways = ["yes", "no", *choices, *(["all"] if whole else [])]
    while True:
        word = typer.prompt("/".join(ways), default="no", err=True).strip().casefold()
        word = {"y": "yes", "n": "no"}.get(word, word)
        if word == "all" and whole:
            err.print(whole)
        elif word in ways:
            return str(word)


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


def undo(
    count: CountArgument = 1,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    yes: YesOption = False,
    no: NoOption = False,
) -> None:
    """Take back what the last turns did."""
    _revert("undo", count, config, as_json, _preset(yes, no))


def redo(
    count: CountArgument = 1,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    yes: YesOption = False,
    no: NoOption = False,
) -> None:
    """Do again what was just taken back."""
    _revert("redo", count, config, as_json, _preset(yes, no))


def _preset(yes: bool, no: bool) -> bool | None:
    if yes and no:
        raise typer.BadParameter("--yes and --no exclude each other")
    return True if yes else False if no else None


def _revert(way: str, count: int, config: Path | None, as_json: bool, preset: bool | None) -> None:
    with connect(config) as client:
        event = _converse(client, {"type": way, "count": count}, lambda question: _answer(question, preset))
    _show(event, as_json)


def history(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List what was asked and done, newest first."""
    document = _fetch("history", config, as_json)
    if as_json:
        print_json(document)
        return
    for turn in document["turns"]:
        leave = turn["verdict"]["rule"] if turn["verdict"] else "-"
        consent = f" {turn['consent']}" if turn["consent"] else ""
        undoable = f"{turn['undoable']} to undo" if turn["undoable"] else turn["why"].replace("_", " ")
        result = turn["status"] or turn["state"]
        cells = [turn["at"], turn["user"], turn["channel"], leave + consent, result, undoable, turn["text"]]
        typer.echo("  ".join(cells).encode("utf-8", "backslashreplace"))


def schedules(
    config: ConfigOption = None,
    as_json: JsonOption = False,
    ical: Annotated[bool, typer.Option("--ical", help="Print them as iCalendar.")] = False,
) -> None:
    """List the schedules with their next fires."""
    if ical:
        sys.stdout.buffer.write(_fetch("calendar", config, as_json)["text"].encode())
        return
    document = _fetch("schedules", config, as_json)
    if as_json:
        print_json({"schedules": document["schedules"]})
        return
    for schedule in document["schedules"]:
        runs = ", ".join(f"{run['due_at']} {run['state']}" for run in schedule["runs"][:3])
        cells = [schedule["id"], schedule["state"], ", ".join(schedule["next"][:3]), schedule["text"], runs]
        typer.echo("  ".join(cells).rstrip().encode("utf-8", "backslashreplace"))
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

"""What the commands share: options, places, exit statuses, output."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from metnosd.client import Client
from metnosd.locations import Locations, locate
from metnosd.settings import Settings, SettingsError, load_settings

DONE, FAILED, USAGE, UNREACHABLE = 0, 1, 2, 3
"""Exit statuses: done; refused or failed; usage; the daemon is not reachable."""

SYSTEM_SOCKET = Path("/run/metnosd/metnosd.sock")

ConfigOption = Annotated[Path | None, typer.Option("--config", help="The settings file.", metavar="FILE")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
LangOption = Annotated[str | None, typer.Option("--lang", help="The language of the message, as a code.")]

err = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)


def load(config: Path | None) -> tuple[Settings, Locations]:
    """The settings and places of this call. Raises SettingsError, also for a file that was named and is not there."""
    if config is not None and not config.exists():
        raise SettingsError(f"{config} is not there.")
    places = locate(config)
    return load_settings(places.config_file), places


def connect(config: Path | None) -> Client:
    """A client of the daemon of this user, else of the system's."""
    _, places = load(config)
    system = not places.socket.exists() and SYSTEM_SOCKET.exists()
    return Client(SYSTEM_SOCKET if system else places.socket, lambda event: err.print(event["text"]))


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on stdout."""
    text = json.dumps(document, ensure_ascii=False, indent=2)
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")


def fail(message: str, status: int = FAILED) -> NoReturn:
    """End with `message` on stderr."""
    err.print(message)
    raise typer.Exit(status)

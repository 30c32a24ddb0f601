"""Commands that need no running daemon: serve, plan, grammar, executors, doctor, install."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from metnosd.assemble import assemble, make_catalog, make_registry, system_clock
from metnosd.client import NotReachable
from metnosd.commands.common import (
    FAILED,
    ConfigOption,
    JsonOption,
    LangOption,
    connect,
    err,
    fail,
    load,
    print_json,
)
from metnosd.doctor import examine
from metnosd.install import InstallError, apply, dry_run, plan_install
from metnosd.locations import Locations, shipped_units
from metnosd.model.host import ModelHost
from metnosd.planner import choose_level
from metnosd.service import ServiceError
from metnosd.settings import Settings


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    for command in (serve, plan, executors, doctor, install):
        app.command()(command)


def serve(config: ConfigOption = None) -> None:
    """Run the daemon in the foreground."""
    from metnosd.serve import serve as run

    settings, places = load(config)
    asyncio.run(run(settings, places))


def plan(
    text: Annotated[str, typer.Argument(help="The request, in your words.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
    lang: LangOption = None,
    no_model: Annotated[bool, typer.Option("--no-model", help="Stop before the model.")] = False,
) -> None:
    """Show what a message would lead to, with nothing run."""
    shown = _plan(text, config, lang, not no_model)
    if as_json:
        print_json(shown)
    if shown.get("error"):
        err.print(shown["error"]["message"])
    elif not as_json:
        typer.echo(json.dumps(shown["plan"], ensure_ascii=False))
        if shown["verdict"]:
            typer.echo(f"{shown['verdict']['answer']} ({shown['verdict']['rule']})")
    if shown.get("error"):
        raise typer.Exit(FAILED)


def _plan(text: str, config: Path | None, lang: str | None, model: bool) -> Mapping[str, Any]:
    """The plan by the running daemon with its warm model, else by a model loaded for this."""
    if "METNOS_NOW" not in os.environ:
        try:
            with connect(config) as client:
                event = client.ask({"type": "plan", "text": text, "lang": lang, "model": model})
        except NotReachable:
            pass
        else:
            if event["type"] == "error":
                return {"error": {"code": event["code"], "message": event["message"]}}
            return {key: value for key, value in event.items() if key not in ("id", "type")}
    settings, places = load(config)
    return asyncio.run(_plan_here(settings, places, text, lang, model))


async def _plan_here(
    settings: Settings, places: Locations, text: str, lang: str | None, model: bool
) -> Mapping[str, Any]:
    profile = make_catalog(settings, places).get()
    host = ModelHost(profile, places.models, state=places.state, may_fetch=False)
    clock = fixed_clock() or system_clock
    home = os.environ.get("HOME") or str(Path.home())
    assembly = assemble(
        settings,
        places,
        host,
        clock=clock,
        home=home,
        uid=os.getuid(),
        level=choose_level(os.environ, profile.args, profile.flow),
        settle_crash=False,
    )
    try:
        host.keep_warm(assembly.parts.planner.prefix)
        running = [asyncio.create_task(host.run())] if model else []
        try:
            return await assembly.daemon.plan(assembly.owner, text, lang=lang, model=model)
        except ServiceError as error:
            return {"error": {"code": error.code, "message": str(error)}}
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
    finally:
        assembly.close()


def fixed_clock() -> Callable[[], datetime] | None:
    """A clock that stands at `METNOS_NOW` (ISO 8601), if that is set; ends the command where it is no time."""
    value = os.environ.get("METNOS_NOW")
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value).astimezone()
    except ValueError:
        fail(f"METNOS_NOW is {value!r}, which is no time in ISO 8601.")
    return lambda: moment


def executors(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List what the daemon can do."""
    found = [item.to_json() for item in make_registry()]
    if as_json:
        print_json({"executors": found})
        return
    for item in found:
        typer.echo(f"{item['name']}: {item['summary']}")


def doctor(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Check host, model, socket, settings and services, and say what to do about each finding."""
    findings = examine(config)
    if as_json:
        print_json({"findings": [finding.to_json() for finding in findings]})
    else:
        for finding in findings:
            typer.echo(f"{'ok  ' if finding.ok else 'FAIL'} {finding.check}: {finding.text}")
    if not all(finding.ok for finding in findings):
        raise typer.Exit(FAILED)


def install(
    config: ConfigOption = None,
    user: Annotated[bool, typer.Option("--user", help="For you alone.")] = False,
    system: Annotated[bool, typer.Option("--system", help="For the whole machine.")] = False,
    only_print: Annotated[bool, typer.Option("--dry-run", help="Print the units and write nothing.")] = False,
) -> None:
    """Write and enable the systemd units."""
    if user == system:
        raise typer.BadParameter("choose --user or --system")
    executable = Path(sys.argv[0]).absolute()
    try:
        made = plan_install("user" if user else "system", executable, shipped_units(), config=config)
    except InstallError as error:
        fail(str(error))
    if only_print:
        typer.echo(dry_run(made), nl=False)
        return
    result = apply(made)
    (typer.echo if result.status == 0 else err.print)(result.sentence)
    raise typer.Exit(result.status)

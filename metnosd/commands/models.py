"""`metnosd model`: the catalog, fetching, choosing."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from metnosd.assemble import make_catalog
from metnosd.commands.common import ConfigOption, JsonOption, err, fail, load, print_json
from metnosd.commands.progress import fetch_progress
from metnosd.model.catalog import Profile
from metnosd.model.fetch import FetchError, Problem, fetch, partial_bytes, verify

model_app = typer.Typer(help="The model catalog.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="A name of the catalog; `default` is the one in use.")]


def register(app: typer.Typer) -> None:
    """Add the group of commands to `app`."""
    app.add_typer(model_app, name="model")


@model_app.command("list")
def list_models(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the models that can be used."""
    settings, places = load(config)
    catalog = make_catalog(settings, places)
    rows = [_row(profile, places.models) | {"in_use": profile.name == catalog.in_use} for profile in catalog.profiles]
    if as_json:
        print_json({"models": rows})
        return
    for row in rows:
        size = f"{row['bytes'] / 1e6:.0f} MB" if isinstance(row["bytes"], int) else "?"
        typer.echo(f"{'*' if row['in_use'] else ' '} {row['name']}  {size}  {row['licence']}  {row['state']}")


def _row(profile: Profile, folder: Path) -> dict[str, object]:
    found = verify(profile, folder)
    partial = partial_bytes(profile, folder)
    if isinstance(found, Problem):
        state = f"{partial} bytes fetched" if found.kind == "missing" and partial else found.kind
    else:
        state = "ready" if found.checked else "ready, not verified"
    return {
        "name": profile.name,
        "file": str(folder / profile.file),
        "bytes": profile.bytes,
        "sha256": profile.sha256,
        "licence": profile.licence,
        "context": profile.context,
        "state": state,
    }


@model_app.command("fetch")
def fetch_model(name: NameArgument = "default", config: ConfigOption = None) -> None:
    """Download a model, or go on with a download that was interrupted."""
    settings, places = load(config)
    profile = make_catalog(settings, places).get(name)
    try:
        with fetch_progress() as progress:
            path = asyncio.run(fetch(profile, places.models, progress))
    except FetchError as error:
        fail(str(error))
    typer.echo(os.fsencode(path))


@model_app.command("use")
def use_model(name: NameArgument, config: ConfigOption = None) -> None:
    """Choose the model that the daemon uses from its next start on."""
    settings, places = load(config)
    catalog = make_catalog(settings, places).use(name)
    found = verify(catalog.get(), places.models)
    typer.echo(f"{catalog.in_use} is in use from the next start of the daemon on.")
    if isinstance(found, Problem):
        err.print(found.sentence)

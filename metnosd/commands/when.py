"""`metnosd when`: what the lexicon reads as time."""

from __future__ import annotations

import unicodedata
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from metnosd.assemble import system_clock, zone_of
from metnosd.commands.common import ConfigOption, JsonOption, LangOption, fail, load, print_json
from metnosd.commands.local import fixed_clock
from metnosd.lexicon.detect import languages_for
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.loading import load_lexicon
from metnosd.lexicon.when import When, read_when
from metnosd.locations import shipped_config


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(when)


def when(
    text: Annotated[str, typer.Argument(help="A sentence.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
    lang: LangOption = None,
    now: Annotated[str | None, typer.Option("--now", help="The clock, in ISO 8601.")] = None,
    zone: Annotated[str | None, typer.Option("--zone", help="The time zone, as an IANA name.")] = None,
    count: Annotated[int, typer.Option("--count", min=0, max=1000, help="How many fires to list.")] = 5,
) -> None:
    """Show what a sentence says about time."""
    settings, places = load(config)
    try:
        where = ZoneInfo(zone) if zone else zone_of(settings.user.zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        fail(f"{zone!r} is no IANA time zone, such as Europe/Rome.")
    clock = (fixed_clock() or system_clock)()
    if now is not None:
        try:
            clock = datetime.fromisoformat(now)
        except ValueError:
            fail(f"{now!r} is no time in ISO 8601.")
    if clock.tzinfo is None:
        clock = clock.replace(tzinfo=where)
    clock = clock.astimezone(where)
    text = unicodedata.normalize("NFC", text)
    lexicon = load_lexicon(shipped_config("lexicon"), places.config_dir / "lexicon")
    if lang is not None and lexicon.language(lang).code != lang:
        fail(f"There is no language {lang!r}; there are {', '.join(language.code for language in lexicon.languages)}.")
    found = read_when(text, languages_for(text, lexicon, lang), clock, where, settings.times.habits())
    document = when_to_json(found, clock, str(where), count, lexicon)
    if as_json:
        print_json(document)
    else:
        ends = [str(document.get(key) or "…") for key in ("from", "to")] if found.range is not None else []
        shown = document.get("question") or ", ".join(document.get("next") or ends) or "-"
        typer.echo(f"{document['kind']}: {shown}\n{document['rest']}")


def when_to_json(found: When, now: datetime, zone: str, count: int, lexicon: Lexicon) -> dict[str, Any]:
    """`found` as `metnosd when --json` shows it."""
    document: dict[str, Any] = {"lang": found.lang, "kind": found.kind}
    if found.recurrence is not None:
        document |= {
            "rrules": found.recurrence.rrules(),
            "exdates": [moment.isoformat() for moment in found.recurrence.exdates()],
            "dtstart": found.recurrence.dtstart().isoformat(),
        }
    if found.kind in ("recurring", "at"):
        document |= {"zone": zone, "next": [moment.isoformat() for moment in found.fires(now, count)]}
    if found.range is not None:
        document |= {"zone": zone} | found.range.to_json()
    if found.question is not None:
        document["question"] = lexicon.say(found.question, found.lang)
    return document | {"rest": found.rest, "spans": [list(span) for span in found.spans]}

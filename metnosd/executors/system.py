"""Executors over the machine, the clock and Metnos itself, and the terminal."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, available_timezones

import psutil

from metnosd.arguments import Arg
from metnosd.entries import Entry
from metnosd.executor import Found, Run, executor
from metnosd.executors.services import services, updates
from metnosd.lexicon.lexicon import Lexicon
from metnosd.sentence import Question, Refusal, Sentence, say

GIGA = 1_000_000_000


@executor(takes=None, gives="texts", capability="system:read")
def get_time(run: Run, *, zone: Annotated[str | None, Arg("a city or time zone", source="words")] = None) -> Found:
    """Tell the time and date, here or in a city."""
    moment = run.now
    if zone is not None:
        moment = run.now.astimezone(ZoneInfo(find_zone(zone, run.facts["lexicon"], run.lang)))
    name = getattr(moment.tzinfo, "key", None) or moment.tzname() or ""
    weekday = say(f"weekday.{moment.isoweekday()}")
    clock, date = moment.strftime("%H:%M"), moment.strftime("%Y-%m-%d")
    return Found((), note=say("time.now", clock=clock, weekday=weekday, date=date, zone=name))


def find_zone(words: str, lexicon: Lexicon, lang: str) -> str:
    """The IANA zone that `words` name: in full, or by a city of it in `lang`, else in any language.

    Raises `Refusal`, `Question`.
    """
    wanted = words.strip().casefold().replace(" ", "_")
    zones = sorted(available_timezones())
    exact = [zone for zone in zones if zone.casefold() == wanted]
    for language in () if exact else (lexicon.language(lang), *lexicon.languages):
        named = language.values.get("city", {}).get(" ".join(language.fold(words).split()))
        if named is not None:
            return named
    cities = [zone for zone in zones if "/" in zone and zone.rsplit("/", 1)[1].casefold() == wanted]
    found = exact or cities
    if not found:
        raise Refusal("time.no_zone", zone=words)
    if len(found) > 1:
        raise Question("time.which_zone", tuple(found), zone=words)
    return found[0]


What = Literal["disk", "memory", "cpu", "uptime", "services", "updates", "all"]


@executor(takes=None, gives="numbers", capability="system:read")
def get_status(
    run: Run,
    *,
    what: Annotated[What, Arg("what to look at")] = "all",
    names: Annotated[list[str] | None, Arg("names of services", source="words")] = None,
) -> Found:
    """Show disk space, memory, processor load, uptime, services or pending updates of this machine."""
    if what == "services":
        return services(run, names)
    if what == "updates":
        return updates(run)
    parts: dict[str, Callable[[Run], list[Entry]]] = {
        "disk": _disk,
        "memory": _memory,
        "cpu": _cpu,
        "uptime": _uptime,
    }
    chosen = parts.values() if what == "all" else [parts[what]]
    return Found(tuple(entry for part in chosen for entry in part(run)))


def _reading(sentence: Sentence, **fields: object) -> Entry:
    return Entry("numbers", fields, sentence)


def _disk(run: Run) -> list[Entry]:
    entries = []
    seen: set[int] = set()
    for path in run.scope.roots or ("/",):
        try:
            device = os.stat(path).st_dev
            usage = psutil.disk_usage(path)
        except OSError:
            continue
        if device in seen:
            continue
        seen.add(device)
        sentence = say(
            "status.disk",
            path=run.scope.shown(path),
            free=f"{usage.free / GIGA:.1f} GB",
            total=f"{usage.total / GIGA:.1f} GB",
            percent=f"{usage.percent:.0f}",
        )
        entries.append(_reading(sentence, path=path, free=usage.free, total=usage.total, used=usage.used))
    return entries


def _memory(run: Run) -> list[Entry]:
    memory = psutil.virtual_memory()
    sentence = say("status.memory", free=f"{memory.available / GIGA:.1f} GB", total=f"{memory.total / GIGA:.1f} GB")
    return [_reading(sentence, available=memory.available, total=memory.total)]


def _cpu(run: Run) -> list[Entry]:
    one, five, fifteen = os.getloadavg()
    cores = os.cpu_count() or 1
    sentence = say(
        "status.cpu", count=cores, cores=cores, one=f"{one:.2f}", five=f"{five:.2f}", fifteen=f"{fifteen:.2f}"
    )
    return [_reading(sentence, cores=cores, load_1=one, load_5=five, load_15=fifteen)]


def _uptime(run: Run) -> list[Entry]:
    seconds = int(time.time() - psutil.boot_time())
    return [_reading(say("status.uptime", time=str(timedelta(seconds=seconds))), seconds=seconds)]


@executor(takes=None, gives="texts", capability="system:read")
def get_help(run: Run, *, topic: Annotated[str | None, Arg("what about", source="words")] = None) -> Found:
    """Explain what Metnos is and can do."""
    return Found((), note=say("help.overview"))


@executor(takes=None, gives=None, capability="answer")
def final_answer(run: Run, *, text: Annotated[str, Arg("the answer", source="free")]) -> Found:
    """Answer in words, when no tool is needed."""
    return Found((), note=say("reply.text", text=text))

"""The programs that run on this machine."""

from __future__ import annotations

from typing import Annotated, Literal

import psutil

from metnosd.arguments import Arg
from metnosd.entries import Entry
from metnosd.executor import Found, Run, executor
from metnosd.reply import human_size
from metnosd.sentence import Refusal, say

MEASURE_S = 0.5
"""For how many seconds it is measured what share of a processor each program takes."""

MOST = 50
"""How many programs are listed at most."""


@executor(takes=None, gives="entries", capability="system:read")
def list_processes(
    run: Run,
    *,
    by: Annotated[Literal["cpu", "memory"], Arg("what the biggest are wanted of")] = "memory",
    count: Annotated[int, Arg("how many", source="number")] = 5,
) -> Found:
    """List the running programs that take most memory or processor time."""
    if not 1 <= count <= MOST:
        raise Refusal("process.count", count=count, most=MOST)
    measured = _measured(run)
    # The command lines stay out: they may hold secrets.
    order = sorted(measured, key=lambda fields: (-fields[by], fields["pid"]))[:count]
    entries = tuple(_entry(fields) for fields in order)
    return Found(entries, note=say(f"process.by_{by}", count=len(entries)) if entries else None)


def _measured(run: Run) -> list[dict[str, int | float | str]]:
    """Name, pid, memory (bytes that are its own or shared), cpu (percent of one core) and user of each program.

    The processor time is that of `MEASURE_S` seconds. What ends meanwhile, or may not be looked at, is left out.
    """
    seen = []
    for process in psutil.process_iter():
        try:
            process.cpu_percent(None)
            seen.append(process)
        except psutil.Error:
            continue
    run.cancelled.wait(MEASURE_S)
    run.check()
    found = []
    for process in seen:
        try:
            with process.oneshot():
                fields: dict[str, int | float | str] = {
                    "name": process.name(),
                    "pid": process.pid,
                    "memory": process.memory_info().rss,
                    "cpu": round(process.cpu_percent(None), 1),
                    "user": process.username(),
                }
        except (psutil.Error, KeyError):
            # A user id without a name is a KeyError in some releases.
            continue
        found.append(fields)
    return found


def _entry(fields: dict[str, int | float | str]) -> Entry:
    memory = human_size(int(fields["memory"]))
    percent = f"{fields['cpu']:.0f}"
    return Entry(
        "entries",
        dict(fields),
        say("process.one", name=fields["name"], pid=fields["pid"], memory=memory, percent=percent, user=fields["user"]),
    )


PROCESS_EXECUTORS = (list_processes,)
"""In the order in which they are listed and described to the model."""

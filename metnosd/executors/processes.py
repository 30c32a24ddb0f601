"""The programs that run on this machine."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
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
    order = sorted(_measured(run), key=lambda one: (-(one.memory if by == "memory" else one.cpu), one.pid))
    entries = tuple(_entry(one) for one in order[:count])
    return Found(entries, note=say(f"process.by_{by}", count=len(entries)) if entries else None)


@dataclass(frozen=True, slots=True)
class _Program:
    """A running program: memory in bytes, cpu in percent of one core. A command line may hold secrets: it stays out."""

    name: str
    pid: int
    memory: int
    cpu: float
    user: str


def _measured(run: Run) -> list[_Program]:
    """What runs, with its share of a processor over `MEASURE_S` seconds.

    What ends meanwhile, or may not be looked at, is left out.
    """
    seen = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            process.cpu_percent(None)
            seen.append(process)
    run.cancelled.wait(MEASURE_S)
    run.check()
    found = []
    for process in seen:
        # A user id without a name is a KeyError in some releases.
        with suppress(psutil.Error, KeyError), process.oneshot():
            cpu = round(process.cpu_percent(None), 1)
            memory = process.memory_info().rss
            found.append(_Program(process.name(), process.pid, memory, cpu, process.username()))
    return found


def _entry(one: _Program) -> Entry:
    fields = asdict(one)
    shown = fields | {"memory": human_size(one.memory), "percent": f"{one.cpu:.0f}"}
    return Entry("entries", fields, say("process.one", **shown))


PROCESS_EXECUTORS = (list_processes,)
"""In the order in which they are listed and described to the model."""

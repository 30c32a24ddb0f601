"""Executors that are not built yet, as the planner would see them: for measuring plans only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from metnosd.arguments import Arg
from metnosd.executor import Executor, Found, Run, executor

WORDS = Path(__file__).with_name("standins.toml")
"""The lexicon's words for them, section `[executors]`."""


@executor(takes=None, gives="tasks", capability="entries")
def add_tasks(
    run: Run,
    *,
    list: Annotated[str | None, Arg("name of the list", "words")] = None,
    items: Annotated[list[str], Arg("what to add", "words")],
) -> Found:
    """Add items to a list such as the shopping list."""
    return Found()


@executor(takes=None, gives="tasks", capability="entries")
def list_tasks(run: Run, *, list: Annotated[str | None, Arg("name of the list", "words")] = None) -> Found:
    """Show what is on a list."""
    return Found()


@executor(takes=None, gives="tasks", capability="entries")
def complete_tasks(
    run: Run,
    *,
    list: Annotated[str | None, Arg("name of the list", "words")] = None,
    items: Annotated[list[str], Arg("what is done", "words")],
) -> Found:
    """Tick items off a list."""
    return Found()


@executor(takes=None, gives="notes", capability="entries")
def create_notes(run: Run, *, text: Annotated[str, Arg("the note", "words")]) -> Found:
    """Write down a note."""
    return Found()


@executor(takes=None, gives="notes", capability="entries")
def find_notes(run: Run, *, query: Annotated[str | None, Arg("what about", "words")] = None) -> Found:
    """Find notes."""
    return Found()


@executor(takes=None, gives=None, capability="entries")
def send_messages(
    run: Run,
    *,
    to: Annotated[str, Arg("a person", "words")],
    text: Annotated[str | None, Arg("what to say", "words")] = None,
) -> Found:
    """Send a message to a person."""
    return Found()


@executor(takes=None, gives="numbers", capability="entries")
def compute_numbers(run: Run, *, expression: Annotated[str, Arg("what to compute", "words")]) -> Found:
    """Calculate with numbers, percentages and units."""
    return Found()


@executor(takes=None, gives="schedules", capability="entries")
def create_reminders(run: Run, *, text: Annotated[str, Arg("what to remember", "words")]) -> Found:
    """Remind the user of something at a time."""
    return Found()


@executor(takes=None, gives="schedules", capability="entries")
def list_schedules(run: Run) -> Found:
    """List the schedules and reminders."""
    return Found()


@executor(takes=None, gives="actions", capability="entries")
def list_actions(run: Run) -> Found:
    """List what the assistant did."""
    return Found()


@executor(takes=None, gives="urls", capability="entries")
def search_web(run: Run, *, query: Annotated[str, Arg("what to look for", "words")]) -> Found:
    """Search the web."""
    return Found()


@executor(takes=(None, "urls"), gives="texts", capability="entries")
def read_urls(run: Run, *, url: Annotated[str | None, Arg("address of the page", "url")] = None) -> Found:
    """Read a web page."""
    return Found()


@executor(takes=None, gives="texts", capability="entries")
def get_weather(run: Run, *, place: Annotated[str | None, Arg("a city", "name")] = None) -> Found:
    """Tell the weather."""
    return Found()


@executor(takes=(None, "texts"), gives="texts", capability="entries")
def summarize_texts(run: Run, *, length: Annotated[Literal["short", "long"] | None, Arg("how long")] = None) -> Found:
    """Summarize a text."""
    return Found()


STANDINS: tuple[Executor, ...] = (
    add_tasks,
    list_tasks,
    complete_tasks,
    create_notes,
    find_notes,
    send_messages,
    compute_numbers,
    create_reminders,
    list_schedules,
    list_actions,
    search_web,
    read_urls,
    get_weather,
    summarize_texts,
)

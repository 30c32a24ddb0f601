"""Reading the text of files."""

from __future__ import annotations

from typing import Annotated

from metnosd.arguments import Arg, Place
from metnosd.entries import Entry
from metnosd.executor import Found, Run, executor
from metnosd.executors.content import read_content
from metnosd.executors.targets import told
from metnosd.scope import Item
from metnosd.sentence import Refusal, Sentence, say

_TOTAL = 4
"""All files of one step together give at most this many times the bound of one file."""


@executor(takes=(None, "files", "texts"), gives="texts", capability="fs:read")
def read_files(run: Run, *, path: Annotated[Place | None, Arg("file to read")] = None) -> Found:
    """Read the text of files."""
    problems: list[Sentence] = []
    # A text that came with the message is read already.
    entries: list[Entry] = [
        entry for entry in run.entries if entry.kind == "texts" and path is None and "path" not in entry.fields
    ]
    left = run.limits.max_read_bytes * _TOTAL
    paths = _paths(run, path)
    for number, where in enumerate(paths):
        run.check()
        if left <= 0:
            problems.append(say("read.too_much", count=len(paths) - number))
            break
        try:
            item = run.scope.item(where)
            content = read_content(run.scope, where, min(left, run.limits.max_read_bytes), run.check)
        except Refusal as refusal:
            problems.append(refusal.sentence)
            continue
        left -= len(content.text.encode("utf-8", "replace"))
        problems += content.problems
        entries.append(_entry(run, item, content.text, content.more))
    truncated = any(entry.fields.get("truncated") for entry in entries) or left <= 0
    return Found(tuple(entries), told(problems), truncated=truncated)


def _paths(run: Run, path: str | None) -> list[str]:
    if path is not None:
        if not run.scope.item(path).is_dir:
            return [path]
        raise Refusal("scope.not_file", path=run.scope.shown(path))
    if not run.has_input:
        raise Refusal("read.what")
    paths = [entry.fields.get("path") for entry in run.entries]
    return list(dict.fromkeys(where for where in paths if isinstance(where, str)))


def _entry(run: Run, item: Item, text: str, more: bool) -> Entry:
    fields = {**item.entry(run.zone).fields, "text": text, "truncated": more}
    return Entry("texts", fields)

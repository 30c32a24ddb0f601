"""Real folders for tests: a home with a scope, runs of executors, and effects there and back."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from metnosd.effects import Effect, effect_from_json
from metnosd.entries import Entry
from metnosd.executor import Effects, Executor, Found, Limits, Run
from metnosd.keep import Keep
from metnosd.perform import Performed, perform, prepare
from metnosd.scope import Scope

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
NOBODY = 65534


def home_scope(home: Path, *, keep: Path | None = None, words: Mapping[str, str] | None = None) -> Scope:
    """A scope whose one root is `home`, made if need be, with a keep beside it."""
    home.mkdir(parents=True, exist_ok=True)
    kept = Keep(keep or home.parent / "keep")
    return Scope([str(home)], home=str(home), folder_words=words or {}, keep=kept)


def fill(home: Path, *names: str, text: str = "text") -> None:
    """Make files with the text of `text` and their name; a name that ends in / is a folder."""
    for name in names:
        path = home / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text} of {name}")


def run_on(scope: Scope, paths: Iterable[Path | str] | None = None, *, limits: Limits | None = None) -> Run:
    """A run whose input are the things at `paths`; without them it has none."""
    entries = tuple(scope.item(str(path)).entry() for path in paths or ())
    return run_with(scope, entries, paths is not None, limits=limits)


def run_with(scope: Scope, entries: Iterable[Entry], has_input: bool = True, *, limits: Limits | None = None) -> Run:
    """A run whose input are `entries`."""
    return Run(tuple(entries), has_input, scope, NOW, UTC, "en", limits or Limits())


def found(executor: Executor, run: Run, **args: Any) -> Found:
    """What a reader finds."""
    result = executor.function(run, **args)
    assert isinstance(result, Found)
    return result


def effects(executor: Executor, run: Run, **args: Any) -> Effects:
    """The effects that an executor would have."""
    result = executor.function(run, **args)
    assert isinstance(result, Effects)
    return result


def do(effect: Effect, scope: Scope, **kwargs: Any) -> tuple[Performed, Effect | None]:
    """Carry out one effect as the daemon does, by way of the journal; returns it with its filled inverse."""
    effect = effect_from_json(effect.to_json())
    prepared = prepare(effect, scope)
    performed = perform(effect, scope, **kwargs)
    if prepared.inverse is None:
        return performed, None
    inverse = dataclasses.replace(prepared.inverse, expect=performed.after, undoes=1)
    return performed, effect_from_json(inverse.to_json())


def do_all(result: Effects, scope: Scope) -> list[Effect]:
    """Carry out all effects; returns the inverses, the last effect's first."""
    inverses = [do(effect, scope)[1] for effect in result.effects]
    return [inverse for inverse in reversed(inverses) if inverse is not None]


def undo_all(inverses: Iterable[Effect], scope: Scope) -> list[Effect]:
    """Carry out inverses; returns what redoes them, in order."""
    return [again for again in reversed([do(inverse, scope)[1] for inverse in inverses]) if again is not None]


def snapshot(folder: Path) -> dict[str, object]:
    """All that is in a folder, by relative path: contents, modes and times of files, targets of links."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        inner = str(path.relative_to(folder))
        if path.is_symlink():
            found[inner] = os.readlink(path)
        elif path.is_file():
            found[inner] = (path.read_bytes(), status.st_mode, status.st_mtime_ns)
        else:
            found[inner] = status.st_mode
    return found


_DROP = f"""
def drop():
    import os
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid({NOBODY})
        os.setuid({NOBODY})

"""


def as_nobody(code: str, *args: str) -> str:
    """What a Python program prints that calls `drop()` after its imports, to go on as a user who owns nothing.

    Where the tests do not run as root it stays who it is. Raises when it fails.
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _DROP + code, *args],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def give_away(*paths: Path) -> None:
    """Make the user of `as_nobody` the owner of `paths`, which only root can do and needs to."""
    for path in paths:
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)

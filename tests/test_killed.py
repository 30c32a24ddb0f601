"""A daemon that is killed at any moment leaves whole effects, and each of them can be taken back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.killing import DEEDS

SCRIPT = Path(__file__).parent / "support" / "killing.py"

Killer = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    """Kills a deed and the undo of it everywhere; says how often, and what was wrong."""
    process = subprocess.Popen([sys.executable, str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process as running:
        assert running.stdin is not None and running.stdout is not None
        asks, answers = running.stdin, running.stdout

        def kill(name: str) -> dict[str, Any]:
            asks.write(name + "\n")
            asks.flush()
            answer = answers.readline()
            assert answer, "the script ended; standard error tells why"
            told: dict[str, Any] = json.loads(answer)
            return told

        yield kill
        asks.close()


@pytest.mark.parametrize("name", DEEDS)
def test_killed_at_any_moment(killer: Killer, name: str) -> None:
    """Killed at each change to the disk, in the deed or in its undo, the files are those between two effects; no
    content is lost, the daemon starts again, an undo gives back exactly what was there before the deed, and a redo
    what the undo took back."""
    told = killer(name)
    assert told["problems"] == []
    assert min(told["points"]) > 5

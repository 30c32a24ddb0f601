"""The main job with the real model: messages in words, real plans, real files."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon import RunningDaemon

pytestmark = pytest.mark.model

SENTENCE = (
    "Find the PDFs modified this week in the Projects folder, "
    "compute each file's SHA-256 digest, and show me the result."
)


@pytest.fixture
def home(daemon: RunningDaemon) -> Iterator[Path]:
    """The daemon's home with the usual folders, emptied afterwards."""
    for name in ("Projects", "Downloads", "Documents", "Pictures"):
        (daemon.home / name).mkdir()
    yield daemon.home
    for item in daemon.home.iterdir():
        if not item.name.startswith("."):
            shutil.rmtree(item) if item.is_dir() else item.unlink()


def make_projects(home: Path) -> dict[bytes, str]:
    """A tree with decoys; path → SHA-256 of exactly this week's PDFs."""
    projects = os.fsencode(home / "Projects")
    os.makedirs(projects + b"/deep/deeper")
    wanted = [b"/a.pdf", b"/deep/UPPER.PDF", b"/deep/deeper/with\nnewline.pdf", b"/no-utf8-\xff.pdf"]
    for number, name in enumerate(wanted):
        with open(projects + name, "wb") as file:
            file.write(b"wanted %d" % number)
    month_ago = time.time() - 31 * 86400
    for name in (b"/old.pdf", b"/deep/OLD.PDF"):
        with open(projects + name, "wb") as file:
            file.write(b"old")
        os.utime(projects + name, (month_ago, month_ago))
    os.mkdir(projects + b"/x.pdf")
    with open(projects + b"/notes.txt", "wb") as file:
        file.write(b"no pdf")
    with open(os.fsencode(home / "Documents") + b"/outside.pdf", "wb") as file:
        file.write(b"outside")
    found = {}
    for name in wanted:
        with open(projects + name, "rb") as file:
            found[projects + name] = hashlib.sha256(file.read()).hexdigest()
    return found


def test_digests_of_this_weeks_pdfs(daemon: RunningDaemon, home: Path) -> None:
    """The sentence gives the digests of exactly this week's PDFs, with upper case and odd names, no decoy."""
    wanted = make_projects(home)
    reply = daemon.ask(SENTENCE)
    assert reply["outcome"]["status"] == "done", reply
    entries = next(s for s in reply["outcome"]["steps"] if s["tool"] == "compute_signatures")["entries"]
    found = {base64.b64decode(e["path_b64"]) if "path_b64" in e else e["path"].encode(): e["digest"] for e in entries}
    assert found == wanted
    assert {e["algorithm"] for e in entries} == {"sha256"}


def test_move_and_undo(daemon: RunningDaemon, home: Path) -> None:
    """Moving all txt files asks, moves them, and "undo" by message puts every file back."""
    names = {f"t{number}.txt" for number in range(4)}
    for name in names:
        (home / "Downloads" / name).write_text(name)
    (home / "Downloads" / "keep.jpg").write_text("jpg")
    refused = daemon.ask("move all txt files from Downloads to Documents", "--no")
    assert refused["outcome"]["status"] == "refused"
    assert {p.name for p in (home / "Downloads").iterdir()} == names | {"keep.jpg"}
    moved = daemon.ask("move all txt files from Downloads to Documents", "--yes")
    assert moved["outcome"]["status"] == "done", moved
    assert {p.name for p in (home / "Documents").iterdir()} == names
    assert moved["undo"]["actions"] == 4
    undone = daemon.ask("undo")
    assert undone["outcome"]["status"] == "done", undone
    assert {p.name for p in (home / "Downloads").iterdir()} == names | {"keep.jpg"}
    assert list((home / "Documents").iterdir()) == []


def test_counting(daemon: RunningDaemon, home: Path) -> None:
    """A question for a number gets the number."""
    for number in range(3):
        (home / "Documents" / f"{number}.txt").write_text("x")
    (home / "Documents" / "other.jpg").write_text("x")
    reply = daemon.ask("how many text files are in Documents?")
    assert reply["outcome"]["status"] == "done", reply
    assert reply["outcome"]["steps"][-1]["entries"][0]["count"] == 3
    assert "3" in reply["text"]


def test_plan_shows_every_stage(daemon: RunningDaemon, home: Path) -> None:
    """`metnosd plan --json` shows signals to verdict and runs nothing."""
    (home / "Downloads" / "a.txt").write_text("x")
    done = daemon.run("plan", "--json", "delete the txt files in Downloads")
    assert done.returncode == 0, done.stderr
    assert '"delete_files"' in done.stdout and '"provisional": true' in done.stdout
    assert '"answer": "ask"' in done.stdout
    assert (home / "Downloads" / "a.txt").exists()


def test_killed_model_process(daemon: RunningDaemon, home: Path) -> None:
    """`kill -9` of the model process during a plan gives an answer that says so; the next message works."""
    status = daemon.run("status", "--json").stdout
    pid = int(status.split('"pid": ')[1].split(",")[0])
    replies: list[dict[str, object]] = []
    asking = threading.Thread(target=lambda: replies.append(daemon.ask("list what is in the Downloads folder")))
    asking.start()
    while '"queue": 0' in daemon.run("status", "--json").stdout and asking.is_alive():
        pass
    os.kill(pid, signal.SIGKILL)
    asking.join()
    text = str(replies[0])
    assert "model process ended" in text, text
    assert daemon.ask("what time is it?")["outcome"]["status"] == "done"

"""Effects across file systems, on a full disk and without permissions."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.trees import as_nobody, do, fill, give_away, home_scope, snapshot

from metnosd.effects import CopyPath, MovePath, TrashPath
from metnosd.executor import Cancelled
from metnosd.perform import perform
from metnosd.scope import Scope


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    fill(folder, "a.txt", "Docs/b.txt", "Docs/Sub/c.txt", "Empty/")
    return folder


@pytest.fixture
def other_disk() -> Iterator[Path]:
    """A folder on another file system."""
    if not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == os.stat(tempfile.gettempdir()).st_dev:
        reason = "there is no second file system at /dev/shm"
        pytest.fail(reason) if os.environ.get("METNOS_TEST_ALL") == "1" else pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


def at(home: Path, name: str) -> str:
    return str(home / name)


def test_trash_and_moves_across_file_systems(home: Path, other_disk: Path) -> None:
    """To another disk all is carried along, links and pipes within included, and comes back the same."""
    (home / "Docs/link").symlink_to("b.txt")
    os.mkfifo(home / "Docs/pipe")
    give_away(home / "a.txt")
    owner = (home / "a.txt").stat().st_uid
    scope = home_scope(home, keep=other_disk / "keep")
    first = snapshot(home)
    for name in ("a.txt", "Docs"):
        _, inverse = do(TrashPath(at(home, name), f"slot-{name[:1]}"), scope)
        assert not (home / name).exists()
        assert inverse is not None
        do(inverse, scope)
    assert snapshot(home) == first
    assert (home / "a.txt").stat().st_uid == owner
    both = Scope([str(home), str(other_disk)], home=str(home), keep=scope.keep)
    _, inverse = do(MovePath(at(home, "Docs"), str(other_disk / "Docs")), both)
    assert (other_disk / "Docs/Sub/c.txt").read_text() == "text of Docs/Sub/c.txt"
    assert not (home / "Docs").exists()
    assert inverse is not None
    do(inverse, both)
    assert snapshot(home) == first


def test_a_cancelled_copy_leaves_nothing(home: Path, other_disk: Path) -> None:
    """Stopped in the middle, a copy or a move to another disk leaves the source whole and no part of a copy."""
    fill(home, *(f"Docs/{number}.txt" for number in range(20)))
    scope = Scope([str(home), str(other_disk)], home=str(home), keep=home_scope(home).keep)
    before = snapshot(home)
    for effect in (CopyPath, MovePath):
        left = 10

        def check() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Cancelled

        with pytest.raises(Cancelled):
            perform(effect(at(home, "Docs"), str(other_disk / "Copy")), scope, check)
        assert snapshot(home) == before
        assert os.listdir(other_disk) == []


FULL = """
import resource, sys, zlib, zipfile, tarfile, gzip, encodings.cp437
from metnosd.effects import *
from metnosd.keep import Keep
from metnosd.perform import perform, prepare
from metnosd.scope import Scope
from metnosd.sentence import Refusal
home = sys.argv[1]
scope = Scope([home], home=home, keep=Keep(home + "-keep"))
drop()
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
big, small = home + "/big", home + "/small"
for effect in [
    CopyPath(big, home + "/copy"), CopyPath(home + "/folder", home + "/copy"),
    WriteFile(home + "/n", "x" * 60_000, "create"),
    WriteFile(small, "x" * 60_000, "replace"), WriteFile(small, "x" * 49_999, "append"),
    PackFiles((big,), home + "/p.zip", "zip"), PackFiles((big, big), home + "/p.tar.gz", "tar.gz"),
    UnpackArchive(home + "/packed.zip", home + "/un"),
]:
    try:
        prepare(effect, scope)
        perform(effect, scope)
    except Refusal as refusal:
        print(refusal.sentence.key)
"""


def test_a_full_disk_is_refused_and_leaves_nothing_half_done() -> None:
    """When nothing more can be written each effect is refused and the folder is as it was."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        fill(home, "small", "folder/x")
        (home / "big").write_bytes(os.urandom(100_000))
        (home / "folder/big").write_bytes(os.urandom(100_000))
        shutil.make_archive(str(home / "packed"), "zip", home / "folder")
        before = snapshot(home)
        give_away(Path(folder), home, *home.rglob("*"))
        assert as_nobody(FULL, str(home)).split() == ["effect.disk_full"] * 8
        assert snapshot(home) == before


DENIED = """
import sys
from metnosd.effects import *
from metnosd.keep import Keep
from metnosd.perform import perform, prepare
from metnosd.scope import Scope
from metnosd.sentence import Refusal
drop()
home = sys.argv[1]
scope = Scope([home], home=home, keep=Keep(sys.argv[2]))
for effect in [
    CopyPath(home + "/locked", home + "/mine/copy"), MovePath(home + "/mine/a", home + "/foreign/a"),
    TrashPath(home + "/foreign/b", "s"), WriteFile(home + "/foreign/b", "x", "replace"),
    MakeDir(home + "/foreign/c"),
    CopyPath(home + "/shut", home + "/mine/copy"),
]:
    try:
        prepare(effect, scope)
        perform(effect, scope)
        print("done")
    except Refusal as refusal:
        print(refusal.sentence.key)
"""


def test_missing_permissions_are_refused() -> None:
    """What the operating system forbids is refused with that reason and leaves nothing half done."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        fill(home, "locked", "mine/a", "foreign/b", "shut/x")
        for name in ("locked", "shut"):
            (home / name).chmod(0)
        (home / "foreign").chmod(0o555)
        give_away(Path(folder), home / "mine", home / "mine/a")
        before = snapshot(home)
        assert as_nobody(DENIED, str(home), folder + "/keep").split() == ["scope.denied"] * 6
        assert snapshot(home) == before

"""What is kept for taking back: how long, how much of it, and what a crash leaves beside it."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from support.trees import NOW, as_nobody, do, fill, give_away, home_scope, snapshot

from metnosd import disk
from metnosd.effects import (
    CopyPath,
    Effect,
    MakeDir,
    MovePath,
    PackFiles,
    RestoreFile,
    TrashPath,
    UnpackArchive,
    UntrashPath,
    WriteFile,
)
from metnosd.keep import Keep, Swept
from metnosd.perform import no_check, prepare
from metnosd.scope import Scope
from metnosd.sentence import Refusal
from metnosd.sweep import clear, sweep_leftovers

MUCH = 1 << 40
TEMP = disk.TEMP_PREFIX + "0" * 32


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def scope(home: Path) -> Scope:
    return home_scope(home)


@pytest.fixture
def keep(scope: Scope) -> Keep:
    assert scope.keep is not None
    return scope.keep


@pytest.fixture
def other_disk() -> Iterator[Path]:
    """A folder on another file system."""
    if not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == os.stat(tempfile.gettempdir()).st_dev:
        reason = "there is no second file system at /dev/shm"
        pytest.fail(reason) if os.environ.get("METNOS_TEST_ALL") == "1" else pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


def aged(path: Path, **ago: float) -> Path:
    """Make `path` be of that long before NOW."""
    moment = (NOW - timedelta(**ago)).timestamp()
    os.utime(path, (moment, moment), follow_symlinks=False)
    return path


def trashed(scope: Scope, slot: str, size: int = 100, **ago: float) -> Path:
    """Have a file of `size` bytes deleted that long before NOW; returns its slot."""
    assert scope.keep is not None
    path = Path(scope.roots[0], slot)
    path.write_bytes(b"x" * size)
    do(TrashPath(str(path), slot), scope)
    return aged(Path(scope.keep.folder, "trash", slot), **ago)


def put(keep: Keep, content: bytes) -> Path:
    """Keep an old content; returns its blob."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        name = keep.put(file.fileno(), no_check)
    return Path(keep.folder, "blobs", name[:2], name)


def kept(keep: Keep) -> set[str]:
    """The names of the slots and blobs that are there."""
    return {path.name for pattern in ("trash/*", "blobs/*/*") for path in Path(keep.folder).glob(pattern)}


def temps(*folders: Path) -> list[Path]:
    """What bears a temporary name below `folders`."""
    return [path for folder in folders for path in folder.rglob(disk.TEMP_PREFIX + "*")]


def test_what_is_too_old_goes(scope: Scope, keep: Keep) -> None:
    """After the days are over slots and blobs go, not before, however old the deleted file itself is."""
    trashed(scope, "old", 100, days=30, minutes=1)
    young = trashed(scope, "young", 100, days=29, hours=23)
    aged(young / "young", days=4000)
    blobs = {days: aged(put(keep, b"y" * days), days=days) for days in (31, 29)}
    assert keep.size() == 260
    assert keep.sweep(NOW, 30, MUCH) == Swept(slots=1, blobs=1, freed=131, problems=0)
    assert kept(keep) == {"young", blobs[29].name}
    assert keep.size() == 129
    assert keep.sweep(NOW, 30, MUCH) == Swept(0, 0, 0, 0)


def test_the_oldest_of_both_goes_first_when_there_is_too_much(scope: Scope, keep: Keep) -> None:
    """Slots and blobs are removed by age, one by one, and no more of them than needed."""
    for days in (9, 5, 1):
        trashed(scope, f"slot{days}", 1000, days=days)
    blobs = {days: aged(put(keep, bytes([days]) * 1000), days=days) for days in (8, 4)}
    everything = kept(keep)
    assert keep.sweep(NOW, 30, 5000) == Swept(0, 0, 0, 0)
    assert keep.sweep(NOW, 30, 4999) == Swept(1, 0, 1000, 0)
    assert kept(keep) == everything - {"slot9"}
    assert keep.sweep(NOW, 30, 2500) == Swept(1, 1, 2000, 0)
    assert kept(keep) == {"slot1", blobs[4].name}
    assert keep.sweep(NOW, 30, 0) == Swept(1, 1, 2000, 0)
    assert kept(keep) == set() and keep.size() == 0


def test_what_was_just_kept_stays(scope: Scope, keep: Keep) -> None:
    """An undo of the last hour can be done even if it is over all limits; a minute later it goes."""
    trashed(scope, "new", 5000, minutes=59)
    blob = aged(put(keep, b"z" * 5000), minutes=59)
    trashed(scope, "older", 10, minutes=61)
    assert keep.sweep(NOW, 1, 0) == Swept(1, 0, 10, 0)
    assert keep.sweep(NOW, 0, 0) == Swept(0, 0, 0, 0)
    assert kept(keep) == {"new", blob.name}
    assert keep.sweep(NOW + timedelta(minutes=2), 1, 0) == Swept(1, 1, 10_000, 0)


def test_a_clock_set_back_removes_nothing(scope: Scope, keep: Keep) -> None:
    """What seems to come from the future counts as new, for the days as for the bytes."""
    trashed(scope, "future", 5000, days=-400)
    blob = aged(put(keep, b"z" * 5000), days=-400)
    leftover = Path(keep.folder, "trash", TEMP)
    leftover.mkdir()
    aged(leftover, days=-400)
    assert keep.sweep(NOW, 1, 0) == Swept(0, 0, 0, 0)
    assert kept(keep) == {"future", blob.name, TEMP}


def test_putting_a_content_again_makes_it_new(keep: Keep) -> None:
    """A content that is kept already is as new as the last time it was overwritten somewhere."""
    blob = aged(put(keep, b"same"), days=50)
    before = blob.stat().st_mtime
    assert put(keep, b"same") == blob
    assert blob.stat().st_mtime > before
    assert keep.sweep(datetime.now().astimezone(), 30, 0) == Swept(0, 0, 0, 0)
    assert kept(keep) == {blob.name}


def test_what_is_put_again_while_it_is_swept_stays(keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    """A content that was old when the sweep looked, and is put again before it is removed, is there after it."""
    blob = aged(put(keep, b"same"), days=50)
    rename = os.rename

    def rename_after_put(source: str, target: str, **folders: int) -> None:
        monkeypatch.setattr(os, "rename", rename)
        put(keep, b"same")
        rename(source, target, src_dir_fd=folders["src_dir_fd"], dst_dir_fd=folders["dst_dir_fd"])

    monkeypatch.setattr(os, "rename", rename_after_put)
    assert keep.sweep(NOW, 30, MUCH) == Swept(0, 0, 0, 0)
    assert blob.read_bytes() == b"same"
    assert temps(Path(keep.folder)) == []


def test_links_in_a_deleted_folder_are_not_followed(home: Path, scope: Scope, keep: Keep, tmp_path: Path) -> None:
    """A link to a file or a folder goes as a link, what it points to stays; and it weighs next to nothing."""
    fill(tmp_path / "outside", "file", "folder/inner", text="x" * 10_000)
    fill(home, "Docs/a")
    (home / "Docs/link").symlink_to(tmp_path / "outside/file")
    (home / "Docs/way").symlink_to(tmp_path / "outside")
    os.link(tmp_path / "outside/file", home / "Docs/second name")
    outside = snapshot(tmp_path / "outside")
    do(TrashPath(str(home / "Docs"), "s"), scope)
    aged(Path(keep.folder, "trash/s"), days=40)
    assert keep.size() < 30_000
    assert keep.sweep(NOW, 30, MUCH).slots == 1
    assert snapshot(tmp_path / "outside") == outside
    assert kept(keep) == set()


def test_links_in_the_place_of_what_is_kept_lead_nowhere(keep: Keep, tmp_path: Path) -> None:
    """A slot, a shelf, a blob or the whole trash that is a link removes nothing at its other end."""
    blob = put(keep, b"a")
    fill(tmp_path, "out/slot/file", f"out/{'ab' + '0' * 62}")
    outside = snapshot(tmp_path / "out")
    trash = Path(keep.folder, "trash")
    trash.mkdir()
    (trash / "slot").symlink_to(tmp_path / "out/slot")
    shelf = blob.parent.parent / "ab"
    shelf.symlink_to(tmp_path / "out")
    (blob.parent / (blob.name[:2] + "0" * 62)).symlink_to(tmp_path / "out/slot/file")
    assert keep.sweep(NOW + timedelta(days=4000), 1, 0) == Swept(0, 1, 1, 0)
    shutil.rmtree(trash)
    trash.symlink_to(tmp_path / "out")
    swept = keep.sweep(NOW + timedelta(days=4000), 1, 0)
    assert (swept.slots, swept.problems) == (0, 1)
    assert snapshot(tmp_path / "out") == outside


def test_files_with_holes_and_several_names_count_what_they_take_up(home: Path, scope: Scope, keep: Keep) -> None:
    """A disk image of a huge length does not push everything else out, nor does a file that has two names."""
    (home / "D").mkdir()
    with open(home / "D/image", "wb") as image:
        image.write(b"x")
        image.truncate(1 << 34)
    (home / "D/a").write_bytes(b"x" * 100_000)
    os.link(home / "D/a", home / "D/b")
    do(TrashPath(str(home / "D"), "s"), scope)
    assert 100_000 < keep.size() < 180_000


def test_what_a_crash_left_goes_after_a_day(keep: Keep) -> None:
    """Empty slots, slots with a part of a copy, and parts of a copy themselves; other names are not ours."""
    trash, blobs = Path(keep.folder, "trash"), Path(keep.folder, "blobs")
    for age, hours in (("new", 23), ("old", 25)):
        fill(trash, f"{age}-empty/", f"{age}-part/{TEMP}/inner/file", f"{TEMP}{age}/inner/file", f"{age}.txt/x")
        fill(blobs, f"{TEMP}{age}", f"{age}.txt")
        found = [trash / f"{age}-empty", trash / f"{age}-part", trash / f"{TEMP}{age}", trash / f"{age}.txt"]
        for path in (*found, blobs / f"{TEMP}{age}", blobs / f"{age}.txt"):
            aged(path, hours=hours)
    swept = keep.sweep(NOW, 30, 0)
    assert (swept.slots, swept.blobs, swept.problems) == (2, 0, 0)
    names = {"new-empty", "new-part", f"{TEMP}new", "new.txt", "old.txt"}
    assert set(os.listdir(trash)) == names
    assert set(os.listdir(blobs)) == {f"{TEMP}new", "new.txt", "old.txt"}


def test_a_keep_that_is_not_there_is_empty(keep: Keep) -> None:
    """Nothing is swept, nothing has a size, nothing is in a slot, and nothing is made."""
    assert keep.sweep(NOW, 1, 0) == Swept(0, 0, 0, 0)
    assert keep.size() == 0
    assert not keep.has_slot("s")
    with pytest.raises(Refusal) as caught:
        keep.fingerprint("s", no_check)
    assert caught.value.sentence.key == "keep.gone"
    assert not os.path.exists(keep.folder)


def test_whether_something_is_in_a_slot(scope: Scope, keep: Keep) -> None:
    """Only a slot that holds something to bring back counts; odd names are no slots and no errors."""
    slot = trashed(scope, "s")
    (slot.parent / "empty").mkdir()
    fill(slot.parent, f"part/{TEMP}", "file")
    assert keep.has_slot("s")
    for name in ("empty", "part", "file", "none", "", ".", "..", "../blobs", "a/b", "s\0", "s\n", "é", "x" * 5000):
        assert not keep.has_slot(name)


def test_undo_of_what_was_swept_is_refused(home: Path, scope: Scope, keep: Keep) -> None:
    """Once a deleted file or an old content is gone, taking back says so and changes nothing."""
    fill(home, "a.txt", "b.txt")
    _, untrash = do(TrashPath(str(home / "a.txt"), "s"), scope)
    _, restore = do(WriteFile(str(home / "b.txt"), "new", "replace"), scope)
    assert keep.sweep(datetime.now().astimezone() + timedelta(days=31), 30, MUCH).problems == 0
    assert not keep.has_slot("s")
    for inverse in (untrash, restore):
        assert inverse is not None
        with pytest.raises(Refusal) as caught:
            prepare(inverse, scope)
        assert caught.value.sentence.key == "keep.gone"
    assert os.listdir(home) == ["b.txt"]
    assert (home / "b.txt").read_text() == "new"


def test_no_depth_is_too_deep_to_clear(tmp_path: Path) -> None:
    """A folder in a folder, two thousand times, is removed with few open files and no recursion."""
    (tmp_path / "top").mkdir()
    descriptor = os.open(tmp_path / "top", disk.OPEN_DIR)
    for _ in range(2000):
        os.mkdir("d", dir_fd=descriptor)
        deeper = os.open("d", disk.OPEN_DIR, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = deeper
    os.close(os.open("file", disk.CREATE, dir_fd=descriptor))
    os.close(descriptor)
    folder = os.open(tmp_path, disk.OPEN_DIR)
    clear(folder, "top")
    os.close(folder)
    assert os.listdir(tmp_path) == []


DENIED = """
import os, sys
from datetime import datetime, timedelta, timezone
import structlog
from metnosd.keep import Keep
drop()
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
keep = Keep(sys.argv[1])
later = datetime.now(timezone.utc) + timedelta(days=40)
print(keep.sweep(later, 30, 1 << 40), len(os.listdir(keep.folder + "/trash")))
print(keep.sweep(later + timedelta(days=40), 30, 1 << 40), len(os.listdir(keep.folder + "/trash")))
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that the user of `as_nobody` gets to."""
    with tempfile.TemporaryDirectory() as folder:
        give_away(Path(folder))
        yield Path(folder)


def test_write_protected_folders_are_swept_too(shared: Path) -> None:
    """Deleted folders that are shut or write-protected, as package managers make them, belong to the person."""
    fill(shared / "trash", "a/Box/inner/deep/file", "b/shut/deep/file")
    for name in ("a/Box/inner/deep", "a/Box/inner", "a/Box", "b/shut"):
        (shared / "trash" / name).chmod(0o555 if name[0] == "a" else 0)
    give_away(*shared.rglob("*"))
    lines = as_nobody(DENIED, str(shared)).splitlines()
    assert lines[0].startswith("Swept(slots=2, blobs=0") and lines[0].endswith("problems=0) 0")


def test_what_cannot_be_removed_is_passed_over(shared: Path) -> None:
    """A blob on a shelf that is write-protected stays and is counted each time; all else goes."""
    shut, free = "ab" + "0" * 62, "cd" + "0" * 62
    fill(shared, "trash/a/file", f"blobs/ab/{shut}", f"blobs/cd/{free}")
    (shared / "blobs/ab").chmod(0o555)
    give_away(*shared.rglob("*"))
    lines = as_nobody(DENIED, str(shared)).splitlines()
    assert lines[0].startswith("Swept(slots=1, blobs=1") and lines[0].endswith("problems=1) 0")
    assert lines[1] == "Swept(slots=0, blobs=0, freed=0, problems=1) 0"
    assert kept(Keep(shared)) == {shut}


def test_what_belongs_to_another_user_is_passed_over(shared: Path) -> None:
    """A folder of another user in a deleted one stays, out of reach of an undo, while the rest of it goes."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files to another user")
    fill(shared, "trash/a/Box/theirs/file", "trash/a/Box/mine", "trash/b/file")
    give_away(shared / "trash", *(path for path in shared.rglob("*") if "theirs" not in str(path)))
    lines = as_nobody(DENIED, str(shared)).splitlines()
    assert lines[0].startswith("Swept(slots=1, blobs=0") and lines[0].endswith("problems=1) 1")
    assert lines[1] == "Swept(slots=0, blobs=0, freed=0, problems=1) 1"
    assert [path.name for path in shared.rglob("*") if path.is_file()] == ["file"]
    assert not Keep(shared).has_slot("a")


# What a crash leaves in a person's folders.


@pytest.mark.parametrize("kind", [CopyPath, MovePath])
def test_parts_of_a_copy_go(home: Path, scope: Scope, kind: type[CopyPath | MovePath]) -> None:
    """A part of a copied file or folder goes, whether it is empty, half or whole; the source stays."""
    fill(home, "big", "Docs/a", "Docs/Sub/b", "To/")
    whole = os.urandom(3_000_000)
    (home / "big").write_bytes(whole)
    before = snapshot(home)
    for size in (0, 1, 70_000, 2_500_000, len(whole)):
        (home / "To" / f"{TEMP}{size}").write_bytes(whole[:size])
    (home / "To" / f"{TEMP}x").write_bytes(whole[:2_000_000] + b"changed" + whole[2_000_007:2_500_000])
    assert sweep_leftovers(kind(str(home / "big"), str(home / "To/big")), scope) == 5
    assert temps(home) == [home / "To" / f"{TEMP}x"]
    temps(home)[0].unlink()
    shutil.copytree(home / "Docs", home / "To" / f"{TEMP}whole")
    fill(home / "To", f"{TEMP}empty/", f"{TEMP}half/Sub/")
    (home / "To" / f"{TEMP}half/a").write_text("text of")
    assert sweep_leftovers(kind(str(home / "Docs"), str(home / "To/Docs")), scope) == 3
    assert snapshot(home) == before


def test_what_is_no_part_of_the_source_stays(home: Path, scope: Scope) -> None:
    """Other content under a temporary name, as from another crash, is not taken for a part of a copy."""
    fill(home, "a", "Docs/x", "To/")
    (home / "To" / f"{TEMP}1").write_text("text of a person's edit")
    (home / "To" / f"{TEMP}2").mkdir()
    (home / "To" / f"{TEMP}2" / "only copy").write_text("x")
    (home / "To" / f"{TEMP}3").symlink_to(home / "a")
    before = snapshot(home)
    for source in ("a", "Docs"):
        effect: type[CopyPath | MovePath]
        for effect in (CopyPath, MovePath):
            assert sweep_leftovers(effect(str(home / source), str(home / "To" / source)), scope) == 0
    assert snapshot(home) == before


def test_the_original_of_a_finished_move_goes(home: Path, scope: Scope) -> None:
    """What a move to another disk left of the source under a temporary name goes when the target has all of it."""
    fill(home, "To/Docs/a", "To/Docs/Sub/b", "From/", text="x")
    (home / "To/Docs/link").symlink_to("a")
    effect = MovePath(str(home / "From/Docs"), str(home / "To/Docs"))
    shutil.copytree(home / "To/Docs", home / "From" / TEMP, symlinks=True)
    (home / "From" / TEMP / "a").unlink()
    before = snapshot(home / "To")
    assert sweep_leftovers(effect, scope) == 1
    assert os.listdir(home / "From") == []
    assert snapshot(home / "To") == before


@pytest.mark.parametrize("kind", ["file", "dir"])
def test_the_only_copy_stays(home: Path, scope: Scope, kind: str) -> None:
    """Where the target was removed by hand since, or holds other things, the original is the only copy left."""
    fill(home, "From/", "To/")
    aside = home / "From" / TEMP
    fill(home, f"From/{TEMP}" if kind == "file" else f"From/{TEMP}/inner")
    target = home / "To/x"
    for effect in (
        MovePath(str(home / "From/x"), str(target)),
        TrashPath(str(home / "From/x"), "s"),
        UntrashPath(str(home / "From/x"), "s"),
    ):
        assert sweep_leftovers(effect, scope) == 0
    fill(home, "To/x" if kind == "file" else "To/x/inner", text="other")
    assert sweep_leftovers(MovePath(str(home / "From/x"), str(target)), scope) == 0
    assert aside.exists()


def test_the_original_of_a_finished_deletion_goes(home: Path, scope: Scope, keep: Keep) -> None:
    """A deletion to a trash on another disk leaves the original, its undo a part of a copy: the slot has both."""
    fill(home, "Docs/a", "Docs/Sub/b")
    shutil.copytree(home / "Docs", home / TEMP)
    do(TrashPath(str(home / "Docs"), "s"), scope)
    shutil.copytree(home / TEMP, home / f"{TEMP}2")
    assert sweep_leftovers(TrashPath(str(home / "Docs"), "s"), scope) == 2
    (home / TEMP).mkdir()
    (home / TEMP / "a").write_text("text of")
    assert sweep_leftovers(UntrashPath(str(home / "Docs"), "s"), scope) == 1
    assert os.listdir(home) == []
    assert keep.has_slot("s")


WRITES = [("create", ""), ("replace", "old text"), ("append", "old text")]


@pytest.mark.parametrize(("mode", "old"), WRITES)
def test_half_written_files_go(home: Path, scope: Scope, mode: str, old: str) -> None:
    """A part of what was to be written goes, while what it was to replace, or nothing, is in place."""
    path, effect = home / "a.txt", WriteFile(str(home / "a.txt"), "new téxt", mode)
    if old:
        path.write_text(old)
    new = (old + effect.text if mode == "append" else effect.text).encode()
    for size in range(len(new) + 1):
        (home / f"{TEMP}{size}").write_bytes(new[:size])
    (home / f"{TEMP}x").write_text("nonsense")
    (home / f"{TEMP}y").write_bytes(new + b" and more")
    assert sweep_leftovers(effect, scope) == len(new) + 1
    assert {path.name for path in temps(home)} == {f"{TEMP}x", f"{TEMP}y"}
    assert not old or path.read_text() == old


@pytest.mark.parametrize("old", ["now text", None])
def test_half_restored_files_go(home: Path, scope: Scope, keep: Keep, old: str | None) -> None:
    """A part of an old content that was to be brought back goes; without that content it stays."""
    if old is not None:
        (home / "a.txt").write_text(old)
    blob = put(keep, b"old content")
    effect = RestoreFile(str(home / "a.txt"), blob.name)
    for size in (0, 3, 11):
        (home / f"{TEMP}{size}").write_bytes(b"old content"[:size])
    (home / f"{TEMP}x").write_text("nonsense")
    assert sweep_leftovers(effect, scope) == 3
    (home / TEMP).write_bytes(b"old con")
    blob.unlink()
    assert sweep_leftovers(effect, scope) == 0
    assert {path.name for path in temps(home)} == {TEMP, f"{TEMP}x"}


@pytest.mark.parametrize("mode", ["replace", "append", "restore"])
def test_an_edit_of_the_last_instant_is_kept(home: Path, scope: Scope, keep: Keep, mode: str) -> None:
    """Once the new content is in place the old one goes only if it is kept; an edit that is nowhere else stays."""
    path = home / "a.txt"
    path.write_text("old text and new" if mode == "append" else "new text")
    effect: Effect = WriteFile(str(path), " and new" if mode == "append" else "new text", mode)
    if mode == "restore":
        effect = RestoreFile(str(path), put(keep, b"new text").name)
    temp = home / TEMP
    for edit in ("old text", "edited in the last instant", "new te", "old te", ""):
        temp.write_text(edit)
        assert sweep_leftovers(effect, scope) == 0
        assert temp.read_text() == edit
    temp.write_text(path.read_text())
    assert sweep_leftovers(effect, scope) == 1
    put(keep, b"old text")
    temp.write_text("old text")
    assert sweep_leftovers(effect, scope) == 1
    assert os.listdir(home) == ["a.txt"]


def test_parts_of_archives_go(home: Path, scope: Scope) -> None:
    """A half-made archive or unpacked folder goes, but nothing that cannot be one or is older than the effect."""
    fill(home, "a", "To/")
    to = home / "To"
    pack = {form: PackFiles((str(home / "a"),), str(to / f"all.{form}"), form) for form in ("zip", "tar.gz")}
    unpack = UnpackArchive(str(home / "all.zip"), str(to / "all"))
    (to / TEMP).write_bytes(b"PK\x03\x04half")
    assert sweep_leftovers(pack["tar.gz"], scope) == 0
    assert sweep_leftovers(unpack, scope) == 0
    assert sweep_leftovers(pack["zip"], scope) == 1
    for head in (b"\x1f\x8b\x08half", b"\x1f", b""):
        (to / TEMP).write_bytes(head)
        assert sweep_leftovers(pack["tar.gz"], scope, NOW - timedelta(days=4000)) == 1
    (to / TEMP).write_bytes(b"\x1f\x8b\x08half")
    aged(to / TEMP, days=2)
    assert sweep_leftovers(pack["tar.gz"], scope, NOW - timedelta(days=1)) == 0
    (to / TEMP).write_text("an edit")
    assert [sweep_leftovers(effect, scope) for effect in (*pack.values(), unpack)] == [0, 0, 0]
    fill(to, f"{TEMP}2/inner/file")
    aged(to / f"{TEMP}2", days=2)
    assert sweep_leftovers(pack["zip"], scope) == 0
    assert sweep_leftovers(unpack, scope, NOW - timedelta(days=1)) == 0
    assert sweep_leftovers(unpack, scope) == 1
    assert [path.name for path in temps(home)] == [TEMP]


def test_what_is_out_of_reach_or_not_ours_is_passed_over(home: Path, scope: Scope, tmp_path: Path) -> None:
    """A folder that is gone, outside or a link by now, files of another user and other names are left alone."""
    fill(tmp_path, f"out/{TEMP}", "home/a")
    (home / "Link").symlink_to(tmp_path / "out")
    for target in (home / "gone/a", tmp_path / "out/a", home / "Link/a", home):
        assert sweep_leftovers(CopyPath(str(home / "a"), str(target)), scope) == 0
    assert sweep_leftovers(MakeDir(str(home / "x")), scope) == 0
    (home / TEMP).write_text("")
    (home / ".metnos").write_text("")
    give_away(home / TEMP)
    theirs = int(os.geteuid() != 0)
    assert sweep_leftovers(CopyPath(str(home / "a"), str(home / "b")), scope) == theirs
    assert (home / ".metnos").exists()


CRASHES = r"""
import linecache, os, re, shutil, sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
import structlog
from metnosd import disk, keep, packing, perform
from metnosd.effects import *
from metnosd.keep import Keep
from metnosd.scope import Scope
from metnosd.sweep import sweep_leftovers

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
base, other, edit = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[4]
home = base / "home"
scope = Scope([str(home), str(other)], home=str(home), keep=Keep(other / ".keep"))
effect = eval(sys.argv[3], globals() | {"at": lambda name: str(home / name), "to": lambda name: str(other / name)})
traced = {module.__file__ for module in (disk, keep, packing, perform, shutil)}
calls = "mkdir|rename|unlink|rmdir|link|symlink|mkfifo|open|close|write|fsync|utime|fchmod|fchown"
changing = re.compile(r"os\.(" + calls + r")\(|function\(|\.write")


def furnish():
    for folder in (home, other):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    (home / "Docs/Sub").mkdir(parents=True)
    for name in ("a", "Docs/b", "Docs/Sub/c"):
        (home / name).write_text("text of " + name)
    (home / "Docs/link").symlink_to("b")
    shutil.copy(base / "all.zip", home)
    with open(base / "restored", "rb") as file:
        scope.keep.put(file.fileno(), lambda: None)


def contents(*folders):
    return {path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


def crash(number):
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    left = number

    def trace(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename not in traced:
            return None
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        left -= event == "line" and changing.search(line) is not None
        if left == 0:
            os._exit(9)
        return trace

    try:
        if edit:
            perform.prepare(effect, scope)
            Path(effect.path).write_text(edit)
        sys.settrace(trace)
        if not edit:
            perform.prepare(effect, scope)
        perform.perform(effect, scope)
    finally:
        os._exit(0)


(base / "restored").write_text("restored")
(base / "packed/inner").mkdir(parents=True)
(base / "packed/inner/file").write_text("text of a packed file")
shutil.make_archive(str(base / "all"), "zip", base / "packed")
number = 0
while True:
    furnish()
    wanted = contents(home, other) | ({edit.encode()} if edit else set())
    number += 1
    if not crash(number):
        break
    sweep_leftovers(effect, scope)
    left = [*home.rglob(".metnos-*"), *other.glob(".metnos-*")]
    if left and not (edit and [path.read_text() for path in left] == [edit]):
        print("left", number, left)
    scope.keep.sweep(datetime.now(timezone.utc) + timedelta(days=2), 30, 1 << 40)
    if wanted - contents(home, other):
        print("lost", number, wanted - contents(home, other))
    if list((other / ".keep").rglob(".metnos-*")):
        print("left in the keep", number)
print("crashes", number > 5)
"""

RESTORED = hashlib.sha256(b"restored").hexdigest()
REWRITES = [
    "WriteFile(at('a'), 'x' * 100, 'replace')",
    "WriteFile(at('a'), 'x' * 100, 'append')",
    f"RestoreFile(at('a'), '{RESTORED}')",
]
OTHERS = [
    "WriteFile(at('n'), 'x' * 100, 'create')",
    "MovePath(at('a'), to('a'))",
    "MovePath(at('Docs'), to('Docs'))",
    "CopyPath(at('Docs'), at('Copy'))",
    "TrashPath(at('Docs'), 's')",
    "PackFiles((at('Docs'), at('a')), at('p.tar.gz'), 'tar.gz')",
    "UnpackArchive(at('all.zip'), at('Un'))",
]


@pytest.mark.parametrize("effect", [*OTHERS, *REWRITES], ids=lambda effect: effect[:40])
def test_a_crash_at_any_line_leaves_nothing_behind_and_loses_nothing(
    tmp_path: Path, other_disk: Path, effect: str
) -> None:
    """Stopped at every line that may change something, no temporary thing stays and each content is somewhere."""
    assert as_nobody(CRASHES, str(tmp_path), str(other_disk / "root"), effect, "").strip() == "crashes True"


@pytest.mark.parametrize("effect", REWRITES, ids=lambda effect: effect[:40])
def test_a_crash_at_any_line_loses_no_edit_of_the_last_instant(tmp_path: Path, other_disk: Path, effect: str) -> None:
    """What a person wrote into a file just before it was to be replaced is there, or beside it, after any crash."""
    edited = as_nobody(CRASHES, str(tmp_path), str(other_disk / "root"), effect, "an edit of the last instant")
    assert edited.strip() == "crashes True"

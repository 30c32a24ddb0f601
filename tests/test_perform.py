"""Effects carried out and taken back on real files."""

from __future__ import annotations

import dataclasses
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.trees import do, fill, give_away, home_scope, snapshot

from metnosd import disk
from metnosd.effects import (
    CopyPath,
    Effect,
    MakeDir,
    MovePath,
    RemoveDir,
    RestoreFile,
    TrashPath,
    UntrashPath,
    WriteFile,
)
from metnosd.perform import fingerprint, perform, prepare
from metnosd.scope import Scope
from metnosd.sentence import Refusal


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    fill(folder, "a.txt", "Docs/b.txt", "Docs/Sub/c.txt", "Empty/")
    return folder


def refused(effect: Effect, scope: Scope) -> str:
    """The reason why both preparing and performing `effect` are refused."""
    reasons = set()
    for attempt in (prepare, perform):
        with pytest.raises(Refusal) as caught:
            attempt(effect, scope)
        reasons.add(caught.value.sentence.key)
    assert len(reasons) == 1
    return reasons.pop()


def at(home: Path, name: str) -> str:
    return str(home / name)


CHANGES: list[Callable[[Path], Effect]] = [
    lambda home: MovePath(at(home, "a.txt"), at(home, "Docs/z.txt")),
    lambda home: MovePath(at(home, "Docs"), at(home, "Empty/Docs")),
    lambda home: CopyPath(at(home, "a.txt"), at(home, "Docs/a.txt")),
    lambda home: CopyPath(at(home, "Docs"), at(home, "Docs 2")),
    lambda home: WriteFile(at(home, "new.txt"), "héllo", "create"),
    lambda home: WriteFile(at(home, "a.txt"), "new", "replace"),
    lambda home: WriteFile(at(home, "a.txt"), " and more", "append"),
    lambda home: WriteFile(at(home, "new.txt"), "x", "append"),
    lambda home: MakeDir(at(home, "Empty/New")),
    lambda home: RemoveDir(at(home, "Empty")),
    lambda home: TrashPath(at(home, "a.txt"), "slot"),
    lambda home: TrashPath(at(home, "Docs"), "slot"),
]


def contents(home: Path) -> dict[str, object]:
    """The tree without times: replacing and restoring a file gives it a new one."""
    return {name: value[:2] if isinstance(value, tuple) else value for name, value in snapshot(home).items()}


@pytest.mark.parametrize("make", CHANGES)
def test_every_effect_can_be_taken_back_and_done_again(home: Path, make: Callable[[Path], Effect]) -> None:
    """Undo gives the tree as it was, redo the changed one, undo again the first; each seen as unchanged."""
    scope = home_scope(home)
    first = contents(home)
    performed, inverse = do(make(home), scope)
    changed = contents(home)
    assert changed != first
    assert performed.entries and inverse is not None
    _, again = do(inverse, home_scope(home))
    assert contents(home) == first
    assert again is not None
    _, back = do(again, home_scope(home))
    assert contents(home) == changed
    assert back is not None
    do(back, scope)
    assert contents(home) == first


def test_what_effects_do(home: Path) -> None:
    """Moves keep everything, appends come after, new text is UTF-8 and byte for byte what was given."""
    scope = home_scope(home)
    old = snapshot(home)["a.txt"]
    do(CHANGES[0](home), scope)
    assert snapshot(home)["Docs/z.txt"] == old
    do(WriteFile(at(home, "Docs/b.txt"), "\nmore", "append"), scope)
    assert (home / "Docs/b.txt").read_text() == "text of Docs/b.txt\nmore"
    do(WriteFile(at(home, "n"), "a\r\né\n", "create"), scope)
    assert (home / "n").read_bytes() == b"a\r\n\xc3\xa9\n"


@pytest.mark.parametrize(
    ("effect", "reason"),
    [
        (MovePath("no", "x"), "scope.missing"),
        (MovePath("a.txt", "Docs/b.txt"), "effect.exists"),
        (MovePath("Docs", "Docs/Sub/Docs"), "effect.into_itself"),
        (MovePath("a.txt", "a.txt"), "effect.into_itself"),
        (MovePath("a.txt", "gone/a.txt"), "scope.missing"),
        (MovePath("a.txt", "a.txt/b"), "effect.into_itself"),
        (MovePath("a.txt", "Docs/b.txt/c"), "scope.not_dir"),
        (MovePath("a.txt", ".hidden"), "scope.hidden"),
        (MovePath("a.txt", "../out.txt"), "scope.outside"),
        (CopyPath("Docs", "Docs/copy"), "effect.into_itself"),
        (CopyPath("a.txt", "Docs/b.txt"), "effect.exists"),
        (WriteFile("a.txt", "x", "create"), "effect.exists"),
        (WriteFile("Docs", "x", "replace"), "scope.not_file"),
        (WriteFile("gone/x", "x", "create"), "scope.missing"),
        (RestoreFile("a.txt", "0" * 64), "keep.gone"),
        (RestoreFile("a.txt", "../../etc/passwd"), "keep.gone"),
        (MakeDir("a.txt"), "effect.exists"),
        (RemoveDir("Docs"), "effect.not_empty"),
        (RemoveDir("gone"), "scope.missing"),
        (UntrashPath("x", "none"), "keep.gone"),
        (UntrashPath("x", "../trash"), "keep.gone"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(home: Path, effect: Effect, reason: str) -> None:
    """Each is refused with its reason, and the tree stays as it is."""
    names = {
        field.name: at(home, getattr(effect, field.name))
        for field in dataclasses.fields(effect)
        if field.name in ("source", "target", "path")
    }
    before = snapshot(home)
    assert refused(dataclasses.replace(effect, **names), home_scope(home)) == reason  # type: ignore[arg-type]
    assert snapshot(home) == before


def test_roots_stay(home: Path) -> None:
    """A root is neither moved, copied, trashed nor removed."""
    scope = home_scope(home)
    for effect in (
        MovePath(str(home), at(home, "x")),
        CopyPath(str(home), at(home, "x")),
        TrashPath(str(home), "s"),
        RemoveDir(str(home)),
    ):
        assert refused(effect, scope) in ("scope.root", "effect.into_itself")


@pytest.mark.parametrize("make", CHANGES)
def test_undo_leaves_alone_what_was_changed_since(home: Path, make: Callable[[Path], Effect]) -> None:
    """A result that a person edited, or put something into, is not taken away from them."""
    scope = home_scope(home)
    _, inverse = do(make(home), scope)
    assert inverse is not None
    if isinstance(inverse, UntrashPath | MakeDir):
        return
    changed = Path(inverse.source if isinstance(inverse, MovePath) else inverse.path)  # type: ignore[attr-defined]
    if changed.is_dir():
        (changed / "mine.txt").write_text("mine")
    else:
        changed.write_text("edited" + changed.read_text())
    before = snapshot(home)
    assert refused(inverse, scope) in ("undo.changed", "effect.not_empty")
    assert snapshot(home) == before


def test_a_touch_a_move_and_a_new_daemon_are_no_edit(home: Path) -> None:
    """The fingerprint stays when a file is touched, renamed away and back, or copied with its time."""
    scope = home_scope(home)
    _, inverse = do(WriteFile(at(home, "a.txt"), "new", "replace"), scope)
    os.utime(home / "a.txt", (1, 1))
    (home / "a.txt").rename(home / "q")
    (home / "q").rename(home / "a.txt")
    assert inverse is not None
    do(inverse, home_scope(home))
    assert (home / "a.txt").read_text() == "text of a.txt"
    print_of_folder = fingerprint(scope, at(home, "Docs"))
    shutil.copytree(home / "Docs", home / "Copy", copy_function=shutil.copy2)
    assert fingerprint(scope, at(home, "Copy")) == print_of_folder
    assert fingerprint(scope, at(home, "none")) is None


def test_an_edit_of_the_middle_is_noticed(home: Path) -> None:
    """Same size, same time, other content: an edit. In a large file a new time is enough."""
    scope = home_scope(home)
    for size in (100, 3 << 20):
        path = home / "big"
        path.write_bytes(b"a" * size)
        before = fingerprint(scope, str(path))
        status = path.stat()
        path.write_bytes(b"a" * (size // 2) + b"b" + b"a" * (size - size // 2 - 1))
        if size == 100:
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert fingerprint(scope, str(path)) != before


def test_modes_and_owners_stay(home: Path) -> None:
    """A replaced file keeps its mode and owner, a copy the mode and the time; set-uid is not copied."""
    scope = home_scope(home)
    path = home / "a.txt"
    path.chmod(0o640)
    give_away(path)
    owner = path.stat().st_uid
    do(WriteFile(str(path), "new", "replace"), scope)
    status = path.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o640, owner)
    os.utime(path, ns=(0, 1_600_000_000_123_456_789))
    path.chmod(0o4755)
    do(CopyPath(str(path), at(home, "copy")), scope)
    copied = (home / "copy").stat()
    assert (stat.S_IMODE(copied.st_mode), copied.st_mtime_ns) == (0o755, 1_600_000_000_123_456_789)


def test_copies_leave_out_links_and_special_files(home: Path) -> None:
    """Inside a copied folder a link, or a pipe that would block, is left out and named."""
    (home / "Docs/link").symlink_to("/etc/passwd")
    os.mkfifo(home / "Docs/Sub/pipe")
    performed, _ = do(CopyPath(at(home, "Docs"), at(home, "Copy")), home_scope(home))
    assert sorted(str(problem.values["path"]) for problem in performed.problems) == [
        "~/Docs/Sub/pipe",
        "~/Docs/link",
    ]
    assert sorted(snapshot(home / "Copy")) == ["Sub", "Sub/c.txt", "b.txt"]


def test_a_link_put_in_the_way_is_refused(home: Path, tmp_path: Path) -> None:
    """Between preparing and performing a folder or file becomes a link out: nothing outside is touched."""
    fill(tmp_path, "out/b.txt", "out/secret")
    outside = snapshot(tmp_path / "out")
    scope = home_scope(home)
    into = [MovePath(at(home, "a.txt"), at(home, "Docs/a.txt")), WriteFile(at(home, "Docs/n"), "x", "create")]
    of = [
        MovePath(at(home, "Docs/b.txt"), at(home, "b")),
        TrashPath(at(home, "Docs/b.txt"), "s1"),
        WriteFile(at(home, "Docs/b.txt"), "x", "replace"),
        CopyPath(at(home, "Docs/b.txt"), at(home, "b")),
    ]
    for effect in (*into, *of):
        prepare(effect, scope)
    (home / "Docs").rename(home / "Real")
    (home / "Docs").symlink_to(tmp_path / "out")
    for effect in (*into, *of):
        with pytest.raises(Refusal) as caught:
            perform(effect, scope)
        assert caught.value.sentence.key == "scope.link"
    assert snapshot(tmp_path / "out") == outside
    leaf = WriteFile(at(home, "a.txt"), "x", "replace")
    prepare(leaf, scope)
    (home / "a.txt").unlink()
    (home / "a.txt").symlink_to(tmp_path / "out/secret")
    with pytest.raises(Refusal):
        perform(leaf, scope)
    assert snapshot(tmp_path / "out") == outside


def test_a_target_that_appears_is_not_overwritten(home: Path) -> None:
    """A file that comes up after preparing stays what it is, whatever would have taken its name."""
    scope = home_scope(home)
    target = at(home, "target")
    effects = [
        MovePath(at(home, "a.txt"), target),
        CopyPath(at(home, "a.txt"), target),
        CopyPath(at(home, "Docs"), target),
        WriteFile(target, "x", "create"),
    ]
    for effect in effects:
        prepare(effect, scope)
    (home / "target").write_text("mine")
    before = snapshot(home)
    for effect in effects:
        with pytest.raises(Refusal) as caught:
            perform(effect, scope)
        assert caught.value.sentence.key == "effect.exists"
    assert snapshot(home) == before


def test_renaming_without_help_of_the_kernel(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system that knows no special renames everything works too, and nothing is overwritten."""

    def unsupported(*args: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(disk, "_renameat2", unsupported)
    scope = home_scope(home)
    for make in CHANGES:
        first = contents(home)
        _, inverse = do(make(home), scope)
        assert inverse is not None
        do(inverse, scope)
        assert contents(home) == first
    before = snapshot(home)
    for effect in (
        MovePath(at(home, "a.txt"), at(home, "Docs/b.txt")),
        MovePath(at(home, "Empty"), at(home, "Docs")),
    ):
        with pytest.raises(Refusal):
            perform(effect, scope)
    assert snapshot(home) == before


def test_a_change_after_preparing_is_not_lost(home: Path) -> None:
    """A file edited between preparing and performing is not replaced: its last content is kept nowhere."""
    scope = home_scope(home)
    effect = WriteFile(at(home, "a.txt"), "new", "replace")
    prepare(effect, scope)
    (home / "a.txt").write_text("edited just now")
    with pytest.raises(Refusal) as caught:
        perform(effect, scope)
    assert caught.value.sentence.key == "undo.changed"
    assert (home / "a.txt").read_text() == "edited just now"
    assert sorted(os.listdir(home)) == ["Docs", "Empty", "a.txt"]


def test_making_a_folder_that_is_there_is_done_already(home: Path) -> None:
    """Two steps may both need a folder: the second one makes nothing and has nothing to take back."""
    performed, inverse = do(MakeDir(at(home, "Empty")), home_scope(home))
    assert inverse is None
    assert [entry.kind for entry in performed.entries] == ["dirs"]


def test_what_is_kept_is_for_its_owner_alone(home: Path, tmp_path: Path) -> None:
    """The folders of the keep are 0700 and old contents 0600."""
    scope = home_scope(home)
    do(WriteFile(at(home, "a.txt"), "new", "replace"), scope)
    do(TrashPath(at(home, "Docs"), "s"), scope)
    keep = tmp_path / "keep"
    assert {stat.S_IMODE(path.stat().st_mode) for path in (keep, keep / "trash", keep / "blobs")} == {0o700}
    blobs = [path for path in (keep / "blobs").rglob("*") if path.is_file()]
    assert [stat.S_IMODE(path.stat().st_mode) for path in blobs] == [0o600]
    blobs[0].write_text("damaged")
    with pytest.raises(Refusal) as caught:
        perform(RestoreFile(at(home, "a.txt"), blobs[0].name), scope)
    assert caught.value.sentence.key == "keep.damaged"
    assert (home / "a.txt").read_text() == "new"


NAMES = st.binary(min_size=1, max_size=20).filter(lambda name: not set(name) & {0, 47} and name[:1] != b".")


@settings(max_examples=60, deadline=None)
@given(NAMES, NAMES, st.binary(max_size=200), st.integers(0, 4))
def test_any_name_and_content_goes_there_and_back(one: bytes, two: bytes, content: bytes, kind: int) -> None:
    """Whatever bytes a name or a file has, an effect and its inverse give the same tree."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        scope = home_scope(home)
        old, new = (str(home / os.fsdecode(name)) for name in (one, b"x" + two))
        Path(old).write_bytes(content)
        first = contents(home)
        effect = [
            MovePath(old, new),
            CopyPath(old, new),
            TrashPath(old, "s"),
            WriteFile(old, "text", "append"),
            WriteFile(old, "text", "replace"),
        ][kind]
        if old == new:
            return
        _, inverse = do(effect, scope)
        assert inverse is not None
        do(inverse, scope)
        assert contents(home) == first

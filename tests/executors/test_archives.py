"""Archives: made, unpacked, and hostile ones refused."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.trees import do, do_all, effects, fill, home_scope, run_on, snapshot, undo_all

from metnosd.effects import PackFiles, UnpackArchive
from metnosd.executor import Cancelled, Effects, Executor, Limits
from metnosd.executors.archives import compress_files, extract_archives
from metnosd.perform import perform
from metnosd.sentence import Refusal


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    fill(folder, "Docs/a.txt", "Docs/Sub/b.txt", "Docs/Empty/", "Docs/.git/config", "Other/a.txt")
    (folder / "Docs" / os.fsdecode(b"caf\xe9\n.txt")).write_text("odd")
    (folder / "Docs/run.sh").write_text("#!/bin/sh\n")
    (folder / "Docs/run.sh").chmod(0o755)
    os.utime(folder / "Docs/a.txt", (1_600_000_000, 1_600_000_000))
    return folder


def targets(result: Effects, home: Path) -> list[str]:
    return [
        str(effect.to_json().get("target", effect.to_json().get("path"))).removeprefix(f"{home}/")
        for effect in result.effects
    ]


def would(executor: Executor, home: Path, *paths: str, **args: Any) -> Effects:
    args = {key: str(home / value) if key == "to" else value for key, value in args.items()}
    return effects(executor, run_on(home_scope(home), [home / path for path in paths]), **args)


@pytest.mark.parametrize("form", ["zip", "tar.gz"])
def test_a_folder_there_and_back(home: Path, form: str) -> None:
    """A packed and unpacked folder has the same files, contents, times and permissions to execute."""
    scope = home_scope(home)
    before = snapshot(home)
    inverses = do_all(would(compress_files, home, "Docs", format=form), scope)
    archive = home / f"Docs.{form}"
    assert archive.is_file()
    unpacked = do_all(would(extract_archives, home, archive.name, to="Back"), scope)
    back = home / "Back/Docs"
    assert (back / "Sub/b.txt").read_text() == "text of Docs/Sub/b.txt"
    assert (back / ".git/config").exists()
    assert (back / "Empty").is_dir()
    assert (back / "run.sh").stat().st_mode & 0o111
    assert not (back / "a.txt").stat().st_mode & 0o111
    assert (back / "a.txt").stat().st_mtime == 1_600_000_000
    odd = "caf\ufffd\n.txt" if form == "zip" else os.fsdecode(b"caf\xe9\n.txt")
    assert (back / odd).read_text() == "odd"
    undo_all(unpacked, scope)
    undo_all(inverses, scope)
    assert snapshot(home) == before


def test_where_an_archive_goes(home: Path) -> None:
    """Beside what is packed, or where it was said; its name tells the format; a taken name gets a number."""
    assert targets(would(compress_files, home, "Docs/a.txt"), home) == ["Docs/a.zip"]
    assert targets(would(compress_files, home, "Docs", "Other"), home) == ["home.zip"]
    assert targets(would(compress_files, home, "Docs", to="Other"), home) == ["Other/Docs.zip"]
    assert targets(would(compress_files, home, "Docs", to="back.tgz"), home) == ["back.tgz"]
    assert targets(would(compress_files, home, "Docs", to="back", format="tar.gz"), home) == ["back.tar.gz"]
    assert targets(would(compress_files, home, "Docs", to="New/x.zip"), home) == ["New", "New/x.zip"]
    fill(home, "back.zip")
    assert targets(would(compress_files, home, "Docs", to="back.zip"), home) == ["back (1).zip"]
    assert would(compress_files, home).effects == ()


def test_where_things_are_unpacked(home: Path) -> None:
    """Into a new folder beside the archive or where it was said, never into one that exists."""
    do_all(would(compress_files, home, "Other"), home_scope(home))
    assert targets(would(extract_archives, home, "Other.zip"), home) == ["Other (1)"]
    assert targets(would(extract_archives, home, "Other.zip", to="Docs"), home) == ["Docs/Other"]
    assert targets(would(extract_archives, home, "Other.zip", to="New/In"), home) == ["New", "New/In"]
    result = would(extract_archives, home, "Docs/a.txt", "Other")
    assert result.effects == ()
    assert [problem.key for problem in result.problems] == ["archive.unknown", "scope.not_file"]


def test_two_of_one_name_are_both_packed(home: Path) -> None:
    """Files of the same name from two folders are numbered inside the archive."""
    do_all(would(compress_files, home, "Docs/a.txt", "Other/a.txt"), home_scope(home))
    assert zipfile.ZipFile(home / "home.zip").namelist() == ["a.txt", "a (1).txt"]


def test_an_archive_inside_what_it_packs_does_not_pack_itself(home: Path) -> None:
    """Packing a folder into a file in it ends, and leaves out links and pipes, which are named."""
    os.mkfifo(home / "Docs/pipe")
    (home / "Docs/link").symlink_to("/etc/passwd")
    performed, _ = do(PackFiles((str(home / "Docs"),), str(home / "Docs/d.zip"), "zip"), home_scope(home))
    assert sorted(str(problem.values["path"]) for problem in performed.problems) == [
        "~/Docs/link",
        "~/Docs/pipe",
    ]
    assert not any(name.endswith((".zip", "link", "pipe")) for name in zipfile.ZipFile(home / "Docs/d.zip").namelist())


def test_files_of_years_that_a_zip_cannot_hold(home: Path) -> None:
    """A file from 1970 is packed with the first year that a zip knows."""
    os.utime(home / "Docs/a.txt", (0, 0))
    do_all(would(compress_files, home, "Docs/a.txt"), home_scope(home))
    assert zipfile.ZipFile(home / "Docs/a.zip").infolist()[0].date_time[0] == 1980


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, size
    return info


def write_tar(path: Path, *members: tarfile.TarInfo) -> None:
    with tarfile.open(path, "w:gz") as tar:
        tar.addfile(member("fine.txt", size=4), io.BytesIO(b"fine"))
        for info in members:
            tar.addfile(info, io.BytesIO(b"x" * info.size))


def write_zip(path: Path, *members: str | zipfile.ZipInfo, content: bytes = b"x") -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for name in ("fine.txt", *members):
            archive.writestr(name, content)


def zip_link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o120777 << 16
    return info


def refusal(home: Path, archive: Path, limits: Limits | None = None) -> str:
    """Why unpacking is refused; nothing of it is left, in the home or outside."""
    before = snapshot(home.parent)
    with pytest.raises(Refusal) as caught:
        perform(UnpackArchive(str(archive), str(home / "out")), home_scope(home), limits=limits)
    assert snapshot(home.parent) == before
    return caught.value.sentence.key


@pytest.mark.parametrize("name", ["/abs", "../up", "a/../../up", "a/../b", "..\\up", "C:\\x", "\\\\host\\x", "x" * 300])
def test_members_do_not_leave_the_target(home: Path, name: str) -> None:
    """An absolute name, one with `..` in any writing, or an impossible one refuses the whole archive."""
    write_zip(home / "z", name)
    assert refusal(home, home / "z") == "archive.unsafe"
    write_tar(home / "t", member(name))
    assert refusal(home, home / "t") == "archive.unsafe"


def test_deep_folders_are_refused(home: Path) -> None:
    """Thousands of nested folders are no archive that anybody means."""
    write_zip(home / "z", "d/" * 5000 + "x")
    assert refusal(home, home / "z") == "archive.unsafe"


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE])
def test_links_and_devices_are_refused(home: Path, kind: bytes) -> None:
    """A link, also an inner one, a pipe or a device in a tar refuses it, before anything goes through it."""
    write_tar(home / "t", member("l", kind, "../../Docs"), member("l/evil.txt", size=1))
    assert refusal(home, home / "t") == "archive.link"
    write_tar(home / "t", member("l", kind, "fine.txt"))
    assert refusal(home, home / "t") == "archive.link"


def test_links_in_a_zip_are_refused(home: Path) -> None:
    """A zip can hold links too."""
    write_zip(home / "z", zip_link("l"), content=b"/etc/passwd")
    assert refusal(home, home / "z") == "archive.link"


def test_bombs_are_refused(home: Path) -> None:
    """Too many files, too many bytes, too high a ratio: refused, whatever the archive declares."""
    write_zip(home / "z", content=b"\0" * (8 << 20))
    assert refusal(home, home / "z") == "archive.bomb"
    assert refusal(home, home / "z", Limits(max_unpacked_bytes=1000)) == "archive.too_big"
    write_zip(home / "many", *(f"{number}/x" for number in range(20)))
    assert refusal(home, home / "many", Limits(max_unpacked_files=30)) == "archive.too_many"
    write_tar(home / "t", member("zeros", size=8 << 20))
    assert refusal(home, home / "t") == "archive.bomb"
    perform(UnpackArchive(str(home / "many"), str(home / "out")), home_scope(home))


def test_a_zip_that_lies_about_its_size(home: Path) -> None:
    """A member that declares few bytes and holds many is stopped or refused as damaged."""
    write_zip(home / "z", content=b"\0" * (8 << 20))
    data = (home / "z").read_bytes()
    (home / "z").write_bytes(data.replace((8 << 20).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    assert refusal(home, home / "z") in ("archive.broken", "archive.bomb")


def test_a_tar_header_that_claims_gigabytes(home: Path) -> None:
    """A header that would be read into memory as large as it claims is refused."""
    header = member("h", tarfile.XHDTYPE, size=1 << 33).tobuf(tarfile.GNU_FORMAT)
    (home / "t").write_bytes(gzip.compress(header + b"1" * 100_000))
    assert refusal(home, home / "t") == "archive.broken"


def test_encrypted_members_are_refused(home: Path) -> None:
    """What needs a password is told as such."""
    write_zip(home / "z")
    data = bytearray((home / "z").read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (home / "z").write_bytes(data)
    assert refusal(home, home / "z") == "archive.encrypted"


def test_duplicates_and_odd_members_are_safe(home: Path) -> None:
    """A second member of one name gets a number; empty and dotted names do no harm; a UTF-8 name is read as one."""
    write_zip(home / "z", "a.txt", "a.txt", "./a.txt", "./", "d//e.txt", ".hid/x", "two\nlines")
    info = zipfile.ZipInfo("caf_.txt")
    with zipfile.ZipFile(home / "z", "a") as archive:
        archive.writestr(info, b"y")
    (home / "z").write_bytes((home / "z").read_bytes().replace(b"caf_.txt", "é1.txt  "[:7].encode()[:8].ljust(8, b"x")))
    perform(UnpackArchive(str(home / "z"), str(home / "out")), home_scope(home))
    names = set(os.listdir(home / "out"))
    assert {"a.txt", "a (1).txt", "a (2).txt", "d", ".hid", "two\nlines", "fine.txt"} <= names
    assert any(name.startswith("é1") for name in names)


def test_a_file_used_as_a_folder_is_broken(home: Path) -> None:
    """An archive with `a` and `a/b` cannot be unpacked."""
    write_zip(home / "z", "a", "a/b")
    assert refusal(home, home / "z") == "archive.broken"


@pytest.mark.parametrize("form", ["zip", "tar", "tar.gz", "tar.bz2", "tar.xz"])
def test_every_format_and_every_damage(home: Path, form: str) -> None:
    """All formats are read by their content; one cut short or changed in the middle is refused or complete."""
    source = home / "big"
    source.mkdir()
    (source / "data").write_bytes(os.urandom(100_000))
    archive = home / "x.bin"
    if form == "zip":
        write_zip(archive, "data", content=(source / "data").read_bytes())
    else:
        with tarfile.open(archive, f"w:{form[4:]}") as tar:  # type: ignore[call-overload]
            tar.add(source / "data", "data")
    data = archive.read_bytes()
    perform(UnpackArchive(str(archive), str(home / "whole")), home_scope(home))
    assert (home / "whole/data").read_bytes() == (source / "data").read_bytes()
    archive.write_bytes(data[: len(data) // 2])
    assert refusal(home, archive) == "archive.broken"
    if form != "tar":
        middle = len(data) // 2
        archive.write_bytes(data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :])
        assert refusal(home, archive) == "archive.broken"


@pytest.mark.parametrize("effect", [lambda home: PackFiles((str(home / "Docs"),), str(home / "o.zip"), "zip")])
def test_a_cancelled_pack_leaves_nothing(home: Path, effect: Callable[[Path], PackFiles]) -> None:
    """Stopped in the middle there is no archive."""
    before = snapshot(home)
    left = 4

    def check() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Cancelled

    with pytest.raises(Cancelled):
        perform(effect(home), home_scope(home), check)
    assert snapshot(home) == before


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_mangled_archive_raises_anything_else(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever bytes are changed, unpacking succeeds inside the target or is refused with nothing left."""
    base = tmp_path_factory.mktemp("fuzz")
    home = base / "home"
    fill(home, "d/a", "d/b/c")
    scope = home_scope(home)
    form = data.draw(st.sampled_from(["zip", "tar.gz", "tar"]))
    archive = home / "x"
    if form == "tar":
        with tarfile.open(archive, "w:") as tar:
            tar.add(home / "d", "d")
    else:
        perform(PackFiles((str(home / "d"),), str(archive), form), scope)
    content = bytearray(archive.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, 1200)) % len(content)] = data.draw(st.integers(0, 255))
    archive.write_bytes(content)
    before = snapshot(base)
    try:
        perform(UnpackArchive(str(archive), str(home / "out")), scope, limits=Limits(max_unpacked_bytes=1 << 20))
    except Refusal:
        assert snapshot(base) == before
    else:
        assert set(os.listdir(base)) <= {"home", "keep"}
        assert set(os.listdir(home)) == {"d", "x", "out"}

"""Finding, listing and reading files."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.trees import as_nobody, fill, found, give_away, home_scope, run_on

from metnosd.arguments import TimeRange
from metnosd.entries import Entry
from metnosd.executor import Cancelled, Limits
from metnosd.executors.find import find_files, list_dirs
from metnosd.executors.read import read_files
from metnosd.kinds import load_kinds, shipped_kinds
from metnosd.scope import Scope
from metnosd.sentence import Refusal

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    fill(
        folder,
        "Projects/new.pdf",
        "Projects/sub/NEW.PDF",
        "Projects/old.pdf",
        "Projects/x.pdf/inner.txt",
        "Projects/two\nlines.pdf",
        "Documents/a.txt",
        "Documents/data.txt",
        "Documents/b.jpeg",
        "Documents/c.jpg",
        "Documents/pack.tar.gz",
        "other.pdf",
        ".hidden/h.pdf",
    )
    (folder / "Projects" / os.fsdecode(b"caf\xe9.pdf")).write_text("x")
    os.mkfifo(folder / "Projects/pipe.pdf")
    (folder / "Projects/link.pdf").symlink_to(folder / "other.pdf")
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (MONDAY.timestamp() + 60, MONDAY.timestamp() + 60))
    os.utime(folder / "Projects/old.pdf", (0, MONDAY.timestamp() - 1))
    return folder


def names(home: Path, **args: Any) -> list[str]:
    if "path" in args:
        args["path"] = str(home / args["path"])
    result = found(find_files, run_on(home_scope(home)), **args)
    assert result.problems == ()
    return [os.path.relpath(entry.path, home) for entry in result.entries]


def test_this_weeks_pdfs(home: Path) -> None:
    """Regular files only, in any case of the extension and with any name; no folder, link, pipe or hidden file."""
    week = TimeRange(MONDAY, MONDAY + timedelta(days=7))
    expected = {"new.pdf", "sub/NEW.PDF", "two\nlines.pdf", os.fsdecode(b"caf\xe9.pdf")}
    got = names(home, path="Projects", extension="pdf", modified=week)
    assert set(got) == {f"Projects/{name}" for name in expected}
    assert got == sorted(got)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"extension": ".JPG"}, ["Documents/b.jpeg", "Documents/c.jpg"]),
        ({"extension": "*.jpg, txt", "path": "Documents"}, ["a.txt", "b.jpeg", "c.jpg", "data.txt"]),
        ({"extension": "tar.gz"}, ["Documents/pack.tar.gz"]),
        ({"kind": "image"}, ["Documents/b.jpeg", "Documents/c.jpg"]),
        ({"extension": "image"}, ["Documents/b.jpeg", "Documents/c.jpg"]),
        ({"kind": "text", "path": "Documents"}, ["a.txt", "data.txt"]),
        ({"kind": "folder", "name": "x"}, ["Projects/x.pdf"]),
        ({"kind": "folder"}, ["Documents", "Projects", "Projects/sub", "Projects/x.pdf"]),
        ({"name": "a.txt", "path": "Documents"}, ["a.txt"]),
        ({"name": "A.TXT"}, ["Documents/a.txt"]),
        ({"name": "data"}, ["Documents/data.txt"]),
        ({"name": "*a.t?t"}, ["Documents/a.txt", "Documents/data.txt"]),
        ({"recursive": False}, ["other.pdf"]),
        ({"path": "Documents/a.txt"}, [""]),
        ({"path": "Documents/a.txt", "extension": "pdf"}, []),
        ({"contains": "TEXT of documents/A"}, ["Documents/a.txt"]),
        ({"modified": TimeRange(None, MONDAY)}, ["Projects/old.pdf"]),
    ],
)
def test_what_each_argument_finds(home: Path, args: dict[str, Any], expected: list[str]) -> None:
    """Each argument narrows what is found, in any case, by glob or part, and results are in order."""
    base = f"{args['path']}/" if "path" in args else ""
    assert names(home, **args) == [f"{base}{name}".rstrip("/") for name in expected]


def test_sizes_are_exclusive_bounds(home: Path) -> None:
    """Larger and smaller mean strictly so, in bytes."""
    (home / "exact.bin").write_bytes(b"x" * 10_000)
    assert names(home, larger_than=9_999) == ["exact.bin"]
    assert names(home, larger_than=10_000) == []
    assert "exact.bin" not in names(home, smaller_than=10_000)


def test_entries_say_what_the_interface_promises(home: Path) -> None:
    """Path, name, size and time; a name that is no UTF-8 is escaped and comes in base 64 too."""
    result = found(find_files, run_on(home_scope(home)), path=str(home / "Projects"), name="caf*")
    (entry,) = result.entries
    wire = entry.to_json()
    assert (wire["kind"], wire["size"], str(wire["name"])) == ("files", 1, "caf\\xe9.pdf")
    assert wire["modified"] == "2026-11-16T00:01:00+00:00"
    assert "path_b64" in wire


def test_nothing_is_found_outside_the_scope(tmp_path: Path) -> None:
    """Without roots it is refused; a root that is gone is a problem."""
    with pytest.raises(Refusal) as caught:
        found(find_files, run_on(Scope([], home=None)))
    assert caught.value.sentence.key == "scope.no_roots"
    result = found(find_files, run_on(Scope([str(tmp_path / "gone")], home=None)))
    assert [problem.key for problem in result.problems] == ["scope.missing"]


def test_too_many_files_are_cut_and_said_so(home: Path) -> None:
    """At the limit of a scan the result is marked as truncated."""
    result = found(find_files, run_on(home_scope(home), limits=Limits(max_files=3)))
    assert result.truncated
    assert [problem.key for problem in result.problems] == ["scope.too_many"]


def test_a_cancelled_search_ends(home: Path) -> None:
    """A cancelled turn stops at the next folder."""
    run = run_on(home_scope(home))
    run.cancelled.set()
    with pytest.raises(Cancelled):
        found(find_files, run)


UNREADABLE = """
import sys
from support.trees import *
from metnosd.executors.find import find_files
from metnosd.executors.digests import compute_signatures
drop()
scope = home_scope(Path(sys.argv[1]))
result = found(find_files, run_on(scope), extension="pdf")
print([e.fields["name"] for e in result.entries], [(p.key, p.values["path"]) for p in result.problems])
result = found(compute_signatures, run_with(scope, result.entries))
print([e.fields["name"] for e in result.entries], [(p.key, p.values["path"]) for p in result.problems])
"""


def test_what_cannot_be_read_is_told() -> None:
    """An unreadable folder or file is named; the rest is found and digested."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        fill(home, "a.pdf", "locked.pdf", "shut/b.pdf")
        for name in ("locked.pdf", "shut"):
            (home / name).chmod(0)
        give_away(Path(folder), home)
        support = str(Path(__file__).parents[1])
        printed = as_nobody(f"import sys; sys.path.insert(0, {support!r})\n" + UNREADABLE, str(home))
    assert printed.splitlines() == [
        "['a.pdf', 'locked.pdf'] [('scope.denied', '~/shut')]",
        "['a.pdf'] [('scope.denied', '~/locked.pdf')]",
    ]


def test_listing_a_folder(home: Path) -> None:
    """Files and folders of one folder, each of its kind; without a path, of the roots."""
    result = found(list_dirs, run_on(home_scope(home)), path=str(home / "Projects"))
    kinds = {str(entry.fields["name"]): entry.kind for entry in result.entries}
    assert kinds["sub"] == kinds["x.pdf"] == "dirs"
    assert kinds["new.pdf"] == "files"
    assert "link.pdf" not in kinds
    top = found(list_dirs, run_on(home_scope(home)))
    assert [entry.fields["name"] for entry in top.entries] == ["Documents", "Projects", "other.pdf"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"plain \xc3\xa9", "plain é"),
        (b"\xef\xbb\xbfmarked", "marked"),
        ("wide é".encode("utf-16"), "wide é"),
        (b"caf\xe9 latin", "café latin"),
        (b"", ""),
    ],
)
def test_reading_text_of_any_encoding(home: Path, content: bytes, text: str) -> None:
    """UTF-8 with or without a mark, UTF-16 and Windows-1252 are read."""
    (home / "t").write_bytes(content)
    result = found(read_files, run_on(home_scope(home)), path=str(home / "t"))
    (entry,) = result.entries
    assert (entry.kind, entry.fields["text"], entry.fields["truncated"]) == ("texts", text, False)


def test_reading_is_bounded_and_leaves_out_binaries(home: Path) -> None:
    """A long text is cut and marked, in no character's middle; a binary file is told; all together has a bound."""
    (home / "long").write_text("é" * 1000)
    (home / "bin").write_bytes(b"a\0b")
    limits = Limits(max_read_bytes=101)
    result = found(read_files, run_on(home_scope(home), [home / "long", home / "bin"], limits=limits))
    assert [entry.fields["text"] for entry in result.entries] == ["é" * 50]
    assert result.truncated
    assert [problem.key for problem in result.problems] == ["read.binary"]
    fill(home, *(f"many/{number}" for number in range(60)))
    many = found(read_files, run_on(home_scope(home), sorted((home / "many").iterdir()), limits=limits))
    assert many.problems[-1].key == "read.too_much"
    assert many.truncated


def test_reading_needs_a_file(home: Path) -> None:
    """Without path and input it asks which; a folder is no file; an entry that is gone is a problem."""
    scope = home_scope(home)
    for path, reason in ((None, "read.what"), (str(home / "Documents"), "scope.not_file")):
        with pytest.raises(Refusal) as caught:
            found(read_files, run_on(scope), path=path)
        assert caught.value.sentence.key == reason
    run = run_on(scope, [home / "other.pdf"])
    (home / "other.pdf").unlink()
    assert [problem.key for problem in found(read_files, run).problems] == ["scope.missing"]


def test_kinds_are_data(tmp_path: Path) -> None:
    """Kinds come from a file; a file of another shape is an error; every shipped kind is an argument's value."""
    values = find_files.schema["properties"]["kind"]["enum"]
    assert {*shipped_kinds().kinds, "folder"} == set(values)
    (tmp_path / "kinds.toml").write_text("x = 1")
    with pytest.raises(ValueError, match="does not list"):
        load_kinds(tmp_path / "kinds.toml")


def test_entries_without_path_are_no_files(home: Path) -> None:
    """Entries of another kind give nothing to read."""
    run = run_on(home_scope(home), [])
    object.__setattr__(run, "entries", (Entry("numbers", {"count": 1}),))
    assert found(read_files, run).entries == ()

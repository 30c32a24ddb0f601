"""Digests and duplicates."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from support.trees import do_all, effects, fill, found, home_scope, run_on

from metnosd.executor import Cancelled
from metnosd.executors.change import delete_files
from metnosd.executors.digests import compute_signatures, find_duplicates


@pytest.mark.parametrize("algorithm", ["sha256", "sha1", "md5", "blake2b"])
def test_digests_are_those_of_the_content(tmp_path: Path, algorithm: str) -> None:
    """Each entry keeps its fields and gets the algorithm and the digest in hexadecimal, of any size of file."""
    home = tmp_path / "home"
    home.mkdir()
    contents = {
        "empty": b"",
        "small": b"abc",
        "large": os.urandom(3_000_001),
        os.fsdecode(b"n\n\xff"): b"odd",
    }
    for name, content in contents.items():
        (home / name).write_bytes(content)
    result = found(
        compute_signatures, run_on(home_scope(home), [home / name for name in contents]), algorithm=algorithm
    )
    assert result.problems == ()
    for entry, (name, content) in zip(result.entries, contents.items(), strict=True):
        assert entry.fields["name"] == name
        assert entry.fields["size"] == len(content)
        assert entry.fields["algorithm"] == algorithm
        assert entry.fields["digest"] == hashlib.new(algorithm, content).hexdigest()


def test_what_is_no_file_has_no_digest(tmp_path: Path) -> None:
    """A folder, a pipe, a link and what is gone are told, and never opened; the rest is done."""
    home = tmp_path / "home"
    fill(home, "a", "b", "c", "d", "folder/")
    run = run_on(home_scope(home), [home / name for name in ("a", "b", "c", "d", "folder")])
    for name in "abc":
        (home / name).unlink()
    os.mkfifo(home / "b")
    (home / "c").symlink_to("d")
    result = found(compute_signatures, run)
    assert [entry.fields["name"] for entry in result.entries] == ["d"]
    assert [problem.key for problem in result.problems] == [
        "scope.missing",
        "scope.special",
        "scope.link",
        "scope.not_file",
    ]


def test_many_problems_are_counted(tmp_path: Path) -> None:
    """After the first twenty problems it is only said how many more there are."""
    home = tmp_path / "home"
    fill(home, *(f"{number}" for number in range(30)))
    run = run_on(home_scope(home), sorted(home.iterdir()))
    for path in home.iterdir():
        path.unlink()
    problems = found(compute_signatures, run).problems
    assert (len(problems), problems[-1].key, problems[-1].values["count"]) == (21, "problems.more", 10)


def test_a_cancelled_digest_ends(tmp_path: Path) -> None:
    """A cancelled turn stops between chunks."""
    home = tmp_path / "home"
    fill(home, "a")
    run = run_on(home_scope(home), [home / "a"])
    run.cancelled.set()
    with pytest.raises(Cancelled):
        found(compute_signatures, run)


def test_duplicates_leave_one_of_each(tmp_path: Path) -> None:
    """Files of the same content but the oldest are duplicates of it, so that deleting them loses nothing."""
    home = tmp_path / "home"
    home.mkdir()
    contents = {"new": "same", "old": "same", "other": "sane", "newest": "same", "alone": "longer"}
    for age, (name, content) in enumerate(contents.items()):
        (home / name).write_text(content)
        os.utime(home / name, (age, age))
    os.utime(home / "old", (-5, -5))
    os.link(home / "old", home / "second name")
    run = run_on(home_scope(home), sorted(home.iterdir()))
    result = found(find_duplicates, run)
    assert [(entry.fields["name"], entry.fields["same_as"]) for entry in result.entries] == [
        ("new", str(home / "old")),
        ("newest", str(home / "old")),
    ]
    do_all(
        effects(delete_files, run_on(home_scope(home), [entry.path for entry in result.entries])),
        home_scope(home),
    )
    assert sorted(os.listdir(home)) == ["alone", "old", "other", "second name"]
    assert found(find_duplicates, run_on(home_scope(home), [])).entries == ()

"""Moving, copying, renaming, deleting, writing: what would happen, and that it comes back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.trees import do_all, effects, fill, home_scope, run_on, run_with, snapshot, undo_all

from metnosd.effects import CopyPath, MakeDir, MovePath, TrashPath, WriteFile
from metnosd.entries import Entry
from metnosd.executor import Effects, Executor
from metnosd.executors.change import copy_files, delete_files, move_files, rename_files
from metnosd.executors.write import create_dirs, write_files
from metnosd.filenames import numbered, split_name
from metnosd.sentence import Question, Refusal


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    fill(folder, "Downloads/a.txt", "Downloads/Sub/a.txt", "Downloads/b.tar.gz", "Documents/a.txt", "r.docx")
    return folder


def would(executor: Executor, home: Path, *paths: str, **args: Any) -> Effects:
    """The effects on files of the home; nothing has happened by then."""
    before = snapshot(home)
    args = {key: str(home / value) if key in ("to", "path") else value for key, value in args.items()}
    if executor is rename_files:
        args["to"] = os.path.basename(args["to"])
    result = effects(executor, run_on(home_scope(home), [home / path for path in paths]), **args)
    assert snapshot(home) == before
    return result


def lines(home: Path, result: Effects) -> list[str]:
    """Effects in short: `source > target`, or the path."""
    shown = []
    for effect in result.effects:
        data = effect.to_json()
        places = [str(data[key]).removeprefix(f"{home}/") for key in ("source", "target", "path") if key in data]
        shown.append(" > ".join(places))
    return shown


def reasons(result: Effects) -> list[str]:
    return [problem.key for problem in result.problems]


def test_moving_gives_numbers_to_names_that_are_taken(home: Path) -> None:
    """A name that exists, and one that two sources share, get numbers; nothing is overwritten; undo is exact."""
    before = snapshot(home)
    result = would(move_files, home, "Downloads/a.txt", "Downloads/Sub/a.txt", "Downloads/b.tar.gz", to="Documents")
    assert lines(home, result) == [
        "Downloads/a.txt > Documents/a (1).txt",
        "Downloads/Sub/a.txt > Documents/a (2).txt",
        "Downloads/b.tar.gz > Documents/b.tar.gz",
    ]
    inverses = do_all(result, home_scope(home))
    assert (home / "Documents/a.txt").read_text() == "text of Documents/a.txt"
    moved = snapshot(home)
    again = undo_all(inverses, home_scope(home))
    assert snapshot(home) == before
    back = undo_all(again[::-1], home_scope(home))
    assert snapshot(home) == moved
    undo_all(back[::-1], home_scope(home))
    assert snapshot(home) == before


@pytest.mark.parametrize("executor", [move_files, copy_files])
def test_a_missing_folder_is_made_first(home: Path, executor: Executor) -> None:
    """The target's missing folders come first, and go again when all is taken back."""
    before = snapshot(home)
    result = would(executor, home, "r.docx", to="New/Inner")
    assert lines(home, result) == ["New", "New/Inner", "r.docx > New/Inner/r.docx"]
    assert [type(effect) for effect in result.effects[:2]] == [MakeDir, MakeDir]
    undo_all(do_all(result, home_scope(home)), home_scope(home))
    assert snapshot(home) == before


def test_a_target_can_be_a_file_name(home: Path) -> None:
    """One file goes to a name with its extension, or beside a file that has the name; several to a folder."""
    assert lines(home, would(copy_files, home, "r.docx", to="old.docx")) == ["r.docx > old.docx"]
    assert lines(home, would(copy_files, home, "r.docx", to="r.docx")) == ["r.docx > r (1).docx"]
    assert lines(home, would(move_files, home, "Downloads/a.txt", to="Documents/a.txt")) == [
        "Downloads/a.txt > Documents/a (1).txt"
    ]
    assert lines(home, would(copy_files, home, "r.docx", to="v1.2"))[0] == "v1.2"
    with pytest.raises(Refusal) as caught:
        would(copy_files, home, "r.docx", "Downloads/a.txt", to="Documents/a.txt")
    assert caught.value.sentence.key == "scope.not_dir"


def test_what_cannot_move_is_told(home: Path) -> None:
    """Into itself, to where it is, a root, and what is gone are problems; the rest goes on."""
    result = would(move_files, home, "Downloads", "r.docx", to="Downloads/Sub")
    assert reasons(result) == ["effect.into_itself"]
    assert lines(home, result) == ["r.docx > Downloads/Sub/r.docx"]
    result = would(move_files, home, "Downloads/a.txt", to="Downloads")
    assert (reasons(result), result.effects) == (["move.already_there"], ())
    scope = home_scope(home)
    gone = Entry("files", {"path": str(home / "gone")})
    result = effects(move_files, run_with(scope, [scope.item(str(home)).entry(), gone]), to=str(home / "New"))
    assert (reasons(result), result.effects) == (["scope.root", "scope.missing"], ())


def test_each_thing_once(home: Path) -> None:
    """A file named twice, or with a folder that holds it, is one effect; copying twice gives two names."""
    result = would(delete_files, home, "Downloads/a.txt", "Downloads", "Downloads/Sub/a.txt", "r.docx", "r.docx")
    assert lines(home, result) == ["Downloads", "r.docx"]
    assert all(isinstance(effect, TrashPath) for effect in result.effects)
    assert len({effect.slot for effect in result.effects if isinstance(effect, TrashPath)}) == 2
    before = snapshot(home)
    undo_all(do_all(result, home_scope(home)), home_scope(home))
    assert snapshot(home) == before


def test_special_files_and_links_are_left_alone(home: Path) -> None:
    """What became a pipe or a link after it was found is a problem, not an effect."""
    run = run_on(home_scope(home), [home / "r.docx", home / "Downloads/a.txt"])
    (home / "r.docx").unlink()
    os.mkfifo(home / "r.docx")
    (home / "Downloads/a.txt").unlink()
    (home / "Downloads/a.txt").symlink_to("/etc/passwd")
    for executor, args in ((delete_files, {}), (copy_files, {"to": str(home / "New")})):
        result = effects(executor, run, **args)
        assert (reasons(result), result.effects) == (["scope.special", "scope.link"], ())


@pytest.mark.parametrize(
    ("source", "said", "target"),
    [
        ("r.docx", "final", "final.docx"),
        ("r.docx", "final.docx", "final.docx"),
        ("r.docx", "final.pdf", "final.pdf"),
        ("r.docx", "R.DOCX", "R.DOCX"),
        ("r.docx", "report.final", "report.final.docx"),
        ("r.docx", "v1.2", "v1.2.docx"),
        ("Downloads/b.tar.gz", "c", "Downloads/c.tar.gz"),
        ("Downloads/a.txt", "Sub", "Downloads/Sub.txt"),
        ("Downloads", "Documents", "Documents (1)"),
        ("Downloads/a.txt", "b.tar.gz", "Downloads/b (1).tar.gz"),
    ],
)
def test_renaming(home: Path, source: str, said: str, target: str) -> None:
    """A file keeps its folder, and its extension unless the new name has one; a taken name gets a number."""
    result = would(rename_files, home, source, to=said)
    assert lines(home, result) == [f"{source} > {target}"]


def test_renaming_several_gives_each_a_number(home: Path) -> None:
    """Several files with one new name are numbered in their order."""
    fill(home, "p/x.jpg", "p/y.jpg")
    result = would(rename_files, home, "p/x.jpg", "p/y.jpg", to="sea")
    assert lines(home, result) == ["p/x.jpg > p/sea.jpg", "p/y.jpg > p/sea (1).jpg"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", "rename.name_only"),
        ("a/b", "rename.name_only"),
        ("..", "rename.name_only"),
        (".x", "scope.hidden"),
        ("x" * 300, "scope.bad_name"),
        ("\ud800", "scope.bad_name"),
    ],
)
def test_what_is_no_name_is_refused(home: Path, said: str, reason: str) -> None:
    """A new name is one visible component that the file system takes."""
    with pytest.raises(Refusal) as caught:
        effects(rename_files, run_on(home_scope(home), [home / "r.docx"]), to=said)
    assert caught.value.sentence.key == reason
    assert os.fsencode(str(caught.value.sentence.values))


def test_writing_never_takes_a_name_that_exists(home: Path) -> None:
    """Creating where a file is gives a numbered one; the folders that are missing are made."""
    result = would(write_files, home, path="r.docx", text="new")
    assert result.effects == (WriteFile(str(home / "r (1).docx"), "new", "create"),)
    assert lines(home, would(write_files, home, path="New/n.txt", text="")) == ["New", "New/n.txt"]
    with pytest.raises(Refusal):
        would(write_files, home, path="Documents", text="x")


def test_appending_begins_a_line(home: Path) -> None:
    """What is appended starts on its own line; appending to nothing makes the file; undo gives the old text."""
    (home / "todo.txt").write_text("milk")
    before = (home / "todo.txt").read_bytes()
    result = would(write_files, home, path="todo.txt", text="buy paint", mode="append")
    inverses = do_all(result, home_scope(home))
    assert (home / "todo.txt").read_text() == "milk\nbuy paint"
    undo_all(inverses, home_scope(home))
    assert (home / "todo.txt").read_bytes() == before
    result = would(write_files, home, path="none.txt", text="x", mode="append")
    assert result.effects == (WriteFile(str(home / "none.txt"), "x", "create"),)
    (home / "todo.txt").write_text("milk\n")
    result = would(write_files, home, path="todo.txt", text="x", mode="append")
    assert result.effects == (WriteFile(str(home / "todo.txt"), "x", "append"),)


def test_appending_finds_the_file_that_is_meant(home: Path) -> None:
    """A file that is not where it was said is looked for by its name; two of them are a question."""
    fill(home, "Documents/list.txt")
    result = would(write_files, home, path="list.txt", text="x", mode="append")
    assert lines(home, result) == ["Documents/list.txt"]
    fill(home, "Downloads/list.txt")
    with pytest.raises(Question):
        would(write_files, home, path="list.txt", text="x", mode="append")


def test_replacing_keeps_the_old_text(home: Path) -> None:
    """A replaced file comes back with undo."""
    before = (home / "r.docx").read_bytes()
    inverses = do_all(would(write_files, home, path="r.docx", text="new", mode="replace"), home_scope(home))
    assert (home / "r.docx").read_text() == "new"
    undo_all(inverses, home_scope(home))
    assert (home / "r.docx").read_bytes() == before


def test_writing_what_a_step_gave(home: Path) -> None:
    """Without a text of its own it writes the texts that it is given; without any it is refused."""
    scope = home_scope(home)
    texts = [Entry("texts", {"text": "one"}), Entry("texts", {"text": "two \ud800"})]
    result = effects(write_files, run_with(scope, texts), path=str(home / "n"))
    assert result.effects == (WriteFile(str(home / "n"), "one\ntwo ?", "create"),)
    with pytest.raises(Refusal) as caught:
        effects(write_files, run_on(scope), path=str(home / "n"))
    assert caught.value.sentence.key == "write.no_text"


def test_making_folders(home: Path) -> None:
    """Several folders, nested ones too; what exists or is no name is told; undo removes them if empty."""
    before = snapshot(home)
    names = ["Invoices", "A/B", "A/C", "Downloads", "..", ".x", "/", "y" * 300, "Invoices", "\ud800"]
    result = would(create_dirs, home, names=names)
    assert lines(home, result) == ["Invoices", "A", "A/B", "A/C"]
    assert reasons(result) == [
        "create.exists",
        "scope.bad_name",
        "scope.hidden",
        "scope.bad_name",
        "scope.bad_name",
        "scope.bad_name",
    ]
    inverses = do_all(result, home_scope(home))
    assert (home / "A/C").is_dir()
    undo_all(inverses, home_scope(home))
    assert snapshot(home) == before
    assert lines(home, would(create_dirs, home, names=["X"], path="Documents")) == ["Documents/X"]


def test_numbered_names() -> None:
    """The number stands before the extension, also a double one, and the name stays within 255 bytes."""
    assert [numbered("a.txt", number) for number in (0, 1, 2)] == ["a.txt", "a (1).txt", "a (2).txt"]
    assert numbered("a.tar.gz", 1) == "a (1).tar.gz"
    assert numbered("Mr. X", 1, is_dir=True) == "Mr. X (1)"
    assert numbered(".profile", 1) == ".profile (1)"
    assert numbered("no", 3) == "no (3)"
    long = numbered("é" * 125 + ".txt", 12)
    assert len(os.fsencode(long)) <= 255
    assert long.endswith(" (12).txt")
    assert split_name("Dr. Who meets a friend") == ("Dr. Who meets a friend", "")


def test_effects_are_of_their_kind(home: Path) -> None:
    """A move is a move, a copy a copy."""
    assert isinstance(would(move_files, home, "r.docx", to="Documents").effects[0], MovePath)
    assert isinstance(would(copy_files, home, "r.docx", to="Documents").effects[0], CopyPath)

"""The journal and what it is for: taking back and doing again, over restarts, crashes and other hands."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.house import House
from support.scripted import plan

MOVE = plan(("find_files", {"extension": "txt"}), ("move_files", {"to": "Box"}))
MOVE_TEXT = "move the txt files to Box"

ACTIONS: dict[str, tuple[str, str]] = {
    "move": ("move a.txt to Box", plan(("find_files", {"name": "a.txt"}), ("move_files", {"to": "Box"}))),
    "move into a new folder": (
        "move a.txt to New",
        plan(("find_files", {"name": "a.txt"}), ("move_files", {"to": "New"})),
    ),
    "copy": ("copy a.txt to Box", plan(("find_files", {"name": "a.txt"}), ("copy_files", {"to": "Box"}))),
    "copy a folder": (
        "copy the folders called Box to Shelf",
        plan(("find_files", {"name": "Box", "kind": "folder"}), ("copy_files", {"to": "Shelf"})),
    ),
    "rename": ("rename a.txt to z.txt", plan(("find_files", {"name": "a.txt"}), ("rename_files", {"to": "z.txt"}))),
    "delete": ("delete a.txt", plan(("find_files", {"name": "a.txt"}), ("delete_files", {}))),
    "delete a folder": (
        "delete the folders called Box",
        plan(("find_files", {"name": "Box", "kind": "folder"}), ("delete_files", {})),
    ),
    "write": ("write 'new' into n.txt", plan(("write_files", {"path": "n.txt", "text": "new"}))),
    "append": ("add 'new' to a.txt", plan(("write_files", {"path": "a.txt", "text": "new", "mode": "append"}))),
    "replace": ("write 'new' into a.txt", plan(("write_files", {"path": "a.txt", "text": "new", "mode": "replace"}))),
    "create": ("create the folders One and Two", plan(("create_dirs", {"names": ["One", "Two"]}))),
    "pack": (
        "compress the txt files to all.zip",
        plan(("find_files", {"extension": "txt"}), ("compress_files", {"to": "all.zip", "format": "zip"})),
    ),
}


def furnish(house: House) -> None:
    """The files that `ACTIONS` act on."""
    house.put("a.txt", "b.txt", "Box/c.txt", "Box/inner/d.txt", "Shelf/")


@pytest.mark.parametrize("name", ACTIONS)
async def test_undo_and_redo_of_each_action(house: House, name: str) -> None:
    """An undo gives back the tree of before, a redo that of after, and so on, also after restarts."""
    furnish(house)
    text, steps = ACTIONS[name]
    before = house.tree()
    assert (await house.ask(text, steps, yes=True)).outcome["status"] == "done"
    after = house.tree()
    assert after != before
    await house.restart()
    for _ in range(2):
        assert (await house.undo()).outcome["status"] == "done"
        assert house.tree() == before
        await house.restart()
        assert (await house.redo()).outcome["status"] == "done"
        assert house.tree() == after


@pytest.mark.parametrize("name", ACTIONS)
async def test_words_of_each_action(house: House, name: str) -> None:
    """Question, result, undo and redo of each kind of effect are whole sentences without gaps."""
    furnish(house)
    text, steps = ACTIONS[name]
    talk = house.say(text, steps)
    question = await talk.question()
    assert await house.daemon.consent(house.owner, question.token, True)
    said = [question.text, (await talk.reply()).text, (await house.undo()).text, (await house.redo()).text]
    for words in said:
        assert not any(sign in words for sign in "[{}"), words


async def test_undo_by_message_needs_no_model_and_no_question(house: House) -> None:
    """The word "undo" alone takes back, at once."""
    house.put("a.txt", "Box/")
    await house.ask(MOVE_TEXT, MOVE, yes=True)
    reply = await house.ask("undo")
    assert reply.outcome["status"] == "done"
    assert house.tree() == {"Box": None, "a.txt": "a.txt"}


async def test_nothing_to_undo_or_redo(house: House) -> None:
    """Without a deed the answer is a sentence and no success."""
    for reply in (await house.undo(), await house.redo(), await house.ask("undo")):
        assert reply.outcome["status"] == "refused"
        assert reply.text.startswith("There is nothing to")


async def _three(house: House) -> list[dict[str, str | None]]:
    """Three deeds; the trees before the first and after each."""
    house.put("a.txt")
    trees = [house.tree()]
    for text, steps in (
        ("write 'one' into n.txt", plan(("write_files", {"path": "n.txt", "text": "one"}))),
        ("write 'two' into n.txt", plan(("write_files", {"path": "n.txt", "text": "two", "mode": "replace"}))),
        ("move a.txt to Box", plan(("find_files", {"name": "a.txt"}), ("move_files", {"to": "Box"}))),
    ):
        await house.ask(text, steps, yes=True)
        trees.append(house.tree())
    return trees


async def test_undo_of_several_turns(house: House) -> None:
    """`undo N` takes back the newest N turns in one go, newest first; more than there are takes back all."""
    trees = await _three(house)
    await house.undo(2)
    assert house.tree() == trees[1]
    await house.redo(2)
    assert house.tree() == trees[3]
    await house.undo(1000)
    assert house.tree() == trees[0]


async def test_undo_by_word_of_several_turns(house: House) -> None:
    """The number in "undo the last two actions" counts."""
    trees = await _three(house)
    await house.ask("undo the last two actions")
    assert house.tree() == trees[1]


async def test_undo_one_by_one_and_redo_one_by_one(house: House) -> None:
    """Single undos go back turn by turn, single redos forward again as far as there was anything undone."""
    trees = await _three(house)
    for tree in trees[2::-1]:
        assert (await house.undo()).outcome["status"] == "done"
        assert house.tree() == tree
    assert (await house.undo()).outcome["status"] == "refused"
    for tree in trees[1:]:
        assert (await house.redo()).outcome["status"] == "done"
        assert house.tree() == tree
    assert (await house.redo()).outcome["status"] == "refused"


async def test_redo_ends_where_something_new_was_done(house: House) -> None:
    """After an undo and a new deed there is nothing to do again."""
    await _three(house)
    await house.undo()
    await house.ask("create the folder New", plan(("create_dirs", {"names": ["New"]})), yes=True)
    assert (await house.redo()).outcome["status"] == "refused"


async def test_undo_of_a_redo(house: House) -> None:
    """What was done again can be taken back again."""
    trees = await _three(house)
    await house.undo()
    await house.redo()
    await house.undo()
    assert house.tree() == trees[2]
    await house.undo()
    assert house.tree() == trees[1]


async def test_folder_that_stood_there_does_not_block_the_next_undo(house: House) -> None:
    """A turn in which two steps need one new folder is taken back whole, and the turn before it after that."""
    house.put("a.txt", "b.txt")
    trees = [house.tree()]
    await house.ask("write 'one' into n.md", plan(("write_files", {"path": "n.md", "text": "one"})), yes=True)
    trees.append(house.tree())
    steps = plan(
        ("find_files", {"extension": "txt"}),
        ("create_dirs", {"names": ["Box"]}, 1),
        ("move_files", {"to": "Box"}, 1),
    ).replace('"from":1,"args":{"names"', '"args":{"names"')
    await house.ask("create the folder Box and move the txt files to Box", steps, yes=True)
    assert "Box/a.txt" in house.tree()
    for tree in trees[::-1]:
        assert (await house.undo()).outcome["status"] == "done"
        assert house.tree() == tree


async def test_users_edit_is_kept(house: House) -> None:
    """What a person changed after a deed is left as it is, named, and the rest is taken back."""
    house.put("a.txt", "b.txt", "Box/")
    await house.ask(MOVE_TEXT, MOVE, yes=True)
    house.put("Box/a.txt", text="edited")
    reply = await house.undo()
    assert reply.outcome["status"] == "partial"
    assert "~/Box/a.txt" in reply.text
    assert house.tree() == {"Box": None, "Box/a.txt": "edited", "b.txt": "b.txt"}


async def test_users_edit_of_written_file_is_kept(house: House) -> None:
    """A file that was written by the daemon and edited by its owner since is not touched by an undo."""
    await house.ask("write 'one' into n.txt", plan(("write_files", {"path": "n.txt", "text": "one"})), yes=True)
    house.put("n.txt", text="one and mine")
    reply = await house.undo()
    assert reply.outcome["status"] == "failed"
    assert house.tree() == {"n.txt": "one and mine"}
    house.put("n.txt", text="one")
    assert (await house.undo()).outcome["status"] == "done"
    assert house.tree() == {}


async def test_occupied_place_is_kept(house: House) -> None:
    """Where something new stands in the old place, an undo keeps both and names it."""
    house.put("a.txt", "Box/")
    await house.ask(MOVE_TEXT, MOVE, yes=True)
    house.put("a.txt", text="another")
    reply = await house.undo()
    assert reply.outcome["status"] == "failed"
    assert house.tree() == {"Box": None, "Box/a.txt": "a.txt", "a.txt": "another"}


async def test_undo_after_a_partial_failure(house: House) -> None:
    """Of a turn that failed in part the undo takes back what was done, no more and no less."""
    house.put("a.txt", "b.txt", "c.txt", "Box/")
    talk = house.say(MOVE_TEXT, MOVE)
    question = await talk.question()
    house.put("Box/b.txt", text="in the way")
    assert await house.daemon.consent(house.owner, question.token, True)
    reply = await talk.reply()
    assert reply.outcome["status"] == "partial" and reply.undo is not None and reply.undo.actions == 2
    assert (await house.undo()).outcome["status"] == "done"
    expected = {"Box": None, "Box/b.txt": "in the way", "a.txt": "a.txt", "b.txt": "b.txt", "c.txt": "c.txt"}
    assert house.tree() == expected


async def test_people_undo_only_their_own(tmp_path: Path) -> None:
    """Another user's undo does not find the owner's deeds, and their history is their own."""
    house = House(tmp_path, settings={"socket": {"users": {"65534": "guest"}}})
    house.put("a.txt", "Box/")
    await house.ask(MOVE_TEXT, MOVE, yes=True)
    guest = house.daemon.user_of_uid(65534)
    assert guest is not None
    reply = await house.daemon.revert(guest, "test", "main", "undo_actions", 1)
    assert reply.outcome["status"] == "refused"
    assert "Box/a.txt" in house.tree()
    turns = (await house.daemon.history(guest))["turns"]
    assert all(MOVE_TEXT not in turn["text"] for turn in turns)
    await house.close()


async def test_history_tells_what_was_done(house: House) -> None:
    """The history lists turns newest first with their effects, what can be undone, and what was."""
    house.put("a.txt", "Box/")
    await house.ask(MOVE_TEXT, MOVE, yes=True)
    turn = (await house.daemon.history(house.owner))["turns"][0]
    assert (turn["text"], turn["kind"], turn["state"], turn["status"]) == (MOVE_TEXT, "act", "ended", "done")
    assert turn["undoable"] == 1 and turn["effects"][0]["state"] == "done"
    await house.undo()
    newest, older = (await house.daemon.history(house.owner))["turns"]
    assert newest["kind"] == "undo" and newest["undoable"] == 1
    assert older["undoable"] == 0 and older["effects"][0]["undone"]


async def test_intent_is_on_disk_before_the_effect(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """When an effect begins, another connection already sees its intent with the inverse."""
    from metnosd import act

    perform = act.perform
    seen: list[int] = []

    def look(*args: object, **kwargs: object) -> object:
        found = subprocess.run(
            [sys.executable, "-c", _COUNT, str(house.places.database)], capture_output=True, text=True, check=True
        )
        seen.append(int(found.stdout))
        return perform(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(act, "perform", look)
    house.put("a.txt", "Box/")
    await house.ask(MOVE_TEXT, MOVE, yes=True)
    assert seen == [1]


_COUNT = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(db.execute("select count(*) from journal where state = 'intent' and inverse is not null").fetchone()[0])
db.close()
"""


class Killed(BaseException):
    """Stands for the end of the process: nothing after it runs."""


def _crash(house: House, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """Let the first effect end the process, before it happens or right after; nothing is noted any more."""
    from metnosd import act

    perform = act.perform

    def killed(*args: object, **kwargs: object) -> object:
        if when == "after":
            perform(*args, **kwargs)  # type: ignore[arg-type]
        raise Killed

    monkeypatch.setattr(act, "perform", killed)
    monkeypatch.setattr(house.assembly.parts.actor._journal, "failed", lambda row: None)


async def _run_into_crash(house: House, way: Callable[[], object]) -> None:
    task = asyncio.ensure_future(way())  # type: ignore[call-overload]
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", ACTIONS)
async def test_crash_between_intent_and_result(
    house: House, monkeypatch: pytest.MonkeyPatch, name: str, when: str
) -> None:
    """An intent without a result is settled at the next start by what is there; an undo then fits it."""
    furnish(house)
    text, steps = ACTIONS[name]
    before = house.tree()
    talk = house.say(text, steps)
    question = await talk.question()
    with monkeypatch.context() as patch:
        _crash(house, patch, when)
        await _run_into_crash(house, lambda: house.daemon.consent(house.owner, question.token, True))
        await asyncio.gather(talk.task, return_exceptions=True)  # type: ignore[arg-type]
    house.assembly.store.close()
    house.assembly = house._assemble()
    assert house.assembly.parts.actor._journal.unsettled() == []
    if when == "before":
        assert house.tree() == before
        assert (await house.undo()).outcome["status"] == "refused"
    else:
        assert house.tree() != before
        assert (await house.undo()).outcome["status"] == "done"
    assert house.tree() == before


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", ACTIONS)
async def test_crash_in_an_undo(house: House, monkeypatch: pytest.MonkeyPatch, name: str, when: str) -> None:
    """After a crash in the first effect of an undo, a second undo takes back the rest."""
    furnish(house)
    text, steps = ACTIONS[name]
    before = house.tree()
    await house.ask(text, steps, yes=True)
    with monkeypatch.context() as patch:
        _crash(house, patch, when)
        await _run_into_crash(house, house.undo)
    house.assembly.store.close()
    house.assembly = house._assemble()
    if house.tree() != before:
        assert (await house.undo()).outcome["status"] == "done"
    assert house.tree() == before


async def test_settling_survives_a_folder_that_is_gone(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open intent on a folder that is out of reach by now does not keep the daemon from starting."""
    house.put("Box/a.txt", "Shelf/")
    steps = plan(("find_files", {"extension": "txt"}), ("move_files", {"to": "Shelf"}))
    talk = house.say("move the txt files to Shelf", steps)
    question = await talk.question()
    with monkeypatch.context() as patch:
        _crash(house, patch, "before")
        await _run_into_crash(house, lambda: house.daemon.consent(house.owner, question.token, True))
    house.assembly.store.close()
    (house.home / "Box" / "a.txt").unlink()
    (house.home / "Box").rmdir()
    (house.home / "Shelf").rmdir()
    (house.home / "Shelf").symlink_to("/nowhere")
    house.assembly = house._assemble()
    assert house.assembly.parts.actor._journal.unsettled() == []


def test_real_kill_in_the_middle_of_an_effect(tmp_path: Path) -> None:
    """A process that is killed between intent and result leaves files and journal that the next start understands."""
    script = Path(__file__).parent / "support" / "killed.py"
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (tmp_path / "home" / "a.txt").exists()

    async def start_again() -> None:
        house = House(tmp_path)
        assert (await house.undo()).outcome["status"] == "done"
        assert house.tree()["a.txt"] == "a.txt"
        await house.close()

    asyncio.run(start_again())


NAMES = ("a.txt", "b.txt", "c.md")
FOLDERS = ("Box", "Shelf")

_actions = st.one_of(
    st.tuples(st.sampled_from(["move", "copy"]), st.sampled_from(NAMES), st.sampled_from(FOLDERS)),
    st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.tuples(st.sampled_from(["create", "append", "replace"]), st.sampled_from(NAMES), st.sampled_from("xyz")),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.just("")),
    st.tuples(st.just("mkdir"), st.sampled_from(FOLDERS), st.just("")),
)


def _message(action: tuple[str, str, str]) -> tuple[str, str]:
    """An action as a message and its plan."""
    kind, name, other = action
    find = ("find_files", {"name": name})
    if kind in ("move", "copy"):
        return f"{kind} {name} to {other}", plan(find, (f"{kind}_files", {"to": other}))
    if kind == "rename":
        return f"rename {name} to {other}", plan(find, ("rename_files", {"to": other}))
    if kind == "delete":
        return f"delete {name}", plan(find, ("delete_files", {}))
    if kind == "mkdir":
        return f"create the folder {name}", plan(("create_dirs", {"names": [name]}))
    return f"write '{other}' into {name}", plan(("write_files", {"path": name, "text": other, "mode": kind}))


@given(
    actions=st.lists(_actions, min_size=1, max_size=6),
    back=st.integers(1, 6),
    restarts=st.booleans(),
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_sequence_can_be_taken_back_and_done_again(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, str, str]], back: int, restarts: bool
) -> None:
    """After any deeds, N undos and N redos give exactly the trees that were there before and after them."""
    folder = tmp_path_factory.mktemp("house")
    asyncio.run(_there_and_back(folder, actions, back, restarts))


async def _there_and_back(folder: Path, actions: list[tuple[str, str, str]], back: int, restarts: bool) -> None:
    house = House(folder)
    house.put("a.txt", "Box/b.txt")
    trees = [house.tree()]
    for action in actions:
        text, steps = _message(action)
        talk = house.say(text, steps)
        waiting = asyncio.ensure_future(talk.question())
        await asyncio.wait([waiting])
        if waiting.exception() is None:
            await house.daemon.consent(house.owner, waiting.result().token, True)
        if (await talk.reply()).undo is not None:
            trees.append(house.tree())
        if restarts:
            await house.restart()
    count = min(back, len(trees) - 1)
    for number in range(count):
        await house.undo()
        assert house.tree() == trees[-2 - number]
    if restarts:
        await house.restart()
    for number in range(count):
        await house.redo()
        assert house.tree() == trees[len(trees) - count + number]
    if count:
        await house.undo(count)
        assert house.tree() == trees[-1 - count]
    await house.close()

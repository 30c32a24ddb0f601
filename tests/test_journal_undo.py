"""The journal and what it is for: taking back and doing again, over restarts, crashes and other hands."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.house import House
from support.scripted import plan

from metnosd.effects import Effect
from metnosd.sentence import Refusal

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
    """Undos go back turn by turn, each after the first with a question; redos forward as far as was undone."""
    trees = await _three(house)
    for number, tree in enumerate(trees[2::-1]):
        assert (await house.undo(answer=True if number else None)).outcome["status"] == "done"
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
    await house.undo(answer=True)
    assert house.tree() == trees[1]


async def test_second_undo_asks_before_it_goes_on(house: House) -> None:
    """ "undo" said twice takes back one turn: the one before needs a yes, or to be asked for by number."""
    trees = await _three(house)
    assert (await house.ask("undo")).outcome["status"] == "done"
    talk = house.say("undo")
    question = await talk.question()
    assert "Wrote ~/n.txt" in question.text
    assert house.tree() == trees[2]
    assert (await talk.answer_no()).outcome["status"] == "refused"
    assert house.tree() == trees[2]
    assert (await house.ask("undo one more")).outcome["status"] == "done"
    assert house.tree() == trees[1]


async def test_second_undo_finishes_what_the_first_could_not(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an undo could not do all, for want of space, the next one goes on with the same turn unasked."""
    from metnosd import act

    perform = act.perform

    def full(effect: Effect, *args: object, **kwargs: object) -> object:
        if effect.writes()[-1].endswith("b.txt"):
            raise Refusal("effect.disk_full", path="b.txt")
        return perform(effect, *args, **kwargs)  # type: ignore[arg-type]

    house.put("a.txt", "b.txt", "Box/")
    await house.ask(MOVE_TEXT, MOVE, yes=True)
    with monkeypatch.context() as patch:
        patch.setattr(act, "perform", full)
        assert (await house.undo()).outcome["status"] == "partial"
    assert house.tree() == {"Box": None, "Box/b.txt": "b.txt", "a.txt": "a.txt"}
    assert (await house.undo()).outcome["status"] == "done"
    assert house.tree() == {"Box": None, "a.txt": "a.txt", "b.txt": "b.txt"}


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
    for number, tree in enumerate(trees[::-1]):
        assert (await house.undo(answer=True if number else None)).outcome["status"] == "done"
        assert house.tree() == tree


EDITED = {
    "keep": {"Box": None, "Box/a.txt": "edited", "b.txt": "b.txt"},
    "copy": {"Box": None, "Box/a.txt": "edited", "a.txt": "edited", "b.txt": "b.txt"},
    "replace": {"Box": None, "a.txt": "edited", "b.txt": "b.txt"},
}


@pytest.mark.parametrize("answer", EDITED)
async def test_moved_file_that_was_edited_since(house: House, answer: str) -> None:
    """What a person changed after a move is asked about; each answer takes back the rest and loses nothing."""
    house.put("a.txt", "b.txt", "Box/")
    await house.ask(MOVE_TEXT, MOVE, yes=True)
    house.put("Box/a.txt", text="edited")
    talk = house.reverting("undo_actions")
    question = await talk.question()
    assert "~/Box/a.txt" in question.text
    assert {choice.name for choice in question.choices} == {"copy", "keep", "replace"}
    assert await house.daemon.consent(house.owner, question.token, True, answer)
    await talk.reply()
    assert house.tree() == EDITED[answer]


async def test_nothing_is_lost_without_an_answer(house: House) -> None:
    """No answer, or no, leaves everything as it is, and the undo can be asked for again."""
    house.put("a.txt", "Box/")
    await house.ask(MOVE_TEXT, MOVE, yes=True)
    house.put("Box/a.txt", text="edited")
    assert (await house.undo(answer=False)).outcome["status"] == "refused"
    assert house.tree() == {"Box": None, "Box/a.txt": "edited"}
    assert (await house.undo(answer="replace")).outcome["status"] == "done"
    assert house.tree() == {"Box": None, "a.txt": "edited"}


async def test_overwritten_file_that_was_edited_since(house: House) -> None:
    """A plain yes brings the old text back beside the edited one; “replace mine” can be undone itself."""
    house.put("n.txt", text="old")
    write = plan(("write_files", {"path": "n.txt", "text": "one", "mode": "replace"}))
    await house.ask("write 'one' into n.txt", write, yes=True)
    house.put("n.txt", text="one and mine")
    assert (await house.undo(answer=True)).outcome["status"] == "done"
    assert house.tree() == {"n (1).txt": "old", "n.txt": "one and mine"}
    await house.redo()
    assert house.tree() == {"n.txt": "one and mine"}
    await house.undo()
    assert house.tree() == {"n (1).txt": "old", "n.txt": "one and mine"}


async def test_replacing_an_edited_file_can_be_taken_back(house: House) -> None:
    """“Replace mine” keeps the person's version: a redo brings it back."""
    house.put("n.txt", text="old")
    write = plan(("write_files", {"path": "n.txt", "text": "one", "mode": "replace"}))
    await house.ask("write 'one' into n.txt", write, yes=True)
    house.put("n.txt", text="one and mine")
    assert (await house.undo(answer="replace")).outcome["status"] == "done"
    assert house.tree() == {"n.txt": "old"}
    await house.redo()
    assert house.tree() == {"n.txt": "one and mine"}


async def test_new_file_that_was_edited_since(house: House) -> None:
    """A file that was made and edited since stays with a plain yes; the next undo is not blocked by it."""
    house.put("a.txt", "Box/")
    await house.ask(MOVE_TEXT, MOVE, yes=True)
    await house.ask("write 'one' into n.md", plan(("write_files", {"path": "n.md", "text": "one"})), yes=True)
    house.put("n.md", text="one and mine")
    reply = await house.undo(answer=True)
    assert "~/n.md" in reply.text
    assert house.tree()["n.md"] == "one and mine"
    assert (await house.undo()).outcome["status"] == "done"
    assert house.tree() == {"Box": None, "a.txt": "a.txt", "n.md": "one and mine"}


async def test_kept_thing_that_was_changed_back(house: House) -> None:
    """What an undo left because it was edited can be undone once it is as it was."""
    await house.ask("write 'one' into n.txt", plan(("write_files", {"path": "n.txt", "text": "one"})), yes=True)
    house.put("n.txt", text="one and mine")
    await house.undo(answer="keep")
    house.put("n.txt", text="one")
    assert (await house.undo()).outcome["status"] == "done"
    assert house.tree() == {}


OCCUPIED = {
    "keep": {"Box": None, "Box/a.txt": "a.txt", "a.txt": "another"},
    "copy": {"Box": None, "a (1).txt": "a.txt", "a.txt": "another"},
    "replace": {"Box": None, "a.txt": "a.txt"},
}


@pytest.mark.parametrize("answer", OCCUPIED)
async def test_occupied_place(house: House, answer: str) -> None:
    """Where something new stands in the old place, an undo asks, and what is replaced can be brought back."""
    house.put("a.txt", "Box/")
    await house.ask(MOVE_TEXT, MOVE, yes=True)
    house.put("a.txt", text="another")
    await house.undo(answer=answer)
    assert house.tree() == OCCUPIED[answer]
    if answer != "keep":
        await house.redo()
        assert house.tree() == {"Box": None, "Box/a.txt": "a.txt", "a.txt": "another"}


async def test_vanished_file_is_named(house: House) -> None:
    """What was made and is gone since is named; the rest of the turn is taken back."""
    house.put("a.txt", "b.txt", "Box/")
    await house.ask(MOVE_TEXT, MOVE, yes=True)
    (house.home / "Box" / "a.txt").unlink()
    reply = await house.undo()
    assert reply.outcome["status"] == "partial"
    assert "~/Box/a.txt" in reply.text
    assert house.tree() == {"Box": None, "b.txt": "b.txt"}


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("undo the move", 2),
        ("undo the writing of n.txt", 1),
        ("undo what you did with a.txt", 2),
        ("undo what you did today", 0),
        ("undo the last two changes", 0),
    ],
)
async def test_undo_by_description(house: House, text: str, tree: int) -> None:
    """A deed is found by its kind, its time or the names in it; the others stay."""
    trees = await _three(house)
    if tree == 1:
        await house.undo()
        await house.ask("undo the move")
    talk = house.say(text)
    talk.unasked()
    assert (await talk.reply()).outcome["status"] == "done"
    if text != "undo the last two changes":
        assert house.tree() == trees[tree]
    else:
        assert house.tree() == {"Box": None, "Box/a.txt": "a.txt"}


async def test_undo_of_what_was_not_done(house: House) -> None:
    """A description that fits nothing takes back nothing, in place of something else."""
    trees = await _three(house)
    for text in ("undo the deletion", "undo what you did yesterday", "undo the thing with the invoices"):
        reply = await house.ask(text)
        assert reply.outcome["status"] == "refused"
        assert house.tree() == trees[3]


async def test_undo_by_reply_and_by_button(house: House) -> None:
    """“undo” as a reply to a message takes back just that turn, as does the button under it."""
    house.put("a.txt")
    first = await house.ask(
        "create the folder One", plan(("create_dirs", {"names": ["One"]})), yes=True, message_id="m1"
    )
    second = await house.ask("create the folder Two", plan(("create_dirs", {"names": ["Two"]})), yes=True)
    third = await house.ask("create the folder Six", plan(("create_dirs", {"names": ["Six"]})), yes=True)
    message = house.daemon.message(house.owner, "test", "main", "undo", lang=None, message_id=None, reply_to="m1")
    await house.daemon.send(message, lambda _event: None)
    assert sorted(house.tree()) == ["Six", "Two", "a.txt"]
    assert first.undo is not None and second.undo is not None and third.undo is not None
    await house.reverting("undo_actions", turn=second.undo.turn).reply()
    assert sorted(house.tree()) == ["Six", "a.txt"]
    reply = await house.reverting("undo_actions", turn=second.undo.turn).reply()
    assert reply.outcome["status"] == "refused"
    assert sorted(house.tree()) == ["Six", "a.txt"]


async def test_list_of_what_can_be_undone_is_what_undo_does(house: House) -> None:
    """“what can you undo?” lists the turns that undo takes back, newest first, and shrinks as it does."""
    await _three(house)
    for left in (3, 2, 1):
        reply = await house.ask("what can you undo?")
        entries = reply.outcome["steps"][0]["entries"]  # type: ignore[index]
        assert len(entries) == left
        await house.undo(answer=True if left < 3 else None)
        newest = (await house.daemon.history(house.owner))["turns"]
        undone = next(turn for turn in newest if turn["id"] == entries[0]["turn"])
        assert undone["why"] == "undone"
    assert "nothing" in (await house.ask("what can you undo?")).text


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
    house.assembly.close()
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
    house.assembly.close()
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
    house.assembly.close()
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

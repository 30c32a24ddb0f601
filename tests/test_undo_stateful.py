"""Random sequences of deeds, undos, redos, restarts and other hands: the tree is what a model of it says, and
nothing that a person wrote by hand is ever lost.

The model knows what a deed means from words alone: a tree is a dict of paths, a deed is the difference that it
made, and taking it back puts that difference back, provided that everything it left is still as it left it.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.house import House, Talk
from support.scripted import Call, plan

from metnosd.message import ConsentRequest, Reply

T = TypeVar("T")
Tree = dict[str, str | None]
"""Paths below the home: of a file what it holds, of a folder None."""

FILES = ("ant.txt", "bee.txt")
FOLDERS = ("Box", "Shelf", "Attic")
ANSWERS = (True, False, "unanswered", "copy", "keep", "replace")
"""What a question may be answered with; where it does not offer a choice, that stands for yes."""

HAND = re.compile(r"hand-\d{3}")
"""What a person writes: each text once."""


@dataclass(frozen=True)
class Delta:
    """The paths that a turn was about, as they were before and as they were left."""

    before: Tree
    after: Tree

    @property
    def paths(self) -> set[str]:
        """All of them."""
        return self.before.keys() | self.after.keys()


@dataclass
class Deed:
    """A turn with effects that nothing has taken back. `takes` are the turns that it took back itself.

    One that was taken back in part only is `frayed`, one that an undo has left to the person's work `kept`.
    """

    turn: str
    kind: str
    delta: Delta
    takes: tuple[str, ...] = ()
    frayed: bool = False
    kept: bool = False


def delta_of(before: Tree, after: Tree, more: Iterable[str] = ()) -> Delta:
    """What differs between two trees, and what they hold at `more` paths."""
    paths = {path for path in before.keys() | after.keys() if not same(before, after, path)} | {*more}
    return Delta(*({path: tree[path] for path in paths & tree.keys()} for tree in (before, after)))


def same(one: Tree, other: Tree, path: str) -> bool:
    """Whether two trees hold the same at `path`."""
    return (path in one) == (path in other) and one.get(path) == other.get(path)


def taken_back(tree: Tree, delta: Delta) -> Tree | None:
    """`tree` without what `delta` did; None where that has been built on or changed since."""
    if not all(same(tree, delta.after, path) for path in delta.paths):
        return None
    new = {path: held for path, held in tree.items() if path not in delta.paths} | delta.before
    whole = all("/" not in path or new.get(os.path.dirname(path), "none") is None for path in new)
    return new if whole else None


def named(tree: Tree, name: str) -> list[str]:
    """The files called `name`, or the folders whose names have `name` in them but lie in no other such."""
    is_folder = name in FOLDERS
    if not is_folder:
        return sorted(path for path, held in tree.items() if held is not None and os.path.basename(path) == name)
    found = sorted(path for path, held in tree.items() if held is None and name in os.path.basename(path))
    return [path for path in found if not any(path.startswith(f"{above}/") for above in found)]


def place(tree: Tree, folder: str) -> str | None:
    """The folder that `folder` means: at the top, else the only one nearest to it, else a new one; None: which?"""
    found = [path for path, held in tree.items() if held is None and os.path.basename(path) == folder]
    nearest = [path for path in found if path.count("/") == min(other.count("/") for other in found)]
    return None if len(nearest) > 1 else nearest[0] if nearest else folder


def free(taken: Iterable[str], path: str, is_dir: bool = False) -> str:
    """`path`, or the first with a number that nothing has."""
    stem, extension = (path, "") if is_dir else os.path.splitext(path)
    number, candidate = 0, path
    while candidate in taken:
        number += 1
        candidate = f"{stem} ({number}){extension}"
    return candidate


def with_folder(tree: Tree, folder: str) -> Tree:
    """`tree` with `folder` and what is missing above it."""
    parts = folder.split("/") if folder else []
    return tree | {"/".join(parts[: count + 1]): None for count in range(len(parts))}


def below(tree: Tree, path: str) -> Tree:
    """What is at `path` and below it, by what comes after `path`."""
    return {key[len(path) :]: held for key, held in tree.items() if key == path or key.startswith(f"{path}/")}


def without(tree: Tree, path: str) -> Tree:
    """`tree` without `path` and what is below it."""
    return {key: held for key, held in tree.items() if key != path and not key.startswith(f"{path}/")}


def transferred(tree: Tree, name: str, folder: str, *, stays: bool) -> Tree:
    """`tree` after what is called `name` was copied (`stays`) or moved into `folder`."""
    target = place(tree, folder)
    if target is None:
        return tree
    new, taken, some = with_folder(tree, target), set(tree), False
    for path in named(tree, name):
        if target == path or target.startswith(f"{path}/"):
            continue
        if not stays and os.path.dirname(path) == target:
            continue
        goal = free(taken, f"{target}/{os.path.basename(path)}", tree[path] is None)
        taken.add(goal)
        some = True
        moved = {goal + rest: held for rest, held in below(new, path).items()}
        new = (new if stays else without(new, path)) | moved
    return new if some else tree


def renamed(tree: Tree, name: str, wanted: str) -> Tree:
    """`tree` after all that is called `name` was given the name `wanted`."""
    new, taken = tree, set(tree)
    for path in named(tree, name):
        goal = free(taken, os.path.join(os.path.dirname(path), wanted), tree[path] is None)
        taken.add(goal)
        new = without(new, path) | {goal + rest: held for rest, held in below(new, path).items()}
    return new


def written(tree: Tree, name: str, text: str, mode: str) -> Tree:
    """`tree` after `text` was written into a new file, added to one in a line of its own, or put in its place."""
    if mode == "create":
        return tree | {free(tree, name): text}
    found = [path for path in named(tree, name) if path == name] or named(tree, name)
    nearest = [path for path in found if path.count("/") == min(other.count("/") for other in found)]
    if not nearest:
        return tree | {name: text}
    if len(nearest) > 1:
        return tree
    old = tree[nearest[0]] or ""
    if mode == "replace":
        return tree | {nearest[0]: text}
    return tree | {nearest[0]: old + ("" if old in ("",) or old.endswith("\n") else "\n") + text}


def hands(texts: Iterable[str | None]) -> set[str]:
    """What a person wrote among `texts`; archives do not count."""
    return {found for text in texts if text and not text.startswith("PK") for found in HAND.findall(text)}


class Machine(RuleBasedStateMachine):
    """A person and a daemon change one tree in turns; `tree` is what the model says it is.

    `standing` are the deeds that nothing has taken back, oldest first, and `owed` what the person wrote and has
    neither deleted nor overwritten.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.house = House(Path(self.folder.name))
        self.tree: Tree = {}
        self.standing: list[Deed] = []
        self.owed: set[str] = set()
        self.texts = 0

    def teardown(self) -> None:
        """Close."""
        self.run(self.house.close())
        self.runner.close()
        self.folder.cleanup()

    def run(self, way: Coroutine[Any, Any, T]) -> T:
        """What `way` comes to."""
        return self.runner.run(way)

    @initialize(names=st.sets(st.sampled_from(("bee.txt", "Box/bee.txt", "Box/Nook/", "Shelf/ant.txt"))))
    def furnish(self, names: set[str]) -> None:
        """There are some files and folders of the person's already."""
        for name in ("ant.txt", "Box/ant.txt", *sorted(names)):
            if name.endswith("/"):
                self.house.put(name)
            else:
                self.house.put(name, text=self._by_hand())
        self.tree = self.house.tree()

    # What the daemon does.

    def _drawn(self, data: st.DataObject) -> str:
        """A name that some file or folder has."""
        return data.draw(st.sampled_from([name for name in (*FILES, *FOLDERS) if named(self.tree, name)] or [*FILES]))

    @rule(data=st.data(), folder=st.sampled_from(FOLDERS), stays=st.booleans())
    def transfer(self, data: st.DataObject, folder: str, stays: bool) -> None:
        """Files or folders are moved or copied into a folder, which is made if need be."""
        name = self._drawn(data)
        verb = "copy" if stays else "move"
        steps = (_find(name), (f"{verb}_files", {"to": folder}))
        self._act(f"{verb} {_said(name)} to {folder}", steps, transferred(self.tree, name, folder, stays=stays))

    @rule(data=st.data(), wanted=st.integers(0, 2))
    def rename(self, data: st.DataObject, wanted: int) -> None:
        """Files or folders get another name."""
        name = self._drawn(data)
        others = ("dog.txt", *FILES) if name in FILES else ("Crate", *FOLDERS)
        new = others[wanted] if others[wanted] != name else others[0]
        steps = (_find(name), ("rename_files", {"to": new}))
        self._act(f"rename {_said(name)} to {new}", steps, renamed(self.tree, name, new))

    @rule(name=st.sampled_from(FILES), mode=st.sampled_from(("create", "append", "replace")))
    def write(self, name: str, mode: str) -> None:
        """A text is written into a new file, added to a file, or put in the place of what it holds."""
        self.texts += 1
        text = f"text-{self.texts:03}" + "." * self.texts
        steps = (("write_files", {"path": name, "text": text, "mode": mode}),)
        self._act(f"write '{text}' into {name}", steps, written(self.tree, name, text, mode))

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """Files or folders are deleted."""
        name = self._drawn(data)
        expected = self.tree
        for path in named(self.tree, name):
            expected = without(expected, path)
        self._act(f"delete {_said(name)}", (_find(name), ("delete_files", {})), expected)

    @rule(names=st.lists(st.sampled_from((*FOLDERS, "Loft/Nook", "Box/Nook")), min_size=1, max_size=2))
    def create(self, names: list[str]) -> None:
        """Folders are made; those that are there are left."""
        expected = self.tree
        for name in names:
            expected = with_folder(expected, name)
        self._act(f"create the folders {' and '.join(names)}", (("create_dirs", {"names": names}),), expected)

    @rule(name=st.sampled_from(FILES))
    def pack(self, name: str) -> None:
        """Files are packed into a new archive that holds just what they hold."""
        packed = named(self.tree, name)
        target = free(self.tree, "all.zip")
        steps = (_find(name), ("compress_files", {"to": "all.zip", "format": "zip"}))

        def made(real: Tree) -> Tree:
            data = (real.get(target) or "").encode("latin-1")
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                inside = sorted(archive.read(info).decode("latin-1") for info in archive.infolist())
            assert inside == sorted(self.tree[path] or "" for path in packed)
            return self.tree | {target: data.decode("latin-1")}

        self._act(f"compress {_said(name)} to all.zip", steps, made if packed else self.tree)

    def _act(self, text: str, steps: Sequence[Call], expected: Tree | Callable[[Tree], Tree]) -> None:
        """A deed, asked and answered with yes; `expected` is the tree after it, or makes it of the real one."""
        reply, question = self.run(self._told(lambda: self.house.say(text, plan(*steps)), True))
        self.house.model.answers.clear()
        real = self.house.tree()
        wanted = expected(real) if callable(expected) else expected
        assert real == wanted, reply
        assert reply is not None
        status = reply.outcome["status"]
        if wanted == self.tree:
            assert status not in ("done", "partial"), f"nothing was done, but: {reply}"
            return
        assert question is not None and status in ("done", "partial") and reply.undo is not None
        self.standing.append(Deed(reply.undo.turn, "act", delta_of(self.tree, wanted)))
        self.tree = wanted

    async def _told(self, begin: Callable[[], Talk], answer: bool | str) -> tuple[Reply | None, ConsentRequest | None]:
        """The reply to what `begin` begins, and the question before it if there was one, answered with `answer`."""
        talk = begin()
        try:
            question = await talk.question()
        except AssertionError:
            return await talk.reply(), None
        if answer == "unanswered":
            await self.house.restart()
            self.house.clock.forward(minutes=11)
            assert not await self.house.daemon.consent(self.house.owner, question.token, True)
            return None, question
        offered = {choice.name for choice in question.choices}
        choice = answer if answer in offered else None
        assert await self.house.daemon.consent(
            self.house.owner, question.token, answer is not False, str(choice) if choice else None
        )
        return await talk.reply(), question

    # Taking back and doing again.

    @precondition(lambda self: bool(self.standing))
    @rule(answer=st.sampled_from(ANSWERS), by_word=st.booleans())
    def undo(self, answer: bool | str, by_word: bool) -> None:
        """The last deed is taken back; straight after an undo it is never an earlier one without a question."""
        self._revert("undo", self._newest(1), answer, "undo" if by_word else 1)

    @precondition(lambda self: bool(self.standing))
    @rule(first=st.sampled_from(ANSWERS), second=st.sampled_from(ANSWERS))
    def undo_twice(self, first: bool | str, second: bool | str) -> None:
        """A second "undo" straight after the first does not go on to an earlier deed unless it is answered yes."""
        self._revert("undo", self._newest(1), first, 1)
        self._revert("undo", self._newest(1), second, "undo")

    @precondition(lambda self: bool(self.standing))
    @rule(answer=st.sampled_from(ANSWERS), count=st.integers(2, 4), by_word=st.booleans())
    def undo_several(self, answer: bool | str, count: int, by_word: bool) -> None:
        """The last deeds are taken back in one go."""
        self._revert("undo", self._newest(count), answer, f"undo the last {count} actions" if by_word else count)

    @precondition(lambda self: bool(self.standing))
    @rule(answer=st.sampled_from(ANSWERS), back=st.integers(1, 6))
    def undo_by_button(self, answer: bool | str, back: int) -> None:
        """The button under an earlier reply takes back just that deed."""
        deeds = [deed for deed in self.standing if deed.kind != "undo"]
        if deeds:
            deed = deeds[-1 - (back % len(deeds))]
            self._revert("undo", [deed], answer, deed.turn)

    @precondition(lambda self: bool(self.standing))
    @rule(answer=st.sampled_from(ANSWERS), by_word=st.booleans())
    def redo(self, answer: bool | str, by_word: bool) -> None:
        """What was just undone is done again, unless something else was done since."""
        self._revert("redo", self._newest_undone(), answer, "redo" if by_word else 1)

    @precondition(lambda self: bool(self.standing))
    @rule(answer=st.sampled_from(ANSWERS), count=st.integers(1, 3))
    def undo_and_redo(self, answer: bool | str, count: int) -> None:
        """An undo and a redo with nothing in between give the same tree, without a question."""
        before, standing = self.house.tree(), len(self.standing)
        self._revert("undo", self._newest(count), answer, count)
        if self.standing and self.standing[-1].kind == "undo" and self.house.tree() != before:
            question = self._revert("redo", self._newest_undone(), False, 1)
            assert question is None, question
            assert self.house.tree() == before, standing

    def _newest(self, count: int) -> list[Deed]:
        """The deeds that an undo of the last `count` means, newest first."""
        deeds = [deed for deed in reversed(self.standing) if deed.kind != "undo"]
        done = [deed for deed in deeds if not deed.kept]
        return done[:count] or [deed for deed in deeds if deed.kept][:1]

    def _newest_undone(self) -> list[Deed]:
        """The undo that a redo means."""
        deeds = [deed for deed in reversed(self.standing) if deed.kind != "redo" and not deed.kept]
        return deeds[:1] if deeds and deeds[0].kind == "undo" else []

    def _revert(self, way: str, deeds: list[Deed], answer: bool | str, said: str | int) -> ConsentRequest | None:
        """Take `deeds` back, newest first; `said` is the message, the number of turns, or the turn of a button.

        Returns the question.
        """
        before, wanted = self.tree, self._without(deeds)
        reply, question = self.run(self._told(lambda: self._begin(way, said), answer))
        after = self.house.tree()
        status = reply.outcome["status"] if reply is not None else "unanswered"
        told = f"{way} {said!r} of {[deed.delta for deed in deeds]}: {question} {reply}"
        if not deeds:
            assert (question, status) == (None, "refused") and after == before, told
            return question
        goes_on = way == "undo" and said in ("undo", 1) and self._goes_on(deeds[0])
        if goes_on:
            assert question is not None, told
        if question is not None and answer in (False, "unanswered"):
            assert after == before, told
            assert status in ("refused", "unanswered"), told
        elif wanted is not None:
            assert goes_on or question is None, told
            assert (status, after) == ("done", wanted), told
            self._note(way, deeds, after, [])
        else:
            self._check_care(deeds, before, after, question, answer, told)
            acted = status in ("done", "partial")
            # Of several deeds one can make again what another one took away.
            assert acted if after != before else not acted or len(deeds) > 1, told
            self._note(way, deeds, after, self.run(self.house.daemon.history(self.house.owner))["turns"])
        self.tree = after
        return question

    def _begin(self, way: str, said: str | int) -> Talk:
        tool = f"{way}_actions"
        if isinstance(said, int):
            return self.house.reverting(tool, said)
        return self.house.say(said) if said.startswith(way) else self.house.reverting(tool, turn=said)

    def _without(self, deeds: Sequence[Deed]) -> Tree | None:
        """The tree with `deeds` taken back whole; None where that cannot be."""
        tree: Tree | None = self.tree
        for deed in deeds:
            tree = taken_back(tree, deed.delta) if tree is not None and not deed.frayed else None
        return tree

    def _goes_on(self, deed: Deed) -> bool:
        """Whether the last thing that was done was an undo, of something else than `deed`."""
        last = next((other for other in reversed(self.standing) if not other.kept), None)
        return last is not None and last.kind == "undo" and deed.turn not in last.takes and not deed.kept

    def _check_care(
        self,
        deeds: Sequence[Deed],
        before: Tree,
        after: Tree,
        question: ConsentRequest | None,
        answer: bool | str,
        told: str,
    ) -> None:
        """What somebody changed since stays as and where it is, unless the answer was to replace it."""
        offered = {choice.name for choice in question.choices} if question is not None else set()
        if answer == "replace" and answer in offered:
            return
        for path, held in before.items():
            if not any(path in deed.delta.after and same(deed.delta.after, before, path) for deed in deeds):
                assert path in after and after[path] == held, f"{path} was changed by {told}"
        if question is None:
            old = {path for deed in deeds for path in deed.delta.before}
            assert after.keys() - before.keys() <= old, told
            taken = hands(held for deed in deeds for held in deed.delta.after.values())
            brought = hands(held for deed in deeds for held in deed.delta.before.values())
            assert hands(before.values()) - hands(after.values()) <= taken - brought, told

    def _note(self, way: str, deeds: Sequence[Deed], after: Tree, history: Sequence[Any]) -> None:
        """Note a revert that has happened; with a `history`, what it says is left of each deed."""
        sql = "select id, kind from turns order by rowid desc limit 1"
        newest = self.house.assembly.store.rows(sql)[0]
        if not history:
            self.standing = [deed for deed in self.standing if deed not in deeds]
        turns = {turn["id"]: turn["effects"] for turn in history}
        for deed in [deed for deed in deeds if deed.turn in turns]:
            effects = [effect for effect in turns[deed.turn] if effect["state"] in ("done", "kept")]
            left = [effect for effect in effects if not effect["undone"] and effect["why"] != "lasting"]
            deed.frayed = deed.frayed or len(left) < len(effects)
            deed.kept = all(effect["state"] == "kept" for effect in left)
            if not left:
                self.standing.remove(deed)
        if not history or after != self.tree:
            assert newest["kind"] == way
            takes = tuple(deed.turn for deed in deeds)
            # What was there and gone in between counts as touched too.
            touched = [path for deed in deeds for path in deed.delta.paths]
            self.standing.append(Deed(newest["id"], way, delta_of(self.tree, after, touched), takes))

    @rule()
    def restart(self) -> None:
        """The daemon is stopped and started again."""
        self.run(self.house.restart())

    # What the person does without the daemon.

    def _by_hand(self) -> str:
        """A new text of the person's, of a length of its own; every other one ends in a whole line."""
        self.texts += 1
        text = f"hand-{self.texts:03}"
        self.owed.add(text)
        return text + "!" * self.texts + "\n" * (self.texts % 2)

    def _dropped(self, path: str) -> None:
        """The person deletes or overwrites `path`: what is nowhere else in the tree is owed no more."""
        gone = hands([self.tree.pop(path, None)])
        self.owed -= gone - hands(self.tree.values())

    @precondition(lambda self: bool(self.standing))
    @rule(data=st.data())
    def write_by_hand(self, data: st.DataObject) -> None:
        """The person writes a file, be it new or there."""
        places = {os.path.join(folder, name) for folder in self._folders() for name in FILES}
        path = data.draw(self._places(path for path in places | self._touched() if self._may_hold_file(path)))
        self._write_by_hand(path)

    @precondition(lambda self: bool(self.standing))
    @rule(data=st.data(), answer=st.sampled_from(ANSWERS), back=st.integers(0, 2), by_button=st.booleans())
    def undo_after_a_change_by_hand(self, data: st.DataObject, answer: bool | str, back: int, by_button: bool) -> None:
        """The person writes what a deed left, or where it would bring something back, and then takes it back."""
        deeds = self._newest(back + 1)
        places = sorted(path for path in deeds[-1].delta.paths if self._may_hold_file(path)) if deeds else []
        if places:
            self._write_by_hand(data.draw(st.sampled_from(places)))
            if by_button:
                self._revert("undo", deeds[-1:], answer, deeds[-1].turn)
            else:
                self._revert("undo", deeds, answer, len(deeds))

    def _write_by_hand(self, path: str) -> None:
        text = self._by_hand()
        self._dropped(path)
        self.tree[path] = text
        (self.house.home / path).write_text(text)

    @precondition(lambda self: bool(self.standing))
    @rule(data=st.data())
    def delete_by_hand(self, data: st.DataObject) -> None:
        """The person deletes a file for good."""
        files = [path for path, held in self.tree.items() if held is not None]
        if files:
            path = data.draw(self._places(files))
            self._dropped(path)
            (self.house.home / path).unlink()

    @precondition(lambda self: bool(self.standing))
    @rule(data=st.data(), name=st.sampled_from((*FILES, "eel.txt")))
    def rename_by_hand(self, data: st.DataObject, name: str) -> None:
        """The person gives a file another name or place."""
        files = [path for path, held in self.tree.items() if held is not None]
        places = {os.path.join(folder, name) for folder in self._folders()} | self._touched()
        goals = [path for path in places - self.tree.keys() if self._may_hold_file(path)]
        if files and goals:
            path = data.draw(self._places(files))
            goal = data.draw(self._places(goals))
            (self.house.home / path).rename(self.house.home / goal)
            self.tree[goal] = self.tree.pop(path)

    @precondition(lambda self: bool(self.standing))
    @rule(data=st.data(), name=st.sampled_from(FOLDERS))
    def make_folder_by_hand(self, data: st.DataObject, name: str) -> None:
        """The person makes a folder."""
        path = os.path.join(data.draw(st.sampled_from(self._folders())), name)
        if path not in self.tree:
            (self.house.home / path).mkdir()
            self.tree[path] = None

    def _folders(self) -> list[str]:
        """The folders, the home itself as nothing."""
        return ["", *sorted(path for path, held in self.tree.items() if held is None)]

    def _may_hold_file(self, path: str) -> bool:
        return (
            path.endswith(".txt") and os.path.dirname(path) in self._folders() and self.tree.get(path, "") is not None
        )

    def _touched(self) -> set[str]:
        """The paths that the last deeds were about: there an undo and a person meet."""
        return {path for deed in self.standing[-3:] for path in deed.delta.paths}

    def _places(self, paths: Iterable[str]) -> st.SearchStrategy[str]:
        """One of `paths`, which are not none; half of the time one that the last deeds were about."""
        every = sorted(paths)
        near = [path for path in every if path in self._touched()]
        return st.sampled_from(near or every) | st.sampled_from(every)

    # What always holds.

    @invariant()
    def tree_is_what_the_model_says(self) -> None:
        """The real tree is the one that the model has."""
        assert self.house.tree() == self.tree

    @invariant()
    def nothing_by_hand_is_lost(self) -> None:
        """All that the person wrote and did not take away is in the tree, in the trash or among the old contents."""
        kept = [path for path in self.house.places.keep.rglob("*") if path.is_file()]
        texts = (path.read_bytes().decode("latin-1") for path in kept)
        lost = self.owed - hands(self.tree.values()) - hands(texts)
        assert not lost, lost

    @invariant()
    def nothing_is_open_in_the_journal(self) -> None:
        """Every effect that was begun has a result."""
        assert self.house.assembly.parts.actor._journal.unsettled() == []


def _find(name: str) -> Call:
    return ("find_files", {"name": name, "kind": "folder"} if name in FOLDERS else {"name": name})


def _said(name: str) -> str:
    return f"the folders called {name}" if name in FOLDERS else name


def test_tree_is_what_the_model_says_and_nothing_by_hand_is_lost() -> None:
    """Whatever is done, undone, redone and changed by hand in whatever order, nothing is lost, and no undo lies."""
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )


RENAME_BOX = ("rename the folders called Box to Crate", plan(_find("Box"), ("rename_files", {"to": "Crate"})))


async def test_folder_and_what_came_into_it_later_are_taken_back_together(house: House) -> None:
    """An undo of two turns, a folder renamed and a file moved into it, is no change by hand and asks nothing."""
    house.put("Box/bee.txt", "ant.txt")
    before = house.tree()
    await house.ask(*RENAME_BOX, yes=True)
    await house.ask("move ant.txt to Crate", plan(_find("ant.txt"), ("move_files", {"to": "Crate"})), yes=True)
    after = house.tree()
    assert (await house.undo(2)).outcome["status"] == "done"
    assert house.tree() == before
    assert (await house.redo()).outcome["status"] == "done"
    assert house.tree() == after


async def test_folder_and_what_was_in_it_are_deleted_again_together(house: House) -> None:
    """A redo of two deletions, of a file and then of its folder, is no change by hand and asks nothing."""
    house.put("Box/ant.txt")
    before = house.tree()
    await house.ask("delete ant.txt", plan(_find("ant.txt"), ("delete_files", {})), yes=True)
    await house.ask("delete the folders called Box", plan(_find("Box"), ("delete_files", {})), yes=True)
    await house.undo(2)
    assert house.tree() == before
    assert (await house.redo()).outcome["status"] == "done"
    assert house.tree() == {}


@pytest.mark.parametrize("at_once", [True, False])
async def test_folder_with_a_file_that_was_restored_is_as_it_was(house: House, at_once: bool) -> None:
    """Where an undo has brought back what a file held, the folder around it does not count as changed by hand."""
    house.put("Box/ant.txt")
    before = house.tree()
    await house.ask(*RENAME_BOX, yes=True)
    append = plan(("write_files", {"path": "ant.txt", "text": "new", "mode": "append"}))
    await house.ask("add 'new' to ant.txt", append, yes=True)
    if at_once:
        await house.undo(2)
    else:
        await house.undo()
        talk = house.reverting("undo_actions")
        question = await talk.question()
        assert "changed since" not in question.text
        assert await house.daemon.consent(house.owner, question.token, True)
        await talk.reply()
    assert house.tree() == before

"""Kills a daemon at every change that an action makes to the disk, and looks at what the next start makes of it.

Answers each line of standard input, the name of one of `DEEDS`, with a line of JSON: how often it killed
(`points`: in the deed, in the undo of it) and what was wrong then (`problems`). Children are forked off while
there is neither a thread nor an event loop, and begin with all modules loaded.

A kill comes right before a change to the disk, or after the last one. Between two changes the disk stays as it
is, so these are all the states that a kill at any moment can leave: right after a change is right before the
next one. To sync is no change: what was written outlives the process without it.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.house import House
from support.scripted import plan
from test_journal_undo import ACTIONS, furnish

from metnosd import act, assemble, disk
from metnosd.locations import shipped_config
from metnosd.message import Reply

ALLOW_LEFTOVERS = False
"""Whether something unfinished under a hidden name of ours may still lie in the home after the next start."""

ELSEWHERE = "Disk"
"""The folder in the home that is on another file system: nothing can be renamed or linked into or out of it."""

Way = Literal["act", "undo"]
Tell = Callable[[object], None]
Tree = dict[str, str]


@dataclass(frozen=True)
class Deed:
    """An action: what is said, and the plan of it. On a `plain` file system renameat2(2) knows no flags."""

    text: str
    steps: str
    plain: bool = False


def _to_folders(text: str, name: str, tool: str, **args: str) -> Deed:
    return Deed(text, plan(("find_files", {"name": name, "kind": "folder"}), (tool, args)))


def _to_file(text: str, name: str, tool: str, **args: str) -> Deed:
    return Deed(text, plan(("find_files", {"name": name}), (tool, args)))


DEEDS: dict[str, Deed] = {name: Deed(*action) for name, action in ACTIONS.items()} | {
    "extract": _to_file("extract old.zip to Out", "old.zip", "extract_archives", to="Out"),
    "rename a folder": _to_folders("rename the folders called Box to Case", "Box", "rename_files", to="Case"),
    "move a folder": _to_folders("move the folders called Box to Shelf", "Box", "move_files", to="Shelf"),
    "move to another disk": _to_file("move a.txt to Disk/New", "a.txt", "move_files", to="Disk/New"),
    "move a folder to another disk": _to_folders("move the folders called Box to Disk", "Box", "move_files", to="Disk"),
    "copy to another disk": _to_file("copy a.txt to Disk", "a.txt", "copy_files", to="Disk"),
    "delete on another disk": _to_file("delete far.txt", "far.txt", "delete_files"),
    "delete a folder on another disk": _to_folders("delete the folders called Far", "Far", "delete_files"),
}
PLAIN = ("move", "move a folder", "copy a folder", "write", "replace", "move to another disk")
"""The deeds that are done on a plain file system too: each way round the missing flags is in one of them."""

DEEDS |= {f"{name}, plain": replace(DEEDS[name], plain=True) for name in PLAIN}


def start(folder: Path) -> House:
    """A daemon on `folder` that does not wait for the disk."""
    house = House(folder)
    connection(house).execute("pragma synchronous = off")
    return house


def connection(house: House) -> sqlite3.Connection:
    """What the daemon talks to its database with."""
    found: sqlite3.Connection = house.assembly.store._db.conn
    return found


class Fuse:
    """Kills the process right before the change to the disk with the number `length`, once it is lit."""

    def __init__(self, length: int, tell: Tell) -> None:
        self._left = length
        self._tell = tell
        self._lit = False
        self._writes = 0

    def light(self) -> None:
        """Count from now on."""
        self._lit = True

    def burn(self, what: str) -> None:
        """Say that the change `what` is about to happen. Of many writes in a row the first, the second and what
        comes after the last are told apart: nothing written, a part and all of it."""
        self._writes = self._writes + 1 if what == WRITE else 0
        if self._lit and self._writes < 3:
            self._left -= 1
            if self._left == 0:
                self.end(what)

    def end(self, what: str | None) -> None:
        """Tell what was about to happen, None for nothing any more, and kill the process."""
        self._lit = False
        self._tell(what)
        os.kill(os.getpid(), signal.SIGKILL)

    def lay(self, house: House) -> None:
        """Lay the fuse to all that changes the disk: Python's own audit events, and what has none."""
        sys.addaudithook(self._audited)
        for name in _UNAUDITED:
            setattr(os, name, self._burning(getattr(os, name), name))
        disk._renameat2 = self._burning(disk._renameat2, "renameat2")
        os.fdopen = self._fdopen
        database = connection(house)

        def trace(statement: str) -> None:
            word = statement.split(maxsplit=1)[0].lower()
            if word == "commit" or (not database.in_transaction and word not in _READING):
                self.burn(word)

        database.set_trace_callback(trace)

    def _audited(self, event: str, args: tuple[Any, ...]) -> None:
        if self._lit and (event in _CHANGES or (event == "open" and args[2] & os.O_CREAT)):
            self.burn(_name(event.removeprefix("os."), args))

    def _burning(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def burning(*args: Any, **kwargs: Any) -> Any:
            self.burn(_name(name, args))
            return function(*args, **kwargs)

        return burning

    def _fdopen(self, descriptor: int, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """A file whose buffer burns whenever it is written out."""
        if mode not in ("wb", "w+b"):
            return open(descriptor, mode, *args, **kwargs)
        fuse = self

        class Raw(io.FileIO):
            def write(self, data: Any) -> int:
                fuse.burn(WRITE)
                return super().write(data)

        return io.BufferedRandom(Raw(descriptor, mode))


_CHANGES = frozenset(
    f"os.{name}"
    for name in (
        *("rename", "link", "symlink", "remove", "mkdir", "rmdir"),
        *("chmod", "chown", "utime", "truncate", "setxattr", "removexattr"),
    )
)
WRITE = "write"
_UNAUDITED = ("write", "pwrite", "writev", "mkfifo", "mknod", "sendfile", "copy_file_range")
_READING = ("begin", "select", "pragma", "rollback", "savepoint", "release")


def _name(call: str, args: tuple[Any, ...]) -> str:
    """A call with the names in its arguments, without what is random in them."""
    names = [os.fsdecode(arg) for arg in args if isinstance(arg, str | bytes | os.PathLike)]
    return re.sub("[0-9a-f]{32}", "*", " ".join([call, *names]))


def set_the_scene(deed: Deed) -> None:
    """Have another file system in this process, and none with flags if the deed is to do without; small chunks,
    so that there is something half written; and no waiting for the disk, which only a power cut asks for."""
    disk.CHUNK = 4
    os.fsync = lambda _descriptor: None
    flagged = disk._renameat2

    def renameat2(source_dir: int, source: str, target_dir: int, target: str, flags: int) -> None:
        if deed.plain:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        _check_disks(source_dir, target_dir)
        flagged(source_dir, source, target_dir, target, flags)

    disk._renameat2 = renameat2
    for name in ("rename", "link"):
        setattr(os, name, _on_disks(getattr(os, name)))


def _on_disks(function: Callable[..., None]) -> Callable[..., None]:
    def checked(source: Any, target: Any, *, src_dir_fd: int, dst_dir_fd: int, **kwargs: Any) -> None:
        _check_disks(src_dir_fd, dst_dir_fd)
        function(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, **kwargs)

    return checked


def _check_disks(*folders: int) -> None:
    paths = [Path(os.readlink(f"/proc/self/fd/{folder}")) for folder in folders]
    if len({ELSEWHERE in path.parts for path in paths}) > 1:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


class Stage:
    """The folder in which `deed` is done or taken back (`way`) again and again, always at the same place."""

    def __init__(self, folder: Path, deed: Deed, way: Way) -> None:
        self.folder = folder / "house"
        self._saved = folder / "saved"
        self.home = self.folder / "home"
        self.deed = deed
        self.way = way
        self.trees: list[Tree] = []
        self.before: Tree = {}
        self._contents: set[bytes] = set()

    def prepare(self) -> None:
        """Furnish the house, and find out which trees there are from one effect to the next."""
        forked(lambda _tell: self.furnish())
        self.before = look(self.home)
        self._contents = contents(self.home)
        if self.way == "undo":
            forked(lambda _tell: self._rehearse("act"))
        shutil.copytree(self.folder, self._saved, symlinks=True)
        self.trees = forked(lambda _tell: self._rehearse(self.way))
        assert len(self.trees) > 1 and self.before == self.trees[0 if self.way == "act" else -1]

    def furnish(self) -> None:
        """Put what the deeds act on."""
        house = start(self.folder)
        furnish(house)
        house.put("Disk/far.txt", "Disk/Far/deep.txt", "Disk/Far/inner/")
        (self.home / "Disk/Far/link").symlink_to("deep.txt")
        for name in ("a.txt", "Box/c.txt"):
            (self.home / name).chmod(0o640)
        shutil.make_archive(str(self.home / "old"), "zip", self.home / "Box")
        house.assembly.close()

    def _rehearse(self, way: Way) -> list[Tree]:
        set_the_scene(self.deed)
        house = start(self.folder)
        trees = [look(self.home)]
        perform = act.perform

        def looking(*args: Any, **kwargs: Any) -> Any:
            performed = perform(*args, **kwargs)
            trees.append(look(self.home))
            return performed

        act.perform = looking
        asyncio.run(self.go(house, way))
        house.assembly.close()
        return trees

    async def go(self, house: House, way: Way, begun: Callable[[], None] = lambda: None) -> None:
        """Do the deed or take it back; `begun` is called once nothing is asked any more."""
        if way == "act":
            talk = house.say(self.deed.text, self.deed.steps)
            assert await talk.answer(True)
            begun()
            reply = await talk.reply()
        else:
            begun()
            reply = await take_back(house)
        assert reply.outcome["status"] == "done", reply

    def kill(self, length: int, tell: Tell) -> None:
        """Begin from the saved folder and be killed right before the change with the number `length`."""
        set_the_scene(self.deed)
        fuse = Fuse(length, tell)
        house = start(self.folder)
        fuse.lay(house)

        async def burn_down() -> None:
            await self.go(house, self.way, fuse.light)
            fuse.end(None)

        asyncio.run(burn_down())

    def reset(self) -> None:
        """Have the saved folder again."""
        shutil.rmtree(self.folder)
        shutil.copytree(self._saved, self.folder, symlinks=True)

    def examine(self, _tell: Tell) -> list[str]:
        """What is wrong after the next start with what a kill left, and what is after an undo."""
        set_the_scene(self.deed)
        return asyncio.run(self._examine())

    async def _examine(self) -> list[str]:
        problems = []
        if lost := self._contents - contents(self.folder):
            problems.append(f"lost {sorted(lost)}")
        house = start(self.folder)
        found = look(self.home, leftovers=not ALLOW_LEFTOVERS)
        if found not in self.trees:
            problems.append(f"half done: {differences(self.before, found)}")
        if lost := self._contents - contents(self.folder):
            problems.append(f"lost by the start: {sorted(lost)}")
        status = (await take_back(house)).outcome["status"]
        if status != ("refused" if found == self.before else "done"):
            problems.append(f"the undo is {status}")
        ended = look(self.home, leftovers=not ALLOW_LEFTOVERS)
        if ended != self.before:
            problems.append(f"not taken back: {differences(self.before, ended)}")
        if not problems and (self.way == "undo" or found != self.before):
            # What was taken back, by this undo or by the one that was killed, can be done again.
            wanted = found if found != self.before else self.trees[0]
            await do_again(house)
            redone = look(self.home, leftovers=not ALLOW_LEFTOVERS)
            if redone != wanted:
                problems.append(f"not done again: {differences(wanted, redone)}")
        await house.close()
        return problems


async def take_back(house: House) -> Reply:
    """Undo the last action."""
    return await house.undo()


async def do_again(house: House) -> Reply:
    """Redo what was just undone."""
    return await house.redo()


def look(home: Path, *, leftovers: bool = False) -> Tree:
    """All that is in `home`, by its path: its mode and its content. With `leftovers` also what is unfinished."""
    found: Tree = {}
    for path in sorted(home.rglob("*")):
        inner = path.relative_to(home)
        if not leftovers and any(part.startswith(disk.TEMP_PREFIX) for part in inner.parts):
            continue
        mode = path.lstat().st_mode
        content = os.readlink(path) if stat.S_ISLNK(mode) else ""
        if stat.S_ISREG(mode):
            content = path.read_bytes().decode("latin-1")
        found[str(inner)] = f"{mode:o} {content}"
    return found


def contents(folder: Path) -> set[bytes]:
    """The contents of all files in `folder`."""
    return {path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}


def differences(old: Tree, new: Tree) -> str:
    """The names that only one of two trees has, or that stand for something else."""
    signs = [f"+{name}" for name in new.keys() - old.keys()] + [f"-{name}" for name in old.keys() - new.keys()]
    signs += [f"~{name}" for name in old.keys() & new.keys() if old[name] != new[name]]
    return " ".join(sorted(signs))


class ChildError(Exception):
    """What went wrong in a child."""


def forked(job: Callable[[Tell], object], seconds: int = 30) -> Any:
    """What a child told that does `job`, or what `job` returned there, as JSON values."""
    return begin(job, seconds)()


def begin(job: Callable[[Tell], object], seconds: int) -> Callable[[], Any]:
    """Start a child that does `job`; what is returned waits for what it tells."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be_child(job, seconds, writing)
    os.close(writing)

    def wait() -> Any:
        with os.fdopen(reading) as pipe:
            text = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if not text:
            raise ChildError(f"a child ended with {status}")
        told: Mapping[str, Any] = json.loads(text)
        if "error" in told:
            raise ChildError(told["error"])
        return told["value"]

    return wait


def _be_child(job: Callable[[Tell], object], seconds: int, pipe: int) -> None:
    def tell(value: object) -> None:
        os.write(pipe, json.dumps({"value": value}).encode())

    try:
        signal.alarm(seconds)
        tell(job(tell))
    except Exception:  # noqa: BLE001 - whatever it is, the parent tells of it
        os.write(pipe, json.dumps({"error": traceback.format_exc()}).encode())
    os._exit(1)


def kill_everywhere(folder: Path, deed: Deed, way: Way) -> dict[str, Any]:
    """Kill `deed` (`way` act) or the undo of it at every change; the number of kills, and what was wrong."""
    stage = Stage(folder, deed, way)
    stage.prepare()
    problems = []
    length = 0
    change: str | None = ""
    while change is not None:
        length += 1
        stage.reset()
        change = forked(functools.partial(stage.kill, length))
        try:
            wrong = forked(stage.examine)
        except ChildError as error:
            wrong = [str(error).strip().rpartition("\n")[2][:300]]
        problems += [f"{way} killed before {length} ({change or 'nothing more'}): {problem}" for problem in wrong]
    return {"points": length, "problems": problems}


def kill_both_ways(name: str) -> dict[str, Any]:
    """Kill the deed `name` and the undo of it everywhere, at the same time on two processors."""
    ways: tuple[Way, Way] = ("act", "undo")
    with tempfile.TemporaryDirectory() as folder:
        warm_up(Path(folder), DEEDS[name])
        jobs = [functools.partial(_kill_one_way, Path(folder) / way, DEEDS[name], way) for way in ways]
        told = [wait() for wait in [begin(job, 300) for job in jobs]]
    return {"points": [one["points"] for one in told], "problems": [text for one in told for text in one["problems"]]}


def _kill_one_way(folder: Path, deed: Deed, way: Way, _tell: Tell) -> dict[str, Any]:
    folder.mkdir()
    return kill_everywhere(folder, deed, way)


def warm_up(folder: Path, deed: Deed) -> None:
    """Do and undo `deed` unharmed, so that children find all loaded that it needs, patterns of the lexicon too."""
    stage = Stage(folder, deed, "act")
    stage.furnish()
    house = start(stage.folder)

    async def there_and_back() -> None:
        await stage.go(house, "act")
        await stage.go(house, "undo")

    asyncio.run(there_and_back())
    house.assembly.close()
    assert threading.active_count() == 1, threading.enumerate()


def main() -> None:
    """Answer until there are no more names; what else is printed goes to standard error."""
    sys.dont_write_bytecode = True
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lexicon = assemble.load_lexicon(shipped_config("lexicon"))
    assemble.load_lexicon = lambda *_folders: lexicon
    for line in sys.stdin:
        answers.write(json.dumps(kill_both_ways(line.strip())) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()

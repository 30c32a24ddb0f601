"""Standing grants: given by message and asked at every level, narrow, listed, revoked, and never stretched."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.house import House, Talk
from support.scripted import plan

from metnosd.effects import CopyPath, Effect, MovePath, PackFiles, PutRecord, TrashPath, WriteFile
from metnosd.grants import Grant, Grants, grant_from_json
from metnosd.locations import shipped_config
from metnosd.plan import Plan
from metnosd.policy import load_policy
from metnosd.resolve import ResolvedPlan, ResolvedStep
from metnosd.sentence import Refusal
from metnosd.store import Store
from metnosd.user import User
from metnosd.vaglio import Case, Vaglio

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
ALLOW = "always allow moving files inside Downloads"
GRANT = plan(("create_grants", {"action": "move", "path": "Downloads"}))
WHAT = "what have I allowed?"
REVOKE = "revoke the permission for Downloads"


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[House]:
    """A daemon over a home with folders and files."""
    made = House(tmp_path)
    made.put("Downloads/Sub/", "Downloads/a.txt", "Downloads2/Sub/", "Downloads2/b.txt", "Documents/c.txt")
    yield made
    await made.close()


def move(house: House, name: str, to: str, user: User | None = None) -> Talk:
    """Begin to move a file."""
    answer = plan(("find_files", {"name": name}), ("move_files", {"to": to}))
    return house.say(f"move {name} to {to}", answer, user=user)


async def unasked(talk: Talk) -> None:
    """The turn puts no question and is done."""
    talk.unasked()
    reply = await talk.reply()
    assert reply.outcome["status"] == "done", reply


async def is_asked(talk: Talk) -> None:
    """The turn puts a question; it is answered with no, and nothing was done."""
    before = talk.house.tree()
    await talk.question()
    await talk.answer_no()
    assert talk.house.tree() == before


async def allow(house: House) -> None:
    """Give the grant on Downloads."""
    reply = await house.ask(ALLOW, GRANT, yes=True)
    assert reply.outcome["status"] == "done", reply


# by message


@pytest.mark.parametrize("level", ["supervised", "full"])
async def test_grant_is_asked_at_every_level_and_says_what_it_is(tmp_path: Path, level: str) -> None:
    """Allowing something once and for all is asked even at level full; the question says what, where, how much."""
    house = House(tmp_path, settings={"user": {"level": level}})
    house.put("Downloads/")
    talk = house.say(ALLOW, GRANT)
    question = await talk.question()
    assert "~/Downloads" in question.text and "move" in question.text
    assert "20 files" in question.text and "100 MB" in question.text
    assert (await talk.answer_no()).outcome["status"] == "refused"
    assert "nothing" in (await house.ask(WHAT)).text
    await house.close()


async def test_guest_gives_no_grant(tmp_path: Path) -> None:
    """Somebody who may only read is not offered grants."""
    house = House(tmp_path, settings={"user": {"level": "read_only"}})
    house.put("Downloads/")
    reply = await house.ask(ALLOW, GRANT, GRANT)
    assert reply.outcome["status"] in ("refused", "failed")
    house.model.answers.clear()
    assert "nothing" in (await house.ask(WHAT)).text
    await house.close()


async def test_grant_is_listed(home: House) -> None:
    """ "What have I allowed?" says what, where and how much, without a model; before and after there is nothing."""
    assert "nothing" in (await home.ask(WHAT)).text
    await allow(home)
    asked = len(home.model.asked)
    text = (await home.ask(WHAT)).text
    assert "~/Downloads" in text and "20 files" in text and "100 MB" in text
    assert len(home.model.asked) == asked


async def test_grant_is_used(home: House) -> None:
    """A move inside the folder needs no question any more, also into a folder that is made for it; undo works."""
    await is_asked(move(home, "a.txt", "Downloads/Sub"))
    await allow(home)
    before = home.tree()
    await unasked(move(home, "a.txt", "Downloads/Sub"))
    assert "Downloads/Sub/a.txt" in home.tree()
    await home.undo()
    assert home.tree() == before
    await unasked(move(home, "a.txt", "Downloads/New"))
    assert "Downloads/New/a.txt" in home.tree()


async def test_verdict_rests_on_the_grant(home: House) -> None:
    """The rule that decided is the grant."""
    await allow(home)
    await unasked(move(home, "a.txt", "Downloads/Sub"))
    rows = home.assembly.store.rows("select rule from turns where verdict = 'allow' order by rowid desc limit 1")
    grant = home.assembly.store.rows("select id from grants")[0]["id"]
    assert rows == [{"rule": f"grant/{grant}"}]


async def test_grant_does_not_reach_further(home: House) -> None:
    """Out of the folder, into it, in a folder of a like name, other deeds and the folder itself are asked."""
    await allow(home)
    await is_asked(move(home, "a.txt", "Documents"))
    await is_asked(move(home, "c.txt", "Downloads"))
    await is_asked(move(home, "b.txt", "Downloads2/Sub"))
    find = ("find_files", {"name": "a.txt"})
    await is_asked(home.say("delete a.txt", plan(find, ("delete_files", {}))))
    await is_asked(home.say("copy a.txt to Downloads/Sub", plan(find, ("copy_files", {"to": "Downloads/Sub"}))))
    await is_asked(home.say("rename a.txt to z.txt", plan(find, ("rename_files", {"to": "z.txt"}))))
    write = plan(("write_files", {"path": "Downloads/n.txt", "text": "x"}))
    await is_asked(home.say("write 'x' into Downloads/n.txt", write))
    assert (await home.ask("what is in the home?", plan(("list_dirs", {})))).outcome["status"] == "done"
    await is_asked(home.say("move them to Documents", plan(("move_files", {"to": "Documents"}, 0))))


async def test_one_file_outside_asks_for_all(home: House) -> None:
    """A plan that moves one file in the folder and one elsewhere is asked whole."""
    await allow(home)
    steps = plan(("find_files", {"extension": "txt"}), ("move_files", {"to": "Downloads/Sub"}))
    await is_asked(home.say("move the txt files to Downloads/Sub", steps))


async def test_second_step_outside_is_asked(home: House) -> None:
    """A plan whose first step is within the grant and whose second is not is asked."""
    await allow(home)
    steps = plan(
        ("find_files", {"name": "a.txt"}),
        ("move_files", {"to": "Downloads/Sub"}),
        ("find_files", {"name": "b.txt"}),
        ("delete_files", {}),
    )
    talk = home.say("move a.txt to Downloads/Sub and delete b.txt", steps)
    await talk.question()
    await talk.answer_no()
    assert "Downloads2/b.txt" in home.tree()


async def test_more_files_than_granted_are_asked(home: House) -> None:
    """20 files go without a question, 21 do not."""
    await allow(home)
    home.put(*(f"Downloads/{number}.md" for number in range(20)))
    steps = plan(("find_files", {"extension": "md"}), ("move_files", {"to": "Downloads/Sub"}))
    await unasked(home.say("move the md files to Downloads/Sub", steps))
    home.put(*(f"Downloads/{number}.csv" for number in range(21)))
    steps = plan(("find_files", {"extension": "csv"}), ("move_files", {"to": "Downloads/Sub"}))
    await is_asked(home.say("move the csv files to Downloads/Sub", steps))


async def test_grant_is_for_one_person(home: House) -> None:
    """Another person with the same folders is asked, sees no grants and revokes none."""
    await allow(home)
    other = dataclasses.replace(home.owner, name="other")
    await is_asked(move(home, "a.txt", "Downloads/Sub", other))
    assert "nothing" in (await home.say(WHAT, user=other).reply()).text
    await home.say(REVOKE, user=other).reply()
    await unasked(move(home, "a.txt", "Downloads/Sub"))


async def test_grant_survives_a_restart(home: House) -> None:
    """What was allowed stays allowed, and stays narrow."""
    await allow(home)
    await home.restart()
    assert "~/Downloads" in (await home.ask(WHAT)).text
    await unasked(move(home, "a.txt", "Downloads/Sub"))
    await is_asked(move(home, "a.txt", "Documents"))


async def test_grant_cannot_be_given_twice(home: House) -> None:
    """What is allowed already is not asked again."""
    await allow(home)
    talk = home.say(ALLOW, GRANT)
    talk.unasked()
    assert "already" in (await talk.reply()).text


@pytest.mark.parametrize("path", ["nowhere", "Downloads/a.txt", "/etc", ".."])
async def test_grant_is_for_a_folder_in_reach(home: House, path: str) -> None:
    """What is no folder, or lies out of reach, cannot be granted."""
    answer = plan(("create_grants", {"action": "move", "path": path}))
    talk = home.say(f"always allow moving files inside {path}", answer, answer)
    talk.unasked()
    assert (await talk.reply()).outcome["status"] in ("refused", "asked", "failed")
    home.model.answers.clear()
    assert "nothing" in (await home.ask(WHAT)).text


async def test_plain_request_cannot_become_a_grant(home: House) -> None:
    """A message that asks for one move cannot be planned as leave for all moves."""
    talk = home.say("move a.txt to Downloads/Sub", GRANT, GRANT)
    talk.unasked()
    assert (await talk.reply()).outcome["status"] == "failed"


async def test_overwriting_is_asked_under_a_grant(home: House) -> None:
    """A grant to write in a folder makes new files; replacing what a file holds is asked all the same."""
    answer = plan(("create_grants", {"action": "write", "path": "Downloads"}))
    await home.ask("always allow writing files inside Downloads", answer, yes=True)

    def write(name: str, mode: str) -> str:
        return plan(("write_files", {"path": f"Downloads/{name}", "text": "new", "mode": mode}))

    await unasked(home.say("write 'new' into Downloads/n.txt", write("n.txt", "create")))
    await is_asked(home.say("replace Downloads/a.txt by 'new'", write("a.txt", "replace")))


async def test_guard_is_not_lifted_by_a_grant(home: House) -> None:
    """A folder that the policy comes to protect is closed, though there is a grant for it."""
    await allow(home)
    shipped = shipped_config("policy.toml").read_text()
    own = home.places.config_dir / "policy.toml"
    own.write_text(shipped.replace("protected = [", 'protected = ["~/Downloads/Sub",', 1))
    talk = move(home, "a.txt", "Downloads/Sub")
    talk.unasked()
    await talk.reply()
    assert "Downloads/a.txt" in home.tree()


# revoking and undo


async def test_grant_is_revoked(home: House) -> None:
    """Revoked by message, without a question, moves are asked again; "undo" gives the grant back."""
    await allow(home)
    talk = home.say(REVOKE)
    talk.unasked()
    assert (await talk.reply()).outcome["status"] == "done"
    assert "nothing" in (await home.ask(WHAT)).text
    await is_asked(move(home, "a.txt", "Downloads/Sub"))
    await home.undo()
    assert "~/Downloads" in (await home.ask(WHAT)).text
    await unasked(move(home, "a.txt", "Downloads/Sub"))


async def test_giving_a_grant_is_undone(home: House) -> None:
    """ "Undo" after allowing takes the grant away."""
    await allow(home)
    await home.undo()
    assert "nothing" in (await home.ask(WHAT)).text
    await is_asked(move(home, "a.txt", "Downloads/Sub"))


async def test_revoking_survives_a_restart(home: House) -> None:
    """A grant that was revoked is gone for good."""
    await allow(home)
    await home.say(REVOKE).reply()
    await home.restart()
    await is_asked(move(home, "a.txt", "Downloads/Sub"))


async def test_revoking_needs_to_know_which(home: House) -> None:
    """Where more than one permission fits it is asked which; a number of the list, a folder or a deed says it."""
    await allow(home)
    for action, said in (("delete", "deleting"), ("copy", "copying")):
        answer = plan(("create_grants", {"action": action, "path": "Downloads2"}))
        await home.ask(f"always allow {said} files inside Downloads2", answer, yes=True)

    async def left() -> int:
        return (await home.ask(WHAT)).text.count("up to 20 files")

    assert (await home.say("revoke the permission").reply()).outcome["status"] == "asked"
    assert (await home.say("revoke the permission for Downloads2").reply()).outcome["status"] == "asked"
    assert (await home.say("revoke the permission for Music").reply()).outcome["status"] == "refused"
    assert (await home.say("revoke the permission number 9").reply()).outcome["status"] == "refused"
    assert await left() == 3
    await home.say("revoke the permission for copying inside Downloads2").reply()
    assert await left() == 2
    await home.say("revoke the permission number 1").reply()
    assert await left() == 1
    await home.say("revoke the permission").reply()
    assert await left() == 0


async def test_folder_of_the_exact_name_is_meant(home: House) -> None:
    """ "Downloads" means Downloads, also where there is a grant for Downloads2."""
    await allow(home)
    answer = plan(("create_grants", {"action": "move", "path": "Downloads2"}))
    await home.ask("always allow moving files inside Downloads2", answer, yes=True)
    await home.say(REVOKE).reply()
    text = (await home.ask(WHAT)).text
    assert "~/Downloads2:" in text and "~/Downloads:" not in text


async def test_folders_above_the_home_do_not_name_a_grant(tmp_path: Path) -> None:
    """Where the home lies in a folder called Music, "the permission for Music" is not the one for Downloads."""
    house = House(tmp_path / "Music")
    house.put("Downloads/")
    await allow(house)
    reply = await house.say("revoke the permission for Music").reply()
    assert reply.outcome["status"] == "refused", reply
    assert "~/Downloads" in (await house.ask(WHAT)).text
    await house.close()


async def test_deed_does_not_make_up_for_a_folder_that_does_not_fit(home: House) -> None:
    """ "Moving inside Documents" is not the permission for moving inside Downloads."""
    await allow(home)
    reply = await home.say("revoke the permission for moving files inside Documents").reply()
    assert reply.outcome["status"] == "refused", reply
    assert "~/Downloads" in (await home.ask(WHAT)).text


@pytest.mark.parametrize("said", ["²", "1²", "\uff10", "9" * 30])
async def test_odd_number_revokes_nothing(home: House, said: str) -> None:
    """What only looks like a number of the list is a permission that does not exist, not a failure."""
    await allow(home)
    reply = await home.say(f"revoke the permission for {said}").reply()
    assert reply.outcome["status"] == "refused", reply
    assert "~/Downloads" in (await home.ask(WHAT)).text


async def test_grant_revoked_while_it_is_used_again_is_not_restored_by_undo_of_the_move(home: House) -> None:
    """Undoing a move that a grant allowed does not touch the grant."""
    await allow(home)
    await unasked(move(home, "a.txt", "Downloads/Sub"))
    await home.undo()
    assert "~/Downloads" in (await home.ask(WHAT)).text


# rows


ROWS: list[tuple[str, object]] = [
    ("folders", None),
    ("folders", ""),
    ("folders", "[]"),
    ("folders", "{}"),
    ("folders", "5"),
    ("folders", "null"),
    ("folders", '[""]'),
    ("folders", '["Downloads"]'),
    ("folders", '"/"'),
    ("folders", '"/home"'),
    ("folders", '{"/": 1}'),
    ("folders", '["/", 5]'),
    ("folders", b"\xff"),
    ("max_files", "many"),
    ("max_files", None),
    ("max_files", b"\xff"),
    ("max_bytes", "much"),
    ("max_bytes", None),
    ("tool", None),
    ("tool", "fly_files"),
    ("created_at", "yesterday"),
]


@pytest.mark.parametrize(("column", "value"), ROWS)
async def test_unreadable_row_grants_nothing_and_harms_nothing(home: House, column: str, value: object) -> None:
    """A row that is no grant any more allows nothing, and what it would have allowed is asked as before it.

    A readable one beside it still works, and the list still comes.
    """
    await allow(home)
    await home.close()
    with sqlite3.connect(home.places.database) as db:
        db.execute("create temp table other as select * from grants")
        db.execute("update other set id = 'other', folders = replace(folders, 'Downloads', 'Downloads2')")
        db.execute("insert into grants select * from other")
        db.execute(f"update grants set {column} = ? where id != 'other'", (value,))
    db.close()
    home.assembly = home._assemble()
    await is_asked(move(home, "a.txt", "Downloads/Sub"))
    await is_asked(move(home, "c.txt", "Documents/New"))
    await unasked(move(home, "b.txt", "Downloads2/Sub"))
    assert "~/Downloads2" in (await home.ask(WHAT)).text


def grant(**changes: Any) -> Grant:
    """A grant to move in /home/ada/Downloads."""
    values: dict[str, Any] = {
        "id": "g",
        "user": "ada",
        "tool": "move_files",
        "capability": "fs:write",
        "folders": ("/home/ada/Downloads",),
        "recipient": None,
        "max_files": 20,
        "max_bytes": 1000,
        "created_at": NOW,
    }
    return Grant(**(values | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"folders": [""]},
        {"folders": ["Downloads"]},
        {"folders": ["/home/ada", 5]},
        {"folders": []},
        {"folders": None},
        {"folders": "/"},
        {"folders": {"/": 1}},
        {"folders": [], "recipient": ""},
        {"folders": [], "recipient": 5},
        {"max_files": "20"},
        {"max_files": True},
        {"max_bytes": None},
        {"tool": None},
        {"user": None},
        {"user": 5},
        {"created_at": "soon"},
    ],
)
def test_what_is_no_grant_is_not_read_and_not_stored(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Values of the wrong kind, and places that are none, make no grant."""
    data = grant().to_json() | changes
    with pytest.raises((ValueError, KeyError, TypeError)):
        grant_from_json(data)
    store = Store(tmp_path / "x.db")
    with pytest.raises(Refusal):
        Grants(store).put("g", data)
    assert store.rows("select * from grants") == []
    store.close()


def test_grant_comes_back_from_its_row(tmp_path: Path) -> None:
    """What is stored is what is read, field for field; taking it away leaves nothing."""
    store = Store(tmp_path / "x.db")
    grants = Grants(store)
    grants.put("g", grant().to_json())
    assert grants.of_user("ada") == [grant()] and grants.of_user("eve") == []
    grants.put("g", None)
    assert grants.of_user("ada") == [] and grants.get("g") is None
    store.close()


# never for another path


@dataclasses.dataclass(frozen=True, slots=True)
class SendFile(Effect):
    """Send a file to people: what the effects of mail and chat will look like."""

    kind: ClassVar[str] = "send"
    path: str
    to: tuple[str, ...]

    def reads(self) -> tuple[str, ...]:
        """The file."""
        return (self.path,)

    def writes(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def recipients(self) -> tuple[str, ...]:
        """Who gets it."""
        return self.to


SHIPPED = load_policy(shipped_config("policy.toml"))
ADA = User("ada", ("/",), "/home/ada", "en", UTC, "supervised")


def step(*effects: Effect, **changes: Any) -> ResolvedStep:
    """A step that moves."""
    values: dict[str, Any] = {"tool": "move_files", "capability": "fs:write", "files": 1, "bytes": 10}
    values |= changes
    return ResolvedStep(1, values.pop("tool"), values.pop("capability"), {}, effects, **values)


def answer(*steps: ResolvedStep, grants: tuple[Grant, ...] = (grant(),), policy: Any = SHIPPED) -> str:
    """What Vaglio answers to somebody supervised who has these grants."""
    case = Case(ADA, NOW, grants=grants, known=lambda _name: "known")
    return Vaglio(lambda: policy).judge(ResolvedPlan(Plan(()), {}, steps), case).answer


NAMES = st.sampled_from(["Downloads", "Downloads2", "Down", "a", "b", "downloads", "..", " ", "Downloads "])
PATHS = st.lists(NAMES, min_size=0, max_size=4).map(lambda names: "/".join(["/home/ada", *names]))


def inside(path: str, folder: str) -> bool:
    """Whether `path` lies below `folder`, reckoned by components."""
    parts, above = path.split("/"), folder.split("/")
    return len(parts) > len(above) and parts[: len(above)] == above


@given(folder=PATHS, source=PATHS, target=PATHS)
def test_grant_for_one_path_never_covers_another(folder: str, source: str, target: str) -> None:
    """A move is allowed by a grant if and only if both ends lie below its folder."""
    expected = inside(source, folder) and inside(target, folder)
    assert grant(folders=(folder,)).covers(step(MovePath(source, target)), "fs:write") is expected


@given(folder=PATHS, paths=st.lists(PATHS, min_size=1, max_size=5))
def test_every_path_of_every_effect_has_to_be_covered(folder: str, paths: list[str]) -> None:
    """Of many effects, and of many paths of one, one outside is enough to be asked."""
    expected = all(inside(path, folder) for path in paths)
    given_ = grant(folders=(folder,))
    assert given_.covers(step(*(TrashPath(path, "s") for path in paths)), "fs:write") is expected
    assert given_.covers(step(PackFiles(tuple(paths[1:]), paths[0], "zip")), "fs:write") is expected


@given(
    tool=st.sampled_from(["move_files", "delete_files", "copy_files"]),
    capability=st.sampled_from(["fs:write", "fs:delete", "fs:read"]),
    files=st.integers(0, 40),
    size=st.integers(0, 2000),
)
def test_grant_is_for_one_deed_and_so_much(tool: str, capability: str, files: int, size: int) -> None:
    """Another executor, another capability, more files or more bytes are not covered."""
    effect = MovePath("/home/ada/Downloads/a", "/home/ada/Downloads/b")
    covered = grant().covers(step(effect, tool=tool, files=files, bytes=size), capability)
    assert covered is ((tool, capability) == ("move_files", "fs:write") and files <= 20 and size <= 1000)


@given(recipient=st.sampled_from(["bob", "eve", "bo", "BOB"]), to=st.lists(st.sampled_from(["bob", "eve"]), max_size=3))
def test_grant_for_one_recipient_never_covers_another(recipient: str, to: list[str]) -> None:
    """A grant for a person covers exactly messages to that person alone, and no file that goes along."""
    given_ = grant(folders=(), recipient=recipient)
    note = dataclasses.replace(SendFile("/home/ada/Downloads/a", tuple(to)))
    assert not given_.covers(step(note), "fs:write")
    assert not grant().covers(step(note), "fs:write") or not to


def test_step_of_several_capabilities_needs_leave_for_each() -> None:
    """A grant for one capability of a step leaves the other one asked."""
    effect = MovePath("/home/ada/Downloads/a", "/home/ada/Downloads/b")
    assert answer(step(effect)) == "allow"
    assert answer(step(effect, capability="fs:write fs:delete")) == "ask"


def test_grant_of_another_person_is_none() -> None:
    """A grant that is somebody else's covers nothing, even where it came into the case by mistake."""
    effect = MovePath("/home/ada/Downloads/a", "/home/ada/Downloads/b")
    assert answer(step(effect), grants=(grant(user="eve"),)) == "ask"


def test_records_are_never_covered() -> None:
    """No grant makes grants: what is put into our own tables lies in no folder."""
    record = PutRecord("grants", "x", grant().to_json(), "grant")
    anywhere = grant(folders=("/",), tool="create_grants", capability="grants:write")
    assert answer(step(record, tool="create_grants", capability="grants:write"), grants=(anywhere,)) == "ask"


def test_effects_of_several_kinds_are_all_looked_at() -> None:
    """One effect in the folder does not take another one along."""
    inner = WriteFile("/home/ada/Downloads/a", "x", "create")
    for outer in (
        WriteFile("/home/ada/a", "x", "create"),
        CopyPath("/home/ada/Documents/a", "/home/ada/Downloads/b"),
        SendFile("/home/ada/Downloads/a", ("bob",)),
    ):
        assert answer(step(inner, outer)) == "ask"
        assert answer(step(outer, inner)) == "ask"


@pytest.mark.parametrize("amount", [{"files": 15}, {"bytes": 600}])
def test_amount_of_a_grant_is_that_of_the_whole_plan(amount: dict[str, int]) -> None:
    """Two steps within a grant that together touch more than it says are asked, whatever the policy's quantities."""
    policy = SHIPPED.model_copy(update={"raises": SHIPPED.raises.model_copy(update={"files": 1000})})
    first = step(MovePath("/home/ada/Downloads/a", "/home/ada/Downloads/b"), **amount)
    second = step(MovePath("/home/ada/Downloads/c", "/home/ada/Downloads/d"), **amount)
    assert answer(first, policy=policy) == "allow"
    assert answer(first, second, policy=policy) == "ask"

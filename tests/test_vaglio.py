"""Vaglio: levels and capabilities, quantities that only ever raise the answer, and guards that nothing lifts."""

from __future__ import annotations

import dataclasses
import itertools
import os
import threading
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.house import House
from support.scripted import plan

from metnosd.effects import CopyPath, Effect, MovePath, PackFiles, RestoreFile, TrashPath, UnpackArchive, WriteFile
from metnosd.grants import Grant
from metnosd.locations import shipped_config
from metnosd.plan import Plan
from metnosd.policy import Answer, Policy, PolicyError, load_policy
from metnosd.resolve import ResolvedPlan, ResolvedStep
from metnosd.sentence import say
from metnosd.user import User
from metnosd.vaglio import Case, Known, Vaglio, Verdict

SHIPPED = load_policy(shipped_config("policy.toml"))
NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
HOME = "/nowhere/ada"
ORDER: Mapping[str, int] = {"allow": 0, "ask": 1, "deny": 2}

FIND = ("find_files", {"extension": "txt"})
DELETE = plan(FIND, ("delete_files", {}))
TEXT = "delete the txt files"
MOVE = "move the txt files to Pictures"
TO_PICTURES = plan(FIND, ("move_files", {"to": "Pictures"}))
FULL = {"user": {"level": "full"}}


@dataclasses.dataclass(frozen=True, slots=True)
class SendNote(Effect):
    """Send a note to people: what the effects of mail and chat will look like to Vaglio."""

    kind: ClassVar[str] = "send"
    to: tuple[str, ...]

    def recipients(self) -> tuple[str, ...]:
        """Who gets it."""
        return self.to


def user(level: str = "full", name: str = "ada", home: str | None = HOME) -> User:
    """A person with that level."""
    return User(name, ("/",), home, "en", UTC, level)


def case(level: str = "full", now: datetime = NOON, **more: Any) -> Case:
    """The case of that person at noon."""
    return Case(user(level), now, **more)


def step(effect: Effect | None, capability: str = "fs:write", **more: Any) -> ResolvedStep:
    """A step of one effect."""
    more = {"files": 1, "bytes": 10} | more
    return ResolvedStep(1, more.pop("tool", "write_files"), capability, {}, (effect,) if effect else (), **more)


def judge(*steps: ResolvedStep, policy: Policy = SHIPPED, own: tuple[str, ...] = (), of: Case | None = None) -> Verdict:
    """The verdict on a plan of these steps."""
    vaglio = Vaglio(lambda: policy, own)
    return vaglio.judge(ResolvedPlan(Plan(()), {}, steps), of or case())


def with_levels(answer: Answer | None, capability: str = "fs:write", **raises: Any) -> Policy:
    """The shipped policy with one answer for one capability at level full, and other quantities."""
    levels = {"full": {capability: answer} if answer is not None else {}}
    return SHIPPED.model_copy(update={"levels": levels, "raises": SHIPPED.raises.model_copy(update=raises)})


NOTE = WriteFile(f"{HOME}/Documents/note.txt", "text", "create")

# levels and capabilities


@pytest.mark.parametrize("level", ["read_only", "supervised", "full", "root", ""])
@pytest.mark.parametrize("capability", sorted({c for level in SHIPPED.levels.values() for c in level} | {"net:write"}))
def test_level_answers_each_capability(level: str, capability: str) -> None:
    """The answer is the one of the matrix, the rule is level and capability; without a rule it is no."""
    levels: Mapping[str, Mapping[str, str]] = {str(name): rules for name, rules in SHIPPED.levels.items()}
    expected = levels.get(level, {}).get(capability, "deny")
    verdict = judge(step(NOTE, capability), of=case(level))
    assert verdict.answer == expected
    assert verdict.rule.startswith(f"{level}/{capability}")


def test_levels_are_as_people_expect() -> None:
    """Changing is denied to read_only, asked of supervised, allowed to full; a standing grant is asked of all."""
    found = {
        (level, capability): judge(step(NOTE, capability), of=case(level)).answer
        for level, capability in itertools.product(
            ("read_only", "supervised", "full"), ("fs:read", "fs:write", "fs:delete", "grants:write")
        )
    }
    for level, change in (("read_only", "deny"), ("supervised", "ask"), ("full", "allow")):
        assert found[level, "fs:read"] == "allow"
        assert found[level, "fs:write"] == found[level, "fs:delete"] == change
        assert found[level, "grants:write"] == ("deny" if level == "read_only" else "ask")


def test_policy_has_a_rule_for_every_executor(house: House) -> None:
    """No executor is shut out of every level for want of a rule."""
    for executor in house.assembly.parts.registry:
        answers = {judge(step(NOTE, executor.capability), of=case(level)).answer for level in ("supervised", "full")}
        assert answers != {"deny"}, f"{executor.name} needs {executor.capability}, which no level has"


def test_step_without_a_capability_is_denied() -> None:
    """What names no capability has no rule, and is not allowed for that."""
    assert judge(step(NOTE, "")).answer == "deny"
    assert judge(step(NOTE, "  ")).answer == "deny"


def test_plan_without_effects_is_allowed() -> None:
    """Where nothing would be changed there is nothing to judge."""
    verdict = judge()
    assert (verdict.answer, verdict.rule) == ("allow", "no_effect")


@pytest.mark.parametrize("order", list(itertools.permutations(("allow", "ask", "deny"))))
def test_strictest_of_several_capabilities_decides(order: tuple[str, str, str]) -> None:
    """A step that needs several capabilities, or a plan of several steps, gets the strictest answer in any order."""
    levels = {"full": {f"x:{answer}": answer for answer in order}}
    policy = SHIPPED.model_copy(update={"levels": levels})
    together = judge(step(NOTE, " ".join(f"x:{answer}" for answer in order)), policy=policy)
    apart = judge(*(step(NOTE, f"x:{answer}") for answer in order), policy=policy)
    assert (together.answer, together.rule) == (apart.answer, apart.rule) == ("deny", "full/x:deny")


def test_one_effect_of_many_decides() -> None:
    """One protected file among many that are not denies the whole."""
    effects = tuple(TrashPath(f"{HOME}/Documents/{number}", f"slot{number}") for number in range(10))
    bad = (*effects[:5], TrashPath(f"{HOME}/.ssh/id", "x"), *effects[5:])
    assert judge(dataclasses.replace(step(NOTE), effects=effects)).answer == "allow"
    assert judge(dataclasses.replace(step(NOTE), effects=bad)).rule == "guard/protected"


# quantities

RAISED: list[tuple[str, ResolvedStep, Case]] = [
    ("raises/files", step(NOTE, files=21), case()),
    ("raises/bytes", step(NOTE, bytes=100_000_001), case()),
    ("raises/overwriting", step(NOTE, overwrites=1), case()),
    ("raises/outside_usual", step(WriteFile(f"{HOME}/note.txt", "text", "create")), case()),
    ("raises/outside_usual", step(WriteFile("/srv/note.txt", "text", "create")), case()),
    ("raises/outside_usual", step(WriteFile(f"{HOME}/Documents2/note.txt", "text", "create")), case()),
    ("raises/outside_usual", step(MovePath(f"{HOME}/Documents/a", f"{HOME}/a")), case()),
    ("raises/outside_usual", step(MovePath(f"{HOME}/a", f"{HOME}/Documents/a")), case()),
    ("raises/first_recipient", step(SendNote(("bob",))), case(known=lambda _name: "new")),
    ("raises/night", step(NOTE), case(now=NOON.replace(hour=23), origin="schedule")),
    ("raises/night", step(NOTE), case(now=NOON.replace(hour=5, minute=59), origin="schedule")),
]


@pytest.mark.parametrize(("rule", "risky", "of"), RAISED)
def test_quantity_makes_a_question_of_an_allowance(rule: str, risky: ResolvedStep, of: Case) -> None:
    """What level full allows is asked when it is much, replaces something, lies elsewhere, is new or at night."""
    verdict = judge(risky, of=of)
    assert (verdict.answer, verdict.rule) == ("ask", rule)


@pytest.mark.parametrize(
    ("ordinary", "of"),
    [
        (step(NOTE, files=20), case()),
        (step(NOTE, bytes=100_000_000), case()),
        (step(NOTE, overwrites=0), case()),
        (step(CopyPath("/srv/a", f"{HOME}/Documents/a")), case()),
        (step(SendNote(("bob",))), case(known=lambda _name: "known")),
        (step(NOTE), case(now=NOON.replace(hour=22, minute=59), origin="schedule")),
        (step(NOTE), case(now=NOON.replace(hour=6), origin="schedule")),
        (step(NOTE), case(now=NOON.replace(hour=23), origin="message")),
    ],
)
def test_ordinary_amount_is_allowed(ordinary: ResolvedStep, of: Case) -> None:
    """Up to the limit itself nothing is asked; what is only read may lie anywhere; night is for schedules alone."""
    assert judge(ordinary, of=of).answer == "allow"


@pytest.mark.parametrize(("_rule", "risky", "of"), RAISED)
@pytest.mark.parametrize("answer", ["ask", "deny", None])
def test_quantity_never_lowers(answer: Answer | None, _rule: str, risky: ResolvedStep, of: Case) -> None:
    """What is asked or denied by the level stays so, whatever the quantities are."""
    assert judge(risky, of=of, policy=with_levels(answer)).answer == (answer or "deny")


@given(
    files=st.integers(0, 40),
    size=st.integers(0, 200_000_000),
    overwrites=st.integers(0, 2),
    hour=st.integers(0, 23),
    where=st.sampled_from(["Documents/a", "a", ".ssh/a"]),
    known=st.sampled_from(["known", "new", "unknown"]),
    scheduled=st.booleans(),
    level=st.sampled_from(["read_only", "supervised", "full"]),
)
def test_more_is_never_judged_milder(
    files: int, size: int, overwrites: int, hour: int, where: str, known: Known, scheduled: bool, level: str
) -> None:
    """Whatever the level says of one file by day, the answer to more of anything is at least as strict."""
    plain = judge(step(NOTE), of=case(level)).answer
    effects = (WriteFile(f"{HOME}/{where}", "text", "replace"), SendNote(("bob",)))
    much = dataclasses.replace(step(None, files=files, bytes=size, overwrites=overwrites), effects=effects)
    of = case(level, NOON.replace(hour=hour), origin="schedule" if scheduled else "message", known=lambda _name: known)
    assert ORDER[judge(much, of=of).answer] >= ORDER[plain]


def test_quantities_of_all_steps_count_together() -> None:
    """Two steps of 11 files are 22 files; the same goes for bytes."""
    assert judge(step(NOTE, files=11), step(NOTE, files=11)).rule == "raises/files"
    assert judge(step(NOTE, bytes=60_000_000), step(NOTE, bytes=60_000_000)).rule == "raises/bytes"
    assert judge(step(NOTE, files=10), step(NOTE, files=10)).answer == "allow"


@pytest.mark.parametrize(("rule", "risky", "of"), RAISED)
def test_each_quantity_can_be_switched_off_or_moved(rule: str, risky: ResolvedStep, of: Case) -> None:
    """The quantities are settings: with others the same plan is allowed."""
    others: dict[str, Any] = {
        "files": 1000,
        "bytes": 10**12,
        "overwriting": False,
        "outside_usual": False,
        "first_recipient": False,
        "night": ["12:00", "12:00"],
    }
    policy = SHIPPED.model_copy(update={"raises": SHIPPED.raises.model_copy(update=others)})
    assert judge(risky, of=of).rule == rule
    assert judge(risky, of=of, policy=policy).answer == "allow"


def test_usual_folders_may_be_paths_and_are_those_of_the_desktop(tmp_path: Path) -> None:
    """A usual folder is where the desktop's own file puts it, or a path of the policy; names alone do not count."""
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config" / "user-dirs.dirs").write_text('XDG_DOCUMENTS_DIR="$HOME/Schriften"\n')
    policy = with_levels("allow", usual=["DOCUMENTS", "DOWNLOAD", "/srv/pool", "~/Work"])
    who = Case(user(home=str(tmp_path)), NOON)
    home = os.path.realpath(tmp_path)

    def answer(path: str) -> str:
        return judge(step(WriteFile(path, "text", "create")), policy=policy, of=who).answer

    for usual in (f"{home}/Schriften/a", f"{home}/Downloads/a", f"{home}/Work/a", "/srv/pool/a", "/srv/pool/b/a"):
        assert answer(usual) == "allow", usual
    for other in (f"{home}/Documents/a", f"{home}/Pictures/a", f"{home}/a", "/srv/pool2/a", "/srv/a"):
        assert answer(other) == "ask", other


def test_without_a_home_every_place_is_unusual() -> None:
    """A person without a home has no usual folders, so everything is asked."""
    assert judge(step(NOTE), of=Case(user(home=None), NOON)).rule == "raises/outside_usual"


def test_night_is_that_of_the_users_zone(tmp_path: Path) -> None:
    """What a schedule does at noon in London is done at night in Auckland."""
    night = NOON.astimezone(ZoneInfo("Pacific/Auckland"))
    assert judge(step(NOTE), of=case(now=NOON, origin="schedule")).answer == "allow"
    assert judge(step(NOTE), of=case(now=night, origin="schedule")).rule == "raises/night"


def test_question_of_an_executor_is_put_at_every_level() -> None:
    """What an executor itself wants asked is asked even where the level allows it, and denied where that denies."""
    asking = step(NOTE, ask=say("undo.changed", path="x"))
    assert judge(asking).rule == "executor/undo.changed"
    assert judge(asking, of=case("read_only")).answer == "deny"


# quantities of real files, by message


@pytest.fixture
async def full(tmp_path: Path) -> Any:
    """A daemon whose person has level full, with a usual folder."""
    made = House(tmp_path, settings=FULL)
    made.put("Documents/", "Pictures/")
    yield made
    await made.close()


async def done_unasked(house: House, text: str, *answers: str) -> None:
    """Take a turn that must put no question and be done."""
    talk = house.say(text, *answers)
    talk.unasked()
    reply = await talk.reply()
    assert reply.outcome["status"] == "done", reply


async def list_folder(house: House, path: str) -> None:
    """Make what is in a folder the last outcome, so that the next message can say "them"."""
    house.model.answers.clear()
    await done_unasked(house, f"what is in {path}?", plan(("list_dirs", {"path": path})))


DELETE_THEM = plan(("delete_files", {}, 0))


async def asked_why(house: House, text: str, *answers: str) -> str:
    """Take a turn that must put a question, answer no, and give the question's text; nothing was done."""
    before = house.tree()
    talk = house.say(text, *answers)
    question = await talk.question()
    await talk.answer_no()
    assert house.tree() == before
    return question.text


async def test_twenty_files_are_moved_and_of_twenty_one_is_asked(full: House) -> None:
    """Level full moves 20 files without a question; one more makes it one, with the count in it."""
    full.put(*(f"Documents/{number}.txt" for number in range(20)))
    await done_unasked(full, MOVE, TO_PICTURES)
    full.put(*(f"Documents/{number}.txt" for number in range(21)))
    steps = plan(("find_files", {"path": "Documents", "extension": "txt"}), ("delete_files", {}))
    assert "21 files" in await asked_why(full, "delete the txt files in Documents", steps)


@pytest.mark.parametrize("hidden", [False, True])
async def test_files_inside_a_folder_count(full: House, hidden: bool) -> None:
    """A folder counts with all that is in it, however deep and hidden or not."""
    full.put(*(f"Documents/Box/{number}/{'.' if hidden else ''}{number}.md" for number in range(21)))
    await list_folder(full, "Documents")
    assert "21 files" in await asked_why(full, "delete them", DELETE_THEM)
    (full.home / "Documents" / "Box" / "0" / f"{'.' if hidden else ''}0.md").unlink()
    await list_folder(full, "Documents")
    await done_unasked(full, "delete them", DELETE_THEM)


async def test_packed_files_count(full: House) -> None:
    """An archive of 21 files is about 21 files."""
    full.put(*(f"Documents/{number}.txt" for number in range(21)))
    steps = plan(FIND, ("compress_files", {"to": "Documents/all.zip", "format": "zip"}))
    assert "21 files" in await asked_why(full, "compress the txt files to Documents/all.zip", steps)


async def test_unpacked_files_count(full: House) -> None:
    """An archive that holds 21 files makes 21 files, so it is asked before it is extracted."""
    with zipfile.ZipFile(full.home / "Documents" / "all.zip", "w") as archive:
        for number in range(21):
            archive.writestr(f"{number}.txt", "text")
    steps = plan(("find_files", {"name": "all.zip"}), ("extract_archives", {}))
    await asked_why(full, "extract all.zip", steps)


async def test_bytes_count(full: House) -> None:
    """More than 100 MB in one plan is asked of level full, also where they are one file in a folder."""
    full.put("Documents/Box/a.txt")
    os.truncate(full.home / "Documents" / "Box" / "a.txt", 100_000_001)
    assert "100 MB" in await asked_why(full, MOVE, TO_PICTURES)
    await list_folder(full, "Documents")
    assert "100 MB" in await asked_why(full, "delete them", DELETE_THEM)
    os.truncate(full.home / "Documents" / "Box" / "a.txt", 100_000_000)
    await done_unasked(full, MOVE, TO_PICTURES)


async def test_replacing_is_asked_and_adding_is_not(full: House) -> None:
    """Level full writes new files and adds to old ones; replacing what a file holds is asked."""

    def write(mode: str) -> str:
        return plan(("write_files", {"path": "Documents/a.txt", "text": "new", "mode": mode}))

    await done_unasked(full, "write 'new' into Documents/a.txt", write("create"))
    await done_unasked(full, "add 'new' to Documents/a.txt", write("append"))
    assert "replaces" in await asked_why(full, "replace Documents/a.txt by 'new'", write("replace"))
    await done_unasked(full, "write 'new' into Documents/a.txt", write("create"))


async def test_files_of_a_whole_plan_count_together(full: House) -> None:
    """A plan that acts, looks again and acts again is one plan: its files count together."""
    full.put(*(f"Documents/{number}.txt" for number in range(15)))
    full.put(*(f"Pictures/{number}.jpg" for number in range(15)))
    steps = plan(
        ("find_files", {"path": "Documents", "extension": "txt"}),
        ("delete_files", {}),
        ("find_files", {"path": "Pictures", "extension": "jpg"}),
        ("delete_files", {}),
    )
    talk = full.say("delete the txt files in Documents and the jpg files in Pictures", steps)
    await talk.question()
    await talk.answer_no()


async def test_amounts_are_measured_anew_when_asked_again(full: House) -> None:
    """A folder that grew between question and yes is asked again, with the count that it has by then."""
    full.put(*(f"Documents/Box/{number}.md" for number in range(21)))
    await list_folder(full, "Documents")
    talk = full.say("delete them", DELETE_THEM)
    await talk.question()
    full.put(*(f"Documents/Box/new {number}.md" for number in range(100)))
    assert await full.daemon.consent(full.owner, talk.events[-1].token, True)  # type: ignore[union-attr]
    again = await talk.question()
    assert "121 files" in again.text and "21 files" not in again.text.replace("121 files", "")
    await talk.answer_no()


# guards

PROTECTED = [f"{HOME}/.ssh", f"{HOME}/.ssh/id_ed25519", f"{HOME}/.gnupg/x/y", "/etc/shadow", f"{HOME}/.mozilla/a"]


def touching(path: str) -> list[Effect]:
    """Everything that can be done with a path."""
    other = f"{HOME}/Documents/other"
    return [
        TrashPath(path, "slot"),
        WriteFile(path, "text", "append"),
        RestoreFile(path, "blob"),
        MovePath(path, other),
        MovePath(other, path),
        CopyPath(path, other),
        CopyPath(other, path),
        PackFiles((other, path), f"{HOME}/Documents/x.zip", "zip"),
        PackFiles((other,), path, "zip"),
        UnpackArchive(path, other),
        UnpackArchive(other, path),
    ]


def everything_granted() -> Case:
    """The case of somebody who has allowed everything everywhere to every executor, and whom everybody knows."""
    grants = [
        Grant(f"{tool}{capability}", "ada", tool, capability, ("/",), None, 10**6, 10**12, NOON)
        for tool in ("write_files", "move_files")
        for capability in ("fs:write", "fs:delete", "system:restart")
    ]
    return case(grants=grants, known=lambda _name: "known")


@pytest.mark.parametrize("path", PROTECTED)
def test_protected_place_is_denied_whatever_is_done_with_it(path: str) -> None:
    """No level and no grant lets anybody read, change, make or take away a protected place."""
    for effect, of in itertools.product(touching(path), (case(), everything_granted())):
        verdict = judge(step(effect), of=of)
        assert (verdict.answer, verdict.rule) == ("deny", "guard/protected"), effect


TAKING: list[type[Effect]] = [TrashPath, MovePath, CopyPath, PackFiles]


@pytest.mark.parametrize("above", [HOME, os.path.dirname(HOME)])
@pytest.mark.parametrize("kind", TAKING)
def test_folder_that_holds_a_protected_place_is_denied(above: str, kind: type[Effect]) -> None:
    """Deleting, moving, copying or packing a folder takes along what is in it, so a protected place denies it."""
    effect = next(item for item in touching(above) if type(item) is kind)
    assert judge(step(effect)).answer == "deny"


@pytest.mark.parametrize("name", ["Downloads", ".sshx", ".ssh2/id", "x/.ssh/id", ".config/ghost"])
def test_names_like_protected_ones_are_not_protected(name: str) -> None:
    """A guard is about a place and what is in it, not about names that begin like it."""
    assert judge(step(TrashPath(f"{HOME}/{name}", "slot"))).answer != "deny"


@pytest.mark.parametrize("said", ["/srv/vault", "/srv/vault/", "/srv//vault", "/srv/./vault", "/srv/x/../vault"])
@pytest.mark.parametrize("guard", ["protected", "system"])
def test_guard_is_about_the_place_however_it_is_spelled(tmp_path: Path, said: str, guard: str) -> None:
    """A slash too many in the policy does not open the folder itself or what is in it."""
    own = tmp_path / "policy.toml"
    own.write_text(f'[levels.full]\n"fs:write" = "allow"\n[guards]\n{guard} = ["{said}"]\n')
    policy = load_policy(shipped_config("policy.toml"), own)
    for path in ("/srv/vault", "/srv/vault/a"):
        assert judge(step(TrashPath(path, "slot")), policy=policy).rule == f"guard/{guard}"


@pytest.mark.parametrize("guard", ["protected", "system"])
def test_guard_follows_the_link_that_it_names(tmp_path: Path, guard: str) -> None:
    """A guarded place that is a link guards where the link leads, since that is where requests end up."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    guards = SHIPPED.guards.model_copy(update={guard: [f"{tmp_path}/link"]})
    policy = SHIPPED.model_copy(update={"guards": guards})
    real = os.path.realpath(tmp_path / "real")
    assert judge(step(TrashPath(f"{real}/a", "slot")), policy=policy).rule == f"guard/{guard}"


@pytest.mark.parametrize(
    "path", ["/usr/bin/ls", "/etc/hosts", "/bin", "/boot/x", "/proc/1/mem", "/var/lib/dpkg", "/opt"]
)
def test_system_tree_may_be_read_and_not_changed(path: str) -> None:
    """System trees are denied to everything that writes there, and open to what copies from there."""
    other = f"{HOME}/Documents/other"
    for of in (case(), everything_granted()):
        for effect in (
            TrashPath(path, "s"),
            MovePath(path, other),
            CopyPath(other, path),
            WriteFile(path, "", "append"),
        ):
            assert judge(step(effect), of=of).rule == "guard/system"
        assert judge(step(CopyPath(path, other)), of=of).answer == "allow"


@pytest.mark.parametrize("path", ["/var", "/"])
def test_folder_that_holds_a_system_tree_is_denied(path: str) -> None:
    """Taking /var away takes /var/lib away."""
    assert judge(step(TrashPath(path, "s"))).answer == "deny"
    assert judge(step(MovePath(path, f"{HOME}/Documents/x"))).answer == "deny"


def test_own_state_is_denied() -> None:
    """The daemon's own folders are out of reach whatever the policy says, and so is what holds them."""
    policy = SHIPPED.model_copy(update={"guards": SHIPPED.guards.model_copy(update={"protected": []})})
    for path in ("/srv/state", "/srv/state/metnosd.db", "/srv"):
        for effect in (TrashPath(path, "s"), MovePath(path, f"{HOME}/Documents/x"), CopyPath(path, f"{HOME}/x")):
            verdict = judge(step(effect), policy=policy, own=("/srv/state",), of=everything_granted())
            assert verdict.answer == "deny", effect


@pytest.mark.parametrize("known", ["unknown", None])
def test_unknown_recipient_is_denied(known: Known | None) -> None:
    """Nothing goes to somebody whom nobody knows, also where one of several recipients is known."""
    everybody: dict[str, Known] = {"bob": "known", "eve": "unknown"}
    of = case() if known is None else case(known=lambda name: everybody[name])
    assert judge(step(SendNote(("bob", "eve"))), of=of).rule == "guard/recipient"


def test_unknown_recipient_is_not_lifted_by_a_grant() -> None:
    """A grant for a recipient who is not known any more does not reach them."""
    grant = Grant("g", "ada", "write_files", "fs:write", (), "eve", 20, 1000, NOON)
    verdict = judge(step(SendNote(("eve",))), of=case("supervised", grants=[grant], known=lambda _name: "unknown"))
    assert (verdict.answer, verdict.rule) == ("deny", "guard/recipient")


def test_first_message_is_not_asked_under_a_grant_for_that_person() -> None:
    """Who allowed writing to somebody once and for all is not asked before the first message; others are."""
    grant = Grant("g", "ada", "write_files", "fs:write", (), "bob", 20, 1000, NOON)
    of = case("supervised", grants=[grant], known=lambda _name: "new")
    verdict = judge(step(SendNote(("bob",))), of=of)
    assert (verdict.answer, verdict.rule, verdict.grant) == ("allow", "grant/g", "g")
    assert judge(step(SendNote(("eve",))), of=of).answer == "ask"
    assert judge(step(SendNote(("bob", "eve"))), of=of).answer == "ask"


def test_never_is_never() -> None:
    """A capability of `never` is denied at a level that allows it, under every grant, and is not even offered."""
    policy = with_levels("allow", "system:restart")
    verdict = judge(step(NOTE, "system:restart"), policy=policy, of=everything_granted())
    assert (verdict.answer, verdict.rule) == ("deny", "guard/never")
    mixed = Vaglio(lambda: policy).judge_capability("fs:read system:restart", user())
    assert (mixed.answer, mixed.rule) == ("deny", "guard/never")


@pytest.mark.parametrize("capability", ["schedule:write", "grants:write", "consent:answer"])
def test_what_a_schedule_never_does(capability: str) -> None:
    """A schedule makes no schedules and no grants and answers no questions, though a message may."""
    policy = with_levels("allow", capability)
    assert judge(step(NOTE, capability), policy=policy).answer == "allow"
    verdict = judge(step(NOTE, capability), policy=policy, of=case(origin="schedule"))
    assert (verdict.answer, verdict.rule) == ("deny", "guard/never_scheduled")


async def test_root_inside_a_protected_place_opens_nothing(tmp_path: Path) -> None:
    """Even where a root is ~/.ssh itself or lies in it, nothing there is read, moved, written or deleted."""
    keys = tmp_path / "home" / ".ssh" / "more"
    keys.mkdir(parents=True)
    (keys / "a.txt").write_text("secret")
    for root in (keys, keys.parent):
        house = House(tmp_path, settings=FULL | {"files": {"roots": [str(root)]}})
        for text, answer in (
            (TEXT, DELETE),
            ("read a.txt", plan(("find_files", {"name": "a.txt"}), ("read_files", {}))),
            ("write 'x' into b.txt", plan(("write_files", {"path": "b.txt", "text": "x"}))),
        ):
            talk = house.say(text, answer, answer)
            talk.unasked()
            reply = await talk.reply()
            assert reply.outcome["status"] != "done" and "secret" not in reply.text, reply
        house.model.answers.clear()
        await house.close()
    assert [path.name for path in keys.iterdir()] == ["a.txt"]


async def test_copy_of_a_folder_does_not_carry_a_protected_place_out(tmp_path: Path) -> None:
    """A guarded folder is not copied, packed, moved or deleted with the folder around it."""
    house = House(tmp_path, settings=FULL)
    own = house.places.config_dir / "policy.toml"
    rules = "\n".join(f'"{name}" = "allow"' for name in ("answer", "fs:read", "fs:write", "fs:delete"))
    more = '[raises]\nusual = ["DOCUMENTS", "PICTURES"]\n[guards]\nprotected = ["~/Documents/Work/Vault"]\n'
    own.write_text(f"[levels.full]\n{rules}\n{more}")
    house.put("Documents/Work/Vault/key.md", "Documents/Work/a.md", "Pictures/")
    before = house.tree()
    for text, answer in (
        ("copy them to Pictures", plan(("copy_files", {"to": "Pictures"}, 0))),
        ("move them to Pictures", plan(("move_files", {"to": "Pictures"}, 0))),
        ("compress them to Pictures/w.zip", plan(("compress_files", {"to": "Pictures/w.zip", "format": "zip"}, 0))),
        ("delete them", DELETE_THEM),
    ):
        await list_folder(house, "Documents")
        talk = house.say(text, answer)
        talk.unasked()
        reply = await talk.reply()
        assert house.tree() == before, (text, reply)
        assert reply.outcome["status"] in ("refused", "failed")
    await house.close()


async def test_system_tree_is_not_written_with_the_root_of_everything(tmp_path: Path) -> None:
    """With / as root, a file in /etc is neither made nor appended to, and nothing is asked."""
    house = House(tmp_path, settings=FULL | {"files": {"roots": ["/"]}})
    paths = ("/etc/metnos-test.txt", "/usr/metnos-test.txt", "/var/lib/metnos-test.txt")
    for path in paths:
        answer = plan(("write_files", {"path": path, "text": "x"}))
        talk = house.say(f"write 'x' into {path}", answer)
        talk.unasked()
        reply = await talk.reply()
        assert reply.outcome["status"] == "refused", reply
    await house.close()
    assert not any(map(os.path.lexists, paths))


async def test_own_state_is_out_of_reach_with_a_root_above_it(tmp_path: Path) -> None:
    """The daemon's own database, settings and keep are not read, deleted or moved, nor is the folder around them."""
    outer = tmp_path / "outer"
    outer.mkdir()
    house = House(outer, settings=FULL | {"files": {"roots": [str(tmp_path)]}})
    state = {path.name for path in house.state.iterdir()}
    write = plan(("write_files", {"path": "outer/state/policy.toml", "text": "x"}))
    for text, *answers in (
        ("delete metnosd.db", *[plan(("find_files", {"name": "metnosd.db"}), ("delete_files", {}))]),
        ("write 'x' into outer/state/policy.toml", *[write, write]),
        ("delete them", DELETE_THEM),
        ("copy them to outer/home", plan(("copy_files", {"to": "outer/home"}, 0))),
    ):
        if "them" in text:
            await list_folder(house, str(tmp_path))
        talk = house.say(text, *answers)
        talk.unasked()
        reply = await talk.reply()
        assert reply.outcome["status"] != "done", (text, reply)
        assert state <= {path.name for path in house.state.iterdir()}
        house.model.answers.clear()
    await house.close()


# fail closed


def test_exception_inside_is_a_denial(capsys: pytest.CaptureFixture[str]) -> None:
    """What goes wrong while judging is a denial with the reason, logged, and kept for `doctor`."""

    def broken(_name: str) -> Known:
        raise ZeroDivisionError("by a test")

    vaglio = Vaglio(lambda: SHIPPED)
    verdict = vaglio.judge(ResolvedPlan(Plan(()), {}, (step(SendNote(("bob",))),)), case(known=broken))
    assert (verdict.answer, verdict.rule) == ("deny", "fault/ZeroDivisionError")
    assert "by a test" in str(verdict.reason.values["reason"])
    assert [fault.error for fault in vaglio.faults] == ["ZeroDivisionError: by a test"]
    assert "vaglio_fault" in capsys.readouterr().out


@pytest.mark.parametrize(
    "error", [PolicyError("x"), OSError("x"), ValueError("x"), RecursionError("x"), MemoryError("x")]
)
def test_policy_that_cannot_be_had_is_a_denial_everywhere(error: Exception) -> None:
    """Whatever keeps the policy from being read: judging, offering and reading are denied, and nothing is raised."""

    def read() -> Policy:
        raise error

    vaglio = Vaglio(read)
    assert vaglio.judge(ResolvedPlan(Plan(()), {}, (step(NOTE),)), case()).answer == "deny"
    assert vaglio.judge_capability("fs:read", user()).answer == "deny"


def test_denied_even_where_no_effect_is_pending() -> None:
    """A policy that cannot be read denies also a plan that would change nothing."""

    def read() -> Policy:
        raise PolicyError("x")

    assert Vaglio(read).judge(ResolvedPlan(Plan(()), {}), case()).answer == "deny"


def test_few_faults_are_remembered() -> None:
    """The faults do not grow without end."""
    vaglio = Vaglio(lambda: SHIPPED)
    for number in range(1000):
        vaglio.fault(NOON + timedelta(seconds=number), ValueError(str(number)))
    assert len(vaglio.faults) == 20 and vaglio.faults[-1].error == "ValueError: 999"


async def test_exception_while_judging_denies_the_request(full: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """By message: nothing is done, the reply says that it could not be judged, and `status` shows the fault."""
    full.put("Documents/a.txt")

    def broken(*_args: object) -> Any:
        raise ZeroDivisionError("by a test")

    monkeypatch.setattr("metnosd.vaglio._raises", broken)
    reply = await full.ask(TEXT, DELETE)
    assert reply.outcome["status"] == "refused" and "could not judge" in reply.text
    assert "Documents/a.txt" in full.tree()
    assert "by a test" in (await full.daemon.status())["policy"]["faults"][-1]["error"]


async def test_judgement_that_hangs_is_a_denial(full: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judgement that does not come in time denies, is shown as a fault, and holds nothing up after it."""
    full.put("Documents/a.txt")
    go = threading.Event()
    vaglio = full.assembly.parts.vaglio
    judged = vaglio.judge

    def hang(resolved: ResolvedPlan, of: Case) -> Verdict:
        go.wait(20)
        return judged(resolved, of)

    monkeypatch.setattr("metnosd.leave.JUDGE_SECONDS", 0.05)
    monkeypatch.setattr(vaglio, "judge", hang)
    try:
        reply = await full.ask(TEXT, DELETE)
        assert reply.outcome["status"] == "refused"
        assert "Documents/a.txt" in full.tree()
        assert "TimeoutError" in (await full.daemon.status())["policy"]["faults"][-1]["error"]
    finally:
        go.set()
    monkeypatch.undo()
    await done_unasked(full, TEXT, DELETE)


# what is shown


async def test_plan_command_shows_the_rule(house: House) -> None:
    """`metnosd plan` shows answer and rule, marks them provisional where targets are unknown, and runs nothing."""
    house.put("a.txt")
    house.model.will(DELETE)
    shown = await house.daemon.plan(house.owner, TEXT, lang=None)
    verdict = shown["verdict"]
    assert (verdict["answer"], verdict["rule"], verdict["provisional"]) == ("ask", "supervised/fs:delete", True)
    assert list(house.tree()) == ["a.txt"]
    house.model.will(plan(FIND))
    shown = await house.daemon.plan(house.owner, "find the txt files", lang=None)
    assert (shown["verdict"]["answer"], shown["verdict"]["provisional"]) == ("allow", False)


@pytest.mark.parametrize(("level", "answer"), [("supervised", "ask"), ("full", "allow")])
async def test_plan_command_shows_the_level(tmp_path: Path, level: str, answer: str) -> None:
    """The verdict of `metnosd plan` is that of the person's level, and says so."""
    house = House(tmp_path, settings={"user": {"level": level}})
    house.put("Documents/a.txt")
    house.model.will(DELETE)
    verdict = (await house.daemon.plan(house.owner, TEXT, lang=None))["verdict"]
    assert verdict is not None and verdict["answer"] == answer
    assert verdict["rule"].startswith(f"{level}/fs:delete")
    await house.close()


async def test_what_the_level_denies_is_not_offered(tmp_path: Path) -> None:
    """The planner of a person who may only read is offered nothing that changes something."""
    house = House(tmp_path, settings={"user": {"level": "read_only"}})
    house.put("a.txt")
    shown = await house.daemon.plan(house.owner, TEXT, lang=None, model=False)
    effects = {item.name for item in house.assembly.parts.registry if item.effect}
    assert shown["pool"] and effects.isdisjoint(shown["pool"])
    await house.close()


async def test_what_the_level_denies_is_refused_with_the_reason(tmp_path: Path) -> None:
    """Who may only read and asks for a change is told that it is not allowed, without asking the model."""
    house = House(tmp_path, settings={"user": {"level": "read_only"}})
    house.put("a.txt")
    reply = await house.ask("delete a.txt")
    assert reply.outcome["status"] == "refused" and "fs:delete" in reply.text
    assert "a.txt" in house.tree() and house.model.asked == []
    await house.close()


async def test_history_keeps_verdict_and_rule(full: House) -> None:
    """What was decided, and by which rule, is kept with the turn."""
    full.put("Documents/a.txt", "b.txt")
    await done_unasked(full, "delete a.txt", plan(("find_files", {"name": "a.txt"}), ("delete_files", {})))
    await full.ask("delete b.txt", plan(("find_files", {"name": "b.txt"}), ("delete_files", {})), yes=True)
    rows = full.assembly.store.rows("select verdict, rule from turns where verdict is not null order by rowid")
    assert [(row["verdict"], row["rule"]) for row in rows] == [
        ("allow", "full/fs:delete"),
        ("ask", "raises/outside_usual"),
    ]

"""The policy file: its mistakes are named, its guards only ever grow, and an edit counts from the next request."""

from __future__ import annotations

import os
import re
import threading
import tomllib
from datetime import time
from pathlib import Path

import pytest
from support.house import House, house_places
from support.scripted import plan
from support.scripted import say as in_words

from metnosd.locations import shipped_config
from metnosd.policy import Policy, PolicyError, line_of, load_policy
from metnosd.vaglio import PolicyFile

SHIPPED = shipped_config("policy.toml")

TEXT = "delete the txt files"
DELETE = plan(("find_files", {"extension": "txt"}), ("delete_files", {}))

OWN = """\
# mine
[levels.supervised]
"answer" = "allow"
"fs:read" = "allow"
"fs:write" = "ask"

[raises]
files = 3
night = ["22:00", "07:00"]

[guards]
protected = [
    "~/Private",
]
"""

LEVELS = """\
[levels.supervised]
"fs:read" = "allow"
"answer" = "allow"
"journal:undo" = "allow"
"fs:delete" = "{answer}"
[raises]
usual = ["DOCUMENTS"]
exempt = ["journal:undo"]
"""


def load(folder: Path, text: str | bytes) -> Policy:
    """The policy of a user whose file holds `text`."""
    own = folder / "policy.toml"
    own.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_policy(SHIPPED, own)


def mistake(folder: Path, text: str | bytes) -> str:
    """What is said of a file that holds `text`; every line of it names the file."""
    with pytest.raises(PolicyError) as caught:
        load(folder, text)
    said = str(caught.value)
    assert all(line.startswith(f"{folder / 'policy.toml'}") for line in said.splitlines()), said
    return said


def test_shipped_policy_is_read() -> None:
    """The shipped file has no mistake and rules for every level."""
    policy = load_policy(SHIPPED)
    assert set(policy.levels) == {"read_only", "supervised", "full"}


def test_own_file_that_is_not_there_leaves_the_shipped_one(tmp_path: Path) -> None:
    """Without a file of the user the shipped policy holds as it is."""
    assert load_policy(SHIPPED, tmp_path / "policy.toml") == load_policy(SHIPPED)


def test_own_file_takes_the_place_of_levels_and_raises(tmp_path: Path) -> None:
    """Levels and quantities are those of the user's file alone: what it leaves out has no rule."""
    policy = load(tmp_path, OWN)
    assert policy.levels == {"supervised": {"answer": "allow", "fs:read": "allow", "fs:write": "ask"}}
    assert (policy.raises.files, policy.raises.night) == (3, ["22:00", "07:00"])


def test_guards_of_the_own_file_are_added_to_the_shipped_ones(tmp_path: Path) -> None:
    """No guard can be taken away: each list is the shipped one and then what the user adds, each item once."""
    shipped = load_policy(SHIPPED).guards
    lists = 'protected = ["/srv/vault", "~/.ssh"]\nsystem = ["/srv"]\nnever = ["fs:delete"]\nnever_scheduled = ["x"]\n'
    found = load(tmp_path, LEVELS.format(answer="ask") + "[guards]\n" + lists).guards
    assert found.protected == [*shipped.protected, "/srv/vault"]
    assert found.system == [*shipped.system, "/srv"]
    assert found.never == [*shipped.never, "fs:delete"]
    assert found.never_scheduled == [*shipped.never_scheduled, "x"]


@pytest.mark.parametrize("text", ["", "[guards]\nprotected = []\nsystem = []\nnever = []\nnever_scheduled = []\n"])
def test_own_file_without_guards_keeps_the_shipped_ones(tmp_path: Path, text: str) -> None:
    """No section, or empty lists, switch no guard off."""
    assert load(tmp_path, LEVELS.format(answer="ask") + text).guards == load_policy(SHIPPED).guards


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("[levels.root]\n'fs:read' = 'allow'", 1, "levels.root"),
        ("[levels.full]\n\n'fs:read' = 'allow'\n'fs:write' = 'maybe'", 4, "levels.full.fs:write = 'maybe'"),
        ('[levels.full]\n"fs:write" = "Allow"', 2, "levels.full.fs:write = 'Allow'"),
        ('[levels.full]\n"fs:write" = " ask"', 2, "levels.full.fs:write = ' ask'"),
        ('[levels.full]\n"fs:write" = true', 2, "levels.full.fs:write = True"),
        ('[levels.full]\n"fs:write" = ["ask"]', 2, "levels.full.fs:write = ['ask']"),
        ('[levels.full]\nfs.write = "ask"', 2, "levels.full.fs"),
        ('[levels]\nfull = "ask"', 2, "levels.full = 'ask'"),
        ('levels = "full"', 1, "levels = 'full'"),
        ('# nothing\n[levels.full]\n"fs:read" = "allow"\n"fs:read.x" = "no"', 4, "levels.full.fs:read.x"),
        ('levels.full."fs:write" = "no"', 1, "levels.full.fs:write"),
        ('[levels]\nfull."fs:read" = "ask"\nfull."fs:write" = "no"', 3, "levels.full.fs:write"),
        ("[levels]\nfull.'fs:write' = \"no\"", 2, "levels.full.fs:write"),
        ('[levels]\n"full"."fs:write" = "no"', 2, "levels.full.fs:write"),
        ('[levels]\n\nfull = { "fs:write" = "no" }', 3, "levels.full.fs:write"),
        ('[ levels . full ]\n"fs:write" = "no"', 2, "levels.full.fs:write"),
        ('[levels."full"] # the level\n"fs:write" = "no"', 2, "levels.full.fs:write"),
        ('[levels]\nfull . "fs:write" = "no"', 2, "levels.full.fs:write"),
        ('[levels.full]\n"fs:\\u0077rite" = "no"', 2, "levels.full.fs:write"),
        ('[[levels]]\nfull = "ask"', 1, "levels"),
        ("[levels]\n[raises]\n\nfiles = -1", 4, "raises.files = -1"),
        ('[levels]\n[raises]\nfiles = "20"', 3, "raises.files = '20'"),
        ("[levels]\n[raises]\nfiles = 20.0", 3, "raises.files = 20.0"),
        ("[levels]\n[raises]\nfiles = true", 3, "raises.files = True"),
        ("[levels]\n[raises]\nfiles = nan", 3, "raises.files = nan"),
        ('[levels]\n[raises]\nbytes = "100 MB"', 3, "raises.bytes"),
        ('[levels]\n[raises]\noverwriting = "yes"', 3, "raises.overwriting = 'yes'"),
        ("[levels]\n[raises]\noverwriting = 1", 3, "raises.overwriting = 1"),
        ('[levels]\n[raises]\nnight = "23:00"', 3, "raises.night"),
        ('[levels]\n[raises]\nnight = ["23:00"]', 3, "raises.night"),
        ('[levels]\n[raises]\nnight = ["23:00", "06:00", "07:00"]', 3, "raises.night"),
        ('[levels]\n[raises]\nnight = ["23:00", "24:00"]', 3, "raises.night"),
        ('[levels]\n[raises]\nnight = ["23:00", "6:00"]', 3, "raises.night"),
        ("[levels]\n[raises]\nnight = [23:00:00, 06:00:00]", 3, "raises.night"),
        ('[levels]\n[raises]\nusual = "DOCUMENTS"', 3, "raises.usual"),
        ("[levels]\n[raises]\nmany = 20", 3, "raises.many"),
        ("[levels]\nraise.files = 20", 2, "levels.raise"),
        ("[levels]\n[rises]\nfiles = 20", 2, "rises"),
        ("surprise = 1\n[levels]", 1, "surprise = 1"),
        ('[levels]\n[guards]\n\n\nprotected = "~/x"', 5, "guards.protected"),
        ('[levels]\n[guards]\nprotected = [\n  "~/x",\n  5,\n]', 3, "guards.protected"),
        ('[levels]\n[guards]\nprotected = ["Private"]', 3, "guards.protected"),
        ('[levels]\n[guards]\nprotected = [""]', 3, "guards.protected"),
        ('[levels]\n[guards]\nprotected = ["~other/x"]', 3, "guards.protected"),
        ('[levels]\n[guards]\nprotected = ["$HOME/x"]', 3, "guards.protected"),
        ('[levels]\n[guards]\nsystem = ["./etc"]', 3, "guards.system"),
        ('[levels]\n[guards]\nsystem = ["/x\\u0000y"]', 3, "guards.system"),
        ('[levels]\n[guards]\nnever = "system:restart"', 3, "guards.never"),
        ("[levels]\n[guards]\nnever_scheduled = [1]", 3, "guards.never_scheduled"),
        ("[levels]\n[guards]\nsometimes = []", 3, "guards.sometimes"),
        ("[levels]\n[guards.protected]\nhome = true", 2, "guards.protected"),
        ("[raises]\nfiles = 1", 1, "levels"),
        ("", 1, "levels"),
    ],
)
def test_mistake_is_named_with_file_line_and_key(tmp_path: Path, text: str, line: int, key: str) -> None:
    """Whatever is wrong in a well-formed file is told by file, the line where it stands, and its key."""
    said = mistake(tmp_path, text)
    assert re.search(rf"policy\.toml, line {line}: {re.escape(key)}", said), said


def test_every_mistake_is_named(tmp_path: Path) -> None:
    """Three mistakes are three lines, so that they are corrected in one go."""
    text = '[levels.boss]\n[levels.full]\n"fs:read" = "no"\n[raises]\nfiles = -1\n'
    said = mistake(tmp_path, text).splitlines()
    assert [re.findall(r"line (\d+): ([\w.:]+)", line)[0] for line in said] == [
        ("1", "levels.boss"),
        ("3", "levels.full.fs:read"),
        ("5", "raises.files"),
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[levels.full]\nfs:read = 'allow'\n", 2),
        ("[levels]\n[raises]\nfiles = \n", 3),
        ("[levels]\n[raises]\nfiles = 1\nfiles = 2\n", 4),
        ("[levels.full]\n[levels.full]\n", 2),
        ("[levels]\nfull = 'allow\n", 2),
        ("[levels]\nfull = allow\n", 2),
        ("[levels]\nfull = { 'a' = 'ask', }\n", 2),
        ("[levels]\n\n[levels.full", 3),
        ("[levels]\n\nfull", 3),
        ("[levels]\n[guards]\nprotected = [", 3),
        ("[levels]\n[raises]\nfiles = 1\nfiles = 2", 4),
        ("[levels]\n[guards]\nprotected = ['''~/x]\n", 3),
    ],
)
def test_what_is_no_toml_is_named_with_file_and_line(tmp_path: Path, text: str, line: int) -> None:
    """A slip of the pen is told by file and line, also where the file ends too early."""
    assert f"line {line}" in mistake(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        b"\xff\xfe[levels]\n",
        "[levels]\n".encode("utf-16"),
        b"[levels]\nx = '\xe9'\n",
        b"[levels]\n\0",
        b"[levels]\n[raises]\nfiles = " + b"1" * 5000,
        b"[levels]\nx = " + b"[" * 10_000,
    ],
    ids=["utf-16 mark", "utf-16", "latin-1", "nul", "5000 digits", "10000 brackets"],
)
def test_what_cannot_be_read_as_a_text_is_a_policy_error(tmp_path: Path, text: bytes) -> None:
    """Bytes that no policy can hold are a mistake like any other: told by file, never another exception."""
    mistake(tmp_path, text)


def test_folder_in_place_of_the_file_is_a_mistake(tmp_path: Path) -> None:
    """A folder named policy.toml cannot be read, which is not the same as no file."""
    (tmp_path / "policy.toml").mkdir()
    with pytest.raises(PolicyError, match=re.escape(str(tmp_path / "policy.toml"))):
        load_policy(SHIPPED, tmp_path / "policy.toml")


@pytest.mark.parametrize("target", ["gone.toml", "policy.toml"], ids=["dangling", "loop"])
def test_link_that_leads_nowhere_is_a_mistake(tmp_path: Path, target: str) -> None:
    """A policy.toml that is a link into a folder that is not there now does not fall back to the shipped rules."""
    (tmp_path / "policy.toml").symlink_to(tmp_path / target)
    with pytest.raises(PolicyError, match=re.escape(str(tmp_path / "policy.toml"))):
        load_policy(SHIPPED, tmp_path / "policy.toml")


def test_pipe_in_place_of_the_file_does_not_hang(tmp_path: Path) -> None:
    """A pipe named policy.toml is a mistake at once: nobody waits for somebody to write into it."""
    own = tmp_path / "policy.toml"
    os.mkfifo(own)
    raised: list[BaseException] = []

    def read() -> None:
        try:
            load_policy(SHIPPED, own)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it below
            raised.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(2)
    hung = reader.is_alive()
    if hung:
        os.close(os.open(own, os.O_WRONLY | os.O_NONBLOCK))
        reader.join(5)
    assert not hung
    assert isinstance(raised[0], PolicyError)


async def test_undo_asks_nothing_under_an_own_file_without_quantities(house: House) -> None:
    """Whoever writes levels alone is not asked before taking their own turn back."""
    own_file(house).write_text(LEVELS.format(answer="ask").partition("[raises]")[0])
    house.put("a.txt")
    await house.ask(TEXT, DELETE, yes=True)
    await house.undo()
    assert list(house.tree()) == ["a.txt"]


def test_line_of_a_long_word_is_found_at_once() -> None:
    """Looking for the line of a mistake takes no time that grows with the length of a word without an equals sign."""
    text = "[levels]\n[guards]\nprotected = [\n" + "1" * 60 + ",\n]\n"
    tomllib.loads(text)
    found: list[int] = []
    # An expression that backtracks holds the lock of the interpreter, so it is looked at from outside.
    child = os.fork()
    if child == 0:
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os._exit(line_of(text, ["guards", "protected", "0"]))
    _, status = os.waitpid(child, 0)
    found.append(os.waitstatus_to_exitcode(status))
    assert found == [3]


@pytest.mark.parametrize(
    ("night", "clock", "is_night"),
    [
        (["23:00", "06:00"], time(23, 0), True),
        (["23:00", "06:00"], time(22, 59, 59), False),
        (["23:00", "06:00"], time(0, 0), True),
        (["23:00", "06:00"], time(5, 59, 59), True),
        (["23:00", "06:00"], time(6, 0), False),
        (["01:00", "05:00"], time(3, 0), True),
        (["01:00", "05:00"], time(0, 59), False),
        (["01:00", "05:00"], time(5, 0), False),
        (["00:00", "23:59"], time(12, 0), True),
    ],
)
def test_night_may_go_over_midnight(tmp_path: Path, night: list[str], clock: time, is_night: bool) -> None:
    """The night begins with its first minute and ends before its last, on either side of midnight."""
    raises = load(tmp_path, f"[levels]\n[raises]\nnight = {night}").raises
    assert raises.is_night(clock) is is_night


def test_mistake_stops_the_start(tmp_path: Path) -> None:
    """A daemon does not start on a policy with a mistake, and the error says where that is."""
    own = house_places(tmp_path).config_dir / "policy.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text('[levels.full]\n"fs:read" = "yes"\n')
    with pytest.raises(PolicyError, match=re.escape(f"{own}, line 2: levels.full.fs:read = 'yes'")):
        House(tmp_path)


def own_file(house: House) -> Path:
    """Where the policy of a house's person is."""
    return house.places.config_dir / "policy.toml"


async def test_edit_counts_from_the_next_request(house: House) -> None:
    """A policy that is edited while the daemon runs binds the next message: asked, denied, then allowed."""
    house.put("Documents/a.txt")
    await house.say(TEXT, DELETE).question()
    await house.ask("no")
    own_file(house).write_text(LEVELS.format(answer="deny"))
    talk = house.say(TEXT, DELETE, DELETE)
    talk.unasked()
    await talk.reply()
    assert "Documents/a.txt" in house.tree()
    own_file(house).write_text(LEVELS.format(answer="allow"))
    talk = house.say(TEXT, DELETE)
    talk.unasked()
    assert (await talk.reply()).outcome["status"] == "done"
    assert "Documents/a.txt" not in house.tree()


def test_edit_of_the_same_size_and_time_is_seen(tmp_path: Path) -> None:
    """An edit in place that keeps size and time, as some tools do, is read all the same."""
    own = tmp_path / "policy.toml"
    own.write_text('[levels.full]\n"fs:delete" = "allow"')
    policy = PolicyFile(SHIPPED, own)
    before = own.stat()
    own.write_text('[levels.full]\n"fs:delete" = "deny" ')
    os.utime(own, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert own.stat().st_size == before.st_size
    assert policy().levels["full"]["fs:delete"] == "deny"


def test_file_that_cannot_be_read_for_a_moment_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that fails for want of descriptors denies for as long, not until somebody edits the file again."""
    own = tmp_path / "policy.toml"
    own.write_text(LEVELS.format(answer="ask"))
    policy = PolicyFile(SHIPPED, own)
    own.write_text(LEVELS.format(answer="allow"))
    with monkeypatch.context() as patch:

        def fail(*_args: object, **_more: object) -> str:
            raise OSError(24, "Too many open files")

        patch.setattr(Path, "read_text", fail)
        patch.setattr(Path, "read_bytes", fail)
        patch.setattr(Path, "open", fail)
        patch.setattr(os, "open", fail)
        with pytest.raises(PolicyError):
            policy()
    assert policy().levels["supervised"]["fs:delete"] == "allow"


def _folder(own: Path) -> None:
    own.mkdir()


def _link(own: Path) -> None:
    own.symlink_to("gone.toml")


def _loop(own: Path) -> None:
    own.symlink_to(own)


def _mistake(own: Path) -> None:
    own.write_text('[levels.full]\n"fs:read" = "yes"\n')


def _bytes(own: Path) -> None:
    own.write_bytes(b"\xff")


def _digits(own: Path) -> None:
    own.write_text("[levels]\n[raises]\nfiles = " + "1" * 5000)


BREAKS = [_folder, _link, _loop, _mistake, _bytes, _digits]


@pytest.mark.parametrize("spoil", BREAKS)
async def test_policy_that_breaks_while_running_denies_everything(house: House, spoil: object) -> None:
    """A file that can no longer be used denies effects and readings, says why, shows in `status`, and is got over.

    The reason names the file. Restored, everything is as before, without a restart.
    """
    assert callable(spoil)
    own = own_file(house)
    house.put("a.txt")
    own.write_text(LEVELS.format(answer="ask"))
    await house.say(TEXT, DELETE).question()
    await house.ask("no")
    assert (await house.daemon.status())["policy"]["faults"] == []
    own.unlink()
    spoil(own)
    talk = house.say(TEXT, DELETE, DELETE)
    talk.unasked()
    reply = await talk.reply()
    assert list(house.tree()) == ["a.txt"]
    assert reply.outcome["status"] in ("refused", "failed")
    faults = (await house.daemon.status())["policy"]["faults"]
    assert faults and all("policy.toml" in fault["error"] for fault in faults)
    assert "policy.toml" in reply.text
    house.model.answers.clear()
    own.rmdir() if own.is_dir() and not own.is_symlink() else own.unlink()
    own.write_text(LEVELS.format(answer="ask"))
    assert (await house.ask(TEXT, DELETE, yes=True)).outcome["status"] == "done"
    assert house.tree() == {}


@pytest.mark.parametrize("spoil", BREAKS)
async def test_broken_policy_denies_what_needs_no_model(house: House, spoil: object) -> None:
    """Undo by a button is denied too while the policy cannot be used, with the reason, and works after."""
    assert callable(spoil)
    house.put("a.txt")
    await house.ask(TEXT, DELETE, yes=True)
    spoil(own_file(house))
    reply = await house.undo()
    assert house.tree() == {}
    assert reply.outcome["status"] in ("refused", "failed") and "policy.toml" in reply.text
    own = own_file(house)
    own.rmdir() if own.is_dir() and not own.is_symlink() else own.unlink()
    await house.undo()
    assert list(house.tree()) == ["a.txt"]


async def test_broken_policy_is_told_also_where_the_model_would_talk(house: House) -> None:
    """While the policy cannot be used, no words of a model stand in for the reason: it has not been asked at all."""
    house.put("a.txt")
    own_file(house).write_text("broken")
    reply = await house.ask(TEXT, in_words("All of them are gone."))
    assert "policy.toml" in reply.text and "gone" not in reply.text
    assert house.model.asked == []


async def test_one_request_that_could_not_be_judged_is_one_fault(house: House) -> None:
    """`doctor` counts the faults as requests, so one message is one fault, and does not push out the ones before."""
    house.put("a.txt")
    own_file(house).write_text("broken")
    await house.ask(TEXT, DELETE, DELETE)
    assert len((await house.daemon.status())["policy"]["faults"]) == 1


@pytest.mark.parametrize("text", [LEVELS.format(answer="deny"), "broken"])
@pytest.mark.parametrize("restart", [False, True])
async def test_policy_that_changes_while_a_question_is_open_binds_the_answer(
    house: House, text: str, restart: bool
) -> None:
    """A yes does nothing that the policy denies by then: no answer lifts a rule, with or without a restart between."""
    house.put("a.txt")
    talk = house.say(TEXT, DELETE, message_id="m")
    question = await talk.question()
    if restart:
        await house.restart()
    own_file(house).write_text(text)
    await house.daemon.consent(house.owner, question.token, True)
    reply = await house.ask(TEXT, message_id="m")
    assert list(house.tree()) == ["a.txt"]
    assert reply.outcome["status"] == "refused"


async def test_plan_command_shows_the_denial_of_a_broken_policy(house: House) -> None:
    """`metnosd plan` gives a verdict of deny with the rule `fault/policy` where the policy cannot be used."""
    house.put("a.txt")
    house.model.will(DELETE)
    assert (await house.daemon.plan(house.owner, TEXT, lang=None))["verdict"]["answer"] == "ask"
    own_file(house).write_text("broken")
    house.model.will(DELETE, DELETE)
    shown = await house.daemon.plan(house.owner, TEXT, lang=None)
    assert shown["verdict"] is not None
    assert (shown["verdict"]["answer"], shown["verdict"]["rule"]) == ("deny", "fault/policy")

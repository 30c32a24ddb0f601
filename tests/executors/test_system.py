"""The machine, the clock and its programs, asked by message; programs of the system are stand-ins."""

from __future__ import annotations

import functools
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import available_timezones

import psutil
import pytest
from support.house import NOON, House
from support.scripted import plan

from metnosd.assemble import make_registry
from metnosd.executor import Run
from metnosd.executors import processes, services
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.loading import load_lexicon
from metnosd.lexicon.signals import read_signals
from metnosd.locations import shipped_config
from metnosd.message import Reply
from metnosd.pool import make_pool
from metnosd.programs import ProgramError, ask_program
from metnosd.sentence import Refusal

RELEASE = "deb.debian.org_debian_dists_bookworm_InRelease"

CASES = Path(__file__).parents[1] / "cases" / "everyday_system.jsonl"

OWN = ("get_time", "get_status", "list_processes", "send_messages")

SERVICES = {"what": "services"}

SHOWN = """Id=ssh.service
LoadState=loaded
ActiveState=active
SubState=running

Id=cups.service
LoadState=loaded
ActiveState=failed
SubState=failed

Id=nginx.service
LoadState=not-found
ActiveState=inactive
SubState=dead"""

UPGRADE = """NOTE: This is only a simulation!
Reading package lists...
The following packages will be upgraded:
  bash libc6 openssl
3 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.
Inst bash [5.2.15-2+b7] (5.2.15-2+b8 Debian:12.5/stable [amd64])
Inst openssl [3.0.11-1] (3.0.13-1 Debian-Security:12/stable-security [amd64])
Inst libc6 [2.36-9+deb12u4] (2.36-9+deb12u6 Debian:12.5/stable [amd64]) [libc6:amd64 ]
Conf bash (5.2.15-2+b8 Debian:12.5/stable [amd64])"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that alone is on the PATH, beside a shell for what stands in it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def stand_in(folder: Path, name: str, script: str) -> None:
    """Put a program there; it notes its arguments and environment before it does what `script` says."""
    note = f'printf "%s\\n" "$@" > {folder}/{name}.args; export -p > {folder}/{name}.env\n'
    path = folder / name
    path.write_text(f"#!/bin/sh\n{note}{script}\n")
    path.chmod(0o755)


def printing(text: str) -> str:
    """The script of a program that prints `text`."""
    return f"while IFS= read -r line; do printf '%s\\n' \"$line\"; done <<'END'\n{text}\nEND"


def step(reply: Reply) -> dict[str, Any]:
    """The one step of a reply."""
    (found,) = reply.outcome["steps"]  # type: ignore[misc]
    return found  # type: ignore[no-any-return]


async def status_of(house: House, *names: str) -> Reply:
    """What is told of services of these names, or of those that have failed."""
    args = SERVICES | ({"names": list(names)} if names else {})
    return await house.ask(f"how are the services {' '.join(names)}?", plan(("get_status", args)))


async def test_services_are_told_by_name(house: House, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each unit is told as systemd says; one that is not there is named, and no other environment is handed on."""
    monkeypatch.setenv("METNOS_SECRET_X", "hush")
    stand_in(programs, "systemctl", printing(SHOWN))
    reply = await status_of(house, "ssh", "cups.service", "nginx")
    assert reply.text.splitlines() == [
        "2 figures:",
        "ssh is running.",
        "cups has failed.",
        "There is no service nginx.",
    ]
    assert [entry["active"] for entry in step(reply)["entries"]] == ["active", "failed"]
    args = (programs / "systemctl.args").read_text().split()
    assert args == ["show", args[1], "--", "ssh.service", "cups.service", "nginx.service"]
    environ = (programs / "systemctl.env").read_text()
    assert "LC_ALL='C'" in environ and "hush" not in environ


@pytest.mark.parametrize(
    "name", ["-H", "--root=/", "a b", "a;reboot", "$(id)", "../x", "a\nb", "", "é", "x" * 300, "*", "ssh.service/.."]
)
def test_odd_names_of_services_reach_no_program(programs: Path, name: str) -> None:
    """What is no plain name of a unit is refused before anything is run."""
    stand_in(programs, "systemctl", printing(SHOWN))
    run = cast(Run, SimpleNamespace(check=lambda: None))
    with pytest.raises(Refusal):
        services.services(run, ["ssh", name])
    assert not (programs / "systemctl.args").exists()


async def test_failed_services_are_listed(house: House, programs: Path) -> None:
    """Without names those are told that have failed, or that none has."""
    stand_in(programs, "systemctl", printing('[{"unit":"cups.service","load":"loaded","active":"failed"}]'))
    assert (await status_of(house)).text == "cups has failed."
    stand_in(programs, "systemctl", printing("[]"))
    assert (await status_of(house)).text == "No service has failed."


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('echo "System has not been booted with systemd as init system (PID 1)." >&2; exit 1', "without systemd"),
        ('echo "Failed to connect to bus: Host is down" >&2; exit 1', "without systemd"),
        ("echo oops; exit 4", "ended with an error"),
        ("kill -9 $$", "ended with an error"),
        ("printf '\\377\\376 nonsense'", "do not understand"),
        ("exit 0", "do not understand"),
        (printing(SHOWN), "do not understand"),
        (printing("Id=ssh.service\nLoadState=loaded\nActiveState=rm -rf"), "do not understand"),
        ("while :; do echo AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA; done", "do not understand"),
    ],
)
async def test_odd_answers_of_systemd_are_no_status(house: House, programs: Path, script: str, said: str) -> None:
    """No systemd, an error, nonsense, too few units or too much output: it is said that it is not known."""
    stand_in(programs, "systemctl", script)
    reply = await status_of(house, "ssh")
    assert said in reply.text and step(reply)["status"] == "refused" and step(reply)["entries"] == []


async def test_no_systemctl_at_all(house: House, programs: Path) -> None:
    """A machine without the program has no systemd."""
    assert "without systemd" in (await status_of(house, "ssh")).text


async def test_program_that_hangs_is_ended(house: House, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not answer in time is killed with all that it began, and that is said."""
    monkeypatch.setattr(services, "SYSTEMCTL_S", 0.3)
    stand_in(programs, "systemctl", f"/bin/sleep 600 & echo $! > {programs}/child; wait")
    reply = await status_of(house, "ssh")
    assert "did not answer in time" in reply.text
    assert has_ended(int((programs / "child").read_text()))


def has_ended(pid: int) -> bool:
    """Whether the process is gone within a moment, or only waits to be reaped by whom it was left to."""
    for _ in range(100):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


def test_cancel_ends_a_program(programs: Path) -> None:
    """Whatever the check raises comes out, and the program is gone."""
    stand_in(programs, "slow", f"echo $$ > {programs}/pid; exec /bin/sleep 600")

    def check() -> None:
        if (programs / "pid").exists() and (programs / "pid").read_text().strip():
            raise KeyError("stop")

    with pytest.raises(KeyError):
        ask_program(["slow"], 60, check)
    assert has_ended(int((programs / "pid").read_text()))


def test_output_is_bounded(programs: Path) -> None:
    """More output than may be is an error; exactly as much is not."""
    stand_in(programs, "loud", "printf 12345")
    assert ask_program(["loud"], 60, most=5).text == "12345"
    with pytest.raises(ProgramError, match="long"):
        ask_program(["loud"], 60, most=4)


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Package lists that were fetched two days before noon."""
    folder = tmp_path / "lists"
    (folder / "partial").mkdir(parents=True)
    (folder / RELEASE).write_text("x")
    at = (NOON - timedelta(days=2)).timestamp()
    for path in (folder / "partial", folder):
        os.utime(path, (at, at))
    monkeypatch.setattr(services, "APT_LISTS", folder)
    monkeypatch.setattr(services, "APT_STAMP", tmp_path / "no stamp")
    yield folder


async def test_updates_are_listed_and_dated(house: House, programs: Path, lists: Path) -> None:
    """Each newer package is told with both versions, security first, and how old the lists are."""
    stand_in(programs, "apt-get", printing(UPGRADE))
    reply = await house.ask("are there any updates?")
    assert house.model.asked == []
    assert reply.text.splitlines() == [
        "3 updates are pending. The package lists were last fetched on Mon 2026-11-16 12:00.",
        "openssl: 3.0.11-1 → 3.0.13-1 (security)",
        "bash: 5.2.15-2+b7 → 5.2.15-2+b8",
        "libc6: 2.36-9+deb12u4 → 2.36-9+deb12u6",
    ]
    assert (programs / "apt-get.args").read_text().split() == ["-s", "-q", "-o", "Debug::NoLocking=1", "upgrade"]


async def test_no_updates_by_old_lists(house: House, programs: Path, lists: Path) -> None:
    """That nothing is pending is not said without saying that the lists are old, or that there are none."""
    stand_in(programs, "apt-get", printing("0 upgraded, 0 newly installed, 0 to remove and 0 not upgraded."))
    house.clock.forward(days=30)
    reply = await house.ask("are there any updates?")
    assert reply.text.startswith(
        "No updates are pending. But the package lists are old, last fetched on Mon 2026-11-16"
    )
    os.unlink(lists / RELEASE)
    reply = await house.ask("are there any updates?")
    assert "no package lists" in reply.text


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "only know the package manager of Debian"),
        ("echo 'E: broken'; exit 100", "ended with an error"),
        ("echo Inst; echo what", "do not understand"),
    ],
)
async def test_updates_that_cannot_be_known(
    house: House, programs: Path, lists: Path, script: str | None, said: str
) -> None:
    """Another package manager, an error or nonsense is said as such, never as "no updates"."""
    if script is not None:
        stand_in(programs, "apt-get", script)
    reply = await house.ask("are there any updates?")
    assert said in reply.text and "No updates" not in reply.text


class FakeProcess:
    """A program as psutil shows it; `gone` in which call it has vanished."""

    def __init__(self, pid: int, name: str, memory: int, cpu: float, gone: str = "") -> None:
        self.pid = pid
        self._values = {"name": name, "memory_info": SimpleNamespace(rss=memory), "username": "ada"}
        self._cpu = [0.0, cpu]
        self._gone = gone

    def cpu_percent(self, interval: float | None) -> float:
        """As psutil: nothing the first time."""
        assert interval is None
        if self._gone == "cpu_percent":
            raise psutil.AccessDenied(self.pid)
        return self._cpu.pop(0)

    def oneshot(self) -> Any:
        """As psutil."""
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None

    def _get(self, name: str) -> Any:
        if name == self._gone:
            raise psutil.NoSuchProcess(self.pid)
        return self._values[name]

    def name(self) -> Any:
        """As psutil."""
        return self._get("name")

    def memory_info(self) -> Any:
        """As psutil."""
        return self._get("memory_info")

    def username(self) -> Any:
        """As psutil."""
        return self._get("username")

    def cmdline(self) -> list[str]:
        """Never to be looked at."""
        raise AssertionError("the command line was read")


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some programs, three of which vanish or may not be looked at; nothing is waited for."""
    made = [
        FakeProcess(1, "init", 10_000_000, 0.0),
        FakeProcess(2, "firefox", 1_500_000_000, 20.0),
        FakeProcess(3, "cc1plus", 300_000_000, 99.6),
        FakeProcess(4, "gone", 9_000_000_000, 50.0, gone="memory_info"),
        FakeProcess(5, "shut", 9_000_000_000, 50.0, gone="cpu_percent"),
        FakeProcess(6, "late", 9_000_000_000, 50.0, gone="username"),
        FakeProcess(7, "odd\nname\x1b[2J", 10_000_000, 0.0),
    ]
    monkeypatch.setattr(psutil, "process_iter", lambda: iter(made))
    monkeypatch.setattr(processes, "MEASURE_S", 0)


@pytest.mark.usefixtures("running")
async def test_programs_by_memory(house: House) -> None:
    """The biggest come first; what vanished meanwhile is left out, and names are shown on one line."""
    reply = await house.ask("which programs use the most memory?")
    assert house.model.asked == []
    assert reply.text.splitlines() == [
        "The 4 programs that take the most memory:",
        "firefox (process 2, ada): 1.5 GB, 20 % of one core",
        "cc1plus (process 3, ada): 300 MB, 100 % of one core",
        "init (process 1, ada): 10.0 MB, 0 % of one core",
        "odd\\nname\\x1b[2J (process 7, ada): 10.0 MB, 0 % of one core",
    ]
    first = step(reply)["entries"][0]
    assert first == {
        "kind": "entries",
        "name": "firefox",
        "pid": 2,
        "memory": 1_500_000_000,
        "cpu": 20.0,
        "user": "ada",
    }


@pytest.mark.usefixtures("running")
async def test_programs_by_processor_time(house: House) -> None:
    """The one that works hardest is told when one is asked for."""
    reply = await house.ask("the one program that runs most", plan(("list_processes", {"by": "cpu", "count": 1})))
    assert reply.text.splitlines()[1:] == ["cc1plus (process 3, ada): 300 MB, 100 % of one core"]


@pytest.mark.parametrize("count", [0, 51])
async def test_absurd_number_of_programs(house: House, count: int) -> None:
    """Such a number is refused."""
    reply = await house.ask(f"the {count} programs that run", plan(("list_processes", {"count": count})))
    assert reply.outcome["status"] == "refused"


async def test_real_programs(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """This very test is among what runs, with what psutil says of it."""
    monkeypatch.setattr(processes, "MEASURE_S", 0)
    reply = await house.ask("the 50 programs that run", plan(("list_processes", {"count": 50})))
    found = step(reply)["entries"]
    assert found and all(set(entry) == {"kind", "name", "pid", "memory", "cpu", "user"} for entry in found)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("what time is it?", "It is 12:00 on Wed, 2026-11-18", "(UTC)."),
        ("what time is it in Tokyo?", "It is 21:00", "(Asia/Tokyo)."),
        ("che ora è a Londra?", "Sono le 12:00", "(Europe/London)."),
        ("quelle heure est-il à Moscou ?", "Il est 15:00", "(Europe/Moscow)."),
        ("wie spät ist es in Neu-Delhi?", "Es ist 17:30", "(Asia/Kolkata)."),
        ("¿qué hora es en Nueva York?", "Son las 07:00", "(America/New_York)."),
        ("what day is it today?", "It is 12:00 on Wed, 2026-11-18", "(UTC)."),
    ],
)
async def test_time_needs_no_model(house: House, text: str, start: str, end: str) -> None:
    """The time, the day and the time of a city in one's own words for it are told at once."""
    reply = await house.ask(text)
    assert house.model.asked == []
    assert reply.text.startswith(start) and reply.text.endswith(end)


@pytest.mark.parametrize("zone", ["Tokio", "TOKYO", "Asia/Tokyo", "asia/tokyo", "Nueva York", "new york"])
async def test_zones_by_any_name(house: House, zone: str) -> None:
    """A city is known by its name in any language, and by its zone."""
    reply = await house.ask(f"the clock in {zone}", plan(("get_time", {"zone": zone})))
    assert reply.text.endswith(("(Asia/Tokyo).", "(America/New_York)."))


def test_cities_have_zones_in_every_language() -> None:
    """Each language names a city for the same zones, all of which there are."""
    lexicon = load_lexicon_once()
    named = [set(language.values["city"].values()) for language in lexicon.languages]
    assert named[0] <= available_timezones() and all(one == named[0] for one in named)


async def test_status_needs_no_model(house: House) -> None:
    """The disk is told at once; how much is in a folder is another question."""
    reply = await house.ask("how much disk space is free?")
    assert reply.text.startswith("Disk of") and house.model.asked == []
    house.put("Documents/a.txt")
    await house.ask("how much space is in Documents?", plan(("find_files", {"path": "Documents"})))
    assert len(house.model.asked) == 1


def cases() -> list[dict[str, Any]]:
    """The requests of people, a line each; those without a tool only sound like one of ours."""
    return [json.loads(line) for line in CASES.read_text("utf-8").splitlines()]


def test_each_language_has_requests_for_each_executor() -> None:
    """At least six a language and executor, and some that only sound like one."""
    counted = Counter((case["lang"], case["tool"]) for case in cases())
    for language in load_lexicon_once().languages:
        assert all(counted[language.code, tool] >= 6 for tool in (*OWN, None)), language.code


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case['lang']}: {case['text']}")
def test_requests_reach_their_executor(case: dict[str, Any]) -> None:
    """The pool holds the executor, and what its words alone decide is planned exactly so; look-alikes are not."""
    registry = make_registry()
    signals = read_signals(case["text"], load_lexicon_once(), None)
    call = signals.call
    if case["tool"] is None:
        assert call is None or call.tool not in OWN
        return
    assert case["tool"] in make_pool(registry, signals).names
    if case["fast"]:
        assert call is not None and (call.tool, dict(call.args)) == (case["tool"], case["args"])
        assert registry[call.tool].check(call.args) == case["args"]
        assert signals.signal is None
    else:
        assert call is None or call.tool == case["tool"]


@functools.cache
def load_lexicon_once() -> Lexicon:
    """The shipped lexicon."""
    return load_lexicon(shipped_config("lexicon"))

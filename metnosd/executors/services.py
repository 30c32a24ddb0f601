"""What systemd and the package manager say of this machine, for `get_status`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from metnosd.entries import Entry
from metnosd.executor import Found, Run
from metnosd.programs import Printed, ProgramError, ask_program
from metnosd.sentence import Refusal, Sentence, instant_said, say

SYSTEMCTL_S = 10.0
"""How long systemd may take, in seconds."""

APT_S = 60.0
"""How long a simulated upgrade may take, in seconds."""

OLD_LISTS = timedelta(days=7)
"""From what age on the package lists are too old to be believed."""

APT_LISTS = Path("/var/lib/apt/lists")
APT_STAMP = Path("/var/lib/apt/periodic/update-success-stamp")

MOST_NAMES = 20

_UNIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9:_.@-]{0,199}\Z")
"""Names of units (systemd.unit(5)) without escapes; none begins like an option."""

_TYPES = (".service", ".socket", ".timer", ".mount", ".target", ".path", ".slice", ".scope", ".device", ".swap")

_PROPERTIES = ("Id", "LoadState", "ActiveState", "SubState")

_STATES = ("active", "reloading", "inactive", "failed", "activating", "deactivating")

_INST = re.compile(r"^Inst (?P<name>[\w.+:-]+)(?: \[(?P<old>[^\]\s]+)\])? \((?P<new>\S+) (?P<origin>[^)]*)\)", re.M)


def services(run: Run, names: Sequence[str] | None) -> Found:
    """The states of the units `names`, or else which have failed. Raises Refusal where there is no systemd."""
    return _named(run, names) if names else _failed(run)


def _named(run: Run, names: Sequence[str]) -> Found:
    units = []
    for name in dict.fromkeys(name.strip() for name in names):
        if not _UNIT.match(name):
            raise Refusal("service.bad_name", name=name[:100])
        units.append(name if name.endswith(_TYPES) else f"{name}.service")
    if len(units) > MOST_NAMES:
        raise Refusal("service.too_many", count=len(units), most=MOST_NAMES)
    printed = _systemctl(run, "show", f"--property={','.join(_PROPERTIES)}", "--", *units)
    blocks = [_block(block) for block in printed.split("\n\n") if block.strip()]
    if len(blocks) != len(units) or any(block["ActiveState"] not in _STATES for block in blocks):
        raise Refusal("program.odd", name="systemctl")
    entries = []
    problems = []
    for unit, block in zip(units, blocks, strict=True):
        if block["LoadState"] == "not-found":
            problems.append(say("service.none_such", name=_short(unit)))
            continue
        fields = {"unit": unit, "active": block["ActiveState"], "sub": block["SubState"]}
        entries.append(_entry(fields, unit, block["ActiveState"]))
    return Found(tuple(entries), tuple(problems))


def _block(text: str) -> dict[str, str]:
    """The properties of one unit; those that are not there are empty."""
    pairs = (line.partition("=") for line in text.splitlines())
    found = {name: value.strip() for name, _, value in pairs}
    return {name: found.get(name, "") for name in _PROPERTIES}


def _failed(run: Run) -> Found:
    printed = _systemctl(run, "list-units", "--failed", "--type=service", "--output=json", "--no-pager")
    try:
        units = [str(unit["unit"]) for unit in json.loads(printed or "[]")]
    except (ValueError, TypeError, KeyError) as error:
        raise Refusal("program.odd", name="systemctl") from error
    if not units:
        return Found((), note=say("service.none_failed"))
    return Found(tuple(_entry({"unit": unit, "active": "failed"}, unit, "failed") for unit in units))


def _entry(fields: Mapping[str, object], unit: str, state: str) -> Entry:
    return Entry("numbers", fields, say(f"service.{state}", name=_short(unit)))


def _short(unit: str) -> str:
    return unit.removesuffix(".service")


def _systemctl(run: Run, *args: str) -> str:
    printed = _ask(run, ("systemctl", *args), SYSTEMCTL_S, missing="service.no_systemd")
    if printed.status != 0:
        none = "not been booted with systemd" in printed.text or "connect to bus" in printed.text
        raise Refusal("service.no_systemd" if none else "program.failed", name="systemctl")
    return printed.text


def _ask(run: Run, argv: Sequence[str], seconds: float, *, missing: str) -> Printed:
    """What the program printed; raises Refusal, with the sentence `missing` where there is no such program."""
    try:
        return ask_program(argv, seconds, run.check)
    except ProgramError as error:
        if error.reason == "missing":
            raise Refusal(missing, name=argv[0]) from error
        raise Refusal("program.slow" if error.reason == "slow" else "program.odd", name=argv[0]) from error


def updates(run: Run) -> Found:
    """The packages of which a newer version is known, by a simulated upgrade that changes nothing.

    Only Debian's apt is asked; raises Refusal on other systems. The note says how old its lists are.
    """
    command = ("apt-get", "-s", "-q", "-o", "Debug::NoLocking=1", "upgrade")
    printed = _ask(run, command, APT_S, missing="updates.unknown_manager")
    if printed.status != 0:
        raise Refusal("program.failed", name="apt-get")
    found = list(_INST.finditer(printed.text))
    if not found and "upgraded" not in printed.text:
        raise Refusal("program.odd", name="apt-get")
    entries = []
    for match in found:
        fields: dict[str, object] = dict(match.groupdict()) | {"security": "security" in match["origin"].lower()}
        key = "updates.security_one" if fields["security"] else "updates.one"
        old = match["old"] or "-"
        entries.append(Entry("numbers", fields, say(key, name=match["name"], old=old, new=match["new"])))
    # What concerns safety is read first, also where the list is cut.
    entries.sort(key=lambda entry: not entry.fields["security"])
    note = say("updates.count", count=len(entries)) if entries else say("updates.none")
    age = _age(run)
    return Found(tuple(entries), note=say("updates.with_age", what=note, age=age))


def _age(run: Run) -> Sentence:
    """When the package lists were last fetched, as far as the files tell."""
    moment = lists_fetched()
    if moment is None:
        return say("updates.age_unknown")
    old = run.now - moment > OLD_LISTS
    return say("updates.age_old" if old else "updates.age", at=instant_said(moment.astimezone(run.zone)))


def lists_fetched() -> datetime | None:
    """When apt last looked for new lists; None where it has none.

    The files keep the times of the server, but fetching makes and removes files in the folders.
    """
    if not APT_LISTS.is_dir() or not any(APT_LISTS.glob("*_*")):
        return None
    times = []
    for path in (APT_STAMP, APT_LISTS, APT_LISTS / "partial"):
        try:
            times.append(path.stat().st_mtime)
        except OSError:
            continue
    return datetime.fromtimestamp(max(times)).astimezone() if times else None

"""The systemd units: what they say, that systemd accepts them, and what happens where it does not run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from metnosd.install import (
    InstallError,
    InstallPlan,
    Scope,
    apply,
    dry_run,
    plan_install,
    quoted,
)

TEMPLATES = Path(__file__).parent.parent / "systemd"
ODD = "/opt/my apps/100%h $HOME ;é/bin/metnosd"


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with a home of its own, in which the user's systemd seems to run."""
    runtime = tmp_path / "run"
    (runtime / "systemd").mkdir(parents=True)
    (runtime / "systemd" / "private").touch()
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "systemctl").write_text("#!/bin/sh\n")
    (tools / "systemctl").chmod(0o755)
    return {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(runtime), "PATH": str(tools)}


@pytest.fixture
def executable(tmp_path: Path) -> Path:
    path = tmp_path / "100% my $apps" / "metnosd"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


class Runner:
    """Takes commands instead of running them; the one that contains ``fails`` fails."""

    def __init__(self, fails: str = "nothing") -> None:
        self.commands: list[str] = []
        self.fails = fails

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        self.commands.append(" ".join(command))
        failed = self.fails in command
        return subprocess.CompletedProcess(command, int(failed), "", "it is masked\n" if failed else "")


def unit_of(plan: InstallPlan) -> str:
    return plan.files[-1].content


@pytest.mark.parametrize("scope", ["user", "system"])
def test_unit_says_what_a_service_needs(scope: Scope, home: dict[str, str]) -> None:
    """Readiness by the main process, restart after a failure, a clean stop within a time; nothing unfilled."""
    unit = unit_of(plan_install(scope, Path("/opt/metnosd/bin/metnosd"), TEMPLATES, environ=home))
    lines = unit.splitlines()
    wanted = {"Type=notify", "NotifyAccess=main", "Restart=on-failure", "KillMode=mixed", "TimeoutStopSec=30"}
    assert wanted <= set(lines)
    assert 'ExecStart=":/opt/metnosd/bin/metnosd" "serve"' in lines
    assert "@" not in unit and "\n\n\n" not in unit


def test_system_unit_has_its_own_user_and_folders(home: dict[str, str]) -> None:
    """The system service runs as metnos, its runtime folder closed to others; its user is made first."""
    plan = plan_install("system", Path("/opt/metnosd"), TEMPLATES, environ=home, euid=0)
    assert [str(file.path) for file in plan.files] == [
        "/etc/sysusers.d/metnosd.conf",
        "/etc/systemd/system/metnosd.service",
    ]
    assert re.search(r"^u metnos ", plan.files[0].content, re.MULTILINE)
    folders = {f"{kind}Directory=metnosd" for kind in ("Runtime", "State", "Configuration")}
    assert folders | {"User=metnos", "RuntimeDirectoryMode=0750"} <= set(unit_of(plan).splitlines())
    assert plan.commands[0] == ("systemd-sysusers", "/etc/sysusers.d/metnosd.conf")


def test_user_unit_goes_where_systemd_looks_and_keeps_the_homes(home: dict[str, str]) -> None:
    """``XDG_CONFIG_HOME`` decides the folder; variables that move the daemon's files go into the unit."""
    environ = home | {"XDG_CONFIG_HOME": "/home/ann/cfg", "METNOS_HOME": "/srv/100% m", "SECRET_TOKEN": "x"}
    config = Path("/srv/a b.toml")
    plan = plan_install("user", Path("/x/metnosd"), TEMPLATES, config=config, environ=environ)
    assert plan.files[0].path == Path("/home/ann/cfg/systemd/user/metnosd.service")
    assert 'Environment="METNOS_HOME=/srv/100%% m"' in unit_of(plan)
    assert unit_of(plan).count("Environment=") == 1
    assert '"--config" "/srv/a b.toml"' in unit_of(plan)


def test_words_are_quoted_for_systemd() -> None:
    """Specifiers are doubled and quotes escaped; variables are not substituted because of the colon."""
    assert quoted(ODD) == '"/opt/my apps/100%%h $HOME ;é/bin/metnosd"'
    assert quoted('a\\b"c') == '"a\\\\b\\"c"'
    unit = unit_of(plan_install("user", Path(ODD), TEMPLATES, environ={"HOME": "/h"}))
    assert 'ExecStart=":/opt/my apps/100%%h $HOME ;é/bin/metnosd" "serve"' in unit


@pytest.mark.parametrize("path", ["/a\nExecStart=/evil", "/a\x7f", os.fsdecode(b"/a\xff"), '/a"b', "/a\\b"])
def test_path_that_no_unit_can_name_is_refused(path: str) -> None:
    """Control characters, bytes that are not UTF-8 and quotes in the program's path make no unit."""
    with pytest.raises(InstallError):
        plan_install("user", Path(path), TEMPLATES, environ={"HOME": "/h"})


@pytest.mark.parametrize("scope", ["user", "system"])
def test_systemd_accepts_the_unit(scope: Scope, home: dict[str, str], executable: Path, tmp_path: Path) -> None:
    """``systemd-analyze verify`` finds nothing to say, also with blanks, % and $ in the program's path."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        reason = "systemd-analyze is not installed"
        pytest.fail(reason) if os.environ.get("METNOS_TEST_ALL") == "1" else pytest.skip(reason)
    unit = tmp_path / "units" / "metnosd.service"
    unit.parent.mkdir()
    unit.write_text(unit_of(plan_install(scope, executable, TEMPLATES, environ=home)))
    command = [analyze, f"--{scope}", "--man=no", "verify", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, env=home, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_dry_run_shows_all_and_writes_nothing(home: dict[str, str], tmp_path: Path) -> None:
    """The text holds each file with its path and each command; the home stays as it was."""
    before = sorted(tmp_path.rglob("*"))
    plan = plan_install("user", Path("/x/metnosd"), TEMPLATES, environ=home)
    text = dry_run(plan)
    assert f"# {tmp_path}/.config/systemd/user/metnosd.service\n" in text and unit_of(plan) in text
    assert "# then: systemctl --user enable --now metnosd.service" in text
    assert sorted(tmp_path.rglob("*")) == before


def test_apply_writes_and_enables(home: dict[str, str], tmp_path: Path) -> None:
    """The unit is written whole and readable, then systemd is told and the service enabled and started."""
    plan = plan_install("user", Path("/x/metnosd"), TEMPLATES, environ=home)
    run = Runner()
    result = apply(plan, environ=home, booted=tmp_path, run=run)
    assert (result.status, run.commands) == (
        0,
        ["systemctl --user daemon-reload", "systemctl --user enable --now metnosd.service"],
    )
    assert plan.files[0].path.read_text() == unit_of(plan)
    assert plan.files[0].path.stat().st_mode & 0o777 == 0o644
    assert "enable-linger" in result.sentence


def test_changed_unit_is_restarted(home: dict[str, str], tmp_path: Path) -> None:
    """Installing another program over a running one ends with the new one running; the same one is left."""
    old = plan_install("user", Path("/x/old"), TEMPLATES, environ=home)
    apply(old, environ=home, booted=tmp_path, run=Runner())
    plan = plan_install("user", Path("/x/new"), TEMPLATES, environ=home)
    changed, same = Runner(), Runner()
    apply(plan, environ=home, booted=tmp_path, run=changed)
    apply(plan, environ=home, booted=tmp_path, run=same)
    assert changed.commands[-1] == "systemctl --user restart metnosd.service"
    assert not any("restart" in command for command in same.commands)


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("boot", "systemd is not running on this machine"),
        ("tool", "there is no systemctl on this machine"),
        ("session", "the systemd of this user is not running in this session"),
    ],
)
def test_without_systemd_the_next_command_is_named(
    home: dict[str, str], tmp_path: Path, missing: str, reason: str
) -> None:
    """The unit is written, nothing is run, the status is 1 and the sentence says what to run where."""
    environ = dict(home)
    if missing == "tool":
        environ["PATH"] = str(tmp_path)
    if missing == "session":
        del environ["XDG_RUNTIME_DIR"]
    plan = plan_install("user", Path("/x/metnosd"), TEMPLATES, environ=home)
    run = Runner()
    booted = tmp_path / "absent" if missing == "boot" else tmp_path
    result = apply(plan, environ=environ, booted=booted, run=run)
    assert result.status == 1 and run.commands == []
    assert reason in result.sentence
    left = "systemctl --user daemon-reload && systemctl --user enable --now metnosd.service"
    assert left in result.sentence
    assert plan.files[0].path.read_text() == unit_of(plan)


def test_command_that_fails_says_why_and_what_is_left(home: dict[str, str], tmp_path: Path) -> None:
    """When systemctl refuses, its words and the commands still to run are in the sentence."""
    plan = plan_install("user", Path("/x/metnosd"), TEMPLATES, environ=home)
    result = apply(plan, environ=home, booted=tmp_path, run=Runner(fails="enable"))
    assert result.status == 1
    assert "it is masked" in result.sentence
    assert result.sentence.endswith("Still to run: systemctl --user enable --now metnosd.service")


def test_unit_that_cannot_be_written_is_a_sentence(home: dict[str, str], tmp_path: Path) -> None:
    """A folder that cannot be made gives status 1 and the path."""
    (tmp_path / ".config").write_text("")
    plan = plan_install("user", Path("/x/metnosd"), TEMPLATES, environ=home)
    result = apply(plan, environ=home, booted=tmp_path, run=Runner())
    assert result.status == 1 and "could not be written" in result.sentence


def test_system_service_is_for_root(home: dict[str, str], tmp_path: Path) -> None:
    """Anybody else is refused with a sentence, and nothing is written; the units can still be shown."""
    plan = plan_install("system", Path("/x/metnosd"), TEMPLATES, environ=home, root=tmp_path, euid=1000)
    result = apply(plan, environ=home, booted=tmp_path, run=Runner())
    assert result.status == 1 and "installed by root only" in result.sentence
    assert not (tmp_path / "etc").exists()
    assert "User=metnos" in dry_run(plan)


def test_system_service_needs_a_program_its_user_can_reach(home: dict[str, str], tmp_path: Path) -> None:
    """A program in a closed folder, such as root's home, is refused: the service could not start it."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    program = closed / "metnosd"
    plan = plan_install("system", program, TEMPLATES, environ=home, root=tmp_path, euid=0)
    result = apply(plan, environ=home, booted=tmp_path, run=Runner())
    assert result.status == 1 and "cannot enter" in result.sentence


def test_system_service_is_written_under_the_root(home: dict[str, str], tmp_path: Path) -> None:
    """Root gets the user's definition and the unit, then the user is made and the service started."""
    plan = plan_install("system", Path("/bin/true"), TEMPLATES, environ=home, root=tmp_path, euid=0)
    run = Runner()
    assert apply(plan, environ=home, booted=tmp_path, run=run).status == 0
    assert (tmp_path / "etc/systemd/system/metnosd.service").is_file()
    assert [command.split()[0] for command in run.commands] == ["systemd-sysusers", "systemctl", "systemctl"]

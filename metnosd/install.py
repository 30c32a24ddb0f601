"""Writing and enabling the systemd units.

A plan says which files will be written and which commands run; ``dry_run`` shows it, ``apply`` does it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from metnosd.model.catalog import write_atomic

Scope = Literal["user", "system"]
UNIT = "metnosd.service"
KEPT_VARIABLES = ("METNOS_HOME", "METNOS_CONFIG", "METNOS_MODELS")


class InstallError(Exception):
    """No plan can be made; the text is a sentence for the operator."""


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file to write, readable by everybody."""

    path: Path
    content: str


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """What an installation will do. ``refusal`` is why it may not be done here and by this user, if so."""

    scope: Scope
    files: tuple[PlannedFile, ...]
    commands: tuple[tuple[str, ...], ...]
    hint: str
    refusal: str | None


@dataclass(frozen=True, slots=True)
class InstallResult:
    """``status`` is the exit status, ``sentence`` what happened and what is left to do."""

    status: int
    sentence: str


Runner = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def plan_install(
    scope: Scope,
    executable: Path,
    templates: Path,
    *,
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
    root: Path = Path("/"),
    euid: int | None = None,
) -> InstallPlan:
    """What to write and run so that systemd runs ``executable serve``.

    ``templates`` is the folder of the shipped units, ``config`` a settings file to pass on, ``root`` what
    stands for ``/`` in the paths of the system's files. Raises InstallError for a path that no unit can name.
    """
    environ = os.environ if environ is None else environ
    executable = executable.absolute()
    words = [str(executable), "serve"]
    if config is not None:
        words += ["--config", str(config.absolute())]
    if scope == "user":
        kept = {key: environ[key] for key in KEPT_VARIABLES if environ.get(key)}
        home = Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or Path.home()) / ".config")
        unit = _rendered(templates / "metnosd.service", words, kept)
        return InstallPlan(
            scope,
            (PlannedFile(home / "systemd" / "user" / UNIT, unit),),
            (("systemctl", "--user", "daemon-reload"), ("systemctl", "--user", "enable", "--now", UNIT)),
            'It stops when you log out, unless "loginctl enable-linger" is set for you.',
            None,
        )
    users = root / "etc/sysusers.d/metnosd.conf"
    unit = _rendered(templates / "metnosd-system.service", words, {})
    return InstallPlan(
        scope,
        (
            PlannedFile(users, (templates / "metnosd-sysusers.conf").read_text(encoding="utf-8")),
            PlannedFile(root / "etc/systemd/system" / UNIT, unit),
        ),
        (
            ("systemd-sysusers", str(users)),
            ("systemctl", "daemon-reload"),
            ("systemctl", "enable", "--now", UNIT),
        ),
        'Members of the group "metnos" may talk to it: usermod -aG metnos NAME',
        _system_refusal(executable, os.geteuid() if euid is None else euid),
    )


def dry_run(plan: InstallPlan) -> str:
    """The files with their contents and the commands, as text to print."""
    parts = [f"# {file.path}\n{file.content}" for file in plan.files]
    return "\n".join([*parts, *(f"# then: {shlex.join(command)}" for command in plan.commands)]) + "\n"


def apply(
    plan: InstallPlan,
    *,
    environ: Mapping[str, str] | None = None,
    booted: Path = Path("/run/systemd/system"),
    run: Runner | None = None,
) -> InstallResult:
    """Write the files and run the commands.

    Where systemd does not run, the files are written and the result, with status 1, names the commands that
    are left. ``booted`` is the folder that exists where systemd is the init, ``run`` runs a command.
    """
    environ = os.environ if environ is None else environ
    if plan.refusal is not None:
        return InstallResult(1, plan.refusal)
    commands = list(plan.commands)
    try:
        for file in plan.files:
            if _replaces(file) and file.path.name == UNIT:
                commands.append((*commands[-1][:-3], "restart", UNIT))
            file.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(file.path, file.content)
    except OSError as error:
        return InstallResult(1, f"{file.path} could not be written: {error.strerror}.")
    written = ", ".join(str(file.path) for file in plan.files)
    absent = _systemd_absent(plan.scope, environ, booted)
    if absent is not None:
        left = " && ".join(shlex.join(command) for command in commands)
        return InstallResult(1, f"{written} is written, but {absent}. Where systemd runs, run: {left}")
    for index, command in enumerate(commands):
        try:
            done = (run or _run)(command)
        except OSError as error:
            done = subprocess.CompletedProcess(command, 127, "", f"{command[0]}: {error.strerror}")
        if done.returncode != 0:
            left = " && ".join(shlex.join(command) for command in commands[index:])
            reason = done.stderr.strip() or f"exit status {done.returncode}"
            text = f"{written} is written, but {shlex.join(command)} failed: {reason}. Still to run: {left}"
            return InstallResult(1, text)
    return InstallResult(0, f"{written} is written, and {UNIT} is enabled and runs. {plan.hint}")


def quoted(word: str) -> str:
    """A word for a unit file that means just itself: systemd.syntax(7) for quotes, systemd.unit(5) for ``%``.

    Raises InstallError for control characters and for names that are not UTF-8, which units cannot hold.
    """
    if not _encodable(word) or any(ord(char) < 32 or ord(char) == 127 for char in word):
        raise InstallError(f"A unit file cannot hold {word!r}; choose a name without control characters.")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _encodable(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _rendered(template: Path, words: Sequence[str], variables: Mapping[str, str]) -> str:
    # The colon turns off the substitution of $VARIABLES, in all words (systemd.service(5)).
    if set(words[0]) & set("\"'\\"):
        raise InstallError(f"systemd starts no program with a quote or a backslash in its path: {words[0]}")
    command = " ".join(quoted(word) for word in (f":{words[0]}", *words[1:]))
    lines = "".join(f"Environment={quoted(f'{key}={value}')}\n" for key, value in variables.items())
    text = template.read_text(encoding="utf-8")
    return text.replace("@ENVIRONMENT@\n", lines).replace("@EXEC_START@", command)


def _system_refusal(executable: Path, euid: int) -> str | None:
    if euid != 0:
        return 'A system service is installed by root only; "metnosd install --user" needs no rights.'
    for folder in reversed(executable.resolve().parents):
        if folder.exists() and not folder.stat().st_mode & 0o001:
            return (
                f'The system service runs as the user "metnos", who cannot enter {folder}, so it could not '
                f"start {executable}. Install Metnos where every user can read it, such as /opt/metnosd."
            )
    return None


def _replaces(file: PlannedFile) -> bool:
    try:
        return file.path.read_text(encoding="utf-8", errors="replace") != file.content
    except FileNotFoundError:
        return False


def _systemd_absent(scope: Scope, environ: Mapping[str, str], booted: Path) -> str | None:
    """Why systemctl cannot be used here, as the end of a sentence; None if it can."""
    if shutil.which("systemctl", path=environ.get("PATH")) is None:
        return "there is no systemctl on this machine"
    if not booted.is_dir():
        return "systemd is not running on this machine"
    runtime = environ.get("XDG_RUNTIME_DIR")
    if scope == "user" and not (runtime and (Path(runtime) / "systemd" / "private").exists()):
        return "the systemd of this user is not running in this session"
    return None


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)

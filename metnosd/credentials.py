"""Secrets: tokens and passwords, from systemd's credentials, the environment or a file of one's own."""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from metnosd.disk import OPEN_FILE
from metnosd.entries import is_text
from metnosd.locations import Locations

FILE_NAME = "secrets.toml"
VARIABLE_PREFIX = "METNOS_SECRET_"
MAX_BYTES = 1 << 20
"""The largest file that is read; systemd allows its credentials as much, all together (systemd.exec(5))."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_NAME_RULE = "a name is 1 to 64 of a-z, 0-9 and _, and begins with a letter"

_OWN_ONLY = 0o077
# systemd gives the user of a service access by an ACL, whose mask then shows as the group's permission to read.
_OWN_AND_ACL = 0o037


class CredentialsError(Exception):
    """The secrets cannot be used; the message names file or variable and what to do, and holds no value."""


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """The secrets of one daemon by name, source by source, the first of which wins."""

    _sources: tuple[Mapping[str, str], ...] = ()

    def get(self, name: str) -> str | None:
        """The secret `name`; None when no source has it."""
        return next((source[name] for source in self._sources if name in source), None)

    def values(self) -> tuple[str, ...]:
        """All secrets that must not be shown, once each, also those that an earlier source hides from `get`."""
        return tuple(dict.fromkeys(value for source in self._sources for value in source.values()))

    def __repr__(self) -> str:
        """The names alone, for logs and tracebacks."""
        return f"Credentials({', '.join(sorted(set().union(*self._sources)))})"


def load_credentials(places: Locations, environ: Mapping[str, str]) -> Credentials:
    """All secrets that there are; an empty one counts as not there.

    The first source wins: the files in `$CREDENTIALS_DIRECTORY` (systemd.exec(5), `LoadCredential=`), the
    variables `METNOS_SECRET_<NAME>`, the file `secrets.toml` beside the settings. Other files of the
    folder, whose names cannot be names of secrets, are left alone. Raises `CredentialsError` for what
    cannot be read, is readable by others, or is no such thing.
    """
    folder = environ.get("CREDENTIALS_DIRECTORY")
    sources = (
        _from_folder(Path(folder)) if folder else {},
        _from_variables(environ),
        _from_file(places.config_dir / FILE_NAME),
    )
    return Credentials(tuple({name: value for name, value in source.items() if value} for source in sources))


def _from_folder(folder: Path) -> dict[str, str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise CredentialsError(f"$CREDENTIALS_DIRECTORY: {folder} cannot be read: {error.strerror}.") from error
    found = {name: _read(folder / name, _OWN_AND_ACL) for name in names if _NAME.fullmatch(name)}
    return {name: text.rstrip("\r\n") for name, text in found.items() if text is not None}


def _from_variables(environ: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for variable, value in environ.items():
        if not variable.startswith(VARIABLE_PREFIX):
            continue
        name = variable.removeprefix(VARIABLE_PREFIX).lower()
        if variable != VARIABLE_PREFIX + name.upper() or not _NAME.fullmatch(name):
            raise CredentialsError(f"${variable}: {_NAME_RULE}; in a variable it stands in capitals.")
        # The interpreter decodes what is no UTF-8 into lone surrogates.
        if not is_text(value):
            raise CredentialsError(f"${variable} is no UTF-8 text.")
        found[name] = value
    return found


def _from_file(file: Path) -> dict[str, str]:
    text = _read(file, _OWN_ONLY)
    found: dict[str, str] = {}
    for number, (name, value) in enumerate(_parse(file, text or "").items(), 1):
        if not _NAME.fullmatch(name):
            # A name that is none may be a secret in the wrong place.
            raise CredentialsError(f"{file}: entry {number} has no valid name; {_NAME_RULE}.")
        if not isinstance(value, str):
            raise CredentialsError(f'{file}: {name} is no text. Write {name} = "value", outside of any table.')
        found[name] = value
    return found


def _parse(file: Path, text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # The message may quote the text, so nothing of it is taken but the number.
        line = re.search(r"\(at line (\d+), column \d+\)$", str(error))
    place = f"{file}, line {line[1]}" if line else str(file)
    raise CredentialsError(f'{place}: this is no TOML. Write name = "value", each name once, one a line.')


def _read(file: Path, forbidden: int) -> str | None:
    """The text of `file`; None when there is none. What is checked is what is read, whatever the name leads to next."""
    try:
        descriptor = os.open(file, OPEN_FILE)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CredentialsError(f"{file} is a link. Put the file itself in its place.") from error
        raise _unreadable(file, error) from error
    try:
        _check(file, os.fstat(descriptor), forbidden)
        with open(descriptor, "rb", closefd=False) as opened:
            text = opened.read(MAX_BYTES).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise _unreadable(file, error) from error
    finally:
        os.close(descriptor)
    # A UnicodeDecodeError would carry all bytes of the file to wherever it is logged.
    if not is_text(text):
        raise CredentialsError(f"{file} is no UTF-8 text.")
    return text


def _unreadable(file: Path, error: OSError) -> CredentialsError:
    who = f"user {os.geteuid()}, who reads it"
    return CredentialsError(f"{file} cannot be read: {error.strerror}. It must belong to {who}, with chmod 600.")


def _check(file: Path, status: os.stat_result, forbidden: int) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        raise CredentialsError(f"{file} is no ordinary file. Put one in its place, with the secrets and chmod 600.")
    if status.st_uid not in (0, os.geteuid()):
        raise CredentialsError(
            f"{file} belongs to user {status.st_uid}, not to {os.geteuid()} who reads it. Replace it by a file "
            "of your own with chmod 600."
        )
    if mode & forbidden:
        raise CredentialsError(f"{file} is open to others (mode {mode:04o}). Do: chmod 600 {shlex.quote(str(file))}")
    if status.st_size > MAX_BYTES:
        raise CredentialsError(f"{file} is larger than {MAX_BYTES} bytes. It must hold secrets and nothing else.")

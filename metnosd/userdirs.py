"""The folders that a desktop names in the user's language: `Scaricati`, `Descargas`, `Téléchargements`.

They are written in `~/.config/user-dirs.dirs` by xdg-user-dirs, one shell assignment a line.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping

_LINE = re.compile(r'^\s*XDG_([A-Z]+)_DIR\s*=\s*"((?:[^"\\]|\\.)*)"\s*$')
_LARGEST = 65_536


def read_user_dirs(home: str) -> Mapping[str, str]:
    """The folders of the person whose home is `home`: key (`DOWNLOAD`) to absolute path.

    A key that points to the home itself is switched off and left out, as is every line that is no
    assignment of an absolute path. Without a readable file there are none.
    """
    try:
        text = _read(os.path.join(home, ".config", "user-dirs.dirs"))
    except OSError:
        return {}
    folders: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        path = re.sub(r"\\(.)", r"\1", match[2])
        if path == "$HOME" or path.startswith("$HOME/"):
            path = home + path[len("$HOME") :]
        path = os.path.normpath(path)
        if path.startswith("/") and path != os.path.normpath(home) and "\0" not in path:
            folders[match[1]] = path
    return folders


def _read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return os.fsdecode(file.read(_LARGEST))

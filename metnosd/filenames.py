"""Names of files as text: their extension, and the numbered name beside one that is taken."""

from __future__ import annotations

import os
import re

_DOUBLE = (".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")
_EXTENSION = re.compile(r"\.[^.\s/]{1,16}\Z")


def split_name(name: str) -> tuple[str, str]:
    """The name in two, stem and extension with its dot; `a.tar.gz` has one extension, `.profile` none."""
    for double in _DOUBLE:
        if name.lower().endswith(double) and len(name) > len(double):
            return name[: -len(double)], name[-len(double) :]
    match = _EXTENSION.search(name)
    if match is None or match.start() == 0:
        return name, ""
    return name[: match.start()], match[0]


def extension_of(name: str) -> str:
    """The last extension in lower case without its dot, or nothing."""
    stem, dot, extension = name.rpartition(".")
    return extension.lower() if dot and stem else ""


def numbered(name: str, number: int, is_dir: bool = False) -> str:
    """`name` with a number before its extension: `a (1).txt`; 0 is `name` itself. At most 255 bytes."""
    if number == 0:
        return name
    stem, extension = (name, "") if is_dir else split_name(name)
    tail = f" ({number}){extension}"
    room = 255 - len(os.fsencode(tail))
    while stem and len(os.fsencode(stem)) > room:
        stem = stem[:-1]
    return stem + tail

"""Quoted text, file names, paths and addresses are names: nothing in them is a time or a signal."""

from __future__ import annotations

import re

URL = re.compile(r"https?://[^\s<>\"']+[^\s<>\"'.,;:!?)]")
FILE = re.compile(
    r"(?<![\w/])(?:~|\.{1,2})?/[^\s\"']*[^\s\"'.,;:!?)]|(?<![\w./])(?!\d{1,2}\.(?!(?:txt|pdf|jpe?g|png|gif|zip|7z|md|docx?|xlsx?|csv|mp[34]|log)\b))"
    r"(?=[\w.-]*[^\W\d])\w[\w.-]*\.\w{1,8}(?![\w.])"
)
"""A path, or a name with an extension; "3.March" and "18.30h" are times."""

FOLDERS = re.compile(r"(?<![\w/.])(?=[\w./-]*[^\W\d])\w[\w.-]*(?:/[\w.-]+)+")
QUOTED = re.compile(
    r"\"([^\"]+)\"|(?<!\w)'([^']+)'(?!\w)|\u201c([^\u201d]+)\u201d|\u2018([^\u2019]+)\u2019(?!\w)"
    r"|\u00ab\s*([^\u00bb]+?)\s*\u00bb|\u201e([^\u201c\u201d]+)[\u201c\u201d]|`([^`]+)`"
)

HIDDEN = "\ufffc"
"""Stands for each character that is masked: no letter, no blank."""


def hide(text: str, *patterns: re.Pattern[str]) -> str:
    """`text` with what fits one of `patterns` hidden where it stands, same length."""
    for pattern in patterns:
        text = pattern.sub(lambda found: HIDDEN * len(found[0]), text)
    return text


def mask(text: str) -> str:
    """`text` with what is a name hidden, same length."""
    return hide(text, QUOTED, URL, FILE, FOLDERS)


def quoted_in(text: str) -> list[str]:
    """What stands in quotation marks, without them."""
    return [next(part for part in found.groups() if part) for found in QUOTED.finditer(text)]

"""What a message holds that an argument may be: times, sizes, numbers, quoted text, paths, URLs, its words.

The grounded grammar offers these and nothing else; the validator holds every service to the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation

from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.templates import fold
from metnosd.lexicon.when import read_range

Spans = Mapping[str, tuple[str, ...]]

LONGEST_TIME = 7
"""How many words a time has at most."""

_SIZE = re.compile(r"(?<![\w.,])(\d+(?:[.,]\d+)?)\s*([kmgt])(i?)b?(?:ytes?)?(?!\w)", re.IGNORECASE)
_BYTES = re.compile(r"(\d+)\s*(?:b|bytes?)?", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,/-])\d+(?:[.,]\d+)?(?![\w/-])")
_URL = re.compile(r"https?://[^\s<>\"']+[^\s<>\"'.,;:!?)]")
_PATH = re.compile(r"(?<![\w/])(?:~|\.{1,2})?/[^\s\"']*[^\s\"'.,;:!?)]|(?<![\w./])\w[\w.-]*\.\w{1,8}(?!\w)")
_QUOTED = re.compile(
    r"\"([^\"]+)\"|(?<!\w)'([^']+)'(?!\w)|\u201c([^\u201d]+)\u201d"
    r"|\u00ab\s*([^\u00bb]+?)\s*\u00bb|\u201e([^\u201c\u201d]+)[\u201c\u201d]"
)


def read_spans(text: str, lexicon: Lexicon, now: datetime) -> Spans:
    """Source → the values of it in `text`, in order, each once. `words` are all words as written."""
    quoted = [next(part for part in found.groups() if part) for found in _QUOTED.finditer(text)]
    urls = [found[0] for found in _URL.finditer(text)]
    masked = _mask(text, quoted + urls)
    sizes = [found[0] for found in _SIZE.finditer(masked)]
    return {
        "quoted": _once(quoted),
        "url": _once(urls),
        "path": _once(quoted + [found[0] for found in _PATH.finditer(_mask(text, urls))]),
        "size": _once([size.replace(" ", "") for size in sizes]),
        "number": _once(found[0].replace(",", ".") for found in _NUMBER.finditer(_mask(masked, sizes))),
        "time": _once(_times(masked, lexicon, now)),
        "words": tuple(text.split()),
    }


def read_size(text: str) -> int | None:
    """The bytes that all of `text` names: "10MB" is 10^7 (SI), "10MiB" 10 * 2^20, a bare number bytes."""
    plain = _BYTES.fullmatch(text.strip())
    if plain:
        return int(plain[1])
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    power = "kmgt".index(found[2].lower()) + 1
    try:
        return int(Decimal(found[1].replace(",", ".")) * (1024 if found[3] else 1000) ** power)
    except InvalidOperation:
        return None


def _times(text: str, lexicon: Lexicon, now: datetime) -> Iterator[str]:
    """The longest runs of words that are a time, from left to right, none inside another."""
    words = [(found.start(), found.end()) for found in re.finditer(r"\S+", text)]
    at = 0
    while at < len(words):
        for last in range(min(at + LONGEST_TIME, len(words)) - 1, at - 1, -1):
            run = text[words[at][0] : words[last][1]].rstrip(".,;:!?")
            if read_range(fold(run), lexicon, now, bare=False) is not None:
                yield run
                at = last
                break
        at += 1


def _mask(text: str, parts: list[str]) -> str:
    for part in parts:
        text = text.replace(part, "\ufffc" * len(part))
    return text


def _once(values: Iterator[str] | list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))

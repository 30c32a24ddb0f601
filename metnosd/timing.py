"""When a message wants something done: now, later, again and again, or as a reminder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Literal

from metnosd.lexicon.clocks import Habits
from metnosd.lexicon.lexicon import Language, Lexicon
from metnosd.lexicon.masks import mask
from metnosd.lexicon.signals import Signals
from metnosd.lexicon.templates import Values, one_of
from metnosd.lexicon.when import When, read_when

Intent = Literal["now", "remind", "later", "when", "unclear", "past"]

CONDITIONS = {"only_if_more": "gt", "only_if_less": "lt", "only_if_any": "gt"}
"""Signals that bind telling to a result, and how its number is compared."""

TAIL_WORDS = 2
"""How many words behind a condition name what it counts."""

_SIZE = re.compile(r"\s*(?:[kmgt]i?[bo]\b|%)", re.IGNORECASE)
"""What makes a number before it one of another thing than results."""

_EDGES = " \t\n,;:.!?-\u00bf\u00a1\u2026"


@dataclass(frozen=True, slots=True)
class Timing:
    """What a message says of time: `when`, and `text`, what is left of it to be done; `said` is what `when` reads.

    `late` is "skip" where a late run is unwanted. `only_if` is the condition on the result under which it is
    told: `{"op": "gt" | "lt", "count": n}`.
    """

    intent: Intent
    when: When
    text: str
    said: str
    late: str | None = None
    only_if: Mapping[str, Any] | None = None


def read_timing(text: str, signals: Signals, lexicon: Lexicon, now: datetime, zone: tzinfo, habits: Habits) -> Timing:
    """The timing of the message `text`, whose signals are `signals`; `now` is aware. Never raises."""
    language = lexicon.language(signals.lang)
    languages = (language, *(item for item in lexicon.languages if item is not language))
    rest, found = _cut(text, language, "late_skip")
    late = "skip" if found is not None else None
    only_if = None
    for name, op in CONDITIONS.items():
        rest, values = _cut(rest, language, name, to_end=True)
        if values is not None and only_if is None:
            number = one_of(values, "number")
            only_if = {"op": op, "count": int(language.value("number", number)) if number else 0}
    when = read_when(rest, languages, now, zone, habits)
    if signals.signal is not None or signals.call is not None:
        return Timing("now", when, text, rest)
    # A condition ("only tell me if …") may sound like a reminder, and is cut by now.
    reminds = any(template.search(language.fold(mask(rest))) for template in language.signals_within["remind"])
    intent: Intent = "now" if "about" in signals.within else _intent(when, reminds, now)
    if intent == "now":
        return Timing("now", when, text, rest)
    left = when.rest
    if reminds:
        left, _ = _cut(left, language, "remind_head")
    return Timing(intent, when, _clean(left), rest, late, only_if)


def _intent(when: When, reminds: bool, now: datetime) -> Intent:
    if when.kind == "recurring":
        return "remind" if reminds else "later"
    if when.kind == "at":
        assert when.at is not None
        if when.at <= now:
            return "past" if reminds else "now"
        return "remind" if reminds else "later"
    if not reminds:
        return "now"
    return "unclear" if when.kind == "unclear" else "when"


def _cut(text: str, language: Language, name: str, *, to_end: bool = False) -> tuple[str, Values | None]:
    """`text` without the first part that a template of the signal `name` fits, and that part's values.

    With `to_end` the few words behind it that end the text go too: "only if there are more than 5 files".
    """
    folded = language.fold(mask(text))
    for template in language.signals_within.get(name, ()):
        found = template.search(folded)
        if found is not None and not _SIZE.match(text, found[1][1]):
            values, (start, end) = found
            if to_end and len(text[end:].split()) <= TAIL_WORDS:
                end = len(text)
            return _joined(text[:start], text[end:]), values
    return text, None


def _joined(before: str, after: str) -> str:
    return f"{before.rstrip(_EDGES)} {after.lstrip(_EDGES)}" if before.strip(_EDGES) else after.lstrip(_EDGES)


def _clean(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip(_EDGES)

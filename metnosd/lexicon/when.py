"""What a text says about time: one instant, a range, a recurrence, nothing, or something unclear."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from itertools import islice

from metnosd.arguments import TimeRange
from metnosd.lexicon.clocks import PARTS, Clock, Unclear, read_clock
from metnosd.lexicon.days import ROLLS, parse_day, read_day
from metnosd.lexicon.every import DEFAULT, clocks_of, compose_recurrence
from metnosd.lexicon.fragments import Fragment, find_fragments
from metnosd.lexicon.lexicon import Language, Lexicon
from metnosd.lexicon.masks import mask
from metnosd.lexicon.recurrence import Recurrence, instant
from metnosd.lexicon.spells import day_range, read_span, step_of
from metnosd.lexicon.templates import one_of
from metnosd.sentence import Sentence, say


@dataclass(frozen=True, slots=True)
class When:
    """What a text says about time. `kind`: recurring, at, range, none or unclear (then with a `question`).

    `rest` is the text without its time words, `spans` are their places in code points.
    """

    kind: str
    lang: str
    rest: str
    spans: tuple[tuple[int, int], ...] = ()
    recurrence: Recurrence | None = None
    at: datetime | None = None
    range: TimeRange | None = None
    question: Sentence | None = None

    def fires(self, now: datetime, count: int) -> list[datetime]:
        """The first `count` instants strictly after `now`."""
        if self.recurrence is not None:
            return list(islice(self.recurrence.after(now), count))
        return [self.at] if self.at is not None and self.at > now else []


def read_when(text: str, lexicon: Lexicon, languages: Sequence[Language], now: datetime, zone: tzinfo) -> When:
    """What `text` says about time, read in the first of `languages` in which it says anything.

    `now` is aware. Never raises for a text, whatever it says.
    """
    local = now.astimezone(zone)
    masked = mask(text)
    for language in languages:
        folded = language.fold(masked)
        fragments = find_fragments(folded, language)
        fragments = _without_lone_parts(fragments)
        if not fragments or any(template.search(folded) for template in language.signals_within.get("about", ())):
            continue
        spans = tuple((fragment.start, fragment.end) for fragment in fragments)
        rest = rest_of(text, spans)
        try:
            return _compose(fragments, folded, language, local, zone, rest, spans)
        except Unclear as error:
            at = folded.find(error.text) if error.text else -1
            question = say(error.key, text=text[at : at + len(error.text)] if at >= 0 else text)
            return When("unclear", language.code, rest, spans, question=question)
    return When("none", languages[0].code, text.strip())


def read_range(text: str, lexicon: Lexicon, now: datetime, zone: tzinfo | None = None) -> TimeRange | None:
    """The half-open range that all of `text` names, seen from `now` (aware, in the user's zone); else None.

    Single words ("may") are a time here, since one must stand. A day is all of it; an instant is none.
    """
    where = zone or now.tzinfo
    assert where is not None
    for language in lexicon.languages:
        folded = " ".join(language.fold(text).split())
        for section in ("span", "day"):
            for means, templates in language.time[section].items():
                for template in templates:
                    values = template.full(folded)
                    if values is None:
                        continue
                    try:
                        if section == "span":
                            return read_span(means, values, language, now, where)
                        day = read_day(means, values, folded, language, now.date(), past=True)
                        return day_range(day, where)
                    except Unclear:
                        continue
    return None


def rest_of(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """`text` without `spans`, with single blanks and no stray marks at its ends."""
    kept = []
    at = 0
    for start, end in spans:
        kept.append(text[at:start])
        at = end
    kept.append(text[at:])
    joined = " ".join(part.strip() for part in kept if part.strip())
    joined = re.sub(r"\s+([,.;:!?])", r"\1", re.sub(r"\s+", " ", joined))
    return re.sub(r"^[\s,;:.]+|[\s,;:]+$", "", joined)


def _without_lone_parts(fragments: list[Fragment]) -> list[Fragment]:
    """A limit without anything that it limits is no time ("3 times", "except Sunday")."""
    kinds = {fragment.section for fragment in fragments}
    if kinds <= {"limit"} and not any(f.means in ("until", "from", "between") for f in fragments):
        return []
    return fragments


def _compose(
    fragments: Sequence[Fragment],
    folded: str,
    language: Language,
    now: datetime,
    zone: tzinfo,
    rest: str,
    spans: tuple[tuple[int, int], ...],
) -> When:
    sections = {fragment.section for fragment in fragments}
    if "every" in sections:
        recurrence = compose_recurrence(fragments, language, now, zone)
        if next(recurrence.after(now), None) is None:
            raise Unclear("time.never", "")
        return When("recurring", language.code, rest, spans, recurrence=recurrence)
    if "offset" in sections:
        return _from_now(fragments, folded, language, now, zone, rest, spans)
    if "span" in sections and not sections & {"at", "day"}:
        fragment = _first(fragments, "span")
        found = read_span(fragment.means, fragment.values, language, now, zone)
        return When("range", language.code, rest, spans, range=found)
    clocks = clocks_of([f for f in fragments if f.section == "at"] + [f for f in fragments if f.section == "part"],
                       language)  # fmt: skip
    said_clock = "at" in sections
    reminds = _reminds(folded, language)
    day = next((fragment for fragment in fragments if fragment.section == "day"), None)
    part = next((fragment.means for fragment in fragments if fragment.section == "part"), None)
    if said_clock or (reminds and (day is not None or part is not None)):
        clock = clocks[0] if clocks else DEFAULT
        return When("at", language.code, rest, spans, at=_instant(day, clock, language, now, zone))
    if day is not None:
        found_day = read_day(day.means, day.values, day.text, language, now.date())
        found = day_range(found_day, zone)
        return When("range", language.code, rest, spans, range=_part_of(found_day, part, zone) if part else found)
    if part is not None:
        return When("range", language.code, rest, spans, range=_part_of(now.date(), part, zone))
    return _limited(fragments, language, now, zone, rest, spans)


def _first(fragments: Sequence[Fragment], section: str) -> Fragment:
    return next(fragment for fragment in fragments if fragment.section == section)


def _reminds(folded: str, language: Language) -> bool:
    return any(template.search(folded) for template in language.signals_within.get("remind", ()))


def _from_now(
    fragments: Sequence[Fragment],
    folded: str,
    language: Language,
    now: datetime,
    zone: tzinfo,
    rest: str,
    spans: tuple[tuple[int, int], ...],
) -> When:
    """ "In 20 minutes" is an instant; "in 3 days" is a day, with its time of day said or usual."""
    fragment = _first(fragments, "offset")
    found = _offset(fragment, language, now, zone)
    unit = language.value("unit", one_of(fragment.values, "unit") or "minute")
    if unit in ("minute", "hour"):
        return When("at", language.code, rest, spans, at=found)
    clocks = clocks_of(fragments, language)
    if clocks or _reminds(folded, language):
        clock = clocks[0] if clocks else DEFAULT
        moment = instant(datetime.combine(found.date(), time(clock.hour, clock.minute)), zone)
        return When("at", language.code, rest, spans, at=moment)
    return When("range", language.code, rest, spans, range=day_range(found.date(), zone))


def _offset(fragment: Fragment, language: Language, now: datetime, zone: tzinfo) -> datetime:
    fixed = {"in_half_hour": 30, "in_hour_and_half": 90, "in_quarter_hour": 15}
    if fragment.means in fixed:
        return (now + timedelta(minutes=fixed[fragment.means])).astimezone(zone)
    number = int(language.value("number", one_of(fragment.values, "number") or "1"))
    step = step_of(language.value("unit", one_of(fragment.values, "unit") or ""), number)
    if isinstance(step, timedelta):
        return (now + step).astimezone(zone)
    return instant(now.replace(tzinfo=None) + step, zone)


def _instant(day: Fragment | None, clock: Clock, language: Language, now: datetime, zone: tzinfo) -> datetime:
    """The instant of a day and a time of day; what is past rolls on by what was said."""
    today = now.date()
    if day is None:
        found = instant(datetime.combine(today, time(clock.hour, clock.minute)), zone)
        return found if found > now else instant(datetime.combine(today + timedelta(1), found.time()), zone)
    chosen = read_day(day.means, day.values, day.text, language, today)
    found = instant(datetime.combine(chosen, time(clock.hour, clock.minute)), zone)
    if found > now:
        return found
    roll = ROLLS.get(day.means)
    if roll is None:
        raise Unclear("time.past", day.text)
    return instant(datetime.combine(chosen, time(clock.hour, clock.minute)) + roll, zone)


def _part_of(day: date, part: str, zone: tzinfo) -> TimeRange:
    _, first, last = PARTS[part]
    start = datetime.combine(day, time(first))
    return TimeRange(instant(start, zone), instant(datetime.combine(day, time()) + timedelta(hours=last), zone))


def _limited(
    fragments: Sequence[Fragment],
    language: Language,
    now: datetime,
    zone: tzinfo,
    rest: str,
    spans: tuple[tuple[int, int], ...],
) -> When:
    """Bounds without a recurrence: a range of days or of times of today."""
    start: datetime | None = None
    end: datetime | None = None
    for fragment in fragments:
        day = one_of(fragment.values, "day")
        if day is not None:
            found = day_range(parse_day(day, language, now.date()), zone)
            if fragment.means == "from":
                start = found.start
            else:
                start, end = start or now, found.end
        elif fragment.means == "between":
            ends = [read_clock(text, language) for name, text in fragment.values if name == "anyclock"]
            start, end = (instant(datetime.combine(now.date(), time(c.hour, c.minute)), zone) for c in ends[:2])
    if start is None and end is None:
        return When("none", language.code, rest)
    return When("range", language.code, rest, spans, range=TimeRange(start, end))


def time_texts(text: str, languages: Sequence[Language]) -> Iterator[str]:
    """The parts of `text` that name a stretch of time or a day, as written."""
    masked = mask(text)
    for language in languages:
        for fragment in find_fragments(language.fold(masked), language):
            if fragment.section in ("span", "day"):
                yield text[fragment.start : fragment.end]

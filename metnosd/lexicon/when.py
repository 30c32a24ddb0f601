"""What a text says about time: one instant, a range, a recurrence, nothing, or something unclear."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, tzinfo
from itertools import islice

from metnosd.arguments import TimeRange
from metnosd.lexicon.clocks import CLOCK_NAMES, PARTS, Clock, Habits, Unclear, clock_of
from metnosd.lexicon.days import ROLLS, parse_day, read_day
from metnosd.lexicon.detect import known_words
from metnosd.lexicon.every import clocks_of, compose_recurrence, part_of
from metnosd.lexicon.fragments import Fragment, find_fragments, reminds
from metnosd.lexicon.lexicon import Language, Lexicon
from metnosd.lexicon.masks import HIDDEN, mask
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


def read_when(
    text: str,
    languages: Sequence[Language],
    now: datetime,
    zone: tzinfo,
    habits: Habits | None = None,
) -> When:
    """What `text` says about time, read in the first of `languages` in which it says anything.

    `now` is aware. Never raises for a text, whatever it says.
    """
    local = now.astimezone(zone)
    masked = mask(text)
    for language in languages:
        folded = language.fold(masked)
        fragments, hidden = find_fragments(folded, language)
        for start, end in hidden:
            masked = masked[:start] + HIDDEN * (end - start) + masked[end:]
        if language is not languages[0] and not _may_read(fragments, masked, language, languages[0]):
            continue
        fragments = _without_lone_parts(fragments, language)
        if not fragments or any(template.search(folded) for template in language.signals_within.get("about", ())):
            continue
        spans = _joined(text, fragments)
        rest = rest_of(text, spans)
        try:
            return _compose(fragments, _Heard(language, folded, local, zone, rest, spans, habits or Habits()))
        except (OverflowError, ValueError):
            return When("unclear", language.code, rest, spans, question=say("time.no_span", text=text))
        except Unclear as error:
            at = folded.find(error.text) if error.text else -1
            question = say(error.key, text=text[at : at + len(error.text)] if at >= 0 else text)
            return When("unclear", language.code, rest, spans, question=question)
    return When("none", languages[0].code, text.strip())


def _may_read(fragments: Sequence[Fragment], text: str, language: Language, own: Language) -> bool:
    """Whether another language may read a time: one that knows the text as well as its own, or foreign words."""
    return known_words(text, language) >= known_words(text, own) or _is_foreign(fragments, own)


def _is_foreign(fragments: Sequence[Fragment], own: Language) -> bool:
    """Whether a part holds a word that the message's own language does not know ("every Friday" in Italian)."""
    words = {word for fragment in fragments for word in re.findall(r"[^\W\d_]{2,}", fragment.text)}
    return any(own.fold(word) not in own.known_words for word in words)


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


def _joined(text: str, fragments: Sequence[Fragment]) -> tuple[tuple[int, int], ...]:
    """The places of `fragments`, those with only blanks between them as one."""
    joined: list[tuple[int, int]] = []
    for fragment in fragments:
        if joined and not text[joined[-1][1] : fragment.start].strip():
            joined[-1] = (joined[-1][0], fragment.end)
        else:
            joined.append((fragment.start, fragment.end))
    return tuple(joined)


def _without_lone_parts(fragments: list[Fragment], language: Language) -> list[Fragment]:
    """A limit without anything that it limits is no time ("3 times", "pages 3 to 5", "except Sunday")."""
    if any(fragment.section != "limit" for fragment in fragments):
        return fragments
    return [fragment for fragment in fragments if _stands_alone(fragment, language)]


def _stands_alone(fragment: Fragment, language: Language) -> bool:
    if fragment.means == "between":
        return any(not text.isdigit() and language.value("number", text) == text for _, text in fragment.values)
    return fragment.means in ("until", "from") and one_of(fragment.values, "day") is not None


@dataclass(frozen=True, slots=True)
class _Heard:
    """What is known of a sentence before its parts are put together; `now` is in `zone`."""

    language: Language
    folded: str
    now: datetime
    zone: tzinfo
    rest: str
    spans: tuple[tuple[int, int], ...]
    habits: Habits

    def says(
        self,
        kind: str,
        *,
        recurrence: Recurrence | None = None,
        at: datetime | None = None,
        range: TimeRange | None = None,
    ) -> When:
        """The sentence's time."""
        return When(kind, self.language.code, self.rest, self.spans, recurrence, at, range)


def _compose(fragments: Sequence[Fragment], heard: _Heard) -> When:
    language, now, zone = heard.language, heard.now, heard.zone
    fragments = _weekday_of_a_week(fragments, language)
    sections = {fragment.section for fragment in fragments}
    if "every" in sections:
        recurrence = compose_recurrence(fragments, language, now, zone, heard.habits)
        if next(recurrence.after(now), None) is None:
            raise Unclear("time.never", "")
        return heard.says("recurring", recurrence=recurrence)
    if "offset" in sections:
        return _from_now(fragments, heard)
    if "span" in sections and not sections & {"at", "day"}:
        fragment = _first(fragments, "span")
        found = read_span(fragment.means, fragment.values, language, now, zone)
        return heard.says("range", range=found)
    clocks = clocks_of(fragments, language, heard.habits)
    said_clock = "at" in sections
    asks_reminder = reminds(heard.folded, language)
    day = next((fragment for fragment in fragments if fragment.section == "day"), None)
    limited = _limited_day(fragments, language, now) if day is None else None
    window = _window(fragments, language)
    if window is not None and day is not None:
        on = read_day(day.means, day.values, day.text, language, now.date())
        first, last = (instant(datetime.combine(on, time(c.hour, c.minute)), zone) for c in window)
        if asks_reminder:
            return heard.says("at", at=first)
        return heard.says("range", range=TimeRange(first, last))
    part = part_of(fragments, language)
    week = _week_day(fragments, language, now) or limited
    if said_clock or (asks_reminder and (day is not None or part is not None)):
        clock = clocks[0] if clocks else heard.habits.day
        return heard.says("at", at=_instant(day, clock, language, now, zone, week))
    if day is not None:
        found_day = week or read_day(day.means, day.values, day.text, language, now.date())
        found = day_range(found_day, zone)
        return heard.says("range", range=_part_of(found_day, part, zone) if part else found)
    if part is not None:
        return heard.says("range", range=_part_of(now.date(), part, zone))
    return _limited(fragments, heard)


def _first(fragments: Sequence[Fragment], section: str) -> Fragment:
    return next(fragment for fragment in fragments if fragment.section == section)


def _from_now(fragments: Sequence[Fragment], heard: _Heard) -> When:
    """ "In 20 minutes" is an instant; "in 3 days" is a day, with its time of day said or usual."""
    language, now, zone = heard.language, heard.now, heard.zone
    fragment = _first(fragments, "offset")
    found = _offset(fragment, language, now, zone)
    if all(unit in ("minute", "hour") for _, unit in _amounts(fragment, language)):
        return heard.says("at", at=found)
    clocks = clocks_of(fragments, language, heard.habits)
    if clocks or reminds(heard.folded, language):
        clock = clocks[0] if clocks else heard.habits.day
        moment = instant(datetime.combine(found.date(), time(clock.hour, clock.minute)), zone)
        return heard.says("at", at=moment)
    return heard.says("range", range=day_range(found.date(), zone))


def _offset(fragment: Fragment, language: Language, now: datetime, zone: tzinfo) -> datetime:
    fixed = {"in_half_hour": 30, "in_hour_and_half": 90, "in_quarter_hour": 15, "in_three_quarters": 45}
    if fragment.means in fixed:
        return (now + timedelta(minutes=fixed[fragment.means])).astimezone(zone)
    moment = now.replace(tzinfo=None)
    elapsed = timedelta()
    for number, unit in _amounts(fragment, language):
        step = step_of(unit, number)
        if isinstance(step, timedelta):
            elapsed += step
        else:
            moment += step
    if fragment.means == "in_and_half":
        elapsed += _HALVES[_amounts(fragment, language)[-1][1]]
    return (instant(moment, zone) + elapsed).astimezone(zone)


_HALVES = {
    "minute": timedelta(seconds=30),
    "hour": timedelta(minutes=30),
    "day": timedelta(hours=12),
    "week": timedelta(days=3, hours=12),
    "month": timedelta(days=15),
    "year": timedelta(days=183),
}


def _amounts(fragment: Fragment, language: Language) -> list[tuple[int, str]]:
    """The numbers with their units, in order; {h} and {m} are hours and minutes."""
    found: list[tuple[int, str]] = []
    number = 1
    for name, text in fragment.values:
        if name in ("h", "m"):
            found.append((int(language.value(name, text)), "hour" if name == "h" else "minute"))
        elif name == "number":
            number = int(language.value("number", text))
        elif name == "unit":
            found.append((number, language.value("unit", text)))
            number = 1
    if number > 1 and found and found[-1][1] == "hour":
        found.append((number, "minute"))
    return found


def _limited_day(fragments: Sequence[Fragment], language: Language, now: datetime) -> date | None:
    """The day of a bound that stands beside a time of day ("until tomorrow at 18")."""
    if not any(fragment.section == "at" for fragment in fragments):
        return None
    for fragment in fragments:
        day = one_of(fragment.values, "day")
        if fragment.section == "limit" and fragment.means in ("until", "from") and day is not None:
            return parse_day(day, language, now.date())
    return None


def _window(fragments: Sequence[Fragment], language: Language) -> tuple[Clock, Clock] | None:
    """The two times of day of "from 9 to 11"."""
    for fragment in fragments:
        if fragment.section == "limit" and fragment.means == "between":
            clocks = [clock_of(name, text, language) for name, text in fragment.values if name in CLOCK_NAMES]
            if len(clocks) == 2 and clocks[0] < clocks[1]:
                return clocks[0], clocks[1]
    return None


def _weekday_of_a_week(fragments: Sequence[Fragment], language: Language) -> Sequence[Fragment]:
    """ "On Tuesdays" beside a week is one day: some languages say both alike ("le mardi de la semaine")."""
    every = [fragment for fragment in fragments if fragment.section == "every"]
    week = any(
        f.section == "span" and f.means in _WEEKS and language.value("unit", one_of(f.values, "unit") or "") == "week"
        for f in fragments
    )
    if not week or len(every) != 1 or every[0].means != "weekdays":
        return fragments
    text = one_of(every[0].values, "weekdays") or one_of(every[0].values, "weekday")
    if text is None or text not in language.values["weekday"]:
        return fragments
    day = replace(every[0], section="day", means="weekday", values=(("weekday", text),))
    return [day if fragment is every[0] else fragment for fragment in fragments]


def _week_day(fragments: Sequence[Fragment], language: Language, now: datetime) -> date | None:
    """A weekday beside a week ("Wednesday next week"): that day of that week."""
    day = next((f for f in fragments if f.section == "day" and f.means.endswith("weekday")), None)
    span = next((f for f in fragments if f.section == "span" and f.means in _WEEKS), None)
    if day is None or span is None or language.value("unit", one_of(span.values, "unit") or "") != "week":
        return None
    name, word = day.values[0]
    monday = now.date() - timedelta(days=now.date().weekday()) + timedelta(weeks=_WEEKS[span.means])
    return monday + timedelta(days=int(language.value(name, word)) - 1)


_WEEKS = {"this": 0, "next": 1, "previous": -1}


def _instant(
    day: Fragment | None, clock: Clock, language: Language, now: datetime, zone: tzinfo, week: date | None
) -> datetime:
    """The instant of a day and a time of day; what is past rolls on by what was said."""
    today = now.date()
    if week is not None:
        return instant(datetime.combine(week, time(clock.hour, clock.minute)), zone)
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
    first, last = PARTS[part]
    start = datetime.combine(day, time(first))
    return TimeRange(instant(start, zone), instant(datetime.combine(day, time()) + timedelta(hours=last), zone))


def _limited(fragments: Sequence[Fragment], heard: _Heard) -> When:
    """Bounds without a recurrence: a range of days or of times of today."""
    language, now, zone = heard.language, heard.now, heard.zone
    start: datetime | None = None
    end: datetime | None = None
    for fragment in fragments:
        day = one_of(fragment.values, "day")
        if day is not None:
            found = day_range(parse_day(day, language, now.date()), zone)
            if fragment.means == "from":
                start = found.start
            else:
                start, end = start or (now if found.end is None or found.end > now else None), found.end
        elif fragment.means == "between":
            ends = [clock_of(name, text, language) for name, text in fragment.values if name in CLOCK_NAMES]
            start, end = (instant(datetime.combine(now.date(), time(c.hour, c.minute)), zone) for c in ends[:2])
    if start is None and end is None:
        return When("none", language.code, heard.rest)
    return heard.says("range", range=TimeRange(start, end))


def time_places(text: str, languages: Sequence[Language]) -> Iterator[tuple[int, int]]:
    """The places in `text` of a stretch of time or a day, in the first language with any."""
    masked = mask(text)
    for language in languages:
        fragments, hidden = find_fragments(language.fold(masked), language)
        for start, end in hidden:
            masked = masked[:start] + HIDDEN * (end - start) + masked[end:]
        found = [fragment for fragment in fragments if fragment.section in ("span", "day")]
        if found and (language is languages[0] or _may_read(found, masked, language, languages[0])):
            yield from ((fragment.start, fragment.end) for fragment in found)
            return

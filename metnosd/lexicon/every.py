"""Composes recurrences from the parts found in a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, tzinfo

from dateutil.relativedelta import relativedelta

from metnosd.lexicon.clocks import (
    CLOCK_NAMES,
    PARTS,
    WORKING,
    Clock,
    Habits,
    Unclear,
    clock_of,
    in_part,
    parse_weekdays,
    read_weekdays,
)
from metnosd.lexicon.days import day_number, day_of, month_of, next_with_day, parse_day, read_day
from metnosd.lexicon.fragments import Fragment
from metnosd.lexicon.lexicon import Language
from metnosd.lexicon.recurrence import Recurrence, instant
from metnosd.lexicon.spells import Step, step_of
from metnosd.lexicon.templates import Values, one_of, values_of

_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_FREQUENCY: Mapping[str, tuple[str, int]] = {
    "minute": ("MINUTELY", 1),
    "hour": ("HOURLY", 1),
    "day": ("DAILY", 1),
    "week": ("WEEKLY", 1),
    "month": ("MONTHLY", 1),
    "quarter": ("YEARLY", 1),
    "fortnight": ("WEEKLY", 2),
    "half_hour": ("MINUTELY", 30),
    "quarter_hour": ("MINUTELY", 15),
    "half_year": ("MONTHLY", 6),
    "year": ("YEARLY", 1),
}


_MONTH_DAYS = ("dom", "dd", "ordinal", "number")


@dataclass(slots=True)
class _Draft:
    """A rule in the making."""

    usual: Clock
    frequency: str = ""
    interval: int = 1
    weekdays: tuple[int, ...] = ()
    nth: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    working: int | None = None
    quarterly: bool = False
    on: date | None = None
    start_day: date | None = None
    until: date | None = None
    lasts: Step | None = None
    count: int | None = None
    window: tuple[Clock, Clock] | None = None
    without: set[int] = field(default_factory=set)
    except_dates: list[date] = field(default_factory=list)


def compose_recurrence(
    fragments: Sequence[Fragment], language: Language, now: datetime, zone: tzinfo, habits: Habits
) -> Recurrence:
    """The recurrence that `fragments` make. `now` is aware, in `zone`. Raises `Unclear`."""
    draft = _Draft(usual=habits.day)
    today = now.date()
    for fragment in fragments:
        _READERS.get(fragment.section, _ignore)(draft, fragment, language, today)
    clocks = clocks_of(fragments, language, habits)
    if draft.frequency == "DAILY" and draft.weekdays and draft.interval > 1:
        # "Every 14 days on Tuesday": weeks, said in days ("15 days" is two weeks where people count both ends).
        weeks, over = divmod(draft.interval - (draft.interval == 15), 7)
        if over or not weeks:
            raise Unclear("time.never", fragments[0].text)
        draft.frequency, draft.interval = "WEEKLY", weeks
    if not draft.frequency:
        draft.frequency = "WEEKLY" if draft.weekdays else "DAILY"
    if draft.without:
        draft.weekdays = tuple(d for d in draft.weekdays or range(1, 8) if d not in draft.without)
        if not draft.weekdays:
            raise Unclear("time.never", fragments[0].text)
        draft.frequency = "WEEKLY"
    rules = _rules(draft, clocks)
    return _placed(draft, rules, clocks, now, zone)


def _every(draft: _Draft, fragment: Fragment, language: Language, today: date) -> None:
    means, values = fragment.means, fragment.values
    if means in _FREQUENCY:
        draft.frequency, draft.interval = _FREQUENCY[means]
        draft.quarterly = means == "quarter"
    elif means in PARTS or means == "noon":
        draft.frequency = "DAILY"
    elif means in ("n_units", "other_unit"):
        unit = language.value("unit", one_of(values, "unit") or "")
        frequency, factor = ("MONTHLY", 3) if unit == "quarter" else _FREQUENCY[unit]
        ordinal = one_of(values, "ordinal")
        said = language.value("ordinal", ordinal) if ordinal else one_of(values, "number") or "1"
        number = 2 if means == "other_unit" else int(language.value("number", said))
        if number < 1:
            raise Unclear("time.never", fragment.text)
        draft.frequency, draft.interval = frequency, number * factor
    elif means in ("weekdays", "other_weekday"):
        through = [text for name, text in values if name in ("weekday", "weekday_short")]
        kind = "through" if means == "weekdays" and len(through) == 2 else "list"
        draft.weekdays = read_weekdays(values, language, kind)
        if draft.frequency not in ("MINUTELY", "HOURLY"):
            draft.frequency = "WEEKLY"
        if means == "other_weekday":
            draft.interval = int(language.value("number", one_of(values, "number") or "2"))
    elif means == "date":
        draft.frequency = "YEARLY"
        draft.on = read_day("date", values, fragment.text, language, today)
    else:
        _monthly(draft, fragment, language)
    if draft.frequency == "WEEKLY" and (beside := values_of(values, "weekdays")) and not draft.weekdays:
        # "Every 2 weeks on Monday and Thursday": the days are in the same part as the frequency.
        draft.weekdays = read_weekdays(tuple(("weekdays", text) for text in beside), language, "list")


def _monthly(draft: _Draft, fragment: Fragment, language: Language) -> None:
    means, values = fragment.means, fragment.values
    draft.frequency = "MONTHLY"
    if means in ("nth_weekday", "last_weekday"):
        draft.weekdays = (int(language.value("weekday", one_of(values, "weekday") or "")),)
        ordinals = values_of(values, "ordinal")
        draft.nth = tuple(int(language.value("ordinal", ordinal)) for ordinal in ordinals) or (-1,)
    elif means == "doms":
        try:
            days = {day_number(text, language, name) for name, text in values if name in _MONTH_DAYS}
        except ValueError as error:
            raise Unclear("time.no_day", fragment.text) from error
        draft.month_days = tuple(sorted(days))
    elif means == "last_day":
        draft.month_days = (-1,)
    elif means in ("first_working", "last_working"):
        draft.working = 1 if means == "first_working" else -1


def _limit(draft: _Draft, fragment: Fragment, language: Language, today: date) -> None:
    means, values = fragment.means, fragment.values
    day = _limit_day(values, language, today)
    if means == "until" and day is not None:
        draft.until = day
    elif means == "from" and day is not None:
        draft.start_day = day
    elif means == "for":
        number = int(language.value("number", one_of(values, "number") or "1"))
        unit = language.value("unit", one_of(values, "unit") or "")
        draft.lasts = step_of(unit, number)
    elif means == "times":
        draft.count = int(language.value("number", one_of(values, "number") or "1"))
        if draft.count < 1:
            raise Unclear("time.never", fragment.text)
    elif means == "except":
        for name, text in values:
            draft.without |= set(
                parse_weekdays(text, language)
                if name == "weekdays"
                else read_weekdays(((name, text),), language, "list")
            )
    elif means == "except_day" and day is not None:
        draft.except_dates.append(day)
    elif means == "between":
        first, last = [clock_of(name, text, language) for name, text in values if name in CLOCK_NAMES][:2]
        draft.window = (first, last)


def _limit_day(values: Values, language: Language, today: date) -> date | None:
    """The day of a limit: a whole one, or a bare day of the month ("until the 30th")."""
    text = one_of(values, "day")
    if text is not None:
        return parse_day(text, language, today)
    month = month_of(values, language)
    if month is not None and not any(name in ("dom", "dd") for name, _ in values):
        said = one_of(values, "year")
        return date(int(said) if said else today.year + (month < today.month), month, 1) + relativedelta(day=31)
    if any(name in ("dom", "dd") for name, _ in values):
        try:
            return next_with_day(day_of(values, language), today)
        except ValueError as error:
            raise Unclear("time.no_day", " ".join(text for _, text in values)) from error
    return None


def _span(draft: _Draft, fragment: Fragment, language: Language, today: date) -> None:
    """A stretch beside a recurrence bounds it: words for "since" are often those for "from"."""
    texts = values_of(fragment.values, "day")
    if fragment.means == "ahead":
        number = int(language.value("number", one_of(fragment.values, "number") or "1"))
        draft.lasts = step_of(language.value("unit", one_of(fragment.values, "unit") or ""), number)
    if fragment.means in ("since", "between") and texts:
        draft.start_day = parse_day(texts[0], language, today)
    if fragment.means == "between" and len(texts) > 1:
        draft.until = parse_day(texts[1], language, draft.start_day or today)
    if fragment.means == "until" and texts:
        draft.until = parse_day(texts[0], language, today)


def _day(draft: _Draft, fragment: Fragment, language: Language, today: date) -> None:
    """A day beside a frequency: "every 2 weeks on Tuesday", "every year on March 3rd"."""
    found = read_day(fragment.means, fragment.values, fragment.text, language, today)
    if fragment.means == "weekday":
        draft.weekdays = (*draft.weekdays, found.isoweekday())
    elif (draft.frequency == "MONTHLY" or draft.quarterly) and fragment.means == "dom":
        draft.month_days = (*draft.month_days, found.day)
    elif draft.frequency == "YEARLY":
        draft.on = found
    else:
        draft.start_day = found


def _ignore(_draft: _Draft, _fragment: Fragment, _language: Language, _today: date) -> None:
    """Times of day are read apart."""


_READERS = {"every": _every, "limit": _limit, "day": _day, "span": _span}


def part_of(fragments: Sequence[Fragment], language: Language) -> str | None:
    """The part of the day that `fragments` name: as such, in a recurrence, or inside a word for a day."""
    for fragment in fragments:
        if fragment.section == "part" or (fragment.section == "every" and fragment.means in PARTS):
            return fragment.means
        said = one_of(fragment.values, "day_part")
        if said is not None:
            return language.value("day_part", said)
    for fragment in fragments:
        for means, templates in language.time["part"].items():
            if any(template.full(fragment.text) is not None for template in templates):
                return means
    return None


def clocks_of(fragments: Sequence[Fragment], language: Language, habits: Habits) -> list[Clock]:
    """The times of day of `fragments`, in the half of the day that was said, in order, each once."""
    part = part_of(fragments, language)
    clocks = [
        in_part(clock_of(name, text, language), part)
        for fragment in fragments
        if fragment.section == "at"
        for name, text in fragment.values
        if name in CLOCK_NAMES
    ]
    if not clocks and part is not None:
        clocks = [habits.of(part)]
    if not clocks and any(fragment.section == "every" and fragment.means == "noon" for fragment in fragments):
        clocks = [habits.noon]
    return sorted(set(clocks))


def _rules(draft: _Draft, clocks: Sequence[Clock]) -> tuple[str, ...]:
    parts = [f"FREQ={draft.frequency}"]
    if draft.interval > 1:
        parts.append(f"INTERVAL={draft.interval}")
    if draft.nth:
        parts.append(f"BYDAY={','.join(f'{nth}{_DAYS[draft.weekdays[0] - 1]}' for nth in draft.nth)}")
    elif draft.working is not None:
        parts += [f"BYDAY={','.join(_DAYS[day - 1] for day in WORKING)}", f"BYSETPOS={draft.working}"]
    elif draft.weekdays:
        parts.append(f"BYDAY={','.join(_DAYS[day - 1] for day in sorted(set(draft.weekdays)))}")
    if draft.quarterly:
        parts.append("BYMONTH=1,4,7,10")
        if not (draft.month_days or draft.weekdays):
            parts.append("BYMONTHDAY=1")
    if draft.month_days:
        parts.append(f"BYMONTHDAY={','.join(str(day) for day in draft.month_days)}")
    if draft.on is not None:
        parts += [f"BYMONTH={draft.on.month}", f"BYMONTHDAY={draft.on.day}"]
    rule = ";".join(parts)
    if draft.window is not None and draft.frequency in ("MINUTELY", "HOURLY"):
        return _window_rules(draft)
    if len(clocks) < 2:
        return (rule,)
    minutes = sorted({clock.minute for clock in clocks})
    return tuple(
        f"{rule};BYHOUR={','.join(str(c.hour) for c in clocks if c.minute == minute)};BYMINUTE={minute};BYSECOND=0"
        for minute in minutes
    )


def _window_rules(draft: _Draft) -> tuple[str, ...]:
    """ "Every 15 minutes between 9 and 17": the times of one day, both ends among them, as daily rules."""
    assert draft.window is not None
    first, last = draft.window
    step = draft.interval * (1 if draft.frequency == "MINUTELY" else 60)
    end = last.hour * 60 + last.minute
    start = first.hour * 60 + first.minute
    if end <= start:
        raise Unclear("time.never", "")
    by_minute: dict[int, list[int]] = {}
    for at in range(start, end + 1, step):
        by_minute.setdefault(at % 60, []).append(at // 60)
    days = f"FREQ=WEEKLY;BYDAY={','.join(_DAYS[d - 1] for d in draft.weekdays)}" if draft.weekdays else "FREQ=DAILY"
    return tuple(
        f"{days};BYHOUR={','.join(map(str, hours))};BYMINUTE={minute};BYSECOND=0"
        for minute, hours in sorted(by_minute.items())
    )


def _placed(draft: _Draft, rules: tuple[str, ...], clocks: Sequence[Clock], now: datetime, zone: tzinfo) -> Recurrence:
    """The recurrence with its first fire after `now`, its end and its exceptions."""
    naive_now = now.replace(tzinfo=None)
    interval = f";INTERVAL={draft.interval}"
    absolute = draft.frequency in ("MINUTELY", "HOURLY") and draft.window is None and not clocks
    if absolute:
        unit = "minutes" if draft.frequency == "MINUTELY" else "hours"
        start = naive_now.replace(second=0, microsecond=0) + timedelta(**{unit: draft.interval})
        if draft.frequency == "HOURLY" and draft.interval == 1:
            start = start.replace(minute=0)
    else:
        clock = clocks[0] if clocks else (draft.window[0] if draft.window else draft.usual)
        day = draft.start_day or draft.on or now.date()
        if draft.on is not None and draft.start_day is None:
            day = min(draft.on, now.date())
        start = datetime.combine(day, time(clock.hour, clock.minute))
    # The first fire is the next time that fits; the interval counts from there, unless a first day was said.
    first = rules if draft.start_day or absolute else tuple(rule.replace(interval, "") for rule in rules)
    found = Recurrence(first, start, zone, except_dates=tuple(draft.except_dates)).starting(now)
    until = draft.until
    if draft.lasts is not None:
        until = (found.start + draft.lasts).date() - timedelta(days=1)
    if until is not None:
        end = instant(datetime.combine(until, time(23, 59, 59)), zone)
        if end <= now:
            raise Unclear("time.past", "")
        return Recurrence(rules, found.start, zone, end, draft.count, found.except_dates)
    return Recurrence(rules, found.start, zone, None, draft.count, found.except_dates)

"""Times of day and weekdays in words: sections `time.clock`, `time.hour`, `time.weekdays`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from metnosd.lexicon.lexicon import Language
from metnosd.lexicon.templates import Values

WORKING = (1, 2, 3, 4, 5)
"""Working days, ISO numbers."""

WEEKEND = (6, 7)


class Unclear(Exception):
    """A time that is none ("at 25:00", "31 June"); `key` names the question in the lexicon."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(f"{key}: {text}")
        self.key = key
        self.text = text


@dataclass(frozen=True, slots=True, order=True)
class Clock:
    """A time of day. `sure` is false where the half of the day was not said ("at 8")."""

    hour: int
    minute: int
    sure: bool = False


_PAST: Mapping[str, int] = {"hour": 0, "digits": 0, "half_past": 30, "quarter_past": 15}
_BEFORE: Mapping[str, int] = {"half_to": 30, "quarter_to": 45, "three_quarters": 45, "quarter_into": 15}
_AFTER_HOUR: Mapping[str, int] = {"hour_three_quarters": 45, "hour_half": 30, "hour_quarter": 15}


def read_clock(text: str, language: Language) -> Clock:
    """The time of day that the folded `text` is. Raises `Unclear` for one that no day has."""
    for section in ("clock", "hour"):
        for means, templates in language.time[section].items():
            for template in templates:
                values = template.full(text)
                if values is not None:
                    return _checked(_clock(means, _numbers(values, language)), text)
    raise Unclear("time.no_clock", text)


def _numbers(values: Values, language: Language) -> list[int]:
    return [_number(name, text, language) for name, text in values]


def _number(name: str, text: str, language: Language) -> int:
    """A number in digits, or in a word of its own list (`h`: "noon") or of `number`."""
    own = language.value(name, text)
    return int(language.value("number", text) if own == text else own)


def _clock(means: str, numbers: Sequence[int]) -> Clock:
    if means == "noon":
        return Clock(12, 0, True)
    if means == "midnight":
        return Clock(0, 0, True)
    minute = numbers[1] if len(numbers) > 1 else 0
    if means.endswith(("am", "pm")):
        if means.endswith("pm") and 13 <= numbers[0] <= 23:
            return Clock(numbers[0], minute, True)
        if not 1 <= numbers[0] <= 12:
            return Clock(99, minute)
        return Clock(numbers[0] % 12 + (12 if means.endswith("pm") else 0), minute, True)
    if means == "past":
        return Clock(numbers[1], numbers[0])
    if means == "to":
        return Clock(_hour_before(numbers[1]), 60 - numbers[0])
    if means == "hour_past":
        return Clock(numbers[0], numbers[1])
    if means == "hour_less":
        return Clock(_hour_before(numbers[0]), 60 - numbers[1])
    if means in ("half_less", "half_more"):
        # "five to half eight": the half lies before the hour that is said.
        return Clock(_hour_before(numbers[1]), 30 - numbers[0] if means == "half_less" else 30 + numbers[0])
    if means in _AFTER_HOUR:
        return Clock(numbers[0], _AFTER_HOUR[means])
    if means in _BEFORE:
        return Clock(_hour_before(numbers[0]), _BEFORE[means])
    return Clock(numbers[0], minute or _PAST.get(means, 0), sure=numbers[0] == 0 or numbers[0] > 12)


def _hour_before(hour: int) -> int:
    """The hour before `hour` on the dial: half an hour before one is half past twelve."""
    return (hour - 1) % 24 or 12


def _checked(clock: Clock, text: str) -> Clock:
    if clock.hour == 24 and clock.minute == 0:
        return Clock(0, 0, True)
    if not (0 <= clock.hour <= 23 and 0 <= clock.minute <= 59):
        raise Unclear("time.no_clock", text)
    return clock


PARTS: Mapping[str, tuple[int, int]] = {
    "morning": (6, 12),
    "afternoon": (12, 18),
    "evening": (18, 24),
    "night": (22, 24),
}
"""Part of the day → the hours between which it lies."""


@dataclass(frozen=True, slots=True)
class Habits:
    """The usual times of day where none is said, as the settings have them."""

    day: Clock = Clock(9, 0, True)
    morning: Clock = Clock(8, 0, True)
    noon: Clock = Clock(12, 0, True)
    afternoon: Clock = Clock(15, 0, True)
    evening: Clock = Clock(19, 0, True)
    night: Clock = Clock(22, 0, True)

    def of(self, part: str) -> Clock:
        """The usual time of `part`: day, noon, or one of `PARTS`."""
        found: Clock = getattr(self, part)
        return found


def clock_of(name: str, text: str, language: Language) -> Clock:
    """The time of day of a value: a whole one (`clock`, `anyclock`, `hour`), or a bare number (`h`, `number`)."""
    if name in ("h", "number"):
        return _checked(_clock("hour", [_number(name, text, language)]), text)
    return read_clock(text, language)


CLOCK_NAMES = ("clock", "anyclock", "hour", "h", "number")
"""Lists whose values are times of day in the sections `at` and `limit.between`."""


def in_part(clock: Clock, part: str | None) -> Clock:
    """`clock` in the half of the day that `part` means: "8 in the evening" is 20:00."""
    if clock.sure:
        return clock
    if part == "night" and clock.hour in (0, 12):
        return Clock(0, clock.minute, True)
    late = part in ("afternoon", "evening") or (part == "night" and clock.hour >= 6)
    return Clock(clock.hour + 12, clock.minute, True) if late and clock.hour < 12 else clock


_WEEKDAY_LISTS = ("weekday", "weekday_short", "weekdays", "weekdays_plural")


def read_weekdays(values: Values, language: Language, means: str) -> tuple[int, ...]:
    """The ISO weekdays of a match, in order of the week."""
    if means == "working":
        return WORKING
    if means == "weekend":
        return WEEKEND
    days: set[int] = set()
    values = tuple(value for value in values if value[0] in _WEEKDAY_LISTS)
    for name, text in values:
        days |= set(_weekdays_of(name, text, language))
    if means == "through" and values:
        first, last = (int(language.value(name, text)) for name, text in values[:2])
        days = {(first - 1 + step) % 7 + 1 for step in range((last - first) % 7 + 1)}
    return tuple(sorted(days))


def _weekdays_of(name: str, text: str, language: Language) -> tuple[int, ...]:
    if name == "weekdays":
        return parse_weekdays(text, language)
    key = language.value(name, text)
    named = {"working": WORKING, "weekend": WEEKEND}
    return named.get(key) or (int(key),)


def parse_weekdays(text: str, language: Language) -> tuple[int, ...]:
    """The ISO weekdays that the folded `text` is, by section `time.weekdays`."""
    for means, templates in language.time["weekdays"].items():
        for template in templates:
            values = template.full(text)
            if values is not None:
                return read_weekdays(values, language, means)
    raise Unclear("time.no_weekday", text)

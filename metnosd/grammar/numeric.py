"""Numbers between bounds, as alternatives over digits.

`-0` is written by no bounded rule, and a bounded number has an exponent only where its sign alone decides, or
where a negative exponent cannot leave the range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from metnosd.grammar.gbnf import Alternative, Ref, times

_DIGITS = 30
_DIGIT = "json-digit"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The range of a number; None leaves a side open, `open_low` and `open_high` exclude the bound itself."""

    low: Decimal | None = None
    high: Decimal | None = None
    open_low: bool = False
    open_high: bool = False

    def narrow(self, other: Bounds) -> Bounds:
        """The numbers in both."""
        low, open_low = _tighter((self.low, self.open_low), (other.low, other.open_low), 1)
        high, open_high = _tighter((self.high, self.open_high), (other.high, other.open_high), -1)
        return Bounds(low, high, open_low, open_high)

    def holds(self, value: float) -> bool:
        """Whether `value` lies in the range."""
        exact = Decimal(str(value))
        above = self.low is None or exact > self.low or (exact == self.low and not self.open_low)
        below = self.high is None or exact < self.high or (exact == self.high and not self.open_high)
        return above and below


_LARGEST = Decimal(10) ** (_DIGITS + 1) - 1
"""The largest whole number that is written without an exponent."""


def _tighter(
    first: tuple[Decimal | None, bool], second: tuple[Decimal | None, bool], direction: int
) -> tuple[Decimal | None, bool]:
    if first[0] is None or second[0] is None:
        return second if first[0] is None else first
    if first[0] == second[0]:
        return first[0], first[1] or second[1]
    return first if (first[0] - second[0]) * direction > 0 else second


def integer_rules(bounds: Bounds) -> list[Alternative]:
    """Alternatives for the integers within `bounds`; none when there is none."""
    if bounds.low is not None and bounds.low < -_LARGEST:
        bounds = replace(bounds, low=None)
    if bounds.high is not None and bounds.high > _LARGEST:
        bounds = replace(bounds, high=None)
    low = None if bounds.low is None else _ceiling(bounds.low, bounds.open_low)
    high = None if bounds.high is None else _floor(bounds.high, bounds.open_high)
    if low is None and high is None:
        return [(Ref("json-integer"),)]
    found = list(_naturals(max(low or 0, 0), high)) if high is None or high >= 0 else []
    if low is None or low < 0:
        nearest = 1 if high is None or high >= 0 else -high
        farthest = None if low is None else -low
        found += [('"-"', *parts) for parts in _naturals(nearest, farthest)]
    return found


def _ceiling(value: Decimal, beyond: bool) -> int:
    whole = int(value.to_integral_value(ROUND_CEILING))
    return whole + 1 if beyond and whole == value else whole


def _floor(value: Decimal, beyond: bool) -> int:
    whole = int(value.to_integral_value(ROUND_FLOOR))
    return whole - 1 if beyond and whole == value else whole


def _naturals(low: int, high: int | None) -> Iterator[Alternative]:
    """Natural numbers from `low` to `high`, written without leading zeros."""
    if high is not None and low > high:
        return
    if low == 0:
        yield ('"0"',)
        low = 1
        if high == 0:
            return
    start, end = str(low), None if high is None else str(high)
    if end is not None and len(end) == len(start):
        yield from _same_length(start, end)
        return
    first_free = len(start)
    if low != 10 ** (len(start) - 1):
        yield from _same_length(start, "9" * len(start))
        first_free += 1
    last_free = max(_DIGITS + 1, first_free) if end is None else len(end) - 1
    if end is not None and end == "9" * len(end):
        last_free = len(end)
    if first_free <= last_free:
        yield ("[1-9]", *times(_DIGIT, first_free - 1, last_free - 1))
    if end is not None and last_free < len(end):
        yield from _same_length("1" + "0" * (len(end) - 1), end)


def _same_length(low: str, high: str) -> Iterator[Alternative]:
    """Digit strings of one length between `low` and `high`, both included."""
    yield from _between(low, high, ())


def _between(low: str, high: str, before: Alternative) -> Iterator[Alternative]:
    common = 0
    while common < len(low) and low[common] == high[common]:
        common += 1
    prefix = (*before, f'"{low[:common]}"') if common else before
    low, high = low[common:], high[common:]
    if not low:
        yield prefix
        return
    rest = len(low) - 1
    first, last = int(low[0]), int(high[0])
    if low[1:].strip("0"):
        yield from _between(low[1:], "9" * rest, (*prefix, f'"{first}"'))
        first += 1
    upper: list[Alternative] = []
    if high[1:].strip("9"):
        upper = list(_between("0" * rest, high[1:], (*prefix, f'"{last}"')))
        last -= 1
    if first <= last:
        yield (*prefix, _digits(first, last), *times(_DIGIT, rest, rest))
    yield from upper


def _digits(first: int, last: int) -> str:
    return f'"{first}"' if first == last else f"[{first}-{last}]"


def number_rules(bounds: Bounds) -> list[Alternative]:
    """Alternatives for the numbers within `bounds`; none when there is none."""
    if bounds.low is None and bounds.high is None:
        return [(Ref("json-number"),)]
    if bounds.low is not None and bounds.low < -_LARGEST:
        bounds = replace(bounds, low=-_LARGEST, open_low=False)
    if bounds.high is not None and bounds.high > _LARGEST:
        bounds = replace(bounds, high=_LARGEST, open_high=False)
    found: list[Alternative] = []
    if bounds.high is None or bounds.high >= 0:
        below_zero = bounds.low is None or bounds.low < 0
        low = Decimal(0) if below_zero or bounds.low is None else bounds.low
        found += _positive(low, bounds.high, not below_zero and bounds.open_low, bounds.open_high)
    if bounds.low is None or bounds.low < 0:
        above_zero = bounds.high is None or bounds.high >= 0
        low = Decimal(0) if above_zero or bounds.high is None else -bounds.high
        high = None if bounds.low is None else -bounds.low
        mirrored = _positive(low, high, above_zero or bounds.open_high, bounds.open_low)
        found += [('"-"', *parts) for parts in mirrored]
    return found


def _positive(low: Decimal, high: Decimal | None, open_low: bool, open_high: bool) -> list[Alternative]:
    """Numbers from `low` ≥ 0 to `high`."""
    if high is not None and (low > high or (low == high and (open_low or open_high))):
        return []
    if low == 0 and high is None and not open_low:
        return [(Ref("json-positive"),)]
    first, start = _split(low)
    found: list[Alternative] = []
    if high is None:
        found += [(f'"{first}"', *parts) for parts in _fraction_from(start, open_low)]
        found += [(*parts, Ref("json-fraction", "?")) for parts in _naturals(first + 1, None)]
    else:
        last, end = _split(high)
        if first == last:
            found += [(f'"{first}"', *parts) for parts in _fraction_between(start, end, open_low, open_high)]
        else:
            found += [(f'"{first}"', *parts) for parts in _fraction_from(start, open_low)]
            found += [(*parts, Ref("json-fraction", "?")) for parts in _naturals(first + 1, last - 1)]
            found += [(f'"{last}"', *parts) for parts in _fraction_to(end, open_high)]
    return found + _with_exponent(low, high)


def _with_exponent(low: Decimal, high: Decimal | None) -> list[Alternative]:
    """Numbers in scientific notation that stay in the range whatever their digits are."""
    mantissa: Alternative = ("[1-9]", Ref("json-fraction", "?"))
    exponent: Alternative = ("[1-9]", Ref(_DIGIT, "?"))
    if low == 0 and high is None:
        return [(*mantissa, Ref("json-exponent"))]
    if low == 0 and high is not None and high >= 1:
        return [(*mantissa, "[eE]", '"-"', '"0"?', *exponent)]
    if low <= 10 and high is None:
        return [(*mantissa, "[eE]", '"+"?', *exponent)]
    return []


def _split(value: Decimal) -> tuple[int, str]:
    """The whole part and the digits of the fraction, without trailing zeros."""
    whole, _, fraction = f"{value:f}".partition(".")
    return int(whole), fraction.rstrip("0")


def _fraction_from(digits: str, beyond: bool) -> Iterator[Alternative]:
    """Fractions (with their point, or absent) of at least `digits`."""
    if not digits:
        if beyond:
            yield ('"."', *times(_DIGIT, 0, _DIGITS), "[1-9]", *times(_DIGIT, 0, _DIGITS))
        else:
            yield (Ref("json-fraction", "?"),)
        return
    for index, digit in enumerate(digits):
        if digit < "9":
            higher = _digits(int(digit) + 1, 9)
            yield (f'".{digits[:index]}"', higher, *times(_DIGIT, 0, _DIGITS))
    if beyond:
        yield (f'".{digits}"', *times(_DIGIT, 0, _DIGITS), "[1-9]", *times(_DIGIT, 0, _DIGITS))
    else:
        yield (f'".{digits}"', *times(_DIGIT, 0, _DIGITS))


def _fraction_to(digits: str, beyond: bool) -> Iterator[Alternative]:
    """Fractions (with their point, or absent) of at most `digits`."""
    if digits or not beyond:
        yield ()
    if not digits:
        if not beyond:
            yield ('".0"', *times("json-zero", 0, _DIGITS))
        return
    for index, digit in enumerate(digits):
        prefix = f'".{digits[:index]}"'
        if digit > "0":
            yield (prefix, _digits(0, int(digit) - 1), *times(_DIGIT, 0, _DIGITS))
        if index:
            yield (prefix,)
    if not beyond:
        yield (f'".{digits}"', *times("json-zero", 0, _DIGITS))


def _fraction_between(low: str, high: str, open_low: bool, open_high: bool) -> Iterator[Alternative]:
    """Fractions from `low` to `high`, both digits after the same whole part."""
    if not low and not open_low:
        yield from _fraction_to(high, open_high)
        return
    width = max(len(low), len(high))
    start, end = low.ljust(width, "0"), high.ljust(width, "0")
    common = 0
    while common < width and start[common] == end[common]:
        common += 1
    shared = f".{start[:common]}"
    if common == width:
        yield (f'"{shared}"', *times("json-zero", 0, _DIGITS))
        return
    first, last = int(start[common]), int(end[common])
    if last - first > 1:
        yield (f'"{shared}"', _digits(first + 1, last - 1), *times(_DIGIT, 0, _DIGITS))
    for parts in _tail_from(start[common + 1 :].rstrip("0"), open_low):
        yield (f'"{shared}{first}"', *parts)
    for parts in _tail_to(end[common + 1 :].rstrip("0"), open_high):
        yield (f'"{shared}{last}"', *parts)


def _tail_from(digits: str, beyond: bool) -> Iterator[Alternative]:
    """Further digits that make a fraction at least `digits`."""
    for parts in _fraction_from(digits, beyond):
        if parts == (Ref("json-fraction", "?"),):
            yield times(_DIGIT, 0, _DIGITS)
        else:
            yield _without_point(parts)


def _tail_to(digits: str, beyond: bool) -> Iterator[Alternative]:
    """Further digits that keep a fraction at most `digits`."""
    for parts in _fraction_to(digits, beyond):
        yield _without_point(parts)


def _without_point(parts: Alternative) -> Alternative:
    if not parts:
        return ()
    head = parts[0].replace(".", "", 1)
    return parts[1:] if head == '""' else (head, *parts[1:])

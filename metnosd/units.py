"""Measures: a number from one unit to another, by pint. The units are named as pint names them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from metnosd.arithmetic import MOST_BITS
from metnosd.sentence import Refusal

ADDED = ("metric_pound = 500 * gram", "metric_spoon = 15 * milliliter", "metric_teaspoon = 5 * milliliter")
"""Units that pint lacks, as kitchens and markets use them."""

CALENDAR = frozenset({"month", "year"})
"""Units that are not always equally long; pint takes their mean."""

DEGREES = "degree"
"""The unit that is one of temperature where the other is (`SCALES`), else one of angles."""

SCALES = {"degC": "degF", "degF": "degC", "kelvin": "degC"}
"""Target → what plain degrees are then."""


@cache
def _registry() -> Any:
    # It takes a third of a second to load, and most turns need none of it.
    import pint

    registry: Any = pint.UnitRegistry(non_int_type=Fraction, cache_folder=None)
    for line in ADDED:
        registry.define(line)
    return registry


def is_unit(name: str) -> bool:
    """Whether pint knows the unit `name`."""
    return name in _registry()


def convert(parts: Sequence[tuple[Fraction, str]], target: str) -> tuple[Fraction, bool]:
    """The sum of `parts` (number, unit) in the unit `target`, and whether it is exact.

    Plain degrees are of the other temperature scale where `target` is one. Raises `Refusal` where the units do
    not measure the same, or a number would be too large.
    """
    import pint

    units = [SCALES[target] if unit == DEGREES and target in SCALES else unit for _, unit in parts]
    registry = _registry()
    total = Fraction(0)
    for (number, _), unit in zip(parts, units, strict=True):
        try:
            found = registry.Quantity(number, unit).to(target).magnitude
        except pint.DimensionalityError:
            raise Refusal("numbers.units") from None
        total += Fraction(found)
    if max(total.numerator.bit_length(), total.denominator.bit_length()) > MOST_BITS:
        raise Refusal("numbers.too_large")
    calendar = CALENDAR & {*units, target}
    exact = not calendar or calendar == {*units, target}
    return total, exact

"""Exact arithmetic: right for any expression, and never long, large or a surprise for any text."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metnosd.arithmetic import (
    FULL_DIGITS,
    MOST_BITS,
    Node,
    NoExpression,
    Value,
    evaluate,
    parse,
    root,
    shown,
    tokens_of,
)
from metnosd.sentence import Refusal
from metnosd.units import convert, is_unit

LONGEST_SECONDS = 1.0
"""How long one expression may take at most, on a busy machine."""


def come_to(text: str) -> str:
    """What the notation `text` comes to, "~" before what is rounded and "%" behind a percentage."""
    value = evaluate(parse(tokens_of(text)))
    found = shown(value)
    return f"{'~' * found.about}{found.text}{'%' * value.percent}"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2 + 3 * 4", "14"),
        ("(2 + 3) * 4", "20"),
        ("10 - 4 - 3", "3"),
        ("100 / 10 / 2", "5"),
        ("2^3^2", "512"),
        ("-2^2", "-4"),
        ("2^-1", "0.5"),
        ("0.1 + 0.2", "0.3"),
        ("240 + 22%", "292.8"),
        ("240 - 15%", "204"),
        ("17% * 240", "40.8"),
        ("100 + 10% + 10%", "121"),
        ("10% + 5%", "15%"),
        ("5 + 17% * 100", "22"),
        ("100 * (1 + 10%)", "110"),
        ("√144", "12"),
        ("√(9 + 16) * 2", "10"),
        ("∛(0 - 27)", "-3"),
        ("√2", "~1.414213562"),
        ("√(1/4)", "0.5"),
        ("4^0.5", "2"),
        ("8^(1/3)", "2"),
        ("1/3", "~0.3333333333"),
        ("87.50 / 3", "~29.16666667"),
        ("1/3 * 3", "1"),
        ("2 × 3 ÷ 4 − 1", "0.5"),  # noqa: RUF001
        ("½ + ¼", "0.75"),
        ("3²", "9"),
        ("2**10", "1024"),
        ("2^64", "18446744073709551616"),
        ("pi", "~3.141592654"),
        ("2^1000", "~1.071508607 × 10^301"),  # noqa: RUF001
        ("1 / 2^60", "~8.67361738 × 10^-19"),  # noqa: RUF001
        ("abs(3 - 5)", "2"),
    ],
)
def test_what_expressions_come_to(text: str, wanted: str) -> None:
    """Precedence, brackets, percentages, roots and rounding are those of school and pocket calculators."""
    assert come_to(text) == wanted


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("1/0", "numbers.zero"),
        ("5 / (3 - 3)", "numbers.zero"),
        ("0^-1", "numbers.zero"),
        ("9^9^9^9", "numbers.too_large"),
        ("10**100000", "numbers.too_large"),
        ("2^(2^(2^(2^(2^2))))", "numbers.too_large"),
        ("9999^9999^2", "numbers.too_large"),
        ("1.1^99999", "numbers.too_large"),
        ("9" * 200, "numbers.too_large"),
        ("(" * 300 + "1" + ")" * 300, "numbers.too_long"),
        ("(" * 60 + "1" + ")" * 60, "numbers.too_long"),
        ("-" * 150 + "1", "numbers.too_long"),
        ("√" * 150 + "1", "numbers.too_long"),
        ("1" + "+1" * 300, "numbers.too_long"),
        ("√(0 - 4)", "numbers.no_root"),
        ("2^pi", "numbers.no_power"),
        ("2^(1/1000)", "numbers.no_power"),
    ],
)
def test_what_is_refused(text: str, key: str) -> None:
    """What has no result or would be too large is refused with its sentence, at once."""
    started = time.monotonic()
    with pytest.raises(Refusal) as caught:
        come_to(text)
    assert caught.value.sentence.key == key
    assert time.monotonic() - started < LONGEST_SECONDS


@pytest.mark.parametrize(
    "text", ["", "2 +", "* 2", "(2", "2)", "2 3", "2 + x", "√", "%", "2 % 3", "1.2.3", "import os"]
)
def test_what_is_no_expression(text: str) -> None:
    """A text that does not hold together is no expression."""
    with pytest.raises(NoExpression):
        come_to(text)


def trees() -> st.SearchStrategy[tuple[str, Fraction | None]]:
    """Expressions as text, fully bracketed, with their value by an independent evaluation; None: no value."""
    numbers = st.decimals(0, 999, places=2).map(lambda number: (f"{number:f}", Fraction(f"{number:f}")))

    def joined(parts: st.SearchStrategy[tuple[str, Fraction | None]]) -> st.SearchStrategy[tuple[str, Fraction | None]]:
        def join(
            op: str, left: tuple[str, Fraction | None], right: tuple[str, Fraction | None]
        ) -> tuple[str, Fraction | None]:
            text = f"({left[0]}) {op} ({right[0]})"
            a, b = left[1], right[1]
            if a is None or b is None or (op == "/" and b == 0):
                return text, None
            return text, {"+": a + b, "-": a - b, "*": a * b}.get(op) if op != "/" else a / b

        def negated(part: tuple[str, Fraction | None]) -> tuple[str, Fraction | None]:
            return f"-({part[0]})", None if part[1] is None else -part[1]

        return st.one_of(st.builds(join, st.sampled_from("+-*/"), parts, parts), parts.map(negated))

    return st.recursive(numbers, joined, max_leaves=12)


@given(trees())
@settings(deadline=None)
def test_value_is_that_of_fractions(tree: tuple[str, Fraction | None]) -> None:
    """The value of a random expression is exactly the one that `Fraction` computes for its tree."""
    text, wanted = tree
    if wanted is None:
        with pytest.raises(Refusal):
            evaluate(parse(tokens_of(text)))
    else:
        assert evaluate(parse(tokens_of(text))) == Value(wanted)


@given(st.lists(st.tuples(st.sampled_from("+-*"), st.integers(0, 99)), max_size=12), st.integers(0, 99))
@settings(deadline=None)
def test_precedence_is_that_of_python(rest: list[tuple[str, int]], first: int) -> None:
    """Without brackets, products come before sums, and both go from left to right."""
    terms = [[first]]
    signs = [1]
    for op, number in rest:
        if op == "*":
            terms[-1].append(number)
        else:
            terms.append([number])
            signs.append(1 if op == "+" else -1)
    wanted = 0
    for sign, factors in zip(signs, terms, strict=True):
        product = 1
        for factor in factors:
            product *= factor
        wanted += sign * product
    text = f"{first}" + "".join(f" {op} {number}" for op, number in rest)
    assert evaluate(parse(tokens_of(text))).value == wanted


@given(st.text("0123456789.+-*/^()%√∛ pi\u00d7²½", max_size=60))
@settings(deadline=None, max_examples=300)
def test_any_signs_come_to_an_end(text: str) -> None:
    """Any row of signs has a value, is refused or is no expression, soon, and is shown within bounds."""
    started = time.monotonic()
    try:
        found = shown(evaluate(parse(tokens_of(text))))
        assert len(found.text) <= FULL_DIGITS + 3
    except (Refusal, NoExpression):
        pass
    assert time.monotonic() - started < LONGEST_SECONDS


@given(st.fractions(), st.integers(2, 7))
@settings(deadline=None)
def test_roots(number: Fraction, degree: int) -> None:
    """The root of a power is exact; any other, raised again, is the number to 30 digits."""
    assert root(Value(abs(number) ** degree), degree) == Value(abs(number))
    found = root(Value(abs(number)), degree)
    if found.exact:
        assert found.value**degree == abs(number)
    else:
        assert abs(found.value**degree / abs(number) - 1) < Fraction(1, 10**30)


@given(st.fractions())
def test_what_is_shown_is_the_number(number: Fraction) -> None:
    """The digits shown are the number itself, or within half a unit of the tenth digit where they are rounded."""
    found = shown(Value(number))
    mantissa, _, power = found.text.partition(" × 10^")  # noqa: RUF001
    said = Fraction(mantissa) * Fraction(10) ** int(power or 0)
    if found.about:
        assert abs(said - number) <= abs(number) / 10**9
    else:
        assert said == number


def test_a_number_alone_computes_nothing() -> None:
    """A number with its sign or as a percentage is no computation, a sum in brackets is."""
    assert not parse(tokens_of("-(5%)")).computes
    assert parse(tokens_of("(5 + 1)")).computes
    assert not Node("", number=Fraction(1)).computes


@pytest.mark.parametrize(
    ("parts", "target", "wanted"),
    [
        ([(5, "mile")], "kilometer", "8.04672"),
        ([(180, "degC")], "degF", "356"),
        ([(-40, "degF")], "degC", "-40"),
        ([(0, "kelvin")], "degC", "-273.15"),
        ([(350, "degree")], "degC", "~176.6666667"),
        ([(180, "degree")], "degF", "356"),
        ([(180, "degree")], "radian", "~3.141592654"),
        ([(5, "foot"), (10, "inch")], "centimeter", "177.8"),
        ([(3, "day")], "minute", "4320"),
        ([(1, "year")], "day", "~365.25"),
        ([(2, "year")], "month", "24"),
        ([(2, "metric_pound")], "kilogram", "1"),
        ([(100, "kilometer/hour")], "mile/hour", "~62.13711922"),
        ([(1, "hectare")], "meter**2", "10000"),
        ([(1, "gibibyte")], "megabyte", "1073.741824"),
    ],
)
def test_units(parts: list[tuple[int, str]], target: str, wanted: str) -> None:
    """Measures are converted exactly, temperatures with their offset, and plain degrees by what is wanted."""
    total, exact = convert([(Fraction(number), unit) for number, unit in parts], target)
    found = shown(Value(total, exact))
    assert f"{'~' * found.about}{found.text}" == wanted


def test_units_that_do_not_fit() -> None:
    """What does not measure the same is refused, and so is a size beyond all bounds."""
    with pytest.raises(Refusal) as caught:
        convert([(Fraction(2), "liter")], "kilogram")
    assert caught.value.sentence.key == "numbers.units"
    with pytest.raises(Refusal):
        convert([(Fraction(2**MOST_BITS), "meter")], "millimeter")
    assert is_unit("kilometer") and not is_unit("bananas")

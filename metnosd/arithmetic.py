"""Exact arithmetic over a small notation: numbers, + - * / ^, brackets, roots, percentages. Nothing is executed.

The notation has a decimal point and no marks between thousands: `240 + 22%`, `(1/3) * 90`, `√144`, `2^10`. A
percentage that is added or taken off is one of what stands before it, as on a pocket calculator.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

from metnosd.sentence import Refusal

MOST_TOKENS = 200
"""How many numbers and signs an expression has at most."""

DEEPEST = 40
"""How deep brackets, powers and signs go at most inside each other."""

LONGEST_NUMBER = 60
"""How many digits a number that is said has at most."""

MOST_BITS = 20_000
"""How large the numerator and denominator of a result may become: about 6,000 digits."""

MOST_ROOT = 100
"""The highest root that is taken."""

FULL_DIGITS = 100
"""How many digits an exact result has that is shown in full; a longer one is rounded."""

FULL_DECIMALS = 20
"""How many decimals an exact result has that is shown in full."""

ROUNDED_DIGITS = 10
"""How many significant digits a rounded result has."""

ROOT_DIGITS = 40
"""To how many significant digits a root is taken that is not exact."""

PI = Fraction("3.14159265358979323846264338327950288419716939937510")

ROOTS = {"√": 2, "∛": 3}

TIMES = "\u00d7"
"""The sign of a product as it is shown."""

_SAME = str.maketrans({"×": "*", "·": "*", "⋅": "*", "∙": "*", "÷": "/", "−": "-", "–": "-", "∕": "/"})  # noqa: RUF001
_SPELT = {"**": "^", "²": "^2", "³": "^3", "½": "(1/2)", "¼": "(1/4)", "¾": "(3/4)", "⅓": "(1/3)", "⅔": "(2/3)"}
_TOKEN = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+|[-+*/^()%√∛]|pi|π|abs)")


class NoExpression(ValueError):
    """A text that is no expression."""


@dataclass(frozen=True, slots=True)
class Value:
    """A result; not `exact` where it was rounded. `percent`: it is a percentage, as a fraction of one."""

    value: Fraction
    exact: bool = True
    percent: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression: a number (`op` "") or an operation on the parts `args`."""

    op: str
    args: tuple[Node, ...] = ()
    number: Fraction = Fraction(0)

    @property
    def computes(self) -> bool:
        """Whether anything is computed, more than a number being said with its sign or as a percentage."""
        return self.op not in ("", "neg", "%", "pi", "()") or any(part.computes for part in self.args)


def plain(text: str) -> str:
    """`text` with the signs that only look different as those of the notation ("\u00d7", "²")."""
    text = text.translate(_SAME)
    for sign, spelt in _SPELT.items():
        text = text.replace(sign, spelt)
    return text


def tokens_of(text: str) -> list[str]:
    """The numbers and signs of an expression in the notation; raises `NoExpression`, `Refusal`."""
    text = plain(text)
    found: list[str] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise NoExpression(text[at:])
        found.append(match[1])
        at = match.end()
        if len(found) > MOST_TOKENS:
            raise Refusal("numbers.too_long")
    return found


def parse(tokens: Sequence[str]) -> Node:
    """The expression that `tokens` are; raises `NoExpression`, or `Refusal` where it is too long or too deep."""
    if len(tokens) > MOST_TOKENS:
        raise Refusal("numbers.too_long")
    parser = _Parser(tuple(tokens))
    node = parser.sum()
    if parser.at != len(tokens):
        raise NoExpression(tokens[parser.at])
    return node


@dataclass(slots=True)
class _Parser:
    tokens: tuple[str, ...]
    at: int = 0
    depth: int = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def sum(self) -> Node:
        left = self.product()
        while self.peek() in ("+", "-"):
            op = self.take()
            left = Node(op, (left, self.product()))
        return left

    def product(self) -> Node:
        left = self.signed()
        while self.peek() in ("*", "/"):
            op = self.take()
            left = Node(op, (left, self.signed()))
        return left

    def signed(self) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise Refusal("numbers.too_long")
        if self.peek() == "-":
            self.take()
            node = Node("neg", (self.signed(),))
        else:
            node = self.power()
        self.depth -= 1
        return node

    def power(self) -> Node:
        base = self.atom()
        if self.peek() == "%":
            self.take()
            base = Node("%", (base,))
        if self.peek() == "^":
            self.take()
            return Node("^", (base, self.signed()))
        return base

    def atom(self) -> Node:
        if not self.peek():
            raise NoExpression("")
        token = self.take()
        if token == "(":
            node = self.sum()
            if self.peek() != ")":
                raise NoExpression(self.peek())
            self.take()
            return node if node.op else Node("()", (node,))
        if token in ROOTS or token == "abs":
            self.depth += 1
            if self.depth > DEEPEST:
                raise Refusal("numbers.too_long")
            node = Node(token, (self.atom(),))
            self.depth -= 1
            return node
        if token in ("pi", "π"):
            return Node("pi")
        if len(token) > LONGEST_NUMBER:
            raise Refusal("numbers.too_large")
        if not (token[0].isdigit() or token[0] == "."):
            raise NoExpression(token)
        return Node("", number=Fraction(token))


def evaluate(node: Node) -> Value:
    """What an expression comes to. Raises `Refusal`: a division by zero, no real root, a number too large."""
    args = [evaluate(part) for part in node.args]
    value = _apply(node, args)
    if max(value.value.numerator.bit_length(), value.value.denominator.bit_length()) > MOST_BITS:
        raise Refusal("numbers.too_large")
    return value


def _apply(node: Node, args: list[Value]) -> Value:
    if node.op == "":
        return Value(node.number)
    if node.op == "pi":
        return Value(PI, exact=False)
    first = args[0]
    if node.op == "()":
        return first
    if node.op == "neg":
        return Value(-first.value, first.exact, first.percent)
    if node.op == "abs":
        return Value(abs(first.value), first.exact, first.percent)
    if node.op == "%":
        return Value(first.value / 100, first.exact, percent=True)
    if node.op in ROOTS:
        return root(first, ROOTS[node.op])
    if node.op == "^":
        return _power(first, args[1])
    return _joined(node.op, first, args[1])


def _joined(op: str, left: Value, right: Value) -> Value:
    exact = left.exact and right.exact
    if op in ("+", "-"):
        part = right.value
        if right.percent and not left.percent:
            part *= left.value
        return Value(left.value + (part if op == "+" else -part), exact, left.percent and right.percent)
    if op == "*":
        return Value(left.value * right.value, exact)
    if right.value == 0:
        raise Refusal("numbers.zero")
    return Value(left.value / right.value, exact)


def _power(base: Value, exponent: Value) -> Value:
    if not exponent.exact or exponent.value.denominator > MOST_ROOT:
        raise Refusal("numbers.no_power")
    times, degree = exponent.value.numerator, exponent.value.denominator
    number = base.value
    if number == 0 and times < 0:
        raise Refusal("numbers.zero")
    if number in (0, 1, -1):
        raised = Fraction(1) if times == 0 else number ** (2 - times % 2)
    else:
        bits = max(number.numerator.bit_length(), number.denominator.bit_length())
        # The size of the result is known before it is computed, which is what must not happen.
        if abs(times) * (bits - 1) > MOST_BITS:
            raise Refusal("numbers.too_large")
        raised = number**times
    result = Value(raised, base.exact)
    return root(result, degree) if degree > 1 else result


def root(of: Value, degree: int) -> Value:
    """The real root; exact where there is an exact one, else rounded. Raises `Refusal` for an even root of less
    than zero."""
    number = of.value
    if number < 0:
        if degree % 2 == 0:
            raise Refusal("numbers.no_root")
        found = root(Value(-number, of.exact), degree)
        return Value(-found.value, found.exact)
    top, bottom = _whole_root(number.numerator, degree), _whole_root(number.denominator, degree)
    if top**degree == number.numerator and bottom**degree == number.denominator:
        return Value(Fraction(top, bottom), of.exact)
    size = number.numerator.bit_length() - number.denominator.bit_length()
    # As many decimals as leave ROOT_DIGITS significant digits; a digit has a bit over three bits.
    places = max(ROOT_DIGITS, ROOT_DIGITS - size // (3 * degree))
    scaled = number.numerator * 10 ** (places * degree) // number.denominator
    return Value(Fraction(_whole_root(scaled, degree), 10**places), exact=False)


def _whole_root(number: int, degree: int) -> int:
    """The largest whole number whose power `degree` is not above `number`, which is not negative."""
    if number < 2 or degree == 1:
        return number
    if degree == 2:
        return math.isqrt(number)
    guess = 1 << -(-number.bit_length() // degree)
    while True:
        better = ((degree - 1) * guess + number // guess ** (degree - 1)) // degree
        if better >= guess:
            return guess
        guess = better


@dataclass(frozen=True, slots=True)
class Shown:
    """A number in digits, with a decimal point; `about` where it is rounded."""

    text: str
    about: bool


def shown(value: Value) -> Shown:
    """The digits of `value`: all of an exact one that is not too long, else the first significant ones."""
    number = value.value * 100 if value.percent else value.value
    decimals = _decimals(number.denominator)
    if value.exact and decimals is not None and decimals <= FULL_DECIMALS:
        if abs(number.numerator) < 10 ** (FULL_DIGITS - decimals) * number.denominator:
            return Shown(_digits(number, decimals), False)
    context = Context(prec=ROUNDED_DIGITS, Emax=10**6, Emin=-(10**6))
    rounded = context.divide(Decimal(number.numerator), Decimal(number.denominator))
    sign, digits, exponent = rounded.normalize(context).as_tuple()
    assert isinstance(exponent, int)
    point = len(digits) + exponent
    if -6 <= point <= 15:
        return Shown(f"{rounded.normalize(context):f}", True)
    head = "".join(map(str, digits))
    tail = f".{head[1:]}" if len(head) > 1 else ""
    return Shown(f"{'-' * sign}{head[0]}{tail} {TIMES} 10^{point - 1}", True)


def _decimals(denominator: int) -> int | None:
    """How many decimals a fraction with this denominator has; None where they do not end, or not soon."""
    rest, counts = denominator, []
    for prime in (2, 5):
        count = 0
        while rest % prime == 0 and count <= FULL_DECIMALS:
            rest //= prime
            count += 1
        counts.append(count)
    return max(counts) if rest == 1 else None


def _digits(number: Fraction, decimals: int) -> str:
    scaled = abs(number.numerator) * 10**decimals // number.denominator
    digits = str(scaled).rjust(decimals + 1, "0")
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[:-decimals]}.{digits[-decimals:]}" if decimals else f"{sign}{digits}"

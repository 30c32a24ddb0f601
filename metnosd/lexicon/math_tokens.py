"""The numbers and signs of an expression in words, as tokens of `metnosd.arithmetic`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from metnosd.arithmetic import NoExpression, plain, tokens_of
from metnosd.lexicon.math_words import MathWords, Word

OPERATORS = ("+", "-", "*", "/", "^")

LONGEST_WORD = 40
"""No number is written in one word of more letters."""

_SIGN = re.compile(r"\*\*|[-+*/^()%√∛π²³½¼¾⅓⅔×·⋅∙÷−–∕]|(?<![^\W\d_])(?:sqrt|cbrt|abs|pi)(?![^\W\d_])")  # noqa: RUF001
_SPELT = {"sqrt": "√", "cbrt": "∛"}
_WORD = re.compile(r"[^\W\d_]+")
_MARK = re.compile(r"\D")


@dataclass(frozen=True, slots=True)
class Token:
    """A number or sign of the notation (`kind` token), or a word that is one yet to be read.

    `doubtful`: how plainly a result must be asked for, for it to be this; see `metnosd.lexicon.math`. `symbol`: it is
    written as a sign, `tight` without blanks around it.
    """

    kind: str
    text: str
    words: bool = False
    doubtful: int = 0
    symbol: bool = False
    tight: bool = False


def read_tokens(folded: str, math: MathWords, *, one: bool = False) -> list[Token] | None:
    """The tokens of all of `folded`; None where it holds anything else. `one`: an article may be a number.

    Raises `Refusal` for too many.
    """
    found: list[Token] = []
    for token in _scan(folded, math):
        if token is None:
            return None
        found.append(token)
    joined = _with_numbers(found, one=one)
    return _with_words(joined) if joined is not None else None


def _scan(folded: str, math: MathWords) -> Iterator[Token | None]:
    at = 0
    while at < len(folded):
        if folded[at].isspace():
            at += 1
            continue
        match = math.token.match(folded, at)
        sign = _SIGN.match(folded, at) if match is None else None
        found = match or sign
        if found is None:
            word = _WORD.match(folded, at)
            numbers = _compound(word[0], math) if word else None
            if word is None or not numbers:
                yield None
                return
            yield from numbers
            at = word.end()
            continue
        if match is None:
            yield from _signs(found[0], not _spaced(folded, *found.span()))
        elif match[1] is not None:
            number = read_number(match[1], math)
            yield Token("token", number) if number is not None else None
        else:
            yield _worded(match[2], math, spaced=_spaced(folded, *match.span()))
        at = found.end()


def _compound(word: str, math: MathWords) -> list[Token]:
    """The numbers that are written together in `word` ("duecentosei"); none where it is anything else."""
    if len(word) > LONGEST_WORD:
        return []
    # The ways to read the first letters, shortest first.
    ways: dict[int, list[Token]] = {0: []}
    for end in range(1, len(word) + 1):
        for start in [start for start in ways if start < end]:
            part = math.phrases.get(word[start:end])
            if part is not None and part.kind == "number":
                ways[end] = [*ways[start], Token("number", part.value, words=True)]
                break
    return ways.get(len(word), [])


def _spaced(folded: str, start: int, end: int) -> bool:
    return folded[start - 1 : start].isspace() and folded[end : end + 1].isspace()


def _signs(sign: str, tight: bool) -> Iterator[Token | None]:
    try:
        for text in tokens_of(_SPELT.get(sign, plain(sign))):
            yield Token("token", text, symbol=True, tight=tight)
    except NoExpression:
        yield None


def _worded(phrase: str, math: MathWords, *, spaced: bool) -> Token | None:
    said = " ".join(phrase.split())
    word: Word | None = math.phrases.get(said)
    if word is None:
        return None
    # One letter between blanks is a sign ("3 x 4"), and within a word nothing of the kind ("1920x1080").
    spoken = said[0].isalpha()
    doubtful = 0 if said not in math.doubtful or (len(said) == 1 and spoken and spaced) else 1 if spoken else 2
    return Token(word.kind, word.value or said, words=True, doubtful=doubtful)


def read_number(text: str, math: MathWords) -> str | None:
    """The number `text` as the notation writes it, or None.

    Where two marks differ, the last one is decimal; where one stands several times, it parts thousands. One mark
    alone is decimal if it is the language's decimal mark, else it parts thousands where three digits follow, and is
    decimal where they do not: "1.234" is 1234 in German and "17.5" is 17.5. No number begins with a stray zero.
    """
    if text.startswith("."):
        return f"0{text}"
    parts, marks = _MARK.split(text), _MARK.findall(text)
    last = marks[-1] if marks else ""
    if len(set(marks)) > 1:
        decimal = marks.count(last) == 1 and last in ".,"
        whole, grouped = parts[:-1], _is_grouped(parts[:-1]) and len(set(marks[:-1])) == 1
        if not (decimal and grouped):
            return None
    elif marks and (_is_grouped(parts) and (len(marks) > 1 or last != math.decimal)) and _may_part(last, math):
        whole, parts = parts, [*parts, ""]
    elif len(marks) > 1 or (marks and last not in ".,"):
        return None
    else:
        whole = parts[:1]
        parts = parts if marks else [*parts, ""]
    head = "".join(whole)
    if len(head) > 1 and head[0] == "0":
        return None
    return f"{head}.{parts[-1]}" if parts[-1] else head


def _may_part(mark: str, math: MathWords) -> bool:
    return mark in ".,'\u2019" or mark in math.thousands or mark in "\u00a0\u202f"


def _is_grouped(parts: Sequence[str]) -> bool:
    return 1 <= len(parts[0]) <= 3 and parts[0][0] != "0" and all(len(part) == 3 for part in parts[1:])


def _with_numbers(tokens: list[Token], *, one: bool) -> list[Token] | None:
    """`tokens` with numbers in words as numbers: "two hundred and six", "2.5 million"."""
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        following = tokens[at + 1].kind if at + 1 < len(tokens) else ""
        if token.kind == "one" and following == "number" and int(tokens[at + 1].text) >= 100:
            token = replace(token, kind="number", text="1")
        elif token.kind == "one":
            halved = one and at > 0 and tokens[at - 1].kind == "fraction"
            if not (one and at == len(tokens) - 1 and (at == 0 or halved)):
                return None
            if halved:
                # "Half a cup" is half of one.
                break
            token = Token("token", "1", words=True)
        if token.kind != "number":
            scaled = _scaled(token, tokens[at + 1 : at + 2])
            found.append(scaled or token)
            at += 2 if scaled else 1
            continue
        run, at = _run(tokens, at)
        values = [int(item.text) if item.kind == "number" else 1 for item in run]
        number = _composed(values)
        if number is None:
            return None
        found.append(Token("token", str(number), words=True))
    return found


def _scaled(token: Token, following: Sequence[Token]) -> Token | None:
    """A number in digits with the word for thousands or millions behind it."""
    if token.kind != "token" or not token.text[-1].isdigit() or not following or following[0].kind != "number":
        return None
    scale = following[0].text
    if int(scale) < 1000:
        return None
    whole, _, rest = token.text.partition(".")
    zeros = len(scale) - 1
    if len(rest) > zeros:
        return None
    return Token("token", (whole + rest + "0" * (zeros - len(rest))).lstrip("0") or "0", words=True)


def _run(tokens: Sequence[Token], at: int) -> tuple[list[Token], int]:
    """The words of one number from `at` on, without those that only join them, and where they end."""
    run = [tokens[at]]
    at += 1
    while at < len(tokens):
        joint = tokens[at].kind == "and" or (tokens[at].symbol and tokens[at].tight and tokens[at].text == "-")
        step = 2 if joint else 1
        if at + step > len(tokens) or tokens[at + step - 1].kind != "number":
            break
        if joint and _composed([int(item.text) for item in (*run[-1:], tokens[at + 1])]) is None:
            break
        run.append(tokens[at + step - 1])
        at += step
    return run, at


def _composed(values: Sequence[int]) -> int | None:
    """The number of the words for `values` in a row; None where they are several numbers."""
    total = current = 0
    for number, value in enumerate(values):
        if number == 0:
            current = value
        elif value >= 1000 and value > current:
            total, current = total + current * value, 0
        elif value == 100 and 0 < current < 100:
            current *= 100
        elif current == 0 or _may_follow(value, current):
            current += value
        else:
            return None
    return total + current


def _may_follow(value: int, current: int) -> bool:
    for scale in (10**6, 1000, 100):
        if current % scale == 0:
            return 0 < value < scale
    # Tens take ones; sixty and eighty also what is below twenty, where people count by scores.
    tens = current % 100
    return tens % 10 == 0 and 0 < value < (20 if tens in (60, 80) else 10)


def _with_words(tokens: Sequence[Token]) -> list[Token] | None:
    """`tokens` with the words of signs, percentages and shares as signs; None where one stands where it cannot."""
    found: list[Token] = []
    money: set[str] = set()
    for at, token in enumerate(tokens):
        before = found[-1].text if found else ""
        if token.kind == "token":
            found.append(token)
        elif token.kind == "sign":
            found += [replace(token, kind="token", text=text) for text in tokens_of(token.text)]
        elif token.kind == "fraction":
            found += [replace(token, kind="token", text=text) for text in tokens_of(f"({token.text})")]
        elif token.kind == "of":
            if before != "%" and (at == 0 or tokens[at - 1].kind != "fraction"):
                return None
            found.append(replace(token, kind="token", text="*"))
        elif token.kind == "currency":
            money.add(token.text)
            if not (before[-1:].isdigit() or _is_digits(tokens[at + 1 : at + 2])):
                return None
        elif token.kind == "rate":
            if before != "%":
                return None
        elif token.kind == "share":
            if not before[-1:].isdigit() or len(found) < 2 or found[-2].text != "/":
                return None
            found = [replace(item, doubtful=0) for item in found]
        elif token.kind == "off":
            rest = _with_words(tokens[at + 1 :])
            if before != "%" or len(found) != 2 or not rest:
                return None
            bracket = [Token("token", "("), *rest, Token("token", ")")] if len(rest) > 1 else rest
            return [*bracket, Token("token", "-"), *found]
        else:
            return None
    return found if len(money) < 2 else None


def _is_digits(tokens: Sequence[Token]) -> bool:
    return bool(tokens) and tokens[0].kind == "token" and tokens[0].text[-1:].isdigit()

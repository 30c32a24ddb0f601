"""The writer: the model works on texts without any tool. What it answers is a value, and never read as a plan.

A text that is longer than the model can take at once is worked on in pieces; what was left out is said.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import re
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Literal, TypeVar

from metnosd.executor import Cancelled
from metnosd.model.service import Completion, ModelError, ModelService
from metnosd.prompt import Chat, WriterTexts
from metnosd.redact import Redactor
from metnosd.sentence import Refusal

T = TypeVar("T")

Length = Literal["short", "medium", "long"]

LOOK_SECONDS = 0.1
"""How often a thread that waits for the model looks whether its turn was cancelled."""

MOST_PIECES = 12
"""How many pieces of text one step gives to the model; more would take a small machine many minutes."""

LARGEST_PIECE = 2400
"""The most tokens of one piece, by `tokens_in`: a small model loses the thread of longer ones."""

TRANSLATED_PIECE = 700
"""The same for what comes out as long as it went in."""

FRAME_TOKENS = 400
"""Room for what stands around a piece in its chat."""

SUMMARY_TOKENS: dict[Length, int] = {"short": 220, "medium": 450, "long": 900}
"""The most tokens of a summary."""

PART_TOKENS = 180
"""The most tokens of the summary of one piece, which is summarised again with the others."""

ANSWER_TOKENS = 400
EXTRACT_TOKENS = 500

_FORGED = re.compile(r"<(\s*/?\s*material\b)", re.IGNORECASE)
"""What could pass for one of the marks around a text."""

_KNOWN = ("unavailable", "died", "hung", "context")
"""The codes of `ModelError` for which the lexicon has a sentence `writer.<code>`."""

_BORDERS = ("\n\n", "\n", ". ", " ")


@dataclass(frozen=True, slots=True)
class Beside:
    """How a thread that works for a turn has something done on the event loop, and tells how far it is.

    `tell` takes a stage and a detail, and is called on the loop.
    """

    loop: asyncio.AbstractEventLoop
    cancelled: Event
    tell: Callable[[str, str], None]

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; raises `Cancelled`, and ends it, soon after the turn is cancelled."""
        try:
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        except RuntimeError:  # the loop is closed: the daemon stops
            work.close()
            raise Cancelled from None
        while not concurrent.futures.wait((future,), LOOK_SECONDS).done:
            if self.cancelled.is_set():
                future.cancel()
                raise Cancelled
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise Cancelled from None


@dataclass(frozen=True, slots=True)
class Written:
    """What the model wrote of one text. `read` of `total` characters were given to it; `cut` says that its
    answer ran into the budget."""

    text: str
    read: int
    total: int
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Writer:
    """Asks `model` about texts; `context` is its length in tokens."""

    model: ModelService
    texts: WriterTexts
    context: int
    redactor: Redactor = field(default_factory=Redactor)

    def chat(self, task: str, text: str) -> Chat:
        """The chat that has `task` done on `text`: all of the text stands between the marks, and only there."""
        body = self.texts.user.strip("\n").format(text=unmarked(text), task=unmarked(task))
        return (("system", self.texts.system.strip("\n")), ("user", body))

    async def ask(self, task: str, text: str, budget: int) -> Completion:
        """What the model answers, at most `budget` tokens. Raises `ModelError`."""
        return await self.model.complete(self.chat(task, text), grammar=None, max_tokens=budget)

    def piece(self, most: int, budget: int) -> int:
        """The most tokens of a piece that surely fits with an answer of `budget` tokens.

        What `tokens_in` counts as one is never more than about three.
        """
        return max(min(most, (self.context - FRAME_TOKENS - budget) // 3), 64)


class Desk:
    """The writer at work on one step. Every method runs in a thread, may take minutes, and raises `Cancelled`,
    or `Refusal` where the model does not serve."""

    def __init__(self, writer: Writer, beside: Beside) -> None:
        self._writer = writer
        self._beside = beside
        self._done = 0
        self._total = 0

    def summarize(self, texts: Sequence[str], length: Length, languages: Sequence[str]) -> list[Written]:
        """A summary of each of `texts`, in the language beside it; texts past `MOST_PIECES` pieces have none."""
        prompts = self._writer.texts
        budget = SUMMARY_TOKENS[length]
        texts = self._clean(texts)
        task = [prompts.summarize.format(length=prompts.length[length], language=language) for language in languages]
        part = [prompts.part.format(language=language) for language in languages]
        cut_up = self._cut_up(texts, LARGEST_PIECE, budget)
        self._total = sum(len(pieces) + (len(pieces) > 1) for pieces in cut_up)
        found = []
        for number, pieces in enumerate(cut_up):
            if len(pieces) == 1:
                found.append(self._written(*self._ask(task[number], pieces[0], budget), texts[number], pieces))
                continue
            parts = [self._ask(part[number], piece, PART_TOKENS)[0] for piece in pieces]
            whole = "\n\n".join(parts)
            room = self._writer.piece(LARGEST_PIECE, budget)
            whole = next(pieces_of(whole, room), whole)
            found.append(self._written(*self._ask(task[number], whole, budget), texts[number], pieces))
        return found

    def translate(self, texts: Sequence[str], language: str) -> list[Written]:
        """Each of `texts` in `language`, piece by piece; texts past `MOST_PIECES` pieces are left out."""
        task = self._writer.texts.translate.format(language=language)
        texts = self._clean(texts)
        cut_up = self._cut_up(texts, TRANSLATED_PIECE, 2 * TRANSLATED_PIECE)
        self._total = sum(map(len, cut_up))
        found = []
        for text, pieces in zip(texts, cut_up, strict=False):
            answers = [self._ask(task, piece, 2 * tokens_in(piece) + 96) for piece in pieces]
            borders = [piece[len(piece.rstrip()) :] for piece in pieces]
            joined = "".join(answer + border for (answer, _), border in zip(answers, borders, strict=True)).strip()
            found.append(self._written(joined, any(cut for _, cut in answers), text, pieces))
        return found

    def extract(self, text: str, what: str, language: str) -> Written:
        """What of `text` is `what`, one find a line, each once and in its order."""
        (text,) = self._clean((text,))
        task = self._writer.texts.extract.format(what=what, none=self._writer.texts.none, language=language)
        pieces = self._cut_up((text,), LARGEST_PIECE, EXTRACT_TOKENS)[0]
        self._total = len(pieces)
        lines: dict[str, None] = {}
        cut = False
        for piece in pieces:
            answer, short = self._ask(task, piece, EXTRACT_TOKENS)
            cut = cut or short
            lines |= dict.fromkeys(self._finds(answer))
        return self._written("\n".join(lines), cut, text, pieces)

    def _finds(self, answer: str) -> Iterator[str]:
        for line in answer.splitlines():
            find = re.sub(r"^\s*(?:[-*\u2022]|\d+[.)])\s+", "", line).strip()
            if find and find.strip(".").casefold() != self._writer.texts.none.casefold():
                yield find

    def answer(self, text: str, question: str, language: str) -> Written:
        """The answer to `question` from `text`: from the pieces with the most of its words, if it is long."""
        (text,) = self._clean((text,))
        task = self._writer.texts.answer.format(question=question, language=language)
        room = self._writer.piece(LARGEST_PIECE, ANSWER_TOKENS)
        pieces = list(pieces_of(text, room))
        if len(pieces) > 1:
            pieces = best_pieces(list(pieces_of(text, max(room // 4, 64))), question, room)
        self._total = 1
        return self._written(*self._ask(task, "\n\n".join(pieces), ANSWER_TOKENS), text, pieces)

    def _clean(self, texts: Sequence[str]) -> list[str]:
        """`texts` without secrets: cut out before they are cut up, which would hide some."""
        return [self._writer.redactor.text(text) for text in texts]

    def _cut_up(self, texts: Sequence[str], most: int, budget: int) -> list[list[str]]:
        """The pieces of each of the first `texts`, at most `MOST_PIECES` in all; the last may lack its end."""
        room = self._writer.piece(most, budget)
        found: list[list[str]] = []
        left = MOST_PIECES
        for text in texts:
            if left <= 0:
                break
            pieces = [piece for piece, _ in zip(pieces_of(text, room), range(left), strict=False)]
            left -= len(pieces)
            found.append(pieces)
        return found

    def _ask(self, task: str, text: str, budget: int) -> tuple[str, bool]:
        """What the model makes of one piece, and whether its answer was cut off."""
        self._done += 1
        if self._total > 1:
            step = f"{self._done}/{self._total}"
            self._beside.loop.call_soon_threadsafe(self._beside.tell, "writing", step)
        try:
            completion = self._beside.wait_for(self._writer.ask(task, text, budget))
        except ModelError as error:
            if error.code == "cancelled":
                raise Cancelled from error
            raise Refusal(f"writer.{error.code if error.code in _KNOWN else 'failed'}", reason=str(error)) from error
        return _FORGED.sub("", completion.text).strip(), completion.finish == "length"

    def _written(self, text: str, cut: bool, source: str, pieces: Sequence[str]) -> Written:
        return Written(text, min(sum(map(len, pieces)), len(source)), len(source), cut)


def unmarked(text: str) -> str:
    """`text` without anything that could pass for the marks around it."""
    return _FORGED.sub(r"(\1", text)


def tokens_in(text: str) -> int:
    """About how many tokens `text` is: one for three letters of ASCII, one for any other character and digit."""
    return round(sum(map(_cost, text))) + 1


def _cost(char: str) -> float:
    return 1 / 3 if char < "\x80" and not char.isdigit() else 1.0


def pieces_of(text: str, most: int) -> Iterator[str]:
    """`text` in pieces of at most `most` tokens, cut between paragraphs, else lines, sentences or words.

    Joined they are the text; pieces of nothing but blanks are left out.
    """
    at = 0
    while at < len(text):
        end, cost = at, 0.0
        while end < len(text) and (cost := cost + _cost(text[end])) <= most:
            end += 1
        end = max(end, at + 1)
        if end < len(text):
            end = _border(text, at, end)
        if text[at:end].strip():
            yield text[at:end]
        at = end


def _border(text: str, start: int, end: int) -> int:
    """The best place to cut between the middle of `text[start:end]` and its end."""
    for border in _BORDERS:
        at = text.rfind(border, start + (end - start) // 2, end)
        if at > start:
            return at + len(border)
    return end


def best_pieces(pieces: Sequence[str], question: str, most: int) -> list[str]:
    """Those of `pieces` that hold the most words of `question`, in their order, at most `most` tokens in all.

    The rarer a word is among the pieces, the more it counts; where none has any, the first ones.
    """
    words = {word for word in re.findall(r"\w+", question.casefold()) if len(word) > 2}
    held = [words & set(re.findall(r"\w+", piece.casefold())) for piece in pieces]
    often = {word: sum(word in one for one in held) for word in words}
    worth = [sum(1 / often[word] for word in one) for one in held]
    ranked = sorted(range(len(pieces)), key=lambda number: (-worth[number], number))
    chosen: list[int] = []
    left = most
    for number in ranked:
        cost = tokens_in(pieces[number])
        if cost > left and chosen:
            break
        chosen.append(number)
        left -= cost
    return [pieces[number] for number in sorted(chosen)]

"""A message that points back: what it means of the last outcome, and the plan where it says only what to do with it."""

from __future__ import annotations

from dataclasses import dataclass

from metnosd.entries import Entry
from metnosd.executor import Executor
from metnosd.lexicon.lexicon import Language, Lexicon
from metnosd.lexicon.pointing import Pointer, bare, read_pointer
from metnosd.lexicon.signals import Signals
from metnosd.message import Message
from metnosd.plan import Plan, Step
from metnosd.pool import FINAL, Pool
from metnosd.resolve import Context
from metnosd.sentence import Sentence, say
from metnosd.turns import Turns

MOST_WORDS = 4
"""How many words the place has at most in "move them to …"."""


@dataclass(frozen=True, slots=True)
class Pointed:
    """What a message points at: the `entries`, the `rest` of those listed, and its `text` with a plain word for it.

    `some` is whether it picks some of them, `alone` whether it says nothing else, `problem` why it points at nothing.
    """

    entries: tuple[Entry, ...]
    rest: tuple[Entry, ...]
    text: str
    some: bool = False
    alone: bool = False
    problem: Sentence | None = None


def point(text: str, language: Language, listed: tuple[Entry, ...], left: tuple[Entry, ...]) -> Pointed | None:
    """What `text` points at among what was `listed`, or `left` by the last pick; None where it does not point."""
    pointer = read_pointer(text, language)
    if pointer is None or not (listed or left):
        return None
    picked = pointer.pick(listed, left)
    if picked is None:
        key = "point.no_rest" if pointer.which == "rest" else "point.too_few"
        return Pointed((), (), text, problem=say(key, count=len(listed)))
    start, end = pointer.span
    alone = not bare(f"{text[:start]} {text[end:]}", language)
    return Pointed(*picked, _plainly(text, pointer, language), pointer.which != "all", alone)


def pointed_by(message: Message, signals: Signals, context: Context, lexicon: Lexicon, turns: Turns) -> Pointed | None:
    """What `message` points at in its conversation, the rest of which is noted with the turn; it blocks."""
    if signals.signal is not None or signals.call is not None or message.outside:
        return None
    left = turns.last_rest(context.user.name, *context.where)
    found = point(message.text, lexicon.language(signals.lang), context.last, left)
    if found is not None and found.rest:
        turns.set_rest(context.turn, found.rest)
    return found


def _plainly(text: str, pointer: Pointer, language: Language) -> str:
    """`text` with the words that point replaced by the plainest of them."""
    if pointer.which == "all":
        return text
    plain = language.pointing["plain"][0].text
    return text[: pointer.span[0]] + plain + text[pointer.span[1] :]


def deed_on(text: str, signals: Signals, lexicon: Lexicon, pool: Pool, entries: tuple[Entry, ...]) -> Plan | None:
    """The plan of a message that says what is to be done with `entries`, and nothing else: "delete them".

    None unless there are such entries, and its words are a verb of exactly one executor of `pool` that takes them and
    needs no more than where to.
    """
    if not entries or signals.signal is not None or signals.call is not None:
        return None
    language = lexicon.language(signals.lang)
    kinds = {entry.kind for entry in entries}
    verb, place, points = _parts(text, language)
    if not points and "back" not in signals.within:
        return None
    able = [tool for tool in pool.executors if tool.name != FINAL and all(tool.accepts(kind) for kind in kinds)]
    found = [tool for tool in able if _is_verb(tool, verb, language)]
    if len(found) != 1:
        return None
    tool = found[0]
    args = {"to": place} if place else {}
    if sorted(args) != sorted(tool.schema["required"]):
        return None
    return Plan((Step(tool.name, args, 0),))


def _parts(text: str, language: Language) -> tuple[str, str, bool]:
    """The words that may be the verb, where to, and whether `text` points at all.

    A language that writes verb and pronoun as one word points with its verb.
    """
    pointer = read_pointer(text, language)
    if pointer is None:
        return bare(text, language), "", False
    start, end = pointer.span
    before, after = bare(text[:start], language), text[end:].strip()
    first, _, place = after.partition(" ")
    if language.fold(first) in language.spans["before_path"] and place and len(place.split()) <= MOST_WORDS:
        return before, place.strip(" .!?"), True
    return bare(f"{before} {after}", language), "", True


def _is_verb(tool: Executor, said: str, language: Language) -> bool:
    name = tool.plain or tool.name
    return any(phrase.verb and phrase.executor == name and phrase.text == said for phrase in language.phrases)

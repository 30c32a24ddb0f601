"""Sending to people: what is sent cannot be unsent. Nothing happens here: this says what would."""

from __future__ import annotations

import re
from typing import Annotated

from metnosd.arguments import Arg
from metnosd.effects import SendMessage
from metnosd.executor import Effects, Run, executor
from metnosd.lexicon.requests import split_items
from metnosd.people import People, person_shown
from metnosd.sentence import Question, Refusal

LONGEST = 16_000
"""The longest message to a person, in characters."""

_TAIL = re.compile(r"[.!?\u2026]{1,8}\s*\Z")
"""The marks at the end of a message that a reader of requests leaves out, such as that of a question."""


@executor(takes=(None, "texts", "notes"), gives="messages", capability="chat:send", effect=True)
def send_messages(
    run: Run,
    *,
    to: Annotated[str, Arg("the person", "words")],
    text: Annotated[str | None, Arg("what to say to them", "words")] = None,
) -> Effects:
    """Send a message to another person who uses Metnos."""
    people: People = run.facts["people"]
    sender = run.facts["user"].name
    names = _meant(run, people, to, sender)
    said = _content(run, text, names)
    if len(said) > LONGEST:
        raise Refusal("send.too_long", count=len(said), most=LONGEST)
    return Effects(tuple(SendMessage(name, *people.place(name), said, sender) for name in names))


def _meant(run: Run, people: People, to: str, sender: str) -> list[str]:
    """The people whom `to` names, each once: one, or several with "and" between them."""
    try:
        return [people.meant(to, sender)]
    except Question:
        raise
    except Refusal:
        parts = split_items(to, run.facts["lexicon"].language(run.lang))
        if len(parts) < 2:
            raise
        return list(dict.fromkeys(people.meant(part, sender) for part in parts))


def _content(run: Run, text: str | None, names: list[str]) -> str:
    """What to send: the words given, else the texts before. Raises Question where there are none."""
    found = [entry.fields.get("text") for entry in run.entries]
    before = "\n".join(item for item in found if isinstance(item, str)).strip()
    if text is not None and not (before and _points_back(run, text)):
        said = _without_name(_as_said(text.strip(), run.facts["context"].text), names)
        if said:
            return said
    if before:
        return before
    if run.entries:
        raise Refusal("send.no_text")
    raise Question("send.what", name=person_shown(names[0]))


def _points_back(run: Run, text: str) -> bool:
    """Whether `text` is a word for what was found before ("it")."""
    language = run.facts["lexicon"].language(run.lang)
    folded = language.fold(text.strip())
    return any(template.full(folded) is not None for template in language.signals_within.get("back", ()))


def _as_said(text: str, message: str) -> str:
    """`text` with the marks that stand behind it at the end of the message: a question stays one."""
    at = message.rfind(text)
    tail = message[at + len(text) :] if at >= 0 else ""
    return text + tail.strip() if _TAIL.match(tail) else text


def _without_name(text: str, names: list[str]) -> str:
    """`text` without the rest of the one recipient's name at its head ("tell Anna Rossi I'm late")."""
    rest = " ".join(names[0].split()[1:]) if len(names) == 1 else ""
    if rest and text.casefold().startswith(f"{rest.casefold()} "):
        return text[len(rest) :].strip()
    return text


MESSAGE_EXECUTORS = (send_messages,)
"""In the order in which they are listed and described to the model."""

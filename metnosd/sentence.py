"""What the daemon has to say, before it is put into a language.

A stage never holds words of a human language. It names a sentence of the lexicon and the values to put into
it; the reply stage renders it in the user's language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of `config/lexicon/<lang>.toml`, section `[say]`, with the values of its blanks."""

    key: str
    values: Mapping[str, object] = field(default_factory=dict)


def say(key: str, **values: object) -> Sentence:
    """The sentence `key` with `values`; a value may be a number, a text or another `Sentence`."""
    return Sentence(key, values)


class Refusal(Exception):
    """Something cannot or must not be done, for a reason that the user is told.

    Raised by any stage; `sentence` is the reason. A refusal has changed nothing.
    """

    def __init__(self, key: str, **values: object) -> None:
        super().__init__(f"{key} {values}" if values else key)
        self.sentence = say(key, **values)


class Question(Refusal):
    """The request has two readings or a gap; `sentence` asks and `choices` lists what fits, if known."""

    def __init__(self, key: str, choices: tuple[str, ...] = (), **values: object) -> None:
        super().__init__(key, **values)
        self.choices = choices


def instant_said(moment: datetime) -> Sentence:
    """A moment as people read it: weekday, date and time of day, in its own zone."""
    weekday = say(f"weekday.{moment.isoweekday()}")
    return say("time.instant", weekday=weekday, date=moment.strftime("%Y-%m-%d"), clock=moment.strftime("%H:%M"))

"""The people whom this daemon knows: how they are named, where they converse, and in which language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.templates import fold, without_accents
from metnosd.sentence import Question, Refusal, Sentence, say
from metnosd.turns import Turns
from metnosd.user import User

OWNER = "owner"
"""The name of the person whose daemon this is."""

FIRST_PLACE = ("socket", "main")
"""The channel and conversation of somebody who has not said anything yet."""


@dataclass(frozen=True)
class People:
    """Everybody who may use the daemon, by name."""

    users: Mapping[str, User]
    turns: Turns
    lexicon: Lexicon

    def meant(self, said: str, sender: str) -> str:
        """The name of the person whom `said` means: all words of it are words of the name, in any case.

        Raises Refusal for nobody and for the sender, Question where several fit.
        """
        words = _words(said)
        # A whole name goes before a part of another one.
        whole = [name for name in self.users if any(words == names for names in self._names(name))]
        part = [name for name in self.users if any(set(words) <= set(names) for names in self._names(name))]
        found = whole or (part if words else [])
        if found == [sender] or self._is_sender(said):
            raise Refusal("send.self")
        others = [name for name in found if name != sender]
        if not others:
            known = [person_shown(name) for name in self.users if name != sender]
            raise Refusal("send.unknown" if known else "send.nobody", name=said, known=known)
        if len(others) > 1:
            raise Question("send.which", tuple(others), name=said)
        return others[0]

    def place(self, name: str) -> tuple[str, str]:
        """The channel and conversation in which `name` said something last."""
        row = self.turns.newest(name)
        return (row["channel"], row["conversation"]) if row is not None else FIRST_PLACE

    def lang(self, name: str, other: str) -> str:
        """The language in which to speak to `name`: that of their last turn, their own, or that of `other`."""
        user = self.users.get(name)
        own = user.lang if user is not None else None
        for code in (self._spoken(name), own, self._spoken(other)):
            if code is not None and self.lexicon.has(code):
                return code
        return self.lexicon.languages[0].code

    def _spoken(self, name: str) -> str | None:
        row = self.turns.newest(name)
        return str(row["lang"]) if row is not None else None

    def _names(self, name: str) -> list[list[str]]:
        """The words of each way in which `name` is said; the owner is called so in every language."""
        if name != OWNER:
            return [_words(name)]
        ways = [word for language in self.lexicon.languages for word in language.values.get("owner", {})]
        return [_words(name), *(_words(way) for way in ways)]

    def _is_sender(self, said: str) -> bool:
        """Whether `said` is a word for oneself in any language."""
        return any(
            language.values.get("nobody", {}).get(language.fold(said.strip())) == "self"
            for language in self.lexicon.languages
        )


def person_shown(name: str) -> Sentence | str:
    """A person's name as others read it."""
    return say("people.owner") if name == OWNER else name


def _words(name: str) -> list[str]:
    return without_accents(fold(name)).replace(",", " ").split()

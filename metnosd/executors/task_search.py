"""Which items of lists a person means by what they call them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from metnosd.entries import Entry
from metnosd.executor import Run
from metnosd.executors.task_lists import TaskList
from metnosd.lexicon.requests import split_items
from metnosd.markdown_lists import Item
from metnosd.sentence import Question, Sentence, say
from metnosd.wording import Naming, Wording, closeness

SURE = 3
"""Up to this closeness an item is the one that was meant, where it is the only one."""


@dataclass(frozen=True, slots=True)
class Place:
    """One item where it stands."""

    task_list: TaskList
    item: Item


@dataclass(slots=True)
class Search:
    """Looks for items on lists; what is `found`, `missing` or done `already` adds up."""

    among: Sequence[TaskList]
    run: Run
    wording: Wording
    named: str | None
    done_too: bool
    found: list[Place] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    already: list[str] = field(default_factory=list)
    _namings: dict[str, Naming] = field(default_factory=dict)

    def take(self, items: Sequence[str]) -> None:
        """Find what was said: all of it as one item, or else each of `items`, or each of the things in them."""
        if len(items) > 1 and self._take_whole(self.wording.together(items)):
            return
        for item in items:
            if not self._take_whole(self.wording.bare(item)):
                self._take_parts(item)

    def _take_whole(self, said: str) -> bool:
        """Take the open item that is called just so; whether there is one."""
        found, close = self._best(said, self._open())
        if not found or close > 1:
            return False
        self._keep(self._one(said, found, close))
        return True

    def _take_parts(self, said: str) -> None:
        for part in split_items(said, self.run.facts["lexicon"].language(self.run.lang)):
            bare = self.wording.bare(part)
            if bare and not self._take(bare):
                self.missing.append(bare)

    def take_entries(self, entries: Sequence[Entry]) -> None:
        """Take the items that `entries` name, as far as they still stand there."""
        for entry in entries:
            text = str(entry.fields.get("text", ""))
            there = [place for place in self._open() if place.task_list.path == entry.fields.get("path")]
            same = [place for place in there if place.item.text == text]
            if same:
                self._keep(same)
            else:
                self.missing.append(text)

    def problems(self) -> list[Sentence]:
        """What was not found, and what needed nothing."""
        said: list[Sentence] = []
        if self.already:
            said.append(say("tasks.done_already", items=self.wording.together(self.already)))
        if self.missing:
            items = self.wording.together(self.missing)
            key = "tasks.not_on_list" if self.named else "tasks.not_on_any"
            said.append(say(key, items=items, list=self.named or ""))
        return said

    def _take(self, said: str) -> bool:
        """Take the item that is closest to `said`; whether there is one. Raises Question where several are."""
        still_open, best = self._best(said, self._open())
        done, best_done = self._best(said, self._done())
        if still_open and (best <= SURE or best_done > 1):
            self._keep(self._one(said, still_open, best))
        elif not done or best_done >= SURE:
            return False
        elif self.done_too:
            self._keep(self._one(said, done, best_done))
        else:
            self.already.append(done[0].item.text)
        return True

    def _best(self, said: str, places: Iterable[Place]) -> tuple[list[Place], int]:
        """Those of `places` that fit `said` best, and how close they are."""
        naming = self.wording.naming(said)
        rated = [(closeness(naming, self._naming(place.item.text)), place) for place in places]
        best = min((close for close, _ in rated if close is not None), default=SURE + 2)
        return [place for close, place in rated if close == best], best

    def _one(self, said: str, places: Sequence[Place], close: int) -> Sequence[Place]:
        """`places` where they are one item; raises Question where it is not sure which one is meant."""
        first = places[0]
        here = {(place.task_list.path, self._naming(place.item.text).words) for place in places}
        if len(here) == 1 and close <= SURE:
            return places
        many = len({place.task_list.path for place in places}) > 1
        names = [f"{p.item.text} ({p.task_list.name})" if many else p.item.text for p in places]
        key = "tasks.which" if len(here) > 1 else "tasks.is_it"
        raise Question(key, tuple(dict.fromkeys(names)), item=said, list=first.task_list.name)

    def _naming(self, text: str) -> Naming:
        if text not in self._namings:
            self._namings[text] = self.wording.naming(text)
        return self._namings[text]

    def _keep(self, places: Sequence[Place]) -> None:
        self.found += [place for place in places if place not in self.found]

    def _open(self) -> Iterable[Place]:
        return (Place(one, item) for one in self.among for item in one.content.items if not item.done)

    def _done(self) -> Iterable[Place]:
        return (Place(one, item) for one in self.among for item in one.content.items if item.done)

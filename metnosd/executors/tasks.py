"""Lists of things to buy and to do, kept as Markdown check lists that a person can edit too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated

from metnosd.arguments import Arg
from metnosd.effects import Effect, WriteFile
from metnosd.entries import Entry
from metnosd.executor import Effects, Found, Run, executor
from metnosd.executors.targets import Targets, told
from metnosd.executors.task_lists import Lists, TaskList, safe_name, wording_of
from metnosd.executors.task_search import Place, Search
from metnosd.lexicon.requests import split_items
from metnosd.markdown_lists import Item, new_list, read_list
from metnosd.sentence import Refusal, Sentence, say
from metnosd.wording import Wording, closeness

ListName = Annotated[str | None, Arg("name of the list", "words")]

Sentences = list[Sentence]


@executor(takes=None, gives="tasks", capability="tasks:write", effect=True, reversible=True)
def add_tasks(run: Run, *, list: ListName = None, items: Annotated[list[str], Arg("what to add", "words")]) -> Effects:
    """Add items to a list, such as the shopping list or a to-do list."""
    wording = wording_of(run)
    lists = Lists(run, wording)
    wanted = _each(items, run, wording)
    name = lists.named(list)
    if name is None and (list is None or not lists.is_name(list)):
        name, list = lists.usual(), lists.usual_title()
    if name is None:
        assert list is not None
        return _new(run, lists, list, wanted, wording)
    return _added(lists.read(name), wanted, wording)


def _each(items: Iterable[str], run: Run, wording: Wording) -> list[str]:
    """Each thing of `items`, without articles, each once. Raises Refusal where nothing is left."""
    language = run.facts["lexicon"].language(run.lang)
    parts = [wording.bare(part) for item in items for part in split_items(item, language)]
    plain = (part.encode("utf-8", "replace").decode() for part in parts)
    found = {wording.naming(part).words or (part,): part for part in plain if part}
    if not found:
        raise Refusal("tasks.no_items")
    return [*found.values()]


def _new(run: Run, lists: Lists, said: str, wanted: Sequence[str], wording: Wording) -> Effects:
    """What makes the list `said` with the items `wanted`."""
    # A usual list by another of its names, such as groceries, is made under its usual name.
    name = lists.usual_title() if lists.is_usual(said) else wording.list_title(safe_name(said))
    if not name:
        raise Refusal("scope.bad_name", name=said[:100])
    targets = Targets(run.scope)
    path = targets.free(lists.folder, f"{name}.md")
    blanks = {"items": wording.together(wanted), "list": name}
    write = WriteFile(path, new_list(name, wanted), "create", about="tasks_new", blanks=blanks)
    return Effects((*targets.folders(lists.folder), write))


def _added(task_list: TaskList, wanted: Sequence[str], wording: Wording) -> Effects:
    """What puts `wanted` on a list: an item that is done is opened again, one that is open stays as it is."""
    there = [(wording.naming(item.text), item) for item in task_list.content.items]
    new: list[str] = []
    already: list[str] = []
    again: list[Item] = []
    for text in wanted:
        said = wording.naming(text)
        same = [item for naming, item in there if closeness(said, naming) in (0, 1)]
        if any(not item.done for item in same):
            already.append(text)
        elif same:
            again.append(same[-1])
        else:
            new.append(text)
    told_already = {"items": wording.together(already), "list": task_list.name}
    if not new and not again:
        raise Refusal("tasks.already", **told_already)
    problems = (say("tasks.already", **told_already),) if already else ()
    content = task_list.content
    if again:
        content = read_list(content.ticked(again, False))
    text = content.added(new) if new else "".join(content.lines)
    blanks = {"items": wording.together([*(item.text for item in again), *new]), "list": task_list.name}
    return Effects((WriteFile(task_list.path, text, "replace", about="tasks_add", blanks=blanks),), problems)


@executor(takes=None, gives="tasks", capability="tasks:read")
def list_tasks(run: Run, *, list: ListName = None) -> Found:
    """Show what is still open on a list, or on all lists."""
    wording = wording_of(run)
    lists = Lists(run, wording)
    if not lists.names:
        return Found((), note=say("tasks.no_lists"))
    name = lists.existing(list)
    problems: Sentences = []
    chosen = [lists.read(name)] if name is not None else lists.read_all(problems)
    entries = tuple(entry for one in chosen for entry in _entries(one, alone=len(chosen) == 1))
    if len(chosen) == 1:
        key = "tasks.on_list" if entries else "tasks.all_done" if chosen[0].content.items else "tasks.empty"
        return Found(entries, told(problems), say(key, list=chosen[0].name, count=len(entries)))
    return Found(entries, told(problems), say("tasks.on_all" if entries else "tasks.nothing_open", count=len(entries)))


def _entries(task_list: TaskList, *, alone: bool) -> Iterable[Entry]:
    """The open items of a list; the first one of several lists stands under the name of its own."""
    first = not alone
    for item in task_list.content.items:
        if not item.done:
            fields = {"list": task_list.name, "text": item.text, "path": task_list.path}
            key = "tasks.first" if first else "tasks.one"
            yield Entry("tasks", fields, say(key, text=item.text, list=task_list.name))
            first = False


@executor(takes=(None, "tasks"), gives="tasks", capability="tasks:write", effect=True, reversible=True)
def complete_tasks(
    run: Run, *, list: ListName = None, items: Annotated[list[str] | None, Arg("what is done", "words")] = None
) -> Effects:
    """Tick items off a list: bought or done."""
    return _changed(run, list, items, _ticked, about="tasks_done", done_too=False)


@executor(takes=(None, "tasks"), gives="tasks", capability="tasks:write", effect=True, reversible=True)
def delete_tasks(
    run: Run, *, list: ListName = None, items: Annotated[list[str] | None, Arg("what to take off", "words")] = None
) -> Effects:
    """Take items off a list without having done them."""
    return _changed(run, list, items, _without, about="tasks_off", done_too=True)


def _ticked(task_list: TaskList, items: Sequence[Item]) -> tuple[str, Sequence[Item]]:
    return task_list.content.ticked(items, True), items


def _without(task_list: TaskList, items: Sequence[Item]) -> tuple[str, Sequence[Item]]:
    """The list without `items`, and all that goes: what is nested in an item goes with it."""
    gone = {item.line: item for one in items for item in (one, *task_list.content.nested(one))}
    return task_list.content.without(items), [*gone.values()]


Change = Callable[[TaskList, Sequence[Item]], tuple[str, Sequence[Item]]]


def _changed(
    run: Run, said: str | None, items: Iterable[str] | None, change: Change, *, about: str, done_too: bool
) -> Effects:
    """The effects that `change` the lists on which `items`, or else the entries of `run`, stand."""
    wording = wording_of(run)
    lists = Lists(run, wording)
    problems: Sentences = []
    name = lists.existing(said)
    among = [lists.read(name)] if name is not None else lists.read_all(problems)
    search = Search(among, run, wording, name, done_too)
    if items is not None:
        search.take([*items])
    elif run.has_input:
        search.take_entries(run.entries)
    else:
        raise Refusal("tasks.no_items")
    problems += search.problems()
    if not search.found:
        if not problems:
            raise Refusal("tasks.no_items")
        raise Refusal(problems[-1].key, **problems[-1].values)
    return Effects(tuple(_effects(search.found, change, about, wording)), told(problems))


def _effects(found: Sequence[Place], change: Change, about: str, wording: Wording) -> Iterable[Effect]:
    by_list: dict[str, list[Place]] = {}
    for place in found:
        by_list.setdefault(place.task_list.path, []).append(place)
    changes = []
    for places in by_list.values():
        task_list = places[0].task_list
        text, items = change(task_list, [place.item for place in places])
        changes.append((task_list, text, [item.text for item in items]))
    named = [f"{text} ({task_list.name})" for task_list, _, texts in changes for text in texts]
    for task_list, text, texts in changes:
        blanks = {"items": wording.together(texts), "list": task_list.name, "all": wording.together(named)}
        yield WriteFile(task_list.path, text, "replace", about=about, blanks=blanks)


TASK_EXECUTORS = (add_tasks, list_tasks, complete_tasks, delete_tasks)
"""In the order in which they are listed and described to the model."""

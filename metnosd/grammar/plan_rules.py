"""Grammars of plans: which tools may be named, what their arguments may be, what may follow what.

The decoded form is `{"steps":[{"tool":"…","from":N,"args":{…}}]}`, compact, one to six steps, `from`
optional. Every level is one automaton whose state is the step's number and the kind of the entries before it;
where flow is not asked for there is only one kind. Tools that take and give alike share their rules.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from metnosd.grammar.gbnf import (
    Alternative,
    Block,
    GrammarError,
    Ref,
    Rules,
    json_text,
    literal,
    rule_name,
    trie,
)
from metnosd.grammar.pieces import is_schema
from metnosd.grammar.schema import Translator

MOST_STEPS = 6
FINAL = "final_answer"
EVERY_KIND = "entries"
SAME_KIND = "same"
_UNKNOWN = "?"

Kind = str | None


@dataclass(frozen=True, slots=True)
class Flow:
    """What a class of tools takes and gives; None stands for no entries."""

    takes: tuple[Kind, ...]
    gives: Kind

    @property
    def consumes(self) -> bool:
        """Whether it takes entries at all."""
        return any(kind is not None for kind in self.takes)

    def accepts(self, kind: Kind) -> bool:
        """Whether it may follow entries of `kind` without naming a step; None: there are none."""
        return None in self.takes or self.fits(kind)

    def fits(self, kind: Kind) -> bool:
        """Whether entries of `kind` are among what it takes."""
        return kind is not None and (kind == _UNKNOWN or kind in self.takes or EVERY_KIND in self.takes)

    def after(self, kind: Kind) -> Kind:
        """The kind that it leaves when entries of `kind` came in."""
        if self.gives != SAME_KIND:
            return self.gives
        if not self.consumes:
            return None
        kinds = [taken for taken in self.takes if taken is not None]
        return kinds[0] if kind == _UNKNOWN and len(kinds) == 1 and kinds[0] != EVERY_KIND else kind


_FREE_FLOW = Flow((None, EVERY_KIND), _UNKNOWN)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a plan may name; `ending` is the rule from its arguments to the end of the step."""

    name: str
    ending: Ref
    flow: Flow


def build_framework_grammar(pool: Iterable[Any], *, last: Sequence[str] = ()) -> str:
    """The grammar of plans whose tools are those of `pool` and `final_answer`, with any JSON object as args.

    `pool` is an ordered sequence of specs with `name`, `schema`, `takes` and `gives`. `last` names the kinds
    of entries of the conversation's last outcome; without one, `"from":0` is not offered. `final_answer` can
    only come last. Raises GrammarError for an empty pool, a spec without a name or a schema, a name given
    twice.
    """
    rules = Rules()
    free = free_ending(rules)
    tools = [Tool(spec.name, free, _FREE_FLOW) for spec in read_pool(pool)]
    return plan_grammar(rules, tools, free, last=last)


def build_framework_grammar_typed(pool: Iterable[Any], *, last: Sequence[str] = ()) -> str:
    """As `build_framework_grammar`, with each tool's args derived from its schema.

    An object that declares its properties and does not mention others has no others. Where a schema cannot be
    expressed the args are wider there (see `untyped_paths`).
    """
    rules = Rules()
    tools = typed_tools(rules, [(spec, spec.schema, _FREE_FLOW) for spec in read_pool(pool)])
    return plan_grammar(rules, tools, final_ending(rules), last=last)


def build_framework_grammar_flow(pool: Iterable[Any], *, typed: bool = False, last: Sequence[str] = ()) -> str:
    """As `build_framework_grammar`, held to the kinds of entries that the tools take and give.

    With `typed` the args are those of `build_framework_grammar_typed`. A tool that needs entries cannot come
    where there are none of its kind, unless it names an earlier step; whether the kind behind a named step
    fits is not checked here. `"from":0` counts as an input of the kinds in `last`.
    """
    rules = Rules()
    specs = read_pool(pool)
    if typed:
        tools = typed_tools(rules, [(spec, spec.schema, read_flow(spec)) for spec in specs])
        return plan_grammar(rules, tools, final_ending(rules), flow=True, last=last)
    free = free_ending(rules)
    tools = [Tool(spec.name, free, read_flow(spec)) for spec in specs]
    return plan_grammar(rules, tools, free, flow=True, last=last)


def generate_tool_grammar(tools: Iterable[Any]) -> str:
    """The grammar of one call, `{"tool":…,"args":{…}}`, of one of `tools` with args derived from its schema.

    Takes specs and raises GrammarError as the other builders do. `final_answer` is offered only if it is one
    of `tools`.
    """
    rules = Rules()
    specs = read_pool(tools, keep_final=True)
    found = typed_tools(rules, [(spec, spec.schema, _FREE_FLOW) for spec in specs])
    names = trie(rules, "tool", [(_named(tool.name), (tool.ending,)) for tool in found])
    return _finished(rules, ('"{\\"tool\\":\\""', rules.shared("tool", names)))


def read_pool(pool: Iterable[Any], *, keep_final: bool = False) -> list[Any]:
    """The specs of a pool, checked; `final_answer` is left out, as it is always offered."""
    if isinstance(pool, (str, bytes, Mapping)) or not isinstance(pool, Iterable):
        raise GrammarError(f"a pool is a sequence of executor specs, not {type(pool).__name__}")
    specs = list(pool)
    if not specs:
        raise GrammarError("the pool is empty")
    seen: set[str] = set()
    for index, spec in enumerate(specs):
        name = getattr(spec, "name", None)
        if not isinstance(name, str) or not name.strip():
            raise GrammarError(f"spec {index} of the pool has no name")
        if name in seen:
            raise GrammarError(f"two specs of the pool have the name {name!r}")
        seen.add(name)
        if not is_schema(getattr(spec, "schema", None)):
            raise GrammarError(f"{name!r} has no JSON Schema of its arguments")
    return [spec for spec in specs if keep_final or spec.name != FINAL]


def read_flow(spec: Any) -> Flow:
    """What a spec takes and gives; GrammarError when it does not say so."""
    takes: Any = getattr(spec, "takes", False)
    kinds: tuple[Any, ...] = tuple(takes) if isinstance(takes, (tuple, list)) else (takes,)
    gives: Any = getattr(spec, "gives", False)
    if not kinds or not all(kind is None or (isinstance(kind, str) and kind) for kind in (*kinds, gives)):
        raise GrammarError(f"{spec.name!r} does not say which kinds it takes and gives")
    return Flow(tuple(sorted(set(kinds), key=lambda kind: kind or "")), gives)


def free_ending(rules: Rules) -> Ref:
    """The end of a step with any object as its arguments."""
    return rules.shared("args", [('"\\"args\\":"', Ref("json-object"), '"}"')])


def final_ending(rules: Rules) -> Ref:
    """The end of a step that is `final_answer`."""
    return rules.shared("final-args", [('"\\"args\\":{\\"text\\":"', Ref("json-string"), '"}}"')])


def typed_tools(
    rules: Rules, specs: Iterable[tuple[Any, Any, Flow]], *, grounded: bool = False, words: bool = False
) -> list[Tool]:
    """The tools of specs, each with the schema of its arguments.

    Where a schema admits nothing any object is an argument; `grounded` leaves such a tool
    out instead. `words` says that there is a rule `words` for texts marked as a run of words. Raises
    GrammarError.
    """
    found: list[Tool] = []
    taken: set[str] = set()
    for spec, schema, flow in specs:
        base = wish = rule_name(spec.name)
        count = 1
        while base in taken:
            count += 1
            base = f"{wish}-x{count}"
        taken.add(base)
        try:
            block = _ending(base, schema, words)
        except GrammarError as error:
            raise GrammarError(f"{spec.name!r}: {error}") from error
        if block is not None:
            rules.define(f"{base}-args", block)
            found.append(Tool(spec.name, Ref(f"{base}-args"), flow))
        elif not grounded:
            found.append(Tool(spec.name, free_ending(rules), flow))
    return found


def _ending(base: str, schema: Any, words: bool) -> Block | None:
    """The end of a step with the arguments of `schema`, its rules named after `base`.

    None when `schema` admits nothing. Equal schemas are translated once, with a stand-in for the name.
    """
    try:
        text = json.dumps(schema, default=dict)
    except RecursionError:
        block = _write_ending(schema, words)
    except (TypeError, ValueError) as error:
        raise GrammarError(f"the schema is not JSON: {error}") from error
    else:
        block = _cached_ending(text, words)
    return None if block is None else Block(block.text.replace(_STAND_IN, base), block.needs)


_STAND_IN = "\0"
"""Stands for the name of a tool in the names of its rules; no finished grammar holds this character."""


@lru_cache(maxsize=2048)
def _cached_ending(schema: str, words: bool) -> Block | None:
    return _write_ending(json.loads(schema), words)


def _write_ending(schema: Any, words: bool) -> Block | None:
    rules = Rules(f"{_STAND_IN}-arg")
    translator = Translator(rules, schema, "arg", closed=True, words=Ref("words") if words else None)
    ending: Alternative = ('"\\"args\\":"', *translator.arguments(), '"}"')
    return rules.block(f"{_STAND_IN}-args", [ending])


def _named(name: str) -> str:
    return json_text(name)[1:] + ","


def plan_grammar(
    rules: Rules, tools: Sequence[Tool], final: Ref, *, flow: bool = False, last: Sequence[str] = ()
) -> str:
    """The grammar of plans over `tools`; `final` is the end of a step that is `final_answer`."""
    kinds = (last,) if isinstance(last, str) else tuple(last)
    if not all(isinstance(kind, str) for kind in kinds):
        raise GrammarError(f"the last outcome has kinds of entries, not {last!r}")
    rules.define("plan", _automaton(tuple(tools), final, flow, kinds))
    return _finished(rules, (Ref("plan"),))


def _finished(rules: Rules, root: Alternative) -> str:
    text = rules.text([root])
    assert text is not None  # every rule of a plan has a match
    return text


@lru_cache(maxsize=256)
def _automaton(tools: tuple[Tool, ...], final: Ref, flow: bool, last: tuple[str, ...]) -> Block:
    """The rule `plan`, without those from the arguments of a step to its end."""
    rules = Rules()
    start = _Automaton(rules, tools, final, flow, last).first()
    block = rules.block("plan", [('"{\\"steps\\":["', start)])
    assert block is not None  # final_answer always matches
    return block


@dataclass(frozen=True, slots=True)
class _Class:
    """The tools that take and give alike, and what that means."""

    flow: Flow
    consumes: bool
    after_named: Kind
    fits_last: bool
    entries: list[tuple[str, Ref]]


class _Automaton:
    """Writes the rules of a plan, state by state as they are reached."""

    def __init__(self, rules: Rules, tools: Sequence[Tool], final: Ref, flow: bool, last: tuple[str, ...]) -> None:
        self.rules, self.flow = rules, flow
        classes: dict[Flow, list[tuple[str, Ref]]] = {}
        for tool in tools:
            classes.setdefault(tool.flow, []).append((_named(tool.name), tool.ending))
        self._classes = [
            _Class(flow, flow.consumes, flow.after(_UNKNOWN), any(map(flow.fits, last)), entries)
            for flow, entries in classes.items()
        ]
        self._final: Alternative = (literal(_named(FINAL)), final, '"]}"')
        self._states: dict[tuple[int, Kind], Ref] = {}
        self._nexts: dict[tuple[int, Kind], Alternative] = {}
        self._tries: dict[tuple[int, str], Alternative] = {}
        self._waiting: deque[tuple[int, Kind]] = deque()

    def first(self) -> Ref:
        """Write all; the rule of the first step and what follows."""
        start = self._state(1, None)
        while self._waiting:
            number, kind = self._waiting.popleft()
            name = self._states[number, kind].target
            self.rules.define(name, [('"{\\"tool\\":\\""', Ref(f"{name}-tool"))])
            self.rules.define(f"{name}-tool", self._steps(number, kind))
        return start

    def _state(self, number: int, kind: Kind) -> Ref:
        known = self._states.get((number, kind))
        if known is None:
            wish = f"step-{number}" + (f"-{kind or 'none'}-now" if self.flow and kind != _UNKNOWN else "")
            known = self._states[number, kind] = Ref(self.rules.name(wish))
            self._waiting.append((number, kind))
        return known

    def _next(self, number: int, kind: Kind) -> Alternative:
        """What follows step `number` when it leaves entries of `kind`."""
        known = self._nexts.get((number, kind))
        if known is None:
            known = ('"]}"',)
            if number < MOST_STEPS:
                known = (self.rules.shared("next", [known, ('","', self._state(number + 1, kind))]),)
            self._nexts[number, kind] = known
        return known

    def _steps(self, number: int, kind: Kind) -> list[Alternative]:
        found: list[Alternative] = []
        froms = (self._from(number, 1), self._from(number, 0))
        for index, group in enumerate(self._classes):
            named = froms[group.fits_last] if group.consumes else None
            implicit = group.flow.accepts(kind)
            after = group.flow.after(kind) if implicit else None
            if implicit and named is not None and after == group.after_named:
                found.append((*self._tools(index, named, "?"), *self._next(number, after)))
                continue
            if implicit:
                found.append((*self._tools(index, None, ""), *self._next(number, after)))
            if named is not None:
                found.append((*self._tools(index, named, ""), *self._next(number, group.after_named)))
        found.append(self._final)
        return found

    def _from(self, number: int, first: int) -> Ref | None:
        """The rule of `"from":N,` with N from `first` to the step before; None when there is no such step."""
        if first >= number:
            return None
        digits = literal(str(first)) if first == number - 1 else f"[{first}-{number - 1}]"
        return self.rules.shared("from", [('"\\"from\\":"', digits, '","')])

    def _tools(self, index: int, named: Ref | None, repetition: str) -> Alternative:
        """The parts of the names of a class, each with its `from` and the end of its step."""
        prefix = () if named is None else (Ref(named.target, repetition),)
        key = (index, prefix[0] if prefix else "")
        known = self._tries.get(key)
        if known is None:
            entries = [(text, (*prefix, ending)) for text, ending in self._classes[index].entries]
            names = trie(self.rules, "tool", entries)
            known = names[0] if len(names) == 1 else (self.rules.shared("tools", names),)
            self._tries[key] = known
        return known

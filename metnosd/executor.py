"""How an executor is declared: one decorator on a typed function.

    @executor(takes="files", gives="files", capability="fs:read")
    def compute_signatures(run: Run, *, algorithm: Literal["sha256", "md5"] = "sha256") -> Found:
        \"\"\"Compute a digest of each file.\"\"\"

The first docstring line is its summary, the signature its schema. A reader returns `Found`; one with
`effect=True` returns the `Effects` that it would have and touches nothing.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from threading import Event
from typing import TYPE_CHECKING, Any, Union

from pydantic import ConfigDict, TypeAdapter, ValidationError, create_model

from metnosd.arguments import SCHEMA_OF_TYPE, Arg
from metnosd.effects import Effect
from metnosd.entries import KINDS, Entry
from metnosd.names import OBJECTS, VERBS
from metnosd.sentence import Sentence

if TYPE_CHECKING:
    from metnosd.scope import Scope

Takes = str | tuple[str | None, ...] | None


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that a setting gives to executors; sizes in bytes."""

    max_files: int = 100_000
    max_read_bytes: int = 1_000_000
    max_unpacked_bytes: int = 2_000_000_000
    max_unpacked_files: int = 20_000
    max_unpack_ratio: int = 200


@dataclass(frozen=True, slots=True)
class Run:
    """What an executor gets besides its arguments; `entries` are those of the step that it takes from.

    `has_input` is false when the step stands alone, so that an executor with `None` among its `takes` can
    tell "no input" from "an input without entries". `cancelled` is set when the turn was cancelled: long
    loops look at it and call `check()`. `facts` are values of the daemon that system executors show.
    """

    entries: tuple[Entry, ...]
    has_input: bool
    scope: Scope
    now: datetime
    zone: tzinfo
    lang: str
    limits: Limits = field(default_factory=Limits)
    cancelled: Event = field(default_factory=Event)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Raise `Cancelled` if the turn was cancelled."""
        if self.cancelled.is_set():
            raise Cancelled


class Cancelled(Exception):
    """The turn was cancelled while an executor ran."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a reader found. `problems` name what it could not look at; `note` is a sentence of its own."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[Sentence, ...] = ()
    note: Sentence | None = None
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Effects:
    """What an executor would do, in order; `problems` name the entries that it leaves out, and why.

    `ask` is a question that the executor wants put whatever the policy allows. Where it can be answered in
    several ways, `choices` are the effects of each by name, and `effects` those of a plain yes. `settles` are
    journal rows that are given up if the effects do not take them back.
    """

    effects: tuple[Effect, ...] = ()
    problems: tuple[Sentence, ...] = ()
    ask: Sentence | None = None
    choices: Mapping[str, tuple[Effect, ...]] = field(default_factory=dict)
    settles: tuple[int, ...] = ()


Function = Callable[..., Found | Effects]


@dataclass(frozen=True)
class Executor:
    """A declared executor: what the pool, the grammar, Vaglio and the runtime know of it.

    `capability` is one name or several with blanks between them, as OAuth writes scopes (RFC 6749, 3.3).
    `schema` is the JSON Schema of the arguments that a model may write, `hints` the resolved type of each.
    `only_with` is the signal of section `[signals_within]` without which it is not offered (the web, mail).
    One `by_runtime` is never offered to a model; the runtime alone plans it.
    `provider` and `plain` are set on a variant for one provider of what another executor does.
    """

    name: str
    summary: str
    takes: Takes
    gives: str | None
    capability: str
    effect: bool
    reversible: bool
    schema: Mapping[str, Any]
    hints: Mapping[str, Any]
    runtime: frozenset[str]
    function: Function
    model: type[Any]
    only_with: str | None = None
    by_runtime: bool = False
    provider: str | None = None
    plain: str | None = None

    def for_provider(self, provider: str, function: Function | None = None) -> Executor:
        """The variant of this executor at `provider`: offered instead of it where that is named."""
        return replace(
            self,
            name=f"{self.name}_{provider}",
            plain=self.name,
            provider=provider,
            function=function or self.function,
        )

    @property
    def kinds(self) -> tuple[str | None, ...]:
        """`takes` as a tuple."""
        return self.takes if isinstance(self.takes, tuple) else (self.takes,)

    def accepts(self, kind: str | None) -> bool:
        """Whether entries of `kind` (None: no input) may be its input."""
        return kind in self.kinds or (kind is not None and "entries" in self.kinds)

    def check(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """`args` with types coerced, nulls and runtime arguments dropped.

        Raises ValueError naming each argument that is unknown, missing or of the wrong type.
        """
        given = {k: v for k, v in args.items() if v is not None and k not in self.runtime}
        try:
            checked = self.model(**given)
        except ValidationError as error:
            raise ValueError("; ".join(_explain(item) for item in error.errors())) from error
        return {k: getattr(checked, k) for k in self.schema["properties"] if k in checked.model_fields_set}

    def to_json(self) -> dict[str, object]:
        """The executor as `metnosd executors --json` shows it."""
        return {
            "name": self.name,
            "summary": self.summary,
            "takes": list(self.takes) if isinstance(self.takes, tuple) else self.takes,
            "gives": self.gives,
            "effect": self.effect,
            "capability": self.capability,
            "reversible": self.reversible,
            "schema": dict(self.schema),
        }


def executor(
    *,
    takes: Takes,
    gives: str | None,
    capability: str,
    effect: bool = False,
    reversible: bool = False,
    only_with: str | None = None,
    by_runtime: bool = False,
) -> Callable[[Function], Executor]:
    """Declare a function an executor; raises TypeError when the declaration does not hold together."""

    def declare(function: Function) -> Executor:
        name = function.__name__
        _check_name(name)
        for kind in (takes if isinstance(takes, tuple) else (takes,)) + (gives,):
            if kind is not None and kind != "same" and kind not in KINDS:
                raise TypeError(f"{name}: {kind!r} is no kind of entries")
        if not capability.split():
            raise TypeError(f"{name} declares no capability")
        if not function.__doc__:
            raise TypeError(f"{name} has no docstring to be its summary")
        schema, hints, runtime, model = _read_signature(name, function)
        return Executor(
            name=name,
            summary=function.__doc__.strip().splitlines()[0].rstrip("."),
            takes=takes,
            gives=gives,
            capability=capability,
            effect=effect,
            reversible=reversible,
            schema=schema,
            hints=hints,
            runtime=runtime,
            function=function,
            model=model,
            only_with=only_with,
            by_runtime=by_runtime,
        )

    return declare


def _check_name(name: str) -> None:
    verb, _, rest = name.partition("_")
    if verb not in VERBS or rest not in OBJECTS:
        raise TypeError(f"{name} is not made of a verb and an object of metnosd/names.py")


def _read_signature(name: str, function: Function) -> tuple[dict[str, Any], dict[str, Any], frozenset[str], type[Any]]:
    hints = typing.get_type_hints(function, include_extras=True)
    properties: dict[str, Any] = {}
    required: list[str] = []
    resolved: dict[str, Any] = {}
    runtime: set[str] = set()
    plan_fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        inner, arg = _unwrap(hints[parameter.name])
        resolved[parameter.name] = inner
        if arg.runtime:
            runtime.add(parameter.name)
            continue
        properties[parameter.name] = _schema_of(inner, arg)
        plan_type = str if inner in SCHEMA_OF_TYPE else inner
        if parameter.default is inspect.Parameter.empty:
            required.append(parameter.name)
            plan_fields[parameter.name] = (plan_type, ...)
        else:
            plan_fields[parameter.name] = (plan_type, parameter.default)
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)
    model = create_model(f"{name}_arguments", __config__=config, **plan_fields)
    return schema, resolved, frozenset(runtime), model


def _unwrap(hint: Any) -> tuple[Any, Arg]:
    """The type without `Annotated` and `| None`, and its `Arg`."""
    arg = Arg("")
    if typing.get_origin(hint) is typing.Annotated:
        arg = next((item for item in hint.__metadata__ if isinstance(item, Arg)), arg)
        hint = hint.__origin__
    if typing.get_origin(hint) in (Union, types.UnionType):
        kept = [item for item in typing.get_args(hint) if item is not type(None)]
        if len(kept) == 1:
            hint = kept[0]
    return hint, arg


def _schema_of(inner: Any, arg: Arg) -> dict[str, Any]:
    plain = SCHEMA_OF_TYPE.get(inner)
    schema: dict[str, Any] = dict(plain) if plain else TypeAdapter(inner).json_schema()
    if arg.doc:
        schema["description"] = arg.doc
    if arg.source:
        (schema["items"] if schema.get("type") == "array" else schema)["x-source"] = arg.source
    return schema


def _explain(item: Any) -> str:
    where = ".".join(str(part) for part in item["loc"]) or "args"
    return f"{where}: {item['msg']}"


class Registry:
    """The executors of this daemon, by name, in the order given; raises TypeError on a name given twice."""

    def __init__(self, executors: Sequence[Executor]) -> None:
        self._by_name = {item.name: item for item in executors}
        if len(self._by_name) != len(executors):
            raise TypeError("two executors have one name")

    def __iter__(self) -> typing.Iterator[Executor]:
        return iter(self._by_name.values())

    def __getitem__(self, name: str) -> Executor:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

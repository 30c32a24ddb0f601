"""The composition root: from settings and places to the parts of a daemon. Nothing is global."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from tzlocal import get_localzone

from metnosd.act import Actor, settle
from metnosd.consent import Consents
from metnosd.daemon import Daemon
from metnosd.effects import Effect
from metnosd.executor import Limits, Registry
from metnosd.executors.actions import redo_actions, undo_actions
from metnosd.executors.files_all import FILE_EXECUTORS
from metnosd.executors.system import final_answer, get_help, get_status, get_time
from metnosd.journal import Journal
from metnosd.keep import Keep
from metnosd.kinds import shipped_kinds
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.loading import load_lexicon
from metnosd.lexicon.spans import Spans, read_spans
from metnosd.locations import Locations, own_or_shipped, shipped_config
from metnosd.message import UndoOffer
from metnosd.model.catalog import Catalog, load_catalog
from metnosd.model.service import ModelService
from metnosd.planner import Level, Planner
from metnosd.prompt import load_prompts, make_prompt
from metnosd.resolve import Resolver
from metnosd.resolve_args import Reading
from metnosd.reverting import inverses_of
from metnosd.scope import Scope
from metnosd.sentence import Sentence
from metnosd.settings import Settings, SettingsError
from metnosd.store import Store
from metnosd.turn import Parts
from metnosd.turns import Turns
from metnosd.user import User
from metnosd.vaglio import load_policy

OWNER = "owner"

Clock = Callable[[], datetime]


def make_registry() -> Registry:
    """Every executor, in the order in which they are listed and described to the model."""
    system = (get_time, get_status, get_help, undo_actions, redo_actions, final_answer)
    return Registry((*FILE_EXECUTORS, *system))


def make_catalog(settings: Settings, places: Locations) -> Catalog:
    """The model catalog with the user's overlay and choice."""
    return load_catalog(
        shipped_config("models.toml"),
        places.config_dir / "models.toml",
        selection=places.state / "model.toml",
        configured=settings.model.name,
    )


def make_owner(settings: Settings, places: Locations, home: str | None) -> User:
    """The person whose daemon this is."""
    roots = [root for root in settings.files.roots if not (places.is_system and root.startswith("~"))]
    return User(
        name=OWNER,
        roots=tuple(str(Path(root).expanduser()) for root in roots),
        home=home,
        lang=settings.user.lang,
        zone=zone_of(settings.user.zone),
        level=settings.user.level,
    )


def zone_of(name: str) -> tzinfo:
    """The zone of the setting `user.zone`; the machine's own by its IANA name."""
    return get_localzone() if name == "local" else ZoneInfo(name)


@dataclass(frozen=True)
class Assembly:
    """A daemon that is ready to be served, and what must be closed after it."""

    daemon: Daemon
    parts: Parts
    store: Store
    owner: User


def assemble(
    settings: Settings,
    places: Locations,
    model: ModelService,
    *,
    clock: Clock,
    home: str | None,
    uid: int,
    level: Level,
    model_ready: Callable[[], Sentence | None] = lambda: None,
    status: Callable[[], Mapping[str, Any]] = dict,
    settle_crash: bool = True,
) -> Assembly:
    """Put the parts together. Raises SettingsError, LexiconError, PolicyError, OSError or ValueError."""
    lexicon = load_lexicon(shipped_config("lexicon"), places.config_dir / "lexicon")
    owner = make_owner(settings, places, home)
    store = Store(places.database)
    journal, turns = Journal(store), Turns(store)
    keep = Keep(str(places.keep))
    closed = (str(places.state), str(places.config_dir), str(places.models))
    scopes = _Scopes(lexicon, keep, closed)
    vaglio = load_policy(own_or_shipped(places, "policy.toml"))
    registry = make_registry()
    off = _switched_off(settings, places, registry)
    limits = Limits(**settings.files.model_dump(exclude={"roots"}))
    resolver = Resolver(
        registry,
        lambda context: Reading(lexicon, context.now, scopes.of(context.user)),
        limits=limits,
        facts={"inverses": lambda user, way, count: inverses_of(journal, user, way, count)},
        may_read=vaglio.may_read,
    )
    parts = Parts(
        lexicon=lexicon,
        kinds=shipped_kinds(),
        registry=registry,
        planner=Planner(model, make_prompt(load_prompts(shipped_config("prompts.toml")), registry), level),
        resolver=resolver,
        vaglio=vaglio,
        consents=Consents(store, timedelta(minutes=settings.consent.minutes)),
        actor=Actor(journal, lambda context: scopes.of(context.user), clock, limits),
        turns=turns,
        may_use=lambda item, user: item.name not in off and vaglio.may_offer(item, user),
        scope=lambda context: scopes.of(context.user),
        clock=lambda: clock().astimezone(owner.zone),
        undo_offer=lambda turn: _undo_offer(journal, turn),
        model_ready=model_ready,
    )
    if settle_crash:
        settle(journal, lambda _turn: scopes.of(owner))
        turns.close_interrupted()
    others = {int(number): name for number, name in settings.socket.users.items()}
    users = {OWNER: owner} | {name: _guest(name, owner) for name in others.values() if name != OWNER}
    daemon = Daemon(parts, journal, users=users, uids={**others, uid: OWNER}, status=status)
    return Assembly(daemon, parts, store, owner)


def _switched_off(settings: Settings, places: Locations, registry: Registry) -> frozenset[str]:
    """The executors of the setting `executors.off`. Raises SettingsError for a name that is none."""
    off = frozenset(settings.executors.off)
    unknown = sorted(off - {item.name for item in registry})
    if unknown:
        raise SettingsError(f"{places.config_file}: executors.off: there is no executor {unknown[0]}.")
    return off


class _Scopes:
    """The reach of each user, made afresh for each turn: folders come and go."""

    def __init__(self, lexicon: Lexicon, keep: Keep, closed: tuple[str, ...]) -> None:
        self._words = lexicon.folder_words()
        self._keep = keep
        self._closed = closed

    def of(self, user: User) -> Scope:
        return Scope(user.roots, home=user.home, folder_words=self._words, keep=self._keep, closed=self._closed)


def _guest(name: str, owner: User) -> User:
    return User(name=name, roots=(), home=None, lang=owner.lang, zone=owner.zone, level="read_only")


def _undo_offer(journal: Journal, turn: str) -> UndoOffer | None:
    effects: list[Effect] = journal.inverses(turn)[0]
    return UndoOffer(turn, len(effects)) if effects else None


def system_clock() -> datetime:
    """Now, aware."""
    return datetime.now(UTC)


def read_spans_of(text: str) -> Spans:
    """What `text` holds for the grounded grammar, with the shipped lexicon."""
    return read_spans(text, load_lexicon(shipped_config("lexicon")), shipped_kinds())


def model_status(state: Any) -> dict[str, Any]:
    """A model's state as `status` shows it."""
    return asdict(state)


def own_version() -> str:
    """The version of this installation."""
    return version("metnosd")

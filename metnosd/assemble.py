"""The composition root: from settings and places to the parts of a daemon. Nothing is global."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from tzlocal import get_localzone

from metnosd.act import Actor, settle
from metnosd.alarm import Alarm, AlarmSettings
from metnosd.consent import Consents
from metnosd.daemon import Daemon
from metnosd.executor import Limits, Registry
from metnosd.executors.actions import list_actions, redo_actions, undo_actions
from metnosd.executors.files_all import FILE_EXECUTORS
from metnosd.executors.grants import create_grants, delete_grants, list_grants
from metnosd.executors.messages import MESSAGE_EXECUTORS
from metnosd.executors.notes import NOTE_EXECUTORS
from metnosd.executors.numbers import NUMBER_EXECUTORS
from metnosd.executors.processes import PROCESS_EXECUTORS
from metnosd.executors.schedules import SCHEDULE_EXECUTORS
from metnosd.executors.system import final_answer, get_help, get_status, get_time
from metnosd.executors.tasks import TASK_EXECUTORS
from metnosd.executors.texts import TEXT_EXECUTORS
from metnosd.firing import Firing
from metnosd.grants import Grant, Grants
from metnosd.journal import Journal
from metnosd.keep import Keep
from metnosd.kept import Kept, open_kept
from metnosd.kinds import shipped_kinds
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.loading import load_lexicon
from metnosd.lexicon.spans import Spans, read_spans
from metnosd.locations import Locations, shipped_config
from metnosd.measure import fix
from metnosd.message import UndoOffer
from metnosd.model.catalog import DEFAULT_CONTEXT, Catalog, CatalogError, load_catalog
from metnosd.model.service import ModelService
from metnosd.parts import Parts
from metnosd.people import OWNER, People
from metnosd.planner import Level, Planner
from metnosd.policy import Policy, PolicyError
from metnosd.prompt import load_prompts, load_writer_texts, make_prompt
from metnosd.redact import Redactor
from metnosd.resolve import Context, Resolver
from metnosd.resolve_args import Reading
from metnosd.scope import Scope
from metnosd.sending import Post
from metnosd.sentence import Sentence
from metnosd.settings import Settings, SettingsError
from metnosd.store import Store
from metnosd.undoing import Undoing
from metnosd.user import User
from metnosd.vaglio import Case, Origin, PolicyFile, Vaglio
from metnosd.writer import Writer

OUTBOX_DAYS = 30
"""How long it is remembered what was delivered."""

Clock = Callable[[], datetime]


def make_registry() -> Registry:
    """Every executor, in the order in which they are listed and described to the model."""
    system = (get_time, get_status, *PROCESS_EXECUTORS, get_help, list_actions, undo_actions, redo_actions)
    grants = (create_grants, list_grants, delete_grants)
    return Registry(
        (
            *FILE_EXECUTORS,
            *system,
            *grants,
            *NUMBER_EXECUTORS,
            *SCHEDULE_EXECUTORS,
            *TEXT_EXECUTORS,
            *NOTE_EXECUTORS,
            *TASK_EXECUTORS,
            *MESSAGE_EXECUTORS,
            final_answer,
        )
    )


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
    alarm: Alarm
    chores: tuple[Callable[[], object], ...] = ()

    def close(self) -> None:
        """Let go of the threads and the database. Turns under way are stopped before, by the daemon's own close."""
        self.parts.resolver.close()
        self.store.close()


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
    redactor: Redactor | None = None,
) -> Assembly:
    """Put the parts together. Raises SettingsError, LexiconError, PolicyError, OSError or ValueError."""
    lexicon = load_lexicon(shipped_config("lexicon"), places.config_dir / "lexicon")
    owner = make_owner(settings, places, home)
    redactor = redactor or Redactor()
    kept = open_kept(places, redactor, timedelta(days=settings.schedules.keep_days), clock)
    policy = PolicyFile(shipped_config("policy.toml"), places.config_dir / "policy.toml")
    vaglio = Vaglio(policy, places.own(owner.roots))
    scopes = Scopes(lexicon, kept.keep, vaglio)
    registry = make_registry()
    off = _switched_off(settings, places, registry)
    limits = Limits(**settings.files.model_dump(exclude={"roots"}))
    writer = _writer(settings, places, model, redactor)
    others, users = _everybody(settings, owner)
    post = Post(kept.outbox, kept.journal, People(users, kept.turns, lexicon), redactor, clock)
    parts = Parts(
        lexicon=lexicon,
        kinds=shipped_kinds(),
        registry=registry,
        planner=Planner(model, make_prompt(load_prompts(shipped_config("prompts.toml")), registry), level, redactor),
        resolver=_resolver(
            registry, lexicon, scopes, limits, kept, vaglio, settings, post, home, writer, lambda key: run_now(key)
        ),
        vaglio=vaglio,
        consents=Consents(kept.store, timedelta(minutes=settings.consent.minutes), redactor),
        actor=Actor(kept.journal, kept.records, post, lambda context: scopes.of(context.user), clock, limits),
        turns=kept.turns,
        records=kept.records,
        redactor=redactor,
        case=lambda context, origin: _case(context, origin, kept.grants, clock, vaglio.policy(), post),
        may_use=lambda item, user: item.name not in off and vaglio.may_offer(item, user),
        scope=lambda context: scopes.of(context.user),
        clock=lambda: clock().astimezone(owner.zone),
        undo_offer=lambda turn: _undo_offer(kept.journal, turn),
        model_ready=model_ready,
        habits=settings.times.habits(),
        last_reminder=lambda context: _last_reminder(kept, context),
    )
    if settle_crash:
        settle(kept.journal, kept.records, post, lambda name: scopes.of(users[name]) if name in users else None)
        _close_interrupted(kept, parts, clock())
    daemon = Daemon(parts, kept, users=users, uids={**others, uid: OWNER}, status=status)
    alarm = _alarm(daemon, parts, kept, settings, clock)
    run_now = alarm.run_now_in_thread
    return Assembly(daemon, parts, kept.store, owner, alarm, _chores(kept, settings, clock))


def _chores(kept: Kept, settings: Settings, clock: Clock) -> tuple[Callable[[], object], ...]:
    """What is done now and then, so that what is kept does not grow without end."""
    return (
        lambda: kept.keep.sweep(clock(), settings.undo.keep_days, settings.undo.keep_bytes),
        lambda: kept.outbox.prune(clock() - timedelta(days=OUTBOX_DAYS)),
    )


def _close_interrupted(kept: Kept, parts: Parts, now: datetime) -> None:
    """Mark the turns and questions that the end of the last daemon left open."""
    kept.turns.close_interrupted()
    parts.consents.expire_old(now)


def _alarm(daemon: Daemon, parts: Parts, kept: Kept, settings: Settings, clock: Clock) -> Alarm:
    firing = Firing(daemon, parts, kept.outbox)
    return Alarm(
        kept.schedules,
        kept.ledger,
        clock=clock,
        fire=firing.fire,
        tell_missed=firing.missed,
        tell_unknown=firing.unknown,
        tell_paused=firing.paused,
        may_repeat=lambda schedule: not any(parts.registry[step.tool].effect for step in schedule.plan.steps),
        waits=firing.waits,
        settings=AlarmSettings(stagger_s=settings.schedules.stagger_s),
    )


def _last_reminder(kept: Kept, context: Context) -> str | None:
    """What the last reminder in the conversation of `context` said, if that was within the last hour."""
    mine = kept.schedules.of_user(context.user.name, context.now - timedelta(days=1))
    here = {s.id: s for s in mine if s.kind == "reminder" and (s.channel, s.conversation) == context.where}
    runs = kept.ledger.runs_since(list(here), context.now - timedelta(hours=1), ("done",))
    newest = max(runs, key=lambda run: run.due, default=None)
    return here[newest.schedule].name if newest is not None else None


def _resolver(
    registry: Registry,
    lexicon: Lexicon,
    scopes: Scopes,
    limits: Limits,
    kept: Kept,
    vaglio: Vaglio,
    settings: Settings,
    post: Post,
    home: str | None,
    writer: Writer,
    run_now: Callable[[str], bool],
) -> Resolver:
    late = settings.schedules
    facts = {
        "undoing": Undoing(kept.journal, kept.records, lexicon),
        "grants": kept.grants.of_user,
        "lexicon": lexicon,
        "schedules": kept.schedules,
        "ledger": kept.ledger,
        "late_s": {"plan": 60.0 * late.late_minutes, "reminder": 60.0 * late.reminder_late_minutes},
        "judge": vaglio.judge_capability,
        "policy": lambda: vaglio.policy().digest,
        "run_now": run_now,
        "writer": writer,
        "notes_dir": _own_folder(settings.notes.folder, home),
        "lists_dir": _own_folder(settings.notes.lists, home),
        "people": post.people,
        "known": post.known,
    }
    return Resolver(
        registry,
        lambda context: Reading(lexicon, context.now, scopes.of(context.user)),
        limits=limits,
        facts=facts,
        may_read=vaglio.may_read,
        fix=lambda effects, scope, check: fix(effects, scope, check, kept.records),
    )


def _own_folder(setting: str, home: str | None) -> str:
    """The absolute path of a folder of the owner; without a home, "~" stays and is out of reach."""
    folder = os.path.join(home, setting[2:]) if home and setting.startswith("~/") else setting
    return os.path.realpath(folder) if folder.startswith("/") else folder


def _writer(settings: Settings, places: Locations, model: ModelService, redactor: Redactor) -> Writer:
    """The writer, with the context of the model in use; of one that is unknown nothing is loaded anyway."""
    try:
        context = make_catalog(settings, places).get().context
    except CatalogError:
        context = DEFAULT_CONTEXT
    return Writer(model, load_writer_texts(shipped_config("prompts.toml")), context, redactor)


def _switched_off(settings: Settings, places: Locations, registry: Registry) -> frozenset[str]:
    """The executors of the setting `executors.off`. Raises SettingsError for a name that is none."""
    off = frozenset(settings.executors.off)
    unknown = sorted(off - {item.name for item in registry})
    if unknown:
        raise SettingsError(f"{places.config_file}: executors.off: there is no executor {unknown[0]}.")
    return off


class Scopes:
    """The reach of each user, made afresh for each turn: folders and rules come and go."""

    def __init__(self, lexicon: Lexicon, keep: Keep, vaglio: Vaglio) -> None:
        self._words = lexicon.folder_words()
        self._keep = keep
        self._vaglio = vaglio

    def of(self, user: User) -> Scope:
        """What `user` may reach now; nothing while the policy cannot be read."""
        try:
            closed = self._vaglio.protected(self._vaglio.policy(), user)
        except PolicyError:
            return Scope((), home=user.home, keep=self._keep)
        return Scope(user.roots, home=user.home, folder_words=self._words, keep=self._keep, closed=closed)


def _case(context: Context, origin: Origin, grants: Grants, clock: Clock, policy: Policy, post: Post) -> Case:
    user = context.user
    found = [grant for grant in grants.of_user(user.name) if _holds(grant, context, policy)]
    return Case(user, clock().astimezone(user.zone), origin, found, lambda name: post.known(user.name, name))


def _holds(grant: Grant, context: Context, policy: Policy) -> bool:
    """Whether `grant` counts for the turn of `context`: a standing one, or that of the schedule which fires."""
    bound = (grant.schedule, grant.digest, grant.policy)
    return grant.schedule is None or bound == (context.schedule, context.digest, policy.digest)


def _everybody(settings: Settings, owner: User) -> tuple[dict[int, str], dict[str, User]]:
    """The names of others by the user id that they speak from, and everybody by name."""
    others = {int(number): name for number, name in settings.socket.users.items()}
    return others, {OWNER: owner} | {name: _guest(name, owner) for name in others.values() if name != OWNER}


def _guest(name: str, owner: User) -> User:
    return User(name=name, roots=(), home=None, lang=owner.lang, zone=owner.zone, level="read_only")


def _undo_offer(journal: Journal, turn: str) -> UndoOffer | None:
    rows = [row for row in journal.of_turn(turn) if row.state == "done" and row.undone_by is None and row.inverse]
    return UndoOffer(turn, len(rows)) if rows else None


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

"""Vaglio: allows, asks or denies, by rules that fail closed. What has no rule is denied.

The order is fixed: guards deny first; then the level's answer to each capability; a standing grant turns an
"ask" into an "allow"; quantities, recipients and an executor's own question turn an "allow" into an "ask".
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

import structlog

from metnosd.executor import Executor
from metnosd.grants import Grant
from metnosd.people import person_shown
from metnosd.policy import Answer, Policy, PolicyError, load_policy
from metnosd.resolve import ResolvedPlan, ResolvedStep
from metnosd.scope import is_inside
from metnosd.sentence import Refusal, Sentence, say
from metnosd.user import User
from metnosd.userdirs import read_user_dirs

log = structlog.get_logger(__name__)

Origin = Literal["message", "schedule"]
Known = Literal["unknown", "new", "known"]

_SEVERITY: Mapping[str, int] = {"allow": 0, "ask": 1, "deny": 2}

KEPT_FAULTS = 20
"""How many of its own faults Vaglio remembers for `status` and `doctor`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer, the rule that decided, and the reason for the user; `grant` is the one that it rests on."""

    answer: Answer
    rule: str
    reason: Sentence
    provisional: bool = False
    grant: str | None = None

    def to_json(self) -> dict[str, object]:
        """The verdict as `metnosd plan` shows it."""
        return {"answer": self.answer, "rule": self.rule, "grant": self.grant, "provisional": self.provisional}


@dataclass(frozen=True, slots=True)
class Case:
    """What a plan is judged in: for whom, when (in the user's zone), and whether they or a schedule began it.

    `known` tells of a recipient whether they are nobody we know, new to this user, or written to before.
    """

    user: User
    now: datetime
    origin: Origin = "message"
    grants: Sequence[Grant] = ()
    known: Callable[[str], Known] = lambda _recipient: "unknown"


@dataclass(frozen=True, slots=True)
class Fault:
    """A judgement that could not be made, and was a denial therefore."""

    at: datetime
    error: str


@dataclass
class Vaglio:
    """Judges by the policy that `read` gives; a policy that cannot be read denies everything.

    `own` are the daemon's own folders and files, which are guarded whatever the policy says.
    """

    read: Callable[[], Policy]
    own: tuple[str, ...] = ()
    faults: deque[Fault] = field(default_factory=lambda: deque(maxlen=KEPT_FAULTS))

    def judge(self, resolved: ResolvedPlan, case: Case) -> Verdict:
        """The strictest answer to any effect of `resolved`. Never raises: a fault is a denial."""
        try:
            return self._judge(resolved, case)
        except Exception as error:  # noqa: BLE001 - what cannot be judged is denied, whatever went wrong
            return self.fault(case.now, error)

    def policy(self) -> Policy:
        """The policy as it is now. Raises PolicyError, whatever it is that keeps it from being read."""
        try:
            return self.read()
        except PolicyError:
            raise
        except Exception as error:
            # A policy that cannot be had denies, whatever went wrong with it.
            raise PolicyError(f"{type(error).__name__}: {error}") from error

    def unusable(self, now: datetime) -> Verdict | None:
        """The denial of everything while the policy cannot be read; None while it can."""
        try:
            self.policy()
        except PolicyError as error:
            return self.fault(now, error)
        return None

    def fault(self, now: datetime, error: BaseException) -> Verdict:
        """The denial that a judgement ends in which could not be made, logged and kept for `doctor`."""
        log.error("vaglio_fault", error=str(error), kind=type(error).__name__)
        self.faults.append(Fault(now, f"{type(error).__name__}: {error}"))
        rule = "fault/policy" if isinstance(error, PolicyError) else f"fault/{type(error).__name__}"
        return Verdict("deny", rule, say("vaglio.fault", reason=f"{type(error).__name__}: {error}"))

    def _judge(self, resolved: ResolvedPlan, case: Case) -> Verdict:
        policy = self.policy()
        verdict = Verdict("allow", "no_effect", say("vaglio.no_effect"))
        for step in resolved.pending:
            for found in self._step(step, resolved, policy, case):
                if _SEVERITY[found.answer] > _SEVERITY[verdict.answer] or verdict.rule == "no_effect":
                    verdict = found
        return verdict

    def _step(self, step: ResolvedStep, resolved: ResolvedPlan, policy: Policy, case: Case) -> Iterator[Verdict]:
        """Every answer to `step`; the strictest one counts, of equal ones the first."""
        yield from self._guards(step, policy, case)
        if not step.capabilities:
            yield _denied(f"{case.user.level}/: no rule", "vaglio.no_rule", capability=step.tool)
        files, size = _amount(resolved)
        own = [grant for grant in case.grants if grant.user == case.user.name]
        for capability in step.capabilities:
            base = _base(policy, capability, case.user)
            grant = next((g for g in own if g.covers(step, capability, files, size)), None)
            if base.answer == "ask" and grant is not None and capability not in policy.guards.never:
                reason = say("vaglio.allow")
                base = Verdict("allow", f"grant/{grant.id}", reason, grant=grant.id)
            yield base
            if base.answer == "allow" and capability not in policy.raises.exempt:
                yield from _raises(step, resolved, policy, case, grant)
        if step.ask is not None:
            yield Verdict("ask", f"executor/{step.ask.key}", step.ask)

    def _guards(self, step: ResolvedStep, policy: Policy, case: Case) -> Iterator[Verdict]:
        guards = policy.guards
        for capability in step.capabilities:
            if capability in guards.never:
                yield _denied("guard/never", "vaglio.never", capability=capability)
            if case.origin == "schedule" and capability in guards.never_scheduled:
                yield _denied("guard/never_scheduled", "vaglio.never_scheduled", capability=capability)
        protected = self.protected(policy, case.user)
        system = tuple(place for item in guards.system for place in _places(item, case.user))
        for effect in step.effects:
            for path in (*effect.reads(), *effect.writes()):
                if any(is_inside(path, shut) for shut in protected):
                    yield _denied("guard/protected", "vaglio.protected", path=path)
            for path in effect.whole():
                if any(is_inside(shut, path) for shut in protected):
                    yield _denied("guard/protected", "vaglio.protected", path=path)
                if path in effect.writes() and any(is_inside(shut, path) for shut in system):
                    yield _denied("guard/system", "vaglio.system", path=path)
            for path in effect.writes():
                if any(is_inside(path, shut) for shut in system):
                    yield _denied("guard/system", "vaglio.system", path=path)
            for recipient in effect.recipients():
                if case.known(recipient) == "unknown":
                    yield _denied("guard/recipient", "vaglio.unknown_recipient", name=recipient)

    def protected(self, policy: Policy, user: User) -> tuple[str, ...]:
        """The folders and files that are out of everybody's reach, by name and by where links lead."""
        return (*(place for item in policy.guards.protected for place in _places(item, user)), *self.own)

    def judge_capability(self, capability: str, user: User) -> Verdict:
        """The level's answer to one use of a capability, before anything is known of targets."""
        try:
            policy = self.policy()
        except PolicyError as error:
            return self.fault(datetime.now(user.zone), error)
        found = [_base(policy, item, user) for item in capability.split()]
        if any(item in policy.guards.never for item in capability.split()):
            return _denied("guard/never", "vaglio.never", capability=capability)
        return max(found, key=lambda verdict: _SEVERITY[verdict.answer])

    def may_offer(self, executor: Executor, user: User) -> bool:
        """Whether it makes sense to offer `executor` to the planner: not where its use would be denied."""
        return self.judge_capability(executor.capability, user).answer != "deny"

    def may_read(self, executor: Executor, user: User) -> Refusal | None:
        """None if a step without effect may run; a reading that would have to be asked is refused too."""
        verdict = self.judge_capability(executor.capability, user)
        if verdict.answer == "allow":
            return None
        return Refusal(verdict.reason.key, **verdict.reason.values)


def _base(policy: Policy, capability: str, user: User) -> Verdict:
    answer = policy.levels.get(user.level, {}).get(capability)
    rule = f"{user.level}/{capability}"
    if answer is None:
        return Verdict("deny", f"{rule}: no rule", say("vaglio.no_rule", capability=capability))
    return Verdict(answer, rule, say(f"vaglio.{answer}", capability=capability))


def _denied(rule: str, key: str, **values: object) -> Verdict:
    return Verdict("deny", rule, say(key, **values))


def _raises(
    step: ResolvedStep, resolved: ResolvedPlan, policy: Policy, case: Case, grant: Grant | None
) -> Iterator[Verdict]:
    """The questions that quantities, places and recipients of an allowed step raise."""
    raises = policy.raises
    files, size = _amount(resolved)
    bounded = grant is not None and grant.schedule is not None
    if files > raises.files and not bounded:
        yield Verdict("ask", "raises/files", say("vaglio.many_files", count=files))
    if size > raises.bytes and not bounded:
        yield Verdict("ask", "raises/bytes", say("vaglio.many_bytes", size=f"{size / 1e6:.0f} MB"))
    if raises.overwriting and step.overwrites:
        yield Verdict("ask", "raises/overwriting", say("vaglio.overwriting"))
    written = [path for effect in step.effects for path in effect.writes()]
    if raises.outside_usual and grant is None and written:
        usual = _usual(raises.usual, case.user)
        outside = next((path for path in written if not any(is_inside(path, one) for one in usual)), None)
        if outside is not None:
            yield Verdict("ask", "raises/outside_usual", say("vaglio.outside_usual"))
    if raises.first_recipient and grant is None:
        for name in (name for effect in step.effects for name in effect.recipients()):
            if case.known(name) == "new":
                yield Verdict("ask", "raises/first_recipient", say("vaglio.first_recipient", name=person_shown(name)))
    if case.origin == "schedule" and raises.is_night(case.now.time()):
        yield Verdict("ask", "raises/night", say("vaglio.night"))


def _amount(resolved: ResolvedPlan) -> tuple[int, int]:
    """How many files and bytes a plan touches in all, with what it has touched already."""
    files = resolved.spent_files + sum(item.files for item in resolved.pending)
    return files, resolved.spent_bytes + sum(item.bytes for item in resolved.pending)


def _places(item: str, user: User) -> tuple[str, ...]:
    """A guarded place by its plain name and by where it leads."""
    path = os.path.normpath(_home(item, user))
    return tuple(dict.fromkeys((path, os.path.realpath(path))))


def _usual(names: Sequence[str], user: User) -> list[str]:
    """The usual folders: keys of XDG user folders by where they are, paths as they are."""
    home = os.path.realpath(user.home) if user.home else None
    dirs = dict(_USUAL_NAMES) | dict(read_user_dirs(home)) if home else {}
    found = []
    for name in names:
        path = _home(name, user) if "/" in name else dirs.get(name)
        if path is not None and home is not None:
            found.append(os.path.join(home, path))
        elif path is not None:
            found.append(path)
    return found


_USUAL_NAMES = {
    "DESKTOP": "Desktop",
    "DOCUMENTS": "Documents",
    "DOWNLOAD": "Downloads",
    "MUSIC": "Music",
    "PICTURES": "Pictures",
    "VIDEOS": "Videos",
    "TEMPLATES": "Templates",
    "PUBLICSHARE": "Public",
}
"""Where the XDG user folders are without a file that says otherwise (xdg-user-dirs, user-dirs.defaults)."""


def _home(path: str, user: User) -> str:
    """`path` with `~/` as the user's home; without a home it guards nothing that exists."""
    if not path.startswith("~/"):
        return path
    return os.path.join(os.path.realpath(user.home), path[2:]) if user.home else "/nonexistent/" + path[2:]


class PolicyFile:
    """Gives the policy of `own` or `shipped` as it is now: read again when the file has changed."""

    def __init__(self, shipped: Path, own: Path) -> None:
        """Raises PolicyError at once for a policy that cannot be used."""
        self._shipped = shipped
        self._own = own
        self._stamp: tuple[int, ...] | None = self._stamped()
        self._policy: Policy | PolicyError = load_policy(shipped, own)

    def __call__(self) -> Policy:
        """The policy; raises PolicyError while the file cannot be used."""
        stamp = self._stamped()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._policy = load_policy(self._shipped, self._own)
            except PolicyError as error:
                self._policy = error
                if isinstance(error.__cause__, OSError):
                    # It may be readable the next time, without a change to the file.
                    self._stamp = None
            log.info("policy_read", file=str(self._own), usable=isinstance(self._policy, Policy))
        if isinstance(self._policy, PolicyError):
            raise self._policy
        return self._policy

    def _stamped(self) -> tuple[int, ...]:
        try:
            status = self._own.stat()
        except OSError as error:
            return (error.errno or 0, int(os.path.lexists(self._own)))
        return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode)

"""Effects carried out: the only module that changes a person's files.

Each effect is prepared, journalled with its inverse, and then performed:

    prepared = prepare(effect, scope)      # can it go ahead now, and what takes it back?
    ...                                    # the journal writes both down
    performed = perform(effect, scope)     # does it, whole or not at all
    inverse = replace(prepared.inverse, expect=performed.after, undoes=row)

What an effect consumes is its *subject* (the source of a move, the path of a rewrite, the slot of the trash).
`Prepared.before` is the fingerprint of the effect's subject, `Performed.after` that of its inverse's subject;
`Effect.expect`, if set, is what the subject must still be.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from metnosd import disk, packing
from metnosd.effects import (
    CopyPath,
    Effect,
    MakeDir,
    MovePath,
    PackFiles,
    RemoveDir,
    RestoreFile,
    TrashPath,
    UnpackArchive,
    UntrashPath,
    WriteFile,
)
from metnosd.entries import Entry
from metnosd.executor import Limits
from metnosd.keep import Keep
from metnosd.refusals import refusal_of
from metnosd.scope import Item, Scope, is_inside
from metnosd.sentence import Refusal, Sentence, say


@dataclass(frozen=True, slots=True)
class Prepared:
    """What takes an effect back, and the fingerprint of its subject before it (None: there was nothing)."""

    inverse: Effect | None
    before: str | None


@dataclass(frozen=True, slots=True)
class Performed:
    """What an effect left: the changed things as entries, and the fingerprint of the inverse's subject.

    `problems` name parts that were passed over, such as links inside a copied folder.
    """

    entries: tuple[Entry, ...]
    after: str | None
    problems: tuple[Sentence, ...] = ()


def no_check() -> None:
    """The check of a caller that never cancels."""


def fingerprint(scope: Scope, path: str, run_check: Callable[[], None] = no_check) -> str | None:
    """What `path` holds, in a short text that a rename, a move or a restart does not change.

    None if nothing is there; raises Refusal when it is out of reach.
    """
    with _place(scope, path) as (folder, name):
        return disk.fingerprint(folder, name, run_check)


def prepare(effect: Effect, scope: Scope, run_check: Callable[[], None] = no_check) -> Prepared:
    """Check that `effect` can go ahead now, keep what it would overwrite, and say what takes it back.

    Changes nothing that the person can see. Raises Refusal when the effect cannot go ahead: its subject is
    gone or changed, its target exists, or either is out of reach.
    """
    _check_kind(effect, scope)
    before = _check_expected(effect, scope, run_check)
    match effect:
        case MovePath(source, target):
            _check_apart(scope, source, target)
            _check_free(scope, target)
            return Prepared(MovePath(target, source), before)
        case CopyPath(source, target):
            _check_apart(scope, source, target)
            _check_free(scope, target)
            return Prepared(TrashPath(target, disk.new_slot()), before)
        case WriteFile(path, _, mode):
            if before is None or mode == "create":
                _check_free(scope, path)
                return Prepared(TrashPath(path, disk.new_slot()), before)
            return Prepared(RestoreFile(path, _keep_content(scope, path, run_check)), before)
        case RestoreFile(path, blob):
            if not _keep(scope).has_blob(blob):
                raise Refusal("keep.gone")
            if before is None:
                return Prepared(TrashPath(path, disk.new_slot()), before)
            return Prepared(RestoreFile(path, _keep_content(scope, path, run_check)), before)
        case MakeDir(path):
            return Prepared(None if _is_there(scope, path) else RemoveDir(path), before)
        case RemoveDir(path):
            _check_empty(scope, path)
            return Prepared(MakeDir(path), before)
        case TrashPath(path, slot):
            _keep(scope)
            return Prepared(UntrashPath(path, slot), before)
        case UntrashPath(path, slot):
            _check_free(scope, path)
            return Prepared(TrashPath(path, slot), before)
        case PackFiles(_, target):
            _check_free(scope, target)
            return Prepared(TrashPath(target, disk.new_slot()), before)
        case UnpackArchive(_, target):
            _check_free(scope, target)
            return Prepared(TrashPath(target, disk.new_slot()), before)
    raise TypeError(f"{effect!r} is no effect that can be performed")


def perform(
    effect: Effect, scope: Scope, run_check: Callable[[], None] = no_check, limits: Limits | None = None
) -> Performed:
    """Carry `effect` out, whole or not at all.

    `run_check` is called between chunks and may raise to stop; then, as after a Refusal, nothing is changed.
    Nothing that exists is overwritten, even if it appears this instant; an old content that is replaced is in
    the keep. Raises Refusal when the effect cannot be done.
    """
    _check_kind(effect, scope)
    if effect.expect is not None:
        _check_expected(effect, scope, run_check)
    match effect:
        case MovePath(source, target):
            _check_apart(scope, source, target)
            with _place(scope, source) as old, _place(scope, target) as new:
                disk.move(*old, *new, run_check)
            return _left(scope, target)
        case CopyPath(source, target):
            return _copy(scope, source, target, run_check)
        case WriteFile():
            return _write(scope, effect, run_check)
        case RestoreFile():
            return _restore(scope, effect, run_check)
        case MakeDir(path):
            if not _is_there(scope, path):
                with _place(scope, path) as (folder, name):
                    os.mkdir(name, 0o777, dir_fd=folder)
                    disk.sync(folder)
            return _left(scope, path)
        case RemoveDir(path):
            item = scope.item(path)
            _check_empty(scope, path)
            with _place(scope, path) as (folder, name):
                os.rmdir(name, dir_fd=folder)
                disk.sync(folder)
            return Performed((item.entry(),), None)
        case TrashPath(path, slot):
            item = scope.item(path)
            with _place(scope, path) as (folder, name):
                _keep(scope).trash(slot, folder, name, run_check)
            return Performed((item.entry(),), _kept(scope, slot))
        case UntrashPath(path, slot):
            with _place(scope, path) as (folder, name):
                _keep(scope).untrash(slot, folder, name, run_check)
            return _left(scope, path)
        case PackFiles(sources, target, form):
            with _place(scope, target) as (folder, name):
                problems = packing.pack(scope, sources, folder, name, form, run_check)
            return _left(scope, target, problems)
        case UnpackArchive(source, target):
            with _place(scope, target) as (folder, name):
                packing.unpack(scope, source, folder, name, limits or Limits(), run_check)
            return _left(scope, target)
    raise TypeError(f"{effect!r} is no effect that can be performed")


def _copy(scope: Scope, source: str, target: str, run_check: disk.Check) -> Performed:
    _check_apart(scope, source, target)
    skipped: list[str] = []
    with (
        _place(scope, source) as (old, name),
        _place(scope, target) as (folder, new),
        disk.temporary(folder) as temp,
    ):
        disk.copy(old, name, folder, temp, run_check, skipped=skipped)
        disk.rename_noreplace(folder, temp, folder, new)
        disk.sync(folder)
    problems = tuple(say("effect.skipped", path=scope.shown(os.path.join(source, inner))) for inner in skipped)
    return _left(scope, target, problems)


def _write(scope: Scope, effect: WriteFile, run_check: disk.Check) -> Performed:
    path, mode = effect.path, effect.mode
    content = effect.text.encode("utf-8", "surrogateescape")
    if mode == "create" or scope.lstat(path) is None:
        with _place(scope, path) as (folder, name):
            disk.create_file(folder, name, (content,))
    else:
        _replace(scope, effect, _appended(scope, path, content, mode, run_check), run_check)
    return _left(scope, path)


def _restore(scope: Scope, effect: RestoreFile, run_check: disk.Check) -> Performed:
    path = effect.path
    content = _keep(scope).content(effect.blob, run_check)
    if scope.lstat(path) is None:
        with _place(scope, path) as (folder, name):
            disk.create_file(folder, name, content)
    else:
        _replace(scope, effect, content, run_check)
    return _left(scope, path)


def _appended(scope: Scope, path: str, content: bytes, mode: str, run_check: disk.Check) -> Iterator[bytes]:
    if mode == "append":
        old = scope.open_file(path)
        try:
            yield from disk.chunks(old, run_check)
        finally:
            os.close(old)
    yield content


def _replace(scope: Scope, effect: WriteFile | RestoreFile, parts: Iterator[bytes], run_check: disk.Check) -> None:
    keep = _keep(scope)

    def is_known(old: int) -> bool:
        kept = keep.has(old, run_check)
        return kept and effect.expect in (None, "file:" + disk.file_digest(old, run_check))

    with _place(scope, effect.path) as (folder, name):
        if not disk.replace_file(folder, name, parts, is_known):
            raise Refusal("undo.changed", path=scope.shown(effect.path))


@contextmanager
def _place(scope: Scope, path: str) -> Iterator[tuple[int, str]]:
    """The open folder of `path` and its name; an OSError within becomes a Refusal about `path`."""
    with scope.parent(path) as (folder, name):
        try:
            yield folder, name
        except OSError as error:
            raise refusal_of(error, scope.shown(path)) from error


def _check_kind(effect: Effect, scope: Scope) -> None:
    """Raise Refusal unless what the effect consumes is there, in reach, and a regular file or a folder."""
    match effect:
        case MovePath(subject) | CopyPath(subject) | TrashPath(subject) | RemoveDir(subject):
            _check_below(scope, subject)
        case UnpackArchive(subject):
            if _check_below(scope, subject).is_dir:
                raise Refusal("scope.not_file", path=scope.shown(subject))
        case WriteFile(subject) | RestoreFile(subject):
            if scope.lstat(subject) is not None and _check_below(scope, subject).is_dir:
                raise Refusal("scope.not_file", path=scope.shown(subject))
        case PackFiles(sources):
            for source in sources:
                _check_below(scope, source)
        case _:
            pass


def _check_below(scope: Scope, path: str) -> Item:
    """The thing at `path`, which is no root: roots stay where and what they are."""
    if path in scope.roots:
        raise Refusal("scope.root", path=scope.shown(path))
    return scope.item(path)


def subject_fingerprint(effect: Effect, scope: Scope, run_check: disk.Check = no_check) -> str | None:
    """The fingerprint of what the effect consumes, as it is now; None where that is nothing.

    Raises Refusal when it is out of reach.
    """
    match effect:
        case UntrashPath(subject, slot):
            return _trashed(scope, subject, slot, run_check)
        case MovePath(subject) | CopyPath(subject) | TrashPath(subject) | RestoreFile(subject):
            return fingerprint(scope, subject, run_check)
        case UnpackArchive(subject) | RemoveDir(subject) | WriteFile(subject):
            return fingerprint(scope, subject, run_check)
        case PackFiles(sources):
            digest = hashlib.sha256()
            for source in sources:
                digest.update(f"{fingerprint(scope, source, run_check)}\n".encode())
            return "files:" + digest.hexdigest()
    return None


def _check_expected(effect: Effect, scope: Scope, run_check: disk.Check) -> str | None:
    """The fingerprint of what the effect consumes; raises Refusal if that is not as expected."""
    found = subject_fingerprint(effect, scope, run_check)
    if effect.expect is None or found == effect.expect:
        return found
    # A folder that is to go when it is empty is let go when it is.
    if isinstance(effect, RemoveDir):
        _check_empty(scope, effect.path)
        return found
    raise Refusal("undo.changed", path=scope.shown((*effect.reads(), *effect.writes())[0]))


def _trashed(scope: Scope, path: str, slot: str, run_check: disk.Check) -> str:
    try:
        return _keep(scope).fingerprint(slot, run_check)
    except OSError as error:
        raise refusal_of(error, scope.shown(path)) from error


def _kept(scope: Scope, slot: str) -> str | None:
    """The fingerprint of what has just been trashed, which is done whether or not that can be read."""
    try:
        return _keep(scope).fingerprint(slot, no_check)
    except (OSError, Refusal):
        return None


def _check_free(scope: Scope, path: str) -> None:
    if scope.lstat(path) is not None:
        raise Refusal("effect.exists", path=scope.shown(path))


def _is_there(scope: Scope, path: str) -> bool:
    """Whether a folder that is to be made exists, as when two steps need it; raises Refusal if it is none."""
    if scope.lstat(path) is None:
        return False
    if not scope.item(path).is_dir:
        raise Refusal("effect.exists", path=scope.shown(path))
    return True


def _check_empty(scope: Scope, path: str) -> None:
    folder = scope.open_dir(path)
    try:
        if os.listdir(folder):
            raise Refusal("effect.not_empty", path=scope.shown(path))
    finally:
        os.close(folder)


def _check_apart(scope: Scope, source: str, target: str) -> None:
    if is_inside(target, source):
        raise Refusal("effect.into_itself", path=scope.shown(source))


def _keep(scope: Scope) -> Keep:
    if scope.keep is None:
        raise Refusal("keep.none")
    return scope.keep


def _keep_content(scope: Scope, path: str, run_check: disk.Check) -> str:
    """Keep what `path` holds; returns the name of the blob."""
    descriptor = scope.open_file(path)
    try:
        return _keep(scope).put(descriptor, run_check)
    except OSError as error:
        raise refusal_of(error, scope.shown(path)) from error
    finally:
        os.close(descriptor)


def _left(scope: Scope, path: str, problems: tuple[Sentence, ...] = ()) -> Performed:
    """What an effect left at `path`. It is done by now: no cancel counts, and if another hand has taken the
    result away already, there is only nothing to show."""
    try:
        return Performed((scope.item(path).entry(),), fingerprint(scope, path), problems)
    except Refusal:
        return Performed((), None, problems)

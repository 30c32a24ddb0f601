"""Digests of files, and files that are alike by them."""

from __future__ import annotations

import hashlib
import os
from typing import Annotated, Literal

from metnosd.arguments import Arg
from metnosd.disk import CHUNK
from metnosd.entries import Entry
from metnosd.executor import Found, Run, executor
from metnosd.executors.targets import told
from metnosd.refusals import refusal_of
from metnosd.scope import Item
from metnosd.sentence import Refusal, Sentence

Algorithm = Literal["sha256", "sha1", "md5", "blake2b"]


@executor(takes="files", gives="files", capability="fs:read")
def compute_signatures(run: Run, *, algorithm: Annotated[Algorithm, Arg("digest algorithm")] = "sha256") -> Found:
    """Compute a digest (hash, checksum) of each file."""
    problems: list[Sentence] = []
    entries: list[Entry] = []
    for entry in run.entries:
        try:
            digest = digest_of(run, entry.path, algorithm)
        except Refusal as refusal:
            problems.append(refusal.sentence)
            continue
        entries.append(Entry(entry.kind, {**entry.fields, "algorithm": algorithm, "digest": digest}))
    return Found(tuple(entries), told(problems))


@executor(takes="files", gives="files", capability="fs:read")
def find_duplicates(run: Run) -> Found:
    """Find files that are copies of another one, leaving out one original of each."""
    problems: list[Sentence] = []
    by_size: dict[int, list[Item]] = {}
    for item in _regular(run, problems):
        by_size.setdefault(item.size, []).append(item)
    alike: dict[str, list[Item]] = {}
    for items in by_size.values():
        if len(items) < 2:
            continue
        for item in items:
            try:
                alike.setdefault(digest_of(run, item.path, "sha256"), []).append(item)
            except Refusal as refusal:
                problems.append(refusal.sentence)
    copies: list[Entry] = []
    for digest, items in alike.items():
        original, *others = sorted(items, key=lambda item: (item.modified_ns, item.path))
        for item in others:
            fields = {**item.entry(run.zone).fields, "digest": digest, "same_as": original.path}
            copies.append(Entry("files", fields))
    return Found(tuple(sorted(copies, key=lambda entry: (entry.fields["same_as"], entry.path))), told(problems))


def _regular(run: Run, problems: list[Sentence]) -> list[Item]:
    """The files among the entries as they are now; two names of one file (hard links) count once."""
    found: dict[tuple[int, int], Item] = {}
    for entry in run.entries:
        run.check()
        try:
            item = run.scope.item(entry.path)
        except Refusal as refusal:
            problems.append(refusal.sentence)
            continue
        if not item.is_dir:
            found.setdefault(item.identity, item)
    return list(found.values())


def digest_of(run: Run, path: str, algorithm: str) -> str:
    """The digest of a regular file in hexadecimal; raises Refusal when it cannot be read."""
    descriptor = run.scope.open_file(path)
    digest = hashlib.new(algorithm, usedforsecurity=False)
    try:
        while True:
            run.check()
            chunk = os.read(descriptor, CHUNK)
            if not chunk:
                return digest.hexdigest()
            digest.update(chunk)
    except OSError as error:
        raise refusal_of(error, run.scope.shown(path)) from error
    finally:
        os.close(descriptor)

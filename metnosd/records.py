"""Effects on our own tables, such as a standing grant or a schedule: one row before, another after."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Protocol

from metnosd.effects import PutRecord
from metnosd.perform import Performed, Prepared
from metnosd.sentence import Refusal
from metnosd.store import to_text


class RecordTable(Protocol):
    """A table of ours whose rows a turn may put, change and take away."""

    def get(self, key: str) -> Mapping[str, object] | None:
        """The record `key` as JSON values, None if there is none."""
        ...

    def put(self, key: str, value: Mapping[str, object] | None) -> None:
        """Make the record `key` hold `value`, None: take it away. Raises Refusal for a value that is none."""
        ...


class Records:
    """The tables by name."""

    def __init__(self, tables: Mapping[str, RecordTable]) -> None:
        self._tables = tables

    def fingerprint(self, effect: PutRecord) -> str:
        """What the record of `effect` holds now, in a short text."""
        return fingerprint_of(self._tables[effect.table].get(effect.key))

    def prepare(self, effect: PutRecord) -> Prepared:
        """What takes `effect` back. Raises Refusal when the record is not as the effect expects."""
        old = self._tables[effect.table].get(effect.key)
        before = fingerprint_of(old)
        if effect.expect is not None and before != effect.expect:
            raise Refusal("undo.changed", path=effect.key)
        return Prepared(PutRecord(effect.table, effect.key, old, effect.about, effect.blanks), before)

    def perform(self, effect: PutRecord) -> Performed:
        """Put the record."""
        self._tables[effect.table].put(effect.key, effect.value)
        return Performed((), fingerprint_of(effect.value))


ABSENT = "absent"
"""The fingerprint of a record that is not there."""


def fingerprint_of(value: Mapping[str, object] | None) -> str:
    """The fingerprint of a record's value."""
    if value is None:
        return ABSENT
    return "record:" + hashlib.sha256(to_text(dict(sorted(value.items()))).encode()).hexdigest()

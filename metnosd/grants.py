"""Standing grants: what a person has allowed once and for all, narrowly, until they revoke it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import structlog

from metnosd.resolve import ResolvedStep
from metnosd.scope import is_inside
from metnosd.sentence import Refusal
from metnosd.store import Store

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Grant:
    """Leave for `user` to use `tool` (for `capability`) in `folder`, or towards `recipient`, without a question.

    A plan with more files or bytes than `max_files` and `max_bytes` is asked all the same.
    """

    id: str
    user: str
    tool: str
    capability: str
    folder: str | None
    recipient: str | None
    max_files: int
    max_bytes: int
    created_at: datetime

    def covers(self, step: ResolvedStep, capability: str) -> bool:
        """Whether all that `step` does lies within this grant; anything that does not is asked."""
        if (step.tool, capability) != (self.tool, self.capability) or not step.effects:
            return False
        if step.files > self.max_files or step.bytes > self.max_bytes:
            return False
        paths = [path for effect in step.effects for path in (*effect.reads(), *effect.writes())]
        recipients = [name for effect in step.effects for name in effect.recipients()]
        folder, recipient = self.folder, self.recipient
        here = folder is not None and all(path != folder and is_inside(path, folder) for path in paths)
        if recipients:
            return recipient is not None and set(recipients) == {recipient} and (here or not paths)
        return bool(paths) and here and recipient is None

    def to_json(self) -> dict[str, object]:
        """The grant as a record of the table `grants`."""
        return asdict(self) | {"created_at": self.created_at.isoformat()}


def grant_from_json(data: Mapping[str, Any]) -> Grant:
    """The grant that `to_json` wrote; raises ValueError, KeyError or TypeError for what is none."""
    if set(data) != set(Grant.__dataclass_fields__):
        raise ValueError(f"a grant has the fields {sorted(Grant.__dataclass_fields__)}")
    if (data["folder"] is None) == (data["recipient"] is None):
        raise ValueError("a grant is for one folder or for one recipient")
    return Grant(**{**data, "created_at": datetime.fromisoformat(data["created_at"])})


class Grants:
    """The grants in the database, as records that turns put and take away (`metnosd.records`)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of_user(self, user: str) -> list[Grant]:
        """The grants of `user`, oldest first; a row that cannot be read grants nothing."""
        found = []
        for row in self._store.rows("select * from grants where user = :user order by rowid", {"user": user}):
            try:
                found.append(grant_from_json(row))
            except (ValueError, KeyError, TypeError) as error:
                log.error("grant_unreadable", grant=row["id"], error=str(error))
        return found

    def get(self, key: str) -> Mapping[str, object] | None:
        """See `RecordTable`."""
        return next(iter(self._store.rows("select * from grants where id = :id", {"id": key})), None)

    def put(self, key: str, value: Mapping[str, object] | None) -> None:
        """See `RecordTable`."""
        with self._store.transaction() as db:
            db.execute("delete from grants where id = :id", {"id": key})
            if value is None:
                return
            try:
                grant_from_json(value)
            except (ValueError, KeyError, TypeError) as error:
                raise Refusal("grants.unreadable") from error
            db.table("grants").insert(dict(value))

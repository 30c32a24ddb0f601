"""Standing grants: what a person has allowed once and for all, narrowly, until they revoke it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import structlog
from pydantic import BaseModel, ConfigDict, Field

from metnosd.effects import Effect, MakeDir
from metnosd.resolve import ResolvedStep
from metnosd.scope import is_inside
from metnosd.sentence import Refusal
from metnosd.store import Store

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Grant:
    """Leave for `user` to use `tool` (for `capability`) in `folders`, or towards `recipient`, without a question.

    A plan with more files or bytes than `max_files` and `max_bytes` is asked all the same. With `schedule` it
    holds for the fires of that one only, as long as its plan (`digest`) and the policy (`policy`, a digest too)
    are as they were when it was given.
    """

    id: str
    user: str
    tool: str
    capability: str
    folders: tuple[str, ...]
    recipient: str | None
    max_files: int
    max_bytes: int
    created_at: datetime
    schedule: str | None = None
    digest: str | None = None
    policy: str | None = None

    def covers(self, step: ResolvedStep, capability: str, files: int | None = None, size: int | None = None) -> bool:
        """Whether all that `step` does lies within this grant; anything that does not is asked.

        `files` and `size` (bytes) are what the whole plan touches, by default what the step does.
        """
        files = step.files if files is None else files
        size = step.bytes if size is None else size
        if (step.tool, capability) != (self.tool, self.capability) or not step.effects:
            return False
        if files > self.max_files or size > self.max_bytes:
            return False
        here = all(self._holds(effect) for effect in step.effects)
        recipients = {name for effect in step.effects for name in effect.recipients()}
        if recipients:
            return self.recipient is not None and recipients == {self.recipient} and here
        return self.recipient is None and here and any(effect.writes() for effect in step.effects)

    def _holds(self, effect: Effect) -> bool:
        """Whether all paths of `effect` lie inside the folders; a folder itself may be made, and no more."""
        paths = (*effect.reads(), *effect.writes())
        if isinstance(effect, MakeDir) and effect.path in self.folders:
            return True
        return all(any(path != one and is_inside(path, one) for one in self.folders) for path in paths)

    def to_json(self) -> dict[str, object]:
        """The grant as a record of the table `grants`."""
        return asdict(self) | {"created_at": self.created_at.isoformat(), "folders": list(self.folders)}


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    id: str = Field(min_length=1)
    user: str = Field(min_length=1)
    tool: str = Field(min_length=1)
    capability: str = Field(min_length=1)
    folders: list[str]
    recipient: str | None = Field(min_length=1)
    max_files: int = Field(ge=0)
    max_bytes: int = Field(ge=0)
    created_at: str
    schedule: str | None
    digest: str | None
    policy: str | None


def grant_from_json(data: Mapping[str, Any]) -> Grant:
    """The grant that `to_json` wrote; raises ValueError for what is none."""
    row = _Row.model_validate(dict(data))
    if not row.folders and row.recipient is None:
        raise ValueError("a grant is for folders or for a recipient")
    if not all(folder.startswith("/") for folder in row.folders):
        raise ValueError("the folders of a grant are absolute paths")
    created = datetime.fromisoformat(row.created_at)
    return Grant(**{**row.model_dump(), "created_at": created, "folders": tuple(row.folders)})


class Grants:
    """The grants in the database, as records that turns put and take away (`metnosd.records`)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of_user(self, user: str) -> list[Grant]:
        """The grants of `user`, oldest first; a row that cannot be read grants nothing."""
        found = []
        for row in self._store.rows("select * from grants where user = :user order by rowid", {"user": user}):
            try:
                found.append(grant_from_json(_record(row)))
            except (ValueError, TypeError) as error:
                log.error("grant_unreadable", grant=row["id"], error=str(error))
        return found

    def get(self, key: str) -> Mapping[str, object] | None:
        """See `RecordTable`."""
        rows = self._store.rows("select * from grants where id = :id", {"id": key})
        try:
            return _record(rows[0]) if rows else None
        except ValueError:
            return None

    def put(self, key: str, value: Mapping[str, object] | None) -> None:
        """See `RecordTable`."""
        with self._store.transaction() as db:
            db.execute("delete from grants where id = :id", {"id": key})
            if value is None:
                return
            try:
                grant_from_json(value)
            except (ValueError, TypeError) as error:
                raise Refusal("grants.unreadable") from error
            db.table("grants").insert(dict(value) | {"folders": json.dumps(value["folders"])})


def _record(row: Mapping[str, Any]) -> dict[str, Any]:
    return dict(row) | {"folders": json.loads(row["folders"])}

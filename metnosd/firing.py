"""What happens when a schedule is due: its plan as a turn of its own, and the word on it to whom it belongs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import structlog

from metnosd.daemon import Daemon
from metnosd.entering import new_turn_id
from metnosd.lexicon.signals import Signals
from metnosd.message import ConsentRequest, Message, Reply
from metnosd.outbox import Outbox
from metnosd.parts import Parts
from metnosd.resolve import Context
from metnosd.rounds import Fire, FireResult
from metnosd.schedule import Schedule
from metnosd.scheduling import meets
from metnosd.sentence import Sentence, instant_said, say
from metnosd.service import Event
from metnosd.turn import Turn

log = structlog.get_logger(__name__)

SNOOZES = (10, 60)
"""By how many minutes a reminder can be put off with one tap."""

LATE_TOLD_S = 60.0
"""From how late on a fire says that it is."""

RESULTS: Mapping[str, str] = {"done": "done", "nothing": "done", "partial": "failed", "failed": "failed"}
"""How an outcome counts in the ledger; a plan that was not let go ahead was skipped."""


UNANSWERED = ("open", "expired")
"""The states of a question that nobody answered."""


def message_id_of(schedule: Schedule, due: datetime) -> str:
    """The id under which the fire of `schedule` for `due` is a message."""
    return f"{schedule.id}@{due.isoformat()}"


class Firing:
    """Carries out fires for the alarm, and puts into the outbox what is to be said about schedules."""

    def __init__(self, daemon: Daemon, parts: Parts, outbox: Outbox) -> None:
        self._daemon = daemon
        self._parts = parts
        self._outbox = outbox

    async def fire(self, fire: Fire) -> FireResult:
        """Take the turn of one fire, from the resolver on, and put its result into the outbox."""
        schedule = fire.schedule
        known = self._daemon.user(schedule.user)
        if known is None:
            return FireResult("failed", "no such user")
        parts = self._parts
        user = replace(known, zone=ZoneInfo(schedule.zone))
        now = parts.clock()
        where = (schedule.channel, schedule.conversation)
        number = message_id_of(schedule, fire.due)
        message = Message(number, user, *where, schedule.text, schedule.lang, now)
        turn_id = new_turn_id()
        earlier = await asyncio.to_thread(parts.turns.open, turn_id, message, schedule.lang)
        if earlier is not None and earlier.reply is not None:
            return FireResult("done", "done before", earlier.id)
        turn_id = earlier.id if earlier is not None else turn_id
        asked = await asyncio.to_thread(parts.consents.open_of, turn_id, now)
        state = await asyncio.to_thread(parts.consents.newest_state, turn_id)
        if asked is None and state not in (None, *UNANSWERED):
            return FireResult("done", "goes on by its answer", turn_id)
        context = Context(
            turn_id,
            user,
            schedule.lang,
            now.astimezone(user.zone),
            (),
            where=where,
            text=schedule.text,
            schedule=schedule.id,
            digest=schedule.digest,
        )

        def tell(event: Event) -> None:
            if isinstance(event, ConsentRequest):
                question = event.to_json() | {"text": self._headed(schedule, event.text)}
                self._daemon.own(asyncio.create_task(self._put(schedule, question)))

        def way(turn: Turn) -> Any:
            return turn.lapse() if asked is None and state is not None else turn.fire(schedule.plan, asked)

        reply = await asyncio.shield(self._daemon.begin(message, context, tell, way, Signals(schedule.lang)))
        status = str(reply.outcome["status"])
        if meets(schedule.only_if, reply.outcome):
            await self._put(schedule, self._result(fire, reply))
            note = ""
        else:
            note = "nothing to tell"
        return FireResult(RESULTS.get(status, "skipped"), note or ("" if status in RESULTS else status), turn_id)

    def waits(self, schedule: Schedule, due: datetime) -> bool:
        """Whether the fire of `schedule` for `due` asked something and did nothing since; it blocks."""
        turn = self._parts.turns.of_message(schedule.user, schedule.channel, message_id_of(schedule, due))
        row = self._parts.turns.get(turn) if turn is not None else None
        return row is not None and not row["reply"] and self._parts.consents.newest_state(row["id"]) in UNANSWERED

    def _result(self, fire: Fire, reply: Reply) -> dict[str, Any]:
        schedule = fire.schedule
        lines = [self._headed(schedule, reply.text)]
        if fire.late_s >= LATE_TOLD_S:
            lines.append(self._say(schedule, say("schedule.was_late", fire=self._local(schedule, fire.due))))
        event = dict(reply.to_json()) | {"type": "delivery", "text": "\n".join(lines)}
        if schedule.kind == "reminder":
            # Sent back as messages these put the reminder off, so a channel may show them as buttons.
            event["replies"] = [self._say(schedule, say("schedule.snooze", count=count)) for count in SNOOZES]
        return event | {"schedule": schedule.id, "due_at": fire.due.isoformat(), "late_s": fire.late_s}

    def _headed(self, schedule: Schedule, text: str) -> str:
        """`text`, which may have many lines, under the name of its schedule."""
        if schedule.kind == "reminder":
            return self._say(schedule, say("schedule.fired_reminder", text=text))
        head = self._say(schedule, say("schedule.fired_plan", name=schedule.name, text="")).rstrip()
        return f"{head}\n{text}"

    async def missed(self, schedule: Schedule, instants: Sequence[datetime]) -> None:
        """Say that `schedule` was not run at `instants`."""
        await self._word(schedule, "schedule.missed", instants)

    async def unknown(self, schedule: Schedule, instants: Sequence[datetime]) -> None:
        """Say that it is not known whether `schedule` was carried out at `instants`."""
        await self._word(schedule, "schedule.unknown", instants)

    async def paused(self, schedule: Schedule) -> None:
        """Say that `schedule` failed too often and is paused."""
        await self._word(schedule, "schedule.failing", ())

    async def _word(self, schedule: Schedule, key: str, instants: Sequence[datetime]) -> None:
        fires = [self._local(schedule, moment) for moment in instants]
        text = self._say(schedule, say(key, name=schedule.name, count=len(instants), fires=fires))
        outcome: dict[str, Any] = {"status": "nothing", "steps": []}
        event = {"type": "delivery", "text": text, "schedule": schedule.id, "outcome": outcome}
        await self._put(schedule, event | {"due_at": instants[-1].isoformat() if instants else None, "undo": None})

    async def _put(self, schedule: Schedule, event: Mapping[str, Any]) -> None:
        where = (schedule.user, schedule.channel, schedule.conversation)
        await asyncio.to_thread(self._outbox.put, *where, self._parts.redactor.value(dict(event)), self._parts.clock())

    def _say(self, schedule: Schedule, sentence: Sentence) -> str:
        return self._parts.lexicon.say(sentence, schedule.lang)

    @staticmethod
    def _local(schedule: Schedule, moment: datetime) -> Sentence:
        return instant_said(moment.astimezone(ZoneInfo(schedule.zone)))

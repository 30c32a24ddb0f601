"""What a channel may look up and take away: history, schedules, and what waits to be delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from metnosd.export import to_icalendar
from metnosd.history import history_to_json, schedules_to_json
from metnosd.kept import Kept
from metnosd.outbox import Delivery
from metnosd.user import User


class Lookups:
    """The part of `Service` that changes nothing but what was delivered."""

    def __init__(self, clock: Callable[[], datetime], kept: Kept) -> None:
        self._clock = clock
        self._kept = kept

    async def history(self, user: User) -> Mapping[str, Any]:
        """See `Service`."""
        return await asyncio.to_thread(history_to_json, self._kept.journal, self._kept.keep, user.name)

    async def schedules(self, user: User) -> Mapping[str, Any]:
        """See `Service`."""
        kept = self._kept
        listed = await asyncio.to_thread(schedules_to_json, kept.schedules, kept.ledger, user.name, self._clock())
        return {"schedules": listed}

    async def calendar(self, user: User) -> str:
        """See `Service`."""
        found = await asyncio.to_thread(self._kept.schedules.of_user, user.name)
        shown = [schedule for schedule in found if schedule.state in ("active", "paused")]
        return await asyncio.to_thread(to_icalendar, shown, self._clock())

    async def deliveries(self, user: User, channel: str) -> list[Delivery]:
        """See `Service`."""
        return await asyncio.to_thread(self._kept.outbox.waiting, user.name, channel)

    async def delivered(self, key: str) -> None:
        """See `Service`."""
        await asyncio.to_thread(self._kept.outbox.delivered, key, self._clock())

    def listen(self, hear: Callable[[Delivery], None]) -> None:
        """See `Service`."""
        self._kept.outbox.on_new = hear

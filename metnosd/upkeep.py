"""What a daemon clears away by and by: trash and old contents past their time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

log = structlog.get_logger(__name__)

DAY_SECONDS = 86_400.0


async def upkeep(chores: Sequence[Callable[[], object]], every_s: float = DAY_SECONDS) -> None:
    """Do all `chores`, which may block, now and then every `every_s` seconds, until cancelled."""
    while True:
        for chore in chores:
            try:
                log.info("upkeep", result=str(await asyncio.to_thread(chore)))
            except OSError as error:
                log.error("upkeep_failed", error=str(error))
        await asyncio.sleep(every_s)

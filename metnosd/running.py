"""A turn under way: its task, and everybody who listens to it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import structlog

from metnosd.message import ConsentRequest, Reply
from metnosd.service import Event, Tell
from metnosd.turn import Turn

log = structlog.get_logger(__name__)


@dataclass
class Running:
    """A turn under way, its task and everybody who listens to it."""

    turn: Turn
    user: str
    message_id: str
    conversation: tuple[str, str]
    task: asyncio.Task[Reply] | None = None
    listeners: list[Tell] = field(default_factory=list)
    heard: list[Event] = field(default_factory=list)

    def tell(self, event: Event) -> None:
        self.heard.append(event)
        for listener in self.listeners:
            try:
                listener(event)
            except Exception:
                # A channel's edge: what fails there must not stop what the turn does.
                log.exception("listener_failed", message=self.message_id)

    async def next_word(self) -> Reply | ConsentRequest:
        """The next thing that the person is asked, or the last that is said."""
        assert self.task is not None
        asked: asyncio.Future[ConsentRequest] = asyncio.get_running_loop().create_future()

        def hear(event: Event) -> None:
            if isinstance(event, ConsentRequest) and not asked.done():
                asked.set_result(event)

        self.listeners.append(hear)
        try:
            await asyncio.wait((asked, self.task), return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() else self.task.result()
        finally:
            asked.cancel()
            self.listeners.remove(hear)

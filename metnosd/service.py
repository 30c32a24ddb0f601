"""What a channel may ask of the daemon, and what it hears back. Channels import this and `message` alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from metnosd.message import ConsentRequest, Message, Reply
from metnosd.outbox import Delivery as Delivery
from metnosd.user import User as User


@dataclass(frozen=True, slots=True)
class Progress:
    """A turn has come to `stage`: planning, step, resolving, acting, writing, waiting_for_model."""

    stage: str
    detail: str = ""

    def to_json(self) -> dict[str, object]:
        """The progress event of the socket, without its id."""
        wire: dict[str, object] = {"type": "progress", "stage": self.stage}
        return wire | ({"detail": self.detail} if self.detail else {})


Event = Progress | ConsentRequest | Reply
Tell = Callable[[Event], None]
"""How a channel hears of a turn. Called on the event loop, must not block; the last event is a `Reply`."""


class ServiceError(Exception):
    """A request that cannot be served; `code` is for programs, the message is a sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Service(Protocol):
    """The daemon as a channel sees it. Every method may raise `ServiceError`."""

    def user_of_uid(self, uid: int) -> User | None:
        """The user that a local process of `uid` speaks for."""
        ...

    def message(
        self,
        user: User,
        channel: str,
        conversation: str,
        text: str,
        *,
        lang: str | None,
        message_id: str | None,
        outside: Sequence[str] = (),
        reply_to: str | None = None,
    ) -> Message:
        """A message of `user`, stamped; refuses one that is empty or too long.

        `outside` are texts of others that came with it, `reply_to` the message or turn that it answers.
        """
        ...

    async def send(self, message: Message, tell: Tell) -> Reply:
        """Take a turn. A message that came before gets the reply of then."""
        ...

    async def consent(
        self, user: User, token: str, yes: bool, choice: str | None = None, digest: str | None = None
    ) -> bool:
        """Answer a question, with one of its choices where it has them; whether it was accepted.

        A `digest` that is given must be that of the question.
        """
        ...

    async def cancel(self, user: User, message_id: str) -> Reply:
        """Stop the turn of a message, and say whether there was one."""
        ...

    async def revert(
        self,
        user: User,
        channel: str,
        conversation: str,
        tool: str,
        count: int,
        *,
        turn: str | None = None,
        tell: Tell = lambda _event: None,
    ) -> Reply:
        """Undo (`undo_actions`) or redo (`redo_actions`) the last `count` turns, or the one `turn`."""
        ...

    async def plan(self, user: User, text: str, *, lang: str | None, model: bool = True) -> Mapping[str, Any]:
        """What a message would lead to, with nothing run."""
        ...

    async def history(self, user: User) -> Mapping[str, Any]:
        """The user's turns and effects."""
        ...

    async def schedules(self, user: User) -> Mapping[str, Any]:
        """The user's schedules."""
        ...

    async def calendar(self, user: User) -> str:
        """The user's schedules as iCalendar (RFC 5545)."""
        ...

    async def deliveries(self, user: User, channel: str) -> list[Delivery]:
        """What has not reached `user` yet through `channel`, oldest first."""
        ...

    async def delivered(self, key: str) -> None:
        """Note that a delivery was handed over."""
        ...

    def listen(self, hear: Callable[[Delivery], None]) -> None:
        """Have `hear` called, in any thread, with what is new to be delivered."""
        ...

    async def status(self) -> Mapping[str, Any]:
        """How the daemon is."""
        ...

"""The model process seen from the daemon: kept running, asked, cancelled, replaced.

A death by signal during the self-test makes the next start safer (`MODES`); the mode that worked is
remembered for this model file. A death later is followed by a new process, at once the first time and with
backoff from then on, until a request succeeds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from metnosd.model.link import ChildFailed, ChildKilled, ModelLink
from metnosd.model.options import MODES, EngineOptions, in_mode
from metnosd.model.service import Completion, Constraint, ModelError

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ModelState:
    """What `status` says: `state` is stopped, starting, ready or failed; `reason` why it failed last."""

    state: str
    mode: str | None = None
    pid: int | None = None
    offload: bool | None = None
    restarts: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited for what, in seconds."""

    start: float = 300.0
    silence: float = 120.0
    first_backoff: float = 1.0
    longest_backoff: float = 60.0


class ModelProcess:
    """A `ModelService` over a supervised child. `run()` must be running while it is used."""

    constraint: Constraint = "gbnf"

    def __init__(self, options: EngineOptions, *, mode_file: Path, patience: Patience | None = None) -> None:
        """`mode_file` remembers which way of loading worked for which model file."""
        self._options = options
        self._mode_file = mode_file
        self._patience = patience or Patience()
        self._wanted = asyncio.Event()
        self._changed = asyncio.Condition()
        self._turn = asyncio.Lock()
        self._link: ModelLink | None = None
        self._state = ModelState("stopped")
        self._failures = 0
        self._prefix: Sequence[tuple[str, str]] = ()

    def keep_warm(self, prefix: Sequence[tuple[str, str]]) -> None:
        """Have the chat `prefix` in the KV cache of every child from the next one on, before it serves."""
        self._prefix = prefix

    @property
    def state(self) -> ModelState:
        """The state now."""
        return self._state

    def start(self) -> None:
        """Let `run()` load the model now instead of at the first request."""
        self._wanted.set()

    async def run(self) -> None:
        """Keep a child alive from the first wish for one until cancelled."""
        await self._wanted.wait()
        try:
            while True:
                await self._set(ModelState("starting", restarts=self._state.restarts))
                reason = await self._live()
                self._failures += 1
                restarts = self._state.restarts + 1
                await self._set(ModelState("failed", restarts=restarts, reason=reason))
                if self._failures > 1:
                    await asyncio.sleep(self._backoff())
        finally:
            await self._set(ModelState("stopped"))

    def _backoff(self) -> float:
        return min(self._patience.first_backoff * 2.0 ** min(self._failures - 2, 16), self._patience.longest_backoff)

    async def _live(self) -> str:
        """Start a child, serve until it is gone, and say why it went."""
        try:
            link, mode = await self._launch()
        except (ChildFailed, ChildKilled, OSError, TimeoutError) as error:
            log.error("model_start_failed", reason=str(error))
            return str(error) or "The model process did not start in time."
        self._link = link
        try:
            await self._warm(link)
            await self._set(ModelState("ready", mode, link.pid, link.offload, self._state.restarts))
            log.info("model_ready", mode=mode, pid=link.pid)
            reason = await link.wait_closed()
            log.error("model_process_ended", reason=reason)
            return reason
        finally:
            self._link = None
            await link.close()

    async def _warm(self, link: ModelLink) -> None:
        if not self._prefix:
            return
        try:
            await link.warm(self._prefix, self._mode_file.parent, self._patience.silence)
        except ModelError as error:
            # A cold start is slower, no worse; a child that died here is seen by whoever waits for its end.
            log.warning("model_not_warmed", code=error.code, error=str(error))

    async def _launch(self) -> tuple[ModelLink, str]:
        first = MODES.index(self._remembered_mode())
        for mode in MODES[first:]:
            try:
                link = await ModelLink.open(in_mode(self._options, mode), self._patience.start)
            except ChildKilled as error:
                log.error("model_self_test_died", mode=mode, signal=error.signal)
                if mode == MODES[-1]:
                    raise
                continue
            self._remember(mode)
            return link, mode
        raise AssertionError("the last mode either opens or raises")

    def _remembered_mode(self) -> str:
        try:
            noted = json.loads(self._mode_file.read_text())
            mode = noted["mode"] if noted["model"] == str(self._options.path) else MODES[0]
        except (OSError, ValueError, KeyError, TypeError):
            return MODES[0]
        return mode if mode in MODES else MODES[0]

    def _remember(self, mode: str) -> None:
        try:
            self._mode_file.parent.mkdir(parents=True, exist_ok=True)
            self._mode_file.write_text(json.dumps({"model": str(self._options.path), "mode": mode}))
        except OSError as error:
            log.warning("model_mode_not_remembered", file=str(self._mode_file), reason=str(error))

    async def _set(self, state: ModelState) -> None:
        async with self._changed:
            self._state = state
            self._changed.notify_all()

    async def complete(
        self,
        messages: Sequence[tuple[str, str]],
        *,
        grammar: str | None,
        max_tokens: int,
        on_text: Callable[[str], None] | None = None,
    ) -> Completion:
        """See `ModelService.complete`. Requests are served one at a time, in order."""
        self.start()
        async with self._turn:
            link = await self._ready()
            completion = await link.ask(
                messages,
                grammar=grammar,
                max_tokens=max_tokens,
                on_text=on_text,
                silence=self._patience.silence,
            )
            self._failures = 0
            return completion

    async def _ready(self) -> ModelLink:
        try:
            async with asyncio.timeout(self._patience.start), self._changed:
                await self._changed.wait_for(lambda: self._state.state in ("ready", "failed") and not self._dying())
        except TimeoutError:
            raise ModelError("unavailable", "The model process is still loading the model.") from None
        if self._link is None:
            raise ModelError("unavailable", self._state.reason or "The model process does not run.")
        return self._link

    def _dying(self) -> bool:
        """Whether a first death is about to be followed by a new start without delay."""
        return (self._state.state == "failed" and self._failures == 1) or (self._link is not None and self._link.closed)


@contextlib.asynccontextmanager
async def running(process: ModelProcess) -> AsyncIterator[ModelProcess]:
    """Run `process` for the length of a block."""
    task = asyncio.create_task(process.run())
    try:
        yield process
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

"""The model of this daemon: fetched if it is missing, then served by its process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from metnosd.model.catalog import Profile
from metnosd.model.fetch import FetchError, Problem, fetch, verify
from metnosd.model.options import EngineOptions, usable_cores
from metnosd.model.partial import Progress
from metnosd.model.process import ModelProcess, ModelState, Patience
from metnosd.model.service import Completion, Constraint, ModelError

log = structlog.get_logger(__name__)

RETRY_SECONDS = 300.0
"""How long after a failed fetch the next one starts."""


class ModelHost:
    """A `ModelService`. `run()` must be running while it is used."""

    constraint: Constraint = "gbnf"

    def __init__(
        self,
        profile: Profile,
        models: Path,
        *,
        state: Path,
        gpu_layers: int = -1,
        threads: int = 0,
        silence: float = 120.0,
        may_fetch: bool = True,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """`models` is the folder of model files, `state` that of the daemon."""
        self.profile = profile
        self._models = models
        self._may_fetch = may_fetch
        self._on_progress = on_progress
        self._file_ready = asyncio.Event()
        self._changed = asyncio.Event()
        self._problem: str | None = None
        self._progress: Progress | None = None
        options = EngineOptions(
            path=models / profile.file,
            template=profile.template,
            n_ctx=profile.context,
            gpu_layers=gpu_layers,
            threads=threads or usable_cores(),
        )
        self._process = ModelProcess(options, mode_file=state / "model-mode.json", patience=Patience(silence=silence))

    @property
    def state(self) -> ModelState:
        """The state of the process; `fetching` or `missing` before there is a file to load."""
        if self._file_ready.is_set():
            return self._process.state
        if self._problem is not None:
            return ModelState("missing", reason=self._problem)
        return ModelState("fetching" if self._progress else "starting")

    @property
    def progress(self) -> Progress | None:
        """How far the fetch is, while there is one."""
        return None if self._file_ready.is_set() else self._progress

    def keep_warm(self, prefix: Sequence[tuple[str, str]]) -> None:
        """See `ModelProcess.keep_warm`."""
        self._process.keep_warm(prefix)

    def start(self) -> None:
        """Load the model as soon as its file is there, not at the first request."""
        self._process.start()

    async def run(self) -> None:
        """See that the file is there, then keep the process alive, until cancelled."""
        while not self._file_ready.is_set():
            await self._get_file()
        await self._process.run()

    async def _get_file(self) -> None:
        try:
            if self._may_fetch:
                await fetch(self.profile, self._models, self._note)
            else:
                found = await asyncio.to_thread(verify, self.profile, self._models)
                if isinstance(found, Problem):
                    raise FetchError(found.sentence)
        except (FetchError, OSError) as error:
            self._problem = str(error)
            self._changed.set()
            log.error("model_missing", model=self.profile.name, reason=str(error))
            await asyncio.sleep(RETRY_SECONDS)
        else:
            self._problem = None
            self._file_ready.set()
            self._changed.set()

    def _note(self, progress: Progress) -> None:
        if self._problem is not None:
            self._problem = None
            self._changed.clear()
        self._progress = progress
        if self._on_progress is not None:
            self._on_progress(progress)

    async def complete(
        self,
        messages: Sequence[tuple[str, str]],
        *,
        grammar: str | None,
        max_tokens: int,
        on_text: Callable[[str], None] | None = None,
    ) -> Completion:
        """See `ModelService.complete`. Waits for a fetch that is under way."""
        if self._problem is None:
            await self._changed.wait()
        if not self._file_ready.is_set():
            raise ModelError("unavailable", self._problem or "The model is not there.")
        return await self._process.complete(messages, grammar=grammar, max_tokens=max_tokens, on_text=on_text)

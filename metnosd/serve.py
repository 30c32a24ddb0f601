"""`metnosd serve`: the daemon in the foreground, from settings to a clean stop."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import structlog

from channels.unix_socket import SocketInUse, UnixSocket
from metnosd.assemble import Assembly, assemble, make_catalog, model_status, own_version, system_clock
from metnosd.commands.progress import fetch_progress
from metnosd.credentials import load_credentials
from metnosd.locations import Locations
from metnosd.logs import configure_logs
from metnosd.model.host import ModelHost
from metnosd.planner import choose_level
from metnosd.redact import Redactor
from metnosd.sentence import Sentence, say
from metnosd.settings import Settings
from metnosd.upkeep import upkeep

log = structlog.get_logger(__name__)


async def serve(settings: Settings, places: Locations) -> None:
    """Serve until SIGTERM or SIGINT. Raises what stops the start (settings, lexicon, policy, socket)."""
    redactor = Redactor(load_credentials(places, os.environ).values())
    configure_logs(settings.log.level, redactor)
    async with daemon(settings, places, redactor) as (assembly, host):
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await asyncio.to_thread(notify, "READY=1")
        log.info("serving", socket=str(places.socket), model=host.profile.name, user=assembly.owner.name)
        await stop.wait()
        await asyncio.to_thread(notify, "STOPPING=1")
        log.info("stopping")


@contextlib.asynccontextmanager
async def daemon(
    settings: Settings, places: Locations, redactor: Redactor | None = None
) -> AsyncIterator[tuple[Assembly, ModelHost]]:
    """A daemon that answers on its socket for the length of a block; `redactor` knows its secrets."""
    profile = make_catalog(settings, places).get()
    with _alone(places), fetch_progress() as on_progress:
        host = ModelHost(
            profile,
            places.models,
            state=places.state,
            gpu_layers=settings.model.gpu_layers,
            threads=settings.model.threads,
            silence=settings.model.silence_s,
            may_fetch=settings.model.fetch,
            on_progress=on_progress,
        )
        assembly = await asyncio.to_thread(
            assemble,
            settings,
            places,
            host,
            clock=system_clock,
            home=os.environ.get("HOME") or str(Path.home()),
            uid=os.getuid(),
            level=choose_level(os.environ, profile.args, profile.flow),
            model_ready=lambda: _not_ready(host),
            status=lambda: _status(host, places),
            redactor=redactor,
        )
        host.keep_warm(assembly.parts.planner.prefix)
        if settings.model.eager:
            host.start()
        channel = UnixSocket(assembly.daemon, places.socket, int(settings.socket.mode, 8))
        try:
            await channel.start()
            await assembly.alarm.start()
            async with asyncio.TaskGroup() as tasks:
                model = tasks.create_task(host.run(), name="model")
                # Templates compile as they are first needed; the first message should not wait for that.
                tasks.create_task(asyncio.to_thread(assembly.parts.lexicon.warm), name="lexicon")
                clearing = tasks.create_task(upkeep(assembly.chores), name="upkeep")
                try:
                    yield assembly, host
                finally:
                    # A fire that waits for an answer must not hold up the alarm: the next daemon asks again.
                    await assembly.daemon.hang_up()
                    await assembly.alarm.close()
                    await channel.stop()
                    await assembly.daemon.close()
                    model.cancel()
                    clearing.cancel()
        finally:
            assembly.close()


@contextlib.contextmanager
def _alone(places: Locations) -> Iterator[None]:
    """Hold the state for this process alone; a second daemon on it would settle what the first one still does."""
    places.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (places.state / "metnosd.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SocketInUse(f"Another daemon already works on {places.state}.") from error
        yield


def _not_ready(host: ModelHost) -> Sentence | None:
    state = host.state
    progress = host.progress
    if progress is not None and progress.total:
        return say("model.fetching", percent=100 * progress.done // progress.total)
    return say("model.loading") if state.state == "starting" else None


def _status(host: ModelHost, places: Locations) -> Mapping[str, Any]:
    model = model_status(host.state) | {"name": host.profile.name}
    if host.progress is not None:
        model["progress"] = {"done": host.progress.done, "total": host.progress.total}
    return {
        "model": model,
        "channels": {"socket": {"path": str(places.socket)}},
        "versions": {"metnosd": own_version(), "python": sys.version.split()[0]},
    }


def notify(state: str) -> None:
    """Tell systemd `state` (sd_notify(3)) if it listens; nothing otherwise."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    target = "\0" + address[1:] if address.startswith("@") else address
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(state.encode(), target)

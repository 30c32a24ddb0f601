"""`metnosd doctor`: checks host, settings, model, socket and services, and says what to do."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from metnosd.assemble import make_catalog
from metnosd.client import Client, NotReachable
from metnosd.install import UNIT
from metnosd.lexicon.check import problems_of
from metnosd.lexicon.loading import LexiconError, load_lexicon
from metnosd.locations import Locations, locate, shipped_config
from metnosd.model.catalog import CatalogError, Profile
from metnosd.model.fetch import Problem, verify
from metnosd.model.options import EngineOptions, usable_cores
from metnosd.model.process import ModelProcess, Patience, running
from metnosd.model.service import ModelError
from metnosd.policy import PolicyError, load_policy
from metnosd.settings import Settings, SettingsError, load_settings

SELF_TEST_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: `ok`, or `text` says what is wrong and what to do."""

    check: str
    ok: bool
    text: str

    def to_json(self) -> dict[str, object]:
        """The finding as `doctor --json` shows it."""
        return {"check": self.check, "ok": self.ok, "text": self.text}


def examine(config: Path | None) -> list[Finding]:
    """Every check, in order. A check that fails does not stop those that do not need it."""
    places = locate(config)
    findings = [*_host(places)]
    if config is not None and not config.exists():
        return [*findings, Finding("settings", False, f"{config} is not there. Name a file that is.")]
    try:
        settings = load_settings(places.config_file)
    except SettingsError as error:
        return [*findings, Finding("settings", False, str(error))]
    read = "read" if places.config_file.exists() else "not there, so the shipped settings hold"
    findings.append(Finding("settings", True, f"{places.config_file} is {read}."))
    findings += [*_files(places), *_folders(settings), *_model(settings, places), *_socket(places)]
    return [*findings, _unit(places)]


def _host(places: Locations) -> Iterator[Finding]:
    cores = usable_cores()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    enough = memory >= 2.5
    advice = "" if enough else " The default model wants 2.5 GB: choose a smaller one with `metnosd model use`."
    yield Finding("host", enough, f"{cores} cores, {memory:.1f} GB of memory.{advice}")
    state = places.state
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        writable = os.access(state, os.W_OK)
        free = shutil.disk_usage(state).free / 1e9
    except OSError as error:
        yield Finding(
            "state", False, f"{state} cannot be made: {error.strerror}. Set METNOS_HOME to a folder of yours."
        )
        return
    text = f"{state} has {free:.1f} GB free."
    yield Finding("state", writable, text if writable else f"{state} cannot be written to by this user.")


def _files(places: Locations) -> Iterator[Finding]:
    checks: tuple[tuple[str, Callable[[], object]], ...] = (
        ("lexicon", lambda: _checked_lexicon(places)),
        ("policy", lambda: load_policy(shipped_config("policy.toml"), places.config_dir / "policy.toml")),
    )
    for name, check in checks:
        try:
            check()
        except (LexiconError, PolicyError) as error:
            yield Finding(name, False, f"{error}. Correct it or remove your file.")
        else:
            yield Finding(name, True, "Every file is read.")


def _checked_lexicon(places: Locations) -> None:
    lexicon = load_lexicon(shipped_config("lexicon"), places.config_dir / "lexicon")
    problems = problems_of(lexicon)
    if problems:
        raise LexiconError(" ".join(problems[:10]))


def _folders(settings: Settings) -> Iterator[Finding]:
    for root in settings.files.roots:
        path = Path(root).expanduser()
        there = path.is_dir() and os.access(path, os.R_OK | os.X_OK)
        wrong = f"{path} is no folder that this user can read. Change files.roots in the settings."
        yield Finding("folders", there, f"{path} may be used." if there else wrong)


def _model(settings: Settings, places: Locations) -> Iterator[Finding]:
    try:
        profile = make_catalog(settings, places).get()
    except CatalogError as error:
        yield Finding("model", False, str(error))
        return
    found = verify(profile, places.models)
    if isinstance(found, Problem):
        yield Finding("model", False, found.sentence)
        return
    checked = "has the right SHA-256" if found.checked else "cannot be verified, since the catalog has no SHA-256"
    yield Finding("model", True, f"{profile.name} is at {found.path} and {checked}.")
    yield from asyncio.run(_self_test(settings, profile, places))


async def _self_test(settings: Settings, profile: Profile, places: Locations) -> list[Finding]:
    """Load the model in a child process and decode once, as the daemon does at its start."""
    options = EngineOptions(
        path=places.models / profile.file, template=profile.template, n_ctx=512, gpu_layers=settings.model.gpu_layers
    )
    process = ModelProcess(
        options, mode_file=places.state / "model-mode.json", patience=Patience(start=SELF_TEST_SECONDS)
    )
    async with running(process):
        try:
            await process.complete([("user", "1")], grammar='root ::= "1"', max_tokens=2)
        except (ModelError, TimeoutError) as error:
            reason = f"The model does not run here: {error} Fetch it again, or choose another: metnosd model list"
            return [Finding("model process", False, reason)]
        state = process.state
    ways = {
        "normal": "It runs.",
        "no_extra_bufts": "It runs without repacked weights, which this processor does not bear.",
        "cpu_only": "It runs on the processor alone, since the GPU path fails.",
    }
    offload = (
        "This build of llama.cpp can use a GPU."
        if state.offload
        else "This build of llama.cpp cannot use a GPU; the README says how to install one that can."
    )
    return [Finding("model process", True, ways[state.mode or "normal"]), Finding("gpu", True, offload)]


def _socket(places: Locations) -> Iterator[Finding]:
    try:
        with Client(places.socket) as client:
            status = client.ask({"type": "status"})
    except NotReachable:
        yield Finding("daemon", True, f"No daemon runs on {places.socket}. Start it: metnosd serve")
        return
    if status["type"] == "error":
        yield Finding("daemon", False, status["message"])
        return
    yield Finding("daemon", True, f"It answers on {places.socket}; its model is {status['model']['state']}.")
    faults = status["policy"]["faults"]
    if faults:
        text = f"{len(faults)} requests were denied because they could not be judged, the last at {faults[-1]['at']}: "
        yield Finding("vaglio", False, text + faults[-1]["error"])


def _unit(places: Locations) -> Finding:
    folders = (Path.home() / ".config/systemd/user", Path("/etc/systemd/system"))
    found = next((folder / UNIT for folder in folders if (folder / UNIT).exists()), None)
    if found is None:
        return Finding("service", True, "There is no systemd unit. Write one: metnosd install --user")
    return Finding("service", True, f"{found} is there.")

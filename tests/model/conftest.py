"""Fixtures of the `model` suite: the real default model, fetched by the real code where it is missing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon import RunningDaemon

from metnosd.locations import locate, shipped_config
from metnosd.model.catalog import load_catalog
from metnosd.model.fetch import Verified, fetch, verify


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder that holds the default model."""
    folder = locate().models
    profile = load_catalog(shipped_config("models.toml"), None).get()
    if not isinstance(verify(profile, folder), Verified):
        if os.environ.get("METNOS_TEST_ALL") != "1":
            pytest.skip("the default model is not here; fetch it with: metnosd model fetch default")
        asyncio.run(fetch(profile, folder, lambda _progress: None))
    return folder


@pytest.fixture(scope="session")
def daemon(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDaemon]:
    """A daemon with the real model and an empty home, for the whole session."""
    home = tmp_path_factory.mktemp("people") / "home"
    home.mkdir()
    with RunningDaemon(home, models) as running:
        yield running

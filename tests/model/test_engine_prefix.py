"""The warm prefix with the real model: evaluated once, also where another chat came between."""

from __future__ import annotations

from pathlib import Path

import pytest

from metnosd.locations import shipped_config
from metnosd.model.catalog import load_catalog
from metnosd.model.engine import Engine
from metnosd.model.options import EngineOptions

pytestmark = pytest.mark.model


def test_warm_prefix_is_read_back_after_another_chat(models: Path, tmp_path: Path) -> None:
    """A chat that begins like the warm one reuses its prefix, and answers the same, after a chat that does not."""
    profile = load_catalog(shipped_config("models.toml"), None).get()
    engine = Engine(EngineOptions(models / profile.file, n_ctx=2048), lambda: False)
    system = "You count. " + " ".join(f"{number} comes before {number + 1}." for number in range(1, 50))
    engine.warm([("system", system), ("user", "")], tmp_path, lambda: None)
    chat = [("system", system), ("user", "What comes before 8? Say the number alone.")]
    first = engine.generate(chat, grammar=None, max_tokens=4)
    engine.generate([("user", "Say hello.")], grammar=None, max_tokens=4)
    again = engine.generate(chat, grammar=None, max_tokens=4)
    assert again.text == first.text
    assert again.reused_tokens >= 0.9 * again.prompt_tokens - 20

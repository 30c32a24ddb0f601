"""llama.cpp's grammar engine over a byte vocabulary, once a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.gguf_vocab import GrammarEngine


@pytest.fixture(scope="session")
def engine() -> Iterator[GrammarEngine]:
    """The engine that every grammar here is run in."""
    engine = GrammarEngine.temporary()
    yield engine
    engine.close()

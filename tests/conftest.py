"""What all tests share: this folder on the path, so that `support` can be imported, and a house."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.house import House


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    """A daemon over an empty home."""
    made = House(tmp_path)
    yield made
    await made.close()

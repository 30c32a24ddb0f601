"""What all tests share: this folder on the path, so that `support` can be imported, and a house."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog
from support.house import House

from metnosd import assemble


@pytest.fixture(autouse=True)
def plain_logs() -> Iterator[None]:
    """Log lines without colours and without the values of local variables."""
    processors = [structlog.processors.add_log_level, structlog.processors.format_exc_info]
    structlog.configure(processors=[*processors, structlog.processors.LogfmtRenderer(bool_as_flag=False)])
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True, scope="session")
def lexicon_once() -> Iterator[None]:
    """Read the lexicon of each folder once, not for each house: that takes longer than most tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assemble, "load_lexicon", functools.cache(assemble.load_lexicon))
        yield


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    """A daemon over an empty home."""
    made = House(tmp_path)
    yield made
    await made.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--language xx` runs one language's table."""
    parser.addoption("--language", default=None, help="run the lexicon table of one language")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the rows of the language that was asked for."""
    language = config.getoption("--language")
    if language:
        items[:] = [item for item in items if f"[{language}: " in item.name or "[" not in item.name]

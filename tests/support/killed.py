"""A process that deletes a file in the house of its first argument and is killed before it notes that it did."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.house import House
from support.scripted import plan

from metnosd import act


async def main() -> None:
    """Delete, and die."""
    house = House(Path(sys.argv[1]))
    house.put("a.txt")
    perform = act.perform

    def perform_and_die(*args: Any, **kwargs: Any) -> NoReturn:
        perform(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    act.perform = perform_and_die
    steps = plan(("find_files", {"name": "a.txt"}), ("delete_files", {}))
    await house.ask("delete a.txt", steps, yes=True, message_id="m")


asyncio.run(main())

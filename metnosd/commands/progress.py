"""How a fetch is shown: a bar on a terminal, a line for each tenth elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
from rich.progress import Progress as Bar

from metnosd.model.partial import Progress


@contextlib.contextmanager
def fetch_progress() -> Iterator[Callable[[Progress], None]]:
    """A function that shows the progress it is given on stderr."""
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    if not console.is_terminal:
        yield _lines(console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("model", total=None)

        def show(progress: Progress) -> None:
            if progress.message:
                console.print(progress.message)
            bar.update(task, completed=progress.done, total=progress.total, description=progress.stage)

        yield show


def _lines(console: Console) -> Callable[[Progress], None]:
    last: tuple[str, int] = ("", -1)

    def show(progress: Progress) -> None:
        nonlocal last
        tenth = 10 * progress.done // progress.total if progress.total else 0
        if progress.message:
            console.print(progress.message)
        elif (progress.stage, tenth) != last:
            console.print(f"{progress.stage}: {10 * tenth} %")
        last = (progress.stage, tenth)

    return show

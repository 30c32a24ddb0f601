"""The pool: who is in for a turn, in which order, and who is never in unasked."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from metnosd.assemble import make_registry
from metnosd.executor import Executor, Found, Registry, Run, executor
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.loading import load_lexicon
from metnosd.lexicon.signals import read_signals
from metnosd.locations import shipped_config
from metnosd.pool import FINAL, LARGEST, make_pool


@executor(takes=None, gives="urls", capability="net:read", only_with="web")
def search_web(run: Run) -> Found:
    """Search the web."""
    return Found()


def with_variants() -> Registry:
    """The real executors, one that leaves the machine, and variants of `find_files` for two providers."""
    real = list(make_registry())
    find = next(item for item in real if item.name == "find_files")
    variants: list[Executor] = [find.for_provider("google_drive"), find.for_provider("google")]
    return Registry([*real[:-1], *variants, search_web, real[-1]])


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    """The shipped lexicon."""
    return load_lexicon(shipped_config("lexicon"))


def names(lexicon: Lexicon, text: str) -> tuple[str, ...]:
    """The pool of a message."""
    return make_pool(with_variants(), read_signals(text, lexicon, None)).names


def test_order_is_the_registrys_and_the_terminal_last(lexicon: Lexicon) -> None:
    """Whatever ranks first, the pool is in the registry's order, with the terminal at its end."""
    pool = names(lexicon, "delete the log files in Downloads older than 30 days")
    order = [item.name for item in with_variants()]
    assert list(pool) == sorted(pool, key=order.index) and pool[-1] == FINAL
    assert {"find_files", "delete_files"} <= set(pool)


def test_size_is_bounded(lexicon: Lexicon) -> None:
    """However many words match, at most the largest number is ranked in, besides producers and the terminal."""
    text = "find list read write create move copy rename delete hash zip unzip sort filter count files and folders"
    assert len(names(lexicon, text)) <= LARGEST + 3


def test_consumers_bring_their_producer(lexicon: Lexicon) -> None:
    """What works on files comes with what finds them, although no word points there."""
    assert "find_files" in names(lexicon, "checksum md5")


def test_variant_only_where_its_provider_is_named(lexicon: Lexicon) -> None:
    """A variant takes the plain one's place where its provider is named, the longest name winning."""
    assert "find_files_google_drive" not in names(lexicon, "find my pdf files")
    drive = names(lexicon, "find my pdf files on Google Drive")
    assert "find_files_google_drive" in drive and not {"find_files", "find_files_google"} & set(drive)
    google = names(lexicon, "trova i file pdf su Google")
    assert "find_files_google" in google and not {"find_files", "find_files_google_drive"} & set(google)


@pytest.mark.parametrize("text", ["find 'Google Drive' in my files", "find files in ~/google/drive", "find google.pdf"])
def test_names_in_quotes_and_paths_are_no_providers(lexicon: Lexicon, text: str) -> None:
    """What is quoted, a path or a file name names no provider."""
    assert not any("google" in name for name in names(lexicon, text))


def test_ways_out_only_when_asked_for(lexicon: Lexicon) -> None:
    """The web is in where the message asks for it, in any language, and nowhere else."""
    assert "search_web" not in names(lexicon, "find the files about llamas")
    assert "search_web" not in names(lexicon, "xyzzy")
    assert (
        "search_web"
        in make_pool(
            Registry([search_web, make_registry()[FINAL]]), read_signals("search the web for llamas", lexicon, None)
        ).names
    )


def test_denied_executors_are_left_out(lexicon: Lexicon) -> None:
    """What may not be used is not offered, not even where its words are said."""
    signals = read_signals("delete the files in Downloads", lexicon, None)
    pool = make_pool(make_registry(), signals, may_use=lambda item: item.name != "delete_files")
    assert "delete_files" not in pool.names and "find_files" in pool.names


def test_same_message_same_pool_in_every_process() -> None:
    """The pool does not depend on the order of sets or dictionaries."""
    script = (
        "from metnosd.assemble import make_registry\n"
        "from metnosd.lexicon.loading import load_lexicon\n"
        "from metnosd.lexicon.signals import read_signals\n"
        "from metnosd.locations import shipped_config\n"
        "from metnosd.pool import make_pool\n"
        "lexicon = load_lexicon(shipped_config('lexicon'))\n"
        "print(make_pool(make_registry(), read_signals('copy and zip the photos of last week', lexicon, None)).names)\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1

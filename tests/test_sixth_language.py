"""A language is one file of data: a small sixth one is dropped into the overlay folder and used."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from metnosd.lexicon.check import problems_of
from metnosd.lexicon.detect import languages_for
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.loading import LexiconError, load_lexicon
from metnosd.lexicon.signals import read_signals
from metnosd.lexicon.when import read_when
from metnosd.locations import shipped_config
from metnosd.sentence import say

SIXTH = Path(__file__).parent / "lexicon" / "sixth"
ROME = ZoneInfo("Europe/Rome")
NOW = datetime(2026, 10, 20, 8, tzinfo=ROME)


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    """The shipped languages and the sixth."""
    return load_lexicon(shipped_config("lexicon"), SIXTH)


@pytest.mark.parametrize(
    ("text", "kind", "first", "rest"),
    [
        ("toda segunda às 9 regue as plantas", "recurring", "2026-10-26T09:00:00+01:00", "regue as plantas"),
        ("lembre-me amanha as 18h de ligar", "at", "2026-10-21T18:00:00+02:00", "lembre-me de ligar"),
        ("todos os dias às 8 e às 20 tome o remédio", "recurring", "2026-10-20T20:00:00+02:00", "tome o remédio"),
        ("esta semana", "range", None, ""),
        ("a segundafeira da vida", "none", None, "a segundafeira da vida"),
    ],
)
def test_times_are_read(lexicon: Lexicon, text: str, kind: str, first: str | None, rest: str) -> None:
    """Times in the new language are read with and without accents, and its own look-alikes are not."""
    found = read_when(text, languages_for(text, lexicon, None), NOW, ROME)
    assert (found.kind, found.rest) == (kind, rest)
    if first:
        assert found.fires(NOW, 1)[0].isoformat() == first


def test_signal_sentence_and_executor_words(lexicon: Lexicon) -> None:
    """Its signals fire, its sentences are said, what it lacks is said in English, its verbs rank executors."""
    assert read_signals("Desfaz isso!", lexicon, None).signal == "undo"
    assert read_signals("Desfaz isso!", lexicon, None).lang == "pt"
    assert lexicon.say(say("undo.nothing"), "pt") == "Não há nada para desfazer."
    assert lexicon.say(say("cancel.nothing"), "pt") == lexicon.say(say("cancel.nothing"), "en")
    assert read_signals("procure os arquivos na pasta", lexicon, None).scores["find_files"] >= 3


def test_what_is_missing_is_listed(lexicon: Lexicon) -> None:
    """The check names every key that a translator still has to write, and finds no fault in the others."""
    problems = problems_of(lexicon)
    assert "pt: signals.redo is missing." in problems
    assert all(problem.startswith("pt: ") and problem.endswith("is missing.") for problem in problems)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('[signals]\nundo = ["(desfaz"]', "signals.undo"),
        ('[time.day]\nx = ["{nothing}"]', "time.day.x"),
        ("[sinais]\nundo = []", "sinais"),
        ("[time.tag]\nx = []", "time.tag"),
        ('[say]\nx = {one = "a"}', "say.x"),
        ("[say\n", "line"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, line: str, named: str) -> None:
    """A mistake in a file names the file and the key (or the line, where it is no TOML)."""
    head = '[language]\ncode = "pt"\nname = "P"\naccents_optional = true\ncommon = []\n'
    (tmp_path / "pt.toml").write_text(head + line)
    with pytest.raises(LexiconError) as caught:
        load_lexicon(shipped_config("lexicon"), tmp_path)
    assert "pt.toml" in str(caught.value) and named in str(caught.value)


def test_an_overlay_replaces_a_shipped_file(tmp_path: Path) -> None:
    """A file of the same name in the overlay is read in place of the shipped one."""
    text = (shipped_config("lexicon") / "en.toml").read_text("utf-8")
    (tmp_path / "en.toml").write_text(text.replace('"There is nothing to take back."', '"Nothing!"'))
    shutil.copy(SIXTH / "pt.toml", tmp_path)
    assert load_lexicon(shipped_config("lexicon"), tmp_path).say(say("undo.nothing"), "en") == "Nothing!"

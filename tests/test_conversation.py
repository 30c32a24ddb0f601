"""Messages that lean on the one before: what they point at, and what they put right."""

from __future__ import annotations

import pytest
from support.house import House
from support.scripted import plan

from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.loading import load_lexicon
from metnosd.lexicon.pointing import read_pointer
from metnosd.locations import shipped_config

NAMES = ("a.txt", "b.txt", "c.txt", "d.txt")
FIND = plan(("find_files", {"extension": "txt"}), ("sort_entries", {"by": "name", "order": "asc"}))
MOVE = plan(("find_files", {"extension": "txt", "path": "Box"}), ("move_files", {"to": "Archive"}))
COUNT = plan(("find_files", {"extension": "txt", "path": "Box"}), ("count_entries", {}))


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    """The shipped languages."""
    return load_lexicon(shipped_config("lexicon"))


@pytest.fixture
async def listed(house: House) -> House:
    """A house in which four files have just been listed."""
    house.put(*NAMES, "Archive/")
    await house.ask("find the txt files and sort them by name", FIND)
    return house


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("delete the second one", {"b.txt"}),
        ("and delete those, please", set(NAMES)),
        ("delete it", set(NAMES)),
        ("can you delete the first two", {"a.txt", "b.txt"}),
        ("delete the last one", {"d.txt"}),
        ("delete number 3", {"c.txt"}),
        ("cancella il secondo", {"b.txt"}),
        ("cancella gli ultimi due", {"c.txt", "d.txt"}),
        ("cancellali", set(NAMES)),
        ("supprime le deuxième", {"b.txt"}),
        ("lösche die zweite", {"b.txt"}),
        ("borra el segundo", {"b.txt"}),
    ],
)
async def test_what_is_pointed_at_is_acted_on_without_the_model(listed: House, text: str, gone: set[str]) -> None:
    """A message that says only what to do with some of a list does it to these, after a question that names them."""
    asked = len(listed.model.asked)
    talk = listed.say(text)
    question = await talk.question()
    assert {name for name in NAMES if name in question.text} == gone
    assert await listed.daemon.consent(listed.owner, question.token, True)
    await talk.reply()
    assert {name for name in NAMES if name not in listed.tree()} == gone
    assert len(listed.model.asked) == asked


async def test_the_rest_is_what_was_not_picked(listed: House) -> None:
    """“The rest” after a pick is what the pick left of the list."""
    await listed.ask("move the first two to Archive", yes=True)
    assert sorted(name for name in listed.tree() if name.startswith("Archive/")) == ["Archive/a.txt", "Archive/b.txt"]
    await listed.ask("delete the rest", yes=True)
    assert sorted(listed.tree()) == ["Archive", "Archive/a.txt", "Archive/b.txt"]


async def test_what_is_not_there_is_said(listed: House) -> None:
    """Pointing past the end of a list, or at a rest that nobody left, does nothing and says so."""
    reply = await listed.ask("delete the last 7")
    assert reply.outcome["status"] == "asked" and "only 4" in reply.text
    reply = await listed.ask("delete the rest")
    assert reply.outcome["status"] == "asked" and "rest" in reply.text
    assert set(NAMES) <= set(listed.tree())


@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("en", "show the first three files in Downloads"),
        ("en", "what is the first day of the month?"),
        ("en", "the second quarter report"),
        ("en", "delete the first file in Documents"),
        ("it", "mostra i primi tre file in Documenti"),
        ("it", "il secondo trimestre"),
        ("fr", "montre les trois premiers fichiers dans Documents"),
        ("de", "zeig die ersten drei Dateien in Dokumente"),
        ("es", "muestra los primeros tres archivos en Documentos"),
        ("en", 'delete "the second one".txt'),
    ],
)
def test_what_has_a_noun_of_its_own_points_at_nothing(lexicon: Lexicon, lang: str, text: str) -> None:
    """Words that name their own things are no pointer to the answer before."""
    assert read_pointer(text, lexicon.language(lang)) is None


async def test_pointing_alone_shows_what_is_meant(listed: House) -> None:
    """A message that only points lists what it picks, which is then what "them" means."""
    reply = await listed.ask("the first 2 of them")
    assert "a.txt" in reply.text and "b.txt" in reply.text and "c.txt" not in reply.text
    await listed.ask("delete them", yes=True)
    assert "a.txt" not in listed.tree() and "c.txt" in listed.tree()


async def test_verb_alone_does_nothing_to_the_list(listed: House) -> None:
    """“Delete” without a word that points is not about the list before."""
    reply = await listed.ask("delete", plan(("final_answer", {"text": "What?"})))
    assert set(NAMES) <= set(listed.tree()) and reply.outcome["status"] in ("nothing", "done")


async def test_correction_of_a_reading_plans_it_anew(house: House) -> None:
    """“No, in Out” repeats the request before with the other folder, and says how it was understood."""
    house.put("Box/a.txt", "Out/b.txt", "Out/c.txt")
    await house.ask("how many txt files are in Box?", COUNT)
    again = plan(("find_files", {"extension": "txt", "path": "Out"}), ("count_entries", {}))
    reply = await house.ask("no, in Out", again)
    assert "how many txt files are in Out?" in reply.text and "2" in reply.text
    assert "how many txt files are in Out?" in str(house.model.asked[-1])


async def test_correction_takes_back_what_was_done(house: House) -> None:
    """A request that was carried out is undone before it is done as it was meant; "undo" then takes back the new."""
    house.put("Box/a.txt", "Archive/", "Backup/")
    await house.ask("move the txt files from Box to Archive", MOVE, yes=True)
    meant = plan(("find_files", {"extension": "txt", "path": "Box"}), ("move_files", {"to": "Backup"}))
    await house.ask("no, to Backup", meant, yes=True)
    assert "Backup/a.txt" in house.tree() and "Archive/a.txt" not in house.tree()
    await house.ask("undo")
    assert "Box/a.txt" in house.tree()


async def test_correction_withdraws_the_open_question(house: House) -> None:
    """A question that is corrected instead of answered is closed: no late yes does what was not meant."""
    house.put("Box/a.txt", "Archive/", "Backup/")
    talk = house.say("move the txt files from Box to Archive", MOVE)
    first = await talk.question()
    meant = plan(("find_files", {"extension": "txt", "path": "Box"}), ("move_files", {"to": "Backup"}))
    await house.ask("no, to Backup", meant, yes=True)
    assert not await house.daemon.consent(house.owner, first.token, True)
    assert "Backup/a.txt" in house.tree() and "Archive/a.txt" not in house.tree()


@pytest.mark.parametrize("text", ["no problem", "no thanks", "no, stop", "sorry, I am late"])
async def test_what_corrects_nothing_repeats_nothing(house: House, text: str) -> None:
    """Talk that begins like a correction, and names nothing of the request before, does not repeat it."""
    house.put("Box/a.txt")
    await house.ask("how many txt files are in Box?", COUNT)
    reply = await house.ask(text, plan(("final_answer", {"text": "All right."})))
    assert "how many" not in reply.text


@pytest.mark.parametrize(("mode", "words"), [("append", "add to the end of"), ("replace", "replace all")])
async def test_question_says_how_a_file_is_written(house: House, mode: str, words: str) -> None:
    """Whether a text is added to a file or takes the place of what it holds stands in the question."""
    house.put("a.txt")
    talk = house.say("write 'new' into a.txt", plan(("write_files", {"path": "a.txt", "text": "new", "mode": mode})))
    assert words in (await talk.question()).text
    await talk.answer_no()

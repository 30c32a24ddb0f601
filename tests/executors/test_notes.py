"""Notes, from a person's side."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.house import House
from support.scripted import plan

WIFI = "# Wifi\n\nThe password is on the router.\n"


def notes(house: House, **texts: str) -> None:
    """Write notes by hand, each newer than the one before."""
    for age, (name, text) in enumerate(texts.items()):
        house.put(f"Notes/{name}.md", text=text)
        os.utime(house.home / f"Notes/{name}.md", (1_700_000_000 + age,) * 2)


def titles(text: str) -> list[str]:
    """The titles in a reply, in order."""
    return [line.split(" (20")[0] for line in text.splitlines() if " (20" in line]


async def test_a_note_is_made_taken_back_and_made_again(house: House) -> None:
    """A note is a Markdown file with a heading and what was said; undo leaves nothing of it."""
    reply = await house.ask("note: the plumber comes on Thursday at 9, Anna has the keys")
    assert reply.outcome["status"] == "done" and reply.text.startswith("Noted: The plumber comes on Thursday.")
    text = "# The plumber comes on Thursday\n\nthe plumber comes on Thursday at 9, Anna has the keys\n"
    made = {"Notes": None, "Notes/The plumber comes on Thursday.md": text}
    assert house.tree() == made
    await house.undo()
    assert house.tree() == {}
    await house.redo()
    assert house.tree() == made
    assert house.model.asked == []


async def test_titles_make_safe_and_unique_names(house: House) -> None:
    """A title is kept as said in the note; its file has a name that every disk takes, and none is overwritten."""
    await house.ask("make a note titled Wifi/home: first")
    await house.ask("make a note titled Wifi/home: second")
    assert house.tree() == {
        "Notes": None,
        "Notes/Wifi home (1).md": "# Wifi/home\n\nsecond\n",
        "Notes/Wifi home.md": "# Wifi/home\n\nfirst\n",
    }
    await house.ask("note that", plan(("create_notes", {"text": "note that", "title": "note"})))
    await house.ask("...... that", plan(("create_notes", {"text": "...... that"})))
    assert all(not name.startswith("Notes/.") for name in house.tree())


async def test_a_note_of_texts(house: House) -> None:
    """What came with a message can be kept as a note; without any text there is nothing to note."""
    house.put("a.txt", text="one\n\ntwo\n")
    await house.ask("read a.txt and save it as a note", plan(("read_files", {"path": "a.txt"}), ("create_notes", {})))
    assert house.tree()["Notes/One.md"] == "# One\n\none\n\ntwo\n"
    reply = await house.ask("make a note please", plan(("create_notes", {})))
    assert reply.outcome["status"] == "refused" and "What shall I note?" in reply.text


async def test_notes_are_found_by_words(house: House) -> None:
    """Title, file name and content count, without case, accents and number; the newest comes first."""
    notes(
        house,
        wifi=WIFI,
        trip="no heading here\nCafé near the station, two tickets",
        Holiday="# Summer\n\nThe router of the holidays is old.\n",
    )
    house.put("Notes/Lists/Shopping.md", text="- [ ] router\n")
    house.put("Notes/old/deep.txt", text="a router as well")
    os.utime(house.home / "Notes/old/deep.txt", (1_600_000_000,) * 2)
    assert titles((await house.ask("show my notes")).text) == ["Summer", "trip", "Wifi", "deep"]
    assert titles((await house.ask("find my notes about the ROUTER")).text) == ["Summer", "Wifi", "deep"]
    assert titles((await house.ask("what did I note about cafe tickets?")).text) == ["trip"]
    assert titles((await house.ask("what did I note about the holiday?")).text) == ["Summer"]
    reply = await house.ask("find my notes about the wifi")
    assert "The password is on the router." in reply.text
    reply = await house.ask("find my notes about elephants")
    assert reply.text == "None of your notes says anything about “elephants”."


async def test_no_notes_yet(house: House) -> None:
    """An empty house says so, and nothing is made by looking."""
    assert "You have no notes yet." in (await house.ask("show my notes")).text
    assert house.tree() == {}


async def test_long_notes_are_shown_in_part(house: House) -> None:
    """Of a long note the part with the word is shown, and not all of it."""
    notes(house, long="# Long\n\n" + "filler " * 2000 + "needle in it " + "filler " * 2000)
    reply = await house.ask("find my notes about needle")
    assert "needle in it" in reply.text and len(reply.text) < 1500


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (WIFI, WIFI + "it is white\n"),
        ("# Wifi\r\n\r\nold", "# Wifi\r\n\r\nold\r\nit is white\r\n"),
        ("wifi by hand\n\n\n", "wifi by hand\n\n\nit is white\n"),
        ("", "it is white\n"),
    ],
)
async def test_text_is_added_at_the_end(house: House, before: str, after: str) -> None:
    """What is added stands on a line of its own behind all there is; undo and redo are exact."""
    house.put("Notes/wifi.md")
    file = house.home / "Notes/wifi.md"
    file.write_bytes(before.encode())
    reply = await house.ask("add it is white to the note about the wifi")
    assert reply.outcome["status"] == "done" and "it is white" in reply.text
    assert file.read_bytes() == after.encode()
    await house.undo()
    assert file.read_bytes() == before.encode()
    await house.redo()
    assert file.read_bytes() == after.encode()


async def test_a_note_is_replaced_below_its_heading(house: House) -> None:
    """Replaced, a note keeps its heading, and undo brings the old words back."""
    notes(house, wifi=WIFI, plain="the gate is green")
    reply = await house.ask("replace the note about the wifi with: ask Anna")
    assert reply.text.startswith("The note “Wifi” says now: ask Anna")
    assert house.tree()["Notes/wifi.md"] == "# Wifi\n\nask Anna\n"
    await house.undo()
    assert house.tree()["Notes/wifi.md"] == WIFI
    await house.ask("replace the note about the gate with: it is blue")
    assert house.tree()["Notes/plain.md"] == "it is blue\n"


async def test_an_edit_in_between_is_not_overwritten(house: House) -> None:
    """What the person wrote into a note since stays when they say so."""
    notes(house, wifi=WIFI)
    await house.ask("add it is white to the note about the wifi")
    (house.home / "Notes/wifi.md").write_text("all mine")
    reply = await house.undo(answer="keep")
    assert house.tree()["Notes/wifi.md"] == "all mine" and "changed since" in reply.text
    await house.ask("note: hello")
    (house.home / "Notes/Hello.md").write_text("all mine too")
    await house.undo(answer="keep")
    assert house.tree()["Notes/Hello.md"] == "all mine too"


async def test_a_note_is_deleted_only_when_told_to(house: House) -> None:
    """Deleting asks; no leaves it, yes puts it into the trash, undo brings it back and redo takes it again."""
    notes(house, wifi=WIFI)
    before = house.tree()
    talk = house.say("delete the note about the wifi")
    assert "wifi.md" in (await talk.question()).text
    await talk.answer_no()
    assert house.tree() == before
    await house.ask("delete the note about the wifi", yes=True)
    assert house.tree() == {"Notes": None}
    await house.undo()
    assert house.tree() == before
    await house.redo()
    assert house.tree() == {"Notes": None}


@pytest.mark.parametrize("said", ["delete the note about the router", "add x to the note about the router"])
async def test_a_query_that_fits_two_is_asked(house: House, said: str) -> None:
    """Where two notes fit both are named and nothing is changed; a title wins over what stands in another note."""
    notes(house, a="# Old router\n\nx\n", b="# New router\n\ny\n", c="# Cellar\n\nthe router stands there\n")
    before = house.tree()
    reply = await house.ask(said)
    assert reply.outcome["status"] == "asked"
    assert "New router, Old router" in reply.text and "Cellar" not in reply.text
    assert house.tree() == before
    reply = await house.ask(said.replace("the router", "elephants"))
    assert reply.outcome["status"] == "refused" and "nothing was changed" in reply.text


async def test_what_was_found_can_be_deleted(house: House) -> None:
    """ "Delete them" after a search means the notes that were listed; without one it is asked which."""
    notes(house, a="# Old router\n\nx\n", b="# New router\n\ny\n")
    reply = await house.ask("delete the note", plan(("delete_notes", {})))
    assert reply.outcome["status"] == "asked" and "New router, Old router" in reply.text
    await house.ask("find my notes about router")
    await house.ask("delete them", yes=True)
    assert house.tree() == {"Notes": None}


async def test_notes_stay_where_the_person_may_reach(tmp_path: Path) -> None:
    """A folder outside the roots is refused with the reason, for reading too."""
    house = House(tmp_path, settings={"notes": {"folder": "/tmp/elsewhere"}})
    for said in ("note: hello", "show my notes", "delete the note about x"):
        reply = await house.ask(said)
        assert reply.outcome["status"] == "refused" and "outside the folders that I may use" in reply.text
    await house.close()


async def test_a_title_in_front_matter_is_passed_over(house: House) -> None:
    """A note of another program is read below its front matter, which is kept when it is replaced."""
    head = "---\ntags: [a]\n---\n# Garden\n"
    notes(house, g=head + "\nroses\n")
    assert titles((await house.ask("find my notes about roses")).text) == ["Garden"]
    await house.ask("replace the note about the garden with: tulips")
    assert house.tree()["Notes/g.md"] == head + "\ntulips\n"

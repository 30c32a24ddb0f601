"""Lists of things to buy and to do, from a person's side."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.house import House
from support.scripted import plan

SHOPPING = "Notes/Lists/Shopping.md"
OURS = (
    "# Our shopping\r\n\r\n*from Anna*\r\n* [ ] Milk\r\n* [x] Bread\r\n    1. not this\r\n"
    "* [ ] 12 eggs\r\n\r\nThat is all."
)


def shopping(house: House, *lines: str, name: str = "Shopping") -> None:
    """Write a list by hand."""
    house.put(f"Notes/Lists/{name}.md", text="".join(f"- {line}\n" for line in lines))


def held(house: House, name: str = "Shopping") -> list[str]:
    """The lines of a list."""
    text = house.tree()[f"Notes/Lists/{name}.md"]
    assert text is not None
    return [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]


async def test_a_list_is_made_when_it_is_first_needed(house: House) -> None:
    """The first item makes the list and its folders; undo leaves nothing of it, redo brings it back."""
    reply = await house.ask("add milk and eggs to the shopping list")
    assert reply.outcome["status"] == "done" and reply.text.startswith("Made the list Shopping with milk and eggs.")
    made = {"Notes": None, "Notes/Lists": None, SHOPPING: "# Shopping\n\n- [ ] milk\n- [ ] eggs\n"}
    assert house.tree() == made
    await house.undo()
    assert house.tree() == {}
    await house.redo()
    assert house.tree() == made
    assert house.model.asked == []


async def test_a_list_by_hand_keeps_every_other_byte(house: House) -> None:
    """Adding, ticking and removing change the lines that they are about, and nothing else; undo gives all back."""
    house.put(SHOPPING)
    file = house.home / SHOPPING
    file.write_bytes(OURS.encode())
    await house.ask("add 2 kg of flour to my shopping list")
    assert file.read_bytes() == OURS.replace("12 eggs\r\n", "12 eggs\r\n* [ ] 2 kg of flour\r\n").encode()
    await house.undo()
    await house.ask("I bought the eggs")
    assert file.read_bytes() == OURS.replace("[ ] 12", "[x] 12").encode()
    await house.undo()
    await house.ask("take milk off the list")
    assert file.read_bytes() == OURS.replace("* [ ] Milk\r\n", "").encode()
    await house.undo()
    assert file.read_bytes() == OURS.encode()
    await house.redo()
    assert file.read_bytes() == OURS.replace("* [ ] Milk\r\n", "").encode()


async def test_bytes_that_are_no_text_stay(house: House) -> None:
    """A file in another encoding keeps its bytes."""
    house.put(SHOPPING)
    (house.home / SHOPPING).write_bytes(b"- [ ] caf\xe9\n- [ ] milk\n")
    await house.ask("I bought the milk")
    assert (house.home / SHOPPING).read_bytes() == b"- [ ] caf\xe9\n- [x] milk\n"
    reply = await house.ask("what's on my shopping list?")
    assert "caf\\xe9" in reply.text


@pytest.mark.parametrize(
    "first", ["add jam to the list", "I bought the milk", "remove milk from the list", "add bread to the list"]
)
async def test_an_edit_in_between_is_not_overwritten(house: House, first: str) -> None:
    """What the person wrote into the list since is named, and is not lost by an undo unless they say so."""
    shopping(house, "[ ] milk", "[x] bread")
    before = house.tree()[SHOPPING]
    await house.ask(first)
    changed = str(house.tree()[SHOPPING]) + "- [ ] mine\n"
    (house.home / SHOPPING).write_text(changed)
    reply = await house.undo(answer="keep")
    assert house.tree()[SHOPPING] == changed and "changed since" in reply.text
    await house.ask("add rice to the list")
    assert house.tree()[SHOPPING] != changed
    await house.undo()
    assert house.tree()[SHOPPING] == changed != before


async def test_what_is_open_is_not_added_twice(house: House) -> None:
    """An open item stays as it is and is named; one that was done is opened again; another amount is another item."""
    shopping(house, "[ ] Milk", "[x] Bread", "[ ] 2 kg of flour")
    reply = await house.ask("add milk, bread, flour and 2 kg of flour to the list")
    assert held(house) == ["[ ] Milk", "[ ] Bread", "[ ] 2 kg of flour", "[ ] flour"]
    assert "Added Bread and flour to Shopping." in reply.text
    assert "milk and 2 kg of flour: already open on Shopping" in reply.text
    reply = await house.ask("add the milk to the list")
    assert reply.outcome["status"] == "refused" and "already open" in reply.text and reply.undo is None


@pytest.mark.parametrize(
    ("lang", "said", "items", "left"),
    [
        ("en", "I bought the eggs", ["12 eggs", "bread"], ["bread"]),
        ("en", "I bought the tomato", ["2 kg of tomatoes", "egg"], ["egg"]),
        ("en", "I have bought milk and cherries", ["a cherry", "1 l of milk", "jam"], ["jam"]),
        ("en", "I bought the milk", ["almond milk", "milk"], ["almond milk"]),
        ("en", "I bought the mac and cheese", ["mac and cheese", "cheese"], ["cheese"]),
        ("it", "ho comprato le uova", ["un uovo", "pane"], ["pane"]),
        ("it", "ho comprato il pane e l'olio", ["2 filoni di pane", "olio d'oliva", "panna"], ["panna"]),
        ("fr", "j'ai acheté les œufs", ["6 oeufs", "eau"], ["eau"]),
        ("fr", "j'ai acheté du lait et un gâteau", ["1 l de lait", "gâteaux"], []),
        ("de", "ich habe die Eier gekauft", ["10 Eier", "Eis"], ["Eis"]),
        ("de", "ich habe Äpfel und Brot gekauft", ["1 kg Äpfel", "ein Brot"], []),
        ("es", "he comprado los huevos", ["12 huevos", "pan"], ["pan"]),
        ("es", "compré el pan y las nueces", ["2 panes", "una nuez"], []),
    ],
)
async def test_items_are_known_by_their_core(
    tmp_path: Path, lang: str, said: str, items: list[str], left: list[str]
) -> None:
    """Articles, amounts, one or many do not matter for which item is meant; another thing is not touched."""
    house = House(tmp_path, settings={"user": {"lang": lang, "zone": "UTC"}})
    shopping(house, *(f"[ ] {item}" for item in items))
    answers = [plan(("complete_tasks", {"items": ["du lait et un gâteau"]}))] if "un gâteau" in said else []
    reply = await house.ask(said, *answers)
    assert reply.outcome["status"] == "done", reply.text
    assert [line[4:] for line in held(house) if line.startswith("[ ]")] == left
    await house.close()


@pytest.mark.parametrize(
    ("said", "items", "named"),
    [
        ("I bought the milk", ["oat milk", "almond milk"], "oat milk, almond milk"),
        ("I bought the 6 eggs", ["12 eggs"], "12 eggs"),
        ("I bought the almond milk", ["milk"], "milk"),
        ("remove milk from the list", ["oat milk", "almond milk"], "oat milk, almond milk"),
    ],
)
async def test_what_is_not_sure_is_asked(house: House, said: str, items: list[str], named: str) -> None:
    """Two items that fit, another amount, or a word too many: nothing is changed, and what is there is named."""
    shopping(house, *(f"[ ] {item}" for item in items))
    reply = await house.ask(said)
    assert reply.outcome["status"] == "asked" and f"Which one: {named}?" in reply.text
    assert held(house) == [f"[ ] {item}" for item in items]


async def test_what_is_on_no_list_changes_nothing(house: House) -> None:
    """It is said that it is on no list; what was found beside it is done, and what is done already is named."""
    reply = await house.ask("I bought the eggs")
    assert reply.outcome["status"] == "refused" and "You have no lists yet." in reply.text
    shopping(house, "[ ] milk", "[x] bread")
    reply = await house.ask("I bought the eggs")
    assert reply.outcome["status"] == "refused" and reply.text.startswith("eggs: on none of your lists")
    reply = await house.ask("I bought the bread")
    assert "ticked off already" in reply.text and held(house) == ["[ ] milk", "[x] bread"]
    reply = await house.ask("I bought milk and eggs")
    assert reply.outcome["status"] == "partial"
    assert "Ticked off milk on Shopping." in reply.text and "eggs: on none of your lists" in reply.text
    reply = await house.ask("take honey off the shopping list")
    assert reply.text.startswith("honey: not on Shopping")


async def test_an_open_item_goes_before_a_done_one(house: House) -> None:
    """Of the same thing done and open, the open one is meant; a done one can still be taken off."""
    shopping(house, "[x] milk", "[ ] 2 l of milk")
    await house.ask("I bought the milk")
    assert held(house) == ["[x] milk", "[x] 2 l of milk"]
    await house.ask("remove the 2 l of milk from the list")
    assert held(house) == ["[x] milk"]


async def test_items_of_several_lists_at_once(house: House) -> None:
    """With no list named all are searched; the answer says which list each was on, and one undo brings all back."""
    shopping(house, "[ ] milk")
    shopping(house, "[ ] call mum", name="To-do")
    reply = await house.ask("mark call mum and milk as done")
    assert "Ticked off call mum (To-do) and milk (Shopping)." in reply.text
    assert held(house) == ["[x] milk"] and held(house, "To-do") == ["[x] call mum"]
    await house.undo()
    assert held(house) == ["[ ] milk"] and held(house, "To-do") == ["[ ] call mum"]
    shopping(house, "[ ] milk", name="Party")
    reply = await house.ask("I bought the milk")
    assert reply.outcome["status"] == "asked" and "milk (Party), milk (Shopping)" in reply.text


@pytest.mark.parametrize(
    ("names", "said", "used"),
    [
        (["Shopping list"], "add tea to my shopping list", "Shopping list"),
        (["Shopping list"], "add tea to the grocery list", "Shopping list"),
        (["Lista della spesa", "Camping"], "aggiungi il tè alla lista della spesa", "Lista della spesa"),
        (["Shopping", "Camping"], "aggiungi il tè alla lista della spesa", "Shopping"),
        (["Einkaufsliste", "Camping"], "setz Tee auf die Einkaufsliste", "Einkaufsliste"),
        (["To do", "Shopping"], "add tea to my to-do list", "To do"),
        (["Camping trip", "Shopping"], "add tea to the camping list", "Camping trip"),
        (["Camping", "Books"], "add tea to the list", "Shopping"),
        (["Camping"], "add tea to the list", "Camping"),
        (["Camping", "Shopping"], "add tea to the list", "Shopping"),
        (["Camping"], "add tea to the party list", "Party"),
        ([], "setz Tee auf die Liste", "Einkauf"),
        ([], "add tea to my grocery list", "Shopping"),
        ([], "añade té a la lista para la fiesta", "Fiesta"),
    ],
)
async def test_lists_are_named_loosely(house: House, names: list[str], said: str, used: str) -> None:
    """A list is known without "list", articles and case; where none is named it is the usual one, or the only one."""
    for name in names:
        shopping(house, "[ ] x", name=name)
    await house.ask(said)
    written = [name for name, text in house.tree().items() if text is not None and text != "- [ ] x\n"]
    assert written == [f"Notes/Lists/{used}.md"]


async def test_two_lists_that_fit_are_asked(house: House) -> None:
    """Where two lists fit equally nothing is added."""
    shopping(house, "[ ] x", name="Camping France")
    shopping(house, "[ ] x", name="Camping Spain")
    reply = await house.ask("add a tent to the camping list")
    assert reply.outcome["status"] == "asked" and "Camping France, Camping Spain" in reply.text


async def test_a_list_that_is_not_there_is_said(house: House) -> None:
    """For what needs a list, the answer says which there are."""
    shopping(house, "[ ] milk")
    for said in ("what's on my camping list?", "remove the tent from the camping list"):
        reply = await house.ask(said)
        assert reply.outcome["status"] == "refused"
        assert "no list called “camping”" in reply.text and "Shopping" in reply.text


async def test_what_is_open_is_shown(house: House) -> None:
    """One list shows its open items, all lists show them under their names; an empty one and a done one say so."""
    assert "no lists yet" in (await house.ask("what do I still have to do?")).text
    shopping(house, "[ ] milk", "[x] bread", "plain", "[ ] eggs")
    shopping(house, "[ ] call mum", name="To-do")
    shopping(house, "[x] tent", name="Camping")
    shopping(house, name="Empty")
    reply = await house.ask("what do I still need to buy?")
    assert reply.text == "2 items are open on Shopping:\n- milk\n- eggs"
    reply = await house.ask("what do I still have to do?")
    assert reply.text == "3 items are open on your lists:\nShopping:\n- milk\n- eggs\nTo-do:\n- call mum"
    assert (await house.ask("what's on the camping list")).text == "Everything on Camping is done."
    assert (await house.ask("what's on the empty list")).text == "Empty is empty."


async def test_the_list_before_can_be_pointed_at(house: House) -> None:
    """ "Delete the second one" after a list means its second item."""
    shopping(house, "[ ] milk", "[ ] eggs", "[ ] jam")
    await house.ask("what's on my shopping list?")
    await house.ask("delete the second one")
    assert held(house) == ["[ ] milk", "[ ] jam"]
    await house.ask("what's on my shopping list?")
    await house.ask("tick off them", plan(("complete_tasks", {}, 0)))
    assert held(house) == ["[x] milk", "[x] jam"]


async def test_a_models_single_item_is_split(house: House) -> None:
    """A model that writes two items as one gives two items."""
    await house.ask("we are out of milk and the eggs, so list", plan(("add_tasks", {"items": ["milk and the eggs"]})))
    assert held(house) == ["[ ] milk", "[ ] eggs"]


@pytest.mark.parametrize(
    ("folder", "reason"),
    [("/tmp/elsewhere", "outside the folders"), ("~/.lists", "hidden"), ("~/Notes.txt/Lists", "not a folder")],
)
async def test_lists_stay_where_the_person_may_reach(tmp_path: Path, folder: str, reason: str) -> None:
    """A folder outside the roots, a hidden one, or one below a file is refused with the reason."""
    house = House(tmp_path, settings={"notes": {"lists": folder}})
    house.put("Notes.txt")
    reply = await house.ask("add milk to the list")
    assert reply.outcome["status"] == "refused" and reason in reply.text
    assert house.tree() == {"Notes.txt": "Notes.txt"}
    await house.close()


async def test_names_of_lists_are_safe(house: House) -> None:
    """A list's name cannot lead out of the folder."""
    await house.ask("add milk to the ../../x/y list", plan(("add_tasks", {"list": "../../x/y", "items": ["milk"]})))
    assert list(house.tree()) == ["Notes", "Notes/Lists", "Notes/Lists/X y.md"]


async def test_a_list_that_cannot_be_read_does_not_hide_the_others(house: House) -> None:
    """One file that is no text is named, and the rest is shown."""
    shopping(house, "[ ] milk")
    (house.home / "Notes/Lists/Odd.md").write_bytes(b"\0\1")
    shopping(house, "[ ] tent", name="Camping")
    reply = await house.ask("what do I still have to do?")
    assert "- milk" in reply.text and "- tent" in reply.text and "Odd.md holds no plain text" in reply.text

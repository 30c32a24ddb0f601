"""The resolver: words to places and times, readers run and frozen, effects made concrete, doubt made a question."""

from __future__ import annotations

import json

import pytest
from support.house import House
from support.scripted import Call, plan

from metnosd.plan import plan_from_json
from metnosd.resolve import Context, ResolvedPlan, resolved_from_text


async def resolve(house: House, *steps: Call) -> ResolvedPlan:
    """A plan, resolved for the owner without asking or acting."""
    context = Context("turn", house.owner, "en", house.clock(), ())
    return await house.assembly.parts.resolver.resolve(plan_from_json(json.loads(plan(*steps))), context, {})


async def test_readers_run_and_effects_wait(house: House) -> None:
    """Leading readers have their outcome, the effects after them their concrete targets, and nothing has happened."""
    house.put("Downloads/a.txt", "Downloads/b.txt", "Box/")
    before = house.tree()
    steps: tuple[Call, ...] = (("find_files", {"path": "downloads", "extension": "txt"}), ("move_files", {"to": "Box"}))
    resolved = await resolve(house, *steps)
    assert [entry.fields["name"] for entry in resolved.done[1].entries] == ["a.txt", "b.txt"]
    step = resolved.pending[0]
    assert (step.index, step.tool, step.capability) == (2, "move_files", "fs:write")
    assert [effect.target for effect in step.effects] == [  # type: ignore[attr-defined]
        str(house.home / "Box" / name) for name in ("a.txt", "b.txt")
    ]
    assert house.tree() == before


async def test_effects_in_a_row_are_resolved_together(house: House) -> None:
    """Effects whose input is there share one question; one that needs the result of another waits."""
    house.put("a.txt")
    find = ("find_files", {"name": "a.txt"})
    together = await resolve(house, find, ("copy_files", {"to": "Box"}), ("delete_files", {}, 1))
    assert [step.index for step in together.pending] == [2, 3]
    apart = await resolve(house, find, ("copy_files", {"to": "Box"}), ("delete_files", {}))
    assert [step.index for step in apart.pending] == [2]


async def test_resolved_plan_survives_the_database(house: House) -> None:
    """What is stored with a question comes back with the same digest, also with names that are no text."""
    house.put("a.txt", "bad\udcff.txt", text="x")
    resolved = await resolve(house, ("find_files", {"extension": "txt"}), ("delete_files", {}))
    again = resolved_from_text(resolved.to_text())
    assert again.digest("owner") == resolved.digest("owner")
    assert again.pending == resolved.pending
    assert again.done[1].entries == resolved.done[1].entries


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"plan": {"steps": []}}', '{"plan":1,"done":2,"pending":3}'])
def test_text_that_is_no_resolved_plan(text: str) -> None:
    """A damaged stored plan raises only what its reader expects."""
    with pytest.raises((ValueError, KeyError, TypeError)):
        resolved_from_text(text)


async def test_two_places_make_a_question(house: House) -> None:
    """Where two folders fit equally, the outcome asks and names both, and nothing is guessed."""
    house.put("one/Projects/a.txt", "two/Projects/b.txt")
    reply = await house.ask("find the files in Projects", plan(("find_files", {"path": "Projects"})))
    assert reply.outcome["status"] == "asked"
    assert "~/one/Projects" in reply.text and "~/two/Projects" in reply.text


async def test_exact_name_wins(house: House) -> None:
    """The exact name wins over another case, and the folder at the top over one deeper down."""
    house.put("Projects/a.txt", "projects/b.txt", "deep/Projects/c.txt")
    reply = await house.ask("find the files in Projects", plan(("find_files", {"path": "Projects"})))
    assert [entry["name"] for entry in reply.outcome["steps"][0]["entries"]] == ["a.txt"]


@pytest.mark.parametrize(
    "said", ["the Projects folder", "my projects", "PROJECTS", "Projects/", "~/Projects", "the Projects"]
)
async def test_wordings_of_a_folder(house: House, said: str) -> None:
    """Articles, "folder", case and a slash at the end do not matter."""
    house.put("Projects/a.txt", "b.txt")
    reply = await house.ask(f"find files in {said}", plan(("find_files", {"path": said})))
    assert [entry["name"] for entry in reply.outcome["steps"][0]["entries"]] == ["a.txt"]


@pytest.mark.parametrize("said", ["/etc", "..", "../..", "~/../..", "~root", "/", "Box/../../x", ".ssh", "/proc/self"])
async def test_places_out_of_reach(house: House, said: str) -> None:
    """What lies outside the roots or is hidden is refused with a reason, whatever the spelling."""
    house.put("Box/", ".ssh/id")
    reply = await house.ask(f"find files in {said}", *[plan(("find_files", {"path": said}))] * 2)
    assert reply.outcome["status"] in ("refused", "failed")
    assert not reply.text.startswith("[")


async def test_nothing_found_does_nothing(house: House) -> None:
    """An effect on nothing asks nothing and changes nothing."""
    steps = plan(("find_files", {"extension": "txt"}), ("delete_files", {}))
    reply = await house.ask("delete the txt files", steps)
    assert reply.outcome["status"] == "nothing"
    assert "nothing was changed" in reply.text


async def test_time_that_is_none_is_told_to_the_model(house: House) -> None:
    """Words that are no time do not reach a file: the argument goes or the model is asked again."""
    house.put("a.pdf")
    wrong = plan(("find_files", {"extension": "pdf", "modified": "whenever it suits"}))
    reply = await house.ask(
        "find the pdf files from whenever it suits", wrong, plan(("find_files", {"extension": "pdf"}))
    )
    assert reply.outcome["status"] == "done"


async def test_failed_reader_ends_the_plan(house: House) -> None:
    """After a reader that is refused no later step runs or is asked about."""
    house.put("a.txt")
    steps = plan(("find_files", {"path": "Nowhere"}), ("delete_files", {}))
    reply = await house.ask("delete the files in Nowhere", steps)
    assert reply.outcome["status"] == "refused"
    assert [step["tool"] for step in reply.outcome["steps"]] == ["find_files"]
    assert "Nowhere" in reply.text

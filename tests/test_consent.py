"""Questions: bound to one user and the digest of the exact resolved plan, for one use, with an end."""

from __future__ import annotations

import dataclasses
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from support.house import House
from support.scripted import plan

from metnosd.message import ConsentRequest

DELETE = plan(("find_files", {"extension": "txt"}), ("delete_files", {}))
TEXT = "delete the txt files"


async def asked(house: House, *names: str) -> ConsentRequest:
    """The question on deleting these files, left open by a daemon that was stopped and started again."""
    house.put(*names)
    talk = house.say(TEXT, DELETE, message_id="m")
    question = await talk.question()
    await house.restart()
    return question


async def test_question_survives_a_restart_and_does_what_it_showed(house: House) -> None:
    """A yes after a restart does exactly the stored effects, without planning or finding anew."""
    question = await asked(house, "a.txt", "b.txt")
    house.put("late.txt")
    assert await house.daemon.consent(house.owner, question.token, True)
    assert list(house.tree()) == ["late.txt"]
    assert len(house.model.asked) == 1
    reply = await house.ask(TEXT, message_id="m")
    assert reply.outcome["status"] == "done"
    await house.undo()
    assert sorted(house.tree()) == ["a.txt", "b.txt", "late.txt"]


async def test_no_after_a_restart_ends_the_turn(house: House) -> None:
    """A no after a restart is accepted, changes nothing, and uses the question up."""
    question = await asked(house, "a.txt")
    assert await house.daemon.consent(house.owner, question.token, False)
    assert not await house.daemon.consent(house.owner, question.token, True)
    assert list(house.tree()) == ["a.txt"]
    assert (await house.ask(TEXT, message_id="m")).outcome["status"] == "refused"


async def test_message_repeated_after_a_restart_is_put_its_question_again(house: House) -> None:
    """Whoever repeats a message whose question outlived a restart is put that question, not told it is lost."""
    question = await asked(house, "a.txt")
    talk = house.say(TEXT, message_id="m")
    again = await talk.question()
    assert (again.token, again.digest) == (question.token, question.digest)


async def test_cancelled_question_that_was_put_again_is_closed(house: House) -> None:
    """A question that is put again after a restart and then cancelled takes no late yes."""
    question = await asked(house, "a.txt")
    talk = house.say(TEXT, message_id="m")
    await talk.question()
    await house.daemon.cancel(house.owner, "m")
    assert (await talk.reply()).outcome["status"] == "refused"
    assert not await house.daemon.consent(house.owner, question.token, True)
    assert list(house.tree()) == ["a.txt"]


async def test_yes_that_is_delivered_twice_answers_one_question(house: House) -> None:
    """A "yes" that comes again under its message id does not answer the question that is open by then."""
    house.put("a.txt")
    first = house.say(TEXT, DELETE)
    await first.question()
    await house.ask("yes", message_id="the yes")
    assert house.tree() == {}
    house.put("b.txt")
    second = house.say(TEXT, DELETE)
    await second.question()
    await house.ask("yes", message_id="the yes")
    assert list(house.tree()) == ["b.txt"]
    await second.answer_no()


@pytest.mark.parametrize("restart", [False, True])
async def test_answer_counts_once(house: House, restart: bool) -> None:
    """A used question takes no second answer, neither yes nor no, also after a restart."""
    house.put("a.txt")
    talk = house.say(TEXT, DELETE)
    question = await talk.question()
    assert await house.daemon.consent(house.owner, question.token, True)
    await talk.reply()
    if restart:
        await house.restart()
    house.put("a.txt")
    assert not await house.daemon.consent(house.owner, question.token, True)
    assert not await house.daemon.consent(house.owner, question.token, False)
    assert list(house.tree()) == ["a.txt"]


@pytest.mark.parametrize("restart", [False, True])
async def test_expired_question_takes_no_answer(house: House, restart: bool) -> None:
    """A yes that comes when the time is over is not accepted and does nothing."""
    house.put("a.txt")
    talk = house.say(TEXT, DELETE)
    question = await talk.question()
    if restart:
        await house.restart()
    house.clock.forward(minutes=10)
    assert not await house.daemon.consent(house.owner, question.token, True)
    assert list(house.tree()) == ["a.txt"]


async def test_question_that_nobody_answers_is_a_no(tmp_path: Path) -> None:
    """When the time is over the turn ends by itself, says why, and the question is closed."""
    house = House(tmp_path, settings={"consent": {"minutes": 0.0001}})
    house.put("a.txt")
    talk = house.say(TEXT, DELETE)
    question = await talk.question()
    reply = await talk.reply()
    assert reply.outcome["status"] == "refused" and "no answer" in reply.text
    assert not await house.daemon.consent(house.owner, question.token, True)
    assert list(house.tree()) == ["a.txt"]
    await house.close()


async def test_foreign_user_cannot_answer(tmp_path: Path) -> None:
    """Only the person who was asked can answer; a foreign yes or no leaves the question open."""
    house = House(tmp_path, settings={"socket": {"users": {"65534": "guest"}}})
    house.put("a.txt")
    guest = house.daemon.user_of_uid(65534)
    assert guest is not None
    talk = house.say(TEXT, DELETE)
    question = await talk.question()
    assert not await house.daemon.consent(guest, question.token, True)
    assert not await house.daemon.consent(guest, question.token, False)
    assert list(house.tree()) == ["a.txt"]
    assert await house.daemon.consent(house.owner, question.token, True)
    assert (await talk.reply()).outcome["status"] == "done"
    await house.close()


@pytest.mark.parametrize("token", ["", "x", "\ud800", "' or 1=1 --", "x" * 100_000])
async def test_unknown_token_is_not_accepted(house: House, token: str) -> None:
    """What is no token is no consent, and no error either."""
    assert not await house.daemon.consent(house.owner, token, True)


async def test_altered_question_is_not_carried_out(house: House) -> None:
    """A stored plan whose digest does not fit any more is refused: what runs is what was approved."""
    question = await asked(house, "a.txt", "b.txt")
    await house.close()
    with sqlite3.connect(house.places.database) as db:
        db.execute("update consents set resolved = replace(resolved, 'a.txt', 'b.txt')")
    db.close()
    house.assembly = house._assemble()
    assert not await house.daemon.consent(house.owner, question.token, True)
    assert sorted(house.tree()) == ["a.txt", "b.txt"]


async def test_digest_tells_every_difference(house: House) -> None:
    """Two questions that differ in a target, or in who is asked, have different digests."""
    house.put("a.txt")
    talk = house.say(TEXT, DELETE)
    await talk.question()
    rows = house.assembly.parts.consents.open_in(house.owner.name, ("test", "main"), house.clock())
    resolved = rows[0].resolved
    effect = resolved.pending[0].effects[0]
    step = dataclasses.replace(resolved.pending[0], effects=(dataclasses.replace(effect, path="/else"),))  # type: ignore[call-arg]
    other = dataclasses.replace(resolved, pending=(step,))
    assert len({resolved.digest("owner"), resolved.digest("guest"), other.digest("owner")}) == 3


async def test_file_that_is_gone_is_named(house: House) -> None:
    """A file that goes between question and yes is named; the others are done, and the outcome is partial."""
    house.put("a.txt", "b.txt")
    talk = house.say(TEXT, DELETE)
    question = await talk.question()
    (house.home / "a.txt").unlink()
    assert await house.daemon.consent(house.owner, question.token, True)
    reply = await talk.reply()
    assert reply.outcome["status"] == "partial"
    assert "~/a.txt" in reply.text
    assert house.tree() == {}


async def test_target_that_appeared_is_not_overwritten(house: House) -> None:
    """A file that appears where something is to go is kept, and the outcome says that it was in the way."""
    house.put("a.txt", "Box/")
    talk = house.say("move a.txt to Box", plan(("find_files", {"name": "a.txt"}), ("move_files", {"to": "Box"})))
    question = await talk.question()
    house.put("Box/a.txt", text="mine")
    assert await house.daemon.consent(house.owner, question.token, True)
    reply = await talk.reply()
    assert reply.outcome["status"] == "failed"
    assert house.tree() == {"Box": None, "Box/a.txt": "mine", "a.txt": "a.txt"}


async def test_file_that_changed_is_asked_about_again(house: House) -> None:
    """A file that is edited between question and yes is not touched on that yes; a second question names it."""
    house.put("a.txt")
    write = plan(("write_files", {"path": "a.txt", "text": "new", "mode": "replace"}))
    talk = house.say("replace the text of a.txt by 'new'", write)
    first = await talk.question()
    house.put("a.txt", text="edited meanwhile")
    assert await house.daemon.consent(house.owner, first.token, True)
    second = await talk.question()
    assert house.tree() == {"a.txt": "edited meanwhile"}
    assert second.digest != first.digest and "~/a.txt was changed since I asked" in second.text
    assert not await house.daemon.consent(house.owner, first.token, True)
    assert await house.daemon.consent(house.owner, second.token, True)
    await talk.reply()
    assert house.tree() == {"a.txt": "new"}
    await house.undo()
    assert house.tree() == {"a.txt": "edited meanwhile"}


async def delivered(house: House) -> list[dict[str, Any]]:
    """What waits to be delivered to the owner, and is taken."""
    waiting = await house.daemon.deliveries(house.owner, "test")
    for delivery in waiting:
        await house.daemon.delivered(delivery.id)
    return [dict(delivery.event) for delivery in waiting]


async def test_file_that_changed_over_a_restart_is_asked_again(house: House) -> None:
    """A yes after a restart does nothing where a file was edited meanwhile: a new question is delivered, whose
    answer is carried out and told."""
    question = await asked(house, "a.txt")
    house.put("a.txt", text="edited meanwhile")
    assert await house.daemon.consent(house.owner, question.token, True)
    [again] = await delivered(house)
    assert house.tree() == {"a.txt": "edited meanwhile"}
    assert again["type"] == "consent_request" and "~/a.txt was changed since I asked" in again["text"]
    assert again["token"] != question.token and again["digest"] != question.digest
    assert not await house.daemon.consent(house.owner, question.token, True)
    assert (await house.ask("yes")).outcome["status"] == "done"
    assert house.tree() == {}
    await house.undo()
    assert house.tree() == {"a.txt": "edited meanwhile"}


async def test_yes_in_words_after_a_restart_is_answered_with_the_new_question(house: House) -> None:
    """A "yes" whose file was edited over a restart gets the new question as its answer."""
    await asked(house, "a.txt")
    house.put("a.txt", text="edited meanwhile")
    reply = await house.ask("yes")
    assert reply.outcome["status"] == "asked" and "~/a.txt was changed since I asked" in reply.text
    assert (await house.ask("no")).outcome["status"] == "refused"
    assert house.tree() == {"a.txt": "edited meanwhile"}


async def test_result_of_an_answer_after_a_restart_is_delivered(house: House) -> None:
    """Who taps yes after a restart is told what was done, once."""
    question = await asked(house, "a.txt")
    assert await house.daemon.consent(house.owner, question.token, True)
    [told] = await delivered(house)
    assert told["type"] == "delivery" and told["outcome"]["status"] == "done" and told["undo"]["actions"] == 1
    assert await delivered(house) == []


async def test_link_that_was_swapped_in_is_not_followed(house: House, tmp_path: Path) -> None:
    """A folder that became a link out of the roots between question and yes is refused."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("not yours")
    house.put("Box/a.txt")
    talk = house.say(TEXT, DELETE)
    question = await talk.question()
    (house.home / "Box" / "a.txt").unlink()
    (house.home / "Box").rmdir()
    (house.home / "Box").symlink_to(outside)
    assert await house.daemon.consent(house.owner, question.token, True)
    assert (await talk.reply()).outcome["status"] == "failed"
    assert (outside / "a.txt").read_text() == "not yours"


async def test_question_shows_all_of_a_long_text(house: House) -> None:
    """What is approved is what is read: a long text stands in the question to its end."""
    text = "word " * 1500
    talk = house.say(f"write '{text}' into a.txt", plan(("write_files", {"path": "a.txt", "text": text})))
    assert text.strip() in (await talk.question()).text
    await talk.answer_no()


async def test_question_on_many_files_has_the_full_list_one_tap_away(house: House) -> None:
    """Of 300 files the question lists 20 and says how many more; all of them come with it, and on demand."""
    names = [f"file{number:03}.txt" for number in range(300)]
    house.put(*names)
    talk = house.say(TEXT, DELETE)
    question = await talk.question()
    assert sum(name in question.text for name in names) == 20 and "280 more" in question.text
    assert question.full_text is not None and all(name in question.full_text for name in names)
    shown = await house.ask("show me the full list")
    assert all(name in shown.text for name in names)
    assert len(house.tree()) == 300
    await house.ask("yes")
    assert house.tree() == {}


async def test_two_questions_are_told_apart(house: House) -> None:
    """With two questions open “yes” lists them, and a number says which one is meant."""
    house.put("a.txt", "Box/")
    first = house.say(TEXT, DELETE)
    await first.question()
    second = house.say("create the folder New", plan(("create_dirs", {"names": ["New"]})))
    await second.question()
    reply = await house.ask("yes")
    assert f"1. {TEXT}" in reply.text and "2. create the folder New" in reply.text
    await house.ask("yes 2")
    assert sorted(house.tree()) == ["Box", "New", "a.txt"]
    await house.ask("no")
    assert (await first.reply()).outcome["status"] == "refused"


async def test_yes_answers_its_own_conversation_only(house: House) -> None:
    """A yes in another conversation does not answer, and neither does one in another channel of that name."""
    house.put("a.txt")
    talk = house.say(TEXT, DELETE)
    await talk.question()
    assert (await house.say("yes", conversation="other").reply()).outcome["status"] == "nothing"
    message = house.daemon.message(house.owner, "web", "main", "yes", lang=None, message_id=None)
    assert (await house.daemon.send(message, lambda _event: None)).outcome["status"] == "nothing"
    assert list(house.tree()) == ["a.txt"]
    await talk.answer_no()


async def test_question_shows_what_a_name_hides(house: House) -> None:
    """Newlines, escapes and reversed text in a name are escaped in the question."""
    house.put("a\nShall I\u202e?.txt")
    shown = (await house.say(TEXT, DELETE).question()).text
    assert "\\n" in shown and "\u202e" not in shown


async def test_packing_question_counts_its_files(house: House) -> None:
    """The question on an archive says how many files go into it."""
    house.put("a.txt", "b.txt")
    steps = plan(("find_files", {"extension": "txt"}), ("compress_files", {"to": "all.zip", "format": "zip"}))
    talk = house.say("compress the txt files to all.zip", steps)
    assert "pack 2 files" in (await talk.question()).text


async def test_answer_with_another_digest_is_refused(house: House) -> None:
    """Who says what they approve by its digest approves nothing else."""
    house.put("a.txt")
    talk = house.say(TEXT, DELETE)
    question = await talk.question()
    assert not await house.daemon.consent(house.owner, question.token, True, digest="0" * 64)
    assert house.tree() == {"a.txt": "a.txt"}
    assert await house.daemon.consent(house.owner, question.token, True, digest=question.digest)
    await talk.reply()
    assert house.tree() == {}

"""Whole turns: from a message to the tree of files and the reply, with a scripted model."""

from __future__ import annotations

import asyncio
import concurrent.futures

import pytest
from support.house import House
from support.scripted import Answer, fails, held, plan, say

from metnosd.message import MAX_TEXT, Reply
from metnosd.service import ServiceError

MOVE = plan(("find_files", {"path": "Downloads", "extension": "txt"}), ("move_files", {"to": "Documents"}))
MOVE_TEXT = "move all txt files from Downloads to Documents"


def status(reply: object) -> object:
    """The status of a reply's outcome."""
    return reply.outcome["status"]  # type: ignore[attr-defined]


async def test_reads_without_asking(house: House) -> None:
    """A plan of readers runs at once, and its entries and the text name exactly what is there."""
    house.put("Projects/a.pdf", "Projects/deep/B.PDF", "Projects/c.txt", "a.pdf")
    reply = await house.ask(
        "find the pdf files in the Projects folder",
        plan(("find_files", {"path": "Projects", "extension": "pdf"})),
    )
    assert status(reply) == "done"
    names = [entry["name"] for entry in reply.outcome["steps"][0]["entries"]]
    assert names == ["a.pdf", "B.PDF"]
    assert "~/Projects/a.pdf" in reply.text and "c.txt" not in reply.text


async def test_asks_before_an_effect_and_does_what_was_shown(house: House) -> None:
    """The question lists every effect; a yes does these and the reply says so and offers the undo."""
    house.put("Downloads/a.txt", "Downloads/b.txt", "Downloads/c.jpg", "Documents/")
    talk = house.say(MOVE_TEXT, MOVE)
    question = await talk.question()
    assert "~/Downloads/a.txt" in question.text and "~/Documents/b.txt" in question.text
    assert house.tree()["Downloads/a.txt"] == "Downloads/a.txt", "nothing has happened before the yes"
    assert await house.daemon.consent(house.owner, question.token, True)
    reply = await talk.reply()
    assert status(reply) == "done"
    assert reply.undo is not None and reply.undo.actions == 2
    assert sorted(house.tree()) == ["Documents", "Documents/a.txt", "Documents/b.txt", "Downloads", "Downloads/c.jpg"]


async def test_no_changes_nothing(house: House) -> None:
    """After a no nothing is changed, the reply says so and its status is refused."""
    house.put("Downloads/a.txt", "Documents/")
    before = house.tree()
    reply = await house.ask(MOVE_TEXT, MOVE, yes=False)
    assert status(reply) == "refused"
    assert reply.undo is None
    assert house.tree() == before


async def test_stages_are_told(house: House) -> None:
    """Whoever waits hears of planning, each step, resolving and acting, in this order."""
    house.put("Downloads/a.txt", "Documents/")
    talk = house.say(MOVE_TEXT, MOVE)
    assert await talk.answer(True)
    await talk.reply()
    assert talk.stages == ["planning", "planning_step", "planning_step", "resolving", "acting"]


async def test_wrong_plan_is_told_and_planned_again(house: House) -> None:
    """The model hears once what was wrong; its second plan is carried out."""
    house.put("a.txt")
    wrong = plan(("find_everything", {}))
    reply = await house.ask("find a.txt", wrong, plan(("find_files", {"name": "a.txt"})))
    assert status(reply) == "done"
    first, second = house.model.asked
    assert second.messages[: len(first.messages)] == first.messages
    assert second.messages[-2] == ("assistant", wrong)
    assert "find_everything" in second.last


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I would rather not.",
        "{",
        "[]",
        '{"steps":[]}',
        '{"steps":[{"tool":"delete_files","args":{}}]}',
        '{"steps":[{"tool":"find_files","args":{"path":["a"]}}]}',
        '{"steps":[{"tool":"final_answer","args":{"text":"a"}},{"tool":"get_time","args":{}}]}',
        '{"tool":"find_files","args":{}}',
        '{"steps":[{"tool":"find_files","args":{}}],"when":"now"}',
        '{"steps":[{"tool":"find_files","args":{}}]} {"steps":[{"tool":"get_time","args":{}}]}',
        "\ud800",
        '{"steps":[' + "9" * 5000 + "]}",
    ],
)
async def test_two_wrong_plans_are_a_plain_refusal(house: House, text: str) -> None:
    """Two answers that are no plan: a sentence, no effect, nothing of the raw text, and the next message works."""
    house.put("a.txt")
    before = house.tree()
    reply = await house.ask("find a.txt", text, text)
    assert status(reply) == "failed"
    assert "{" not in reply.text and "steps" not in reply.text
    assert len(house.model.asked) == 2
    assert house.tree() == before
    again = await house.ask("find a.txt", plan(("find_files", {"name": "a.txt"})))
    assert status(again) == "done"


async def test_truncated_plan_is_asked_for_again_with_more_room(house: House) -> None:
    """A plan that was cut off is not told to be wrong but gets a larger budget; then it runs whole."""
    house.put("Downloads/a.txt", "Documents/")
    cut = MOVE[: MOVE.index("move_files") + 3]
    talk = house.say(MOVE_TEXT, Answer(cut, cut=True), MOVE)  # type: ignore[arg-type]
    assert await talk.answer(True)
    assert status(await talk.reply()) == "done"
    first, second = house.model.asked
    assert second.messages == first.messages
    assert second.max_tokens > first.max_tokens


async def test_truncated_plan_never_runs_in_part(house: House) -> None:
    """Of a plan that stays cut off no step runs, and the reply says that it was cut off and after how many."""
    house.put("Downloads/a.txt", "Documents/")
    before = house.tree()
    cut = MOVE[: MOVE.index("move_files") + 3]
    reply = await house.ask(MOVE_TEXT, cut, cut)
    assert status(reply) == "failed"
    assert reply.outcome["steps"] == []
    assert "cut off after one step" in reply.text
    assert house.tree() == before


async def test_failing_executor_is_never_a_success(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that raises gives a failed outcome whose text says so; what follows it does not run."""

    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("the disk is on fire")

    monkeypatch.setattr("metnosd.executors.find._items", broken)
    house.put("a.txt")
    before = house.tree()
    reply = await house.ask("delete a.txt", plan(("find_files", {"name": "a.txt"}), ("delete_files", {})))
    assert status(reply) == "failed"
    assert [step["status"] for step in reply.outcome["steps"]] == ["failed"]
    assert "fire" not in reply.text and reply.undo is None
    assert house.tree() == before


async def test_failing_effect_is_never_a_success(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """An effect that raises is named, nothing is offered to be undone, and nothing is called done."""

    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("the disk is on fire")

    monkeypatch.setattr("metnosd.act.perform", broken)
    house.put("a.txt")
    reply = await house.ask("delete a.txt", plan(("find_files", {"name": "a.txt"}), ("delete_files", {})), yes=True)
    assert status(reply) == "failed"
    assert "Put" not in reply.text and reply.undo is None
    assert (await house.undo()).outcome["status"] != "done"


async def test_answer_in_words_is_no_done_action(house: House) -> None:
    """To a request for an action, words that claim it is done are marked as words only."""
    house.put("a.txt")
    reply = await house.ask("delete a.txt", say("I have deleted the file a.txt."))
    assert status(reply) == "nothing"
    assert reply.text.startswith("I did nothing on this machine")
    assert "a.txt" in house.tree()


async def test_words_after_steps_claim_nothing(house: House) -> None:
    """The text that a model puts after a step does not reach the reply: results speak."""
    reply = await house.ask(
        "find a.txt and delete it",
        plan(("find_files", {"name": "a.txt"}), ("final_answer", {"text": "It is deleted."})),
    )
    assert "deleted" not in reply.text
    assert status(reply) == "nothing"


async def test_request_in_no_language_we_know_is_marked_too(house: House) -> None:
    """Where the lexicon knows no word of the request, an answer in words is not taken for a deed either."""
    house.put("a.txt")
    reply = await house.ask("poista se tiedosto kiitos", say("I have deleted the file a.txt."))
    assert status(reply) == "nothing"
    warning, told = reply.text.split("\n")
    assert warning and told == "I have deleted the file a.txt."


async def test_plain_talk_is_done(house: House) -> None:
    """A greeting is answered without a warning."""
    reply = await house.ask("good morning", say("Good morning!"))
    assert status(reply) == "done"
    assert reply.text == "Good morning!"


@pytest.mark.parametrize("code", ["unavailable", "died", "hung", "grammar", "context", "decode", "cancelled"])
async def test_model_error_is_a_sentence(house: House, code: str) -> None:
    """Whatever ends a model request, the person reads a sentence, not a key, and the next message works."""
    house.put("a.txt")
    house.model.will(fails(code))
    reply = await house.ask("find a.txt")
    assert status(reply) == "failed"
    assert not reply.text.startswith("[")
    assert (await house.ask("find a.txt", plan(("find_files", {"name": "a.txt"})))).outcome["status"] == "done"


async def test_broken_model_service_is_a_sentence(house: House) -> None:
    """An exception that no service should raise ends the turn with a sentence, not the daemon."""
    reply = await house.ask("find a.txt")
    assert status(reply) == "failed"
    assert "inside me" in reply.text


@pytest.mark.parametrize("text", ["", " \n\t", "\ud800", "a\udcffb", "x" * (MAX_TEXT + 1)])
async def test_bad_text_is_refused_with_a_sentence(house: House, text: str) -> None:
    """Empty, too long or broken text is refused before any model hears of it."""
    with pytest.raises(ServiceError) as refused:
        house.daemon.message(house.owner, "test", "main", text, lang=None, message_id=None)
    assert str(refused.value)[0] != "["
    assert house.model.asked == []


async def test_longest_text_is_taken(house: House) -> None:
    """A message of exactly the largest length is planned."""
    reply = await house.ask("hello " + "a" * (MAX_TEXT - 6), say("That is long."))
    assert status(reply) == "done"


@pytest.mark.parametrize("text", ["undo " + "9" * 30, "undo " + "9" * 5000, "undo the last 0 actions"])
async def test_absurd_count_is_a_sentence(house: House, text: str) -> None:
    """A count that no journal has is answered in words, by the lexicon or by way of the model."""
    house.model.will(say("That is more than I have done."))
    reply = await house.ask(text)
    assert status(reply) != "done"
    assert "inside me" not in reply.text and not reply.text.startswith("[")


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("how much disk space is free?", [("get_status", {"what": "disk"})]),
        ("system status", [("get_status", {"what": "all"})]),
        ("what time is it?", [("get_time", {})]),
        ("help", []),
        ("what time is it in Atlantis?", [("get_time", {"zone": "Atlantis"})]),
        ("what is in Projects?", [("list_dirs", {"path": "Projects"})]),
        ("read a.txt", [("read_files", {"path": "a.txt"})]),
        ("how many txt files?", [("find_files", {"extension": "txt"}), ("count_entries", {})]),
        ("find duplicate files", [("find_files", {}), ("find_duplicates", {})]),
        ("compute md5 of a.txt", [("find_files", {"name": "a.txt"}), ("compute_signatures", {"algorithm": "md5"})]),
    ],
)
async def test_every_reader_has_words(house: House, text: str, steps: list[tuple[str, dict[str, object]]]) -> None:
    """Each kind of result is rendered, survives in the database, and is repeated word for word."""
    house.put("a.txt", "Projects/b.txt")
    answers = [plan(*steps)] if steps else []
    reply = await house.ask(text, *answers, message_id="m1")
    assert "inside me" not in reply.text and "[" not in reply.text[:1] and reply.text
    again = await house.ask(text, message_id="m1")
    assert again == reply


async def test_last_outcome_is_what_them_means(house: House) -> None:
    """`from` 0 takes the entries of the conversation's last outcome, and is offered only when there is one."""
    house.put("a.txt", "b.txt", "c.jpg")
    await house.ask("find txt files", plan(("find_files", {"extension": "txt"})))
    reply = await house.ask("delete them", plan(("delete_files", {}, 0)), yes=True)
    assert status(reply) == "done"
    assert list(house.tree()) == ["c.jpg"]


async def test_last_outcome_survives_a_restart(house: House) -> None:
    """What "them" means is kept over a restart."""
    house.put("a.txt", "c.jpg")
    await house.ask("find txt files", plan(("find_files", {"extension": "txt"})))
    await house.restart()
    assert status(await house.ask("delete them", plan(("delete_files", {}, 0)), yes=True)) == "done"
    assert list(house.tree()) == ["c.jpg"]


async def test_last_outcome_of_another_conversation_is_not_offered(house: House) -> None:
    """`from` 0 in a conversation without an outcome is a plan error, told to the model."""
    house.put("a.txt")
    await house.ask("find txt files", plan(("find_files", {"extension": "txt"})))
    wrong = plan(("delete_files", {}, 0))
    talk = house.say("delete them", wrong, wrong, conversation="other")
    assert status(await talk.reply()) == "failed"
    assert "a.txt" in house.tree()


async def test_repeat_of_an_ended_message(house: House) -> None:
    """A message that comes again gets the reply of then, and has one effect."""
    house.put("Downloads/a.txt", "Documents/")
    first = await house.ask(MOVE_TEXT, MOVE, yes=True, message_id="same")
    house.put("Downloads/b.txt")
    again = await house.ask(MOVE_TEXT, message_id="same")
    assert again == first
    assert "Downloads/b.txt" in house.tree()
    await house.restart()
    assert await house.ask(MOVE_TEXT, message_id="same") == first


async def test_repeat_of_a_message_that_is_being_planned(house: House) -> None:
    """A repeat while the first is under way waits for the same reply; the model is asked once."""
    house.put("a.txt")
    answer = held(plan(("find_files", {"name": "a.txt"})))
    house.model.will(answer)
    first = house.say("find a.txt", message_id="same")
    assert answer.begun and answer.go
    await answer.begun.wait()
    second = house.say("find a.txt", message_id="same")
    third = house.say("find a.txt", message_id="same")
    answer.go.set()
    replies = [await talk.reply() for talk in (first, second, third)]
    assert replies[0] == replies[1] == replies[2]
    assert len(house.model.asked) == 1


async def test_repeats_at_the_same_moment(house: House) -> None:
    """Of the same message sent many times at once, all get the one reply."""
    house.put("a.txt")
    house.model.will(plan(("find_files", {"name": "a.txt"})))
    talks = [house.say("find a.txt", message_id="same") for _ in range(5)]
    replies = [await talk.reply() for talk in talks]
    assert all(reply == replies[0] for reply in replies)
    assert len(house.model.asked) == 1


async def test_repeat_of_a_message_that_asks(house: House) -> None:
    """Whoever repeats a message that waits for an answer is put the same question and hears the end."""
    house.put("Downloads/a.txt", "Documents/")
    first = house.say(MOVE_TEXT, MOVE, message_id="same")
    question = await first.question()
    second = house.say(MOVE_TEXT, message_id="same")
    assert await second.question() == question
    assert await house.daemon.consent(house.owner, question.token, True)
    assert await first.reply() == await second.reply()


async def test_cancel_while_planning(house: House) -> None:
    """A cancelled turn stops the model request at once and says that it stopped."""
    answer = held(MOVE)
    house.model.will(answer)
    talk = house.say(MOVE_TEXT, message_id="m")
    assert answer.begun
    await answer.begun.wait()
    said = await house.daemon.cancel(house.owner, "m")
    assert said.outcome["status"] == "done"
    reply = await talk.reply()
    assert status(reply) == "refused" and "stopped" in reply.text
    assert house.model.cancelled == 1


async def test_cancel_at_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancel that comes right behind its message stops it, even before planning has begun."""
    store_turn = house.assembly.parts.turns.open
    loop = asyncio.get_running_loop()
    said: list[concurrent.futures.Future[Reply]] = []

    def open_late(*args: object) -> object:
        stored = store_turn(*args)  # type: ignore[arg-type]
        said.append(asyncio.run_coroutine_threadsafe(house.daemon.cancel(house.owner, "m"), loop))
        return stored

    monkeypatch.setattr(house.assembly.parts.turns, "open", open_late)
    never = held(MOVE)
    assert never.begun
    house.model.will(never)
    talk = house.say(MOVE_TEXT, message_id="m")
    begun = asyncio.create_task(never.begun.wait())
    await asyncio.wait([begun, talk.task], return_when=asyncio.FIRST_COMPLETED)  # type: ignore[list-item]
    begun.cancel()
    assert status(await asyncio.wrap_future(said[0])) == "done"
    assert status(await talk.reply()) == "refused"


async def test_cancel_while_asking(house: House) -> None:
    """A cancelled question is closed: a yes that comes after does nothing."""
    house.put("Downloads/a.txt", "Documents/")
    before = house.tree()
    talk = house.say(MOVE_TEXT, MOVE, message_id="m")
    question = await talk.question()
    await house.daemon.cancel(house.owner, "m")
    assert status(await talk.reply()) == "refused"
    assert not await house.daemon.consent(house.owner, question.token, True)
    assert house.tree() == before
    await house.restart()
    assert not await house.daemon.consent(house.owner, question.token, True)
    assert house.tree() == before


async def test_cancel_between_plan_and_question(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancel that arrives while a question is being stored ends the turn without putting it."""
    house.put("Downloads/a.txt", "Documents/")
    store_question = house.assembly.parts.consents.ask
    loop = asyncio.get_running_loop()

    def ask_late(*args: object) -> object:
        stored = store_question(*args)  # type: ignore[arg-type]
        asyncio.run_coroutine_threadsafe(house.daemon.cancel(house.owner, "m"), loop).result()
        return stored

    monkeypatch.setattr(house.assembly.parts.consents, "ask", ask_late)
    talk = house.say(MOVE_TEXT, MOVE, message_id="m")
    ended, _ = await asyncio.wait([talk.task], timeout=10)  # type: ignore[list-item]
    assert ended, "the turn waits for an answer although it was cancelled"
    assert status(await talk.reply()) == "refused"
    assert "Downloads/a.txt" in house.tree()


async def test_cancel_while_acting(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that is cancelled while it acts ends after the present effect; what was done is named and undone."""
    house.put("Downloads/a.txt", "Downloads/b.txt", "Downloads/c.txt", "Documents/")
    before = house.tree()
    from metnosd import act

    perform = act.perform
    loop = asyncio.get_running_loop()

    def perform_and_cancel(*args: object, **kwargs: object) -> object:
        done = perform(*args, **kwargs)  # type: ignore[arg-type]
        asyncio.run_coroutine_threadsafe(house.daemon.cancel(house.owner, "m"), loop).result()
        return done

    monkeypatch.setattr(act, "perform", perform_and_cancel)
    reply = await house.ask(MOVE_TEXT, MOVE, yes=True, message_id="m")
    monkeypatch.setattr(act, "perform", perform)
    assert status(reply) == "partial"
    assert "2 changes were not made" in reply.text
    assert [name for name in house.tree() if name.startswith("Documents/")] == ["Documents/a.txt"]
    assert reply.undo is not None and reply.undo.actions == 1
    await house.undo()
    assert house.tree() == before


async def test_cancel_after_an_effect_names_it(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that is cancelled between an effect and the step after it still names what it has done."""
    from metnosd import act

    house.put("a.txt")
    perform = act.perform
    loop = asyncio.get_running_loop()

    def perform_and_cancel(*args: object, **kwargs: object) -> object:
        done = perform(*args, **kwargs)  # type: ignore[arg-type]
        if list(house.tree()) == ["Backup", "Backup/a.txt", "a.txt"]:
            asyncio.run_coroutine_threadsafe(house.daemon.cancel(house.owner, "m"), loop).result()
        return done

    monkeypatch.setattr(act, "perform", perform_and_cancel)
    steps = plan(
        ("find_files", {"name": "a.txt"}),
        ("copy_files", {"to": "Backup"}),
        ("compute_signatures", {"algorithm": "md5"}, 1),
    )
    reply = await house.ask("copy a.txt to Backup and compute its md5", steps, yes=True, message_id="m")
    assert status(reply) == "partial"
    assert "Copied" in reply.text and "nothing else" not in reply.text.split("Copied")[1]
    assert reply.undo is not None


async def test_cancel_of_a_foreign_or_unknown_message(house: House) -> None:
    """Nothing under way under that id: the answer says so and nothing stops."""
    reply = await house.daemon.cancel(house.owner, "nothing")
    assert status(reply) == "nothing"


async def test_effects_before_a_no_are_not_denied(house: House) -> None:
    """A no to the second question of a plan does not claim that nothing was changed: the first effect stands."""
    house.put("a.txt")
    steps = plan(
        ("find_files", {"name": "a.txt"}),
        ("copy_files", {"to": "Backup"}),
        ("compute_signatures", {"algorithm": "md5"}, 1),
        ("delete_files", {}, 1),
    )
    talk = house.say("copy a.txt to Backup, compute its md5 and delete a.txt", steps)
    assert await talk.answer(True)
    assert await talk.answer(False)
    reply = await talk.reply()
    assert sorted(house.tree()) == ["Backup", "Backup/a.txt", "a.txt"]
    assert status(reply) == "partial"
    assert "nothing was changed" not in reply.text
    assert reply.undo is not None


async def test_client_that_stops_listening_does_not_stop_the_turn(house: House) -> None:
    """The turn belongs to the daemon: when its sender is gone it goes on to its end and is repeated."""
    house.put("a.txt")
    answer = held(plan(("find_files", {"name": "a.txt"})))
    house.model.will(answer)
    talk = house.say("find a.txt", message_id="m")
    assert answer.begun and answer.go and talk.task
    await answer.begun.wait()
    talk.task.cancel()
    await asyncio.gather(talk.task, return_exceptions=True)
    second = house.say("find a.txt", message_id="m")
    answer.go.set()
    assert status(await second.reply()) == "done"
    assert len(house.model.asked) == 1


async def test_listener_that_raises_does_not_stop_the_turn(house: House) -> None:
    """A channel whose listener fails loses its events, not the turn."""
    house.model.will(say("Hello."))
    message = house.daemon.message(house.owner, "test", "main", "hello", lang=None, message_id=None)

    def deaf(event: object) -> None:
        raise ConnectionResetError

    assert (await house.daemon.send(message, deaf)).text == "Hello."


async def test_close_with_a_question_keeps_it(house: House) -> None:
    """A stop while a question is open ends at once and leaves the turn waiting, not answered."""
    house.put("Downloads/a.txt", "Documents/")
    talk = house.say(MOVE_TEXT, MOVE, message_id="m")
    question = await talk.question()
    await house.restart()
    with pytest.raises(asyncio.CancelledError):
        await talk.reply()
    assert await house.daemon.consent(house.owner, question.token, True)
    assert "Documents/a.txt" in house.tree()
    reply = await house.ask(MOVE_TEXT, message_id="m")
    assert status(reply) == "done"


async def test_close_while_planning_is_told_to_whom_asks_again(house: House) -> None:
    """A stop while the model plans cancels the request; who repeats the message hears that it was stopped."""
    answer = held(MOVE)
    house.model.will(answer)
    talk = house.say(MOVE_TEXT, message_id="m")
    assert answer.begun
    await answer.begun.wait()
    await house.restart()
    assert status(await talk.reply()) == "refused"
    assert house.model.cancelled == 1
    assert "stopped" in (await house.ask(MOVE_TEXT, message_id="m")).text


async def test_grammar_free_service_gets_the_same_checks(house: House) -> None:
    """A service without a grammar is asked without one, and its plan must pass all the same."""
    house.put("a.txt")
    house.model.constraint = "none"
    wrong = plan(("find_files", {"name": "a.txt", "colour": "red"}))
    assert status(await house.ask("find a.txt", wrong, wrong)) == "failed"
    prose = f"Sure!\n```json\n{plan(('find_files', {'name': 'a.txt'}))}\n```"
    assert status(await house.ask("find a.txt", prose)) == "done"
    assert all(asked.grammar is None for asked in house.model.asked)


async def test_nothing_is_invented(house: House) -> None:
    """A place that the message does not name is not looked into, whatever the plan says."""
    house.put("Secret/a.txt", "Downloads/a.txt", "Documents/")
    invented = plan(("find_files", {"path": "Secret"}), ("move_files", {"to": "Elsewhere"}))
    reply = await house.ask("move the files from Downloads to Documents", invented, invented)
    assert status(reply) == "failed"
    assert "Secret/a.txt" in house.tree()


async def test_preview_runs_nothing(house: House) -> None:
    """`plan` shows every stage, runs no step, and leaves nothing in the history."""
    house.put("Downloads/a.txt", "Documents/")
    before = house.tree()
    house.model.will(MOVE)
    shown = await house.daemon.plan(house.owner, MOVE_TEXT, lang=None)
    assert shown["path"] == "model" and shown["constraint"] == "gbnf"
    assert [step["tool"] for step in shown["resolved"]["steps"]] == ["find_files", "move_files"]
    assert shown["resolved"]["steps"][1]["effects"] is None
    assert shown["verdict"]["answer"] == "ask" and shown["verdict"]["provisional"]
    assert house.tree() == before
    assert (await house.daemon.history(house.owner))["turns"] == []


async def test_preview_without_model(house: House) -> None:
    """With the model left out the stages before it are there and the later ones null; undo needs none."""
    shown = await house.daemon.plan(house.owner, MOVE_TEXT, lang=None, model=False)
    assert shown["plan"] is None and shown["verdict"] is None and len(shown["grammar_sha256"]) == 64
    fast = await house.daemon.plan(house.owner, "undo", lang=None, model=False)
    assert fast["path"] == "fast" and fast["plan"]["steps"][0]["tool"] == "undo_actions"


async def test_preview_is_the_same_twice(house: House) -> None:
    """Pool, grammar and signals of one message are the same every time."""
    keys = ("signals", "pool", "grammar_sha256")
    shown = [await house.daemon.plan(house.owner, MOVE_TEXT, lang=None, model=False) for _ in range(2)]
    assert [shown[0][key] for key in keys] == [shown[1][key] for key in keys]


async def test_answer_before_is_not_taken_for_what_is_named(house: House) -> None:
    """A message that names its files cannot take those of the answer before, whatever the model answers."""
    house.put("a/one.txt")
    house.put("b/x.txt")
    await house.ask("list the txt files in a", plan(("find_files", {"path": "a", "extension": "txt"})))
    backwards = '{"steps":[{"tool":"delete_files","from":0,"args":{}}]}'
    reply = await house.ask("delete b/x.txt", backwards, backwards)
    assert status(reply) == "failed"
    assert {"one.txt", "x.txt"} <= {path.name for path in house.home.rglob("*.txt")}


async def test_named_file_is_never_widened_to_its_folder(house: House) -> None:
    """A plan that forgets the one file that was named acts on that file, not on the folder around it."""
    house.put("Documents/list.txt", "Documents/other.txt")
    forgetful = plan(("find_files", {"path": "Documents"}), ("delete_files", {}))
    await house.ask("delete list.txt in Documents", forgetful, yes=True)
    assert list(house.tree()) == ["Documents", "Documents/other.txt"]


async def test_what_is_excluded_is_not_acted_on(house: House) -> None:
    """A request that excludes something is refused where it would change anything, since no plan can say that."""
    house.put("Pictures/keep.jpg", "Pictures/go.jpg")
    steps = plan(("find_files", {"path": "Pictures", "name": "keep.jpg"}), ("delete_files", {}))
    reply = await house.ask("delete everything in Pictures except keep.jpg", steps)
    assert reply.outcome["status"] == "refused" and "leave anything out" in reply.text
    assert "Pictures/keep.jpg" in house.tree()


async def test_rest_of_a_long_list_is_shown(house: House) -> None:
    """“show all” after a list that was cut off shows the rest of that list, and "them" still means it."""
    house.put(*(f"Downloads/{number:02}.log" for number in range(24)), "a.txt")
    await house.ask("find all log files in Downloads", plan(("find_files", {"path": "Downloads", "extension": "log"})))
    reply = await house.ask("show all")
    assert reply.text.count(".log") == 24 and "a.txt" not in reply.text

"""Messages from one person to another: asked at first contact, put into an outbox once, never unsent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.house import House, connected, listening
from support.scripted import plan

from metnosd.effects import SendMessage, effect_from_json
from metnosd.lexicon.loading import load_lexicon
from metnosd.lexicon.signals import read_signals
from metnosd.locations import shipped_config
from metnosd.message import Reply
from metnosd.outbox import Delivery
from metnosd.redact import Redactor
from metnosd.sentence import Sentence
from metnosd.user import Autonomy, User

PEOPLE = {"socket": {"users": {"4711": "Anna Rossi", "4712": "Bert", "4713": "André", "4714": "Anna Weiß"}}}
FEW = {"socket": {"users": {"4711": "Anna", "4712": "Bert"}}}
LATE = "tell Anna that I'll be late"


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[House]:
    """A daemon that Anna and Bert may use too."""
    made = House(tmp_path, settings=FEW)
    yield made
    await made.close()


@pytest.fixture
async def crowd(tmp_path: Path) -> AsyncIterator[House]:
    """A daemon with several people, two of whom are called Anna."""
    made = House(tmp_path, settings=PEOPLE)
    yield made
    await made.close()


def person(house: House, name: str, level: Autonomy = "supervised") -> User:
    """Somebody other than the owner, who may do something."""
    found = house.daemon.user(name)
    assert found is not None
    return replace(found, level=level)


async def waiting(house: House, name: str, channel: str = "socket") -> list[dict[str, Any]]:
    """What waits to be delivered to somebody."""
    user = house.daemon.user(name)
    assert user is not None
    return [{"id": item.id, **item.event} for item in await house.daemon.deliveries(user, channel)]


def status(reply: Reply) -> object:
    """What became of it."""
    return reply.outcome["status"]


async def test_first_message_is_asked_and_the_next_is_not(home: House) -> None:
    """The first message to somebody is a question that shows it and says that it is final; the next just goes."""
    talk = home.say(LATE)
    question = await talk.question()
    assert question.text.splitlines() == [
        "It would be the first message to Anna, so I ask first:",
        "- send to Anna, and it cannot be unsent: I'll be late",
        "Shall I?",
    ]
    assert await waiting(home, "Anna") == []
    assert await home.daemon.consent(home.owner, question.token, True)
    reply = await talk.reply()
    assert status(reply) == "done" and reply.undo is None
    assert reply.text.startswith("Your message is in the outbox for Anna") and "undo" not in reply.text
    (event,) = await waiting(home, "Anna")
    assert (event["type"], event["from"], event["text"]) == ("delivery", "owner", "The owner says: I'll be late")
    again = home.say("tell Anna that the train is slow")
    again.unasked()
    assert status(await again.reply()) == "done"
    assert [event["text"] for event in await waiting(home, "Anna")][1:] == ["The owner says: the train is slow"]
    assert home.model.asked == []
    other = home.say("tell Bert that the train is slow")
    assert "first message to Bert" in (await other.question()).text
    await other.answer_no()
    assert await waiting(home, "Bert") == []


async def test_no_sends_nothing_and_the_next_is_asked_again(home: House) -> None:
    """A refused first message leaves nothing, and does not count as one that was sent."""
    refused = await home.ask(LATE, yes=False)
    assert status(refused) == "refused" and await waiting(home, "Anna") == []
    await home.ask(LATE, yes=True)
    assert len(await waiting(home, "Anna")) == 1


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("Bert", "Bert"),
        ("bert", "Bert"),
        ("BERT", "Bert"),
        ("andre", "André"),
        ("ANDRÉ", "André"),
        ("Anna Rossi", "Anna Rossi"),
        ("anna rossi", "Anna Rossi"),
        ("rossi", "Anna Rossi"),
        ("weiß", "Anna Weiß"),
    ],
)
async def test_people_are_named_loosely(crowd: House, said: str, name: str) -> None:
    """In any case, without accents, and by a part of the name that one person alone has."""
    await crowd.ask(f"tell {said} that it rains", yes=True)
    assert [event["text"] for event in await waiting(crowd, name)] == ["The owner says: it rains"]


@pytest.mark.parametrize(
    ("said", "status_", "text"),
    [
        (
            "Carla",
            "refused",
            "I do not know “Carla”, so I sent nothing. I can write to: Anna Rossi, Bert, André, Anna Weiß.",
        ),
        ("Ann", "refused", "I do not know “Ann”"),
        ("Bert Rossi", "refused", "I do not know “Bert Rossi”"),
        ("owner", "refused", "I do not send you messages of your own. Say “remind me”"),
        ("Anna", "asked", "Which one: Anna Rossi, Anna Weiß?"),
    ],
)
async def test_who_is_not_known_gets_nothing(crowd: House, said: str, status_: str, text: str) -> None:
    """Nobody, oneself and two people of one name: nothing is sent, and it is said who is known or could be meant."""
    reply = await crowd.ask(f"tell {said} that it rains")
    assert status(reply) == status_ and text in reply.text
    assert [await waiting(crowd, name) for name in ("Anna Rossi", "Anna Weiß", "Bert")] == [[], [], []]


async def test_nobody_else_is_known(house: House) -> None:
    """Alone with the daemon one hears how others come to it."""
    assert "socket.users" in (await house.ask(LATE)).text


async def test_me_is_nobody(home: House) -> None:
    """A model that takes "me" for a recipient sends nothing."""
    reply = await home.ask("send a message to me: hello", plan(("send_messages", {"to": "me", "text": "hello"})))
    assert status(reply) == "refused" and "remind me" in reply.text


async def test_several_recipients(home: House) -> None:
    """With "and" between them each gets it, in one question; where one is not known nobody does."""
    both = plan(("send_messages", {"to": "Anna and Bert", "text": "dinner is ready"}))
    reply = await home.ask("tell Anna and Bert: dinner is ready", both, yes=True)
    assert "2 outboxes" in reply.text
    assert [len(await waiting(home, name)) for name in ("Anna", "Bert")] == [1, 1]
    wrong = plan(("send_messages", {"to": "Anna and Eve", "text": "dinner is ready"}))
    assert status(await home.ask("tell Anna and Eve: dinner is ready", wrong)) == "refused"
    assert [len(await waiting(home, name)) for name in ("Anna", "Bert")] == [1, 1]


async def test_it_goes_where_they_spoke_last_in_their_language(home: House) -> None:
    """The recipient's newest conversation gets it, headed in the language that was spoken there."""
    anna = person(home, "Anna")
    await home.say("che ore sono?", user=anna, conversation="kitchen").reply()
    await home.ask(LATE, yes=True)
    (delivery,) = await home.daemon.deliveries(anna, "test")
    assert delivery.conversation == "kitchen" and delivery.event["text"] == "Il proprietario dice: I'll be late"


async def test_a_guest_writes_to_the_owner(home: House) -> None:
    """Others may write to the owner, called so, and are named by their name; who only reads may not."""
    talk = home.say("send a message to owner: the door is open", user=person(home, "Anna"))
    await talk.answer(True)
    assert status(await talk.reply()) == "done"
    (event,) = await waiting(home, "owner")
    assert event["text"] == "Anna says: the door is open" and event["from"] == "Anna"
    reading = home.say("send a message to owner: the door is open", user=person(home, "Bert", "read_only"))
    assert status(await reading.reply()) == "refused"
    assert len(await waiting(home, "owner")) == 1


async def test_delivery_is_reported_once(home: House) -> None:
    """Once the message was taken the sender is told, in their language, exactly once; that note begets none."""
    await home.ask("di' ad Anna che arrivo", yes=True)
    (event,) = await waiting(home, "Anna")
    assert await waiting(home, "owner", "test") == []
    for _ in range(2):
        await home.daemon.delivered(event["id"])
    (note,) = await waiting(home, "owner", "test")
    assert note["text"] == "Anna ha il tuo messaggio." and "from" not in note
    await home.daemon.delivered(note["id"])
    assert await waiting(home, "Anna") == [] and await waiting(home, "owner", "test") == []


async def test_over_the_socket(home: House) -> None:
    """A client of the recipient gets the line once, and what it took is reported to the sender."""
    talk = home.say("send a message to owner: the door is open", user=person(home, "Anna"))
    await talk.answer(True)
    await talk.reply()
    async with listening(home), connected(home.places.socket) as wire:
        line = await wire.next("delivery")
        assert line["text"] == "Anna says: the door is open"
        await wire.send({"type": "received", "delivery": line["delivery"]})
        note = await heard(home, "Anna", "test")
        assert note["text"] == "The owner has your message." and await waiting(home, "owner") == []


async def heard(house: House, name: str, channel: str) -> dict[str, Any]:
    """The first that comes for somebody through a channel, once it is there."""
    news, loop = asyncio.Event(), asyncio.get_running_loop()
    outbox = house.assembly.daemon._kept.outbox
    before = outbox.on_new

    def hear(delivery: Delivery) -> None:
        if before is not None:
            before(delivery)
        loop.call_soon_threadsafe(news.set)

    outbox.on_new = hear
    async with asyncio.timeout(30):
        while not (found := await waiting(house, name, channel)):
            await news.wait()
            news.clear()
    return found[0]


async def test_same_message_again_is_sent_once(home: House) -> None:
    """A message that a channel delivers twice has one effect."""
    await home.ask(LATE, yes=True, message_id="m1")
    await home.ask(LATE, message_id="m1")
    assert len(await waiting(home, "Anna")) == 1


async def test_undo_says_that_it_cannot_be_unsent(home: House) -> None:
    """Undo names what cannot be taken back and what helps; nothing changes, and it is listed as such."""
    await home.ask(LATE, yes=True)
    reply = await home.ask("undo")
    assert status(reply) == "failed"
    assert reply.text == "The message to Anna cannot be unsent. You can send another one that puts it right."
    assert len(await waiting(home, "Anna")) == 1
    listed = await home.ask("what can you undo?")
    assert listed.text.endswith("message to Anna: I'll be late (cannot be taken back)")
    (turn,) = [t for t in (await home.daemon.history(home.owner))["turns"] if t["effects"]]
    assert (turn["undoable"], turn["why"]) == (0, "lasting")


async def test_undo_goes_on_to_what_was_done_before(home: House) -> None:
    """What cannot be unsent does not bar the way: it is asked whether the deed before is to be taken back."""
    home.put("Downloads/a.txt", "Documents/")
    move = plan(("find_files", {"path": "Downloads"}), ("move_files", {"to": "Documents"}))
    await home.ask("move the files in Downloads to Documents", move, yes=True)
    await home.ask(LATE, yes=True)
    talk = home.say("undo")
    question = await talk.question()
    assert "Shall I take back what was done before it?" in question.text and "cannot be unsent" in question.text
    assert await home.daemon.consent(home.owner, question.token, True)
    reply = await talk.reply()
    assert "cannot be unsent" in reply.text and "Downloads/a.txt" in home.tree()


async def test_undo_of_a_turn_that_also_sent(home: House) -> None:
    """What else the turn did is taken back, and it is said that the message stays."""
    home.put("Downloads/a.txt", "Documents/")
    steps = plan(
        ("find_files", {"path": "Downloads"}),
        ("move_files", {"to": "Documents"}),
        ("send_messages", {"to": "Anna", "text": "moved"}),
    )
    talk = home.say("move the files in Downloads to Documents and tell Anna: moved", steps)
    await talk.answer(True)
    question = await talk.question()
    assert "first message to Anna" in question.text
    assert await home.daemon.consent(home.owner, question.token, True)
    await talk.reply()
    assert len(await waiting(home, "Anna")) == 1
    reply = await home.undo()
    assert "Downloads/a.txt" in home.tree() and "cannot be unsent" in reply.text


async def test_text_is_data(home: House) -> None:
    """Lines, controls and words for other things in a message stay what they are: text, each line on its own."""
    text = "undo everything {name} \u202etxt\x1b[2J"
    home.put("note.txt", text=f"{text}\nsecond line")
    steps = plan(("find_files", {"name": "note.txt"}), ("read_files", {}), ("send_messages", {"to": "Anna"}))
    await home.ask("read note.txt and send it to Anna", steps, yes=True)
    (event,) = await waiting(home, "Anna")
    assert event["text"].split("\n") == [
        "The owner says:",
        "undo everything {name} \\u202etxt\\x1b[2J",
        "second line",
    ]


async def test_entries_without_text_are_not_sent(home: House) -> None:
    """Nothing to say is a question, and an empty text is none."""
    reply = await home.ask("send Anna a message", plan(("send_messages", {"to": "Anna"})))
    assert status(reply) == "asked" and "What shall I tell Anna?" in reply.text


async def test_long_message_is_refused(home: House) -> None:
    """More than a message may have is not cut but refused."""
    home.put("note.txt", text="x" * 16_001)
    steps = plan(("find_files", {"name": "note.txt"}), ("read_files", {}), ("send_messages", {"to": "Anna"}))
    reply = await home.ask("read note.txt and send it to Anna", steps)
    assert "16001 characters" in reply.text and await waiting(home, "Anna") == []


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("message Anna: are you coming?", "are you coming?"),
        ("message Anna: are you coming?!", "are you coming?!"),
        ("tell Anna that I'm late.", "I'm late."),
        ("tell Anna that I'm late!!", "I'm late!!"),
        ("send Anna a message: “meet at 5, not 6”", "meet at 5, not 6"),
        ("tell Anna that I'll be there tomorrow at 9", "I'll be there tomorrow at 9"),
    ],
)
async def test_words_are_sent_as_said(home: House, text: str, sent: str) -> None:
    """Marks at the end, times and quotes belong to the text; nothing is put off because the text names a time."""
    await home.ask(text, yes=True)
    assert [event["text"] for event in await waiting(home, "Anna")] == [f"The owner says: {sent}"]


async def test_a_longer_name_is_no_text(crowd: House) -> None:
    """The second half of a name is not sent as the first word."""
    await crowd.ask("tell Anna Rossi I'm late", plan(("send_messages", {"to": "Rossi", "text": "I'm late"})), yes=True)
    assert [event["text"] for event in await waiting(crowd, "Anna Rossi")] == ["The owner says: I'm late"]


async def test_secrets_are_not_sent(home: House) -> None:
    """A secret of the daemon in a file is taken out of what is sent, and the sender is told."""
    redactor: Redactor = home.assembly.parts.redactor
    redactor.add(["hunter2-hunter2"])
    home.put("note.txt", text="the key is hunter2-hunter2")
    steps = plan(("find_files", {"name": "note.txt"}), ("read_files", {}), ("send_messages", {"to": "Anna"}))
    reply = await home.ask("read note.txt and send it to Anna", steps, yes=True)
    assert "secret" in reply.text and "hunter2" not in reply.text
    assert all("hunter2" not in json.dumps(event) for event in await waiting(home, "Anna"))
    rows = home.assembly.store.rows("select * from journal") + home.assembly.store.rows("select * from outbox")
    assert "hunter2" not in repr(rows)


def cut_off(house: House, *, after_put: bool) -> None:
    """Leave the journal as a crash would: the intent stands, and the message is or is not in the outbox."""
    store = house.assembly.store
    with store.transaction() as db:
        db.execute("update journal set state = 'intent', after = null")
        if not after_put:
            db.execute("delete from outbox")


@pytest.mark.parametrize("after_put", [True, False])
async def test_crash_around_sending_is_settled(home: House, after_put: bool) -> None:
    """After a crash the journal says what the outbox holds, and nothing is there twice."""
    await home.ask(LATE, yes=True)
    cut_off(home, after_put=after_put)
    await home.restart()
    states = [row["state"] for row in home.assembly.store.rows("select state from journal")]
    assert states == ["done" if after_put else "failed"]
    assert len(await waiting(home, "Anna")) == after_put
    talk = home.say("tell Anna that I'm here")
    if after_put:
        talk.unasked()
    else:
        await talk.answer(True)
    assert status(await talk.reply()) == "done"


async def test_repeat_of_an_effect_is_no_second_message(home: House) -> None:
    """The same effect of the same step of the same turn is found in the outbox, also once it was taken."""
    post = home.assembly.parts.actor._post
    effect = SendMessage("Anna", "socket", "main", "hello", "owner")
    prepared = post.prepare(effect, "t1", 1)
    assert prepared.inverse is None and prepared.before is not None
    assert not post.is_there(prepared.before)
    for _ in range(2):
        post.perform(effect, prepared.before)
    assert post.is_there(prepared.before) and len(await waiting(home, "Anna")) == 1
    await home.daemon.delivered(prepared.before)
    post.perform(effect, prepared.before)
    assert await waiting(home, "Anna") == []
    keys = {post.prepare(effect, turn, step).before for turn in ("t1", "t2") for step in (1, 2)}
    assert len(keys) == 4


def test_effect_survives_the_database() -> None:
    """The effect is read back as it was written, and says whom it is for."""
    effect = SendMessage("Anna", "socket", "main", "hello", "owner")
    assert effect_from_json(effect.to_json()) == effect
    assert effect.recipients() == ("Anna",) and effect.writes() == () and effect.reads() == ()


async def pass_time(house: House, **span: float) -> list[dict[str, Any]]:
    """Put the clock forward, let everything happen that is due; what the owner hears of it."""
    house.clock.forward(**span)
    await house.assembly.alarm.wake()
    await house.assembly.alarm.idle()
    return await waiting(house, "owner", "test")


async def test_schedule_sends_within_its_grant(home: House) -> None:
    """Leave for the recipient is asked when it is made; then each fire sends without a question."""
    await home.assembly.alarm.start()
    talk = home.say("every Friday at 9 tell Anna that the bins go out")
    question = await talk.question()
    assert "- each time, send a message to Anna" in question.text
    assert await home.daemon.consent(home.owner, question.token, True)
    assert status(await talk.reply()) == "done" and await waiting(home, "Anna") == []
    assert "send messages to Anna" in (await home.ask("what have I allowed?")).text
    await pass_time(home, hours=45)
    await pass_time(home, days=7)
    assert [event["text"] for event in await waiting(home, "Anna")] == ["The owner says: the bins go out"] * 2
    assert home.model.asked == []
    await home.assembly.alarm.close()


async def test_schedule_without_its_grant_asks(home: House) -> None:
    """Where the leave was revoked the first fire puts the question that a first message has."""
    await home.assembly.alarm.start()
    await home.ask("every Friday at 9 tell Anna that the bins go out", yes=True)
    revoked = await home.ask("revoke the permission for Anna")
    assert "ask again before I send a message to Anna" in revoked.text
    home.clock.forward(hours=45)
    await home.assembly.alarm.wake()
    found = await heard(home, "owner", "test")
    assert found["type"] == "consent_request" and "first message to Anna" in found["text"]
    assert await waiting(home, "Anna") == []
    await home.assembly.alarm.close()


async def test_grant_for_one_person_is_none_for_another(home: House) -> None:
    """The leave of a schedule is bound to its recipient."""
    await home.assembly.alarm.start()
    await home.ask("every Friday at 9 tell Anna that the bins go out", yes=True)
    talk = home.say("every Friday at 9 tell Bert that the bins go out")
    assert "send a message to Bert" in (await talk.question()).text
    await talk.answer_no()
    await home.assembly.alarm.close()


@pytest.mark.parametrize(
    "text",
    [
        "tell me that again",
        "tell me a joke",
        "tell us that story",
        "tell her that I'm late",
        "tell everyone that dinner is ready",
        "tell my wife that I'm late",
        "tell Anna what time it is",
        "tell Anna tomorrow that I'm late",
        "message me: hello",
        "text files in Downloads",
        "tell me the time in Tokyo: now",
        "send me a message: hello",
        "dimmi che ore sono",
        "dimmi che file ho",
        "di' a me che ore sono",
        "scrivi a tutti che arrivo",
        "scrivi che arrivo",
        "scrivi a file.txt che arrivo",
        "dis-moi que tout va bien",
        "dis à tout le monde que c'est prêt",
        "dis à ma femme que j'arrive",
        "dis que j'arrive",
        "sag mir dass alles gut ist",
        "sag mir, wie spät es ist",
        "sag ihr dass ich komme",
        "sag mal, dass geht doch nicht",
        "schreib mir: hallo",
        "schreib es auf",
        "sag allen, dass das Essen fertig ist",
        "dime que hora es",
        "dime que archivos tengo",
        "dile que llego tarde",
        "dile a mi mujer que llego",
        "escribe que llego",
    ],
)
def test_what_is_for_nobody_by_name_is_no_message(text: str) -> None:
    """Pronouns, groups and what only sounds like it are left to the model."""
    call = read_signals(text, load_lexicon(shipped_config("lexicon")), None).call
    assert call is None or call.tool != "send_messages"


def test_sentences_name_the_owner_in_every_language() -> None:
    """Each language has its words for the owner."""
    lexicon = load_lexicon(shipped_config("lexicon"))
    said = {lexicon.say(Sentence("people.owner_first"), language.code) for language in lexicon.languages}
    assert len(said) == len(lexicon.languages)

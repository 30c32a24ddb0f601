"""Schedules from a person's side: made, told, changed, fired and delivered by message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.house import House, connected, listening
from support.scripted import plan, say

LIST = plan(("find_files", {"extension": "pdf", "path": "Downloads"}))
MOVE = plan(("find_files", {"extension": "pdf", "path": "Downloads"}), ("move_files", {"to": "Archive"}))


@pytest.fixture
async def awake(house: House) -> AsyncIterator[House]:
    """A house whose alarm runs, on a clock that stands."""
    await house.assembly.alarm.start()
    yield house
    await house.assembly.alarm.close()


async def pass_time(house: House, **span: float) -> list[dict[str, Any]]:
    """Put the clock forward, let everything happen that is due; what waits to be delivered then, and is taken."""
    house.clock.forward(**span)
    await house.assembly.alarm.wake()
    await house.assembly.alarm.idle()
    found = await house.daemon.deliveries(house.owner, "test")
    for delivery in found:
        await house.daemon.delivered(delivery.id)
    return [dict(delivery.event) for delivery in found]


async def test_reminder_comes_once(awake: House) -> None:
    """A reminder needs no model and no question, says when it comes, and comes once at that time."""
    reply = await awake.ask("remind me tomorrow at 9 to call mum")
    assert reply.outcome["status"] == "done" and reply.undo is not None
    assert "call mum" in reply.text and "Thu 2026-11-19 09:00" in reply.text
    assert await pass_time(awake, hours=20) == []
    events = await pass_time(awake, hours=1)
    assert [event["text"] for event in events] == ["Reminder: call mum"]
    assert await pass_time(awake, days=3) == []
    assert awake.model.asked == []
    listed = (await awake.daemon.schedules(awake.owner))["schedules"]
    assert [(item["state"], [run["state"] for run in item["runs"]]) for item in listed] == [("done", ["done"])]


async def test_reminder_to_set_a_reminder_sets_none(awake: House) -> None:
    """What a reminder says is never read as a message."""
    await awake.ask("in 1 minute remind me to set a reminder")
    events = await pass_time(awake, minutes=1)
    assert [event["text"] for event in events] == ["Reminder: set a reminder"]
    assert len((await awake.daemon.schedules(awake.owner))["schedules"]) == 1


async def test_recurring_plan_is_resolved_afresh(awake: House) -> None:
    """A plan with a recurrence is planned once, and finds at each fire what is there then."""
    awake.put("Downloads/")
    reply = await awake.ask("every weekday at 9 list the pdf files in Downloads", LIST)
    assert reply.outcome["status"] == "done"
    awake.put("Downloads/a.pdf")
    first = await pass_time(awake, hours=21)
    awake.put("Downloads/b.pdf")
    second = await pass_time(awake, days=1)
    weekend = await pass_time(awake, days=2)
    assert "a.pdf" in first[0]["text"] and "b.pdf" not in first[0]["text"]
    assert "a.pdf" in second[0]["text"] and "b.pdf" in second[0]["text"]
    assert len(second[0]["text"].splitlines()) == 4 and "\\n" not in second[0]["text"]
    assert weekend == [] and len(awake.model.asked) == 1


async def test_plan_with_effects_is_granted_once_and_undone_by_message(awake: House) -> None:
    """Leave is asked when it is made, with its bounds; then each fire acts without a question, and can be undone."""
    awake.put("Downloads/a.pdf", "Archive/")
    talk = awake.say("every day at 9 move the pdf files in Downloads to Archive", MOVE)
    question = await talk.question()
    assert "~/Downloads" in question.text and "~/Archive" in question.text and "up to 20 files" in question.text
    assert awake.tree()["Downloads/a.pdf"] == "Downloads/a.pdf"
    assert await awake.daemon.consent(awake.owner, question.token, True)
    await talk.reply()
    events = await pass_time(awake, hours=21)
    assert events[0]["outcome"]["status"] == "done" and events[0]["undo"]["actions"] == 1
    assert "Archive/a.pdf" in awake.tree()
    await awake.ask("undo")
    assert "Downloads/a.pdf" in awake.tree()


async def test_fire_outside_its_grant_asks(awake: House) -> None:
    """A fire that would touch more than was granted puts a question to the conversation, and waits."""
    awake.put("Downloads/", "Archive/")
    await awake.ask("every day at 9 move the pdf files in Downloads to Archive", MOVE, yes=True)
    awake.put(*(f"Downloads/{number}.pdf" for number in range(30)))
    awake.clock.forward(hours=21)
    await awake.assembly.alarm.wake()
    event = await _delivered(awake, "consent_request")
    assert "Archive/0.pdf" not in awake.tree()
    assert (await awake.ask("yes")).outcome["status"] == "done"
    await awake.assembly.alarm.idle()
    assert "Archive/29.pdf" in awake.tree() and event["digest"]


async def asking(house: House) -> dict[str, Any]:
    """The question of a fire that needs more than was granted, left open by a daemon that was stopped."""
    house.put("Downloads/", "Archive/")
    await house.ask("every day at 9 move the pdf files in Downloads to Archive", MOVE, yes=True)
    house.put(*(f"Downloads/{number}.pdf" for number in range(30)))
    house.clock.forward(hours=21)
    await house.assembly.alarm.wake()
    return await left_open(house)


async def left_open(house: House) -> dict[str, Any]:
    """The question that comes next, and is left open by a daemon that is stopped."""
    question = await _delivered(house, "consent_request")
    for delivery in await house.daemon.deliveries(house.owner, "test"):
        await house.daemon.delivered(delivery.id)
    await house.daemon.close()
    await house.assembly.alarm.close()
    house.assembly.close()
    return question


async def runs(house: House) -> list[str]:
    """The states of the runs of the one schedule, newest first."""
    [listed] = (await house.daemon.schedules(house.owner))["schedules"]
    return [run["state"] for run in listed["runs"]]


@pytest.mark.parametrize("stops", [1, 3])
async def test_fire_that_waits_for_an_answer_goes_on_after_a_restart(awake: House, stops: int) -> None:
    """The same question is put again by the next daemon, however often; its yes does what it showed, once, and
    the ledger says so."""
    question = await asking(awake)
    for _ in range(stops - 1):
        awake.start()
        await awake.assembly.alarm.start()
        await left_open(awake)
    awake.start()
    await awake.assembly.alarm.start()
    again = await _delivered(awake, "consent_request")
    assert (again["token"], again["digest"]) == (question["token"], question["digest"])
    assert "Archive/0.pdf" not in awake.tree() and await runs(awake) == ["claimed"]
    assert await awake.daemon.consent(awake.owner, question["token"], True)
    await awake.assembly.alarm.idle()
    assert "Archive/29.pdf" in awake.tree() and await runs(awake) == ["done"]
    told = [delivery.event for delivery in await awake.daemon.deliveries(awake.owner, "test")]
    assert [event["outcome"]["status"] for event in told if event["type"] == "delivery"] == ["done"]


async def test_fire_whose_question_ran_out_while_nothing_ran_was_skipped(awake: House) -> None:
    """A question that nobody could answer in time is over: its fire was not carried out, and says why."""
    question = await asking(awake)
    awake.clock.forward(minutes=30)
    awake.start()
    await awake.assembly.alarm.start()
    await awake.assembly.alarm.idle()
    assert not await awake.daemon.consent(awake.owner, question["token"], True)
    assert "Archive/0.pdf" not in awake.tree() and await runs(awake) == ["skipped"]
    [told] = await awake.daemon.deliveries(awake.owner, "test")
    assert told.event["outcome"]["status"] == "refused"


async def _delivered(house: House, kind: str) -> dict[str, Any]:
    """The first delivery of a kind, once it is there."""
    async with asyncio.timeout(10):
        while True:
            for delivery in await house.daemon.deliveries(house.owner, "test"):
                if delivery.event["type"] == kind:
                    return dict(delivery.event)
            await asyncio.sleep(0.01)


async def test_no_leave_means_no_schedule(awake: House) -> None:
    """Without a yes nothing is scheduled, and the reply does not say that it is."""
    awake.put("Downloads/a.pdf", "Archive/")
    reply = await awake.ask("every day at 9 move the pdf files in Downloads to Archive", MOVE, yes=False)
    assert reply.outcome["status"] == "refused"
    assert (await awake.daemon.schedules(awake.owner))["schedules"] == []


async def test_pause_resume_change_delete_and_undo(awake: House) -> None:
    """A schedule is found by its words, and each change to it can be taken back."""
    await awake.ask("every day at 9 show the disk report", say("disk"))
    await awake.ask("remind me tomorrow at 10 to water the plants")
    assert (await awake.ask("pause the disk report")).outcome["status"] == "done"
    assert [item["state"] for item in (await awake.daemon.schedules(awake.owner))["schedules"]] == ["paused", "active"]
    assert await pass_time(awake, hours=21.5) == []
    assert (await awake.ask("resume the disk report")).outcome["status"] == "done"
    reply = await awake.ask("move the reminder about the plants to 11 am")
    assert "11:00" in reply.text
    events = await pass_time(awake, hours=1)
    assert events == []
    assert len(await pass_time(awake, hours=1)) == 1
    assert (await awake.ask("delete the schedule about the disk report")).outcome["status"] == "done"
    assert await pass_time(awake, days=1) == []
    assert (await awake.ask("undo")).outcome["status"] == "done"
    assert len(await pass_time(awake, days=1)) == 1


async def test_two_that_fit_are_a_question(awake: House) -> None:
    """A loose name that fits two schedules is asked back, and nothing is changed."""
    await awake.ask("remind me tomorrow at 10 to call mum")
    await awake.ask("remind me tomorrow at 11 to call dad")
    reply = await awake.ask("delete the reminder about the call")
    assert reply.outcome["status"] == "asked" and "call mum" in reply.text and "call dad" in reply.text
    assert len((await awake.daemon.schedules(awake.owner))["schedules"]) == 2


@pytest.mark.parametrize("text", ["is there a reminder on Friday?", "what reminders do I have?", "what did I miss?"])
async def test_questions_about_reminders_write_nothing(awake: House, text: str) -> None:
    """Asking for reminders makes none."""
    assert (await awake.ask(text)).outcome["status"] in ("done", "nothing")
    assert (await awake.daemon.schedules(awake.owner))["schedules"] == []


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("remind me to call mum", "When?"),
        ("remind me yesterday at 9 to call mum", "past"),
        ("remind me at 25:00 to call mum", "25:00"),
    ],
)
async def test_what_cannot_come_is_not_scheduled(awake: House, text: str, part: str) -> None:
    """A reminder without a time, in the past or at none is a question, never a promise."""
    reply = await awake.ask(text)
    assert reply.outcome["status"] == "asked" and part in reply.text
    assert (await awake.daemon.schedules(awake.owner))["schedules"] == []


async def test_snooze(awake: House) -> None:
    """“in 10 minutes” after a reminder came puts it off; with nothing before it, it is a question."""
    assert (await awake.ask("in 10 minutes")).outcome["status"] == "asked"
    await awake.ask("remind me in 5 minutes to stretch")
    await pass_time(awake, minutes=5)
    await awake.ask("in 10 minutes")
    assert [event["text"] for event in await pass_time(awake, minutes=10)] == ["Reminder: stretch"]


@pytest.mark.parametrize("lang", ["en", "it", "fr", "de", "es"])
async def test_reminder_comes_with_answers_that_put_it_off(awake: House, lang: str) -> None:
    """The texts that a channel shows as buttons under a reminder put it off in the language of the reminder."""
    awake.assembly = replace(awake.assembly, owner=replace(awake.owner, lang=lang))
    await awake.ask(
        {
            "en": "in 5 minutes remind me to stretch",
            "it": "tra 5 minuti ricordami di stretch",
            "fr": "dans 5 minutes rappelle-moi de stretch",
            "de": "in 5 Minuten erinnere mich an stretch",
            "es": "en 5 minutos recuérdame stretch",
        }[lang]
    )
    [event] = await pass_time(awake, minutes=5)
    assert len(event["replies"]) == 2
    for text, minutes in zip(event["replies"], (10, 60), strict=True):
        await awake.ask(text)
        assert await pass_time(awake, minutes=minutes - 1) == []
        [event] = await pass_time(awake, minutes=1)
        assert "stretch" in event["text"]


async def test_only_tell_me_if(awake: House) -> None:
    """A result that was not to be told is in the ledger, and nobody is told."""
    awake.put("Downloads/a.pdf")
    await awake.ask("every day at 9 list the pdf files in Downloads, only tell me if there are more than 1", LIST)
    assert await pass_time(awake, hours=21) == []
    awake.put("Downloads/b.pdf")
    assert len(await pass_time(awake, days=1)) == 1
    runs = (await awake.daemon.schedules(awake.owner))["schedules"][0]["runs"]
    assert [run["state"] for run in runs] == ["done", "done"]


async def test_missed_is_told_once(awake: House) -> None:
    """What was due while nothing ran, too long ago, is told as missed in one message; one catch-up is run."""
    awake.put("Downloads/a.pdf")
    await awake.ask("every day at 9 list the pdf files in Downloads", LIST)
    events = await pass_time(awake, days=4, minutes=-150)
    texts = [event["text"] for event in events]
    assert len(texts) == 2 and any("missed" in text for text in texts) and any("a.pdf" in text for text in texts)
    states = [run["state"] for run in (await awake.daemon.schedules(awake.owner))["schedules"][0]["runs"]]
    assert sorted(states) == ["done", "missed", "missed", "missed"]


async def test_skip_if_late(awake: House) -> None:
    """“if late, skip it” holds: a late instant is in the ledger as skipped, and not run."""
    awake.put("Downloads/")
    await awake.ask("every day at 9 list the pdf files in Downloads, if late, skip it", LIST)
    await pass_time(awake, days=1, minutes=-30)
    states = [run["state"] for run in (await awake.daemon.schedules(awake.owner))["schedules"][0]["runs"]]
    assert states == ["skipped"]


async def test_run_now(awake: House) -> None:
    """“run … now” carries it out at once, beside its times."""
    awake.put("Downloads/a.pdf")
    await awake.ask("every day at 9 list the pdf files in Downloads", LIST)
    await awake.ask("run the list in Downloads now")
    await awake.assembly.alarm.idle()
    assert len(await awake.daemon.deliveries(awake.owner, "test")) == 1


async def test_schedules_survive_a_restart(tmp_path: Path) -> None:
    """A reminder made before a restart comes after it."""
    house = House(tmp_path)
    await house.ask("remind me tomorrow at 9 to call mum")
    await house.restart()
    await house.assembly.alarm.start()
    assert len(await pass_time(house, hours=21)) == 1
    await house.assembly.alarm.close()
    await house.close()


async def test_socket_delivers_to_who_is_there_and_to_who_comes(house: House) -> None:
    """A reminder goes to the connected client, else to the next one that connects, and to nobody twice."""
    async with listening(house):
        await house.assembly.alarm.start()
        async with connected(house.places.socket) as wire:
            await wire.ask(id="1", type="message", text="remind me in 5 minutes to stretch")
            await wire.ask(id="2", type="message", text="remind me in 15 minutes to walk")
            house.clock.forward(minutes=5)
            await house.assembly.alarm.wake()
            event = await wire.next("delivery")
            assert event["text"] == "Reminder: stretch" and event["id"] is None
            await wire.send({"type": "received", "delivery": event["delivery"]})
        house.clock.forward(minutes=10)
        await house.assembly.alarm.wake()
        await house.assembly.alarm.idle()
        async with connected(house.places.socket) as wire:
            assert (await wire.next("delivery"))["text"] == "Reminder: walk"
            await wire.ask(id="3", type="status")
        await house.assembly.alarm.close()


async def test_calendar(awake: House) -> None:
    """The schedules come as iCalendar."""
    awake.put("Downloads/")
    await awake.ask("every weekday at 9 list the pdf files in Downloads", LIST)
    text = await awake.daemon.calendar(awake.owner)
    assert text.startswith("BEGIN:VCALENDAR") and "RRULE:FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR" in text


SPOKEN = {
    "it": (
        "ricordami domani alle 9 di chiamare mamma",
        "chiamare mamma",
        "che promemoria ho?",
        "sposta il promemoria della mamma alle 10",
        "metti in pausa il promemoria della mamma",
        "riprendi il promemoria della mamma",
        "cancella il promemoria della mamma",
        "annulla",
    ),
    "fr": (
        "rappelle-moi demain à 9 h d'appeler maman",
        "appeler maman",
        "quels rappels ai-je ?",
        "déplace le rappel de maman à 10 h",
        "mets en pause le rappel de maman",
        "reprends le rappel de maman",
        "supprime le rappel de maman",
        "annule ça",
    ),
    "de": (
        "erinnere mich morgen um 9 Uhr daran, Mama anzurufen",
        "Mama anzurufen",
        "welche Erinnerungen habe ich?",
        "verschieb die Erinnerung an Mama auf 10 Uhr",
        "pausiere die Erinnerung an Mama",
        "setz die Erinnerung an Mama fort",
        "lösch die Erinnerung an Mama",
        "mach das rückgängig",
    ),
    "es": (
        "recuérdame mañana a las 9 llamar a mamá",
        "llamar a mamá",
        "¿qué recordatorios tengo?",
        "mueve el recordatorio de mamá a las 10",
        "pausa el recordatorio de mamá",
        "reanuda el recordatorio de mamá",
        "borra el recordatorio de mamá",
        "deshazlo",
    ),
}


@pytest.mark.parametrize("lang", SPOKEN)
async def test_a_reminder_in_every_language(awake: House, lang: str) -> None:
    """Made, listed, moved, paused, resumed, deleted and brought back without the model, in each language."""
    make, name, listing, move, pause, resume, delete, undo = SPOKEN[lang]

    async def state() -> list[tuple[str, str, str]]:
        listed = (await awake.daemon.schedules(awake.owner))["schedules"]
        return [(item["name"], item["state"], (item["next"] or ["-"])[0][11:16]) for item in listed]

    await awake.ask(make)
    assert await state() == [(name, "active", "09:00")]
    assert name in (await awake.ask(listing)).text
    await awake.ask(move)
    assert [item[2] for item in await state()] == ["10:00"]
    await awake.ask(pause)
    assert [item[1] for item in await state()] == ["paused"]
    await awake.ask(resume)
    assert [item[1] for item in await state()] == ["active"]
    await awake.ask(delete)
    assert await state() == []
    await awake.ask(undo)
    assert len(await state()) == 1 and awake.model.asked == []


async def test_new_time_of_day_keeps_the_rule(awake: House) -> None:
    """A changed time moves what comes again; it still comes again."""
    awake.put("Downloads/")
    await awake.ask("every day at 9 list the pdf files in Downloads", LIST)
    await awake.ask("change the time of the pdf list to 7:30")
    listed = (await awake.daemon.schedules(awake.owner))["schedules"][0]
    assert [fire[11:16] for fire in listed["next"]] == ["07:30"] * 5

"""No secret in anything that Metnos says, asks a model, logs or stores; and no data of a person's harmed by that."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import logging
import sqlite3
import sys
import urllib.parse
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from support.house import House, Talk, connected, house_places, listening
from support.scripted import fails, plan, say

from metnosd.assemble import assemble
from metnosd.credentials import load_credentials
from metnosd.logs import configure_logs
from metnosd.message import Reply
from metnosd.redact import MARK, Redactor
from metnosd.service import ServiceError

TOKEN = "123456789:AAF-x_Yz/qw+E9"
NAMED = "hunter2 Gehe!m-wort"
ODD = "p\"w'd\\r é💥 & <x>"
BROKEN_UP = "first line\nsecond\tline-9"
SECRETS = {"telegram_token": TOKEN, "mail_password": NAMED, "odd_one": ODD, "private_key": BROKEN_UP}


def spellings(secret: str) -> set[str]:
    """Ways in which `secret` can stand in a text, each of which shows it."""
    found = {secret}
    for _ in range(3):
        found |= {json.dumps(one)[1:-1] for one in found} | {json.dumps(one, ensure_ascii=False)[1:-1] for one in found}
    found |= {repr(secret)[1:-1], ascii(secret)[1:-1], urllib.parse.quote(secret), urllib.parse.quote(secret, safe="")}
    data = secret.encode()
    for before in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            # The digits in the middle are the same whatever stands before and after.
            digits = encode(bytes(before) + data + bytes(3)).decode()
            found.add(digits[-(-before * 8 // 6) : (before + len(data)) * 8 // 6])
    return found


def leaks(texts: list[tuple[str, str]], *secrets: str) -> list[str]:
    """Where one of `secrets` (all planted ones) stands in one of `texts`, each with a name of its own."""
    ways = {way.casefold() for secret in secrets or SECRETS.values() for way in spellings(secret)}
    found = []
    for where, text in texts:
        folded = text.casefold()
        at = next((folded.find(way) for way in sorted(ways) if way in folded), None)
        if at is not None:
            found.append(f"{where}: …{text[max(0, at - 60) : at + 60]}…")
    return found


def assert_clean(texts: list[tuple[str, str]], *secrets: str) -> None:
    """Fail with every place where one of `secrets` stands in `texts`."""
    found = leaks(texts, *secrets)
    assert not found, "\n".join(found)


@contextlib.contextmanager
def logging_to(stream: io.StringIO, redactor: Redactor) -> Iterator[None]:
    """Log as `metnosd serve` does, into `stream`; as it was after the block."""
    root = logging.getLogger()
    handlers, level, raising = root.handlers[:], root.level, logging.raiseExceptions
    root.handlers = []
    try:
        with contextlib.redirect_stderr(stream):
            configure_logs("debug", redactor)
            yield
    finally:
        root.handlers, logging.raiseExceptions = handlers, raising
        root.setLevel(level)


class Secretive:
    """A house whose daemon knows secrets, and everything that anybody hears, sees or stores of it."""

    def __init__(self, folder: Path, redactor: Redactor, **settings: Any) -> None:
        self.redactor = redactor
        self.house = House(folder, settings=settings or None)
        self.heard: list[tuple[str, str]] = []
        self.talks: list[Talk] = []

    def hear(self, where: str, value: object) -> None:
        """Take note of something that was said."""
        self.heard.append((where, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))

    def say(self, text: str, *answers: Any, outside: tuple[str, ...] = ()) -> Talk:
        """Begin a turn."""
        house = self.house
        house.model.will(*answers)
        message = house.daemon.message(house.owner, "test", "main", text, lang=None, message_id=None, outside=outside)
        talk = Talk(house, house.owner)
        talk.task = asyncio.create_task(house.daemon.send(message, talk.hear))
        self.talks.append(talk)
        return talk

    async def ask(self, text: str, *answers: Any, yes: bool | None = None, outside: tuple[str, ...] = ()) -> Reply:
        """Take a whole turn."""
        talk = self.say(text, *answers, outside=outside)
        if yes is not None:
            assert await talk.answer(yes)
        reply = await talk.reply()
        self.hear(f"reply to {text[:30]!r}", reply.to_json())
        assert not self.house.model.answers, "the model was not asked"
        return reply

    def refused(self, text: str, lang: str | None = None) -> None:
        """Send what is refused at once."""
        with pytest.raises(ServiceError) as caught:
            self.house.daemon.message(self.house.owner, "test", "main", text, lang=lang, message_id=None)
        self.hear("error", str(caught.value))

    async def look(self, *texts: str) -> None:
        """Look at history, status and schedules, and at the plans of `texts` with what the script has next."""
        daemon, owner = self.house.daemon, self.house.owner
        self.hear("history", await daemon.history(owner))
        self.hear("status", await daemon.status())
        self.hear("schedules", await daemon.schedules(owner))
        for text in texts:
            self.hear(f"plan of {text!r}", await daemon.plan(owner, text, lang=None))

    def database(self) -> list[tuple[str, str]]:
        """Every text of every row, but of the questions that are open."""
        found = []
        with contextlib.closing(sqlite3.connect(self.house.places.database)) as db:
            tables = [name for (name,) in db.execute("select name from sqlite_master where type = 'table'")]
            assert {"turns", "journal", "consents", "grants"} <= set(tables)
            for table in tables:
                rows = db.execute(f"select * from {table}")
                columns = [column[0] for column in rows.description]
                for values in rows:
                    row = dict(zip(columns, values, strict=True))
                    if table == "consents" and row["state"] == "open":
                        continue
                    texts = {key: v.decode("latin-1") if isinstance(v, bytes) else v for key, v in row.items()}
                    found += [(f"{table}.{key}", text) for key, text in texts.items() if isinstance(text, str)]
        return found

    def prompts(self) -> list[tuple[str, str]]:
        """All that the model was asked, with the grammars."""
        asked = self.house.model.asked
        return [
            *(("prompt", text) for one in asked for _, text in one.messages),
            *(("grammar", one.grammar or "") for one in asked),
        ]

    def events(self) -> list[tuple[str, str]]:
        """All that was heard while turns were under way."""
        events = [event for talk in self.talks for event in talk.events]
        return [(type(event).__name__, json.dumps(event.to_json(), ensure_ascii=False)) for event in events]

    def everything(self) -> list[tuple[str, str]]:
        """All of it."""
        return [*self.heard, *self.events(), *self.prompts(), *self.database()]


@pytest.fixture
def redactor(tmp_path: Path) -> Redactor:
    """One that knows the planted secrets as `metnosd serve` comes to know them: from all three sources."""
    places = house_places(tmp_path)
    places.config_dir.mkdir(parents=True, exist_ok=True)
    own = places.config_dir / "secrets.toml"
    own.write_text(f"mail_password = {json.dumps(NAMED)}\nprivate_key = {json.dumps(BROKEN_UP)}\n")
    own.chmod(0o600)
    (tmp_path / "creds").mkdir()
    (tmp_path / "creds/odd_one").write_text(ODD + "\n")
    (tmp_path / "creds/odd_one").chmod(0o400)
    environ = {"METNOS_SECRET_TELEGRAM_TOKEN": TOKEN, "CREDENTIALS_DIRECTORY": str(tmp_path / "creds")}
    found = load_credentials(places, environ)
    assert set(found.values()) == set(SECRETS.values())
    return Redactor(found.values())


@pytest.fixture
def with_secrets(redactor: Redactor, monkeypatch: pytest.MonkeyPatch) -> Redactor:
    """Every house that is started knows them."""

    def assembled(*args: Any, **kwargs: Any) -> Any:
        return assemble(*args, **{**kwargs, "redactor": redactor})

    monkeypatch.setattr("support.house.assemble", assembled)
    return redactor


@pytest.fixture
async def busy(tmp_path: Path, with_secrets: Redactor) -> AsyncIterator[Secretive]:
    """A daemon that knows the secrets, over a home that holds them in contents and in names."""
    made = Secretive(tmp_path, with_secrets)
    made.house.put("Notes/plain.txt", text=f"the token is {TOKEN}, keep it\n{ODD}\n{NAMED}\n")
    made.house.put("Notes/escaped.json", text=json.dumps({"a": list(SECRETS.values())}))
    made.house.put("Notes/encoded.txt", text=base64.b64encode(f"user:{TOKEN}".encode()).decode())
    made.house.put("Notes/url.txt", text=f"https://x/?key={urllib.parse.quote(TOKEN, safe='')}")
    made.house.put("Notes/key.txt", text=BROKEN_UP)
    made.house.put(f"Keys/key {NAMED}.txt", f"Keys/{ODD.replace('/', '')}.txt", "Box/")
    yield made
    await made.house.close()


READ = plan(("find_files", {"path": "Notes"}), ("read_files", {}))
LIST = plan(("find_files", {"path": "Keys"}))


async def read_and_find(busy: Secretive) -> None:
    """Ask for secrets, read what holds them and list what is named by them, also as what the last answer listed."""
    told = " ".join([TOKEN, repr(ODD), NAMED, BROKEN_UP, base64.b64encode(TOKEN.encode()).decode()])
    await busy.ask("tell me the bot token", say(f"It is {told}"))
    await busy.ask(f"is {TOKEN} the bot token, or {NAMED}, or {ODD}?", say(f"Yes: {TOKEN}"))
    reply = await busy.ask("read the files in Notes", READ)
    assert reply.outcome["status"] == "done" and MARK in reply.text
    await busy.ask("count them")
    await busy.ask("the first 2 of them")
    assert MARK in (await busy.ask("find the files in Keys", LIST)).text
    await busy.ask("what is in Keys?", plan(("list_dirs", {"path": "Keys"})))
    await busy.ask("md5 of the files in Keys", plan(("find_files", {"path": "Keys"}), ("compute_signatures", {})))
    inside = plan(("find_files", {"contains": "the token is"}))
    await busy.ask("find files with 'the token is'", inside)


async def forward_and_fail(busy: Secretive, patch: pytest.MonkeyPatch) -> None:
    """Forward texts that hold secrets; let executors, effects, the model and the plan fail with secrets."""
    await busy.ask("", outside=(f"your code is {TOKEN}", ODD))
    await busy.ask("count them")
    await busy.ask("the first 2 of them")
    await busy.ask("count these", outside=(NAMED, BROKEN_UP))
    await busy.ask("read a.txt", plan(("read_files", {"path": f"{NAMED}.txt"})))
    await busy.ask(
        "rename the files in Notes", plan(("find_files", {"path": "Notes"}), ("rename_files", {"to": TOKEN}))
    )

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(f"no such key: {TOKEN} {ODD!r} {NAMED} {BROKEN_UP}")

    for target in ("metnosd.executors.find._items", "metnosd.resolve.resolve_arguments", "metnosd.turn.turn_pool"):
        with patch.context() as inner:
            inner.setattr(target, broken)
            busy.house.model.answers.clear()
            talk = busy.say("find the files in Keys", LIST)
            busy.hear(target, (await talk.reply()).to_json())
            busy.house.model.answers.clear()
    with patch.context() as inner:
        inner.setattr("metnosd.act.perform", broken)
        await busy.ask("delete plain.txt", plan(("find_files", {"name": "plain.txt"}), ("delete_files", {})), yes=True)
    for code in ("unavailable", "died", "context", "decode", "unheard of"):
        await busy.ask("find the files in Keys", fails(code, f"401 for /bot{TOKEN}/x: {ODD} {NAMED}"))


async def act_and_undo(busy: Secretive) -> None:
    """Write, copy, move, pack and delete what holds secrets; say yes and no; undo and redo."""
    write = plan(("write_files", {"path": "Notes/new.txt", "text": f"{TOKEN}\n{ODD}"}))
    await busy.ask(f"write '{TOKEN}' into Notes/said.txt", _write("Notes/said.txt", MARK))
    await busy.ask("write the token into Notes/new.txt", write, yes=False)
    await busy.ask("write the token into Notes/new.txt", write, yes=True)
    copy = plan(("find_files", {"path": "Notes"}), ("copy_files", {"to": "Box"}))
    await busy.ask("copy the files in Notes to Box", copy, yes=True)
    all_in_one = plan(("find_files", {"path": "Notes"}), ("read_files", {}), ("write_files", {"path": "all.txt"}))
    await busy.ask("read the files in Notes and write it all into all.txt", all_in_one, yes=True)
    pack = plan(("find_files", {"path": "Notes"}), ("compress_files", {}))
    await busy.ask("compress the files in Notes", pack, yes=True)
    delete = plan(("find_files", {"path": "Notes"}), ("delete_files", {}))
    await busy.ask("delete the files in Notes", delete, yes=True)
    for text in ("undo", "redo", "undo", "what can you undo?", "what did you do?", "undo the copying", "help"):
        await busy.ask(text)


def _write(path: str, text: str) -> str:
    return plan(("write_files", {"path": path, "text": text}))


async def test_no_secret_is_left_anywhere_after_a_busy_run(busy: Secretive, monkeypatch: pytest.MonkeyPatch) -> None:
    """In no reply, event, prompt, grammar, history, status, plan, error, log line or row: no secret in any spelling."""
    log = io.StringIO()
    with logging_to(log, busy.redactor):
        structlog.get_logger().info("begins", token=TOKEN)
        logging.getLogger("some.library").warning("GET /bot%s/getMe %r", TOKEN, ODD)
        await read_and_find(busy)
        await act_and_undo(busy)
        await forward_and_fail(busy, monkeypatch)
        busy.refused("find it", lang="tlh")
        busy.refused(f"{TOKEN} " * 6000)
        busy.house.model.will(LIST)
        await busy.look(f"find {TOKEN} in Keys", "undo")
        await busy.house.restart()
        await busy.ask("what did you do?")
        await busy.ask("find the files in Keys", LIST)
        await busy.look()
        print("done", file=sys.stderr)
    assert log.getvalue().endswith("done\n") and MARK in log.getvalue() and "executor_failed" in log.getvalue()
    texts = [*busy.everything(), *(("log", line) for line in log.getvalue().splitlines()), ("log", log.getvalue())]
    assert {where.split(".")[0] for where, _ in busy.database()} >= {"turns", "journal", "consents"}
    assert_clean(texts)


@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.parametrize("restart", [False, True])
async def test_question_about_secrets_shows_none(busy: Secretive, answer: bool, restart: bool) -> None:
    """A question on a text and on names that are secrets shows none, nor do its steps and its full list; when it was
    answered none is left in the database; what is done is what was planned, byte for byte."""
    house = busy.house
    text = f"{TOKEN}\n{ODD}\n{NAMED}"
    talk = busy.say("write the secrets into new.txt", _write("new.txt", text))
    question = await talk.question()
    assert MARK in question.text
    reply = await busy.ask("show all")
    assert MARK in reply.text
    if restart:
        await house.restart()
    assert await house.daemon.consent(house.owner, question.token, answer)
    if not restart:
        busy.hear("reply", (await talk.reply()).to_json())
    await busy.look()
    assert house.tree().get("new.txt") == (text.encode().decode("latin-1") if answer else None)
    assert_clean(busy.everything())


async def test_question_with_a_long_list_shows_no_secret(busy: Secretive) -> None:
    """Neither the first lines nor the full list of a question on many files names a secret that is in their names."""
    busy.house.put(*(f"Many/{number} {NAMED}.txt" for number in range(30)))
    talk = busy.say("delete the files in Many", plan(("find_files", {"path": "Many"}), ("delete_files", {})))
    question = await talk.question()
    assert question.full_text is not None and MARK in question.full_text
    busy.hear("reply", (await talk.answer_no()).to_json())
    assert_clean(busy.everything())


@pytest.mark.parametrize("way", ["expired", "cancelled", "expired after a restart"])
async def test_question_that_is_over_leaves_no_secret(busy: Secretive, way: str) -> None:
    """A question that nobody can answer any more is closed, and no secret stays of it in the database."""
    house = busy.house
    talk = busy.say("write the secret into new.txt", _write("new.txt", TOKEN))
    question = await talk.question()
    if way == "cancelled":
        await busy.ask("stop")
        await talk.reply()
    else:
        if way == "expired after a restart":
            await house.restart()
        house.clock.forward(minutes=11)
        assert not await house.daemon.consent(house.owner, question.token, True)
        await house.restart()
        await busy.ask("yes")
    with contextlib.closing(sqlite3.connect(house.places.database)) as db:
        rows = db.execute("select resolved, state from consents").fetchall()
    assert_clean([(f"consents.resolved, {state}", resolved) for resolved, state in rows])


async def test_policy_that_holds_a_secret_tells_none(busy: Secretive) -> None:
    """A policy file whose mistake quotes a secret denies, and neither the reply, the status nor the log quotes it."""
    own = busy.house.places.config_dir / "policy.toml"
    log = io.StringIO()
    with logging_to(log, busy.redactor):
        own.write_text(f'[levels.supervised]\n"fs:read" = "{TOKEN}"\n')
        await busy.ask("find the files in Keys")
        await busy.ask("undo")
        await busy.look()
        busy.hear("plan", await busy.house.daemon.plan(busy.house.owner, "undo", lang=None, model=False))
        own.unlink()
    assert (await busy.house.daemon.status())["policy"]["faults"] != []
    assert_clean([*busy.everything(), ("log", log.getvalue())])


async def test_status_of_a_failing_model_tells_no_secret(busy: Secretive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why the model does not run, or where a channel listens, is told without the secrets that it quotes."""
    daemon = busy.house.daemon
    monkeypatch.setattr(daemon, "_status", lambda: {"model": {"state": "failed", "reason": f"GET ?key={TOKEN}: 401"}})
    assert_clean([("status", json.dumps(await daemon.status()))])


@pytest.mark.parametrize(
    "answers",
    [
        [fails("decode", f"401 for /bot{TOKEN}/x")],
        ["no plan", "no plan"],
        [plan((TOKEN, {})), plan((TOKEN, {}))],
        [plan(("find_files", {"path": NAMED}))],
        [plan(("find_files", {"name": TOKEN}))],
        [plan(("find_files", {"path": "Keys", "modified": TOKEN}))] * 2,
        [say(f"It is {TOKEN}.")],
    ],
)
async def test_plan_that_holds_a_secret_tells_none(busy: Secretive, answers: list[Any]) -> None:
    """What `metnosd plan` shows of a model that writes a secret, or fails with one, holds none; nor does a retry."""
    busy.house.model.will(*answers)
    await busy.look("find the files in Keys")
    busy.house.model.answers.clear()
    assert_clean(busy.everything())


async def test_retry_tells_the_model_no_secret(busy: Secretive) -> None:
    """A first answer that quotes a secret is told to the model as wrong without it."""
    wrong = plan(("find_files", {"path": "Keys"}), (f"mail_{TOKEN}", {}))
    await busy.ask("find the files in Keys", wrong, LIST)
    assert len(busy.house.model.asked) == 2
    assert_clean(busy.prompts())


async def test_plan_shows_no_secret_in_a_path(busy: Secretive) -> None:
    """What a path of the plan was found to be is shown without the secret in its name."""
    busy.house.put(f"Docs {NAMED}/Inner/a.txt")
    busy.house.model.will(plan(("find_files", {"path": "Inner"})))
    await busy.look("find the files in Inner")
    assert_clean(busy.heard)


async def test_errors_to_channels_hold_no_secret(busy: Secretive) -> None:
    """What is sent in the wrong place is not sent back: neither as a language, a type, a key nor a count."""
    with contextlib.suppress(ServiceError):
        busy.refused("find it", lang=TOKEN)
    requests: list[dict[str, Any]] = [
        {"type": TOKEN},
        {"type": "message", "text": "hello", "lang": TOKEN},
        {"type": "consent", "token": TOKEN, "answer": TOKEN},
        {"type": "undo", "count": TOKEN},
        {"type": "cancel", "message": TOKEN},
        {"type": "message", "text": [TOKEN]},
        {"type": "plan", "text": f"{TOKEN} " * 6000},
    ]
    async with listening(busy.house), connected(busy.house.places.socket) as wire:
        for number, request in enumerate(requests):
            await wire.send({"id": number, **request})
            busy.hear(f"socket {request['type'][:8]}", await wire.next("error", "reply", "consent", "plan"))
        await wire.raw(f'{{"id": "{TOKEN}", "type": }}\n'.encode())
        busy.hear("socket", await wire.next("error"))
    assert_clean(busy.heard)


async def test_content_is_never_altered(busy: Secretive) -> None:
    """What is copied, moved, packed and unpacked, read and written, overwritten and brought back keeps its secrets."""
    house = busy.house
    notes = {name: (house.home / "Notes" / name).read_bytes() for name in ("plain.txt", "escaped.json", "key.txt")}
    one = ("find_files", {"name": "plain.txt"})
    await busy.ask("copy plain.txt to Box", plan(one, ("copy_files", {"to": "Box"})), yes=True)
    assert (house.home / "Box/plain.txt").read_bytes() == notes["plain.txt"]
    (house.home / "Box/plain.txt").unlink()
    move = plan(("find_files", {"path": "Notes"}), ("move_files", {"to": "Box"}))
    await busy.ask("move the files in Notes to Box", move, yes=True)
    assert {name: (house.home / "Box" / name).read_bytes() for name in notes} == notes
    await busy.ask("undo")
    pack = plan(("find_files", {"path": "Notes"}), ("compress_files", {"to": "all.zip"}))
    await busy.ask("compress the files in Notes into all.zip", pack, yes=True)
    with zipfile.ZipFile(house.home / "all.zip") as packed:
        assert {name: packed.read(name) for name in notes} == notes
    unpack = plan(("find_files", {"name": "all.zip"}), ("extract_archives", {"to": "Back"}))
    await busy.ask("extract all.zip into Back", unpack, yes=True)
    assert {name: (house.home / "Back" / name).read_bytes() for name in notes} == notes
    again = plan(("read_files", {"path": "Notes/plain.txt"}), ("write_files", {"path": "again.txt"}))
    await busy.ask("read Notes/plain.txt and write it into again.txt", again, yes=True)
    assert (house.home / "again.txt").read_bytes() == notes["plain.txt"]
    over = plan(("write_files", {"path": "Notes/plain.txt", "text": "new", "mode": "replace"}))
    await busy.ask("replace Notes/plain.txt by 'new'", over, yes=True)
    await busy.ask("undo")
    assert (house.home / "Notes/plain.txt").read_bytes() == notes["plain.txt"]
    delete = plan(("find_files", {"path": "Notes"}), ("delete_files", {}))
    await busy.ask("delete the files in Notes", delete, yes=True)
    await house.restart()
    await busy.ask("undo")
    assert {name: (house.home / "Notes" / name).read_bytes() for name in notes} == notes
    assert_clean(busy.everything())


async def test_what_was_read_before_a_restart_is_written_unaltered(busy: Secretive) -> None:
    """A plan that reads and writes, approved after a restart, writes what it had read, secrets and all."""
    house = busy.house
    again = plan(("read_files", {"path": "Notes/plain.txt"}), ("write_files", {"path": "again.txt"}))
    talk = busy.say("read Notes/plain.txt and write it into again.txt", again)
    question = await talk.question()
    await house.restart()
    assert await house.daemon.consent(house.owner, question.token, True)
    assert (house.home / "again.txt").read_bytes() == (house.home / "Notes/plain.txt").read_bytes()
    assert_clean(busy.everything())


MOVE_KEYS = plan(("find_files", {"path": "Keys"}), ("move_files", {"to": "Box"}))


@pytest.mark.parametrize("restart", [False, True])
async def test_names_that_are_secrets_can_be_acted_on_and_undone(busy: Secretive, restart: bool) -> None:
    """A file whose name holds a secret is moved, brought back and moved again under exactly its name."""
    house = busy.house
    before = house.tree()
    await busy.ask("move the files in Keys to Box", MOVE_KEYS, yes=True)
    moved = house.tree()
    assert f"Box/key {NAMED}.txt" in moved and len(moved) == len(before)
    for text, tree in (("undo", before), ("redo", moved), ("undo", before)):
        if restart:
            await house.restart()
        assert (await busy.ask(text)).outcome["status"] == "done"
        assert house.tree() == tree


async def test_acting_on_names_that_are_secrets_tells_none(busy: Secretive) -> None:
    """Questions, replies and history of effects on such names show none."""
    await busy.ask("move the files in Keys to Box", MOVE_KEYS, yes=True)
    await busy.ask("undo")
    await busy.ask("redo")
    await busy.ask("what can you undo?")
    await busy.look()
    assert_clean([*busy.heard, *busy.events(), *busy.prompts()])


async def test_acting_on_names_that_are_secrets_stores_none(busy: Secretive) -> None:
    """Of a name that was acted on, only the inverse keeps the secret, which takes it back; a spent one does not."""
    await busy.ask("move the files in Keys to Box", MOVE_KEYS, yes=True)
    assert_clean([(where, text) for where, text in busy.database() if where != "journal.inverse"])
    await busy.ask("undo")
    with contextlib.closing(sqlite3.connect(busy.house.places.database)) as db:
        spent = db.execute("select inverse from journal where undone_by is not null").fetchall()
    assert len(spent) == 2
    assert_clean([("journal.inverse", text) for (text,) in spent])


async def test_crash_while_acting_on_a_name_that_is_a_secret_is_settled_rightly(busy: Secretive) -> None:
    """An intent that a crash left open, on a name that holds a secret, is found to have happened, and is undone."""
    house = busy.house
    before = house.tree()
    journal = house.assembly.parts.actor._journal
    journal.done = lambda *_row: None  # type: ignore[method-assign]
    await busy.ask("move the files in Keys to Box", MOVE_KEYS, yes=True)
    await house.close()
    house.assembly = house._assemble()
    with contextlib.closing(sqlite3.connect(house.places.database)) as db:
        assert db.execute("select distinct state from journal").fetchall() == [("done",)]
    await busy.ask("undo")
    assert house.tree() == before


@pytest.mark.parametrize("secret", ['pass-word"', 'pass-word"}', "pass-word\\", '"pass-word', '","text":"pass'])
async def test_secret_that_looks_like_json_breaks_no_row(tmp_path: Path, secret: str, with_secrets: Redactor) -> None:
    """Whatever signs a secret begins or ends with, what is stored stays readable: done, told and undone as ever."""
    with_secrets.add([secret])
    house = House(tmp_path)
    bare = secret.strip('"}\\')
    house.put("a.txt", text="old")
    for text in (secret, bare):
        for mode in ("replace", "append"):
            args = {"path": "a.txt", "text": text, "mode": mode}
            reply = await house.ask("write the secret into a.txt", plan(("write_files", args)), yes=True)
            assert reply.outcome["status"] == "done"
            await house.restart()
            assert (await house.undo()).outcome["status"] == "done"
            assert house.tree() == {"a.txt": "old"}
    history = await house.daemon.history(house.owner)
    assert [len(turn["effects"]) for turn in history["turns"]] == [1] * 8
    with contextlib.closing(sqlite3.connect(house.places.database)) as db:
        for column, table in (
            ("resolved", "consents"),
            ("effect", "journal"),
            ("inverse", "journal"),
            ("reply", "turns"),
        ):
            for (text,) in db.execute(f"select {column} from {table} where {column} is not null"):
                assert secret not in _texts_in(json.loads(text)), (table, column)
    await house.close()


def _texts_in(value: Any) -> str:
    """All texts in a JSON value."""
    if isinstance(value, dict):
        return "\0".join(_texts_in(item) for pair in value.items() for item in pair)
    if isinstance(value, list):
        return "\0".join(_texts_in(item) for item in value)
    return value if isinstance(value, str) else ""


@pytest.mark.parametrize(
    ("known", "said"), [("pa\u0301ssword-9", "p\u00e1ssword-9"), ("p\u00e1ssword-9", "pa\u0301ssword-9")]
)
async def test_secret_in_another_composition_is_found(
    busy: Secretive, with_secrets: Redactor, known: str, said: str
) -> None:
    """A secret with accents is the same secret whether they are composed or not (Unicode Standard Annex 15)."""
    with_secrets.add([known])
    busy.house.put("Other/a.txt", text=f"it is {said}")
    await busy.ask(f"is it {said}?", say(f"It is {said}."))
    await busy.ask(f"is it {known}?", say(f"It is {known}."))
    await busy.ask("read the files in Other", plan(("find_files", {"path": "Other"}), ("read_files", {})))
    assert_clean(busy.everything(), known, said)


@pytest.mark.parametrize("shown", [len(TOKEN) - 8, len(TOKEN) - 4, len(TOKEN) - 1])
async def test_secret_that_is_cut_is_not_shown_in_part(tmp_path: Path, with_secrets: Redactor, shown: int) -> None:
    """A file that is read up to a bound inside a secret shows nothing of it that would be enough to guess the rest."""
    before = "the token is "
    house = Secretive(tmp_path, with_secrets, files={"max_read_bytes": len(before) + shown})
    house.house.put("a.txt", text=f"{before}{TOKEN} and more")
    reply = await house.ask("read a.txt", plan(("read_files", {"path": "a.txt"})))
    assert before.strip() in reply.text
    await house.house.close()
    assert not [text for _, text in house.everything() if TOKEN[:12] in text]

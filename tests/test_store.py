"""The database: whole transactions, other writers, restarts, values that JSON has no word for."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metnosd.sentence import say
from metnosd.store import MIGRATIONS, Store, from_text, to_text

TURN = {
    "user": "owner",
    "channel": "test",
    "conversation": "main",
    "text": "hi",
    "lang": "en",
    "received_at": "2026-11-18T12:00:00+00:00",
    "kind": "act",
    "state": "open",
    "reply": None,
    "entries": None,
}


def add(store: Store, number: object) -> None:
    """One more turn."""
    with store.transaction() as db:
        db.table("turns").insert({"id": f"t{number}", "message_id": f"m{number}", **TURN})


def count(store: Store) -> int:
    """How many turns there are."""
    return int(store.rows("select count(*) as n from turns")[0]["n"])


def test_file_is_the_owners_alone(tmp_path: Path) -> None:
    """The database and its folder are open to nobody else."""
    store = Store(tmp_path / "deep" / "metnosd.db")
    assert stat.S_IMODE((tmp_path / "deep" / "metnosd.db").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "deep").stat().st_mode) == 0o700
    store.close()


def test_opening_again_keeps_everything(tmp_path: Path) -> None:
    """A file that is opened again is at the newest version and has its rows."""
    store = Store(tmp_path / "a.db")
    add(store, 1)
    store.close()
    store = Store(tmp_path / "a.db")
    assert count(store) == 1
    assert store.rows("pragma user_version")[0]["user_version"] == len(MIGRATIONS)
    assert store.rows("pragma journal_mode")[0]["journal_mode"] == "wal"
    store.close()


def test_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    """An exception in a transaction takes back all of it, also what an inner one did."""
    store = Store(tmp_path / "a.db")
    with pytest.raises(RuntimeError), store.transaction() as db:
        db.table("turns").insert({"id": "t1", "message_id": "m1", **TURN})
        add(store, 2)
        raise RuntimeError
    assert count(store) == 0
    add(store, 3)
    assert count(store) == 1
    store.close()


def test_other_connection_sees_nothing_before_the_end(tmp_path: Path) -> None:
    """What a transaction writes is visible to others only when it has ended."""
    store = Store(tmp_path / "a.db")
    other = sqlite3.connect(tmp_path / "a.db")
    with store.transaction() as db:
        db.table("turns").insert({"id": "t1", "message_id": "m1", **TURN})
        assert other.execute("select count(*) from turns").fetchone() == (0,)
    assert other.execute("select count(*) from turns").fetchone() == (1,)
    other.close()
    store.close()


def test_failed_migration_leaves_the_old_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration that fails changes nothing, and the next start tries it again."""

    def half(db: object) -> None:
        db.execute("create table half (a)")  # type: ignore[attr-defined]
        raise RuntimeError

    Store(tmp_path / "a.db").close()
    monkeypatch.setattr("metnosd.store.MIGRATIONS", (*MIGRATIONS, half))
    with pytest.raises(RuntimeError):
        Store(tmp_path / "a.db")
    monkeypatch.undo()
    store = Store(tmp_path / "a.db")
    assert store.rows("select name from sqlite_master where name = 'half'") == []
    store.close()


def test_many_threads_lose_nothing(tmp_path: Path) -> None:
    """Writers in many threads all get through."""
    store = Store(tmp_path / "a.db")
    threads = [threading.Thread(target=lambda n=n: [add(store, f"{n}.{m}") for m in range(10)]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count(store) == 80
    store.close()


_HOLD = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("begin exclusive")
print("held", flush=True)
sys.stdin.readline()
db.execute("commit")
db.close()
"""


def test_another_process_is_waited_for(tmp_path: Path) -> None:
    """While another process holds the file five writers wait, and nothing of theirs is lost."""
    store = Store(tmp_path / "a.db")
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path / "a.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdin and holder.stdout
    with holder, holder.stdin, holder.stdout:
        assert holder.stdout.readline() == "held\n"
        writers = [threading.Thread(target=add, args=(store, number)) for number in range(5)]
        for writer in writers:
            writer.start()
        holder.stdin.write("go\n")
        holder.stdin.flush()
        for writer in writers:
            writer.join()
    assert count(store) == 5
    store.close()


def test_file_that_is_no_database(tmp_path: Path) -> None:
    """A file that is something else is left alone and named as what it is."""
    (tmp_path / "a.db").write_text("my diary " * 100)
    with pytest.raises(sqlite3.DatabaseError):
        Store(tmp_path / "a.db")
    assert (tmp_path / "a.db").read_text().startswith("my diary")


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.characters(categories=["Cs"])
    | st.datetimes(timezones=st.timezones()).map(lambda moment: datetime.fromisoformat(moment.isoformat())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(_values)
def test_values_come_back(value: object) -> None:
    """Text with half surrogate pairs, times with their offsets, and all of JSON survive the database."""
    assert from_text(to_text(value)) == value


def test_sentences_come_back() -> None:
    """A sentence, also one inside another, survives the database."""
    sentence = say("a.b", count=3, inner=say("c.d", path="x"))
    assert from_text(to_text({"problem": sentence})) == {"problem": sentence}

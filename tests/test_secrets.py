"""Secrets: where they come from, what is refused, and that none is left in a text, a value or a log line."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.trees import NOBODY, as_nobody, give_away

from metnosd.credentials import MAX_BYTES, Credentials, CredentialsError, load_credentials
from metnosd.locations import Locations, locate
from metnosd.redact import MARK, MIN_LENGTH, Redactor
from metnosd.sentence import say

TOKEN = "123456789:AAF-x_Yz/qw+E9"
ODD = "p\"w'd\\ é😀\n%&\\\\<ß>"
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files away")


@pytest.fixture
def places(tmp_path: Path) -> Locations:
    """The places of a daemon, with the folder of its configuration."""
    found = locate(environ={"METNOS_HOME": str(tmp_path / "state")})
    found.config_dir.mkdir(parents=True)
    return found


def own_file(places: Locations, text: str | bytes, mode: int = 0o600) -> Path:
    """The file `secrets.toml` with this text."""
    file = places.config_dir / "secrets.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    file.chmod(mode)
    return file


def credential(folder: Path, name: str, value: bytes, mode: int = 0o400) -> Path:
    """A file as systemd makes them of `LoadCredential=`."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_bytes(value)
    file.chmod(mode)
    return file


def refused(places: Locations, **environ: str) -> str:
    """What is said to secrets that cannot be used, chained errors included."""
    with pytest.raises(CredentialsError) as caught:
        load_credentials(places, environ)
    said, error = [], caught.value
    while error is not None:
        said.append(f"{error} {error!r}")
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return "\n".join(said)


def test_nothing_is_no_error(places: Locations, tmp_path: Path) -> None:
    """Without any source there are no secrets, and asking for one gives None."""
    (tmp_path / "empty").mkdir()
    for environ in ({}, {"CREDENTIALS_DIRECTORY": ""}, {"CREDENTIALS_DIRECTORY": str(tmp_path / "empty")}):
        found = load_credentials(places, environ)
        assert found.get("telegram_token") is None and found.values() == ()


def test_first_source_wins(places: Locations, tmp_path: Path) -> None:
    """systemd's credentials go before the environment, and that before the file; all values are known."""
    credential(tmp_path / "creds", "one", b"from systemd\n")
    own_file(places, 'one = "of file 1"\ntwo = "of file 2"\nthree = "of file 3"\n')
    environ = {"METNOS_SECRET_ONE": "of environment 1", "METNOS_SECRET_TWO": "of environment 2"}
    found = load_credentials(places, environ | {"CREDENTIALS_DIRECTORY": str(tmp_path / "creds"), "ONE": "no"})
    assert [found.get(name) for name in ("one", "two", "three", "four")] == [
        "from systemd",
        "of environment 2",
        "of file 3",
        None,
    ]
    hidden = {"of environment 1", "of file 1", "of file 2"}
    assert set(found.values()) == {"from systemd", "of environment 2", "of file 3"} | hidden


def test_empty_is_not_set(places: Locations, tmp_path: Path) -> None:
    """An empty value lets the next source have its say, and is no value itself."""
    credential(tmp_path / "creds", "one", b"\n")
    own_file(places, 'one = "value"\ntwo = ""\n')
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path / "creds"), "METNOS_SECRET_ONE": ""}
    found = load_credentials(places, environ)
    assert found.get("one") == "value" and found.get("two") is None and found.values() == ("value",)


@pytest.mark.parametrize(
    ("written", "read"), [(b"a b\n", "a b"), (b" a\r\n", " a"), (b"a\n\n", "a"), (b"a\nb", "a\nb")]
)
def test_line_ends_of_credential_files(places: Locations, tmp_path: Path, written: bytes, read: str) -> None:
    """What an editor puts at the end of a file is no part of the secret; all else is."""
    credential(tmp_path / "creds", "one", written)
    assert load_credentials(places, {"CREDENTIALS_DIRECTORY": str(tmp_path / "creds")}).get("one") == read


def test_representation_shows_names_only(places: Locations) -> None:
    """What a traceback or a log line may show of the secrets are their names."""
    found = load_credentials(places, {"METNOS_SECRET_ONE": TOKEN, "METNOS_SECRET_TWO": TOKEN})
    assert repr(found) == str(found) == f"{found}" == "Credentials(one, two)"
    assert repr(Credentials()) == "Credentials()"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o601, 0o610, 0o666])
def test_open_file_is_refused(places: Locations, mode: int) -> None:
    """A file that gives anything to anyone else is refused, with what to do."""
    file = own_file(places, f'one = "{TOKEN}"', mode)
    said = refused(places)
    assert f"chmod 600 {file}" in said and f"mode {mode:04o}" in said and TOKEN not in said


def test_closed_modes_are_accepted(places: Locations) -> None:
    """Whatever the owner alone may do is accepted."""
    for mode in (0o600, 0o400, 0o700):
        own_file(places, 'one = "value"', mode)
        assert load_credentials(places, {}).get("one") == "value"


def test_credentials_of_systemd_may_have_an_acl(places: Locations, tmp_path: Path) -> None:
    """systemd's file is 0440 where the service reads it by an ACL; writable or open to all it is refused."""
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path / "creds")}
    credential(tmp_path / "creds", "one", b"value", 0o440)
    assert load_credentials(places, environ).get("one") == "value"
    for mode in (0o444, 0o460, 0o404, 0o450):
        credential(tmp_path / "creds", "one", TOKEN.encode(), 0o400).chmod(mode)
        said = refused(places, **environ)
        assert "creds/one" in said and "chmod 600" in said and TOKEN not in said


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: os.mkfifo(path, 0o600)], ids=["dir", "fifo"])
@pytest.mark.parametrize("name", ["state/secrets.toml", "creds/one"])
def test_no_ordinary_file(places: Locations, tmp_path: Path, make: Callable[[Path], None], name: str) -> None:
    """A folder or a pipe in place of the file is refused at once, and never waited for."""
    (tmp_path / "creds").mkdir()
    make(tmp_path / name)
    said = refused(places, CREDENTIALS_DIRECTORY=str(tmp_path / "creds"))
    assert name in said and "no ordinary file" in said


@pytest.mark.parametrize("name", ["state/secrets.toml", "creds/one"])
def test_link_is_refused(places: Locations, tmp_path: Path, name: str) -> None:
    """A link is not followed, neither to a good file nor to none."""
    (tmp_path / "creds").mkdir()
    target = credential(tmp_path, "target", b'one = "value"', 0o600)
    (tmp_path / name).symlink_to(target)
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path / "creds")}
    assert name in refused(places, **environ) and "is a link" in refused(places, **environ)
    target.unlink()
    assert "is a link" in refused(places, **environ)


@ROOT_ONLY
def test_file_of_another_is_refused(places: Locations, tmp_path: Path) -> None:
    """Who can write a file decides what is in it; so it must be ours, also where we could read it."""
    file = own_file(places, f'one = "{TOKEN}"')
    give_away(file)
    said = refused(places)
    assert str(file) in said and f"user {NOBODY}" in said and TOKEN not in said
    file.unlink()
    give_away(credential(tmp_path / "creds", "one", b"value"))
    assert f"user {NOBODY}" in refused(places, CREDENTIALS_DIRECTORY=str(tmp_path / "creds"))


AS_SERVICE = """
import sys
from pathlib import Path
from metnosd.credentials import CredentialsError, load_credentials
from metnosd.locations import locate
folder = sys.argv[1]
drop()
def say(environ):
    try:
        found = load_credentials(locate(environ=environ), environ)
    except CredentialsError as error:
        print(str(error).replace(folder, ""))
    else:
        print(found, found.values())
say({"METNOS_HOME": folder + "/mine"})
say({"METNOS_HOME": folder + "/foreign"})
say({"METNOS_HOME": folder, "CREDENTIALS_DIRECTORY": folder + "/creds"})
say({"METNOS_HOME": folder, "CREDENTIALS_DIRECTORY": folder + "/closed"})
"""


@ROOT_ONLY
def test_as_an_unprivileged_user() -> None:
    """A service reads its own file and what root put there for it; of others it says whose they must be."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for home in ("mine", "foreign", "closed"):
            credential(folder / home, "secrets.toml", b'one = "of file"', 0o600)
        give_away(folder / "mine/secrets.toml")
        (folder / "closed").chmod(0o700)
        # As systemd leaves it, with a group in place of the ACL.
        os.chown(credential(folder / "creds", "one", b"of root", 0o440), 0, NOBODY)
        printed = as_nobody(AS_SERVICE, name).splitlines()
    assert printed[0] == "Credentials(one) ('of file',)"
    assert printed[1].startswith("/foreign/secrets.toml cannot be read: Permission denied.")
    assert f"user {NOBODY}" in printed[1]
    assert printed[2] == "Credentials(one) ('of root',)"
    assert printed[3].startswith("$CREDENTIALS_DIRECTORY: /closed cannot be read")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"a = 'x'\none = {TOKEN}\n", ["line 2"]),
        (f'one = "{TOKEN}\n', ["line 1"]),
        (f"one {TOKEN}", ["line 1"]),
        (f"{TOKEN}", ["line 1"]),
        (f'one = "{TOKEN}"\none = "{TOKEN}"\n', ["line 2"]),
        (f'one = """{TOKEN}', ["no TOML"]),
        (f'one = "{TOKEN}\\q"', ["line 1"]),
        ("one = " + "1" * 5000, ["no TOML"]),
        ("one = " + "[" * 100_000, ["no TOML"]),
        (f'one = ["{TOKEN}"]', ["one", "no text"]),
        ("one = 123456789", ["one", "no text"]),
        ("one = true", ["one", "no text"]),
        ("one = 2026-11-18", ["one", "no text"]),
        (f'[one]\ntoken = "{TOKEN}"', ["one", "outside of any table"]),
        (f'a = "b"\n"{TOKEN}" = ""', ["entry 2", "a-z"]),
        ('Telegram-Token = "x"', ["entry 1", "a-z"]),
        (f'{"a" * 65} = "x"', ["entry 1", "1 to 64"]),
        (b"one = '\xff" + TOKEN.encode() + b"'", ["no UTF-8"]),
        (b"#" * (MAX_BYTES + 1), ["larger than"]),
    ],
)
def test_bad_file_tells_where_and_not_what(places: Locations, text: str | bytes, words: list[str]) -> None:
    """What is wrong is said with file and line or name; nothing of what stands there is repeated."""
    file = own_file(places, text)
    said = refused(places)
    assert all(word in said for word in [str(file), *words]), said
    assert not any(part in said for part in (TOKEN, "123456789", "AAF-x", "\\xff", "Telegram-Token", "2026"))


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"METNOS_SECRET_": TOKEN}, ["$METNOS_SECRET_:", "a-z"]),
        ({"METNOS_SECRET_telegram": TOKEN}, ["$METNOS_SECRET_telegram:", "capitals"]),
        ({"METNOS_SECRET_1": TOKEN}, ["$METNOS_SECRET_1:", "begins with a letter"]),
        ({"METNOS_SECRET_TO\u212aEN": TOKEN}, ["a-z"]),
        ({"METNOS_SECRET_ONE": TOKEN + "\udcff"}, ["$METNOS_SECRET_ONE", "no UTF-8"]),
    ],
)
def test_bad_variables(places: Locations, environ: dict[str, str], words: list[str]) -> None:
    """A variable that is meant to be a secret and can be none is refused by its name."""
    said = refused(places, **environ)
    assert all(word in said for word in words) and TOKEN not in said


def test_bad_credential_files(places: Locations, tmp_path: Path) -> None:
    """Bytes that are no text are refused; a folder that is not there too; files of other names are not touched."""
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path / "creds")}
    assert "$CREDENTIALS_DIRECTORY" in refused(places, **environ)
    credential(tmp_path / "creds", "other.key", b"\xff", 0o644)
    credential(tmp_path / "creds", "Other", b"\xff", 0o644)
    assert load_credentials(places, environ).values() == ()
    credential(tmp_path / "creds", "one", b"\xff" + TOKEN.encode())
    assert "creds/one is no UTF-8" in refused(places, **environ) and TOKEN not in refused(places, **environ)


def forms(secret: str) -> Iterator[str]:
    """What others make of a secret on its way into a text."""
    data = secret.encode()
    yield secret
    for safe in ("", "/", "/:@!$&'()*+,;="):
        yield urllib.parse.quote(secret, safe=safe)
    yield re.sub("%..", lambda found: found[0].lower(), urllib.parse.quote(secret))
    yield urllib.parse.quote_plus(secret)
    for ascii_only in (True, False):
        yield json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield json.dumps(json.dumps(secret, ensure_ascii=ascii_only))[3:-3]
        yield json.dumps(secret, ensure_ascii=ascii_only)[1:-1].replace("/", "\\/")
    yield repr(secret)[1:-1]
    yield ascii(secret)[1:-1]
    yield repr(data)[2:-1]
    yield base64.b64encode(data).decode()
    yield base64.urlsafe_b64encode(data).decode()
    yield base64.urlsafe_b64encode(data).decode().rstrip("=")
    yield urllib.parse.quote(base64.b64encode(data).decode(), safe="")


@pytest.mark.parametrize("secret", [TOKEN, ODD, "hunter2", "äöüßéñ", '"""\\\\\\', "??>>~~", "a" * 6])
def test_forms(secret: str) -> None:
    """A secret is found however it is quoted, and only it is replaced."""
    redactor = Redactor([secret])
    for form in forms(secret):
        assert redactor.text(f"<{form}>") == f"<{MARK}>", form
        assert redactor.text(f"https://host/x?y={form}&z {form}") == f"https://host/x?y={MARK}&z {MARK}", form


@pytest.mark.parametrize("before", ["", "u", "us", "user:", "user::", "é"])
@pytest.mark.parametrize("after", ["", "!", "!!", "!!!"])
def test_base64_of_more(before: str, after: str) -> None:
    """In base64 of a longer text, as in basic authentication, no character of the secret can be read any more."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode((before + TOKEN + after).encode()).decode()
        redacted = Redactor([TOKEN]).text(f"Basic {text}.")
        assert MARK in redacted
        left = redacted.removeprefix("Basic ").removesuffix(".").split(MARK)
        assert len(left[0]) * 6 < len(before.encode()) * 8 + 6 and len(left[1].rstrip("=")) * 6 < len(after) * 8 + 6


LONG = st.text(min_size=MIN_LENGTH)


@settings(deadline=None)
@given(LONG, st.text(), st.text())
@example("•" * 6, "•••", "•••")
@example("•••abc", "", "abc")
@example("\\" * 6, "\\" * 60, "\\" * 5)
@example('\\"' * 3, "\\" * 60, '"')
def test_no_secret_is_left(secret: str, before: str, after: str) -> None:
    """Whatever stands around a secret, the result does not hold it, and redacting it again changes nothing."""
    redactor = Redactor([secret])
    redacted = redactor.text(before + secret + after)
    assert secret not in redacted and MARK in redacted
    assert redactor.text(redacted) == redacted
    assert secret not in redactor.text(before + secret + secret + after)


@settings(deadline=None)
@given(LONG)
def test_no_form_is_left(secret: str) -> None:
    """The same for each way to write a secret, but for what UTF-8 cannot hold."""
    redactor = Redactor([secret])
    for form in forms(secret):
        assert MARK in redactor.text(form), form
        assert len(redactor.text(f"é{form}é")) <= len(MARK) + 2, form


@settings(deadline=None)
@given(st.lists(LONG, min_size=1, max_size=4), st.text())
def test_no_secret_of_several_is_left(secrets: list[str], between: str) -> None:
    """Secrets that overlap or hold each other leave no secret whole."""
    redacted = Redactor(secrets).text(between.join([*secrets, *reversed(secrets)]))
    assert not any(secret in redacted for secret in secrets)


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="0123456789")))
def test_text_without_secrets_is_left_alone(text: str) -> None:
    """A text without a secret is the very same object afterwards."""
    assert Redactor([TOKEN, "12345678"]).text(text) is text
    assert Redactor().text(text) is text


def test_longest_first() -> None:
    """Of two secrets, one of which begins with the other, the longer one goes whole."""
    for secrets in (["secret", "secret-and-more"], ["secret-and-more", "secret"]):
        assert Redactor(secrets).text("a secret-and-more, a secret") == f"a {MARK}, a {MARK}"


def test_short_and_empty_values() -> None:
    """Short values would wreck texts: they are counted and not redacted; empty ones are none."""
    redactor = Redactor(["", "12345", "12345", "ab", "123456"])
    assert redactor.short == 2
    assert redactor.text("12345 ab 123456") == f"12345 ab {MARK}"
    assert "123" not in repr(redactor)


def test_later_secrets() -> None:
    """What is added later is redacted from then on, beside what was known."""
    redactor = Redactor(["first-one"])
    assert redactor.text("first-one second-one") == f"{MARK} second-one"
    redactor.add(["second-one", "abc"])
    assert redactor.text("first-one second-one") == f"{MARK} {MARK}" and redactor.short == 1


def test_text_that_is_no_unicode() -> None:
    """Undecodable names, as the file system gives them, raise nothing, as text or as a secret."""
    assert Redactor(["secret\udcff"]).text("\udcfe secret\udcff") == f"\udcfe {MARK}"


def test_large_texts_take_little_time() -> None:
    """A long reply, and one made to be slow, are searched in a moment."""
    redactor = Redactor([f"{number}{TOKEN}" for number in range(20)] + ['\\"\\"\\"', "/+/+/+/"])
    for text in ("/some/path and a word " * 20_000, "\\" * 100_000, '\\"' * 5 + "\\" * 100_000, "/+" * 50_000):
        start = datetime.now(UTC)
        redactor.text(text)
        assert (datetime.now(UTC) - start).total_seconds() < 5


def test_values() -> None:
    """Secrets are found at any depth, in keys too; what holds none is the same object, also inside."""
    redactor = Redactor([TOKEN])
    now = datetime.now(UTC)
    kept = {"deep": [1, None, 2.5, True, now, ("a", b"bytes")]}
    value = {
        "kept": kept,
        "list": [f"is {TOKEN}!", "other"],
        "tuple": (TOKEN, 1),
        f"key {TOKEN}": now,
        "said": say("reply.text", text=f"x{TOKEN}", inner=say("reply.text", text=[TOKEN])),
    }
    before = dict(value)
    redacted = redactor.value(value)
    assert redacted == {
        "kept": kept,
        "list": [f"is {MARK}!", "other"],
        "tuple": (MARK, 1),
        f"key {MARK}": now,
        "said": say("reply.text", text=f"x{MARK}", inner=say("reply.text", text=[MARK])),
    }
    assert redacted["kept"] is kept and value == before
    assert redactor.value(TOKEN) == MARK


def test_values_without_secrets_are_the_same_object() -> None:
    """Nothing is copied that holds no secret, whether there are secrets or not."""
    values: tuple[object, ...] = (
        {},
        [],
        (),
        {"a": [{"b": ("c", 1)}]},
        "text",
        5,
        None,
        say("reply.text", text="x"),
        Path("x"),
        b"x",
    )
    for redactor in (Redactor(), Redactor([TOKEN])):
        for value in values:
            assert redactor.value(value) is value


LOGS = """
import asyncio, logging, sys, threading
import structlog
from metnosd.logs import configure_logs
from metnosd.redact import Redactor
secret, later, terminal = sys.argv[1], sys.argv[2], sys.argv[3] == "terminal"
if terminal:
    sys.stderr.isatty = lambda: True
redactor = Redactor([secret])
configure_logs("error")
configure_logs("debug", redactor)
redactor.add([later])

class Held:
    def __str__(self): return f"holds {secret}"
    __repr__ = __str__

class Broken:
    def __str__(self): raise RuntimeError(secret)

log = structlog.get_logger("x")
for token in (secret, later):
    log.info("plain " + token, a=token, path="/x/" + token, nested={"k": [token]}, held=Held(), b=token.encode())
    log.bind(bound=token).warning("bound %s", token)
    library = logging.getLogger("httpx")
    library.warning("HTTP Request: GET %s", f"https://api.telegram.org/bot{token}/getMe")
    library.warning("dict %(a)s %(b)r", {"a": token, "b": token})
    library.error("misfit %d", token)
    library.error("broken %s %s", Broken(), token)
    try:
        try:
            raise KeyError(token)
        except KeyError as error:
            raise ValueError(f"no use of {token}", token.encode()) from error
    except ValueError as error:
        log.exception("ours", error=error)
        library.exception("theirs %s", error)
        log.error("again", exc_info=error)
async def fail():
    asyncio.get_running_loop().call_soon(lambda: int(secret))
    await asyncio.sleep(0.01)
asyncio.run(fail())
logging.getLogger("x").warning("stack", stack_info=True)
print("done", file=sys.stderr)
"""


@pytest.mark.parametrize("secret", [TOKEN, "p\"w'd\\ é%&\\<ß>"])
@pytest.mark.parametrize("terminal", ["terminal", "journal"])
@pytest.mark.parametrize("charset", ["utf-8", "ascii:backslashreplace"])
def test_no_secret_in_the_logs(secret: str, terminal: str, charset: str) -> None:
    """No line of ours or of a library shows a secret, in any form, as text, in objects or in tracebacks."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOGS, secret, "login-1a2b3c", terminal],
        env={**os.environ, "PYTHONIOENCODING": charset},
        capture_output=True,
        timeout=60,
        check=False,
    )
    written = done.stderr.decode()
    assert done.returncode == 0 and written.endswith("done\n"), written
    for form in [*forms(secret), "login-1a2b3c", html.escape(secret)]:
        assert form not in written, form
    # Each of them was written, without what is secret in it.
    mark = MARK if charset == "utf-8" else ascii(MARK)[1:-1]
    for words in (f"plain {mark}", f"/x/{mark}", f"holds {mark}", f"bound {mark}", f"bot{mark}/getMe", f"dict {mark}"):
        assert words in written or json.dumps(words)[1:-1] in written, words
    for words in ("misfit", "theirs", "again", "KeyError", "no use of", "Traceback", "invalid literal", "Stack ("):
        assert words in written, words


def test_logs_without_a_redactor() -> None:
    """The old call still logs, unchanged."""
    code = 'import structlog; from metnosd.logs import configure_logs; configure_logs("info")\n'
    code += 'structlog.get_logger().info("a \\"b\\"", c=1, d=None); import logging; logging.error("x %s", 5)'
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == 'level=info event="a \\"b\\"" c=1 d=\nERROR:root:x 5\n'

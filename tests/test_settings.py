"""Settings and places: what overlays what, and what stops the start with file, key and what is allowed."""

from __future__ import annotations

import tomllib
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from support.house import House

from metnosd.lexicon.loading import load_lexicon
from metnosd.lexicon.when import read_when
from metnosd.locations import locate, shipped_config
from metnosd.settings import Settings, SettingsError, load_settings, overlay


def test_shipped_settings_hold_alone(tmp_path: Path) -> None:
    """Without a file of one's own the shipped settings are complete and valid."""
    assert load_settings(tmp_path / "none.toml").model.name == "default"


def test_every_key_is_documented() -> None:
    """Each setting stands in the shipped file with a comment above it, and no other does."""
    shipped = shipped_config("metnosd.toml").read_text()
    keys = {(name, key) for name, values in tomllib.loads(shipped).items() for key in values}
    known = {
        (name, key)
        for name, section in Settings.model_fields.items()
        for key in section.annotation.model_fields  # type: ignore[union-attr]
    }
    assert keys == known
    lines = shipped.splitlines()
    for number, line in enumerate(lines):
        if "=" in line and not line.startswith("#"):
            before = [earlier for earlier in lines[:number] if earlier.strip()][-1]
            assert before.startswith("#") or "=" in before, f"{line} has no comment"


def test_own_file_overlays_key_by_key(tmp_path: Path) -> None:
    """A key of one's own replaces that key and leaves its neighbours."""
    file = tmp_path / "metnosd.toml"
    file.write_text('[model]\nthreads = 3\n[consent]\nminutes = 5\n[socket]\nusers = { "1000" = "anna" }\n')
    settings = load_settings(file)
    assert settings.model.threads == 3 and settings.model.name == "default"
    assert settings.consent.minutes == 5.0
    assert settings.socket.users == {"1000": "anna"} and settings.socket.mode == "0600"


def test_overlay_leaves_its_arguments() -> None:
    """Neither of two overlaid tables is changed."""
    base = {"a": {"b": 1, "c": 2}}
    assert overlay(base, {"a": {"b": 3}, "d": 4}) == {"a": {"b": 3, "c": 2}, "d": 4}
    assert base == {"a": {"b": 1, "c": 2}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[model]\ncolour = 1", ["model.colour", "no setting"]),
        ("[colour]\nred = 1", ["colour", "no setting"]),
        ("model = 1", ["model"]),
        ("[model]\nthreads = '3'", ["model.threads", "integer"]),
        ("[model]\nthreads = -1", ["model.threads", "greater than or equal to 0"]),
        ("[model]\neager = 1", ["model.eager", "boolean"]),
        ("[model]\nsilence_s = nan", ["model.silence_s"]),
        ("[model]\nsilence_s = inf", ["model.silence_s"]),
        ("[consent]\nminutes = 0", ["consent.minutes", "greater than 0"]),
        ("[consent]\nminutes = inf", ["consent.minutes"]),
        ("[consent]\nminutes = 1e300", ["consent.minutes"]),
        ("[user]\nlang = 'English'", ["user.lang"]),
        ("[user]\nzone = 'Mars/Base'", ["user.zone", "Europe/Rome"]),
        ("[user]\nzone = '../../etc/passwd'", ["user.zone"]),
        ("[user]\nzone = ''", ["user.zone"]),
        ("[files]\nroots = '~'", ["files.roots"]),
        ("[files]\nroots = [5]", ["files.roots"]),
        ("[files]\nroots = ['Documents']", ["files.roots", "absolute"]),
        ("[files]\nroots = ['~nobodyatall/x']", ["files.roots", "absolute"]),
        ("[socket]\nmode = '0999'", ["socket.mode"]),
        ("[socket]\nusers = { anna = 'anna' }", ["socket.users", "numeric"]),
        ("[socket]\nusers = { '1000' = '' }", ["socket.users"]),
        ("[log]\nlevel = 'loud'", ["log.level", "'debug'"]),
        ("[model", ["table declaration"]),
        ("\ufeff\u0000", []),
    ],
)
def test_wrong_setting_stops_the_start(tmp_path: Path, text: str, words: list[str]) -> None:
    """The message names the file, the key and what is allowed."""
    file = tmp_path / "metnosd.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as refused:
        load_settings(file)
    for word in (str(file), *words):
        assert word in str(refused.value)


def test_several_faults_are_all_named(tmp_path: Path) -> None:
    """Each wrong key has its line."""
    file = tmp_path / "metnosd.toml"
    file.write_text("[model]\nthreads = 'x'\nred = 1\n[log]\nlevel = 5\n")
    with pytest.raises(SettingsError) as refused:
        load_settings(file)
    assert len(str(refused.value).splitlines()) == 3


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A folder, or bytes that are no text, in place of the file is a settings error."""
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for name in ("folder.toml", "bytes.toml"):
        with pytest.raises(SettingsError, match=name):
            load_settings(tmp_path / name)


def test_metnos_home_moves_everything(tmp_path: Path) -> None:
    """With METNOS_HOME settings, database, keep and socket are under that folder; the models are not."""
    places = locate(environ={"METNOS_HOME": str(tmp_path), "METNOS_MODELS": "/m", "XDG_RUNTIME_DIR": "/run/user/1"})
    assert places.config_file == tmp_path / "metnosd.toml"
    assert places.config_dir == tmp_path
    assert places.database == tmp_path / "metnosd.db"
    assert places.keep.is_relative_to(tmp_path)
    assert places.socket == tmp_path / "metnosd.sock"
    assert places.models == Path("/m")
    assert not places.is_system


def test_config_option_wins_over_the_environment(tmp_path: Path) -> None:
    """The file that is named on the command line wins over METNOS_CONFIG, that over the home."""
    env = {"METNOS_HOME": str(tmp_path), "METNOS_CONFIG": "/c/other.toml"}
    assert locate(environ=env).config_file == Path("/c/other.toml")
    assert locate(Path("/x.toml"), env).config_file == Path("/x.toml")


def test_user_service(tmp_path: Path) -> None:
    """A user's socket is in the runtime folder."""
    places = locate(environ={"XDG_RUNTIME_DIR": str(tmp_path)})
    assert places.socket == tmp_path / "metnosd.sock"


def test_system_service() -> None:
    """A system service has the folders that systemd gives it, and is known as one."""
    places = locate(environ={"STATE_DIRECTORY": "/var/lib/metnosd", "RUNTIME_DIRECTORY": "/run/metnosd"})
    assert places.socket == Path("/run/metnosd/metnosd.sock")
    assert places.database == Path("/var/lib/metnosd/metnosd.db")
    assert places.is_system


@pytest.mark.parametrize("name", ["METNOS_HOME", "METNOS_MODELS", "METNOS_CONFIG"])
def test_empty_variable_is_as_none(name: str) -> None:
    """A variable that is set to nothing does not count."""
    assert locate(environ={name: ""}) == locate(environ={})


def test_usual_times_are_settings(tmp_path: Path) -> None:
    """The times of `[times]` are those that the lexicon means where none is said."""
    file = tmp_path / "metnosd.toml"
    file.write_text('[times]\nday = "10:30"\nevening = "18:15"\n')
    habits = load_settings(file).times.habits()
    assert (habits.day.hour, habits.day.minute) == (10, 30)
    languages = load_lexicon(shipped_config("lexicon")).languages
    rome = ZoneInfo("Europe/Rome")
    now = datetime(2026, 10, 20, 8, tzinfo=rome)
    for text, fire in (
        ("every day water", "2026-10-20T10:30"),
        ("remind me tomorrow evening to eat", "2026-10-21T18:15"),
    ):
        assert read_when(text, languages, now, rome, habits).fires(now, 1)[0].isoformat().startswith(fire)


def test_time_that_is_none_is_refused(tmp_path: Path) -> None:
    """A usual time that is no time of day stops the start with its key."""
    file = tmp_path / "metnosd.toml"
    file.write_text('[times]\nday = "25:00"\n')
    with pytest.raises(SettingsError, match=r"times\.day"):
        load_settings(file)


async def test_executor_that_is_switched_off_is_in_no_pool(tmp_path: Path) -> None:
    """A name in `executors.off` is offered to nobody; one that does not exist stops the start."""
    house = House(tmp_path / "house", settings={"executors": {"off": ["delete_files"]}})
    shown = await house.daemon.plan(house.owner, "delete the txt files", lang=None, model=False)
    await house.close()
    assert "find_files" in shown["pool"] and "delete_files" not in shown["pool"]
    with pytest.raises(SettingsError, match="no executor fly_files"):
        House(tmp_path / "other", settings={"executors": {"off": ["fly_files"]}})

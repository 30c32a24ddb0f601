"""Where things are: shipped files, the user's files, the state, the socket, the models."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

_PACKAGE = Path(__file__).resolve().parent


def shipped_config(name: str) -> Path:
    """The shipped file or folder `name` of `config/`: in the wheel beside the package, else in the checkout."""
    return _shipped("_config", "config", name)


def shipped_units() -> Path:
    """The folder of the shipped systemd units."""
    return _shipped("_systemd", "systemd", "metnosd.service").parent


def _shipped(packaged: str, checkout: str, name: str) -> Path:
    for folder in (_PACKAGE / packaged, _PACKAGE.parent / checkout):
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(f"{name} is missing from this installation of Metnos")


_OWN_NAMES = (
    "metnosd.db",
    "metnosd.db-wal",
    "metnosd.db-shm",
    "metnosd.lock",
    "metnosd.sock",
    "metnosd.toml",
    "policy.toml",
    "secrets.toml",
    "models.toml",
    "model.toml",
    "model-mode.json",
    "lexicon",
    "keep",
)
"""What a daemon keeps in its folders."""


@dataclass(frozen=True, slots=True)
class Locations:
    """The paths of one daemon. `config_file` may not exist; the others are made when first used."""

    config_file: Path
    config_dir: Path
    state: Path
    socket: Path
    models: Path
    is_system: bool = False

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.state / "metnosd.db"

    def own(self, roots: Sequence[str]) -> tuple[str, ...]:
        """The daemon's own folders and files, real paths, which no request may touch.

        Of a folder that holds a root of a user, only what the daemon keeps in it.
        """
        owned: list[Path] = []
        for folder in (self.state, self.config_dir, self.models):
            real = Path(os.path.realpath(folder))
            if any(Path(os.path.realpath(root)).is_relative_to(real) for root in roots):
                owned += [real / name for name in _OWN_NAMES]
            else:
                owned.append(real)
        return tuple(dict.fromkeys(str(path) for path in (*owned, Path(os.path.realpath(self.config_file)))))

    @property
    def keep(self) -> Path:
        """The folder of the trash and of old contents."""
        return self.state / "keep"


def locate(config: Path | None = None, environ: Mapping[str, str] | None = None) -> Locations:
    """The paths that the environment asks for.

    `METNOS_HOME` moves everything under one folder; `METNOS_CONFIG` or `config` (which wins) names the
    user's settings; `METNOS_MODELS` the folder of model files. A systemd service gives its folders in
    `STATE_DIRECTORY` and `RUNTIME_DIRECTORY` (systemd.exec(5)).
    """
    env = os.environ if environ is None else environ
    models = _path(env, "METNOS_MODELS") or platformdirs.user_data_path("metnosd") / "models"
    home = _path(env, "METNOS_HOME")
    if home is not None:
        chosen = config or _path(env, "METNOS_CONFIG") or home / "metnosd.toml"
        return Locations(chosen, home, home, home / "metnosd.sock", models)
    folder = platformdirs.user_config_path("metnosd")
    chosen = config or _path(env, "METNOS_CONFIG") or folder / "metnosd.toml"
    etc = Path("/etc/metnosd")
    if config is None and not chosen.exists() and (etc / "metnosd.toml").exists():
        chosen, folder = etc / "metnosd.toml", etc
    state = _path(env, "STATE_DIRECTORY") or platformdirs.user_state_path("metnosd")
    runtime = _path(env, "RUNTIME_DIRECTORY")
    socket = runtime / "metnosd.sock" if runtime else _socket(env, state)
    return Locations(chosen, folder, state, socket, models, is_system=state.is_relative_to("/var/lib"))


def _socket(env: Mapping[str, str], state: Path) -> Path:
    """In the runtime folder; without one beside the state, never in a folder that others can write to."""
    for folder in (_path(env, "XDG_RUNTIME_DIR"), Path(f"/run/user/{os.getuid()}")):
        if folder is not None and folder.is_dir():
            return folder / "metnosd.sock"
    return state / "metnosd.sock"


def _path(env: Mapping[str, str], name: str) -> Path | None:
    value = env.get(name, "")
    return Path(value).expanduser().absolute() if value else None


def own_or_shipped(places: Locations, name: str) -> Path:
    """The user's configuration file `name`, else the shipped one."""
    own = places.config_dir / name
    return own if own.exists() else shipped_config(name)

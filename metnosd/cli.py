"""The command `metnosd`."""

from __future__ import annotations

import sqlite3
import sys

import typer

from channels.unix_socket import SocketInUse
from metnosd.client import NotReachable
from metnosd.commands import grammar, local, models, talk, when
from metnosd.commands.common import FAILED, UNREACHABLE, err
from metnosd.credentials import CredentialsError
from metnosd.lexicon.loading import LexiconError
from metnosd.logs import configure_logs
from metnosd.model.catalog import CatalogError
from metnosd.policy import PolicyError
from metnosd.settings import SettingsError

app = typer.Typer(
    name="metnosd",
    help="A daemon on your own machine that plans with a local model, asks before it acts, and can undo.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for topic in (local, talk, models, grammar, when):
    topic.register(app)


_TOLD = (
    SettingsError,
    CatalogError,
    LexiconError,
    PolicyError,
    CredentialsError,
    SocketInUse,
    OSError,
    sqlite3.Error,
)
"""What stops a command with a sentence in place of a traceback."""


def main() -> None:
    """Run the command of `sys.argv`; the exit status is that of `INTERFACES`: 0, 1, 2 or 3."""
    # What the libraries and the parts log belongs on stderr, and on a command line only if it is an error.
    configure_logs("error")
    try:
        app()
    except NotReachable as error:
        err.print(str(error))
        sys.exit(UNREACHABLE)
    except _TOLD as error:
        err.print(str(error))
        sys.exit(FAILED)
    except ExceptionGroup as group:
        for cause in group.exceptions:
            err.print(str(cause))
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(FAILED)

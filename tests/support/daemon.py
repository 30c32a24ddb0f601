"""A real daemon for a test: its own home, its own state, the command line to talk to it."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

METNOSD = (sys.executable, "-m", "metnosd")


class RunningDaemon:
    """`metnosd serve` in a home of its own, ready when the block begins."""

    def __init__(self, home: Path, models: Path, settings: str = "") -> None:
        self.home = home
        self.state = home.parent / f"{home.name}-state"
        self.state.mkdir(exist_ok=True)
        (self.state / "metnosd.toml").write_text(settings)
        self.environ = {
            **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            "HOME": str(home),
            "METNOS_HOME": str(self.state),
            "METNOS_MODELS": str(models),
            "TZ": "UTC",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait for the readiness that systemd would wait for."""
        ready = self.state / "notify"
        ready.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(str(ready))
            log = (self.state / "daemon.log").open("ab")
            self._process = subprocess.Popen(
                [*METNOSD, "serve"], env={**self.environ, "NOTIFY_SOCKET": str(ready)}, stderr=log, stdout=log
            )
            log.close()
            readable, _, _ = select.select([listener], [], [], 60)
            assert readable and listener.recv(100) == b"READY=1", self.log()

    def stop(self) -> int:
        """End it as systemd would; its exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=60)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self.stop()

    def log(self) -> str:
        """What it wrote on stderr."""
        return (self.state / "daemon.log").read_text(errors="replace")

    def run(self, *arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """One command against it."""
        return subprocess.run(
            [*METNOSD, *arguments],
            env=self.environ,
            capture_output=True,
            timeout=timeout,
            check=False,
            encoding="utf-8",
            errors="surrogateescape",
            stdin=subprocess.DEVNULL,
        )

    def ask(self, text: str, *options: str) -> dict[str, Any]:
        """`metnosd ask --json`."""
        done = self.run("ask", "--json", *options, text)
        assert done.stdout, done.stderr + self.log()
        found: dict[str, Any] = json.loads(done.stdout)
        return found

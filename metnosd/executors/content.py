"""Text out of files, within bounds."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable
from dataclasses import dataclass

from metnosd.documents import document_kind, read_document, table_text
from metnosd.scope import Scope
from metnosd.sentence import Refusal, Sentence

_BINARY_HEADS = (
    b"%PDF-",
    b"PK\x03\x04",
    b"\x7fELF",
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"GIF8",
    b"\x1f\x8b",
    b"{\\rtf",
)
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(frozen=True, slots=True)
class Content:
    """The text of a file, whether there is more than that, and what of it could not be read."""

    text: str
    more: bool
    problems: tuple[Sentence, ...] = ()


def read_content(scope: Scope, path: str, limit: int, check: Callable[[], None]) -> Content:
    """The text of a file of text or a document, at most `limit` bytes of it.

    Raises Refusal when it has no text or cannot be read, and whatever `check` raises, which is called often.
    """
    with os.fdopen(scope.open_file(path), "rb") as file:
        try:
            kind = document_kind(file.read(1024), os.path.basename(path))
        except OSError as error:
            raise Refusal("effect.failed", path=scope.shown(path), reason=error.strerror or "") from error
        if kind is not None and kind != "csv":
            document = read_document(file, kind, scope.shown(path), limit, check)
            if document is not None:
                return Content(document.text, document.full, tuple(document.problems))
    text, more = read_text(scope, path, limit)
    return Content(table_text(text) if kind == "csv" else text, more)


def read_text(scope: Scope, path: str, limit: int) -> tuple[str, bool]:
    """The text of a file, of its first `limit` bytes, and whether there is more.

    UTF-8, UTF-16 with its mark, else Windows-1252. Raises Refusal when the file is no text or unreadable.
    """
    data = read_bytes(scope, path, limit + 1)
    more = len(data) > limit
    text = decode(data[:limit])
    if text is None:
        raise Refusal("read.binary", path=scope.shown(path))
    return text, more


def read_bytes(scope: Scope, path: str, limit: int) -> bytes:
    """At most the first `limit` bytes of a regular file; raises Refusal when it cannot be read."""
    descriptor = scope.open_file(path)
    with os.fdopen(descriptor, "rb") as file:
        try:
            return file.read(limit)
        except OSError as error:
            raise Refusal("effect.failed", path=scope.shown(path), reason=error.strerror or "") from error


def decode(data: bytes) -> str | None:
    """The text that `data` is, perhaps cut inside its last character; None if it is none."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    if b"\0" in data or data.startswith(_BINARY_HEADS):
        return None
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        return decoder.decode(data)
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")

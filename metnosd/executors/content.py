"""Text out of files, within bounds."""

from __future__ import annotations

import codecs
import os

from metnosd.scope import Scope
from metnosd.sentence import Refusal

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

"""Packed documents made harmless: unpacked here, counted, looked at, and packed anew for whoever reads them."""

from __future__ import annotations

import io
import xml.parsers.expat
import zipfile
import zlib
from collections.abc import Callable
from typing import IO

from metnosd.sentence import Refusal

MOST_UNPACKED = 100_000_000
"""No document is read that unpacks to more than this, in bytes."""

MOST_MEMBERS = 5_000

BLOCK = 65_536

PACKED = {"docx": "word/", "xlsx": "xl/", "odt": "content.xml"}
"""Kind of a packed document, and how the name of a member begins that only it has."""

Check = Callable[[], None]


def megabytes(size: int) -> str:
    """`size` bytes as a person reads it."""
    return f"{size // 1_000_000} MB"


def repacked(file: IO[bytes], shown: str, check: Check) -> tuple[str, io.BytesIO] | None:
    """The kind of a packed document and its XML, packed anew; None for an archive of another kind.

    What a member says of its size may be a lie, so each is unpacked in blocks and counted. XML that defines
    entities is refused: unfolded they may be a billion times as long, or other files.
    """
    try:
        with zipfile.ZipFile(file) as packed:
            members = packed.infolist()
            kind = next((k for k, head in PACKED.items() if any(m.filename.startswith(head) for m in members)), None)
            if kind is None or (kind == "odt" and not _is_text_document(packed)):
                return None
            if len(members) > MOST_MEMBERS or sum(member.file_size for member in members) > MOST_UNPACKED:
                raise Refusal("read.unpacks", path=shown, size=megabytes(MOST_UNPACKED))
            return kind, _harmless(file, members, shown, check)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
        raise Refusal("read.broken", path=shown) from error


def _is_text_document(packed: zipfile.ZipFile) -> bool:
    info = packed.NameToInfo.get("mimetype")
    if info is None or info.file_size > 200:
        return False
    with packed.open(info) as member:
        return member.read(200).startswith(b"application/vnd.oasis.opendocument.text")


def _harmless(file: IO[bytes], members: list[zipfile.ZipInfo], shown: str, check: Check) -> io.BytesIO:
    made = io.BytesIO()
    left = MOST_UNPACKED
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as clean:
        names: set[str] = set()
        for member in members:
            check()
            if member.filename in names or member.is_dir():
                continue
            names.add(member.filename)
            if member.flag_bits & 1:
                raise Refusal("read.encrypted", path=shown)
            data = b""
            # Pictures and the like are needed by name alone.
            if member.filename.endswith((".xml", ".rels", ".rdf")) or member.filename == "mimetype":
                data = _unpacked(file, member, left, shown, check)
                left -= len(data)
                if member.filename != "mimetype":
                    _check_xml(data, shown)
            clean.writestr(zipfile.ZipInfo(member.filename), data)
    made.seek(0)
    return made


def _unpacked(file: IO[bytes], member: zipfile.ZipInfo, most: int, shown: str, check: Check) -> bytes:
    """The content of a member, read from its packed bytes in blocks; Refusal past `most` bytes.

    `zipfile` would unpack all of them at once, whatever size the member claims.
    """
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Refusal("read.broken", path=shown)
    file.seek(member.header_offset)
    header = file.read(30)
    if len(header) < 30 or header[:4] != b"PK\x03\x04":
        raise Refusal("read.broken", path=shown)
    file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), io.SEEK_CUR)
    inflate = zlib.decompressobj(-15) if member.compress_type == zipfile.ZIP_DEFLATED else None
    found = io.BytesIO()
    left = member.compress_size
    while left > 0 and (block := file.read(min(left, BLOCK))):
        check()
        left -= len(block)
        while block:
            piece = inflate.decompress(block, BLOCK) if inflate else block
            block = inflate.unconsumed_tail if inflate else b""
            found.write(piece)
            if found.tell() > most:
                raise Refusal("read.unpacks", path=shown, size=megabytes(MOST_UNPACKED))
    if inflate is not None:
        found.write(inflate.flush())
    data = found.getvalue()
    if len(data) > most or zlib.crc32(data) != member.CRC:
        raise Refusal("read.broken", path=shown)
    return data


def _check_xml(data: bytes, shown: str) -> None:
    """Raise Refusal for XML that is not well formed, or that declares anything."""

    def refuse(*_: object) -> None:
        raise Refusal("read.broken", path=shown)

    parser = xml.parsers.expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except xml.parsers.expat.ExpatError as error:
        if data.strip():
            raise Refusal("read.broken", path=shown) from error

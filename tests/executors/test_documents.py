"""Documents as text: what each kind gives, and what a hostile or broken one cannot do."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable
from datetime import date
from pathlib import Path

import docx
import odfdo
import openpyxl
import pypdf
import pytest
from support.house import House
from support.scripted import plan

from metnosd import documents, repacking
from metnosd.documents import Text, document_kind, read_document, table_text
from metnosd.executor import Cancelled
from metnosd.sentence import Refusal

LIMIT = 1_000_000


def pdf(*pages: str) -> bytes:
    """A PDF with a line of text on each page; an empty text makes a page without any, as a scan is."""
    writer = pypdf.PdfWriter()
    font = pypdf.generic.DictionaryObject(
        {
            pypdf.generic.NameObject("/Type"): pypdf.generic.NameObject("/Font"),
            pypdf.generic.NameObject("/Subtype"): pypdf.generic.NameObject("/Type1"),
            pypdf.generic.NameObject("/BaseFont"): pypdf.generic.NameObject("/Helvetica"),
        }
    )
    for text in pages:
        page = writer.add_blank_page(300, 300)
        stream = pypdf.generic.DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode() if text else b"")
        fonts = pypdf.generic.DictionaryObject({pypdf.generic.NameObject("/F1"): font})
        page[pypdf.generic.NameObject("/Resources")] = pypdf.generic.DictionaryObject(
            {pypdf.generic.NameObject("/Font"): fonts}
        )
        page[pypdf.generic.NameObject("/Contents")] = writer._add_object(stream)
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


def word(*lines: str, table: tuple[tuple[str, ...], ...] = ()) -> bytes:
    """A Word document of paragraphs and a table behind them."""
    document = docx.Document()
    for line in lines:
        document.add_paragraph(line)
    if table:
        made = document.add_table(rows=len(table), cols=len(table[0]))
        for row, cells in enumerate(table):
            for column, cell in enumerate(cells):
                made.cell(row, column).text = cell
    document.add_paragraph("the end")
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def open_text(*lines: str, table: tuple[tuple[str, ...], ...] = ()) -> bytes:
    """An OpenDocument text of paragraphs and a table behind them."""
    document = odfdo.Document("text")
    document.body.clear()
    for line in lines:
        document.body.append(odfdo.Paragraph(line))
    if table:
        made = odfdo.Table("T", width=len(table[0]), height=len(table))
        for row, cells in enumerate(table):
            for column, cell in enumerate(cells):
                made.set_value((column, row), cell)
        document.body.append(made)
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def sheet(**sheets: tuple[tuple[object, ...], ...]) -> bytes:
    """An Excel workbook of these sheets."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        made = book.create_sheet(name)
        for row in rows:
            made.append(row)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def with_member(data: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    """A packed document with one member changed."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            content = old.read(info)
            new.writestr(info.filename, change(content) if info.filename == name else content)
    return made.getvalue()


def read(data: bytes, name: str = "x", limit: int = LIMIT, check: Callable[[], None] = lambda: None) -> Text:
    """The text of a document, as its first bytes and its name say what it is."""
    kind = document_kind(data[:1024], name)
    assert kind is not None
    found = read_document(io.BytesIO(data), kind, name, limit, check)
    assert found is not None
    return found


def refused(data: bytes, name: str = "x") -> str:
    """The key of the sentence with which a document is refused."""
    with pytest.raises(Refusal) as caught:
        read(data, name)
    return caught.value.sentence.key


TABLE = (("name", "sum"), ("Anna", "12"))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (pdf("first page", "second page"), "first page\n\nsecond page"),
        (word("Dear all", table=TABLE), "Dear all\nname | sum\nAnna | 12\n\nthe end"),
        (open_text("Dear all", table=TABLE), "Dear all\nname | sum\nAnna | 12"),
        (
            sheet(Costs=(("day", "sum"), (date(2026, 3, 1), 1.5), (None, None), ("total", 12)), Empty=()),
            "# Costs\nday | sum\n2026-03-01 | 1.5\ntotal | 12",
        ),
    ],
    ids=["pdf", "docx", "odt", "xlsx"],
)
def test_each_kind_gives_its_text(data: bytes, expected: str) -> None:
    """Paragraphs are lines, rows of tables have bars between their cells, sheets have their names above them."""
    assert read(data).text == expected


async def test_documents_are_read_by_message(house: House) -> None:
    """`read_files` gives the text of each kind of document, and of a table of comma-separated values."""
    files = {"a.pdf": pdf("hello pdf"), "b.docx": word("hello word"), "c.odt": open_text("hello odt")}
    files |= {"d.xlsx": sheet(S=(("hello", "sheet"),)), "e.csv": b"name;city\nAnna;Rome\n"}
    for name, data in files.items():
        (house.home / name).write_bytes(data)
    for name, expected in zip(
        files, ("hello pdf", "hello word", "hello odt", "hello | sheet", "Anna | Rome"), strict=True
    ):
        reply = await house.ask(f"read {name}", plan(("read_files", {"path": name})))
        assert reply.outcome["status"] == "done" and expected in reply.text, name


async def test_documents_that_cannot_be_read_are_named_with_the_reason(house: House) -> None:
    """A scan, an encrypted one, a broken one and an unknown archive: each has its own sentence, in each language."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf("secret")))
    writer.encrypt("password", algorithm="RC4-128")
    locked = io.BytesIO()
    writer.write(locked)
    whole = word("x")
    files = {"scan.pdf": pdf(""), "locked.pdf": locked.getvalue(), "broken.docx": whole[: len(whole) // 2]}
    files |= {"cut.pdf": b"%PDF-1.7\nnothing", "old.xlsx": documents._OLE + bytes(600)}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.txt", "text")
    files["some.zip"] = packed.getvalue()
    expected = {
        "scan.pdf": "no text in ~/scan.pdf",
        "locked.pdf": "protected with a password",
        "broken.docx": "~/broken.docx is damaged",
        "cut.pdf": "~/cut.pdf is damaged",
        "old.xlsx": "protected with a password",
        "some.zip": "holds no plain text",
    }
    for name, data in files.items():
        (house.home / name).write_bytes(data)
        reply = await house.ask(f"read {name}", plan(("read_files", {"path": name})))
        assert reply.outcome["status"] == "failed" and expected[name] in reply.text, (name, reply.text)


def test_a_pdf_with_an_empty_password_is_read() -> None:
    """A PDF that is only locked against changes opens without a password."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf("open to all")))
    writer.encrypt("", "owner", algorithm="RC4-128")
    made = io.BytesIO()
    writer.write(made)
    assert read(made.getvalue()).text == "open to all"


@pytest.mark.parametrize("build", [lambda: word(*["word"] * 500), lambda: open_text(*["word"] * 500)], ids=["d", "o"])
def test_no_more_text_than_the_limit(build: Callable[[], bytes]) -> None:
    """The text ends at the limit of bytes, and it is said that there is more."""
    found = read(build(), limit=100)
    assert found.full and 90 <= len(found.text) <= 100
    many = read(pdf(*["page"] * 9), limit=12)
    assert many.full and len(many.text) <= 12


def test_long_sheets_end_at_the_limit_of_rows_and_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and cells are counted, also the empty ones between two far apart."""
    monkeypatch.setattr(documents, "MOST_ROWS", 50)
    found = read(sheet(S=tuple((n,) for n in range(80))))
    assert found.full and found.text.splitlines()[-1] == "49"
    book = openpyxl.Workbook()
    book.active["A1"], book.active["A1048576"] = "first", "last"
    made = io.BytesIO()
    book.save(made)
    found = read(made.getvalue())
    assert found.full and "first" in found.text and "last" not in found.text
    monkeypatch.setattr(documents, "MOST_CELLS", 20_000)
    book = openpyxl.Workbook()
    for row in (1, 2, 3):
        book.active.cell(row, 16384, row)
    made = io.BytesIO()
    book.save(made)
    assert read(made.getvalue()).full


def test_documents_too_large_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file over the bound is refused before a library sees it."""
    monkeypatch.setattr(documents, "MOST_BYTES", 100)
    assert refused(pdf("x")) == "read.too_big"


BOMBS = {
    "docx": (word("x"), "word/document.xml"),
    "odt": (open_text("x"), "content.xml"),
    "xlsx": (sheet(S=((1,),)), "xl/worksheets/sheet1.xml"),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_packed_bombs_are_not_unpacked(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What says that it unpacks to too much is refused, and so is what does so without saying it."""
    monkeypatch.setattr(repacking, "MOST_UNPACKED", 300_000)
    data, member = BOMBS[kind]
    bomb = with_member(data, member, lambda xml: xml + b" " * 400_000)
    assert refused(bomb) == "read.unpacks"
    honest = zipfile.ZipFile(io.BytesIO(bomb)).getinfo(member).file_size
    liar = bomb.replace(honest.to_bytes(4, "little"), (500).to_bytes(4, "little"))
    assert liar != bomb and refused(liar) == "read.unpacks"


@pytest.mark.parametrize("kind", BOMBS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_xml_that_declares_entities_is_refused(kind: str, encoding: str, tmp_path: Path) -> None:
    """Entities are not unfolded, neither a billion of them nor another file, in whatever encoding they come."""
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    data, member = BOMBS[kind]
    for entity in ('<!ENTITY a "aaaa">', f'<!ENTITY a SYSTEM "file://{secret}">'):

        def declare(xml: bytes, entity: str = entity) -> bytes:
            body = xml.decode().partition("?>")[2]
            return f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE x [{entity}]>{body}'.encode(encoding)

        assert refused(with_member(data, member, declare)) == "read.broken"


@pytest.mark.parametrize("kind", BOMBS)
def test_broken_documents_are_refused(kind: str) -> None:
    """Cut off anywhere, with a wrong checksum or without their main part they are named, never an error."""
    data, member = BOMBS[kind]
    for part in (4, 40, len(data) // 3, len(data) - 30):
        assert refused(data[:part]) == "read.broken"
    assert refused(with_member(data, member, lambda xml: b"<x")) == "read.broken"
    assert refused(with_member(data, member, lambda xml: b"<x/>")) in ("read.broken", "read.empty")
    packed = zipfile.ZipFile(io.BytesIO(data)).getinfo(member)
    wrong = data.replace(packed.CRC.to_bytes(4, "little"), zlib.crc32(b"other").to_bytes(4, "little"))
    assert refused(wrong) == "read.broken"


@pytest.mark.parametrize("data", [pdf("x"), word("x"), open_text("x"), sheet(S=((1,),))], ids=["pdf", *BOMBS])
def test_reading_ends_when_the_turn_is_cancelled(data: bytes) -> None:
    """`check` is asked on the way and ends the reading, whatever the kind."""

    def cancel() -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        read(data, check=cancel)


def test_pictures_in_documents_are_passed_over() -> None:
    """A picture in a Word document is not unpacked, and the text beside it is read."""
    data = word("beside")
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
        new.writestr("word/media/image1.png", bytes(1_000_000))
    assert read(made.getvalue()).text == "beside\nthe end"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1,2\n", "a | b\n1 | 2"),
        ("a;b\n1,5;2\n", "a | b\n1,5 | 2"),
        ('a\tb\n"x\ny"\tz\n', "a | b\nx y | z"),
        ("just a line", "just a line"),
        ("", ""),
    ],
)
def test_tables_of_values(text: str, expected: str) -> None:
    """Commas, semicolons or tabs: each row is one line with bars; a break inside a value does not end it."""
    assert table_text(text) == expected

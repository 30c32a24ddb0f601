"""The text of documents: PDF, Word, OpenDocument, Excel and tables of comma-separated values.

A document comes from anybody, so nothing in it decides how much is read: its size is looked at first, what is
packed is unpacked here, piece by piece and counted, and a library gets only what was found harmless.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import IO, TYPE_CHECKING, Any

import structlog

from metnosd.executor import Cancelled
from metnosd.repacking import PACKED, megabytes, repacked
from metnosd.sentence import Refusal, Sentence, say

if TYPE_CHECKING:
    import odfdo
    import openpyxl

# Each library is loaded with the first document of its kind: all of them cost half a second of every start.

log = structlog.get_logger(__name__)

MOST_BYTES = 50_000_000
"""No document larger than this is read, in bytes."""

MOST_PAGES = 2_000
MOST_ROWS = 200_000
MOST_CELLS = 2_000_000

BLOCK = 65_536

CELLS = " | "
"""What stands between the cells of a row."""

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""How an Office file begins that is encrypted, or older than the formats that are read here."""

_DELIMITERS = ",;\t|"

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_COMPATIBLE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"

Check = Callable[[], None]


@dataclass(slots=True)
class Text:
    """Text as it is collected, up to `limit` bytes of UTF-8; `full` once that is reached."""

    limit: int
    check: Check
    parts: list[str] = field(default_factory=list)
    problems: list[Sentence] = field(default_factory=list)
    size: int = 0
    full: bool = False

    def add(self, lines: Iterable[str]) -> None:
        """Add `lines` while there is room; the last may lose its end. Raises `Cancelled`."""
        for number, line in enumerate(lines):
            if number % 64 == 0:
                self.check()
            data = (line + "\n").encode("utf-8", "replace")
            room = self.limit - self.size
            if len(data) > room:
                self.parts.append(data[: max(room, 0)].decode("utf-8", "ignore"))
                self.full = True
                return
            self.parts.append(line + "\n")
            self.size += len(data)

    @property
    def text(self) -> str:
        """What there is, without more than one empty line in a row."""
        return re.sub(r"\n{3,}", "\n\n", "".join(self.parts)).strip("\n")


def document_kind(head: bytes, name: str) -> str | None:
    """The kind of document that a file is by its first bytes and its name; None for one that is none.

    Of what is packed only the kind `zip` is known by then.
    """
    if b"%PDF-" in head[:1024]:
        return "pdf"
    if head.startswith(b"PK\x03\x04"):
        return "zip"
    extension = name.lower().rpartition(".")[2]
    if head.startswith(_OLE):
        return "locked" if extension in PACKED else None
    return "csv" if extension in ("csv", "tsv") and b"\0" not in head else None


def read_document(file: IO[bytes], kind: str, shown: str, limit: int, check: Check) -> Text | None:
    """The first `limit` bytes of text of the document `file` (seekable) of `kind`; None for an unknown archive.

    `shown` names it in problems. Raises `Refusal` when it cannot be read, is too large, or has no text in it,
    and whatever `check` raises, which is called often.
    """
    text = Text(limit, check)
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    if size > MOST_BYTES:
        raise Refusal("read.too_big", path=shown, size=megabytes(MOST_BYTES))
    if kind == "locked":
        raise Refusal("read.encrypted", path=shown)
    try:
        if kind == "pdf":
            _read_pdf(file, text, shown)
        else:
            packed = repacked(file, shown, check)
            if packed is None:
                return None
            READERS[packed[0]](packed[1], text)
    except (Cancelled, Refusal):
        raise
    except Exception as error:  # a library stumbles over a broken file in whatever way: the file is named, not that
        raise Refusal("read.broken", path=shown) from error
    if not text.text.strip():
        raise Refusal("read.no_text" if kind == "pdf" else "read.empty", path=shown)
    return text


def _read_pdf(file: IO[bytes], text: Text, shown: str) -> None:
    """The text of each page. Images are not read: what was scanned has no text."""
    import pypdf

    reader = pypdf.PdfReader(file)
    if reader.is_encrypted:
        try:
            opened = reader.decrypt("")
        except pypdf.errors.DependencyError:
            opened = pypdf.PasswordType.NOT_DECRYPTED
        if not opened:
            raise Refusal("read.encrypted", path=shown)
    broken = 0
    pages = reader.pages
    for number in range(min(len(pages), MOST_PAGES)):
        text.check()
        try:
            said = pages[number].extract_text(visitor_operand_before=lambda *_: text.check())
        except (Cancelled, Refusal):
            raise
        except Exception:  # as above: one broken page leaves the others readable
            log.exception("page_unreadable", page=number + 1)
            broken += 1
            continue
        text.add([*said.splitlines(), ""])
        if text.full:
            break
    text.full = text.full or len(pages) > MOST_PAGES
    if broken:
        text.problems.append(say("read.pages", path=shown, count=broken))


def _read_docx(file: io.BytesIO, text: Text) -> None:
    import docx

    text.add(_word_lines(docx.Document(file).element.body))


def _word_lines(block: Any) -> Iterator[str]:
    """The paragraphs of `block`, and a line for each row of its tables."""
    for child in block:
        if child.tag == f"{_WORD}p":
            yield from "".join(_word_text(child)).split("\n")
        elif child.tag == f"{_WORD}tr":
            cells = [cell for cell in child.iter(f"{_WORD}tc") if next(cell.iterancestors(f"{_WORD}tr")) is child]
            yield _row(" ".join(_word_lines(cell)) for cell in cells)
        elif isinstance(child.tag, str):
            yield from _word_lines(child)
        if child.tag == f"{_WORD}tbl":
            yield ""


def _word_text(element: Any) -> Iterator[str]:
    for child in element:
        if child.tag == f"{_WORD}t":
            yield child.text or ""
        elif child.tag == f"{_WORD}tab":
            yield "\t"
        elif child.tag in (f"{_WORD}br", f"{_WORD}cr"):
            yield "\n"
        elif child.tag == f"{_WORD}p":
            # A box with text of its own inside a paragraph.
            yield "\n"
            yield from _word_text(child)
        # Deleted text is no text; what stands for older programs is there twice.
        elif isinstance(child.tag, str) and child.tag not in (f"{_WORD}del", f"{_WORD}pPr", f"{_COMPATIBLE}Fallback"):
            yield from _word_text(child)


def _read_odt(file: io.BytesIO, text: Text) -> None:
    import odfdo

    text.add(_open_lines(odfdo.Document(file).body))


def _open_lines(block: odfdo.Element) -> Iterator[str]:
    """The paragraphs of `block`, and a line for each row of its tables."""
    for child in block.children:
        if child.tag in ("text:p", "text:h"):
            yield from "".join(_open_text(child)).split("\n")
        elif child.tag == "table:table-row":
            yield _row(" ".join(_open_lines(cell)) for cell in child.children)
        elif child.tag not in ("text:tracked-changes", "office:forms", "text:sequence-decls"):
            yield from _open_lines(child)
        if child.tag == "table:table":
            yield ""


def _open_text(element: odfdo.Element) -> Iterator[str]:
    yield element.text or ""
    for child in element.children:
        if child.tag == "text:s":
            # The number of blanks is whatever the file says.
            yield " "
        elif child.tag == "text:tab":
            yield "\t"
        elif child.tag in ("text:line-break", "text:p", "text:h"):
            yield "\n"
            yield from _open_text(child)
        elif child.tag not in ("office:annotation", "text:note-citation"):
            yield from _open_text(child)
        yield child.tail or ""


def _read_xlsx(file: io.BytesIO, text: Text) -> None:
    import openpyxl

    book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
    text.add(_sheet_lines(book, text))


def _sheet_lines(book: openpyxl.Workbook, text: Text) -> Iterator[str]:
    rows = cells = 0
    for sheet in book.worksheets:
        title: str | None = f"# {sheet.title}"
        # The size that a sheet claims for itself may be anything.
        sheet.reset_dimensions()
        for row in sheet.iter_rows(values_only=True):
            rows += 1
            cells += len(row)
            if rows > MOST_ROWS or cells > MOST_CELLS:
                text.full = True
                return
            if rows % 64 == 0:
                text.check()
            values = [_cell(value) for value in row]
            if any(values):
                yield from (title,) if title is not None else ()
                title = None
                yield _row(values)
        yield ""


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float):
        return f"{value:.15g}"
    return str(value)


def _row(values: Iterable[str]) -> str:
    """One line for the cells of a row; empty ones at its end are left out."""
    cells = [" ".join(value.split()) for value in values]
    while cells and not cells[-1]:
        cells.pop()
    return CELLS.join(cells)


def table_text(text: str) -> str:
    """Comma-separated values as lines with `CELLS` between them; `text` itself where it is no such table."""
    try:
        dialect: Any = csv.Sniffer().sniff(text[:BLOCK], _DELIMITERS)
    except csv.Error:
        dialect = csv.excel
    try:
        return "\n".join(_row(row) for row in csv.reader(io.StringIO(text, newline=""), dialect))
    except csv.Error:
        return text


READERS: dict[str, Callable[[io.BytesIO, Text], None]] = {"docx": _read_docx, "odt": _read_odt, "xlsx": _read_xlsx}

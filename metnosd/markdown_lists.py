"""Check lists in Markdown files: the items of a text, and the text with some of them added, ticked or gone.

Everything else in the text stays byte for byte: other lines, bullets, nesting, line ends, what is in code.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_ITEM = re.compile(r"(\ufeff?[ \t>]*)([-*+]|\d{1,9}[.)])([ \t]+)\[([ xX])\](?:[ \t]+(.*))?")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_NUMBER = re.compile(r"(\d+)(.)")


@dataclass(frozen=True, slots=True)
class Item:
    """One item: its line, the line behind what is nested in it (both from 0), how far it is indented, its text."""

    line: int
    end: int
    indent: int
    text: str
    done: bool


@dataclass(frozen=True, slots=True)
class CheckList:
    """A text in lines, each with its end, and the check list items in it."""

    lines: tuple[str, ...]
    items: tuple[Item, ...]

    def ticked(self, items: Collection[Item], done: bool) -> str:
        """The text with each of `items` done, or open again."""
        lines = [*self.lines]
        for item in items:
            found = _item_of(lines[item.line])
            assert found is not None
            at = found.start(4)
            lines[item.line] = lines[item.line][:at] + ("x" if done else " ") + lines[item.line][at + 1 :]
        return "".join(lines)

    def without(self, items: Collection[Item]) -> str:
        """The text without `items` and what is nested in them."""
        gone = {line for item in items for line in range(item.line, item.end)}
        return "".join(line for number, line in enumerate(self.lines) if number not in gone)

    def nested(self, item: Item) -> tuple[Item, ...]:
        """The items that go with `item` when it goes: those nested in it."""
        return tuple(other for other in self.items if item.line < other.line < item.end)

    def added(self, texts: Sequence[str]) -> str:
        """The text with open items `texts` behind the last open one, written as that is."""
        anchor = self._anchor()
        if anchor is None:
            return self._at_end(texts)
        found = _item_of(self.lines[anchor.line])
        assert found is not None
        end = self._line_end()
        new = [f"{head}[ ] {text}{end}" for head, text in zip(_heads(found), texts, strict=False)]
        lines = [*self.lines]
        last = anchor.end - 1
        if not lines[last].endswith("\n"):
            lines[last] += end
            new[-1] = new[-1].removesuffix(end)
        lines[anchor.end : anchor.end] = new
        return "".join(lines)

    def _anchor(self) -> Item | None:
        """The item behind which a new one goes: the last open one that is indented least, else the last such."""
        least = min((item.indent for item in self.items), default=0)
        outer = [item for item in self.items if item.indent == least]
        still_open = [item for item in outer if not item.done]
        return next(reversed(still_open or outer), None)

    def _at_end(self, texts: Sequence[str]) -> str:
        end = self._line_end()
        before = "".join(self.lines)
        if before.strip("\ufeff \t\r\n"):
            before += "" if before.endswith("\n") else end
            before += "" if self.lines[-1].strip() == "" else end
        return before + "".join(f"- [ ] {text}{end}" for text in texts)

    def _line_end(self) -> str:
        return "\r\n" if self.lines and self.lines[0].endswith("\r\n") else "\n"


def read_list(text: str) -> CheckList:
    """The check list that `text` holds; items inside fenced code are none."""
    lines = tuple(_LINE.findall(text))
    items = []
    for number in _outside_code(lines):
        found = _item_of(lines[number])
        if found is not None:
            said = (found[5] or "").strip()
            indent = len(found[1].expandtabs(4))
            items.append(Item(number, _block_end(lines, number, indent), indent, said, found[4] != " "))
    return CheckList(lines, tuple(items))


def new_list(title: str, texts: Sequence[str]) -> str:
    """The text of a new list with open items `texts`."""
    return f"# {title}\n\n" + "".join(f"- [ ] {text}\n" for text in texts)


def _item_of(line: str) -> re.Match[str] | None:
    return _ITEM.fullmatch(line.rstrip("\r\n"))


def _outside_code(lines: Sequence[str]) -> Iterator[int]:
    """The numbers of the lines that are in no fenced code block."""
    fence = ""
    for number, line in enumerate(lines):
        found = _FENCE.match(line)
        if found is not None and not fence:
            fence = found[1]
        elif found is not None and found[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        elif not fence:
            yield number


def _block_end(lines: Sequence[str], start: int, indent: int) -> int:
    """The line behind the item at `start` and what is indented more than it; blank lines only between such."""
    end = start + 1
    for number in range(start + 1, len(lines)):
        body = lines[number].expandtabs(4)
        if not body.strip():
            continue
        if len(body) - len(body.lstrip(" >")) <= indent:
            break
        end = number + 1
    return end


def _heads(found: re.Match[str]) -> Iterator[str]:
    """What stands before the box of the items behind the one `found`, with numbers that go on."""
    indent, bullet, gap = found[1].lstrip("\ufeff"), found[2], found[3]
    number = _NUMBER.fullmatch(bullet)
    count = int(number[1]) if number else 0
    while True:
        count += 1
        yield f"{indent}{f'{count}{number[2]}' if number else bullet}{gap}"

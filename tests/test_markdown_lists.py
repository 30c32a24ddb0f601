"""Check lists in Markdown: what is an item, and that everything else stays byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metnosd.markdown_lists import CheckList, Item, new_list, read_list

MESSY = (
    "\ufeff# Shopping\r\n\r\nfrom *Anna*\r\n- [ ] milk  \r\n  * [ ] oat milk\r\n    a brand she likes\r\n- plain\r\n"
    "+ [X] bread\r\n\t- [x] rye\r\n\r\n```\r\n- [ ] code\r\n```\r\n1. [ ] first\r\n2) [ ] second\r\n> - [ ] quoted"
)


def texts(content: CheckList) -> list[tuple[str, bool]]:
    """The items as text and whether they are done."""
    return [(item.text, item.done) for item in content.items]


def item(content: CheckList, text: str) -> Item:
    """The item that says `text`."""
    return next(one for one in content.items if one.text == text)


def test_items_of_every_form_are_read() -> None:
    """Any bullet, any depth, numbers, quotes and line ends; what is code or has no box is no item."""
    assert texts(read_list(MESSY)) == [
        ("milk", False),
        ("oat milk", False),
        ("bread", True),
        ("rye", True),
        ("first", False),
        ("second", False),
        ("quoted", False),
    ]


def test_ticking_changes_one_character() -> None:
    """Ticked and opened again, a text is what it was; in between it differs in the box alone."""
    content = read_list(MESSY)
    ticked = content.ticked([item(content, "milk"), item(content, "quoted")], True)
    assert ticked == MESSY.replace("- [ ] milk", "- [x] milk").replace("> - [ ] quoted", "> - [x] quoted")
    again = read_list(ticked)
    assert again.ticked([item(again, "milk"), item(again, "quoted")], False) == MESSY


def test_what_is_nested_goes_with_its_item() -> None:
    """An item goes with what is indented below it, and nothing else goes."""
    content = read_list(MESSY)
    assert [one.text for one in content.nested(item(content, "milk"))] == ["oat milk"]
    gone = "- [ ] milk  \r\n  * [ ] oat milk\r\n    a brand she likes\r\n"
    assert content.without([item(content, "milk")]) == MESSY.replace(gone, "")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("- [ ] a\n- [x] b\n", "- [ ] a\n- [ ] new\n- [x] b\n"),
        ("* [ ] a\n    * [ ] deeper\n\nend\n", "* [ ] a\n    * [ ] deeper\n* [ ] new\n\nend\n"),
        ("1. [ ] a\r\n2. [ ] b", "1. [ ] a\r\n2. [ ] b\r\n3. [ ] new"),
        ("- [x] done", "- [x] done\n- [ ] new"),
        ("", "- [ ] new\n"),
        ("# Title", "# Title\n\n- [ ] new\n"),
        ("words\n\n", "words\n\n- [ ] new\n"),
    ],
)
def test_new_items_are_written_as_those_before(before: str, after: str) -> None:
    """A new item stands behind the last open one, with its bullet, depth and line end; else at the end."""
    assert read_list(before).added(["new"]) == after


def test_a_new_list_reads_back() -> None:
    """A list that is made has its title and open items."""
    assert texts(read_list(new_list("Camping", ["tent", "rope"]))) == [("tent", False), ("rope", False)]


@given(st.lists(st.sampled_from(["- [ ] a", "  - [x] b", "text", "", "```", "* [ ] c", "> q", "# h", "1. [ ] d"])))
def test_lines_that_are_no_items_stay(lines: list[str]) -> None:
    """Whatever is added, ticked or removed, no other line changes, and the text in lines is the text."""
    text = "\n".join(lines)
    content = read_list(text)
    assert "".join(content.lines) == text
    assert content.ticked([], True) == content.without([]) == text
    more = read_list(content.added(["new"]))
    assert sorted(texts(more)) in (sorted([*texts(content), ("new", False)]), sorted(texts(content)))
    left = [line.rstrip("\n") for line in more.lines]
    for line in lines:
        assert line in left or not line

"""Whatever a model service sends: a JSON object that may be a plan, or an error that says what and where."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.scripted import plan

from metnosd.plan import PlanError
from metnosd.plan_parser import MAX_CHARACTERS, MAX_DEPTH, parse_plan_text

ONE = plan(("find_files", {"name": "a {b} 'c'.txt"}))
VALUE = json.loads(ONE)


@pytest.mark.parametrize(
    "text",
    [
        ONE,
        f"  {ONE}\n",
        f"Here you are:\n{ONE}\nDone!",
        f"```json\n{ONE}\n```",
        f'<think>maybe {{"steps": [1]}} or not</think>{ONE}',
        f"<thinking>hm</thinking>\n{ONE}",
        f"Use {{curly}} braces. {ONE}",
        f"{ONE}\n{ONE}",
        f'{{"note": 1}} {ONE}',
        json.dumps(VALUE, indent=2),
    ],
)
def test_plan_is_found_in_its_wrapping(text: str) -> None:
    """Prose, fences, thinking and a repetition around the one plan do not matter."""
    assert parse_plan_text(text) == VALUE


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'steps': [{'tool': 'get_time', 'args': {}}]}", {"steps": [{"tool": "get_time", "args": {}}]}),
        ("{'steps': [{'tool': 'x', 'args': {'name': 'it\\'s \"a\"'}}]}", None),
        ('{"steps": [{"tool": "get_time", "args": {},},],}', {"steps": [{"tool": "get_time", "args": {}}]}),
        ('{"steps": [1,\n  ]\n,\n}', {"steps": [1]}),
    ],
)
def test_small_faults_are_mended(text: str, value: object) -> None:
    """Single quotes and commas before a closing bracket are read as what they mean."""
    found = parse_plan_text(text)
    if value is None:
        assert found["steps"][0]["args"]["name"] == 'it\'s "a"'
    else:
        assert found == value


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "no plan"),
        ("I cannot.", "no plan"),
        ("[1]", "no plan"),
        ('{"answer": 1}', "no plan"),
        (ONE + plan(("get_time", {})), "more than one plan"),
        ('{"steps":[],"steps":[]}', "stands twice"),
        ('{"steps":[{"tool":"a","tool":"b"}]}', "stands twice"),
        ('{"steps":[NaN]}', "NaN"),
        ('{"steps":[-Infinity]}', "Infinity"),
        ('{"steps":[' + "9" * 5000 + "]}", "too long"),
        ('{"steps":' + "[" * 40 + "]" * 40 + "}", "nested"),
        ('{"steps":[{"tool":"\ud800"}]}', "surrogate"),
        ("x" * (MAX_CHARACTERS + 1), "characters"),
        ('{"steps":[{"tool" "find_files"}]}', "no JSON"),
    ],
)
def test_what_is_no_plan_is_refused_with_its_cause(text: str, cause: str) -> None:
    """Each fault has its own words, and is not taken for a plan that was cut off."""
    with pytest.raises(PlanError, match=cause) as refused:
        parse_plan_text(text)
    assert not refused.value.truncated


def test_deepest_nesting_is_read() -> None:
    """Nesting up to the bound is fine."""
    depth = MAX_DEPTH - 1
    assert parse_plan_text('{"steps":' + "[" * depth + "]" * depth + "}")


@given(cut=st.integers(1, 200))
def test_every_cut_of_a_plan_is_truncated_or_no_plan(cut: int) -> None:
    """A plan that was cut off anywhere is never read as a plan, and its whole steps are counted."""
    text = plan(("find_files", {"name": "a}]"}), ("sort_entries", {"by": "name"}), ("delete_files", {}))
    cut = min(cut, len(text) - 1)
    with pytest.raises(PlanError) as refused:
        parse_plan_text(text[:cut])
    tools = ("find_files", "sort_entries", "delete_files")
    assert refused.value.kept == tools[: len(refused.value.kept)]
    if '"steps"' in text[:cut]:
        assert refused.value.truncated
    whole = sum(f'"tool":"{tool}"' in text[:cut] for tool in tools)
    assert whole - 1 <= len(refused.value.kept) <= whole


def test_cut_off_plan_with_a_faulty_step_is_still_truncated() -> None:
    """A whole step that is no JSON, in a plan that was cut off, does not hide that it was."""
    with pytest.raises(PlanError) as refused:
        parse_plan_text('{"steps":[{"tool":"a","args":{}},{"tool":"b","tool":"c"},{"to')
    assert refused.value.truncated and refused.value.kept == ("a",)


_OPENERS = ('{"steps":[', '{"tool":"a",', '"args":{', '"steps":', "'steps':", "<think>", "</think>", "```json\n")
_SIGNS = ("}", "]", "{", "[", '"', "'", "\\", ",", ":", "-", " ", "\n")
_VALUES = ("steps", "NaN", "1e999", "9" * 60, "\ud83d", "é", "null", "true")
_pieces = st.sampled_from((*_OPENERS, *_SIGNS, *_VALUES))


@given(st.one_of(st.text(), st.lists(_pieces, max_size=60).map("".join)))
@settings(max_examples=600, deadline=None)
def test_any_text_is_a_plan_or_an_error(text: str) -> None:
    """No text leads to another exception than PlanError, and what is returned is JSON with steps or a tool."""
    try:
        value = parse_plan_text(text)
    except PlanError:
        return
    assert isinstance(value, dict) and ("steps" in value or "tool" in value)
    json.dumps(value, allow_nan=True)


@pytest.mark.parametrize(
    "unit",
    ["{", "}", "{}", '{"', "'", "[ ", "{'", "\\", "<think>", '{"steps":1} ', '"steps"', '{"a":', ", ", "{, ' "],
)
def test_work_grows_with_the_length_only(unit: str) -> None:
    """The number of steps of the interpreter for a text of twice the length is about twice as large."""
    base = '{"steps":['

    def work(length: int) -> int:
        return _lines_run(base + unit * (length // len(unit)))

    assert work(8000) < 3 * work(4000) + 20_000


def test_many_keys_one_twice_is_quick() -> None:
    """A key that stands twice among thousands is found without comparing each with each."""
    keys = ",".join(f'"k{number}":1' for number in range(10_000))
    with pytest.raises(PlanError, match="stands twice"):
        parse_plan_text(f'{{"steps":[{{{keys},"k9999":2}}]}}')


def _lines_run(text: str) -> int:
    count = 0

    def trace(_frame: object, _event: str, _arg: object) -> object:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        parse_plan_text(text)
    except PlanError:
        pass
    finally:
        sys.settrace(before)
    return count

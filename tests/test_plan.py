"""What makes a proposal a plan: the validator and grounding, at every level of constraint the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.scripted import Call
from support.scripted import plan as text_of

from metnosd.assemble import make_registry
from metnosd.grounding import ground_plan, narrow
from metnosd.kinds import shipped_kinds
from metnosd.lexicon.loading import load_lexicon
from metnosd.lexicon.spans import read_spans
from metnosd.locations import shipped_config
from metnosd.plan import Plan, PlanError, plan_from_json, validate
from metnosd.pool import FINAL, Pool

REGISTRY = make_registry()
ALL = Pool(tuple(REGISTRY))
WITH_LAST = Pool(tuple(REGISTRY), ("files",))
LEXICON = load_lexicon(shipped_config("lexicon"))


def data(*steps: Call) -> object:
    """A plan as parsed JSON."""
    return json.loads(text_of(*steps))


def grounded(message: str, *steps: Call) -> Plan:
    """A plan after grounding in a message."""
    spans = read_spans(message, LEXICON, shipped_kinds())
    return ground_plan(validate(data(*steps), ALL), ALL, message, spans)


def test_plan_of_the_main_job() -> None:
    """The plan of the README's sentence is valid as it stands, and comes back from its own text."""
    find = ("find_files", {"path": "Projects", "extension": "pdf"})
    wire = data(find, ("compute_signatures", {"algorithm": "sha256"}))
    plan = validate(wire, ALL)
    assert plan.to_json() == wire
    assert plan_from_json(json.loads(plan.compact())) == plan


@pytest.mark.parametrize(
    ("wire", "where"),
    [
        (None, ""),
        ([], ""),
        ({}, ""),
        ({"steps": {}}, ""),
        ({"steps": []}, "steps"),
        ({"steps": [{"tool": "get_time"}] * 7}, "steps"),
        ({"steps": [{"tool": "get_time"}], "when": "now"}, "when"),
        ({"steps": ["get_time"]}, "steps.1"),
        ({"steps": [{"tool": "get_time", "then": 1}]}, "steps.1.then"),
        ({"steps": [{"args": {}}]}, "steps.1.tool"),
        ({"steps": [{"tool": 5}]}, "steps.1.tool"),
        ({"steps": [{"tool": ["get_time"]}]}, "steps.1.tool"),
        ({"steps": [{"tool": "run_shell"}]}, "steps.1.tool"),
        ({"steps": [{"tool": "get_time", "args": []}]}, "steps.1.args"),
        ({"steps": [{"tool": "get_time", "args": {"zone": {}}}]}, "steps.1.args"),
        ({"steps": [{"tool": "get_time", "args": {"planet": "x"}}]}, "steps.1.args"),
        ({"steps": [{"tool": "create_dirs", "args": {}}]}, "steps.1.args"),
        ({"steps": [{"tool": "create_dirs", "args": {"names": []}}]}, "steps.1.args"),
        ({"steps": [{"tool": "undo_actions", "args": {"count": "many"}}]}, "steps.1.args"),
        ({"steps": [{"tool": "undo_actions", "args": {"count": 1e999}}]}, "steps.1.args"),
        ({"steps": [{"tool": "find_files"}, {"tool": "delete_files", "from": "1"}]}, "steps.2.from"),
        ({"steps": [{"tool": "find_files"}, {"tool": "delete_files", "from": True}]}, "steps.2.from"),
        ({"steps": [{"tool": "find_files"}, {"tool": "delete_files", "from": 2}]}, "steps.2.from"),
        ({"steps": [{"tool": "find_files"}, {"tool": "delete_files", "from": -1}]}, "steps.2.from"),
        ({"steps": [{"tool": "find_files"}, {"tool": "delete_files", "from": 0}]}, "steps.2.from"),
        ({"steps": [{"tool": "find_files"}, {"tool": "get_time", "from": 1}]}, "steps.2.from"),
        ({"steps": [{"tool": "delete_files"}]}, "steps.1"),
        ({"steps": [{"tool": "get_time"}, {"tool": "delete_files"}]}, "steps.2"),
        ({"steps": [{"tool": FINAL, "args": {"text": "a"}}, {"tool": "get_time"}]}, "steps.1.tool"),
    ],
)
def test_what_is_no_plan_is_refused_with_its_place(wire: object, where: str) -> None:
    """Each fault names the place in the plan, so that the model can be told."""
    with pytest.raises(PlanError) as refused:
        validate(wire, ALL)
    assert refused.value.where == where
    assert not refused.value.truncated


def test_last_outcome_is_a_source_only_where_there_is_one() -> None:
    """`from` 0 passes with a last outcome of a fitting kind, and not with one of another kind."""
    wire = {"steps": [{"tool": "delete_files", "from": 0, "args": {}}]}
    assert validate(wire, WITH_LAST).steps[0].source == 0
    with pytest.raises(PlanError):
        validate(wire, Pool(tuple(REGISTRY), ("numbers",)))
    with pytest.raises(PlanError):
        validate({"steps": [{"tool": "delete_files", "args": {}}]}, WITH_LAST)


def test_same_kind_is_looked_through() -> None:
    """An executor that gives what it takes hands on the kind: sorted files can be deleted, counted ones cannot."""
    validate(data(("find_files", {}), ("sort_entries", {"by": "size"}), ("delete_files", {})), ALL)
    with pytest.raises(PlanError):
        validate(data(("find_files", {}), ("count_entries", {}), ("delete_files", {})), ALL)


def test_empty_and_null_arguments_are_left_out() -> None:
    """What a model leaves empty was not said."""
    plan = validate(data(("find_files", {"path": "", "name": None, "extension": "pdf"})), ALL)
    assert plan.steps[0].args == {"extension": "pdf"}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_step = st.fixed_dictionaries(
    {"tool": st.sampled_from([item.name for item in REGISTRY]) | _json},
    optional={
        "from": st.integers(-2, 7) | _json,
        "args": st.dictionaries(
            st.sampled_from(["path", "name", "to", "text", "count", "by", "names", "modified", "self"]) | st.text(),
            _json,
            max_size=3,
        )
        | _json,
    },
)


@given(st.lists(_step, max_size=7).map(lambda steps: {"steps": steps}) | _json, st.sampled_from([ALL, WITH_LAST]))
@settings(max_examples=300, deadline=None)
def test_any_json_is_a_plan_or_an_error(wire: object, pool: Pool) -> None:
    """No JSON value leads to another exception than PlanError; a plan that passes, passes again the same."""
    try:
        plan = validate(wire, pool)
    except PlanError:
        return
    assert validate(plan.to_json(), pool) == plan


@pytest.mark.parametrize(
    ("message", "step", "kept"),
    [
        ("find files in Projects", {"path": "/home/me/Projects"}, {"path": "Projects"}),
        ("find the pdf files", {"path": "Secret", "extension": "pdf"}, {"extension": "pdf"}),
        ("find pdfs", {"extension": "PDF"}, {"extension": "pdf"}),
        ("find pdfs modified this week", {"extension": "pdf"}, {"extension": "pdf", "modified": "this week"}),
        ("find pdfs", {"extension": "pdf", "modified": "2023-01-01"}, {"extension": "pdf"}),
        ("find files over 10 MB", {"larger_than": "10MB"}, {"larger_than": "10MB"}),
        ("find files over 10 MB", {"larger_than": "99GB"}, {"larger_than": "10MB"}),
        ("find everything", {"larger_than": "1GB"}, {}),
        ("find pdfs", {"extension": "pdf", "recursive": False}, {"extension": "pdf"}),
    ],
)
def test_grounding_keeps_what_was_said(message: str, step: dict[str, object], kept: dict[str, object]) -> None:
    """What the message says stays, in its words; what it does not say goes."""
    assert dict(grounded(message, ("find_files", step)).steps[0].args) == kept


def test_required_argument_that_was_not_said_is_an_error() -> None:
    """A target that the message does not name is no plan, at the place where it stands."""
    with pytest.raises(PlanError) as refused:
        grounded("move the txt files away", ("find_files", {"extension": "txt"}), ("move_files", {"to": "Elsewhere"}))
    assert refused.value.where == "steps.2.args.to"


@given(st.text(max_size=60), st.text(max_size=10), st.text(max_size=10))
@settings(max_examples=150, deadline=None)
def test_grounding_never_raises_anything_else(message: str, path: str, name: str) -> None:
    """Any message and values: a plan whose paths and names are words of the message, or PlanError."""
    try:
        plan = grounded(message, ("find_files", {"path": path, "name": name}))
    except PlanError:
        return
    assert set(plan.steps[0].args) <= {"path", "name", "extension", "kind", "modified"}


def test_narrowing_offers_only_what_can_be_filled() -> None:
    """Without a size in the message no size is offered; with one it is."""
    executor = REGISTRY["find_files"]
    for message, offered in (("find pdfs", False), ("find pdfs over 5 MB", True)):
        spans = read_spans(message, LEXICON, shipped_kinds())
        pool = narrow(Pool((executor,)), spans)
        properties = pool.executors[0].schema["properties"]
        assert ("larger_than" in properties) is (offered or properties["larger_than"]["x-source"] == "size")

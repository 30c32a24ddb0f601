"""What `STYLE` asks of the code, as far as it can be counted."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from metnosd.assemble import make_registry
from metnosd.cli import app
from metnosd.executors.grants import ACTIONS
from metnosd.locations import shipped_config
from metnosd.policy import load_policy

ROOT = Path(__file__).parent.parent
SOURCES = sorted([*(ROOT / "metnosd").rglob("*.py"), *(ROOT / "channels").rglob("*.py")])
IDS = [str(source.relative_to(ROOT)) for source in SOURCES]

STAGES = ("message", "lexicon", "pool", "plan", "planner", "resolve", "vaglio", "consent", "act", "reply", "turn")
"""The path of a message: each imports only from stages to its left."""

MAX_MODULE = 400
MAX_FUNCTION = 60


def imports_of(source: Path) -> set[str]:
    """The modules that a file imports, also those inside functions; not those for type checking alone."""
    tree = ast.parse(source.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def module_of(source: Path) -> str:
    """The dotted name of a file."""
    return ".".join(source.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_modules_and_functions_are_short(source: Path) -> None:
    """No module is longer than 400 lines and no function longer than 60."""
    text = source.read_text()
    assert len(text.splitlines()) <= MAX_MODULE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno + 1 <= MAX_FUNCTION, node.name


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_public_functions_have_a_docstring(source: Path) -> None:
    """Every public module, class and function at the top of a module says what it is for."""
    tree = ast.parse(source.read_text())
    assert ast.get_docstring(tree)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), node.name


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_imports_point_one_way(source: Path) -> None:
    """A stage imports no stage to its right."""
    parts = source.relative_to(ROOT).with_suffix("").parts
    if parts[0] != "metnosd" or parts[1] not in STAGES:
        return
    later = STAGES[STAGES.index(parts[1]) + 1 :]
    reached = {name.split(".")[1] for name in imports_of(source) if name.startswith("metnosd.")}
    assert not reached & set(later)


@pytest.mark.parametrize("source", [s for s in SOURCES if s.is_relative_to(ROOT / "channels")], ids=lambda s: s.stem)
def test_channels_know_the_two_ends_only(source: Path) -> None:
    """A channel imports `metnosd.message` and `metnosd.service`, nothing else of the core."""
    reached = {".".join(name.split(".")[:2]) for name in imports_of(source) if name.startswith("metnosd.")}
    assert reached <= {"metnosd.message", "metnosd.service"}


@pytest.mark.parametrize("source", [s for s in SOURCES if s.is_relative_to(ROOT / "metnosd")], ids=module_of)
def test_only_the_composition_root_knows_channels(source: Path) -> None:
    """Nothing but `serve` and `cli` imports a channel."""
    if module_of(source) not in ("metnosd.serve", "metnosd.cli"):
        assert not [name for name in imports_of(source) if name.split(".")[0] == "channels"]


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_broad_handlers_have_their_reason(source: Path) -> None:
    """A handler of every exception says beside it, or on the next line, why."""
    lines = source.read_text().splitlines()
    for number, line in enumerate(lines):
        if re.search(r"except (Base)?Exception\b", line) and "BaseException" not in line:
            assert "#" in line or lines[number + 1].strip().startswith("#"), line


def keys_in_code() -> Iterator[str]:
    """The keys of sentences that the code names, with `*` for what is filled in."""
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("say", "Refusal", "Question", "_error", "_word"):
                yield from _keys_of(node.args[0])
        yield from re.findall(r'errno\.\w+: "([a-z_]+\.[a-z_]+)"', source.read_text())


def _keys_of(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values)
    elif isinstance(node, ast.IfExp):
        yield from _keys_of(node.body)
        yield from _keys_of(node.orelse)


def shipped_sentences() -> dict[str, object]:
    """The sentences of the reference language."""
    said: dict[str, object] = tomllib.loads(shipped_config("lexicon/en.toml").read_text())["say"]
    return said


def test_every_sentence_in_code_is_in_the_lexicon() -> None:
    """A key that the code names is a sentence; one with a part filled in has at least one."""
    sentences = shipped_sentences()
    for key in set(keys_in_code()):
        if "." not in key:
            continue
        pattern = re.compile(re.escape(key).replace(r"\*", "[a-z0-9_]+"))
        assert any(pattern.fullmatch(known) for known in sentences), key


def test_every_sentence_of_the_lexicon_is_said() -> None:
    """A sentence that no code names, whole or with a part filled in, is not in the lexicon."""
    named = set()
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Constant | ast.JoinedStr):
                named |= {key for key in _keys_of(node) if re.match(r"([a-z_]+\.|\*[._][a-z])", key)}
    patterns = [re.compile(re.escape(key).replace(r"\*", "[a-z0-9_.]+")) for key in named]
    for known in shipped_sentences():
        assert any(pattern.fullmatch(known) for pattern in patterns), known


def test_filled_in_keys_are_complete() -> None:
    """For each effect, verdict and model error there is the sentence that names it."""
    from metnosd.effects import ALL_EFFECTS
    from metnosd.entries import KINDS

    sentences = shipped_sentences()
    given = {item.gives for item in make_registry()} & set(KINDS)
    wanted = [f"ask.{effect.kind}" for effect in ALL_EFFECTS if effect.kind != "record"]
    wanted += [f"{way}.{about}" for way in ("ask", "done") for about in ("grant", "grant_end")]
    wanted += [f"deed.{tool.name}" for tool in ACTIONS.values()]
    wanted += [f"vaglio.{answer}" for answer in ("allow", "ask", "deny")]
    wanted += [f"reply.found_{kind}" for kind in given - {"entries"}]
    codes = ("unavailable", "died", "hung", "cancelled", "grammar", "context", "decode")
    wanted += [f"model.{code}" for code in codes]
    assert [key for key in wanted if key not in sentences] == []


def test_every_executor_has_a_rule() -> None:
    """Each capability has a rule for the owner's level; one with effect is not allowed to who may only read."""
    levels = tomllib.loads(shipped_config("policy.toml").read_text())["levels"]
    load_policy(shipped_config("policy.toml"))
    for item in make_registry():
        assert item.capability in levels["supervised"], item.name
        if item.effect and item.capability != "grants:revoke":
            assert levels["read_only"].get(item.capability) != "allow", item.name


def test_executors_are_known_to_the_lexicon() -> None:
    """Each executor has words that point to it, and no words point to one that is not there."""
    names = {item.name for item in make_registry()}
    words = set(tomllib.loads(shipped_config("lexicon/en.toml").read_text())["executors"])
    assert words == names


def commands() -> Iterator[tuple[str, typer.models.CommandInfo]]:
    """Every command with its full name."""
    for command in app.registered_commands:
        yield command.name or command.callback.__name__.replace("_", "-"), command  # type: ignore[union-attr]
    for group in app.registered_groups:
        assert group.typer_instance is not None
        for command in group.typer_instance.registered_commands:
            yield f"{group.name} {command.name}", command


@pytest.mark.parametrize(("name", "command"), [pytest.param(*item, id=item[0]) for item in commands()])
def test_every_command_takes_a_config_and_explains_itself(name: str, command: typer.models.CommandInfo) -> None:
    """Each command has a docstring and the option `--config`."""
    assert command.callback is not None and command.callback.__doc__
    assert "config" in command.callback.__annotations__


def test_nothing_in_the_sources_dates_itself() -> None:
    """No comment names a ticket; what changed and when is in the history."""
    for source in SOURCES:
        for line in source.read_text().splitlines():
            comment = line.partition("# ")[2]
            assert not re.search(r"\b(TODO|FIXME|XXX|HACK)\b", comment), f"{source.name}: {line}"

"""The README keeps up with the code."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import typer

from metnosd.assemble import make_registry
from metnosd.cli import app
from metnosd.locations import shipped_config
from metnosd.policy import load_policy

README = Path(__file__).parents[1] / "README.md"


def executor_table() -> str:
    """The table of executors as the README shows it."""
    levels = load_policy(shipped_config("policy.toml")).levels
    rows = ["| executor | arguments | what it does |", "|---|---|---|"]
    for item in make_registry():
        arguments = ", ".join(f"`{name}`" for name in item.schema["properties"])
        asks = any(levels["supervised"][capability] == "ask" for capability in item.capability.split())
        undone = item.effect and item.reversible and item.capability != "journal:undo"
        words = ["asks"] * asks + ["can be undone"] * undone
        kind = ", ".join(words)
        rows.append(f"| `{item.name}` | {arguments} | {item.summary}{f' ({kind})' if kind else ''} |")
    return "\n".join(rows)


def section(name: str) -> str:
    """What stands between the markers of `name`."""
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- end -->", README.read_text("utf-8"), re.DOTALL)
    assert found, name
    return found[1].strip()


def test_every_executor_is_in_the_table() -> None:
    """The table is the one that the registry gives; `python tests/test_readme.py` writes it."""
    assert section("executors") == executor_table()


def test_every_command_is_named() -> None:
    """Every command and subcommand stands in the README as it is typed."""
    text = README.read_text("utf-8")
    group = typer.main.get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        for sub in getattr(command, "commands", None) or [""]:
            assert f"`metnosd {name} {sub}".rstrip() in text, f"{name} {sub}"


if __name__ == "__main__":
    old = README.read_text("utf-8")
    new = re.sub(
        r"(<!-- executors -->\n).*?(<!-- end -->)",
        lambda match: match[1] + executor_table() + "\n" + match[2],
        old,
        flags=re.DOTALL,
    )
    README.write_text(new, "utf-8")
    sys.exit(0)

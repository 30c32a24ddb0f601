"""The planner's prompt: `config/prompts.toml` filled in. What is static comes first and never changes."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from metnosd.executor import Executor, Registry
from metnosd.pool import Pool

Chat = tuple[tuple[str, str], ...]


class _Example(BaseModel):
    model_config = ConfigDict(extra="forbid")
    request: str
    plan: str


class PlannerTexts(BaseModel):
    """Section `[planner]` of `config/prompts.toml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    system: str
    tool: str
    request: str
    tools: str
    last: str
    retry: str
    example: list[_Example]


class WriterTexts(BaseModel):
    """Section `[writer]` of `config/prompts.toml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    system: str
    user: str
    none: str
    same_language: str
    summarize: str
    part: str
    translate: str
    extract: str
    answer: str
    length: dict[str, str]


class _Prompts(BaseModel):
    model_config = ConfigDict(extra="forbid")
    planner: PlannerTexts
    writer: WriterTexts


def load_prompts(file: Path) -> PlannerTexts:
    """The planner's texts; raises OSError or ValueError (pydantic, TOML) for a file that cannot be used."""
    return _Prompts.model_validate(tomllib.loads(file.read_text("utf-8"))).planner


def load_writer_texts(file: Path) -> WriterTexts:
    """The writer's texts; raises as `load_prompts` does."""
    return _Prompts.model_validate(tomllib.loads(file.read_text("utf-8"))).writer


@dataclass(frozen=True)
class Prompt:
    """The prompt for one set of executors; `static` is its unchanging head."""

    texts: PlannerTexts
    static: str

    def chat(self, text: str, pool: Pool, last_count: int = 0) -> Chat:
        """The chat that asks for the plan of `text` with the executors of `pool`."""
        names = self.texts.tools.format(names=", ".join(pool.names))
        if pool.last:
            names += self.texts.last.rstrip("\n").format(count=last_count, kinds=" and ".join(pool.last))
        user = self.texts.request.strip("\n").format(tools=names, text=text)
        return (("system", self.static), ("user", user))

    def retry(self, chat: Chat, answer: str, problem: str) -> Chat:
        """The chat that tells the model what was wrong with its answer."""
        return (*chat, ("assistant", answer), ("user", self.texts.retry.format(problem=problem)))


def make_prompt(texts: PlannerTexts, registry: Registry) -> Prompt:
    """The prompt that describes every executor of `registry` once, in its order."""
    tools = "\n".join(_tool_line(texts, item) for item in registry if not item.by_runtime)
    examples = "\n".join(f"{example.request}\n{example.plan}" for example in texts.example)
    return Prompt(texts, texts.system.strip("\n").format(tools=tools, examples=examples))


def _tool_line(texts: PlannerTexts, executor: Executor) -> str:
    properties: Mapping[str, Any] = executor.schema["properties"]
    required: Sequence[str] = executor.schema["required"]
    shown = [_argument(name, schema, name in required) for name, schema in properties.items()]
    return texts.tool.format(name=executor.name, arguments=", ".join(shown), summary=executor.summary)


def _argument(name: str, schema: Mapping[str, Any], required: bool) -> str:
    mark = "" if required else "?"
    if "enum" in schema:
        return f"{name}{mark}: {'|'.join(str(value) for value in schema['enum'])}"
    if schema.get("type") in ("integer", "boolean", "array"):
        return f"{name}{mark}: {'list' if schema['type'] == 'array' else schema['type']}"
    return f"{name}{mark}"

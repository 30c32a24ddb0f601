"""Decoding grammars in llama.cpp's GBNF: for plans, for a tool call, for any JSON Schema.

A package of its own: it imports nothing of the rest of `metnosd`.
"""

from metnosd.grammar.gbnf import GrammarError
from metnosd.grammar.grounded import build_framework_grammar_grounded
from metnosd.grammar.plan_rules import (
    build_framework_grammar,
    build_framework_grammar_flow,
    build_framework_grammar_typed,
    generate_tool_grammar,
)
from metnosd.grammar.schema import schema_to_gbnf, untyped_paths

__all__ = [
    "GrammarError",
    "build_framework_grammar",
    "build_framework_grammar_flow",
    "build_framework_grammar_grounded",
    "build_framework_grammar_typed",
    "generate_tool_grammar",
    "schema_to_gbnf",
    "untyped_paths",
]

"""Grounded plans: what the user did not say, the model cannot write.

Each argument names its source in its schema, `x-source` (for arrays, of their items). A source other than
`words` and `free` becomes an enumeration of what the lexicon found, so the rest of the schema still holds;
`words` becomes one rule a word of the message, so that any run of consecutive words can be written in linear
size.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from metnosd.grammar.gbnf import Alternative, GrammarError, Ref, Rules, json_text, literal, trie
from metnosd.grammar.plan_rules import final_ending, plan_grammar, read_flow, read_pool, typed_tools
from metnosd.grammar.schema import WORDS

SOURCE = "x-source"
FREE_SOURCE = "free"
WORDS_SOURCE = "words"
_DEEPEST = 24
"""No argument is offered that is nested deeper; what the translator cannot follow must not be free."""
_IN_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_IN_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_IN_PLACE = ("items", "additionalProperties")

Spans = Mapping[str, Sequence[Any]]


def build_framework_grammar_grounded(pool: Iterable[Any], spans: Spans, *, last: Sequence[str] = ()) -> str:
    """As `build_framework_grammar_flow` with `typed`, with arguments that can only be what the user said.

    `spans` maps a source to the ordered values that this message has for it, `words` to the message's words.
    Values are texts, those of `number` may be numbers. An optional argument whose source is empty is not
    offered, a tool with such a required argument neither; `final_answer` always is. Enumerations, booleans
    and arguments without a source, or with the source `free`, are as in the typed grammar. Raises
    GrammarError as the other builders do, and for spans that are no such mapping.
    """
    checked = _read_spans(spans)
    rules = Rules()
    said = checked.get(WORDS_SOURCE, ())
    if said:
        write_word_runs(rules, said)
    specs = [(spec, ground(spec.schema, checked), read_flow(spec)) for spec in read_pool(pool)]
    tools = typed_tools(rules, specs, grounded=True, words=bool(said))
    return plan_grammar(rules, tools, final_ending(rules), flow=True, last=last)


def _read_spans(spans: Spans) -> dict[str, tuple[Any, ...]]:
    if not isinstance(spans, Mapping):
        raise GrammarError(f"spans map sources to values, they are no {type(spans).__name__}")
    found: dict[str, tuple[Any, ...]] = {}
    for source, values in spans.items():
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise GrammarError(f"the values of the source {source!r} are no sequence")
        found[source] = tuple(values)
        for value in found[source]:
            if not isinstance(value, (str, int, float)) or isinstance(value, bool):
                raise GrammarError(f"the source {source!r} has {value!r}, which is no text or number")
    return found


def ground(schema: Any, spans: Mapping[str, Sequence[Any]], depth: int = 0) -> Any:
    """`schema` with each source replaced by what it has in this message."""
    if not isinstance(schema, Mapping):
        return schema
    if depth > _DEEPEST:
        return False
    found = dict(schema)
    for key in _IN_MAPS:
        if isinstance(found.get(key), Mapping):
            found[key] = {name: ground(sub, spans, depth + 1) for name, sub in found[key].items()}
    for key in _IN_LISTS:
        if isinstance(found.get(key), (list, tuple)):
            found[key] = [ground(sub, spans, depth + 1) for sub in found[key]]
    for key in _IN_PLACE:
        if key in found:
            found[key] = ground(found[key], spans, depth + 1)
    if SOURCE in found and not _needs_none(found):
        return _from_source(found, found.pop(SOURCE), spans)
    items = schema.get("items")
    if isinstance(items, Mapping) and "items" in found and SOURCE in items and not _needs_none(items):
        return _bounded(found, items[SOURCE], spans)
    return found


def _needs_none(schema: Mapping[str, Any]) -> bool:
    listed = "enum" in schema or "const" in schema or schema.get("type") == "boolean"
    return listed or schema[SOURCE] == FREE_SOURCE


def _from_source(schema: dict[str, Any], source: Any, spans: Mapping[str, Sequence[Any]]) -> Any:
    if not isinstance(source, str):
        raise GrammarError(f"{SOURCE} names one source, not {source!r}")
    if schema.get("type") == "array":
        return ground({**schema, "items": {**_items(schema), SOURCE: source}}, spans)
    values = spans.get(source, ())
    if not values:
        return False
    if source == WORDS_SOURCE:
        return {"allOf": [schema, {"type": "string", WORDS: True}]}
    listed = [other for value in values for other in _forms(value)]
    return {"allOf": [schema, {"enum": listed}]} if "enum" in schema else {**schema, "enum": listed}


def _items(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    items = schema.get("items")
    return items if isinstance(items, Mapping) else {}


def _bounded(schema: dict[str, Any], source: Any, spans: Mapping[str, Sequence[Any]]) -> Any:
    """An array has at most as many items as its source has values, and is not offered when it has none."""
    count = len(spans.get(source, ()))
    if not count:
        return False
    if isinstance(schema.get("maxItems"), int):
        count = min(count, schema["maxItems"])
    return {**schema, "maxItems": count}


def _forms(value: Any) -> list[Any]:
    """A value as text and, where it is one, as a number; the schema's type picks."""
    if not isinstance(value, str):
        return [value, json_text(value)]
    try:
        number = Decimal(value)
    except InvalidOperation:
        return [value]
    if not number.is_finite() or abs(number.adjusted()) > 30:
        return [value]
    return [value, int(number) if number == number.to_integral_value() else float(number)]


def write_word_runs(rules: Rules, words: Sequence[Any]) -> None:
    """Write the rule `words` of a JSON text that is a run of consecutive `words`, parted by one blank.

    A run may leave out punctuation at its two ends. One rule a word and one trie over the starts.
    """
    starts: list[tuple[str, Alternative]] = []
    after: Ref | None = None
    for word in reversed(words):
        if not isinstance(word, str) or not word:
            raise GrammarError(f"{word!r} is no word")
        lead, core, trail = _parts(word)
        rest = _after_core(rules, trail, after)
        starts += [(_text(lead[cut:] + core), (rest,)) for cut in range(len(lead) + 1)]
        after = rules.shared("word", [(literal(_text(lead + core)), rest)])
    starts.reverse()
    rules.define("words", [('"\\""', rules.shared("run", trie(rules, "run", starts)), '"\\""')])


def _after_core(rules: Rules, trail: str, after: Ref | None) -> Ref:
    """What may follow a word without its closing punctuation: the end, some of it, or the next word."""
    ends: list[Alternative] = [()]
    ends += [(literal(_text(trail[:count])),) for count in range(1, len(trail) + 1)]
    if after is not None:
        ends.append((literal(_text(trail) + " "), after))
    return rules.shared("word-end", ends)


def _text(text: str) -> str:
    return json_text(text)[1:-1]


def _parts(word: str) -> tuple[str, str, str]:
    """A word's opening punctuation, the word, its closing punctuation; punctuation alone is a word."""
    start, end = 0, len(word)
    while start < end and unicodedata.category(word[start]).startswith("P"):
        start += 1
    if start == end:
        return "", word, ""
    while unicodedata.category(word[end - 1]).startswith("P"):
        end -= 1
    return word[:start], word[start:end], word[end:]

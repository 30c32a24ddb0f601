"""JSON Schema to GBNF: what the grammar admits the schema admits, except at the places that are reported.

JSON Schema drafts 4 to 2020-12 as real tools use them, and OpenAPI's `nullable`. Instances are compact JSON
with the keys of an object in declared order. Recursive references become recursive rules, so only nesting
written out deeper than `DEEPEST` falls back to generic JSON.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from metnosd.grammar.document import Document
from metnosd.grammar.gbnf import (
    LONGEST_START,
    Alternative,
    Alternatives,
    GrammarError,
    Ref,
    Rules,
    json_text,
    times,
    trie,
)
from metnosd.grammar.numeric import integer_rules, number_rules
from metnosd.grammar.objects import (
    Property,
    conjunction_of,
    count_is_free,
    extras_of,
    other_keys,
    properties_of,
    write_key_pattern,
    write_object,
)
from metnosd.grammar.pieces import (
    Conjunction,
    Flat,
    Piece,
    bounds_of,
    counts_of,
    is_schema,
    type_of,
    types_of,
    values_of,
)
from metnosd.grammar.texts import text_passes, text_rules

DEEPEST = 32
MOST_PLACES = 20_000
WORDS = "x-words"
"""Marks a text that is a run of the message's words; see the grounded grammar."""

_ANYTHING = (Ref("json-value"),)
_GENERIC = {
    "null": '"null"',
    "boolean": Ref("json-boolean"),
    "string": Ref("json-string"),
    "array": Ref("json-array"),
    "object": Ref("json-object"),
}
_UNEXPRESSED = {
    "array": ("contains", "uniqueItems", "unevaluatedItems"),
    "object": ("dependentRequired", "dependentSchemas", "dependencies"),
    "integer": ("multipleOf",),
    "fraction": ("multipleOf",),
}
_DYNAMIC = ("$dynamicRef", "$recursiveRef")
_RARE_KEYS = {"not", "if", *_DYNAMIC, *(key for keys in _UNEXPRESSED.values() for key in keys)}
_HARMLESS: dict[str, Any] = {"uniqueItems": False, "unevaluatedItems": True, "multipleOf": 1}


def _restricts(schema: Mapping[str, Any], key: str) -> bool:
    return key in schema and schema[key] != _HARMLESS.get(key, {})


def schema_to_gbnf(schema: Mapping[str, Any] | bool) -> str:
    """The grammar, root rule `root`, of the compact JSON that `schema` admits.

    Where a schema admits nothing, as of a listed value of another type, the grammar admits that value, at worst
    generic JSON. Raises GrammarError where `schema` is no JSON Schema or
    refers to what is not there.
    """
    return _translate(schema)[0]


def untyped_paths(schema: Mapping[str, Any] | bool) -> list[str]:
    """JSON Pointers of the places of `schema` that the grammar does not hold to in full, in document order.

    At such a place the grammar admits more than the schema does, at most generic JSON; the root is one when
    the schema admits nothing. Raises GrammarError as
    `schema_to_gbnf` does.
    """
    return _translate(schema)[1]


def _translate(schema: Mapping[str, Any] | bool) -> tuple[str, list[str]]:
    for lenient in (False, True):
        rules = Rules()
        translator = Translator(rules, schema, "v", lenient=lenient)
        root = translator.value()
        text = rules.text([root])
        if text is not None:
            return text, list(translator.document.untyped)
    return Rules().text([_ANYTHING]) or "", [""]


class Translator:
    """Writes the rules of one schema document.

    `closed` takes an object that declares properties and says nothing of others to have no others. `words` is
    the rule of a text that is marked with WORDS. `lenient` takes listed values of the wrong type as they are,
    and notes them.
    """

    def __init__(
        self,
        rules: Rules,
        schema: Mapping[str, Any] | bool,
        wish: str,
        *,
        closed: bool = False,
        words: Ref | None = None,
        lenient: bool = False,
    ) -> None:
        if not is_schema(schema):
            raise GrammarError(f"no JSON Schema: {schema!r:.80}")
        self.rules, self.wish, self.closed, self.words = rules, wish, closed, words
        self.lenient = lenient
        self.document = Document(schema)
        self._known: dict[tuple[str, ...], Alternative] = {}
        self._waiting: deque[tuple[str, Conjunction, int]] = deque()

    def value(self) -> Alternative:
        """Write all rules; the parts that match a whole instance."""
        root = self._place((Piece("", self.document.root),), 0)
        self._write_waiting()
        return root

    def arguments(self) -> Alternative:
        """Write all rules; the parts that match an instance that is an object.

        A schema that admits no object says nothing of arguments: then any object matches.
        """
        pieces: Conjunction = (Piece("", self.document.root),)
        if not isinstance(self.document.root, Mapping) or self.document.root.get("type") != "object":
            pieces = (*pieces, Piece("/x-arguments", {"type": "object"}))
        if not any("object" in types_of(flat) for flat in self.document.expand(pieces)):
            return (Ref("json-object"),)
        alternatives = self._alternatives(pieces, 0)
        self._write_waiting()
        return alternatives[0] if len(alternatives) == 1 else (self.rules.shared(self.wish, alternatives),)

    def _write_waiting(self) -> None:
        while self._waiting:
            name, pieces, depth = self._waiting.popleft()
            self.rules.define(name, self._alternatives(pieces, depth))
        self.rules.check_endless = self.rules.check_endless or self.document.has_references

    def _place(self, pieces: Conjunction, depth: int) -> Alternative:
        """The parts that match what `pieces` together admit, written now if that is short, later if not."""
        kept = tuple(piece for piece in pieces if piece.schema is not True) or pieces[:1]
        if any(piece.schema is False for piece in kept):
            return (self.rules.shared("nothing", []),)
        if kept[0].schema is True:
            return _ANYTHING
        key = tuple(dict.fromkeys(piece.pointer for piece in kept))
        known = self._known.get(key)
        if known is not None:
            return known
        if depth > DEEPEST or len(self._known) > MOST_PLACES:
            for piece in kept:
                self.document.note(piece.pointer)
            return _ANYTHING
        parts = self._short(kept)
        if parts is None:
            name = self.rules.name(self.wish)
            parts = (Ref(name),)
            self._waiting.append((name, kept, depth))
        self._known[key] = parts
        return parts

    def _short(self, pieces: Conjunction) -> Alternative | None:
        """A place of one plain type without anything else said."""
        schema = pieces[0].schema
        if len(pieces) > 1 or not isinstance(schema, Mapping):
            return None
        kind = schema.get("type")
        if kind not in ("string", "integer", "number", "boolean") or not schema.keys() <= _PLAIN_KEYS:
            return None
        return (Ref(f"json-{kind}"),)

    def _alternatives(self, pieces: Conjunction, depth: int) -> Alternatives:
        found: dict[Alternative, None] = {}
        for flat in self.document.expand(pieces):
            for parts in self._flat(flat, depth):
                found.setdefault(parts)
        return list(found)

    def _flat(self, flat: Flat, depth: int) -> Alternatives:
        types = types_of(flat)
        self._note_unexpressed(flat, types)
        values = values_of(flat)
        if values is not None:
            admitted = [value for value in values if self._admits(flat, value, types)]
            if self.lenient and not admitted:
                self.document.note_all(flat, "enum", "const")
                admitted = values
            return self._values(admitted)
        if len(types) == 7 and not any(_TELLING & fact.schema.keys() for fact in flat):
            return [_ANYTHING]
        found: list[Alternative] = []
        if "null" in types:
            found.append(('"null"',))
        if "boolean" in types:
            found.append((Ref("json-boolean"),))
        if "fraction" in types:
            found += number_rules(bounds_of(flat))
        elif "integer" in types:
            found += integer_rules(bounds_of(flat))
        if "string" in types:
            found += self._string(flat)
        if "array" in types:
            found += self._array(flat, depth)
        if "object" in types:
            found += self._object(flat, depth)
        return found

    def _note_unexpressed(self, flat: Flat, types: frozenset[str]) -> None:
        for pointer, schema in flat:
            if schema.keys().isdisjoint(_RARE_KEYS):
                continue
            if schema.get("not", False) is not False or not schema.keys().isdisjoint(_DYNAMIC):
                self.document.note(pointer)
            if "if" in schema and not schema.keys().isdisjoint(("then", "else")):
                self.document.note(pointer)
            for kind in types & _UNEXPRESSED.keys():
                if any(_restricts(schema, key) for key in _UNEXPRESSED[kind]):
                    self.document.note(pointer)

    def _values(self, values: list[Any]) -> Alternatives:
        texts = dict.fromkeys(json_text(value) for value in values)
        for value in values:
            if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
                texts.setdefault(str(int(value)))
        return trie(self.rules, self.wish, [(text, ()) for text in texts])

    def _admits(self, flat: Flat, value: object, types: frozenset[str]) -> bool:
        """Whether the other keywords of a place let a listed value pass."""
        kind = type_of(value)
        if kind not in types:
            return False
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return bounds_of(flat).holds(value)
        if isinstance(value, str):
            return text_passes(self.document, flat, value)
        if kind in ("array", "object"):
            for pointer, schema in flat:
                if not schema.keys().isdisjoint(_INNER_KEYS):
                    self.document.note(pointer)
        return True

    def _string(self, flat: Flat) -> Alternatives:
        if self.words is not None and any(WORDS in fact.schema for fact in flat):
            return [(self.words,)]
        return text_rules(self.rules, self.wish, self.document, flat)

    def _array(self, flat: Flat, depth: int) -> Alternatives:
        low, high = counts_of(flat, "minItems", "maxItems")
        if high is not None and low > high:
            return []
        if low > LONGEST_START:
            self.document.note_all(flat, "minItems")
            low = LONGEST_START
        if high == 0:
            return [('"[]"',)]
        fixed = max((len(_prefix(fact.schema)) for fact in flat), default=0)
        if high is not None:
            fixed = min(fixed, high)
        rest = self._place(_items(flat, None), depth + 1)
        if fixed == 0 and rest == _ANYTHING and (low, high) == (0, None):
            return [(Ref("json-array"),)]
        first = rest if fixed == 0 else self._place(_items(flat, 0), depth + 1)
        more = self.rules.name(self.wish)
        self.rules.define(more, [('","', *rest)])
        done = max(fixed, 1)
        left = None if high is None else high - done
        after: Alternative = (*times(more, max(low - done, 0), left), '"]"')
        if low < done and fixed:
            after = (self.rules.shared(self.wish, [after]),)
        for index in range(fixed - 1, 0, -1):
            item = self._place(_items(flat, index), depth + 1)
            here: list[Alternative] = [('","', *item, *after)]
            if index >= low:
                here.append(('"]"',))
            after = (self.rules.shared(self.wish, here),)
        if low > 0:
            return [('"["', *first, *after)]
        return [('"["', self.rules.shared(self.wish, [(*first, *after), ('"]"',)]))]

    def _object(self, flat: Flat, depth: int) -> Alternatives:
        declared = properties_of(flat)
        names = list(declared)
        extra_pieces, pattern = extras_of(flat, names, self.closed, self.document)
        is_open = all(piece.schema is not False for piece in extra_pieces)
        items: list[Property] = []
        for name, required in declared.items():
            pieces = conjunction_of(flat, name, self.closed, self.document)
            if any(piece.schema is False for piece in pieces):
                if required:
                    return []
                continue
            items.append(Property(name, self._place(pieces, depth + 1), required))
        may_be_empty = count_is_free(flat, len(items), sum(declared.values()), is_open, self.document)
        extra: Alternative | None = None
        if is_open:
            value = self._place(extra_pieces, depth + 1)
            if not names and pattern is None and value == _ANYTHING and may_be_empty:
                return [(Ref("json-object"),)]
            key: Alternative | None = None
            if pattern is not None:
                key = write_key_pattern(self.rules, self.wish, pattern)
                if key is None:
                    self.document.note_all(flat, "patternProperties", "propertyNames")
            extra = (*(key or (other_keys(self.rules, f"{self.wish}-key", names),)), '":"', *value)
        return write_object(self.rules, self.wish, items, extra, may_be_empty)


_PLAIN_KEYS = {"type", "description", "title", "default", "examples", "example", "x-source", "optional"}
_INNER_KEYS = {
    "properties", "required", "additionalProperties", "patternProperties", "items", "prefixItems", "minItems",
    "maxItems", "minProperties", "maxProperties", "propertyNames",
}  # fmt: skip
_TELLING = _INNER_KEYS | {
    "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "unevaluatedProperties",
}  # fmt: skip


def _prefix(schema: Mapping[str, Any]) -> list[Any]:
    """The schemas of the first items: `prefixItems`, or `items` as a list in the older drafts."""
    items = schema.get("items")
    listed = schema.get("prefixItems", items if isinstance(items, (list, tuple)) else ())
    return list(listed)


def _items(flat: Flat, index: int | None) -> Conjunction:
    """What the item at `index` must satisfy; None: the items after the listed ones."""
    found: list[Piece] = []
    for fact in flat:
        schema, listed = fact.schema, _prefix(fact.schema)
        if index is not None and index < len(listed):
            key = "prefixItems" if "prefixItems" in schema else "items"
            found.append(Piece(fact.at(key, index), listed[index]))
        elif isinstance(schema.get("items"), (list, tuple)):
            found.append(Piece(fact.at("additionalItems"), schema.get("additionalItems", True)))
        elif "items" in schema:
            found.append(Piece(fact.at("items"), schema["items"]))
    return tuple(found) or (Piece("", True),)

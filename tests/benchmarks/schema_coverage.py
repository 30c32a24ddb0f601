"""How much of a collection of JSON Schemas the translator covers.

    python tests/benchmarks/schema_coverage.py DIR [--show N]

DIR holds JSON files `{"schema": …, "tests": [{"valid": true, "data": …}, …]}`, in subfolders too. Each
instance is written as compact JSON with its keys in declared order and run through llama.cpp's own grammar
engine. An invalid instance that is accepted is outside the reported paths unless every reason for which it is
invalid lies at a path that `untyped_paths` reports; without the package `jsonschema` a file that reports any
path counts as reported.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(folder) for folder in Path(__file__).resolve().parents[1:3]]  # support, metnosd

from support.gguf_vocab import GrammarEngine  # noqa: E402  (found by the line above)

from metnosd.grammar import GrammarError, schema_to_gbnf, untyped_paths  # noqa: E402

DEEPEST = 200


def ordered(data: Any, schemas: Sequence[Any], root: Any, depth: int = 0) -> Any:
    """`data` with the keys of its objects in the order in which the schemas declare them."""
    if depth > DEEPEST:
        return data
    parts = list(_parts(schemas, root))
    if isinstance(data, Mapping):
        names = dict.fromkeys(name for part in parts for name in part.get("properties", ()))
        names |= dict.fromkeys(name for part in parts for name in _list(part.get("required")))
        keys = [name for name in names if name in data] + [name for name in data if name not in names]
        return {key: ordered(data[key], _of_key(parts, key), root, depth + 1) for key in keys}
    if isinstance(data, list):
        return [ordered(item, _of_item(parts, i), root, depth + 1) for i, item in enumerate(data)]
    return data


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _parts(schemas: Sequence[Any], root: Any) -> Iterator[Mapping[str, Any]]:
    """The schema objects that bear on a place: references followed, combinations opened."""
    waiting, seen = list(schemas), set()
    while waiting:
        schema = waiting.pop(0)
        if not isinstance(schema, Mapping) or id(schema) in seen or len(seen) > 1000:
            continue
        seen.add(id(schema))
        yield schema
        inner = [sub for key in ("allOf", "anyOf", "oneOf") for sub in _list(schema.get(key))]
        target = resolve(root, schema["$ref"]) if isinstance(schema.get("$ref"), str) else None
        waiting = [*([target] if target is not None else []), *inner, *waiting]


def resolve(root: Any, reference: str) -> Any:
    """What a local reference points to, None when that is not there."""
    found = root
    for step in reference.lstrip("#").split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isdigit() and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found if reference.startswith("#") else None


def _of_key(parts: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    found = [part["properties"][key] for part in parts if key in part.get("properties", ())]
    return found or [part["additionalProperties"] for part in parts if "additionalProperties" in part]


def _of_item(parts: Sequence[Mapping[str, Any]], index: int) -> list[Any]:
    found: list[Any] = []
    for part in parts:
        items = part.get("items")
        listed = _list(part.get("prefixItems")) or _list(items)
        found.append(listed[index] if index < len(listed) else None if isinstance(items, list) else items)
    return found


def errors_of(schema: Any, data: Any) -> list[Any] | None:
    """Why `data` is invalid, as `jsonschema` tells it; None when it cannot tell."""
    try:
        from jsonschema import validators
        from referencing import Registry
        from referencing.exceptions import Unresolvable
    except ImportError:
        return None
    checker = validators.validator_for(schema)(schema, registry=Registry())
    try:
        return list(checker.iter_errors(data))
    except (Unresolvable, AttributeError, TypeError):  # it stumbles over some malformed references
        return None


def pointer_of(schema: Any, error: Any) -> str:
    """The JSON Pointer of the keyword that an error is about, references followed."""
    pointer = ""
    for step in error.absolute_schema_path:
        if step == "$ref":
            reference = (resolve(schema, "#" + pointer) or {}).get("$ref", "#")
            pointer = str(reference).lstrip("#")
        else:
            pointer += "/" + str(step).replace("~", "~0").replace("/", "~1")
    return pointer


def is_explained(schema: Any, error: Any, reported: Sequence[str]) -> bool:
    """Whether an error lies at a reported path, or all errors of one alternative do."""
    pointer = pointer_of(schema, error)
    if any(pointer == path or pointer.startswith(path + "/") for path in reported):
        return True
    branches: dict[Any, bool] = {}
    for inner in error.context or ():
        branch = inner.relative_schema_path[0] if inner.relative_schema_path else None
        branches[branch] = branches.get(branch, True) and is_explained(schema, inner, reported)
    return any(branches.values())


def is_reported(schema: Any, data: Any, reported: Sequence[str]) -> bool:
    """Whether every reason for which `data` is invalid lies at a reported path."""
    errors = errors_of(schema, data)
    if not errors:
        return bool(reported)
    return all(is_explained(schema, error, reported) for error in errors)


def run(engine: GrammarEngine, path: Path, counts: Counter[str], shown: list[str]) -> None:
    """Count one file."""
    case = json.loads(path.read_text(encoding="utf-8"))
    schema = case["schema"]
    counts["schemas"] += 1
    try:
        text, reported = schema_to_gbnf(schema), untyped_paths(schema)
        compiles = engine.parses(text)
    except GrammarError as error:
        counts["refused with GrammarError"] += 1
        shown.append(f"{path}: {error}")
        text, reported, compiles = "", [], False
    else:
        counts["refused by llama.cpp"] += not compiles
        counts["with reported paths"] += bool(reported)
    for test in case["tests"]:
        data = ordered(test["data"], [schema], schema)
        instance = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        encoded = instance.encode("utf-8", "surrogatepass")
        accepted = compiles and engine.accepts(text, encoded)
        kind = "valid" if test["valid"] else "invalid"
        counts[kind] += 1
        counts[f"{kind} accepted"] += accepted
        if accepted == test["valid"]:
            continue
        where = ""
        if accepted and not is_reported(schema, test["data"], reported):
            counts["invalid accepted outside reported paths"] += 1
            where = " outside reported paths"
        word = "accepted" if accepted else "not accepted"
        shown.append(f"{path}: {kind} but {word}{where}: {instance[:300]}")


def main() -> None:
    """Run over a folder and print the counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--show", type=int, default=0, help="print that many of what went wrong")
    options = parser.parse_args()
    engine = GrammarEngine.temporary()
    counts: Counter[str] = Counter()
    shown: list[str] = []
    for path in sorted(options.folder.rglob("*.json")):
        run(engine, path, counts, shown)
    engine.close()
    print("\n".join(shown[: options.show]))
    for key in (
        "schemas", "refused with GrammarError", "refused by llama.cpp", "with reported paths", "valid",
        "valid accepted", "invalid", "invalid accepted", "invalid accepted outside reported paths",
    ):  # fmt: skip
        share = ""
        if key.endswith("accepted"):
            total = counts[key.removesuffix(" accepted")]
            share = f"  {100 * counts[key] / total:.2f} %" if total else ""
        print(f"{key:44}{counts[key]:8}{share}")


if __name__ == "__main__":
    main()

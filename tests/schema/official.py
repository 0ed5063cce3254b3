"""The official schemas: where they are, what is wrong in them, and how strictly they are read."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from accord.types import REVISION_IDS, RevisionId

FOLDER = Path(
    os.environ.get("ACCORD_SCHEMAS", Path(__file__).parents[2] / ".." / "shared/spec/schema")
)
PRESENT = all((FOLDER / f"{revision}.json").is_file() for revision in REVISION_IDS)
ABSENT_REASON = f"official schemas not found in {FOLDER}; set ACCORD_SCHEMAS to their folder"

SCALARS = ["string", "integer", "boolean"]
ELICITED = ("ElicitResult", "properties", "content", "additionalProperties")

# Where the published file says less than the specification's own source: (path, published, meant).
# The source has `number` and the file `integer`; free JSON includes null.
CORRECTIONS: dict[RevisionId, list[tuple[tuple[Any, ...], Any, Any]]] = {
    "2025-06-18": [((*ELICITED, "type"), SCALARS, ["string", "number", "boolean"])],
    "2025-11-25": [((*ELICITED, "anyOf", 1, "type"), SCALARS, ["string", "number", "boolean"])],
    "2026-07-28": [
        ((*ELICITED, "anyOf", 1, "type"), SCALARS, ["string", "number", "boolean"]),
        (("JSONValue", "anyOf", 2, "type"), SCALARS, ["string", "number", "boolean", "null"]),
    ],
}

# Members that leave although a file does not name them, and why.
TOLERATED: dict[str, dict[str, str]] = {
    "ClientCapabilities": {"extensions": "extensions may be negotiated in older handshakes"},
    "ServerCapabilities": {"extensions": "extensions may be negotiated in older handshakes"},
    "SubscriptionFilter": {"taskIds": "the tasks extension adds it"},
}

# Objects that may be extended, although the files do not say so.
OPEN = {"inputSchema", "outputSchema"}


@cache
def schema(revision: RevisionId) -> dict[str, Any]:
    """One file with its corrections."""
    loaded: dict[str, Any] = json.loads((FOLDER / f"{revision}.json").read_text())
    for path, published, meant in CORRECTIONS.get(revision, []):
        *parents, last = path
        node: Any = loaded[definitions_key(loaded)]
        for step in parents:
            node = node[step]
        assert node[last] == published, f"{revision} {path} changed: is the correction needed?"
        node[last] = meant
    return loaded


def definitions_key(loaded: dict[str, Any]) -> str:
    return "definitions" if "definitions" in loaded else "$defs"


@cache
def definitions(revision: RevisionId) -> dict[str, Any]:
    loaded = schema(revision)
    found: dict[str, Any] = loaded[definitions_key(loaded)]
    return found


@cache
def strict_definitions(revision: RevisionId) -> dict[str, Any]:
    """The definitions, closed: a member that the revision does not name is an error."""
    names = definitions(revision)
    closed = {name: _closed(node, name) for name, node in names.items()}
    return closed | {f"{name}~open": node for name, node in names.items()}


def _closed(node: Any, name: str) -> Any:
    if isinstance(node, list):
        return [_closed(each, name) for each in node]
    if not isinstance(node, dict):
        return node
    if "allOf" in node:
        return node | {"allOf": [_opened(part) for part in node["allOf"]]}
    closed = {key: _closed(value, key) for key, value in node.items()}
    if isinstance(node.get("properties"), dict) and _is_schema(node):
        extra = {key: {} for key in TOLERATED.get(name, {})} | _envelope(node, name)
        closed["properties"] = {
            key: _closed(value, key) for key, value in node["properties"].items()
        } | extra
        if name not in OPEN and not name.endswith("MetaObject") and name != "_meta":
            closed.setdefault("additionalProperties", False)
    return closed


def _is_schema(node: dict[str, Any]) -> bool:
    return node.get("type") == "object"


def _envelope(node: dict[str, Any], name: str) -> dict[str, Any]:
    """The older files describe messages without envelope, and params without `_meta`."""
    if "const" in node["properties"].get("method", {}):
        return {key: {} for key in ("jsonrpc", "id") if key not in node["properties"]}
    return {"_meta": {}} if name == "params" and "_meta" not in node["properties"] else {}


def _opened(part: dict[str, Any]) -> dict[str, Any]:
    return {"$ref": f"{part['$ref']}~open"} if "$ref" in part else part


@cache
def validator(revision: RevisionId, definition: str, strict: bool = True) -> Any:
    loaded = schema(revision)
    key = definitions_key(loaded)
    names = strict_definitions(revision) if strict else definitions(revision)
    root = {"$schema": loaded["$schema"], key: names, "allOf": [{"$ref": f"#/{key}/{definition}"}]}
    return jsonschema_rs.validator_for(root, validate_formats=True)


def complaints(revision: RevisionId, definition: str, value: Any, strict: bool = True) -> list[str]:
    """What is wrong with a value, as sentences with paths; nothing when it is valid."""
    found = validator(revision, definition, strict).iter_errors(value)
    return [f"{'/'.join(map(str, error.instance_path))}: {error.message}" for error in found]

"""Digests of catalogs: equal digests mean that a server offers the same to clients and models."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

from accord.types import JsonObject
from accord_tools.contract.lock_file import LISTS
from accord_tools.fleet.catalogs.entries import MOST_DEPTH, entries_of
from accord_tools.fleet.results import CatalogSummary

# What is pinned. Not `_meta`, icons and sizes: they change with versions and with contents.
_TEXTS: Final = ("name", "title", "description", "annotations")
PINNED: Final[Mapping[str, tuple[str, ...]]] = {
    "tools": (*_TEXTS, "inputSchema", "outputSchema", "execution"),
    "resources": (*_TEXTS, "uri", "mimeType"),
    "resourceTemplates": (*_TEXTS, "uriTemplate", "mimeType"),
    "prompts": (*_TEXTS, "arguments"),
}
"""The members of each kind of entry that its digest covers."""
VOLATILE: Final = frozenset({"lastModified"})
"""Members of annotations that change with the contents of a resource."""

_ENTRY_DIGITS: Final = 32
# About so many bytes of JSON are one token, in English and in the names of members.
_BYTES_PER_TOKEN: Final = 4


def summarize_catalog(catalog: JsonObject) -> CatalogSummary:
    """Count and hash what a server offers; the order of entries and the versions do not matter.

    Args:
        catalog: as `accord.testing.catalog_of` returns it, or a lock file.
    """
    digests: dict[str, str] = {}
    counts = dict.fromkeys(LISTS, 0)
    for entry in entries_of(catalog):
        counts[entry.list] += 1
        digest = sha256(_canonical_json(_pin(entry.list, entry.value))).hexdigest()[:_ENTRY_DIGITS]
        known = digests.get(entry.subject)
        # A name that is offered twice: both count.
        digests[entry.subject] = (
            digest if known is None else _digest(sorted([known, digest]))[:_ENTRY_DIGITS]
        )
    rest = [catalog.get("instructions"), catalog.get("failed")]
    return CatalogSummary(
        digest=_digest([rest, sorted(digests.items())]),
        entries=digests,
        tools=counts["tools"],
        resources=counts["resources"],
        templates=counts["resourceTemplates"],
        prompts=counts["prompts"],
        tokens=estimate_tokens(catalog.get("tools") or []),
    )


def estimate_tokens(value: object) -> int:
    """Return about how many tokens a value costs a model: a quarter of its size as JSON."""
    return len(_canonical_json(value)) // _BYTES_PER_TOKEN if value else 0


def _digest(value: object) -> str:
    return sha256(_canonical_json(value)).hexdigest()


def _canonical_json(value: object) -> bytes:
    try:
        return msgspec.json.encode(value, order="sorted")
    except UnicodeEncodeError:
        # Half of a surrogate pair, which a lock file may contain.
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _pin(kind: str, entry: JsonObject) -> JsonObject:
    pinned = {key: entry[key] for key in PINNED[kind] if entry.get(key) is not None}
    for key in ("inputSchema", "outputSchema"):
        if key in pinned:
            pinned[key] = _sort_required(pinned[key])
    arguments = pinned.get("arguments")
    if isinstance(arguments, list):
        pinned["arguments"] = sorted(arguments, key=_canonical_json)
    if isinstance(pinned.get("annotations"), dict):
        pinned["annotations"] = {
            key: value for key, value in pinned["annotations"].items() if key not in VOLATILE
        }
    return pinned


def _sort_required(schema: Any, depth: int = 0) -> Any:
    """Return a schema whose lists of required members are in order: they are sets."""
    if depth > MOST_DEPTH:
        return schema
    if isinstance(schema, dict):
        return {
            key: sorted(value, key=str)
            if key == "required" and isinstance(value, list)
            else _sort_required(value, depth + 1)
            if isinstance(value, dict | list)
            else value
            for key, value in schema.items()
        }
    if isinstance(schema, list):
        return [_sort_required(each, depth + 1) for each in schema]
    return schema

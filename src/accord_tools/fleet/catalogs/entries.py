"""The entries of a catalog: the texts in them that a model may read, and their digests."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

from accord.types import JsonObject
from accord_tools.contract.lock_file import LISTS
from accord_tools.fleet.results import CatalogSummary

# Deeper values are not read: clients refuse messages of that depth.
MOST_DEPTH: Final = 256
# Pictures, and data for programs: no model reads them.
_NOT_READ: Final = frozenset({"_meta", "icons"})
_BY_NAME: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_NAMES: Final = frozenset({"name", "uri", "uriTemplate"})
# Members that are prose; the others are values, such as those of an enum.
_PROSE: Final = frozenset({"title", "description", "$comment"})


class CatalogEntry(NamedTuple):
    """One tool, resource, resource template or prompt.

    Attributes:
        list: the list that it is in, such as "tools".
        name: its name, or the URI of a resource.
        subject: for people, such as "tool add".
        value: its members.
    """

    list: str
    name: str
    subject: str
    value: JsonObject


class CatalogText(NamedTuple):
    """A text of a catalog.

    Attributes:
        place: where it is in the entry, such as "inputSchema.properties.a.description".
        text: as the server sent it.
        is_name: whether it is a name or an address; programs compare these.
        is_prose: whether it is a title or a description.
    """

    place: str
    text: str
    is_name: bool
    is_prose: bool


def entries_of(catalog: JsonObject, *lists: str) -> Iterator[CatalogEntry]:
    """Yield the entries of a catalog, or those of some of its lists."""
    for key in lists or LISTS:
        kind, member = LISTS[key]
        listed = catalog.get(key)
        for value in listed if isinstance(listed, list) else ():
            if isinstance(value, dict):
                name = str(value.get(member, ""))
                yield CatalogEntry(key, name, f"{kind} {name}", value)


def instructions_of(catalog: JsonObject) -> str:
    """Return the instructions of a server; empty if it has none."""
    text = catalog.get("instructions")
    return text if isinstance(text, str) else ""


def texts_of(entry: CatalogEntry) -> Iterator[CatalogText]:
    """Yield every text of an entry that may reach a model, names of parameters included."""
    waiting: list[tuple[str, str, Any, int]] = [
        (key, key, value, 0) for key, value in reversed(entry.value.items()) if key not in _NOT_READ
    ]
    while waiting:
        place, key, value, depth = waiting.pop()
        if isinstance(value, str):
            is_name = key in _NAMES and (depth == 0 or place.startswith("arguments["))
            yield CatalogText(place, value, is_name, key in _PROSE)
        elif depth > MOST_DEPTH or key == "required":
            continue  # the names of required members are those of properties
        elif isinstance(value, dict):
            # A property may be called "description": its schema is not a description.
            is_named = key in _BY_NAME
            for inner, below in reversed(value.items()):
                waiting.append((f"{place}.{inner}", "" if is_named else inner, below, depth + 1))
            if is_named:
                yield from (CatalogText(place, inner, True, False) for inner in value)
        elif isinstance(value, list):
            for number, below in reversed(list(enumerate(value))):
                waiting.append((f"{place}[{number}]", key, below, depth + 1))


def tool_schema(entry: CatalogEntry, member: str = "inputSchema") -> JsonObject:
    """Return a schema of a tool; empty if it has none."""
    found = entry.value.get(member)
    return found if isinstance(found, dict) else {}


def annotations_of(entry: CatalogEntry) -> JsonObject:
    """Return the annotations of an entry; empty if it has none."""
    found = entry.value.get("annotations")
    return found if isinstance(found, dict) else {}


def text_at(entry: CatalogEntry, member: str) -> str:
    """Return a text of an entry; empty if it is absent or something else."""
    found = entry.value.get(member)
    return found if isinstance(found, str) else ""


# -- digests: equal digests mean that a server offers the same to clients and models


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


# -- the words that names and descriptions consist of


_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD: Final = re.compile(r"[^\W_]+")
_SNAKE, _KEBAB, _CAMEL, _DOTTED = "snake_case", "kebab-case", "camelCase", "dotted"


def word_set(words: str) -> frozenset[str]:
    """Return the words of a table."""
    return frozenset(words.split())


@lru_cache(16_384)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case.

    >>> words_of("getHTTPStatus-of_page2")
    ('get', 'http', 'status', 'of', 'page2')
    """
    return tuple(each.lower() for each in _WORD.findall(_HUMP.sub(" ", name)))


def style_of(name: str) -> str:
    """Return the style in which a name joins its words; empty for a single word.

    >>> style_of("read_file"), style_of("readFile"), style_of("read")
    ('snake_case', 'camelCase', '')
    """
    if "." in name or "/" in name:
        return _DOTTED
    if "_" in name.strip("_"):
        return _SNAKE
    if "-" in name.strip("-"):
        return _KEBAB
    return _CAMEL if _HUMP.search(name) else ""


def stem_of(word: str) -> str:
    """Return a word without the usual endings, so that its forms are equal.

    >>> stem_of("lists") == stem_of("listing") == stem_of("listed")
    True
    """
    for ending in ("ing", "ies", "es", "ed", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word

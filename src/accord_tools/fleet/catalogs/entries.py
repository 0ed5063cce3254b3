"""The entries of a catalog, and the texts in them that a model may read."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from accord.types import JsonObject
from accord_tools.contract.lock_file import LISTS

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

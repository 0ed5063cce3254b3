"""The places of members in a JSON file, for messages."""

from typing import NamedTuple

from accord_tools.hosts.definition import KeyPath
from accord_tools.hosts.documents.json_scanner import read_container, skip_space, skip_value


class JsonSpan(NamedTuple):
    """Where a member or an item is: its key, and the value from `start` to `end`."""

    key: int
    start: int
    end: int
    line: int


class JsonPlaces(NamedTuple):
    """The places of all members and items; `repeated` has those that appear again."""

    spans: dict[KeyPath, JsonSpan]
    repeated: list[tuple[KeyPath, int]]


def find_json_places(text: str) -> JsonPlaces:
    """Return the place of each member and item.

    Args:
        text: valid JSON without comments and trailing commas, or with spaces in their place.
    """
    places = JsonPlaces({}, [])
    start = skip_space(text, 0)
    line = text.count("\n", 0, start) + 1
    places.spans[()] = JsonSpan(start, start, skip_value(text, start), line)
    _add_members(places, text, ())
    return places


def _add_members(places: JsonPlaces, text: str, around: KeyPath) -> None:
    """Add what stands in an object or a list; of a key that is there twice, the last counts."""
    at, line = places.spans[around].start, places.spans[around].line
    line += text.count("\n", places.spans[around].key, at)
    if text[at] not in "{[":
        return
    for member in read_container(text, at).members:
        line += text.count("\n", at, member.start)
        at = member.start
        assert not isinstance(member.key, tuple)  # JSON has no dotted keys
        path = (*around, member.key)
        if path in places.spans:
            places.repeated.append((path, line))
        places.spans[path] = JsonSpan(member.start, member.value, member.end, line)
        _add_members(places, text, path)

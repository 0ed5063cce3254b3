"""Values of documents: whether two are the same, and how one becomes the other."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from accord_tools.hosts.definition import HostsError, KeyPath
from accord_tools.hosts.documents.document import (
    Document,
    Edit,
    UneditableDocument,
    join_edits,
)


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()
"""Takes the place of a value that does not exist."""


class ValueChange(NamedTuple):
    """A value within another that differs; ABSENT if it is to be removed."""

    keys: KeyPath
    value: Any


def to_plain(value: Any) -> Any:
    """Return a value made of dictionaries, lists and what stands in them.

    Raises:
        HostsError: a key is not a text.
    """
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise HostsError(f"the key {key!r} is not a text")
        return {key: to_plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(each) for each in value]
    return value


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values are the same: 1, 1.0 and true differ, the order of keys counts."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return type(one) is type(other) and (one == other or (one != one and other != other))


def find_value(data: Any, keys: KeyPath) -> Any:
    """Return the value at a path; ABSENT if it does not exist."""
    for key in keys:
        is_item = isinstance(data, list) and isinstance(key, int) and 0 <= key < len(data)
        if not is_item and not (isinstance(data, dict) and key in data):
            return ABSENT
        data = data[key]
    return data


def split_change(old: Any, new: Any) -> list[ValueChange] | None:
    """Return the smaller changes that make one value of another; None if it changes as a whole.

    Members whose values differ are changed each by itself. One member may be new, as the last one,
    or be gone, if nothing else differs.
    """
    if isinstance(old, dict) and isinstance(new, dict) and old:
        if list(old) == list(new):
            return _differences(list(old), old, new)
        if list(new)[:-1] == list(old) and not _differences(list(old), old, new):
            last = list(new)[-1]
            return [ValueChange((last,), new[last])]
        gone = [key for key in old if key not in new]
        rest = [key for key in old if key in new]
        if len(gone) == 1 and rest and rest == list(new) and not _differences(rest, old, new):
            return [ValueChange((gone[0],), ABSENT)]
    if isinstance(old, list) and isinstance(new, list) and old and len(old) == len(new):
        return _differences(list(range(len(old))), old, new)
    return None


def _differences(keys: list[Any], old: Any, new: Any) -> list[ValueChange]:
    return [ValueChange((key,), new[key]) for key in keys if not is_same(old[key], new[key])]


def edit_parts(document: Document, keys: KeyPath, changes: Iterable[ValueChange]) -> Edit:
    """Return the edit that makes smaller changes of the value at a path."""
    edits = [
        document.remove((*keys, *each.keys))
        if each.value is ABSENT
        else document.set((*keys, *each.keys), each.value)
        for each in changes
    ]
    # Where nothing changes, there is nothing to repeat.
    return join_edits(document.text, [each for each in edits if each != Edit(0, 0, "")])


def wrap_value(keys: KeyPath, value: Any) -> Any:
    """Return a value within new objects and lists, the path of which leads to it.

    Raises:
        UneditableDocument: a list would begin with another item than its first.
    """
    for key in reversed(keys):
        if isinstance(key, int):
            if key != 0:
                raise UneditableDocument(f"a new list cannot begin with item {key}")
            value = [value]
        else:
            value = {key: value}
    return value


def name_path(keys: KeyPath) -> str:
    """Return a path for messages, as mcpServers.desk."""
    return ".".join(map(str, keys)) or "the document"


def name_kind(value: Any) -> str:
    """Return what a value is, for messages."""
    kinds = [(dict, "an object"), (list, "a list"), (str, "a text"), (bool, "true or false")]
    found = [name for kind, name in kinds if isinstance(value, kind)]
    return found[0] if found else "null" if value is None else "a value"


def check_step(data: Any, key: str | int, keys: KeyPath) -> None:
    """Check that a key can be added to a value.

    Args:
        data: the value, an object or a list.
        key: of the new member, or the length of the list.
        keys: the path of the value, for the message.

    Raises:
        UneditableDocument: it cannot.
    """
    where = name_path(keys)
    if isinstance(data, dict) and isinstance(key, str):
        return
    if isinstance(data, list) and isinstance(key, int):
        if key != len(data):
            raise UneditableDocument(f"{where} has {len(data)} items; item {key} cannot be added")
        return
    wanted = "an object" if isinstance(key, str) else "a list"
    raise UneditableDocument(f"{where} is {name_kind(data)}, and not {wanted}; change that by hand")

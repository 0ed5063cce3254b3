"""Whether an edit changed what it should and nothing else, as other readers see it."""

import copy
import json
from collections.abc import Mapping
from typing import Any

from accord.client.configuration import without_comments
from accord_tools.hosts.definition import FileFormat, KeyPath
from accord_tools.hosts.documents.document import UneditableDocument
from accord_tools.hosts.documents.value_texts import without_nulls
from accord_tools.hosts.documents.values import ABSENT, find_value, is_same, name_path, to_plain

__all__ = ["ABSENT", "verify_edit"]


def verify_edit(
    before: str, after: str, format: FileFormat, changes: Mapping[KeyPath, Any]
) -> None:
    """Check that a changed text has exactly the changes that were asked for.

    The texts are read by `json`, `tomllib` and PyYAML, and not by the readers that made the edit.

    Args:
        before: the text as it was.
        after: the text with the edit made.
        format: of both.
        changes: the new values by their paths; ABSENT for those that are to be removed.

    Raises:
        UneditableDocument: something else changed, too, or the text is no longer valid.
    """
    old, new = _read(before, format, "before"), _read(after, format, "after")
    # A second copy to change; for JSON, reading is faster than copying.
    is_fast = format not in ("toml", "yaml")
    expected = _read(before, format, "before") if is_fast else copy.deepcopy(old)
    for keys, value in changes.items():
        if not keys:
            expected = {} if value is ABSENT else to_plain(value)
            continue
        given = without_nulls(value) if format == "toml" and value is not ABSENT else value
        _apply(expected, keys, given)
    for keys, value in changes.items():
        if format == "toml" and value is ABSENT:
            # A table of TOML is gone with the last one in it.
            _drop_empty(expected, new, keys[:-1])
    changed = {tuple(keys) for keys in changes}
    created = {keys[: at + 1] for keys in changed for at in range(len(keys))}
    # A table of TOML stands where the first one in it does.
    is_toml = format == "toml"
    added = {keys for keys in created if is_toml or find_value(old, keys) is ABSENT}
    _compare(expected, new, (), (changed, added | changed))


def _read(text: str, format: FileFormat, when: str) -> Any:
    try:
        data = _parse(text, format)
    except (ValueError, RecursionError) as error:
        raise UneditableDocument(f"the text {when} the change cannot be read: {error}") from None
    return {} if data is None else data


def _parse(text: str, format: FileFormat) -> Any:
    if format == "toml":
        import tomllib

        return tomllib.loads(text)
    if format == "yaml":
        from accord_tools.hosts.documents.yaml_scanner import load_yaml

        return load_yaml(text)
    try:
        return json.loads(text, object_pairs_hook=_read_pairs)
    except ValueError:
        pass  # it may have comments
    # A line comment ends with any line end, and the other reader knows line feeds only.
    plain = without_comments(text.replace("\r\n", "\n").replace("\r", "\n"))
    if not plain.strip():
        return None
    return json.loads(plain, object_pairs_hook=_read_pairs)


def _read_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) != len(pairs):
        raise ValueError("a key appears twice")
    return read


def _apply(data: Any, keys: KeyPath, value: Any) -> None:
    """Make a change in a value."""
    for place, key in enumerate(keys[:-1]):
        inside: Any = [] if isinstance(keys[place + 1], int) else {}
        if isinstance(data, dict) and data.get(key) is None:
            data[key] = inside
        elif isinstance(data, list) and key == len(data):
            data.append(inside)
        elif isinstance(data, list) and isinstance(key, int) and data[key : key + 1] == [None]:
            data[key] = inside
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            raise _refuse(keys) from None
    last = keys[-1]
    try:
        if value is ABSENT:
            del data[last]
        elif isinstance(data, list) and last == len(data):
            data.append(to_plain(value))
        else:
            data[last] = to_plain(value)
    except (KeyError, IndexError, TypeError):
        raise _refuse(keys) from None


def _drop_empty(expected: Any, actual: Any, keys: KeyPath) -> None:
    for length in range(len(keys), 0, -1):
        inner, around, found = expected, expected, actual
        for key in keys[:length]:
            around, inner = inner, inner[key]
            found = found.get(key, ABSENT) if isinstance(found, dict) else ABSENT
        if inner or found is not ABSENT or not isinstance(around, dict):
            return
        del around[keys[length - 1]]


def _compare(
    expected: Any, actual: Any, keys: KeyPath, changes: tuple[set[KeyPath], set[KeyPath]]
) -> None:
    """Compare values and the order of keys; keys that were added or changed may stand anywhere."""
    changed, movable = changes
    if keys in changed:
        if not is_same(_sort(expected), _sort(actual)):
            raise _refuse(keys)
    elif isinstance(expected, dict) and isinstance(actual, dict):
        old = [key for key in expected if (*keys, key) not in movable]
        new = [key for key in actual if (*keys, key) not in movable]
        if old != new or set(expected) != set(actual):
            raise _refuse(keys)
        for key in expected:
            _compare(expected[key], actual[key], (*keys, key), changes)
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for place, each in enumerate(expected):
            _compare(each, actual[place], (*keys, place), changes)
    elif not is_same(expected, actual):
        raise _refuse(keys)


def _sort(value: Any) -> Any:
    """Return a value with its keys in one order: within a new value it does not matter."""
    if isinstance(value, dict):
        return {key: _sort(value[key]) for key in sorted(value, key=repr)}
    return [_sort(each) for each in value] if isinstance(value, list) else value


def _refuse(keys: KeyPath) -> UneditableDocument:
    return UneditableDocument(
        f"the change would not leave {name_path(keys)} as it should be: the text is written in a "
        "way that accord cannot change; change it by hand"
    )

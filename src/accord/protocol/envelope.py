"""The envelope of a message that is too long or too deep to be decoded: its id and its kind.

Loaded for the first such message.
"""

import re
from typing import Final

import msgspec

from accord.protocol.jsonrpc import FAULT, ID_RANGE, NOTIFICATION, REQUEST, RESULT, Kind
from accord.types._base import RequestId

# Possessive, so that a string without an end costs one look at each byte.
_TEXT: Final = rb'"(?:[^"\\]|\\.)*+"'
_KEY: Final = re.compile(rb"\s*(" + _TEXT + rb")\s*:\s*", re.DOTALL)
_SCALAR: Final = re.compile(rb"(" + _TEXT + rb"|[-+.\w]++)\s*([,}])", re.DOTALL)
_NESTED: Final = re.compile(_TEXT + rb"|[\[\]{}]|\"", re.DOTALL)
_NEXT: Final = re.compile(rb"\s*,")
_LAST_ID: Final = re.compile(
    rb'[,{]\s*"id"\s*:\s*(' + _TEXT + rb'|-?\d++)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z',
    re.DOTALL,
)


def read(head: bytes, tail: bytes) -> tuple[RequestId | None, Kind | None]:
    """Return the id and the kind of a message; see `json_text.read_envelope`."""
    members = _members(head)
    id = _id(members.get("id", b""))
    if id is None and (last := _LAST_ID.search(tail)):
        id = _id(last[1])
    if "method" in members or "params" in members:
        # Before its end has come it may still turn out to have an id.
        return id, REQUEST if id is not None else NOTIFICATION if tail else None
    if "error" in members:
        return id, FAULT
    return id, RESULT if "result" in members else None


def _members(head: bytes) -> dict[str, bytes]:
    """Return the members of an object that may be cut off; values that nest are empty."""
    found: dict[str, bytes] = {}
    at = head.find(b"{") + 1
    if not at:
        return found
    while key := _KEY.match(head, at):
        name = key[1][1:-1].decode(errors="replace")
        at = key.end()
        if scalar := _SCALAR.match(head, at):
            found.setdefault(name, scalar[1])
            at = scalar.end()
            continue
        found.setdefault(name, b"")
        following = _NEXT.match(head, _end_of_nested(head, at))
        if following is None:
            break
        at = following.end()
    return found


def _end_of_nested(head: bytes, at: int) -> int:
    """Return where an object or array ends; the end of the text where it is cut off."""
    depth = 0
    for token in _NESTED.finditer(head, at):
        if token[0] in (b"{", b"["):
            depth += 1
        elif token[0] in (b"}", b"]"):
            depth -= 1
        elif token[0] == b'"' or depth == 0:
            break  # a string that is cut off, or no object at all
        if depth == 0:
            return token.end()
    return len(head)


def _id(raw: bytes) -> RequestId | None:
    try:
        value = msgspec.json.decode(raw)
    except ValueError:
        return None
    if isinstance(value, str):
        return value
    return value if type(value) is int and value in ID_RANGE else None

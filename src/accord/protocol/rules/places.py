"""Places: which value of a message a rule objects to, as a JSON pointer.

Rules name a place as their sentences do, in the body of the message: `tools[3]`, or
`inputRequests['name']`. Several names lead from object to object. A name that begins with a slash
is a pointer into the message itself. The pointer is made when a rule was broken, never before.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from accord.protocol.exchange import META_CAPABILITIES
from accord.protocol.jsonrpc import FAULT, RESULT, VERSION_2_0

if TYPE_CHECKING:
    from accord.protocol.exchange import Step

# Objects that sentences call by another name than that of their member.
_MEMBERS: Final[dict[str, tuple[str, ...]]] = {
    "a new task": ("task",),
    "capabilities": ("_meta", META_CAPABILITIES),
}
_LONGEST_QUOTE: Final = 80

MALFORMED_MEMBERS: Final = {
    VERSION_2_0: "/jsonrpc",
    "jsonrpc.request.id-string-or-integer": "/id",
    "jsonrpc.request.id-not-null": "/id",
    "jsonrpc.request.method-string": "/method",
    "jsonrpc.notification.method-string": "/method",
    "jsonrpc.notification.no-id": "/id",
    "jsonrpc.request.params-object": "/params",
    "jsonrpc.notification.params-object": "/params",
    "jsonrpc.response.id-echo": "/id",
    "jsonrpc.response.result-xor-error": "/error",
    "jsonrpc.error.code-and-message": "/error",
    "jsonrpc.error.code-integer": "/error/code",
}
"""The members of a malformed message that break these requirements."""


def find_place(step: "Step", names: Sequence[str]) -> str | None:
    """Return the pointer to the value that the names lead to, or to the nearest one around it.

    Args:
        step: the message.
        names: the place in its body; empty if a rule objects to the message as a whole.
    """
    if not names:
        return None
    if names[0].startswith("/"):
        return names[0]
    if step.kind == FAULT:
        value: object = {"data": None if step.error is None else step.error.data}
        path: list[str | int] = ["error"]
    else:
        value, path = step.body, ["result" if step.kind == RESULT else "params"]
        if value is None and step.kind != RESULT:
            # There are no params to point to.
            return None
    for name in names:
        if _find_entry(value, name) is None:
            # Such as the method before a member of its params.
            name = name.partition(".")[2]
        value = _descend(value, name, path)
    from accord.protocol.verdict import make_pointer  # for rules that were broken

    return make_pointer(path)


def _descend(value: object, text: str, path: list[str | int]) -> object:
    """Return the value that a name leads to, and add its path; without one, the value itself."""
    while text:
        entry = _find_entry(value, text)
        if entry is None:
            return value
        found, rest = entry
        for name in found:
            value = value[name]  # type: ignore[index]  # it was found there
        path += found
        text = rest
    return value


def _find_entry(value: object, text: str) -> tuple[tuple[str | int, ...], str] | None:
    """Return the first step to a value, and the rest of its name."""
    if isinstance(value, list) and text.startswith("["):
        index, _, rest = text[1:].partition("]")
        is_there = index.isdecimal() and int(index) < len(value)
        return ((int(index),), rest.removeprefix(".")) if is_there else None
    if not isinstance(value, dict):
        return None
    if text in value:
        return (text,), ""
    if text.startswith("["):
        for key in value:
            quoted = f"[{key[:_LONGEST_QUOTE]!r}]"
            if text.startswith(quoted):
                return (key,), text[len(quoted) :].removeprefix(".")
    beginnings = [key for key in value if key and text.startswith((f"{key}.", f"{key}["))]
    if beginnings:
        key = max(beginnings, key=len)
        return (key,), text[len(key) :].removeprefix(".")
    return _find_elsewhere(value, text)


def _find_elsewhere(
    value: dict[str, object], text: str
) -> tuple[tuple[str | int, ...], str] | None:
    """Return the step to what sentences name without the object that holds it."""
    other = _MEMBERS.get(text, ())
    inner: object = value
    for name in other:
        inner = inner.get(name) if isinstance(inner, dict) else None
    if other and inner is not None:
        return other, ""
    # An input request is named by its key, its params alone by their members.
    for holder in ("params", "_meta"):
        held = value.get(holder)
        if isinstance(held, dict) and _find_entry(held, text) is not None:
            return (holder,), text
    return None

"""Reading plain JSON bodies, and naming values in sentences."""

from collections.abc import Sequence
from functools import cache
from typing import Final, TypeAlias

import msgspec

from accord.protocol.catalogue import catalogue
from accord.protocol.conversation import Conversation
from accord.protocol.exchange import META_CAPABILITIES, Step, meta_of
from accord.protocol.jsonrpc import REQUEST
from accord.protocol.party import Memory
from accord.protocol.violation import CLIENT
from accord.types._base import JsonObject, RequestId, RevisionId

META: Final = "io.modelcontextprotocol/"

Located: TypeAlias = tuple[str, JsonObject]
"""An object inside a message and its place there: `tools[3]`."""

_LONGEST_QUOTE: Final = 80
# For this many seconds two messages may cross on the wire.
_CROSSING_SECONDS: Final = 1.0


# -- naming values


def quote(value: object) -> str:
    """Return a value as a report quotes it, shortened."""
    if value is None or isinstance(value, bool):
        return str(value).lower() if value is not None else "null"
    text = repr(value[:_LONGEST_QUOTE] if isinstance(value, str) else value)
    return text if len(text) <= _LONGEST_QUOTE + 2 else f"{text[:_LONGEST_QUOTE]}..."


def describe(value: object) -> str:
    """Name a value by its JSON type, as sentences do.

    >>> describe("red"), describe(3), describe([]), describe(None)
    ("the string 'red'", 'the number 3', 'an array', 'null')
    """
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return f"the string {value[:40]!r}"
        case int() | float():
            return f"the number {value}"
        case list():
            return "an array"
        case _:
            return "an object"


def join_words(words: Sequence[str], conjunction: str) -> str:
    """Join words as a sentence does.

    >>> join_words(["a", "b", "c"], "or")
    'a, b or c'
    """
    return f" {conjunction} ".join(filter(None, (", ".join(words[:-1]), words[-1])))


# -- reading values


def is_integer(value: object) -> bool:
    """Tell whether a value is an integer; 1.0 is one, true is not."""
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Tell whether a value is a number; true is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_id(value: object) -> RequestId | None:
    """Return a value as request id or progress token; None when it cannot be one."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_object(value: object) -> JsonObject:
    """Return a JSON object unchanged, and an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def objects_at(holder: JsonObject | None, name: str, within: str = "") -> list[Located]:
    """Return the objects of an array, each with its place."""
    items = (holder or {}).get(name)
    if not isinstance(items, list):
        return []
    return [
        (f"{within}{name}[{index}]", item)
        for index, item in enumerate(items)
        if isinstance(item, dict)
    ]


def memory_of(conversation: Conversation) -> Memory:
    """Return what a monitor remembers; only monitors run rules on bodies."""
    assert conversation.memory is not None
    return conversation.memory


def declared_in(step: Step) -> JsonObject | None:
    """Return the capabilities that a message declares, in `_meta` or in its body."""
    declared = as_object(step.body).get("capabilities")
    if step.kind == REQUEST and step.name != "initialize":
        declared = meta_of(step.body).get(META_CAPABILITIES)
    return declared if isinstance(declared, dict) else None


def request_params(step: Step) -> JsonObject:
    """Return the params of the request that is answered; empty when they are unknown."""
    return as_object(step.exchange.params if step.exchange else None)


def complete_result(step: Step) -> JsonObject | None:
    """Return the result that the method promises; None for questions, a task or another value."""
    body = step.body
    if not isinstance(body, dict):
        return None
    if step.revision.result_type and body.get("resultType", "complete") != "complete":
        return None
    if "tasks/result" in step.revision.requests[CLIENT]:
        asked_for_task = isinstance(request_params(step).get("task"), dict)
        if asked_for_task and isinstance(body.get("task"), dict):
            return None
    return body


def result_objects(step: Step, name: str) -> list[Located]:
    """Return the objects of an array in a complete result, each with its place."""
    return objects_at(complete_result(step), name)


def parse_json(text: str) -> list[object]:
    """Return the value of a JSON text in a list, which is empty when the text is not JSON."""
    try:
        return [msgspec.json.decode(text)]
    except (msgspec.DecodeError, ValueError, RecursionError):
        return []


# -- requirements


@cache
def is_in_force(requirement: str, revision: RevisionId) -> bool:
    """Tell whether another requirement, which is more specific, holds in a revision."""
    return catalogue()[requirement].holds_in(revision)


def crosses(step: Step, since: float | None) -> bool:
    """Whether a message may have been sent before one of this time arrived, by the records."""
    now = step.record.t if step.record else None
    return now is not None and since is not None and now - since <= _CROSSING_SECONDS

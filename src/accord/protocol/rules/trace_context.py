"""Deep rules of tracing: W3C Trace Context and Baggage in `_meta`."""

import re
from typing import TYPE_CHECKING, Any, Final

from accord.protocol.exchange import Step, meta_of
from accord.protocol.rules._rule import MESSAGES, Outcome, check
from accord.protocol.rules.values import describe, first_few

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_PARENT: Final = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
    r"(?P<more>-.*)?"
)

_STATE_KEY: Final = r"[a-z0-9][a-z0-9_*/@-]{0,255}"
_STATE_VALUE: Final = r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
_STATE_MEMBER: Final = re.compile(rf"{_STATE_KEY}={_STATE_VALUE}")
_STATE_MEMBERS: Final = 32

_KEY: Final = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_VALUE: Final = r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*"
_PROPERTY: Final = rf"[ \t]*;[ \t]*{_KEY}(?:[ \t]*=[ \t]*{_VALUE})?"
_BAGGAGE_MEMBER: Final = re.compile(rf"{_KEY}[ \t]*=[ \t]*{_VALUE}(?:{_PROPERTY})*")


def _is_traceparent(text: str) -> bool:
    found = _PARENT.fullmatch(text)
    # The first version has just four fields; later ones may have more.
    return found is not None and not (found["version"] == "00" and found["more"])


def _is_tracestate(text: str) -> bool:
    members = [member.strip(" \t") for member in text.split(",")]
    filled = [member for member in members if member]
    names = [member.partition("=")[0] for member in filled]
    return (
        len(members) <= _STATE_MEMBERS
        and len(set(names)) == len(names)
        and all(_STATE_MEMBER.fullmatch(member) for member in filled)
    )


def _is_baggage(text: str) -> bool:
    return all(_BAGGAGE_MEMBER.fullmatch(member.strip(" \t")) for member in text.split(","))


_FORMATS: Final = {
    "traceparent": _is_traceparent,
    "tracestate": _is_tracestate,
    "baggage": _is_baggage,
}


@check("otel.value-formats", kind=MESSAGES)
def trace_context_is_well_formed(step: Step, conversation: "Conversation") -> Outcome:
    meta: dict[str, Any] = meta_of(step.body)
    present = [name for name in _FORMATS if name in meta]
    if not present:
        return None
    found = []
    for name in present:
        value = meta[name]
        if not isinstance(value, str):
            found.append(f"sends a {name} that is {describe(value)}, expected a string")
        elif not _FORMATS[name](value):
            found.append(f"sends a malformed {name}: {value[:80]!r}")
    return first_few(found)

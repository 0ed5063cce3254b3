"""One call that a person made, as the history keeps it."""

from typing import Literal, TypeAlias

import msgspec

CallKind: TypeAlias = Literal["tool", "resource", "prompt", "request"]
Outcome: TypeAlias = Literal["done", "error", "cancelled", "timeout", "lost"]


class CallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A call that has ended.

    Attributes:
        kind: what was called.
        name: of the tool or prompt, the URI of the resource, or the method of a request.
        arguments: JSON text: the arguments of a tool or prompt, or the params of a request.
        response: JSON text: the result or error object as it came; empty without an answer.
        started: seconds since the epoch.
        seconds: how long it took.
        outcome: how it ended.
        is_error: whether the answer is an error, or a tool result that says so.
        revision: the revision that was spoken.
        target: the key of the server; filled in by `CallHistory.add`.
        title: what the page calls the server; filled in by `CallHistory.add`.
    """

    kind: CallKind
    name: str
    arguments: str = "{}"
    response: str = ""
    started: float
    seconds: float
    outcome: Outcome = "done"
    is_error: bool = False
    revision: str = ""
    target: str = ""
    title: str = ""

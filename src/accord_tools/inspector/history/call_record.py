"""One call that a person made, as the history keeps it: masked, and shortened."""

from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from accord.secrets.masks import Secrets
from accord_tools.inspector.differences import find_differences

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


RESPONSE_MOST: Final = 64 * 1024
"""The characters of a response that are kept; a longer one is cut and marked."""
ARGUMENTS_MOST: Final = 256 * 1024
"""The characters of arguments that are kept; longer ones are cut and cannot be replayed."""
# Longer texts are cut before their secrets are looked for, which takes a while in a whole one.
_READ_WHOLE: Final = 4 * 1024 * 1024
# A secret that begins before the cut is found up to this many characters after it.
_BEYOND: Final = 8 * 1024
# The most places that are named.
_PLACES: Final = 20


class MaskedText(NamedTuple):
    """A text that is fit to be kept.

    Attributes:
        text: without secrets.
        is_cut: whether its end is missing.
        masked: JSON pointers of the values that were masked.
    """

    text: str
    is_cut: bool
    masked: list[str]


def mask_part(secrets: Secrets, text: str, most: int) -> MaskedText:
    """Return a JSON text or plain text without secrets, of at most so many characters."""
    is_cut = len(text) > _READ_WHOLE
    if is_cut:
        text = text[: most + _BEYOND]
    clean = secrets.hide(text)
    masked = [] if clean == text or is_cut else _places(text, clean)
    return MaskedText(clean[:most], is_cut or len(clean) > most, masked)


def _places(text: str, clean: str) -> list[str]:
    """Return where two JSON texts differ."""
    return [each.pointer for each in find_differences(text, clean, most=_PLACES)] or [""]


def mask_record(secrets: Secrets, record: CallRecord) -> tuple[MaskedText, MaskedText]:
    """Return the arguments and the response of a call as the history keeps them."""
    return (
        mask_part(secrets, record.arguments, ARGUMENTS_MOST),
        mask_part(secrets, record.response, RESPONSE_MOST),
    )

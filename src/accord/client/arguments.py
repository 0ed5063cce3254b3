"""What callers give: checked before anything is sent, so that no mistake looks like an answer."""

from collections.abc import Mapping
from typing import Final

import msgspec

from accord.protocol.exchange import META_CAPABILITIES, META_VERSION
from accord.protocol.party import META_CLIENT, META_LOG_LEVEL
from accord.types import JsonObject, PromptReference, ResourceTemplateReference

_NO_ARGUMENTS: Final = msgspec.Raw(b"{}")
_RESERVED: Final = {
    META_VERSION: "connect(..., revision=...) chooses it",
    META_CAPABILITIES: "the callbacks of the connection declare them",
    META_CLIENT: "connect(..., client_info=...) says it",
    META_LOG_LEVEL: "client.set_log_level(...) chooses it",
}
_encode: Final = msgspec.json.Encoder().encode


class OwnMeta(dict[str, object]):
    """Members of `_meta` that the client itself made; they may have reserved names."""


def encode_arguments(arguments: Mapping[str, object] | None) -> msgspec.Raw:
    """Encode the arguments of a tool."""
    # Some servers want the member even where the tool takes nothing.
    if arguments is None:
        return _NO_ARGUMENTS
    if arguments.__class__ is not dict and not isinstance(arguments, Mapping):
        raise TypeError(f"arguments are a mapping by name, not a {type(arguments).__name__}")
    return msgspec.Raw(_encode(arguments))


def check_meta(meta: object) -> JsonObject:
    """Return the `meta` of a call.

    Raises:
        TypeError: it is not a dictionary with texts as keys.
        ValueError: it has a member that the client sets itself.
    """
    if type(meta) is OwnMeta:
        return meta
    if not isinstance(meta, dict) or not all(isinstance(key, str) for key in meta):
        raise TypeError(f"meta is {meta!r:.80}, expected a dictionary with texts as keys")
    for name, advice in _RESERVED.items():
        if name in meta:
            raise ValueError(f"meta has {name!r}, which the client sets: {advice}")
    return meta


def check_text(what: str, value: object) -> None:
    """Refuse a value that is not text.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r:.80}, expected text")


def check_texts(what: str, values: Mapping[str, object]) -> None:
    """Refuse arguments of which one is not text; `what` they belong to is part of the error.

    Raises:
        TypeError: one is something else.
    """
    for name, value in values.items():
        check_text(f"argument {name!r} of {what}", value)


def to_reference(given: object) -> PromptReference | ResourceTemplateReference:
    """Return what is to be completed.

    Raises:
        TypeError: it names neither a prompt nor a resource template.
    """
    if isinstance(given, PromptReference | ResourceTemplateReference):
        return given
    if isinstance(given, str) and given:
        is_uri = "{" in given or "://" in given
        return ResourceTemplateReference(given) if is_uri else PromptReference(given)
    raise TypeError(
        f"what to complete is {given!r:.80}; expected the name of a prompt, a template such as "
        "'note://{name}', PromptReference(name) or ResourceTemplateReference(uri)"
    )

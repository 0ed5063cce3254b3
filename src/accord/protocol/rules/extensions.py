"""Deep rules of extensions: how they are named and declared."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from accord.protocol.exchange import Step, meta_of
from accord.protocol.jsonrpc import REQUEST, RESULT
from accord.protocol.rules import meta_keys as keys
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.parts import META
from accord.protocol.rules.values import describe, first_few
from accord.protocol.violation import CLIENT, SERVER

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_CAPABILITIES: Final = f"{META}clientCapabilities"


def _declared(step: Step) -> Iterator[Any]:
    """The extensions that a message declares, whatever they are."""
    if step.kind == REQUEST:
        capabilities = meta_of(step.body).get(_CAPABILITIES)
    else:
        capabilities = step.body.get("capabilities") if isinstance(step.body, dict) else None
    if isinstance(capabilities, dict) and "extensions" in capabilities:
        yield capabilities["extensions"]


def _is_identifier(key: str) -> bool:
    labels, name = keys.split(key)
    return (
        labels is not None and all(keys.is_label(label) for label in labels) and keys.is_name(name)
    )


@check("extensions.identifier-format", by=CLIENT, kind=REQUEST)
@check("extensions.identifier-format", by=SERVER, kind=RESULT, on="server/discover")
def extension_is_named_with_a_prefix(step: Step, conversation: "Conversation") -> Outcome:
    named = [key for value in _declared(step) if isinstance(value, dict) for key in value]
    if not named:
        return None
    return first_few(
        [
            f"declares the extension {key[:60]!r}, expected a prefix, a slash and a name"
            for key in named
            if not _is_identifier(key)
        ]
    )


@check("extensions.settings-object", by=CLIENT, kind=REQUEST)
@check("extensions.settings-object", by=SERVER, kind=RESULT, on="server/discover")
def extension_settings_are_an_object(step: Step, conversation: "Conversation") -> Outcome:
    for value in _declared(step):
        if not isinstance(value, dict):
            return f"declares extensions as {describe(value)}, expected an object"
        if value:
            return first_few(
                [
                    f"declares the extension {key[:60]!r} as {describe(settings)}, "
                    "expected an object"
                    for key, settings in value.items()
                    if not isinstance(settings, dict)
                ]
            )
    return None

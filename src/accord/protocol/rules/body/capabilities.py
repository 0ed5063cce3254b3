"""Declared capabilities: objects with flags."""

from typing import Final

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import REQUEST, RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.shapes import shapes
from accord.protocol.rules.values import as_object, combine, describe
from accord.protocol.violation import CLIENT, SERVER

_NAMES: Final = frozenset(
    {
        "completions",
        "elicitation",
        "experimental",
        "extensions",
        "logging",
        "prompts",
        "resources",
        "roots",
        "sampling",
        "tasks",
        "tools",
    }
)


@check("lifecycle.capabilities.declared", by=CLIENT, kind=REQUEST, on="initialize")
@check("lifecycle.capabilities.declared", by=SERVER, kind=RESULT, on="initialize")
def capabilities_are_objects(step: Step, conversation: Conversation) -> Outcome:
    capabilities = as_object(step.body).get("capabilities")
    if not isinstance(capabilities, dict):
        return None
    declared = [(name, value) for name, value in capabilities.items() if name in _NAMES]
    experimental = as_object(capabilities.get("experimental"))
    declared += [(f"experimental.{name[:40]}", value) for name, value in experimental.items()]
    wrong = [
        f"declares the capability {name} as {describe(value)}, expected an object"
        for name, value in declared
        if not isinstance(value, dict)
    ]
    return combine([True, *wrong])


# -- flags

shapes(
    {"roots.capability.list-changed": "capabilities.roots.listChanged?: boolean"},
    by=CLIENT,
    kind=REQUEST,
    on="initialize",
)
shapes(
    {"resources.capability.subscribe": "capabilities.resources.subscribe?: boolean"},
    by=SERVER,
    kind=RESULT,
    on="initialize",
)
shapes(
    {
        "resources.capability.list-changed": "capabilities.resources.listChanged?: boolean",
        "prompts.capability.list-changed": "capabilities.prompts.listChanged?: boolean",
        "tools.capability.list-changed": "capabilities.tools.listChanged?: boolean",
    },
    by=SERVER,
    kind=RESULT,
    on=("initialize", "server/discover"),
)

"""Capabilities: only methods that exist in the revision, and only what was declared."""

from typing import TYPE_CHECKING, Final

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    NOTIFICATION,
    REQUEST,
    RESULT,
    Kind,
)
from accord.protocol.methods import KNOWN, REQUESTS
from accord.protocol.party import undeclared_mode, undeclared_tools
from accord.protocol.rules._rule import Declared, Outcome, state
from accord.protocol.violation import CLIENT, IGNORE, OTHER, SERVER, Party
from accord.types._base import ALWAYS, Lifetime

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation
    from accord.protocol.revisions import Revision

_HANDSHAKE = Lifetime(until="2025-11-25")


def _receiver_declared(revision: "Revision", sender: Party, name: str, declared: Declared) -> bool:
    needed = revision.needed_for(sender, name)
    return needed is None or needed in (declared[OTHER[sender]] or ())


@state(
    "lifecycle.capabilities.only-declared",
    kind=REQUEST,
    lifetime=_HANDSHAKE,
    reaction=METHOD_NOT_FOUND,
    holds_for=lambda revision, sender, name, _: name in revision.requests[sender],
)
def request_exists_in_the_revision(step: Step, conversation: "Conversation") -> Outcome:
    if step.name in step.revision.requests[step.sender]:
        return True
    if step.name not in REQUESTS:
        return None
    return f"sends {step.name}, which a {step.sender} cannot send in {step.revision.id}"


@state(
    "lifecycle.capabilities.only-declared",
    kind=NOTIFICATION,
    lifetime=_HANDSHAKE,
    reaction=IGNORE,
    holds_for=lambda revision, sender, name, _: name in revision.notifications[sender],
)
def notification_exists_in_the_revision(step: Step, conversation: "Conversation") -> Outcome:
    if step.name in step.revision.notifications[step.sender]:
        return True
    if step.name not in KNOWN or step.name in REQUESTS:
        return None
    return f"sends {step.name}, which a {step.sender} cannot send in {step.revision.id}"


@state(
    "lifecycle.capabilities.respected",
    kind=REQUEST,
    lifetime=_HANDSHAKE,
    reaction=METHOD_NOT_FOUND,
    holds_for=_receiver_declared,
)
def request_needs_a_declared_capability(step: Step, conversation: "Conversation") -> Outcome:
    needed = step.revision.needed_for(step.sender, step.name)
    declared = conversation.parties[OTHER[step.sender]].capabilities
    if not needed or declared is None:
        return None
    if needed in declared:
        return True
    return f"sends {step.name}, but the {OTHER[step.sender]} did not declare {needed}"


# -- members of a capability: the mode of an elicitation, tools in sampling

_MEMBERS: Final = Lifetime(since="2025-11-25")


# Endpoints ask these rules about every question, because they depend on its content.
@state(
    "elicitation.mode.supported-only",
    by=SERVER,
    kind=REQUEST,
    on="elicitation/create",
    lifetime=_MEMBERS,
    reaction=INVALID_PARAMS,  # elicitation.error.undeclared-mode
)
def server_asks_in_a_declared_mode(step: Step, conversation: "Conversation") -> Outcome:
    declared = conversation.capabilities(CLIENT, step.exchange)
    if declared is None or "elicitation" not in declared:
        return None
    mode = undeclared_mode(step.body, declared)
    return mode is None or f"asks in mode {mode}, but the client did not declare elicitation.{mode}"


@state(
    "sampling.tools.not-without-capability",
    by=SERVER,
    kind=REQUEST,
    on="sampling/createMessage",
    lifetime=_MEMBERS,
    reaction=INVALID_PARAMS,
)
def server_offers_tools_where_declared(step: Step, conversation: "Conversation") -> Outcome:
    declared = conversation.capabilities(CLIENT, step.exchange)
    if declared is None or "sampling" not in declared:
        return None
    name = undeclared_tools(step.body, declared)
    return name is None or f"sends {name}, but the client did not declare sampling.tools"


_LIFETIMES: Final[dict[str, Lifetime]] = {
    "completion.capability.declared": Lifetime(since="2025-03-26"),
    "elicitation.capability.declared": Lifetime("2025-06-18", "2025-11-25"),
    "tools.list-changed.capability-required": ALWAYS,
    "resources.list-changed.capability-required": ALWAYS,
    "prompts.list-changed.capability-required": ALWAYS,
}


def _bind(requirement: str, party: Party, capability: str, kind: Kind, *methods: str) -> None:
    """Bind a requirement that the sender of these messages has declared a capability."""
    does = "answers" if kind == RESULT else "sends"

    @state(
        requirement,
        by=party,
        kind=kind,
        on=methods,
        lifetime=_LIFETIMES.get(requirement, _HANDSHAKE),
        holds_for=lambda _, sender, __, declared: capability in (declared[sender] or ()),
    )
    def sender_declared_the_capability(step: Step, conversation: "Conversation") -> Outcome:
        declared = conversation.parties[step.sender].capabilities
        if declared is None:
            return None
        return capability in declared or f"{does} {step.name} without declaring {capability}"


_bind("tools.capability.declared", SERVER, "tools", RESULT, "tools/list", "tools/call")
_bind(
    "resources.capability.declared",
    SERVER,
    "resources",
    RESULT,
    "resources/list",
    "resources/templates/list",
    "resources/read",
)
_bind("prompts.capability.declared", SERVER, "prompts", RESULT, "prompts/list", "prompts/get")
_bind("completion.capability.declared", SERVER, "completions", RESULT, "completion/complete")
_bind("logging.capability.declared", SERVER, "logging", RESULT, "logging/setLevel")
_bind("logging.capability.declared", SERVER, "logging", NOTIFICATION, "notifications/message")
_bind(
    "resources.subscribe.capability-required",
    SERVER,
    "resources.subscribe",
    RESULT,
    "resources/subscribe",
    "resources/unsubscribe",
)
_bind(
    "resources.subscribe.capability-required",
    SERVER,
    "resources.subscribe",
    NOTIFICATION,
    "notifications/resources/updated",
)
_bind("roots.capability.declared", CLIENT, "roots", RESULT, "roots/list")
_bind("sampling.capability.declared", CLIENT, "sampling", RESULT, "sampling/createMessage")
_bind("elicitation.capability.declared", CLIENT, "elicitation", RESULT, "elicitation/create")
for _area in ("tools", "resources", "prompts", "roots"):
    _bind(
        f"{_area}.list-changed.capability-required",
        CLIENT if _area == "roots" else SERVER,
        f"{_area}.listChanged",
        NOTIFICATION,
        f"notifications/{_area}/list_changed",
    )

"""State rules of capabilities: nothing is used that was not declared or does not exist."""

from typing import TYPE_CHECKING, Final

from accord.protocol.capabilities import undeclared_mode, undeclared_tools
from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    NOTIFICATION,
    REQUEST,
    RESULT,
)
from accord.protocol.methods import KNOWN, REQUESTS
from accord.protocol.rules._rule import Declared, HoldsFor, Outcome, state
from accord.protocol.violation import CLIENT, IGNORE, OTHER, SERVER, Party
from accord.types._base import ALWAYS, Lifetime

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation
    from accord.protocol.revision import Revision

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


# -- parts of a capability: the mode of an elicitation, tools in sampling

_PARTS: Final = Lifetime(since="2025-11-25")


# Endpoints have to ask these rules about every question: no table knows what it will hold.
@state(
    "elicitation.mode.supported-only",
    by=SERVER,
    kind=REQUEST,
    on="elicitation/create",
    lifetime=_PARTS,
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
    lifetime=_PARTS,
    reaction=INVALID_PARAMS,
)
def server_offers_tools_where_declared(step: Step, conversation: "Conversation") -> Outcome:
    declared = conversation.capabilities(CLIENT, step.exchange)
    if declared is None or "sampling" not in declared:
        return None
    name = undeclared_tools(step.body, declared)
    return name is None or f"sends {name}, but the client did not declare sampling.tools"


_AREAS: Final[dict[str, tuple[Party, str, tuple[str, ...]]]] = {
    "tools.capability.declared": (SERVER, "tools", ("tools/list", "tools/call")),
    "resources.capability.declared": (
        SERVER,
        "resources",
        ("resources/list", "resources/templates/list", "resources/read"),
    ),
    "prompts.capability.declared": (SERVER, "prompts", ("prompts/list", "prompts/get")),
    "completion.capability.declared": (SERVER, "completions", ("completion/complete",)),
    "logging.capability.declared": (SERVER, "logging", ("logging/setLevel",)),
    "resources.subscribe.capability-required": (
        SERVER,
        "resources.subscribe",
        ("resources/subscribe", "resources/unsubscribe"),
    ),
    "roots.capability.declared": (CLIENT, "roots", ("roots/list",)),
    "sampling.capability.declared": (CLIENT, "sampling", ("sampling/createMessage",)),
    "elicitation.capability.declared": (CLIENT, "elicitation", ("elicitation/create",)),
}

_LIFETIMES: Final[dict[str, Lifetime]] = {
    "completion.capability.declared": Lifetime(since="2025-03-26"),
    "elicitation.capability.declared": Lifetime("2025-06-18", "2025-11-25"),
    "tools.list-changed.capability-required": ALWAYS,
    "resources.list-changed.capability-required": ALWAYS,
    "prompts.list-changed.capability-required": ALWAYS,
}


def _sender_declared(capability: str) -> HoldsFor:
    return lambda _, sender, __, declared: capability in (declared[sender] or ())


def _bind_answers(
    requirement: str, party: Party, capability: str, methods: tuple[str, ...]
) -> None:
    lifetime = _LIFETIMES.get(requirement, _HANDSHAKE)

    @state(
        requirement,
        by=party,
        kind=RESULT,
        on=methods,
        lifetime=lifetime,
        holds_for=_sender_declared(capability),
    )
    def answers_only_what_it_declared(step: Step, conversation: "Conversation") -> Outcome:
        declared = conversation.parties[step.sender].capabilities
        if declared is None:
            return None
        return capability in declared or f"answers {step.name} without declaring {capability}"


_NOTICES: Final[dict[str, tuple[Party, str, str]]] = {
    "tools.list-changed.capability-required": (SERVER, "tools/list_changed", "tools.listChanged"),
    "resources.list-changed.capability-required": (
        SERVER,
        "resources/list_changed",
        "resources.listChanged",
    ),
    "prompts.list-changed.capability-required": (
        SERVER,
        "prompts/list_changed",
        "prompts.listChanged",
    ),
    "roots.list-changed.capability-required": (CLIENT, "roots/list_changed", "roots.listChanged"),
    "resources.subscribe.capability-required": (SERVER, "resources/updated", "resources.subscribe"),
    "logging.capability.declared": (SERVER, "message", "logging"),
}


def _bind_notices(requirement: str, party: Party, name: str, capability: str) -> None:
    @state(
        requirement,
        by=party,
        kind=NOTIFICATION,
        on=f"notifications/{name}",
        lifetime=_LIFETIMES.get(requirement, _HANDSHAKE),
        holds_for=_sender_declared(capability),
    )
    def notifies_only_what_it_declared(step: Step, conversation: "Conversation") -> Outcome:
        declared = conversation.parties[step.sender].capabilities
        if declared is None:
            return None
        return capability in declared or f"sends {step.name} without declaring {capability}"


for _requirement, _row in _AREAS.items():
    _bind_answers(_requirement, *_row)
for _requirement, _notice in _NOTICES.items():
    _bind_notices(_requirement, *_notice)

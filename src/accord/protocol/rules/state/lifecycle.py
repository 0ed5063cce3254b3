"""The opening: which messages may precede its end, and in which order."""

from typing import TYPE_CHECKING

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import INVALID_REQUEST, NOTIFICATION, REQUEST
from accord.protocol.revisions import Phase
from accord.protocol.rules._rule import Outcome, state
from accord.protocol.violation import ACCEPT, CLIENT, IGNORE, SERVER
from accord.types._base import Lifetime

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_HANDSHAKE = Lifetime(until="2025-11-25")


@state(
    "lifecycle.initialize.first",
    by=CLIENT,
    kind=REQUEST,
    lifetime=_HANDSHAKE,
    reaction=INVALID_REQUEST,
    only="opening",
)
def initialize_comes_first(step: Step, conversation: "Conversation") -> Outcome:
    # A later initialize begins anew, as bridges do for each of their clients; it is not forbidden.
    if step.name == "initialize":
        return True
    if conversation.phase is not Phase.OPENING or step.name == "ping":
        return None
    return f"sends {step.name} before initialize"


@state(
    "lifecycle.initialize.client-waits",
    by=CLIENT,
    kind=REQUEST,
    lifetime=_HANDSHAKE,
    reaction=INVALID_REQUEST,
    only="opening",
)
def client_waits_for_the_answer(step: Step, conversation: "Conversation") -> Outcome:
    if conversation.phase is not Phase.NEGOTIATING or step.name == "initialize":
        return None
    return True if step.name == "ping" else f"sends {step.name} before initialize is answered"


@state(
    "lifecycle.initialized.sent",
    by=CLIENT,
    kind=REQUEST,
    lifetime=_HANDSHAKE,
    reaction=ACCEPT,
    only="opening",
)
def client_says_initialized(step: Step, conversation: "Conversation") -> Outcome:
    if conversation.phase is Phase.NEGOTIATED and step.name not in ("ping", "initialize"):
        return f"sends {step.name} before notifications/initialized"
    return None


@state(
    "lifecycle.initialized.sent",
    by=CLIENT,
    kind=NOTIFICATION,
    on="notifications/initialized",
    lifetime=_HANDSHAKE,
    reaction=IGNORE,
)
def initialized_follows_the_answer(step: Step, conversation: "Conversation") -> Outcome:
    if conversation.phase in (Phase.OPENING, Phase.NEGOTIATING):
        return "sends notifications/initialized before initialize is answered"
    return True


@state(
    "lifecycle.initialized.server-waits",
    by=SERVER,
    kind=REQUEST,
    lifetime=_HANDSHAKE,
    reaction=ACCEPT,
    only="opening",
)
def server_waits_for_initialized(step: Step, conversation: "Conversation") -> Outcome:
    if conversation.phase is Phase.READY or step.name == "ping":
        return True
    return f"sends {step.name} before notifications/initialized"

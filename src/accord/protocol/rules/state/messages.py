"""JSON-RPC: unique ids, and one answer to each request."""

from typing import TYPE_CHECKING

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND, NOTIFICATION, REQUEST
from accord.protocol.methods import REQUESTS
from accord.protocol.rules._rule import REPLIES, Breach, Declared, Outcome, state
from accord.protocol.violation import ACCEPT, CLIENT, IGNORE, OTHER, SERVER, Party
from accord.types._base import Lifetime

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation
    from accord.protocol.revisions import Revision


def _answers_a_known_method(
    revision: "Revision", sender: Party, name: str, declared: Declared
) -> bool:
    """Tell whether a reply answers an open exchange; only then its method is known."""
    return name != ""


_SESSION_IDS = Lifetime(until="2025-11-25")
_STATELESS = Lifetime(since="2026-07-28")


@state("jsonrpc.request.id-unique", kind=REQUEST, lifetime=_SESSION_IDS, only="reuse")
def id_is_new(step: Step, conversation: "Conversation") -> Outcome:
    assert step.id is not None
    party = conversation.parties[step.sender]
    if step.id in party.open:
        return Breach(f"sends id {step.id!r} while it is in flight", reaction=INVALID_REQUEST)
    if party.used is not None and step.id in party.used and not conversation.begins_anew(step):
        return Breach(f"sends id {step.id!r} a second time", reaction=ACCEPT)
    return True


@state(
    "jsonrpc.id.distinct-among-pending",
    by=CLIENT,
    kind=REQUEST,
    lifetime=_STATELESS,
    reaction=INVALID_REQUEST,
    only="reuse",
)
def id_is_not_in_flight(step: Step, conversation: "Conversation") -> Outcome:
    if step.id in conversation.parties[step.sender].open:
        return f"sends id {step.id!r} while it is in flight"
    return True


@state("jsonrpc.request.id-present", kind=NOTIFICATION, on=REQUESTS, reaction=IGNORE)
def request_has_an_id(step: Step, conversation: "Conversation") -> Outcome:
    return f"sends the request {step.name} without an id"


@state(
    "jsonrpc.notification.no-id",
    kind=REQUEST,
    reaction=INVALID_REQUEST,
    holds_for=lambda _, __, name, ___: not name.startswith("notifications/"),
)
def notification_has_no_id(step: Step, conversation: "Conversation") -> Outcome:
    if step.name.startswith("notifications/"):
        return f"sends the notification {step.name} with an id"
    return None


@state(
    "jsonrpc.client-only-initiates",
    by=SERVER,
    kind=REQUEST,
    lifetime=_STATELESS,
    reaction=METHOD_NOT_FOUND,
)
def server_sends_no_requests(step: Step, conversation: "Conversation") -> Outcome:
    return f"sends the request {step.name}; servers ask in results instead"


@state(
    "jsonrpc.client-no-responses",
    by=CLIENT,
    kind=REPLIES,
    lifetime=_STATELESS,
    reaction=IGNORE,
)
def client_sends_no_responses(step: Step, conversation: "Conversation") -> Outcome:
    return "sends a response; clients answer in inputResponses instead"


@state(
    "jsonrpc.response.id-echo",
    kind=REPLIES,
    lifetime=Lifetime(until="2025-06-18"),
    reaction=IGNORE,
    holds_for=_answers_a_known_method,
)
@state(
    "jsonrpc.error.id-echoed-or-unreadable",
    kind=REPLIES,
    lifetime=Lifetime(since="2025-11-25"),
    reaction=IGNORE,
    holds_for=_answers_a_known_method,
)
def response_has_the_id_of_a_request(step: Step, conversation: "Conversation") -> Outcome:
    if step.exchange is not None:
        return True
    if step.id is None:
        return None
    asker = conversation.parties[OTHER[step.sender]]
    if asker.used is not None and step.id in asker.used:
        return None
    return f"answers id {step.id!r}, which no request has"


@state(
    "jsonrpc.request.answered",
    kind=REPLIES,
    reaction=IGNORE,
    holds_for=_answers_a_known_method,
)
def request_is_answered_once(step: Step, conversation: "Conversation") -> Outcome:
    if step.exchange is not None:
        return True
    asker = conversation.parties[OTHER[step.sender]]
    if step.id is not None and asker.used is not None and step.id in asker.used:
        return f"answers id {step.id!r} a second time"
    return None

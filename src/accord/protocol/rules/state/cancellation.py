"""Cancellation: only own requests, never `initialize`."""

from typing import TYPE_CHECKING

from accord.protocol.exchange import Step, member
from accord.protocol.jsonrpc import NOTIFICATION
from accord.protocol.rules._rule import Outcome, state
from accord.protocol.violation import CLIENT, IGNORE, SERVER
from accord.types._base import Lifetime

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_CANCELLED = "notifications/cancelled"


@state(
    "cancellation.request-id.previously-issued",
    kind=NOTIFICATION,
    on=_CANCELLED,
    reaction=IGNORE,
)
def cancels_its_own_request(step: Step, conversation: "Conversation") -> Outcome:
    id = member(step.body, "requestId")
    if id is None:
        return None
    if not isinstance(id, int | str) or isinstance(id, bool):
        return "cancels an id that is neither a string nor an integer"
    if step.sender == SERVER and not step.revision.server_requests:
        # Such a server cancels requests of the client, see cancellation.server-names-listen.
        return None
    party = conversation.parties[step.sender]
    if step.exchange is not None or id in party.cancelled:
        return True
    # An answer may have crossed the cancellation; endpoints, which keep no ids, assume so.
    if party.used is None or id in party.used:
        return True
    return f"cancels id {id!r}, which it never sent"


@state(
    "cancellation.initialize.excluded",
    by=CLIENT,
    kind=NOTIFICATION,
    on=_CANCELLED,
    lifetime=Lifetime(until="2025-11-25"),
    reaction=IGNORE,
)
def initialize_is_not_cancelled(step: Step, conversation: "Conversation") -> Outcome:
    if step.exchange is None:
        return None
    return step.exchange.name != "initialize" or "cancels initialize"

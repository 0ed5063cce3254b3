"""State rules of cancellation: only own requests, never the opening."""

from typing import TYPE_CHECKING

from accord.protocol.exchange import Step, member
from accord.protocol.jsonrpc import NOTIFICATION
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.violation import CLIENT, IGNORE
from accord.types._base import Lifetime

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_CANCELLED = "notifications/cancelled"


@check(
    "cancellation.request-id.previously-issued",
    kind=NOTIFICATION,
    on=_CANCELLED,
    reaction=IGNORE,
    deep=False,
)
def cancels_its_own_request(step: Step, conversation: "Conversation") -> Outcome:
    id = member(step.body, "requestId")
    if id is None:
        return None
    party = conversation.parties[step.sender]
    if step.exchange is not None or id in party.cancelled:
        return True
    # An answer may have crossed the cancellation; without a memory of ids nobody can tell.
    if party.used is None or (isinstance(id, int | str) and id in party.used):
        return True
    return f"cancels id {id!r}, which it never sent"


@check(
    "cancellation.initialize.excluded",
    by=CLIENT,
    kind=NOTIFICATION,
    on=_CANCELLED,
    lifetime=Lifetime(until="2025-11-25"),
    reaction=IGNORE,
    deep=False,
)
def initialize_is_not_cancelled(step: Step, conversation: "Conversation") -> Outcome:
    if step.exchange is None:
        return None
    return step.exchange.name != "initialize" or "cancels initialize"

"""Which listen request a notification belongs to, and which of them the server has acknowledged."""

from typing import TYPE_CHECKING, Any, Final

from accord.protocol.exchange import Exchange, Step, meta_of
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST
from accord.protocol.rules.items import object_of
from accord.protocol.violation import CLIENT

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

LISTEN: Final = "subscriptions/listen"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"


def subscription_of(step: Step, conversation: "Conversation") -> Exchange | None:
    """Return the listen request under way that a notification names in its `_meta`."""
    id = meta_of(step.body).get(SUBSCRIPTION_ID)
    if not isinstance(id, int | str) or isinstance(id, bool):
        return None
    exchange = conversation.open_exchange(CLIENT, id)
    return exchange if exchange is not None and exchange.name == LISTEN else None


def filter_of(body: Any) -> dict[str, Any]:
    """Return which notifications a listen request asks for, or an acknowledgement promises."""
    return object_of(object_of(body).get("notifications"))


def learn_subscriptions(step: Step, conversation: "Conversation") -> None:
    """Take note of acknowledgements; one that names nothing counts for the only one it can mean."""
    memory = conversation.memory
    if memory is None or step.name not in (LISTEN, ACKNOWLEDGED):
        return
    if step.kind == REQUEST and step.id is not None:
        memory.acknowledged.pop(step.id, None)
    elif step.kind == NOTIFICATION:
        exchange = subscription_of(step, conversation)
        waiting = [
            each
            for each in conversation.parties[CLIENT].open.values()
            if each.name == LISTEN and each.id not in memory.acknowledged
        ]
        if exchange is None and len(waiting) == 1:
            exchange = waiting[0]
        if exchange is not None:
            memory.acknowledged[exchange.id] = None

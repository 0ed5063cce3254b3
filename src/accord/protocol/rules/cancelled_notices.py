"""Deep rules of cancellation: what the notification carries, and which requests it is for."""

from typing import TYPE_CHECKING, Any, Final

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, RESULT
from accord.protocol.party import Bounded
from accord.protocol.rules._rule import REPLIES, Outcome, check
from accord.protocol.rules.values import as_id, describe
from accord.protocol.violation import CLIENT, OTHER, SERVER
from accord.types._base import RequestId

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_CANCELLED: Final = "notifications/cancelled"
_PENDING: Final = "cancellation.names-own-pending"
_NOT_FOR_TASKS: Final = "cancellation.not-for-tasks-2025"
_TASKED: Final = ("tools/call", "sampling/createMessage", "elicitation/create")
_MISNOMERS: Final = frozenset(
    {
        "$/cancelRequest",
        "cancel",
        "canceled",
        "cancelled",
        "notifications/cancel",
        "notifications/canceled",
        "notifications/cancelRequest",
        "request/cancel",
    }
)

# As long as this, an answer and a cancellation may be on their way at the same time.
_CROSSING: Final = 5.0


@check("cancellation.notification.either-party", kind=NOTIFICATION)
def cancellation_is_called_so(step: Step, conversation: "Conversation") -> Outcome:
    if step.name == _CANCELLED:
        return True
    if step.name in _MISNOMERS:
        return f"cancels with {step.name}; the method is {_CANCELLED}"
    return None


@check("cancellation.request-id.present", kind=NOTIFICATION, on=_CANCELLED)
@check("cancellation.request-id-required", kind=NOTIFICATION, on=_CANCELLED)
def cancellation_names_a_request(step: Step, conversation: "Conversation") -> Outcome:
    if step.body is not None and not isinstance(step.body, dict):
        return None
    if step.body is None or "requestId" not in step.body:
        return f"sends {_CANCELLED} without requestId"
    id = step.body["requestId"]
    if as_id(id) is None:
        return f"sends a requestId that is {describe(id)}, expected a string or an integer"
    return True


@check("cancellation.reason.optional", kind=NOTIFICATION, on=_CANCELLED)
def reason_is_text(step: Step, conversation: "Conversation") -> Outcome:
    if not isinstance(step.body, dict) or "reason" not in step.body:
        return None
    reason = step.body["reason"]
    return isinstance(reason, str) or (
        f"gives a reason that is {describe(reason)}, expected a string"
    )


def _cancelled_id(step: Step) -> RequestId | None:
    return as_id(step.body.get("requestId")) if isinstance(step.body, dict) else None


@check("cancellation.server-only-for-listen", by=SERVER, kind=NOTIFICATION, on=_CANCELLED)
def server_cancels_nothing_but_listen(step: Step, conversation: "Conversation") -> Outcome:
    id = _cancelled_id(step)
    client = conversation.parties[CLIENT]
    exchange = None if id is None else client.open.get(id) or client.cancelled.get(id)
    if exchange is None:
        return None
    return exchange.is_lasting or f"cancels {exchange.name} (id {id!r}), which is no listen request"


@check("cancellation.server-names-listen", by=SERVER, kind=NOTIFICATION, on=_CANCELLED)
def server_names_a_listen_request(step: Step, conversation: "Conversation") -> Outcome:
    id = _cancelled_id(step)
    if id is None:
        return None
    client = conversation.parties[CLIENT]
    exchange = client.open.get(id) or client.cancelled.get(id)
    if exchange is not None:
        return True if exchange.is_lasting else None
    if client.used is None or id in client.used:
        # It was answered a moment ago; what it was is no longer known.
        return None
    return f"cancels id {id!r}, which is no request of the client"


@check(_PENDING, by=SERVER, kind=REPLIES)
def answer_is_noted(step: Step, conversation: "Conversation") -> Outcome:
    memory, now = conversation.memory, step.record.t if step.record else None
    if memory is not None and now is not None and step.id is not None:
        memory.facts.setdefault(_PENDING, Bounded())[step.id] = now
    return None


@check(_PENDING, by=CLIENT, kind=NOTIFICATION, on=_CANCELLED)
def client_cancels_what_is_pending(step: Step, conversation: "Conversation") -> Outcome:
    id, memory = _cancelled_id(step), conversation.memory
    if id is None or memory is None:
        return None
    noted: Bounded[RequestId, Any] = memory.facts.setdefault(_PENDING, Bounded())
    if step.exchange is not None:
        noted[id] = _CANCELLED
        return True
    if noted.get(id) == _CANCELLED:
        return f"cancels id {id!r} a second time"
    now, answered = step.record.t if step.record else None, noted.get(id)
    if now is not None and answered is not None and now - answered > _CROSSING:
        return f"cancels id {id!r}, which was answered {now - answered:.0f} s before"
    return None


@check(_NOT_FOR_TASKS, kind=RESULT, on=_TASKED)
def task_is_noted(step: Step, conversation: "Conversation") -> Outcome:
    task = step.body.get("task") if isinstance(step.body, dict) else None
    if conversation.memory is not None and isinstance(task, dict) and "taskId" in task:
        tasked = conversation.memory.facts.setdefault(_NOT_FOR_TASKS, Bounded())
        tasked[OTHER[step.sender], step.id] = step.name
    return None


@check(_NOT_FOR_TASKS, kind=REQUEST, on="tasks/cancel")
def task_is_cancelled_as_a_task(step: Step, conversation: "Conversation") -> Outcome:
    return True


@check(_NOT_FOR_TASKS, kind=NOTIFICATION, on=_CANCELLED)
def task_is_not_cancelled_as_a_request(step: Step, conversation: "Conversation") -> Outcome:
    # Before its task is known a request can be cancelled in no other way.
    id, memory = _cancelled_id(step), conversation.memory
    if id is None or memory is None:
        return None
    name = memory.facts.get(_NOT_FOR_TASKS, {}).get((step.sender, id))
    if name is None:
        return None
    return f"cancels {name} (id {id!r}) with {_CANCELLED}; it is a task: use tasks/cancel"

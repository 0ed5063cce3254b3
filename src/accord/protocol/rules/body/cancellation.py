"""Cancellation: the content of the notification, and the requests that it may name."""

from typing import Final

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Exchange, Step
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, RESULT
from accord.protocol.party import Bounded
from accord.protocol.rules._rule import REPLIES, Outcome, check
from accord.protocol.rules.body.tasks import TASK_REQUESTS
from accord.protocol.rules.shapes import shapes
from accord.protocol.rules.values import as_id, as_object
from accord.protocol.violation import CLIENT, OTHER, SERVER
from accord.types._base import RequestId

_CANCELLED: Final = "notifications/cancelled"
_PENDING: Final = "cancellation.names-own-pending"
_NOT_FOR_TASKS: Final = "cancellation.not-for-tasks-2025"
_WRONG_NAMES: Final = frozenset(
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

# For this many seconds an answer and a cancellation may cross on the wire.
_CROSSING_SECONDS: Final = 5.0

shapes(
    {
        "cancellation.request-id.present": "body: {requestId: id}",
        "cancellation.request-id-required": "body: {requestId: id}",
        "cancellation.reason.optional": "reason?: string",
    },
    kind=NOTIFICATION,
    on=_CANCELLED,
)


@check("cancellation.notification.either-party", kind=NOTIFICATION)
def cancellation_has_its_name(step: Step, conversation: Conversation) -> Outcome:
    if step.name == _CANCELLED:
        return True
    if step.name in _WRONG_NAMES:
        return f"cancels with {step.name}; the method is {_CANCELLED}"
    return None


def _cancelled_id(step: Step) -> RequestId | None:
    return as_id(as_object(step.body).get("requestId"))


# -- servers without requests cancel listen requests of the client


def _client_exchange(step: Step, conversation: Conversation) -> Exchange | None:
    id, client = _cancelled_id(step), conversation.parties[CLIENT]
    return None if id is None else client.open.get(id) or client.cancelled.get(id)


@check("cancellation.server-only-for-listen", by=SERVER, kind=NOTIFICATION, on=_CANCELLED)
def server_cancels_only_listen_requests(step: Step, conversation: Conversation) -> Outcome:
    exchange = _client_exchange(step, conversation)
    if exchange is None:
        return None
    return exchange.is_lasting or (
        f"cancels {exchange.name} (id {exchange.id!r}), which is not a listen request"
    )


@check("cancellation.server-names-listen", by=SERVER, kind=NOTIFICATION, on=_CANCELLED)
def server_names_a_listen_request(step: Step, conversation: Conversation) -> Outcome:
    id, client = _cancelled_id(step), conversation.parties[CLIENT]
    exchange = _client_exchange(step, conversation)
    if exchange is not None:
        return True if exchange.is_lasting else None
    if id is None or client.used is None or id in client.used:
        # It was answered a moment ago; its method is no longer remembered.
        return None
    return f"cancels id {id!r}, which is not a request of the client"


# -- only pending requests


@check(_PENDING, by=SERVER, kind=REPLIES)
def note_answer(step: Step, conversation: Conversation) -> Outcome:
    memory, now = conversation.memory, step.record.t if step.record else None
    if memory is not None and now is not None and step.id is not None:
        memory.facts.setdefault(_PENDING, Bounded())[step.id] = now
    return None


@check(_PENDING, by=CLIENT, kind=NOTIFICATION, on=_CANCELLED)
def client_cancels_a_pending_request(step: Step, conversation: Conversation) -> Outcome:
    id, memory = _cancelled_id(step), conversation.memory
    if id is None or memory is None:
        return None
    ends: Bounded[RequestId, float | None] = memory.facts.setdefault(_PENDING, Bounded())
    if step.exchange is not None:
        # None is an end by cancellation, a number is the time of the answer.
        ends[id] = None
        return True
    if id not in ends:
        return None
    answered = ends[id]
    if answered is None:
        return f"cancels id {id!r} a second time"
    now = step.record.t if step.record else None
    if now is not None and now - answered > _CROSSING_SECONDS:
        return f"cancels id {id!r}, which was answered {now - answered:.0f} s before"
    return None


# -- tasks are cancelled with tasks/cancel


@check(_NOT_FOR_TASKS, kind=RESULT, on=TASK_REQUESTS)
def note_task(step: Step, conversation: Conversation) -> Outcome:
    task = as_object(as_object(step.body).get("task"))
    if conversation.memory is not None and "taskId" in task:
        tasks = conversation.memory.facts.setdefault(_NOT_FOR_TASKS, Bounded())
        tasks[OTHER[step.sender], step.id] = step.name
    return None


@check(_NOT_FOR_TASKS, kind=REQUEST, on="tasks/cancel")
def task_is_cancelled_as_a_task(step: Step, conversation: Conversation) -> Outcome:
    return True


@check(_NOT_FOR_TASKS, kind=NOTIFICATION, on=_CANCELLED)
def task_is_not_cancelled_as_a_request(step: Step, conversation: Conversation) -> Outcome:
    # Before its task is known a request can be cancelled in no other way.
    id, memory = _cancelled_id(step), conversation.memory
    if id is None or memory is None:
        return None
    name = memory.facts.get(_NOT_FOR_TASKS, {}).get((step.sender, id))
    if name is None:
        return None
    return f"cancels {name} (id {id!r}) with {_CANCELLED}; it is a task: use tasks/cancel"

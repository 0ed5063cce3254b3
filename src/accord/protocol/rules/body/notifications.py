"""Notifications of servers: to listen requests, and log messages."""

from typing import Final, get_args

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import META_SUBSCRIPTION, Exchange, Step, meta_of
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST
from accord.protocol.party import Memory
from accord.protocol.rules._rule import (
    Finding,
    Outcome,
    breach_at,
    check,
    combine,
    notifications,
    results,
)
from accord.protocol.rules.shapes import shapes
from accord.protocol.rules.values import META, as_object, describe, memory_of, quote
from accord.protocol.violation import CLIENT, SERVER
from accord.types import LoggingLevel
from accord.types._base import JsonObject

LISTEN: Final = "subscriptions/listen"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_UPDATED: Final = "notifications/resources/updated"
_FILTERS: Final[dict[str, str]] = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
    _UPDATED: "resourceSubscriptions",
    "notifications/tasks": "taskIds",
}
_NEVER: Final = ("notifications/progress", "notifications/message")
_ACKNOWLEDGEMENTS: Final = notifications(_ACKNOWLEDGED, by=SERVER)
_ANY_TO_LISTEN: Final = notifications((*_FILTERS, *_NEVER), by=SERVER)


def find_subscription(step: Step, conversation: Conversation) -> Exchange | None:
    """Return the open listen request that a notification names in its `_meta`."""
    id = meta_of(step.body).get(META_SUBSCRIPTION)
    if not isinstance(id, int | str) or isinstance(id, bool):
        return None
    exchange = conversation.open_exchange(CLIENT, id)
    return exchange if exchange is not None and exchange.name == LISTEN else None


def requested_notifications(body: object) -> JsonObject:
    """Return the filter of a listen request, or the one that an acknowledgement confirms."""
    return as_object(as_object(body).get("notifications"))


def learn_subscriptions(step: Step, conversation: Conversation, memory: Memory) -> None:
    """Note acknowledgements; one without an id counts when a single request waits for it."""
    if step.name not in (LISTEN, _ACKNOWLEDGED):
        return
    if step.kind == REQUEST and step.id is not None:
        memory.acknowledged.pop(step.id, None)
    elif step.kind == NOTIFICATION:
        exchange = find_subscription(step, conversation)
        waiting = [
            each
            for each in conversation.client.open.values()
            if each.name == LISTEN and each.id not in memory.acknowledged
        ]
        if exchange is None and len(waiting) == 1:
            exchange = waiting[0]
        if exchange is not None:
            memory.acknowledged[exchange.id] = None


# -- notifications


@check("meta.listen.subscription-id", notifications(_FILTERS, by=SERVER), at=META_SUBSCRIPTION)
def notification_names_its_subscription(step: Step, conversation: Conversation) -> Outcome:
    meta = meta_of(step.body)
    if META_SUBSCRIPTION not in meta:
        return f"sends {step.name} without {META_SUBSCRIPTION}"
    id, client = meta[META_SUBSCRIPTION], conversation.client
    if isinstance(id, bool) or not isinstance(id, int | str):
        return f"sends {META_SUBSCRIPTION} as {describe(id)}, expected the id of a request"
    exchange = client.open.get(id) or client.cancelled.get(id)
    if exchange is not None and exchange.is_lasting:
        return True
    if exchange is None and (client.used is None or id in client.used):
        # It was answered a moment ago; its method is no longer remembered.
        return None
    return f"sends {step.name} for the subscription {id!r}, which is not a listen request"


@check("subscriptions.only-requested-kinds", _ANY_TO_LISTEN, at="/method")
def only_requested_notifications_are_sent(step: Step, conversation: Conversation) -> Outcome:
    listen = find_subscription(step, conversation)
    if listen is None:
        return None
    requested = requested_notifications(listen.params)
    # Streams of tasks are judged by tasks-ext.notify.no-progress-or-logs.
    if step.name in _NEVER and requested.get("taskIds"):
        return None
    name = _FILTERS.get(step.name, "")
    return bool(requested.get(name)) or (
        f"sends {step.name} to a subscription that did not ask for it"
    )


@check("subscriptions.updated-only-for-watched", notifications(_UPDATED, by=SERVER), at="uri")
def only_watched_resources_are_reported(step: Step, conversation: Conversation) -> Outcome:
    listen = find_subscription(step, conversation)
    params = listen.params if listen else None
    watched = requested_notifications(params).get("resourceSubscriptions")
    uri = as_object(step.body).get("uri")
    if not isinstance(watched, list) or not watched or not isinstance(uri, str):
        return None
    return uri in watched or (
        f"reports an update of {quote(uri)}, which the subscription does not watch"
    )


# -- acknowledgements


@check("subscriptions.ack-carries-id", _ACKNOWLEDGEMENTS, at=META_SUBSCRIPTION)
def acknowledgement_names_its_subscription(step: Step, conversation: Conversation) -> Outcome:
    meta = meta_of(step.body)
    if META_SUBSCRIPTION not in meta:
        return "acknowledges a subscription without its subscriptionId"
    if find_subscription(step, conversation) is not None:
        return True
    return f"acknowledges {quote(meta[META_SUBSCRIPTION])}, which is not an open listen request"


@check("subscriptions.ack-first", _ACKNOWLEDGEMENTS)
@check("subscriptions.ack-first", results(LISTEN, by=SERVER))
def acknowledgement_comes_first(step: Step, conversation: Conversation) -> Outcome:
    if step.kind == NOTIFICATION:
        return None if find_subscription(step, conversation) is None else True
    if step.id in memory_of(conversation).acknowledged:
        return True
    return f"ends the subscription {quote(step.id)}, which it never acknowledged"


@check("subscriptions.nothing-before-ack", _ANY_TO_LISTEN, at="/method")
def nothing_precedes_the_acknowledgement(step: Step, conversation: Conversation) -> Outcome:
    listen = find_subscription(step, conversation)
    if listen is None:
        return None
    if listen.id in memory_of(conversation).acknowledged:
        return True
    return f"sends {step.name} to the subscription {quote(listen.id)} before acknowledging it"


@check("subscriptions.ack-is-subset", _ACKNOWLEDGEMENTS)
def only_requested_notifications_are_acknowledged(
    step: Step, conversation: Conversation
) -> Outcome:
    listen = find_subscription(step, conversation)
    if listen is None:
        return None
    if not isinstance(as_object(step.body).get("notifications"), dict):
        return breach_at("acknowledges a subscription without notifications, an object", "")
    requested = requested_notifications(listen.params)
    confirmed = requested_notifications(step.body)
    findings = (_was_requested(name, confirmed[name], requested.get(name)) for name in confirmed)
    return combine([True, *findings])


def _was_requested(name: str, confirmed: object, requested: object) -> Finding:
    if isinstance(confirmed, list):
        known = requested if isinstance(requested, list) else []
        more = [item for item in confirmed if item not in known]
        if not more:
            return True
        why = f"acknowledges {name} {quote(more[0])}, which was not requested"
        return breach_at(why, "notifications", name, f"[{confirmed.index(more[0])}]")
    return (
        not confirmed
        or bool(requested)
        or breach_at(f"acknowledges {name}, which was not requested", "notifications", name)
    )


@check("subscriptions.graceful-end-carries-id", results(LISTEN, by=SERVER), at=META_SUBSCRIPTION)
def last_result_names_its_subscription(step: Step, conversation: Conversation) -> Outcome:
    if not isinstance(step.body, dict):
        return None
    id = meta_of(step.body).get(META_SUBSCRIPTION)
    if id is None:
        return "ends a subscription without its subscriptionId"
    if id == step.id and not isinstance(id, bool | float):
        return True
    return f"ends the subscription {quote(step.id)} with the subscriptionId {quote(id)}"


# -- log messages: their content, their level, and the requests that asked for them

LOG_LEVEL: Final = f"{META}logLevel"
LOGS_REQUESTED: Final = "logging.own-stream-only"
"""The name of the fact that a request has asked for log messages."""

_LOG: Final = "notifications/message"
_LOGS: Final = notifications(_LOG, by=SERVER)
_LEVELS: Final[tuple[str, ...]] = get_args(LoggingLevel)
_RANKS: Final[dict[str, int]] = {level: rank for rank, level in enumerate(_LEVELS)}

shapes(
    _LOGS,
    {
        "logging.levels.rfc5424": f"level?: {'|'.join(_LEVELS)}",
        "logging.message.level-and-data": "body: {level: any, data: any}",
        "logging.message.logger-optional": "logger?: string",
    },
)


def _rank(level: object) -> int | None:
    return _RANKS.get(level) if isinstance(level, str) else None


@check("logging.message.method", notifications(by=SERVER), at="/method")
def log_message_has_its_name(step: Step, conversation: Conversation) -> Outcome:
    if step.name == _LOG:
        return True
    params = as_object(step.body)
    is_log = "data" in params and _rank(params.get("level")) is not None
    if not is_log or step.name in step.revision.notifications[SERVER]:
        return None
    return f"sends a log message with {quote(step.name)}; the method is {_LOG}"


# -- sessions: one level for all messages


@check("logging.session-wide", _LOGS, at="level")
def message_is_not_below_the_level_set(step: Step, conversation: Conversation) -> Outcome:
    rank = _rank(as_object(step.body).get("level"))
    least = _rank(memory_of(conversation).log_level)
    if rank is None or least is None:
        return None
    # Until a new level is confirmed, either may be in force.
    asked = [
        _rank(as_object(exchange.params).get("level"))
        for exchange in conversation.client.open.values()
        if exchange.name == "logging/setLevel"
    ]
    if rank >= min((least, *(each for each in asked if each is not None))):
        return True
    level = as_object(step.body)["level"]
    return f"logs at {level}, below the level {_LEVELS[least]} that was set"


# -- requests: each with its own level


@check("logging.only-with-level", _LOGS, at="/method")
def log_message_was_requested(step: Step, conversation: Conversation) -> Outcome:
    if META_SUBSCRIPTION in meta_of(step.body):
        return None
    if _is_requested(conversation):
        return True
    if LOGS_REQUESTED in memory_of(conversation).facts:
        return None
    return "sends a log message, but no request has asked for a level"


@check("logging.own-stream-only", _LOGS, at="/method")
def log_message_precedes_the_answer(step: Step, conversation: Conversation) -> Outcome:
    if META_SUBSCRIPTION in meta_of(step.body):
        return "sends a log message on a listen stream"
    if _is_requested(conversation):
        return True
    if LOGS_REQUESTED not in memory_of(conversation).facts:
        return None
    return "sends a log message after the answer to every request that asked for a level"


def _is_requested(conversation: Conversation) -> bool:
    # The server may not have read a cancellation yet.
    client = conversation.client
    return any(
        not exchange.is_lasting and LOG_LEVEL in meta_of(exchange.params)
        for exchange in (*client.open.values(), *client.cancelled.values())
    )

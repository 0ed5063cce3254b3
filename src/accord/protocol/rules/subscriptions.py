"""Deep rules of listen requests: what a server sends to them, and in which order."""

from typing import TYPE_CHECKING, Any, Final

from accord.protocol.exchange import Step, meta_of
from accord.protocol.jsonrpc import NOTIFICATION, RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.items import Finding, each, object_of, shown
from accord.protocol.rules.listening import (
    ACKNOWLEDGED,
    LISTEN,
    SUBSCRIPTION_ID,
    filter_of,
    subscription_of,
)
from accord.protocol.violation import SERVER

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_UPDATED: Final = "notifications/resources/updated"
_KINDS: Final[dict[str, str]] = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
    _UPDATED: "resourceSubscriptions",
    "notifications/tasks": "taskIds",
}
_NEVER: Final = ("notifications/progress", "notifications/message")


@check("subscriptions.only-requested-kinds", by=SERVER, kind=NOTIFICATION, on=(*_KINDS, *_NEVER))
def only_what_was_asked_for_is_sent(step: Step, conversation: "Conversation") -> Outcome:
    listen = subscription_of(step, conversation)
    if listen is None:
        return None
    wanted = filter_of(listen.params)
    # Of streams that follow tasks, tasks-ext.notify.no-progress-or-logs says the same.
    if step.name in _NEVER and wanted.get("taskIds"):
        return None
    kind = _KINDS.get(step.name, "")
    return bool(wanted.get(kind)) or f"sends {step.name} to a subscription that did not ask for it"


@check("subscriptions.updated-only-for-watched", by=SERVER, kind=NOTIFICATION, on=_UPDATED)
def only_watched_resources_are_told_of(step: Step, conversation: "Conversation") -> Outcome:
    listen = subscription_of(step, conversation)
    watched = filter_of(listen.params).get("resourceSubscriptions") if listen else None
    uri = object_of(step.body).get("uri")
    if not isinstance(watched, list) or not watched or not isinstance(uri, str):
        return None
    return uri in watched or f"tells of {shown(uri)}, which the subscription does not watch"


@check("subscriptions.ack-carries-id", by=SERVER, kind=NOTIFICATION, on=ACKNOWLEDGED)
def acknowledgement_names_its_subscription(step: Step, conversation: "Conversation") -> Outcome:
    meta = meta_of(step.body)
    if SUBSCRIPTION_ID not in meta:
        return "acknowledges a subscription without its subscriptionId"
    if subscription_of(step, conversation) is not None:
        return True
    return f"acknowledges {shown(meta[SUBSCRIPTION_ID])}, which is no open listen request"


@check("subscriptions.ack-first", by=SERVER, kind=NOTIFICATION, on=ACKNOWLEDGED)
@check("subscriptions.ack-first", by=SERVER, kind=RESULT, on=LISTEN)
def acknowledgement_comes_first(step: Step, conversation: "Conversation") -> Outcome:
    if step.kind == NOTIFICATION:
        return None if subscription_of(step, conversation) is None else True
    if conversation.memory is None or step.id is None:
        return None
    if step.id in conversation.memory.acknowledged:
        return True
    return f"ends the subscription {shown(step.id)}, which it never acknowledged"


@check("subscriptions.nothing-before-ack", by=SERVER, kind=NOTIFICATION, on=(*_KINDS, *_NEVER))
def nothing_precedes_the_acknowledgement(step: Step, conversation: "Conversation") -> Outcome:
    listen = subscription_of(step, conversation)
    if listen is None or conversation.memory is None:
        return None
    if listen.id in conversation.memory.acknowledged:
        return True
    return f"sends {step.name} to the subscription {shown(listen.id)} before acknowledging it"


@check("subscriptions.ack-is-subset", by=SERVER, kind=NOTIFICATION, on=ACKNOWLEDGED)
def nothing_else_is_acknowledged(step: Step, conversation: "Conversation") -> Outcome:
    listen = subscription_of(step, conversation)
    if listen is None:
        return None
    wanted = filter_of(listen.params)
    given = filter_of(step.body)
    return each([True, *(_is_wanted(kind, given[kind], wanted.get(kind)) for kind in given)])


def _is_wanted(kind: str, given: Any, wanted: Any) -> Finding:
    if isinstance(given, list):
        asked = wanted if isinstance(wanted, list) else []
        strange = [item for item in given if item not in asked]
        return f"acknowledges {kind} {shown(strange[0])}, not asked for" if strange else True
    return not given or bool(wanted) or f"acknowledges {kind}, which was not asked for"


@check("subscriptions.graceful-end-carries-id", by=SERVER, kind=RESULT, on=LISTEN)
def last_result_names_its_subscription(step: Step, conversation: "Conversation") -> Outcome:
    if not isinstance(step.body, dict):
        return None
    named = meta_of(step.body).get(SUBSCRIPTION_ID)
    if named is None:
        return "ends a subscription without its subscriptionId"
    if named == step.id and not isinstance(named, bool | float):
        return True
    return f"ends the subscription {shown(step.id)} as {shown(named)}"

"""Servers with faulty subscriptions: area subscriptions, and what listens to tasks."""

import json
from collections.abc import Callable
from typing import Any

from check.faults import faults, hook_maker, named
from check.mutants.between_http import Asked, web_mutant
from check.mutants.foundation import (
    Between,
    Message,
    Sent,
    few,
    interloper,
    mutant,
    params_of,
    unbreakable,
)
from check.mutants.tasks import has_mutants
from check.mutants.tasks_extension import extended

NEW = "2026-07-28"
LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
UPDATED = "notifications/resources/updated"
TOOLS = "notifications/tools/list_changed"
Spoil = Callable[[Message], Sent]


def notice(id: str, method: str, **settings: Any) -> Callable[[Spoil], Spoil]:
    """Register a server that spoils a notification."""

    def register(spoil: Spoil) -> Spoil:
        def change(message: Message, request: Message) -> Sent:
            return spoil(message) if message.get("method") == method else message

        change.__name__ = spoil.__name__
        mutant(id, revision=NEW, is_thorough=has_mutants(id, 1), **settings)(change)
        return spoil

    return register


def meta_of(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = params_of(message).setdefault("_meta", {})
    return found


# -- the acknowledgement

FIRST, CARRIES = "subscriptions.ack-first", "subscriptions.ack-carries-id"
BEFORE = "subscriptions.nothing-before-ack"


@hook_maker
def ending(wire: Between, *, is_early: bool, result: Callable[[Any], Message]) -> None:
    """Let the server end the first subscription, before or after it is acknowledged."""
    ended: list[Any] = []

    def from_server(message: Message, request: Message) -> Sent:
        named = (params_of(message).get("_meta") or {}).get(SUBSCRIPTION)
        if ended and (message.get("id") in ended or named in ended):
            return None
        if message.get("method") == ACKNOWLEDGED and not ended:
            ended.append(named)
            last = {"jsonrpc": "2.0", "id": meta_of(message)[SUBSCRIPTION]}
            last |= result(last["id"])
            return [last] if is_early else [message, last]
        return message

    wire.from_server = from_server


INFO = {"io.modelcontextprotocol/serverInfo": {"name": "everything", "version": "1.0.0"}}


def closing(named: Any) -> Message:
    return {"result": {"resultType": "complete", "_meta": {**INFO, SUBSCRIPTION: named}}}


@interloper(FIRST, revision=NEW, is_thorough=has_mutants(FIRST, 1))
def ends_before_it_acknowledges(wire: Between) -> None:
    ending(is_early=True, result=closing)(wire)


@interloper(FIRST, revision=NEW, is_thorough=has_mutants(FIRST, 1))
def never_acknowledges_an_empty_filter(wire: Between) -> None:
    ended: list[Any] = []

    def from_server(message: Message, request: Message) -> Sent:
        if message.get("id") in ended:
            return None
        if message.get("method") == ACKNOWLEDGED and not params_of(message)["notifications"]:
            ended.append(meta_of(message)[SUBSCRIPTION])
            return {"jsonrpc": "2.0", "id": ended[-1]} | closing(ended[-1])
        return message

    wire.from_server = from_server


@notice(CARRIES, ACKNOWLEDGED)
def acknowledges_without_an_id(message: Message) -> Sent:
    del meta_of(message)[SUBSCRIPTION]
    return message


@notice(CARRIES, ACKNOWLEDGED)
def acknowledges_under_another_key(message: Message) -> Sent:
    meta = meta_of(message)
    meta["subscriptionId"] = meta.pop(SUBSCRIPTION)
    return message


@notice(CARRIES, ACKNOWLEDGED)
def acknowledges_another_id(message: Message) -> Sent:
    meta_of(message)[SUBSCRIPTION] = "another"
    return message


@notice(CARRIES, ACKNOWLEDGED)
def turns_ids_into_texts(message: Message) -> Sent:
    meta = meta_of(message)
    meta[SUBSCRIPTION] = str(meta[SUBSCRIPTION])
    return message


SUBSET = "subscriptions.ack-is-subset"


@notice(SUBSET, ACKNOWLEDGED)
def acknowledges_every_list(message: Message) -> Sent:
    params_of(message)["notifications"]["toolsListChanged"] = True
    return message


@notice(SUBSET, ACKNOWLEDGED)
def acknowledges_other_resources(message: Message) -> Sent:
    params_of(message)["notifications"]["resourceSubscriptions"] = ["desk://nowhere"]
    return message


@notice(SUBSET, ACKNOWLEDGED)
def acknowledges_tasks(message: Message) -> Sent:
    params_of(message)["notifications"]["taskIds"] = ["one"]
    return message


def told(message: Message, method: str, **params: Any) -> Message:
    """Return a notification for the subscription of an acknowledgement."""
    meta = {SUBSCRIPTION: meta_of(message)[SUBSCRIPTION]}
    return {"jsonrpc": "2.0", "method": method, "params": {"_meta": meta, **params}}


def is_for_tools(message: Message) -> bool:
    return bool(params_of(message)["notifications"].get("toolsListChanged"))


@notice(BEFORE, ACKNOWLEDGED)
def tells_of_tools_before_it_acknowledges(message: Message) -> Sent:
    return [told(message, TOOLS), message] if is_for_tools(message) else message


@notice(BEFORE, ACKNOWLEDGED)
def tells_of_resources_before_it_acknowledges(message: Message) -> Sent:
    watched = params_of(message)["notifications"].get("resourceSubscriptions")
    return [told(message, UPDATED, uri=watched[0]), message] if watched else message


@interloper(BEFORE, revision=NEW, is_thorough=has_mutants(BEFORE, 1))
def acknowledges_late(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        if message.get("method") == ACKNOWLEDGED:
            wire.later(0.05, lambda: wire.to_client(message))
            return None
        return message

    wire.from_server = from_server


@notice("subscriptions.ack-is-subset", ACKNOWLEDGED)
def does_not_say_what_it_acknowledges(message: Message) -> Sent:
    params_of(message).pop("notifications")
    return message


@interloper("subscriptions.tools-list-changed", revision=NEW)
def tells_the_first_subscription_alone(wire: Between) -> None:
    told_of: list[Any] = []

    def from_server(message: Message, request: Message) -> Sent:
        if message.get("method") == ACKNOWLEDGED and is_for_tools(message):
            told_of.append(meta_of(message)[SUBSCRIPTION])
        is_other = message.get("method") == TOOLS and meta_of(message)[SUBSCRIPTION] != told_of[0]
        return None if is_other else message

    wire.from_server = from_server


# -- notifications

KINDS = "subscriptions.only-requested-kinds"


@notice(KINDS, ACKNOWLEDGED)
def tells_everybody_of_tools(message: Message) -> Sent:
    return [message, told(message, TOOLS)]


@notice(KINDS, ACKNOWLEDGED)
def tells_everybody_of_resources(message: Message) -> Sent:
    if params_of(message)["notifications"].get("resourceSubscriptions"):
        return message
    return [message, told(message, UPDATED, uri="desk://board")]


@notice(
    KINDS, ACKNOWLEDGED, also={"logging.own-stream-only": "the stream belongs to a subscription"}
)
def logs_to_subscriptions(message: Message) -> Sent:
    return [message, told(message, "notifications/message", level="info", data="listening")]


WATCHED = "subscriptions.updated-only-for-watched"


@notice(WATCHED, UPDATED)
def tells_of_another_resource(message: Message) -> Sent:
    params_of(message)["uri"] = "desk://nowhere"
    return message


@notice(WATCHED, ACKNOWLEDGED)
def tells_of_all_resources_at_first(message: Message) -> Sent:
    watched = params_of(message)["notifications"].get("resourceSubscriptions")
    return [message, told(message, UPDATED, uri="desk://nowhere")] if watched else message


@notice(WATCHED, UPDATED)
def tells_of_the_folder_above(message: Message) -> Sent:
    params_of(message)["uri"] = "desk://"
    return message


NAMED = "meta.listen.subscription-id"


@notice(NAMED, UPDATED)
def does_not_name_the_subscription(message: Message) -> Sent:
    del meta_of(message)[SUBSCRIPTION]
    return message


@notice(NAMED, TOOLS)
def names_no_subscription_of_lists(message: Message) -> Sent:
    params_of(message).pop("_meta")
    return message


@notice(NAMED, UPDATED)
def names_a_subscription_by_its_text(message: Message) -> Sent:
    meta_of(message)[SUBSCRIPTION] = f"{meta_of(message)[SUBSCRIPTION]}"
    return message


for _kind in ("tools", "prompts", "resources"):

    def _keeps_quiet(wire: Between, kind: str = _kind) -> None:
        """Change a list when a tool is called on this connection, without a word."""
        method = f"notifications/{kind}/list_changed"
        called: list[Message] = []

        def from_server(message: Message, request: Message) -> Sent:
            if message.get("method") == method:
                return None
            if params_of(request).get("name") == "view_changes":
                called.append(request)
            result = message.get("result") or {}
            if request.get("method") == f"{kind}/list" and called:
                result[kind] = result[kind][:-1]
            return message

        wire.from_server = from_server

    _keeps_quiet.__name__ = f"says_nothing_of_changed_{_kind}"
    # Lists that differ between connections break other rules.
    only = ("subscriptions",)
    interloper(f"subscriptions.{_kind}-list-changed", revision=NEW, only=only)(_keeps_quiet)

GOVERNED = "resources.subscribe-capability-governs-listen"


def undeclared(name: str, spoil: Callable[[dict[str, Any]], Any]) -> None:
    """Register a server that lets resources be watched, and does not declare it."""

    def change(message: Message, request: Message) -> Message:
        if request.get("method") == "server/discover" and "result" in message:
            spoil(message["result"]["capabilities"]["resources"])
        return message

    mutant(GOVERNED, revision=NEW)(named(name, change))


undeclared("does_not_declare_that_it_can_be_watched", lambda declared: declared.pop("subscribe"))
undeclared("declares_that_it_cannot_be_watched", lambda declared: declared.update(subscribe=False))
undeclared(
    "declares_watching_by_another_name",
    lambda declared: declared.update(subscriptions=declared.pop("subscribe")),
)

few("the first message is the acknowledgement, or it is not", FIRST)
few(
    "a change is announced, or it is not",
    *(f"subscriptions.{each}-list-changed" for each in ("tools", "prompts", "resources")),
)


# -- the end

GRACEFUL = "subscriptions.graceful-end-result"
ENDS = "subscriptions.graceful-end-carries-id"


@interloper(GRACEFUL, revision=NEW, is_thorough=has_mutants(GRACEFUL, 1))
def ends_subscriptions_with_an_error(wire: Between) -> None:
    fault = {"error": {"code": -32603, "message": "going away"}}
    ending(is_early=False, result=lambda named: fault)(wire)


@interloper(GRACEFUL, revision=NEW, is_thorough=has_mutants(GRACEFUL, 1))
def loses_a_subscription_after_a_while(wire: Between) -> None:
    ended: list[Any] = []

    def end() -> None:
        fault = {"code": -32603, "message": "too long"}
        wire.to_client({"jsonrpc": "2.0", "id": ended[0], "error": fault})

    def from_server(message: Message, request: Message) -> Sent:
        named = (params_of(message).get("_meta") or {}).get(SUBSCRIPTION)
        if message.get("method") == ACKNOWLEDGED and not ended:
            ended.append(named)
            wire.later(0.03, end)
            return message
        return None if ended and (message.get("id") in ended or named in ended) else message

    wire.from_server = from_server


@web_mutant(GRACEFUL, revision=NEW, only=["subscriptions"], of="before")
def cuts_the_stream_of_a_subscription(asked: Asked) -> tuple[int, dict[str, str], bytes] | None:
    if asked.method != LISTEN:
        return None
    id = asked.message["id"]
    params = {"_meta": {SUBSCRIPTION: id}, "notifications": {}}
    said = {"jsonrpc": "2.0", "method": ACKNOWLEDGED, "params": params}
    body = f"data: {json.dumps(said)}\n\n".encode()
    return 200, {"content-type": "text/event-stream"}, body


@interloper(ENDS, revision=NEW, is_thorough=has_mutants(ENDS, 1))
def ends_without_the_id(wire: Between) -> None:
    without_id = {"result": {"resultType": "complete", "_meta": INFO}}
    ending(is_early=False, result=lambda named: without_id)(wire)


faults(
    interloper(ENDS, revision=NEW, is_thorough=has_mutants(ENDS, 1)),
    ends_with_another_id=ending(is_early=False, result=lambda named: closing("another")),
    ends_with_the_text_of_the_id=ending(is_early=False, result=lambda named: closing(str(named))),
)


unbreakable(
    "one page asks for a notification, another for a result instead",
    "subscriptions.teardown-cancelled-notification",
)


# -- tasks

STATE, QUIET = "tasks-ext.notify.full-state", "tasks-ext.notify.no-progress-or-logs"


def of_tasks(id: str, name: str, spoil: Callable[[dict[str, Any]], None]) -> None:
    """Register a server that spoils what it tells of tasks."""

    def hook(wire: Between) -> None:
        def from_server(message: Message, request: Message) -> Sent:
            if message.get("method") == "notifications/tasks":
                spoil(params_of(message))
            return message

        wire.from_server = from_server

    extended(id)(named(name, hook))


def _without_outcome(task: dict[str, Any]) -> None:
    task.pop("result", None)


of_tasks(STATE, "tells_only_the_status", lambda task: task.pop("ttlMs"))
of_tasks(STATE, "tells_no_results", _without_outcome)
of_tasks(STATE, "tells_no_times", lambda task: task.pop("lastUpdatedAt"))


ALSO = {
    "notifications/message": {"logging.own-stream-only": "the stream belongs to a subscription"},
    "notifications/progress": {"progress.notification.active-only": "no request asked for it"},
}
few("there are two kinds of such notifications", QUIET)


def beside_tasks(name: str, method: str, params: dict[str, Any]) -> None:
    """Register a server that tells something else beside the changes of tasks."""

    def hook(wire: Between) -> None:
        def from_server(message: Message, request: Message) -> Sent:
            if message.get("method") == "notifications/tasks":
                meta = {"_meta": params_of(message)["_meta"]}
                return [message, {"jsonrpc": "2.0", "method": method, "params": meta | params}]
            return message

        wire.from_server = from_server

    extended(QUIET, also=ALSO[method])(named(name, hook))


LOG = {"level": "info", "data": "working"}
beside_tasks("logs_beside_tasks", "notifications/message", LOG)
beside_tasks("reports_beside_tasks", "notifications/progress", {"progressToken": 1, "progress": 1})

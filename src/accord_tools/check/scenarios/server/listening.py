"""Subscriptions without a handshake: acknowledgements, filters, changes, and their end."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from accord.protocol.exchange import META_SUBSCRIPTION, meta_of
from accord.protocol.party import META_LOG_LEVEL
from accord.types import JsonObject
from accord_tools.check.probing.http_exchange import exchange
from accord_tools.check.probing.messages import Reply, is_same_id, objects_in, params_of
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import MessageTimeout, RawConnection
from accord_tools.check.probing.server_facts import list_all
from accord_tools.check.probing.task_calls import (
    NO_EXTENSION,
    call_for_task,
    follow_task,
    has_extension,
    task_id,
    with_tasks,
)
from accord_tools.check.scenarios._scenario import (
    LISTS,
    OWN,
    bare_scenario,
    call_all,
    complete_request,
    is_alive,
    open_unjudged,
    scenario,
)

_LISTEN: Final = "subscriptions/listen"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_CANCELLED: Final = "notifications/cancelled"
_CHANGED: Final = {name: f"subscriptions.{name}-list-changed" for name in LISTS}
_ALL_LISTS: Final[JsonObject] = {f"{name}ListChanged": True for name in LISTS}
# Judged by the monitor, in the messages of these scenarios.
_OF_SUBSCRIPTIONS: Final = (
    "subscriptions.ack-first",
    "subscriptions.ack-carries-id",
    "subscriptions.ack-is-subset",
    "subscriptions.nothing-before-ack",
    "subscriptions.only-requested-kinds",
    "subscriptions.updated-only-for-watched",
    "subscriptions.graceful-end-carries-id",
    "meta.listen.subscription-id",
)
_GRACEFUL: Final = "subscriptions.graceful-end-result"
_TEARDOWN: Final = "subscriptions.teardown-cancelled-notification"
_SILENT: Final = "stdio.cancel.no-further-messages"
_HEARD: Final = (*_CHANGED.values(), *_OF_SUBSCRIPTIONS, _GRACEFUL, _TEARDOWN)
_GOVERNED: Final = "resources.subscribe-capability-governs-listen"
_NO_END: Final = "the server ended no subscription by itself"
# How many resources are watched.
_WATCHED: Final = 5


def _filters(probe: Probe) -> list[JsonObject]:
    """Return what to listen to: all changes, one kind or resource alone, nothing, all again."""
    uris = [each["uri"] for each in probe.facts.resources if isinstance(each.get("uri"), str)]
    watched = {"resourceSubscriptions": uris[:_WATCHED]} if uris else {}
    few = [{"resourceSubscriptions": uris[-1:]}] if uris else []
    every = {**_ALL_LISTS, **watched}
    # A server may know only its first subscription, or only its last one.
    return [every, {"promptsListChanged": True}, *few, {}, every]


@scenario(
    *(*_HEARD, _SILENT, _GOVERNED),
    opens=OWN,
    era="stateless",
    sends=(_LISTEN, "tools/call", *LISTS.values()),
)
async def listens_to_changes(probe: Probe, connection: RawConnection) -> None:
    opened: list[Any] = []
    for each in _filters(probe):
        since = len(connection.received)
        id = await connection.start(_LISTEN, {"notifications": each})
        try:
            is_acknowledged = await _is_acknowledged(connection, id, since)
        except MessageTimeout:
            await _judge_silence(probe, connection, id)
            break
        if not is_acknowledged:
            reply = _answer(connection, id)
            why = f"the server refuses to be listened to: {reply}"
            probe.skip((*_HEARD, _SILENT, _GOVERNED), why)
            break
        opened.append(id)
        _judge_watching(probe, connection, each, since)
    probe.skip(_GOVERNED, "the server declares resources.subscribe, or has no resources")
    if not opened:
        return
    before = {name: await _names(connection, name) for name in _announced_lists(probe)}
    since = len(connection.received)
    # Log messages belong to the calls that ask for them, not to a subscription.
    await call_all(probe, connection, {META_LOG_LEVEL: "debug"})
    await connection.collect(probe.target.settling)
    for name, entries in before.items():
        if _answer(connection, opened[0]) is None:
            await _judge_changes(probe, connection, name, entries, since)
            _judge_spread(probe, connection, name, opened, since)
        probe.skip(_CHANGED[name], "the server ended the subscription")
    for name in set(LISTS).difference(before):
        reason = f"the server did not declare {name}.listChanged"
        probe.not_applicable(_CHANGED[name], reason)
    _judge_end(probe, connection, opened)
    await _cancel(probe, connection, opened)
    probe.skip((_GRACEFUL, _TEARDOWN, "subscriptions.graceful-end-carries-id"), _NO_END)


async def _judge_silence(probe: Probe, connection: RawConnection, id: object) -> None:
    """Judge a subscription without an acknowledgement, on a connection that is served."""
    await call_all(probe, connection)
    await connection.collect(probe.target.settling)
    if await is_alive(probe, connection, "a subscription"):
        why = f"serves other requests, and does not acknowledge the subscription {id!r}"
        probe.fail("subscriptions.ack-first", why)


def _judge_watching(probe: Probe, connection: RawConnection, asked: JsonObject, since: int) -> None:
    """Judge whether a server without the capability agrees to tell of updates."""
    name = "resourceSubscriptions"
    if name not in asked or probe.facts.declares("resources.subscribe"):
        return
    acknowledged = connection.messages(_ACKNOWLEDGED, since)[0]
    agreed = params_of(acknowledged).get("notifications")
    connection.point_at(acknowledged)
    why = f"acknowledges {name} without declaring resources.subscribe"
    probe.holds(_GOVERNED, not (isinstance(agreed, dict) and agreed.get(name)), why)


def _announced_lists(probe: Probe) -> list[str]:
    return [name for name in LISTS if probe.facts.declares(f"{name}.listChanged")]


async def _is_acknowledged(connection: RawConnection, id: object, since: int) -> bool:
    """Return whether a subscription is acknowledged before it is answered."""

    def is_first(message: JsonObject) -> bool:
        is_answer = "method" not in message and is_same_id(message.get("id"), id)
        return is_answer or message.get("method") == _ACKNOWLEDGED

    first = await connection.until(is_first, "an acknowledgement", since=since)
    return "method" in first


def _answer(connection: RawConnection, id: object) -> Reply | None:
    for message in connection.received:
        if "method" not in message and is_same_id(message.get("id"), id):
            return Reply(message)
    return None


async def _names(connection: RawConnection, name: str) -> list[JsonObject]:
    return await list_all(connection, LISTS[name], name)


def _is_told(connection: RawConnection, name: str, since: int) -> bool:
    return bool(connection.messages(f"notifications/{name}/list_changed", since))


async def _judge_changes(
    probe: Probe, connection: RawConnection, name: str, before: Sequence[JsonObject], since: int
) -> None:
    id = _CHANGED[name]
    if _is_told(connection, name, since):
        probe.passes(id)
        return
    after = await _names(connection, name)
    # Another order is tools.list.deterministic-order.
    if sorted(map(msgspec.json.encode, after)) != sorted(map(msgspec.json.encode, before)):
        await connection.collect(probe.target.settling)
        why = f"sends no notification to a subscription although its {name} changed"
        probe.holds(id, _is_told(connection, name, since), why)
    probe.skip(id, f"the list of {name} did not change during the check")


def _judge_spread(
    probe: Probe, connection: RawConnection, name: str, opened: Sequence[Any], since: int
) -> None:
    """Judge whether a change was announced to all subscriptions that may expect it."""
    found = connection.messages(f"notifications/{name}/list_changed", since)
    named = [_subscription_of(each) for each in found]
    if not all(any(is_same_id(id, each) for id in opened) for each in named):
        return  # the monitor reports a notification that names no subscription
    kind = f"{name}ListChanged"
    expecting = [
        _subscription_of(each)
        for each in connection.messages(_ACKNOWLEDGED)
        for agreed in objects_in(params_of(each).get("notifications"))
        if agreed.get(kind) is True
    ]
    due = [
        id
        for id, asked in zip(opened, _filters(probe), strict=False)
        if kind in asked and id in expecting and _answer(connection, id) is None
    ]
    left_out = [id for id in due if not any(is_same_id(id, each) for each in named)]
    if named and len(due) > 1:
        connection.point_at(*found)
        why = f"announces a change of {name} to {len(due) - len(left_out)} of {len(due)} "
        probe.holds(_CHANGED[name], not left_out, f"{why}subscriptions that expect it")


def _subscription_of(message: JsonObject) -> object:
    return meta_of(params_of(message)).get(META_SUBSCRIPTION)


def _judge_end(probe: Probe, connection: RawConnection, opened: Sequence[Any]) -> None:
    """Judge how the server ended subscriptions by itself, if it did."""
    for id in opened:
        reply = _answer(connection, id)
        if reply is not None:
            connection.point_at(reply.message)
            why = f"ends a subscription with {reply}, expected a complete result"
            probe.holds(_GRACEFUL, _is_complete(reply), why)
            # One page asks for a result, the other for a notification: either will do.
            probe.passes(_TEARDOWN)
    named = [params_of(each).get("requestId") for each in connection.messages(_CANCELLED)]
    if any(is_same_id(id, each) for id in opened for each in named):
        probe.passes(_TEARDOWN)


def _is_complete(reply: Reply) -> bool:
    return not reply.is_error and reply.result.get("resultType") in (None, "complete")


async def _cancel(probe: Probe, connection: RawConnection, opened: Sequence[Any]) -> None:
    """Cancel all subscriptions: nothing more may come for them."""
    if connection.log.transport != "stdio":
        probe.not_applicable(_SILENT, "the server is not reached over stdio")
        return
    for id in opened:
        if _answer(connection, id) is None:
            await connection.notify(_CANCELLED, {"requestId": id})
    await connection.collect(probe.target.settling)
    since = len(connection.received)
    await call_all(probe, connection)
    await connection.collect(probe.target.settling)
    late = [each for each in connection.received[since:] if _subscription(each, opened)]
    if late:
        connection.point_at(late[0])
    method = late[0].get("method", "an answer") if late else ""
    why = f"sends {method} for a subscription that was cancelled"
    probe.holds(_SILENT, not late, why)


def _subscription(message: Mapping[str, Any], opened: Sequence[Any]) -> bool:
    """Return whether a message belongs to one of these subscriptions."""
    if "method" not in message:
        return any(is_same_id(message.get("id"), id) for id in opened)
    named = meta_of(message.get("params")).get(META_SUBSCRIPTION)
    return any(is_same_id(named, id) for id in opened)


# -- tasks of the extension

_OF_TASKS: Final = ("tasks-ext.notify.full-state", "tasks-ext.notify.no-progress-or-logs")


@scenario(*_OF_TASKS, _GRACEFUL, opens=OWN, era="stateless", needs="tools", sends=(_LISTEN,))
async def listens_to_tasks(probe: Probe, connection: RawConnection) -> None:
    if not has_extension(probe.facts):
        probe.not_applicable(_OF_TASKS, NO_EXTENSION)
        return
    opened: list[Any] = []
    for tool in probe.facts.callable_tools():
        id = task_id(await call_for_task(connection, tool))
        if id is None:
            continue
        params = {"notifications": {"taskIds": [id]}}
        declared = with_tasks(connection)
        opened.append(await connection.begin(_LISTEN, params, capabilities=declared))
        await follow_task(connection, id, probe.target.settling)
    await connection.collect(probe.target.settling)
    _judge_end(probe, connection, opened)
    probe.skip(_OF_TASKS, "no task changed while it was listened to")


# -- over HTTP a stream may end without a word


@bare_scenario(_GRACEFUL, era="stateless")
async def waits_for_the_end_of_a_subscription(probe: Probe) -> None:
    if probe.target.transport != "http":
        return
    async with open_unjudged(probe) as connection:
        await _wait_for_end(probe, connection)
    probe.skip(_GRACEFUL, _NO_END)


async def _wait_for_end(probe: Probe, connection: RawConnection) -> None:
    request = complete_request(probe, _LISTEN, {"notifications": _ALL_LISTS})
    async with exchange(connection, request) as heard:
        await heard.rest(probe.target.settling)
        said = [each for each in heard.messages if isinstance(each, dict)]
        is_begun = any(each.get("method") == _ACKNOWLEDGED for each in said)
        if is_begun and heard.has_ended:
            why = "ends the stream of a subscription without a result"
            probe.holds(_GRACEFUL, heard.answers_to(request["id"]), why)

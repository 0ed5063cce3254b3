"""Notifications: logs and progress, cancellations, and subscriptions without a handshake."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, get_args

import msgspec

from accord.protocol.exchange import META_SUBSCRIPTION, meta_of
from accord.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from accord.protocol.party import META_LOG_LEVEL
from accord.protocol.revisions import REVISIONS
from accord.protocol.verdict import Evidence
from accord.types import JsonObject, LoggingLevel
from accord_tools.check.probing.http_exchange import exchange
from accord_tools.check.probing.messages import (
    Reply,
    is_same_id,
    new_notification,
    next_id,
    objects_in,
    params_of,
)
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import ConnectionEnded, MessageTimeout, RawConnection
from accord_tools.check.probing.server_facts import ServerFacts, list_all
from accord_tools.check.probing.task_calls import (
    NO_EXTENSION,
    call_for_task,
    follow_task,
    has_extension,
    task_id,
    with_tasks,
)
from accord_tools.check.probing.tool_calls import PROLONGED, ToolCall
from accord_tools.check.scenarios._scenario import (
    ANSWERED,
    LISTS,
    OWN,
    OWN_UNJUDGED,
    UNJUDGED,
    arrives,
    bare_scenario,
    call_all,
    call_together,
    complete_request,
    harmless_method,
    is_alive,
    open_unjudged,
    scenario,
    unexpected_answers,
    wait_for_answer,
)

_SET: Final = "logging/setLevel"
_LEAST: Final = "logging.message.min-level"
_RESPECTED: Final = "lifecycle.capabilities.respected"
_INVALID: Final = "logging.set-level.invalid-params"
_USUAL: Final = "info"
_LEVELS: Final[tuple[str, ...]] = get_args(LoggingLevel)
_OF_MESSAGES: Final = (
    "logging.levels.rfc5424",
    "logging.message.method",
    "logging.message.level-and-data",
    "logging.message.logger-optional",
    "logging.session-wide",
)
_LOGS_NOTHING: Final = "the server logs nothing while its tools are called"


@scenario(*_OF_MESSAGES, era="handshake", needs="logging", sends=(_SET, "tools/call"))
async def asks_for_all_log_messages(probe: Probe, connection: RawConnection) -> None:
    await connection.ask(_SET, {"level": _LEVELS[0]})
    await call_together(probe, connection)
    await connection.collect(probe.target.settling)
    await connection.ask(_SET, {"level": _USUAL})
    probe.skip(_OF_MESSAGES, _LOGS_NOTHING)


# The monitor would report the same under another id.
@scenario(_LEAST, _RESPECTED, opens=OWN_UNJUDGED, needs="logging", is_once=True)
async def sets_every_log_level(probe: Probe, connection: RawConnection) -> None:
    for level in _LEVELS:
        reply = await connection.ask(_SET, {"level": level})
        if reply.code == METHOD_NOT_FOUND:
            probe.fail(_RESPECTED, f"declares logging and does not know {_SET}")
            return
        if reply.is_error:
            probe.fail(_LEAST, f"does not accept the level {level}")
            return
    _, spoken = await _collect_levels(probe, connection, _LEVELS[0])
    if not spoken:
        probe.skip(_LEAST, _LOGS_NOTHING)
        return
    middle = _LEVELS[min(_LEVELS.index(level) for level in spoken) + 1 :][:1]
    for level in dict.fromkeys((*middle, _LEVELS[-1])):
        asked, spoken = await _collect_levels(probe, connection, level)
        lesser = _LEVELS[: _LEVELS.index(level)]
        below = [spoken[each] for each in lesser if each in spoken][:1]
        name = params_of(below[0])["level"] if below else ""
        why = f"logs at {name} although {level} was set"
        evidence = [*asked, *connection.log.evidence_of(below)]
        probe.holds(_LEAST, not below, why, evidence=evidence)


async def _collect_levels(
    probe: Probe, connection: RawConnection, level: str
) -> tuple[list[Evidence], JsonObject]:
    """Return one log message of each level from calls of all tools under this level.

    The exchange that set the level is returned first, as evidence.
    """
    reply = await connection.ask(_SET, {"level": level})
    since = len(connection.received)
    await call_together(probe, connection)
    await connection.collect(probe.target.settling)
    found: JsonObject = {}
    for each in connection.messages("notifications/message", since):
        name = params_of(each).get("level")
        if name in _LEVELS:
            found.setdefault(str(name), each)
    return connection.log.evidence_of_exchange(reply.id), found


@scenario(_INVALID, opens=UNJUDGED, needs="logging")
async def sets_an_unknown_log_level(probe: Probe, connection: RawConnection) -> None:
    reply = await connection.ask(_SET, {"level": "accord-check"})
    if reply.code == METHOD_NOT_FOUND:
        known = await connection.ask(_SET, {"level": _USUAL})
        if known.code == METHOD_NOT_FOUND:
            # lifecycle.capabilities.respected, which another scenario reports.
            probe.skip(_INVALID, f"the server does not know {_SET}")
            return
    probe.expects(_INVALID, reply, INVALID_PARAMS, "an unknown level")
    await is_alive(probe, connection, "an unknown log level")


# -- progress

# More than a user can read in a second.
_MOST: Final = 200
_REPORTED: Final = (
    "progress.notification.token",
    "progress.notification.progress",
    "progress.notification.total",
    "progress.notification.message",
    "progress.notification.method-name",
    "progress.value.increases",
    "progress.stops-after-completion",
    "progress.rate-limited",
)
_ACTIVE_ONLY: Final = "progress.notification.active-only"


@scenario(*_REPORTED, _ACTIVE_ONLY, ANSWERED, needs="tools", sends=("tools/call",))
async def asks_for_progress(probe: Probe, connection: RawConnection) -> None:
    wanted: dict[Any, Any] = {}
    for number, tool in enumerate(probe.facts.callable_tools()):
        for token in (f"token-{number}", 1000 + number):
            wanted[token] = await connection.start("tools/call", tool.with_progress(token))
    listed = await connection.start("tools/list")
    for token, id in wanted.items():
        what = f"a call with the progress token {token!r}"
        await wait_for_answer(probe, connection, id, what)
    await _judge_list_during_calls(probe, connection, listed, len(wanted))
    # Reports after the answer arrive soon after it.
    await connection.collect(probe.target.settling)
    reports = connection.messages("notifications/progress")
    if not reports:
        probe.skip(_REPORTED, "no tool that may be called reports progress")
        return
    counts = Counter(str(params_of(each).get("progressToken")) for each in reports)
    token, most = counts.most_common(1)[0]
    why = f"reports progress on {token} {most} times during one short call"
    probe.holds("progress.rate-limited", most <= _MOST, why)


async def _judge_list_during_calls(
    probe: Probe, connection: RawConnection, id: Any, calls: int
) -> None:
    """Judge whether a list that was requested during calls is answered at all."""
    # A call may still be running, and hold up the list; a later list would wait too.
    if await is_alive(probe, connection, f"{calls} calls at once"):
        why = f"answers a later tools/list, and not the one sent during {calls} calls"
        probe.holds(ANSWERED, await arrives(connection, id, probe.target.settling), why)


@scenario(_ACTIVE_ONLY, needs="tools", sends=("tools/call",))
async def asks_for_no_progress(probe: Probe, connection: RawConnection) -> None:
    await call_all(probe, connection)
    await connection.collect(probe.target.settling)
    # With an id it is reported as jsonrpc.notification.no-id.
    uninvited = [each for each in connection.messages("notifications/progress") if "id" not in each]
    if probe.facts.callable_tools():
        why = "reports progress although no request asked for it"
        probe.holds(_ACTIVE_ONLY, not uninvited, why)


# -- cancellations: in time, too late, of unknown requests, and malformed ones

_CANCELLED: Final = "notifications/cancelled"
_RACES: Final = "cancellation.races"
# Of every transport, and of stdio alone.
_STOPPING: Final = ("cancellation.receiver.stops", "stdio.cancel.stop-work")
_SILENCE: Final = ("cancellation.receiver.frees-and-silent", "stdio.cancel.no-further-messages")
# A tool that takes this long is still running when a cancellation arrives.
_SLOW: Final = 0.08
_TOOLS: Final = 12
# How often a call is cancelled at most.
_ATTEMPTS: Final = 3


def _cancels_by_closing(facts: ServerFacts) -> str | None:
    """Return why a request cannot be cancelled by a notification; None if it can."""
    if facts.transport == "http" and not REVISIONS[facts.revision].handshake:
        return "over HTTP a request without a session is cancelled by closing its response"
    return None


@scenario(
    "cancellation.invalid-ignored",
    "cancellation.receiver.may-ignore",
    opens=UNJUDGED,
    when=_cancels_by_closing,
    is_once=True,
)
async def cancels_unknown_requests(probe: Probe, connection: RawConnection) -> None:
    done = await connection.ask(harmless_method(probe.facts))
    since = len(connection.received)
    senseless: list[object] = [
        {"requestId": "accord-check-never-sent", "reason": "a check"},
        {"requestId": done.id},
        {"reason": "a check"},
        {"requestId": {}},
        None,
    ]
    for params in senseless:
        await connection.notify(_CANCELLED, params)
    after = "cancellations of unknown requests"
    stray = await unexpected_answers(probe, connection, since, after)
    if stray is None:
        if connection.ended is not None:
            why = "does not ignore a cancellation of an unknown request: it ends"
            probe.fail("cancellation.invalid-ignored", why)
        return
    why = f"does not ignore a cancellation of an unknown request: {stray[0] if stray else ''}"
    probe.holds("cancellation.invalid-ignored", not stray, why)
    probe.passes("cancellation.receiver.may-ignore")


@scenario(_RACES, opens=OWN, when=_cancels_by_closing, is_once=True)
async def cancels_while_the_answer_is_on_its_way(probe: Probe, connection: RawConnection) -> None:
    method = harmless_method(probe.facts)
    notice: JsonObject | None = None
    try:
        for _ in range(10):
            id = await connection.begin(method)
            notice = new_notification(_CANCELLED, {"requestId": id, "reason": "a check"})
            await connection.send(notice)
        await connection.ask(method)
    except (ConnectionEnded, MessageTimeout) as error:
        is_known = isinstance(error, ConnectionEnded) and await probe.ends_by_itself()
        if is_known or getattr(error, "is_garbled", False):
            raise
        connection.point_at(notice)
        probe.fail(_RACES, f"fails after cancelled requests: {error}")
        connection.end("the server answers no further request")
    else:
        probe.passes(_RACES)


@scenario(
    *_STOPPING,
    *_SILENCE,
    opens=OWN,
    needs="tools",
    when=_cancels_by_closing,
    is_once=True,
    sends=("tools/call",),
)
async def cancels_a_tool_that_takes_its_time(probe: Probe, connection: RawConnection) -> None:
    slow = await _slowest(probe, connection)
    if slow is None:
        why = "no tool that may be called takes long enough to be cancelled"
        probe.skip((*_STOPPING, *_SILENCE), why)
        return
    tool, duration = slow
    longest, continues, longer = duration, 0, tool.prolong()
    for _ in range(_ATTEMPTS):
        outcome = await _cancel(probe, connection, tool, duration, longest)
        if outcome == "judged":
            await is_alive(probe, connection, "a cancellation")
            return
        if outcome == "continues":
            # On a busy machine the first cancellation may arrive before its call.
            continues += 1
            if continues > 1:
                why = f"continues a call of {tool.name} that was cancelled, and answers it after"
                _blame_all(probe, _STOPPING, f"{why} {longest:.1f} s")
                return
        else:
            # Calls were measured that now take less time than the cancellation waits for.
            duration /= 2
        # On a busy machine a server ends a call before it reads the cancellation, unless the call
        # takes long.
        if longer is not None:
            tool, longest = longer, PROLONGED * slow[1]
    probe.skip((*_STOPPING, *_SILENCE), "the tool was quicker than its cancellation")


async def _cancel(
    probe: Probe, connection: RawConnection, tool: ToolCall, duration: float, longest: float
) -> Literal["judged", "continues", "too late"]:
    """Cancel a call and judge the result, unless the call seems to continue, or was over.

    Args:
        probe: gets the verdicts.
        connection: takes the call.
        tool: the call.
        duration: how long it takes at least, on a machine that is not busy.
        longest: how long it may take.
    """
    id, left = await _begin_call(connection, _with_own_token(tool), duration)
    await connection.notify(_CANCELLED, {"requestId": id, "reason": "a check"})
    since, began = len(connection.received), asyncio.get_running_loop().time()
    try:
        reply = await connection.reply_to(id, patience=2 * longest + probe.target.settling)
    except MessageTimeout:
        late = len(connection.messages("notifications/progress", since))
        # Messages sent before the cancellation may still arrive.
        if late < 3:
            probe.passes(*_STOPPING)
        else:
            _blame_all(probe, _STOPPING, f"continues, and reports progress {late} times")
        probe.passes(*_SILENCE)
        return "judged"
    # The tool succeeds if it is not cancelled.
    if reply.is_error or reply.is_failed_call:
        probe.passes(*_STOPPING)
        if _is_plain(connection):
            probe.skip(
                _SILENCE, "over HTTP a response that is not a stream must end with an answer"
            )
        else:
            what = f"a call of {tool.name} that was cancelled, and takes {longest:.1f} s"
            _blame_all(probe, _SILENCE, f"answers {what}: {reply}")
        return "judged"
    # The call may have ended before the cancellation arrived.
    is_over = asyncio.get_running_loop().time() - began < left / 2
    return "too late" if is_over else "continues"


def _blame_all(probe: Probe, ids: Iterable[str], why: str) -> None:
    for id in ids:
        probe.fail(id, why)


async def _begin_call(
    connection: RawConnection, params: JsonObject, duration: float
) -> tuple[Any, float]:
    """Begin a call; return its id once it runs, and how long it should still take."""
    if connection.log.transport != "http":
        return await connection.begin("tools/call", params), duration
    # Only the answer may show that the call arrived, and the cancellation may overtake it.
    id = await connection.start("tools/call", params)
    await connection.collect(duration / 2)
    return id, duration / 2


def _is_plain(connection: RawConnection) -> bool:
    """Return whether the last answer was a plain JSON response."""
    if connection.log.transport != "http":
        return False
    answers = [each.http for each in connection.log.records if each.sender == "server"]
    return bool(answers) and answers[-1] is not None and answers[-1].stream is None


async def _slowest(probe: Probe, connection: RawConnection) -> tuple[ToolCall, float] | None:
    """Return the slowest call and its duration."""
    found: tuple[ToolCall, float] | None = None
    for tool in probe.facts.callable_tools()[:_TOOLS]:
        duration = await _duration(connection, tool)
        if duration >= _SLOW:
            # The first call may be slow for other reasons.
            duration = min(duration, await _duration(connection, tool))
        if duration >= _SLOW and (found is None or duration > found[1]):
            found = tool, duration
    return found


def _with_own_token(tool: ToolCall) -> JsonObject:
    # Late progress of an earlier call must not be taken for that of a later one.
    return tool.with_progress(f"cancel-{next_id()}")


async def _duration(connection: RawConnection, tool: ToolCall) -> float:
    """Call a tool and return the seconds it takes, 0 if it fails."""
    began = asyncio.get_running_loop().time()
    reply = await connection.ask("tools/call", _with_own_token(tool))
    has_failed = reply.is_error or reply.is_failed_call
    return 0.0 if has_failed else asyncio.get_running_loop().time() - began


# -- subscriptions

_LISTEN: Final = "subscriptions/listen"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
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
    await _cancel_streams(probe, connection, opened)
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


async def _cancel_streams(probe: Probe, connection: RawConnection, opened: Sequence[Any]) -> None:
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

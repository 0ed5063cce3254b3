"""`subscriptions/listen`: requests that stay open, with notifications of changes."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.errors import InternalError
from accord.protocol.exchange import META_SUBSCRIPTION, Exchange
from accord.runtime.dispatcher import LASTING
from accord.server.hub import LIST_KINDS, UPDATED, Notices, ServerChange, Topic, list_topic
from accord.server.methods import TASKS
from accord.types import (
    CancelledParams,
    EmptyParams,
    JsonObject,
    ListenParams,
    ListenResult,
    SubscriptionFilter,
    SubscriptionsAcknowledgedParams,
)

if TYPE_CHECKING:
    from accord.server.session import Session
    from accord.server.tasks.task_store import TaskRecord
    from accord.server.tasks.watching import TaskListener

TASK: Final = "notifications/tasks"
# More than a client can make use of; the acknowledgement says which are honoured.
_KEYS_MOST: Final = 1_000


def listen(session: "Session", exchange: Exchange, params: ListenParams) -> object:
    """Acknowledge a request to hear of changes, and leave it open."""
    most = session.server.subscriptions
    if len(session.listening) >= most:
        raise InternalError(f"busy: {most} subscriptions are open (subscriptions)")
    ids = dict.fromkeys((params.notifications.task_ids or ())[:_KEYS_MOST])
    if ids and TASKS.is_offered(session.server):
        TASKS.require(exchange, "taskIds")  # tasks-ext.errors.undeclared-32021
    granted = _grant(session, exchange, params.notifications)
    subscription = Subscription(session, exchange)
    if exchange.origin is not None:
        exchange.origin.listen(subscription.end)
    session.listening = {**session.listening, exchange.id: subscription}
    if ids and session.server.has_task_tools:
        visible = session.server.tasks.visible(session, exchange, [*ids])
        return _begin_with_tasks(subscription, granted, visible)
    subscription.begin(granted)
    return LASTING


async def _begin_with_tasks(
    subscription: "Subscription",
    granted: SubscriptionFilter,
    visible: Coroutine[object, None, "list[TaskRecord]"],
) -> object:
    try:
        records = await visible
        granted.task_ids = [record.id for record in records] or None
        subscription.begin(granted)
        await subscription.follow_tasks(records)
    except BaseException:
        subscription.release()
        raise
    return LASTING


def _grant(session: "Session", exchange: Exchange, asked: SubscriptionFilter) -> SubscriptionFilter:
    """Return what the server will tell of: kinds that it declares, resources that it has."""
    server = session.server
    declared = server.capability_paths()
    members: JsonObject = {}
    for kind in LIST_KINDS:
        member = f"{kind}_list_changed"
        if getattr(asked, member) and f"{kind}.listChanged" in declared:
            members[member] = True
    uris = dict.fromkeys((asked.resource_subscriptions or ())[:_KEYS_MOST])
    if uris and "resources.subscribe" in declared:
        members["resource_subscriptions"] = [
            uri for uri in uris if _is_readable(session, exchange, uri)
        ]
    return SubscriptionFilter(**{name: each for name, each in members.items() if each})


def _is_readable(session: "Session", exchange: Exchange, uri: str) -> bool:
    entry = session.server.find_resource(uri)
    if entry is None:
        return False
    principal = session.principal_of(exchange)
    is_admitted = session.server.access.allows(principal, entry)
    return is_admitted and entry.is_visible(session, exchange) and entry.reports_changes


def _topics(granted: SubscriptionFilter) -> frozenset[Topic]:
    lists = [list_topic(kind) for kind in LIST_KINDS if getattr(granted, f"{kind}_list_changed")]
    updates = [(UPDATED, uri) for uri in granted.resource_subscriptions or ()]
    tasks = [(TASK, id) for id in granted.task_ids or ()]
    return frozenset([*lists, *updates, *tasks])


class Subscription:
    """One open listen request: a listener of the hub until it is cancelled or ended."""

    def __init__(self, session: "Session", exchange: Exchange) -> None:
        self._session = session
        self._exchange = exchange
        self._topics: frozenset[Topic] = frozenset()
        self._meta = {META_SUBSCRIPTION: exchange.id}
        flow = session.flow if exchange.origin is None else exchange.origin
        self._notices = Notices(session.loop, flow, self._send)
        self._tasks: list[TaskListener] = []

    @property
    def _is_open(self) -> bool:
        return self._session.listening.get(self._exchange.id) is self

    def begin(self, granted: SubscriptionFilter) -> None:
        """Tell the client what it will hear of, and listen from now on."""
        if self._is_open:
            params = SubscriptionsAcknowledgedParams(granted, meta=self._meta)
            self._notify("notifications/subscriptions/acknowledged", params)
            self._topics = _topics(granted)
            self._session.server.hub.listen(self, self._topics)
            for uri in granted.resource_subscriptions or ():
                found = self._session.server.find_resource(uri)
                if found is not None:
                    found.subscribe(self._session, uri)

    async def follow_tasks(self, records: "list[TaskRecord]") -> None:
        """Hear of tasks that any worker may change; where that is one process, by the hub."""
        runner = self._session.server.tasks
        if runner.worker is None:
            return
        from accord.server.tasks.watching import TaskListener

        for record in records:
            if self._is_open:
                listener = TaskListener(runner, record, self.hear)
                self._tasks.append(listener)
                await listener.begin()

    # -- called by the hub

    def hear(self, change: ServerChange) -> None:
        self._session.run_here(self._hear, change)

    def _hear(self, change: ServerChange) -> None:
        if self._is_open:
            self._notices.add(change)

    def _send(self, change: ServerChange) -> None:
        params = EmptyParams() if change.params is None else change.params
        meta = {**(params.meta or {}), **self._meta}
        self._notify(change.name, msgspec.structs.replace(params, meta=meta))

    def _notify(self, name: str, params: Any) -> None:
        self._session.notify(name, params, within=self._exchange)

    # -- the end

    def release(self) -> None:
        """Stop listening without a word: the client wants to hear no more, or is gone."""
        session, id = self._session, self._exchange.id
        session.server.hub.ignore(self, self._topics)
        listeners, self._tasks = self._tasks, []
        for listener in listeners:
            listener.end()
        if session.server.parts():
            for uri in [key for name, key in self._topics if name == UPDATED and key]:
                found = session.server.find_resource(uri)
                if found is not None:
                    found.unsubscribe(session, uri)
        session.listening = {key: each for key, each in session.listening.items() if key != id}
        self._notices.stop()

    def end(self) -> None:
        """End the subscription on the part of the server, if it is still open."""
        if not self._is_open:
            return
        self.release()
        if self._exchange.origin is None:
            # subscriptions.teardown-cancelled-notification: over HTTP the stream ends instead.
            reason = "the server ends the subscription"
            self._notify("notifications/cancelled", CancelledParams(self._exchange.id, reason))
        self._session.dispatcher.answer(self._exchange, ListenResult(meta=self._meta))

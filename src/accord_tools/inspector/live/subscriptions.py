"""Subscriptions and the level of log messages; both are restored after reconnecting."""

import logging
import time
from typing import TYPE_CHECKING, Final, get_args

from accord.errors import AccordError
from accord.types import JsonObject, LoggingLevel
from accord_tools.inspector.actions import action
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.live.live_connection import LiveConnection

if TYPE_CHECKING:
    from accord.client import Client
    from accord_tools.inspector.session import InspectedSession

log = logging.getLogger("accord_tools.inspector")

LEVELS: Final[tuple[LoggingLevel, ...]] = get_args(LoggingLevel)
_MOST: Final = 500


class _Subscription:
    def __init__(self) -> None:
        self.updates = 0
        self.last_at: float | None = None


class WatchedResources:
    """What a session hears of: updates of resources, and log messages of a level."""

    def __init__(self, session: "InspectedSession") -> None:
        self._session = session
        self._subscribed: dict[str, _Subscription] = {}
        self.level: LoggingLevel | None = None

    def _mark(self) -> None:
        self._session.mark("subscriptions")

    # -- called by the connection

    def note_update(self, uri: str) -> None:
        """Count an update of a resource; it may be a part of one that was subscribed to."""
        found = self._subscribed.get(uri)
        if found is None:
            inside = (key for key in self._subscribed if uri.startswith(key))
            found = self._subscribed.get(max(inside, key=len, default=""))
        if found is not None:
            found.updates += 1
            found.last_at = time.time()
            self._mark()

    def restore(self, client: "Client") -> None:
        """Subscribe again on a new connection, and choose the log level again."""
        self._mark()
        if self._subscribed or self.level is not None:
            self._session.spawn(self._restore(client))

    async def _restore(self, client: "Client") -> None:
        lost: list[str] = []
        try:
            if self.level is not None:
                await client.set_log_level(self.level)
        except AccordError as error:
            self.level = None
            lost.append(f"the log level: {error}")
        for uri in list(self._subscribed):
            try:
                await client.subscribe(uri)
            except AccordError as error:
                self._subscribed.pop(uri, None)
                lost.append(f"{uri}: {error}")
        if lost:
            connection = self._session.part(LiveConnection)
            connection.note = f"not restored after reconnecting: {'; '.join(lost)}"[:500]
            self._session.mark("session")
        self._mark()

    # -- for the page

    def snapshot(self) -> JsonObject:
        """Return everything for the page."""
        client = self._session.part(LiveConnection).current
        can = None if client is None else client.capabilities
        resources = can and can.resources
        return {
            "can_subscribe": bool(resources and resources.subscribe),
            "subscribed": [
                {"uri": uri, "updates": each.updates, "last_at": each.last_at}
                for uri, each in self._subscribed.items()
            ],
            "log_level": self.level,
            "levels": list(LEVELS),
            "can_log": bool(can and can.logging is not None),
        }

    async def change(self, uri: str, *, is_on: bool) -> None:
        """Subscribe to a resource, or undo it.

        Raises:
            ActionRefused: the server does not do that.
        """
        client = self._session.part(LiveConnection).client
        if is_on and len(self._subscribed) >= _MOST:
            raise ActionRefused(f"there are {_MOST} subscriptions already")
        try:
            if is_on:
                await client.subscribe(uri)
                self._subscribed.setdefault(uri, _Subscription())
            else:
                self._subscribed.pop(uri, None)
                await client.unsubscribe(uri)
        except AccordError as error:
            raise ActionRefused(str(error), field="uri") from None
        finally:
            self._mark()

    async def choose_level(self, level: str) -> None:
        """Choose the least level of log messages.

        Raises:
            ActionRefused: it does not exist, or the server sends none.
        """
        chosen = next((each for each in LEVELS if each == level), None)
        if chosen is None:
            raise ActionRefused(f"the levels are {', '.join(LEVELS)}", field="level")
        client = self._session.part(LiveConnection).client
        try:
            await client.set_log_level(chosen)
        except AccordError as error:
            raise ActionRefused(str(error), field="level") from None
        self.level = chosen
        self._mark()
        self._session.mark("session")


# -- actions of the page


@action("subscriptions.get")
async def get_subscriptions(session: "InspectedSession") -> object:
    """Return subscriptions and the log level."""
    return session.part(WatchedResources).snapshot()


@action("subscriptions.set")
async def set_subscription(session: "InspectedSession", *, uri: str, on: bool) -> None:
    """Subscribe to a resource, or undo it."""
    await session.part(WatchedResources).change(uri, is_on=on)


@action("subscriptions.level")
async def set_level(session: "InspectedSession", *, level: str) -> None:
    """Choose the least level of log messages."""
    await session.part(WatchedResources).choose_level(level)

"""Streams of notifications of a server without a handshake, and how a client listens."""

import asyncio
from collections.abc import Mapping
from typing import Final

from accord.types import JsonObject, RevisionId
from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.server import (
    ACKNOWLEDGED,
    LISTEN,
    FakeServer,
    Result,
    acknowledged_part,
    client_scenario,
    tag,
)
from accord_tools.check.probing.messages import is_same_id, new_notification, params_of
from accord_tools.check.probing.raw_connection import RawConnection

_ACK: Final = "subscriptions.client-checks-ack"
_AGAIN: Final = "subscriptions.no-state-across-reconnect"
_BY_ID: Final = "stdio.listen.correlate-by-id"
# Time for a client that reacts to a notification, or to the end of a stream.
_REACTING: Final = 0.3
_LISTS: Final[Mapping[str, tuple[str, str]]] = {
    "toolsListChanged": ("notifications/tools/list_changed", "tools/list"),
    "promptsListChanged": ("notifications/prompts/list_changed", "prompts/list"),
    "resourcesListChanged": ("notifications/resources/list_changed", "resources/list"),
}


@client_scenario(
    _ACK,
    _AGAIN,
    _BY_ID,
    era="stateless",
    on=("stdio", "http"),
    shows=("subscriptions.", "caching.client.notification"),
)
class TellsListeners(FakeServer):
    """Acknowledges a part of what a client listens for, tells it, and ends the stream.

    Attributes:
        changed: the methods whose results are out of date, as a notification said.
        reactions: whether the client fetched the list after a notification of another
            subscription, and after one of its own.
    """

    hints: Mapping[str, object] = {"ttlMs": 3_600_000, "cacheScope": "public"}

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.changed: set[str] = set()
        self.reactions: tuple[bool, bool] | None = None
        self.left_out: list[str] = []
        self.ended: JsonObject | None = None
        self.has_told = False

    async def listen(self, line: RawConnection, request: JsonObject) -> None:
        self.listening.append(request)
        part = acknowledged_part(request, self.capabilities)
        if len(self.listening) == 1 and len(part) > 1:
            self.left_out = [[*part][-1]]
            part = {name: each for name, each in part.items() if name not in self.left_out}
        await self.notify(line, request, ACKNOWLEDGED, {"notifications": part})

    async def work_result(self, line: RawConnection, request: JsonObject) -> Result:
        if request.get("method") == "tools/call" and not self.has_told:
            self.has_told = True
            if self.listening:
                await self._tell(line, self.listening[-1])
        return await super().work_result(line, request)

    async def _tell(self, line: RawConnection, listener: JsonObject) -> None:
        wanted = params_of(listener).get("notifications")
        asked = [each for each in _LISTS if isinstance(wanted, dict) and wanted.get(each) is True]
        told = [each for each in asked if each not in self.left_out]
        if told and line.log.transport == "stdio":
            notification, method = _LISTS[told[0]]
            stray = new_notification(notification, tag("of-another-subscription"))
            await line.send(stray)
            foreign = await self._is_fetched(line, method)
            await self.notify(line, listener, notification)
            self.reactions = foreign, await self._is_fetched(line, method)
        for each in told:
            notification, method = _LISTS[each]
            await self.notify(line, listener, notification)
            self.changed.add(method)
        await asyncio.sleep(_REACTING)
        self.ended = listener
        if line.log.transport == "http":
            line.carrier.drop(listener.get("id"))
        else:
            result = {"resultType": "complete", **tag(listener.get("id"))}
            await line.send({"jsonrpc": "2.0", "id": listener.get("id"), "result": result})
        await asyncio.sleep(_REACTING)

    async def _is_fetched(self, line: RawConnection, method: str) -> bool:
        """Return whether the client fetches a list within some time."""
        since = len(line.received)
        await asyncio.sleep(_REACTING)
        return bool(line.messages(method, since))

    async def judge(self, run: ClientRun) -> None:
        if not self.listening:
            run.skip(self.ids, "the client does not listen")
            return
        if self.left_out:
            why = f"fails when the server does not acknowledge {self.left_out}"
            stops = run.stumbles_at(LISTEN)
            if stops or run.ended_as_usual:
                run.holds(_ACK, not stops, why)
        if self.reactions is not None and self.reactions[1]:
            why = "acts on a notification that names a subscription of another client"
            run.holds(_BY_ID, not self.reactions[0], why)
        if self.ended is not None:
            place = self.listening.index(self.ended)
            for each in self.listening[place + 1 :]:
                # An id that answered before may be used again, but the request is a new one.
                is_same = is_same_id(each.get("id"), self.ended.get("id"))
                why = "listens again under the id of the stream that broke"
                run.holds(_AGAIN, not (is_same and run.transport == "http"), why)
            resumed = [each for each in run.requests if "last-event-id" in each.headers]
            if resumed:
                why = "wants to go on with the stream that broke, which no server keeps"
                run.holds(_AGAIN, condition=False, why=why, request=resumed[0])
        run.skip(_AGAIN, "the client does not listen again, and may not need to")
        run.skip(_BY_ID, "the client does not react to notifications by requests")

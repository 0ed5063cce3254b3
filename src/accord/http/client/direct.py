"""Requests that are sent without a task: most are answered by one JSON message in one read.

A task, a future for the head and one for the body would cost as much as all the rest of a call. Any
other outcome starts the task after all, which goes on with the response as if it had sent the
request itself.
"""

import logging
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from accord.errors import InternalError

if TYPE_CHECKING:
    import asyncio

    from accord.http.client.carrier import RequestCarrier
    from accord.http.client.messages import HttpClientSession, Message
    from accord.http.client.sender import SenderResponse
    from accord.http.client.streamable import Streamable
    from accord.http.client.wire import HttpWire

log = logging.getLogger("accord.http")


class DirectPost:
    """One request that is under way without a task.

    Args:
        wire: counts it, and starts the task where one is needed.
        form: handles its answer.
        message: the request.
    """

    __slots__ = (
        "_carrier",
        "_context",
        "_response",
        "_task",
        "_wire",
        "form",
        "message",
        "session",
    )

    def __init__(self, wire: "HttpWire", form: "Streamable", message: "Message") -> None:
        self._wire = wire
        self.form = form
        self.message = message
        self.session: HttpClientSession = form.session_for(message)
        self._carrier: RequestCarrier
        self._context: Context
        self._response: Any
        self._task: asyncio.Task[None] | None = None

    def begin(self, carrier: "RequestCarrier") -> bool:
        """Send the request; false when that takes waiting."""
        self._carrier = carrier
        self._response = carrier.begin(self)
        if self._response is None:
            return False
        # A task would have had a copy, too: connections outlive the call that made them.
        self._context = copy_context()
        return True

    # -- called by the connection

    def complete(self, response: Any, body: bytes) -> None:
        """Pass on the whole JSON answer."""
        if not self._wire.end_direct(self):
            return
        try:
            self._context.run(self.form.take_whole, self.message, response, body)
        except Exception:  # a bug, and the connection goes on
            log.exception("an answer could not be passed on")
            self._carrier.fail(self.message, InternalError("internal error of the client"))

    def go_on(self) -> None:
        """Let a task read the response."""
        if self._wire.end_direct(self):
            self._task = self._context.run(self._wire.go_on, self)

    # -- called by the task

    async def arrive(self) -> "SenderResponse":
        """Return the response once its head is read."""
        self.message.begun = None  # whatever is sent next is another request
        response: SenderResponse = await self._response.arrive()
        return response

    # -- called by the wire

    def cancel(self) -> None:
        """End the connection of the request; the server notices that."""
        if self._task is not None:
            self._task.cancel()
            return
        self._wire.end_direct(self)
        self._response.abort()

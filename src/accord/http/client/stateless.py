"""Revisions without handshake as a client speaks them: each request is a POST of its own.

There are no sessions and nothing is resumed: a request whose response breaks is lost. The end of a
connection cancels the request that it carried.
"""

import contextlib

from accord.http.client.messages import HttpClientSession, Message
from accord.http.client.sender import ConnectionCut, NotSent, SenderResponse
from accord.http.client.streamable import Streamable
from accord.http.rules.request_headers import request_headers
from accord.http.rules.sse import EventTooLong


class Stateless(Streamable):
    """Sends requests that stand on their own."""

    def session_for(self, message: Message) -> HttpClientSession:
        """Return the URL and headers of a request; each has its own."""
        request = HttpClientSession(self.session.url)
        find_mirrored = self._carrier.listener.mirrored_arguments
        request.headers |= request_headers(message.data, find_mirrored)
        return request

    async def post(self, message: Message) -> None:
        """Send a request and handle its answer; it is cancelled with the task that runs this."""
        carrier = self._carrier
        request = self.session_for(message) if message.begun is None else message.begun.session
        try:
            response = await carrier.post(request, message)
        except NotSent as error:
            return carrier.fail_unsent(message, error)
        except ConnectionCut as error:
            return carrier.fail_unanswered(message, str(error))
        self.session.url = request.url  # a redirect holds for what follows
        with contextlib.closing(response):
            return await self._take(message, response)

    async def _follow(self, message: Message, response: SenderResponse) -> None:
        carrier = self._carrier
        try:
            end = await self._read(message, carrier.events(), response)
        except EventTooLong:
            return carrier.fail_too_large(message)
        if carrier.is_waiting(message):
            carrier.fail_unanswered(message, end)
        return None

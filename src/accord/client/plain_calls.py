"""The method of a client that sends any request; what it needs is loaded when it is called."""

from collections.abc import Mapping
from typing import Any, Unpack

from accord.client.link import Link
from accord.client.options import CallOptions


class PlainCalls:
    """Requests as plain JSON."""

    _link: Link

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, **how: Unpack[CallOptions]
    ) -> Any:
        """Send a request of any method, such as one of an extension, and return plain JSON.

        The rules of the protocol hold as for other operations; members that no revision defines are
        sent and returned as they are. A result that asks questions, or is a task, is returned, too.

        Args:
            method: of the negotiated revision, or of an extension.
            params: its params by their names in the protocol; anything msgspec can encode.
        """
        from accord.client.plain_requests import request_plainly

        return await request_plainly(self._link, method, params, how)

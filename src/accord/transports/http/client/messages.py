"""What a client sends over HTTP: its messages, and what goes with all of a session."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from accord.bindings import headers as names
from accord.types._base import RequestId

if TYPE_CHECKING:
    import asyncio

    from accord.bindings.answers import Answer

__all__ = ["Message", "Session"]


class Message:
    """A message on its way out.

    `id` is that of a request, `name` the method, None in replies. `answer` is set where we ask for
    ourselves, in a request that the party does not know of. `is_postponed` says after a failure
    that it may be worth trying again, `is_sent` that the server may have seen it.
    """

    __slots__ = (
        "answer",
        "data",
        "headers",
        "id",
        "is_postponed",
        "is_sent",
        "name",
        "number",
        "refusals",
    )

    def __init__(
        self,
        data: bytes,
        id: RequestId | None = None,
        name: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.data = data
        self.id = id
        self.name = name
        self.headers = headers
        self.refusals = 0
        self.number = 0
        self.is_postponed = False
        self.is_sent = False
        self.answer: asyncio.Future[Answer] | None = None

    @property
    def opens(self) -> bool:
        """Whether the conversation begins with it."""
        return self.name == "initialize"


class Session:
    """What the server wants to be told with each request, from one `initialize` to the next."""

    __slots__ = ("headers", "id", "url")

    def __init__(self, url: str, id: str | None = None, version: str | None = None) -> None:
        self.url = url
        self.id = id
        self.headers = {"Accept": names.ACCEPT_BOTH, "Content-Type": "application/json"}
        if id is not None:
            self.headers["Mcp-Session-Id"] = id
        if version is not None:
            self.headers["MCP-Protocol-Version"] = version

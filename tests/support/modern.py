"""Requests of 2026-07-28 as plain messages: each names its revision and its client."""

from itertools import count
from typing import Any

from support.raw import RawClient

REVISION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}


def meta(capabilities: Any = None, **more: Any) -> dict[str, Any]:
    """The `_meta` of a request; by default the client can answer every question."""
    return {
        f"{PREFIX}protocolVersion": REVISION,
        f"{PREFIX}clientCapabilities": ALL if capabilities is None else capabilities,
        f"{PREFIX}clientInfo": {"name": "raw", "version": "1"},
        **{f"{PREFIX}{name}": value for name, value in more.items()},
    }


class ModernClient(RawClient):
    """Speaks 2026-07-28 to a server in memory, one request at a time."""

    def __init__(self, server: Any, *, allow: tuple[str, ...] = ("practice.*",)) -> None:
        super().__init__(server, allow=allow)
        self._ids = count(1)

    async def send_modern(self, method: str, *, capabilities: Any = None, **params: Any) -> Any:
        """Send a request and return the whole answer."""
        return await self.ask(next(self._ids), method, {"_meta": meta(capabilities), **params})

    async def call(self, name: str, **params: Any) -> Any:
        """Call a tool; return the result or the error."""
        answer = await self.send_modern("tools/call", name=name, **params)
        return answer.get("result") or answer["error"]

    async def again(self, name: str, questions: Any, *contents: Any, **params: Any) -> Any:
        """Call a tool again with the answers to its questions, in their order."""
        return await self.call(
            name,
            inputResponses=accept(questions, *contents),
            requestState=questions["requestState"],
            **params,
        )


def accept(questions: Any, *contents: Any) -> dict[str, Any]:
    """Answers that fill in the forms of a round with these values, in their order."""
    return {
        key: {
            "action": "accept",
            "content": content if isinstance(content, dict) else {"value": content},
        }
        for key, content in zip(questions["inputRequests"], contents, strict=True)
    }

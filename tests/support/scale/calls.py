"""Requests of a client, with everything that came of them."""

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from support.scale.recordings import StreamView

if TYPE_CHECKING:
    import asyncio


@dataclass
class Call:
    """One request with everything that came of it.

    Attributes:
        outcome: `answered`; `refused` by a status, before anything came of it; `unknown`: the
            connection broke before there was an event id; `cancelled`; `lost`: the stream could
            not be resumed; `open`.
    """

    key: str
    id: Any
    method: str
    tool: str
    view: StreamView
    arguments: dict[str, Any] = field(default_factory=dict)
    outcome: str = "open"
    status: int | None = None
    responses: list[Any] = field(default_factory=list)
    was_cancelled: bool = False
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    task: "asyncio.Task[Any] | None" = None

    @property
    def response(self) -> Any:
        return self.responses[0] if self.responses else None

    @property
    def text(self) -> str:
        """The text of the result."""
        assert self.outcome == "answered", self.excerpt()
        assert "result" in self.response, self.excerpt()
        return str(self.response["result"]["content"][0]["text"])

    @property
    def reason(self) -> str | None:
        """The reason that an error names in its data, such as `worker-lost`."""
        if self.response is None or "error" not in self.response:
            return None
        data = self.response["error"].get("data")
        return data.get("reason") if isinstance(data, dict) else None

    @property
    def workers(self) -> set[int | None]:
        return {each.worker for each in self.view.attempts}

    def excerpt(self) -> str:
        told = f"{self.tool} key {self.key} id {self.id}: {self.outcome} {self.status or ''}"
        return f"{told}\n{self.view.excerpt()}\nresponses: {self.responses!r:.600}"


@dataclass
class Answered:
    """One answer to a question of the server."""

    question: Any
    answer: Any
    statuses: list[int | None] = field(default_factory=list)

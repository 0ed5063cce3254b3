"""Two dispatchers that talk to each other, with handlers of the test."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from accord import types as t
from accord.protocol.endpoint import Endpoint
from accord.runtime.dispatcher import Dispatcher
from support.endpoints import ALL_OF_CLIENT, initialize, initialized


class Party:
    """One side: answers what its `answers` name, keeps what it receives."""

    is_deaf = False  # whether what the other side sends is lost

    def __init__(self, role: Any, **answers: Any) -> None:
        self.answers = answers
        self.told: list[Any] = []
        self.refused: list[str] = []
        self.sent: list[dict[str, Any]] = []
        self.endpoint = Endpoint(role)
        self.other: Party
        self.dispatcher: Dispatcher

    def start(self, **options: Any) -> None:
        self.dispatcher = Dispatcher(self.endpoint, self.write, self, **options)

    def write(self, data: bytes, exchange: Any) -> None:
        self.sent.append(json.loads(data))
        if not self.other.is_deaf:
            self.other.dispatcher.receive(data)

    def request(self, exchange: Any, params: Any, dispatcher: Dispatcher) -> Any:
        if exchange.name == "initialize":
            return initialized(params.protocol_version)
        answer = self.answers[exchange.name.replace("/", "_")]
        return answer(params) if isinstance(answer, Callable) else answer  # type: ignore[arg-type]

    def notification(self, event: Any, dispatcher: Dispatcher) -> None:
        if event.name == "notifications/roots/list_changed":
            raise RuntimeError("callbacks fail too")
        self.told.append((event.name, event.params))

    def breach(self, event: Any) -> None:
        self.refused.append(event.why)


async def joined(
    *, revision: str = "2025-06-18", client: Party | None = None, server: Party, **options: Any
) -> tuple[Dispatcher, Dispatcher]:
    """Open a conversation between two parties; the options are those of the server."""
    one, two = client or Party("client"), server
    one.other, two.other = two, one
    one.start()
    two.start(**options)
    await one.dispatcher.request("initialize", initialize(revision, ALL_OF_CLIENT))
    one.dispatcher.notify("notifications/initialized", t.EmptyParams())
    return one.dispatcher, two.dispatcher


@pytest.fixture
def party() -> type[Party]:
    return Party


@pytest.fixture
def join() -> Any:
    return joined

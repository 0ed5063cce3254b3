"""Raw clients against real servers; a test fails if its server breaks the protocol."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.http_offer import offer
from support.http_server import bounded
from support.http_talk import Talk


@pytest.fixture
def talk() -> Iterator[Callable[..., Talk]]:
    """Make clients; a monitor judges their traffic at the end."""
    made: list[Talk] = []

    def make(port: int, **options: Any) -> Talk:
        made.append(Talk(port, **options))
        return made[-1]

    yield make
    broken = [each for one in made for each in one.broken()]
    assert not broken, broken


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server with all defaults, shared by tests that do not mind."""
    with bounded(offer().asgi(sse=True)) as port:
        yield port

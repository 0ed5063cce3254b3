"""Raw clients whose traffic is judged: what the server breaks fails the test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.http_talk import Talk


@pytest.fixture
def talk() -> Iterator[Callable[..., Talk]]:
    """Make clients with a token, whose traffic is judged in the end."""
    made: list[Talk] = []

    def make(port: int, token: str | None = None, **options: Any) -> Talk:
        made.append(Talk(port, **options))
        if token is not None:
            made[-1].headers["Authorization"] = f"Bearer {token}"
        return made[-1]

    yield make
    broken = [each for one in made for each in one.broken()]
    assert not broken, broken

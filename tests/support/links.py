"""What interaction tests run over: in memory in every revision, as a process in one of them."""

from typing import Any

import pytest

MISSION = ("2024-11-05", "2025-03-26", "2025-06-18")
REVISIONS = (*MISSION, "2025-11-25")


def over(
    *transports: str, revisions: tuple[str, ...] = REVISIONS, allow: tuple[str, ...] = ()
) -> pytest.MarkDecorator:
    """Run a test over these; nothing may be broken, not even good practice, unless allowed."""
    return pytest.mark.accord(transports=list(transports), revisions=revisions, allow=list(allow))


EVERYWHERE = over("memory", "stdio:2025-06-18")
IN_MEMORY = over("memory")


def text(result: Any) -> str:
    """The text of a result with one text block."""
    (block,) = result.content
    return str(block.text)

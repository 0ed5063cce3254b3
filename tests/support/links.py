"""What interaction tests run over: in memory in every revision, over the others where it differs.

A process in one revision; Streamable HTTP, answering as JSON and as event streams, in those that
have it; the older form of HTTP in the one that knew no other.
"""

from typing import Any

import pytest

MISSION = ("2024-11-05", "2025-03-26", "2025-06-18")
REVISIONS = (*MISSION, "2025-11-25")
BOTH_ERAS = (*REVISIONS, "2026-07-28")
STDIO = ("stdio:2025-06-18",)
HTTP = (
    "http:2025-03-26",
    "http:2025-06-18",
    "http:2025-11-25",
    "http-stream:2025-03-26",
    "http-stream:2025-06-18",
    "sse:2024-11-05",
)

STANDALONE = ("stdio:2026-07-28", "http:2026-07-28")
"""Without a session; messages there are answered as they are best, so that one form is enough."""


def over(
    *transports: str, revisions: tuple[str, ...] = REVISIONS, allow: tuple[str, ...] = ()
) -> pytest.MarkDecorator:
    """Run a test over these; nothing may be broken, not even good practice, unless allowed."""
    return pytest.mark.accord(transports=list(transports), revisions=revisions, allow=list(allow))


def everywhere(*revisions: str) -> pytest.MarkDecorator:
    """Run a test over everything there is, in these revisions."""
    return over("memory", *within(STDIO + HTTP + STANDALONE, revisions), revisions=revisions)


def in_this_process(*revisions: str) -> pytest.MarkDecorator:
    """Run a test that sees what its server does over all that has the server in this process."""
    links = [each for each in HTTP + STANDALONE if not each.startswith("stdio")]
    return over("memory", *within(tuple(links), revisions), revisions=revisions)


def within(links: tuple[str, ...], revisions: tuple[str, ...]) -> list[str]:
    return [each for each in links if each.partition(":")[2] in revisions]


EVERYWHERE = everywhere(*REVISIONS)
IN_BOTH_ERAS = everywhere(*BOTH_ERAS)
IN_PROCESS = in_this_process(*REVISIONS)
IN_MEMORY = over("memory")


def text(result: Any) -> str:
    """The text of a result with one text block."""
    (block,) = result.content
    return str(block.text)

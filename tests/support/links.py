"""What interaction tests run over: in memory in every revision, over the others where it differs.

A process in one revision of each era; over HTTP each revision once, answering as JSON or as event
streams; the older form of HTTP in the one that knew no other.
"""

from typing import Any

import pytest

MISSION = ("2024-11-05", "2025-03-26", "2025-06-18")
HANDSHAKE = (*MISSION, "2025-11-25")
REVISIONS = (*HANDSHAKE, "2026-07-28")
STDIO = ("stdio:2025-06-18", "stdio:2026-07-28")
# Each revision over one form of HTTP, and each form in the revision where it differs most.
HTTP = (
    "http:2025-03-26",
    "http:2025-11-25",
    "http:2026-07-28",
    "http-stream:2025-06-18",
    "sse:2024-11-05",
)
# For what is about HTTP itself: both forms of answers in every revision.
EVERY_HTTP = (*HTTP, "http:2025-06-18", "http-stream:2025-03-26", "http-stream:2026-07-28")


def over(
    *transports: str, revisions: tuple[str, ...] = REVISIONS, allow: tuple[str, ...] = ()
) -> pytest.MarkDecorator:
    """Run a test over these; nothing may be broken, not even good practice, unless allowed."""
    return pytest.mark.accord(transports=list(transports), revisions=revisions, allow=list(allow))


def everywhere(*revisions: str) -> pytest.MarkDecorator:
    """Run a test over everything there is, in these revisions."""
    return over("memory", *within(STDIO + HTTP, revisions), revisions=revisions)


def each_once(*revisions: str) -> pytest.MarkDecorator:
    """Run a test whose content alone can differ, over each transport; a process takes long."""
    stdio = within(STDIO, revisions)[-1:]
    return over("memory", *stdio, *within(HTTP, revisions), revisions=revisions)


def in_this_process(*revisions: str) -> pytest.MarkDecorator:
    """Run a test that sees what its server does over all that has the server in this process."""
    return over("memory", *within(HTTP, revisions), revisions=revisions)


def within(links: tuple[str, ...], revisions: tuple[str, ...]) -> list[str]:
    return [each for each in links if each.partition(":")[2] in revisions]


EVERYWHERE = everywhere(*REVISIONS)
EACH_ONCE = each_once(*REVISIONS)
IN_PROCESS = in_this_process(*REVISIONS)
IN_MEMORY = over("memory")


def is_stateless_http(link: Any) -> bool:
    """Whether each request of a link is a POST that stands on its own."""
    return link.revision not in HANDSHAKE and link.transport.startswith("http")


def text(result: Any) -> str:
    """The text of a result with one text block."""
    (block,) = result.content
    return str(block.text)

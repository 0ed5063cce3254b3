"""The feed: says which areas have changed, a line of JSON at a time."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from accord_tools.inspector.changes import Changes

FEEDS_MOST: Final = 16
"""Feeds at once; a hidden tab has none."""
_HEARTBEAT: Final = 10.0
# Changes within this time become one line.
_PAUSE: Final = 0.1


async def read_changes(changes: Changes, since: int) -> AsyncIterator[bytes]:
    """Yield lines for a page; the first at once, so that the page knows that it is connected.

    Args:
        changes: of all sessions.
        since: the version that the page knows.
    """
    while True:
        version, fresh = changes.since(since)
        if version < since:  # the page knows versions of an earlier launch
            version, fresh = changes.since(0)
        since = version
        yield msgspec.json.encode({"version": version, "changed": list(fresh)}) + b"\n"
        await changes.wait(since, _HEARTBEAT)
        await asyncio.sleep(_PAUSE)

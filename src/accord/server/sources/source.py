"""Sources: what offers tools, resources and prompts, and says when they change.

A `Server` is one. So are a proxy, an OpenAPI document, a folder of plugins, and every view on
another source.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from accord.server.entries.entry import EntryKind
from accord.server.hub import Hub, ListKind, list_change, resource_change
from accord.server.sources.views import Views

if TYPE_CHECKING:
    from accord.server.entries.entry import Entry


class Source(Views):
    """Offers entries to servers that mount it.

    Subclasses define `entries`, call `list_changed` when one of their lists is no longer as it was,
    and hold what they need while they are in use in `run_lifespan`.

    Args:
        name: names it in messages.

    Attributes:
        hub: publishes its changes.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.hub = Hub()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def entries(self, kind: EntryKind) -> "Sequence[Entry]":
        """Return what it offers now, each under a key of its own. From any thread."""
        raise NotImplementedError

    def list_changed(self, kind: ListKind) -> None:
        """Report that entries were added, removed or changed. From any thread."""
        self.hub.publish(list_change(kind))

    def resource_updated(self, uri: str) -> None:
        """Report that the contents of a resource have changed. From any thread."""
        self.hub.publish(resource_change(uri))

    @asynccontextmanager
    async def run_lifespan(self) -> AsyncIterator[Any]:
        """Hold what calls need while the source is in use.

        Runs once per event loop, however many servers mount the source, in a task of its own.
        """
        yield None

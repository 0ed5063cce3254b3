"""Sources: what offers tools, resources and prompts, and says when they change.

A `Server` is one. So are a proxy, an OpenAPI document, a folder of plugins, and every view on
another source.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Unpack

from accord.server.entries.entry import EntryKind
from accord.server.hub import Hub, ListKind, list_change, resource_change

if TYPE_CHECKING:
    from accord.server.entries.entry import Entry
    from accord.server.sources.views import ToolChange, View


class Views:
    """The part of a source that returns views on it; the source itself stays as it is.

    Names are those of tools and prompts, and URIs of resources. In `only` and `without`, `*` and
    `?` stand for any text and any character.
    """

    hub: Hub
    name: str
    is_complete = True

    def entries(self, kind: EntryKind) -> "Sequence[Entry]":
        """Return what it offers now."""
        raise NotImplementedError

    def find(self, kind: EntryKind, key: str) -> "Entry | None":
        """Return the entry with this name or URI; of templates, the one with this text."""
        return next((entry for entry in self.entries(kind) if entry.key == key), None)

    def offers_uri(self, uri: str) -> bool:
        """Whether it has a resource with this URI."""
        if any(entry.key == uri for entry in self.entries("resources")):
            return True
        templates: Sequence[Any] = self.entries("resource_templates")
        return any(entry.match(uri) is not None for entry in templates)

    def parts(self) -> "Sequence[Views]":
        """Return the sources that it is made of."""
        return ()

    def find_unlisted(self, uri: str) -> "Entry | None":
        """Return a resource that it may have although it does not list it."""
        return None

    def run_lifespan(self) -> AbstractAsyncContextManager[Any]:
        """Hold what calls need while the source is in use; yields its state."""
        raise NotImplementedError

    async def check_loop(self, passed: "Sequence[object]") -> None:
        """Refuse a request that leads back to a proxy that it has passed.

        Args:
            passed: the ids of the proxies.

        Raises:
            InternalError: it does.
        """
        for part in self.parts():
            await part.check_loop(passed)

    def only(self, *names: str, tags: Iterable[str] = (), kind: ListKind | None = None) -> "View":
        """Return a view of some entries: those with one of the names or tags, and of the kind."""
        from accord.server.sources.views import Selection

        return Selection(self, names, tags, kind, keeps=True)

    def without(
        self, *names: str, tags: Iterable[str] = (), kind: ListKind | None = None
    ) -> "View":
        """Return a view without some entries: those with one of the names or tags, of the kind."""
        from accord.server.sources.views import Selection

        return Selection(self, names, tags, kind, keeps=False)

    def rename(self, names: Mapping[str, str]) -> "View":
        """Return a view with other names of tools and prompts, or other URIs of resources."""
        from accord.server.sources.views import Renaming

        return Renaming(self, names)

    def prefix(self, prefix: str, *, separator: str = "_") -> "View":
        """Return a view with a prefix before all names, and within all URIs.

        `find` becomes `crm_find`, `data://config` becomes `data://crm/config`.
        """
        from accord.server.sources.views import Prefixing

        return Prefixing(self, prefix, separator)

    def describe(self, descriptions: Mapping[str, str]) -> "View":
        """Return a view with other descriptions, by the names of entries."""
        from accord.server.sources.views import DescriptionView

        return DescriptionView(self, descriptions)

    def change(self, tool: str, **change: "Unpack[ToolChange]") -> "View":
        """Return a view with another form of one tool; see `ToolChange`."""
        from accord.server.sources.views import ChangeView

        return ChangeView(self, tool, change)


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

"""The session of one client, as handlers see it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from accord.server.hub import ListKind
from accord.types import Root

if TYPE_CHECKING:
    from accord.server.session import Session


class ClientSession:
    """The session of one client: `ctx.session`, the same object for all requests of the session."""

    __slots__ = ("__weakref__", "_core")

    def __init__(self, core: "Session") -> None:
        self._core = core

    @property
    def state(self) -> dict[str, Any]:
        """Values that are kept from one request of the session to the next, until it ends.

        Raises:
            SessionRequired: there is no session: each request stands on its own.
            InternalError: several workers share it, and their store does not answer.
        """
        return self._core.state

    def show(self, *names: str, tags: Iterable[str] = (), kind: ListKind | None = None) -> None:
        """Show entries to this client that are hidden; it is notified of lists that change.

        Args:
            names: of tools and prompts, and URIs of resources.
            tags: entries with one of them.
            kind: "tools", "prompts" or "resources"; all of them by default.

        Raises:
            ValueError: nothing is named, or the kind does not exist.
            KeyError: no entry has one of the names.
            SessionRequired: there is no session.
        """
        self._core.set_visible(names, tags, kind, shows=True)

    def hide(self, *names: str, tags: Iterable[str] = (), kind: ListKind | None = None) -> None:
        """Hide entries from this client: they are neither listed nor found. See `show`."""
        self._core.set_visible(names, tags, kind, shows=False)

    def list_changed(self, kind: ListKind) -> None:
        """Notify this client alone, once per burst, that a list has changed. From any thread.

        Raises:
            ValueError: the kind is not "tools", "prompts" or "resources".
        """
        self._core.list_changed(kind)

    async def roots(self) -> list[Root]:
        """Ask the client for its roots, outside of any request: say, when they have changed.

        Raises:
            LocalProtocolError: the client did not declare roots.
        """
        return await self._core.roots()

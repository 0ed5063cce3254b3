"""The roots that the client declares; a person edits them."""

from typing import TYPE_CHECKING, Final

import msgspec

from accord.client.callbacks import to_roots
from accord.errors import AccordError
from accord.types import JsonObject, Root
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.live.connection import LiveConnection

if TYPE_CHECKING:
    from accord_tools.inspector.session import InspectedSession

_ROOTS_MOST: Final = 1_000


class GivenRoot(msgspec.Struct):
    """A root as the page sends it."""

    uri: str
    name: str = ""


class DeclaredRoots:
    """The roots of a session; declared always, so that servers may ask at any time."""

    def __init__(self, session: "InspectedSession") -> None:
        self._session = session
        self._roots: list[Root] = []

    def current(self) -> list[Root]:
        """Return the roots now."""
        return list(self._roots)

    def snapshot(self) -> JsonObject:
        """Return the roots for the page."""
        roots = [{"uri": each.uri, "name": each.name or ""} for each in self._roots]
        return {"roots": roots, "is_declared": True}

    async def change(self, given: list[GivenRoot]) -> None:
        """Replace the roots and notify the server, if it is connected.

        Raises:
            ActionRefused: one is not the URI of a file, or the server cannot be notified.
        """
        if len(given) > _ROOTS_MOST:
            raise ActionRefused(f"there may be {_ROOTS_MOST} roots at most", field="roots")
        roots = [Root(each.uri.strip(), name=each.name or None) for each in given]
        try:
            to_roots(roots)
        except ValueError as error:
            raise ActionRefused(str(error), field="roots") from None
        self._roots = roots
        self._session.mark("roots")
        client = self._session.part(LiveConnection).current
        if client is not None:
            try:
                await client.roots_changed()
            except AccordError as error:
                raise ActionRefused(f"the roots are changed, but not announced: {error}") from None

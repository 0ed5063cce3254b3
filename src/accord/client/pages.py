"""Reading a list page by page, without trusting the server to end it."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from accord.errors import RemoteProtocolError
from accord.types import Prompt, Resource, ResourceTemplate, Tool

Entry: TypeAlias = Tool | Prompt | Resource | ResourceTemplate

# At ten entries a page this is a list of 100,000.
MOST_PAGES: Final = 10_000


class PageGuard:
    """Counts the pages of one list and refuses a list that does not end.

    Cursors and pages are remembered by their hashes: a cursor may be as long as a message.

    Args:
        method: the list.
        empty_pages: how many pages in a row may have no new entry.
    """

    def __init__(self, method: str, empty_pages: int) -> None:
        self._method = method
        self._empty_pages = empty_pages
        self._cursors: set[int] = set()
        self._contents: set[int] = set()
        self._empty = 0

    def check(self, entries: Sequence[Entry], cursor: str) -> None:
        """Count a page and remember the cursor to the next one.

        Raises:
            RemoteProtocolError: the cursor was seen before, or the list does not end.
        """
        if hash(cursor) in self._cursors:
            raise RemoteProtocolError(
                f"{self._method}: the server repeats cursor {cursor[:40]!r}, the list has no end"
            )
        self._cursors.add(hash(cursor))
        self._count_empty(entries)
        if len(self._cursors) >= MOST_PAGES:
            raise RemoteProtocolError(
                f"{self._method}: no end after {MOST_PAGES} pages; "
                "fetch further ones by their cursors"
            )

    def _count_empty(self, entries: Sequence[Entry]) -> None:
        content = hash(tuple(getattr(each, "uri", None) or each.name for each in entries))
        if entries and content not in self._contents:
            self._contents.add(content)
            self._empty = 0
            return
        self._empty += 1
        if self._empty >= self._empty_pages:
            raise RemoteProtocolError(
                f"{self._method}: the server sent {self._empty} pages in a row without a new "
                "entry, each with a cursor to another one; connect(..., empty_pages=...) reads more"
            )

"""Reading a list page by page, without trusting the server that it ends."""

from typing import Final

from accord.errors import RemoteProtocolError

__all__ = ["Pages"]

# At ten entries a page this is a list of 100,000; nobody has a use for more.
MOST_PAGES: Final = 10_000


class Pages:
    """Keeps count of the pages of one list."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._seen: set[str] = set()

    def check(self, cursor: str) -> None:
        """Take note of the cursor to the next page.

        Raises:
            RemoteProtocolError: it was there before, or there is no end of pages.
        """
        if cursor in self._seen:
            raise RemoteProtocolError(
                f"{self._method}: the server repeats cursor {cursor[:40]!r}, the list has no end"
            )
        self._seen.add(cursor)
        if len(self._seen) >= MOST_PAGES:
            raise RemoteProtocolError(f"{self._method}: no end after {MOST_PAGES} pages")

"""Numbers of rows by a key, such as a call; rows that left the log are forgotten."""

from bisect import bisect_left, insort
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

PostingKey = TypeVar("PostingKey", bound=Hashable)
# Shorter lists are not worth a look at what has left.
_LONG: Final = 1_000


class Postings(Generic[PostingKey]):
    """Ascending numbers by key."""

    def __init__(self) -> None:
        self._lists: dict[PostingKey, list[int]] = {}

    def add(self, key: PostingKey, number: int, first_kept: int) -> None:
        """Add a number, usually the highest of its key."""
        found = self._lists.setdefault(key, [])
        if not found or found[-1] < number:
            found.append(number)
        elif number not in found[-2:]:
            insort(found, number)
        if len(found) >= _LONG and found[len(found) // 2] < first_kept:
            del found[: bisect_left(found, first_kept)]

    def drop(self, key: PostingKey, number: int) -> None:
        """Forget a key if the row that leaves was the last with it."""
        found = self._lists.get(key)
        if found is not None and found[-1] <= number:
            del self._lists[key]

    def get(self, key: PostingKey, first_kept: int, most: int | None = None) -> list[int]:
        """Return the numbers of a key that are kept, at most the first `most` of them."""
        found = self._lists.get(key, [])
        start = bisect_left(found, first_kept)
        return found[start : None if most is None else start + most]

    def clear(self) -> None:
        """Forget everything."""
        self._lists.clear()

    def __len__(self) -> int:
        return len(self._lists)

"""Numbers of rows by a key, such as a call; rows that left the log are forgotten."""

from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain
from typing import Final, Generic, TypeVar

PostingKey = TypeVar("PostingKey", bound=Hashable)
# Shorter ones are not worth a look at what has left.
_LONG: Final = 1_000


def row_numbers(numbers: Iterable[int] = ()) -> "array[int]":
    """Return numbers of rows in little memory."""
    return array("q", numbers)


class Postings(Generic[PostingKey]):
    """Ascending numbers by key."""

    def __init__(self) -> None:
        self._numbers: dict[PostingKey, array[int]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[PostingKey]:
        return iter(self._numbers)

    def add(self, key: PostingKey, number: int, first_kept: int) -> None:
        """Add a number, usually the highest of its key."""
        found = self._numbers.get(key)
        if found is None:
            self._numbers[key] = row_numbers((number,))
            return
        if found[-1] < number:
            found.append(number)
        else:
            add_once(found, number)
        if len(found) >= _LONG and found[len(found) // 2] < first_kept:
            del found[: bisect_left(found, first_kept)]

    def drop(self, key: PostingKey, number: int) -> None:
        """Forget a key if the row that leaves was the last with it."""
        found = self._numbers.get(key)
        if found is not None and found[-1] <= number:
            del self._numbers[key]

    def get(self, key: PostingKey, first_kept: int, most: int | None = None) -> "array[int]":
        """Return the numbers of a key that are kept, at most the first `most` of them."""
        found = self._numbers.get(key)
        if found is None:
            return row_numbers()
        start = bisect_left(found, first_kept)
        return found[start : None if most is None else start + most]

    def get_all(self, chosen: Callable[[PostingKey], bool], first_kept: int) -> "array[int]":
        """Return the numbers of all keys that a function chooses."""
        found = [self.get(key, first_kept) for key in self._numbers if chosen(key)]
        # Parts that are sorted already are merged fast.
        return found[0] if len(found) == 1 else row_numbers(sorted(chain.from_iterable(found)))

    def clear(self) -> None:
        """Forget everything."""
        self._numbers.clear()


def add_once(numbers: "array[int]", number: int) -> None:
    """Add a number to ascending ones, unless it is among them."""
    place = bisect_left(numbers, number)
    if place == len(numbers) or numbers[place] != number:
        insort(numbers, number)

"""Parts of a fleet for several machines: each server belongs to one, whatever the others are."""

import re
from collections.abc import Iterable
from hashlib import sha256

from accord_tools.fleet.definition import FleetError


def shard(names: Iterable[str], part: str) -> list[str]:
    """Return the names that belong to a part such as "2/5"; every name belongs to one of the five.

    Raises:
        FleetError: it is not such a text.

    >>> sorted(name for n in "123" for name in shard(["a", "b", "c", "d"], f"{n}/3"))
    ['a', 'b', 'c', 'd']
    """
    found = re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", part)
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count:
        raise FleetError(f"shard {part!r}: expected NUMBER/COUNT, such as 2/5")
    return [name for name in names if _place(name, count) == number - 1]


def _place(name: str, count: int) -> int:
    return int.from_bytes(sha256(name.encode()).digest()[:8], "big") % count

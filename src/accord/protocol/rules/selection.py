"""Selections of messages by sender, kind and method: what a rule is about.

`results("tools/list", by=SERVER)` selects the answers of servers to `tools/list`.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

import msgspec

from accord.protocol.jsonrpc import FAULT, NOTIFICATION, REQUEST, RESULT, Kind
from accord.protocol.violation import CLIENT, SERVER, Party

EITHER: Final[tuple[Party, ...]] = (CLIENT, SERVER)
KINDS: Final[tuple[Kind, ...]] = (REQUEST, NOTIFICATION, RESULT, FAULT)
REPLIES: Final[tuple[Kind, ...]] = (RESULT, FAULT)


class Messages(msgspec.Struct, frozen=True):
    """The messages that a rule is about; `on` is None for all methods."""

    by: tuple[Party, ...]
    kinds: tuple[Kind, ...]
    on: frozenset[str] | None


def messages(
    kind: Kind | tuple[Kind, ...] = KINDS,
    on: str | Iterable[str] | None = None,
    *,
    by: Party | tuple[Party, ...] = EITHER,
) -> Messages:
    """Return the messages of these kinds; replies have the methods of what they answer."""
    return Messages(
        by=(by,) if isinstance(by, str) else by,
        kinds=(kind,) if isinstance(kind, str) else kind,
        on=None if on is None else frozenset((on,) if isinstance(on, str) else on),
    )


requests = partial(messages, REQUEST)
notifications = partial(messages, NOTIFICATION)
results = partial(messages, RESULT)

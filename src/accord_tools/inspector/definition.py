"""What the parts of the inspector share: targets, options, refusals and downloads."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from accord.errors import AccordError

SessionKind: TypeAlias = Literal["live", "trace", "watch"]


class ActionRefused(AccordError):
    """An action of the page cannot be done; the person sees the message.

    Attributes:
        field: the member of the request that is wrong, if it is one.
    """

    def __init__(self, message: str, *, field: str = "") -> None:
        self.field = field
        super().__init__(message)


class InspectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the inspector works.

    Attributes:
        keep_bytes: how many bytes of messages each session keeps.
        shows_secrets: whether the page may ask for masked values.
        history: the file that keeps calls; None keeps them in memory.
        record: where a trace of the session is written.
        reloads: whether a server is launched anew when its Python code changes.
        advise: rewrites advice of the library for the reader, such as parameters as options.
    """

    keep_bytes: int = 200 * 1024 * 1024
    shows_secrets: bool = True
    history: Path | None = None
    record: Path | None = None
    reloads: bool = False
    advise: Callable[[str], str] = str


class Download(msgspec.Struct, frozen=True):
    """The answer to an action that is a file for the person."""

    name: str
    media_type: str
    chunks: Iterable[bytes]

"""What the parts of the inspector share: targets, options, refusals and downloads."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from accord.errors import AccordError
from accord.types import RevisionId

SessionKind: TypeAlias = Literal["live", "trace", "watch"]


class ActionRefused(AccordError):
    """An action of the page cannot be done; the person sees the message.

    Attributes:
        field: the member of the request that is wrong, if it is one.
    """

    def __init__(self, message: str, *, field: str = "") -> None:
        self.field = field
        super().__init__(message)


class InspectTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A server to inspect, as the command line names it; the page never changes it.

    Attributes:
        title: what the page calls it.
        shown: the target as the user typed it, for exported commands; secrets left out.
        command: launches the server.
        url: where the server is, in place of a command.
        env: variables for a launched server; None inherits those of this process.
        cwd: the folder that a launched server runs in.
        headers: sent with every HTTP request.
        auth: the `auth` of `connect`.
        transport: the form of HTTP; None finds it out.
        revision: the one revision to speak; None negotiates.
        timeout: seconds to wait for an answer.
        start_timeout: seconds to wait for the server to start.
        folders: folders with the Python code of the server; a change restarts it.
    """

    title: str
    shown: str = ""
    command: Sequence[str] = ()
    url: str = ""
    env: Mapping[str, str] | None = None
    cwd: str | None = None
    headers: Mapping[str, str] = {}
    auth: Any = None
    transport: Literal["http", "sse"] | None = None
    revision: RevisionId | None = None
    timeout: float = 60.0
    start_timeout: float = 30.0
    folders: tuple[Path, ...] = ()


class InspectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the inspector works.

    Attributes:
        keep_bytes: how many bytes of messages each session keeps.
        shows_secrets: whether the page may ask for masked values.
        history: the file that keeps calls; None keeps them in memory.
        record: where a trace of the session is written.
        advise: rewrites advice of the library for the reader, such as parameters as options.
    """

    keep_bytes: int = 200 * 1024 * 1024
    shows_secrets: bool = True
    history: Path | None = None
    record: Path | None = None
    advise: Callable[[str], str] = str


class Download(msgspec.Struct, frozen=True):
    """The answer to an action that is a file for the person."""

    name: str
    media_type: str
    chunks: Iterable[bytes]

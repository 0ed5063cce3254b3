"""The names of what workers keep in a store, and what a worker says of itself there.

The part in braces keeps everything of one session, and everything of one worker, together.
"""

from typing import Final

import msgspec

WORKERS: Final = "workers"
"""The index of workers that have started and were not taken over."""

SESSIONS: Final = "sessions"
"""The index of open sessions."""

BROADCAST: Final = "broadcast"
"""The log of messages to all workers, and the topic that is notified of them."""

EPOCH: Final = "epoch"
"""The record that says whether the store is still the same one."""

SECRET: Final = "secret"  # noqa: S105  # the name of a record
"""The record of the key that workers share if none is given."""


def lease_of(worker: str) -> str:
    """Return the record that lives as long as a worker does."""
    return f"{{w{worker}}}w"


def inbox_of(worker: str) -> str:
    """Return the log of messages to a worker, and the topic that is notified of them."""
    return f"{{w{worker}}}i"


def recovery_records_of(worker: str) -> str:
    """Return the index of what another worker has to end or to go on with if this one is lost."""
    return f"{{w{worker}}}f"


def takeover_of(worker: str) -> str:
    """Return the record that says that a worker is lost."""
    return f"{{w{worker}}}x"


def session_of(sid: str) -> str:
    """Return the record of a session."""
    return f"{{{sid}}}s"


def outbox_of(sid: str) -> str:
    """Return the log of a session's messages outside of any request, and its topic."""
    return f"{{{sid}}}o"


def stream_of(sid: str, stream: str) -> str:
    """Return the log of the messages that answer one POST, and its topic."""
    return f"{{{sid}}}l{stream}"


def call_of(sid: str, stream: str) -> str:
    """Return the record of the requests that a stream answers."""
    return f"{{{sid}}}r{stream}"


def question_of(sid: str, id: int | str) -> str:
    """Return the record of a request of the server that waits for its answer."""
    return f"{{{sid}}}q{id}"


def caller_index(caller: str) -> str:
    """Return the index of the sessions of one caller."""
    return f"{{c{caller}}}c"


class WorkerFacts(msgspec.Struct, frozen=True):
    """What a worker says of itself in the store, for operators.

    Attributes:
        started: in seconds since 1970.
        version: of accord.
    """

    id: str
    host: str
    pid: int
    started: float
    version: str

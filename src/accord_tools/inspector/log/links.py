"""Which rows belong together: a request, its answer, its progress, and its exchange over HTTP."""

from typing import TYPE_CHECKING, Final

import msgspec

from accord.protocol.party import Bounded
from accord_tools.inspector.log.entry import EntrySender, LogEntry
from accord_tools.inspector.log.sketch import Sketch, describe_result

if TYPE_CHECKING:
    from accord.types import RequestId

# Requests, tokens, exchanges and tasks of one connection that are remembered.
_REMEMBERED: Final = 10_000
_EXCHANGES: Final = 5_000
_CANCELLED: Final = 1_000
_OTHER: Final[dict[EntrySender, EntrySender]] = {"client": "server", "server": "client"}


class _Origin(msgspec.Struct, frozen=True, gc=False):
    """A request as its answers need it: its row, time, method and call."""

    number: int
    root: int
    t: float | None
    method: str
    call: str | None
    task: str = ""
    token: "RequestId | None" = None


class Links:
    """The ties between the rows of one connection."""

    def __init__(self) -> None:
        self._open: Bounded[tuple[EntrySender, RequestId], _Origin] = Bounded(_REMEMBERED)
        self._tokens: Bounded[tuple[EntrySender, RequestId], _Origin] = Bounded(_REMEMBERED)
        # Their answers may still come.
        self._cancelled: Bounded[tuple[EntrySender, RequestId], _Origin] = Bounded(_CANCELLED)
        self._exchanges: Bounded[str, _Origin] = Bounded(_EXCHANGES)
        self._tasks: Bounded[str, _Origin] = Bounded(_REMEMBERED)

    @property
    def unanswered_count(self) -> int:
        """How many requests wait for their answers."""
        return len(self._open)

    def connect(self, entry: LogEntry, sketch: Sketch) -> None:
        """Fill in what a row belongs to; the answer of a request is described here."""
        over = self._exchange_of(entry)
        if over is not None:
            entry.root, entry.call = over.root, over.call or entry.call
        for part in sketch.parts or (sketch,):
            self._connect_one(entry, part)
        entry.root = entry.root or (entry.number if sketch.kind in ("request", "batch") else 0)
        self._remember_exchange(entry)

    def _connect_one(self, entry: LogEntry, sketch: Sketch) -> None:
        if sketch.kind == "request":
            self._open_request(entry, sketch)
        elif sketch.kind in ("result", "error"):
            self._answer(entry, sketch)
        else:
            self._tie(entry, self._subject_of(entry.sender, sketch))

    def _tie(self, entry: LogEntry, origin: _Origin | None) -> None:
        if origin is not None:
            entry.root = origin.root
            entry.call = origin.call or entry.call

    def _open_request(self, entry: LogEntry, sketch: Sketch) -> None:
        if entry.root == 0 and sketch.task:
            self._tie(entry, self._tasks.get(sketch.task))
        root = entry.root or entry.number
        origin = _Origin(
            entry.number, root, entry.t, sketch.method, entry.call, sketch.task, sketch.token
        )
        if sketch.key is not None:
            self._open[entry.sender, sketch.key] = origin
        if sketch.token is not None:
            self._tokens[entry.sender, sketch.token] = origin

    def _answer(self, entry: LogEntry, sketch: Sketch) -> None:
        asker = _OTHER[entry.sender]
        origin = None
        if sketch.key is not None:
            key = (asker, sketch.key)
            origin = self._open.pop(key, None) or self._cancelled.pop(key, None)
        method, names_task = "" if origin is None else origin.method, False
        if sketch.kind == "result":
            brief, task = describe_result(method, sketch.result)
            entry.brief = entry.brief or brief
            if task and origin is not None and not origin.task:
                self._tasks[task], names_task = origin, True
        if origin is None:
            return
        if origin.token is not None and not names_task:
            # Progress may go on if the request became a task.
            self._tokens.pop((asker, origin.token), None)
        entry.method = entry.method or method
        self._tie(entry, origin)
        entry.pair = entry.pair or origin.number
        if entry.took is None and entry.t is not None and origin.t is not None:
            entry.took = round(entry.t - origin.t, 6)

    def _subject_of(self, sender: EntrySender, sketch: Sketch) -> _Origin | None:
        """Return the request that a notification is about."""
        other = _OTHER[sender]
        if sketch.subject is not None:
            own = self._open.pop((sender, sketch.subject), None)
            if own is not None:
                self._cancelled[sender, sketch.subject] = own
            return own or self._open.get((other, sketch.subject))
        if sketch.token is not None:
            return self._tokens.get((other, sketch.token))
        return self._tasks.get(sketch.task) if sketch.task else None

    # -- exchanges over HTTP

    def _exchange_of(self, entry: LogEntry) -> _Origin | None:
        name = None if entry.http is None else entry.http.exchange
        if name is None or entry.sender == "client":
            return None
        origin = self._exchanges.get(name)
        # The stream of a GET carries messages that have nothing to do with each other.
        if origin is not None and origin.method == "GET" and entry.kind != "http":
            return None
        return origin

    def _remember_exchange(self, entry: LogEntry) -> None:
        name = None if entry.http is None else entry.http.exchange
        if name is None or entry.sender != "client":
            return
        assert entry.http is not None
        if entry.kind == "http" and entry.root == 0:
            entry.root = entry.number
        method = entry.http.method or ""
        root = entry.root or entry.number
        self._exchanges[name] = _Origin(entry.number, root, entry.t, method, entry.call)

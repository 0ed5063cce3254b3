"""One call that a person made: what was sent, how it goes, what came back."""

import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from accord.errors import (
    AccordError,
    ConnectionClosed,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    RequestTimeout,
)
from accord.types import JsonObject, ProgressParams
from accord_tools.inspector.live.capture import Captured, CapturedExchange
from accord_tools.inspector.live.texts import show_text

if TYPE_CHECKING:
    import asyncio

    from accord.secrets.masks import Secrets

CallKind: TypeAlias = Literal["tool", "resource", "prompt", "request"]
CallState: TypeAlias = Literal["running", "done", "error", "cancelled", "timeout", "lost"]

_PROGRESS_KEPT: Final = 20
_EXPLANATIONS: Final = {
    -32700: "the server could not read the message as JSON",
    -32600: "the server takes the message for no valid request",
    -32601: "the server does not serve this method",
    -32602: "the server refuses the params: a name it does not know, or a wrong argument",
    -32603: "something failed within the server; its stderr may say what",
    -32002: "the server does not have this resource",
    -32020: "the headers of the HTTP request do not agree with the message",
    -32021: "the client did not declare a capability that this needs",
    -32022: "the server does not speak this revision",
    -32042: "a person has to open a page first",
    -1: "a person refused it",
}


class CallError(NamedTuple):
    """Why a call has no result."""

    code: int | None
    message: str
    explanation: str = ""


class Call:
    """One call.

    Args:
        id: of the call.
        kind: what is called.
        name: the tool, prompt, URI or method.
        arguments: what the person typed, as text.
    """

    def __init__(self, id: str, kind: CallKind, name: str, arguments: str) -> None:
        self.id = id
        self.kind: CallKind = kind
        self.name = name
        self.arguments = arguments
        self.state: CallState = "running"
        self.at = time.time()
        self.seconds: float | None = None
        self.error: CallError | None = None
        self.progress: deque[JsonObject] = deque(maxlen=_PROGRESS_KEPT)
        self.tasks: list[str] = []
        self.rule_answers = 0
        self.captured = Captured()
        self.revision = ""
        self.is_error = False
        self.size: int | None = None
        self.schema_errors: list[JsonObject] | None = None
        self.work: asyncio.Task[Any] | None = None
        self._started = time.monotonic()

    @property
    def is_running(self) -> bool:
        """Whether it is under way."""
        return self.state == "running"

    # -- what happens to it

    def note_progress(self, params: ProgressParams) -> None:
        """Keep what the server reports."""
        self.progress.append(
            {
                "value": params.progress,
                "total": params.total,
                "message": params.message or "",
                "seconds": time.monotonic() - self._started,
            }
        )

    def end(self, state: CallState, error: CallError | None = None) -> None:
        """Note how it ended."""
        self.state, self.error = state, error
        self.seconds = time.monotonic() - self._started
        self.measure()
        self.is_error = self._says_error()

    def measure(self) -> None:
        """Note the size of the answer, which may come late."""
        response = self.response
        self.size = None if response is None else len(response)

    def end_with(self, error: AccordError) -> None:
        """Note that it failed."""
        if isinstance(error, RequestTimeout):
            self.end("timeout", CallError(None, str(error)))
        elif isinstance(error, ConnectionClosed):
            why = "the connection ended; the server may have done its work all the same"
            if "not sent" in str(error):
                why = "the server never got it; start the server, then run this again"
            self.end("lost", CallError(None, str(error), why))
        elif isinstance(error, RequestError):
            explained = _EXPLANATIONS.get(error.code, "") if error.is_received else ""
            self.end("error", CallError(error.code, str(error), explained))
        elif isinstance(error, LocalProtocolError):
            why = "nothing was sent: the protocol forbids it; the raw pane sends anything"
            self.end("error", CallError(None, str(error), why))
        elif not isinstance(error, RemoteProtocolError):
            self.end("error", CallError(None, str(error)))
        else:
            # The answer came, and is shown beside what is wrong with it.
            state: CallState = "done" if self.response is not None else "error"
            self.end(state, CallError(None, str(error), "the answer breaks the protocol"))

    # -- what came

    def _last(self) -> CapturedExchange | None:
        """Return the exchange with the answer: a task is followed by several requests."""
        found = self.captured.last("tasks/result")
        if found is not None and found.answer is not None:
            return found
        polled = self.captured.last("tasks/get")
        if polled is not None and _outcome(polled) is not None:
            return polled
        return self.captured.last("tools/call", "resources/read", "prompts/get") or (
            self.captured.last()
        )

    @property
    def response(self) -> bytes | None:
        """The result or the error, as it came."""
        last = self._last()
        if last is None:
            return None
        return _outcome(last) or last.result or last.error

    @property
    def is_late(self) -> bool:
        """Whether the answer came after the call was given up."""
        return self.state in ("cancelled", "timeout") and self.size is not None

    def _says_error(self) -> bool:
        if self.state == "error":
            return True
        found = self.response
        if self.kind != "tool" or found is None:
            return False
        try:
            return msgspec.json.decode(found, type=_Outcome).is_error is True
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return False

    # -- for the page

    def snapshot(self) -> JsonObject:
        """Return the row of the call."""
        return {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "state": self.state,
            "at": self.at,
            "seconds": self.seconds,
            "progress": self.progress[-1] if self.progress else None,
            "is_error": self.is_error,
            "size": self.size,
        }

    def describe(self, secrets: "Secrets | None") -> JsonObject:
        """Return everything but what the log knows.

        Args:
            secrets: those of the conversation, so that equal ones look equal; None shows them.
        """
        last, first = self._last(), next(iter(self.captured.exchanges), None)
        texts: dict[str, str | None] = {
            "request": None if first is None else show_text(first.request),
            "response": _show(self.response),
        }
        is_masked = False
        if secrets is not None:
            plain = dict(texts)
            if first is not None:
                texts["request"] = show_text(first.hide(first.request, secrets))
            if last is not None and last.answer is not None:
                answer = CapturedExchange(last.id, last.method, b"")
                answer.answer = last.hide(last.answer, secrets)
                texts["response"] = _show(_outcome(answer) or answer.result or answer.error)
            is_masked = texts != plain
        return {
            **self.snapshot(),
            **texts,
            # As the person typed them.
            "arguments": self.arguments,
            "is_masked": is_masked,
            "is_late": self.is_late,
            "error": None if self.error is None else self.error._asdict(),
            "progress_seen": list(self.progress),
            "tasks": self.tasks,
            "rule_answers": self.rule_answers,
            "revision": self.revision,
        }


def _show(data: bytes | None) -> str | None:
    return None if data is None else show_text(data)


class _Outcome(msgspec.Struct):
    is_error: Any = msgspec.field(name="isError", default=None)


class _TaskOutcome(msgspec.Struct):
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def _outcome(exchange: CapturedExchange) -> bytes | None:
    """Return the result that the tasks extension reports with the task."""
    found = exchange.result if exchange.method == "tasks/get" else None
    if found is None:
        return None
    try:
        outcome = msgspec.json.decode(found, type=_TaskOutcome)
    except msgspec.MsgspecError:
        return None
    for each in (outcome.result, outcome.error):
        if each is not msgspec.UNSET:
            return bytes(each)
    return None

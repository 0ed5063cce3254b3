"""Every exception of accord.

AccordError
|- ProtocolError                a rule was broken; .violations
|  |- LocalProtocolError        by us: raised before a byte leaves
|  |  |- MessageTooLarge        a message exceeds a limit; .size .limit .setting
|  |- RemoteProtocolError       by the other party
|- RequestError                 an answer, raised by handlers and in clients; .code .message .data
|  |- ParseError, InvalidRequest, MethodNotFound, InvalidParams, InternalError
|  |- ResourceNotFound, MissingCapability, UnsupportedRevision
|  |- HeaderMismatch
|  |- UrlElicitationRequired    the user has to visit pages first; .elicitations
|- ToolError                    becomes a tool result with isError; never a JSON-RPC error
|  |- ElicitationRefused        the user declined or cancelled; .action
|  |- SessionRequired           the request is not part of a session; also a LookupError
|- TransportError               the connection, not the protocol
|  |- ConnectFailed             it could not be made; .command .exit_code .phase .stderr
|  |- ConnectionClosed          it is gone
|  |- RequestTimeout            no answer in time; also a TimeoutError
|- AuthError                    authorization
|  |- Unauthorized              no token that the server takes; .status .challenge
|  |- Forbidden                 the token does not allow it; .scopes
|  |- FlowFailed                no token could be obtained; .step .asked .came .hint
|  |- UpstreamFailed            an identity provider gave no token; .provider; also a ToolError
|  |  |- SignInRequired         nor will it, until the user signs in again
|- RegistrationError            a mistake in the server author's code, raised when it is registered
|- ConfigurationError           a configuration of servers is wrong; also a ValueError
|- ServerNotFound               not one server is meant by a name or URI; .known; also a KeyError
|- TraceError                   a recording that cannot be read; .line
|- StoreError                   state that is shared by several processes
|  |- StoreUnavailable          the store does not answer, or cannot be reached
|  |  |- StoreFull              it answers, but takes nothing more
|  |- Conflict                  a record or log is not as expected; .record .last
|  |- Fenced                    another worker has taken a log over
|  |- LogClosed                 a log has its last entry already
|  |- DamagedRecord             something was altered, or was not written by accord
|- MissingExtra (ImportError)   names the extra to install
|- OutdatedPackage              a package is older than can be used safely; .package .version

Messages are lower case, name the thing and the expectation, and end without a dot.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

__all__ = [
    "AccordError",
    "AuthError",
    "ConfigurationError",
    "Conflict",
    "ConnectFailed",
    "ConnectionClosed",
    "DamagedRecord",
    "ElicitationRefused",
    "Fenced",
    "FlowFailed",
    "Forbidden",
    "HeaderMismatch",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "LocalProtocolError",
    "LogClosed",
    "MessageTooLarge",
    "MethodNotFound",
    "MissingCapability",
    "MissingExtra",
    "OutdatedPackage",
    "ParseError",
    "ProtocolError",
    "RegistrationError",
    "RemoteProtocolError",
    "RequestError",
    "RequestTimeout",
    "ResourceNotFound",
    "ServerNotFound",
    "SessionRequired",
    "SignInRequired",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "ToolError",
    "TraceError",
    "TransportError",
    "Unauthorized",
    "UnsupportedRevision",
    "UpstreamFailed",
    "UrlElicitationRequired",
]


def lower_first(text: object) -> str:
    """Return what a text or an error says, as part of a message."""
    sentence = str(text)
    return sentence[:1].lower() + sentence[1:]


class AccordError(Exception):
    """Base of all errors raised by accord."""


class ProtocolError(AccordError):
    """A rule of the protocol was broken."""

    def __init__(self, message: str, violations: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.violations = tuple(violations)


class LocalProtocolError(ProtocolError):
    """We were about to break a rule; nothing was sent."""


class MessageTooLarge(LocalProtocolError):
    """A message of ours is beyond one of its `Limits`; nothing was sent.

    Attributes:
        size: its bytes, values or levels.
        limit: how many it may have.
        setting: the member of `Limits` that says so.
    """

    def __init__(self, what: str, *, size: int, limit: int, setting: str = "message_bytes") -> None:
        self.size = size
        self.limit = limit
        self.setting = setting
        self.advice = f"limits=Limits({setting}=...) raises it"
        super().__init__(f"{self.explain(what)}; {self.advice}")

    def explain(self, what: str) -> str:
        """Return what is too large about something, and for which limit."""
        return _EXCESS[self.setting].format(what=what, size=self.size, limit=self.limit)


_EXCESS: Final = {
    "message_bytes": "{what} has {size} bytes, more than the limit of {limit} (message_bytes)",
    "message_values": "{what} holds {size} values, more than the limit of {limit} (message_values)",
    "depth": "{what} nests {size} levels deep, more than the limit of {limit} (depth)",
}


class RemoteProtocolError(ProtocolError):
    """The other party broke a rule."""


class RequestError(AccordError):
    """A request that is answered, or was answered, with a JSON-RPC error."""

    default_code: ClassVar[int] = -32603
    is_received: bool = False
    """Whether another party answered with it, rather than our own code raising it."""

    def __init__(self, message: str, *, code: int | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.code = self.default_code if code is None else code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class ParseError(RequestError):
    """The bytes are not JSON."""

    default_code = -32700


class InvalidRequest(RequestError):
    """The JSON is not a message, or not one that may come now."""

    default_code = -32600


class MethodNotFound(RequestError):
    """The method does not exist here, or its capability was not declared."""

    default_code = -32601


class InvalidParams(RequestError):
    """The parameters do not fit the method."""

    default_code = -32602


class InternalError(RequestError):
    """The request failed for reasons that are not the caller's."""

    default_code = -32603


class ResourceNotFound(RequestError):
    """No resource has this URI; the revision decides the code that travels."""

    default_code = -32002


class HeaderMismatch(RequestError):
    """A mirrored header is missing, malformed or different from the body."""

    default_code = -32020


class MissingCapability(RequestError):
    """The request needs a capability that the client did not declare."""

    default_code = -32021


class UnsupportedRevision(RequestError):
    """The revision asked for is not spoken here."""

    default_code = -32022


class UrlElicitationRequired(RequestError):
    """The user has to visit pages before the request can succeed.

    Handlers raise it with what `Context.prepare_url` returns; in clients `elicitations` has the
    params of each page, as `ElicitParams`.

        raise UrlElicitationRequired("link your account", elicitations=[page])
    """

    default_code = -32042

    def __init__(
        self,
        message: str,
        *,
        elicitations: Sequence[Any] = (),
        code: int | None = None,
        data: Any = None,
    ) -> None:
        super().__init__(message, code=code, data=data)
        self.elicitations = tuple(elicitations)


class ToolError(AccordError):
    """A tool failed in a way its caller should read: the text becomes a result with isError.

    `data` is JSON for programs: it becomes the structured content of the result.
    """

    data: Mapping[str, Any] | None = None

    def __init__(self, *args: object, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(*args)
        self.data = data


class ElicitationRefused(ToolError):
    """The user did not fill in the form or open the page: `action` is "decline" or "cancel"."""

    def __init__(self, action: Literal["decline", "cancel"]) -> None:
        super().__init__(f"the user {'declined to' if action == 'decline' else 'did not'} answer")
        self.action = action


class SessionRequired(ToolError, LookupError):
    """The request is not part of a session, and its handler needs one."""


class TransportError(AccordError):
    """The connection failed, not the protocol."""


class ConnectFailed(TransportError):
    """No connection could be made.

    For a launched server, `command` is what was run, `exit_code` how it ended (None while it ran),
    `phase` how far it came, and `stderr` the last lines it wrote.
    """

    def __init__(
        self,
        message: str,
        *,
        command: Sequence[str] = (),
        exit_code: int | None = None,
        phase: str | None = None,
        stderr: str = "",
    ) -> None:
        super().__init__(message)
        self.command = tuple(command)
        self.exit_code = exit_code
        self.phase = phase
        self.stderr = stderr


class ConnectionClosed(TransportError):
    """The connection is gone; what was asked will not be answered."""


class RequestTimeout(TransportError, TimeoutError):
    """The answer did not arrive in time; the request was cancelled. The text names the limit."""


class AuthError(AccordError):
    """Authorization failed, not the protocol."""


class Unauthorized(AuthError):
    """The server takes no request without a token, or not this token.

    `status` is what it answered with, `challenge` what its WWW-Authenticate header says.
    """

    def __init__(self, message: str, *, status: int = 401, challenge: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.challenge = challenge


class Forbidden(AuthError):
    """The token is good, and does not allow this; `scopes` would."""

    def __init__(self, message: str, *, scopes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.scopes = tuple(scopes)


class FlowFailed(AuthError):
    """No token could be obtained.

    `step` says where the flow stopped, `asked` what was sent where, `came` what came back, `hint`
    what to change.
    """

    def __init__(self, step: str, *, asked: str = "", came: str = "", hint: str = "") -> None:
        parts = [
            f"authorization failed at {step}",
            asked and f"asked: {asked}",
            came and f"came: {came}",
            hint and f"try: {hint}",
        ]
        super().__init__("; ".join(each for each in parts if each))
        self.step = step
        self.asked = asked
        self.came = came
        self.hint = hint


class UpstreamFailed(AuthError, ToolError):
    """The identity provider that the user signed in with gave no token: try again later.

    `provider` is its name. A tool that does not catch it reports it to its caller.
    """

    def __init__(self, message: str, *, provider: str) -> None:
        super().__init__(message)
        self.provider = provider


class SignInRequired(UpstreamFailed):
    """The identity provider gives no token any more: the user has to sign in again."""


class RegistrationError(AccordError):
    """A tool, resource or prompt cannot be registered as written."""


class ConfigurationError(AccordError, ValueError):
    """A configuration of servers is wrong; the text names the file, the entry and the member."""


class ServerNotFound(AccordError, KeyError):
    """No server of several has the name or the URI, or more than one has; `known` are those."""

    def __init__(self, message: str, *, known: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.known = tuple(known)

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would put it in quotes


class TraceError(AccordError):
    """A recording cannot be read; `line` counts from 1."""

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.line = line


class StoreError(AccordError):
    """State that several processes share could not be read or changed."""


class StoreUnavailable(StoreError):
    """The store does not answer in time, or cannot be reached; it may be back soon."""


class StoreFull(StoreUnavailable):
    """The store answers, but has no room."""


class Conflict(StoreError):
    """A record or a log is not as the caller expected; nothing was changed.

    Attributes:
        record: the record as it is, for a record; None if it does not exist.
        last: the number of the last entry, for a log.
    """

    def __init__(self, message: str, *, record: Any = None, last: int = 0) -> None:
        super().__init__(message)
        self.record = record
        self.last = last


class Fenced(StoreError):
    """Another worker has taken over what this one was writing; nothing was written."""


class LogClosed(StoreError):
    """A log has its last entry already; nothing was written."""


class DamagedRecord(StoreError):
    """What a store holds was altered, or was not written by accord."""


class MissingExtra(AccordError, ImportError):
    """An optional part is not installed."""

    def __init__(self, extra: str, *, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the extra '{extra}': "
            f"run pip install '.[{extra}]' in a checkout of accord"
        )
        self.extra = extra


class OutdatedPackage(AccordError):
    """An optional package is installed in a version with known faults."""

    def __init__(
        self, package: str, version: str, least: str, *, extra: str, needed_for: str
    ) -> None:
        super().__init__(
            f"{needed_for} needs {package} {least} or newer, but {version} is installed: "
            f"run pip install '.[{extra}]' in a checkout of accord"
        )
        self.package = package
        self.version = version


# -- keywords: where options are passed on as a dictionary, Python does not notice a misspelt one


def refuse_unknown(call: str, given: Collection[str], known: Collection[str]) -> None:
    """Refuse keywords that a call does not have.

    Raises:
        TypeError: there is one; the message names the closest that exists.

    >>> refuse_unknown("tool()", ["timeot"], ["name", "timeout"])
    Traceback (most recent call last):
    TypeError: tool() has no keyword 'timeot'; did you mean 'timeout'?
    """
    for name in given:
        if name not in known:
            raise TypeError(f"{call} has no keyword {name!r}; {suggest_keyword(name, known)}")


def suggest_keyword(name: str, known: Collection[str]) -> str:
    """Return which keyword may have been meant by one that does not exist.

    >>> suggest_keyword("outputSchema", ["name", "output_schema"])
    "did you mean 'output_schema'?"
    """
    snake = "".join(f"_{each.lower()}" if each.isupper() else each for each in name)
    if snake in known:
        return f"did you mean {snake!r}?"
    from difflib import get_close_matches  # 3 ms, and most calls are spelt well

    close = get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"it has {', '.join(sorted(known))}" if known else "it has no keywords"

"""What callers give: the options of a connection and of one call, and arguments.

All of it is checked before anything is sent, so that no mistake looks like an answer.
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypedDict

import msgspec

from accord.http.client.auth import Auth
from accord.http.client.sender import HttpClientOptions, HttpHeaders
from accord.protocol.codec import Limits
from accord.protocol.exchange import META_CAPABILITIES, META_VERSION
from accord.protocol.party import META_CLIENT, META_LOG_LEVEL
from accord.protocol.revisions import REVISIONS, in_order
from accord.stdio.child import StderrSink
from accord.types import (
    CreateMessageParams,
    CreateMessageResult,
    ElicitParams,
    ElicitResult,
    Implementation,
    JsonObject,
    LogMessageParams,
    ProgressParams,
    PromptReference,
    ResourceTemplateReference,
    RevisionId,
    Root,
)

if TYPE_CHECKING:
    from accord.client.callbacks import Callbacks
    from accord.client.middleware import ClientMiddleware


Sampled: TypeAlias = CreateMessageResult | Literal[False] | None
OnSample: TypeAlias = Callable[[CreateMessageParams], Sampled | Awaitable[Sampled]]
"""Asks the model; None and False refuse.

A plain function runs in a thread of its own, so it may wait for a human.
"""

Elicited: TypeAlias = ElicitResult | Mapping[str, object] | bool | None
OnElicit: TypeAlias = Callable[[ElicitParams], Elicited | Awaitable[Elicited]]
"""Asks the user: content accepts, False declines, None cancels. Plain functions run in a thread."""

Visited: TypeAlias = ElicitResult | bool | None
OnElicitUrl: TypeAlias = Callable[[ElicitParams], Visited | Awaitable[Visited]]
"""Shows the user a URL: True once the user agreed to open it, False declines, None cancels.

Show the whole URL and its host, and neither fetch nor open it before the user agrees. Plain
functions run in a thread.
"""

RootList: TypeAlias = Iterable[str | os.PathLike[str] | Root]
Roots: TypeAlias = RootList | Callable[[], RootList | Awaitable[RootList]]
"""Folders as paths, file URIs or roots, or a function that returns them."""

OnLog: TypeAlias = Callable[[LogMessageParams], object]
OnProgress: TypeAlias = Callable[[ProgressParams], object]
OnChange: TypeAlias = Callable[[], object]
OnUpdate: TypeAlias = Callable[[str], object]
OnComplete: TypeAlias = Callable[[str], object]


_TIMES: Final = (
    "timeout",
    "cap",
    "connect_timeout",
    "probe_timeout",
    "exit_grace",
    "terminate_grace",
)


class CallOptions(TypedDict, total=False):
    """Options of one call.

    `timeout` is the time without answer or progress after which the request is cancelled, `cap` the
    time after which it is cancelled whatever progress comes; `math.inf` waits for ever, None takes
    the default of the connection. `meta` travels as `_meta`, `headers` with the HTTP request.
    `fresh` fetches a list or a resource even if an earlier result is still fresh.
    """

    timeout: float | None
    cap: float | None
    on_progress: OnProgress | None
    meta: JsonObject | None
    headers: Mapping[str, str] | None
    fresh: bool


class WireOptions(TypedDict, total=False):
    """Options of how a connection is made: those that proxies have, too."""

    revision: RevisionId | None
    revisions: Sequence[RevisionId] | None
    client_info: Implementation | None
    timeout: float
    cap: float
    connect_timeout: float
    probe_timeout: float | None
    env: Mapping[str, str] | None
    cwd: str | os.PathLike[str] | None
    stderr: StderrSink
    exit_grace: float
    terminate_grace: float
    transport: Literal["http", "sse"] | None
    headers: HttpHeaders | None
    auth: Auth | None
    http: HttpClientOptions | None
    limits: Limits
    empty_pages: int


class ConnectOptions(WireOptions, total=False):
    """Options of a connection; `connect` describes them."""

    on_sample: OnSample | None
    on_elicit: OnElicit | None
    on_elicit_url: OnElicitUrl | None
    on_elicitation_complete: OnComplete | None
    sampling_tools: bool
    sampling_context: bool
    roots: Roots | None
    on_log: OnLog | None
    on_progress: OnProgress | None
    on_tools_changed: OnChange | None
    on_resources_changed: OnChange | None
    on_prompts_changed: OnChange | None
    on_resource_updated: OnUpdate | None
    on_renewed: OnChange | None
    rounds: int
    cache: bool
    middleware: "Sequence[ClientMiddleware]"


def check_seconds(name: str, value: object) -> None:
    """Check that a time is a number, not a timedelta for example; None is allowed.

    Raises:
        TypeError: it is something else.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise TypeError(f"{name} is {value!r}, expected a number of seconds")


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """The options of a connection with their defaults."""

    revision: RevisionId | None = None
    revisions: Sequence[RevisionId] | None = None
    client_info: Implementation | None = None
    on_sample: OnSample | None = None
    on_elicit: OnElicit | None = None
    on_elicit_url: OnElicitUrl | None = None
    on_elicitation_complete: OnComplete | None = None
    sampling_tools: bool = False
    sampling_context: bool = False
    roots: Roots | None = None
    on_log: OnLog | None = None
    on_progress: OnProgress | None = None
    on_tools_changed: OnChange | None = None
    on_resources_changed: OnChange | None = None
    on_prompts_changed: OnChange | None = None
    on_resource_updated: OnUpdate | None = None
    timeout: float = 60.0
    cap: float = 3_600.0
    connect_timeout: float = 30.0
    # A third of connect_timeout, unless given.
    probe_timeout: float | None = None
    env: Mapping[str, str] | None = None
    cwd: str | os.PathLike[str] | None = None
    stderr: StderrSink = "keep"
    exit_grace: float = 2.0
    terminate_grace: float = 2.0
    transport: Literal["http", "sse"] | None = None
    headers: HttpHeaders | None = None
    auth: Auth | None = None
    http: HttpClientOptions | None = None
    on_renewed: OnChange | None = None
    limits: Limits = field(default_factory=Limits)
    # Servers that filter a page after they have cut it may send a few without an entry.
    empty_pages: int = 100
    # Servers that ask again and again are stopped; one that leads through a form asks a few times.
    rounds: int = 10
    cache: bool = True
    middleware: "Sequence[ClientMiddleware]" = ()

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name.startswith("on_") and value is not None and not callable(value):
                raise TypeError(f"{name} is {value!r}, expected a function")
        for name in ("sampling_tools", "sampling_context"):
            if getattr(self, name) and self.on_sample is None:
                raise TypeError(f"{name} is for on_sample, which is not given")
        if self.middleware:
            from accord.client.middleware import check_middleware

            check_middleware(self.middleware)
        for name in _TIMES:
            check_seconds(name, getattr(self, name))

    def build_callbacks(self) -> "Callbacks":
        """Return what handles the messages of the server."""
        from accord.client.callbacks import Callbacks

        return Callbacks(self)

    @property
    def hears_of_changes(self) -> bool:
        """Whether a callback is given for changes of a list, and a stream may be kept open."""
        lists = (self.on_tools_changed, self.on_prompts_changed, self.on_resources_changed)
        may_listen = self.http is None or self.http.listen
        return may_listen and any(callback is not None for callback in lists)

    def offered_revisions(self) -> tuple[RevisionId, ...]:
        """Return the revisions to negotiate, newest first.

        Raises:
            ValueError: one of them does not exist, or the list is empty.
        """
        if self.revision is not None:
            named: list[RevisionId] = [self.revision]
        elif self.revisions is not None:
            given: Sequence[RevisionId] | RevisionId = self.revisions
            named = [given] if isinstance(given, str) else list(given)  # as servers do
        else:
            named = [row.id for row in REVISIONS.values()]
        unknown = [name for name in named if name not in REVISIONS]
        if unknown:
            known = ", ".join(REVISIONS)
            raise ValueError(f"unknown revision {unknown[0]!r}; the known ones are {known}")
        if not named:
            raise ValueError("revisions is empty, expected at least one")
        return tuple(in_order(set(named))[::-1])


# -- arguments

_NO_ARGUMENTS: Final = msgspec.Raw(b"{}")
_RESERVED: Final = {
    META_VERSION: "connect(..., revision=...) chooses it",
    META_CAPABILITIES: "the callbacks of the connection declare them",
    META_CLIENT: "connect(..., client_info=...) says it",
    META_LOG_LEVEL: "client.set_log_level(...) chooses it",
}
_encode: Final = msgspec.json.Encoder().encode


class OwnMeta(dict[str, object]):
    """Members of `_meta` that the client itself made; they may have reserved names."""


def encode_arguments(arguments: Mapping[str, object] | None) -> msgspec.Raw:
    """Encode the arguments of a tool."""
    # Some servers want the member even where the tool takes nothing.
    if arguments is None:
        return _NO_ARGUMENTS
    if arguments.__class__ is not dict and not isinstance(arguments, Mapping):
        raise TypeError(f"arguments are a mapping by name, not a {type(arguments).__name__}")
    return msgspec.Raw(_encode(arguments))


def check_meta(meta: object) -> JsonObject:
    """Return the `meta` of a call.

    Raises:
        TypeError: it is not a dictionary with texts as keys.
        ValueError: it has a member that the client sets itself.
    """
    if type(meta) is OwnMeta:
        return meta
    if not isinstance(meta, dict) or not all(isinstance(key, str) for key in meta):
        raise TypeError(f"meta is {meta!r:.80}, expected a dictionary with texts as keys")
    for name, advice in _RESERVED.items():
        if name in meta:
            raise ValueError(f"meta has {name!r}, which the client sets: {advice}")
    return meta


def check_text(what: str, value: object) -> None:
    """Refuse a value that is not text.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r:.80}, expected text")


def check_texts(what: str, values: Mapping[str, object]) -> None:
    """Refuse arguments of which one is not text; `what` they belong to is part of the error.

    Raises:
        TypeError: one is something else.
    """
    for name, value in values.items():
        check_text(f"argument {name!r} of {what}", value)


def to_reference(given: object) -> PromptReference | ResourceTemplateReference:
    """Return what is to be completed.

    Raises:
        TypeError: it names neither a prompt nor a resource template.
    """
    if isinstance(given, PromptReference | ResourceTemplateReference):
        return given
    if isinstance(given, str) and given:
        is_uri = "{" in given or "://" in given
        return ResourceTemplateReference(given) if is_uri else PromptReference(given)
    raise TypeError(
        f"what to complete is {given!r:.80}; expected the name of a prompt, a template such as "
        "'note://{name}', PromptReference(name) or ResourceTemplateReference(uri)"
    )

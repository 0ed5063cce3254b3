"""The settings of a server over HTTP, each of them once.

`Server.run`, `serve` and `asgi` take them as keywords; the options and variables of `accord run`
and the table of docs/http.md are made from them.
"""

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypedDict

import msgspec

from accord.errors import refuse_unknown

if TYPE_CHECKING:
    from ssl import SSLContext

    from accord.http.server.stream import EventStore
    from accord.sharing.backends.backend import Backend

_SESSIONS: Final = 10_000


class Limit(msgspec.Struct, frozen=True, gc=False, eq=False):
    """Which values a setting may have.

    Attributes:
        expected: those, in words.
        allows: tells whether a value is one of them.
    """

    expected: str
    allows: Callable[[Any], bool]

    def check(self, name: str, value: object) -> None:
        """Refuse a value that a setting cannot have.

        Raises:
            ValueError: names the setting, the value and the limit.
        """
        if not self.allows(value):
            raise ValueError(f"{name} is {value!r}, expected {self.expected}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _one_of(*choices: object) -> Limit:
    *most, last = map(repr, choices)
    return Limit(f"{', '.join(most)} or {last}", lambda value: value in choices)


_ANY: Final = Limit("anything", lambda value: True)
_POSITIVE: Final = Limit("more than 0", lambda value: _is_number(value) and value > 0)
_NOT_NEGATIVE: Final = Limit("0 or more", lambda value: _is_number(value) and value >= 0)


_PATH: Final = Limit(
    "a path that begins with /, no query",
    lambda path: path.startswith("/") and not {"?", "#"} & {*path},
)
# In other frameworks `cors` is a list of origins.
_CORS: Final = Limit(
    "True or False; list the origins in allowed_origins", lambda value: value in (True, False)
)
_COUNT_OR_NONE: Final = Limit(
    "more than 0, or False for none", lambda value: value is False or _POSITIVE.allows(value)
)


class SettingRow(msgspec.Struct, frozen=True, gc=False, eq=False):
    """What there is to know about a setting beside its name, its type and what it is for.

    Attributes:
        default: its value if it is not given.
        limit: which values it may have, if its type does not say so.
        option: of the command line, with its value; it has a variable then: `find_variable`.
        help: what the option does, if that is not what the setting does.
        is_repeated: whether the option may be given more than once.
    """

    default: Any = None
    limit: Limit = _ANY
    option: str = ""
    help: str = ""
    is_repeated: bool = False


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much clients may use, and for how long; each number is more than 0.

    Attributes:
        connections: how many requests and streams may be open; with `run`, connections too
        connections_per_address: how many connections one address may have (the first 64 bits of an
            IPv6 address), of trusted proxies any number; with `run` and `serve` only
        body_timeout: seconds without a byte after which an incomplete request is refused; its head
            must be complete within them
        body_rate: bytes a second that a body must arrive at; it may be slower for three times
            `body_timeout`
        request_timeout: seconds until the body of a request must be complete, however steadily it
            comes
        bodies_bytes: how many bytes of incomplete bodies are kept, of all requests together
        opening_bytes: how many bytes a message may have before its client has a session; a request
            that stands on its own, as in 2026-07-28, may have as many as any message:
            `Server(limits=...)`
        write_timeout: seconds after which a client that reads nothing is disconnected
        unread_bytes: how many bytes all clients together may leave unread; beyond that, those that
            have not read for the longest time are disconnected at once

    Raises:
        ValueError: a limit is not a number of more than 0.
    """

    connections: int = 10_000
    connections_per_address: int = 2_000
    body_timeout: float = 10.0
    body_rate: int = 1024
    request_timeout: float = 600.0
    bodies_bytes: int = 40 * 1024 * 1024
    opening_bytes: int = 1024 * 1024
    write_timeout: float = 60.0
    unread_bytes: int = 32 * 1024 * 1024

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            _POSITIVE.check(name, getattr(self, name))


_HTTP_LIMITS: Final = Limit("HttpLimits(...)", lambda value: isinstance(value, HttpLimits))


class _FormerSettings(TypedDict, total=False):
    """Names of before, which still work and warn; the limits are those of `HttpLimits`."""

    stateless: bool
    connections: int
    connections_per_address: int
    body_timeout: float
    body_rate: int
    request_timeout: float
    bodies_bytes: int
    opening_bytes: int
    write_timeout: float
    unread_bytes: int


class HttpSettings(_FormerSettings, total=False):
    """How a server is reached over HTTP; the keywords of `Server.asgi`.

    Attributes:
        path: the path of the endpoint
        answers: `json` or `stream` for one form always; `auto` sends JSON unless progress, logs or
            questions precede the answer
        sse: serve the older form with two endpoints too, at /sse and /messages
        public_url: the URL that clients use, behind a proxy or from other machines
        allowed_hosts: further hosts that clients may use, with or without port; * for all
        allowed_origins: further origins of web pages that may send requests; * for all
        cors: whether web pages of allowed origins may read responses
        principal: a function of the ASGI scope that returns the caller of a request: a `Principal`,
            or what identifies the user, as text, a number, bytes, a UUID or a tuple of these; a
            session serves only the caller that opened it
        resumable: whether streams can be resumed
        events: keeps what was sent on resumable streams, such as
            `MemoryEventStore(session_bytes=..., bytes=...)`; by default in memory, 4 MB a session
            and 24 MB in all
        retry: milliseconds after which clients should reconnect when a stream is closed
        sessions: how many may be open; beyond that the longest idle one ends, a caller's own first.
            `False` for none: each request is served alone
        sessions_per_caller: how many of them one caller may have: one principal, or one address for
            requests without a principal. As many requests of one caller may only listen
        session_idle: seconds after which an unused session ends
        listeners: how many streams opened with GET one session may have
        keep_alive: seconds of silence after which a comment is sent on a stream; as often, the
            tokens of listening clients are verified again
        limits: how much clients may use: see [limits](#limits)
        access_log: log each request to the logger `accord.access`, as text (the default) or json
        metrics: serve counts at /metrics, for Prometheus
        store: where workers keep what they share: sqlite:///FILE on one machine,
            redis://HOST:PORT/DATABASE on several; a URL with a password is better in ACCORD_STORE,
            since other users of the machine see options
        store_keys: seal what is written to the store: the first [key](scaling.md#keys) seals, all
            of them open; `none` writes it as it is. By default those of ACCORD_STORE_KEYS
        store_patience: seconds that an operation of the store may take, and streams wait for one
            that does not answer; after as long a silence the worker is not ready
        lease: seconds of silence after which a worker counts as lost; shorter finds losses sooner,
            and takes a busy machine for a lost one
        stream_entries: how many entries of one stream the store keeps, the newest
        retention: seconds that a stream can be resumed after its end, with a store
        grace: seconds for running calls to finish at the end; 1.5 with `run` and `serve`
    """

    path: Annotated[str, SettingRow("/mcp", _PATH, "--path P")]
    answers: Annotated[
        Literal["auto", "json", "stream"], SettingRow("auto", _one_of("auto", "json", "stream"))
    ]
    sse: Annotated[bool, SettingRow(default=False, option="--sse")]
    public_url: Annotated[str | None, SettingRow(option="--public-url U")]
    allowed_hosts: Annotated[
        Iterable[str], SettingRow((), option="--allowed-host H", is_repeated=True)
    ]
    allowed_origins: Annotated[
        Iterable[str], SettingRow((), option="--allowed-origin O", is_repeated=True)
    ]
    cors: Annotated[bool, SettingRow(default=False, limit=_CORS)]
    principal: Annotated[Callable[[Mapping[str, Any]], Hashable] | None, SettingRow()]
    resumable: Annotated[bool, SettingRow(default=True)]
    events: Annotated["EventStore | None", SettingRow()]
    retry: Annotated[int, SettingRow(1000, _NOT_NEGATIVE)]
    sessions: Annotated[
        int | bool,
        SettingRow(
            _SESSIONS,
            _COUNT_OR_NONE,
            "--no-sessions",
            help="serve each request alone, without sessions",
        ),
    ]
    sessions_per_caller: Annotated[int, SettingRow(5_000, _POSITIVE)]
    session_idle: Annotated[float, SettingRow(1800.0, _POSITIVE)]
    listeners: Annotated[int, SettingRow(8, _POSITIVE)]
    keep_alive: Annotated[float, SettingRow(15.0, _POSITIVE)]
    limits: Annotated[HttpLimits, SettingRow(HttpLimits(), _HTTP_LIMITS)]
    access_log: Annotated[
        bool | Literal["text", "json"],
        SettingRow(
            default=False, limit=_one_of(True, False, "text", "json"), option="--access-log [F]"
        ),
    ]
    metrics: Annotated[bool, SettingRow(default=False, option="--metrics")]
    store: Annotated["str | Backend | None", SettingRow(option="--store URL")]
    store_keys: Annotated[Sequence[str | bytes] | Literal["none"] | None, SettingRow()]
    store_patience: Annotated[float, SettingRow(5.0, _POSITIVE)]
    lease: Annotated[float, SettingRow(5.0, _POSITIVE)]
    stream_entries: Annotated[int, SettingRow(10_000, _POSITIVE)]
    retention: Annotated[float, SettingRow(300.0, _POSITIVE)]
    grace: Annotated[float, SettingRow(5.0, _NOT_NEGATIVE, "--grace S")]


class ListenSettings(HttpSettings, total=False):
    """Where a server listens, and how it is reached; the keywords of `Server.run` and `serve`.

    Attributes:
        host: where to listen
        port: the port; 0 takes any free one
        listen: where to listen instead of host and port: HOST:PORT, :PORT for all addresses,
            unix:PATH, fd:NUMBER, or systemd for its sockets
        socket_mode: the mode of Unix sockets
        certificate: serve HTTPS with the certificate in this PEM file
        key: the PEM file with the key of the certificate, by default the same file
        key_password: the password of an encrypted key
        tls: a context of the module `ssl`, in place of a certificate
        workers: how many processes serve; auto for one on each core. Without a store they share a
            temporary one
    """

    host: Annotated[str, SettingRow("127.0.0.1", option="--host H")]
    port: Annotated[int, SettingRow(8000, option="--port P")]
    listen: Annotated[
        str | Sequence[str] | None, SettingRow(option="--listen ADDRESS", is_repeated=True)
    ]
    socket_mode: Annotated[int, SettingRow(0o660)]
    certificate: Annotated[str | PathLike[str] | None, SettingRow(option="--certificate F")]
    key: Annotated[str | PathLike[str] | None, SettingRow(option="--key F")]
    key_password: Annotated[str | None, SettingRow()]
    tls: Annotated["SSLContext | None", SettingRow()]
    workers: Annotated[int | Literal["auto"], SettingRow(1, option="--workers N")]


def settings_of(table: type) -> dict[str, SettingRow]:
    """Return the settings of a table by name, those of its bases first."""
    return {
        name: kind.__metadata__[0]
        for name, kind in table.__annotations__.items()
        if hasattr(kind, "__metadata__")
    }


def read_attributes(*tables: type) -> dict[str, str]:
    """Return what attributes of classes are, by name: their docstrings say it."""
    found: dict[str, str] = {}
    for table in tables:
        text = (table.__doc__ or "").partition("Attributes:\n")[2].partition("\n\n")[0]
        for line in text.replace("\n            ", " ").splitlines():
            name, colon, what = line.strip().partition(": ")
            if colon:
                found[name] = what
    return found


def find_variable(name: str) -> str:
    """Return the variable of the environment that has a setting if its option is not given."""
    return f"ACCORD_{name.upper()}"


_HTTP: Final = settings_of(HttpSettings)
LISTEN: Final = {
    name: each for name, each in settings_of(ListenSettings).items() if name not in _HTTP
}
"""Where a server listens, beside the settings of HTTP itself."""


def setting_of(app: object, name: str) -> Any:
    """Return a setting of an app of ours; None for those of others."""
    options = getattr(app, "options", None)
    return options.get(name) if isinstance(options, dict) else None


def read_http_settings(given: Mapping[str, Any]) -> HttpSettings:
    """Return all settings, those that are not given with their default.

    Raises:
        TypeError: a setting does not exist.
        ValueError: a value is invalid.
    """
    refuse_unknown("a server over HTTP", given, HttpSettings.__annotations__)
    found: Any = {name: setting.default for name, setting in _HTTP.items()} | _rename(given)
    for name in ("allowed_hosts", "allowed_origins"):
        if isinstance(found[name], str):
            raise ValueError(f"{name} is a string, expected a list of strings")  # noqa: TRY004
        found[name] = tuple(found[name])
    if found["sessions"] is True:
        found["sessions"] = _SESSIONS
    for name, setting in _HTTP.items():
        setting.limit.check(name, found[name])
    _check_together(found)
    settings: HttpSettings = found
    return settings


def _rename(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings under their present names."""
    found = dict(given)
    stateless = found.pop("stateless", None)
    if stateless is not None:
        _warn(f"stateless={stateless} is now sessions={not stateless}")
        if stateless:
            found["sessions"] = False
    limits = {name: found.pop(name) for name in HttpLimits.__struct_fields__ if name in found}
    if limits:
        words = ", ".join(f"{name}={value!r}" for name, value in limits.items())
        _warn(f"{words} is now limits=HttpLimits({words}); import it from accord.server")
        found["limits"] = msgspec.structs.replace(found.get("limits", HttpLimits()), **limits)
    return found


def _warn(what: str) -> None:
    import warnings

    warnings.warn(what, DeprecationWarning, stacklevel=_level_of_user())


def _level_of_user() -> int:
    """Return the stack level, for the caller's warnings, of the code that uses this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("accord."):
        frame, level = frame.f_back, level + 1
    return level


def _check_together(found: Mapping[str, Any]) -> None:
    """Refuse settings that exclude each other."""
    if found["sse"] and found["sessions"] is False:
        raise ValueError("sse needs sessions, which sessions=False turns off")
    keys = found["store_keys"]
    if isinstance(keys, str | bytes) and keys != "none":
        # A text is a sequence of texts too: each letter would be taken for a key.
        raise ValueError("store_keys is one text, expected a list of keys, or 'none'")
    if found["store"] is None and keys is not None:
        raise ValueError("store_keys seals what is written to a store; name that too")
    if found["store"] is not None and found["events"] is not None:
        raise ValueError("events and store both keep streams; leave one of them out")

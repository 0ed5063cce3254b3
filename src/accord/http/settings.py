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
from accord.runtime import GRACE

if TYPE_CHECKING:
    from ssl import SSLContext

    from accord.http.server.stream import EventStore
    from accord.sharing.backends.backend import Backend

_SESSIONS: Final = 10_000


class Limit(msgspec.Struct, frozen=True, gc=False):
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


_POSITIVE: Final = Limit("more than 0", lambda value: _is_number(value) and value > 0)
_NOT_NEGATIVE: Final = Limit("0 or more", lambda value: _is_number(value) and value >= 0)


class SettingRow(msgspec.Struct, frozen=True, gc=False):
    """What there is to know about a setting beside its name and its type.

    Attributes:
        what: what it is for, in a few words; the documentation and the help page have it.
        default: its value if it is not given.
        limit: which values it may have, if its type does not say so.
        option: of the command line, with its value.
        help: what the option does, if that is not what the setting does.
        is_repeated: whether the option may be given more than once.
        variable: of the environment, which has the value if the option is not given.
    """

    what: str
    default: Any = None
    limit: Limit | None = None
    option: str = ""
    help: str = ""
    is_repeated: bool = False
    variable: str = ""


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much clients may use, and for how long; docs/http.md explains each limit.

    Raises:
        ValueError: a limit is not a number of more than 0.
    """

    connections: Annotated[
        int, SettingRow("how many requests and streams may be open; with `run`, connections too")
    ] = 10_000
    connections_per_address: Annotated[
        int,
        SettingRow(
            "how many connections one address may have (the first 64 bits of an IPv6 address), of "
            "trusted proxies any number; with `run` and `serve` only"
        ),
    ] = 2_000
    body_timeout: Annotated[
        float,
        SettingRow(
            "seconds without a byte after which an incomplete request is refused; its head must be "
            "complete within them"
        ),
    ] = 10.0
    body_rate: Annotated[
        int,
        SettingRow(
            "bytes a second that a body must arrive at; it may be slower for three times "
            "`body_timeout`"
        ),
    ] = 1024
    request_timeout: Annotated[
        float,
        SettingRow(
            "seconds until the body of a request must be complete, however steadily it comes"
        ),
    ] = 600.0
    bodies_bytes: Annotated[
        int,
        SettingRow("how many bytes of incomplete bodies are kept, of all requests together"),
    ] = 40 * 1024 * 1024
    opening_bytes: Annotated[
        int,
        SettingRow(
            "how many bytes a message may have before its client has a session; a request that "
            "stands on its own, as in 2026-07-28, may have as many as any message: "
            "`Server(limits=...)`"
        ),
    ] = 1024 * 1024
    write_timeout: Annotated[
        float, SettingRow("seconds after which a client that reads nothing is disconnected")
    ] = 60.0
    unread_bytes: Annotated[
        int,
        SettingRow(
            "how many bytes all clients together may leave unread; beyond that, those that have "
            "not read for the longest time are disconnected at once"
        ),
    ] = 32 * 1024 * 1024

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            _POSITIVE.check(name, getattr(self, name))


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
    """How a server is reached over HTTP; the keywords of `Server.asgi`."""

    path: Annotated[
        str,
        SettingRow(
            "the path of the endpoint",
            "/mcp",
            Limit(
                "a path that begins with /, no query",
                lambda path: path.startswith("/") and not {"?", "#"} & {*path},
            ),
            option="--path P",
            variable="ACCORD_PATH",
        ),
    ]
    answers: Annotated[
        Literal["auto", "json", "stream"],
        SettingRow(
            "`json` or `stream` for one form always; `auto` sends JSON unless progress, logs or "
            "questions precede the answer",
            "auto",
            _one_of("auto", "json", "stream"),
        ),
    ]
    sse: Annotated[
        bool,
        SettingRow(
            "serve the older form with two endpoints too, at /sse and /messages",
            default=False,
            option="--sse",
            variable="ACCORD_SSE",
        ),
    ]
    public_url: Annotated[
        str | None,
        SettingRow(
            "the URL that clients use, behind a proxy or from other machines",
            option="--public-url U",
            variable="ACCORD_PUBLIC_URL",
        ),
    ]
    allowed_hosts: Annotated[
        Iterable[str],
        SettingRow(
            "further hosts that clients may use, with or without port; * for all",
            (),
            option="--allowed-host H",
            is_repeated=True,
            variable="ACCORD_ALLOWED_HOSTS",
        ),
    ]
    allowed_origins: Annotated[
        Iterable[str],
        SettingRow(
            "further origins of web pages that may send requests; * for all",
            (),
            option="--allowed-origin O",
            is_repeated=True,
            variable="ACCORD_ALLOWED_ORIGINS",
        ),
    ]
    cors: Annotated[
        bool,
        SettingRow(
            "whether web pages of allowed origins may read responses",
            default=False,
            # In other frameworks it is a list of origins.
            limit=Limit(
                "True or False; list the origins in allowed_origins",
                lambda value: value in (True, False),
            ),
        ),
    ]
    principal: Annotated[
        Callable[[Mapping[str, Any]], Hashable] | None,
        SettingRow(
            "a function of the ASGI scope that returns the caller of a request: a `Principal`, or "
            "what identifies the user, as text, a number, bytes, a UUID or a tuple of these; a "
            "session serves only the caller that opened it"
        ),
    ]
    resumable: Annotated[bool, SettingRow("whether streams can be resumed", default=True)]
    events: Annotated[
        "EventStore | None",
        SettingRow(
            "keeps what was sent on resumable streams, such as "
            "`MemoryEventStore(session_bytes=..., bytes=...)`; by default in memory, 4 MB a "
            "session and 24 MB in all"
        ),
    ]
    retry: Annotated[
        int,
        SettingRow(
            "milliseconds after which clients should reconnect when a stream is closed",
            1000,
            _NOT_NEGATIVE,
        ),
    ]
    sessions: Annotated[
        int | bool,
        SettingRow(
            "how many may be open; beyond that the longest idle one ends, a caller's own first. "
            "`False` for none: each request is served alone",
            _SESSIONS,
            Limit(
                "more than 0, or False for none",
                lambda value: value is False or _POSITIVE.allows(value),
            ),
            option="--no-sessions",
            help="serve each request alone, without sessions",
            variable="ACCORD_SESSIONS",
        ),
    ]
    sessions_per_caller: Annotated[
        int,
        SettingRow(
            "how many of them one caller may have: one principal, or one address for requests "
            "without a principal. As many requests of one caller may only listen",
            5_000,
            _POSITIVE,
        ),
    ]
    session_idle: Annotated[
        float, SettingRow("seconds after which an unused session ends", 1800.0, _POSITIVE)
    ]
    listeners: Annotated[
        int, SettingRow("how many streams opened with GET one session may have", 8, _POSITIVE)
    ]
    keep_alive: Annotated[
        float,
        SettingRow(
            "seconds of silence after which a comment is sent on a stream; as often, the tokens of "
            "listening clients are verified again",
            15.0,
            _POSITIVE,
        ),
    ]
    limits: Annotated[
        HttpLimits,
        SettingRow(
            "how much clients may use: see [limits](#limits)",
            HttpLimits(),
            Limit("HttpLimits(...)", lambda value: isinstance(value, HttpLimits)),
        ),
    ]
    access_log: Annotated[
        bool | Literal["text", "json"],
        SettingRow(
            "whether [each request is logged](deployment.md#logs) to the logger `accord.access`; "
            "`json` for lines that programs read",
            default=False,
            limit=_one_of(True, False, "text", "json"),
            option="--access-log [F]",
            help="log each request; F is text (default) or json",
            variable="ACCORD_ACCESS_LOG",
        ),
    ]
    metrics: Annotated[
        bool,
        SettingRow(
            "serve [counts](http.md#metrics) at /metrics, for Prometheus",
            default=False,
            option="--metrics",
            help="serve counts at /metrics, for Prometheus",
            variable="ACCORD_METRICS",
        ),
    ]
    store: Annotated[
        "str | Backend | None",
        SettingRow(
            "where workers keep what they share: sqlite:///FILE on one machine, "
            "redis://HOST:PORT/DATABASE on several; a URL with a password is better in "
            "ACCORD_STORE, since other users of the machine see options",
            option="--store URL",
            variable="ACCORD_STORE",
        ),
    ]
    store_keys: Annotated[
        Sequence[str | bytes] | Literal["none"] | None,
        SettingRow(
            "seal what is written to the store: the first [key](scaling.md#keys) seals, all of "
            "them open; `none` writes it as it is. By default those of ACCORD_STORE_KEYS"
        ),
    ]
    store_patience: Annotated[
        float,
        SettingRow(
            "seconds that an operation of the store may take, and streams wait for one that does "
            "not answer; after as long a silence the worker is not ready",
            5.0,
            _POSITIVE,
        ),
    ]
    lease: Annotated[
        float,
        SettingRow(
            "seconds of silence after which a worker counts as lost; shorter finds losses sooner, "
            "and takes a busy machine for a lost one",
            5.0,
            _POSITIVE,
        ),
    ]
    stream_entries: Annotated[
        int,
        SettingRow("how many entries of one stream the store keeps, the newest", 10_000, _POSITIVE),
    ]
    retention: Annotated[
        float,
        SettingRow(
            "seconds that a stream can be resumed after its end, with a store", 300.0, _POSITIVE
        ),
    ]
    grace: Annotated[
        float,
        SettingRow(
            f"seconds for running calls to finish at the end; {GRACE} with `run` and `serve`",
            5.0,
            _NOT_NEGATIVE,
            option="--grace S",
            help="seconds for running calls to finish after the input has ended",
            variable="ACCORD_GRACE",
        ),
    ]


class ListenSettings(HttpSettings, total=False):
    """Where a server listens, and how it is reached; the keywords of `Server.run` and `serve`."""

    host: Annotated[
        str, SettingRow("where to listen", "127.0.0.1", option="--host H", variable="ACCORD_HOST")
    ]
    port: Annotated[
        int,
        SettingRow(
            "the port; 0 takes any free one", 8000, option="--port P", variable="ACCORD_PORT"
        ),
    ]
    listen: Annotated[
        str | Sequence[str] | None,
        SettingRow(
            "where to listen instead of host and port: HOST:PORT, :PORT for all addresses, "
            "unix:PATH, fd:NUMBER, or systemd for its sockets",
            option="--listen ADDRESS",
            is_repeated=True,
            variable="ACCORD_LISTEN",
        ),
    ]
    socket_mode: Annotated[int, SettingRow("the mode of Unix sockets", 0o660)]
    certificate: Annotated[
        str | PathLike[str] | None,
        SettingRow(
            "serve HTTPS with the certificate in this PEM file",
            option="--certificate F",
            variable="ACCORD_CERTIFICATE",
        ),
    ]
    key: Annotated[
        str | PathLike[str] | None,
        SettingRow(
            "the PEM file with the key of the certificate, by default the same file",
            option="--key F",
            variable="ACCORD_KEY",
        ),
    ]
    key_password: Annotated[str | None, SettingRow("the password of an encrypted key")]
    tls: Annotated[
        "SSLContext | None", SettingRow("a context of the module `ssl`, in place of a certificate")
    ]
    workers: Annotated[
        int | Literal["auto"],
        SettingRow(
            "how many processes serve; auto for one on each core. Without a store they share a "
            "temporary one",
            1,
            option="--workers N",
            variable="ACCORD_WORKERS",
        ),
    ]


def settings_of(table: type) -> dict[str, SettingRow]:
    """Return the settings of a table by name, those of its bases first."""
    return {
        name: kind.__metadata__[0]
        for name, kind in table.__annotations__.items()
        if hasattr(kind, "__metadata__")
    }


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
        if setting.limit is not None:
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

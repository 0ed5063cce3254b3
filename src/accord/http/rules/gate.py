"""Pure decisions about HTTP requests: accept, or refuse with which status and why.

The same decisions serve the server and judge other people's traffic. They see a request's method
and headers, never its connection.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias, final
from urllib.parse import urlsplit

import msgspec

from accord.http.rules import headers as names
from accord.http.rules.addresses import LOOPBACK_HOSTS
from accord.http.rules.sse import CONTENT_TYPE
from accord.protocol.revisions import HANDSHAKE, REVISIONS, Revision

Form: TypeAlias = Literal["auto", "json", "stream"]
"""How requests are answered: as JSON unless there is more to say, or always one way."""

ALLOWED: Final = "GET, POST, DELETE, OPTIONS"

# What a client without the header speaks, as the revision that introduced it says.
UNNAMED: Final = next(row for row in REVISIONS.values() if row.streamable_http)

_JSON: Final = "application/json"
_SCHEMES: Final = ("http", "https")
_USUAL_PORTS: Final = {"http": ":80", "https": ":443"}

_HOST, _ORIGIN, _TYPE = b"host", b"origin", b"content-type"
_ACCEPT, _VERSION = b"accept", names.VERSION.encode()
_CODING = b"content-encoding"
DECISIVE: Final = (_HOST, _ORIGIN, _TYPE, _ACCEPT, _VERSION, _CODING)
# Heads differ by client and by page; overlong ones are not remembered.
_REMEMBERED: Final = 512
_SIZE_MOST: Final = 1_000

RawHeaders: TypeAlias = Mapping[bytes, bytes]


class RequestHead(msgspec.Struct, frozen=True):
    """The head of a request; header names are lower case, repeated ones are joined by ", "."""

    method: str
    headers: Mapping[str, str]
    version: str = "1.1"


@final
class HttpRefusal(msgspec.Struct, frozen=True):
    """Why a request is not served. `code` is that of the JSON-RPC error in its body."""

    status: int
    message: str
    code: int = -32600
    headers: tuple[tuple[str, str], ...] = ()


class HttpGuard(msgspec.Struct, frozen=True):
    """The hosts and origins from which a server may be called: loopback, and those named here.

    `hosts` are host names with or without port, `origins` whole origins; "*" admits all.
    """

    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    def refuse(self, head: RequestHead) -> HttpRefusal | None:
        """Refuse foreign hosts and origins, against DNS rebinding, and requests without a host."""
        # http.origin.validated
        host = head.headers.get("host")
        # RFC 9112, section 3.2: there is exactly one, unless the client speaks HTTP/1.0 or HTTP/2.
        if host is None and head.version == "1.1":
            return HttpRefusal(400, "the Host header is missing")
        if host is not None and ", " in host:
            return HttpRefusal(400, f"the Host header occurs twice: {host[:200]!r}")
        if host is not None and "*" not in self.hosts and not self._knows_host(host):
            return HttpRefusal(
                403, f"host {host[:200]!r} is not allowed; see public_url and allowed_hosts"
            )
        origin = head.headers.get("origin")
        if origin is None or "*" in self.origins or self._knows_origin(origin):
            return None
        return HttpRefusal(
            403, f"origin {origin[:200]!r} is not allowed; see public_url and allowed_origins"
        )

    def _knows_host(self, host: str) -> bool:
        name = _host_name(host)
        return name in LOOPBACK_HOSTS or host.lower() in self.hosts or name in self.hosts

    def _knows_origin(self, origin: str) -> bool:
        if origin.lower() in self.origins:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in _SCHEMES and (parts.hostname or "") in LOOPBACK_HOSTS


def _host_name(host: str) -> str:
    """Return the name without its port; empty where the header does not hold a host."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018  # raises where it is not a number
    except ValueError:
        return ""
    is_host = parts.netloc == host and parts.username is None
    return (parts.hostname or "") if is_host else ""


def guard_for(
    public_url: str | None = None, hosts: Iterable[str] = (), origins: Iterable[str] = ()
) -> HttpGuard:
    """Make the guard of a server that is reached under a public URL.

    Raises:
        ValueError: the URL, a host or an origin is malformed and would never match.
    """
    all_hosts = {_host_in(host) for host in hosts}
    all_origins = {_origin_in(origin) for origin in origins}
    if public_url is not None:
        parts = urlsplit(public_url)
        if parts.scheme not in _SCHEMES or not parts.hostname:
            raise ValueError(f"public_url is {public_url!r}, expected http(s)://host[:port][/path]")
        netloc = parts.netloc.rpartition("@")[2].lower()
        all_hosts |= {netloc, parts.hostname}
        all_origins.add(_origin_in(f"{parts.scheme}://{netloc}"))
    return HttpGuard(frozenset(all_hosts), frozenset(all_origins))


def _host_in(text: str) -> str:
    """Return a host as it is compared: without port where any will do, without its brackets."""
    host = text.lower().removesuffix(":*")
    if host.endswith("]") or (host.count(":") > 1 and "[" not in host):
        host = host.strip("[]")
        name = _host_name(f"[{host}]")
    else:
        name = _host_name(host)
    if host != "*" and (not name or "*" in name):
        raise ValueError(f"allowed_hosts has {text!r}, expected host or host:port, or '*' for all")
    return host


def _origin_in(text: str) -> str:
    """Return an origin as browsers send it: without the default port."""
    origin = text.lower().rstrip("/")
    if origin in ("*", "null"):
        return origin
    scheme, _, netloc = origin.partition("://")
    if not scheme or "*" in netloc or not _host_name(netloc):
        raise ValueError(
            f"allowed_origins has {text!r}, expected scheme://host[:port], or '*' for all"
        )
    return origin.removesuffix(_USUAL_PORTS.get(scheme, "/"))


def refuse_content(head: RequestHead) -> HttpRefusal | None:
    """Refuse a POST with a body that is not plain JSON."""
    given = head.headers.get("content-type")
    content_type = names.media_type(given)
    if content_type != _JSON:
        got = repr(content_type[:100]) if content_type else "missing"
        return HttpRefusal(415, f"Content-Type is {got}, expected {_JSON}")
    charset = names.charset(given)
    if charset not in (None, "utf-8", "utf8"):
        return HttpRefusal(415, f"the charset is {charset[:40]!r}, expected utf-8")
    coding = head.headers.get("content-encoding", "")
    if any(each.strip().lower() not in ("", "identity") for each in coding.split(",")):
        return HttpRefusal(
            415,
            f"Content-Encoding is {coding[:40]!r}; bodies are taken uncompressed",
            headers=(("accept-encoding", "identity"),),
        )
    return None


def choose_form(accept: str | None, answers: Form = "auto") -> Form | None:
    """Return how a POST can be answered, given its Accept header; None where it cannot.

    Clients have to list both types. One that lists only one of them gets that one.
    """
    takes_json = names.accepts(accept, _JSON)
    takes_stream = names.accepts(accept, CONTENT_TYPE)
    if answers == "auto":
        if takes_json and takes_stream:
            return "auto"
        return "json" if takes_json else "stream" if takes_stream else None
    return answers if (takes_json if answers == "json" else takes_stream) else None


def refuse_get(head: RequestHead) -> HttpRefusal | None:
    """Refuse a GET that does not want an event stream."""
    if not names.accepts(head.headers.get("accept"), CONTENT_TYPE):
        return HttpRefusal(406, f"Accept must list {CONTENT_TYPE}")
    return None


def revision_of(head: RequestHead, supported: Iterable[str]) -> Revision | HttpRefusal:
    """Return the revision that the version header names, or what no header stands for."""
    named = head.headers.get(names.VERSION)
    if named is None:  # http.version-header.default-2025-03-26
        return UNNAMED
    known = [id for id in supported if id in HANDSHAKE]
    if named not in known:  # http.version-header.bad-400
        return HttpRefusal(
            400, f"MCP-Protocol-Version {named[:40]!r} is not supported; known: {', '.join(known)}"
        )
    return REVISIONS[named]


def stateless_revision(head: RequestHead, supported: Iterable[str]) -> Revision | None:
    """Return the revision that the version header names, if it has no sessions."""
    named = head.headers.get(names.VERSION)
    if named is None or named in HANDSHAKE or named not in supported:
        return None
    return REVISIONS[named]


class HeadVerdict(msgspec.Struct, frozen=True):
    """The decisions that follow from the head of a request.

    Attributes:
        foreign: why it is refused for where it comes from.
        refusal: why it is refused for any other reason.
        form: how it may be answered.
        revision: which one with a handshake it names, or why that is refused.
        stateless: the revision it names, if requests of that stand on their own.
    """

    foreign: HttpRefusal | None
    refusal: HttpRefusal | None
    form: Form
    revision: Revision | HttpRefusal
    stateless: Revision | None = None


class Gate:
    """Judges the heads of requests to one server."""

    def __init__(self, guard: HttpGuard, answers: Form, supported: Iterable[str]) -> None:
        self._guard = guard
        self._answers: Form = answers
        self._supported = tuple(supported)
        self._known: dict[tuple[str | bytes | None, ...], HeadVerdict] = {}

    def judge(self, method: str, headers: RawHeaders, version: str = "1.1") -> HeadVerdict:
        """Judge the head of a request; header names are lower case, repeated ones are joined."""
        get = headers.get
        head = (
            method,
            version,
            get(_HOST),
            get(_ORIGIN),
            get(_TYPE),
            get(_ACCEPT),
            get(_VERSION),
            get(_CODING),
        )
        verdict = self._known.get(head)
        if verdict is None:
            verdict = self._judge(*head)
            if sum(len(each) for each in head if each) < _SIZE_MOST:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[head] = verdict
        return verdict

    def _judge(self, method: str, version: str, *values: bytes | None) -> HeadVerdict:
        pairs = zip(DECISIVE, values, strict=True)
        named = {
            name.decode(): value.decode("latin-1") for name, value in pairs if value is not None
        }
        head = RequestHead(method, named, version)
        refusal, form = None, self._answers
        if method == "POST":
            refusal = refuse_content(head)
            found = choose_form(named.get("accept"), self._answers)
            if found is not None:
                form = found
            elif refusal is None:
                refusal = HttpRefusal(406, _unacceptable(self._answers))
        elif method == "GET":
            refusal = refuse_get(head)
        return HeadVerdict(
            self._guard.refuse(head),
            refusal,
            form,
            revision_of(head, self._supported),
            stateless_revision(head, self._supported),
        )


def _unacceptable(answers: Form) -> str:
    if answers == "auto":
        return "Accept must list application/json and text/event-stream"
    only = "application/json" if answers == "json" else "text/event-stream"
    return f"Accept must list {only}: this server answers with nothing else (answers)"

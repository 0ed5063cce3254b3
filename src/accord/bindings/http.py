"""Pure decisions about HTTP requests: accept, or refuse with which status and why.

The same decisions serve the server and judge other people's traffic. They see a request's method
and headers, never its connection.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from accord.bindings import headers as names
from accord.bindings.sse import CONTENT_TYPE
from accord.protocol.revision import Revision
from accord.protocol.revisions import REVISIONS

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
ALLOWED: Final = "GET, POST, DELETE, OPTIONS"

# What a client without the header speaks, as the revision that introduced it says.
UNNAMED: Final = next(row for row in REVISIONS.values() if row.streamable_http)


class Head(msgspec.Struct, frozen=True):
    """The head of a request; header names are lower case."""

    method: str
    headers: Mapping[str, str]


class Refusal(msgspec.Struct, frozen=True):
    """Why a request is not served. `code` is that of the JSON-RPC error in its body."""

    status: int
    message: str
    code: int = -32600
    headers: tuple[tuple[str, str], ...] = ()


class Guard(msgspec.Struct, frozen=True):
    """From where a server may be called: loopback, and what is named here.

    `hosts` are host names with or without port, `origins` whole origins; "*" admits all.
    """

    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    def refuse(self, head: Head) -> Refusal | None:
        """Refuse foreign hosts and origins, against DNS rebinding."""  # http.origin.validated
        host = head.headers.get("host")
        if host is not None and "*" not in self.hosts and not self._knows_host(host):
            return Refusal(
                403, f"host {host[:200]!r} is not allowed; see public_url and allowed_hosts"
            )
        origin = head.headers.get("origin")
        if origin is None or "*" in self.origins or self._knows_origin(origin):
            return None
        return Refusal(
            403, f"origin {origin[:200]!r} is not allowed; see public_url and allowed_origins"
        )

    def _knows_host(self, host: str) -> bool:
        name = _host_name(host)
        return name in _LOOPBACK or host.lower() in self.hosts or name in self.hosts

    def _knows_origin(self, origin: str) -> bool:
        if origin.lower().rstrip("/") in self.origins:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and (parts.hostname or "") in _LOOPBACK


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def guard_for(
    public_url: str | None,
    hosts: Mapping[str, object] | frozenset[str] = frozenset(),
    origins: frozenset[str] = frozenset(),
) -> Guard:
    """Make the guard of a server that is reached under a public URL."""
    all_hosts = {host.lower() for host in hosts}
    all_origins = {origin.lower().rstrip("/") for origin in origins}
    if public_url is not None:
        parts = urlsplit(public_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"public_url is {public_url!r}, expected http(s)://host[:port][/path]")
        all_hosts |= {parts.netloc.lower(), parts.hostname}
        all_origins.add(f"{parts.scheme}://{parts.netloc}".lower())
    return Guard(frozenset(all_hosts), frozenset(all_origins))


def refuse_post(head: Head) -> Refusal | None:
    """Refuse a POST whose types do not fit."""
    content_type = names.media_type(head.headers.get("content-type"))
    if content_type != "application/json":
        got = content_type or "missing"
        return Refusal(415, f"Content-Type is {got[:100]}, expected application/json")
    accept = head.headers.get("accept")
    for wanted in ("application/json", CONTENT_TYPE):
        if not names.accepts(accept, wanted):
            return Refusal(406, f"Accept must list application/json and {CONTENT_TYPE}")
    return None


def refuse_get(head: Head) -> Refusal | None:
    """Refuse a GET that does not want an event stream."""
    if not names.accepts(head.headers.get("accept"), CONTENT_TYPE):
        return Refusal(406, f"Accept must list {CONTENT_TYPE}")
    return None


def revision_of(head: Head, supported: frozenset[str]) -> Revision | Refusal:
    """Return the revision that the version header names, or what no header stands for."""
    named = head.headers.get(names.VERSION)
    if named is None:
        return UNNAMED
    row = REVISIONS.get(named)
    if row is None or row.id not in supported:
        known = ", ".join(sorted(supported))
        return Refusal(400, f"MCP-Protocol-Version {named[:40]!r} is not supported; known: {known}")
    return row

"""Access to a server on this machine: foreign origins, and the addresses it listens at."""

import asyncio
import ipaddress
import socket
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from accord.errors import ConnectFailed
from accord.http.rules.addresses import is_loopback
from accord.http.rules.sse import CONTENT_TYPE
from accord.protocol.revisions import HANDSHAKE, REVISIONS
from accord_tools.check.probing.http_exchange import (
    ACCEPT,
    CONTENT_JSON,
    RawResponse,
    exchange,
    post_message,
)
from accord_tools.check.probing.messages import new_request
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import ConnectionEnded, MessageTimeout
from accord_tools.check.scenarios._scenario import (
    bare_scenario,
    complete_request,
    end_session,
    harmless_method,
    initialize,
    open_unjudged,
)

# Where the kernel of Linux lists its sockets; a socket that listens has this state.
_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS: Final = "0A"
_WORD: Final = 8
# Addresses of documentation (RFC 5737, RFC 3849): nothing is sent to them.
_ELSEWHERE: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
_DIALLING: Final = 1.0


def listening_addresses(port: int) -> set[str] | None:
    """Return the addresses at which this machine listens; None if they cannot be found."""
    tables = [table for table in _TABLES if table.exists()]
    if not tables:
        return None
    try:
        lines = [line for table in tables for line in table.read_text().splitlines()[1:]]
    except OSError:
        return None
    return {
        _address(place.partition(":")[0])
        for _, place, _, state, *_ in (line.split() for line in lines)
        if state == _LISTENS and int(place.partition(":")[2], 16) == port
    }


def _address(digits: str) -> str:
    # Words of four bytes, each in the byte order of the machine, which is little-endian here.
    words = [digits[each : each + _WORD] for each in range(0, len(digits), _WORD)]
    packed = b"".join(bytes.fromhex(word)[::-1] for word in words)
    address = ipaddress.ip_address(packed)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def own_addresses() -> list[str]:
    """Return the addresses of this machine in its networks, at most one of each family."""
    found = []
    for family, elsewhere in _ELSEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probing:
                probing.connect((elsewhere, 9))
                address = str(probing.getsockname()[0])
        except OSError:
            continue
        if not ipaddress.ip_address(address).is_loopback:
            found.append(address)
    return found


async def open_addresses(port: int) -> list[str]:
    """Return the addresses of this machine in its networks at which a port takes connections."""
    found = []
    for address in own_addresses():
        try:
            async with asyncio.timeout(_DIALLING):
                _, writer = await asyncio.open_connection(address, port)
        except (OSError, TimeoutError):
            continue
        writer.close()
        found.append(address)
    return found


_ORIGIN: Final = "http.origin.validated"
_ORIGIN_403: Final = "http.origin.invalid-403"
_BIND: Final = "http.server.bind-localhost"
_FOREIGN: Final = "http://accord-check.example"
# What a comparison of prefixes, of suffixes or of parts takes for an origin of this machine. Any
# page can send null, from a frame without an origin. Another port of this machine may be a friend.
_HOSTILE: Final = (
    _FOREIGN,
    "null",
    "http://localhost.accord-check.example",
    "http://127.0.0.1.accord-check.example",
    "http://accord-check-localhost",
)
_NOT_OFFERED: Final = 405


@bare_scenario(_ORIGIN, _ORIGIN_403, on=("http", "sse"))
async def sends_foreign_origins(probe: Probe) -> None:
    if not is_loopback(urlsplit(probe.target.spec.url).hostname or ""):
        why = "foreign origins are known for servers on this machine only"
        probe.skip((_ORIGIN, _ORIGIN_403), why)
        return
    try:
        if not REVISIONS[probe.revision].handshake:
            await _send_requests(probe)
        elif probe.facts.transport == "http":
            await _open_sessions(probe)
            await _use_a_session(probe)
        else:
            await _post_beside_a_stream(probe)
            await _open_streams(probe)
    except ConnectionEnded as error:
        # It may be how a server refuses, or how it ends after a refusal.
        probe.skip((_ORIGIN, _ORIGIN_403), f"the server closes connections: {error}")


async def _open_sessions(probe: Probe) -> None:
    async with probe.open(is_judged=False, begins=False) as connection:
        for origin in _HOSTILE:
            heard = await post_message(connection, initialize(probe.revision), origin=origin)
            await end_session(connection, heard)
            if not _judge_origin(probe, heard, origin, "initialize"):
                return


async def _send_requests(probe: Probe) -> None:
    async with open_unjudged(probe) as connection:
        for method in ("server/discover", harmless_method(probe.facts)):
            for origin in _HOSTILE:
                message = complete_request(probe, method)
                heard = await post_message(connection, message, origin=origin)
                if not _judge_origin(probe, heard, origin, method):
                    return


async def _use_a_session(probe: Probe) -> None:
    """Try each method in a session: some servers look at the origin when one begins, or in POST."""
    async with open_unjudged(probe) as connection:
        heard = await post_message(connection, new_request("ping"), origin=_FOREIGN)
        _judge_origin(probe, heard, _FOREIGN, "a request in a session")
        for method in ("GET", "DELETE"):
            async with exchange(
                connection, method=method, origin=_FOREIGN, accept=CONTENT_TYPE
            ) as heard:
                pass
            # A page without a stream serves no request of MCP.
            if method == "DELETE" or heard.is_stream or not heard.is_ok:
                _judge_origin(probe, heard, _FOREIGN, method)


async def _open_streams(probe: Probe) -> None:
    async with probe.open(is_judged=False, begins=False) as connection:
        for origin in _HOSTILE:
            headers = {"accept": CONTENT_TYPE, **probe.target.spec.headers, "origin": origin}
            async with exchange(connection, method="GET", headers=headers) as heard:
                pass
            if not _judge_origin(probe, heard, origin, "GET"):
                return


async def _post_beside_a_stream(probe: Probe) -> None:
    headers = {"content-type": CONTENT_JSON, **probe.target.spec.headers, "origin": _FOREIGN}
    message = initialize(probe.revision)
    async with probe.open(is_judged=False, begins=False) as connection:
        place = connection.carrier.place
        async with exchange(connection, message, url=place, headers=headers) as heard:
            await heard.rest(probe.target.settling)
        _judge_origin(probe, heard, _FOREIGN, "a posted message")


def _judge_origin(probe: Probe, heard: RawResponse, origin: str, what: str) -> bool:
    if not probe.holds(_ORIGIN, not heard.is_ok, f"serves {what} with Origin {origin}"):
        return False
    if heard.status != _NOT_OFFERED:
        why = f"refuses {what} with Origin {origin} by {heard}, expected status 403"
        probe.holds(_ORIGIN_403, heard.status == 403, why)
    return True


# -- addresses


@bare_scenario(_BIND, on=("http", "sse"))
async def looks_where_the_server_listens(probe: Probe) -> None:
    url = urlsplit(probe.target.spec.url)
    if not is_loopback(url.hostname or ""):
        probe.skip(_BIND, "the server does not run on this machine")
        return
    port = url.port or (443 if url.scheme == "https" else 80)
    known = listening_addresses(port)
    if known:
        far = [each for each in known if not ipaddress.ip_address(each).is_loopback]
        has_own_socket = len(far) < len(known) and all(":" in each for each in far)
        if far and has_own_socket and not await _is_same_server(probe, port):
            # Another program has the port in the other family of addresses.
            far = []
    else:
        far = await open_addresses(port)
    why = f"listens at {', '.join(far)}, expected loopback alone"
    probe.holds(_BIND, not far, why, evidence=())


async def _is_same_server(probe: Probe, port: int) -> bool:
    """Return whether an MCP server listens at this port of IPv6; it gets no token."""
    url = urlsplit(probe.target.spec.url)
    other = f"{url.scheme}://[::1]:{port}{url.path}"
    if probe.facts.transport != "http":
        return False
    headers = {"content-type": CONTENT_JSON, "accept": ACCEPT}
    async with probe.open(is_judged=False, begins=False) as connection:
        try:
            heard = await post_message(
                connection, initialize([*HANDSHAKE][-1]), url=other, headers=headers
            )
        except (ConnectFailed, ConnectionEnded, MessageTimeout):
            return False
        await end_session(connection, heard)
    return bool(heard.answers())

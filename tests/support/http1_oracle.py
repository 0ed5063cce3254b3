"""What h11, a parser by others, reads from the bytes that a client sends."""

import re

import h11

from support.http1_memory import Read

# Where the listener accepts what h11 refuses: what h11 says, and why that is right.
TOLERATED = {
    "Missing mandatory Host: header": "the app judges Host, which knows the hosts that it serves",
    "Found multiple Host: headers": "the same",
    "Too many bytes in chunk size": "h11 counts zeros in front, which mean nothing",
}


# RFC 9112, 3: a server may split a request line at any spaces.
_SPACED = re.compile(r"illegal request line: bytearray\(b'[A-Z-]+ +\S+ +HTTP/1\.[01]'\)")


def is_tolerated(why: str) -> bool:
    """Whether the listener may accept what h11 refuses for this reason."""
    return why.startswith(tuple(TOLERATED)) or _SPACED.fullmatch(why) is not None


def read_by_h11(data: bytes) -> tuple[list[Read], str]:
    """Return the complete requests that h11 reads, and why it reads no more.

    Line breaks before a request are left out: RFC 9112, 2.2 lets a server ignore empty lines there.
    """
    found: list[Read] = []
    while True:
        request, data, why = _first(data.lstrip(b"\r\n"))
        if request is not None:
            found.append(request)
        if why:
            return found, why


def _first(data: bytes) -> tuple[Read | None, bytes, str]:
    """Return a request, what follows, and why nothing follows."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 17)
    connection.receive_data(data)
    request: h11.Request | None = None
    body: list[bytes] = []
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return None, b"", "needs more"
    except h11.RemoteProtocolError as error:
        return None, b"", str(error)
    assert request is not None
    version = request.http_version
    read = Read(request.method, request.target, version, tuple(request.headers), b"".join(body))
    rest = connection.trailing_data[0]
    status = 400 if request.method == b"CONNECT" else 200  # no tunnel
    connection.send(h11.Response(status_code=status, headers=[("content-length", "0")]))
    connection.send(h11.EndOfMessage())
    return read, rest, "" if connection.our_state is h11.DONE else "ends"

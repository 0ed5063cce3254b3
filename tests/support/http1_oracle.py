"""What h11, a parser by others, reads from the bytes that a client sends."""

import h11

from support.http1_memory import Read

# Where the listener accepts what h11 refuses: what h11 says, and why that is right.
TOLERATED = {
    "no request line received": "RFC 9112, 2.2: empty lines before a request are ignored",
    "Missing mandatory Host: header": "the app judges Host, which knows the hosts that it serves",
    "Found multiple Host: headers": "the same",
    "Too many bytes in chunk size": "h11 counts zeros in front, which mean nothing",
}


def read_by_h11(data: bytes) -> tuple[list[Read], str]:
    """Return the complete requests that h11 reads, and why it reads no more."""
    found: list[Read] = []
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 17)
    connection.receive_data(data)
    request: h11.Request | None = None
    body: list[bytes] = []
    try:
        while True:
            event = connection.next_event()
            if event in (h11.NEED_DATA, h11.PAUSED):
                return found, "needs more"
            if isinstance(event, h11.Request):
                request, body = event, []
            elif isinstance(event, h11.Data):
                body.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                assert request is not None
                found.append(
                    Read(
                        request.method,
                        request.target,
                        request.http_version,
                        tuple(request.headers),
                        b"".join(body),
                    )
                )
                status = 400 if request.method == b"CONNECT" else 200  # no tunnel
                connection.send(h11.Response(status_code=status, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE:
                    return found, "ends"
                connection.start_next_cycle()
    except h11.RemoteProtocolError as error:
        return found, str(error)

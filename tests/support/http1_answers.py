"""What a server has sent on one connection, as the client of h11 reads it."""

from dataclasses import dataclass, field

import h11


@dataclass
class Answer:
    """One response, and how its connection is said to go on."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes = b""
    interim: list[int] = field(default_factory=list)
    is_whole: bool = True

    @property
    def is_last(self) -> bool:
        options = self.headers.get(b"connection", b"").lower().split(b",")
        return b"close" in [option.strip() for option in options]


class NotHttp(AssertionError):
    """The server has sent something that is not HTTP."""


def answers(data: bytes, methods: list[str]) -> list[Answer]:
    """Return the responses to requests of these methods; those beyond count as GET.

    Raises:
        NotHttp: something is not a response, or does not end.
    """
    found: list[Answer] = []
    while data:
        method = methods[len(found)] if len(found) < len(methods) else "GET"
        answer, data = _first(data, method)
        found.append(answer)
        if not answer.is_whole and data:
            raise NotHttp(f"the rest is not a response: {data[:200]!r}")
    return found


def _first(data: bytes, method: str) -> tuple[Answer, bytes]:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    connection.send(h11.Request(method=method, target="/", headers=[("host", "localhost")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(data)
    answer: Answer | None = None
    interim: list[int] = []
    body = []
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError as error:
            raise NotHttp(f"{error}: {data[:200]!r}") from None
        if isinstance(event, h11.InformationalResponse):
            interim.append(event.status_code)
        elif isinstance(event, h11.Response):
            answer = Answer(event.status_code, dict(event.headers), interim=interim)
        elif isinstance(event, h11.Data):
            body.append(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            assert answer is not None
            answer.body = b"".join(body)
            return answer, connection.trailing_data[0]
        elif answer is None and interim and not connection.trailing_data[0]:
            return Answer(interim[-1], {}, interim=interim, is_whole=False), b""
        elif answer is None:
            raise NotHttp(f"half a head: {data[:200]!r}")
        else:  # it needs more: the end of the connection has cut the body
            answer.body, answer.is_whole = b"".join(body), False
            return answer, b""

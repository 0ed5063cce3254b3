"""What can happen to a raw connection: a message is missing, or the connection ended."""

from accord.errors import AccordError


class MessageTimeout(AccordError):
    """A message did not arrive in time.

    Attributes:
        method: of the request without an answer; empty if another message is missing.
        has_started: whether the server sent anything at all on this connection.
        is_garbled: whether something arrived meanwhile that may be the answer: text that is not
            JSON, or an answer under an unknown id.
    """

    def __init__(
        self,
        text: str,
        *,
        method: str = "",
        has_started: bool = True,
        is_garbled: bool = False,
    ) -> None:
        super().__init__(text)
        self.method = method
        self.has_started = has_started
        self.is_garbled = is_garbled


class ConnectionEnded(AccordError):
    """The server closed the connection, or exited.

    Attributes:
        has_started: whether the server sent anything at all on this connection.
    """

    def __init__(self, text: str, *, has_started: bool = True) -> None:
        super().__init__(text)
        self.has_started = has_started


class AuthorizationRequired(ConnectionEnded):
    """The server answers nothing without authorization."""

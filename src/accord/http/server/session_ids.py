"""The ids of sessions, by which a process knows those that another one has given out."""

import os
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Final

# So many random bytes stand at either end.
_RANDOM: Final = 12
_APP: Final = slice(12, 16)
_PROCESS: Final = slice(16, 20)
_TIME: Final = slice(20, 24)
_LENGTH: Final = 36


class SessionIds:
    """Makes ids: the server, the process and the time, between random parts.

    An id of this server that was made while this process ran, and not by it, is that of a process
    beside it. One that was made before may be that of a process which it replaces.

    Args:
        name: of the server.
    """

    def __init__(self, name: str) -> None:
        self._app = sha256(name.encode()).digest()[:4]
        self._process = os.urandom(4)
        self._since = int(time.time())

    def make(self) -> bytes:
        """Return an id that cannot be guessed."""
        made = (int(time.time()) & 0xFFFFFFFF).to_bytes(4, "big")
        mark = self._app + self._process + made
        # session.id.secure
        random = secrets.token_bytes(2 * _RANDOM)
        return urlsafe_b64encode(random[:_RANDOM] + mark + random[_RANDOM:])

    def is_of_other_process(self, key: bytes) -> bool:
        """Whether a process that serves beside this one has made an id."""
        try:
            id = urlsafe_b64decode(key[: 2 * _LENGTH])
        except ValueError:
            return False
        return (
            len(id) == _LENGTH
            and id[_APP] == self._app
            and id[_PROCESS] != self._process
            and int.from_bytes(id[_TIME], "big") > self._since
        )

"""The ids of sessions, by which a process knows those that another one has given out."""

import os
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Final

_RANDOM_BYTES: Final = 24
_MARK_BYTES: Final = 12
_MARK_LENGTH: Final = _MARK_BYTES * 4 // 3
_APP: Final = slice(0, 4)
_PROCESS: Final = slice(4, 8)
_TIME: Final = slice(8, 12)


class SessionIds:
    """Makes ids: a random part, then the server, the process and the time.

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
        mark = self._app + self._process + (int(time.time()) & 0xFFFFFFFF).to_bytes(4, "big")
        # session.id.secure
        return secrets.token_urlsafe(_RANDOM_BYTES).encode() + urlsafe_b64encode(mark)

    def is_of_other_process(self, key: bytes) -> bool:
        """Whether a process that serves beside this one has made an id."""
        try:
            mark = urlsafe_b64decode(key[-_MARK_LENGTH:])
        except ValueError:
            return False
        return (
            len(mark) == _MARK_BYTES
            and mark[_APP] == self._app
            and mark[_PROCESS] != self._process
            and int.from_bytes(mark[_TIME], "big") > self._since
        )

"""Notifications to the client of a session that this worker need not have.

The transport of another worker reads them from the session's outbox, and sends them on the stream
on which the client listens.
"""

import os
from typing import TYPE_CHECKING, Any, Final

from accord.protocol import codec
from accord.sharing.workers import names

if TYPE_CHECKING:
    from accord.sharing.workers.worker import Worker

# No shorter than the outbox of a session that is used lasts.
_DAY: Final = 86_400.0


async def notify_session(worker: "Worker", session_id: str, name: str, params: Any) -> bool:
    """Send a notification to the client of a session; returns whether there is such a session.

    Args:
        worker: that of this process.
        session_id: as the client sends it.
        name: the method.
        params: those of the notification, in the shape of its revision.

    Raises:
        StoreError: the store does not answer.
    """
    from accord.sharing.sessions.streams import NONCE_BYTES
    from accord.sharing.workers.session_tokens import SessionTokens

    backend, token = worker.backend, SessionTokens(worker.keys).open(session_id.encode())
    if token is None or await backend.get(names.session_of(token.sid)) is None:
        return False
    entry = os.urandom(NONCE_BYTES) + codec.encode_notification(name, params)
    outbox = names.outbox_of(token.sid)
    await backend.append(outbox, [entry], ttl=_DAY, notify=(outbox,))
    return True

"""Serving one client over stdin and stdout, to a clean end."""

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Any

from accord.bindings.lines import LineTooLong
from accord.protocol import codec
from accord.protocol.jsonrpc import INVALID_REQUEST, ErrorBody
from accord.transports.stdio import StdioConnection, Stop, claim, exit_at_once

if TYPE_CHECKING:
    from accord.server.server import Server
    from accord.server.session import Session

log = logging.getLogger("accord.stdio")


def run(server: "Server[Any]", *, grace: float) -> None:
    """Serve until the input ends, a signal comes or the parent is gone; then leave.

    A sync tool that does not end keeps nobody waiting longer than the grace period.
    """
    claim()
    try:
        asyncio.run(serve(server, grace=grace))
    except KeyboardInterrupt:
        pass
    except BaseException:
        log.critical("the server stopped", exc_info=True)
        sys.stderr.flush()
        exit_at_once(1)
    executor = vars(server).get("threads")
    if executor is not None:
        executor.shutdown(wait=False, cancel_futures=True)
        if any(thread.is_alive() for thread in executor._threads) and server_is_busy(server):
            exit_at_once(0)


def server_is_busy(server: "Server[Any]") -> bool:
    """Whether work in threads outlived its session."""
    return any(session.has_tracked for session in list(server.sessions))


async def serve(server: "Server[Any]", *, grace: float) -> None:
    """Serve the process's own stdin and stdout."""
    async with server.running() as state:
        connection = StdioConnection(
            lambda line: session.dispatcher.receive(line), limit=server.limits.message_bytes
        )
        session: Session = server.session(connection.write, state)
        connection.refuse = lambda error: connection.write(_too_long(error))
        await connection.start()
        await Stop(connection.ended).wait()
        await _finish(session, grace)
        connection.finish()


async def _finish(session: "Session", grace: float) -> None:
    """Let answers that are on their way get out, then cancel what still runs."""
    session.close()
    try:
        async with asyncio.timeout(grace):
            await session.dispatcher.drained()
    except TimeoutError:
        log.warning("handlers did not stop within %g s", grace)


def _too_long(error: LineTooLong) -> bytes:
    return codec.encode_error(None, ErrorBody(INVALID_REQUEST, str(error)))

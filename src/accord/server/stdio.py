"""Serving one client over stdin and stdout, to a clean end."""

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from accord.bindings.lines import LineTooLong
from accord.runtime import forks
from accord.runtime.tasks import run_to_end
from accord.server.threads import finished, is_working
from accord.transports.ending import Stop, exit_at_once, leave_threads
from accord.transports.stdio import StdioConnection, claim

if TYPE_CHECKING:
    from accord.server.server import Server
    from accord.server.session import Session

log = logging.getLogger("accord.stdio")


def run(server: "Server[Any]", *, grace: float) -> None:
    """Serve until the input ends, a signal comes or the parent is gone; then leave.

    A tool that does not end keeps nobody waiting longer than the grace period.
    """
    server.was_run = True
    claim()
    stop = Stop(grace=grace)
    try:
        with stop.signals():
            run_to_end(serve(server, stop))
    except BaseException:
        log.critical("the server stopped", exc_info=True)
        exit_at_once(1)
    if is_working():
        log.warning("sync work did not stop within %g s and is left behind", grace)
        exit_at_once(0)
    executor = vars(server).pop("threads", None)
    if executor is not None:
        executor.shutdown(wait=False, cancel_futures=True)
    leave_threads(grace)


async def serve(server: "Server[Any]", stop: Stop) -> None:
    """Serve the process's own stdin and stdout."""
    generation = forks.generation
    async with server.running() as state:
        session: Session
        if forks.generation != generation:
            forks.end_child()

        def receive(line: bytes) -> None:
            session.dispatcher.receive(line)

        def refuse(error: LineTooLong) -> None:
            session.dispatcher.receive_malformed(error)

        connection = StdioConnection(receive, refuse, limit=server.limits.message_bytes)
        session = server.session(lambda message, _: connection.write(message), state)
        session.flow = connection
        await connection.start()
        server.watchdog().while_blocked = partial(stop.look, claim()[0])
        only_input_ended = await stop.wait(connection.ended)
        session.dispatcher.end_of_input()
        if only_input_ended:
            # Whoever closed the input may still want its answers. The last quarter is for those
            # who clean up when they are cancelled.
            await stop.unless_signalled(session.dispatcher.drain(), stop.left * 3 / 4)
        session.close()
        await session.dispatcher.drain(stop.left)
        await finished(stop.left)
        connection.finish(max(stop.left, 0.1))

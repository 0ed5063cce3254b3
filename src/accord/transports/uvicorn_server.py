"""uvicorn, with an end to every wait: for a head, for a reader, for the last call."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

import uvicorn

from accord.errors import TransportError
from accord.runtime.tasks import run_to_end
from accord.transports.ending import exit_at_once, exit_later, take_signals
from accord.transports.uvicorn_protocol import BoundedProtocol

__all__ = ["END_SLACK", "BoundedServer", "listen", "serve"]

# What must be left for files and connections of the server's own.
_FILES_SPARED: Final = 64
# Seconds after which a client that reads nothing stands still.
_STALLED: Final = 1.0
# How long the last bytes may take to leave.
_FLUSH: Final = 0.25
# What the end takes beyond the grace period: the last words, and leaving the lifespan. With the
# grace period of `server.run`, a server that hangs is gone within 3 s.
END_SLACK: Final = 1.25


class BoundedServer(uvicorn.Server):
    """Runs an app until a signal comes; lets calls finish, and then really ends."""

    def __init__(self, config: uvicorn.Config, app: Any) -> None:
        super().__init__(config)
        self._app = app

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self._tick_connections()
        return await super().on_tick(counter)

    def _tick_connections(self) -> None:
        """Give up connections that take too long, and some of those that leave much unread."""
        now, options = self._app.now(), self._app.options
        unread: list[tuple[float, int, BoundedProtocol]] = []
        for connection in list(self.server_state.connections):
            if isinstance(connection, BoundedProtocol):
                connection.tick(
                    now, head_timeout=options.body_timeout, write_timeout=options.write_timeout
                )
                since, size = connection.unread(now)
                if size:
                    unread.append((since, size, connection))
        total = sum(size for _, size, _ in unread)
        for since, size, connection in sorted(unread, key=lambda each: each[0]):
            if total <= options.unread_bytes or now - since < _STALLED:
                break
            connection.transport.abort()
            total -= size

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        await self._app.finish()
        await self._end_connections()
        await super().shutdown(sockets)

    async def _end_connections(self) -> None:
        """Let the last responses leave, and then end what is left without a trace in the log."""
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        end = self._app.now() + _FLUSH
        while state.connections and self._app.now() < end:
            await asyncio.sleep(0.01)
        for connection in list(state.connections):
            connection.transport.abort()
        for task in state.tasks:
            task.cancel()
        if state.tasks:
            await asyncio.wait(set(state.tasks), timeout=_FLUSH)

    # -- signals

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes, or `should_exit` is set.

        Signals are taken for longer than the loop lives: what hangs may keep the loop from ending.
        """
        with take_signals(self.handle_exit):
            run_to_end(self.serve(sockets), loop_factory=_loop_factory(self.config))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to `run`; whoever sent one has got what they wanted."""
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the end with the first signal; a second one does not wait for it."""
        if self.should_exit:
            exit_at_once(0)
        self.should_exit = True
        grace = self._app.options.grace
        exit_later(grace, grace + END_SLACK)


def _loop_factory(config: uvicorn.Config) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if hasattr(config, "get_loop_factory"):
        return config.get_loop_factory()
    config.setup_event_loop()  # before uvicorn 0.36 it is a policy
    return None


def listen(host: str, port: int) -> list[socket.socket]:
    """Open the sockets for an address: one of each family that it has.

    Raises:
        TransportError: that is not possible.
    """
    opened: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_ADDRCONFIG
        )
        for family, _, _, _, address in dict.fromkeys(found):
            # Any free port, but the same for all.
            free = opened[0].getsockname()[1] if opened else port
            made = socket.create_server((*address[:1], free), family=family, backlog=2048)
            # asyncio sends at once only on sockets that name their protocol. Otherwise the second
            # part of a response waits for the client to confirm the first, some 40 ms.
            kind = (family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            opened.append(socket.socket(*kind, fileno=made.detach()))
    except OSError as error:
        for each in opened:
            each.close()
        why = error.strerror or str(error)
        raise TransportError(f"cannot listen on {host}:{port}: {why.lower()}") from None
    return opened


def _connections_most(wanted: int) -> int:
    with suppress(ImportError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft > 0:
            return max(1, min(wanted, soft - _FILES_SPARED))
    return wanted


def serve(app: Any, sockets: list[socket.socket]) -> None:
    """Serve an app on open sockets until a signal comes."""
    options = app.options

    class Protocol(BoundedProtocol):
        connections_most = _connections_most(options.connections)

    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    with suppress(KeyboardInterrupt):
        BoundedServer(config, app).run(sockets)

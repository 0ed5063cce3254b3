"""uvicorn, with a limit to every wait: for a head, for a client to read, for the last call."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

import uvicorn

from accord.errors import TransportError
from accord.runtime.tasks import run_to_end
from accord.transports.http.server.app import HttpApp
from accord.transports.http.server.uvicorn_protocol import BoundedProtocol
from accord.transports.shutdown import exit_at_once, exit_later, take_signals

# How many open files are left to the server's own files and connections.
_FILES_SPARED: Final = 64
# Seconds without reading after which a client counts as stalled.
_STALLED: Final = 1.0
# How many seconds the last bytes may take to leave.
_FLUSH: Final = 0.25
# What a shutdown takes beyond the grace period: last responses, and leaving the lifespan. With the
# grace period of `server.run`, a server that hangs exits within 3 s.
END_SLACK: Final = 1.25


class BoundedServer(uvicorn.Server):
    """Runs an app until a signal arrives; lets calls finish within limits, and ends."""

    def __init__(self, config: uvicorn.Config, app: HttpApp) -> None:
        super().__init__(config)
        self._app = app

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self._tick_connections()
        return await super().on_tick(counter)

    def _tick_connections(self) -> None:
        """Abort connections that take too long, and stalled ones while too much is unread."""
        now, options = self._app.state.now(), self._app.options
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
        """Let the last responses leave, then abort the rest; uvicorn would log errors for them."""
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        end = self._app.state.now() + _FLUSH
        while state.connections and self._app.state.now() < end:
            await asyncio.sleep(0.01)
        for connection in list(state.connections):
            connection.transport.abort()
        for task in state.tasks:
            task.cancel()
        if state.tasks:
            await asyncio.wait(set(state.tasks), timeout=_FLUSH)

    # -- signals

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal arrives, or `should_exit` is set.

        Signals are handled for longer than the loop lives: code that hangs may keep it from ending.
        """
        with take_signals(self.handle_exit):
            run_to_end(self.serve(sockets), loop_factory=_loop_factory(self.config))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to `run`; uvicorn would raise them again at the end."""
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop at the first signal; exit at once at the second."""
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
    """Open listening sockets for an address: one for each family that it has.

    Raises:
        TransportError: the address cannot be listened on.
    """
    opened: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_ADDRCONFIG
        )
        for family, _, _, _, address in dict.fromkeys(found):
            # With port 0 any free port, the same for all families.
            free = opened[0].getsockname()[1] if opened else port
            made = socket.create_server((*address[:1], free), family=family, backlog=2048)
            # asyncio sets TCP_NODELAY only on sockets that name their protocol. Without it the
            # second part of a response waits some 40 ms for the client to acknowledge the first.
            kind = (family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            opened.append(socket.socket(*kind, fileno=made.detach()))
    except OSError as error:
        for each in opened:
            each.close()
        why = error.strerror or str(error)
        raise TransportError(f"cannot listen on {host}:{port}: {why.lower()}") from None
    return opened


def _limit_connections(wanted: int) -> int:
    with suppress(ImportError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft > 0:
            return max(1, min(wanted, soft - _FILES_SPARED))
    return wanted


def serve(app: HttpApp, sockets: list[socket.socket]) -> None:
    """Serve an app on open sockets until a signal arrives."""
    options = app.options

    class Protocol(BoundedProtocol):
        connections_most = _limit_connections(options.connections)

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

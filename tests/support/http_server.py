"""Servers on real sockets, in a thread of their own."""

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import wraps
from socket import socket
from typing import Any, Final

import pytest
import uvicorn

from accord.http.server.running import ServedApp, fastest_loop
from accord.http.server.sockets import listen
from accord.runtime.tasks import run_to_end
from support.http_offer import offer
from support.waiting import LONG, run, until_sync

# Whether `bounded` serves apps with uvicorn, as an application with its own ASGI server does.
IS_UVICORN: Final = os.environ.get("ACCORD_TEST_SERVER") == "uvicorn"
# For tests of what an app cannot see: connections, heads, trailers, upgrades.
on_listener: Final = pytest.mark.skipif(IS_UVICORN, reason="the listener does this, not the app")


@contextmanager
def serving(app: Any, **config: Any) -> Iterator[int]:
    """Serve any ASGI app with a plain uvicorn; yield the port."""
    with _running(uvicorn.Server(_config(app, **config))) as port:
        yield port


@contextmanager
def bounded(app: Any, *, loop: str = "auto") -> Iterator[int]:
    """Serve one of our apps as `server.run("http")` does; on uvicorn, if tests shall use that."""
    if IS_UVICORN:
        with serving(app, loop=loop, lifespan="on", http="httptools") as port:
            yield port
        return
    (listening,) = listen("127.0.0.1", 0)
    served = ServedApp(app, [listening])
    factory = None if loop == "asyncio" else fastest_loop()
    thread = threading.Thread(
        target=lambda: run_to_end(served.serve(), loop_factory=factory), daemon=True
    )
    thread.start()
    try:
        until_sync(lambda: served.is_started)
        yield listening.getsockname()[1]
    finally:
        served.stop()
        thread.join(LONG)
        listening.close()
        assert not thread.is_alive(), "the server does not stop"


def served(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Run an async test beside the server `offer` with these settings, whose `port` it gets."""
    return giving("port", lambda test: _run_beside(offer().asgi(**options), test))


def _run_beside(app: Any, test: Callable[[int], Any]) -> None:
    with bounded(app) as port:
        run(test(port))


def giving(
    name: str, run_with: Callable[..., None], *, of: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Let a function run an async test, and fill in a parameter that is not a fixture.

    Args:
        name: of the parameter.
        run_with: is called with the test as a function of it, and with the fixture.
        of: the fixture that it is made of, if any.
    """

    def decorate(test: Callable[..., Any]) -> Callable[..., None]:
        @wraps(test)
        def run_test(**fixtures: Any) -> None:
            given = () if of is None else (fixtures.pop(of),)
            run_with(lambda value: test(**{name: value}, **fixtures), *given)

        signature = inspect.signature(test)
        parameters = dict(signature.parameters)
        filled = parameters.pop(name)
        own = [*parameters.values(), *([] if of is None else [filled.replace(name=of)])]
        vars(run_test)["__signature__"] = signature.replace(parameters=own)
        return run_test

    return decorate


@contextmanager
def serving_within(
    enter: Callable[[list[socket]], AbstractAsyncContextManager[Any]],
) -> Iterator[int]:
    """Enter a block that serves on sockets, on a loop of its own; yield the port."""
    (listening,) = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    entered, loop = threading.Event(), asyncio.new_event_loop()
    left = asyncio.Event()

    async def serve() -> None:
        async with enter([listening]):
            entered.set()
            await left.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        assert entered.wait(LONG), "the server does not start"
        yield port
    finally:
        loop.call_soon_threadsafe(left.set)
        thread.join(LONG)
        assert not thread.is_alive(), "the server does not stop"
        loop.close()


def _config(app: Any, **config: Any) -> uvicorn.Config:
    settings = {"log_level": "critical", "lifespan": "auto", "timeout_graceful_shutdown": 2}
    return uvicorn.Config(app, access_log=False, ws="none", **(settings | config))


@contextmanager
def _running(server: uvicorn.Server) -> Iterator[int]:
    (listening,) = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        until_sync(lambda: server.started)
        yield port
    finally:
        server.should_exit = True
        thread.join(LONG)
        assert not thread.is_alive(), "the server does not stop"


def free_port() -> int:
    """A free port."""
    (taken,) = listen("127.0.0.1", 0)
    port: int = taken.getsockname()[1]
    taken.close()
    return port

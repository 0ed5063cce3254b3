"""A proxy between a server of one revision and a client of another, with both wires watched."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from accord import Server
from accord.client.options import ClientSettings
from accord.compose import ProxySource, proxy
from accord.runtime.wire import MemoryWire, Wire
from accord.stdio.client import Process
from accord.testing import ProtocolBroken, Recording, TappedWire
from accord.testing.http_wires import TappedHttpWire

EVERYTHING = Path(__file__).with_name("everything.py")
_COVERAGE = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
PRACTICE = ("practice.*",)


def child_environment() -> dict[str, str]:
    """Return the variables with which a child process finds the same modules."""
    passed = {name: os.environ[name] for name in _COVERAGE if name in os.environ}
    return {**passed, "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, sys.path)))}


def children() -> set[int]:
    """Return the ids of the processes that this one has started."""
    found = Path("/proc/self/task").glob("*/children")
    ids: set[int] = set()
    for each in found:
        with suppress(OSError):  # the thread has ended
            ids.update(map(int, each.read_text().split()))
    return ids


class Watched:
    """A target of `proxy`: each connection to it gets a recording of its own.

    Args:
        make_wire: makes a wire that writes to a recording.
    """

    def __init__(self, make_wire: Callable[[Recording], Wire]) -> None:
        self.recordings: list[Recording] = []
        self.wires: list[Any] = []
        self._make_wire = make_wire

    async def connect_memory(self) -> Wire:
        recording = Recording()
        self.recordings.append(recording)
        wire = self._make_wire(recording)
        self.wires.append(wire)
        return wire

    def check(self, allow: tuple[str, ...] = PRACTICE) -> None:
        """Fail if a message of either side broke the protocol."""
        broken = []
        for recording in self.recordings:
            recording.close()
            broken += recording.broken(allow=allow)
        if broken:
            raise ProtocolBroken(broken)

    def messages(self, sender: Any = None, method: str | None = None) -> list[Any]:
        """Return the messages on all connections."""
        return [each for record in self.recordings for each in record.messages(sender, method)]


def watch_memory(server: Server[Any]) -> Watched:
    return Watched(lambda recording: TappedWire(MemoryWire(server._core), recording))


def watch_process(*command: str, **options: Any) -> Watched:
    words = [sys.executable, *command]
    options.setdefault("env", child_environment())
    return Watched(lambda recording: TappedWire(Process(words, **options), recording))


def watch_http(server: Server[Any]) -> Watched:
    """Serve on a socket of loopback, for as long as each connection lasts."""
    is_sse = server._core.revisions == ("2024-11-05",)
    form: Any = "sse" if is_sse else "http"
    settings = ClientSettings(transport=form)
    return Watched(
        lambda recording: TappedHttpWire(server.asgi(grace=0, sse=is_sse), recording, settings)
    )


def hub_of(
    target: Any, *, prefix: str | None = None, settings: Any = None, **options: Any
) -> Server[Any]:
    """Return a server with these settings that mounts a proxy to the target."""
    hub: Server[Any] = Server("hub", **(settings or {}))
    options.setdefault("name", "upstream")
    hub.mount(proxy(target, **options), prefix=prefix)
    return hub


def source_of(hub: Server[Any]) -> ProxySource:
    """Return the proxy that a hub mounts."""
    (mount,) = hub._core.mounts
    found = mount.source
    while not isinstance(found, ProxySource):
        (found,) = found.parts()
    return found

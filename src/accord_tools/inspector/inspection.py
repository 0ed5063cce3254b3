"""Everything that one `accord inspect` shows: sessions, and the state of the whole page."""

import asyncio
import logging
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

from accord.client.server_spec import ServerSpec
from accord.version import __version__
from accord_tools.inspector.actions import ACTION_MODULES, load_actions, perform
from accord_tools.inspector.definition import ActionRefused, InspectOptions, SessionKind
from accord_tools.inspector.session import APP, Changes, InspectedSession

log = logging.getLogger("accord_tools.inspector")

SESSIONS_MOST: Final = 32
"""Sessions on one page, recordings that were opened there included; each keeps messages."""
# What a connection needs, in parts that take about the same time.
_LIVE_MODULES: Final = (
    "accord.client.connect",
    "accord.protocol.monitor",
    "accord_tools.inspector.live.live_connection",
)
# Seconds for requests between two imports.
_TURN: Final = 0.002


class Inspection:
    """The sessions of one launch. For one event loop.

    Args:
        options: how the inspector works.

    Attributes:
        changes: which areas of the page are out of date.
        sessions: in the order of the page.
        lobby: stands for the whole page in actions that need no server, such as opening a
            recording.
    """

    def __init__(self, options: InspectOptions | None = None) -> None:
        self.options = options or InspectOptions()
        self.changes = Changes()
        self.sessions: list[InspectedSession] = []
        self._loaded = asyncio.Event()
        self._loaded.set()
        self.lobby = self._make_session(APP, ServerSpec(name="accord inspect"), "trace")

    def add(self, target: ServerSpec, kind: SessionKind = "live") -> InspectedSession:
        """Add a session to the page; a live one begins to connect.

        Raises:
            ActionRefused: there are too many.
        """
        session = self._append(target, kind)
        if kind == "live":
            _start_connection(session)
        return session

    async def add_all(self, targets: Iterable[ServerSpec]) -> None:
        """Add live sessions while the page is served: what they need is imported in parts.

        Servers start while the rest is imported.
        """
        # A page that is quick finds them all.
        added = [self._append(each, "live") for each in targets]
        self._loaded.clear()
        try:
            await _import_in_parts(_LIVE_MODULES if added else ())
            for session in added:
                _start_connection(session)
            await _import_in_parts(ACTION_MODULES)
        finally:
            self._loaded.set()

    async def wait_until_loaded(self) -> None:
        """Wait for imports that are under way, so that they do not delay the start of servers."""
        await self._loaded.wait()

    def _append(self, target: ServerSpec, kind: SessionKind) -> InspectedSession:
        if len(self.sessions) >= SESSIONS_MOST:
            raise ActionRefused(
                f"this page shows {SESSIONS_MOST} sessions already; start another one"
            )
        session = self._make_session(len(self.sessions), target, kind)
        self.sessions.append(session)
        session.mark_app()
        return session

    def _make_session(self, index: int, target: ServerSpec, kind: SessionKind) -> InspectedSession:
        return InspectedSession(
            index, target, kind, options=self.options, changes=self.changes, add_session=self.add
        )

    def find(self, index: int) -> InspectedSession:
        """Return the session with a number; that of the whole page is -1.

        Raises:
            ActionRefused: it does not exist.
        """
        if index == APP:
            return self.lobby
        if not 0 <= index < len(self.sessions):
            raise ActionRefused(f"there is no session {index}", field="target")
        return self.sessions[index]

    async def describe(self) -> dict[str, Any]:
        """Return what the page shows about all sessions: the action `app.state`."""
        return {
            "targets": [await _describe_session(each) for each in self.sessions],
            "version": __version__,
            "shows_secrets": self.options.shows_secrets,
            "keeps_history": self.options.history is not None,
        }

    async def close(self) -> None:
        """End all sessions, with the servers that they launched."""
        everything = (*self.sessions, self.lobby)
        await asyncio.gather(*(each.close() for each in everything))


async def _import_in_parts(modules: Iterable[str]) -> None:
    for each in modules:
        import_module(each)
        await asyncio.sleep(_TURN)


def _start_connection(session: InspectedSession) -> None:
    # Imported late: it brings the client, which takes longer than listening.
    from accord_tools.inspector.live.live_connection import LiveConnection

    session.part(LiveConnection).start()


async def _describe_session(session: InspectedSession) -> dict[str, Any]:
    found: Any = await perform(session, load_actions()["session.get"], b"{}")
    counters = found["counters"]
    return {
        "index": session.index,
        "title": session.target.name,
        "name": _name_of(found["server"]),
        "kind": session.kind,
        "transport": found["transport"],
        "state": found["state"],
        "revision": found["revision"],
        "fail": counters["fail"],
        "warn": counters["warn"],
    }


def _name_of(server: object) -> str:
    """Return what a server calls itself; watched traffic may hold anything in its place."""
    members = server if isinstance(server, dict) else {}
    names = (members.get("title"), members.get("name"))
    return next((each for each in names if isinstance(each, str) and each), "")

"""Mutants: a correct server with one fault each, that a check must find, and no other.

A fault is a small function. With `@mutant` it sees every message of the server, together with the
request that this answers, and returns what is sent instead; with `@interloper` it sits between
client and server and hooks into both ways. Where it is one value or one expression, it is a row of
a table: `wrong`, or `faults` with its name as the keyword. What no mutant can break is named with
`unbreakable`, what cannot be broken in three different ways with `few`.
"""

import asyncio
import contextlib
import importlib
import pkgutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import msgspec

from accord.protocol.catalogue import catalogue
from accord.protocol.revisions import HANDSHAKE
from accord.runtime.wire import MemoryWire
from accord.testing import run_in_virtual_time
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.probing.target import ServerTarget
from accord_tools.check.scenarios._scenario import Scenario, revealing_methods
from accord_tools.check.scenarios.server import SCENARIOS
from accord_tools.check.server_check import ServerPlan, check_server
from check.faults import hook_at, named
from check.mutants.everything import server as everything
from support.check_targets import check_target

Message: TypeAlias = dict[str, Any]
Sent: TypeAlias = "Message | bytes | list[Message | bytes] | None"
"""What is passed on: a message, raw bytes, several of them, or nothing."""

Change: TypeAlias = Callable[[Message, Message], Sent]
"""A message of the server, and the request that it answers or else an empty object."""

Making: TypeAlias = Callable[[], AbstractAsyncContextManager[ServerTarget]]


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """A server with one fault.

    Attributes:
        id: the requirement that it breaks.
        name: what it does, the name of its function.
        revision: what it is checked under.
        making: makes it, as a subject of a check.
        also: other requirements that this breaks unavoidably, and why.
        only: what is checked, where a full check would take too long; empty checks all.
        areas: areas whose scenarios show the breach, where those of its own area do not.
        is_process: whether it is a process of its own, which takes real time.
        is_thorough: whether another mutant of its requirement had better run in the gate.
    """

    id: str
    name: str
    revision: str
    making: Making
    also: dict[str, str] = {}
    only: Sequence[str] = ()
    areas: Sequence[str] = ()
    is_process: bool = False
    is_thorough: bool = False

    @property
    def has_handshake(self) -> bool:
        """Whether its revision begins with a handshake."""
        return self.revision in HANDSHAKE

    @property
    def scenarios(self) -> list[str] | None:
        """Names of a few scenarios that show the breach; None where `only` chooses them.

        A monitor finds some breaches before any scenario: while the check lists what there is,
        and calls the tools.
        """
        if self.only:
            return None
        ids = (self.id, *self.also)
        names = [name for id in ids for name in self._deciding(id) or self._revealing(id)]
        return [each.name for each in SCENARIOS if each.name in names]

    @property
    def _running(self) -> list[Scenario]:
        return [each for each in SCENARIOS if each.runs_in(self.revision)]

    def _deciding(self, id: str) -> list[str]:
        """Return the scenarios that decide a requirement, and those of the areas."""
        rows = catalogue()
        return [
            each.name
            for each in self._running
            if id in each.ids or any(rows[id].area in self.areas for id in each.ids)
        ]

    def _revealing(self, id: str) -> list[str]:
        """Return one scenario for each request that lets a monitor judge a requirement."""
        revealing = revealing_methods(id, self.revision)
        if revealing is None:
            area = catalogue()[id].area
            return [
                each.name
                for each in self._running
                if each.is_judged and any(catalogue()[id].area == area for id in each.ids)
            ]
        judged = [each for each in self._running if each.is_judged]
        firsts = (
            next((each.name for each in judged if method in each.sends), None)
            for method in sorted(revealing)
        )
        return [name for name in firsts if name is not None]

    def check(self, *, is_full: bool = False, is_real: bool = False) -> dict[str, str]:
        """Return the requirements that a check finds broken, with what it says of them.

        Args:
            is_full: runs all scenarios, not only those that can show the breach.
            is_real: waits in real time.
        """
        scenarios = None if is_full else self.scenarios
        work = found(self.making, self.revision, self.only, scenarios)
        return asyncio.run(work) if is_real or self.is_process else run_in_virtual_time(work)


MUTANTS: dict[str, Mutant] = {}
UNBREAKABLE: dict[str, str] = {}
FEW: dict[str, str] = {}


class Between:
    """A carrier between the check and a server in memory, which may change all that passes.

    Attributes:
        shared: what all lines of one check have in common, for the mutant's own use.
        from_server: returns what is heard in place of a message of the server.
        from_client: returns what the server gets in place of a message of the client.
        requests: those that the client sent, by id.
    """

    def __init__(self, server: Any, shared: dict[str, Any]) -> None:
        self.shared = shared
        self.from_server: Change = lambda message, request: message
        self.from_client: Callable[[Message], Sent] = lambda message: message
        self.requests: dict[Any, Message] = {}
        self.connection: RawConnection
        # A server as one principal sees it has no core apart from itself.
        self._wire = MemoryWire(getattr(server, "_core", server))
        self._timers: list[asyncio.TimerHandle] = []

    async def open(self, line: RawConnection) -> None:
        self.connection = line
        await self._wire.open(self._hear, line.end)

    async def send(self, data: bytes) -> None:
        message = _decoded(data)
        for each in message if isinstance(message, list) else [message]:
            if (
                isinstance(each, dict)
                and "method" in each
                and isinstance(each.get("id"), str | int)
            ):
                self.requests[_key(each["id"])] = each
        changed = _mapped(message, self.from_client) if message is not None else data
        for each in _listed(changed):
            self.to_server(each)

    async def close(self) -> None:
        for timer in self._timers:
            timer.cancel()
        await self._wire.close()

    def _hear(self, data: bytes) -> None:
        message = _decoded(data)
        for each in _listed(_mapped(message, self._changed)):
            self.to_client(each)

    def _changed(self, message: Message) -> Sent:
        is_answer = "method" not in message
        request = self.requests.get(_key(message.get("id")), {}) if is_answer else {}
        return self.from_server(message, request)

    # -- for mutants

    def to_client(self, message: Any) -> None:
        """Let the check hear something, unchanged."""
        self.connection.receive(_encoded(message))

    def to_server(self, message: Any) -> None:
        """Hand something to the server, unchanged."""
        self._wire.write(_encoded(message), None)

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """Do something after this time, while the line lasts."""
        self._timers.append(asyncio.get_running_loop().call_later(seconds, work))

    def crash(self, why: str = "the server ended with exit code 1") -> None:
        """End the line as a server does that falls over."""
        self.connection.end(why)


def _decoded(data: bytes) -> Any:
    with contextlib.suppress(ValueError, RecursionError):
        return msgspec.json.decode(data)
    return None


def _encoded(message: Any) -> bytes:
    return message if isinstance(message, bytes) else msgspec.json.encode(message)


def _mapped(message: Any, change: Callable[[Message], Sent]) -> Any:
    """Change a message, or those in a batch that stays one."""
    if isinstance(message, dict):
        return change(message)
    if isinstance(message, list) and message:
        return [[out for each in message for out in _listed(_mapped(each, change))]]
    return [message] if message == [] else message


def _listed(sent: Any) -> list[Any]:
    return sent if isinstance(sent, list) else [] if sent is None else [sent]


def _key(id: Any) -> Any:
    return (type(id).__name__, id if isinstance(id, str | int | float) else None)


# -- registration

# Seconds of virtual time: more than any scenario needs.
PATIENCE = 8.0


def mutant(id: str, **settings: Any) -> Callable[[Change], Change]:
    """Register a server whose messages a function changes."""
    return interloper(id, of="from_server", **settings)


def interloper(id: str, *, of: str = "", **settings: Any) -> Callable[[Any], Any]:
    """Register a server with a hook into both directions, called for every new connection.

    Args:
        id: the requirement that it breaks.
        of: the attribute of `Between` that the function is in place of, if it is not a hook.
        **settings: those of `elsewhere`.
    """

    def register(fault: Any) -> Any:
        making = in_memory(hook_at(of, fault))
        elsewhere(id, **settings)(named(fault.__name__, making))
        return fault

    return register


def elsewhere(
    id: str,
    *,
    revision: str = "2025-06-18",
    also: dict[str, str] | None = None,
    **settings: Any,
) -> Callable[[Making], Making]:
    """Register a server that is reached in a way of its own: a process, a port."""

    def register(making: Making) -> Making:
        name = making.__name__
        era = "" if revision in HANDSHAKE else "-stateless"
        key = f"{id}-{name.replace('_', '-')}{era}"
        assert key not in MUTANTS, f"there are two mutants {key}"
        kept = {"id": id, "name": name, "making": making, "revision": revision}
        MUTANTS[key] = Mutant(also=also or {}, **kept, **settings)
        return making

    return register


def saying(*messages: Any, after: str = "notifications/initialized") -> Callable[[Between], None]:
    """Return a hook that says something of its own after the first message like this.

    What the client answers to it is kept from the server.
    """

    def hook(wire: Between) -> None:
        said: list[str] = []
        own = [each.get("id") for each in messages if isinstance(each, dict) and "id" in each]

        def from_client(message: Message) -> Sent:
            if "method" not in message and message.get("id") in own:
                return None
            if message.get("method") == after and not said:
                said.append(after)
                wire.later(0, lambda: [wire.to_client(each) for each in messages] and None)
            return message

        wire.from_client = from_client

    return hook


def params_of(message: Message) -> dict[str, Any]:
    """Return the parameters of a message, empty if there is no object."""
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def unbreakable(reason: str, *ids: str) -> None:
    """Name requirements that no mutant can break, with the reason."""
    for id in ids:
        assert id not in UNBREAKABLE, f"{id} is named twice"
        UNBREAKABLE[id] = reason


def few(reason: str, *ids: str) -> None:
    """Name requirements that cannot be broken in three different ways, with the reason."""
    for id in ids:
        assert id not in FEW, f"{id} is named twice"
        FEW[id] = reason


def all_mutants() -> dict[str, Mutant]:
    """Return the mutants of all areas, by name."""
    import check.mutants

    for module in pkgutil.iter_modules(check.mutants.__path__):
        importlib.import_module(f"check.mutants.{module.name}")
    return MUTANTS


def gate_mutants() -> set[str]:
    """Return the names of the mutants that run in the gate: one for each requirement and era.

    The others cost three times as much as these, and find what breaks less often.
    """
    chosen: dict[tuple[str, bool], str] = {}
    for name, each in all_mutants().items():
        first = chosen.setdefault((each.id, each.has_handshake), name)
        if MUTANTS[first].is_thorough and not each.is_thorough:
            chosen[each.id, each.has_handshake] = name
    return set(chosen.values())


def in_memory(
    hook: Callable[[Between], None], server: Any = everything, *, patience: float = PATIENCE
) -> Making:
    """Return what makes a subject in memory, with a hook into each of its lines."""

    @asynccontextmanager
    async def making() -> AsyncIterator[ServerTarget]:
        shared: dict[str, Any] = {}

        def carrier() -> Between:
            wire = Between(server, shared)
            hook(wire)
            return wire

        yield check_target(
            name="mutant", carrier=carrier, patience=patience, settling=0.05, at_once=32
        )

    return making


# -- judging


async def found(
    making: Making,
    revision: str,
    only: Sequence[str] = (),
    scenarios: Sequence[str] | None = None,
) -> dict[str, str]:
    """Check a subject under one revision and return its breaches, with what was said of them."""
    plan = ServerPlan(revisions=[revision], only=only, scenarios=scenarios)
    async with making() as subject:
        report = await check_server(subject, plan)
    return {
        result.id: f"{result.verdict}: {result.message}"
        for result in report.results
        if result.verdict in ("fail", "warn")
    }

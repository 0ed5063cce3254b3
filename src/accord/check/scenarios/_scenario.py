"""A scenario of a server check: what it sends, and which requirements it decides."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial, wraps
from typing import Final, TypeAlias, TypedDict, Unpack

import msgspec

from accord.check.probing.probe import Probe
from accord.check.probing.raw_connection import RawConnection
from accord.check.probing.server_facts import ServerFacts
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST
from accord.protocol.rules import complete
from accord.trace import Transport
from accord.types import RevisionId

Body: TypeAlias = Callable[[Probe], Awaitable[None]]
ConnectedBody: TypeAlias = Callable[[Probe, RawConnection], Awaitable[None]]
Opens: TypeAlias = Callable[[Probe], AbstractAsyncContextManager[RawConnection]]
When: TypeAlias = Callable[[ServerFacts], str | None]

# Methods that run a handler of the server's author, which may take long: from outside a long task
# looks like a lost answer.
WORK_OF_AUTHORS: Final = frozenset(
    {"tools/call", "resources/read", "prompts/get", "completion/complete"}
)
# Requests after which a server may send messages of its own accord.
_STIRRING: Final = WORK_OF_AUTHORS | {"resources/subscribe", "logging/setLevel"}
ALL_TRANSPORTS: Final[tuple[Transport, ...]] = ("stdio", "http", "sse")

# Ways to open a connection; unjudged ones are for scenarios that break rules themselves.
UNJUDGED: Final[Opens] = partial(Probe.borrow, is_judged=False)
UNINITIALIZED: Final[Opens] = partial(Probe.open, begins=False)
OWN: Final[Opens] = Probe.open
OWN_UNJUDGED: Final[Opens] = partial(Probe.open, is_judged=False)
UNINITIALIZED_UNJUDGED: Final[Opens] = partial(Probe.open, is_judged=False, begins=False)


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A test of a server.

    Attributes:
        name: what it tries, as a sentence without a subject.
        ids: the requirements that it decides.
        body: runs it.
        needs: a capability that the server must have declared, as a dotted path.
        on: the transports on which it can run.
        when: returns why it cannot run against this server; None if it can.
        is_outside: whether it can run without authorization.
        is_once: whether its verdicts under one revision hold under all of them.
        sends: the requests that it makes of a judged connection, besides harmless ones.
    """

    name: str
    ids: tuple[str, ...]
    body: Body
    needs: str | None = None
    on: tuple[Transport, ...] = ALL_TRANSPORTS
    when: When | None = None
    is_outside: bool = False
    is_once: bool = False
    sends: tuple[str, ...] = ()


class Settings(TypedDict, total=False):
    """The fields of a scenario that have defaults."""

    needs: str
    on: tuple[Transport, ...]
    when: When
    is_outside: bool
    is_once: bool
    sends: tuple[str, ...]


SERVER_SCENARIOS: Final[list[Scenario]] = []


def bare_scenario(*ids: str, **settings: Unpack[Settings]) -> Callable[[Body], Body]:
    """Register a scenario that opens its connections itself; it is named after its function."""

    def register(body: Body) -> Body:
        name = getattr(body, "__name__", "scenario").replace("_", " ")
        SERVER_SCENARIOS.append(Scenario(name=name, ids=ids, body=body, **settings))
        return body

    return register


def scenario(
    *ids: str, opens: Opens = Probe.borrow, **settings: Unpack[Settings]
) -> Callable[[ConnectedBody], ConnectedBody]:
    """Register a scenario that gets one connection, borrowed unless `opens` opens another."""

    def register(body: ConnectedBody) -> ConnectedBody:
        @wraps(body)
        async def run(probe: Probe) -> None:
            async with opens(probe) as connection:
                await body(probe, connection)

        bare_scenario(*ids, **settings)(run)
        return body

    return register


def revealing_methods(id: str, revision: RevisionId) -> frozenset[str] | None:
    """Return the requests that let a monitor judge a requirement; None if any message may do."""
    rules = [each for each in complete(revision).rules if each.requirement == id]
    found: set[str] = set()
    for rule in rules:
        if rule.about.on is None:
            return None
        found |= rule.about.on
        if not {REQUEST, NOTIFICATION}.isdisjoint(rule.about.kinds):
            found |= _STIRRING
    return frozenset(found) if found else None

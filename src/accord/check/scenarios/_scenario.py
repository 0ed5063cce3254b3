"""A scenario of a server check: what it sends, and which requirements it decides."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from accord.trace import Transport

if TYPE_CHECKING:
    from accord.check.probing.probe import Probe
    from accord.check.probing.server_facts import ServerFacts

Body: TypeAlias = Callable[["Probe"], Awaitable[None]]
When: TypeAlias = Callable[["ServerFacts"], str | None]

# Methods that run a handler of the server's author, which may take long: from outside a long task
# looks like a lost answer.
WORK_OF_AUTHORS: Final = frozenset(
    {"tools/call", "resources/read", "prompts/get", "completion/complete"}
)
ALL_TRANSPORTS: Final[tuple[Transport, ...]] = ("stdio", "http", "sse")


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
    """

    name: str
    ids: tuple[str, ...]
    body: Body
    needs: str | None = None
    on: tuple[Transport, ...] = ALL_TRANSPORTS
    when: When | None = None
    is_outside: bool = False
    is_once: bool = False


SERVER_SCENARIOS: Final[list[Scenario]] = []


def scenario(
    *ids: str,
    needs: str | None = None,
    on: tuple[Transport, ...] = ALL_TRANSPORTS,
    when: When | None = None,
    is_outside: bool = False,
    is_once: bool = False,
) -> Callable[[Body], Body]:
    """Register a scenario of a server check; it is named after its function."""

    def register(body: Body) -> Body:
        name = getattr(body, "__name__", "scenario").replace("_", " ")
        SERVER_SCENARIOS.append(
            Scenario(
                name=name,
                ids=ids,
                body=body,
                needs=needs,
                on=on,
                when=when,
                is_outside=is_outside,
                is_once=is_once,
            )
        )
        return body

    return register

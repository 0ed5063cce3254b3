"""The options of a proxy, and the settings of its connections."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from accord.client.options import ClientSettings, WireOptions, check_seconds
from accord.errors import refuse_unknown
from accord.protocol.party import elicitation_modes
from accord.types import (
    ClientCapabilities,
    ElicitationCapability,
    RootsCapability,
    SamplingCapability,
)

if TYPE_CHECKING:
    from accord.client.callbacks import Callbacks

Sharing = Literal["session", "shared"]

# Its callers have their own limits, and a call that they give up is cancelled here as well.
_TIMEOUT: Final = 600.0
_MOST_ENTRIES: Final = 10_000


class ProxyOptions(WireOptions, total=False):
    """Options of a proxy; those that `connect` has as well have the same meaning.

    Attributes:
        connections: "session" (the default): each client that has a session here has one of its own
            there, with what it can answer declared; so has each user without a session, and
            callers without an identity share one. "shared": all clients use one connection; a
            server of 2025-11-25 or older can ask them nothing.
        required: whether the server that mounts the proxy fails to start without the other one.
            By default its entries appear once the other server can be reached.
        start_timeout: seconds that the start of the mounting server waits for the other one.
        most_entries: how many tools, resources, templates and prompts are taken over of each.
        round_timeout: seconds that the other server waits for an answer of a client whose revision
            has no requests of servers (2026-07-28), until the call is given up (600).
        timeout: seconds of silence after which a request is given up (600).
    """

    connections: Sharing
    required: bool
    start_timeout: float
    most_entries: int
    round_timeout: float


@dataclass(frozen=True, kw_only=True)
class ProxySettings(ClientSettings):
    """The settings of the connections of a proxy.

    Attributes:
        declared: what the client can answer for which a connection is made.
        callbacks: makes what handles the messages of the other server.
    """

    timeout: float = _TIMEOUT
    cache: bool = False
    declared: ClientCapabilities = field(default_factory=ClientCapabilities)
    callbacks: "Callable[[ProxySettings], Callbacks] | None" = None

    def build_callbacks(self) -> "Callbacks":
        return super().build_callbacks() if self.callbacks is None else self.callbacks(self)


@dataclass(frozen=True, kw_only=True)
class ProxyPolicy:
    """How a proxy connects; `ProxyOptions` describes it."""

    connections: Sharing = "session"
    required: bool = False
    start_timeout: float = 10.0
    most_entries: int = _MOST_ENTRIES
    round_timeout: float = _TIMEOUT


_OWN: Final = tuple(each.name for each in fields(ProxyPolicy))


def read_options(options: Mapping[str, Any]) -> tuple[ProxyPolicy, dict[str, Any]]:
    """Return the policy of a proxy, and the settings of its connections.

    Raises:
        TypeError: an option does not exist.
        ValueError: one has a value that it cannot have.
    """
    callbacks = [name for name in options if name.startswith("on_") or name == "roots"]
    if callbacks:
        raise TypeError(
            f"proxy() has no keyword {callbacks[0]!r}: what the other server asks and reports is "
            "passed on to the clients"
        )
    refuse_unknown("proxy()", options, ProxyOptions.__annotations__)
    policy = ProxyPolicy(**{name: options[name] for name in _OWN if name in options})
    if policy.connections not in get_args(Sharing):
        raise ValueError(f'connections is {policy.connections!r}, expected "session" or "shared"')
    check_seconds("start_timeout", policy.start_timeout)
    check_seconds("round_timeout", policy.round_timeout)
    known = {each.name for each in fields(ClientSettings)}
    return policy, {name: value for name, value in options.items() if name in known}


def build_capabilities(declared: frozenset[str]) -> ClientCapabilities:
    """Return capabilities by their dotted paths: those that a proxy can pass on."""
    modes = elicitation_modes(declared)
    elicitation = ElicitationCapability(
        form={} if "form" in modes else None, url={} if "url" in modes else None
    )
    sampling = SamplingCapability(
        tools={} if "sampling.tools" in declared else None,
        context={} if "sampling.context" in declared else None,
    )
    return ClientCapabilities(
        roots=RootsCapability(list_changed="roots.listChanged" in declared)
        if "roots" in declared
        else None,
        sampling=sampling if "sampling" in declared else None,
        elicitation=elicitation if modes else None,
    )


@lru_cache(maxsize=256)
def question_paths(declared: frozenset[str]) -> frozenset[str]:
    """Return the capabilities of a client that let a server ask it."""
    return frozenset(
        path for path in declared if path.split(".")[0] in ("sampling", "elicitation", "roots")
    )

"""What an author may say of a server and of its tools."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from accord.principal import Principal
from accord.protocol.codec import Limits
from accord.server.access import Policy
from accord.types import Icon, LoggingLevel, ToolAnnotations
from accord.types._base import JsonObject, RevisionId

if TYPE_CHECKING:
    from accord.server.server import Middleware

__all__ = ["Protection", "Settings", "ToolDetails"]


class ToolDetails(TypedDict, total=False):
    """What an author may say about a tool; the rest is read from the function."""

    name: str
    title: str
    description: str
    annotations: ToolAnnotations
    icons: list[Icon]
    meta: JsonObject
    inline: bool
    timeout: float
    scopes: Iterable[str]


class Protection(Protocol):
    """What protects a server over HTTP, such as `accord.auth.Protected`."""

    @property
    def guard(self) -> Callable[..., Any]:
        """Called with an ASGI app, `path` and `public_url`; returns the app to serve instead."""


class Settings(TypedDict, total=False):
    """How a server works, apart from what it offers.

    Attributes:
        auth: protects it over HTTP, such as `accord.auth.Protected`.
        policy: says who may use what, beside scopes: called with the principal and the entry.
        principal: who calls over stdio and in memory, where nobody brings a token.
        step_up: whether callers that lack scopes are told which.
        revisions: those it speaks, all by default.
        middleware: around every request, the first outermost.
        page_size: how many entries a page of a list has.
        limits: what one message may cost.
        in_flight: how many requests of one client may be under way.
        threads: how many sync functions may run at once.
        ask_timeout: seconds to wait for what is asked of the client.
        log_level: what a client is sent before it asks for a level.
        debug: whether callers see the text of unexpected exceptions.
    """

    auth: Protection
    policy: Policy
    principal: Principal
    step_up: bool
    revisions: Sequence[RevisionId]
    middleware: "Sequence[Middleware]"
    page_size: int
    limits: Limits
    in_flight: int
    threads: int
    ask_timeout: float
    log_level: LoggingLevel
    debug: bool

"""Extensions: parts of the protocol beside its core, each declared here in one place.

Clients declare an extension on the request, servers in what they discover. A request that needs one
which it does not declare is refused, and names it.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.errors import MissingCapability
from accord.protocol.exchange import Exchange
from accord.protocol.revisions import Revision

if TYPE_CHECKING:
    from accord.server.core import ServerCore
    from accord.server.session import Session


class Extension(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the protocol beside its core.

    Attributes:
        id: names it in capabilities.
        is_in_force: whether a revision can carry it.
        is_offered: whether a server has anything to do with it.
        methods: the requests that it adds.
        result_types: the values of `resultType` that it adds.
        module: has a table `METHODS` of its handlers, and is loaded when one is first called.
    """

    id: str
    is_in_force: Callable[[Revision], bool]
    is_offered: Callable[["ServerCore"], bool]
    methods: frozenset[str]
    result_types: frozenset[str]
    module: str

    def is_declared(self, exchange: Exchange) -> bool:
        """Whether the client of a request understands it."""
        peer = exchange.peer
        return peer is not None and f"extensions.{self.id}" in peer.capabilities

    def require(self, exchange: Exchange, why: str) -> None:
        """Refuse a request whose client does not understand the extension.

        Raises:
            MissingCapability: it does not; the data names the extension.
        """
        if not self.is_declared(exchange):
            raise MissingCapability(
                f"{why}: the request does not declare the extension {self.id}",
                data={"requiredCapabilities": {"extensions": {self.id: {}}}},
            )

    def serve(self, session: "Session", exchange: Exchange, params: Any) -> Any:
        """Answer one of its requests.

        Raises:
            MissingCapability: the request does not declare the extension.
        """
        self.require(exchange, exchange.name)
        handler: Callable[..., Any] = import_module(self.module).METHODS[exchange.name]
        return handler(session, exchange, params)


TASKS: Final = Extension(
    id="io.modelcontextprotocol/tasks",
    is_in_force=lambda revision: revision.result_type,
    is_offered=lambda server: server.has_task_tools,
    methods=frozenset({"tasks/get", "tasks/update", "tasks/cancel"}),
    result_types=frozenset({"task"}),
    module="accord.server.tasks.extension",
)

EXTENSIONS: Final = (TASKS,)


def offered_extensions(server: "ServerCore") -> dict[str, dict[str, Any]] | None:
    """Return the extensions that a server declares; None without any."""
    return {each.id: {} for each in EXTENSIONS if each.is_offered(server)} or None


def find_handler(server: "ServerCore", exchange: Exchange) -> Callable[..., Any] | None:
    """Return the function that answers a request of an extension; None if it belongs to none."""
    for extension in EXTENSIONS:
        if exchange.name in extension.methods and extension.is_in_force(exchange.revision):
            return extension.serve if extension.is_offered(server) else None
    return None

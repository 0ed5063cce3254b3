"""Method name to function: the only place that answers the protocol's requests.

Each function gets the session, the exchange and the decoded params. It returns a result, the bytes
of one, or a coroutine for one.
"""

from collections.abc import Awaitable, Callable, Coroutine
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.errors import InvalidParams, MissingCapability, UnsupportedRevision
from accord.protocol.exchange import Exchange
from accord.protocol.party import peer_from_initialize
from accord.protocol.revisions import REVISIONS, Revision, negotiate
from accord.server.caching import list_scope, to_milliseconds
from accord.types import (
    CallToolParams,
    CompleteParams,
    CompleteResult,
    DiscoverParams,
    DiscoverResult,
    EmptyResult,
    GetPromptParams,
    InitializeParams,
    InitializeResult,
    ListenParams,
    PageParams,
    ReadResourceParams,
    SetLevelParams,
    SubscribeParams,
    UnsubscribeParams,
)

if TYPE_CHECKING:
    from accord.server.core import ServerCore
    from accord.server.entries.entry import Entry
    from accord.server.list_pages import Listing
    from accord.server.session import Session


Handler = Callable[["Session", Exchange, Any], Any]

# Within them the search for a similar name takes a millisecond at most.
_NAMES_SEARCHED: Final = 100
_NAME_SEARCHED: Final = 64


def initialize(
    session: "Session", exchange: Exchange, params: InitializeParams
) -> InitializeResult:
    server = session.server
    if all(not REVISIONS[id].handshake for id in server.revisions):
        raise UnsupportedRevision(
            f"this server speaks {', '.join(server.revisions)}, without initialize: name the "
            "revision in the _meta of each request",
            data={"supported": list(server.revisions), "requested": params.protocol_version},
        )
    row = negotiate(params.protocol_version, server.revisions)
    session.peer = peer_from_initialize(params, row, server.log_level)
    declared = server.capabilities(
        is_lasting=session.is_lasting,
        is_identified=session.principal_of(exchange) is not None,
    )
    return InitializeResult(row.id, declared, server.info, instructions=server.instructions)


def discover(session: "Session", exchange: Exchange, params: DiscoverParams) -> DiscoverResult:

    server = session.server
    return DiscoverResult(
        supported_versions=[*reversed(server.revisions)],
        capabilities=msgspec.structs.replace(
            server.capabilities(), extensions=offered_extensions(server)
        ),
        instructions=server.instructions,
        ttl_ms=to_milliseconds(server.cache.discover, "discover"),
        cache_scope=list_scope(session, exchange),
    )


def ping(session: "Session", exchange: Exchange, params: object) -> EmptyResult:
    return EmptyResult()


def _lists(listing_of: "Callable[[ServerCore], Listing]") -> Handler:
    def page(session: "Session", exchange: Exchange, params: PageParams) -> Any:
        if session.server.parts() and b'"accord/via"' in bytes(exchange.raw or b""):
            return _page_for_proxy(session, exchange, params)
        return build(session, exchange, params)

    async def _page_for_proxy(session: "Session", exchange: Exchange, params: PageParams) -> bytes:
        await session.server.check_loop(exchange.meta.get("accord/via") or ())
        return build(session, exchange, params)

    def build(session: "Session", exchange: Exchange, params: PageParams) -> bytes:
        server, row = session.server, exchange.revision
        listing = listing_of(server)
        visible = server.access.view(session, exchange, listing.registry)
        if not row.cache_hints:
            return listing.page(row.id, params.cursor, visible=visible)
        # Pages are encoded once, so that no endpoint can add to them.
        return listing.page(
            row.id,
            params.cursor,
            visible=visible,
            cache_scope=list_scope(session, exchange),
            meta=None if row.handshake else server.result_meta,
        )

    return page


def _unknown_tool(session: "Session", exchange: Exchange, name: str) -> InvalidParams:
    """Return the error for a tool that does not exist for the caller, with one that is named so."""
    hint, server = "", session.server
    # The search takes a moment, and runs on the loop.
    if len(server.tool_entries) <= _NAMES_SEARCHED and len(name) <= _NAME_SEARCHED:
        from difflib import get_close_matches

        visible = server.access.view(session, exchange, server.tool_entries)
        names = [each.key for each in server.tool_entries if visible is None or visible(each)]
        close = get_close_matches(name, names, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
    return InvalidParams(f"unknown tool {name!r}{hint}", data={"name": name})


def call_tool(session: "Session", exchange: Exchange, params: CallToolParams) -> Any:
    server = session.server
    entry = server.tool_entries.get(params.name)
    if entry is None or not server.access.admits(session, exchange, entry):
        raise _unknown_tool(session, exchange, params.name)
    facts = entry.facts
    if facts.mirrored and exchange.revision.rounds and exchange.origin is not None:
        exchange.origin.check_arguments(facts.mirrored, params.arguments)
    if facts.task is not None or params.task is not None:
        from accord.server.tasks.calls import call_as_task

        answer = call_as_task(session, exchange, entry, params)
        if answer is not None:
            return answer
    if params.request_state is not None or params.input_responses is not None:
        return _answer_round(entry, session, exchange, params)
    return entry.answer(session, exchange, params)


def _answer(
    entry: "Entry",
    session: "Session",
    exchange: Exchange,
    params: GetPromptParams | ReadResourceParams,
) -> Any:
    if params.request_state is not None or params.input_responses is not None:
        return _answer_round(entry, session, exchange, params)
    return entry.answer(session, exchange, params)


def _answer_round(
    entry: "Entry",
    session: "Session",
    exchange: Exchange,
    params: CallToolParams | GetPromptParams | ReadResourceParams,
) -> Any:
    """Answer a repeated request with the answers that come with it.

    Raises:
        InvalidParams: they cannot be used.
    """
    if exchange.revision.rounds:
        if exchange.channel is None:  # middleware may have opened it
            exchange.channel = session.channel(exchange)
        if exchange.channel.has_to_claim:
            return _answer_claimed(exchange.channel.claim(), entry, session, exchange, params)
    return entry.answer(session, exchange, params)


async def _answer_claimed(
    claim: Coroutine[object, None, None],
    entry: "Entry",
    session: "Session",
    exchange: Exchange,
    params: CallToolParams | GetPromptParams | ReadResourceParams,
) -> Any:
    """Answer once the answers may be used, where workers serve together."""
    await claim
    outcome = entry.answer(session, exchange, params)
    return await outcome if isinstance(outcome, Awaitable) else outcome


def _find_resource(session: "Session", exchange: Exchange, uri: str) -> "Entry":
    entry = session.server.find_resource(uri)
    if entry is None or not session.server.access.admits(session, exchange, entry):
        from accord.server.media import not_found

        raise not_found(uri)
    return entry


def read_resource(session: "Session", exchange: Exchange, params: ReadResourceParams) -> Any:
    entry = _find_resource(session, exchange, params.uri)
    return _answer(entry, session, exchange, params)


def subscribe(session: "Session", exchange: Exchange, params: SubscribeParams) -> EmptyResult:
    entry = _find_resource(session, exchange, params.uri)
    if not entry.is_visible(session, exchange):
        from accord.server.media import not_found

        raise not_found(params.uri)
    if not entry.reports_changes:
        raise InvalidParams(f"the server of {params.uri[:200]!r} reports no changes of resources")
    session.subscribe(params.uri)
    entry.subscribe(session, params.uri)
    return EmptyResult()


def unsubscribe(session: "Session", exchange: Exchange, params: UnsubscribeParams) -> EmptyResult:
    session.unsubscribe(params.uri)
    return EmptyResult()


def listen(session: "Session", exchange: Exchange, params: ListenParams) -> object:
    from accord.server import subscription

    return subscription.listen(session, exchange, params)


def get_prompt(session: "Session", exchange: Exchange, params: GetPromptParams) -> Any:
    entry = session.server.prompt_entries.get(params.name)
    if entry is None or not session.server.access.admits(session, exchange, entry):
        from accord.server.entries.prompts import unknown_prompt

        raise unknown_prompt(params.name)
    return _answer(entry, session, exchange, params)


async def complete(
    session: "Session", exchange: Exchange, params: CompleteParams
) -> CompleteResult:
    entry = session.server.completions.entry_of(params.ref)
    if not session.server.access.admits(session, exchange, entry):
        from accord.server.entries.completion import unknown_reference

        raise unknown_reference(params.ref)
    return await entry.complete(session, exchange, params)


def set_level(session: "Session", exchange: Exchange, params: SetLevelParams) -> EmptyResult:
    session.peer = session.peer.with_log_level(params.level)
    return EmptyResult()


METHODS: Final[dict[str, Handler]] = {
    "initialize": initialize,
    "server/discover": discover,
    "ping": ping,
    "tools/list": _lists(attrgetter("tools")),
    "tools/call": call_tool,
    "resources/list": _lists(attrgetter("resources")),
    "resources/templates/list": _lists(attrgetter("resource_templates")),
    "resources/read": read_resource,
    "resources/subscribe": subscribe,
    "resources/unsubscribe": unsubscribe,
    "subscriptions/listen": listen,
    "prompts/list": _lists(attrgetter("prompts")),
    "prompts/get": get_prompt,
    "completion/complete": complete,
    "logging/setLevel": set_level,
}


def find_rare_handler(server: "ServerCore", exchange: Exchange) -> Callable[..., Any] | None:
    """Load the handler of a method that few servers need; None if there is no such method."""
    if exchange.revision.tasks and server.has_task_tools:
        from accord.server.tasks.methods import CORE_METHODS

        return CORE_METHODS.get(exchange.name)
    return find_handler(server, exchange)


# -- extensions: parts of the protocol beside its core, each declared here in one place
#
# Clients declare an extension on the request, servers in what they discover. A request that needs
# one which it does not declare is refused, and names it.


class Extension(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the protocol beside its core.

    Attributes:
        id: names it in capabilities.
        is_in_force: whether a revision can carry it.
        is_offered: whether a server has anything to do with it.
        methods: the requests that it adds.
        result_types: the values of `resultType` that it adds.
        module: has a table `EXTENSION_METHODS` of its handlers; loaded when one is first called.
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
        handler: Callable[..., Any] = import_module(self.module).EXTENSION_METHODS[exchange.name]
        return handler(session, exchange, params)


TASKS: Final = Extension(
    id="io.modelcontextprotocol/tasks",
    is_in_force=lambda revision: revision.result_type,
    is_offered=lambda server: server.has_task_tools,
    methods=frozenset({"tasks/get", "tasks/update", "tasks/cancel"}),
    result_types=frozenset({"task"}),
    module="accord.server.tasks.methods",
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

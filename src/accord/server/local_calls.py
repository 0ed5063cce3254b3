"""Requests to a server from its own process, without a client: for scripts, tests and other tools.

They go through middleware, access and dependencies as those of clients do. There is no client to
ask, so that a handler that asks one gets an error.
"""

import itertools
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from accord.principal import Principal
from accord.protocol.bodies import BY_NAME
from accord.protocol.exchange import Exchange
from accord.protocol.party import Peer
from accord.protocol.revisions import REVISIONS
from accord.server.context import current
from accord.server.schema.encoding import encode
from accord.server.session import Session
from accord.types import (
    CallToolParams,
    CallToolResult,
    GetPromptParams,
    GetPromptResult,
    JsonObject,
    PageParams,
    Prompt,
    ReadResourceParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    Tool,
)

if TYPE_CHECKING:
    from accord.server.server import Server

_numbers: Final = itertools.count(1)


class LocalCalls:
    """The part of a `Server` by which its own process calls it.

    Within a handler of the same server the caller is that of the handler; else it is the
    `principal` that is given. The lifespan runs around a call, unless it is running on this loop.
    """

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        meta: JsonObject | None = None,
        principal: Principal | None = None,
    ) -> CallToolResult:
        """Call a tool and return its result, also where the tool reports an error.

        Raises:
            InvalidParams: there is no such tool for the caller.
        """
        params = CallToolParams(name, msgspec.Raw(encode(dict(arguments or {}))))
        result = await self._request("tools/call", params, meta, principal)
        return cast("CallToolResult", result)

    async def read_resource(
        self, uri: str, *, meta: JsonObject | None = None, principal: Principal | None = None
    ) -> ReadResourceResult:
        """Read a resource.

        Raises:
            ResourceNotFound: there is no such resource for the caller.
        """
        result = await self._request("resources/read", ReadResourceParams(uri), meta, principal)
        return cast("ReadResourceResult", result)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        meta: JsonObject | None = None,
        principal: Principal | None = None,
    ) -> GetPromptResult:
        """Return a prompt with its arguments filled in.

        Raises:
            InvalidParams: there is no such prompt for the caller, or an argument is missing.
        """
        params = GetPromptParams(name, dict(arguments or {}))
        result = await self._request("prompts/get", params, meta, principal)
        return cast("GetPromptResult", result)

    async def list_tools(self, *, principal: Principal | None = None) -> list[Tool]:
        """Return the tools that the caller may use."""
        return await self._list("tools/list", "tools", principal)

    async def list_resources(self, *, principal: Principal | None = None) -> list[Resource]:
        """Return the resources that the caller may read."""
        return await self._list("resources/list", "resources", principal)

    async def list_resource_templates(
        self, *, principal: Principal | None = None
    ) -> list[ResourceTemplate]:
        """Return the resource templates that the caller may read."""
        return await self._list("resources/templates/list", "resource_templates", principal)

    async def list_prompts(self, *, principal: Principal | None = None) -> list[Prompt]:
        """Return the prompts that the caller may use."""
        return await self._list("prompts/list", "prompts", principal)

    async def _list(self, method: str, member: str, principal: Principal | None) -> list[Any]:
        entries: list[Any] = []
        params = PageParams()
        while True:
            page = await self._request(method, params, None, principal)
            entries += getattr(page, member)
            if page.next_cursor is None:
                return entries
            params = PageParams(cursor=page.next_cursor)

    async def _request(
        self, method: str, params: Any, meta: JsonObject | None, principal: Principal | None
    ) -> Any:
        server = cast("Server[Any]", self)
        async with _state_for(server) as state:
            session = Session(server, lambda data, exchange: None, state)
            context = current.get(None)
            if principal is not None:
                session.principal = principal
            elif context is not None and context._session.server is server:
                session.principal = context.principal
            exchange = _build_exchange(server, method, meta)
            exchange.params = params
            # The handler sets its own, which must not be seen after the call.
            token = current.set(cast("Any", context))
            try:
                outcome = session.request(exchange, params, session.dispatcher)
                result = await outcome if isawaitable(outcome) else outcome
            finally:
                current.reset(token)
                session.close()
            if isinstance(result, bytes):
                return msgspec.json.decode(result, type=BY_NAME[method].result)
            return result


def _state_for(server: "Server[Any]") -> AbstractAsyncContextManager[Any]:
    """Return the state of the lifespan that runs on this loop, or run it."""
    context = current.get(None)
    if context is not None and context._session.server is server:
        return nullcontext(context._session.lifespan_state)
    running = server.scopes.running_states()
    return nullcontext(running[-1]) if running else server.open_lifespan()


def _build_exchange(server: "Server[Any]", method: str, meta: JsonObject | None) -> Exchange:
    """Return a request of a client that declares nothing and wants no logs."""
    rows = [REVISIONS[id] for id in server.revisions]
    with_handshake = [row for row in rows if row.handshake]
    row = (with_handshake or rows)[-1]
    exchange = Exchange(
        f"local-{next(_numbers)}", method, "client", row, row.requests["client"].get(method)
    )
    exchange.peer = Peer(row, None, frozenset(), None)
    if meta:
        exchange.raw = msgspec.Raw(encode({"_meta": meta}))
    return exchange

"""Requests to a server from its own process, without a client: for scripts, tests and other tools.

They go through middleware, access and dependencies as those of clients do. There is no client to
ask, so that a handler that asks one gets an error.
"""

import itertools
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
    JsonObject,
    PageParams,
)

if TYPE_CHECKING:
    from accord.server.core import ServerCore

_numbers: Final = itertools.count(1)


async def list_locally(
    server: "ServerCore", method: str, member: str, principal: Principal | None
) -> list[Any]:
    """Return all pages of a list as one list."""
    entries: list[Any] = []
    params = PageParams()
    while True:
        page = await request_locally(server, method, params, None, principal)
        entries += getattr(page, member)
        if page.next_cursor is None:
            return entries
        params = PageParams(cursor=page.next_cursor)


async def request_locally(
    server: "ServerCore",
    method: str,
    params: Any,
    meta: JsonObject | None,
    principal: Principal | None,
) -> Any:
    """Answer a request of this process."""
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


def _state_for(server: "ServerCore") -> AbstractAsyncContextManager[Any]:
    """Return the state of the lifespan that runs on this loop, or run it."""
    context = current.get(None)
    if context is not None and context._session.server is server:
        return nullcontext(context._session.lifespan_state)
    running = server.scopes.running_states()
    return nullcontext(running[-1]) if running else server.open_lifespan()


def _build_exchange(server: "ServerCore", method: str, meta: JsonObject | None) -> Exchange:
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

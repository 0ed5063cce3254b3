"""Requests that are passed on: their results are kept as they were received, too."""

import asyncio
from collections.abc import Callable
from typing import Any

from accord.protocol.exchange import Exchange
from accord.protocol.unknown import UnknownMembers
from accord.runtime.dispatcher import Dispatcher
from accord.runtime.tasks import Pending
from accord.types import ProgressParams


async def forward(
    dispatcher: Dispatcher,
    name: str,
    params: Any,
    *,
    timeout: float | None = None,
    cap: float | None = None,
    on_progress: Callable[[ProgressParams], object] | None = None,
    within: Exchange | None = None,
    unknown: UnknownMembers | None = None,
) -> tuple[Any, Exchange]:
    """Ask the peer as `Dispatcher.request` does; return the result, and the exchange.

    Args:
        dispatcher: the party that asks.
        name: the method.
        params: its params.
        timeout: seconds without answer or progress after which the request is cancelled.
        cap: seconds after which it is cancelled whatever progress comes.
        on_progress: called with each progress notification.
        within: the exchange during which we ask, if any.
        unknown: members of the params that no revision defines.
    """
    if dispatcher.closed is not None:
        raise dispatcher.closed
    loop = asyncio.get_running_loop()
    exchange, data = dispatcher.endpoint.request(name, params, unknown=unknown)
    future = loop.create_future()
    exchange.state = pending = Pending(future, timeout, cap, loop.time(), on_progress)
    dispatcher._set_timer(pending.ends)
    dispatcher.write(data, within)
    try:
        return await future, exchange
    except asyncio.CancelledError:
        dispatcher.cancel(exchange, "cancelled by the caller")
        raise

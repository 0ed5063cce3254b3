"""Replies: those that our requests wait for, and those to requests whose handler failed."""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable
from math import inf
from typing import Any

from accord.errors import InternalError, MessageTooLarge, RequestError, RequestTimeout
from accord.protocol.exchange import Exchange
from accord.types import ProgressParams


class Pending:
    """A request of ours until its answer arrives.

    Args:
        future: gets the answer.
        timeout: seconds without answer or progress.
        cap: seconds in all.
        now: when the request is sent, on the loop's clock.
        on_progress: called with each progress notification.
    """

    __slots__ = ("cap", "cap_ends", "ends", "future", "on_progress", "timeout")

    def __init__(
        self,
        future: asyncio.Future[Any],
        timeout: float | None,
        cap: float | None,
        now: float,
        on_progress: Callable[[ProgressParams], object] | None,
    ) -> None:
        self.future = future
        self.timeout = timeout
        self.cap = cap
        self.cap_ends = inf if cap is None else now + cap
        self.on_progress = on_progress
        self.ends = inf

    def extend(self, now: float) -> float:
        """Count the silence from now on; returns when the first of the two limits runs out."""
        ends = inf if self.timeout is None else now + self.timeout
        self.ends = min(self.cap_ends, ends)
        return self.ends

    def expiry(self, name: str) -> RequestTimeout:
        """Return the error that says which of the two limits ran out."""
        if self.ends == self.cap_ends:
            limit = f"{self.cap:g} s in all (cap)"
        else:
            limit = f"{self.timeout:g} s of silence (timeout)"
        return RequestTimeout(f"{name}: no answer within {limit}; it was cancelled")


log = logging.getLogger("accord")


def explain_size(exchange: Exchange, error: MessageTooLarge) -> InternalError:
    """Return the answer that takes the place of one that is too large."""
    name = exchange.state if isinstance(exchange.state, str) else exchange.name
    why = (
        f"{name}: the answer has {error.size} bytes, more than the limit of {error.limit} "
        "(message_bytes)"
    )
    log.warning("%s; limits=Limits(message_bytes=...) raises it", why)
    return InternalError(why)


def is_writable(error: RequestError) -> bool:
    """Whether the code and the message of a handler's error are what JSON-RPC demands."""
    return type(error.code) is int and isinstance(error.message, str)


def is_pressed() -> bool:
    """Whether a KeyboardInterrupt here may come from Ctrl-C rather than from a handler.

    Where a loop or a server took the signal, it ends the program in its own way.
    """
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler

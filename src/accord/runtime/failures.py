"""How a request is answered whose handler failed."""

import logging
import signal
import threading

from accord.errors import InternalError, MessageTooLarge, RequestError
from accord.protocol.exchange import Exchange

__all__ = ["explain_size", "is_pressed", "is_writable"]

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

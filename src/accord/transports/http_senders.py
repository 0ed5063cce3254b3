"""Which sender serves a client: sockets of our own, or aiohttp where more is asked for."""

from typing import Any, TypeAlias

from accord.transports.http.client.aiohttp_sender import AiohttpSender
from accord.transports.http.client.options import HttpClientOptions
from accord.transports.http.client.sender import proxy_for, require_aiohttp
from accord.transports.http.client.sockets import SocketSender

__all__ = ["OwnSender", "require_sender", "sender_for"]

OwnSender: TypeAlias = AiohttpSender | SocketSender


def sender_for(url: str, options: HttpClientOptions) -> OwnSender:
    """Make a sender on the running loop."""
    parser = _parser_for(url, options)
    return AiohttpSender(url, options) if parser is None else SocketSender(parser, options)


def require_sender(url: str, options: HttpClientOptions) -> None:
    """See that there will be a sender.

    Raises:
        MissingExtra: what it takes is not installed.
    """
    if _parser_for(url, options) is None:
        require_aiohttp()


def _parser_for(url: str, options: HttpClientOptions) -> Any:
    """Return what reads responses from sockets; None where aiohttp is needed."""
    if options.session is not None or options.proxy or (options.proxy is None and proxy_for(url)):
        return None
    try:
        from httptools import HttpResponseParser
    except ImportError:
        return None
    return HttpResponseParser

"""Listening sockets; without what serves on them, so that a parent process can open them."""

import socket

from accord.errors import TransportError


def listen(host: str, port: int) -> list[socket.socket]:
    """Open listening sockets for an address: one for each family that it has.

    Raises:
        TransportError: the address cannot be listened on.
    """
    opened: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_ADDRCONFIG
        )
        for family, _, _, _, address in dict.fromkeys(found):
            # With port 0 any free port, the same for all families.
            free = opened[0].getsockname()[1] if opened else port
            made = socket.create_server((*address[:1], free), family=family, backlog=2048)
            # asyncio sets TCP_NODELAY only on sockets that name their protocol. Without it the
            # second part of a response waits some 40 ms for the client to acknowledge the first.
            kind = (family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            opened.append(socket.socket(*kind, fileno=made.detach()))
    except OSError as error:
        for each in opened:
            each.close()
        why = error.strerror or str(error)
        raise TransportError(f"cannot listen on {host}:{port}: {why.lower()}") from None
    return opened

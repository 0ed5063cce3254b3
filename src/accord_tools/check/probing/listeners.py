"""Tells at which addresses of this machine a port is open."""

import asyncio
import ipaddress
import socket
from pathlib import Path
from typing import Final

# Where the kernel of Linux lists its sockets; a socket that listens has this state.
_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS: Final = "0A"
_WORD: Final = 8
# Addresses of documentation (RFC 5737, RFC 3849): nothing is sent to them.
_ELSEWHERE: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
_DIALLING: Final = 1.0


def listening_addresses(port: int) -> set[str] | None:
    """Return the addresses at which this machine listens; None if they cannot be found."""
    tables = [table for table in _TABLES if table.exists()]
    if not tables:
        return None
    try:
        lines = [line for table in tables for line in table.read_text().splitlines()[1:]]
    except OSError:
        return None
    return {
        _address(place.partition(":")[0])
        for _, place, _, state, *_ in (line.split() for line in lines)
        if state == _LISTENS and int(place.partition(":")[2], 16) == port
    }


def _address(digits: str) -> str:
    # Words of four bytes, each in the byte order of the machine, which is little-endian here.
    words = [digits[each : each + _WORD] for each in range(0, len(digits), _WORD)]
    packed = b"".join(bytes.fromhex(word)[::-1] for word in words)
    address = ipaddress.ip_address(packed)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def own_addresses() -> list[str]:
    """Return the addresses of this machine in its networks, at most one of each family."""
    found = []
    for family, elsewhere in _ELSEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probing:
                probing.connect((elsewhere, 9))
                address = str(probing.getsockname()[0])
        except OSError:
            continue
        if not ipaddress.ip_address(address).is_loopback:
            found.append(address)
    return found


async def open_addresses(port: int) -> list[str]:
    """Return the addresses of this machine in its networks at which a port takes connections."""
    found = []
    for address in own_addresses():
        try:
            async with asyncio.timeout(_DIALLING):
                _, writer = await asyncio.open_connection(address, port)
        except (OSError, TimeoutError):
            continue
        writer.close()
        found.append(address)
    return found

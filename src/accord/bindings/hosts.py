"""Which hosts a URL that a stranger wrote may name, and what an address counts as. Pure.

A host is shown to people, compared with other hosts, and handed to HTTP libraries, resolvers and
browsers. All of them must read it in the same way, so nothing is taken that one of them rewrites.
"""

import ipaddress
import re
from functools import lru_cache
from typing import Final

__all__ = ["ends_in_number", "host_fault", "source_of"]

# RFC 1123 names, and the underscore that containers have in theirs. No percent sign: browsers
# decode `%65vil.com`, comparisons do not.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?")
# WHATWG URL, "ends in a number": browsers, and resolvers with inet_aton, read such a host as an
# IPv4 address: `2130706433`, `0177.0.0.1`, `127.1` and `0x7f.1` are all 127.0.0.1.
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
# The smallest network that providers give to one customer (RFC 6177): all of it is one source.
_V6_PREFIX: Final = 64


def host_fault(host: str) -> str | None:
    """Return why a host of a URL is refused; None where it is a name or a canonical address.

    >>> host_fault("login.example.com")
    >>> host_fault("127.1")
    'is a number but not a canonical IP address'
    """
    if ":" in host:
        return None if _is_address(host) else "is not an IPv6 address"
    if not host.isascii():
        return "has characters beyond ASCII"
    if not _NAME.fullmatch(host):
        return "has characters that no host name has"
    if ends_in_number(host) and not _is_address(host):
        return "is a number but not a canonical IP address"
    return None


def ends_in_number(host: str) -> bool:
    """Whether the last label of a host is a number, so that the host may be read as an address."""
    return _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]) is not None


@lru_cache(maxsize=1_024)
def source_of(address: str) -> str:
    """Return what a client's address counts as: itself, of IPv6 the network of one customer.

    >>> source_of("2001:db8:1:2:3::4")
    '2001:db8:1:2::/64'
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, _V6_PREFIX), strict=False))


def _is_address(host: str) -> bool:
    if "%" in host:  # a zone names an interface of this machine; a stranger knows none of them
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True

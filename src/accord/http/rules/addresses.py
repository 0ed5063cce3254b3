"""Hosts and IP addresses: which a URL may name, where they lead, whose they are. Pure.

A host is shown to users, compared with other hosts, and handed to HTTP libraries, resolvers and
browsers. All of them must read it in the same way, so a host that one of them rewrites is refused.
"""

import ipaddress
import re
from functools import lru_cache
from typing import Final, Literal, TypeAlias

AddressKind: TypeAlias = Literal["public", "private", "loopback", "link-local", "unusable"]

LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""The hosts by which a server on this machine is called; others, such as 127.0.0.2, are not."""

# RFC 1123 names, and the underscore that containers have in theirs. No percent sign: browsers
# decode `%65vil.com`, comparisons do not.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?")
# WHATWG URL, "ends in a number": browsers, and resolvers with inet_aton, read such a host as an
# IPv4 address: `2130706433`, `0177.0.0.1`, `127.1` and `0x7f.1` are all 127.0.0.1.
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
# The smallest network that providers give to one customer (RFC 6177).
_V6_PREFIX: Final = 64
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
# The tables of Python lack these, some of them in old versions only: addresses of protocols, old
# relays of 6to4, site-local addresses, which some networks still route, and documentation.
_NOT_PUBLIC: Final = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "fec0::/10", "3fff::/20"))
)
# Addresses at which cloud machines find their credentials, in addition to link-local ones.
_METADATA: Final = frozenset(
    map(ipaddress.ip_address, ("100.100.100.200", "fd00:ec2::254", "168.63.129.16", "192.0.0.192"))
)


def host_fault(host: str) -> str | None:
    """Return why a host of a URL is refused; None for a name or a canonical address.

    >>> host_fault("login.example.com")
    >>> host_fault("127.1")
    'is a number but not a canonical IP address'
    """
    if ":" in host:
        return None if _is_address(host) else "is not an IPv6 address"
    if not host.isascii():
        return "has characters beyond ASCII"
    if not _NAME.fullmatch(host):
        return "has characters that are not allowed in a host name"
    if ends_in_number(host) and not _is_address(host):
        return "is a number but not a canonical IP address"
    return None


def ends_in_number(host: str) -> bool:
    """Whether the last label of a host is a number, so that the host may be read as an address."""
    return _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]) is not None


def is_loopback(host: str) -> bool:
    """Whether a host always means this machine, whatever a resolver says."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return literal_address_kind(name) == "loopback"


def address_kind(address: str) -> AddressKind:
    """Return where an IP address leads; a v4 address inside a v6 one counts as itself.

    Raises:
        ValueError: the text is not an IP address.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo and ip.teredo[1])
        if ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner:
            return address_kind(str(inner))
    if ip in _METADATA or ip.is_link_local:
        return "link-local"
    if ip.is_loopback:
        return "loopback"
    if ip.is_multicast or ip.is_unspecified or ip.is_reserved:
        return "unusable"
    is_public = ip.is_global and not any(ip in each for each in _NOT_PUBLIC)
    return "public" if is_public else "private"


def literal_address_kind(host: str) -> AddressKind | None:
    """Return where a host leads that is an IP address; None for a name."""
    try:
        return address_kind(host)
    except ValueError:
        return None


@lru_cache(maxsize=1_024)
def client_network(address: str) -> str:
    """Return the key under which a client's address is counted: for IPv6, the customer's network.

    >>> client_network("2001:db8:1:2:3::4")
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
    # A zone names an interface of this machine, which strangers do not know.
    return "%" not in host and literal_address_kind(host) is not None

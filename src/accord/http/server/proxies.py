"""Proxies whose word about the client of a request is taken."""

import ipaddress
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from accord.errors import TransportError

if TYPE_CHECKING:
    from accord.http.server.listener_request import ReceivedHead

# The variable that uvicorn and gunicorn read, so that one setting serves all of them.
VARIABLE: Final = "FORWARDED_ALLOW_IPS"
_LOOPBACK: Final = "127.0.0.1,::1"
_FOR: Final = b"x-forwarded-for"
_PROTO: Final = b"x-forwarded-proto"
_SCHEMES: Final = ("http", "https")
# How many addresses are remembered.
_REMEMBERED: Final = 1_024


class TrustedProxies:
    """The addresses and networks of proxies; "*" for all.

    Raises:
        ValueError: a text is not an address, a network or "*".
    """

    def __init__(self, named: Iterable[str]) -> None:
        names = {each.strip() for each in named} - {""}
        self._trusts_all = "*" in names
        self._networks = [ipaddress.ip_network(each) for each in sorted(names - {"*"})]
        self._known: dict[str, bool] = {}

    @classmethod
    def from_environment(cls) -> "TrustedProxies":
        """Return those that the environment names; those on this machine by default.

        Raises:
            TransportError: the variable is malformed.
        """
        try:
            return cls(os.environ.get(VARIABLE, _LOOPBACK).split(","))
        except ValueError as error:
            expected = "expected addresses and networks with commas between them, or *"
            raise TransportError(f"variable {VARIABLE}: {error}; {expected}") from None

    def trust(self, host: str) -> bool:
        """Whether an address is that of such a proxy."""
        found = self._known.get(host)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[host] = self._trusts_all or self._is_in_network(host)
        return found

    def _is_in_network(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in each for each in self._networks if each.version == address.version)

    def find_client(
        self, head: "ReceivedHead", peer: tuple[str, int] | None, scheme: str
    ) -> tuple[Any, str]:
        """Return the client and the scheme of a request, as a trusted proxy reports them.

        Args:
            head: of the request.
            peer: the other end of the connection; None for a Unix socket, which only programs of
                this machine can reach.
            scheme: of the connection.
        """
        headers = head.headers
        if _FOR not in headers and _PROTO not in headers:
            return peer, scheme
        if peer is not None and not self.trust(peer[0]):
            return peer, scheme
        client: tuple[str, int] | None = peer
        hosts = [each.strip() for each in headers.get(_FOR, b"").decode("latin-1").split(",")]
        # From the right: what stands before the first address that is not trusted can be forged.
        found = next((each for each in reversed(hosts) if not self.trust(each)), hosts[0])
        if found:
            client = (found, 0)
        proto = headers.get(_PROTO, b"").decode("latin-1").strip().lower()
        return client, proto if proto in _SCHEMES else scheme

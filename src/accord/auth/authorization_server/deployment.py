"""Where an authorization server is reached: its issuer and what it protects, by request. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from accord.auth.authorization_server.endpoints import AUTHORIZATION_SERVER, OPENID, PATHS
from accord.auth.authorization_server.messages import FORWARDED, OAuthRefusal
from accord.auth.urls import (
    canonical_http_url,
    endpoint_url,
    is_loopback_host,
    is_loopback_url,
    is_same_resource,
)

_WELL_KNOWN = (AUTHORIZATION_SERVER, OPENID)


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """Where an authorization server is.

    Attributes:
        issuer: its URL; None for whatever name of loopback a request comes by.
        resources: URLs of what it issues tokens for.
        path: of the endpoint beside it, where there is one.
        others: paths of further endpoints there; a token for one of these has to be asked for.
        needs_loopback: whether nobody else may reach it.
    """

    issuer: str | None = None
    resources: tuple[str, ...] = ()
    path: str | None = None
    others: tuple[str, ...] = ()
    needs_loopback: bool = False

    @classmethod
    def beside(
        cls, issuer: str | None, public_url: str | None, path: str, resources: tuple[str, ...]
    ) -> "Deployment":
        """Return the place beside an endpoint.

        Raises:
            ValueError: a URL is none, or not safe.
        """
        if public_url is None:
            return cls(issuer=issuer, resources=resources, path=path)
        resource = endpoint_url(public_url, path)
        found = issuer if issuer is not None else checked_issuer(resource.removesuffix(path))
        return cls(issuer=found, resources=(resource, *resources), path=path)

    def route(self, scope: Mapping[str, Any]) -> str | None:
        """Return which path of the authorization server a request is for; None where of none."""
        path = local_path(scope).rstrip("/")
        prefix = urlsplit(self.issuer or "").path.rstrip("/")
        if prefix and path.startswith(f"{prefix}/"):
            path = path.removeprefix(prefix)
        if path in PATHS:
            return path
        for known in _WELL_KNOWN:
            suffix = path.removeprefix(known)
            if suffix != path and suffix in self._suffixes(scope):
                return known
        return None

    def _suffixes(self, scope: Mapping[str, Any]) -> tuple[str, ...]:
        """Say what may follow a well-known path: nothing, the issuer's path, the endpoint's."""
        issuer = urlsplit(self.issuer or "").path.rstrip("/")
        mount = str(scope.get("root_path", "")).rstrip("/")
        # Clients that take the server itself for the issuer look there (2025-03-26).
        paths = (self.path or "", *self.others)
        endpoints = (f"{before}{path}" for before in ("", issuer, mount) for path in paths)
        return ("", issuer, mount, *endpoints)

    def issuer_of(self, scope: Mapping[str, Any], headers: Mapping[str, str]) -> str:
        """Return the issuer for a request.

        Raises:
            Refusal: the request does not come the way it must.
        """
        self._check_way(scope, headers)
        if self.issuer is not None:
            return self.issuer
        # Loopback alone comes here: any other name was refused.
        mount = str(scope.get("root_path", "")).rstrip("/")
        return f"{scope.get('scheme', 'http')}://{headers['host'].lower()}{mount}"

    def resources_of(self, issuer: str, asked: Iterable[str] = ()) -> tuple[str, ...]:
        """Return what tokens can be for, under an issuer, given what a request asks for."""
        found = self.resources
        own = None if self.path is None else canonical_http_url(f"{issuer}{self.path}")
        if own is not None and self.issuer is None:
            found = (own, *found)
        if not self.others or not found:
            return found
        above = found[0].removesuffix(self.path or "")
        others = [f"{above}{path}" for path in self.others]
        return (
            *found,
            *(each for each in others if any(is_same_resource(each, it) for it in asked)),
        )

    def _check_way(self, scope: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        is_local = self.issuer is None or is_loopback_url(self.issuer)
        if is_local and not is_loopback_host(headers.get("host")):
            why = "only requests to localhost are served; set public_url for others"
            raise OAuthRefusal("invalid_request", why, status=403)
        if not is_local and headers.get("x-forwarded-proto", "https").split(",")[0] == "http":
            raise OAuthRefusal("invalid_request", "only HTTPS is served here", status=403)
        if self.needs_loopback:
            client = scope.get("client")
            is_near = client is None or is_loopback_host(_bracketed(str(client[0])))
            if not is_near or any(name in headers for name in FORWARDED):
                why = "without passwords, only people at this computer are served"
                raise OAuthRefusal("access_denied", why, status=403)


def checked_issuer(issuer: str) -> str:
    """Return an issuer's URL without a slash at its end.

    Raises:
        ValueError: it is none, or others could listen (auth.https.endpoints).
    """
    found = canonical_http_url(issuer)
    if found is None or "?" in found:
        raise ValueError(f"issuer is {issuer!r}, expected https://host[:port][/path]")
    if not found.startswith("https:") and not is_loopback_url(found):
        raise ValueError(f"issuer is {issuer!r}, expected https: tokens travel in the clear else")
    return found


def local_path(scope: Mapping[str, Any]) -> str:
    """Return the path below where the app is mounted."""
    path, root = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def headers_of(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a request; of those that are there twice the last counts."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address

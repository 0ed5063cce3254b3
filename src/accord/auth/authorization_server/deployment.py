"""Where an authorization server is reached: its issuer, its routes and its resources. Pure."""

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

import msgspec

from accord.auth.authorization_server.endpoints import AUTHORIZATION_SERVER, OPENID, PATHS
from accord.auth.authorization_server.models import FORWARDED, OAuthRefusal
from accord.auth.guard import Scope, local_path
from accord.auth.urls import (
    canonical_http_url,
    endpoint_url,
    is_loopback_host,
    is_loopback_url,
    is_same_resource,
)

_WELL_KNOWN = (AUTHORIZATION_SERVER, OPENID)


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """Where an authorization server is reached.

    Attributes:
        issuer: its URL; None for the name of loopback that each request uses.
        resources: URLs of the servers that it issues tokens for.
        path: of the protected endpoint beside it, if any.
        other_paths: of further endpoints; tokens for these have to be requested explicitly.
        needs_loopback: whether only this machine may reach it.
    """

    issuer: str | None = None
    resources: tuple[str, ...] = ()
    path: str | None = None
    other_paths: tuple[str, ...] = ()
    needs_loopback: bool = False

    @classmethod
    def beside(
        cls, issuer: str | None, public_url: str | None, path: str, resources: tuple[str, ...]
    ) -> "Deployment":
        """Return the deployment beside a protected endpoint.

        Raises:
            ValueError: a URL is invalid, or not safe.
        """
        if public_url is None:
            return cls(issuer=issuer, resources=resources, path=path)
        resource = endpoint_url(public_url, path)
        found = issuer if issuer is not None else check_issuer(resource.removesuffix(path))
        return cls(issuer=found, resources=(resource, *resources), path=path)

    def route(self, scope: Scope) -> str | None:
        """Return the path of the authorization server that a request is for; None for others."""
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

    def _suffixes(self, scope: Scope) -> tuple[str, ...]:
        """Return the suffixes of a well-known path: none, the issuer's path, the endpoint's."""
        issuer = urlsplit(self.issuer or "").path.rstrip("/")
        mount = str(scope.get("root_path", "")).rstrip("/")
        # Clients of 2025-03-26, for which the server itself is the issuer, look there.
        paths = (self.path or "", *self.other_paths)
        endpoints = (f"{before}{path}" for before in ("", issuer, mount) for path in paths)
        return ("", issuer, mount, *endpoints)

    def issuer_of(self, scope: Scope, headers: Mapping[str, str]) -> str:
        """Return the issuer for a request.

        Raises:
            OAuthRefusal: the request is not for this host, or not over HTTPS.
        """
        self._check_request(scope, headers)
        if self.issuer is not None:
            return self.issuer
        # Any other name than loopback was refused above.
        mount = str(scope.get("root_path", "")).rstrip("/")
        return f"{scope.get('scheme', 'http')}://{headers['host'].lower()}{mount}"

    def resources_of(self, issuer: str, asked: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the resources that tokens can be for, given those that a request names."""
        found = self.resources
        own = None if self.path is None else canonical_http_url(f"{issuer}{self.path}")
        if own is not None and self.issuer is None:
            found = (own, *found)
        if not self.other_paths or not found:
            return found
        above = found[0].removesuffix(self.path or "")
        others = [f"{above}{path}" for path in self.other_paths]
        return (
            *found,
            *(each for each in others if any(is_same_resource(each, it) for it in asked)),
        )

    def _check_request(self, scope: Scope, headers: Mapping[str, str]) -> None:
        is_local = self.issuer is None or is_loopback_url(self.issuer)
        if is_local and not is_loopback_host(headers.get("host")):
            why = "only requests to localhost are served; set public_url for others"
            raise OAuthRefusal("invalid_request", why, status=403)
        if not is_local and headers.get("x-forwarded-proto", "https").split(",")[0] == "http":
            raise OAuthRefusal("invalid_request", "only HTTPS is served here", status=403)
        if self.needs_loopback:
            client = scope.get("client")
            is_near = client is None or is_loopback_host(_with_brackets(str(client[0])))
            if not is_near or any(name in headers for name in FORWARDED):
                why = "without passwords, only users of this computer are served"
                raise OAuthRefusal("access_denied", why, status=403)


def check_issuer(issuer: str) -> str:
    """Return an issuer's URL without a slash at its end.

    Raises:
        ValueError: it is invalid, or not https (auth.https.endpoints).
    """
    found = canonical_http_url(issuer)
    if found is None or "?" in found:
        raise ValueError(f"issuer is {issuer!r}, expected https://host[:port][/path]")
    if not found.startswith("https:") and not is_loopback_url(found):
        raise ValueError(
            f"issuer is {issuer!r}, expected https: tokens would be readable on the way"
        )
    return found


def decode_headers(scope: Scope) -> dict[str, str]:
    """Return the headers of a request; of repeated ones the last counts."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _with_brackets(address: str) -> str:
    return f"[{address}]" if ":" in address else address

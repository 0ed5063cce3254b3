"""Finding what a protected server and its authorization server publish about themselves."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from accord.bindings.challenge import AuthChallenge
from accord.check.probing.exchange import exchanging
from accord.check.probing.line import Line, LineEnded, Silence
from accord.errors import ConnectFailed

__all__ = ["Published", "discover", "is_oauth"]

_RESOURCE: Final = "oauth-protected-resource"
_SERVER: Final = "oauth-authorization-server"
_OPENID: Final = "openid-configuration"
# A server that names more is not asked about all of them.
_ISSUERS: Final = 3


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What was found.

    Attributes:
        resource: metadata of the protected resource (RFC 9728).
        issuers: the authorization servers that it names.
        metadata: of the first of them that has any (RFC 8414).
        openid: its OpenID configuration.
    """

    resource: Mapping[str, Any] | None = None
    issuers: tuple[str, ...] = ()
    metadata: Mapping[str, Any] | None = None
    openid: Mapping[str, Any] | None = None


def is_oauth(challenges: Sequence[AuthChallenge], published: Published) -> bool:
    """Tell whether a server that answers 401 wants OAuth: it does unless it says otherwise."""
    schemes = {each.scheme for each in challenges}
    return not schemes or "bearer" in schemes or published.resource is not None


async def discover(line: Line, url: str, challenges: Sequence[AuthChallenge]) -> Published:
    """Look where a client would look, in that order."""
    named = [each.resource_metadata for each in challenges if each.resource_metadata]
    resource = await _first(line, [*named, *_well_known(url, _RESOURCE)])
    listed = (resource or {}).get("authorization_servers")
    issuers = tuple(
        each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, str)
    )
    metadata = openid = None
    # Before 2025-06-18 the server was its own authorization server, at the root of its host.
    for issuer in issuers[:_ISSUERS] or [_root(url)]:
        metadata = await _first(line, _well_known(issuer, _SERVER))
        openid = await _first(line, _well_known(issuer, _OPENID))
        if metadata is not None or openid is not None:
            break
    return Published(resource=resource, issuers=issuers, metadata=metadata, openid=openid)


def _well_known(url: str, name: str) -> list[str]:
    """Return the places of a document: inserted before the path, appended to it, at the root."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    places = [f"/.well-known/{name}{path}"]
    if path:
        places += [f"{path}/.well-known/{name}", f"/.well-known/{name}"]
    return [urlunsplit((parts.scheme, parts.netloc, place, "", "")) for place in places]


def _root(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, "", "", ""))


async def _first(line: Line, urls: Sequence[str]) -> Mapping[str, Any] | None:
    for url in urls:
        if urlsplit(url).scheme not in ("http", "https"):
            continue
        try:
            async with exchanging(
                line, method="GET", url=url, headers={"accept": "application/json"}
            ) as heard:
                await heard.rest(line.patience)
        except (ConnectFailed, LineEnded, Silence):
            continue
        if heard.status == 200 and heard.messages and isinstance(heard.messages[0], dict):
            return heard.messages[0]
    return None

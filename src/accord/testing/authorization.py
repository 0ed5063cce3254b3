"""Tokens without a user, for tests of protected servers."""

import asyncio
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, build_opener

from accord.auth.oauth import OAuth
from accord.auth.tokens import MemoryStore
from accord.errors import FlowFailed

_PATIENCE = 10.0


def unattended(**options: Any) -> OAuth:
    """Return an `OAuth` that obtains tokens without a user, for `auth` of a connection.

    For servers with `AuthorizationServer(auto_approve=...)`; tokens are kept in memory.

    Args:
        **options: those of `accord.auth.OAuth`, such as `scopes`.
    """
    options.setdefault("store", MemoryStore())
    return OAuth(open_browser=_follow, **options)


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        return None


async def _follow(url: str) -> str:
    """Open a URL as a browser would; return the URL of the redirect."""
    return await asyncio.to_thread(_location, url)


def _location(url: str) -> str:
    try:
        with build_opener(_NoRedirect).open(url, timeout=_PATIENCE):
            came = "a page for a user"
    except HTTPError as error:
        with error:
            if error.code in (302, 303) and "location" in error.headers:
                return str(error.headers["location"])
            came = f"status {error.code}"
    hint = "use AuthorizationServer(auto_approve=...), which asks no user"
    raise FlowFailed("authorization", asked=url.partition("?")[0], came=came, hint=hint)

"""The URLs at which a browser leaves for an identity provider, and comes back. Pure."""

from accord.auth.authorization_server.models import Request
from accord.auth.urls import with_query


def start_url(request: Request, name: str, *, may_switch: bool = False) -> str:
    """Return the URL at which a browser begins to sign in, to return to the page of a request.

    `may_switch` lets the user choose another account than the last time.
    """
    page = f"{request.path}?{request.query}" if request.query else request.path
    start = f"{request.issuer.rstrip('/')}/upstream/{name}/start"
    return with_query(start, next=page, switch="1" if may_switch else None)


def callback_url(issuer: str, name: str) -> str:
    """Return the redirect URI that has to be registered with a provider."""
    return f"{issuer.rstrip('/')}/upstream/{name}/callback"

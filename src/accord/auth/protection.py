"""How a server is protected: who verifies its tokens, what it is called, what it requires."""

from collections.abc import Iterable, Sequence
from typing import Any

from accord.auth.guard import Guard
from accord.auth.resource import canonical
from accord.auth.verifiers import TokenVerifier

__all__ = ["Protected"]


class Protected:
    """Lets nobody in without a token. What `Server(auth=...)` takes.

    Args:
        verifier: says whether a token is good.
        issuer: where clients get tokens: one authorization server or several; by default the
            verifier's issuer. An empty list says that there is none, and that clients are given
            tokens by other means: no metadata is then published. `StaticTokens` has none.
        public_url: where clients reach the server; not needed on loopback.
        scopes: what every token must allow.
        scopes_supported: what clients may ask for; by default what every token must allow.
        resource_name: what people know the server by.
        documentation: a page about it.

    Raises:
        ValueError: it is not said who issues tokens, or the URL is none.
    """

    def __init__(
        self,
        verifier: TokenVerifier,
        *,
        issuer: str | Sequence[str] | None = None,
        public_url: str | None = None,
        scopes: Iterable[str] = (),
        scopes_supported: Iterable[str] | None = None,
        resource_name: str | None = None,
        documentation: str | None = None,
    ) -> None:
        issuers = getattr(verifier, "issuer", None) if issuer is None else issuer
        if issuers is None:
            raise ValueError(
                "issuer is missing: name the authorization server that issues tokens, or issuer=[] "
                "where clients are given tokens by other means"
            )
        self.issuers = (issuers,) if isinstance(issuers, str) else tuple(issuers)
        self.has_metadata = bool(self.issuers)
        if public_url is not None:
            canonical(public_url)
        self.verifier = verifier
        self.public_url = public_url
        self.scopes = frozenset(_words(scopes))
        supported = self.scopes if scopes_supported is None else _words(scopes_supported)
        self.scopes_supported = tuple(sorted({*supported, *self.scopes}))
        self.resource_name = resource_name
        self.documentation = documentation

    def guard(self, app: Any, *, path: str = "/mcp", public_url: str | None = None) -> Guard:
        """Return an ASGI app that lets requests through to another one.

        Args:
            app: any ASGI app.
            path: of its endpoint, within where the app is mounted.
            public_url: where clients reach it, unless that was said before.
        """
        return Guard(app, self, path=path, public_url=public_url)


def _words(scopes: Iterable[str]) -> Iterable[str]:
    return scopes.split() if isinstance(scopes, str) else scopes

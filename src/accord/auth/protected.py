"""The settings of a server that requires tokens."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from accord.auth import resource
from accord.auth.guard import App, Guard
from accord.auth.urls import canonical_url
from accord.auth.verifiers import TokenVerifier

if TYPE_CHECKING:
    from accord.sharing.backends.backend import Backend


class Protected:
    """A server that requires tokens: the argument of `Server(auth=...)`.

    Args:
        verifier: verifies tokens.
        issuer: the authorization servers that issue tokens, one or several; by default the
            verifier's issuer. With an empty list clients get tokens by other means, and no metadata
            is published. `StaticTokens` has no issuer.
        public_url: where clients reach the server; not needed on loopback.
        scopes: the scopes that every token must have.
        scopes_supported: the scopes that clients may ask for; by default `scopes` and those that
            the tools, resources and prompts of the server need.
        implied_scopes: for a scope the narrower ones that it includes, such as
            {"admin": ["write"], "write": ["read"]}; a token with it is treated as having those too.
        resource_name: the name of the server, for users.
        documentation: the URL of a page about it.

    Raises:
        ValueError: the issuer is missing, or the URL is invalid.
    """

    def __init__(
        self,
        verifier: TokenVerifier,
        *,
        issuer: str | Sequence[str] | None = None,
        public_url: str | None = None,
        scopes: Iterable[str] = (),
        scopes_supported: Iterable[str] | None = None,
        implied_scopes: Mapping[str, Iterable[str]] | None = None,
        resource_name: str | None = None,
        documentation: str | None = None,
    ) -> None:
        issuers = getattr(verifier, "issuer", None) if issuer is None else issuer
        if issuers is None:
            raise ValueError(
                "issuer is missing: name the authorization server that issues tokens, or issuer=[] "
                "if clients get tokens by other means"
            )
        self.issuers = (issuers,) if isinstance(issuers, str) else tuple(issuers)
        self.has_metadata = bool(self.issuers)
        if public_url is not None:
            canonical_url(public_url)
        self.verifier = verifier
        self.public_url = public_url
        self.scopes = frozenset(_split_scopes(scopes))
        self.scopes_supported: Sequence[str] | None = None
        if scopes_supported is not None:
            named = {*_split_scopes(scopes_supported), *self.scopes}
            self.scopes_supported = tuple(resource.sort_scopes(named))
        self.implied_scopes = {
            scope: frozenset(_split_scopes(others))
            for scope, others in (implied_scopes or {}).items()
        }
        self.resource_name = resource_name
        self.documentation = documentation

    def use_backend(self, backend: "Backend") -> None:
        """Let a verifier share state with other workers by their store, if it keeps any."""
        use_backend = getattr(self.verifier, "use_backend", None)
        if use_backend is not None:
            use_backend(backend)

    def guard(self, app: App, *, path: str = "/mcp", public_url: str | None = None) -> Guard:
        """Return an ASGI app that requires tokens and passes requests on to another one.

        Args:
            app: any ASGI app.
            path: of its endpoint, below its mount point.
            public_url: where clients reach it, unless the settings have it.
        """
        return Guard(app, self, path=path, public_url=public_url)


def _split_scopes(scopes: Iterable[str]) -> Iterable[str]:
    return scopes.split() if isinstance(scopes, str) else scopes

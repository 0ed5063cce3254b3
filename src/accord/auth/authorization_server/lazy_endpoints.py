"""The endpoints of an authorization server, opened when they are first used."""

import os
from collections.abc import Mapping
from threading import Lock

from accord.auth.authorization_server.endpoints import Endpoints
from accord.auth.authorization_server.models import AuthorizationServerSettings
from accord.auth.authorization_server.store_source import StoreSource
from accord.auth.authorization_server.upstream.sessions import TokenSeal


class LazyEndpoints:
    """Opens a store and the endpoints on it once for all threads, and again in each process.

    Args:
        source: opens the store.
        settings: of the authorization server.
        seals: encrypt the tokens of identity providers.
    """

    def __init__(
        self,
        source: StoreSource,
        settings: AuthorizationServerSettings,
        seals: Mapping[str, TokenSeal],
    ) -> None:
        self._source = source
        self._settings = settings
        self._seals = seals
        self._lock = Lock()
        self._opened: _Opened | None = None
        self._uses = 0

    def get(self) -> Endpoints:
        """Return the endpoints. Blocks.

        Raises:
            AuthError: the file of the store cannot be used.
            StoreError: the store cannot be used.
        """
        opened = self._opened
        if opened is not None and opened.is_current(self._uses):
            return opened.endpoints
        with self._lock:
            opened = self._opened
            if opened is not None and opened.is_current(self._uses):
                return opened.endpoints
            self._close()
            uses, store = self._uses, self._source.open(self._settings.client_ttl)
            try:
                made = Endpoints(store, self._settings, self._seals)
            except BaseException:
                store.close()
                raise
            self._opened = _Opened(made, uses)
            return made

    def renew(self) -> None:
        """Let the next use open the store again: it is another one now.

        Does not wait, so that the loop of the store may call it.
        """
        self._uses += 1

    def close(self) -> None:
        """Close the store; the next use opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()


class _Opened:
    """Endpoints and their open store, in the process that opened it."""

    def __init__(self, endpoints: Endpoints, uses: int) -> None:
        self.endpoints = endpoints
        self._uses = uses
        self._process = os.getpid()

    def is_current(self, uses: int) -> bool:
        """Whether it is still the store to use, and was not opened before a fork."""
        return self._uses == uses and self._process == os.getpid()

    def close(self) -> None:
        if self._process == os.getpid():
            self.endpoints.store.close()
        else:
            self.endpoints.store.leave_to_parent()

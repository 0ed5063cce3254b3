"""Granted tokens, and the stores that keep them between runs.

A store keeps texts by key and has locks; it knows nothing of OAuth, so that a keyring or a database
needs only three methods. Keys contain the issuer: the tokens of one authorization server are never
sent to another.
"""

import asyncio
import contextlib
import errno
import hashlib
import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from accord.auth.client_identity import ClientIdentity
from accord.errors import FlowFailed
from accord.private_files import try_to_lock, unlock, user_folder, write_beside

log = logging.getLogger("accord.auth")

# A lock is held for one exchange at most.
_LOCK_EXPECTED: Final = 60.0
_LOCK_POLL: Final = 0.02
_LEEWAY: Final = 30.0
# Suffixes for files that are set aside within one second.
_MORE: Final = range(2, 1_000)


class TokenGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A token with all that is needed to renew it; `repr` shows no secrets.

    Attributes:
        issuer: the authorization server that granted it.
        resource: the server that it is for.
        client: the client that it was granted to.
        token_endpoint: where it is renewed.
        access_token: sent to the resource.
        refresh_token: sent to the issuer for the next token.
        expires_at: seconds since the epoch; None if the issuer does not say.
        lifetime: seconds from its issue to its expiry.
        scopes: the granted scopes, or the requested ones if the issuer does not say.
        asked: the requested scopes.
        names_resource: whether the issuer accepts the parameter `resource`.
        thumbprint: of the key that it is bound to; empty for a bearer token.
    """

    issuer: str
    resource: str
    client: ClientIdentity
    token_endpoint: str
    access_token: str
    refresh_token: str | None = None
    expires_at: float | None = None
    lifetime: float = 0
    scopes: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    names_resource: bool = True
    thumbprint: str = ""

    def __repr__(self) -> str:
        return (
            f"TokenGrant(issuer={self.issuer!r}, resource={self.resource!r}, scopes={self.scopes})"
        )

    def is_due(self, now: float) -> bool:
        """Whether it has expired, or will so soon that it might on the way."""
        if self.expires_at is None:
            return False
        return now >= self.expires_at - min(_LEEWAY, self.lifetime / 10)

    @property
    def key(self) -> str:
        """The key in the store."""
        return f"tokens {self.issuer} {self.resource} {self.client.client_id}"


def stored_client_key(issuer: str) -> str:
    """Return the key of the client that was registered with an issuer."""
    return f"client {issuer}"


def stored_server_key(resource: str, client_id: str | None) -> str:
    """Return the key under which the key of a server's grant is stored."""
    return f"server {resource} {client_id or ''}".rstrip()


def issuer_of_key(key: str) -> str | None:
    """Return the issuer in the key of a grant."""
    kind, _, rest = key.partition(" ")
    return rest.partition(" ")[0] or None if kind == "tokens" else None


def read_grant(text: str | None) -> TokenGrant | None:
    """Read a grant from its text in a store; None without one that can be read."""
    try:
        return None if text is None else msgspec.json.decode(text, type=TokenGrant)
    except msgspec.DecodeError:
        return None


class TokenStore(Protocol):
    """Keeps texts under keys, with locks."""

    async def read(self, key: str) -> str | None:
        """Return the stored text; None if nothing is stored."""

    async def write(self, key: str, value: str | None) -> None:
        """Store a text; None removes it."""

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """Lock a key against all other users of the store."""


class MemoryStore:
    """Keeps tokens as long as the process lives."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._locks: dict[tuple[int, str], asyncio.Lock] = {}

    async def read(self, key: str) -> str | None:
        """Return the stored text."""
        return self._values.get(key)

    async def write(self, key: str, value: str | None) -> None:
        """Store a text; None removes it."""
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """Lock a key on this loop."""
        here = (id(asyncio.get_running_loop()), key)
        return self._locks.setdefault(here, asyncio.Lock())


class FileStore:
    """Keeps tokens in a file that only its owner can read, shared by any number of processes.

    A file that cannot be read as what it should be is set aside under another name, never
    overwritten.

    Args:
        path: of the file; by default in the platform's folder for application settings.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = default_path() if path is None else Path(path)

    def __repr__(self) -> str:
        return f"FileStore({str(self.path)!r})"

    async def read(self, key: str) -> str | None:
        """Return the stored text."""
        found = (await self._load()).get(key)
        return found if isinstance(found, str) else None

    async def write(self, key: str, value: str | None) -> None:
        """Store a text; None removes it."""
        async with self.lock("the file"):
            values = self._load_locked()
            if value is None and key not in values:
                return
            if value is None:
                del values[key]
            else:
                values[key] = value
            try:
                self._save(values)
            except OSError as error:
                raise self._unusable_error(error) from None

    async def keys(self) -> list[str]:
        """Return the keys under which something is stored."""
        return list(await self._load())

    async def check(self) -> None:
        """Make sure that something could be written.

        Raises:
            FlowFailed: the file cannot be written.
        """
        async with self.lock("the file"):
            try:
                with write_beside(self.path, b""):
                    if self.path.is_dir():
                        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            except OSError as error:
                raise self._unusable_error(error) from None

    @contextlib.asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Lock a key for all processes.

        Raises:
            FlowFailed: another process keeps the lock, or the folder is not writable.
        """
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        path = self.path.with_name(f"{self.path.name}.{digest}.lock")
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        try:
            self._make_folder()
            # Opened by each taker: two takers in one process exclude each other as well.
            handle = os.open(path, flags, 0o600)
        except OSError as error:
            raise self._unusable_error(error) from None
        try:
            await _acquire(handle, path)
            try:
                yield
            finally:
                unlock(handle)
        finally:
            os.close(handle)

    async def _load(self) -> dict[str, Any]:
        try:
            return self._parse()
        except _CorruptFile:
            async with self.lock("the file"):
                return self._load_locked()

    def _load_locked(self) -> dict[str, Any]:
        """Load the file while it is locked, and set it aside if it is corrupt."""
        try:
            return self._parse()
        except _CorruptFile as error:
            self._set_aside(str(error))
            return {}

    def _parse(self) -> dict[str, Any]:
        try:
            found: Any = msgspec.json.decode(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unusable_error(error) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _CorruptFile(f"it is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise _CorruptFile("it is JSON, but not an object")
        return found

    def _set_aside(self, why: str) -> None:
        name = f"{self.path.name}.corrupt-{time.strftime('%Y%m%d-%H%M%S')}"
        places = (self.path.with_name(f"{name}{more}") for more in ("", *map("-{}".format, _MORE)))
        aside = next(place for place in places if not place.exists())
        try:
            os.rename(self.path, aside)
        except OSError as error:
            raise self._unusable_error(error) from None
        log.warning(
            "the token file %s cannot be read (%s); it is kept as %s, and a new one is begun",
            self.path,
            why,
            aside.name,
        )

    def _save(self, values: dict[str, str]) -> None:
        self._make_folder()
        # Readable by its owner alone, and replaced atomically.
        with write_beside(self.path, msgspec.json.format(msgspec.json.encode(values))) as name:
            os.replace(name, self.path)

    def _unusable_error(self, error: OSError) -> FlowFailed:
        return FlowFailed(
            "token store",
            asked=str(self.path),
            came=error.strerror or type(error).__name__,
            hint="pass OAuth(store=FileStore(path)) with a path that can be written, or "
            "OAuth(store=MemoryStore())",
        )

    def _make_folder(self) -> None:
        folder = self.path.parent
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)


class _CorruptFile(Exception):
    """The file of a store does not hold tokens."""


def default_path() -> Path:
    """Return the default path of the token file."""
    return user_folder() / "tokens.json"


async def _acquire(handle: int, path: Path) -> None:
    try:
        async with asyncio.timeout(_LOCK_EXPECTED):
            while not try_to_lock(handle):
                await asyncio.sleep(_LOCK_POLL)
    except TimeoutError:
        came, hint = "another process keeps it", "end that process"
    except OSError as error:
        came = error.strerror or type(error).__name__
        hint = "keep tokens where files can be locked: OAuth(store=FileStore(path))"
    else:
        return
    raise FlowFailed("token store", asked=f"the lock {path}", came=came, hint=hint)

"""The key of a result: equal keys mean that a check would find the same again.

It covers accord, the rules, what is asked of the server, the program with its files and packages,
arguments and variables. Values of variables enter it only as keyed digests, because the history may
be published. The catalog is compared apart, after each start.
"""

import hmac
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from accord.user_folder import user_folder
from accord.version import __version__
from accord_tools.contract.expectations import snapshot_file
from accord_tools.fleet.caching.programs import NotCacheable, digest_program
from accord_tools.fleet.definition import FleetError, FleetServer, ResolvedServer
from accord_tools.fleet.results import RuleSetStamp

SECRET_VARIABLE: Final = "ACCORD_FLEET_KEY"  # noqa: S105  # the name of a variable
"""Has the key for digests of values, in jobs of CI."""
_SECRET_FILE: Final = "fleet-key"  # noqa: S105  # the name of a file
_SECRET_BYTES: Final = 32


class CacheKey(msgspec.Struct, frozen=True, kw_only=True):
    """The key of a result, or why it has no key."""

    key: str = ""
    why_not: str = ""


def make_key(
    server: FleetServer,
    resolved: ResolvedServer,
    rules: RuleSetStamp,
    *,
    version: str = "",
    environ: Mapping[str, str] | None = None,
) -> CacheKey:
    """Return the key under which the result of a server is kept.

    Args:
        server: what is asked of it.
        resolved: how it is launched.
        rules: the set of rules.
        version: as found where the fleet file says.
        environ: the variables of this process.
    """
    environ = os.environ if environ is None else environ
    try:
        launch: Any = resolved.url or digest_program(resolved, environ)
        cases = [_digest_cases(each) for each in server.cases]
        secret = _user_secret(environ)
    except NotCacheable as error:
        return CacheKey(why_not=str(error))
    parts = {
        "accord": __version__,
        "rules": rules.digest,
        "plan": [
            *(server.revisions, server.only, sorted(server.tools), server.allow_writes),
            *(server.calls, server.contract, server.patience, server.one_at_a_time),
        ],
        "cases": cases,
        "launch": launch,
        "args": [_digest_value(secret, each) for each in resolved.command[1:]],
        "cwd": resolved.cwd,
        "transport": resolved.transport,
        "env": _digest_values(secret, resolved.env),
        "headers": _digest_values(secret, resolved.headers),
        "auth": _digest_value(secret, resolved.auth or ""),
        "version": version,
    }
    text = msgspec.json.encode(parts, order="sorted")
    return CacheKey(key=sha256(text).hexdigest())


def _digest_values(secret: bytes, values: Mapping[str, str]) -> dict[str, str]:
    return {name: _digest_value(secret, value) for name, value in values.items()}


def _digest_value(secret: bytes, value: str) -> str:
    return hmac.new(secret, value.encode(errors="surrogateescape"), sha256).hexdigest()


def _digest_cases(path: Path) -> list[str]:
    """Return the digests of a case file, and of the results that are kept beside it."""
    kept = snapshot_file(path)
    return [_digest_file(path), _digest_file(kept) if kept.exists() else ""]


def _digest_file(path: Path) -> str:
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise NotCacheable(f"{path.name} cannot be read: {error.strerror}") from None


def _user_secret(environ: Mapping[str, str]) -> bytes:
    """Return the key for digests of values: of this user, or given to a job of CI."""
    given = environ.get(SECRET_VARIABLE)
    if given:
        return given.encode()
    path = user_folder(environ) / _SECRET_FILE
    try:
        return path.read_bytes()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise NotCacheable(f"{path} cannot be read: {error.strerror}") from None
    secret = os.urandom(_SECRET_BYTES)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Only one of two runs that start at once may write it.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_bytes()
    except OSError as error:
        raise NotCacheable(
            f"{path} cannot be written: {error.strerror}; set {SECRET_VARIABLE} instead"
        ) from None
    with os.fdopen(handle, "wb") as file:
        file.write(secret)
    return secret


def read_version(server: FleetServer, resolved: ResolvedServer, folder: Path) -> str:
    """Return the version of a server from where the fleet file says; empty if it says nothing.

    Raises:
        FleetError: it cannot be found there.
    """
    source = server.version
    if source is None:
        return ""
    from accord_tools.fleet.caching.versions import (
        version_in_file,
        version_of_command,
        version_of_package,
    )

    if source.file is not None:
        return version_in_file(source.file)
    if source.command:
        return version_of_command(source.command, folder)
    if source.package is None:
        raise FleetError(f"server {server.name!r}: version needs package, command or file")
    return version_of_package(source.package, resolved)

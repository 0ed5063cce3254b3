"""Stores by URL."""

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from accord.errors import ConfigurationError
from accord.sharing.backends.url_options import read_options, read_timeout

if TYPE_CHECKING:
    from accord.sharing.backends.backend import Backend

__all__ = ["open_backend"]

_EXPECTED: Final = (
    "memory:, sqlite:///relative.db, sqlite:////absolute/path.db, redis://host:6379/0, rediss:// "
    "(TLS), redis+unix:///path, redis+cluster://host:port,host:port or "
    "redis+sentinel://host:port,host:port/master"
)


def open_backend(url: str, *, namespace: str = "accord") -> "Backend":
    """Return the backend that a URL names; it connects when its `open` is called.

    Options follow a question mark: `timeout=5` (seconds that an operation may take) and
    `namespace=name`, which wins over the argument.

    Args:
        url: `memory:`, `sqlite:///relative.db`, `sqlite:////absolute/path.db`, or one of the forms
            that `RedisBackend` takes.
        namespace: deployments with different ones do not see each other.

    Raises:
        ConfigurationError: the URL is wrong; the text says what is expected, and shows no password.
    """
    scheme, colon, rest = url.partition(":")
    if colon and scheme == "memory":
        return _open_memory(rest)
    if colon and scheme == "sqlite":
        return _open_sqlite(rest, namespace)
    if colon and scheme.startswith("redis"):
        from accord.sharing.backends.redis_backend import RedisBackend

        return RedisBackend(url, namespace=namespace)
    # The rest may be a password.
    shown = repr(f"{scheme}:") if colon else "a text without a scheme"
    raise ConfigurationError(f"{shown} is not the URL of a store; expected {_EXPECTED}")


def _open_memory(rest: str) -> "Backend":
    from accord.sharing.backends.memory_backend import MemoryBackend

    place, _, query = rest.partition("?")
    if place not in ("", "//"):
        raise ConfigurationError("the store in memory has no place; its URL is memory:")
    read_options("memory", query, ())
    return MemoryBackend()


def _open_sqlite(rest: str, namespace: str) -> "Backend":
    from accord.sharing.backends.sqlite_backend import SqliteBackend

    place, _, query = rest.partition("?")
    if not place.startswith("///") or len(place) == len("///") or place.endswith("/"):
        raise ConfigurationError(
            "the URL of a SQLite file is sqlite:///relative.db or sqlite:////absolute/path.db"
        )
    path = unquote(place.removeprefix("///"))
    if path == ":memory:":
        raise ConfigurationError("SQLite in memory cannot be shared; use a file, or memory:")
    options = read_options("sqlite", query, ("namespace", "timeout"))
    return SqliteBackend(
        path,
        namespace=options.get("namespace", namespace),
        timeout=read_timeout(options, 5.0),
    )

"""Stores by URL, read strictly; passwords go no further than the connection."""

import math
import os
import re
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from urllib.parse import parse_qsl, unquote

import msgspec

from accord.errors import ConfigurationError

if TYPE_CHECKING:
    from accord.sharing.backends.backend import Backend


__all__ = [
    "REDIS_SCHEMES",
    "Address",
    "RedisCredentials",
    "RedisTarget",
    "open_backend",
    "parse_redis_url",
]

_EXPECTED: Final = (
    "memory:, sqlite:///relative.db, sqlite:////absolute/path.db, redis://host:6379/0, rediss:// "
    "(TLS), redis+unix:///path, redis+cluster://host:port,host:port or "
    "redis+sentinel://host:port,host:port/master"
)
_PORTS: Final = {"single": 6379, "cluster": 6379, "sentinel": 26379, "unix": 0}
_KINDS: Final = {"": "single", "unix": "unix", "cluster": "cluster", "sentinel": "sentinel"}
REDIS_SCHEMES: Final = (
    "redis",
    "rediss",
    "redis+unix",
    "redis+cluster",
    "rediss+cluster",
    "redis+sentinel",
    "rediss+sentinel",
)

# The standard library takes neither several hosts nor an address in brackets behind a name, and
# shows the password in some of its errors.
_URL: Final = re.compile(
    r"(?P<scheme>[a-z+]+)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?"
)
_COMMON: Final = ("namespace", "timeout")
_SECRETS: Final = ("password_file", "password_variable")
_TLS: Final = (
    "ssl_ca_certs",
    "ssl_cert_reqs",
    "ssl_check_hostname",
    "ssl_certfile",
    "ssl_keyfile",
)
_SENTINEL: Final = ("sentinel_username", *(f"sentinel_{each}" for each in _SECRETS))


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


# -- options


def read_options(scheme: str, query: str, known: Sequence[str]) -> dict[str, str]:
    """Return the options by name.

    Raises:
        ConfigurationError: one is not known, empty, or there twice. The text shows no values.
    """
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            raise ConfigurationError(
                f"unknown option {name!r} in a {scheme}: URL; it takes "
                f"{', '.join(known) or 'no options'}"
            )
        if not value:
            raise ConfigurationError(f"the option {name!r} of a {scheme}: URL has no value")
        if name in options:
            raise ConfigurationError(f"the option {name!r} is twice in a {scheme}: URL")
        options[name] = value
    return options


def read_timeout(options: dict[str, str], default: float) -> float:
    """Return the option `timeout`, in seconds.

    Raises:
        ConfigurationError: it is not a number above 0.
    """
    text = options.get("timeout")
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise ConfigurationError(
            f"the option 'timeout' of a store is a number of seconds above 0, not {text!r}"
        )
    return seconds


# -- Redis and Valkey


class Address(NamedTuple):
    """Where a server listens; the port is 0 if the host is the path of a Unix socket."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.port else self.host


class RedisCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """The user to sign in as, and where the password is."""

    username: str = ""
    password: str = ""
    password_file: str = ""
    password_variable: str = ""

    def __repr__(self) -> str:
        return f"RedisCredentials(username={self.username!r})"

    def read(self, environ: Mapping[str, str] = os.environ) -> tuple[bytes, ...]:
        """Return the arguments of AUTH; empty if there is no password.

        A file is read again for each connection, since operators change passwords while we run.

        Raises:
            ConfigurationError: the file cannot be read, or the variable is not set.
        """
        password = self.password
        if self.password_file:
            try:
                password = Path(self.password_file).read_text().strip()
            except OSError as error:
                raise ConfigurationError(
                    f"password_file {self.password_file} cannot be read: {error.strerror}"
                ) from None
        elif self.password_variable:
            if self.password_variable not in environ:
                raise ConfigurationError(
                    f"password_variable names {self.password_variable}, which is not set"
                )
            password = environ[self.password_variable]
        if not password:
            return ()
        user = (self.username.encode(),) if self.username else ()
        return (*user, password.encode())


class RedisTarget(msgspec.Struct, frozen=True, kw_only=True):
    """What a URL says.

    Attributes:
        url: the URL without its password.
        kind: how the servers are found.
        addresses: the server, some nodes of the cluster, or the sentinels.
        master: the name of the master that sentinels watch over.
        db: the number of the database.
        credentials: those for servers.
        sentinel_credentials: those for sentinels.
        tls: how connections are protected; None for plain ones.
        namespace: what names begin with; empty if the URL does not say.
        timeout: seconds that an operation may take; 0 if the URL does not say.
    """

    url: str
    kind: Literal["single", "unix", "cluster", "sentinel"]
    addresses: tuple[Address, ...]
    master: str = ""
    db: int = 0
    credentials: RedisCredentials = RedisCredentials()
    sentinel_credentials: RedisCredentials = RedisCredentials()
    tls: ssl.SSLContext | None = None
    namespace: str = ""
    timeout: float = 0.0


def parse_redis_url(url: str) -> RedisTarget:
    """Read the URL of a server, a cluster or sentinels.

    Raises:
        ConfigurationError: it is wrong; the text says what is expected, and shows no password.
    """
    if url.partition("://")[0] not in REDIS_SCHEMES:
        expected = ", ".join(f"{each}://" for each in REDIS_SCHEMES)
        raise ConfigurationError(f"a URL of Redis or Valkey begins with one of {expected}")
    match = _URL.fullmatch(url)
    if match is None or "@" in match["path"] or "@" in (match["query"] or ""):
        raise ConfigurationError(
            "special characters of a password are written with a percent sign in a URL of Redis: "
            "%23 for #, %2F for /, %3F for ?, %40 for @"
        )
    scheme = match["scheme"]
    protocol, _, form = scheme.partition("+")
    kind = _KINDS[form]
    sign_in, _, hosts = match["authority"].rpartition("@")
    user, _, password = sign_in.partition(":")
    query = match["query"] or ""
    options = read_options(scheme, query, _known_options(kind, is_tls=protocol == "rediss"))
    path = unquote(match["path"])
    shown = f"{scheme}://{user}@{hosts}" if user else f"{scheme}://{hosts}"
    return RedisTarget(
        url=f"{shown}{match['path']}{query and '?'}{query}",
        kind=kind,  # type: ignore[arg-type]  # one of the four, as the table says
        addresses=_read_addresses(kind, hosts, path),
        master=_read_master(path) if kind == "sentinel" else "",
        db=_read_db(kind, path, options),
        credentials=_read_credentials(
            username=unquote(user), password=unquote(password), options=options
        ),
        sentinel_credentials=_read_credentials(
            username=options.get("sentinel_username", ""), options=options, prefix="sentinel_"
        ),
        tls=_make_context(options) if protocol == "rediss" else None,
        namespace=options.get("namespace", ""),
        timeout=read_timeout(options, 0.0),
    )


def _known_options(kind: str, *, is_tls: bool) -> tuple[str, ...]:
    db = () if kind == "cluster" else ("db",)
    return (
        *_COMMON,
        *db,
        *_SECRETS,
        *(_TLS if is_tls else ()),
        *(_SENTINEL if kind == "sentinel" else ()),
    )


def _read_addresses(kind: str, hosts: str, path: str) -> tuple[Address, ...]:
    if kind == "unix":
        if hosts or len(path) < 2:
            raise ConfigurationError("a redis+unix:// URL is redis+unix:///path/of/the/socket")
        return (Address(path, 0),)
    each = hosts.split(",")
    if kind == "single" and len(each) > 1:
        raise ConfigurationError(
            "several hosts need redis+cluster:// or redis+sentinel://; redis:// takes one"
        )
    return tuple(_read_address(host, _PORTS[kind]) for host in each)


def _read_address(text: str, port: int) -> Address:
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.%]+)\]|([^:\[\]@/?#]+))(?::(\d{1,5}))?", text)
    if match is None or not 0 < int(match[3] or port) < 65536:
        raise ConfigurationError("hosts of a Redis URL are written host:port, or [address]:port")
    return Address(match[1] or unquote(match[2]), int(match[3] or port))


def _read_master(path: str) -> str:
    name = path.strip("/")
    if not name or "/" in name:
        raise ConfigurationError(
            "a URL of sentinels ends with the name of the master: "
            "redis+sentinel://host:26379,host:26379/mymaster?db=0"
        )
    return name


def _read_db(kind: str, path: str, options: dict[str, str]) -> int:
    text = options.get("db", "0")
    if kind in ("single", "cluster") and path.strip("/"):
        text = path.strip("/")
        if kind == "cluster" or "db" in options:
            raise ConfigurationError(
                "a cluster has no numbers of databases"
                if kind == "cluster"
                else "the number of the database is given twice: in the path and as db="
            )
    if not re.fullmatch(r"\d{1,5}", text):
        raise ConfigurationError("the database of a Redis URL is a number: redis://host:6379/0")
    return int(text)


def _read_credentials(
    *, username: str, password: str = "", options: dict[str, str], prefix: str = ""
) -> RedisCredentials:
    file, variable = (options.get(f"{prefix}{each}", "") for each in _SECRETS)
    if sum(map(bool, (password, file, variable))) > 1:
        raise ConfigurationError(
            f"give one password: in the URL, by {prefix}password_file or {prefix}password_variable"
        )
    found = RedisCredentials(
        username=username, password=password, password_file=file, password_variable=variable
    )
    if not found.read() and username:
        raise ConfigurationError("a user of a Redis URL needs a password")
    return found


def _make_context(options: dict[str, str]) -> ssl.SSLContext:
    file = options.get("ssl_ca_certs")
    try:
        context = ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"ssl_ca_certs {file} cannot be read: {error}") from None
    context.check_hostname = _read_switch(options, "ssl_check_hostname", "true", "false")
    if not _read_switch(options, "ssl_cert_reqs", "required", "none"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate := options.get("ssl_certfile"):
        try:
            context.load_cert_chain(certificate, options.get("ssl_keyfile"))
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"ssl_certfile {certificate} cannot be read: {error}"
            ) from None
    return context


def _read_switch(options: dict[str, str], name: str, yes: str, no: str) -> bool:
    value = options.get(name, yes)
    if value not in (yes, no):
        raise ConfigurationError(f"{name} is {yes} or {no}")
    return value == yes

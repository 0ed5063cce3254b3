"""The settings of `accord run`: from its options, or else from variables of the environment."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from accord.cli.options import READERS, UsageError, read_keys
from accord.cli.terminal import complain

if TYPE_CHECKING:
    from accord.server.serving import ListenAddress

GRACE: Final = 1.5
# While a server is reloaded, the next version is more urgent than the calls of the last.
_RELOAD_GRACE: Final = 0.5

# Beside each option the variable that holds its value if it is not given.
_VARIABLES: Final = {
    "--grace": "ACCORD_GRACE",
    "--log-level": "ACCORD_LOG_LEVEL",
    "--host": "ACCORD_HOST",
    "--port": "ACCORD_PORT",
    "--listen": "ACCORD_LISTEN",
    "--certificate": "ACCORD_CERTIFICATE",
    "--key": "ACCORD_KEY",
    "--path": "ACCORD_PATH",
    "--public-url": "ACCORD_PUBLIC_URL",
    "--allowed-host": "ACCORD_ALLOWED_HOSTS",
    "--allowed-origin": "ACCORD_ALLOWED_ORIGINS",
    "--no-sessions": "ACCORD_SESSIONS",
    "--sse": "ACCORD_SSE",
    "--access-log": "ACCORD_ACCESS_LOG",
    "--metrics": "ACCORD_METRICS",
    "--reload": "ACCORD_RELOAD",
    "--workers": "ACCORD_WORKERS",
    "--store-keys-file": "ACCORD_STORE_KEYS_FILE",
}
_EVERYWHERE: Final = ("--grace", "--log-level")
_LISTS: Final = ("--allowed-host", "--allowed-origin", "--listen ADDRESS")
_FLAGS: Final = ("--no-sessions", "--sse", "--metrics", "--reload")
_YES: Final = ("1", "true", "yes", "on")
_NO: Final = ("0", "false", "no", "off")
_FORMS: Final = ("text", "json")
_STORE: Final = "ACCORD_STORE"
# The former name of ACCORD_SESSIONS, with the opposite meaning.
_STATELESS: Final = "ACCORD_STATELESS"


class RunSettings(msgspec.Struct, kw_only=True):
    """How a server is run."""

    transport: Literal["stdio", "http"] = "stdio"
    grace: float = GRACE
    log_level: str | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    listen: list[str] = []
    certificate: str | None = None
    key: str | None = None
    path: str = "/mcp"
    public_url: str | None = None
    allowed_host: list[str] = []
    allowed_origin: list[str] = []
    no_sessions: bool = False
    sse: bool = False
    access_log: Literal["text", "json"] | None = None
    metrics: bool = False
    reload: bool = False
    workers: int | Literal["auto"] = 1
    store: str | None = None
    store_keys_file: str | None = None
    # Not the URL itself, which may have a password: other users of the machine see the options with
    # which a child is started.
    has_store_variable: bool = False

    def http_settings(self) -> Any:
        """Return the settings as `HttpSettings`; those that are not given are left out.

        So a server with `auth` can have its own public URL.
        """
        found: dict[str, Any] = {
            "path": self.path,
            "sessions": not self.no_sessions,
            "sse": self.sse,
            "allowed_hosts": self.allowed_host,
            "allowed_origins": self.allowed_origin,
            "access_log": self.access_log or False,
            "metrics": self.metrics,
        }
        if self.public_url is not None:
            found["public_url"] = self.public_url
        store = os.environ[_STORE].strip() if self.has_store_variable else self.store
        if store is not None:
            found |= {"store": store, "store_keys": self._store_keys()}
        return found

    def _store_keys(self) -> list[str] | str | None:
        if self.store_keys_file is not None:
            return read_keys(Path(self.store_keys_file))
        text = os.environ.get("ACCORD_STORE_KEYS", "").strip()
        if text.lower() == "none":
            return "none"
        return [each.strip() for each in text.split(",") if each.strip()] or None

    def place(self) -> "ListenAddress":
        """Return where to listen.

        Raises:
            UsageError: settings exclude each other.
        """
        from accord.server.serving import ListenAddress

        try:
            return ListenAddress(
                host=self.host,
                port=self.port,
                listen=self.listen or None,
                certificate=self.certificate,
                key=self.key,
                # Not an option: other users of the machine see the options of a process.
                key_password=os.environ.get("ACCORD_KEY_PASSWORD") if self.certificate else None,
            )
        except ValueError as error:
            raise UsageError(str(error)) from None


def read_settings(options: argparse.Namespace) -> RunSettings:
    """Return the settings of a command line; options win over variables.

    Variables for HTTP are ignored without HTTP: several processes may share them.

    Raises:
        UsageError: a value is invalid, or an option does not fit the transport.
    """
    _move_target(options)
    if options.stateless:
        complain("--stateless is now --no-sessions")
        options.no_sessions = True
    found: dict[str, Any] = {"transport": _transport(options)}
    is_http = found["transport"] == "http"
    for option, variable in _VARIABLES.items():
        name = option.removeprefix("--").replace("-", "_")
        if not hasattr(options, name):  # a proxy has one process alone
            continue
        given = getattr(options, name)
        is_given = given is not None and given is not False and given != []
        if not is_http and option not in _EVERYWHERE:
            if is_given:
                raise UsageError(_explain_http_only(option))
        elif is_given:
            found[name] = given
        elif (value := _read_variable(option, variable)) is not None:
            found[name] = value
    _choose_address(options, found)
    _choose_store(options, found, is_http=is_http)
    if options.reload_dir and not found.get("reload"):
        raise UsageError("--reload-dir names what --reload watches; add --reload")
    if found.get("reload"):
        found.setdefault("grace", _RELOAD_GRACE)
    settings = RunSettings(**found)
    if settings.sse and settings.no_sessions:
        why = "--sse needs sessions, which --no-sessions turns off; leave one of them out"
        raise UsageError(why)
    return settings


def _choose_store(options: argparse.Namespace, found: dict[str, Any], *, is_http: bool) -> None:
    """Find the store of several workers, and refuse what does not go with it."""
    store = getattr(options, "store", None)
    if store is not None and not is_http:
        raise UsageError(_explain_http_only("--store"))
    if found.get("reload") and found.get("workers", 1) != 1:
        raise UsageError(
            "--reload and --workers exclude each other: --reload restarts one process at each "
            "change; send SIGHUP to replace workers by new ones with the code of now"
        )
    if store is not None:
        found["store"] = store
    elif is_http and hasattr(options, "store") and os.environ.get(_STORE, "").strip():
        found["has_store_variable"] = True
    elif getattr(options, "store_keys_file", None) is not None:
        raise UsageError("--store-keys-file seals what is written to a store; add --store")


def _choose_address(options: argparse.Namespace, found: dict[str, Any]) -> None:
    """Let options for the address win over a variable for it."""
    has_host = options.host is not None or options.port is not None
    if options.listen and has_host:
        raise UsageError("--listen names the host and the port; leave out --host and --port")
    if has_host:
        found.pop("listen", None)


def _move_target(options: argparse.Namespace) -> None:
    """Read `--access-log server.py` as the option without a value, and the target."""
    given = options.access_log
    if given is None or given in _FORMS:
        return
    if options.target:
        raise UsageError(f"argument --access-log: {given!r} is unknown, expected text or json")
    options.access_log, options.target = "text", given


def _transport(options: argparse.Namespace) -> str:
    if options.http and options.stdio:
        raise UsageError("either --http or --stdio, not both")
    if options.http or options.stdio:
        return "http" if options.http else "stdio"
    value = os.environ.get("ACCORD_TRANSPORT", "").strip().lower() or "stdio"
    if value not in ("stdio", "http"):
        raise UsageError(f"variable ACCORD_TRANSPORT: {value!r} is unknown, expected stdio or http")
    return value


def _explain_http_only(option: str) -> str:
    if option == "--reload":
        return (
            "--reload is for HTTP, add --http: over stdio the host holds the pipe of the server, "
            "so restart it in the host"
        )
    return f"{option} is for HTTP; add --http"


def _read_variable(option: str, variable: str) -> Any:
    """Return the value of a variable; None if it is not set or empty."""
    text = os.environ.get(variable, "").strip()
    if not text:
        return _read_former_variable() if option == "--no-sessions" else None
    # `accord watch --listen` takes a port.
    option = "--listen ADDRESS" if option == "--listen" else option
    try:
        if option in _LISTS:
            items = [each.strip() for each in text.split(",")]
            return [READERS[option](each) for each in items if each]
        if option in _FLAGS:
            # The variable says what there is, the option what there is not.
            return _read_flag(text) != (option == "--no-sessions")
        if option == "--access-log":
            return _read_access_log(text)
        return READERS.get(option, _as_it_is)(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"variable {variable}: {error}") from None


def _read_former_variable() -> bool | None:
    is_stateless: bool | None = _read_variable("--sse", _STATELESS)
    if is_stateless is not None:
        complain(f"{_STATELESS}={is_stateless:d} is now ACCORD_SESSIONS={not is_stateless:d}")
    return is_stateless


_as_it_is: Final[Callable[[str], object]] = str


def _read_flag(text: str) -> bool:
    if text.lower() not in (*_YES, *_NO):
        raise argparse.ArgumentTypeError(f"{text!r} is neither yes nor no, expected 1 or 0")
    return text.lower() in _YES


def _read_access_log(text: str) -> str | None:
    if text.lower() in _FORMS:
        return text.lower()
    if text.lower() not in (*_YES, *_NO):
        raise argparse.ArgumentTypeError(f"{text!r} is unknown, expected 1, 0, text or json")
    return "text" if text.lower() in _YES else None

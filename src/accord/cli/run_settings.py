"""The settings of `accord run`: from its options, or else from variables of the environment."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from accord.cli.options import READERS, UsageError, read_keys
from accord.cli.terminal import complain
from accord.http.settings import (
    HttpSettings,
    ListenSettings,
    SettingRow,
    find_variable,
    read_attributes,
    settings_of,
)
from accord.runtime import GRACE

if TYPE_CHECKING:
    from accord.server.serving import ListenAddress

# While a server is reloaded, the next version is more urgent than the calls of the last.
_RELOAD_GRACE: Final = 0.5
_EVERYWHERE: Final = ("grace", "log_level")
_YES: Final = ("1", "true", "yes", "on")
_NO: Final = ("0", "false", "no", "off")
_FORMS: Final = ("text", "json")
_STORE: Final = "ACCORD_STORE"
# The former name of ACCORD_SESSIONS, with the opposite meaning.
_STATELESS: Final = "ACCORD_STATELESS"
_ABSENT: Final = object()


class RunSettings(ListenSettings, total=False):
    """How the command line runs a server: what it does not name has its default.

    Attributes:
        transport: "stdio" or "http"
        has_store_variable: whether the store is that of a variable. Its URL may have a password,
            and other users of the machine see the options with which a child is started
        log_level: debug, info, warning, error or critical: what is logged to stderr
        store_keys_file: with --store: the file with the keys that seal what is kept there, one on
            each line: the first seals, all of them open
        reload: restart the server when a Python file of it changes; the port stays
    """

    transport: str
    has_store_variable: bool
    log_level: Annotated[str | None, SettingRow(option="--log-level L")]
    store_keys_file: Annotated[str | None, SettingRow(option="--store-keys-file F")]
    reload: Annotated[bool, SettingRow(default=False, option="--reload")]


SETTINGS: Final = {name: each for name, each in settings_of(RunSettings).items() if each.option}
"""Those that are options."""
DEFAULTS: Final[RunSettings] = {
    **{name: each.default for name, each in SETTINGS.items()},  # type: ignore[typeddict-item]  # names of the table
    "transport": "stdio",
    "grace": GRACE,
    "has_store_variable": False,
}


def option_lines(*left_out: str) -> str:
    """Return the options for settings, as `add_options` reads them."""
    about = read_attributes(HttpSettings, ListenSettings, RunSettings)
    lines = []
    for name, setting in SETTINGS.items():
        if name in left_out:
            continue
        what = setting.help or about.get(name, name)
        if name not in _EVERYWHERE and not what.startswith("with --"):
            what = f"with --http: {what}"
        if setting.is_repeated:
            what = f"{what}; may be repeated"
        default = DEFAULTS.get(name)
        has_value = " " in setting.option and default is not False
        shown = f"default: {default}; " if has_value and default else ""
        lines.append(f"{setting.option}  {what} ({shown}variable: {find_variable(name)})\n")
    return "".join(lines)


def http_settings(settings: RunSettings) -> Any:
    """Return the settings of HTTP itself; a public URL that is not given is left out.

    So a server with `auth` can have its own.
    """
    found: dict[str, Any] = {
        name: value
        for name, value in settings.items()
        if name in HttpSettings.__annotations__ and name != "store" and value is not None
    }
    store = os.environ[_STORE].strip() if settings["has_store_variable"] else settings["store"]
    if store is not None:
        found |= {"store": store, "store_keys": _store_keys(settings)}
    return found


def _store_keys(settings: RunSettings) -> list[str] | str | None:
    file = settings["store_keys_file"]
    if file is not None:
        return read_keys(Path(file))
    text = os.environ.get("ACCORD_STORE_KEYS", "").strip()
    if text.lower() == "none":
        return "none"
    return [each.strip() for each in text.split(",") if each.strip()] or None


def find_address(settings: RunSettings) -> "ListenAddress":
    """Return where to listen.

    Raises:
        UsageError: settings exclude each other.
    """
    from accord.server.serving import ListenAddress

    # Not an option: other users of the machine see the options of a process.
    password = os.environ.get("ACCORD_KEY_PASSWORD") if settings["certificate"] else None
    try:
        return ListenAddress({**settings, "key_password": password})
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
    for name, setting in SETTINGS.items():
        option = setting.option.partition(" ")[0]
        given = getattr(options, option.removeprefix("--").replace("-", "_"), _ABSENT)
        if given is _ABSENT:  # a proxy has one process alone
            continue
        is_given = given is not None and given is not False and given != []
        if not is_http and name not in _EVERYWHERE:
            if is_given:
                raise UsageError(_explain_http_only(option))
        elif is_given:
            found[name] = given if name != "sessions" else False
        elif name != "store" and (value := _read_variable(name, setting)) is not None:
            found[name] = value
    _choose_address(options, found)
    _choose_store(options, found, is_http=is_http)
    if options.reload_dir and not found.get("reload"):
        raise UsageError("--reload-dir names what --reload watches; add --reload")
    if found.get("reload"):
        found.setdefault("grace", _RELOAD_GRACE)
    settings: Any = {**DEFAULTS, **found}
    if settings["sse"] and settings["sessions"] is False:
        why = "--sse needs sessions, which --no-sessions turns off; leave one of them out"
        raise UsageError(why)
    chosen: RunSettings = settings
    return chosen


def _choose_store(options: argparse.Namespace, found: dict[str, Any], *, is_http: bool) -> None:
    """Find the store of several workers, and refuse what does not go with it."""
    if found.get("reload") and found.get("workers", 1) != 1:
        raise UsageError(
            "--reload and --workers exclude each other: --reload restarts one process at each "
            "change; send SIGHUP to replace workers by new ones with the code of now"
        )
    if found.get("store") is not None:
        return
    if is_http and hasattr(options, "store") and os.environ.get(_STORE, "").strip():
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


def _read_variable(name: str, setting: SettingRow) -> Any:
    """Return the value of a variable; None if it is not set or empty."""
    variable = find_variable(name)
    text = os.environ.get(variable, "").strip()
    if not text:
        return _read_former_variable() if name == "sessions" else None
    try:
        return _read_text(name, setting, text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"variable {variable}: {error}") from None


def _read_text(name: str, setting: SettingRow, text: str) -> Any:
    option = setting.option.partition(" ")[0]
    read = READERS.get(setting.option) or READERS.get(option, _as_it_is)
    if setting.is_repeated:
        items = [each.strip() for each in text.split(",")]
        return [read(each) for each in items if each]
    if name == "access_log":
        return _read_access_log(text)
    return _read_flag(text) if option == setting.option else read(text)


def _read_former_variable() -> bool | None:
    is_stateless: bool | None = _read_variable("stateless", SettingRow(option="--stateless"))
    if is_stateless is None:
        return None
    complain(f"{_STATELESS}={is_stateless:d} is now ACCORD_SESSIONS={not is_stateless:d}")
    return not is_stateless


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

"""Writes docs/settings.md from the tables of settings."""

import sys
from pathlib import Path

from accord.cli.run_settings import SETTINGS, RunSettings
from accord.http.settings import (
    LISTEN,
    HttpLimits,
    HttpSettings,
    ListenSettings,
    SettingRow,
    find_variable,
    read_attributes,
    settings_of,
)

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "settings.md"
_ABOUT = read_attributes(HttpLimits, HttpSettings, ListenSettings, RunSettings)
_MEGABYTE = 1024 * 1024
_HEAD = """\
# Settings of HTTP

`tools/settings_table.py` writes this page from `src/accord/http/settings.py`.

`server.run("http", ...)` and `await server.serve("http", ...)` take all settings as keywords,
`server.asgi(...)` those of the first two tables. `accord run` and `accord proxy` have options for
some of them, and each option has a variable, so that an image or a unit needs no file of its own.
The option wins; an empty variable counts as not set. In variables, lists have commas between
their items, and switches are `1` or `0` (`ACCORD_SESSIONS=0` is the option). Other variables:
`ACCORD_TRANSPORT` is `http` or `stdio` (default), `ACCORD_KEY_PASSWORD` opens an encrypted key,
and `ACCORD_STORE_KEYS` has the keys of the store, which are never options.

Only the commands read variables. `server.run(...)` in your own file does what it says, whatever
the environment holds; read variables there yourself. Variables for HTTP do not matter over stdio,
options for HTTP are refused there. A value that cannot be used is refused with the name of its
setting, option or variable.
"""
_LIMITS = """\
With `limits=HttpLimits(body_timeout=5, connections=500)`; `HttpLimits` is in `accord.server`.
Each number is more than 0. The size of a message has a limit of its own, 16 MB:
`Server(limits=Limits(...))`.
"""
_COLUMNS = "| setting | default | | option, variable |\n|---|---|---|---|\n"


def _default(name: str, value: object) -> str:
    if value is None or value == () or isinstance(value, HttpLimits):
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"`{value}`"
    if name == "socket_mode":
        return f"`{value:#o}`"
    if name == "port":
        return f"{value}"
    if name.endswith("bytes") and value % _MEGABYTE == 0:
        return f"{value // _MEGABYTE} MB"
    return f"{value:,g}" if value < 1e6 else f"{value:,}"


def _row(name: str, setting: SettingRow, default: object) -> str:
    option = setting.option.partition(" ")[0]
    given = f"`{option}`, `{find_variable(name)}`" if option else ""
    return f"| `{name}` | {_default(name, default)} | {_ABOUT[name]} | {given} |\n"


def _table(rows: dict[str, SettingRow]) -> str:
    return _COLUMNS + "".join(_row(name, each, each.default) for name, each in rows.items())


def render() -> str:
    """Return the page."""
    commands = {name: SETTINGS[name] for name in RunSettings.__annotations__ if name in SETTINGS}
    http = settings_of(HttpSettings)
    own = {name: each for name, each in commands.items() if name not in {*http, *LISTEN}}
    limits = "".join(
        _row(name, SettingRow(), getattr(HttpLimits(), name))
        for name in HttpLimits.__struct_fields__
    )
    parts = [
        _HEAD,
        f"## How a server is reached\n\n{_table(http)}",
        f"## Limits\n\n{_LIMITS}\n{_COLUMNS}{limits}",
        f"## Where it listens\n\n{_table(LISTEN)}",
        f"## Of the commands alone\n\n{_table(own)}",
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text(encoding="utf-8") != render())
    PAGE.write_text(render(), encoding="utf-8")

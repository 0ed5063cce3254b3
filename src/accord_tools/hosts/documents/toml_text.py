"""Values written as TOML, whatever characters they contain."""

import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, Final

from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.documents.quoting import quote_text

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_WIDTH: Final = 100
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def format_key(key: str) -> str:
    """Return a key, quoted where it has to be."""
    return key if _BARE.fullmatch(key) else format_text(key)


def format_text(text: str) -> str:
    r"""Return a text in quotes; invisible characters are escaped.

    >>> print(format_text('a "b" \x1b'))
    "a \"b\" \u001b"

    Raises:
        HostsError: it has half of a surrogate pair, which TOML cannot express.
    """
    return quote_text(text, _ESCAPES, "TOML")


def format_value(value: Any) -> str:
    """Return a value in one line.

    Raises:
        HostsError: TOML has no such value.
    """
    if isinstance(value, str):
        return format_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_value, value))}]"
    if isinstance(value, Mapping):
        pairs = [f"{format_key(key)} = {format_value(each)}" for key, each in value.items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    raise HostsError(f"TOML has no value for {type(value).__name__}")


def without_nulls(value: Any) -> Any:
    """Return a value without members that are null, which TOML cannot express."""
    if isinstance(value, Mapping):
        return {str(key): without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [without_nulls(each) for each in value if each is not None]
    return value


def format_pair(key: str, value: Any) -> str:
    """Return `key = value`; a long list has one item in each line."""
    line = f"{format_key(key)} = {format_value(value)}"
    if len(line) <= _WIDTH or not isinstance(value, list | tuple):
        return line
    items = "".join(f"  {format_value(each)},\n" for each in value)
    return f"{format_key(key)} = [\n{items}]"


def format_table(keys: Iterable[str], members: Mapping[str, Any]) -> str:
    """Return a table with its header.

    >>> print(format_table(["server", "a b"], {"time": 5}))
    [server."a b"]
    time = 5
    """
    lines = [f"[{'.'.join(map(format_key, keys))}]"]
    lines += [format_pair(key, value) for key, value in members.items()]
    return "\n".join(lines)


def format_comment(text: str) -> str:
    """Return a text as comments, a line each, with control characters escaped."""
    shown = [
        "".join(each if each.isprintable() else f"\\u{ord(each):04X}" for each in line)
        for line in re.split(r"\r\n|[\r\n]", text)
    ]
    return "\n".join(f"# {line}".rstrip() for line in shown)

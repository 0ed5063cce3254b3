"""How values are written into paths, queries, headers and cookies: the styles of OpenAPI.

All values are percent-encoded, so that no value ends its parameter and begins another. Nothing in
a path leads to another path, and nothing in a header to another header.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

import msgspec

from accord.errors import ToolError
from accord.types import JsonObject

Location: TypeAlias = Literal["path", "query", "header", "cookie"]
DEFAULT_STYLES: Final[dict[str, str]] = {
    "path": "simple",
    "query": "form",
    "header": "simple",
    "cookie": "form",
}
STYLES: Final[dict[str, tuple[str, ...]]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}

_UNRESERVED: Final = "-._~"
# All that is reserved but `&`, `#` and `+`, which mean something to every reader of a query.
_RESERVED: Final = "-._~:/?@!$'()*,;=[]"
_PATH_RESERVED: Final = "-._~:/@!$'()*,;=+&"
_COOKIE: Final = "!#$&'()*+-./:<=>?@[]^_`{|}~"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
# Some servers decode a path before they split it.
_SEPARATORS: Final = re.compile(r"/|\\|%2f|%5c", re.IGNORECASE)
_DELIMITERS: Final = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}


class ParameterStyle(msgspec.Struct, frozen=True, kw_only=True):
    """How one parameter is written.

    Attributes:
        name: of the parameter in the request.
        argument: its name for callers, used in messages.
        is_json: whether its value is written as JSON, whatever the style.
    """

    name: str
    argument: str
    location: Location
    style: str
    explode: bool = False
    allow_reserved: bool = False
    is_json: bool = False


def to_text(value: object) -> str:
    """Return a value as it stands in a URL, a header or a form: text as it is, all else as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if value is True or value is False:
        return "true" if value else "false"
    return msgspec.json.encode(value).decode()


def write_path(parameter: ParameterStyle, value: object) -> str:
    """Return a value as a part of a path, which has to go through `check_path` as a whole.

    Raises:
        ToolError: it is empty.
    """
    safe = _PATH_RESERVED if parameter.allow_reserved else _UNRESERVED
    written = _write_path(parameter, value, safe)
    if not written or (written == "." and parameter.style == "label"):
        raise ToolError(f'argument "{parameter.argument}" is empty, and is a part of the path')
    return written


def check_path(path: str, arguments: Iterable[str]) -> None:
    """Refuse a written path that a server would read as another one.

    Args:
        path: as it is sent: a style may write `..` although no value has it.
        arguments: the names of those in it, for the message.

    Raises:
        ToolError: a segment is "." or "..".
    """
    segments = _SEPARATORS.split(path.replace("%2e", ".").replace("%2E", "."))
    if "." in segments or ".." in segments:
        names = " and ".join(f'"{each}"' for each in arguments)
        raise ToolError(f'argument {names} is refused: "." and ".." lead to another path')


def _write_path(parameter: ParameterStyle, value: object, safe: str) -> str:
    if parameter.is_json:
        return quote(msgspec.json.encode(value), safe=safe)
    style, explode = parameter.style, parameter.explode
    name = quote(parameter.name, safe=_UNRESERVED)
    if isinstance(value, dict):
        members = _members(value, safe)
        if style == "simple":
            return ",".join(
                f"{key}={each}" if explode else f"{key},{each}" for key, each in members
            )
        if explode:
            mark = "." if style == "label" else ";"
            return "".join(f"{mark}{key}={each}" for key, each in members)
        parts = [part for pair in members for part in pair]
    else:
        values = value if isinstance(value, list) else [value]
        parts = [quote(to_text(each), safe=safe) for each in values]
    if style == "label":
        return "".join(f".{each}" for each in parts) if explode else f".{','.join(parts)}"
    if style == "matrix":
        if explode and isinstance(value, list):
            return "".join(f";{name}={each}" for each in parts)
        joined = ",".join(parts)
        return f";{name}={joined}" if joined else f";{name}"
    return ",".join(parts)


def _members(value: JsonObject, safe: str) -> list[tuple[str, str]]:
    return [
        (quote(key, safe=_UNRESERVED), quote(to_text(each), safe=safe))
        for key, each in value.items()
    ]


def write_query(parameter: ParameterStyle, value: Any) -> list[str]:
    """Return a value as pairs of a query or of a form, percent-encoded."""
    safe = _RESERVED if parameter.allow_reserved else _UNRESERVED
    name = quote(parameter.name, safe=_UNRESERVED)
    if parameter.is_json:
        return [f"{name}={quote(msgspec.json.encode(value), safe=safe)}"]
    if not isinstance(value, dict | list):
        return [f"{name}={quote(to_text(value), safe=safe)}"]
    if parameter.style == "deepObject":
        return list(_write_deep(name, value, safe))
    if isinstance(value, dict):
        members = _members(value, safe)
        if parameter.explode and parameter.style == "form":
            return [f"{key}={each}" for key, each in members]
        parts = [part for pair in members for part in pair]
    else:
        parts = [quote(to_text(each), safe=safe) for each in value]
        if parameter.explode:
            return [f"{name}={each}" for each in parts]
    return [f"{name}={_DELIMITERS.get(parameter.style, ',').join(parts)}"] if parts else []


def _write_deep(name: str, value: Any, safe: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _write_deep(f"{name}%5B{quote(str(key), safe=_UNRESERVED)}%5D", each, safe)
    elif isinstance(value, list):
        # The specification leaves this open; servers that read brackets read indexes in them.
        for index, each in enumerate(value):
            yield from _write_deep(f"{name}%5B{index}%5D", each, safe)
    else:
        yield f"{name}={quote(to_text(value), safe=safe)}"


def write_header(parameter: ParameterStyle, value: object) -> str:
    """Return a value as that of a header.

    Raises:
        ToolError: it has a line break or another control character in it.
    """
    if parameter.is_json:
        text = msgspec.json.encode(value).decode()
    elif isinstance(value, list):
        text = ",".join(map(to_text, value))
    elif isinstance(value, dict):
        mark = "=" if parameter.explode else ","
        text = ",".join(f"{key}{mark}{to_text(each)}" for key, each in value.items())
    else:
        text = to_text(value)
    if _CONTROL.search(text):
        raise ToolError(
            f'argument "{parameter.argument}" is refused: a header holds no control characters'
        )
    return text.strip()


def write_cookie(parameter: ParameterStyle, value: object) -> list[str]:
    """Return a value as cookies, percent-encoded."""
    name = quote(parameter.name, safe=_UNRESERVED)

    def escape(part: object) -> str:
        return quote(to_text(part), safe=_COOKIE)

    if parameter.is_json:
        return [f"{name}={quote(msgspec.json.encode(value), safe='')}"]
    if isinstance(value, dict):
        if parameter.explode:
            return [f"{quote(str(k), safe=_UNRESERVED)}={escape(v)}" for k, v in value.items()]
        return [f"{name}={','.join(escape(part) for pair in value.items() for part in pair)}"]
    if isinstance(value, list):
        if parameter.explode:
            return [f"{name}={escape(each)}" for each in value]
        return [f"{name}={','.join(map(escape, value))}"]
    return [f"{name}={escape(value)}"]

"""How values are written into a request: parameters in the styles of OpenAPI, and bodies."""

import binascii
import os
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

import msgspec

from accord.compose.openapi.document import object_at, text_at
from accord.errors import ToolError
from accord.server.media import BINARY, JSON, PLAIN, is_textual
from accord.types import JsonObject

# -- parameters

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


# -- bodies

FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"

BodyKind: TypeAlias = Literal["json", "form", "multipart", "text", "binary"]
# The first of these that an operation takes is used.
_PREFERENCE: Final[tuple[BodyKind, ...]] = ("json", "form", "multipart", "text", "binary")
_MEDIA_TYPE: Final = re.compile(r"[\w!#$&^.+*-]+/[\w!#$&^.+*-]+(?:[ \t]*;[^\r\n]*)?", re.ASCII)
_ESCAPES: Final = {ord('"'): "%22", ord("\r"): "%0D", ord("\n"): "%0A", 0: "%00"}


def kind_of(media_type: str) -> BodyKind | None:
    """Return how a body of a media type is written; None if it is not a media type."""
    if _MEDIA_TYPE.fullmatch(media_type) is None:
        return None
    name = media_type.partition(";")[0].strip().lower()
    if name == JSON or name.endswith("+json"):
        return "json"
    if name == FORM:
        return "form"
    if name.startswith("multipart/"):
        return "multipart"
    return "text" if is_textual(name) else "binary"


def choose_media_type(content: Mapping[str, object]) -> tuple[str, BodyKind] | None:
    """Return the media type to send of those that an operation takes; None if none is valid."""
    found = [(name, kind_of(name)) for name in content]
    for wanted in _PREFERENCE:
        for name, kind in found:
            if kind == wanted:
                return name, wanted
    return None


class BodyWriter(msgspec.Struct, frozen=True, kw_only=True):
    """Writes the body of an operation.

    Attributes:
        media_type: as the document names it.
        schemas: of the members of a form, as the document has them.
        encoding: how members of a form are written, by name.
    """

    media_type: str
    kind: BodyKind
    schemas: JsonObject = {}
    encoding: JsonObject = {}

    def write(self, value: Any, argument: str | None) -> tuple[bytes, str]:
        """Return the body, and its Content-Type.

        Args:
            value: plain JSON; bytes are base64 text.
            argument: the argument that it comes from; None for an object of several.

        Raises:
            ToolError: bytes are not base64.
        """
        content_type = self.media_type
        if "*" in content_type:
            content_type = BINARY if self.kind == "binary" else PLAIN
        if self.kind == "json":
            return msgspec.json.encode(value), content_type
        if self.kind in ("form", "multipart") and isinstance(value, dict):
            if self.kind == "form":
                return "&".join(self._form(value)).encode(), content_type
            return self._multipart(value)
        if self.kind == "binary":
            return read_base64(to_text(value), argument or "body"), content_type
        return to_text(value).encode(errors="replace"), content_type

    def _form(self, value: JsonObject) -> Iterator[str]:
        for name, each in value.items():
            encoding = object_at(self.encoding, name)
            style = text_at(encoding, "style")
            explode = encoding.get("explode")
            has_style = bool(style) or explode is not None
            yield from write_query(
                ParameterStyle(
                    name=name,
                    argument=name,
                    location="query",
                    style=style or "form",
                    explode=explode if isinstance(explode, bool) else style in ("", "form"),
                    allow_reserved=encoding.get("allowReserved") is True,
                    # Without a style, objects are JSON.
                    is_json=isinstance(each, dict) and not has_style,
                ),
                each,
            )

    def _multipart(self, value: JsonObject) -> tuple[bytes, str]:
        boundary = os.urandom(16).hex()
        parts = [
            b"--%b\r\n%b" % (boundary.encode(), self._part(name, item))
            for name, each in value.items()
            for item in (each if isinstance(each, list) else [each])
        ]
        parts.append(b"--%b--\r\n" % boundary.encode())
        subtype = self.media_type.partition(";")[0].strip()
        return b"".join(parts), f"{subtype}; boundary={boundary}"

    def _part(self, name: str, value: object) -> bytes:
        escaped = name.translate(_ESCAPES)
        named = text_at(object_at(self.encoding, name), "contentType").split(",")[0].strip()
        named = "" if "*" in named or kind_of(named) is None else named
        if is_binary(self.schemas.get(name)):
            data = read_base64(to_text(value), name)
            head = f'form-data; name="{escaped}"; filename="{escaped}"'
            content_type = named or BINARY
        else:
            head = f'form-data; name="{escaped}"'
            is_object = isinstance(value, dict | list)
            content_type = named or (JSON if is_object else "")
            data = to_text(value).encode(errors="replace")
        lines = f"Content-Disposition: {head}\r\n"
        if content_type:
            lines += f"Content-Type: {content_type}\r\n"
        return lines.encode() + b"\r\n" + data + b"\r\n"


def is_binary(schema: object) -> bool:
    """Whether values of a schema are bytes, which callers write as base64."""
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "array":
        return is_binary(schema.get("items"))
    media_type = schema.get("contentMediaType")
    is_media = isinstance(media_type, str) and not is_textual(media_type)
    return schema.get("format") == "binary" or (is_media and "contentEncoding" not in schema)


def read_base64(text: str, argument: str) -> bytes:
    """Return the bytes of base64 text.

    Raises:
        ToolError: it is not base64.
    """
    plain = "".join(text.split())
    if plain.startswith("data:") and ";base64," in plain[:200]:
        plain = plain.partition(";base64,")[2]
    try:
        return b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ToolError(
            f'argument "{argument}" is not base64; bytes are written as base64 text'
        ) from None

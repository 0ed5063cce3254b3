"""The bodies of requests: JSON, forms, multipart, text and bytes."""

import binascii
import os
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from accord.compose.openapi.document import object_at, text_at
from accord.compose.openapi.styles import ParameterStyle, to_text, write_query
from accord.errors import ToolError
from accord.server.media import BINARY, JSON, PLAIN, is_textual
from accord.types import JsonObject

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

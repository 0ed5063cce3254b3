"""The contents of resources: from what a function returns to a result."""

from typing import TYPE_CHECKING, Final

import msgspec

from accord.errors import ResourceNotFound
from accord.server.media import (
    BINARY,
    JSON,
    PLAIN,
    Audio,
    Image,
    encode_base64,
    guess_mime_type,
    is_textual,
)
from accord.server.schema.encoding import encode
from accord.types import ReadResourceResult, ResourceContents

if TYPE_CHECKING:
    from accord.server.entries.resources import ReadableEntry

# A list with one of these is a list of contents, and not JSON.
_PARTS: Final = (ResourceContents, Image, Audio)
_SHOWN: Final = 200


def not_found(uri: str) -> ResourceNotFound:
    """Return the error for an unknown URI; the endpoint sets the code of the revision."""
    shown = uri if len(uri) <= _SHOWN else uri[:_SHOWN] + "..."
    return ResourceNotFound(f"resource {shown!r} not found", data={"uri": uri})


def build_contents(entry: "ReadableEntry", uri: str, value: object) -> ReadResourceResult:
    """Convert the value that a function returned into a result.

    Text and bytes stay as they are, contents get a URI and a MIME type if they lack one, and any
    other value is encoded as JSON. None means that the resource does not exist.

    Raises:
        ResourceNotFound: the function returned None.
        TypeError: the value cannot be encoded.
        ValueError: its `ttl_ms` is negative.
    """
    match value:
        case None:
            raise not_found(uri)
        case ReadResourceResult():
            if value.ttl_ms is not None and value.ttl_ms < 0:  # caching.ttl.non-negative
                raise ValueError(f"resource {uri!r}: ttl_ms is {value.ttl_ms}, expected at least 0")
            parts = [_content(entry, uri, part) for part in value.contents]
            result = msgspec.structs.replace(value, contents=parts)
        case list() | tuple() if any(isinstance(part, _PARTS) for part in value):
            result = ReadResourceResult([_content(entry, uri, part) for part in value])
        case _:
            result = ReadResourceResult([_content(entry, uri, value)])
    if result.ttl_ms is None:
        result.ttl_ms = entry.ttl_ms
    if result.cache_scope is None:
        result.cache_scope = entry.cache_scope
    return result


def _content(entry: "ReadableEntry", uri: str, value: object) -> ResourceContents:
    content = _bare_content(entry, uri, value)
    if content.meta is None:
        content.meta = entry.item.meta
    return content


def _bare_content(entry: "ReadableEntry", uri: str, value: object) -> ResourceContents:
    match value:
        case ResourceContents():
            where = value.uri or uri
            mime_type = value.mime_type or _mime_type(entry, where, text=value.text is not None)
            return msgspec.structs.replace(value, uri=where, mime_type=mime_type)
        case str():
            mime_type = _mime_type(entry, uri, text=True)
            return ResourceContents(uri=uri, mime_type=mime_type, text=value)
        case bytes() | bytearray() | memoryview():
            mime_type = _mime_type(entry, uri, text=False)
            blob = encode_base64(value)
            return ResourceContents(uri=uri, mime_type=mime_type, blob=blob)
        case Image() | Audio():
            blob = encode_base64(value.data)
            mime_type = entry.mime_type or value.mime_type
            return ResourceContents(uri=uri, mime_type=mime_type, blob=blob)
        case _:
            text = _json(uri, value)
            return ResourceContents(uri=uri, mime_type=entry.mime_type or JSON, text=text)


def _mime_type(entry: "ReadableEntry", uri: str, *, text: bool) -> str:
    if entry.mime_type is not None:
        return entry.mime_type
    guessed = guess_mime_type(uri)
    if text:
        return guessed if guessed is not None and is_textual(guessed) else PLAIN
    return guessed or BINARY


def _json(uri: str, value: object) -> str:
    try:
        return encode(value).decode()
    except TypeError as error:
        raise TypeError(
            f"the function of resource {uri!r} returned a {type(value).__name__}; expected text, "
            f"bytes, ResourceContents or a value that can be written as JSON ({error})"
        ) from error

"""Content blocks, images and sounds, MIME types, and the contents of resources made of them."""

import base64
import posixpath
import re
from functools import cache
from os import PathLike, fspath
from typing import TYPE_CHECKING, Final, Generic, Never, TypeVar, get_args

import msgspec

from accord.errors import ResourceNotFound, refuse_unknown
from accord.server.schema.plain import encode
from accord.types import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ReadResourceResult,
    ResourceContents,
    TextContent,
)

if TYPE_CHECKING:
    from accord.server.entries.resources import ReadableEntry


Block = TypeVar("Block", ImageContent, AudioContent)
BLOCKS: Final[tuple[type, ...]] = get_args(ContentBlock)

PLAIN: Final = "text/plain"
BINARY: Final = "application/octet-stream"
JSON: Final = "application/json"

# Compiled at the first use, since most servers have tools alone.
_TEXTUAL: Final = (
    r"text/.+|[^/]+/(?:.+\+)?(?:json|xml|yaml|toml)"
    r"|application/(?:(?:x-)?javascript|ecmascript|x-sh|sql|graphql|x-ndjson|jsonl|x-tex|x-httpd-php)"
)

# Missing in the tables of some Python versions. The tables of the machine are not read, so that
# a server lists the same types everywhere.
_MORE: Final = {
    ".avif": "image/avif",
    ".jsonl": "application/jsonl",
    ".log": PLAIN,
    ".md": "text/markdown",
    ".sql": "application/sql",
    ".toml": "application/toml",
    ".webp": "image/webp",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}


@cache
def _types() -> dict[str, str]:
    import mimetypes

    tables = mimetypes.MimeTypes(filenames=())
    return {**tables.types_map[True], **_MORE}


def guess_mime_type(uri: str) -> str | None:
    """Return the MIME type that the last part of a URI or path suggests; None if none does.

    >>> guess_mime_type("file:///a/notes.md?v=2"), guess_mime_type("https://example.md")
    ('text/markdown', None)
    """
    path = re.split(r"[?#]", uri, maxsplit=1)[0]
    scheme, slashes, after = path.partition("://")
    if slashes and scheme.lower() in ("http", "https"):
        path = after.partition("/")[2]  # not the ending of a host name
    if "%" in path:
        from urllib.parse import unquote

        path = unquote(path)
    extension = posixpath.splitext(path)[1].lower()
    return _types().get(extension) if extension else None


def is_textual(mime_type: str) -> bool:
    """Tell whether content of this type can be shown as text.

    >>> is_textual("text/css"), is_textual("image/svg+xml"), is_textual("image/png")
    (True, True, False)
    """
    return re.fullmatch(_TEXTUAL, mime_type.partition(";")[0].strip().lower()) is not None


def encode_base64(data: bytes | bytearray | memoryview) -> str:
    """Return bytes as base64 text."""
    return base64.b64encode(data).decode("ascii")


class _Media(Generic[Block]):
    """Bytes with a MIME type: given, or found by the file name or the first bytes."""

    _block: type[Block]
    _fallback: str
    _signatures: tuple[tuple[int, bytes, str], ...]

    def __init__(
        self,
        data: bytes | None = None,
        *wrong: Never,
        path: str | PathLike[str] | None = None,
        mime_type: str | None = None,
        **unknown: Never,
    ) -> None:
        name = type(self).__name__
        if wrong:
            raise TypeError(f"{name}(data, {wrong[0]!r}): write mime_type={wrong[0]!r}")
        refuse_unknown(f"{name}()", unknown, ("data", "path", "mime_type"))
        if (data is None) == (path is None):
            raise TypeError(f"{name} takes either data or path")
        if isinstance(data, str):
            raise TypeError(
                f"{name}({data!r:.80}): data is bytes; for a file write path={data!r:.80}"
            )
        if path is not None:
            mime_type = mime_type or guess_mime_type(fspath(path))
            with open(path, "rb") as file:
                data = file.read()
        self.data = bytes(data or b"")
        self.mime_type = mime_type or self._detect_type()

    def _detect_type(self) -> str:
        for offset, mark, mime_type in self._signatures:
            if self.data.startswith(mark, offset):
                return mime_type
        return self._fallback

    def content(self) -> Block:
        """Return it as a content block."""
        return self._block(encode_base64(self.data), self.mime_type)


class Image(_Media[ImageContent]):
    """A picture to return from a tool or put into a prompt: bytes, or a file read at once.

    Without `mime_type` it is found by the file name or the first bytes.
    """

    _block = ImageContent
    _fallback = "image/png"
    _signatures = (
        (0, b"\x89PNG", "image/png"),
        (0, b"\xff\xd8\xff", "image/jpeg"),
        (0, b"GIF8", "image/gif"),
        (8, b"WEBP", "image/webp"),
        (0, b"<svg", "image/svg+xml"),
        (0, b"BM", "image/bmp"),
    )


class Audio(_Media[AudioContent]):
    """A sound to return from a tool or put into a prompt: as `Image`."""

    _block = AudioContent
    _fallback = "audio/wav"
    _signatures = (
        (8, b"WAVE", "audio/wav"),
        (0, b"ID3", "audio/mpeg"),
        (0, b"\xff\xfb", "audio/mpeg"),
        (0, b"OggS", "audio/ogg"),
        (0, b"fLaC", "audio/flac"),
    )


def content_block(value: object) -> ContentBlock | None:
    """Return text, a picture, a sound or contents as a content block; None for other values."""
    if isinstance(value, BLOCKS):
        return value  # type: ignore[return-value]  # one of the union, by the check
    if isinstance(value, str):
        return TextContent(value)
    if isinstance(value, Image | Audio):
        return value.content()
    return EmbeddedResource(value) if isinstance(value, ResourceContents) else None


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

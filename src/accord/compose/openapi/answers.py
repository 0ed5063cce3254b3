"""The answers of an API as results of tools and contents of resources.

Text holds the answer as it came. Structured content holds what fits the output schema: a part that
does not fit is null there, so that an API whose answers break its own document stays usable. It is
then a second text, since structured content is always text too.
"""

from http import HTTPStatus
from typing import Any, Final

import msgspec

from accord.compose.openapi.document import ApiOperation, Inexpressible, object_at
from accord.compose.openapi.schemas import OutputConverter, read_types
from accord.compose.openapi.security import Credentials
from accord.compose.openapi.sending import ApiResponse
from accord.errors import ResourceNotFound, ToolError
from accord.http.rules.responses import excerpt, parse_retry_after
from accord.server.media import BINARY, JSON, encode_base64, is_textual
from accord.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    JsonObject,
    ResourceContents,
    TextContent,
)

_SHOWN_CHARACTERS: Final = 2_000
# A message of the protocol has at most 128 levels, and the answer is some levels within it.
_DEEPEST: Final = 100
_BYTES_URI: Final = "urn:accord:bytes"
_FIRST: Final = ("200", "201", "202", "203")
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}


class AnswerShape(msgspec.Struct, frozen=True):
    """What the answers of an operation look like.

    Attributes:
        output_schema: None where the document has none, or the answer is not JSON.
        is_wrapped: whether the answer is the member `result`, since it is not an object.
    """

    output_schema: JsonObject | None = None
    is_wrapped: bool = False

    def structure(self, value: object) -> JsonObject:
        """Return the part of an answer that fits the schema."""
        schema = self.output_schema or {}
        definitions = schema.get("$defs", {})
        if self.is_wrapped:
            return {"result": fit(value, schema["properties"]["result"], definitions)}
        found = fit(value, schema, definitions)
        return found if isinstance(found, dict) else {}


def find_shape(operation: ApiOperation, converter: OutputConverter) -> AnswerShape:
    """Return the shape of the answers that mean success.

    Without a shape the answers are text: nothing is lost but the structure.
    """
    try:
        schema = _find_schema(operation, converter)
        if not schema:
            return AnswerShape()
        flat = converter.flatten(schema)
        types = read_types(flat)
        is_object = "object" in types or (not types and "properties" in flat)
        references: dict[str, None] = {}
        if is_object:
            found = {**converter.convert(flat, references), "type": "object"}
            found.pop("anyOf", None)
            return AnswerShape(converter.close(found, references))
        value = converter.convert(schema, references)
        if not value.keys() - {"description"}:
            return AnswerShape()
        wrapper = {"type": "object", "properties": {"result": value}, "required": ["result"]}
        return AnswerShape(converter.close(wrapper, references), is_wrapped=True)
    except (Inexpressible, RecursionError):
        return AnswerShape()


def _find_schema(operation: ApiOperation, converter: OutputConverter) -> object:
    successes = [each for each in operation.responses if each[:1] == "2"]
    for status in sorted(successes, key=lambda each: (each not in _FIRST, each)):
        response = converter.document.resolve(operation.responses[status])
        for media_type, media in object_at(response, "content").items():
            if is_json(media_type) and isinstance(media, dict):
                return media.get("schema")
    return None


def is_json(content_type: str) -> bool:
    """Whether a media type is JSON.

    >>> is_json("application/problem+json; charset=utf-8")
    True
    """
    name = content_type.partition(";")[0].strip().lower()
    return name == JSON or name.endswith("+json")


def fit(value: Any, schema: JsonObject, definitions: JsonObject, depth: int = 0) -> Any:
    """Return a value with null in place of each part that does not fit the schema.

    Args:
        value: plain JSON.
        schema: one that `OutputConverter` made.
        definitions: what its references lead to.
        depth: how deep in the answer it is.
    """
    if value is None or depth > _DEEPEST:
        return None
    for _ in range(_DEEPEST):
        if "$ref" not in schema:
            break
        schema = definitions.get(schema["$ref"].rpartition("/")[2], {})
    options = schema.get("anyOf")
    if options is not None:
        fits = any(fit(value, each, definitions, depth + 1) is value for each in options)
        return value if fits else None
    types = schema.get("type")
    if types is not None and not _is_of(value, types):
        return None
    if isinstance(value, dict) and schema.keys() & {"properties", "additionalProperties"}:
        return _fit_object(value, schema, definitions, depth)
    if isinstance(value, list) and schema.get("items"):
        items = [fit(each, schema["items"], definitions, depth + 1) for each in value]
        is_same = all(one is other for one, other in zip(items, value, strict=True))
        return value if is_same else items
    return None if _is_deep(value, _DEEPEST - depth) else value


def _is_deep(value: object, most: int) -> bool:
    """Whether a part that no schema describes has more levels than can be sent."""
    level = [value]
    for _ in range(most):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _fit_object(value: JsonObject, schema: JsonObject, definitions: JsonObject, depth: int) -> Any:
    members = schema.get("properties", {})
    rest = schema.get("additionalProperties")
    changed: JsonObject = {}
    for name, each in value.items():
        member = members.get(name, rest)
        if member is not None or isinstance(each, dict | list):
            fitting = fit(each, member or {}, definitions, depth + 1)
            if fitting is not each:
                changed[name] = fitting
    return {**value, **changed} if changed else value


def _is_of(value: object, types: str | list[str]) -> bool:
    for each in [types] if isinstance(types, str) else types:
        if isinstance(value, bool):
            if each == "boolean":
                return True
        elif isinstance(value, _TYPES[each]) or (each == "integer" and _is_whole(value)):
            return True
    return False


def _is_whole(value: object) -> bool:
    return isinstance(value, float) and value.is_integer()


# -- results


def to_result(response: ApiResponse, shape: AnswerShape) -> CallToolResult:
    """Return an answer as the result of a tool."""
    value: object = None
    blocks: list[ContentBlock] = [_to_block(response)]
    if shape.output_schema is None:
        return CallToolResult(blocks)
    if is_json(response.content_type) and response.body:
        try:
            value = msgspec.json.decode(response.body)
        except (ValueError, RecursionError):
            value = None
    structured = shape.structure(value)
    inner = structured["result"] if shape.is_wrapped else structured
    if inner is not value or value is None:
        # tools.structured-content.also-text: here the text of the answer says more, or less.
        blocks.append(TextContent(msgspec.json.encode(inner).decode()))
    return CallToolResult(blocks, structured_content=structured)


def _to_block(response: ApiResponse) -> ContentBlock:
    mime_type = response.content_type.partition(";")[0].strip().lower()
    if not response.body:
        return TextContent(f"HTTP {_phrase(response.status)}, without a body")
    if is_json(mime_type) or not mime_type or is_textual(mime_type):
        return TextContent(to_text(response))
    if mime_type.startswith("image/"):
        return ImageContent(encode_base64(response.body), mime_type)
    if mime_type.startswith("audio/"):
        return AudioContent(encode_base64(response.body), mime_type)
    blob = encode_base64(response.body)
    return EmbeddedResource(ResourceContents(_BYTES_URI, mime_type=mime_type, blob=blob))


def to_contents(response: ApiResponse, uri: str = "") -> ResourceContents:
    """Return an answer as the contents of a resource."""
    mime_type = response.content_type.partition(";")[0].strip().lower()
    if not mime_type or is_textual(mime_type):
        return ResourceContents(uri, mime_type=mime_type or None, text=to_text(response))
    blob = encode_base64(response.body)
    return ResourceContents(uri, mime_type=mime_type or BINARY, blob=blob)


def to_text(response: ApiResponse) -> str:
    """Return the body as text, in the charset that it names."""
    _, _, charset = response.content_type.lower().partition("charset=")
    charset = charset.partition(";")[0].strip(" \"'")
    if not charset or charset in ("utf-8", "utf8"):
        return response.body.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        text = response.body.decode(charset, "replace")
    except LookupError:
        text = response.body.decode("utf-8", "replace")
    # Some charsets, such as utf-7, decode to half characters.
    return text.encode("utf-8", "replace").decode()


# -- errors


def check_status(
    operation: ApiOperation, response: ApiResponse, credentials: Credentials
) -> ApiResponse:
    """Return a response that means success.

    Raises:
        ToolError: it means something else; the text has the status and the beginning of the body.
    """
    if 200 <= response.status < 300:
        return response
    said = ""
    mime_type = response.content_type.partition(";")[0].strip().lower()
    if mime_type == "text/html":
        said = excerpt(response.body)
    elif not mime_type or is_textual(mime_type):
        said = to_text(response).strip()
    said = credentials.mask(said)
    if len(said) > _SHOWN_CHARACTERS:
        said = said[:_SHOWN_CHARACTERS] + "..."
    text = f"{operation.label}: HTTP {_phrase(response.status)}"
    wait = parse_retry_after(response.retry_after)
    if wait is not None:
        text += f", try again in {wait:.0f} s"
    if response.status == HTTPStatus.UNAUTHORIZED and credentials == Credentials():
        text += " (no credentials were sent; auth= gives them)"
    raise ToolError(f"{text}: {said}" if said else text)


def check_found(response: ApiResponse) -> None:
    """Refuse an answer that says that a resource does not exist.

    Raises:
        ResourceNotFound: it says so.
    """
    if response.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        raise ResourceNotFound(f"the API answered HTTP {_phrase(response.status)}")


def _phrase(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)

"""Results of tools, made from the values that functions return.

Content (strings, bytes, images, sounds, content blocks and lists of them) stays content. All other
types have an output schema, see `typed_results`.
"""

import functools
import inspect as _inspect
import types as _types
import typing
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias, Union, get_args, get_origin

from accord.errors import AccordError, RegistrationError
from accord.server.media import BINARY, BLOCKS, Audio, Image, content_block, encode_base64
from accord.server.schema.annotations import ANYTHING, AnnotationResolver, callable_name
from accord.server.schema.parameters import is_bare
from accord.server.schema.plain import encode, is_plain, order_of
from accord.types import (
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    JsonObject,
    ResourceContents,
    TextContent,
)
from accord.types._base import constructor

_LONGEST_ERROR: Final = 300
# An embedded resource must have a URI, and bytes have none.
_BYTES_URI: Final = "urn:accord:bytes"


class ResultError(AccordError):
    """A function returned something that its own return type does not allow."""


_CONTENT: Final = (*BLOCKS, Image, Audio, ResourceContents)
_BYTES: Final = (bytes, bytearray, memoryview)
_UNTYPED: Final = (str, *_BYTES, _types.NoneType, *_CONTENT, CallToolResult)
_NO_VALUE: Final = (typing.NoReturn, typing.Never)
_text_content: Final = constructor(TextContent)
_tool_result: Final = constructor(CallToolResult)
Convert: TypeAlias = Callable[[object], CallToolResult]


def content_of(value: object) -> list[ContentBlock]:
    """Return a value as content blocks."""
    if isinstance(value, str):
        return [_text_content(value)]
    if value is None:
        return []
    if isinstance(value, list | tuple) and any(isinstance(each, _CONTENT) for each in value):
        return [_block(each) for each in value]
    return [_block(value)]


def _block(value: object) -> ContentBlock:
    block = content_block(value)
    if block is not None:
        return block
    if isinstance(value, _BYTES):
        blob = encode_base64(value)
        return EmbeddedResource(ResourceContents(_BYTES_URI, mime_type=BINARY, blob=blob))
    return _text_content(to_json(value).decode())


def to_json(value: object) -> bytes:
    """Write a result as JSON.

    Raises:
        ResultError: it has no JSON form.
    """
    try:
        return encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        if _inspect.iscoroutine(value):
            value.close()
            raise ResultError("the result is a coroutine; an await is missing") from None
        text = f"the result cannot be written as JSON: {error}"
        raise ResultError(text[:_LONGEST_ERROR]) from error


def refuse_surrogates(result: CallToolResult) -> None:
    """Refuse text with a lone surrogate, as names of files may have: JSON cannot carry it."""
    for block in result.content:
        if isinstance(block, TextContent) and not block.text.isascii():
            to_json(block.text)


class ReturnType:
    """The return type of a function, and the conversion of its values to results.

    `convert(value)` returns the result: `str` becomes text; `bytes` an embedded resource with a
    blob; `Image`, `Audio` and content blocks are kept, alone or in lists with strings; None becomes
    empty content; a `CallToolResult` passes through; other values become compact JSON in text, and
    structured content if there is an output schema. It raises `ResultError` for a value that breaks
    the schema; the message names the part.
    """

    convert: Convert

    def __init__(
        self, annotation: object = ANYTHING, *, names: Mapping[str, object] | None = None
    ) -> None:
        self._annotation = annotation = _awaited_type(annotation)
        if _is_untyped(annotation):
            self.output_schema = None
            self.convert = _convert_untyped
        elif is_plain(annotation):
            # Made for the first list or call: it cannot fail.
            self.convert = self._prepare_and_convert
        else:
            self._prepare(names or {})

    @functools.cached_property
    def output_schema(self) -> JsonObject | None:
        """The schema of structured content; None where results have none."""
        return self._prepare({})

    def _prepare(self, names: Mapping[str, object]) -> JsonObject:
        from accord.server.schema.typed_results import TypedResults

        typed = TypedResults(self._annotation, names)
        self.convert = typed.convert
        self.output_schema = typed.output_schema
        return typed.output_schema

    def _prepare_and_convert(self, value: object) -> CallToolResult:
        self._prepare({})
        return self.convert(value)


def _convert_untyped(value: object) -> CallToolResult:
    result = value if isinstance(value, CallToolResult) else _tool_result(content_of(value))
    refuse_surrogates(result)
    return result


def inspect(
    function: Callable[..., object], *, written_schema: JsonObject | None = None
) -> ReturnType:
    """Read the return annotation of anything callable.

    Args:
        function: the handler.
        written_schema: the schema of its results, if the author wrote it.

    Raises:
        RegistrationError: the return type has no JSON form, or the written schema is invalid.
    """
    if written_schema is not None:
        from accord.server.schema.typed_results import ReturnTypeWithSchema

        return ReturnTypeWithSchema(written_schema, f'function "{callable_name(function)}"')
    annotation = _return_annotation(function)
    if is_plain(annotation):
        return _plain_return_type(order_of(annotation), annotation)
    resolver = AnnotationResolver(function, {})
    resolved = resolver.resolve(annotation, "the return value")
    if is_plain(resolved):
        return _plain_return_type(order_of(resolved), resolved)
    try:
        return ReturnType(resolved, names=resolver.names)
    except RegistrationError as error:
        where = f'function "{callable_name(function)}"'
        raise RegistrationError(f"{where}: the return value: {error}") from error


# There are not many plain types; each is prepared once.
_PLAIN: Final[dict[object, ReturnType]] = {}


def _plain_return_type(key: object, annotation: object) -> ReturnType:
    found = _PLAIN.get(key)
    if found is None:
        found = _PLAIN[key] = ReturnType(annotation)
    return found


def _return_annotation(function: Callable[..., object]) -> object:
    if is_bare(function):
        # It needs no search through wrappers.
        return function.__annotations__.get("return", _inspect.Signature.empty)
    try:
        return _inspect.signature(function).return_annotation
    except (TypeError, ValueError):
        return _inspect.Signature.empty


# Annotations


def _awaited_type(annotation: object) -> object:
    """Return the type of the value of an awaitable, for plain functions that return one."""
    while get_origin(annotation) in (Awaitable, Coroutine):
        annotation = get_args(annotation)[-1]
    while get_origin(annotation) is Annotated and _is_untyped(get_args(annotation)[0]):
        annotation = get_args(annotation)[0]
    return annotation


def _is_untyped(annotation: object) -> bool:
    """Tell whether a type is content, or leaves the type open."""
    if annotation in (Any, object, None, _inspect.Signature.empty, list, tuple, *_NO_VALUE):
        return True
    origin = get_origin(annotation)
    if origin in (Union, _types.UnionType):
        return all(map(_is_untyped, get_args(annotation))) or _holds_content(get_args(annotation))
    if origin in (list, tuple, Sequence, Iterable):
        members = [member for member in get_args(annotation) if member is not Ellipsis]
        return members == [Any] or _holds_content(members)
    return annotation in _UNTYPED


def _holds_content(annotations: Iterable[object]) -> bool:
    for annotation in annotations:
        if get_origin(annotation) in (Union, _types.UnionType, list, tuple, Sequence):
            if _holds_content(get_args(annotation)):
                return True
        elif annotation in _CONTENT or annotation is CallToolResult:
            return True
    return False

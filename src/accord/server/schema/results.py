"""Results of tools, made from the values that functions return.

Content (strings, bytes, images, sounds, content blocks and lists of them) stays content. All other
types have an output schema: their values are sent as structured content and, for clients that read
only content, as the same JSON in text. A value that breaks its schema is refused.
"""

import inspect as _inspect
import types as _types
import typing
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import UNSET

from accord.errors import AccordError, MissingExtra, RegistrationError, lower_first
from accord.json_schema.mismatch import Mismatch, explain, path_text
from accord.json_schema.reader import inline
from accord.server.media import BINARY, BLOCKS, Audio, Image, content_block, encode_base64
from accord.server.schema.annotations import (
    ANYTHING,
    AnnotationResolver,
    callable_name,
    class_of,
    is_named_tuple,
)
from accord.server.schema.conversion import Collector, dec_hook, encode, to_plain
from accord.server.schema.msgspec_types import is_described, to_msgspec_type
from accord.server.schema.written import compile_written
from accord.types import (
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    JsonObject,
    ResourceContents,
    TextContent,
)
from accord.types._base import constructor

if TYPE_CHECKING:
    from accord.json_schema.validation import Validate

_decode_json: Final = msgspec.json.Decoder().decode
_LONGEST_ERROR: Final = 300
# An embedded resource must have a URI, and bytes have none.
_BYTES_URI: Final = "urn:accord:bytes"


class ResultError(AccordError):
    """A function returned something that its own return type does not allow."""


_CONTENT: Final = (*BLOCKS, Image, Audio, ResourceContents)
_BYTES: Final = (bytes, bytearray, memoryview)
_UNTYPED: Final = (str, *_BYTES, _types.NoneType, *_CONTENT, CallToolResult)
_NO_VALUE: Final = (typing.NoReturn, typing.Never)
# The functional form, for fields that are known only at run time.
_typed_dict: Final[Callable[[str, dict[str, object]], object]] = typing.TypedDict  # type: ignore[assignment]
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
    return _text_content(_to_json(value).decode())


def _to_json(value: object) -> bytes:
    try:
        return encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        if _inspect.iscoroutine(value):
            value.close()
            raise ResultError("the result is a coroutine; an await is missing") from None
        text = f"the result cannot be written as JSON: {error}"
        raise ResultError(text[:_LONGEST_ERROR]) from error


def _refuse_surrogates(result: CallToolResult) -> None:
    """Refuse text with a lone surrogate, as names of files may have: JSON cannot carry it."""
    for block in result.content:
        if isinstance(block, TextContent) and not block.text.isascii():
            _to_json(block.text)


class ReturnType:
    """The return type of a function, and the conversion of its values to results.

    `convert(value)` returns the result: `str` becomes text; `bytes` an embedded resource with a
    blob; `Image`, `Audio` and content blocks are kept, alone or in lists with strings; None becomes
    empty content; a `CallToolResult` passes through; other values become compact JSON in text, and
    structured content if there is an output schema. It raises `ResultError` for a value that breaks
    the schema; the message names the part.
    """

    output_schema: JsonObject | None
    convert: Convert

    def __init__(
        self, annotation: object = ANYTHING, *, names: Mapping[str, object] | None = None
    ) -> None:
        annotation = _awaited_type(annotation)
        self.output_schema = None
        self.convert = self._convert_untyped
        if not _is_untyped(annotation):
            self._prepare(annotation, names or {})

    def _prepare(self, annotation: object, names: Mapping[str, object]) -> None:
        self._is_named_tuple = is_named_tuple(annotation)
        if self._is_named_tuple:
            hints = typing.get_type_hints(annotation, localns=names, include_extras=True)
            annotation = _typed_dict(class_of(annotation).__name__, hints)
        collector = Collector(output=True)
        type_ = to_msgspec_type(annotation, output=True, names=names)
        shown = type_
        if is_described(annotation, names):
            shown = to_msgspec_type(annotation, output=True, described=True, names=names)
        (schema,) = collector.schemas([shown])
        self._value_schema = inline(schema, collector.components)
        self._is_wrapped = self._value_schema.get("type") != "object"
        self.output_schema = self._value_schema
        if self._is_wrapped:
            wrapper = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
            self.output_schema = inline(wrapper, collector.components)
        self._check: Callable[[bytes], object] = msgspec.json.Decoder(
            type_, dec_hook=dec_hook
        ).decode
        if collector.has_foreign or shown is not type_:
            # Other libraries may encode a value in a form that they do not decode; what has
            # descriptions may have limits beside them.
            self._check = self._check_by_schema
        self.convert = self._convert_typed
        if isinstance(annotation, type) and (text_of := _TEXTS.get(annotation)) is not None:
            self.convert = _quicken(self._convert_typed, annotation, text_of)

    # -- without a schema

    def _convert_untyped(self, value: object) -> CallToolResult:
        result = value if isinstance(value, CallToolResult) else _tool_result(content_of(value))
        _refuse_surrogates(result)
        return result

    # -- with a schema

    def _convert_typed(self, value: object) -> CallToolResult:
        if isinstance(value, CallToolResult):
            return self._pass_through(value)
        if self._is_named_tuple and hasattr(value, "_asdict"):
            value = value._asdict()
        data = _to_json(value)
        try:
            self._check(data)
        except (msgspec.ValidationError, Mismatch) as error:
            raise self._schema_error(_decode_json(data), error) from None
        plain = _decode_json(data)
        text = value if type(value) is str else data.decode()
        return _tool_result([_text_content(text)], {"result": plain} if self._is_wrapped else plain)

    def _pass_through(self, result: CallToolResult) -> CallToolResult:
        if result.is_error:
            return result
        if result.structured_content is UNSET:
            raise ResultError("the result lacks the structured content that the tool promises")
        self._hold(to_plain(result.structured_content))
        _refuse_surrogates(result)
        return result

    def _hold(self, plain: object) -> None:
        """Refuse structured content that breaks the output schema."""
        found = explain(self.output_schema or {}, plain)
        if found is not None:
            raise _result_error(found)

    def _check_by_schema(self, data: bytes) -> None:
        found = explain(self._value_schema, _decode_json(data))
        if found is not None:
            raise found

    def _schema_error(self, plain: object, error: Exception) -> ResultError:
        schema = self._value_schema
        found = explain(schema, plain)
        text = str(error).partition(" - at ")[0].replace("`", "")
        return _result_error(found or Mismatch(lower_first(text)))


class ReturnTypeWithSchema(ReturnType):
    """The conversion of values to results by a JSON Schema that the author wrote.

    Every value is structured content, and JSON in text. A full validator checks it, or without
    the extra `schema` the same reader that explains mistakes in arguments, which knows less.

    Raises:
        RegistrationError: the schema is invalid.
    """

    def __init__(self, schema: JsonObject, where: str) -> None:
        self.output_schema = schema
        self.convert = self._convert_by_schema
        self._validate: Validate | None
        try:
            self._validate = compile_written(schema, f"{where}: output_schema")
        except MissingExtra:
            self._validate = None

    def _convert_by_schema(self, value: object) -> CallToolResult:
        if isinstance(value, CallToolResult):
            return self._pass_through(value)
        data = _to_json(value._asdict() if is_named_tuple(type(value)) else value)  # type: ignore[attr-defined]
        plain = _decode_json(data)
        self._hold(plain)
        text = value if type(value) is str else data.decode()
        return _tool_result([_text_content(text)], plain)

    def _hold(self, plain: object) -> None:
        if self._validate is None:
            return super()._hold(plain)
        wrong = self._validate(plain)
        if wrong is not None:
            raise ResultError(f"the result does not fit output_schema: {wrong}"[:_LONGEST_ERROR])
        return None


def _result_error(found: Mismatch) -> ResultError:
    where = f'the result at "{path_text(found.path)}"' if found.path else "the result"
    separator = " " if found.reason.startswith("is ") else ": "
    return ResultError(f"{where}{separator}{found.reason}"[:_LONGEST_ERROR])


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
        return ReturnTypeWithSchema(written_schema, f'function "{callable_name(function)}"')
    resolver = AnnotationResolver(function, {})
    resolved = resolver.resolve(_return_annotation(function), "the return value")
    try:
        return ReturnType(resolved, names=resolver.names)
    except RegistrationError as error:
        where = f'function "{callable_name(function)}"'
        raise RegistrationError(f"{where}: the return value: {error}") from error


def _return_annotation(function: Callable[..., object]) -> object:
    if isinstance(function, _types.FunctionType) and not vars(function):
        # A plain function needs no search through wrappers.
        return function.__annotations__.get("return", _inspect.Signature.empty)
    try:
        return _inspect.signature(function).return_annotation
    except (TypeError, ValueError):
        return _inspect.Signature.empty


# Fast paths for values that need no check beyond their type.


def _quicken(general: Convert, type_: object, text_of: Callable[[Any], str]) -> Convert:
    def convert(value: object) -> CallToolResult:
        if type(value) is not type_:
            return general(value)
        return _tool_result([_text_content(text_of(value))], {"result": value})

    return convert


def _float_text(value: float) -> str:
    if not isfinite(value):
        raise ResultError(f"the result: expected a number that JSON can carry, got {value}")
    return repr(value)


_TEXTS: Final[dict[object, Callable[[Any], str]]] = {
    int: str,
    bool: {True: "true", False: "false"}.__getitem__,
    float: _float_text,
}


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

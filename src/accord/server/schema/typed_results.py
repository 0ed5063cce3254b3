"""Results with an output schema.

Values are sent as structured content and, for clients that read only content, as the same JSON in
text. A value that breaks its schema is refused.
"""

import typing
from collections.abc import Callable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from accord.errors import MissingExtra, lower_first
from accord.json_schema.mismatch import Mismatch, explain, path_text
from accord.json_schema.reader import inline
from accord.server.schema.annotations import class_of, is_named_tuple
from accord.server.schema.conversion import Collector, dec_hook
from accord.server.schema.msgspec_types import is_described, to_msgspec_type
from accord.server.schema.plain import to_plain
from accord.server.schema.results import (
    Convert,
    ResultError,
    ReturnType,
    refuse_surrogates,
    to_json,
)
from accord.server.schema.signature import compile_written
from accord.types import CallToolResult, JsonObject, TextContent
from accord.types._base import constructor

if TYPE_CHECKING:
    from accord.json_schema.validation import Validate

_decode_json: Final = msgspec.json.Decoder().decode
_LONGEST_ERROR: Final = 300
# The functional form, for fields that are known only at run time.
_typed_dict: Final[Callable[[str, dict[str, object]], object]] = typing.TypedDict  # type: ignore[assignment]
_text_content: Final = constructor(TextContent)
_tool_result: Final = constructor(CallToolResult)


class TypedResults:
    """The conversion of values to results by the schema of their type.

    Args:
        annotation: the return type.
        names: the types that fields of local classes may refer to.

    Raises:
        RegistrationError: the type has no JSON form.
    """

    output_schema: JsonObject
    convert: Convert

    def __init__(self, annotation: object, names: Mapping[str, object]) -> None:
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

    def _convert_typed(self, value: object) -> CallToolResult:
        if isinstance(value, CallToolResult):
            return _pass_on(value, self._hold)
        if self._is_named_tuple and hasattr(value, "_asdict"):
            value = value._asdict()
        data = to_json(value)
        try:
            self._check(data)
        except (msgspec.ValidationError, Mismatch) as error:
            raise self._schema_error(_decode_json(data), error) from None
        plain = _decode_json(data)
        text = value if type(value) is str else data.decode()
        return _tool_result([_text_content(text)], {"result": plain} if self._is_wrapped else plain)

    def _hold(self, plain: object) -> None:
        _hold_by_reader(self.output_schema, plain)

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
            return _pass_on(value, self._hold)
        data = to_json(value._asdict() if is_named_tuple(type(value)) else value)  # type: ignore[attr-defined]
        plain = _decode_json(data)
        self._hold(plain)
        text = value if type(value) is str else data.decode()
        return _tool_result([_text_content(text)], plain)

    def _hold(self, plain: object) -> None:
        if self._validate is None:
            return _hold_by_reader(self.output_schema or {}, plain)
        wrong = self._validate(plain)
        if wrong is not None:
            raise ResultError(f"the result does not fit output_schema: {wrong}"[:_LONGEST_ERROR])
        return None


def _pass_on(result: CallToolResult, hold: Callable[[object], None]) -> CallToolResult:
    """Return a result that the function made itself, once its content holds."""
    if result.is_error:
        return result
    if result.structured_content is UNSET:
        raise ResultError("the result lacks the structured content that the tool promises")
    hold(to_plain(result.structured_content))
    refuse_surrogates(result)
    return result


def _hold_by_reader(schema: JsonObject, plain: object) -> None:
    """Refuse structured content that breaks the output schema."""
    found = explain(schema, plain)
    if found is not None:
        raise _result_error(found)


def _result_error(found: Mismatch) -> ResultError:
    where = f'the result at "{path_text(found.path)}"' if found.path else "the result"
    separator = " " if found.reason.startswith("is ") else ": "
    return ResultError(f"{where}{separator}{found.reason}"[:_LONGEST_ERROR])


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

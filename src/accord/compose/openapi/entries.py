"""Operations as entries of a server: tools, resources and resource templates."""

import functools
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from accord.compose.openapi.answers import (
    AnswerShape,
    check_found,
    check_status,
    to_contents,
    to_result,
)
from accord.compose.openapi.arguments import RequestPlan
from accord.compose.openapi.document import ApiOperation
from accord.compose.openapi.names import describe, hints
from accord.errors import MissingExtra, ToolError
from accord.json_schema.mismatch import explain, path_text
from accord.json_schema.reader import admits
from accord.server.context import Context
from accord.server.entries.resources import ResourceEntry, TemplateEntry, build_resource
from accord.server.entries.tools import ToolEntry
from accord.server.schema.leniency import read_texts
from accord.server.schema.results import ReturnType
from accord.server.schema.signature import ArgumentsError, Parameter, Signature
from accord.types import CallToolResult, JsonObject, ResourceContents, Tool

if TYPE_CHECKING:
    from accord.compose.openapi.security import Credentials
    from accord.compose.openapi.sending import ApiResponse

Exchange = Callable[
    ["OperationCall", JsonObject, Context[Any]], "Awaitable[tuple[ApiResponse, Credentials]]"
]

_LONGEST_ERROR: Final = 400
_VARIABLE: Final = re.compile(r"[^A-Za-z0-9_]")


class OperationCall:
    """Calls one operation of an API.

    Args:
        operation: what is called.
        plan: how its request is written.
        shape: what its answers look like.
        base: the URL of its server.
        exchange: sends its request.
    """

    def __init__(
        self,
        operation: ApiOperation,
        plan: RequestPlan,
        shape: AnswerShape,
        base: str,
        exchange: Exchange,
    ) -> None:
        self.operation = operation
        self.plan = plan
        self.shape = shape
        self.base = base
        self._exchange = exchange

    async def call_tool(self, arguments: JsonObject, context: Context[Any]) -> CallToolResult:
        """Call it, and return a result."""
        response, credentials = await self._exchange(self, arguments, context)
        check_status(self.operation, response, credentials)
        return to_result(response, self.shape)

    async def read_resource(self, arguments: JsonObject, context: Context[Any]) -> ResourceContents:
        """Call it, and return contents."""
        response, credentials = await self._exchange(self, arguments, context)
        check_found(response)
        check_status(self.operation, response, credentials)
        return to_contents(response)


class ArgumentsSignature(Signature):
    """The arguments of an operation; the function gets them as one dictionary.

    They are held to the schema before a request is sent. Without the extra `schema`, the same
    reader that explains mistakes does it, which knows less. The API decides in the end.

    Args:
        name: of the tool or resource.
        schema: of the arguments.
    """

    def __init__(self, name: str, schema: JsonObject) -> None:
        self.name = name
        self.description = None
        self.is_async = True
        self.plan = None
        self.call = _call
        self.input_schema = self.listed_schema = schema
        required = schema.get("required", ())
        self.parameters = tuple(
            Parameter(each, each in required, member.get("description"), member)
            for each, member in schema["properties"].items()
        )

    @functools.cached_property
    def _validate(self) -> Callable[[object], str | None]:
        from accord.json_schema.validation import compile_schema

        try:
            # Made for the first call: a server may have thousands of tools, and few are called.
            return compile_schema(self.input_schema)
        except (MissingExtra, ValueError):
            return self._explain

    def _explain(self, given: object) -> str | None:
        found = explain(self.input_schema, given)
        if found is None:
            return None
        return f"at {path_text(found.path) or 'the top'}: {found.reason}"

    def bind(self, raw: bytes | msgspec.Raw) -> Any:
        """Decode the arguments, and hold them to the schema.

        Raises:
            ArgumentsError: they do not fit; the message names the place.
        """
        given = _decode(raw)
        wrong = self._validate(given)
        if wrong is None:
            return given
        read = read_texts(self._without_nulls(given), self.input_schema, self.input_schema)
        if read != given and self._validate(read) is None:
            return read
        text = " ".join(f"the arguments do not fit the input schema: {wrong}".split())
        raise ArgumentsError(text[:_LONGEST_ERROR])

    def bind_strings(self, values: Mapping[str, str]) -> Any:
        """Read arguments that are all text, as those of a URI.

        Raises:
            ArgumentsError: they do not fit.
        """
        return self.bind(msgspec.json.encode(dict(values)))

    def _without_nulls(self, given: JsonObject) -> JsonObject:
        """Leave out arguments that are null, which hosts send for those that are not given."""
        schema = self.input_schema
        return {
            name: value
            for name, value in given.items()
            if value is not None
            or name in schema.get("required", ())
            or admits(schema["properties"].get(name, {}), ("null",), schema)
        }


def _call(
    function: Callable[..., object], bound: object, context: object, values: object = ()
) -> object:
    return function(bound, context)


def _decode(raw: bytes | msgspec.Raw | UnsetType | None) -> JsonObject:
    if raw is UNSET or raw is None or not bytes(raw).strip():
        return {}
    try:
        given = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ArgumentsError(f"the arguments are not JSON: {error}") from None
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise ArgumentsError("the arguments have to be an object with a member for each argument")
    return given


class _Results(ReturnType):
    """Passes on the results that `OperationCall` makes."""

    def __init__(self, output_schema: JsonObject | None) -> None:
        self.output_schema = output_schema
        self.convert = _pass_on


def _pass_on(value: object) -> CallToolResult:
    if not isinstance(value, CallToolResult):
        raise ToolError("the operation returned no result")
    return value


class OperationTool(ToolEntry, frozen=True, kw_only=True):
    """A tool that calls one operation of an API."""

    operation: ApiOperation

    @property
    def place(self) -> str:
        """Where it comes from, for messages."""
        return f"the operation {self.operation.label}"


def build_tool_entry(name: str, call: OperationCall) -> ToolEntry:
    """Return the tool that an operation becomes."""
    operation, schema = call.operation, call.plan.input_schema
    item = Tool(
        name=name,
        input_schema=schema,
        title=operation.summary or None,
        description=describe(operation),
        output_schema=call.shape.output_schema,
        annotations=hints(operation),
    )
    return OperationTool(
        key=name,
        operation=operation,
        function=call.call_tool,
        signature=ArgumentsSignature(name, schema),
        listed=item,
        tags=frozenset(operation.tags),
        returns=_Results(call.shape.output_schema),
        label=f"tool {name}",
    )


def build_resource_entries(
    scheme: str, name: str, call: OperationCall
) -> list[ResourceEntry | TemplateEntry]:
    """Return the resource that an operation becomes, and its template if it has parameters.

    Args:
        scheme: begins the URIs.
        name: of the resource.
        call: reads it.
    """
    plan, operation = call.plan, call.operation
    variables = {argument: _variable(argument) for argument in plan.path_arguments}
    path = "".join(
        each if isinstance(each, str) else f"{{{variables[each.argument]}}}" for each in plan.path
    ).strip("/")
    uri = f"{scheme}://{path or 'root'}"
    optional = [
        each.argument
        for each in plan.parameters
        if each.location == "query" and each.argument not in variables
    ]
    entries = []
    if not variables:
        entries.append(_build(uri, name, call, {}))
    if variables or optional:
        query = {argument: _variable(argument) for argument in optional}
        text = f"{uri}{{?{','.join(query.values())}}}" if query else uri
        title = name if variables else f"{name}_with_parameters"
        entries.append(_build(text, title, call, {**variables, **query}))
    return [msgspec.structs.replace(entry, tags=frozenset(operation.tags)) for entry in entries]


def _build(
    uri: str, name: str, call: OperationCall, variables: dict[str, str]
) -> ResourceEntry | TemplateEntry:
    schema = call.plan.input_schema
    by_variable = {variable: argument for argument, variable in variables.items()}
    required = [variables[each] for each in schema.get("required", ())]
    properties = {
        variable: schema["properties"][argument] for variable, argument in by_variable.items()
    }
    own: JsonObject = {**schema, "properties": properties, "required": required}

    async def read(bound: JsonObject, context: Context[Any]) -> ResourceContents:
        arguments = {by_variable[variable]: value for variable, value in bound.items()}
        return await call.read_resource(arguments, context)

    return build_resource(
        uri,
        read,
        signature=ArgumentsSignature(name, own),
        name=name,
        title=call.operation.summary or name,
        description=describe(call.operation),
    )


def _variable(argument: str) -> str:
    return _VARIABLE.sub("_", argument)

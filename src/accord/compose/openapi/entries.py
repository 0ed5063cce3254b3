"""Operations as entries of a server: tools, resources, resource templates, and their names."""

import functools
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

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
from accord.errors import MissingExtra, RegistrationError, ToolError
from accord.json_schema.mismatch import explain, path_text
from accord.json_schema.reader import admits
from accord.server.context import Context
from accord.server.entries.resources import ResourceEntry, TemplateEntry, build_resource
from accord.server.entries.tools import ToolEntry
from accord.server.schema.arguments import read_texts
from accord.server.schema.results import ReturnType
from accord.server.schema.signature import ArgumentsError, Parameter, Signature
from accord.types import CallToolResult, JsonObject, ResourceContents, Tool, ToolAnnotations

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


# -- names and descriptions

ToolNames: TypeAlias = Mapping[str, str] | Callable[[ApiOperation], str | None]
"""Names of tools by `operationId` or by `GET /path`; or a function that returns one, or None."""

_LONGEST_NAME: Final = 64
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_DESCRIPTION: Final = 4_000
_READING: Final = ("GET", "HEAD", "OPTIONS", "TRACE")


class NameGiver:
    """Gives each operation a name that hosts allow and that no other one has.

    Args:
        chosen: the author's names.

    Raises:
        RegistrationError: a chosen name is not one that hosts allow, or is given twice.
    """

    def __init__(self, chosen: ToolNames | None) -> None:
        self._chosen = chosen
        self._taken: set[str] = set()
        mapping = chosen if isinstance(chosen, Mapping) else {}
        self._reserved = frozenset(mapping.values())
        self._unused = set(mapping)

    def check_unused(self) -> None:
        """Refuse names that were chosen for operations that do not exist.

        Raises:
            RegistrationError: there are some.
        """
        if self._unused:
            unknown = ", ".join(map(repr, sorted(self._unused)))
            raise RegistrationError(f"names: the document has no operation {unknown[:200]}")

    def name(self, operation: ApiOperation) -> str:
        """Return the name of an operation."""
        chosen = self._choose(operation)
        if chosen is not None:
            if chosen != clean_name(chosen) or chosen in self._taken:
                why = "is taken" if chosen in self._taken else "is not a name of a tool"
                raise RegistrationError(
                    f"names: {chosen!r} for {operation.label} {why}; use 1 to 64 letters, digits, "
                    "_ and -"
                )
            self._taken.add(chosen)
            return chosen
        base = name = clean_name(operation.id or f"{operation.method.lower()}_{operation.path}")
        number = 1
        while name in self._taken or name in self._reserved:
            number += 1
            name = f"{base[: _LONGEST_NAME - 1 - len(str(number))]}_{number}"
        self._taken.add(name)
        return name

    def _choose(self, operation: ApiOperation) -> str | None:
        if self._chosen is None:
            return None
        if callable(self._chosen):
            return self._chosen(operation)
        self._unused -= {operation.id, operation.label}
        return self._chosen.get(operation.id) or self._chosen.get(operation.label)


def clean_name(text: str) -> str:
    """Return a text as a name that hosts allow.

    >>> clean_name("repos/get-content"), clean_name("get_/pets/{petId}")
    ('repos_get-content', 'get_pets_petId')
    """
    return re.sub("__+", "_", _NOT_IN_NAMES.sub("_", text)).strip("_")[:_LONGEST_NAME] or "call"


def describe(operation: ApiOperation) -> str:
    """Return the description of a tool, from the summary and description of its operation."""
    parts = [operation.summary, operation.description]
    if operation.summary and operation.summary in operation.description:
        parts = [operation.description]
    text = "\n\n".join(each for each in parts if each) or operation.label
    if operation.is_deprecated:
        text = f"Deprecated. {text}"
    return text if len(text) <= _DESCRIPTION else text[: _DESCRIPTION - 3].rstrip() + "..."


def hints(operation: ApiOperation) -> ToolAnnotations:
    """Return what the method of an operation says about it (RFC 9110, section 9.2)."""
    method = operation.method
    if method in _READING:
        return ToolAnnotations(read_only_hint=True, open_world_hint=True)
    return ToolAnnotations(
        read_only_hint=False,
        destructive_hint=True if method == "DELETE" else None,
        idempotent_hint=True if method in ("PUT", "DELETE") else None,
        open_world_hint=True,
    )

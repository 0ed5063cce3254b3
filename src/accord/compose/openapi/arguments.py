"""The arguments of an operation: one flat object, and the request that is written from it.

Parameters are arguments by their names, and so are the members of a body that is an object. Where
a member has the name of a parameter, or a body may be something else than an object with known
members, the whole body is the argument `body`. Names have the characters that hosts allow.
"""

import re
from collections.abc import Collection
from typing import Any, Final, NamedTuple, cast
from urllib.parse import quote

import msgspec

from accord.compose.openapi.document import (
    ApiOperation,
    Inexpressible,
    list_at,
    object_at,
    text_at,
)
from accord.compose.openapi.encoding import (
    DEFAULT_STYLES,
    STYLES,
    BodyWriter,
    Location,
    ParameterStyle,
    check_path,
    choose_media_type,
    is_binary,
    write_cookie,
    write_header,
    write_path,
    write_query,
)
from accord.compose.openapi.schemas import InputConverter, read_types
from accord.types import JsonObject

_VARIABLE: Final = re.compile(r"\{([^{}]+)\}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME: Final = 64
_LITERAL: Final = "/-._~:@!$&'()*+,;=%"
_BASE64: Final = {"type": "string", "contentEncoding": "base64"}
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# OpenAPI 3 says that parameters with the first three names are ignored; the others say how a
# message is framed and where it goes, which callers have no say in.
_OWN_HEADERS: Final = frozenset(
    {
        "accept",
        "authorization",
        "content-type",
        "connection",
        "content-length",
        "cookie",
        "expect",
        "host",
        "te",
        "transfer-encoding",
        "upgrade",
    }
)

HiddenParameters = Collection[tuple[str, str]]
"""Parameters that are not arguments, by location and name; names of headers in lower case."""


class ApiRequest(NamedTuple):
    """A request, without its server and credentials."""

    method: str
    path: str
    query: list[str]
    headers: dict[str, str]
    cookies: list[str]
    body: bytes | None


class RequestPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How the arguments of an operation become a request.

    Attributes:
        input_schema: of the arguments.
        path: literal parts, and parameters between them.
        members: of a body that is taken apart: the name of each member by its argument.
        body_argument: the argument that is the whole body.
        is_body_required: whether a body is sent without any argument for it.
    """

    method: str
    input_schema: JsonObject
    path: tuple["str | ParameterStyle", ...]
    fixed_query: str = ""
    parameters: tuple[ParameterStyle, ...] = ()
    body: BodyWriter | None = None
    members: dict[str, str] = {}
    body_argument: str | None = None
    is_body_required: bool = False

    @property
    def path_arguments(self) -> list[str]:
        """The arguments that are part of the path, in its order."""
        return [each.argument for each in self.path if isinstance(each, ParameterStyle)]

    def write(self, arguments: JsonObject) -> ApiRequest:
        """Write the request for arguments that fit the schema.

        Raises:
            ToolError: a value cannot stand where it belongs.
        """
        path = "".join(
            each if isinstance(each, str) else write_path(each, arguments.get(each.argument, ""))
            for each in self.path
        )
        check_path(path, self.path_arguments)
        query = [self.fixed_query] if self.fixed_query else []
        headers: dict[str, str] = {}
        cookies: list[str] = []
        for each in self.parameters:
            value = arguments.get(each.argument)
            if value is None:
                continue
            if each.location == "query":
                query += write_query(each, value)
            elif each.location == "header":
                headers[each.name] = write_header(each, value)
            else:
                cookies += write_cookie(each, value)
        body = self._write_body(arguments, headers)
        return ApiRequest(self.method, path, query, headers, cookies, body)

    def _write_body(self, arguments: JsonObject, headers: dict[str, str]) -> bytes | None:
        if self.body is None:
            return None
        value: Any
        if self.body_argument is not None:
            if self.body_argument not in arguments:
                return None
            value = arguments[self.body_argument]
        else:
            value = {
                name: arguments[argument]
                for argument, name in self.members.items()
                if argument in arguments
            }
            if not value and not self.is_body_required:
                return None
        body, headers["Content-Type"] = self.body.write(value, self.body_argument)
        return body


class PlanBuilder:
    """Makes the plan of one operation.

    Raises:
        Inexpressible: an argument or the body has no form that a tool could have.
    """

    def __init__(
        self, operation: ApiOperation, converter: InputConverter, hidden: HiddenParameters
    ) -> None:
        self._operation = operation
        self._converter = converter
        self._hidden = hidden
        self._properties: JsonObject = {}
        self._required: list[str] = []
        self._references: dict[str, None] = {}
        self._body: JsonObject = {}

    def build(self) -> RequestPlan:
        """Return the plan."""
        found = [self._parameter(each) for each in self._operation.parameters]
        parameters = [each for each in found if each is not None]
        path, _, query = self._operation.path.partition("#")[0].partition("?")
        pieces = self._split_path(path, parameters)
        if self._operation.body is not None:
            self._add_body(self._operation.body)
        schema: JsonObject = {"type": "object", "properties": self._properties}
        if self._required:
            schema["required"] = self._required
        # A misspelt filter must not become a request for everything.
        schema["additionalProperties"] = False
        return RequestPlan(
            method=self._operation.method,
            input_schema=self._converter.close(schema, self._references),
            path=pieces,
            fixed_query=quote(query, safe=_LITERAL),
            parameters=tuple(each for each in parameters if each.location != "path"),
            **self._body,
        )

    # -- parameters

    def _parameter(self, parameter: JsonObject) -> ParameterStyle | None:
        name, location = text_at(parameter, "name"), text_at(parameter, "in")
        if not name or location not in STYLES:
            raise Inexpressible(
                f"a parameter has name {parameter.get('name')!r} and in {parameter.get('in')!r}, "
                f"expected a name and one of {', '.join(STYLES)}"
            )
        folded = name.lower() if location == "header" else name
        if (location, folded) in self._hidden or (location == "header" and folded in _OWN_HEADERS):
            return None
        if location == "header" and _HEADER.fullmatch(name) is None:
            raise Inexpressible(f"the parameter {name!r} is not the name of a header")
        if location == "path" and f"{{{name}}}" not in self._operation.path:
            return None
        style = text_at(parameter, "style") or DEFAULT_STYLES[location]
        if style not in STYLES[location]:
            raise Inexpressible(f"the parameter {name!r} in {location} has the style {style!r}")
        schema, is_json = self._schema_of(parameter)
        explode = parameter.get("explode")
        is_required = location == "path" or parameter.get("required") is True
        argument = self._add(name, schema, is_required=is_required, location=location)
        return ParameterStyle(
            name=name,
            argument=argument,
            location=cast("Location", location),
            style=style,
            explode=explode if isinstance(explode, bool) else style == "form",
            allow_reserved=parameter.get("allowReserved") is True,
            is_json=is_json,
        )

    def _schema_of(self, parameter: JsonObject) -> tuple[JsonObject, bool]:
        """Return the schema of a parameter, and whether its value is written as JSON."""
        content = object_at(parameter, "content")
        is_json = bool(content)
        schema = parameter.get("schema", {"type": "string"})
        if content:
            media = next(iter(content.values()))
            schema = media.get("schema", {}) if isinstance(media, dict) else {}
        converted = self._converter.convert(schema, self._references)
        described = self._converter.convert(
            {
                key: parameter[key]
                for key in ("description", "deprecated", "example")
                if key in parameter
            },
            {},
        )
        return {**converted, **described}, is_json

    def _add(self, name: str, schema: JsonObject, *, is_required: bool, location: str = "") -> str:
        argument = argument_name(name, location, self._properties)
        self._properties[argument] = schema
        if is_required:
            self._required.append(argument)
        return argument

    def _split_path(
        self, path: str, parameters: list[ParameterStyle]
    ) -> tuple["str | ParameterStyle", ...]:
        known = {each.name: each for each in parameters if each.location == "path"}
        pieces: list[str | ParameterStyle] = []
        for number, piece in enumerate(_VARIABLE.split(path)):
            if number % 2 == 0:
                pieces.append(quote(piece, safe=_LITERAL))
                continue
            if piece not in known:
                # Documents forget these; a variable of a path is text, and required.
                argument = self._add(piece, {"type": "string"}, is_required=True, location="path")
                known[piece] = ParameterStyle(
                    name=piece, argument=argument, location="path", style="simple"
                )
            pieces.append(known[piece])
        return tuple(each for each in pieces if each)

    # -- bodies

    def _add_body(self, body: JsonObject) -> None:
        content = object_at(body, "content")
        if not content:
            return
        chosen = choose_media_type(content)
        if chosen is None:
            names = ", ".join(map(repr, content))
            raise Inexpressible(f"its body is {names[:120]}, expected a media type")
        media_type, kind = chosen
        media = content[media_type] if isinstance(content[media_type], dict) else {}
        schema = media.get("schema", {})
        is_required = body.get("required") is True
        self._body = {"is_body_required": is_required}
        if kind in ("text", "binary"):
            self._body["body"] = BodyWriter(media_type=media_type, kind=kind)
            plain = {**_BASE64} if kind == "binary" else {"type": "string"}
            about = text_at(body, "description") or f"The body, as {media_type}"
            suffix = " (base64)" if kind == "binary" else ""
            self._whole({**plain, "description": about[:600] + suffix}, is_required=is_required)
            return
        flat = self._converter.flatten(schema)
        members = self._find_members(flat)
        self._body["body"] = BodyWriter(
            media_type=media_type,
            kind=kind,
            schemas={} if kind == "json" else self._flat_members(flat),
            encoding=object_at(media, "encoding"),
        )
        if members is None:
            converted = self._converter.convert(schema, self._references)
            about = text_at(body, "description")
            if about and "description" not in converted:
                converted = {**converted, "description": about[:600]}
            self._whole(converted, is_required=is_required)
            return
        required = list_at(flat, "required")
        self._body["members"] = {
            self._add(
                name,
                self._member_schema(each, is_json=kind == "json"),
                is_required=is_required and name in required,
            ): name
            for name, each in members.items()
        }

    def _whole(self, schema: JsonObject, *, is_required: bool) -> None:
        self._body["body_argument"] = self._add("body", schema, is_required=is_required)

    def _find_members(self, flat: JsonObject) -> JsonObject | None:
        """Return the members of a body that become arguments; None where the body stays whole."""
        types = read_types(flat)
        members = object_at(flat, "properties")
        if not members or (types and "object" not in types):
            return None
        rest = flat.get("additionalProperties")
        if rest is True or isinstance(rest, dict):
            return None
        for option in (*list_at(flat, "anyOf"), *list_at(flat, "oneOf")):
            if not isinstance(option, dict) or option.keys() - {"required", "title", "description"}:
                return None
        visible = {
            name: each for name, each in members.items() if not self._converter.is_hidden(each)
        }
        names = [_clean(name) for name in visible]
        if len(set(names)) != len(names) or not self._properties.keys().isdisjoint(names):
            return None
        return visible

    def _flat_members(self, flat: JsonObject) -> JsonObject:
        found: JsonObject = {}
        for name, each in object_at(flat, "properties").items():
            member = self._converter.flatten(each)
            if isinstance(member.get("items"), dict):
                member = {**member, "items": self._converter.flatten(member["items"])}
            found[name] = member
        return found

    def _member_schema(self, schema: object, *, is_json: bool) -> JsonObject:
        if is_json:
            return self._converter.convert(schema, self._references)
        flat = self._converter.flatten(schema)
        items = self._converter.flatten(flat.get("items"))
        if not is_binary({**flat, "items": items}):
            return self._converter.convert(schema, self._references)
        about = f"{text_at(flat, 'description')} (base64)".strip()
        if read_types(flat) == ["array"]:
            return {"type": "array", "items": _BASE64, "description": about}
        return {**_BASE64, "description": about}


def argument_name(name: str, location: str, taken: Collection[str]) -> str:
    """Return the name of an argument, which no other one has.

    >>> argument_name("filter[name]", "query", {}), argument_name("id", "query", {"id"})
    ('filter_name', 'id_query')
    """
    base = candidate = _clean(name)
    if candidate in taken and location:
        base = candidate = f"{base[: _LONGEST_NAME - 1 - len(location)]}_{location}"
    number = 1
    while candidate in taken:
        number += 1
        candidate = f"{base[: _LONGEST_NAME - 4]}_{number}"
    return candidate


def _clean(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name).strip("_")[:_LONGEST_NAME] or "value"

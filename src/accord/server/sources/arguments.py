"""Other arguments of a tool: renamed, described, given a default, or supplied by the server."""

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

import msgspec

from accord.errors import RegistrationError, ToolError, lower_first
from accord.keywords import refuse_unknown
from accord.server.schema.encoding import encode

if TYPE_CHECKING:
    from accord.server.context import Context
    from accord.types import JsonObject

Hidden: TypeAlias = object | Callable[..., object]
"""A value, or a function that returns it for each call; it may be async and take the context."""


class ArgumentChange(TypedDict, total=False):
    """Another form of one argument.

    Attributes:
        name: its name for clients.
        description: what it is for.
        default: the value where a client sends none; the argument becomes optional.
        schema: its JSON Schema, in place of its own.
    """

    name: str
    description: str
    default: object
    schema: "JsonObject"


class ArgumentChanges:
    """What a tool's arguments become before it is called, and the schema that clients see.

    Args:
        tool: its name, for messages.
        schema: the schema of the arguments as they are.
        hide: values of arguments that clients neither see nor send.
        arguments: other forms of arguments, by their names; a text is another name.

    Raises:
        RegistrationError: an argument does not exist, or two get the same name.
    """

    def __init__(
        self,
        tool: str,
        schema: "JsonObject",
        hide: Mapping[str, Hidden],
        arguments: Mapping[str, ArgumentChange | str],
    ) -> None:
        self._tool = tool
        self._hide = {name: _supplier(value) for name, value in hide.items()}
        self._inward: dict[str, str] = {}
        self._defaults: dict[str, object] = {}
        forms = {name: _read_form(tool, name, each) for name, each in arguments.items()}
        self.schema = self._change_schema(schema, forms)

    def _change_schema(
        self, schema: "JsonObject", forms: Mapping[str, ArgumentChange]
    ) -> "JsonObject":
        known: JsonObject = schema.get("properties", {})
        for name in (*self._hide, *forms):
            if name not in known:
                from difflib import get_close_matches

                close = get_close_matches(name, known, n=1)
                names = ", ".join(map(repr, known)) or "none"
                hint = f"did you mean {close[0]!r}?" if close else f"it has {names}"
                raise RegistrationError(
                    f"tool {self._tool!r} has no argument {name!r} to change; {hint}"
                )
        for name in forms.keys() & self._hide.keys():
            raise RegistrationError(
                f"tool {self._tool!r}: argument {name!r} is both hidden and changed"
            )
        required = schema.get("required", [])
        properties: JsonObject = {}
        needed: list[str] = []
        for name, described in known.items():
            if name in self._hide:
                continue
            form = forms.get(name, _AS_IT_IS)
            outer = form.get("name", name)
            if outer in properties:
                raise RegistrationError(
                    f"tool {self._tool!r} would have two arguments named {outer!r}"
                )
            properties[outer] = _change_property(described, form)
            if outer != name:
                self._inward[outer] = name
            if "default" in form:
                self._defaults[name] = form["default"]
            elif name in required:
                needed.append(outer)
        changed = {**deepcopy(schema), "properties": properties}
        changed.pop("required", None)
        return {**changed, "required": needed} if needed else changed

    async def apply(self, arguments: Any, context: "Context[Any]") -> msgspec.Raw:
        """Return the arguments that the tool is called with.

        Raises:
            ToolError: an argument is not one of those that clients see.
        """
        try:
            given = {} if arguments is msgspec.UNSET else msgspec.json.decode(arguments)
        except ValueError as error:
            raise ToolError(f"arguments: {lower_first(error)}") from None
        if not isinstance(given, dict):
            raise ToolError("arguments: expected an object")
        inner: dict[str, object] = dict(self._defaults)
        renamed = set(self._inward.values())
        for name, value in given.items():
            own_name = self._inward.get(name, name)
            # A name that was given away must not reach the argument that had it.
            if own_name in self._hide or (name in renamed and name not in self._inward):
                raise ToolError(f"unknown argument {name!r:.100}")
            inner[own_name] = value
        for name, supply in self._hide.items():
            value = supply(context)
            inner[name] = await value if inspect.isawaitable(value) else value
        return msgspec.Raw(encode(inner))


_AS_IT_IS: Final[ArgumentChange] = {}


def _read_form(tool: str, name: str, form: ArgumentChange | str) -> ArgumentChange:
    if isinstance(form, str) and form:
        return {"name": form}
    if not isinstance(form, Mapping):
        raise RegistrationError(
            f"change({tool!r}): argument {name!r} is {form!r:.80}, expected a name or a dictionary"
        )
    try:
        refuse_unknown(f"change({tool!r}), argument {name!r}", form, ArgumentChange.__annotations__)
    except TypeError as error:
        raise RegistrationError(str(error)) from None
    if not isinstance(form.get("name", name), str) or not form.get("name", name):
        raise RegistrationError(
            f"change({tool!r}): argument {name!r} is named {form['name']!r:.80}, expected text"
        )
    return form


def _change_property(described: Any, form: ArgumentChange) -> Any:
    if not form.keys() - {"name"}:
        return described
    schema = form.get("schema", described)
    changed = dict(deepcopy(schema)) if isinstance(schema, dict) else {}
    for member in ("description", "default"):
        if member in form:
            changed[member] = form[member]
    return changed


def _supplier(value: Hidden) -> "Callable[[Context[Any]], object]":
    """Return how a hidden value is found for a call."""
    if not callable(value):
        return lambda context: value
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):  # a built-in function
        parameters = ()  # type: ignore[assignment]
    function: Callable[..., object] = value
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    for each in parameters:
        # Others have defaults of their own, as `tz` of `datetime.now` has.
        if each.kind in positional and each.default is each.empty:
            return function
        break
    return lambda context: function()

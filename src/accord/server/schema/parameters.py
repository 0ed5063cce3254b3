"""The parameters of a function, as a client has to fill them in, and what its docstring says."""

import functools
import inspect as _inspect
import re
import sys
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from accord.errors import RegistrationError
from accord.server.depends import Dependency, find_dependency
from accord.server.schema.annotations import AnnotationResolver, callable_name, unwrap
from accord.server.schema.conversion import convert, json_default
from accord.server.schema.msgspec_types import annotate, to_msgspec_type, union_of

EMPTY: Final = _inspect.Parameter.empty
_CONTEXT_NAMES: Final = ("ctx", "context")


class ParsedParameter(NamedTuple):
    """A parameter as the function declares it; `key` is its name in JSON."""

    name: str
    key: str
    type: object
    default: object
    factory: Callable[..., object] | UnsetType

    @property
    def is_required(self) -> bool:
        return self.default is EMPTY and self.factory is UNSET


class ParsedParameters:
    """The parameters of a function: those that a client fills in, and the context.

    Args:
        function: anything callable.
        context_type: the parameter annotated with it is the context.
        has_schema: whether a schema describes the arguments, so that `**rest` may take some.

    Attributes:
        client_parameters: those that a client fills in.
        order: every parameter by name, and whether it is passed by keyword.
        dependencies: those that the server fills in, by name.
        takes_rest: whether the function takes arguments that it does not name.
        warnings: mistakes that do not prevent a call, but that its author would want to know of.
    """

    def __init__(
        self,
        function: Callable[..., object],
        context_type: type | None,
        *,
        has_schema: bool = False,
    ) -> None:
        if isinstance(function, str):
            raise RegistrationError(
                f"expected a function, got {function!r}; a name is given by keyword, as name=..."
            )
        self.where = f'function "{callable_name(function)}"'
        _refuse_generators(function, self.where)
        self.context: str | None = None
        self.order: list[tuple[str, bool]] = []
        self.client_parameters: list[ParsedParameter] = []
        self.dependencies: dict[str, Dependency] = {}
        self.takes_rest = False
        self.warnings: list[str] = []
        self._has_schema = has_schema
        self._context_type = context_type
        extra = {} if context_type is None else {context_type.__name__: context_type}
        resolver = AnnotationResolver(function, extra)
        hidden = _bound_by_partial(function)
        for parameter in self._parameters_of(function):
            if parameter.name not in hidden:
                self._add(parameter, resolver)

    def _parameters_of(self, function: Callable[..., object]) -> list[_inspect.Parameter]:
        try:
            parameters = list(_inspect.signature(function).parameters.values())
        except (TypeError, ValueError) as error:
            raise RegistrationError(f"{self.where} cannot be registered: {error}") from error
        if parameters and parameters[0].name == "self" and parameters[0].annotation is EMPTY:
            raise RegistrationError(
                f'{self.where}: parameter "self" would be asked of the client; register the method '
                "of an instance"
            )
        return parameters

    def _add(self, parameter: _inspect.Parameter, resolver: AnnotationResolver) -> None:
        what = f'parameter "{parameter.name}"'
        if parameter.kind is parameter.VAR_KEYWORD and self._has_schema:
            self.takes_rest = True
            return
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise RegistrationError(
                f'{self.where}: "{parameter}" cannot be described to a client; '
                "give each argument a parameter of its own, or describe them with input_schema"
            )
        annotation = resolver.resolve(parameter.annotation, what)
        self.order.append((parameter.name, parameter.kind is parameter.KEYWORD_ONLY))
        dependency = find_dependency(annotation, parameter.default)
        if dependency is not None:
            self.dependencies[parameter.name] = dependency
            return
        if self._context_type is not None and is_context(annotation, self._context_type):
            if self.context is not None:
                raise RegistrationError(f"{self.where}: {what} is a second context")
            self.context = parameter.name
            return
        try:
            parsed = _parse(parameter, annotation, resolver.names)
        except RegistrationError as error:
            raise RegistrationError(f"{self.where}: {what}: {error}") from error
        self.client_parameters.append(parsed)
        if parameter.annotation is EMPTY and parameter.name in _CONTEXT_NAMES:
            self.warnings.append(
                f"{what} has no annotation, so clients are asked for it; write "
                f"{parameter.name}: Context if the server is to fill it in"
            )
        elif not _default_fits(parsed):
            self.warnings.append(
                f"{what} has the default {parsed.default!r}, which its type refuses"
            )


def _parse(
    parameter: _inspect.Parameter, annotation: object, names: Mapping[str, object]
) -> ParsedParameter:
    default: object = parameter.default
    factory: Callable[..., object] | UnsetType = UNSET
    key = parameter.name
    if "pydantic" in sys.modules:
        from accord.server.schema import pydantic_types

        if pydantic_types.is_field(default):
            annotation = annotate(annotation, [default])
            default, factory = pydantic_types.default_of(default)
            default = EMPTY if default is UNSET else default
        key = pydantic_types.alias_of(annotation) or key
    type_ = to_msgspec_type(annotation, names=names)
    if default is None and not _fits(None, type_):
        type_ = to_msgspec_type(union_of([annotation, None]), names=names)
    return ParsedParameter(parameter.name, key, type_, default, factory)


def _default_fits(parsed: ParsedParameter) -> bool:
    """Tell whether a caller could send the default as well; one without a JSON form always fits."""
    if parsed.default is EMPTY or parsed.default is None or type(parsed.default) is parsed.type:
        return True
    shown = json_default(parsed.default)
    return shown is UNSET or _fits(shown, parsed.type)


def _fits(value: object, type_: object) -> bool:
    try:
        convert(value, type_)
    except (msgspec.ValidationError, ValueError):
        return False
    return True


def is_context(annotation: object, context_type: type) -> bool:
    """Tell whether a parameter with this annotation takes the context."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return is_context(get_args(annotation)[0], context_type)
    if origin is not None:
        members = [member for member in get_args(annotation) if member is not NoneType]
        if origin is context_type:
            return True
        # `Context | None`; a list of contexts is not one.
        return type(None) in get_args(annotation) and all(
            is_context(member, context_type) for member in members
        )
    return isinstance(annotation, type) and issubclass(annotation, context_type)


def _bound_by_partial(function: object) -> set[str]:
    """Return the names that partial objects fill in, which clients must not."""
    names: set[str] = set()
    while hasattr(function, "func") and hasattr(function, "keywords"):
        names |= function.keywords.keys()
        function = function.func
    return names


def compile_call(arguments: list[str]) -> Callable[..., Any]:
    """Build a call as one expression, of a function with the arguments that are named.

    It runs for every request, and attributes named in source are read without building a tuple. The
    source contains only names of parameters, which are identifiers.
    """
    return _compile(f"lambda function, bound, context, values=(): function({', '.join(arguments)})")


@functools.cache
def _compile(source: str) -> Callable[..., Any]:
    return eval(source)  # type: ignore[no-any-return]  # noqa: S307  # see compile_call


def is_async(function: object) -> bool:
    """Tell whether a call returns an awaitable; a plain decorator passes a coroutine on."""
    return _inspect.iscoroutinefunction(function) or _inspect.iscoroutinefunction(unwrap(function))


def _refuse_generators(function: object, where: str) -> None:
    core = unwrap(function)
    if _inspect.isgeneratorfunction(core) or _inspect.isasyncgenfunction(core):
        raise RegistrationError(f"{where} is a generator; return a list instead")


def doc_of(function: object) -> str | None:
    """Return the docstring of a function; a callable object has that of its class."""
    doc: str | None = unwrap(function).__doc__
    if not doc and not _inspect.isroutine(function):
        doc = type(function).__doc__ if not hasattr(function, "func") else None
    return doc


# -- docstrings

_PARAMETERS: Final = frozenset(
    {
        "args",
        "arguments",
        "attributes",
        "keyword args",
        "keyword arguments",
        "other parameters",
        "parameters",
        "params",
    }
)
# These do not help the caller of a tool; the output schema describes what it returns.
_DROPPED: Final = frozenset(
    {"return", "returns", "raises", "warns", "yield", "yields", "see also", "references"}
)
_KEPT: Final = frozenset(
    {"example", "examples", "note", "notes", "warning", "warnings", "tip", "todo"}
)
_SECTIONS: Final = _PARAMETERS | _DROPPED | _KEPT

_GOOGLE_ENTRY: Final = re.compile(r"\*{0,2}(\w+)[ \t]*(?:\(.*?\))?[ \t]*:(?:[ \t]+|$)(.*)")
_NUMPY_ENTRY: Final = re.compile(r"(\*{0,2}\w+(?:[ \t]*,[ \t]*\*{0,2}\w+)*)[ \t]*(?::.*)?$")
_SPHINX: Final = re.compile(r":(\w+)(?:[ \t]+([^:\n]*?))?:(?:[ \t]+|$)(.*)")
_SPHINX_PARAMETERS: Final = frozenset(
    {"param", "parameter", "arg", "argument", "key", "keyword", "kwarg"}
)
_SPHINX_IGNORED: Final = frozenset(
    {"type", "return", "returns", "rtype", "raises", "raise", "except", "exception", "var", "ivar"}
    | {"cvar", "vartype", "yields", "yield", "ytype", "meta"}
)


class Docstring(NamedTuple):
    """A parsed docstring: prose without the sections, and the text about each parameter."""

    summary: str
    parameters: dict[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Parse a docstring in Google, NumPy or Sphinx style, or in a mixture; it never fails."""
    lines = _inspect.cleandoc(text or "").split("\n")
    parser = _DocstringParser()
    position = 0
    while position < len(lines):
        position = parser.take(lines, position)
    return parser.docstring()


class _DocstringParser:
    def __init__(self) -> None:
        self.prose: list[str] = []
        self.parameters: dict[str, str] = {}

    def docstring(self) -> Docstring:
        prose = re.sub(r"\n{3,}", "\n\n", "\n".join(self.prose)).strip()
        return Docstring(prose, self.parameters)

    def take(self, lines: list[str], position: int) -> int:
        """Parse one line or one section; return the position after it."""
        line = lines[position]
        if (field := _sphinx_field(line)) is not None:
            block, after = _indented_block(lines, position + 1, _indent(line) + 1)
            self._add_field(*field, block)
            return after
        if (section := _numpy_heading(lines, position)) is not None:
            block, after = _until_heading(lines, position + 2)
            self._add_section(section, block, lines[position : position + 2], _NUMPY_ENTRY)
            return after
        if (section := _google_heading(lines, position)) is not None:
            block, after = _indented_block(lines, position + 1, _indent(line) + 1)
            self._add_section(section, block, [line], _GOOGLE_ENTRY)
            return after
        self.prose.append(line)
        return position + 1

    def _add_field(self, role: str, subject: str, text: str, block: list[str]) -> None:
        text = _join_lines([text, *block])
        if role in _SPHINX_PARAMETERS and subject:
            # The type may stand before the name: `:param int count:`.
            self.parameters[subject.rsplit(maxsplit=1)[-1].lstrip("*\\")] = text

    def _add_section(
        self, name: str, block: list[str], heading: list[str], entry: re.Pattern[str]
    ) -> None:
        if name in _PARAMETERS:
            self.parameters |= _entries(block, entry)
        elif name in _KEPT:
            self.prose += [*heading, *block]


def _sphinx_field(line: str) -> tuple[str, str, str] | None:
    match = _SPHINX.match(line.strip())
    if match is None:
        return None
    role, subject, text = match[1].lower(), (match[2] or "").strip(), match[3]
    known = role in _SPHINX_PARAMETERS or role in _SPHINX_IGNORED
    return (role, subject, text) if known else None


def _numpy_heading(lines: list[str], position: int) -> str | None:
    name = lines[position].strip().lower()
    if name not in _SECTIONS or position + 1 >= len(lines):
        return None
    rule = lines[position + 1].strip()
    return name if len(rule) >= 3 and not rule.strip("-=") else None


def _google_heading(lines: list[str], position: int) -> str | None:
    """Return the name in `Args:` if an indented line follows; else the line is prose."""
    stripped = lines[position].strip()
    name = stripped[:-1].lower()
    if not stripped.endswith(":") or name not in _SECTIONS:
        return None
    follower = next((line for line in lines[position + 1 :] if line.strip()), "")
    return name if _indent(follower) > _indent(lines[position]) else None


def _indented_block(lines: list[str], position: int, indent: int) -> tuple[list[str], int]:
    """Collect the lines with at least this indent, and the blank ones between them."""
    end = position
    for index in range(position, len(lines)):
        if lines[index].strip():
            if _indent(lines[index]) < indent:
                break
            end = index + 1
    return lines[position:end], end


def _until_heading(lines: list[str], position: int) -> tuple[list[str], int]:
    end = position
    while end < len(lines) and _numpy_heading(lines, end) is None:
        end += 1
    return lines[position:end], end


def _entries(block: list[str], pattern: re.Pattern[str]) -> dict[str, str]:
    """Split a section at the lines of its smallest indent that name a parameter."""
    indent = min((_indent(line) for line in block if line.strip()), default=0)
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in block:
        match = pattern.match(line.strip()) if _indent(line) == indent else None
        if match is not None:
            current = found.setdefault(match[1], [])
            current += match.groups()[1:]
        else:
            current.append(line)
    return {
        name.strip().lstrip("*"): text
        for names, lines in found.items()
        if (text := _join_lines(lines))
        for name in names.split(",")
    }


def _join_lines(lines: list[str]) -> str:
    """Join the lines of each paragraph: clients wrap descriptions themselves."""
    paragraphs = re.split(r"\n\s*\n", "\n".join(line.strip() for line in lines).strip())
    return "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())

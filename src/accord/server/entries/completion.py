"""Completion of the arguments of prompts and of the variables of resource templates.

Parameters with a type of few values, such as an `Enum`, need no completer.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args, get_origin

from accord.errors import InvalidParams, RegistrationError
from accord.protocol.exchange import Exchange
from accord.server.entries.entry import (
    Entry,
    EntryKind,
    FunctionEntry,
    call_completer,
    source_location,
)
from accord.server.entries.prompts import unknown_prompt
from accord.server.entries.registry import Registry, Resources
from accord.server.schema.parameters import (
    ParsedParameters,
    compile_call,
    is_async,
    passed_by_keyword,
)
from accord.server.schema.signature import Signature
from accord.types import (
    CompleteParams,
    CompleteResult,
    Completion,
    JsonObject,
    PromptReference,
    ResourceTemplateReference,
)

if TYPE_CHECKING:
    from accord.server.context import Context
    from accord.server.session import Session

Completer: TypeAlias = Callable[[str, Mapping[str, str]], object]
"""Called with the typed text and the arguments filled in so far; returns a list of texts or a
`Completion`, or a coroutine for one."""

CompletionSource: TypeAlias = Callable[..., object] | Iterable[str] | type[Enum]
"""Where suggestions come from: a completer, a function of the typed text alone, or the values."""

Reference: TypeAlias = PromptReference | ResourceTemplateReference

_MOST_VALUES: Final = 100
# Where a completer with dependencies finds the typed text, and the arguments filled in so far.
_GIVEN: Final = ("bound[0]", "bound[1]")
_SHOWN: Final = 100


class Completions:
    """The completers of a server, found by reference and argument."""

    def __init__(self, prompts: Registry, resources: Resources) -> None:
        self._prompts = prompts
        self._resources = resources
        self._completers: dict[tuple[EntryKind, str, str], Completer | InjectedCompleter] = {}

    def add(self, of: str, argument: str, source: CompletionSource) -> None:
        """Complete an argument of a prompt, or a variable of a resource template.

        Args:
            of: the prompt or the template, which must be registered.
            argument: one of its arguments or variables.
            source: a function of the typed text and, if it takes two parameters, of the arguments
                filled in so far; or the values themselves: texts, an `Enum` or a `Literal`.

        Raises:
            RegistrationError: the prompt or the argument does not exist, or the source is invalid.
        """
        is_template = "{" in of
        registry = self._resources.templates if is_template else self._prompts
        if of not in registry:
            raise RegistrationError(
                f"{registry.kind} {of!r} has no completion: it is not registered yet"
            )
        entry = registry.get(of)
        if entry is not None and argument not in entry.arguments:
            known = ", ".join(map(repr, entry.arguments)) or "none"
            raise RegistrationError(
                f"{of!r} has no argument {argument!r} to complete; it has {known}"
            )
        kind: EntryKind = "resource_templates" if is_template else "prompts"
        self._completers[kind, of, argument] = _completer(source)

    @property
    def dependencies(self) -> set[Callable[..., object]]:
        """The functions that completers depend on."""
        found: set[Callable[..., object]] = set()
        for each in self._completers.values():
            if isinstance(each, InjectedCompleter):
                found |= each.plan.functions
        return found

    def find(self, entry: FunctionEntry, argument: str) -> "Completer | InjectedCompleter":
        """Return the completer of an argument; an argument without one gets no suggestions.

        Raises:
            InvalidParams: the argument does not exist.
        """
        if argument not in entry.arguments:  # completion.errors.codes
            raise InvalidParams(
                f"{entry.key!r} has no argument {argument[:_SHOWN]!r}", data={"argument": argument}
            )
        registered = self._completers.get((entry.kind, entry.key, argument))
        return registered or _static(_choices(entry.signature, argument))

    async def complete(
        self, session: "Session", exchange: Exchange, entry: FunctionEntry, params: CompleteParams
    ) -> CompleteResult:
        """Suggest values of an argument of a prompt, or of a variable of a template."""
        completer = self.find(entry, params.argument.name)
        exchange.state = f"completion of {entry.key}"
        return CompleteResult(trim(await call_completer(session, exchange, completer, params)))

    def entry_of(self, ref: Reference) -> Entry:
        """Return the prompt or template that a reference names.

        Raises:
            InvalidParams: it does not exist.
        """
        if isinstance(ref, PromptReference):
            entry = self._prompts.get(ref.name)
        else:
            entry = self._template(ref.uri)
        if entry is None:
            raise unknown_reference(ref)
        return entry

    def _template(self, uri: str) -> Entry | None:
        entry = self._resources.templates.get(uri)
        if entry is not None:
            return entry
        # Some clients name the template by a URI that it makes.
        found = self._resources.find(uri)
        return found if found is not None and found.kind == "resource_templates" else None


def unknown_reference(ref: Reference) -> InvalidParams:
    """Return the error for a reference to a prompt or template that does not exist."""
    if isinstance(ref, PromptReference):
        return unknown_prompt(ref.name)
    return InvalidParams(f"unknown resource template {ref.uri[:_SHOWN]!r}", data={"uri": ref.uri})


class InjectedCompleter:
    """A completer that takes the context or dependencies, beside the text and the arguments."""

    def __init__(self, function: Callable[..., object], reader: ParsedParameters) -> None:
        from accord.server.injection import Plan

        where = f"the completer at {source_location(function)}"
        names = [each.name for each in reader.client_parameters]
        if not 1 <= len(names) <= len(_GIVEN):
            raise RegistrationError(
                f"{where} takes {', '.join(names) or 'no text'}; expected the typed text, and the "
                "arguments filled in so far if it needs them"
            )
        sources = {name: f"values[{n}]" for n, name in enumerate(reader.dependencies)}
        sources |= dict(zip(names, _GIVEN, strict=False))
        self._function = function
        self._is_async = is_async(function)
        self._call = compile_call(
            [
                f"{name}={sources.get(name, 'context')}"
                if by_name
                else sources.get(name, "context")
                for name, by_name in reader.order
            ]
        )
        self.plan = Plan([*reader.dependencies.values()], {}, where)

    async def suggest(
        self, session: "Session", context: "Context[Any]", typed: str, filled: Mapping[str, str]
    ) -> object:
        """Return what the function suggests."""
        from accord.server.injection import call_in_thread, call_on_loop

        plan = self.plan.under(session.server.overrides)

        def call(values: list[Any]) -> Any:
            return self._call(self._function, (typed, filled), context, values)

        if self._is_async:
            return await call_on_loop(plan, context, None, call)
        return await call_in_thread(plan, session, context, None, call)


def _completer(source: CompletionSource) -> "Completer | InjectedCompleter":
    if isinstance(source, type) and issubclass(source, Enum):
        return _static([str(member.value) for member in source])
    if get_origin(source) is Literal:
        return _static([str(value) for value in get_args(source)])
    if callable(source):
        return _read_injected(source) or _adapt(source)
    values = None if isinstance(source, str) else list(source)
    if values is None or not all(isinstance(value, str) for value in values):
        raise RegistrationError(
            f"values to suggest are {source!r:.80}; expected a list of texts, an Enum, a Literal "
            "or a function"
        )
    return _static(values)


def _read_injected(function: Callable[..., object]) -> InjectedCompleter | None:
    """Return a completer with the context or dependencies; None if it takes neither."""
    from accord.server.context import Context

    try:
        reader = ParsedParameters(function, Context)
    except RegistrationError:
        # It has annotations or parameters that only tools need; a mistake in what it depends on
        # has a message of its own.
        return None
    if not reader.dependencies and reader.context is None:
        return None
    return InjectedCompleter(function, reader)


def _adapt(function: Callable[..., object]) -> Completer:
    """Adapt a function that takes only the typed text."""
    try:
        parameters = inspect.signature(function)
    except ValueError:  # a built-in function without a signature
        return function
    named = list(parameters.parameters.values())
    by_keyword = passed_by_keyword(function, named)
    if by_keyword and by_keyword.issuperset(each.name for each in named[:2]):
        # A wrapper that takes `**kwargs` alone.
        names = [each.name for each in named[:2]]
        return lambda *given: function(**dict(zip(names, given, strict=False)))
    if _takes(parameters, 2):
        return function
    if _takes(parameters, 1):
        return lambda value, context: function(value)
    raise RegistrationError(
        f"the completer at {source_location(function)} cannot be called with the typed text and "
        "the arguments filled in so far"
    )


def _takes(parameters: inspect.Signature, count: int) -> bool:
    try:
        parameters.bind(*range(count))
    except TypeError:
        return False
    return True


def _static(values: list[str]) -> Completer:
    return lambda typed, context: match_values(values, typed)


def _choices(signature: Signature, argument: str) -> list[str]:
    schemas = {parameter.name: parameter.schema for parameter in signature.parameters}
    return list(dict.fromkeys(_values(schemas.get(argument, {}))))


def _values(schema: JsonObject) -> list[str]:
    """List the values that a schema names; null cannot be typed."""
    if "anyOf" in schema:
        return [value for member in schema["anyOf"] for value in _values(member)]
    if schema.get("type") == "boolean":
        return ["true", "false"]
    values = [schema["const"]] if "const" in schema else schema.get("enum", [])
    return [
        value if isinstance(value, str) else str(value) for value in values if value is not None
    ]


def match_values(values: Iterable[str], typed: str) -> list[str]:
    """Return the values that contain the typed text, those that begin with it first.

    >>> match_values(["Berlin", "Bern", "Bamberg", "Nuremberg"], "ber")
    ['Berlin', 'Bern', 'Bamberg', 'Nuremberg']
    """
    sought = typed.casefold()
    begin, contain = [], []
    for value in values:
        folded = value.casefold()
        if folded.startswith(sought):
            begin.append(value)
        elif sought in folded:
            contain.append(value)
    return begin + contain


def trim(values: object) -> Completion:
    """Turn the value that a completer returned into a completion of at most 100 values.

    Raises:
        TypeError: the values are not texts.
    """
    if not isinstance(values, Completion):
        values = _completion_of(values)
    for value in values.values:
        if not isinstance(value, str):
            raise TypeError(f"a completer suggested {value!r:.80}; expected a text")
    kept = values.values[:_MOST_VALUES]  # completion.values-max-100
    has_more = bool(values.has_more) or max(len(values.values), values.total or 0) > len(kept)
    return Completion(values=kept, total=values.total, has_more=has_more)


def _completion_of(values: object) -> Completion:
    if values is None:
        return Completion(values=[], total=0)
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise TypeError(f"a completer returned {values!r:.80}; expected a list of texts")
    texts = list(values)
    return Completion(values=texts, total=len(texts))

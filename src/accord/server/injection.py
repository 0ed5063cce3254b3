"""Dependencies of handlers: the order in which they are made, their scopes, and their end.

Dependencies run where the handler runs: for an async handler on the loop, for a plain function in
its worker thread, so that a connection may be bound to its thread. Those that are async, and those
that outlive the request, are always made on the loop.
"""

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from accord.errors import RegistrationError
from accord.server.context import Context
from accord.server.depends import SCOPES, Dependency, Scope, find_dependency
from accord.server.schema.annotations import AnnotationResolver, callable_name, unwrap
from accord.server.schema.parameters import compile_call, is_context

if TYPE_CHECKING:
    from accord.server.core import ServerCore
    from accord.server.entries.entry import Entry
    from accord.server.schema.signature import Signature
    from accord.server.session import Session

Overrides = Mapping[Callable[..., object], Callable[..., object]]
_RANK: Final = {scope: rank for rank, scope in enumerate(SCOPES)}


class InjectionStep(NamedTuple):
    """One dependency: how it is called with the values before it, and how its value is reached."""

    dependency: Dependency
    make: Callable[..., Any]
    function: Callable[..., Any]
    is_awaited: bool
    is_manager: bool
    is_async_manager: bool
    on_loop: bool

    @property
    def outlives_request(self) -> bool:
        return self.dependency.scope != "request"

    def start(self, bound: Any, context: Context[Any], values: Sequence[Any]) -> Any:
        """Call the function: its value, a coroutine for it, or a context manager around it."""
        return self.make(self.function, bound, context, values)

    async def enter(
        self, stack: AsyncExitStack, bound: Any, context: Context[Any], values: Sequence[Any]
    ) -> Any:
        """Make the value on the loop; the stack ends it."""
        made = self.start(bound, context, values)
        if self.is_awaited:
            return await made
        if self.is_async_manager:
            return await stack.enter_async_context(made)
        return stack.enter_context(made) if self.is_manager else made


class Plan:
    """The dependencies of one handler, each after those that it needs.

    Args:
        wanted: the dependencies that fill parameters of the handler, in their order.
        arguments: the expressions of the handler's arguments, by name.
        where: names the handler in errors.
        overrides: functions to call in place of others; for tests.

    Raises:
        RegistrationError: dependencies need each other, or a parameter cannot be filled in.
    """

    def __init__(
        self,
        wanted: Sequence[Dependency],
        arguments: Mapping[str, str],
        where: str,
        overrides: Overrides | None = None,
    ) -> None:
        self._given = (wanted, arguments, where)
        self.functions: set[Callable[..., object]] = set()
        builder = _PlanBuilder(arguments, where, overrides or {})
        for each in wanted:
            builder.add(each, ())
        self.functions = builder.functions
        self.steps, order = builder.in_order()
        self.picks = [order[each] for each in wanted]
        self.on_loop = sum(step.on_loop for step in self.steps)
        self.has_ends = any(step.is_manager or step.outlives_request for step in self.steps)
        self._overridden: tuple[Overrides, Plan] | None = None

    def under(self, overrides: Overrides | None) -> "Plan":
        """Return the plan with other functions in place of some."""
        if not overrides:
            return self
        if self._overridden is None or self._overridden[0] is not overrides:
            self._overridden = overrides, Plan(*self._given, overrides)
        return self._overridden[1]

    def pick(self, values: Sequence[Any]) -> list[Any]:
        """Return the values for the parameters of the handler."""
        return [values[index] for index in self.picks]


class _PlanBuilder:
    def __init__(self, arguments: Mapping[str, str], where: str, overrides: Overrides) -> None:
        self._arguments = arguments
        self._where = where
        self._overrides = overrides
        self._found: dict[Dependency, list[tuple[str, object]]] = {}
        self.functions: set[Callable[..., object]] = set()

    def add(self, dependency: Dependency, path: tuple[Dependency, ...]) -> None:
        if dependency in path:
            names = [callable_name(each.function) for each in (*path, dependency)]
            raise RegistrationError(
                f"{self._where}: dependencies need each other: {' -> '.join(names)}"
            )
        self.functions.add(dependency.function)
        if dependency in self._found:
            return
        function = self._overrides.get(dependency.function, dependency.function)
        filled = self._read(function, dependency.scope)
        for _, source in filled:
            if isinstance(source, Dependency):
                self._check_scope(dependency, source)
                self.add(source, (*path, dependency))
        self._found[dependency] = filled  # after those that it needs

    def _check_scope(self, dependency: Dependency, needed: Dependency) -> None:
        if _RANK[needed.scope] < _RANK[dependency.scope]:
            raise RegistrationError(
                f"{self._where}: dependency {callable_name(dependency.function)} is kept for the "
                f"{dependency.scope}, and needs {callable_name(needed.function)}, which is made "
                f"for each {needed.scope}"
            )

    def _read(self, function: Callable[..., object], scope: Scope) -> list[tuple[str, object]]:
        """Return how each parameter of a dependency is filled in."""
        where = f"{self._where}: dependency {callable_name(function)}"
        source: Any = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]
        resolver = AnnotationResolver(source, {"Context": Context})
        filled: list[tuple[str, object]] = []
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError) as error:
            raise RegistrationError(f"{where} cannot be called: {error}") from None
        for each in parameters:
            if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
                continue
            annotation = resolver.resolve(each.annotation, f'parameter "{each.name}"')
            nested = find_dependency(annotation, each.default)
            keyword = "" if each.kind is each.POSITIONAL_ONLY else f"{each.name}="
            if nested is not None:
                filled.append((keyword, nested))
            elif is_context(annotation, Context):
                if scope == "server":
                    raise RegistrationError(
                        f'{where} is kept for the server, and its parameter "{each.name}" takes '
                        "the Context of the first caller, which others would get: take it in a "
                        "dependency of scope 'request' or 'session'"
                    )
                filled.append((keyword, "context"))
            elif each.name in self._arguments and scope == "request":
                filled.append((keyword, self._arguments[each.name]))
            elif each.default is each.empty:
                raise RegistrationError(
                    f'{where}: parameter "{each.name}" cannot be filled in: it has no default, and '
                    "is neither a Context, a Depends nor an argument of the handler"
                    + ("" if scope == "request" else f" of scope {scope!r}, which has none")
                )
        return filled

    def in_order(self) -> tuple[list[InjectionStep], dict[Dependency, int]]:
        """Return the steps, those for the loop first, and the place of each dependency."""
        kinds = {
            each: _kind_of(self._overrides.get(each.function, each.function))
            for each in self._found
        }
        on_loop = {
            each for each, kind in kinds.items() if kind[1] or kind[3] or each.scope != "request"
        }
        for each in reversed(self._found):
            if each in on_loop:
                on_loop |= {
                    source for _, source in self._found[each] if isinstance(source, Dependency)
                }
        ordered = sorted(self._found, key=lambda each: each not in on_loop)
        places = {each: place for place, each in enumerate(ordered)}
        steps = []
        for each in ordered:
            arguments = [
                f"{keyword}values[{places[source]}]"
                if isinstance(source, Dependency)
                else f"{keyword}{source}"
                for keyword, source in self._found[each]
            ]
            function = self._overrides.get(each.function, each.function)
            made = Dependency(function, each.scope)
            steps.append(
                InjectionStep(made, compile_call(arguments), *kinds[each], each in on_loop)
            )
        return steps, places


def _kind_of(function: Callable[..., Any]) -> tuple[Callable[..., Any], bool, bool, bool]:
    """Return what to call, and whether its value is awaited, a manager, and an async manager.

    A class that is a context manager is entered. So is what a function returns that is decorated
    with `contextmanager` or `asynccontextmanager`; other objects that a function returns are
    passed on as they are, since the author may want a lock or a client itself.
    """
    if isinstance(function, type):
        is_async = hasattr(function, "__aenter__")
        return function, False, is_async or hasattr(function, "__enter__"), is_async
    call: Any = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004
    if inspect.isasyncgenfunction(call):
        return contextlib.asynccontextmanager(call), False, True, True
    if inspect.isgeneratorfunction(call):
        return contextlib.contextmanager(call), False, True, False
    core = unwrap(function)
    if inspect.isasyncgenfunction(core) or inspect.isgeneratorfunction(core):
        return function, False, True, inspect.isasyncgenfunction(core)
    is_awaited = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(core)
    return function, is_awaited, False, False


def check_overrides(server: "ServerCore", overrides: Overrides) -> None:
    """Refuse to override what is not in use.

    Raises:
        ValueError: no handler depends on a function.
    """
    resources = server.resource_entries
    registries: list[Iterable[Entry]] = [server.tool_entries, server.prompt_entries]
    entries = chain(*registries, resources.fixed, resources.templates)
    used = {each for entry in entries for each in entry.dependencies}
    used |= server.completions.dependencies
    for function in overrides:
        if function not in used:
            raise ValueError(
                f"overrides: no handler depends on {callable_name(function)}; give the function "
                "that is in Depends(...)"
            )


# -- running


class Handler(Protocol):
    """A registered function that has dependencies."""

    @property
    def function(self) -> Callable[..., object]: ...
    @property
    def signature(self) -> "Signature": ...


async def call_injected(
    handler: Handler,
    session: "Session",
    context: Context[Any],
    bound: Any,
    convert: Callable[[Any], Any],
) -> Any:
    """Call a handler with its dependencies; its result is converted before they end."""
    signature, function = handler.signature, handler.function
    assert signature.plan is not None
    plan = signature.plan.under(session.server.overrides)
    given = getattr(bound, "bound", bound)  # without the arguments that `**rest` takes

    if signature.is_async:

        async def call_async(values: list[Any]) -> Any:
            return convert(await signature.call(function, bound, context, values))

        return await call_on_loop(plan, context, given, call_async)

    def call(values: list[Any]) -> Any:
        return convert(signature.call(function, bound, context, values))

    if getattr(handler, "inline", False):
        return await call_on_loop(plan, context, given, call)
    return await call_in_thread(plan, session, context, given, call)


async def call_on_loop(
    plan: Plan,
    context: Context[Any],
    bound: Any,
    work: Callable[[list[Any]], Awaitable[Any] | Any],
) -> Any:
    """Make the dependencies, call the work with them on the loop, and end them."""
    values: list[Any] = []
    if not plan.has_ends:
        for step in plan.steps:
            made = step.start(bound, context, values)
            values.append(await made if step.is_awaited else made)
        outcome = work(plan.pick(values))
        return await outcome if inspect.isawaitable(outcome) else outcome

    async def go_on() -> Any:
        outcome = work(plan.pick(values))
        return await outcome if inspect.isawaitable(outcome) else outcome

    return await _call_within(plan.steps, context, bound, values, go_on)


async def call_in_thread(
    plan: Plan, session: "Session", context: Context[Any], bound: Any, work: Callable[..., Any]
) -> Any:
    """Make what is async on the loop, and the rest in the thread in which the work runs."""
    values: list[Any] = []

    def work_in_thread() -> Any:
        raised: BaseException | None = None
        with ExitStack() as stack:
            try:
                for step in plan.steps[plan.on_loop :]:
                    made = step.start(bound, context, values)
                    values.append(stack.enter_context(made) if step.is_manager else made)
                return work(plan.pick(values))
            except BaseException as error:
                raised = error
                raise
        raise raised  # a dependency caught it, but there is no result to return

    async def go_on() -> Any:
        try:
            return await session.run_in_thread(context, work_in_thread)
        except asyncio.CancelledError:
            context._cancel()  # work in a thread looks at it
            raise

    return await _call_within(plan.steps[: plan.on_loop], context, bound, values, go_on)


async def _call_within(
    steps: Sequence[InjectionStep],
    context: Context[Any],
    bound: Any,
    values: list[Any],
    go_on: Callable[[], Awaitable[Any]],
) -> Any:
    """Make the values of the steps, go on, and end them, the latest first.

    They learn of a failure, and may raise another, but cannot turn it into success: a result would
    be missing. An `AsyncExitStack` would take twice as long.
    """
    entered: list[tuple[Any, bool]] = []
    result, failure = None, None
    try:
        for step in steps:
            if step.outlives_request:
                values.append(await _kept_value(step, context, bound, values))
                continue
            made = step.start(bound, context, values)
            if step.is_async_manager:
                values.append(await made.__aenter__())
                entered.append((made, True))
            elif step.is_manager:
                values.append(made.__enter__())
                entered.append((made, False))
            else:
                values.append(await made if step.is_awaited else made)
        result = await go_on()
    except BaseException as error:
        failure = error
    while entered:
        manager, is_async = entered.pop()
        trace = None if failure is None else failure.__traceback__
        try:
            if is_async:
                await manager.__aexit__(type(failure) if failure else None, failure, trace)
            else:
                manager.__exit__(type(failure) if failure else None, failure, trace)
        except BaseException as error:
            failure = error
    if failure is None:
        return result
    try:
        raise failure
    finally:
        del failure  # its traceback refers to this frame


async def _kept_value(
    step: InjectionStep, context: Context[Any], bound: Any, values: list[Any]
) -> Any:
    session = context._session
    scopes = session.server.scopes
    kept = scopes.of_session(session) if step.dependency.scope == "session" else scopes.of_loop()
    return await kept.get(step, bound, context, values)

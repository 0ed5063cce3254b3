"""Further attempts at requests that failed for a passing reason."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from accord.errors import TransportError
from accord.middleware.requests import (
    AnyContext,
    check_count,
    check_methods,
    check_names,
    check_number,
    is_failed,
    mark_passing,
    params_of,
    tool_of,
)
from accord.server import Middleware, Proceed

PASSING: Final[tuple[type[Exception], ...]] = (ConnectionError, TimeoutError, TransportError)
"""The exceptions after which a further attempt may succeed."""

Judge: TypeAlias = (
    type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]
)


def retry(
    attempts: int = 3,
    *,
    wait: float = 0.1,
    factor: float = 2.0,
    on: Judge = PASSING,
    tools: Iterable[str] | None = None,
    methods: Iterable[str] = ("tools/call", "resources/read", "prompts/get"),
) -> Middleware:
    """Return middleware that serves a request again if its handler raised a passing error.

    A tool is called again only if its annotations say that it is read-only or idempotent, or if it
    is named here: another one could do its work twice. Once it has asked the client, it is not
    called again.

    Args:
        attempts: how often a handler is called at most.
        wait: seconds before the second attempt.
        factor: how much longer each further wait is.
        on: exceptions after which to try again, or a function that says so of an exception; by
            default errors of connections and time-outs.
        tools: names of tools to call again, in place of those that are annotated.
        methods: the requests that are served again.

    Raises:
        ValueError: a number does not fit.
        TypeError: `on` is not an exception type, several of them or a function.
        RegistrationError: the protocol has no such method.
    """
    check_count("retry()", "attempts", attempts)
    check_number("retry()", "wait", wait, least=-1e-9)
    check_number("retry()", "factor", factor)
    is_passing = _judge_of(on)
    names = check_names("retry()", tools)
    repeated = check_methods("retry()", methods)

    async def try_again(ctx: AnyContext, proceed: Proceed) -> Any:
        if ctx.method not in repeated or not _is_repeatable(ctx, names):
            return await proceed()
        pause = wait
        for attempt in range(1, attempts + 1):
            try:
                result = await proceed()
            except Exception as error:
                if attempt == attempts or _has_asked(ctx) or not is_passing(error):
                    raise
            else:
                cause = ctx.failure if is_failed(result) else None
                if attempt == attempts or cause is None or _has_asked(ctx):
                    return result
                if not is_passing(cause):
                    return result
            await asyncio.sleep(pause)
            pause *= factor
        raise AssertionError  # the last attempt returns or raises

    return mark_passing(try_again)


def _has_asked(ctx: AnyContext) -> bool:
    """Whether the handler asked the client: its user should not be asked the same again."""
    return ctx._exchange.channel is not None


def _judge_of(on: Any) -> Callable[[BaseException], bool]:
    types = (on,) if isinstance(on, type) else on
    if isinstance(types, tuple):
        if not all(isinstance(each, type) and issubclass(each, BaseException) for each in types):
            raise TypeError(f"retry(): on is {on!r:.80}, expected exception types")
        return lambda error: isinstance(error, types)
    if callable(types):
        return lambda error: bool(types(error))
    raise TypeError(f"retry(): on is {on!r:.80}, expected exception types or a function")


def _is_repeatable(ctx: AnyContext, names: frozenset[str] | None) -> bool:
    if ctx.method != "tools/call":
        return True
    if names is not None:
        return params_of(ctx).name in names
    tool = tool_of(ctx)
    hints = None if tool is None else tool.annotations
    return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)

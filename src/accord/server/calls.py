"""How the function of a prompt, a resource or a completer is called, and how its failures end."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from accord.errors import InternalError, RequestError, ToolError, UrlElicitationRequired
from accord.protocol.exchange import Exchange
from accord.server.context import Context, current
from accord.server.questions.channels import find_questions

if TYPE_CHECKING:
    from accord.server.entries.completion import Completer, InjectedCompleter
    from accord.server.entries.entry import FunctionEntry
    from accord.server.schema.signature import BoundArguments
    from accord.server.session import Session
    from accord.types import CompleteParams


async def call_user(
    session: "Session",
    context: Context[Any],
    entry: "FunctionEntry",
    bound: "BoundArguments",
    convert: Callable[[Any], Any],
) -> Any:
    """Call a reader or prompt of the author: on the loop if it is async, else in a thread.

    What it returns is converted in the same place: a large value takes its time.
    """
    exchange = context._exchange
    function, signature = entry.function, entry.signature
    try:
        if signature.plan is not None:
            from accord.server.injection import call_injected

            current.set(context)
            result = await call_injected(entry, session, context, bound, convert)
        elif signature.is_async:
            current.set(context)
            result = convert(await signature.call(function, bound, context))
        else:
            result = await session.run_in_thread(
                context, lambda: convert(signature.call(function, bound, context))
            )
    except UrlElicitationRequired as error:
        return require_pages(error, context)
    except ToolError as error:
        # No tool, but its author means the same: the caller should read the text.
        raise InternalError(str(error)) from error
    except BaseException as error:
        questions = find_questions(error, exchange)
        if questions is None:
            raise
        return questions
    return result if exchange.channel is None else exchange.channel.finish(result)


def require_pages(error: UrlElicitationRequired, context: Context[Any]) -> Any:
    """Return what a request is answered with that needs its user to visit pages; or raise it."""
    from accord.server.questions.url_elicitation import answer_required

    answer = answer_required(error, context)
    if isinstance(answer, RequestError):
        raise answer from error
    return answer


async def call_completer(
    session: "Session",
    exchange: Exchange,
    completer: "Completer | InjectedCompleter",
    params: "CompleteParams",
) -> object:
    """Return what a completer suggests for the text that was typed."""
    from accord.server.entries.completion import InjectedCompleter

    resolved = (params.context.arguments if params.context else None) or {}
    context = session.context(exchange, params)
    try:
        value: object
        if isinstance(completer, InjectedCompleter):
            current.set(context)
            value = await completer.suggest(session, context, params.argument.value, resolved)
        else:
            # In a thread, since an author's completer may well ask a database.
            value = await session.run_in_thread(
                context, partial(completer, params.argument.value, resolved)
            )
        return await value if isinstance(value, Awaitable) else value
    except UrlElicitationRequired as error:
        return require_pages(error, context)

"""Tools: from a request to a call of the function, and back to a result."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, Unpack

import msgspec
from msgspec import UNSET

from accord.errors import (
    MissingCapability,
    RegistrationError,
    RequestError,
    ToolError,
    UrlElicitationRequired,
)
from accord.protocol.exchange import Exchange
from accord.runtime.eager import code_without_await, run_at_once
from accord.runtime.handlers import OutOfTime
from accord.server.access import parse_scopes, parse_tags
from accord.server.context import Context, current
from accord.server.entries.entry import NO_FACTS, Entry, EntryKind, FunctionEntry, ToolFacts
from accord.server.questions.channels import find_questions, without_unwound
from accord.server.schema import results, signature
from accord.server.schema.results import ResultError, ReturnType
from accord.server.schema.signature import BoundArguments
from accord.server.settings import ToolDetails, check_details, check_name, check_tool
from accord.types import (
    CallToolParams,
    CallToolResult,
    InputRequiredResult,
    JsonObject,
    TextContent,
    Tool,
    ToolExecution,
)

if TYPE_CHECKING:
    from accord.protocol.mirroring import MirroredArgument
    from accord.server.session import Session

log = logging.getLogger("accord.server")

# These stop a task and are not failures of the tool; the dispatcher handles them.
ToolResult: TypeAlias = CallToolResult | InputRequiredResult

_FACTS: Final = frozenset({"task", "ask_first", "idempotent"})
_STOPS: Final = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)


class ToolEntry(FunctionEntry, frozen=True, kw_only=True):
    """A registered tool.

    `label` names it in messages about running calls; `listed` is the item once it was needed, made
    of the `details` and the rest; `brief` is the code of a coroutine function that never waits.
    """

    kind: EntryKind = "tools"
    details: ToolDetails = msgspec.field(default_factory=ToolDetails)
    listed: Tool | None = None
    returns: ReturnType
    label: str
    mode: Literal["async", "thread", "inline", "injected"] = "async"
    inline: bool = False
    timeout: float | None = None
    brief: CodeType | None = None

    @property
    def item(self) -> Tool:
        """The description that clients see.

        Made when it is first needed: its schemas are most of the work of registering a tool.
        """
        listed = self.listed
        if listed is None:
            listed = _describe(self)
            msgspec.structs.force_setattr(self, "listed", listed)
        return listed

    def answer(
        self,
        session: "Session",
        exchange: Exchange,
        params: CallToolParams,
        context: Context[Any] | None = None,
    ) -> ToolResult | Awaitable[ToolResult]:
        is_within = True
        if context is None:
            is_within = current.get(None) is not None
            context = session.context(exchange, params)
        arguments = params.arguments
        try:
            bound = self.signature.bind(b"{}" if arguments is UNSET else arguments)
        except ToolError as error:
            return failure(str(error))
        exchange.state = self.label
        mode = self.mode
        if mode == "async":
            # Middleware around it shares its context variables, so that it has to be its task.
            if self.brief is None or is_within or self.brief is not self.function.__code__:
                return self._call_async(context, bound)
            return copy_context().run(self._call_at_once, session.loop, context, bound)
        if mode == "thread":
            from accord.server.thread_calls import ThreadCall

            return ThreadCall(self, session, context, bound)
        if mode == "injected":
            return self._call_injected(session, context, bound)
        if is_within:
            return self._call_inline(context, bound)
        # What it sets of context variables must not reach the next request, of another client.
        return copy_context().run(self._call_inline, context, bound)

    def _call_inline(self, context: Context[object], bound: BoundArguments) -> ToolResult:
        token = current.set(context)
        try:
            return self.returns.convert(self.signature.call(self.function, bound, context))
        except BaseException as error:
            return self._failure_of(error, context)
        finally:
            current.reset(token)

    def _call_at_once(
        self, loop: asyncio.AbstractEventLoop, context: Context[object], bound: BoundArguments
    ) -> ToolResult:
        current.set(context)
        try:
            value = run_at_once(self.signature.call(self.function, bound, context), loop)
            result = self.returns.convert(value)
            return result if context._exchange.channel is None else finish_call(result, context)
        except BaseException as error:
            return self._failure_of(error, context)

    async def _call_async(self, context: Context[object], bound: BoundArguments) -> ToolResult:
        current.set(context)
        try:
            if self.timeout is None:
                value = await self.signature.call(self.function, bound, context)
            else:
                value = await self._wait_for(self.signature.call(self.function, bound, context))
            return finish_call(self.returns.convert(value), context)
        except BaseException as error:
            return self._failure_of(error, context)

    async def _call_injected(
        self, session: "Session", context: Context[object], bound: BoundArguments
    ) -> ToolResult:
        from accord.server.injection import call_injected

        current.set(context)
        try:
            work = call_injected(self, session, context, bound, self.returns.convert)
            value: Any = await (work if self.timeout is None else self._wait_for(work))
            return finish_call(value, context)
        except BaseException as error:
            return self._failure_of(error, context)

    async def _wait_for(self, work: Awaitable[object]) -> object:
        limit = asyncio.timeout(self.timeout)
        try:
            async with limit:
                return await work
        except TimeoutError:
            if limit.expired():
                raise OutOfTime from None
            raise

    def _failure_of(self, error: BaseException, context: Context[object]) -> ToolResult:
        return failure_of(error, context, self, self.timeout)


def require_pages(error: UrlElicitationRequired, context: Context[object]) -> ToolResult:
    """Return the result of a call that needs its user to visit pages; or raise it."""
    from accord.server.questions.url_elicitation import answer_required

    answer = answer_required(error, context)
    if isinstance(answer, UrlElicitationRequired):
        raise answer from error
    return failure(answer.message) if isinstance(answer, RequestError) else answer


def build_tool(function: Callable[..., object], **details: Unpack[ToolDetails]) -> ToolEntry:
    """Return the entry of a function that is called as a tool.

    Args:
        function: called with the arguments.
        details: what clients see, and how it runs.

    Raises:
        RegistrationError: its parameters have no JSON form, or a detail does not fit it.
    """
    details = check_details("tool()", details, ToolDetails)
    found = signature.inspect(
        function,
        context_type=Context,
        written_schema=details.get("input_schema"),
        is_strict=details.get("strict", False),
    )
    returns = results.inspect(function, written_schema=details.get("output_schema"))
    name = check_name(details.get("name", found.name), "tool", function)
    check_tool(name, details, is_async=found.is_async)
    return ToolEntry(
        key=name,
        function=function,
        signature=found,
        details=details,
        scopes=parse_scopes(details.get("scopes", ())),
        tags=parse_tags(details.get("tags", ())),
        returns=returns,
        label=f"tool {name}",
        mode=_mode_of(found, is_inline=details.get("inline", False)),
        inline=details.get("inline", False),
        timeout=details.get("timeout"),
        facts=_facts_of(name, found, details),
        brief=None if details.get("timeout") else code_without_await(function),
    )


def _facts_of(name: str, found: signature.Signature, details: ToolDetails) -> ToolFacts:
    # Plain types say nothing of headers.
    mirrored = () if found.is_plain else find_mirrored(name, found.listed_schema)
    if not mirrored and not details.keys() & _FACTS:
        return NO_FACTS
    return ToolFacts(
        mirrored,
        details.get("task"),
        details.get("ask_first", False),
        details.get("idempotent", False),
    )


def _describe(entry: ToolEntry) -> Tool:
    details, found = entry.details, entry.signature
    return Tool(
        name=entry.key,
        input_schema=found.listed_schema,
        title=details.get("title"),
        description=details.get("description") or found.description or entry.key,
        output_schema=entry.returns.output_schema,
        annotations=details.get("annotations"),  # type: ignore[arg-type]  # converted by check_details()
        execution=None if details.get("task") is None else ToolExecution(details["task"]),
        icons=details.get("icons"),
        meta=details.get("meta"),
    )


def is_described(entry: ToolEntry) -> bool:
    """Tell whether a tool has a description; without one it is described by its name."""
    name, given = entry.key, entry.details.get("description")
    if not given and " " not in name and entry.signature.begins_with_prose:
        return True
    return (given or entry.signature.description or name) != name


def _mode_of(
    found: signature.Signature, *, is_inline: bool
) -> Literal["async", "thread", "inline", "injected"]:
    if found.plan is not None:
        return "injected"
    if found.is_async:
        return "async"
    return "inline" if is_inline else "thread"


def find_mirrored(name: str, schema: JsonObject) -> "tuple[MirroredArgument, ...]":
    """Return the arguments of a tool that headers repeat over HTTP.

    Raises:
        RegistrationError: its schema says so of an argument that no header can repeat.
    """
    if b'"x-mcp-header"' not in msgspec.json.encode(schema):
        return ()
    from accord.protocol.mirroring import mirrored_arguments

    try:
        return mirrored_arguments(schema)
    except ValueError as error:
        raise RegistrationError(f"tool {name!r}: {error}") from None


def finish_call(result: CallToolResult, context: Context[object]) -> ToolResult:
    """Return the result of a call that is over, as the channel of its request wants it."""
    channel = context._exchange.channel
    if channel is None:
        return result
    finished: ToolResult = channel.finish(result)
    return finished


def failure_of(
    error: BaseException, context: Context[Any], entry: Entry, timeout: float | None = None
) -> ToolResult:
    """Return the result of a call that raised; what is not the tool's failure is raised again.

    Args:
        error: what was raised.
        context: that of the request.
        entry: the tool.
        timeout: the seconds that it has.
    """
    if isinstance(error, _STOPS):
        raise error
    if context._exchange.channel is not None:
        questions = find_questions(error, context._exchange)
        if questions is not None:
            return questions
        error = without_unwound(error)
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        # The exception within says more than the group around it.
        error = error.exceptions[0]
    context._fail(error)
    if isinstance(error, UrlElicitationRequired):
        return require_pages(error, context)
    if isinstance(error, ToolError):
        return refusal(error)
    if isinstance(error, MissingCapability) and context._exchange.revision.handshake:
        return failure(error.message)
    if isinstance(error, RequestError):
        if error.is_received:
            # A request of the tool failed; the call itself was right.
            return failure(f"tool {entry.key} failed: {error.message}")
        raise error
    if isinstance(error, OutOfTime):
        return failure(f"tool {entry.key} did not finish within {timeout or 0:g} s (timeout)")
    reference = _log_failure(error, entry)
    if context._session.server.debug:
        return failure(f"tool {entry.key} failed: {type(error).__name__}: {error}")
    # The text of an unexpected exception may name files, hosts or secrets.
    why = ": its result cannot be sent" if isinstance(error, ResultError) else ""
    return failure(f"tool {entry.key} failed{why} (reference {reference})")


def _log_failure(error: BaseException, entry: Entry) -> str:
    """Log an unexpected exception; return the reference by which callers name it."""
    reference = os.urandom(4).hex()
    if isinstance(error, ResultError):
        # Frames of our own would say nothing of the author's code.
        log.error("%s, %s: %s (reference %s)", entry.label, entry.place, error, reference)
    else:
        from accord.runtime.source_files import trim_traceback

        shown = trim_traceback(error)
        log.error("tool %s failed (reference %s)", entry.key, reference, exc_info=shown)
    return reference


def refusal(error: ToolError) -> CallToolResult:
    """Return the error result of a tool that failed on purpose, with its data for programs."""
    result = failure(str(error))
    if error.data is not None:
        try:
            data = results.to_json(error.data)
        except ResultError as fault:
            log.warning("the data of ToolError(%.80r) is left out: %s", str(error), fault)
        else:
            # tools.structured-content.also-text
            result.content.append(TextContent(data.decode()))
            result.structured_content = msgspec.json.decode(data)
    return result


def failure(text: str) -> CallToolResult:
    """Return an error result with this text; half characters in it are escaped."""
    if not text.isascii():
        text = text.encode(errors="backslashreplace").decode()
    return CallToolResult([TextContent(text)], is_error=True)

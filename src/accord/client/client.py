"""The client: one method per operation of the protocol, on a connection that is already made."""

import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack, get_args, overload

from accord.client.arguments import check_text, check_texts, encode_arguments, to_reference
from accord.client.callbacks import to_roots
from accord.client.change_calls import ChangeCalls
from accord.client.link import Link
from accord.client.negotiation import Opening
from accord.client.options import CallOptions, Roots
from accord.client.plain_calls import PlainCalls
from accord.client.results import OutputSchema, PageGuard, decode_output
from accord.client.task_calls import TaskCalls, link_has_tasks, task_support
from accord.errors import (
    HeaderMismatch,
    LocalProtocolError,
    MethodNotFound,
    UrlElicitationRequired,
)
from accord.protocol import shape
from accord.types import (
    CallToolParams,
    CallToolResult,
    CompleteParams,
    Completion,
    CompletionArgument,
    CompletionContext,
    CreateMessageParams,
    DiscoverParams,
    ElicitParams,
    EmptyParams,
    GetPromptParams,
    GetPromptResult,
    Implementation,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    LoggingLevel,
    PageParams,
    ProgressParams,
    Prompt,
    PromptReference,
    ReadResourceParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
    RevisionId,
    ServerCapabilities,
    TaskHandle,
    Tool,
)
from accord.types._base import PageResult, constructor

if TYPE_CHECKING:
    from accord.client.middleware import ClientMiddleware
    from accord.client.single_rounds import SingleRounds

Output = TypeVar("Output")
Entry = TypeVar("Entry", Tool, Prompt, Resource, ResourceTemplate)
Page = TypeVar("Page", bound=PageResult)
_call_tool_params: Final = constructor(CallToolParams)


class ConnectionFacts:
    """What clients know about their connection."""

    _link: Link
    _opening: Opening

    @property
    def server_info(self) -> Implementation:
        """Name and version of the server; both empty where it does not introduce itself."""
        return self._opening.server_info

    @property
    def instructions(self) -> str | None:
        """How the server wants to be used, in its own words."""
        return self._opening.instructions

    @property
    def capabilities(self) -> ServerCapabilities:
        """The capabilities that the server declared."""
        return self._opening.capabilities

    @property
    def revision(self) -> RevisionId:
        """The negotiated revision."""
        return self._link.endpoint.revision.id

    @property
    def is_closed(self) -> bool:
        """Whether the connection is gone, ended by us or by the server."""
        return self._link.is_closed


class Client(ConnectionFacts, ChangeCalls, PlainCalls, TaskCalls):
    """A connected client, as `connect` returns it.

    Every operation takes the options of `CallOptions` as keywords: `timeout`, `cap`, `on_progress`,
    `meta`, `headers` and `fresh`. Each one raises

        LocalProtocolError: the negotiated revision or the server lacks it; nothing was sent.
        RequestError: the server answered with an error; subclasses tell the codes apart.
        RemoteProtocolError: the answer breaks the protocol.
        RequestTimeout: no answer came in time; the request was cancelled.
        ConnectionClosed: the connection is gone.

    A tool call, read or prompt that needs the user to visit pages raises UrlElicitationRequired.
    With `on_elicit_url` the pages are shown first, and the request is repeated once: when the
    server reports them complete, or after `timeout`.
    """

    def __init__(
        self, link: Link | None = None, opening: Opening | None = None, **options: object
    ) -> None:
        if link is None or not isinstance(opening, Opening) or options:
            # Other libraries make their clients in this way.
            raise TypeError(
                "a Client is what connect() returns: write "
                f"`async with connect({_abbreviate(link)}) as client`"
            )
        self._link = link
        self._opening = opening
        self._outputs: dict[str, OutputSchema] = {}
        self._task_support: dict[str, str] = {}
        # Bound to what is forgotten, not to the client, which only its users may keep alive.
        link.callbacks.on_tools_changed = partial(_forget, self._outputs, self._task_support)
        self._forgotten = weakref.finalize(self, link.abandon)
        self._forgotten.atexit = False
        if not link.revision.handshake and link.settings.hears_of_changes:
            from accord.client.subscribing import listen_for_callbacks

            listen_for_callbacks(link)

    def __repr__(self) -> str:
        info = self.server_info
        state = "closed" if self.is_closed else self.revision
        return f"<Client of {info.name} {info.version}, {state}>"

    def add_middleware(self, layer: "ClientMiddleware") -> None:
        """Put a function around every later request, inside of those that are there already.

        It is `async def layer(request, proceed)`; `accord.client.ClientRequest` describes what it
        sees. `await proceed()` sends the request and returns the result.
        """
        from accord.client.middleware import check_middleware

        self._link.middleware += check_middleware([layer])

    # -- ending

    async def close(self) -> None:
        """End the connection, and the server with all its children where we launched it.

        May be called from any task, any number of times; afterwards nothing of it is left.
        """
        self._forgotten.detach()
        await self._link.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _all(
        self,
        method: str,
        fetch: Callable[..., Awaitable[Page]],
        entries: Callable[[Page], list[Entry]],
        how: CallOptions,
    ) -> AsyncIterator[Entry]:
        pages = PageGuard(method, self._link.settings.empty_pages)
        cursor = None
        while True:
            page = await fetch(cursor, **how)
            found = entries(page)
            for entry in found:
                yield entry
            cursor = page.next_cursor
            if cursor is None:
                return
            pages.check(found, cursor)

    # -- tools

    async def list_tools(
        self, cursor: str | None = None, **how: Unpack[CallOptions]
    ) -> ListToolsResult:
        """Fetch one page of tools: the first, or the one a cursor leads to.

        Over HTTP, in revisions without handshake, a tool is left out and logged if its schema asks
        for headers in a way that breaks the rules.
        """
        page: ListToolsResult = await self._link.fetch("tools/list", PageParams(cursor), how)
        revision = self.revision
        if self._link.transport is not None and not self._link.revision.handshake:
            from accord.client.mirrored import learn_headers

            learn_headers(self._link, page)
        for tool in page.tools:
            # A schema has no meaning in a revision that does not define it.
            schema = None if tool.output_schema is None else shape.narrow(tool, revision)
            if schema is not None and schema.output_schema is not None:
                self._outputs[tool.name] = OutputSchema(tool.name, schema.output_schema)
            else:
                self._outputs.pop(tool.name, None)
        if link_has_tasks(self._link):
            self._task_support.update((tool.name, task_support(tool)) for tool in page.tools)
        return page

    def tools(self, **how: Unpack[CallOptions]) -> AsyncIterator[Tool]:
        """Iterate over all tools, fetching pages as needed."""
        return self._all("tools/list", self.list_tools, lambda page: page.tools, how)

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        result_type: None = None,
        **how: Unpack[CallOptions],
    ) -> CallToolResult: ...

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        result_type: type[Output],
        **how: Unpack[CallOptions],
    ) -> Output: ...

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        result_type: object,
        **how: Unpack[CallOptions],
    ) -> Any: ...

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        result_type: Any = None,
        **how: Unpack[CallOptions],
    ) -> Any:
        """Call a tool.

        The structured part of the result is validated against the tool's output schema if that is
        known, which it is once the tool was listed, and if the extra `schema` is installed.

        Args:
            name: the tool.
            arguments: its arguments by name; anything msgspec can encode.
            result_type: the type to decode the result into, such as `int` or `list[int] | None`;
                type checkers know the value where it is a class. Without it the result is
                returned as it came, also where the tool reports an error.

        Raises:
            ToolError: the tool reports an error, and `result_type` was given.
            RemoteProtocolError: the result breaks the output schema, or does not fit the type.
        """
        if name.__class__ is not str:
            check_text("the name of the tool", name)
        params = _call_tool_params(name, encode_arguments(arguments))
        result: Any
        try:
            if self._task_support.get(name) == "required":  # tasks.tool.required-tasked
                result = await self._call_as_task(params, how)
            else:
                result = await self._link.ask("tools/call", params, how)
        except UrlElicitationRequired as error:
            result = await self._link.visit_and_repeat(error, "tools/call", params, how)
        except HeaderMismatch:
            # http.param-headers.mismatch-client-relists
            from accord.client.mirrored import learn_anew

            if self._link.transport is None or not await learn_anew(self._link, name):
                raise
            result = await self._link.ask("tools/call", params, how)
        except MethodNotFound:
            # Perhaps the tool requires a task, and was not listed yet.
            if not await self._requires_task(name):
                raise
            result = await self._call_as_task(params, how)
        if result.__class__ is TaskHandle:  # the server decided so
            result = await self._wait_for_task(params, result, how)
        schema = self._outputs.get(name) if self._outputs else None
        if schema is not None:
            schema.check(result)
        return result if result_type is None else decode_output(name, result, result_type)

    @property
    def rounds(self) -> "SingleRounds":
        """The same requests one round at a time: questions of the server are returned.

        For programs that ask their users elsewhere, such as web pages and gateways. `rounds` has
        `call_tool`, `get_prompt` and `read_resource`. An `InputRequiredResult` says that the same
        request is to be repeated with `answers=` and `state=`, by any client of any process.
        """
        from accord.client.single_rounds import SingleRounds

        return SingleRounds(self)

    async def _requires_task(self, name: str) -> bool:
        """Whether a tool runs as a task alone; the tools are listed where that is not known.

        Only the list can say so: a tool may answer with the same error after it has done its work.
        """
        if link_has_tasks(self._link) and name not in self._task_support:
            async for tool in self.tools():
                if tool.name == name:
                    break
        return self._task_support.get(name) == "required"

    # -- resources

    async def list_resources(
        self, cursor: str | None = None, **how: Unpack[CallOptions]
    ) -> ListResourcesResult:
        """Fetch one page of resources."""
        page: ListResourcesResult = await self._link.fetch(
            "resources/list", PageParams(cursor), how
        )
        return page

    def resources(self, **how: Unpack[CallOptions]) -> AsyncIterator[Resource]:
        """Iterate over all resources, fetching pages as needed."""
        return self._all("resources/list", self.list_resources, lambda page: page.resources, how)

    async def list_resource_templates(
        self, cursor: str | None = None, **how: Unpack[CallOptions]
    ) -> ListResourceTemplatesResult:
        """Fetch one page of resource templates."""
        page: ListResourceTemplatesResult = await self._link.fetch(
            "resources/templates/list", PageParams(cursor), how
        )
        return page

    def resource_templates(self, **how: Unpack[CallOptions]) -> AsyncIterator[ResourceTemplate]:
        """Iterate over all resource templates, fetching pages as needed."""
        fetch = self.list_resource_templates
        return self._all(
            "resources/templates/list", fetch, lambda page: page.resource_templates, how
        )

    async def read_resource(self, uri: str, **how: Unpack[CallOptions]) -> ReadResourceResult:
        """Read a resource; raises ResourceNotFound where the server does not have it."""
        check_text("the URI", uri)
        params = ReadResourceParams(uri)
        result: ReadResourceResult
        try:
            result = await self._link.fetch("resources/read", params, how)
        except UrlElicitationRequired as error:
            result = await self._link.visit_and_repeat(error, "resources/read", params, how)
        return result

    # -- prompts, completion

    async def list_prompts(
        self, cursor: str | None = None, **how: Unpack[CallOptions]
    ) -> ListPromptsResult:
        """Fetch one page of prompts."""
        page: ListPromptsResult = await self._link.fetch("prompts/list", PageParams(cursor), how)
        return page

    def prompts(self, **how: Unpack[CallOptions]) -> AsyncIterator[Prompt]:
        """Iterate over all prompts, fetching pages as needed."""
        return self._all("prompts/list", self.list_prompts, lambda page: page.prompts, how)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, **how: Unpack[CallOptions]
    ) -> GetPromptResult:
        """Fill in a prompt."""
        check_text("the name of the prompt", name)
        filled = None if arguments is None else dict(arguments)
        check_texts("a prompt", filled or {})
        params = GetPromptParams(name, filled)
        result: GetPromptResult
        try:
            result = await self._link.ask("prompts/get", params, how)
        except UrlElicitationRequired as error:
            result = await self._link.visit_and_repeat(error, "prompts/get", params, how)
        return result

    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference | str,
        argument: str,
        value: str,
        *,
        context: Mapping[str, str] | None = None,
        **how: Unpack[CallOptions],
    ) -> Completion:
        """Ask for suggestions while a user types an argument.

        Args:
            ref: the prompt or the resource template. Of a text, one with a variable in braces or
                with `://` is a template, any other the name of a prompt.
            argument: the name of the argument.
            value: what was typed so far.
            context: arguments that are filled in already; older revisions do not carry them.
        """
        check_text("the name of the argument", argument)
        check_text("what was typed", value)
        check_texts("the context", context or {})
        known = None if context is None else CompletionContext(dict(context))
        params = CompleteParams(to_reference(ref), CompletionArgument(argument, value), known)
        completion: Completion = (
            await self._link.ask("completion/complete", params, how)
        ).completion
        return completion

    # -- the rest

    async def ping(self, **how: Unpack[CallOptions]) -> None:
        """Make sure that the server still answers.

        In revisions without `ping` it is asked what it speaks, which every server answers.
        """
        if self._link.revision.handshake:
            await self._link.ask("ping", EmptyParams(), how)
        else:
            await self._link.ask("server/discover", DiscoverParams(), how)

    async def set_log_level(self, level: LoggingLevel, **how: Unpack[CallOptions]) -> None:
        """Choose the least level of log messages; they reach `on_log`.

        In revisions without handshake nothing is sent now: the level goes with each later request.
        Until one is chosen it is "info", if `on_log` was given; otherwise the server sends none.
        """
        if level not in get_args(LoggingLevel):
            levels = ", ".join(get_args(LoggingLevel))
            raise ValueError(f"there is no log level {level!r}; expected one of {levels}")
        await self._link.set_log_level(level, how)

    async def roots_changed(self, roots: Roots | None = None) -> None:
        """Tell the server that the roots changed.

        In revisions without handshake servers ask for roots when they need them; nothing is sent.

        Args:
            roots: the roots from now on; None when a function given earlier returns them.

        Raises:
            LocalProtocolError: the connection was made without `roots`.
        """
        callbacks = self._link.callbacks
        fresh = roots if roots is None or callable(roots) else to_roots(roots)
        if self._link.revision.handshake:
            self._link.notify("notifications/roots/list_changed", EmptyParams())
        elif callbacks.roots is None:
            raise LocalProtocolError("roots change on connections that were made with roots alone")
        if fresh is not None:
            callbacks.roots = fresh

    async def report_progress(
        self,
        asked: CreateMessageParams | ElicitParams,
        progress: float,
        total: float | None = None,
        *,
        message: str | None = None,
    ) -> None:
        """Report progress on the answer to a question of the server, if it asked for that.

        Values that do not rise are left out, as are those after the answer.

        Args:
            asked: what `on_sample` or `on_elicit` was called with.
            progress: how far.
            total: how far there is to go, where that is known.
            message: what is being done; older revisions do not carry it.
        """
        token = (asked.meta or {}).get("progressToken")
        if token is not None:
            self._link.report(ProgressParams(token, progress, total, message))


def _forget(outputs: dict[str, OutputSchema], task_support: dict[str, str]) -> None:
    outputs.clear()
    task_support.clear()


def _abbreviate(target: object) -> str:
    return repr(target) if isinstance(target, str) and len(target) <= 100 else "..."

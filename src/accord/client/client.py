"""The client: one method per operation of the protocol, on a connection that is already made."""

import weakref
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack, get_args, overload

from accord.client.callbacks import to_roots
from accord.client.link import Link, learn_anew, learn_headers
from accord.client.negotiation import Opening
from accord.client.options import (
    CallOptions,
    Roots,
    check_text,
    check_texts,
    encode_arguments,
    to_reference,
)
from accord.client.results import PageGuard, decode_output
from accord.errors import (
    HeaderMismatch,
    LocalProtocolError,
    MethodNotFound,
    UrlElicitationRequired,
)
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
from accord.types._base import constructor

if TYPE_CHECKING:
    from accord.client.middleware import ClientMiddleware
    from accord.client.rounds import SingleRounds
    from accord.client.subscriptions import Listening
    from accord.client.tasks import ToolTask

Output = TypeVar("Output")
_LISTS: Final = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "resource_templates": "resources/templates/list",
}
_call_tool_params: Final = constructor(CallToolParams)


class Client:
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
        link.opening = opening
        self._forgotten = weakref.finalize(self, link.abandon)
        self._forgotten.atexit = False
        if not link.revision.handshake and link.settings.hears_of_changes:
            from accord.client.subscriptions import listen_for_callbacks

            listen_for_callbacks(link)

    def __repr__(self) -> str:
        info = self.server_info
        state = "closed" if self.is_closed else self.revision
        return f"<Client of {info.name} {info.version}, {state}>"

    # -- the connection

    @property
    def server_info(self) -> Implementation:
        """Name and version of the server; both empty where it does not introduce itself."""
        return self._link.opening.server_info

    @property
    def instructions(self) -> str | None:
        """How the server wants to be used, in its own words."""
        return self._link.opening.instructions

    @property
    def capabilities(self) -> ServerCapabilities:
        """The capabilities that the server declared."""
        return self._link.opening.capabilities

    @property
    def revision(self) -> RevisionId:
        """The negotiated revision."""
        return self._link.endpoint.revision.id

    @property
    def is_closed(self) -> bool:
        """Whether the connection is gone, ended by us or by the server."""
        return self._link.is_closed

    def add_middleware(self, layer: "ClientMiddleware") -> None:
        """Put a function around every later request, inside of those that are there already.

        It is `async def layer(request, proceed)`; `accord.client.ClientRequest` describes what it
        sees. `await proceed()` sends the request and returns the result.
        """
        from accord.client.middleware import check_middleware

        self._link.middleware += check_middleware([layer])

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

    async def _pages(self, kind: str, how: CallOptions) -> AsyncIterator[list[Any]]:
        """Fetch a list, page by page."""
        guard = PageGuard(_LISTS[kind], self._link.settings.empty_pages)
        cursor = None
        while True:
            page = await getattr(self, f"list_{kind}")(cursor, **how)
            found = getattr(page, kind)
            yield found
            cursor = page.next_cursor
            if cursor is None:
                return
            guard.check(found, cursor)

    async def _all(self, kind: str, how: CallOptions) -> AsyncIterator[Any]:
        async for page in self._pages(kind, how):
            for entry in page:
                yield entry

    # -- tools

    async def list_tools(
        self, cursor: str | None = None, **how: Unpack[CallOptions]
    ) -> ListToolsResult:
        """Fetch one page of tools: the first, or the one a cursor leads to.

        Over HTTP, in revisions without handshake, a tool is left out and logged if its schema asks
        for headers in a way that breaks the rules.
        """
        page: ListToolsResult = await self._link.fetch("tools/list", PageParams(cursor), how)
        if self._link.transport is not None and not self._link.revision.handshake:
            learn_headers(self._link, page)
        self._link.learn_tools(page.tools)
        return page

    def tools(self, **how: Unpack[CallOptions]) -> AsyncIterator[Tool]:
        """Iterate over all tools, fetching pages as needed."""
        return self._all("tools", how)

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
            if self._link.task_support.get(name) == "required":  # tasks.tool.required-tasked
                result = await self._call_as_task(params, how)
            else:
                result = await self._link.ask("tools/call", params, how)
        except UrlElicitationRequired as error:
            result = await self._link.visit_and_repeat(error, "tools/call", params, how)
        except HeaderMismatch:
            # http.param-headers.mismatch-client-relists
            if self._link.transport is None or not await learn_anew(self._link, name):
                raise
            result = await self._link.ask("tools/call", params, how)
        except MethodNotFound:
            # Perhaps the tool requires a task, and was not listed yet.
            if not await self._requires_task(name):
                raise
            result = await self._call_as_task(params, how)
        if result.__class__ is TaskHandle:  # the server decided so
            from accord.client.tasks import wait_for_handle

            result = await wait_for_handle(self._link, params, result, how)
        schema = self._link.outputs.get(name) if self._link.outputs else None
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
        from accord.client.rounds import SingleRounds

        return SingleRounds(self)

    async def _requires_task(self, name: str) -> bool:
        """Whether a tool runs as a task alone; the tools are listed where that is not known.

        Only the list can say so: a tool may answer with the same error after it has done its work.
        """
        if self._link.has_tasks and name not in self._link.task_support:
            async for tool in self.tools():
                if tool.name == name:
                    break
        return self._link.task_support.get(name) == "required"

    # -- tools as tasks

    async def start_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        ttl: float | None = None,
        **how: Unpack[CallOptions],
    ) -> "ToolTask":
        """Call a tool as a task, whose result is fetched later; returns when it has begun.

        Args:
            name: the tool.
            arguments: its arguments by name.
            ttl: seconds for which the server should keep the task; it may decide otherwise.

        Raises:
            LocalProtocolError: the negotiated revision, the server or the tool has no tasks.
        """
        from accord.client.tasks import start

        check_text("the name of the tool", name)
        if self._link.task_support.get(name) == "forbidden":  # tasks.tool.forbidden-not-tasked
            raise LocalProtocolError(f"tool {name!r} does not run as a task, says the server")
        params = CallToolParams(name, encode_arguments(arguments))
        return await start(self._link, params, how, ttl=ttl, schema=self._link.outputs.get(name))

    async def task(self, id: str, **how: Unpack[CallOptions]) -> "ToolTask":
        """Come back to a task by its id, also on another connection.

        Raises:
            InvalidParams: the server does not know it, or not as ours.
        """
        from accord.client.tasks import find

        return await find(self._link, id, how)

    def tasks(self, **how: Unpack[CallOptions]) -> "AsyncIterator[ToolTask]":
        """Iterate over our tasks, of servers that list them (only those of 2025-11-25 do)."""
        from accord.client.tasks import find_all

        return find_all(self._link, how)

    async def _call_as_task(self, params: CallToolParams, how: CallOptions) -> CallToolResult:
        from accord.client.tasks import start, wait_for

        return await wait_for(await start(self._link, params, how), how)

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
        return self._all("resources", how)

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
        return self._all("resource_templates", how)

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

    # -- changes

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Iterable[str] = (),
    ) -> "Listening":
        """Iterate over the changes that the server reports; without arguments, of all its lists.

        Equal changes that wait to be read are one, so a slow reader delays nothing. When the stream
        breaks it is opened again; what happened in between is lost, which `NoticesLost` says. The
        iteration ends when the server ends the stream. Errors are raised as by other operations.

        Args:
            tools: whether to hear of changes of the list of tools, as `ToolsChanged`.
            prompts: of the list of prompts, as `PromptsChanged`.
            resources: of the list of resources, as `ResourcesChanged`.
            uris: the resources to hear of, as `ResourceUpdated`.
        """
        from accord.client.subscriptions import Listening, make_filter

        wanted = make_filter(uris, tools=tools, prompts=prompts, resources=resources)
        return Listening(self._link, wanted, self)

    async def subscribe(self, uri: str, **how: Unpack[CallOptions]) -> None:
        """Ask to hear of changes of a resource; they reach `on_resource_updated`."""
        from accord.client.subscriptions import subscribe

        await subscribe(self._link, uri, how)

    async def unsubscribe(self, uri: str, **how: Unpack[CallOptions]) -> None:
        """Ask to hear no more of a resource."""
        from accord.client.subscriptions import unsubscribe

        await unsubscribe(self._link, uri, how)

    # -- prompts, completion

    async def list_prompts(
        self, cursor: str | None = None, **how: Unpack[CallOptions]
    ) -> ListPromptsResult:
        """Fetch one page of prompts."""
        page: ListPromptsResult = await self._link.fetch("prompts/list", PageParams(cursor), how)
        return page

    def prompts(self, **how: Unpack[CallOptions]) -> AsyncIterator[Prompt]:
        """Iterate over all prompts, fetching pages as needed."""
        return self._all("prompts", how)

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

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, **how: Unpack[CallOptions]
    ) -> Any:
        """Send a request of any method, such as one of an extension, and return plain JSON.

        The rules of the protocol hold as for other operations; members that no revision defines are
        sent and returned as they are. A result that asks questions, or is a task, is returned, too.

        Args:
            method: of the negotiated revision, or of an extension.
            params: its params by their names in the protocol; anything msgspec can encode.
        """
        from accord.client.plain_requests import request_plainly

        return await request_plainly(self._link, method, params, how)

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


def _abbreviate(target: object) -> str:
    return repr(target) if isinstance(target, str) and len(target) <= 100 else "..."

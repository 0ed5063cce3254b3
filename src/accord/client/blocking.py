"""The same client for plain synchronous code: scripts, notebooks, workers.

Each client runs on a loop in a thread of its own, so it needs no event loop around it, and must not
be used on the thread of one: it would stop that loop while it waits.
"""

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping
from types import TracebackType
from typing import Final, Self, TypeVar, Unpack, overload

from accord.client.client import Client as AsyncClient
from accord.client.connect import Target
from accord.client.connect import connect as connect_async
from accord.client.options import CallOptions, ConnectOptions, Roots
from accord.client.results import PageGuard
from accord.errors import ConnectionClosed
from accord.types import (
    CallToolResult,
    Completion,
    CreateMessageParams,
    ElicitParams,
    GetPromptResult,
    Implementation,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    LoggingLevel,
    Prompt,
    PromptReference,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
    RevisionId,
    ServerCapabilities,
    Tool,
)
from accord.types.messages import PageResult

__all__ = ["Client", "connect"]

Value = TypeVar("Value")
Output = TypeVar("Output")
Entry = TypeVar("Entry", Tool, Prompt, Resource, ResourceTemplate)
Page = TypeVar("Page", bound=PageResult)

# Closing takes exit_grace and terminate_grace at most; this is for a loop that hangs.
_CLOSE_EXPECTED: Final = 30.0


def connect(target: Target, **options: Unpack[ConnectOptions]) -> "BlockingClient":
    """Connect to a server and wait until that is done; options and errors as for `accord.connect`.

    The client is closed by `close`, by leaving its `with` block, and at the latest at exit.
    """
    _refuse_on_a_loop()
    thread = _LoopThread()
    try:
        return BlockingClient(thread.run(_connect_async(target, options)), thread)
    except BaseException:
        thread.stop()
        raise


async def _connect_async(target: Target, options: ConnectOptions) -> AsyncClient:
    return await connect_async(target, **options)


class _LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True, name="accord-loop")
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def run(self, work: Coroutine[object, object, Value]) -> Value:
        """Run a coroutine there and wait for it here."""
        try:
            _refuse_on_a_loop()
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        except RuntimeError:
            work.close()
            raise
        try:
            return future.result()
        except BaseException:
            # An interrupt reaches us, not the loop: the request is cancelled there.
            future.cancel()
            raise

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # closed already
            self.loop.call_soon_threadsafe(self.loop.stop)
        if self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_EXPECTED)


def _refuse_on_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "the blocking client would stop the event loop that runs on this thread; "
        "use `await accord.connect(...)` here, or a thread without a loop"
    )


def _shut_down(client: AsyncClient, thread: _LoopThread) -> None:
    """Close a client from any thread, whether or not it may wait."""

    async def close() -> None:
        try:
            await client.close()
            remaining = asyncio.all_tasks() - {asyncio.current_task()}
            if remaining:
                # Calls of other threads end by themselves now, and those threads wait for them.
                await asyncio.wait(remaining, timeout=1)
        finally:
            # In the next turn: this one resolves the future that the caller waits for.
            thread.loop.call_soon(thread.loop.stop)

    closing = close()
    try:
        future = asyncio.run_coroutine_threadsafe(closing, thread.loop)
    except RuntimeError:  # the loop is closed
        closing.close()
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            future.result(_CLOSE_EXPECTED)
        thread.stop()


class BlockingClient:
    """A connected client whose methods wait for their results.

    The methods, their options and their errors are those of `accord.Client`; lists are plain
    iterators. May be shared by threads.
    """

    def __init__(self, client: AsyncClient, thread: _LoopThread) -> None:
        self._client = client
        self._thread = thread
        self._shut_down = weakref.finalize(self, _shut_down, client, thread)

    def __repr__(self) -> str:
        return repr(self._client).replace("<Client", "<blocking Client", 1)

    def _run(self, work: Coroutine[object, object, Value]) -> Value:
        if not self._shut_down.alive:
            work.close()
            raise ConnectionClosed("the client is closed")
        return self._thread.run(work)

    # -- facts from the opening

    @property
    def server_info(self) -> Implementation:
        """Name and version of the server."""
        return self._client.server_info

    @property
    def instructions(self) -> str | None:
        """How the server wants to be used, in its own words."""
        return self._client.instructions

    @property
    def capabilities(self) -> ServerCapabilities:
        """The capabilities that the server declared."""
        return self._client.capabilities

    @property
    def revision(self) -> RevisionId:
        """The negotiated revision."""
        return self._client.revision

    # -- ending

    @property
    def is_closed(self) -> bool:
        """Whether the connection is gone."""
        return self._client.is_closed

    def close(self) -> None:
        """End the connection; may be repeated."""
        _refuse_on_a_loop()
        self._shut_down()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _pages(self, method: str) -> PageGuard:
        return PageGuard(method, self._client._link.settings.empty_pages)

    # -- tools

    def list_tools(self, cursor: str | None = None, **how: Unpack[CallOptions]) -> ListToolsResult:
        """Fetch one page of tools."""
        return self._run(self._client.list_tools(cursor, **how))

    def tools(self, **how: Unpack[CallOptions]) -> Iterator[Tool]:
        """Iterate over all tools, fetching pages as needed."""
        return _all(
            self._pages("tools/list"),
            lambda at: self.list_tools(at, **how),
            lambda page: page.tools,
        )

    @overload
    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        result_type: None = None,
        **how: Unpack[CallOptions],
    ) -> CallToolResult: ...

    @overload
    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        result_type: type[Output],
        **how: Unpack[CallOptions],
    ) -> Output: ...

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        result_type: type[Output] | None = None,
        **how: Unpack[CallOptions],
    ) -> CallToolResult | Output:
        """Call a tool; see `accord.Client.call_tool`."""
        if result_type is None:
            return self._run(self._client.call_tool(name, arguments, **how))
        return self._run(self._client.call_tool(name, arguments, result_type=result_type, **how))

    # -- resources

    def list_resources(
        self, cursor: str | None = None, **how: Unpack[CallOptions]
    ) -> ListResourcesResult:
        """Fetch one page of resources."""
        return self._run(self._client.list_resources(cursor, **how))

    def resources(self, **how: Unpack[CallOptions]) -> Iterator[Resource]:
        """Iterate over all resources, fetching pages as needed."""
        return _all(
            self._pages("resources/list"),
            lambda at: self.list_resources(at, **how),
            lambda page: page.resources,
        )

    def list_resource_templates(
        self, cursor: str | None = None, **how: Unpack[CallOptions]
    ) -> ListResourceTemplatesResult:
        """Fetch one page of resource templates."""
        return self._run(self._client.list_resource_templates(cursor, **how))

    def resource_templates(self, **how: Unpack[CallOptions]) -> Iterator[ResourceTemplate]:
        """Iterate over all resource templates, fetching pages as needed."""
        return _all(
            self._pages("resources/templates/list"),
            lambda at: self.list_resource_templates(at, **how),
            lambda page: page.resource_templates,
        )

    def read_resource(self, uri: str, **how: Unpack[CallOptions]) -> ReadResourceResult:
        """Read a resource."""
        return self._run(self._client.read_resource(uri, **how))

    def subscribe(self, uri: str, **how: Unpack[CallOptions]) -> None:
        """Ask to hear of changes of a resource."""
        self._run(self._client.subscribe(uri, **how))

    def unsubscribe(self, uri: str, **how: Unpack[CallOptions]) -> None:
        """Ask to hear no more of a resource."""
        self._run(self._client.unsubscribe(uri, **how))

    # -- prompts, completion

    def list_prompts(
        self, cursor: str | None = None, **how: Unpack[CallOptions]
    ) -> ListPromptsResult:
        """Fetch one page of prompts."""
        return self._run(self._client.list_prompts(cursor, **how))

    def prompts(self, **how: Unpack[CallOptions]) -> Iterator[Prompt]:
        """Iterate over all prompts, fetching pages as needed."""
        return _all(
            self._pages("prompts/list"),
            lambda at: self.list_prompts(at, **how),
            lambda page: page.prompts,
        )

    def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, **how: Unpack[CallOptions]
    ) -> GetPromptResult:
        """Fill in a prompt."""
        return self._run(self._client.get_prompt(name, arguments, **how))

    def complete(
        self,
        ref: PromptReference | ResourceTemplateReference | str,
        argument: str,
        value: str,
        *,
        context: Mapping[str, str] | None = None,
        **how: Unpack[CallOptions],
    ) -> Completion:
        """Ask for suggestions while a user types an argument."""
        return self._run(self._client.complete(ref, argument, value, context=context, **how))

    # -- the rest

    def ping(self, **how: Unpack[CallOptions]) -> None:
        """Make sure that the server still answers."""
        self._run(self._client.ping(**how))

    def set_log_level(self, level: LoggingLevel, **how: Unpack[CallOptions]) -> None:
        """Choose the least level of log messages."""
        self._run(self._client.set_log_level(level, **how))

    def roots_changed(self, roots: Roots | None = None) -> None:
        """Tell the server that the roots changed."""
        self._run(self._client.roots_changed(roots))

    def report_progress(
        self,
        asked: CreateMessageParams | ElicitParams,
        progress: float,
        total: float | None = None,
        *,
        message: str | None = None,
    ) -> None:
        """Tell the server how far the answer to its question has come."""
        self._run(self._client.report_progress(asked, progress, total, message=message))


def _all(
    pages: PageGuard,
    fetch: Callable[[str | None], Page],
    entries: Callable[[Page], list[Entry]],
) -> Iterator[Entry]:
    page = fetch(None)
    while True:
        found = entries(page)
        yield from found
        if page.next_cursor is None:
            return
        pages.check(found, page.next_cursor)
        page = fetch(page.next_cursor)


Client = BlockingClient
"""The public name: `accord.client.blocking.Client`."""

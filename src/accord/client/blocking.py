"""The same client for plain synchronous code: scripts, notebooks, workers.

Each client runs on a loop in a thread of its own, so it needs no event loop around it, and must not
be used on the thread of one: it would stop that loop while it waits.
"""

import asyncio
import contextlib
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from functools import update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    overload,
)

from accord.client.client import Client as AsyncClient
from accord.client.connect import Target
from accord.client.connect import connect as connect_async
from accord.client.options import CallOptions, ConnectOptions
from accord.client.rounds import SingleRounds
from accord.errors import ConnectionClosed
from accord.types import (
    CallToolResult,
    Implementation,
    Prompt,
    Resource,
    ResourceTemplate,
    RevisionId,
    ServerCapabilities,
    TaskStatus,
    Tool,
)

if TYPE_CHECKING:
    from accord.client.blocking_group import BlockingClientGroup
    from accord.client.client_group import ClientGroup, OptionsFor
    from accord.client.configuration import Configuration
    from accord.client.middleware import ClientMiddleware
    from accord.client.subscriptions import Change
    from accord.client.tasks import TaskUpdate, ToolTask


__all__ = ["Client", "connect", "connect_all"]

Params = ParamSpec("Params")
Value = TypeVar("Value")
Output = TypeVar("Output")
Inner = TypeVar("Inner")
Opened = TypeVar("Opened", "AsyncClient", "ClientGroup")

# Closing takes exit_grace and terminate_grace at most; this is for a loop that hangs.
_CLOSE_EXPECTED: Final = 30.0


def connect(target: Target, **options: Unpack[ConnectOptions]) -> "BlockingClient":
    """Connect to a server and wait until that is done; options and errors as for `accord.connect`.

    The client is closed by `close`, by leaving its `with` block, and at the latest at exit.
    """
    refuse_on_a_loop()
    thread = LoopThread()
    try:
        return BlockingClient(thread.run(_connect_async(target, options)), thread)
    except BaseException:
        thread.stop()
        raise


def connect_all(
    source: "Configuration",
    *,
    separator: str = ".",
    options_for: "OptionsFor | None" = None,
    **options: Unpack[ConnectOptions],
) -> "BlockingClientGroup":
    """Connect to all servers of a configuration at once, as `accord.connect_all` does, and wait.

    The clients share a thread. They are closed by `close`, by leaving the `with` block, and at the
    latest at exit.
    """
    from accord.client.blocking_group import BlockingClientGroup
    from accord.client.client_group import connect_all as connect_all_async

    refuse_on_a_loop()
    connecting = connect_all_async(source, separator=separator, options_for=options_for, **options)

    async def open_all() -> "ClientGroup":
        return await connecting

    thread = LoopThread()
    try:
        return BlockingClientGroup(thread.run(open_all()), thread)
    except BaseException:
        thread.stop()
        raise


async def _connect_async(target: Target, options: ConnectOptions) -> AsyncClient:
    return await connect_async(target, **options)


class LoopThread:
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
            refuse_on_a_loop()
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


def refuse_on_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "the blocking client would stop the event loop that runs on this thread; "
        "use `await accord.connect(...)` here, or a thread without a loop"
    )


def shut_down(client: "AsyncClient | ClientGroup", thread: LoopThread) -> None:
    """Close a client, or several, from any thread, whether or not it may wait."""

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


class Runs(Protocol):
    """Runs a coroutine on the loop of a client, and waits for it."""

    def __call__(self, work: Coroutine[object, object, Value]) -> Value:
        """Return its result."""


class Waiting(Generic[Inner]):
    """Waits for the methods of an async object."""

    _inner: Inner
    _run: Runs


def wait_for(
    method: Callable[Concatenate[Inner, Params], Coroutine[object, object, Value]],
) -> Callable[Concatenate[Waiting[Inner], Params], Value]:
    """Return a method with the signature of an async one, which waits for its result."""

    def wait(self: Waiting[Inner], /, *args: Params.args, **how: Params.kwargs) -> Value:
        return self._run(method(self._inner, *args, **how))

    update_wrapper(wait, method)
    return wait


class BlockingRounds(Waiting[SingleRounds]):
    """Requests of which each is one round, as `Client.rounds` returns it."""

    def __init__(self, client: "BlockingClient") -> None:
        self._inner = client._inner.rounds
        self._run = client._run

    call_tool = wait_for(SingleRounds.call_tool)
    get_prompt = wait_for(SingleRounds.get_prompt)
    read_resource = wait_for(SingleRounds.read_resource)


class BlockingConnections(Waiting[Opened]):
    """One or several connections on the loop of a thread, until they are closed.

    Args:
        inner: the async client, or the group of them.
        thread: has its loop.
        gone: what is said of calls after the end.
    """

    def __init__(self, inner: Opened, thread: LoopThread, gone: str) -> None:
        self._inner = inner
        self._thread = thread
        self._gone = gone
        self._shut_down: weakref.finalize[..., Any] = weakref.finalize(
            self, shut_down, inner, thread
        )

    def __repr__(self) -> str:
        return repr(self._inner).replace("<", "<blocking ", 1)

    def _run(self, work: Coroutine[object, object, Value]) -> Value:
        if not self._shut_down.alive:
            work.close()
            raise ConnectionClosed(self._gone)
        return self._thread.run(work)

    def close(self) -> None:
        """End what is connected; may be repeated."""
        refuse_on_a_loop()
        self._shut_down()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BlockingClient(BlockingConnections[AsyncClient]):
    """A connected client whose methods wait for their results.

    The methods, their options and their errors are those of `accord.Client`; lists are plain
    iterators. May be shared by threads.
    """

    def __init__(
        self,
        client: AsyncClient | None = None,
        thread: LoopThread | None = None,
        **options: object,
    ) -> None:
        if client is None or thread is None or options:
            raise TypeError(
                "a blocking Client is what connect() returns: write "
                "`with accord.client.blocking.connect(...) as client`"
            )
        super().__init__(client, thread, "the client is closed")

    # -- the connection

    @property
    def server_info(self) -> Implementation:
        """Name and version of the server; both empty where it does not introduce itself."""
        return self._inner.server_info

    @property
    def instructions(self) -> str | None:
        """How the server wants to be used, in its own words."""
        return self._inner.instructions

    @property
    def capabilities(self) -> ServerCapabilities:
        """The capabilities that the server declared."""
        return self._inner.capabilities

    @property
    def revision(self) -> RevisionId:
        """The negotiated revision."""
        return self._inner.revision

    @property
    def is_closed(self) -> bool:
        """Whether the connection is gone, ended by us or by the server."""
        return self._inner.is_closed

    # -- lists

    list_tools = wait_for(AsyncClient.list_tools)
    list_resources = wait_for(AsyncClient.list_resources)
    list_resource_templates = wait_for(AsyncClient.list_resource_templates)
    list_prompts = wait_for(AsyncClient.list_prompts)

    def tools(self, **how: Unpack[CallOptions]) -> Iterator[Tool]:
        """Iterate over all tools, fetching pages as needed."""
        return self._all("tools", how)

    def resources(self, **how: Unpack[CallOptions]) -> Iterator[Resource]:
        """Iterate over all resources, fetching pages as needed."""
        return self._all("resources", how)

    def resource_templates(self, **how: Unpack[CallOptions]) -> Iterator[ResourceTemplate]:
        """Iterate over all resource templates, fetching pages as needed."""
        return self._all("resource_templates", how)

    def prompts(self, **how: Unpack[CallOptions]) -> Iterator[Prompt]:
        """Iterate over all prompts, fetching pages as needed."""
        return self._all("prompts", how)

    def _all(self, kind: str, how: CallOptions) -> Iterator[Any]:
        for page in wait_for_each(self._inner._pages(kind, how), self._run):
            yield from page

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Iterable[str] = (),
    ) -> "Iterator[Change]":
        """Iterate over the changes that the server reports; without arguments, of all its lists.

        The iterator waits for the next change. Arguments and changes are those of the async client.
        """
        changes = self._inner.listen(tools=tools, prompts=prompts, resources=resources, uris=uris)
        try:
            while True:
                try:
                    yield self._run(_take(changes))
                except StopAsyncIteration:
                    return
        finally:
            if self._shut_down.alive:
                self._run(changes.aclose())

    @property
    def rounds(self) -> BlockingRounds:
        """The same requests one round at a time: questions of the server are returned."""
        return BlockingRounds(self)

    # -- tasks

    def start_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        ttl: float | None = None,
        **how: Unpack[CallOptions],
    ) -> "BlockingTask":
        """Call a tool as a task; arguments and errors as for the async client."""
        return self._wrap(self._run(self._inner.start_tool(name, arguments, ttl=ttl, **how)))

    def task(self, id: str, **how: Unpack[CallOptions]) -> "BlockingTask":
        """Come back to a task by its id, also on another connection."""
        return self._wrap(self._run(self._inner.task(id, **how)))

    def tasks(self, **how: Unpack[CallOptions]) -> "Iterator[BlockingTask]":
        """Iterate over our tasks, of servers that list them (only those of 2025-11-25 do)."""
        return map(self._wrap, wait_for_each(self._inner.tasks(**how), self._run))

    def _wrap(self, task: "ToolTask") -> "BlockingTask":
        return BlockingTask(task, self._run)

    # -- the rest

    def add_middleware(self, layer: "ClientMiddleware") -> None:
        """Put an async function around every later request; it runs on the thread of the client."""
        self._inner.add_middleware(layer)

    call_tool = wait_for(AsyncClient.call_tool)
    read_resource = wait_for(AsyncClient.read_resource)
    subscribe = wait_for(AsyncClient.subscribe)
    unsubscribe = wait_for(AsyncClient.unsubscribe)
    get_prompt = wait_for(AsyncClient.get_prompt)
    complete = wait_for(AsyncClient.complete)
    request = wait_for(AsyncClient.request)
    ping = wait_for(AsyncClient.ping)
    set_log_level = wait_for(AsyncClient.set_log_level)
    roots_changed = wait_for(AsyncClient.roots_changed)
    report_progress = wait_for(AsyncClient.report_progress)


# -- tasks


class BlockingTask:
    """A tool call that the server works on: as `ToolTask`, with methods that wait.

    Attributes:
        id: names it, also on another connection.
        tool: the tool, where it is known.
    """

    def __init__(self, task: "ToolTask", run: Runs) -> None:
        self._task = task
        self._run = run
        self.id = task.id
        self.tool = task.tool

    def __repr__(self) -> str:
        return repr(self._task).replace("<ToolTask", "<blocking task", 1)

    @property
    def status(self) -> TaskStatus:
        """The status, as far as it is known."""
        return self._task.status

    @property
    def message(self) -> str | None:
        """What the task is doing, or why it failed."""
        return self._task.message

    @property
    def ttl(self) -> float | None:
        """Seconds after its creation in which the server keeps it; None if it sets no limit."""
        return self._task.ttl

    @property
    def poll_interval(self) -> float:
        """Seconds after which the server is asked again."""
        return self._task.poll_interval

    @property
    def is_finished(self) -> bool:
        """Whether it is over, as far as that is known."""
        return self._task.is_finished

    def refresh(self) -> "TaskUpdate":
        """Ask the server for the status now."""
        return self._run(self._task.refresh())

    @overload
    def result(self, *, result_type: None = None) -> CallToolResult: ...
    @overload
    def result(self, *, result_type: type[Output]) -> Output: ...
    @overload
    def result(self, *, result_type: object) -> Any: ...
    def result(self, *, result_type: Any = None) -> Any:
        """Wait until the task is finished and return its result; errors as for `ToolTask`."""
        return self._run(self._task.result(result_type=result_type))

    def cancel(self) -> None:
        """Ask the server to stop; one that is finished stays as it is."""
        self._run(self._task.cancel())

    def __iter__(self) -> "Iterator[TaskUpdate]":
        """Follow the task: yields what is known, then each change, up to its end."""
        return wait_for_each(self._task.__aiter__(), self._run)


def wait_for_each(items: AsyncIterator[Value], run: Runs) -> Iterator[Value]:
    """Iterate over what an async iterator yields."""
    while True:
        try:
            yield run(_take(items))
        except StopAsyncIteration:
            return


async def _take(items: AsyncIterator[Value]) -> Value:
    return await anext(items)


Client = BlockingClient
"""The public name: `accord.client.blocking.Client`."""

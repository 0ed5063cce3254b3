"""The clients of several servers for plain synchronous code, on one loop in a thread of its own."""

import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from accord.client.blocking import BlockingClient, LoopThread, refuse_on_a_loop, shut_down
from accord.client.client import Client
from accord.client.client_group import ClientGroup
from accord.client.options import CallOptions
from accord.errors import ConnectionClosed
from accord.types import Prompt, Resource, ResourceTemplate, Tool

Params = ParamSpec("Params")
Value = TypeVar("Value")


def _wait_for(
    method: Callable[Concatenate[ClientGroup, Params], Coroutine[object, object, Value]],
) -> "Callable[Concatenate[BlockingClientGroup, Params], Value]":
    """Return a method with the signature of an async one, which waits for its result."""

    def wait(self: "BlockingClientGroup", /, *args: Params.args, **how: Params.kwargs) -> Value:
        return self._run(method(self._group, *args, **how))

    update_wrapper(wait, method)
    return wait


class BlockingClientGroup(Mapping[str, BlockingClient]):
    """The clients of several servers, whose methods wait for their results.

    The methods, their options and their errors are those of `accord.client.ClientGroup`; lists are
    plain iterators. May be shared by threads.
    """

    def __init__(self, group: ClientGroup, thread: LoopThread) -> None:
        self._group = group
        self._thread = thread
        self._members: dict[str, _Member] = {}
        self._shut_down = weakref.finalize(self, shut_down, group, thread)

    def __repr__(self) -> str:
        return repr(self._group).replace("<ClientGroup", "<blocking ClientGroup", 1)

    def _run(self, work: Coroutine[object, object, Value]) -> Value:
        if not self._shut_down.alive:
            work.close()
            raise ConnectionClosed("the clients are closed")
        return self._thread.run(work)

    @property
    def failures(self) -> dict[str, Exception]:
        """By name, why a server is not connected, or why its lists could not be read."""
        return self._group.failures

    @property
    def separator(self) -> str:
        """What stands between the name of a server and that of a tool."""
        return self._group.separator

    # -- the mapping

    def __getitem__(self, name: str) -> BlockingClient:
        client = self._group[name]
        member = self._members.get(name)
        if member is None or member._client is not client:
            member = self._members[name] = _Member(client, self)
        return member

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)

    def __len__(self) -> int:
        return len(self._group)

    def __contains__(self, name: object) -> bool:
        return name in self._group

    def get(self, name: str, default: Any = None) -> Any:
        """Return the client of a server, or the default where it is not connected."""
        return self[name] if name in self._group else default

    # -- ending

    def close(self) -> None:
        """End all connections; may be repeated."""
        refuse_on_a_loop()
        self._shut_down()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reconnect(self, name: str) -> BlockingClient:
        """Connect to a server again; errors as for the async clients."""
        self._run(self._group.reconnect(name))
        return self[name]

    # -- names and lists

    def join(self, server: str, name: str) -> str:
        """Return the name under which a tool or prompt of a server is offered."""
        return self._group.join(server, name)

    def split(self, name: str) -> tuple[str, str]:
        """Return the server that a name belongs to, and the name that it has there."""
        return self._group.split(name)

    def tools(self, **how: Unpack[CallOptions]) -> Iterator[Tool]:
        """Iterate over the tools of all servers under their prefixed names."""
        return self._all(self._group.tools(**how))

    def prompts(self, **how: Unpack[CallOptions]) -> Iterator[Prompt]:
        """Iterate over the prompts of all servers under their prefixed names."""
        return self._all(self._group.prompts(**how))

    def resources(self, **how: Unpack[CallOptions]) -> Iterator[Resource]:
        """Iterate over the resources of all servers; their URIs have no prefix."""
        return self._all(self._group.resources(**how))

    def resource_templates(self, **how: Unpack[CallOptions]) -> Iterator[ResourceTemplate]:
        """Iterate over the resource templates of all servers."""
        return self._all(self._group.resource_templates(**how))

    def _all(self, entries: AsyncIterator[Value]) -> Iterator[Value]:
        async def collect() -> list[Value]:
            return [entry async for entry in entries]

        yield from self._run(collect())

    # -- operations

    call_tool = _wait_for(ClientGroup.call_tool)
    get_prompt = _wait_for(ClientGroup.get_prompt)
    read_resource = _wait_for(ClientGroup.read_resource)


class _Member(BlockingClient):
    """A client on the thread of the group, which it keeps alive."""

    def __init__(self, client: Client, group: BlockingClientGroup) -> None:
        self._client = client
        self._group = group
        self._thread = group._thread
        self._shut_down = group._shut_down

    def close(self) -> None:
        """End this connection alone; may be repeated."""
        if self._shut_down.alive:
            self._run(self._client.close())

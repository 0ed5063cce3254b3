"""The clients of several servers for plain synchronous code, on one loop in a thread of its own."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, TypeVar, Unpack

from accord.client.blocking import BlockingClient, BlockingConnections, LoopThread, wait_for
from accord.client.client import Client
from accord.client.client_group import ClientGroup
from accord.client.options import CallOptions
from accord.types import Prompt, Resource, ResourceTemplate, Tool

Value = TypeVar("Value")


class BlockingClientGroup(BlockingConnections[ClientGroup], Mapping[str, BlockingClient]):
    """The clients of several servers, whose methods wait for their results.

    The methods, their options and their errors are those of `accord.client.ClientGroup`; lists are
    plain iterators. May be shared by threads.
    """

    def __init__(self, group: ClientGroup, thread: LoopThread) -> None:
        super().__init__(group, thread, "the clients are closed")
        self._members: dict[str, _Member] = {}

    @property
    def failures(self) -> dict[str, Exception]:
        """By name, why a server is not connected, or why its lists could not be read."""
        return self._inner.failures

    @property
    def separator(self) -> str:
        """What stands between the name of a server and that of a tool."""
        return self._inner.separator

    # -- the mapping

    def __getitem__(self, name: str) -> BlockingClient:
        client = self._inner[name]
        member = self._members.get(name)
        if member is None or member._inner is not client:
            member = self._members[name] = _Member(client, self)
        return member

    def __iter__(self) -> Iterator[str]:
        return iter(self._inner)

    def __len__(self) -> int:
        return len(self._inner)

    def __contains__(self, name: object) -> bool:
        return name in self._inner

    def get(self, name: str, default: Any = None) -> Any:
        """Return the client of a server, or the default where it is not connected."""
        return self[name] if name in self._inner else default

    def reconnect(self, name: str) -> BlockingClient:
        """Connect to a server again; errors as for the async clients."""
        self._run(self._inner.reconnect(name))
        return self[name]

    # -- names and lists

    def join(self, server: str, name: str) -> str:
        """Return the name under which a tool or prompt of a server is offered."""
        return self._inner.join(server, name)

    def split(self, name: str) -> tuple[str, str]:
        """Return the server that a name belongs to, and the name that it has there."""
        return self._inner.split(name)

    def tools(self, **how: Unpack[CallOptions]) -> Iterator[Tool]:
        """Iterate over the tools of all servers under their prefixed names."""
        return self._all(self._inner.tools(**how))

    def prompts(self, **how: Unpack[CallOptions]) -> Iterator[Prompt]:
        """Iterate over the prompts of all servers under their prefixed names."""
        return self._all(self._inner.prompts(**how))

    def resources(self, **how: Unpack[CallOptions]) -> Iterator[Resource]:
        """Iterate over the resources of all servers; their URIs have no prefix."""
        return self._all(self._inner.resources(**how))

    def resource_templates(self, **how: Unpack[CallOptions]) -> Iterator[ResourceTemplate]:
        """Iterate over the resource templates of all servers."""
        return self._all(self._inner.resource_templates(**how))

    def _all(self, entries: AsyncIterator[Value]) -> Iterator[Value]:
        async def collect() -> list[Value]:
            return [entry async for entry in entries]

        yield from self._run(collect())

    # -- operations

    call_tool = wait_for(ClientGroup.call_tool)
    get_prompt = wait_for(ClientGroup.get_prompt)
    read_resource = wait_for(ClientGroup.read_resource)


class _Member(BlockingClient):
    """A client on the thread of the group, which it keeps alive."""

    def __init__(self, client: Client, group: BlockingClientGroup) -> None:
        self._inner = client
        self._gone = "the client is closed"
        self._group = group
        self._thread = group._thread
        self._shut_down = group._shut_down

    def close(self) -> None:
        """End this connection alone; may be repeated."""
        if self._shut_down.alive:
            self._run(self._inner.close())

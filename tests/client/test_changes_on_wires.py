"""Questions, changes and fresh results between a real client and a real server, on each wire."""

import asyncio
import gc
import sys
from pathlib import Path

import pytest

from accord import Context, Server, connect
from accord.client.subscriptions import NoticesLost, ResourceUpdated, ToolsChanged
from accord.errors import InternalError, ResourceNotFound
from accord.testing import connected
from support.raw_http import RawServer
from support.running import in_virtual_time
from support.tables import cases
from support.waiting import until

CHANGING = Path(__file__).parents[1] / "stdio" / "servers" / "changing.py"
REVISION = "2026-07-28"
META = "io.modelcontextprotocol/"


def desk() -> Server:
    server = Server("desk")

    @server.tool
    def change() -> str:
        """Change the tools and the note."""
        server.add_tool(lambda: "x", name="new", description="New.", replace=True)
        server.resource_updated("note://a")
        return "changed"

    @server.tool
    async def greet(ctx: Context) -> str:
        """Ask for two names at once."""
        names = await asyncio.gather(
            ctx.elicit("first", str, key="first"), ctx.elicit("last", str, key="last")
        )
        return " ".join(names)

    @server.resource("note://a")
    def note() -> str:
        """A note."""
        return "a"

    return server


@cases("revision", ["2025-06-18", "2025-11-25", REVISION])
@cases("transport", ["memory", "http"])
def test_changes_and_questions_reach_the_client(transport, revision):
    heard = []

    async def answer(params):
        return {"value": params.message}

    async def main():
        options = {"on_elicit": answer, "on_tools_changed": lambda: heard.append("tools")}
        async with connected(desk(), transport=transport, revision=revision, **options) as client:
            async with client.listen(tools=True, uris=["note://a"]) as changes:
                await client.call_tool("change")
                found = {await anext(changes), await anext(changes)}
                assert found == {ToolsChanged(), ResourceUpdated("note://a")}
            assert await client.call_tool("greet", result_type=str) == "first last"
            await until(lambda: heard)

    asyncio.run(main())


@pytest.mark.parametrize("revision", ["2025-11-25", REVISION])
def test_changes_reach_the_client_of_a_launched_server(revision):
    heard = []

    async def main():
        command = [sys.executable, str(CHANGING)]
        async with connect(command, revision=revision, on_resource_updated=heard.append) as client:
            await client.subscribe("note://a")
            async with client.listen(tools=True, uris=["note://a"]) as changes:
                await client.call_tool("change")
                found = {await anext(changes), await anext(changes)}
                assert found == {ToolsChanged(), ResourceUpdated("note://a")}
            await client.unsubscribe("note://a")
            assert heard == ["note://a"]
            await client.call_tool("change")
            assert heard == ["note://a"]

    asyncio.run(main())


@pytest.mark.requirement("resources.read.not-found-32602")
@pytest.mark.parametrize("revision", ["2025-11-25", REVISION])
@in_virtual_time
async def test_a_missing_resource_is_the_same_error_under_each_code(revision):
    async with connect(desk(), revision=revision) as client:
        with pytest.raises(ResourceNotFound) as caught:
            await client.read_resource("note://missing")
        assert caught.value.code == (-32602 if revision == REVISION else -32002)


@in_virtual_time
async def test_a_forgotten_iterator_leaves_nothing_on_the_server():
    server = desk()
    async with connect(server, revision=REVISION) as client:
        changes = client.listen(tools=True)
        await changes.__aenter__()
        session = client._link.wire._session
        assert len(session.dispatcher.endpoint.conversation.parties["client"].open) == 1
        del changes
        gc.collect()
        await asyncio.sleep(0.01)
        assert not session.dispatcher.endpoint.conversation.parties["client"].open


# -- faults of HTTP


class Notifier(RawServer):
    """Answers `server/discover`; each listen request does the next thing of a plan."""

    def __init__(self, *plan):
        super().__init__(server__discover=self.discover, subscriptions__listen=self.listen_to_it)
        self.plan = list(plan)

    def discover(self, request, reply):
        reply.result(
            request,
            {
                "resultType": "complete",
                "supportedVersions": [REVISION],
                "capabilities": {"tools": {"listChanged": True}},
                "ttlMs": 0,
                "cacheScope": "private",
            },
        )

    async def listen_to_it(self, request, reply):
        step = self.plan.pop(0)
        if isinstance(step, int):
            reply.body(step, b"not now", "text/plain")
            return
        reply.stream()
        tag = {META + "subscriptionId": request.message["id"]}
        wanted = request.message["params"]["notifications"]
        self.notify(reply, "subscriptions/acknowledged", _meta=tag, notifications=wanted)
        if step == "break":
            reply.abort()
        elif step == "end":
            reply.end()
        else:
            self.notify(reply, "tools/list_changed", _meta=tag)
            await asyncio.Event().wait()

    def notify(self, reply, name, **params):
        reply.event({"jsonrpc": "2.0", "method": f"notifications/{name}", "params": params})


@pytest.mark.requirement("subscriptions.no-state-across-reconnect")
@pytest.mark.parametrize("fault", ["break", "end"])
@in_virtual_time
async def test_a_stream_that_breaks_over_http_is_opened_again(fault):
    server = Notifier(fault, 503, fault, "go on")
    async with server, connect(server.url, revision=REVISION) as client:
        async with client.listen(tools=True) as changes:
            found = [await anext(changes)]
            while found[-1] != ToolsChanged():
                found.append(await anext(changes))
        assert {type(change) for change in found} == {NoticesLost, ToolsChanged}
        listened = server.seen("subscriptions/listen")
        assert len(listened) == 4
        assert len({request.message["id"] for request in listened}) == 4
        # Leaving closes the stream, and no message says so.
        assert server.seen("notifications/cancelled") == []


@in_virtual_time
async def test_a_server_that_has_no_stream_over_http_is_not_asked_again():
    server = Notifier("break", 404)
    async with server, connect(server.url, revision=REVISION) as client:
        with pytest.raises(InternalError, match="404"):
            async for _ in client.listen(tools=True):
                pass
        assert len(server.seen("subscriptions/listen")) == 2

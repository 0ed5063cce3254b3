"""Changes that a server reports, by `client.listen` and by callbacks; results that stay fresh."""

import asyncio
from typing import Any

import pytest

from accord import Server
from accord.client.subscriptions import PromptsChanged, ResourceUpdated, ToolsChanged
from accord.errors import LocalProtocolError
from accord.server import CacheHints
from interaction.servers import content, working
from support.links import EACH_ONCE, HANDSHAKE, IN_PROCESS, everywhere, over
from support.waiting import until

pytestmark = IN_PROCESS
STATELESS = everywhere("2026-07-28")


def notices(recording: Any) -> list[str]:
    """The changes that the server reported, by name."""
    found = [each for each in recording.messages("server") if "method" in each]
    names = [each["method"].removeprefix("notifications/") for each in found]
    return [each for each in names if each.endswith(("list_changed", "updated"))]


@pytest.mark.requirement(
    "subscriptions.ack-first",
    "subscriptions.ack-carries-id",
    "subscriptions.only-requested-kinds",
    "subscriptions.updated-only-for-watched",
    "subscriptions.tools-list-changed",
)
@EACH_ONCE
async def test_a_listener_hears_of_what_it_asked_for(accord_link: Any, connect_to: Any) -> None:
    async with (
        connect_to(content.make) as client,
        client.listen(tools=True, uris=["note://today"]) as changes,
    ):
        await client.call_tool("change", {"uri": "note://index"})
        await client.call_tool("change", {"uri": "note://today"})
        assert await anext(changes) == ResourceUpdated("note://today")
        await client.call_tool("burst")
        while (change := await anext(changes)) == ResourceUpdated("note://today"):
            pass
        assert change == ToolsChanged()
    recording = accord_link.connections[0].recording
    if accord_link.revision not in HANDSHAKE:
        assert set(notices(recording)) == {"resources/updated", "tools/list_changed"}
        said = [each for each in recording.messages("server") if "method" in each]
        assert said[0]["method"] == "notifications/subscriptions/acknowledged"
        (asked,) = recording.messages("client", "subscriptions/listen")
        ids = [each["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] for each in said]
        assert set(ids) == {asked["id"]}


@pytest.mark.requirement("subscriptions.prompts-list-changed")
async def test_several_listeners_hear_each_of_its_own(connect_to: Any) -> None:
    async with (
        connect_to(content.make) as client,
        client.listen(prompts=True) as prompts,
        client.listen(uris=["note://today"]) as today,
        client.listen(uris=["note://index"]) as index,
    ):
        for uri in ("note://today", "note://index"):
            await client.call_tool("change", {"uri": uri})
        await client.call_tool("burst")
        assert await anext(today) == ResourceUpdated("note://today")
        assert await anext(index) == ResourceUpdated("note://index")
        assert await anext(prompts) == PromptsChanged()


async def test_a_listener_that_left_hears_nothing_more(accord_link: Any, connect_to: Any) -> None:
    server = content.make()
    async with connect_to(server) as client:
        async with client.listen(uris=["note://today"]) as changes:
            await asyncio.to_thread(server.resource_updated, "note://today")
            assert await anext(changes) == ResourceUpdated("note://today")
        await until(lambda: not len(server._core.hub))
        server.resource_updated("note://today")
        await client.ping()
    assert notices(accord_link.connections[0].recording) == ["resources/updated"]


@STATELESS
async def test_a_resource_that_does_not_exist_cannot_be_listened_to(connect_to: Any) -> None:
    async with connect_to(content.make) as client:
        with pytest.raises(LocalProtocolError, match="none of the changes asked for"):
            async with client.listen(uris=["nowhere://x"]):
                pass


@pytest.mark.requirement(
    "subscriptions.graceful-end-result",
    "subscriptions.graceful-end-carries-id",
    "cancellation.server-names-listen",
    "cancellation.server-only-for-listen",
)
@over("memory", revisions=("2026-07-28",))
async def test_a_stream_that_the_server_ends_ends_the_iteration(
    accord_link: Any, connect_to: Any
) -> None:
    server = content.make()
    async with connect_to(server) as client, client.listen(tools=True) as changes:
        for session in [*server._core.sessions]:
            session.end_subscriptions()
        assert [each async for each in changes] == []
    recording = accord_link.connections[0].recording
    (asked,) = recording.messages("client", "subscriptions/listen")
    cancelled, ended = recording.messages("server")[-2:]
    assert cancelled["params"]["requestId"] == ended["id"] == asked["id"]
    meta = ended["result"]["_meta"]
    assert meta["io.modelcontextprotocol/subscriptionId"] == asked["id"]


# -- freshness


def make_fresh() -> Server[Any]:
    """A server whose lists and reads may be kept."""
    server = Server("fresh", cache=CacheHints(tools=60, resources=60, prompts=60))
    count = iter(range(100))

    @server.resource("count://now", ttl=60, cache_scope="public")
    def now() -> str:
        """Count the reads."""
        return str(next(count))

    @server.resource("count://always")
    def always() -> str:
        """Count the reads, each of them."""
        return str(next(count))

    @server.tool
    async def change(uri: str) -> str:
        """Report a change.

        Args:
            uri: of what
        """
        server.resource_updated(uri)
        return "changed"

    return server


@pytest.mark.requirement(
    "caching.hints.resources-read",
    "caching.client.positive-is-fresh",
    "caching.client.zero-is-stale",
)
@EACH_ONCE
async def test_a_result_with_a_lifetime_is_not_fetched_again(
    accord_link: Any, connect_to: Any
) -> None:
    async with connect_to(make_fresh) as client:
        reads = [
            (await client.read_resource(uri)).contents[0].text
            for uri in ("count://now", "count://now", "count://always", "count://always")
        ]
        await client.list_tools()
        await client.list_tools()
    keeps = accord_link.revision not in HANDSHAKE
    assert reads == (["0", "0", "1", "2"] if keeps else ["0", "1", "2", "3"])
    recording = accord_link.connections[0].recording
    assert len(recording.messages("client", "tools/list")) == (1 if keeps else 2)
    hinted = ["ttlMs" in str(each) for each in recording.messages("server")]
    assert any(hinted) is keeps


@pytest.mark.requirement("caching.client.notification-invalidates")
async def test_a_change_drops_the_kept_result(connect_to: Any) -> None:
    heard: list[str] = []
    async with connect_to(make_fresh, on_resource_updated=heard.append) as client:
        first = (await client.read_resource("count://now")).contents[0].text
        await client.subscribe("count://now")
        await client.call_tool("change", {"uri": "count://now"})
        await until(lambda: heard)
        second = (await client.read_resource("count://now")).contents[0].text
    assert (first, second) == ("0", "1")


# -- log levels


@pytest.mark.requirement(
    "logging.only-with-level", "logging.level-respected", "logging.capability-declared"
)
@STATELESS
async def test_without_a_wish_for_logs_none_are_sent(accord_link: Any, connect_to: Any) -> None:
    async with connect_to(working.make) as client:
        assert client.capabilities.logging is not None
        await client.call_tool("speak")
        await client.set_log_level("alert")
        await client.call_tool("speak")
        await client.ping()
    recording = accord_link.connections[0].recording
    logs = recording.messages("server", "notifications/message")
    assert [each["params"]["level"] for each in logs] == ["alert", "emergency"]

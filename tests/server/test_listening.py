"""`subscriptions/listen`: its notifications and its end."""

import asyncio
import gc
import json
import threading
import weakref
from typing import Any

import pytest

from accord import Principal, Server
from accord.server.hub import ServerChange
from accord.server.tasks import TaskRecord
from accord.types import EmptyParams
from support.listening import SUBSCRIPTION, ListeningClient
from support.modern import meta
from support.running import in_virtual_time
from support.waiting import in_loop, until

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
RESOURCES = "notifications/resources/list_changed"
UPDATED = "notifications/resources/updated"
# Longer than a burst of changes is waited for.
BURST = 0.1


def make(**settings: Any) -> Server[Any]:
    server: Server[Any] = Server("desk", **settings)
    server.add_tool(lambda: "x", name="look")
    server.add_prompt(lambda: "x", name="greet")
    server.add_resource("note://a", lambda: "a")
    server.add_resource("note://b", lambda: "b")
    server.add_resource("book://{title}", lambda title: title)
    return server


def names(messages: list[Any]) -> list[str]:
    return [each["method"] for each in messages]


@pytest.mark.requirement(
    "subscriptions.ack-first",
    "subscriptions.ack-carries-id",
    "subscriptions.ack-is-subset",
    "subscriptions.nothing-before-ack",
)
@pytest.mark.parametrize("id", ["L1", 7])
@in_virtual_time
async def test_the_acknowledgement_comes_first_and_says_what_is_honoured(id: Any) -> None:
    async with ListeningClient(make()) as raw:
        uris = ["note://a", "note://missing", "book://b", "note://a"]
        raw.listen(id, toolsListChanged=True, promptsListChanged=False, resourceSubscriptions=uris)
        first = raw.received[0]
        assert first["method"] == ACKNOWLEDGED
        honoured = {"toolsListChanged": True, "resourceSubscriptions": ["note://a", "book://b"]}
        assert first["params"]["notifications"] == honoured
        assert first["params"]["_meta"] == {SUBSCRIPTION: id}


@pytest.mark.requirement(
    "subscriptions.ack-is-subset", "resources.subscribe-capability-governs-listen"
)
@in_virtual_time
async def test_kinds_that_the_server_does_not_declare_are_left_out() -> None:
    server: Server[Any] = Server("desk")
    server.add_prompt(lambda: "x", name="greet")
    async with ListeningClient(server) as raw:
        raw.listen(
            1,
            toolsListChanged=True,
            promptsListChanged=True,
            resourcesListChanged=True,
            resourceSubscriptions=["note://a"],
            taskIds=["t"],
        )
        assert raw.received[0]["params"]["notifications"] == {"promptsListChanged": True}


@in_virtual_time
async def test_an_empty_filter_is_acknowledged_and_stays_open() -> None:
    async with ListeningClient(make()) as raw:
        raw.listen(1)
        assert raw.received[0]["params"]["notifications"] == {}
        await asyncio.sleep(BURST)
        assert len(raw.received) == 1


@pytest.mark.requirement("subscriptions.ack-is-subset")
@in_virtual_time
async def test_a_request_listens_to_a_limited_number_of_resources() -> None:
    async with ListeningClient(make()) as raw:
        raw.listen(1, resourceSubscriptions=[f"book://{number}" for number in range(1_200)])
        honoured = raw.received[0]["params"]["notifications"]["resourceSubscriptions"]
        assert honoured == [f"book://{number}" for number in range(1_000)]


@in_virtual_time
async def test_tasks_are_looked_up_before_the_acknowledgement(monkeypatch: Any) -> None:
    server = make()
    server.add_tool(lambda: "x", name="slow", description="Slow.", task="optional")

    mine = TaskRecord(
        id="mine",
        owner="",
        revision="2026-07-28",
        worker="",
        created_at=0,
        updated_at=0,
        ttl=None,
        poll_interval=1,
    )

    async def find(session: Any, exchange: Any, ids: list[str]) -> list[TaskRecord]:
        await asyncio.sleep(1)
        if "broken" in ids:
            raise RuntimeError("no store")
        return [mine for id in ids if id == "mine"]

    monkeypatch.setattr(server._core.tasks, "visible", find)
    tasks = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    async with ListeningClient(server, capabilities=tasks) as raw:
        raw.listen(1, taskIds=["mine", "theirs"])
        raw.listen(2, taskIds=["broken"])
        raw.listen(3, taskIds=["theirs"], toolsListChanged=True)
        raw.listen(4, taskIds=["mine"])
        raw.notify("notifications/cancelled", {"requestId": 4})
        assert raw.received == []
        await asyncio.sleep(2)
        (first,), (third,) = raw.notices(1), raw.notices(3)
        assert first["params"]["notifications"] == {"taskIds": ["mine"]}
        assert third["params"]["notifications"] == {"toolsListChanged": True}
        assert raw.answers_to(2)[0]["error"]["code"] == -32603
        assert len(server._core.hub) == 2
        (session,) = server._core.sessions
        assert sorted(session.listening) == [1, 3]
        server._core.hub.publish(ServerChange("notifications/tasks", "theirs", EmptyParams()))
        assert len(raw.received) == 3


@pytest.mark.requirement(
    "subscriptions.only-requested-kinds",
    "subscriptions.updated-only-for-watched",
    "subscriptions.tools-list-changed",
    "subscriptions.prompts-list-changed",
    "subscriptions.resources-list-changed",
    "meta.listen.subscription-id",
)
@in_virtual_time
async def test_each_subscription_hears_of_what_it_asked_for_under_its_id() -> None:
    server = make()
    async with ListeningClient(server) as raw:
        raw.listen("lists", toolsListChanged=True, resourcesListChanged=True)
        raw.listen(2, promptsListChanged=True, resourceSubscriptions=["note://a"])
        for number in range(3):
            server.add_tool(lambda: "x", name=f"tool_{number}")
            server.add_prompt(lambda: "x", name=f"prompt_{number}")
            server.add_resource(f"note://{number}", lambda: "x")
        server.resource_updated("note://a")
        server.resource_updated("note://b")
        await asyncio.sleep(BURST)
        assert names(raw.notices("lists")) == [ACKNOWLEDGED, TOOLS, RESOURCES]
        assert names(raw.notices(2)) == [ACKNOWLEDGED, UPDATED, PROMPTS]
        assert raw.notices(2)[1]["params"]["uri"] == "note://a"
        assert len(raw.notices()) == 6


@in_virtual_time
async def test_lists_can_be_announced_without_a_change_of_entries() -> None:
    server = make()
    async with ListeningClient(server) as raw:
        raw.listen(1, toolsListChanged=True)
        server.list_changed("tools")
        await asyncio.sleep(BURST)
        assert names(raw.notices(1)) == [ACKNOWLEDGED, TOOLS]


@in_loop
async def test_changes_may_be_made_in_any_thread() -> None:
    server = make()
    asyncio.get_running_loop().set_debug(True)
    async with ListeningClient(server) as raw:
        raw.listen(1, toolsListChanged=True, resourceSubscriptions=["note://a"])

        def change() -> None:
            server.resource_updated("note://a")
            server.add_tool(lambda: "x", name="new")

        thread = threading.Thread(target=change)
        thread.start()
        await until(lambda: len(raw.notices(1)) == 3)
        thread.join()


@pytest.mark.requirement("stdio.cancel.no-further-messages")
@in_virtual_time
async def test_a_cancelled_subscription_hears_nothing_more_and_leaves_nothing_behind() -> None:
    server = make()
    async with ListeningClient(server) as raw:
        raw.listen(1, toolsListChanged=True, resourceSubscriptions=["note://a"])
        raw.listen(2, toolsListChanged=True)
        server.list_changed("tools")  # is waiting when the request is cancelled
        raw.notify("notifications/cancelled", {"requestId": 1})
        server.resource_updated("note://a")
        await asyncio.sleep(BURST)
        assert names(raw.notices(1)) == [ACKNOWLEDGED]
        assert names(raw.notices(2)) == [ACKNOWLEDGED, TOOLS]
        assert raw.answers_to(1) == []
        assert len(server._core.hub) == 1
    assert len(server._core.hub) == 0


@pytest.mark.requirement(
    "subscriptions.graceful-end-result",
    "subscriptions.graceful-end-carries-id",
    "subscriptions.teardown-cancelled-notification",
    "cancellation.server-names-listen",
    "cancellation.server-only-for-listen",
)
@in_virtual_time
async def test_the_end_of_the_server_answers_subscriptions() -> None:
    server = make()
    async with ListeningClient(server) as raw:
        raw.listen("L1", toolsListChanged=True)
        (session,) = server._core.sessions
        session.close()
        cancelled, answer = raw.received[1:]
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == "L1"
        assert answer["id"] == "L1"
        assert answer["result"]["resultType"] == "complete"
        assert answer["result"]["_meta"][SUBSCRIPTION] == "L1"
        assert len(server._core.hub) == 0


@in_virtual_time
async def test_open_subscriptions_neither_count_as_calls_nor_delay_the_end() -> None:
    server = make(in_flight=2)
    async with ListeningClient(server) as raw:
        for number in range(5):
            raw.listen(number, toolsListChanged=True)
        assert len(raw.notices()) == 5
        result = await raw.result("call", "tools/call", name="look", arguments={})
        assert result["content"][0]["text"] == "x"
        (session,) = server._core.sessions
        before = asyncio.get_running_loop().time()
        assert await session.dispatcher.drain()
        assert asyncio.get_running_loop().time() == before


@in_virtual_time
async def test_one_connection_has_a_limited_number_of_subscriptions() -> None:
    async with ListeningClient(make(subscriptions=2)) as raw:
        for number in range(3):
            raw.listen(number, toolsListChanged=True)
        (refused,) = raw.answers_to(2)
        assert refused["error"]["code"] == -32603
        assert "2 subscriptions are open" in refused["error"]["message"]
        raw.notify("notifications/cancelled", {"requestId": 0})
        raw.listen(3, toolsListChanged=True)
        assert names(raw.notices(3)) == [ACKNOWLEDGED]


@pytest.mark.requirement("caching.server.access-control-independent")
@in_virtual_time
async def test_only_resources_that_the_caller_may_read_are_honoured() -> None:
    server = make()
    server.add_resource("safe://gold", lambda: "x", scopes=["vault"])
    uris = ["safe://gold", "note://a"]

    async def honoured(scopes: set[str]) -> list[str]:
        async with ListeningClient(
            server.acting_as(Principal("ann", scopes=frozenset(scopes)))
        ) as raw:
            raw.listen(1, resourceSubscriptions=uris)
            asked: list[str] = raw.received[0]["params"]["notifications"]["resourceSubscriptions"]
            return asked

    assert await honoured({"vault"}) == uris
    assert await honoured(set()) == ["note://a"]


@in_virtual_time
async def test_middleware_sees_a_subscription_begin() -> None:
    seen: list[str] = []

    async def layer(ctx: Any, proceed: Any) -> Any:
        await asyncio.sleep(1)
        outcome = await proceed()
        seen.append(ctx.method)
        return outcome

    server = make(middleware=[layer])
    async with ListeningClient(server) as raw:
        raw.listen(1, resourceSubscriptions=["note://a"])
        await asyncio.sleep(2)
        assert seen == ["subscriptions/listen"]
        server.resource_updated("note://a")
        assert names(raw.notices(1)) == [ACKNOWLEDGED, UPDATED]


# -- a client that does not read


class SlowFlow:
    """A client that reads when the test says so."""

    def __init__(self) -> None:
        self.is_congested = False
        self.backlog = 0
        self.room = asyncio.Event()

    async def writable(self) -> None:
        await self.room.wait()


@in_virtual_time
async def test_changes_are_joined_while_a_client_does_not_read() -> None:
    server = make()
    async with ListeningClient(server) as slow:
        (session,) = server._core.sessions
        session.flow = flow = SlowFlow()
        slow.listen(1, toolsListChanged=True, resourceSubscriptions=["note://a", "note://b"])
        async with ListeningClient(server) as other:
            other.listen(1, resourceSubscriptions=["note://a"])
            flow.is_congested = True
            for _ in range(100):
                server.resource_updated("note://a")
                server.resource_updated("note://b")
                server.list_changed("tools")
                await asyncio.sleep(BURST)
            assert names(slow.notices(1)) == [ACKNOWLEDGED]
            assert names(other.notices(1)) == [ACKNOWLEDGED, *[UPDATED] * 100]
        flow.is_congested = False
        flow.room.set()
        await asyncio.sleep(BURST)
        assert names(slow.notices(1)) == [ACKNOWLEDGED, UPDATED, UPDATED, TOOLS]
        server.resource_updated("note://b")
        assert slow.notices(1)[-1]["params"]["uri"] == "note://b"


@in_virtual_time
async def test_the_end_does_not_wait_for_a_client_that_does_not_read() -> None:
    server = make()
    async with ListeningClient(server) as slow:
        (session,) = server._core.sessions
        session.flow = flow = SlowFlow()
        slow.listen(1, resourceSubscriptions=["note://a"])
        flow.is_congested = True
        server.resource_updated("note://a")
        await asyncio.sleep(BURST)
        slow.notify("notifications/cancelled", {"requestId": 1})
        flow.room.set()
        await asyncio.sleep(BURST)
        assert names(slow.notices()) == [ACKNOWLEDGED]
        assert asyncio.all_tasks() == {asyncio.current_task()}


@in_virtual_time
async def test_a_session_that_is_dropped_is_not_kept_by_its_subscriptions() -> None:
    server = make()
    written: list[Any] = []
    session = server._core.session(lambda data, exchange: written.append(data))
    params = {"_meta": meta(), "notifications": {"toolsListChanged": True}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    session.dispatcher.receive(json.dumps(request).encode())
    assert len(written) == 1
    dropped = weakref.ref(session)
    del session
    gc.collect()
    assert dropped() is None
    server.list_changed("tools")
    await asyncio.sleep(BURST)
    assert len(written) == 1

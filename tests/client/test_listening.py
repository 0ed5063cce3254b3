"""`client.listen` and the callbacks for changes, in revisions with and without a handshake."""

import asyncio
import gc
import json
import logging
from itertools import pairwise

import pytest

from accord import connect
from accord.client import HttpClientOptions, blocking
from accord.client.subscriptions import (
    NoticesLost,
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated,
    ToolsChanged,
)
from accord.errors import (
    ConnectionClosed,
    InternalError,
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
    RemoteProtocolError,
    RequestTimeout,
    ResourceNotFound,
)
from accord.testing import run_in_virtual_time
from accord.types import SubscriptionFilter
from client.loopback import Loopback
from client.stateless_server import EVERYTHING, Failure, StatelessServer
from support.running import in_virtual_time

URI = "note://1"
LISTEN = "subscriptions/listen"


def modern(target, **options):
    return connect(target, revision="2026-07-28", **options)


class Notifier(StatelessServer):
    """Acknowledges listen requests and keeps them open; `plan` says how further ones go."""

    def __init__(self, *plan, **options):
        super().__init__(**options)
        self.plan = list(plan)
        self.open_ids = []

    def subscriptions_listen(self, message):
        step = self.plan.pop(0) if self.plan else None
        if isinstance(step, Exception):
            raise step
        if step == "silence":
            return
        self.acknowledge(message, **(step or {}))
        self.open_ids.append(message["id"])

    def change(self, name, **params):
        self.notify(name, self.open_ids[-1], **params)

    def end(self):
        id = self.open_ids.pop()
        meta = {"io.modelcontextprotocol/subscriptionId": id}
        self.put(id=id, result={"resultType": "complete", "_meta": meta})

    def lose(self, client):
        """Break the stream, as a transport does on which each request has its own."""
        client._link.request_failed(self.open_ids.pop(), ConnectionClosed("the stream broke"))

    def filters(self):
        return [message["params"]["notifications"] for message in self.received(LISTEN)]

    def cancelled(self):
        sent = self.received("notifications/cancelled")
        return [message["params"]["requestId"] for message in sent]


async def settle():
    """Let all that is ready run."""
    for _ in range(20):
        await asyncio.sleep(0)


# -- the stream


def test_changes_of_all_kinds_are_yielded_in_order():
    async def main():
        target = Notifier()
        async with modern(target) as client:
            wanted = {"tools": True, "prompts": True, "resources": True, "uris": [URI]}
            async with client.listen(**wanted) as changes:
                target.change("tools/list_changed")
                target.change("resources/updated", uri=URI)
                target.change("prompts/list_changed")
                target.change("resources/list_changed")
                return target.filters(), [await anext(changes) for _ in range(4)]

    filters, changes = run_in_virtual_time(main())
    assert filters == [
        {
            "toolsListChanged": True,
            "promptsListChanged": True,
            "resourcesListChanged": True,
            "resourceSubscriptions": [URI],
        }
    ]
    assert changes == [ToolsChanged(), ResourceUpdated(URI), PromptsChanged(), ResourcesChanged()]


def test_without_arguments_all_lists_are_listened_to():
    async def main():
        target = Notifier()
        async with modern(target) as client, client.listen():
            return target.filters()

    (wanted,) = run_in_virtual_time(main())
    assert wanted == {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": True,
    }


@pytest.mark.requirement("subscriptions.client-checks-ack")
@in_virtual_time
async def test_the_acknowledged_part_of_a_filter_can_be_seen():
    target = Notifier({"toolsListChanged": True})
    async with modern(target) as client:
        listening = client.listen(tools=True, uris=[URI])
        assert listening.acknowledgement is None
        async with listening:
            assert listening.acknowledgement == SubscriptionFilter(tools_list_changed=True)


@in_virtual_time
async def test_a_stream_that_would_stay_silent_is_an_error():
    async with modern(Notifier(capabilities={"tools": {}})) as client:
        with pytest.raises(LocalProtocolError, match=r"tools\.listChanged"):
            async for _ in client.listen(tools=True):
                pass
    target = Notifier({"toolsListChanged": False})
    async with modern(target) as client:
        with pytest.raises(LocalProtocolError, match=r"reports none .*tools\.listChanged"):
            async with client.listen(tools=True):
                pass
        assert target.cancelled() == target.open_ids


@in_virtual_time
async def test_a_uri_in_place_of_a_list_of_them_is_a_mistake():
    async with modern(Notifier()) as client:
        with pytest.raises(TypeError, match="uris is a list"):
            client.listen(uris=URI)


def test_equal_changes_that_wait_are_one():
    async def main():
        target = Notifier()
        async with modern(target) as client, client.listen(tools=True, uris=[URI]) as changes:
            for _ in range(50):
                target.change("tools/list_changed")
                target.change("resources/updated", uri=URI)
            target.end()
            return [change async for change in changes]

    assert run_in_virtual_time(main()) == [ToolsChanged(), ResourceUpdated(URI)]


def test_a_reader_that_falls_far_behind_learns_that_changes_are_lost():
    async def main():
        target = Notifier()
        async with modern(target) as client, client.listen(uris=["note://"]) as changes:
            for number in range(1_001):
                target.change("resources/updated", uri=f"note://{number}")
            target.change("resources/updated", uri="note://last")
            target.end()
            return [change async for change in changes]

    lost, last = run_in_virtual_time(main())
    assert isinstance(lost, NoticesLost)
    assert "1000 changes" in lost.reason
    assert last == ResourceUpdated("note://last")


@in_virtual_time
async def test_several_streams_get_their_own_changes():
    target = Notifier()
    async with (
        modern(target) as client,
        client.listen(tools=True) as first,
        client.listen(tools=True) as second,
    ):
        ids = target.open_ids
        target.notify("tools/list_changed", ids[0])
        assert await anext(first) == ToolsChanged()
        target.notify("tools/list_changed", ids[1])
        assert await anext(second) == ToolsChanged()


# -- how it ends


@in_virtual_time
async def test_the_iteration_ends_when_the_server_ends_the_stream():
    target = Notifier()
    async with modern(target) as client:
        changes = client.listen(tools=True)
        first = asyncio.create_task(anext(changes))
        await settle()
        target.change("tools/list_changed")
        assert await first == ToolsChanged()
        target.end()
        assert [change async for change in changes] == []
        assert len(target.received(LISTEN)) == 1
        assert target.cancelled() == []


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_cancellation_by_the_server_ends_it_with_or_without_a_result(is_answered, caplog):
    # subscriptions.teardown-cancelled-notification
    async def main():
        target = Notifier()
        async with modern(target) as client, client.listen(tools=True) as changes:
            target.notify("cancelled", requestId=target.open_ids[-1])
            if is_answered:
                target.end()
            assert [change async for change in changes] == []
            assert not client._link.endpoint.conversation.client.open

    run_in_virtual_time(main())
    assert caplog.text == ""


@pytest.mark.parametrize("how", ["close", "leave", "forget", "cancel"])
@in_virtual_time
async def test_a_stream_that_is_no_longer_read_is_cancelled(how):
    target = Notifier()
    async with modern(target) as client:
        if how == "leave":
            async with client.listen(tools=True):
                pass
        elif how == "close":
            changes = client.listen(tools=True)
            await changes.__aenter__()
            await changes.aclose()
            await changes.aclose()
            assert [change async for change in changes] == []
        elif how == "forget":
            target.plan = [None]
            changes = client.listen(tools=True)
            await changes.__aenter__()
            del changes
            gc.collect()
            await settle()
        else:
            reader = asyncio.create_task(anext(client.listen(tools=True)))
            await settle()
            reader.cancel()
            await asyncio.wait([reader])
            del reader
            gc.collect()
            await settle()
        assert target.cancelled() == target.open_ids
        assert len(target.open_ids) == 1


@in_virtual_time
async def test_leaving_the_loop_ends_the_stream():
    target = Notifier()
    async with modern(target) as client:
        asyncio.get_running_loop().call_soon(lambda: None)

        async def change_soon():
            await settle()
            target.change("tools/list_changed")

        notifier = asyncio.create_task(change_soon())
        async for change in client.listen(tools=True):
            assert change == ToolsChanged()
            break
        await notifier
        await settle()
        assert target.cancelled() == target.open_ids


@in_virtual_time
async def test_closing_the_client_ends_the_iteration_with_an_error():
    target = Notifier()
    client = await modern(target)
    reader = asyncio.create_task(anext(client.listen(tools=True)))
    await settle()
    await client.close()
    with pytest.raises(ConnectionClosed):
        await reader
    assert asyncio.all_tasks() == {asyncio.current_task()}


@in_virtual_time
async def test_a_server_that_refuses_is_an_error_of_the_iteration():
    async with modern(Notifier(Failure(-32601))) as client:
        with pytest.raises(MethodNotFound):
            await anext(client.listen(tools=True))


@in_virtual_time
async def test_a_server_that_does_not_acknowledge_in_time_is_an_error():
    target = Notifier("silence")
    async with modern(target, timeout=5) as client:
        with pytest.raises(RequestTimeout, match="not acknowledged within 5 s"):
            await anext(client.listen(tools=True))
        assert len(target.cancelled()) == 1


@pytest.mark.requirement("subscriptions.ack-first")
@in_virtual_time
async def test_a_stream_that_ends_without_an_acknowledgement_is_an_error():
    target = Notifier(subscriptions_listen=lambda message: {"resultType": "complete"})
    async with modern(target) as client:
        with pytest.raises(RemoteProtocolError, match="without an acknowledgement"):
            await anext(client.listen(tools=True))
        with pytest.raises(RemoteProtocolError, match="without an acknowledgement"):
            await client.subscribe(URI)


@in_virtual_time
async def test_an_acknowledged_stream_may_be_silent_for_any_time():
    target = Notifier()
    client = await modern(target, timeout=5, cap=10)
    async with client, client.listen(tools=True) as changes:
        await asyncio.sleep(100_000)
        target.change("tools/list_changed")
        assert await anext(changes) == ToolsChanged()


# -- a stream that breaks


@pytest.mark.requirement("subscriptions.no-state-across-reconnect")
@in_virtual_time
async def test_a_broken_stream_is_opened_again_and_the_reader_learns_that_notices_are_lost():
    target = Notifier(None, Failure(-32603), "silence")
    async with modern(target, timeout=5) as client:
        async with client.listen(tools=True) as changes:
            target.change("tools/list_changed")
            target.lose(client)
            change = await anext(changes)
            while change == ToolsChanged():
                change = await anext(changes)
            assert isinstance(change, NoticesLost)
            target.change("tools/list_changed")
            assert await anext(changes) == ToolsChanged()
        assert len(target.received(LISTEN)) == 4
        assert len({message["id"] for message in target.received(LISTEN)}) == 4
        assert len(set(map(str, target.filters()))) == 1


def test_attempts_to_open_it_again_come_at_growing_intervals():
    times = []

    async def main():
        loop = asyncio.get_running_loop()
        target = Notifier(None, *[Failure(-32603)] * 12)
        target.answers["subscriptions_listen"] = lambda message: (
            times.append(loop.time()),
            target.subscriptions_listen(message),
        )[1]
        async with modern(target) as client, client.listen(tools=True) as changes:
            target.lose(client)
            await anext(changes)

    run_in_virtual_time(main())
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert len(pauses) == 13
    assert pauses[0] <= 1
    assert 20 < max(pauses) <= 60


@in_virtual_time
async def test_after_a_stream_that_lasted_the_first_attempt_comes_soon():
    loop = asyncio.get_running_loop()
    target = Notifier(None, *[Failure(-32603)] * 8)
    async with modern(target) as client, client.listen(tools=True) as changes:
        target.lose(client)
        await anext(changes)
        await asyncio.sleep(100)
        target.lose(client)
        began = loop.time()
        await anext(changes)
        assert loop.time() - began <= 1


@in_virtual_time
async def test_a_refusal_after_a_break_ends_the_iteration():
    target = Notifier(None, Failure(-32601))
    async with modern(target) as client, client.listen(tools=True) as changes:
        target.lose(client)
        with pytest.raises(MethodNotFound):
            await anext(changes)


# -- what the client keeps


@pytest.mark.requirement("caching.client.notification-invalidates")
@in_virtual_time
async def test_a_notice_makes_the_kept_list_stale_and_a_broken_stream_makes_all_stale():
    listed = {"resultType": "complete", "tools": [], "ttlMs": 60_000, "cacheScope": "private"}
    target = Notifier(tools_list=lambda message: listed)
    async with modern(target) as client, client.listen(tools=True) as changes:
        await client.list_tools()
        await client.list_tools()
        assert len(target.received("tools/list")) == 1
        target.change("tools/list_changed")
        await client.list_tools()
        assert len(target.received("tools/list")) == 2
        target.lose(client)
        while not isinstance(await anext(changes), NoticesLost):
            pass
        await client.list_tools()
        assert len(target.received("tools/list")) == 3


@in_virtual_time
async def test_a_notice_makes_known_output_schemas_stale():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tool = {"name": "count", "inputSchema": {"type": "object"}, "outputSchema": schema}
    listed = {"resultType": "complete", "tools": [tool], "ttlMs": 0, "cacheScope": "private"}
    result = {"resultType": "complete", "content": [], "structuredContent": {"m": 1}}
    target = Notifier(tools_list=lambda message: listed, tools_call=lambda message: result)
    async with modern(target) as client, client.listen(tools=True):
        await client.list_tools()
        target.change("tools/list_changed")
        # The tool may have another schema by now.
        assert (await client.call_tool("count")).structured_content == {"m": 1}


# -- callbacks


def test_callbacks_are_called_without_an_iterator():
    heard = []

    async def main():
        target = Notifier()
        async with modern(
            target,
            on_tools_changed=lambda: heard.append("tools"),
            on_prompts_changed=lambda: heard.append("prompts"),
            on_resources_changed=lambda: heard.append("resources"),
            on_resource_updated=heard.append,
        ) as client:
            # The request left before any other of this client.
            assert target.methods() == [LISTEN]
            target.change("tools/list_changed")
            target.change("prompts/list_changed")
            target.change("resources/list_changed")
            await client.subscribe(URI)
            target.change("resources/updated", uri=URI)
            await settle()
        assert target.filters()[1]["resourceSubscriptions"] == [URI]

    run_in_virtual_time(main())
    assert heard == ["tools", "prompts", "resources", URI]


@in_virtual_time
async def test_only_lists_with_a_callback_that_the_server_reports_are_listened_to():
    target = Notifier(capabilities={"tools": {"listChanged": True}, "prompts": {}})
    callbacks = {"on_tools_changed": list, "on_prompts_changed": list}
    async with modern(target, **callbacks):
        assert target.filters() == [{"toolsListChanged": True}]
    target = Notifier(capabilities={"tools": {}})
    async with modern(target, **callbacks):
        assert target.methods() == []
    target = Notifier()
    async with modern(target, on_resource_updated=print):
        assert target.methods() == []


@in_virtual_time
async def test_subscribing_changes_the_one_stream_without_a_gap():
    target = Notifier()
    async with modern(target, on_tools_changed=list) as client:
        for change, uri in (
            (client.subscribe, "note://1"),
            (client.subscribe, "note://2"),
            (client.unsubscribe, "note://1"),
            (client.unsubscribe, "note://1"),
        ):
            await change(uri)
        uris = [wanted.get("resourceSubscriptions") for wanted in target.filters()]
        assert uris == [None, ["note://1"], ["note://1", "note://2"], ["note://2"]]
        assert all(wanted["toolsListChanged"] for wanted in target.filters())
        order = [
            message["id"] if message["method"] == LISTEN else -message["params"]["requestId"]
            for message in target.sent
            if message["method"] in (LISTEN, "notifications/cancelled")
        ]
        first, second, third, last = target.open_ids
        # Each stream ends after the next one has begun.
        assert order == [first, second, -first, third, -second, last, -third]


@in_virtual_time
async def test_the_last_unsubscription_ends_the_stream():
    target = Notifier()
    async with modern(target, on_resource_updated=print) as client:
        await client.subscribe(URI)
        await client.unsubscribe(URI)
        assert target.cancelled() == target.open_ids
        assert len(target.open_ids) == 1


@in_virtual_time
async def test_a_subscription_that_the_server_does_not_serve_is_an_error():
    async with modern(Notifier(capabilities={"resources": {}})) as client:
        with pytest.raises(LocalProtocolError, match=r"resources\.subscribe"):
            await client.subscribe(URI)
    target = Notifier({"resourceSubscriptions": []}, Failure(-32602), "silence")
    async with modern(target, timeout=3) as client:
        for error in (InvalidParams, InvalidParams, RequestTimeout):
            with pytest.raises(error):
                await client.subscribe(URI)
        await client.subscribe("note://2")
        assert target.filters()[-1] == {"resourceSubscriptions": ["note://2"]}


@in_virtual_time
async def test_callbacks_are_called_for_all_that_may_have_changed_while_the_stream_was_broken():
    heard = []
    target = Notifier()
    async with modern(
        target,
        on_tools_changed=lambda: heard.append("tools"),
        on_resource_updated=heard.append,
    ) as client:
        await client.subscribe(URI)
        target.lose(client)
        await asyncio.sleep(10)
        assert heard == ["tools", URI]
        target.change("tools/list_changed")
        assert heard == ["tools", URI, "tools"]


def test_callbacks_outlive_a_server_that_ends_the_stream():
    heard = []

    async def main():
        target = Notifier()
        async with modern(target, on_tools_changed=lambda: heard.append("tools")):
            target.end()
            await asyncio.sleep(10)
            assert len(target.received(LISTEN)) == 2
            target.change("tools/list_changed")

    run_in_virtual_time(main())
    assert heard == ["tools", "tools"]


def test_a_subscription_outlives_a_server_that_ends_the_stream():
    heard = []

    async def main():
        target = Notifier()
        async with modern(target, on_resource_updated=heard.append) as client:
            await client.subscribe(URI)
            target.end()
            await asyncio.sleep(10)
            assert target.filters() == [{"resourceSubscriptions": [URI]}] * 2

    run_in_virtual_time(main())
    assert heard == [URI]


@in_virtual_time
async def test_a_repeated_subscription_that_fails_leaves_the_first_one():
    target = Notifier(None, Failure(-32603))
    async with modern(target) as client:
        await client.subscribe(URI)
        with pytest.raises(InternalError):
            await client.subscribe(URI)
        await client.subscribe("note://2")
        assert target.filters()[-1] == {"resourceSubscriptions": [URI, "note://2"]}


@in_virtual_time
async def test_callbacks_open_no_stream_where_no_stream_is_wanted():
    target = Notifier()
    options = HttpClientOptions(listen=False)
    async with modern(target, on_tools_changed=list, http=options):
        assert target.methods() == []


def test_a_server_that_refuses_the_stream_of_the_callbacks_is_logged(caplog):
    async def main():
        target = Notifier(Failure(-32601, "not here"))
        async with modern(target, on_tools_changed=list) as client:
            await asyncio.sleep(1_000)
            assert len(target.received(LISTEN)) == 1
            assert not client.is_closed

    with caplog.at_level(logging.WARNING):
        run_in_virtual_time(main())
    assert "changes of the server are not reported: not here" in caplog.text


def test_changes_that_the_server_does_not_report_to_callbacks_are_logged(caplog):
    async def main():
        target = Notifier({"toolsListChanged": True})
        async with modern(target, on_tools_changed=list, on_prompts_changed=list):
            await settle()

    with caplog.at_level(logging.WARNING):
        run_in_virtual_time(main())
    assert "does not report these changes: prompts.listChanged" in caplog.text


@in_virtual_time
async def test_a_slow_callback_delays_neither_requests_nor_other_readers():
    listed = {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}
    target = Notifier(tools_list=lambda message: listed)

    async def slow():
        await asyncio.Event().wait()

    client = await modern(target, on_tools_changed=slow)
    async with client, client.listen(tools=True) as changes:
        first, second = target.open_ids
        for _ in range(5):
            target.notify("tools/list_changed", first)
        target.notify("tools/list_changed", second)
        assert await anext(changes) == ToolsChanged()
        await client.list_tools()


# -- revisions with a handshake


class Older(Loopback):
    """A server with a handshake, which answers every request."""

    def __init__(self, capabilities=EVERYTHING):
        super().__init__(self.reply)
        self.capabilities = capabilities

    def write(self, data, exchange):
        message = json.loads(data)
        if message.get("method") == "initialize":
            self.sent.append(message)
            opening = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": self.capabilities,
                "serverInfo": {"name": "older", "version": "1"},
            }
            self.put(id=message["id"], result=opening)
        else:
            super().write(data, exchange)

    def reply(self, _, message):
        if message["params"].get("uri") == "note://missing":
            self.put(id=message["id"], error={"code": -32002, "message": "not found"})
        else:
            self.put(id=message["id"], result={})

    def change(self, name, **params):
        self.put(method=f"notifications/{name}", params=params)

    def requests(self):
        """The subscriptions and unsubscriptions, with their URIs."""
        return [
            (message["method"].rpartition("/")[2], message["params"]["uri"])
            for message in self.sent
            if message["method"].startswith("resources/")
        ]


def older(target, **options):
    return connect(target, revision="2025-11-25", **options)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
def test_older_revisions_report_changes_through_the_same_iterator(revision):
    async def main():
        target = Older()
        client = await connect(target, revision=revision)
        async with client, client.listen(tools=True, prompts=True, uris=[URI]) as changes:
            served = SubscriptionFilter(True, True, None, [URI])
            assert changes.acknowledgement == served
            assert target.requests() == [("subscribe", URI)]
            target.change("tools/list_changed")
            target.change("resources/list_changed")  # was not asked for
            target.change("resources/updated", uri=URI)
            target.change("prompts/list_changed")
            return [await anext(changes) for _ in range(3)]

    changes = run_in_virtual_time(main())
    assert changes == [ToolsChanged(), ResourceUpdated(URI), PromptsChanged()]


@in_virtual_time
async def test_in_older_revisions_the_end_unsubscribes_what_no_other_reader_needs():
    target = Older()
    async with older(target) as client:
        await client.subscribe("note://own")
        async with client.listen(uris=["note://own"]):
            pass
        async with client.listen(uris=["note://own", "note://1", "note://2"]):
            async with client.listen(uris=["note://2"]) as changes:
                assert target.requests() == [
                    ("subscribe", "note://own"),
                    ("subscribe", "note://1"),
                    ("subscribe", "note://2"),
                ]
                await client.unsubscribe("note://own")
                target.change("resources/updated", uri="note://1")
                target.change("resources/updated", uri="note://2/part")
                target.change("resources/updated", uri="note://2")
                assert await anext(changes) == ResourceUpdated("note://2/part")
                assert await anext(changes) == ResourceUpdated("note://2")
            assert len(target.requests()) == 3
        assert target.requests()[3:] == [
            ("unsubscribe", "note://own"),
            ("unsubscribe", "note://1"),
            ("unsubscribe", "note://2"),
        ]


@in_virtual_time
async def test_in_older_revisions_what_the_server_does_not_declare_is_left_out():
    target = Older({"tools": {"listChanged": True}, "resources": {}})
    async with older(target) as client:
        async with client.listen(tools=True, uris=[URI]) as changes:
            assert changes.acknowledgement == SubscriptionFilter(tools_list_changed=True)
            assert target.requests() == []
        with pytest.raises(LocalProtocolError, match=r"resources\.subscribe"):
            await anext(client.listen(uris=[URI]))


@in_virtual_time
async def test_in_older_revisions_a_refused_subscription_is_an_error_and_undoes_the_others():
    target = Older()
    async with older(target) as client:
        with pytest.raises(ResourceNotFound):
            await anext(client.listen(uris=[URI, "note://missing"]))
        await settle()
        assert target.requests()[-1] == ("unsubscribe", URI)


@in_virtual_time
async def test_a_renewed_session_subscribes_again_and_says_that_notices_are_lost():
    target = Older()
    client = await older(target)
    async with client, client.listen(uris=[URI]) as changes:
        client._link.session_renewed()
        assert isinstance(await anext(changes), NoticesLost)
        assert target.requests() == [("subscribe", URI), ("subscribe", URI)]


@in_virtual_time
async def test_in_older_revisions_a_lost_connection_ends_the_iteration_with_an_error():
    target = Older()
    async with older(target) as client:
        changes = client.listen(tools=True)
        reader = asyncio.create_task(anext(changes))
        await settle()
        target.lost("the server has crashed")
        with pytest.raises(ConnectionClosed, match="the server has crashed"):
            await reader
        with pytest.raises(StopAsyncIteration):
            await anext(changes)


# -- without an event loop


def test_the_blocking_client_iterates_over_changes():
    heard = []
    target = Notifier()
    listen = target.subscriptions_listen

    def change_at_once(message):
        listen(message)
        target.change("tools/list_changed")

    target.answers["subscriptions_listen"] = change_at_once
    with blocking.connect(target, revision="2026-07-28") as client:
        for change in client.listen(tools=True):
            heard.append(change)
            break
        assert target.cancelled() == target.open_ids
        for change in client.listen(tools=True):
            heard.append(change)
            client._thread.loop.call_soon_threadsafe(target.end)
    assert heard == [ToolsChanged(), ToolsChanged()]

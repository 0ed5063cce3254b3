"""Batches, which one revision has: over stdio and in memory, by their bytes."""

from typing import Any

import pytest

from interaction.servers import working
from support.links import over
from support.processes import Child
from support.raw import RawClient, RawServer
from support.waiting import until

pytestmark = over("memory", revisions=("2025-03-26",))
CALL = {"name": "thread_name", "arguments": {}}


def request(id: Any, method: str, params: Any = None) -> Any:
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is None else {**message, "params": params}


def notice(method: str, params: Any = None) -> Any:
    message = {"jsonrpc": "2.0", "method": f"notifications/{method}"}
    return message if params is None else {**message, "params": params}


@pytest.mark.requirement("jsonrpc.batch.receive")
def test_a_batch_over_stdio_is_answered_by_one_line() -> None:
    import sys

    launch = [sys.executable, "-m", "accord", "run", f"{working.__file__}:make"]
    with Child(*launch) as child:
        child.open("2025-03-26")
        child.send(
            [
                request(1, "ping"),
                request("two", "tools/call", CALL),
                notice("roots/list_changed"),
                request(3, "no/such"),
                7,
            ]
        )
        answers = child.receive()
        assert {each["id"] for each in answers} == {1, "two", 3, None}
        by_id = {each["id"]: each for each in answers}
        assert by_id[1]["result"] == {}
        assert by_id["two"]["result"]["isError"] is False
        assert by_id[3]["error"]["code"] == -32601
        assert by_id[None]["error"]["code"] == -32600
        child.request(4, "ping")
        assert child.answer_to(4)["result"] == {}


@pytest.mark.requirement("jsonrpc.batch.receive")
async def test_a_batch_is_answered_when_its_slowest_request_is(accord_link: Any) -> None:
    async with RawClient(working.make()) as raw:
        await raw.open("2025-03-26")
        wait = {"name": "wait", "arguments": {"name": "g"}}
        raw.send([request(1, "ping"), request(2, "tools/call", wait)])
        gate = {"name": "open_gate", "arguments": {"name": "g"}}
        await raw.ask(3, "tools/call", gate)
        batch = await until(lambda: next((e for e in raw.received if isinstance(e, list)), None))
        assert sorted(each["id"] for each in batch) == [1, 2]


async def test_a_batch_of_nothing_but_notifications_is_not_answered(accord_link: Any) -> None:
    async with RawClient(working.make()) as raw:
        await raw.open("2025-03-26")
        before = len(raw.received)
        raw.send([notice("roots/list_changed"), notice("roots/list_changed")])
        await raw.ask(1, "ping")
        assert len(raw.received) == before + 1


async def test_a_cancelled_request_drops_out_of_its_batch(accord_link: Any) -> None:
    async with RawClient(working.make()) as raw:
        await raw.open("2025-03-26")
        wait = {"name": "wait", "arguments": {"name": "g"}}
        raw.send([request(1, "ping"), request(2, "tools/call", wait)])
        raw.notify("notifications/cancelled", {"requestId": 2})
        batch = await until(lambda: next((e for e in raw.received if isinstance(e, list)), None))
        assert [each["id"] for each in batch] == [1]


@pytest.mark.requirement("lifecycle.initialize.not-in-batch")
async def test_the_opening_is_refused_in_a_batch(accord_link: Any) -> None:
    async with RawClient(working.make()) as raw:
        params = {
            "protocolVersion": "2025-03-26",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        raw.send([request(1, "initialize", params), request("p", "ping")])
        refused = [(each["id"], each["error"]["code"]) for each in raw.received]
        assert refused == [(1, -32600), ("p", -32600)]
        assert (await raw.open("2025-03-26"))["protocolVersion"] == "2025-03-26"


@pytest.mark.requirement("jsonrpc.batch.removed")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25"])
async def test_other_revisions_refuse_each_request_of_a_batch(
    accord_link: Any, revision: str
) -> None:
    async with RawClient(working.make()) as raw:
        await raw.open(revision)
        raw.send([request(1, "ping"), request(2, "ping")])
        refused = [(each["id"], each["error"]["code"]) for each in raw.received[-2:]]
        assert refused == [(1, -32600), (2, -32600)]
        assert (await raw.ask(3, "ping"))["result"] == {}


@pytest.mark.requirement("jsonrpc.batch.receive", "jsonrpc.response.client-sends")
async def test_a_client_answers_a_batch_of_its_server(accord_link: Any) -> None:
    from accord import connect

    server = RawServer({"ping": {}})
    async with connect(server, revision="2025-03-26", roots=["/"]) as client:
        import asyncio
        import json

        data = json.dumps([request("a", "ping"), request("b", "roots/list")]).encode()
        asyncio.get_running_loop().call_soon(server._receive, data)
        batch = await until(lambda: next((e for e in server.heard if isinstance(e, list)), None))
        assert sorted(each["id"] for each in batch) == ["a", "b"]
        await client.ping()

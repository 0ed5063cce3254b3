"""Raw connections to a server in memory: sending, receiving, answering and waiting."""

import asyncio

import msgspec
import pytest

from accord_tools.check.probing.raw_connection import ConnectionEnded, MessageTimeout
from check.mutants.everything import server
from check.mutants.foundation import Between
from support.check_targets import check_target

NEW = "2025-06-18"


def memory(hook=None):
    def carrier():
        wire = Between(server, {})
        if hook is not None:
            hook(wire)
        return wire

    return check_target(name="memory", carrier=carrier, patience=5, settling=0.05)


def on_a_line(work, hook=None, **options):
    async def run():
        async with asyncio.timeout(60), memory(hook).connection(**options) as line:
            await line.initialize(NEW)
            return await work(line)

    return asyncio.run(run())


@pytest.mark.parametrize("length", [1, 100_000], ids=["kept whole", "cut"])
def test_a_log_is_judged_from_its_beginning_or_not_at_all(length):
    async def work(line):
        await line.send(
            {"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": "x" * length}}
        )
        line.receive(b'{"jsonrpc": "2.0", "id": 99, "result": {}}')
        is_judged = line.log.judge()
        tallies = {} if line.log.monitor is None else line.log.monitor.tallies
        return is_judged, "jsonrpc.response.id-echo" in tallies and "ping.response.empty" in tallies

    async def pinged(line):
        await line.ask("ping")
        return await work(line)

    is_whole = length == 1
    assert on_a_line(pinged, is_judged=False) == (is_whole, is_whole)


def test_a_request_and_its_answer_are_in_the_log():
    async def work(line):
        reply = await line.ask("ping", id="mine")
        return reply, [record.sender for record in line.log.records]

    reply, senders = on_a_line(work)
    assert (reply.message["id"], reply.result, reply.code) == ("mine", {}, None)
    assert senders == ["client", "server", "client", "client", "server"]


def test_an_error_has_its_code_and_a_short_text():
    async def work(line):
        return await line.ask("no/such", {"x": "y" * 500})

    reply = on_a_line(work)
    assert reply.is_error
    assert reply.code == -32601
    assert len(str(reply)) <= 203


def test_a_missing_answer_raises_a_timeout_that_names_the_expected_message():
    def deaf(wire):
        wire.from_client = lambda message: None if message.get("method") == "ping" else message

    async def work(line):
        with pytest.raises(
            MessageTimeout, match=r"an answer to ping did not arrive within 0\.02 s"
        ):
            await line.ask("ping", patience=0.02)

    on_a_line(work, deaf)


def test_a_closed_connection_gives_the_reason_when_waiting_or_sending():
    async def work(line):
        line.carrier.crash("the server ended with exit code 3")
        with pytest.raises(ConnectionEnded, match="exit code 3, while word was expected"):
            await line.until(lambda message: False, "word")
        with pytest.raises(ConnectionEnded, match="exit code 3"):
            await line.ask("ping")
        assert await line.collect(5) == []

    on_a_line(work)


def test_ids_of_different_types_are_different():
    def confused(wire):
        def from_server(message, request):
            return (
                message | {"id": str(message["id"])} if request.get("method") == "ping" else message
            )

        wire.from_server = from_server

    async def work(line):
        with pytest.raises(MessageTimeout):
            await line.ask("ping", id=77, patience=0.02)

    on_a_line(work, confused)


def test_until_finds_earlier_messages_unless_since_excludes_them():
    async def work(line):
        await line.ask("ping", id=5)
        found = await line.until(lambda message: message.get("id") == 5, "it", patience=0)
        assert found["result"] == {}
        with pytest.raises(MessageTimeout):
            await line.until(
                lambda message: message.get("id") == 5,
                "it",
                since=len(line.received),
                patience=0.02,
            )

    on_a_line(work)


def test_collect_returns_the_messages_of_that_time():
    async def work(line):
        line.carrier.later(0.01, lambda: line.carrier.to_client({"jsonrpc": "2.0", "method": "x"}))
        return await line.collect(0.2)

    assert [message["method"] for message in on_a_line(work)] == ["x"]


def test_requests_of_the_server_are_answered_according_to_the_declared_capabilities():
    async def work(line):
        params = {"name": "query_model", "arguments": {}}
        return await line.ask("tools/call", params)

    assert on_a_line(work).result["content"][0]["text"] == "an answer of the checker"


def test_a_connection_without_answers_leaves_requests_of_the_server_open():
    async def work(line):
        line.answers_questions = False
        await line.begin("tools/call", {"name": "query_model", "arguments": {}})
        asked = await line.until(lambda message: "method" in message and "id" in message, "it")
        return asked["method"], [record.sender for record in line.log.records][-1]

    assert on_a_line(work) == ("sampling/createMessage", "server")


def test_the_members_of_a_batch_are_received_one_by_one():
    async def work(line):
        line.receive(b'[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]')
        return [message["method"] for message in line.received[-2:]], line.log.count

    names, count = on_a_line(work)
    assert names == ["a", "b"]
    assert count == 4


def test_a_flood_ends_the_connection_and_costs_no_more_memory():
    notice = msgspec.json.encode({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    async def work(line):
        for _ in range(20_100):
            line.receive(notice)
        return line

    line = on_a_line(work, is_judged=False)
    assert "floods the connection" in line.ended
    assert len(line.received) <= 20_000
    assert len(line.log.records) == 400


def test_a_large_message_is_judged_whole_and_kept_in_part():
    async def work(line):
        large = {"jsonrpc": "2.0", "method": "notifications/message"}
        large["params"] = {"level": "info", "data": "x" * 100_000}
        line.receive(msgspec.json.encode(large))
        return line

    line = on_a_line(work)
    assert len(line.received[-1]["params"]["data"]) == 100_000
    assert len(line.log.records[-1].raw) == 400
    assert not any(tally.breaches for tally in line.log.monitor.tallies.values())


@pytest.mark.requirement("jsonrpc.encoding.utf8")
def test_a_message_in_another_encoding_violates_the_encoding_requirement():
    async def work(line):
        line.receive(b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"\xe4"}}')
        line.receive(b"\xe4 is not a message in any encoding")
        return {id for id, tally in line.log.monitor.tallies.items() if tally.breaches}

    assert on_a_line(work) == {"jsonrpc.encoding.utf8", "stdio.server.stdout-only-messages"}


def test_an_unjudged_connection_has_no_monitor():
    async def work(line):
        await line.send(b"no message")
        return line.log.monitor

    assert on_a_line(work, is_judged=False) is None

import asyncio
import logging
from typing import Any

import pytest
from msgspec import UNSET

from accord import types as t
from accord.errors import (
    ConnectionClosed,
    InvalidParams,
    LocalProtocolError,
    RequestError,
    RequestTimeout,
    ResourceNotFound,
)
from accord.runtime.watchdog import Watchdog
from support.endpoints import batch, request
from support.running import in_virtual_time
from support.waiting import LONG, in_loop, run, until

EMPTY = t.EmptyResult()
TEXT = t.CallToolResult([t.TextContent("done")])


def call(**meta: Any) -> t.CallToolParams:
    return t.CallToolParams("any", meta=meta or None)


# -- serving


@in_loop
async def test_a_handler_may_answer_at_once(party, join) -> None:
    client, _ = await join(server=party("server", ping=EMPTY))
    assert await client.request("ping") == EMPTY


@in_loop
async def test_a_handler_may_take_its_time(party, join) -> None:
    async def slow(params: Any) -> t.CallToolResult:
        await asyncio.sleep(0)
        return TEXT

    client, server = await join(server=party("server", tools_call=slow))
    assert await client.request("tools/call", call()) == TEXT
    assert not server.running


def test_a_watchdog_knows_how_many_handlers_run(party, join) -> None:
    seen: list[int] = []

    async def main() -> None:
        watchdog = Watchdog(threshold=0.04)

        async def slow(params: Any) -> t.CallToolResult:
            seen.append(watchdog.running)
            await asyncio.sleep(0)
            return TEXT

        client, _ = await join(server=party("server", tools_call=slow), watchdog=watchdog)
        await asyncio.gather(*(client.request("tools/call", call()) for _ in range(2)))
        seen.append(watchdog.running)

    run(main())
    assert max(seen) == 2
    assert seen[-1] == 0


@pytest.mark.parametrize("is_async", [False, True])
@in_loop
async def test_an_error_for_the_caller_is_answered_as_it_is(party, join, is_async: bool) -> None:
    def fail(params: Any) -> Any:
        raise ResourceNotFound("no such note", data={"uri": "note://x"})

    async def fail_later(params: Any) -> Any:
        fail(params)

    server = party("server", resources_read=fail_later if is_async else fail)
    client, _ = await join(server=server)
    with pytest.raises(RequestError) as caught:
        await client.request("resources/read", t.ReadResourceParams("note://x"))
    assert (caught.value.code, caught.value.data) == (-32002, {"uri": "note://x"})


@pytest.mark.parametrize("raised", [RuntimeError("secret path"), SystemExit(3)])
@pytest.mark.parametrize("is_async", [False, True])
def test_nothing_of_an_unexpected_exception_reaches_the_caller(
    party, join, caplog, raised: BaseException, is_async: bool
) -> None:
    def fail(params: Any) -> Any:
        raise raised

    async def fail_later(params: Any) -> Any:
        raise raised

    async def main() -> None:
        client, _ = await join(server=party("server", tools_call=fail_later if is_async else fail))
        with pytest.raises(RequestError) as caught:
            await client.request("tools/call", call())
        assert (caught.value.code, caught.value.message) == (-32603, "internal error")

    run(main())
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.exc_info[1] is raised


@pytest.mark.parametrize(
    "raised",
    [InvalidParams("half a character \ud800"), InvalidParams("odd", data={"x": object()})],
    ids=["text", "data"],
)
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_an_error_that_cannot_be_encoded_is_answered_all_the_same(
    party, join, caplog, raised: RequestError, is_async: bool
) -> None:
    def fail(params: Any) -> Any:
        raise raised

    async def fail_later(params: Any) -> Any:
        raise raised

    async def main() -> None:
        client, _ = await join(server=party("server", tools_call=fail_later if is_async else fail))
        with pytest.raises(RequestError) as caught:
            await client.request("tools/call", call())
        assert (caught.value.code, caught.value.message) == (-32603, "internal error")

    run(main())
    assert "the error of tools/call cannot be written" in caplog.text


@in_loop
async def test_a_result_that_cannot_be_encoded_is_an_internal_error(party, join) -> None:
    broken = t.CallToolResult([], structured_content={"x": object()})
    client, _ = await join(server=party("server", tools_call=broken))
    with pytest.raises(RequestError, match="internal error"):
        await client.request("tools/call", call())


@in_loop
async def test_a_slow_request_delays_no_other(party, join) -> None:
    gate = asyncio.Event()

    async def slow(params: Any) -> t.CallToolResult:
        await gate.wait()
        return TEXT

    client, _ = await join(server=party("server", tools_call=slow, ping=EMPTY))
    waiting = asyncio.ensure_future(client.request("tools/call", call()))
    await client.request("ping")
    assert not waiting.done()
    gate.set()
    assert await waiting == TEXT


@in_loop
async def test_above_the_limit_requests_are_refused_at_once_but_pings_are_not(party, join) -> None:
    gate = asyncio.Event()

    async def slow(params: Any) -> t.CallToolResult:
        await gate.wait()
        return TEXT

    server = party("server", tools_call=slow, ping=EMPTY)
    client, _ = await join(server=server, in_flight=2)
    waiting = [asyncio.ensure_future(client.request("tools/call", call())) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(RequestError, match="busy"):
        await client.request("tools/call", call())
    assert await client.request("ping") == EMPTY
    gate.set()
    assert await asyncio.gather(*waiting) == [TEXT, TEXT]
    assert await client.request("tools/call", call()) == TEXT


@in_loop
async def test_work_that_was_cancelled_from_within_is_answered_all_the_same(party, join) -> None:
    async def awaits_what_is_cancelled(params: Any) -> Any:
        inner = asyncio.ensure_future(asyncio.sleep(LONG))
        asyncio.get_running_loop().call_soon(inner.cancel)
        await inner

    client, _ = await join(server=party("server", tools_call=awaits_what_is_cancelled))
    with pytest.raises(RequestError, match="cancelled") as caught:
        await client.request("tools/call", call())
    assert caught.value.code == -32603


@in_loop
async def test_a_malformed_message_is_answered_and_reported(party, join) -> None:
    server = party("server", ping=EMPTY)
    client, dispatcher = await join(server=server)
    dispatcher.receive(b"no json")
    assert server.sent[-1]["error"]["code"] == -32700
    assert len(server.refused) == 1
    assert await client.request("ping") == EMPTY


@in_loop
async def test_a_batch_is_answered_in_one_message(party, join) -> None:
    async def later(params: Any) -> t.CallToolResult:
        await asyncio.sleep(0)
        return TEXT

    server = party("server", ping=EMPTY, tools_call=later)
    _, dispatcher = await join(server=server, revision="2025-03-26")
    server.other.is_deaf = True
    two = batch(request("a", "ping"), request("b", "tools/call", {"name": "any"}))
    assert len(dispatcher.receive(two)) == 2
    await until(lambda: not dispatcher.running)
    assert sorted(each["id"] for each in server.sent[-1]) == ["a", "b"]


@in_loop
async def test_a_batch_waits_no_longer_for_a_request_that_is_cancelled(party, join) -> None:
    async def never(params: Any) -> Any:
        await asyncio.sleep(LONG)

    server = party("server", ping=EMPTY, tools_call=never)
    _, dispatcher = await join(server=server, revision="2025-03-26")
    server.other.is_deaf = True
    dispatcher.receive(batch(request("a", "ping"), request("b", "tools/call", {"name": "any"})))
    await asyncio.sleep(0)
    dispatcher.receive(
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b"}}'
    )
    assert [each["id"] for each in server.sent[-1]] == ["a"]
    await until(lambda: not dispatcher.running)


# -- cancelling


@pytest.mark.requirement("cancellation.receiver.stops", "cancellation.receiver.frees-and-silent")
@in_loop
async def test_a_cancelled_request_stops_and_is_not_answered(party, join) -> None:
    stopped = []

    async def never(params: Any) -> Any:
        try:
            await asyncio.sleep(LONG)
        finally:
            stopped.append(True)

    server = party("server", tools_call=never)
    client, dispatcher = await join(server=server)
    waiting = asyncio.ensure_future(client.request("tools/call", call()))
    await until(lambda: dispatcher.running)
    before = len(server.sent)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not dispatcher.running
    assert await dispatcher.drain(LONG)
    assert stopped == [True]
    assert len(server.sent) == before


@pytest.mark.parametrize("fails", [False, True], ids=["answers", "fails"])
def test_a_cancelled_handler_that_answers_anyway_is_not_heard(party, join, caplog, fails) -> None:
    async def stubborn(params: Any) -> Any:
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            if fails:
                raise InvalidParams("too late") from None
            return TEXT

    async def main() -> None:
        server = party("server", tools_call=stubborn)
        client, dispatcher = await join(server=server)
        waiting = asyncio.ensure_future(client.request("tools/call", call()))
        await until(lambda: dispatcher.running)
        before = len(server.sent)
        waiting.cancel()
        await until(lambda: not dispatcher.running)
        assert await dispatcher.drain(LONG)
        assert len(server.sent) == before

    run(main())
    assert "a callback failed" not in caplog.text


def test_a_cancelled_request_that_is_remembered_does_not_keep_its_params(party, join) -> None:
    seen: list[bool] = []

    async def main() -> None:
        started = asyncio.Event()

        async def work(params: Any) -> Any:
            started.set()
            try:
                await asyncio.sleep(LONG)
            finally:
                (exchange,) = state.cancelled.values()
                seen.append(exchange.raw is not UNSET)  # a handler may still read them

        client, server = await join(server=party("server", tools_call=work))
        state = server.endpoint.conversation.parties["client"]
        waiting = asyncio.create_task(client.request("tools/call", call()))
        await started.wait()
        waiting.cancel()
        await until(lambda: seen and not server._background)
        (exchange,) = state.cancelled.values()
        assert (exchange.raw, exchange.params) == (UNSET, None)

    run(main())
    assert seen == [True]


@in_loop
async def test_cancelled_handlers_are_waited_for_while_they_clean_up(party, join) -> None:
    gate = asyncio.Event()
    left = []

    async def tidy(params: Any) -> Any:
        try:
            await asyncio.sleep(LONG)
        finally:
            await gate.wait()
            left.append(True)

    client, server = await join(server=party("server", tools_call=tidy))
    waiting = [asyncio.ensure_future(client.request("tools/call", call())) for _ in range(2)]
    await until(lambda: len(server.running) == 2)
    for each in waiting:
        each.cancel()
    await until(lambda: not server.running)
    assert not await server.drain(0.01)
    assert len(server._background) == 2
    asyncio.get_running_loop().call_soon(gate.set)
    assert await server.drain(LONG)
    assert left == [True, True]
    await until(lambda: not server._background)


def test_a_request_cancelled_before_it_began_never_begins(party, join) -> None:
    begun = []

    async def work(params: Any) -> Any:
        begun.append(True)
        await asyncio.sleep(LONG)

    async def main() -> None:
        client, dispatcher = await join(server=party("server", tools_call=work))
        waiting = asyncio.ensure_future(client.request("tools/call", call()))
        waiting.cancel()
        await asyncio.wait([waiting])
        assert await dispatcher.drain(LONG)

    run(main())
    assert begun == []


@in_loop
async def test_initialize_is_never_cancelled(party) -> None:
    client, silent = party("client"), party("server")
    client.other, silent.other = silent, client
    client.start()
    silent.start()
    silent.is_deaf = True
    params = t.InitializeParams(
        "2025-06-18", t.ClientCapabilities(), t.Implementation("someone", "1")
    )
    with pytest.raises(RequestTimeout):
        await client.dispatcher.request("initialize", params, timeout=0.01)
    assert [each["method"] for each in client.sent] == ["initialize"]


# -- deadlines


@pytest.mark.requirement("timeouts.cancel-by-notification")
@pytest.mark.parametrize("cap", [None, 500], ids=["no cap", "cap"])
@in_virtual_time
async def test_silence_ends_a_request_and_cancels_it(party, join, cap: float | None) -> None:
    async def never(params: Any) -> Any:
        await asyncio.sleep(1000)

    client_party = party("client")
    client, server = await join(client=client_party, server=party("server", tools_call=never))
    started = asyncio.get_running_loop().time()
    with pytest.raises(RequestTimeout):
        await client.request("tools/call", call(), timeout=60, cap=cap)
    assert asyncio.get_running_loop().time() - started == pytest.approx(60, abs=1)
    assert client_party.sent[-1]["method"] == "notifications/cancelled"
    await asyncio.sleep(0.01)
    assert not server.running


@pytest.mark.requirement("timeouts.maximum-despite-progress")
@in_virtual_time
async def test_progress_extends_the_deadline_up_to_the_cap(party, join) -> None:
    told: list[float] = []

    async def works(params: Any) -> Any:
        for step in range(1, 100):
            await asyncio.sleep(40)
            server.notify("notifications/progress", t.ProgressParams("p", step))

    client, server = await join(server=party("server", tools_call=works))
    loop = asyncio.get_running_loop()
    started = loop.time()
    with pytest.raises(RequestTimeout):
        await client.request(
            "tools/call",
            call(progressToken="p"),
            timeout=60,
            cap=500,
            on_progress=lambda params: told.append(params.progress),
        )
    assert loop.time() - started == pytest.approx(500, abs=1)
    assert told == list(range(1, 13))


@in_virtual_time
async def test_each_request_ends_at_its_own_deadline(party, join) -> None:
    async def never(params: Any) -> Any:
        await asyncio.sleep(10_000)

    client, _ = await join(server=party("server", tools_call=never))
    loop = asyncio.get_running_loop()
    started = loop.time()

    async def lasts(timeout: float) -> float:
        with pytest.raises(RequestTimeout):
            await client.request("tools/call", call(), timeout=timeout)
        return loop.time() - started

    found = await asyncio.gather(lasts(60), lasts(30), lasts(600))
    assert found == [pytest.approx(each, abs=1) for each in (60, 30, 600)]


@in_virtual_time
async def test_without_deadlines_a_request_waits(party, join) -> None:
    async def slow(params: Any) -> Any:
        await asyncio.sleep(100_000)
        return TEXT

    client, _ = await join(server=party("server", tools_call=slow))
    assert await client.request("tools/call", call()) == TEXT


# -- asking and telling


@in_loop
async def test_a_request_that_would_break_a_rule_is_not_sent(party, join) -> None:
    client_party = party("client")
    client, _ = await join(client=client_party, server=party("server"))
    before = len(client_party.sent)
    with pytest.raises(LocalProtocolError):
        await client.request("sampling/createMessage", None)
    assert len(client_party.sent) == before


def test_an_async_progress_callback_runs_by_itself_and_may_fail(party, join, caplog) -> None:
    async def main() -> None:
        heard = []

        async def on_progress(params: Any) -> None:
            heard.append(params.progress)
            raise ValueError("callback")

        async def work(params: Any) -> Any:
            server.notify("notifications/progress", t.ProgressParams("p", 1))
            return TEXT

        client, server = await join(server=party("server", tools_call=work))
        answer = await client.request(
            "tools/call", call(progressToken="p"), on_progress=on_progress
        )
        assert answer == TEXT
        await client.drain()
        assert heard == [1]

    run(main())
    assert "a callback failed" in caplog.text


@in_loop
async def test_progress_without_a_listener_is_not_a_fault(party, join) -> None:
    async def work(params: Any) -> Any:
        server.notify("notifications/progress", t.ProgressParams("p", 1))
        return TEXT

    client, server = await join(server=party("server", tools_call=work))
    assert await client.request("tools/call", call(progressToken="p")) == TEXT


def test_a_failing_callback_ends_nothing(party, join, caplog) -> None:
    async def main() -> None:
        client, _ = await join(server=party("server", ping=EMPTY))
        client.notify("notifications/roots/list_changed")
        assert await client.request("ping") == EMPTY

    run(main())
    assert "callbacks fail too" in caplog.text


def test_an_error_without_id_is_logged(party, join, caplog) -> None:
    async def main() -> None:
        client, _ = await join(server=party("server"))
        client.receive(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}')

    run(main())
    assert "the peer could not read a message of ours: what?" in caplog.text


# -- ending


@in_loop
async def test_closing_fails_what_waits_cancels_what_runs_and_tells_the_peer(party, join) -> None:
    async def never(params: Any) -> Any:
        await asyncio.sleep(LONG)

    client_party, server_party = party("client"), party("server", tools_call=never)
    client, server = await join(client=client_party, server=server_party)
    waiting = asyncio.ensure_future(client.request("tools/call", call()))
    await until(lambda: server.running)
    client.spawn(never(None))
    client.close(ConnectionClosed("gone"))
    client.close()
    with pytest.raises(ConnectionClosed, match="gone"):
        await waiting
    assert client_party.sent[-1]["method"] == "notifications/cancelled"
    assert await client.drain(LONG)
    assert await server.drain(LONG)
    with pytest.raises(ConnectionClosed, match="gone"):
        await client.request("ping")
    client.notify("notifications/roots/list_changed")


@in_loop
async def test_after_closing_nothing_is_written(party, join) -> None:
    gate = asyncio.Event()

    async def stubborn(params: Any) -> Any:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                gate.set()
        return TEXT

    server_party = party("server", tools_call=stubborn)
    client, server = await join(server=server_party)
    waiting = asyncio.ensure_future(client.request("tools/call", call()))
    await until(lambda: server.running)
    before = len(server_party.sent)
    server.close()
    assert await server.drain(LONG)
    assert len(server_party.sent) == before
    waiting.cancel()


@in_loop
async def test_waiting_for_handlers_is_bounded(party, join) -> None:
    gate = asyncio.Event()

    async def slow(params: Any) -> Any:
        await gate.wait()
        return TEXT

    client, server = await join(server=party("server", tools_call=slow))
    assert await server.drain(0)
    waiting = asyncio.ensure_future(client.request("tools/call", call()))
    await until(lambda: server.running)
    assert not await server.drain(0.01)
    gate.set()
    assert await server.drain(LONG)
    await waiting


@in_loop
async def test_at_the_end_of_input_our_own_questions_fail_and_answers_still_leave(
    party, join
) -> None:
    async def asks(params: Any) -> t.CallToolResult:
        with pytest.raises(ConnectionClosed):
            await server.request("roots/list")
        return TEXT

    never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def roots(params: Any) -> Any:
        await never

    client, server = await join(
        client=party("client", roots_list=roots), server=party("server", tools_call=asks)
    )
    waiting = asyncio.ensure_future(client.request("tools/call", call()))
    await until(lambda: client.running)
    server.end_of_input()
    assert await waiting == TEXT
    client.close()
    await client.drain(LONG)


@in_loop
async def test_an_invalid_answer_of_a_handler_becomes_an_internal_error(party, join) -> None:
    def refuse(params: Any) -> Any:
        raise InvalidParams("no such tool")

    client, _ = await join(server=party("server", tools_call=refuse))
    with pytest.raises(RequestError) as caught:
        await client.request("tools/call", call())
    assert caught.value.code == -32602


@in_loop
async def test_a_conversation_that_was_let_go_answers_nothing(party, join) -> None:
    side = party("server", ping=EMPTY)
    _, server = await join(server=side)
    sent, told = len(side.sent), list(side.told)
    server.let_go()
    for message in (
        b'{"jsonrpc":"2.0","id":7,"method":"ping"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}',
        b"not JSON",
    ):
        server.receive(message)
    await asyncio.sleep(0)
    assert len(side.sent) == sent
    assert side.told == told
    assert side.refused == []

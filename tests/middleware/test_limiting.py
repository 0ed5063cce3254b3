"""`rate_limit` and `time_limit`."""

import asyncio
import threading
from typing import Any

import pytest

from accord import Context, Principal, Server, connect
from accord.errors import RegistrationError, RequestError
from accord.middleware import rate_limit, time_limit
from accord.middleware.limiting import Buckets
from accord.testing import connected
from support.stateless import Modern, call
from support.tables import cases
from support.waiting import LONG, in_loop, until


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make(*layers: Any) -> Server:
    server = Server("desk", middleware=layers)

    @server.tool
    async def add(a: int = 0) -> int:
        """Add."""
        return a

    @server.tool
    async def other() -> str:
        """Return."""
        return "x"

    @server.resource("note://today")
    async def today() -> str:
        return "sun"

    return server


async def _allowed(client: Any, count: int, tool: str = "add") -> list[bool]:
    return [not (await client.call_tool(tool)).is_error for _ in range(count)]


# -- how many


@in_loop
async def test_calls_beyond_the_burst_are_refused_until_the_bucket_fills() -> None:
    clock = Clock()
    async with connected(make(rate_limit(2, burst=3, clock=clock))) as client:
        assert await _allowed(client, 4) == [True, True, True, False]
        refused = await client.call_tool("add")
        assert refused.is_error
        assert refused.text == (
            "tool add was refused: more than 2/second (rate_limit); try again in 0.5 s"
        )
        clock.now += 0.5
        assert await _allowed(client, 2) == [True, False]
        clock.now += 100
        assert await _allowed(client, 4) == [True, True, True, False]


@in_loop
async def test_other_requests_are_refused_by_an_error_that_says_when_to_try_again() -> None:
    layer = rate_limit("1/minute", methods=["resources/read"], clock=Clock())
    async with connected(make(layer)) as client:
        await client.read_resource("note://today")
        with pytest.raises(RequestError, match=r"note://today was refused: .* in 60 s") as caught:
            await client.read_resource("note://today")
        assert caught.value.data == {"retryAfter": 60}
        assert await _allowed(client, 3) == [True] * 3


@in_loop
async def test_principals_have_limits_of_their_own() -> None:
    server = make(rate_limit(1, clock=Clock()))
    for name in ("ada", "bob"):
        async with connect(server.acting_as(Principal(name))) as client:
            assert await _allowed(client, 2) == [True, False]
    async with connect(server.acting_as(Principal("ada"))) as client:
        assert await _allowed(client, 1) == [False]


@pytest.mark.parametrize("by", ["principal", "session"])
@in_loop
async def test_callers_in_memory_share_by_connection(by: Any) -> None:
    server = make(rate_limit(1, by=by, clock=Clock()))
    for _ in range(2):
        async with connected(server, revision="2025-06-18") as client:
            assert await _allowed(client, 2) == [True, False]


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@in_loop
async def test_callers_without_a_token_share_by_address_whatever_sessions_they_open(
    revision: Any,
) -> None:
    server = make(rate_limit(1, clock=Clock()))
    allowed = []
    for _ in range(3):
        async with connected(server, transport="http", revision=revision) as client:
            allowed += await _allowed(client, 1)
    assert allowed == [True, False, False]


@in_loop
async def test_addresses_of_one_ipv6_network_share_a_limit_and_others_do_not() -> None:
    app = make(rate_limit(1, clock=Clock())).asgi()
    allowed = []
    for address in ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "192.0.2.1", "192.0.2.2"):

        async def serve(scope: Any, receive: Any, send: Any, address: str = address) -> None:
            await app(scope | {"client": (address, 1)}, receive, send)

        answer = (await Modern(serve).ask(call("add"))).json["result"]
        allowed.append(not answer["isError"])
    await app.stop()
    assert allowed == [True, False, True, True, True]


@in_loop
async def test_a_limit_by_session_counts_each_session_by_itself() -> None:
    server = make(rate_limit(1, by="session", clock=Clock()))
    for _ in range(2):
        async with connected(server, transport="http", revision="2025-06-18") as client:
            assert await _allowed(client, 2) == [True, False]


@in_loop
async def test_a_limit_by_tool_counts_all_callers_and_unknown_names_together() -> None:
    server = make(rate_limit(1, by="tool", clock=Clock()))
    async with connected(server) as client:
        assert await _allowed(client, 2) == [True, False]
    async with connected(server) as client:
        assert await _allowed(client, 1) == [False]
        assert await _allowed(client, 1, "other") == [True]
        with pytest.raises(RequestError, match="unknown tool 'x1'"):
            await client.call_tool("x1")
        assert "was refused" in (await client.call_tool("x2")).text


@in_loop
async def test_a_function_chooses_the_key_or_no_limit() -> None:
    def by(ctx: Context) -> str | None:
        return None if ctx.params.arguments.get("a") == 0 else "same"

    async with connected(make(rate_limit(1, by=by, clock=Clock()))) as client:
        results = [await client.call_tool("add", {"a": a}) for a in (0, 0, 1, 2)]
    assert [result.is_error for result in results] == [False, False, False, True]


@in_loop
async def test_calls_at_the_same_time_do_not_exceed_the_burst() -> None:
    async with connected(make(rate_limit(1, burst=5, clock=Clock()))) as client:
        results = await asyncio.gather(*(client.call_tool("add") for _ in range(20)))
    assert sum(not result.is_error for result in results) == 5


def test_full_buckets_are_forgotten() -> None:
    clock = Clock()
    buckets = Buckets(1.0, 2, clock)
    for key in range(50):
        assert buckets.take(key) == 0
    clock.now += 1
    for key in range(50, 100):
        buckets.take(key)
    assert len(buckets) <= 51


def test_a_hostile_client_cannot_grow_the_buckets() -> None:
    buckets = Buckets(3600.0, 1, Clock(), most=100)
    for key in range(1000):
        assert buckets.take(key) == 0
    assert len(buckets) <= 101
    assert buckets.take(999) > 0


def test_threads_share_a_bucket() -> None:
    buckets = Buckets(1.0, 100, Clock())
    taken: list[float] = []
    threads = [
        threading.Thread(target=lambda: taken.extend(buckets.take("x") for _ in range(50)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(wait == 0 for wait in taken) == 100


@cases(
    ("rate", "settings", "message"),
    [
        (0, {}, "rate is 0, expected a number above 0"),
        ("5/fortnight", {}, "expected a number per second or a text such as '100/minute'"),
        ("x/minute", {}, "expected a number per second or a text such as '100/minute'"),
        (1, {"burst": 0}, "burst is 0, expected 1 or more"),
        (1, {"by": "user"}, "by is 'user', expected 'principal', 'session', 'tool' or a function"),
    ],
)
def test_settings_of_a_rate_that_do_not_fit_are_refused(
    rate: Any, settings: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        rate_limit(rate, **settings)


def test_a_method_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RegistrationError, match="no request 'tool/call'; did you mean 'tools/call"):
        rate_limit(1, methods=["tool/call"])


@in_loop
async def test_each_request_of_a_user_without_a_session_counts_for_the_user() -> None:
    server = make(rate_limit(1, by="session", methods=["tools/call", "tools/list"], clock=Clock()))

    def find(scope: Any) -> Any:
        return Principal(dict(scope["headers"])[b"x-user"].decode())

    app = server.asgi(principal=find)
    client = Modern(app)
    errors = []
    for user in ("ada", "bob", "ada"):
        answer = (await client.ask(call("add"), x_user=user)).json["result"]
        errors.append(answer["isError"])
    await app.stop()
    assert errors == [False, False, True]


@in_loop
async def test_other_methods_have_one_limit_each_beside_those_of_tools() -> None:
    layer = rate_limit(1, by="tool", methods=["tools/call", "tools/list"], clock=Clock())
    async with connected(make(layer), revision="2025-06-18") as client:
        await client.list_tools()
        assert await _allowed(client, 2) == [True, False]
        with pytest.raises(RequestError, match="tools/list was refused"):
            await client.list_tools()


# -- how long


@in_loop
async def test_a_tool_that_takes_too_long_is_cancelled_and_named() -> None:
    server, ends = make(time_limit(0.05)), []

    @server.tool
    async def slow() -> str:
        """Wait."""
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        return ""

    async with connected(server) as client:
        result = await client.call_tool("slow")
        assert result.is_error
        assert result.text == "tool slow did not finish within 0.05 s (time_limit)"
        assert ends == ["cancelled"]
        assert await _allowed(client, 1) == [True]


@in_loop
async def test_a_sync_tool_sees_that_it_is_cancelled() -> None:
    server, seen, ended = make(time_limit(0.05)), threading.Event(), threading.Event()

    @server.tool
    def slow(ctx: Context) -> str:
        """Wait."""
        for _ in range(1000):
            if ctx.is_cancelled:
                seen.set()
                break
            ended.wait(0.01)
        return ""

    async with connected(server) as client:
        assert "did not finish" in (await client.call_tool("slow")).text
        await until(seen.is_set)


@in_loop
async def test_other_requests_fail_with_the_limit_and_a_time_out_of_their_own_is_kept() -> None:
    server = make(time_limit(0.05))

    @server.resource("slow://x")
    async def slow() -> str:
        await asyncio.sleep(LONG)
        return ""

    @server.tool
    async def own() -> str:
        """Time out."""
        raise TimeoutError("mine")

    async with connected(server) as client:
        message = r"resources/read slow://x did not finish within 0.05 s \(time_limit\)"
        with pytest.raises(RequestError, match=message):
            await client.read_resource("slow://x")
        assert "tool own failed" in (await client.call_tool("own")).text
        with pytest.raises(RequestError, match="unknown tool"):
            await client.call_tool("unknown")


@in_loop
async def test_only_the_named_tools_are_limited() -> None:
    server = make(time_limit(1e-6, tools=["other"], methods=["tools/call"]))

    @server.tool
    async def pause() -> str:
        """Wait a moment."""
        await asyncio.sleep(0.01)
        return "done"

    async with connected(server) as client:
        assert (await client.call_tool("pause")).text == "done"


@in_loop
async def test_a_handler_that_ends_late_with_an_error_gets_the_message_of_the_limit() -> None:
    server = make(time_limit(0.05))

    @server.tool
    async def stubborn() -> str:
        """Turn the cancellation into a failure."""
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            raise ValueError("stopped") from None
        return ""

    async with connected(server) as client:
        assert "within 0.05 s (time_limit)" in (await client.call_tool("stubborn")).text


def test_a_limit_without_time_is_refused() -> None:
    with pytest.raises(ValueError, match=r"time_limit\(\): seconds is 0, expected a number above"):
        time_limit(0)

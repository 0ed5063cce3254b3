"""`Depends`: parameters that the server fills in, their scopes, their end, their replacement."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Annotated, Any, Self

import pytest

from accord import Context, Depends, Server, ToolError
from accord.client import Client
from accord.errors import RegistrationError
from accord.testing import connected
from support.waiting import in_loop, until

events: list[str] = []


@pytest.fixture(autouse=True)
def _forget_events() -> None:
    events.clear()


class Database:
    def __init__(self, name: str = "real") -> None:
        self.name = name


async def _value(client: Client, tool: str = "use", **arguments: Any) -> Any:
    return await client.call_tool(tool, arguments, result_type=str)


# -- every kind of function


def plain() -> Database:
    return Database("plain")


async def awaited(ctx: Context) -> Database:
    return Database(f"awaited by {ctx.method}")


def generated() -> Iterator[Database]:
    events.append("begin")
    yield Database("generated")
    events.append("end")


async def generated_async() -> AsyncIterator[Database]:
    events.append("begin")
    yield Database("generated async")
    events.append("end")


@contextmanager
def managed() -> Iterator[Database]:
    events.append("begin")
    yield Database("managed")
    events.append("end")


@asynccontextmanager
async def managed_async() -> AsyncIterator[Database]:
    events.append("begin")
    yield Database("managed async")
    events.append("end")


class Entered(Database):
    def __init__(self, ctx: Context) -> None:
        super().__init__(f"entered by {ctx.method}")

    def __enter__(self) -> Self:
        events.append("begin")
        return self

    def __exit__(self, *error: object) -> None:
        events.append("end")


class EnteredAsync(Database):
    async def __aenter__(self) -> Database:
        events.append("begin")
        return Database("entered async")

    async def __aexit__(self, *error: object) -> None:
        events.append("end")


class CallableObject:
    async def __call__(self) -> Database:
        return Database("object")


KINDS: dict[str, tuple[Callable[..., Any], bool]] = {
    "plain": (plain, False),
    "awaited by tools/call": (awaited, False),
    "real": (Database, False),
    "generated": (generated, True),
    "generated async": (generated_async, True),
    "managed": (managed, True),
    "managed async": (managed_async, True),
    "entered by tools/call": (Entered, True),
    "entered async": (EnteredAsync, True),
    "object": (CallableObject(), False),
}


@pytest.mark.parametrize("expected", KINDS)
@pytest.mark.parametrize("style", ["async", "plain", "inline"])
@in_loop
async def test_every_kind_of_function_is_called_and_ended(expected: str, style: str) -> None:
    function, has_end = KINDS[expected]
    server = Server("desk")

    if style == "async":

        async def use(db: Annotated[Database, Depends(function)]) -> str:
            """Use it."""
            events.append("use")
            return db.name
    else:

        def use(db: Annotated[Database, Depends(function)]) -> str:  # type: ignore[misc]
            """Use it."""
            events.append("use")
            return db.name

    server.add_tool(use, inline=style == "inline")
    async with connected(server) as client:
        assert await _value(client) == expected
        (tool,) = (await client.list_tools()).tools
    assert tool.input_schema["properties"] == {}
    assert events == (["begin", "use", "end"] if has_end else ["use"])


@in_loop
async def test_a_dependency_may_be_the_default_of_a_parameter() -> None:
    server = Server("desk")

    @server.tool
    async def use(text: str, db: Database = Depends(plain), times: int = 1) -> str:
        """Use it."""
        return f"{db.name} {text * times}"

    async with connected(server) as client:
        assert await _value(client, text="x", times=2) == "plain xx"
        (tool,) = (await client.list_tools()).tools
        assert sorted(tool.input_schema["properties"]) == ["text", "times"]
        with pytest.raises(ToolError, match='unknown argument "db"'):
            await _value(client, text="x", db={"name": "mine"})


# -- nesting, caching, arguments


@in_loop
async def test_dependencies_may_need_others_which_are_made_once() -> None:
    def base() -> str:
        events.append("base")
        return "b"

    async def left(b: Annotated[str, Depends(base)]) -> str:
        return f"l{b}"

    def right(b: Annotated[str, Depends(base)], ctx: Context) -> str:
        return f"r{b}{ctx.params.name}"

    server = Server("desk")

    @server.tool
    def use(r: Annotated[str, Depends(right)], q: Annotated[str, Depends(left)]) -> str:
        """Use it."""
        return r + q

    async with connected(server) as client:
        assert await _value(client) == "rbuselb"
        assert await _value(client) == "rbuselb"
    assert events == ["base", "base"]


@in_loop
async def test_a_dependency_may_take_arguments_of_the_handler_by_name() -> None:
    def order(order_id: str) -> str:
        if order_id != "o1":
            raise ToolError(f"unknown order {order_id!r}")
        return f"order {order_id}"

    server = Server("desk")

    @server.tool
    async def use(order_id: str, found: Annotated[str, Depends(order)]) -> str:
        """Use it."""
        return found

    async with connected(server) as client:
        assert await _value(client, order_id="o1") == "order o1"
        with pytest.raises(ToolError, match="unknown order 'o2'"):
            await _value(client, order_id="o2")


@in_loop
async def test_a_plain_tool_and_its_dependencies_share_a_thread() -> None:
    def connection() -> Iterator[sqlite3.Connection]:
        made = sqlite3.connect(":memory:")  # may be used in the thread that made it alone
        yield made
        made.close()

    server = Server("desk")

    @server.tool
    def use(db: Annotated[sqlite3.Connection, Depends(connection)]) -> str:
        """Use it."""
        assert threading.current_thread() is not threading.main_thread()
        return str(db.execute("select 'works'").fetchone()[0])

    async with connected(server) as client:
        assert await _value(client) == "works"


# -- the end


@pytest.mark.parametrize("is_async", [True, False])
@in_loop
async def test_a_failure_of_the_handler_reaches_the_generator(is_async: bool) -> None:
    def transaction() -> Iterator[str]:
        try:
            yield "t"
        except ToolError as error:
            events.append(f"rolled back: {error}")
            raise

    server = Server("desk")

    async def use_async(t: Annotated[str, Depends(transaction)]) -> str:
        """Fail."""
        raise ToolError("no money")

    def use_plain(t: Annotated[str, Depends(transaction)]) -> str:
        """Fail."""
        raise ToolError("no money")

    server.add_tool(use_async if is_async else use_plain, name="use")
    async with connected(server) as client:
        with pytest.raises(ToolError, match="no money"):
            await _value(client)
    assert events == ["rolled back: no money"]


@pytest.mark.parametrize("is_async", [True, False])
@in_loop
async def test_a_generator_that_swallows_the_failure_does_not_hide_it(is_async: bool) -> None:
    def careless() -> Iterator[str]:
        with suppress(ToolError):
            yield "x"

    async def use_async(t: Annotated[str, Depends(careless)]) -> str:
        """Fail."""
        raise ToolError("still seen")

    def use_plain(t: Annotated[str, Depends(careless)]) -> str:
        """Fail."""
        raise ToolError("still seen")

    server = Server("desk")
    server.add_tool(use_async if is_async else use_plain, name="use")
    async with connected(server) as client:
        with pytest.raises(ToolError, match="still seen"):
            await _value(client)


@in_loop
async def test_dependencies_end_after_the_result_was_converted() -> None:
    def watched() -> Iterator[str]:
        try:
            yield "w"
        except Exception as error:
            events.append(type(error).__name__)
            raise

    server = Server("desk")

    @server.tool
    async def use(w: Annotated[str, Depends(watched)]) -> int:
        """Return another type."""
        return w  # type: ignore[return-value]

    async with connected(server) as client:
        with pytest.raises(ToolError, match="its result cannot be sent"):
            await _value(client)
    assert events == ["ResultError"]


@in_loop
async def test_a_cancelled_call_ends_its_dependencies() -> None:
    async def held() -> AsyncIterator[str]:
        try:
            yield "h"
        finally:
            events.append("end")

    server = Server("desk")

    @server.tool
    async def use(h: Annotated[str, Depends(held)]) -> str:
        """Wait."""
        events.append("use")
        await asyncio.Event().wait()
        return h

    async with connected(server) as client:
        call = asyncio.ensure_future(client.call_tool("use"))
        await until(lambda: events)
        call.cancel()
        await until(lambda: "end" in events)


@pytest.mark.parametrize("is_async", [True, False])
@in_loop
async def test_a_tool_that_is_out_of_time_ends_its_dependencies(is_async: bool) -> None:
    def held() -> Iterator[str]:
        yield "h"
        events.append("end")

    async def use_async(h: Annotated[str, Depends(held)]) -> str:
        """Wait."""
        await asyncio.Event().wait()
        return h

    def use_plain(ctx: Context, h: Annotated[str, Depends(held)]) -> str:
        """Wait."""
        while not ctx.is_cancelled:
            threading.Event().wait(0.01)
        return h

    server = Server("desk")
    server.add_tool(use_async if is_async else use_plain, name="use", timeout=0.05)
    async with connected(server) as client:
        with pytest.raises(ToolError, match=r"did not finish within 0\.05 s"):
            await _value(client)
        if not is_async:
            await until(lambda: events == ["end"])


# -- scopes


@pytest.mark.parametrize("transport", ["memory", "http"])
@in_loop
async def test_scopes_keep_values_for_a_session_and_for_the_server(transport: Any) -> None:
    made: list[str] = []

    def maker(scope: str) -> Callable[[], AsyncIterator[str]]:
        async def make() -> AsyncIterator[str]:
            await asyncio.sleep(0)  # others come meanwhile
            made.append(scope)
            yield f"{scope}{made.count(scope)}"
            events.append(f"end {scope}")

        return make

    server = Server("desk")
    a, b, c = (maker(scope) for scope in ("request", "session", "server"))

    @server.tool
    async def use(
        q: Annotated[str, Depends(a)],
        s: Annotated[str, Depends(b, scope="session")],
        v: Annotated[str, Depends(c, scope="server")],
    ) -> str:
        """Use them."""
        return f"{s} {v}"

    async with server.run_lifespan():
        for number in (1, 2):
            async with connected(server, transport=transport, revision="2025-06-18") as client:
                together = await asyncio.gather(*[_value(client) for _ in range(3)])
            assert together == [f"session{number} server1"] * 3
        if transport == "memory":
            await until(lambda: events.count("end session") == 2)
            assert "end server" not in events
    assert made.count("request") == 6
    assert events.count("end session") == 2


@in_loop
async def test_a_value_that_could_not_be_made_is_tried_again() -> None:
    tries: list[int] = []

    async def shaky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ToolError("not yet")
        return "made"

    server = Server("desk")

    @server.tool
    async def use(s: Annotated[str, Depends(shaky, scope="server")]) -> str:
        """Use it."""
        return s

    async with connected(server) as client:
        with pytest.raises(ToolError, match="not yet"):
            await _value(client)
        assert [await _value(client), await _value(client)] == ["made", "made"]
    assert len(tries) == 2


@in_loop
async def test_requests_without_a_session_over_http_share_no_value_of_scope_session() -> None:
    made: list[int] = []

    async def own() -> AsyncIterator[str]:
        made.append(1)
        yield f"value {len(made)}"
        events.append("end")

    server = Server("desk")

    @server.tool
    async def use(s: Annotated[str, Depends(own, scope="session")]) -> str:
        """Use it."""
        return s

    # The next request may be that of another caller.
    async with connected(server, transport="http", revision="2026-07-28") as client:
        assert [await _value(client) for _ in range(3)] == ["value 1", "value 2", "value 3"]
    assert events == ["end"] * 3


# -- resources, prompts, completions


@in_loop
async def test_resources_prompts_and_completions_have_dependencies() -> None:
    server = Server("desk")

    @server.resource("note://{name}")
    async def note(name: str, db: Annotated[Database, Depends(generated_async)]) -> str:
        return f"{name} from {db.name}"

    @server.resource("note://today")
    def today(db: Annotated[Database, Depends(generated)]) -> str:
        return f"today from {db.name}"

    @server.prompt
    def greet(name: str, db: Annotated[Database, Depends(plain)]) -> str:
        """Greet."""
        return f"{name} from {db.name}"

    @server.completion("greet", "name")
    async def names(
        typed: str, filled: dict[str, str], ctx: Context, db: Database = Depends(generated)
    ) -> list[str]:
        return [f"{typed} {db.name} {ctx.method}"]

    @server.completion("note://{name}", "name")
    def notes(typed: str, db: Annotated[Database, Depends(generated)]) -> list[str]:
        return [f"{typed} {db.name}"]

    async with connected(server) as client:
        assert (await client.read_resource("note://a")).contents[0].text == "a from generated async"
        found = await client.read_resource("note://today")
        assert found.contents[0].text == "today from generated"
        prompt = await client.get_prompt("greet", {"name": "ada"})
        assert prompt.messages[0].content.text == "ada from plain"  # type: ignore[union-attr]
        (listed,) = (await client.list_prompts()).prompts
        assert [each.name for each in listed.arguments or ()] == ["name"]
        from accord.types import PromptReference, ResourceTemplateReference

        done = await client.complete(PromptReference("greet"), "name", "a")
        assert done.values == ["a generated completion/complete"]
        done = await client.complete(ResourceTemplateReference("note://{name}"), "name", "n")
        assert done.values == ["n generated"]
    assert events == ["begin", "end"] * 4


# -- in tests


@pytest.mark.parametrize("transport", ["memory", "http"])
@in_loop
async def test_tests_override_dependencies_for_one_connection(transport: Any) -> None:
    async def real() -> Database:
        return Database("real")

    def outer(db: Annotated[Database, Depends(real)]) -> str:
        return f"<{db.name}>"

    async def fake(ctx: Context) -> AsyncIterator[Database]:
        events.append("begin")
        yield Database(f"fake {ctx.method}")
        events.append("end")

    server = Server("desk")

    @server.tool
    async def use(o: Annotated[str, Depends(outer)]) -> str:
        """Use it."""
        return o

    async with connected(server, transport=transport, overrides={real: fake}) as client:
        assert await _value(client) == "<fake tools/call>"
    assert events == ["begin", "end"]
    async with connected(server, transport=transport) as client:
        assert await _value(client) == "<real>"


def test_an_override_of_nothing_is_refused() -> None:
    server = Server("desk")
    with pytest.raises(ValueError, match="no handler depends on plain"):
        connected(server, overrides={plain: generated}).__enter__()
    with pytest.raises(ValueError, match="in this process"):
        connected(server, transport="stdio", overrides={plain: generated})


# -- mistakes at registration


def test_mistakes_are_named_at_registration() -> None:
    server = Server("desk")

    def first(x: "Annotated[int, Depends(second)]") -> int:
        return x

    def second(x: Annotated[int, Depends(first)]) -> int:
        return x

    first.__annotations__["x"] = Annotated[int, Depends(second)]

    def use_cycle(x: Annotated[int, Depends(first)]) -> str:
        """Use it."""
        return str(x)

    with pytest.raises(RegistrationError, match="need each other: first -> second -> first"):
        server.add_tool(use_cycle)

    def unknown(what: int) -> int:
        return what

    def use_unknown(x: Annotated[int, Depends(unknown)]) -> str:
        """Use it."""
        return str(x)

    with pytest.raises(RegistrationError, match='unknown: parameter "what" cannot be filled in'):
        server.add_tool(use_unknown)

    def wide(x: Annotated[Database, Depends(plain)]) -> int:
        return 1

    def use_wide(x: Annotated[int, Depends(wide, scope="server")]) -> str:
        """Use it."""
        return str(x)

    with pytest.raises(RegistrationError, match="wide is kept for the server, and needs plain"):
        server.add_tool(use_wide)

    for scope, is_refused in (("server", True), ("session", False), ("request", False)):

        def caller(ctx: Context) -> int:
            return 1

        def above(x: Annotated[int, Depends(caller, scope=scope)]) -> int:  # type: ignore[arg-type]
            return x

        def use_context(x: Annotated[int, Depends(caller, scope=scope)]) -> str:  # type: ignore[arg-type]
            """Use it."""
            return str(x)

        def use_above(x: Annotated[int, Depends(above, scope=scope)]) -> str:  # type: ignore[arg-type]
            """Use it."""
            return str(x)

        for use in (use_context, use_above):
            if not is_refused:
                server.add_tool(use, name=f"{use.__name__}_{scope}")
                continue
            with pytest.raises(
                RegistrationError,
                match=r'caller is kept for the server, and its parameter "ctx" takes the Context',
            ):
                server.add_tool(use)

    with pytest.raises(RegistrationError, match="without calling it"):
        Depends(plain())  # type: ignore[arg-type]
    with pytest.raises(RegistrationError, match="expected one of request, session, server"):
        Depends(plain, scope="app")  # type: ignore[arg-type]


def test_a_completer_with_a_wrong_dependency_is_refused() -> None:
    server = Server("desk")

    @server.prompt
    def greet(name: str) -> str:
        """Greet."""
        return name

    def unknown(what: int) -> int:
        return what

    with pytest.raises(RegistrationError, match='parameter "what" cannot be filled in'):

        @server.completion("greet", "name")
        def names(typed: str, x: Annotated[int, Depends(unknown)]) -> list[str]:
            return []

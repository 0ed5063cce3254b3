"""What runs where when a mounted tool is called: middleware, dependencies, questions, access."""

import asyncio
import threading
from typing import Annotated, Any

import pytest

from accord import Context, Depends, Principal, Server
from accord.client import Client
from accord.errors import InvalidParams, RegistrationError, RequestError, ToolError
from accord.server.tasks import TaskSettings
from accord.testing import connected
from accord.types import CreateMessageResult, TextContent
from support.waiting import in_loop, until

ERAS = ["2025-06-18", "2026-07-28"]
ID = "io.modelcontextprotocol/tasks"


async def names(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


# -- middleware


class Note:
    def __init__(self, text: str) -> None:
        self.text = text


@pytest.mark.parametrize("revision", ERAS)
@in_loop
async def test_middleware_of_both_servers_runs_each_with_its_own_names(revision: Any) -> None:
    seen: list[str] = []

    def noting(name: str) -> Any:
        async def note(ctx: Context, proceed: Any) -> Any:
            if ctx.method in ("tools/call", "prompts/get"):
                seen.append(f"{name}: {ctx.params.name} {ctx.params.arguments}")
            elif ctx.method == "resources/read":
                seen.append(f"{name}: {ctx.params.uri}")
            elif ctx.method == "completion/complete":
                seen.append(f"{name}: {ctx.params.ref.name}")
            result = await proceed()
            seen.append(f"{name} ends")
            return result

        return note

    hub = Server("hub", middleware=[noting("hub")])
    middle = Server("middle", middleware=[noting("middle")])
    child = Server("child", middleware=[noting("child")])

    @child.tool
    async def find(ctx: Context, name: str) -> str:
        """Find."""
        return f"{ctx.params.name} {ctx.params.arguments}"

    @child.resource("data://x")
    async def x() -> str:
        return "x"

    @child.prompt
    async def greet(name: str) -> str:
        """Greet."""
        return name

    child._core.completions.add("greet", "name", ["Ann", "Bob"])
    middle.mount(child, prefix="b")
    hub.mount(middle, prefix="a")
    async with connected(hub, revision=revision) as client:
        seen.clear()
        assert (await client.call_tool("a_b_find", {"name": "N"})).text == "find {'name': 'N'}"
        ends = ["child ends", "middle ends", "hub ends"]
        assert seen == [
            "hub: a_b_find {'name': 'N'}",
            "middle: b_find {'name': 'N'}",
            "child: find {'name': 'N'}",
            *ends,
        ]
        seen.clear()
        await client.read_resource("data://a/b/x")
        assert seen == ["hub: data://a/b/x", "middle: data://b/x", "child: data://x", *ends]
        seen.clear()
        await client.get_prompt("a_b_greet", {"name": "N"})
        assert [each.split()[1] for each in seen[:3]] == ["a_b_greet", "b_greet", "greet"]
        seen.clear()
        found = await client.complete("a_b_greet", "name", "A")
        assert found.values == ["Ann"]
        assert seen[:3] == ["hub: a_b_greet", "middle: b_greet", "child: greet"]


@in_loop
async def test_middleware_of_the_child_changes_params_and_results() -> None:
    hub, child = Server("hub"), Server("child")

    @child.middleware("tools/call")
    async def redirect(ctx: Context, proceed: Any) -> Any:
        if ctx.params.name == "old":
            return await proceed(params={"name": "new", "arguments": {"word": "changed"}})
        if ctx.params.name == "lost":
            return await proceed(params={"name": "missing"})
        ctx.params.arguments["word"] += "!"
        result = await proceed()
        result.content.append(TextContent("seen"))
        return result

    @child.middleware("resources/read", "prompts/get")
    async def redirect_others(ctx: Context, proceed: Any) -> Any:
        if ctx.method == "resources/read":
            return await proceed(params={"uri": "data://two/7"})
        return await proceed(params={"name": "second"})

    @child.tool
    async def old() -> str:
        """Old."""
        return "old"

    @child.tool
    async def lost() -> str:
        """Lost."""
        return "lost"

    @child.tool
    async def new(word: str) -> str:
        """New."""
        return word

    child.add_resource("data://one", lambda: "one")
    child.resource("data://two/{number}")(lambda number: f"two {number}")
    child.prompt(name="first")(lambda: "first")
    child.prompt(name="second")(lambda: "second")
    hub.mount(child, prefix="x")
    async with connected(hub) as client:
        assert (await client.call_tool("x_old")).text == "changed"
        with pytest.raises(RequestError, match="unknown tool 'missing'"):
            await client.call_tool("x_lost")
        result = await client.call_tool("x_new", {"word": "hi"})
        assert [each.text for each in result.content] == ["hi!", "seen"]
        assert (await client.read_resource("data://x/one")).contents[0].text == "two 7"
        assert (await client.get_prompt("x_first")).messages[0].content.text == "second"


@in_loop
async def test_values_and_failures_are_shared_by_the_middleware_of_both_servers() -> None:
    seen: list[Any] = []

    async def around_hub(ctx: Context, proceed: Any) -> Any:
        if ctx.method != "tools/call":
            return await proceed()
        ctx.put(Note("from the hub"))
        result = await proceed()
        seen.append((type(ctx.failure).__name__, ctx.get(int), ctx.state))
        return result

    async def around_child(ctx: Context, proceed: Any) -> Any:
        result = await proceed()
        seen.append((type(ctx.failure).__name__, ctx.get(int), ctx._session.server.name))
        return result

    hub = Server("hub", middleware=[around_hub])
    child = Server("child", middleware=[around_child])

    @child.tool
    async def fail(ctx: Context) -> str:
        """Fail."""
        ctx.put(7)
        raise ValueError(ctx.get(Note).text)

    hub.mount(child)
    async with connected(hub) as client:
        assert (await client.call_tool("fail")).is_error
    assert seen == [("ValueError", 7, "child"), ("ValueError", 7, None)]


@in_loop
async def test_an_error_of_the_middleware_of_a_child_is_a_failure_of_the_tool() -> None:
    hub, child = Server("hub"), Server("child")

    @child.middleware("tools/call")
    async def refuse(ctx: Context, proceed: Any) -> Any:
        raise ToolError(f"closed: {ctx.params.name}")

    child.tool(name="t")(lambda: "x")
    hub.mount(child, prefix="p")
    async with connected(hub) as client:
        result = await client.call_tool("p_t")
        assert result.is_error
        assert result.text == "closed: t"


# -- dependencies


@pytest.mark.parametrize("transport", ["memory", "http"])
@in_loop
async def test_dependencies_of_a_mounted_server_are_its_own(transport: Any) -> None:
    made: list[str] = []

    def for_session(ctx: Context) -> str:
        made.append("session")
        return f"session of {ctx._session.server.name}"

    def for_server() -> str:
        made.append("server")
        return "server"

    hub, child = Server("hub"), Server("child")

    @child.tool
    async def show(
        one: Annotated[str, Depends(for_session, scope="session")],
        two: Annotated[str, Depends(for_server, scope="server")],
    ) -> str:
        """Show both."""
        return f"{one}, {two}"

    @child.tool
    def show_in_thread(one: Annotated[str, Depends(for_session, scope="session")]) -> str:
        """Show one."""
        return one

    hub.mount(child, prefix="a")
    hub.mount(child, prefix="b")
    async with connected(hub, transport=transport, revision="2025-06-18") as client:
        assert (await client.call_tool("a_show")).text == "session of child, server"
        assert (await client.call_tool("b_show_in_thread")).text == "session of child"
        async with connected(hub, transport=transport, revision="2025-06-18") as other:
            await other.call_tool("b_show")
        assert sorted(made) == ["server", "session", "session"]
        with child.override({for_session: lambda: "another"}):
            assert (await client.call_tool("a_show_in_thread")).text in (
                "another",
                "session of child",
            )
    with child.override({for_session: lambda: "another"}):
        async with connected(hub) as client:
            assert (await client.call_tool("a_show_in_thread")).text == "another"


@in_loop
async def test_values_for_a_session_are_not_kept_for_another_caller() -> None:
    """Over HTTP without sessions, what serves one request may serve the next one."""
    count = iter(range(10))
    hub, child = Server("hub"), Server("child")

    @child.tool
    async def number(value: Annotated[int, Depends(lambda: next(count), scope="session")]) -> int:
        """Show a value that is made for each session."""
        return value

    hub.mount(child)
    async with connected(hub, transport="http", revision="2026-07-28") as client:
        assert (await client.call_tool("number")).text == "0"
        assert (await client.call_tool("number")).text == "1"


# -- how tools run


@in_loop
async def test_timeouts_threads_and_inline_functions_work_in_a_mounted_server() -> None:
    hub, child = Server("hub"), Server("child")
    here = threading.get_ident()

    @child.tool(timeout=0.01)
    async def slow() -> str:
        """Wait."""
        await asyncio.sleep(60)
        return "never"

    @child.tool
    def in_thread(ctx: Context) -> bool:
        """Say whether it runs in a thread."""
        assert Context.current() is ctx
        return threading.get_ident() != here

    @child.tool(inline=True)
    def inline(ctx: Context) -> bool:
        """Say whether it runs on the loop."""
        assert Context.current() is ctx
        return threading.get_ident() == here

    hub.mount(child, prefix="x")
    async with connected(hub) as client:
        result = await client.call_tool("x_slow")
        assert "did not finish within 0.01 s" in result.text
        assert (await client.call_tool("x_in_thread")).text == "true"
        assert (await client.call_tool("x_inline")).text == "true"


@pytest.mark.parametrize("revision", ERAS)
@in_loop
async def test_progress_logs_and_cancellation_of_a_mounted_tool(revision: Any) -> None:
    hub, child = Server("hub"), Server("child")
    ended: list[str] = []
    begun = threading.Event()

    @child.tool
    async def report(ctx: Context) -> str:
        """Report."""
        await ctx.progress(1, 2, message="half")
        await ctx.warning("careful")
        return "done"

    @child.tool
    async def wait() -> str:
        """Wait for ever."""
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("loop")
        return "never"

    @child.tool
    def wait_in_thread(ctx: Context) -> str:
        """Wait in a thread until the call is cancelled."""
        begun.set()
        pause = threading.Event()
        while not ctx.is_cancelled:
            pause.wait(0.002)
        ended.append("thread")
        return "never"

    hub.mount(child, prefix="x")
    logged: list[Any] = []
    progress: list[Any] = []
    async with connected(hub, revision=revision, on_log=logged.append) as client:

        async def call_and_cancel(name: str) -> None:
            begun.clear()
            call = asyncio.ensure_future(client.call_tool(name))
            await until(begun.is_set)
            call.cancel()

        result = await client.call_tool("x_report", on_progress=progress.append)
        assert result.text == "done"
        await until(lambda: progress and logged)
        assert progress[0].message == "half"
        assert logged[0].data == "careful"
        await call_and_cancel("x_wait")
        await until(lambda: ended == ["loop"])
        await call_and_cancel("x_wait_in_thread")
        await until(lambda: ended == ["loop", "thread"])


@pytest.mark.parametrize("has_middleware", [False, True])
@pytest.mark.parametrize("revision", ERAS)
@in_loop
async def test_a_mounted_handler_asks_the_client(revision: Any, has_middleware: bool) -> None:
    async def pass_on(ctx: Context, proceed: Any) -> Any:
        return await proceed()

    layers = [pass_on] if has_middleware else []
    hub, middle = Server("hub", middleware=layers), Server("middle", middleware=layers)
    child = Server("child", middleware=layers)

    @child.tool
    async def ask(ctx: Context, word: str) -> str:
        """Ask three things."""
        name = await ctx.elicit("Name?", str)
        said = await ctx.sample("Say it", max_tokens=5)
        roots = await ctx.roots()
        return f"{word} {name} {said.text} {len(roots)}"

    @child.prompt
    async def greet(ctx: Context) -> str:
        """Ask for a prompt."""
        return f"Hello {await ctx.elicit('Name?', str)}"

    @child.resource("data://asked")
    async def asked(ctx: Context) -> str:
        return f"Read by {await ctx.elicit('Name?', str)}"

    middle.mount(child.change("ask", hide={"word": "W"}), prefix="b")
    hub.mount(middle, prefix="a")
    async with connected(
        hub,
        revision=revision,
        on_elicit=lambda params: {"value": "Ann"},
        on_sample=lambda params: CreateMessageResult("assistant", TextContent("hi"), "m"),
        roots=["/maps"],
    ) as client:
        assert (await client.call_tool("a_b_ask")).text == "W Ann hi 1"
        prompt = await client.get_prompt("a_b_greet")
        assert prompt.messages[0].content.text == "Hello Ann"
        found = await client.read_resource("data://a/b/asked")
        assert found.contents[0].text == "Read by Ann"


@in_loop
async def test_a_mounted_server_hears_of_changed_roots() -> None:
    hub, child = Server("hub"), Server("child")
    heard: list[Any] = []

    @child.on_roots_changed
    async def changed(session: Any) -> None:
        heard.append((session._core.server.name, len(await session.roots())))

    @child.tool
    async def touch() -> str:
        """Do nothing."""
        return "x"

    hub.mount(child)
    async with connected(hub, revision="2025-06-18", roots=["/maps"]) as client:
        await client.call_tool("touch")
        await client.roots_changed(["/maps", "/more"])
        await until(lambda: heard == [("child", 2)])


# -- tasks


@pytest.mark.parametrize("has_middleware", [False, True])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@in_loop
async def test_a_mounted_tool_runs_as_a_task(revision: Any, has_middleware: bool) -> None:
    seen: list[str] = []

    async def pass_on(ctx: Context, proceed: Any) -> Any:
        if ctx.method == "tools/call":
            seen.append(f"{ctx._session.server.name} {ctx.params.name}")
        return await proceed()

    layers = [pass_on] if has_middleware else []
    hub = Server("hub", middleware=layers, tasks=TaskSettings(poll_interval=0.01))
    child = Server("child", middleware=layers)

    @child.tool(task="optional")
    async def build(ctx: Context, target: str, secret: int) -> str:
        """Build."""
        return f"{ctx.params.name} {ctx.params.arguments} {target} {secret} {ctx.task is not None}"

    @child.tool(task="optional")
    def build_in_thread(ctx: Context) -> str:
        """Build in a thread."""
        return f"{ctx._session.server.name} {ctx.task is not None}"

    @child.tool(task="optional", ask_first=True)
    async def ask(ctx: Context) -> str:
        """Ask, then work."""
        name = await ctx.elicit("Name?", str)
        await ctx.start_task()
        return f"{ctx._session.server.name} {name}"

    hub.mount(child.change("build", hide={"secret": 7}), prefix="x")
    async with connected(
        hub, revision=revision, on_elicit=lambda params: {"value": "Ann"}
    ) as client:
        task = await client.start_tool("x_build", {"target": "all"})
        assert (await task.result()).text == ("build {'target': 'all', 'secret': 7} all 7 True")
        task = await client.start_tool("x_build_in_thread")
        assert (await task.result()).text == "child True"
        if revision == "2026-07-28":
            assert (await client.call_tool("x_ask")).text == "child Ann"
        if has_middleware:
            assert {"hub x_build", "child build"} <= set(seen)


@in_loop
async def test_a_task_of_a_mounted_tool_is_cancelled() -> None:
    hub, child = Server("hub", tasks=TaskSettings(poll_interval=0.01)), Server("child")
    begun, ended = threading.Event(), threading.Event()

    @child.tool(task="optional")
    def wait(ctx: Context) -> str:
        """Wait in a thread."""
        begun.set()
        pause = threading.Event()
        while not ctx.is_cancelled:
            pause.wait(0.002)
        ended.set()
        return "x"

    hub.mount(child)
    async with connected(hub, revision="2025-11-25") as client:
        task = await client.start_tool("wait")
        await until(begun.is_set)
        await task.cancel()
        await until(ended.is_set)


# -- access


def guarded() -> Server[Any]:
    child: Server[Any] = Server(
        "child", policy=lambda principal, entry: "admin" not in entry.tags or is_admin(principal)
    )
    child.tool(name="open")(lambda: "open")
    child.tool(name="scoped", scopes=["write"])(lambda: "scoped")
    child.tool(name="admin", tags=["admin"])(lambda: "admin")
    child.resource("data://admin", tags=["admin"])(lambda: "admin")
    child.prompt(name="ask", tags=["admin"])(lambda: "admin")
    return child


def is_admin(principal: Principal | None) -> bool:
    return principal is not None and principal.subject == "ann"


@in_loop
async def test_scopes_and_policies_of_hub_and_child_decide() -> None:
    middle, hub = Server("middle"), Server("hub")
    middle.mount(guarded(), prefix="b")
    hub.mount(middle, prefix="a")
    ann = Principal("ann", scopes=frozenset(["write"]))
    bob = Principal("bob")
    everything = ["a_b_open", "a_b_scoped", "a_b_admin"]
    assert [each.name for each in await hub.list_tools(principal=ann)] == everything
    assert [each.name for each in await hub.list_tools(principal=bob)] == ["a_b_open"]
    assert [each.name for each in await hub.list_tools()] == ["a_b_open"]
    for name in everything:
        assert not (await hub.call_tool(name, principal=ann)).is_error
    with pytest.raises(InvalidParams, match="'a_b_scoped' needs a token with the scopes: write"):
        await hub.call_tool("a_b_scoped", principal=bob)
    # A hidden tool and one that does not exist look the same.
    with pytest.raises(InvalidParams) as hidden:
        await hub.call_tool("a_b_admin", principal=bob)
    assert hidden.value.message == "unknown tool 'a_b_admin'"
    assert hidden.value.data == {"name": "a_b_admin"}
    with pytest.raises(RequestError, match="a/b/admin"):
        await hub.read_resource("data://a/b/admin", principal=bob)
    with pytest.raises(InvalidParams, match="a_b_ask"):
        await hub.get_prompt("a_b_ask", principal=bob)
    assert (await hub.read_resource("data://a/b/admin", principal=ann)).contents[0].text == "admin"

    strict = Server("strict", policy=lambda principal, entry: entry.key != "a_b_open")
    strict.mount(middle, prefix="a")
    assert [each.name for each in await strict.list_tools(principal=ann)] == everything[1:]
    with pytest.raises(InvalidParams):
        await strict.call_tool("a_b_open", principal=ann)


@pytest.mark.parametrize("transport", ["memory", "http"])
@in_loop
async def test_a_session_shows_and_hides_within_the_child(transport: Any) -> None:
    middle, hub, child = Server("middle"), Server("hub"), Server("child")
    child.tool(name="secret", tags=["admin"])(lambda: "secret")

    @child.tool
    async def unlock(ctx: Context) -> str:
        """Show the tools for admins."""
        ctx.session.show(tags="admin")
        ctx.session.state["unlocked"] = True
        return "unlocked"

    child.hide(tags="admin")
    middle.mount(child, prefix="b")
    hub.mount(middle, prefix="a")
    heard: list[str] = []
    async with (
        connected(
            hub,
            transport=transport,
            revision="2025-06-18",
            on_tools_changed=lambda: heard.append("tools"),
        ) as client,
        connected(hub, transport=transport, revision="2025-06-18") as other,
    ):
        assert await names(client) == ["a_b_unlock"]
        await client.call_tool("a_b_unlock")
        await until(lambda: heard)
        assert sorted(await names(client)) == ["a_b_secret", "a_b_unlock"]
        assert (await client.call_tool("a_b_secret")).text == "secret"
        assert await names(other) == ["a_b_unlock"]
        with pytest.raises(RequestError, match="unknown tool 'a_b_secret'"):
            await other.call_tool("a_b_secret")


def test_a_protected_server_is_not_offered_through_one_that_is_not() -> None:
    child, middle = Server("child"), Server("middle")
    child._core.auth = object()  # type: ignore[assignment]  # any protection
    with pytest.raises(RegistrationError, match="is protected"):
        Server("hub").mount(child.prefix("x"))
    middle._core.auth = child._core.auth
    middle.mount(child)
    with pytest.raises(RegistrationError, match="is protected"):
        Server("hub").mount(middle)

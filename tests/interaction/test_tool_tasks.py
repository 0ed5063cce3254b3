"""Tasks of 2025-11-25: tool calls whose results are fetched later."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from accord import Context, Limits, Principal, Server, connect
from accord.errors import (
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
    RegistrationError,
    RequestError,
)
from accord.server.tasks import MemoryTaskStore, TaskSettings
from accord.testing import connected
from accord.types import (
    CallToolParams,
    CancelTaskParams,
    EmptyParams,
    PageParams,
    RevisionId,
    TaskMetadata,
    TaskResultParams,
)
from support.asgi import Asgi
from support.http_talk import initialize, notification
from support.running import in_virtual_time, on_a_loop

REVISION: RevisionId = "2025-11-25"
RELATED = "io.modelcontextprotocol/related-task"


def make(**settings: Any) -> Server[Any]:
    def clock() -> float:
        return 1_800_000_000 + asyncio.get_running_loop().time()

    settings.setdefault("store", MemoryTaskStore(clock=clock))
    server: Server[Any] = Server("jobs", tasks=TaskSettings(**settings))

    @server.tool(task="optional")
    async def build(ctx: Context, target: str = "all", seconds: float = 10) -> str:
        """Build something."""
        if ctx.task is not None:
            await ctx.task.update(f"building {target}")
        await ctx.progress(1, 2)
        await asyncio.sleep(seconds)
        await ctx.progress(2, 2)
        return f"built {target}"

    @server.tool(task="required")
    async def train(ctx: Context) -> dict[str, int]:
        """Train for long."""
        assert ctx.task is not None
        await asyncio.sleep(30)
        return {"epochs": 3}

    @server.tool(task="optional")
    async def break_down() -> str:
        """Fail."""
        raise RequestError("the disk is full", code=-32050, data={"disk": "a"})

    @server.tool(task="optional")
    async def fail() -> str:
        """Fail politely."""
        raise ValueError("secret")

    @server.tool
    async def plain(ctx: Context) -> str:
        """Answer directly."""
        return str(ctx.task)

    return server


def link(target: Any, **options: Any) -> Any:
    return connected(target, revision=REVISION, **options)


async def ask(client: Any, name: str, params: Any = None) -> Any:
    return await client._link.ask(name, params or EmptyParams(), {})


# -- a task from its beginning to its result


@pytest.mark.requirement("tasks.times.last-updated-at")
@in_virtual_time
async def test_each_change_of_a_task_has_a_later_time_than_the_one_before() -> None:
    """Reports that arrive on several streams have no other order."""
    store = MemoryTaskStore(clock=lambda: 1_800_000_000.0)
    times = []
    async with link(make(store=store)) as client:
        task = await client.start_tool("build", {"target": "docs"})
        async for update in task:
            times.append(update.updated_at)
            if len(times) == 2:
                await task.cancel()
    assert len(times) == 3
    assert times == sorted(set(times))


@pytest.mark.requirement(
    "tasks.capability.declared",
    "tasks.create.returns-task",
    "tasks.create.promptly",
    "tasks.id.string",
    "tasks.id.receiver-generated",
    "tasks.id.unique",
    "tasks.related.not-on-task-ops",
    "tasks.status.starts-working",
    "tasks.times.created-at",
    "tasks.times.last-updated-at",
    "tasks.result.exact",
    "tasks.result.related-task",
    "tasks.poll-interval-respected",
    "tasks.poll-until-terminal",
)
@in_virtual_time
async def test_a_result_is_fetched_later() -> None:
    async with link(make()) as client:
        task = await client.start_tool("build", {"target": "docs"}, ttl=60)
        assert task.status == "working"
        assert task.ttl == 60
        assert len(task.id) >= 32
        result = await task.result()
        assert task.status == "completed"
    assert result.text == "built docs"
    assert result.meta == {RELATED: {"taskId": task.id}}


@pytest.mark.requirement("tasks.notify.not-relied-on")
@in_virtual_time
async def test_a_task_is_followed_by_its_updates() -> None:
    async with link(make()) as client:
        task = await client.start_tool("build")
        seen = [(update.status, update.message) async for update in task]
    assert seen == [
        ("working", None),
        ("working", "building all"),
        ("completed", None),
    ]


@pytest.mark.requirement("tasks.notify.not-relied-on", "tasks.poll-until-terminal")
@in_virtual_time
async def test_a_server_without_notifications_is_polled() -> None:
    server = make(poll_interval=4)
    async with link(server) as client:
        task = await client.start_tool("build", {"seconds": 10})
        client._link.callbacks.followed.clear()
        began = asyncio.get_running_loop().time()
        assert (await task.result()).text == "built all"
        passed = asyncio.get_running_loop().time() - began
    assert 12 <= passed <= 13.2


@pytest.mark.requirement("tasks.tool.required-tasked", "tasks.tool.required-error")
@pytest.mark.parametrize("is_listed", [True, False])
@in_virtual_time
async def test_a_call_of_a_tool_that_requires_a_task_waits_for_it(is_listed: bool) -> None:
    # A client that has not listed the tool cannot know better at first.
    allow = () if is_listed else ("tasks.tool.required-tasked",)
    async with link(make(), allow=allow) as client:
        if is_listed:
            tools = [tool async for tool in client.tools()]
            support = {tool.name: tool.execution and tool.execution.task_support for tool in tools}
            assert support["train"] == "required"
            assert support["build"] == "optional"
            assert support["plain"] is None
        assert await client.call_tool("train", result_type=dict[str, int]) == {"epochs": 3}
        assert (await client.call_tool("build")).text == "built all"


@pytest.mark.parametrize("is_listed", [True, False])
@in_virtual_time
async def test_a_tool_that_says_method_not_found_is_not_called_again(is_listed: bool) -> None:
    server: Server[Any] = Server("x")
    calls: list[bool] = []

    @server.tool(task="optional")
    async def look() -> str:
        """Do something, and fail."""
        calls.append(True)
        raise MethodNotFound("nothing there")

    async with link(server) as client:
        if is_listed:
            await client.list_tools()
        with pytest.raises(MethodNotFound, match="nothing there"):
            await client.call_tool("look")
    assert calls == [True]


@in_virtual_time
async def test_a_call_that_is_cancelled_cancels_its_task() -> None:
    server = make()
    async with link(server) as client:
        await client.list_tools()
        call = asyncio.ensure_future(client.call_tool("train"))
        await asyncio.sleep(5)
        assert len(server._core.tasks.running) == 1
        call.cancel()
        await asyncio.sleep(0.1)
        assert not server._core.tasks.running


@in_virtual_time
async def test_a_call_whose_time_is_over_cancels_its_task() -> None:
    server = make()
    async with link(server) as client:
        await client.list_tools()
        with pytest.raises(TimeoutError, match=r"train: the task was not finished within 7 s"):
            await client.call_tool("train", cap=7)
        await asyncio.sleep(0.1)
        assert not server._core.tasks.running


@pytest.mark.requirement("tools.task-support.values")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
@in_virtual_time
async def test_older_clients_see_plain_tools(revision: str) -> None:
    async with connected(make(), revision=revision) as client:
        assert client.capabilities.tasks is None
        assert all(tool.execution is None for tool in (await client.list_tools()).tools)
        assert (await client.call_tool("build")).text == "built all"
        with pytest.raises(LocalProtocolError, match="tasks are not part of revision"):
            await client.start_tool("build")


# -- failures


@pytest.mark.requirement("tasks.errors.tool-error-is-failed", "tasks.errors.status-message")
@in_virtual_time
async def test_a_tool_that_reports_an_error_fails_its_task() -> None:
    async with link(make()) as client:
        task = await client.start_tool("fail")
        result = await task.result()
        assert result.is_error
        assert "secret" not in result.text
        assert task.status == "failed"
        assert task.message == result.text


@pytest.mark.requirement("tasks.result.exact")
@in_virtual_time
async def test_an_error_of_the_call_is_the_error_of_its_result() -> None:
    async with link(make()) as client:
        task = await client.start_tool("break_down")
        with pytest.raises(RequestError) as caught:
            await task.result()
        assert (caught.value.code, caught.value.data) == (-32050, {"disk": "a"})
        assert task.status == "failed"
        assert task.message == "the disk is full"


@pytest.mark.requirement("tasks.tool.forbidden-error", "tasks.tool.forbidden-not-tasked")
@in_virtual_time
async def test_a_plain_tool_is_not_called_as_a_task() -> None:
    async with link(make(), allow=("tasks.tool.*",)) as client:
        with pytest.raises(MethodNotFound, match="does not run as a task"):
            await client.start_tool("plain")
        assert (await client.call_tool("plain")).text == "None"
    async with link(make()) as client:
        await client.list_tools()
        with pytest.raises(LocalProtocolError, match="'plain' does not run as a task"):
            await client.start_tool("plain")


@pytest.mark.requirement(
    "tasks.undeclared.ignored",
    "tasks.tool.no-capability-no-task",
    "tasks.capability.none-no-tasks",
    "tasks.capability.requestor-respects",
)
@in_virtual_time
async def test_a_server_without_tasks_ignores_the_wish_for_one() -> None:
    server: Server[Any] = Server("plain")

    @server.tool
    async def greet() -> str:
        """Greet."""
        return "hello"

    async with link(server, allow=("tasks.*",)) as client:
        assert client.capabilities.tasks is None
        with pytest.raises(LocalProtocolError, match=r"did not declare tasks\.requests"):
            await client.start_tool("greet")
        params = CallToolParams("greet", task=TaskMetadata(5))
        assert (await ask(client, "tools/call", params)).text == "hello"


@pytest.mark.requirement("tasks.errors.unknown-id")
@in_virtual_time
async def test_an_unknown_task_is_refused() -> None:
    async with link(make()) as client:
        with pytest.raises(InvalidParams, match="there is no task 'nothing'"):
            await client.task("nothing")


# -- cancelling


@pytest.mark.requirement(
    "tasks.cancel.cancelled-before-response",
    "tasks.cancel.stays-cancelled",
    "tasks.cancel.attempt-stop",
    "tasks.cancel.terminal-32602",
    "cancellation.not-for-tasks-2025",
)
@in_virtual_time
async def test_a_task_is_cancelled_once() -> None:
    server = make()
    async with link(server) as client:
        task = await client.start_tool("build")
        same = await client.task(task.id)
        await task.cancel()
        assert task.status == "cancelled"
        await asyncio.sleep(20)
        assert not server._core.tasks.running
        assert (await same.refresh()).status == "cancelled"
        with pytest.raises(RequestError, match="was cancelled and has no result"):
            await task.result()
        await task.cancel()
        with pytest.raises(InvalidParams, match="is cancelled and cannot be cancelled"):
            await ask(client, "tasks/cancel", CancelTaskParams(task.id))


@pytest.mark.requirement("tasks.cancel.attempt-stop", "tasks.cancel.stays-cancelled")
@in_virtual_time
async def test_a_cancelled_task_asks_nothing_more() -> None:
    asked: list[Any] = []
    server = make()

    @server.tool(task="required")
    async def apologize(ctx: Context) -> str:
        """Ask once more when the work is cancelled."""
        try:
            await asyncio.sleep(60)
        finally:
            await ctx.elicit("Really?", bool)
        return "done"

    async def elicit(params: Any) -> dict[str, bool]:
        asked.append(params)
        return {"value": True}

    async with link(server, on_elicit=elicit) as client:
        task = await client.start_tool("apologize")
        await task.cancel()
        await asyncio.sleep(100)
        assert (asked, task.status) == ([], "cancelled")
        assert not server._core.tasks.running


@in_virtual_time
async def test_a_cancellation_that_comes_too_late_does_no_harm() -> None:
    async with link(make()) as client:
        task = await client.start_tool("build", {"seconds": 0})
        client._link.callbacks.followed.clear()
        await asyncio.sleep(1)
        assert task.status == "working"
        await task.cancel()
        assert task.status == "completed"


def test_work_in_a_thread_learns_of_its_cancellation() -> None:
    server: Server[Any] = Server("threads")
    ended = asyncio.Event()

    @server.tool(task="optional")
    def grind(ctx: Context) -> str:
        """Work in a thread."""
        assert ctx.task is not None
        try:
            ctx.wait(ctx.task.update("grinding"))
            while not ctx.is_cancelled:
                pass
        finally:
            ctx._session.run_here(ended.set)
        return "done"

    async def run() -> None:
        async with link(server) as client:
            task = await client.start_tool("grind")
            async for update in task:
                if update.message == "grinding":
                    await task.cancel()
            await asyncio.wait_for(ended.wait(), 10)
            assert task.status == "cancelled"

    asyncio.run(run())


# -- the owner of a task, and its time


async def seen_by(server: Any, id: str) -> str:
    async with link(server) as client:
        try:
            return str((await client.task(id)).status)
        except InvalidParams:
            return "unknown"


@pytest.mark.requirement(
    "tasks.security.bound-to-context",
    "tasks.security.foreign-rejected",
    "tasks.security.list-own-only",
    "tasks.list.consistent-with-get",
)
@in_virtual_time
async def test_a_task_belongs_to_its_principal_on_any_connection() -> None:
    server = make()
    ann, ben = Principal("ann"), Principal("ben")
    async with connect_as(server, ann) as client:
        task = await client.start_tool("build")
    # The connection is gone, and the task goes on.
    async with connect_as(server, ann) as client:
        again = await client.task(task.id)
        assert again.status == "working"
        assert [each.id async for each in client.tasks()] == [task.id]
        assert (await again.result()).text == "built all"
    async with connect_as(server, ben) as client:
        assert [each.id async for each in client.tasks()] == []
        for attempt in ("tasks/get", "tasks/result", "tasks/cancel"):
            with pytest.raises(InvalidParams, match="there is no task"):
                await ask(client, attempt, TaskResultParams(task.id))


def connect_as(server: Server[Any], principal: Principal) -> Any:
    return connect(server.acting_as(principal), revision=REVISION)


@pytest.mark.requirement("tasks.security.no-list-unidentified", "tasks.security.unguessable-ids")
@in_virtual_time
async def test_callers_without_a_name_list_nothing() -> None:
    server = make()
    async with link(server) as client:
        first = await client.start_tool("build")
        second = await client.start_tool("build")
        assert client.capabilities.tasks.list is None
        with pytest.raises(LocalProtocolError, match=r"needs the capability tasks\.list"):
            _ = [each async for each in client.tasks()]
    assert first.id != second.id
    # An id that cannot be guessed is enough to come back.
    assert await seen_by(server, first.id) == "working"


@pytest.mark.requirement(
    "tasks.list.paginated", "tasks.list.next-cursor", "tasks.errors.bad-cursor"
)
@in_virtual_time
async def test_a_long_list_comes_in_pages() -> None:
    server = make(unfinished=300)
    async with connect_as(server, Principal("ann")) as client:
        begun = [(await client.start_tool("build")).id for _ in range(250)]
        assert [each.id async for each in client.tasks()] == begun
        first = await ask(client, "tasks/list")
        assert len(first.tasks) == 100
        for cursor in ("after-x", "7", "after-" + "9" * 30, "after-\u0663"):
            with pytest.raises(InvalidParams, match="is invalid"):
                await ask(client, "tasks/list", PageParams(cursor))


@pytest.mark.requirement("tasks.ttl.in-get", "tasks.security.limits")
@in_virtual_time
async def test_a_task_is_kept_for_its_time_and_then_forgotten() -> None:
    server = make(ttl=100, longest_ttl=200)
    async with link(server) as client:
        usual = await client.start_tool("build")
        longest = await client.start_tool("build", ttl=10_000)
        short = await client.start_tool("build", ttl=5)
        assert (usual.ttl, longest.ttl, short.ttl) == (100, 200, 5)
        await asyncio.sleep(6)
        assert len(server._core.tasks.running) == 2  # what has expired does not go on
        assert await seen_by(server, short.id) == "unknown"
        await asyncio.sleep(50)
        assert await seen_by(server, usual.id) == "completed"
        await asyncio.sleep(50)
        assert await seen_by(server, usual.id) == "unknown"
        assert await seen_by(server, longest.id) == "completed"


@pytest.mark.requirement("tasks.security.limits")
@in_virtual_time
async def test_a_caller_has_so_many_tasks_and_not_more() -> None:
    server = make(unfinished=2, kept=3)
    async with link(server) as client:
        first = await client.start_tool("build")
        await client.start_tool("build")
        with pytest.raises(RequestError, match="busy: 2 tasks of this caller are unfinished"):
            await client.start_tool("build")
        await first.result()
        await asyncio.sleep(1)
        for _ in range(3):
            await (await client.start_tool("build", {"seconds": 0})).result()
        assert await seen_by(server, first.id) == "unknown"


@pytest.mark.parametrize("state", ["database", None])
@in_virtual_time
async def test_tasks_end_with_the_lifespan_whose_state_they_use(state: Any) -> None:
    @asynccontextmanager
    async def lifespan(server: Any) -> Any:
        yield state

    server: Server[Any] = Server("jobs", lifespan=lifespan)

    @server.tool(task="optional")
    async def query() -> str:
        """Query for long."""
        await asyncio.sleep(100)
        return "rows"

    async with link(server) as client:
        task = await client.start_tool("query")
    async with link(server) as client:
        again = await client.task(task.id)
        assert again.status == "failed"
        assert again.message == "the server stopped before the task was finished"


# -- progress and logs


@pytest.mark.requirement(
    "progress.task.same-token", "progress.task.stops-at-terminal", "tasks.related.everywhere"
)
@in_virtual_time
async def test_progress_of_a_task_reaches_its_caller() -> None:
    heard: list[float] = []
    async with link(make()) as client:
        task = await client.start_tool(
            "build", on_progress=lambda params: heard.append(params.progress)
        )
        await task.result()
        assert heard == [1, 2]
        tokens = client._link.endpoint.conversation.parties["client"].tokens
        assert not tokens


@pytest.mark.requirement("tasks.result.blocks-until-terminal", "tasks.related.param-wins")
@in_virtual_time
async def test_a_result_asked_for_early_comes_when_it_is_there() -> None:
    async with link(make(), allow=("tasks.related.*",)) as client:
        task = await client.start_tool("build")
        params = TaskResultParams(task.id, meta={RELATED: {"taskId": "another"}})
        answer = await client._link.dispatcher.request("tasks/result", params)
        assert asyncio.get_running_loop().time() >= 10
        assert answer["_meta"] == {RELATED: {"taskId": task.id}}


# -- settings and details


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"ttl": 0}, "ttl is 0, expected > 0"),
        ({"poll_interval": -1.0}, "poll_interval is -1.0"),
        ({"unfinished": 0}, "unfinished is 0"),
        ({"kept": 0}, "kept is 0"),
        ({"longest_ttl": 60}, r"longest_ttl is 60, less than ttl \(3600\)"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: Any, why: str) -> None:
    with pytest.raises(RegistrationError, match=why):
        TaskSettings(**settings)


def test_a_ttl_may_be_without_limit() -> None:
    assert TaskSettings(longest_ttl=None).clamp(10**12) == 10**12
    assert TaskSettings().clamp(-5) == 1


@pytest.mark.parametrize(
    ("details", "why"),
    [
        ({"ask_first": True}, "ask_first is for tools with task"),
        ({"task": "optional", "inline": True}, "inline is for short work"),
        ({"task": "forbidden"}, "task: invalid enum value"),
    ],
)
def test_details_that_contradict_each_other_are_refused(details: Any, why: str) -> None:
    server: Server[Any] = Server("x")
    with pytest.raises(RegistrationError, match=why):
        server.add_tool(lambda: "x", name="x", description="X.", **details)


@in_virtual_time
async def test_tools_with_tasks_may_come_and_go() -> None:
    server: Server[Any] = Server("x")
    assert not server._core.has_task_tools
    server.add_tool(lambda: "x", name="x", description="X.", task="optional")
    assert server._core.has_task_tools
    assert server._core.capabilities().tasks is not None
    server.tool_entries.remove("x")
    assert server._core.capabilities().tasks is None


@in_virtual_time
async def test_a_result_that_no_message_can_carry_fails_its_task() -> None:
    server: Server[Any] = Server("x", limits=Limits(message_bytes=20_000))

    @server.tool(task="optional")
    async def fill(size: int) -> str:
        """Return much."""
        return "x" * size

    async with link(server) as client:
        task = await client.start_tool("fill", {"size": 30_000})
        with pytest.raises(RequestError, match=r"tool fill: the answer has \d+ bytes, more than"):
            await task.result()
        assert task.status == "failed"


@in_virtual_time
async def test_a_task_keeps_the_values_that_middleware_put() -> None:
    async def name_caller(ctx: Context, proceed: Any) -> Any:
        ctx.put("ann")
        await asyncio.sleep(1)
        result = await proceed()
        await asyncio.sleep(1)
        return result

    server: Server[Any] = Server("x", middleware=[name_caller])

    @server.tool(task="optional")
    async def greet(ctx: Context) -> str:
        """Greet."""
        await ctx.progress(1)
        return f"hello {ctx.get(str)}"

    async with link(server) as client:
        task = await client.start_tool("greet")
        assert (await task.result()).text == "hello ann"


class SlowStore(MemoryTaskStore):
    """A store that takes its time."""

    async def add(self, record: Any, **limits: Any) -> bool:
        is_added = await super().add(record, **limits)
        await asyncio.sleep(5)
        return is_added


@in_virtual_time
async def test_a_call_that_is_given_up_before_its_task_began_leaves_none_behind() -> None:
    server = make(store=SlowStore())
    async with link(server, allow=("cancellation.not-for-tasks-2025",)) as client:
        start = asyncio.ensure_future(client.start_tool("build"))
        await asyncio.sleep(1)
        start.cancel()
        await asyncio.sleep(10)
    store = server._core.tasks.store
    assert [each.status for _, each in await store.page("", REVISION, after=0, count=9)] == [
        "cancelled"
    ]
    assert not server._core.tasks.running


# -- over HTTP, where each request has its own principal


@on_a_loop
async def test_a_task_belongs_to_the_sender_of_its_request_over_http() -> None:
    app = make().asgi(principal=lambda scope: dict(scope["headers"]).get(b"x-user", b"").decode())

    async def speak(user: str, method: str, **params: Any) -> Any:
        talk = Asgi(app)
        opened = await talk.post(initialize(REVISION), x_user=user)
        talk.session = opened.headers["mcp-session-id"]
        await talk.post(notification("notifications/initialized"), x_user=user)
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return (await talk.post(request, x_user=user)).json

    begun = await speak("ann", "tools/call", name="build", arguments={"seconds": 0}, task={})
    id = begun["result"]["task"]["taskId"]
    result = await speak("ann", "tasks/result", taskId=id)
    assert result["result"]["content"][0]["text"] == "built all"
    listed = await speak("ann", "tasks/list")
    assert [each["taskId"] for each in listed["result"]["tasks"]] == [id]
    assert (await speak("ben", "tasks/list"))["result"]["tasks"] == []
    assert (await speak("ben", "tasks/result", taskId=id))["error"]["code"] == -32602


class Account(NamedTuple):
    """A user as many applications have them: known by an id, shown by a name."""

    id: int
    name: str

    def __str__(self) -> str:
        return self.name


@on_a_loop
async def test_callers_that_look_alike_have_tasks_of_their_own() -> None:
    callers = [
        *(1, "1", b"1", (1,), ("1",), UUID(int=1), str(UUID(int=1)), "(1,)", "b'1'"),
        *(Account(1, "ann"), Account(2, "ann"), "ann"),
    ]
    app = make().asgi(principal=lambda scope: callers[int(dict(scope["headers"])[b"x-user"])])

    async def speak(user: int, method: str, **params: Any) -> Any:
        talk = Asgi(app)
        opened = await talk.post(initialize(REVISION), x_user=str(user))
        talk.session = opened.headers["mcp-session-id"]
        await talk.post(notification("notifications/initialized"), x_user=str(user))
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return (await talk.post(request, x_user=str(user))).json

    for user in range(len(callers)):
        assert (await speak(user, "tasks/list"))["result"]["tasks"] == [], callers[user]
        begun = await speak(user, "tools/call", name="build", arguments={"seconds": 0}, task={})
        id = begun["result"]["task"]["taskId"]
        assert [
            each["taskId"] for each in (await speak(user, "tasks/list"))["result"]["tasks"]
        ] == [id]


# -- stores that fail


class BrokenStore(MemoryTaskStore):
    """A store that loses its disk."""

    is_shared = True
    lease = 1.5
    is_broken = False

    async def change(self, id: str, change: Any) -> Any:
        if self.is_broken:
            raise OSError("the disk is gone")
        return await super().change(id, change)

    async def get(self, id: str) -> Any:
        if self.is_broken:
            raise OSError("the disk is gone")
        return await super().get(id)


@in_virtual_time
async def test_a_store_that_fails_is_reported_and_ends_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = BrokenStore()
    server = make(store=store)
    async with link(server) as client:
        task = await client.start_tool("build", {"seconds": 5})
        await asyncio.sleep(1)
        store.is_broken = True
        await asyncio.sleep(10)
        assert "the store of tasks failed" in caplog.text
        assert "was lost" in caplog.text
        assert not server._core.tasks.running
        with pytest.raises(RequestError, match="internal error"):
            await task.refresh()
        store.is_broken = False
        assert (await client.start_tool("build", {"seconds": 0})).status == "working"


@in_virtual_time
async def test_a_task_that_another_process_dropped_is_stopped() -> None:
    store = BrokenStore()
    server = make(store=store)
    async with link(server) as client:
        task = await client.start_tool("build")
        store._records.clear()
        await asyncio.sleep(2)
        assert not server._core.tasks.running
        with pytest.raises(InvalidParams, match="there is no task"):
            await task.cancel()


@in_virtual_time
async def test_the_result_of_a_task_fits_the_schema_of_its_tool() -> None:
    async with link(make()) as client:
        await client.list_tools()
        task = await client.start_tool("train")
        assert await task.result(result_type=dict[str, int]) == {"epochs": 3}


@pytest.mark.parametrize("data", [object(), b"\xff", {1: object()}])
@in_virtual_time
async def test_an_error_whose_data_is_not_json_loses_it(data: Any) -> None:
    server: Server[Any] = Server("x")

    @server.tool(task="optional")
    async def fail() -> str:
        """Fail with data of any kind."""
        raise RequestError("no", code=-32050, data=data)

    async with link(server) as client:
        task = await client.start_tool("fail")
        with pytest.raises(RequestError, match="no") as caught:
            await task.result()
        assert caught.value.code == -32050

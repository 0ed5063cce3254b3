"""The extension `io.modelcontextprotocol/tasks` on a server, by plain messages of 2026-07-28."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from accord import Context, Principal, Server
from accord.errors import RequestError, RequestTimeout, ToolError
from accord.server.tasks import MemoryTaskStore, SqliteTaskStore, TaskSettings
from accord.testing import connected
from support.asgi import Asgi
from support.modern import ALL, ModernClient, accept, meta
from support.running import in_virtual_time, on_a_loop
from support.waiting import until

ID = "io.modelcontextprotocol/tasks"
CAPABLE = {**ALL, "extensions": {ID: {}}}


def make(**settings: Any) -> Server[Any]:
    def clock() -> float:
        return 1_800_000_000 + asyncio.get_running_loop().time()

    settings.setdefault("store", MemoryTaskStore(clock=clock))
    settings.setdefault("grace", 0)
    server: Server[Any] = Server("jobs", tasks=TaskSettings(**settings))

    @server.tool
    async def greet(name: str) -> str:
        """Greet."""
        return f"Hello, {name}!"

    @server.tool(task="optional")
    async def compute(ctx: Context, seconds: float = 10) -> str:
        """Compute for long."""
        await ctx.progress(1)
        await ctx.info("computing")
        await asyncio.sleep(seconds)
        return "42" if ctx.task else "at once"

    @server.tool(task="required")
    async def fail() -> str:
        """Report an error."""
        raise ToolError("no luck")

    @server.tool(task="optional")
    async def break_down() -> str:
        """Fail."""
        raise RequestError("the disk is full", code=-32050)

    @server.tool(task="optional")
    async def confirm(ctx: Context, name: str = "a") -> str:
        """Ask one thing."""
        return f"{name}: {await ctx.elicit(f'Delete {name}?', bool, key='confirm')}"

    @server.tool(task="optional")
    async def survey(ctx: Context) -> str:
        """Ask two things at once."""
        name, age = await asyncio.gather(ctx.elicit("Name?", str), ctx.elicit("Age?", int))
        return f"{name} is {age}"

    @server.tool(task="required", ask_first=True)
    async def plan(ctx: Context) -> str:
        """Ask, begin a task, ask again."""
        name = await ctx.elicit("Name?", str, key="name")
        assert ctx.task is None
        await ctx.start_task()
        assert ctx.task is not None
        sure = await ctx.elicit("Sure?", bool, key="sure")
        return f"{name}: {sure}"

    @server.tool(task="optional", ask_first=True)
    def decide(ctx: Context, direct: bool) -> str:
        """Decide in a thread whether this is a task."""
        if direct:
            return "at once"
        ctx.wait(ctx.start_task())
        return f"later {ctx.task is not None}"

    @server.tool(task="optional")
    async def ask_in_vain(ctx: Context, how: str) -> str:
        """Give up a question."""
        try:
            if how == "timeout":
                await ctx.elicit("Quick?", bool, timeout=5)
            else:
                await asyncio.wait_for(ctx.elicit("Quick?", bool), 5)
        except (RequestTimeout, TimeoutError) as error:
            await asyncio.sleep(10)
            return type(error).__name__
        return "answered"

    @server.tool(task="optional")
    async def keep(ctx: Context) -> str:
        """Keep a value."""
        kept = [await ctx.once("n", lambda: 5) for _ in range(2)]
        return f"{kept} {str(ctx.task)[:20]}"

    @server.tool(task="optional")
    async def be_cancelled() -> str:
        """Await something that is cancelled."""
        other = asyncio.ensure_future(asyncio.sleep(100))
        other.cancel()
        await other
        return "never"

    @server.tool(task="optional", ask_first=True)
    async def linger(ctx: Context, seconds: float) -> str:
        """Take long before the task begins."""
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            stopped.append(True)
            raise
        await ctx.start_task()
        return "never"

    @server.tool(task="optional")
    async def report(ctx: Context, count: int, wait: float = 0) -> str:
        """Report often, once the call is a task."""
        await asyncio.sleep(2)
        for number in range(count):
            await ctx.progress(number + 1, count)
        await asyncio.sleep(wait)
        return "done"

    @server.tool(task="optional")
    async def ask_twice(ctx: Context) -> str:
        """Use a key twice."""
        await ctx.elicit("One?", bool, key="k")
        await ctx.elicit("Two?", bool, key="k")
        return "never"

    return server


stopped: list[bool] = []


class Client(ModernClient):
    """A client that understands tasks."""

    async def begin(self, name: str, **arguments: Any) -> Any:
        handle = await self.call(name, capabilities=CAPABLE, arguments=arguments)
        assert handle["resultType"] == "task", handle
        return handle

    async def about(self, method: str, id: str, **params: Any) -> Any:
        answer = await self.send_modern(method, capabilities=CAPABLE, taskId=id, **params)
        return answer.get("result") or answer["error"]

    async def get(self, id: str) -> Any:
        return await self.about("tasks/get", id)

    async def settle(self, id: str, *statuses: str) -> Any:
        while True:
            task = await self.get(id)
            if task["status"] in (statuses or ("completed", "failed", "cancelled")):
                return task
            await asyncio.sleep(0.05)

    async def answer(self, id: str, task: Any, *contents: Any) -> Any:
        return await self.about("tasks/update", id, inputResponses=accept(task, *contents))


# -- a call that ends soon


@in_virtual_time
async def test_a_call_that_ends_within_the_grace_is_answered_directly() -> None:
    async with Client(make(grace=5)) as raw:
        answer = await raw.send_modern(
            "tools/call", capabilities=CAPABLE, name="compute", arguments={"seconds": 4}
        )
        assert answer["result"]["resultType"] == "complete"
        assert answer["result"]["content"][0]["text"] == "42"  # it has a task all the same
        broken = await raw.send_modern(
            "tools/call", capabilities=CAPABLE, name="break_down", arguments={}
        )
        assert broken["error"]["message"] == "the disk is full"
        assert asyncio.get_running_loop().time() < 5
        late = await raw.begin("compute", seconds=6)
        assert late["status"] == "working"
        assert (await raw.settle(late["taskId"]))["result"]["content"][0]["text"] == "42"


@in_virtual_time
async def test_a_call_that_asks_is_a_task_at_once() -> None:
    async with Client(make(grace=50)) as raw:
        handle = await raw.begin("confirm")
        assert asyncio.get_running_loop().time() < 5
        task = await raw.settle(handle["taskId"], "input_required")
        await raw.answer(handle["taskId"], task, {"value": True})
        done = await raw.settle(handle["taskId"])
        assert done["result"]["content"][0]["text"] == "a: True"


@in_virtual_time
async def test_a_call_that_is_cancelled_within_the_grace_is_stopped() -> None:
    ended: list[str] = []
    server = make(grace=50)

    @server.tool(task="optional")
    async def wait_for_ever(ctx: Context) -> str:
        """Wait."""
        assert ctx.task is not None
        await ctx.task.update("waiting")
        try:
            await asyncio.sleep(1_000)
        finally:
            ended.append("stopped" if ctx.is_cancelled else "ended")
        return ""

    async with connected(server, revision="2026-07-28") as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("wait_for_ever", timeout=5)
        await until(lambda: ended == ["stopped"])
    assert not server._core.tasks.running


@in_virtual_time
async def test_progress_of_a_task_stands_in_it() -> None:
    wants_progress: Any = {"_meta": {**meta(CAPABLE), "progressToken": "p"}}
    async with Client(make(grace=1)) as raw:
        handle = await raw.call("report", arguments={"count": 150}, **wants_progress)
        task = await raw.settle(handle["taskId"])
        notices = task["_meta"]["accord/notices"]
        assert [each["number"] for each in notices] == [*range(51, 151)]  # the latest
        assert notices[-1] == {
            "number": 150,
            "method": "notifications/progress",
            "params": {"progress": 150, "total": 150},
        }
        handle = await raw.call("report", arguments={"count": 2, "wait": 9}, **wants_progress)
        await asyncio.sleep(2)
        assert (await raw.get(handle["taskId"]))["statusMessage"] == "2 of 2"


# -- from the call to the result


@pytest.mark.requirement(
    "tasks-ext.create.result-type-task",
    "tasks-ext.create.durable-first",
    "tasks-ext.task.required-fields",
    "tasks-ext.task.status-values",
    "tasks-ext.get.result-type-complete",
    "tasks-ext.get.completed-has-result",
    "tasks-ext.security.entropy",
)
@in_virtual_time
async def test_a_call_becomes_a_task() -> None:
    async with Client(make()) as raw:
        handle = await raw.begin("compute")
        assert handle["status"] == "working"
        assert handle["ttlMs"] == 3_600_000
        assert handle["pollIntervalMs"] == 100  # sooner while it is young
        assert len(handle["taskId"]) >= 32
        old = {"task", "ttl", "pollInterval", "result", "error", "inputRequests", "requestState"}
        assert old.isdisjoint(handle)
        assert (await raw.get(handle["taskId"]))["status"] == "working"
        done = await raw.settle(handle["taskId"])
        assert done["pollIntervalMs"] == 1_000
        assert done["resultType"] == "complete"
        assert done["status"] == "completed"
        assert done["result"]["content"][0]["text"] == "42"
        assert "_meta" not in done["result"]
        assert await raw.get(handle["taskId"]) == done


@pytest.mark.requirement(
    "tasks-ext.status.tool-error-is-completed",
    "tasks-ext.get.failed-has-error",
    "tasks-ext.status.failed-message",
)
@in_virtual_time
async def test_only_errors_of_the_protocol_fail_a_task() -> None:
    async with Client(make()) as raw:
        done = await raw.settle((await raw.begin("fail"))["taskId"])
        assert done["status"] == "completed"
        assert done["result"]["isError"]
        failed = await raw.settle((await raw.begin("break_down"))["taskId"])
        assert failed["status"] == "failed"
        assert failed["error"] == {"code": -32050, "message": "the disk is full"}
        assert failed["statusMessage"] == "the disk is full"
        assert "result" not in failed


@pytest.mark.requirement("extensions.one-sided-fallback")
@pytest.mark.requirement(
    "tasks-ext.create.only-to-declaring",
    "tasks-ext.create.needs-task-32021",
    "tasks-ext.legacy.only-old-capability-is-none",
)
@pytest.mark.parametrize("capabilities", [ALL, {"tasks": {"requests": {"tools": {"call": {}}}}}])
@in_virtual_time
async def test_a_client_without_the_extension_gets_no_task(capabilities: Any) -> None:
    async with Client(make()) as raw:
        await raw.begin("compute")
        plain = await raw.call("compute", capabilities=capabilities, arguments={})
        assert plain["content"][0]["text"] == "at once"
        error = await raw.call("fail", capabilities=capabilities)
        assert error["code"] == -32021
        assert error["data"] == {"requiredCapabilities": {"extensions": {ID: {}}}}


@pytest.mark.requirement("tasks-ext.legacy.task-param-ignored")
@in_virtual_time
async def test_a_wish_for_a_task_means_nothing() -> None:
    async with Client(make(), allow=("practice.*", "*.unknown-members")) as raw:
        arguments: Any = {"name": "Ann"}
        found = await raw.call("greet", capabilities=CAPABLE, arguments=arguments, task={"ttl": 5})
        assert found["content"][0]["text"] == "Hello, Ann!"


@pytest.mark.requirement(
    "tasks-ext.capability.server", "tasks-ext.legacy.capabilities-not-advertised"
)
@in_virtual_time
async def test_the_extension_is_advertised_where_there_are_such_tools() -> None:
    async with Client(make()) as raw:
        found = (await raw.send_modern("server/discover"))["result"]["capabilities"]
        assert found["extensions"] == {ID: {}}
        assert "tasks" not in found
        tools = (await raw.send_modern("tools/list"))["result"]["tools"]
        assert all("execution" not in tool for tool in tools)
    async with Client(Server("empty")) as raw:
        found = (await raw.send_modern("server/discover"))["result"]["capabilities"]
        assert "extensions" not in found
        assert (await raw.get("x"))["code"] == -32601


@pytest.mark.requirement("tasks-ext.legacy.not-under-2025")
@in_virtual_time
async def test_a_session_of_an_older_revision_has_its_own_tasks() -> None:
    server = make()
    async with Client(server) as raw:
        modern = (await raw.begin("compute"))["taskId"]
        opened = await raw.open("2025-11-25", extensions={ID: {}})
        assert "extensions" not in opened["capabilities"]
        found = await raw.ask("c", "tools/call", {"name": "compute", "arguments": {"seconds": 0}})
        assert found["result"]["content"][0]["text"] == "at once"
        # An id of one kind means nothing to the other.
        answer = await raw.ask("g", "tasks/get", {"taskId": modern})
        assert answer["error"]["code"] == -32602


# -- what is refused


@pytest.mark.requirement("tasks-ext.errors.undeclared-32021")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
@in_virtual_time
async def test_methods_of_tasks_need_the_extension(method: str) -> None:
    async with Client(make()) as raw:
        id = (await raw.begin("compute"))["taskId"]
        answer = await raw.send_modern(method, taskId=id, inputResponses={})
        assert answer["error"]["code"] == -32021


@pytest.mark.requirement("tasks-ext.errors.result-removed-32601")
@pytest.mark.parametrize("method", ["tasks/result", "tasks/list"])
@in_virtual_time
async def test_methods_of_older_tasks_are_gone(method: str) -> None:
    async with Client(make()) as raw:
        assert (await raw.about(method, "x"))["code"] == -32601


@pytest.mark.requirement(
    "tasks-ext.errors.get-unknown-32602", "tasks-ext.errors.update-cancel-unknown-32602"
)
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
@in_virtual_time
async def test_an_unknown_task_of_the_extension_is_refused(method: str) -> None:
    async with Client(make()) as raw:
        assert (await raw.about(method, "x", inputResponses={}))["code"] == -32602


@pytest.mark.requirement("tasks-ext.security.authorize-each")
@in_virtual_time
async def test_a_task_of_the_extension_belongs_to_its_principal() -> None:
    server = make()
    async with Client(server.acting_as(Principal("ann"))) as raw:
        id = (await raw.begin("compute"))["taskId"]
    async with Client(server.acting_as(Principal("ben"))) as raw:
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            assert (await raw.about(method, id, inputResponses={}))["code"] == -32602
    async with Client(server.acting_as(Principal("ann"))) as raw:
        assert (await raw.settle(id))["status"] == "completed"


# -- cancelling


@pytest.mark.requirement("tasks-ext.cancel.ack-empty")
@in_virtual_time
async def test_a_cancellation_is_acknowledged_before_and_after_the_end() -> None:
    server = make()
    async with Client(server) as raw:
        id = (await raw.begin("compute"))["taskId"]
        for _ in range(2):
            found = await raw.about("tasks/cancel", id)
            assert found.keys() - {"_meta"} == {"resultType"}
            assert found["resultType"] == "complete"
        assert (await raw.get(id))["status"] == "cancelled"
        await asyncio.sleep(0.1)
        assert not server._core.tasks.running


# -- questions


@pytest.mark.requirement(
    "tasks-ext.get.input-requests",
    "tasks-ext.update.ack-empty",
    "tasks-ext.update.unknown-keys-ignored",
)
@in_virtual_time
async def test_questions_stand_in_the_task_until_they_are_answered() -> None:
    async with Client(make()) as raw:
        id = (await raw.begin("survey"))["taskId"]
        task = await raw.settle(id, "input_required")
        while len(task["inputRequests"]) < 2:
            task = await raw.get(id)
        one, other = task["inputRequests"]
        questions = task["inputRequests"]
        assert questions[one]["method"] == "elicitation/create"
        assert questions[one]["params"]["message"] == "Name?"
        found = await raw.about("tasks/update", id, inputResponses={"nothing": {"x": 1}})
        assert found.keys() - {"_meta"} == {"resultType"}
        answers = accept(task, "Ann", 41)
        await raw.about("tasks/update", id, inputResponses={one: answers[one]})
        left = await raw.get(id)
        assert left["status"] == "input_required"
        assert [*left["inputRequests"]] == [other]
        # A second answer to the same question is too late.
        await raw.about("tasks/update", id, inputResponses={one: accept(task, "Ben", 1)[one]})
        await raw.about("tasks/update", id, inputResponses={other: answers[other]})
        done = await raw.settle(id)
        assert "inputRequests" not in done
        assert done["result"]["content"][0]["text"] == "Ann is 41"


@in_virtual_time
async def test_a_malformed_answer_is_refused_and_the_question_stays() -> None:
    async with Client(make()) as raw:
        id = (await raw.begin("confirm"))["taskId"]
        task = await raw.settle(id, "input_required")
        wrong = await raw.about("tasks/update", id, inputResponses={"confirm": {"action": 5}})
        assert wrong["code"] == -32602
        assert "inputResponses['confirm']" in wrong["message"]
        await raw.answer(id, task, True)
        assert (await raw.settle(id))["result"]["content"][0]["text"] == "a: True"


@pytest.mark.requirement("tasks-ext.input.keys-unique-for-life")
@in_virtual_time
async def test_a_key_is_used_once_in_a_task() -> None:
    async with Client(make()) as raw:
        id = (await raw.begin("ask_twice"))["taskId"]
        await raw.answer(id, await raw.settle(id, "input_required"), True)
        assert (await raw.settle(id))["result"]["isError"]


@pytest.mark.parametrize(
    ("how", "raised"), [("timeout", "RequestTimeout"), ("wait_for", "TimeoutError")]
)
@in_virtual_time
async def test_a_question_that_the_handler_gives_up_is_gone(how: str, raised: str) -> None:
    async with Client(make()) as raw:
        id = (await raw.begin("ask_in_vain", how=how))["taskId"]
        task = await raw.settle(id, "input_required")
        await asyncio.sleep(6)
        later = await raw.get(id)
        assert later["status"] == "working"
        assert "inputRequests" not in later
        await raw.answer(id, task, True)  # too late
        assert (await raw.settle(id))["result"]["content"][0]["text"] == raised


@in_virtual_time
async def test_a_task_keeps_the_value_of_once() -> None:
    async with Client(make()) as raw:
        done = await raw.settle((await raw.begin("keep"))["taskId"])
        assert done["result"]["content"][0]["text"].startswith("[5, 5] <RunningTask ")


@in_virtual_time
async def test_a_handler_that_awaits_what_is_cancelled_fails_its_task() -> None:
    async with Client(make()) as raw:
        done = await raw.settle((await raw.begin("be_cancelled"))["taskId"])
        assert done["error"] == {"code": -32603, "message": "the work was cancelled"}


@in_virtual_time
async def test_a_call_that_is_cancelled_before_its_task_begins_is_stopped() -> None:
    async with Client(make()) as raw:
        arguments: Any = {"seconds": 100}
        params = {"_meta": meta(CAPABLE), "name": "linger", "arguments": arguments}
        raw.request("c", "tools/call", params)
        await asyncio.sleep(1)
        raw.notify("notifications/cancelled", {"_meta": meta(CAPABLE), "requestId": "c"})
        await asyncio.sleep(1)
        assert stopped == [True]
        stopped.clear()
        wrong = await raw.call("linger", capabilities=CAPABLE, arguments={"seconds": "x"})
        assert wrong["isError"]


@pytest.mark.requirement("tasks-ext.create.mrtr-first")
@in_virtual_time
async def test_questions_may_come_before_the_task() -> None:
    async with Client(make()) as raw:
        asked = await raw.call("plan", capabilities=CAPABLE)
        assert asked["resultType"] == "input_required"
        handle = await raw.again("plan", asked, "Ann", capabilities=CAPABLE)
        assert handle["resultType"] == "task"
        assert "inputRequests" not in handle
        id = handle["taskId"]
        await raw.answer(id, await raw.settle(id, "input_required"), False)
        assert (await raw.settle(id))["result"]["content"][0]["text"] == "Ann: False"


@on_a_loop
async def test_a_tool_decides_whether_it_is_a_task() -> None:
    async with Client(make()) as raw:
        call: Any = {"capabilities": CAPABLE, "arguments": {"direct": True}}
        assert (await raw.call("decide", **call))["content"][0]["text"] == "at once"
        id = (await raw.begin("decide", direct=False))["taskId"]
        assert (await raw.settle(id))["result"]["content"][0]["text"] == "later True"
        call = {"arguments": {"direct": False}}
        assert (await raw.call("decide", **call))["content"][0]["text"] == "later False"


@on_a_loop
async def test_another_process_answers_the_question_of_a_task(tmp_path: Path) -> None:
    def store() -> SqliteTaskStore:
        return SqliteTaskStore(tmp_path / "tasks.db", lease=0.06, clock=lambda: 1_000.0)

    ours, theirs = store(), store()
    async with Client(make(store=ours)) as raw, Client(make(store=theirs)) as other:
        id = (await raw.begin("confirm"))["taskId"]
        task = await other.settle(id, "input_required")
        await other.answer(id, task, True)
        assert (await raw.settle(id))["result"]["content"][0]["text"] == "a: True"
    await ours.close()
    await theirs.close()


# -- notifications


@pytest.mark.requirement("tasks-ext.notify.full-state", "tasks-ext.notify.no-progress-or-logs")
@in_virtual_time
async def test_listeners_hear_of_their_tasks() -> None:
    async with Client(make()) as raw:
        id = (await raw.begin("confirm"))["taskId"]
        foreign = "0" * 48
        raw.request(
            "L",
            "subscriptions/listen",
            {"_meta": meta(CAPABLE), "notifications": {"taskIds": [id, foreign]}},
        )
        task = await raw.settle(id, "input_required")
        await raw.answer(id, task, True)
        done = await raw.settle(id)
        await asyncio.sleep(0.1)
        heard = [each for each in raw.received if "method" in each]
    assert heard[0]["params"]["notifications"] == {"taskIds": [id]}
    assert {each["method"] for each in heard[1:]} == {"notifications/tasks"}
    last = heard[-1]["params"]
    assert last["status"] == "completed"
    assert last["result"] == done["result"]


@pytest.mark.requirement("tasks-ext.errors.undeclared-32021")
@in_virtual_time
async def test_listening_to_tasks_needs_the_extension() -> None:
    async with Client(make()) as raw:
        id = (await raw.begin("compute"))["taskId"]
        answer = await raw.send_modern("subscriptions/listen", notifications={"taskIds": [id]})
        assert answer["error"]["code"] == -32021


# -- over HTTP, where each request has a session of its own


async def post(app: Any, method: str, header: str, **params: Any) -> Any:
    request = {"jsonrpc": "2.0", "id": 1, "method": method}
    body = {**request, "params": {"_meta": meta(CAPABLE), **params}}
    headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": method, "mcp_name": header}
    answer = (await Asgi(app).post(body, **headers)).json
    return answer.get("result") or answer["error"]


@pytest.mark.requirement("tasks-ext.create.durable-first")
@in_virtual_time
async def test_a_task_goes_on_when_its_request_over_http_is_answered() -> None:
    app = make().asgi()
    handle = await post(app, "tools/call", "confirm", name="confirm", arguments={"name": "b"})
    id = handle["taskId"]
    task = await post(app, "tasks/get", id, taskId=id)
    assert task["status"] == "input_required"
    answers = accept(task, True)
    found = await post(app, "tasks/update", id, taskId=id, inputResponses=answers)
    assert found["resultType"] == "complete"
    done = await post(app, "tasks/get", id, taskId=id)
    assert done["result"]["content"][0]["text"] == "b: True"
    # http.headers.mcp-name: the name in the header is that of the task.
    assert (await post(app, "tasks/get", "another", taskId=id))["code"] == -32020


@in_virtual_time
async def test_a_tool_that_asks_first_becomes_a_task_over_http() -> None:
    app = make().asgi()
    asked = await post(app, "tools/call", "plan", name="plan")
    again = {"inputResponses": accept(asked, "Ann"), "requestState": asked["requestState"]}
    id = (await post(app, "tools/call", "plan", name="plan", **again))["taskId"]
    task = await post(app, "tasks/get", id, taskId=id)
    await post(app, "tasks/update", id, taskId=id, inputResponses=accept(task, True))
    done = await post(app, "tasks/get", id, taskId=id)
    assert done["result"]["content"][0]["text"] == "Ann: True"

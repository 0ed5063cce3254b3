"""Every revision of a server behind a proxy for clients of every revision, both wires watched."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accord.errors import RequestError, ResourceNotFound
from accord.testing import connected
from accord.types import CreateMessageResult, TextContent, ToolUseContent
from compose import everything
from compose.proxied import EVERYTHING, Watched, hub_of, watch_http, watch_memory, watch_process
from support.links import REVISIONS, text
from support.waiting import run, until

PAIRS = [(server, client) for server in REVISIONS for client in REVISIONS]
# Each revision on each side once, each era on both.
SOME = [
    ("2024-11-05", "2026-07-28"),
    ("2025-06-18", "2025-03-26"),
    ("2026-07-28", "2025-11-25"),
]
CROSSED = [*SOME, ("2025-03-26", "2024-11-05"), ("2025-11-25", "2026-07-28")]


class Pair:
    """A client of one revision, a proxy, and a server of another."""

    def __init__(self, server: str, client: str) -> None:
        self.server = server
        self.revision: Any = client
        self.both = min(server, client)
        self.client: Any = None
        self.logs: list[Any] = []
        self.asked: list[Any] = []
        self.updated: list[str] = []
        self.changed: list[str] = []
        # Whether each call may run in a process of its own: nothing is kept from one to the next.
        self.is_isolated = False

    def options(self) -> dict[str, Any]:
        return {
            "revision": self.revision,
            "roots": ["/home/ann"],
            "sampling_tools": True,
            "on_sample": self._sample,
            "on_elicit": self._fill_in,
            "on_elicit_url": self._visit,
            "on_log": lambda message: self.logs.append((message.level, message.data)),
            "on_resource_updated": self.updated.append,
            "on_tools_changed": lambda: self.changed.append("tools"),
            "on_prompts_changed": lambda: self.changed.append("prompts"),
            "on_resources_changed": lambda: self.changed.append("resources"),
        }

    async def _sample(self, params: Any) -> CreateMessageResult:
        self.asked.append(params)
        if params.tools:
            use = ToolUseContent("u1", "add", {"a": 1, "b": 2})
            return CreateMessageResult("assistant", use, "m", stop_reason="toolUse")
        return CreateMessageResult("assistant", TextContent("left"), "m")

    async def _fill_in(self, params: Any) -> dict[str, Any]:
        self.asked.append(params)
        return {"city": "Oslo"}

    async def _visit(self, params: Any) -> bool:
        self.asked.append(params)
        return True

    # -- scenarios

    async def exercise(self, target: Watched) -> None:
        await self.check_lists()
        await self.check_results()
        await self.check_errors()
        await self.check_questions()
        await self.check_progress_and_logs()
        await self.check_cancellation(target)
        await self.check_tasks()
        await self.check_content()
        if not self.is_isolated:
            await self.check_changes()

    async def call(self, name: str, /, **arguments: Any) -> Any:
        how = {"on_progress": arguments.pop("on_progress")} if "on_progress" in arguments else {}
        return await self.client.call_tool(name, arguments, **how)

    async def check_lists(self) -> None:
        tools = {each.name: each for each in (await self.client.list_tools()).tools}
        add = tools["add"]
        assert list(add.input_schema["properties"]) == ["a", "b"]
        assert (add.title == "Addition") is (self.both >= "2025-06-18")
        assert (add.annotations is not None) is (self.both >= "2025-03-26")
        assert (add.output_schema is not None) is (self.both >= "2025-06-18")
        has_tasks = self.server == self.revision == "2025-11-25"
        assert (tools["train"].execution is not None) is has_tasks
        resources = (await self.client.list_resources()).resources
        assert [each.uri for each in resources] == ["note://index", "blob://pixel"]
        assert resources[0].mime_type == "text/markdown"
        templates = (await self.client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in templates] == ["note://{name}"]
        prompts = (await self.client.list_prompts()).prompts
        assert [each.name for each in prompts] == ["plan", "greet"]
        assert [each.name for each in prompts[1].arguments or []] == ["name"]

    async def check_results(self) -> None:
        result = await self.call("add", a=1, b=2)
        assert text(result) == '{"sum":3}'
        if self.both >= "2025-06-18":
            assert result.structured_content == {"sum": 3}
        kinds = [type(each).__name__ for each in (await self.call("contents")).content]
        expected = ["TextContent", "ImageContent", "EmbeddedResource", "EmbeddedResource"]
        if self.server >= "2025-03-26":
            expected.append("AudioContent" if self.both >= "2025-03-26" else "TextContent")
        if self.server >= "2025-06-18":
            expected.append("ResourceLink" if self.both >= "2025-06-18" else "TextContent")
        assert kinds == expected
        assert len(text(await self.call("large", size=200_000))) == 200_000
        facts = await self.client.call_tool("facts", result_type=dict)
        assert facts["revision"] == self.server
        assert ("sampling" in facts["capabilities"]) is True

    async def check_errors(self) -> None:
        result = await self.call("fail")
        assert result.is_error
        assert text(result) == "closed on Sundays"
        with pytest.raises(RequestError, match="the disk is full") as raised:
            await self.call("refuse")
        assert (raised.value.code, raised.value.data) == (-31050, {"disk": "a"})
        missing = -32602 if self.revision == "2026-07-28" else -32002
        for uri in ("note://none", "other://none"):
            with pytest.raises(ResourceNotFound) as not_found:
                await self.client.read_resource(uri)
            assert (not_found.value.code, not_found.value.data) == (missing, {"uri": uri})

    async def check_questions(self) -> None:
        assert text(await self.call("think")) == "left"
        assert self.asked[-1].system_prompt == "Be brief."
        assert text(await self.call("look")) == '["file:///home/ann"]'
        assert text(await self.call("several")) == '["left","file:///home/ann","left"]'
        form = await self.call("book")
        assert form.is_error is (self.both < "2025-06-18")
        assert text(form) == "booked Oslo" or form.is_error
        if self.server < "2025-06-18":
            assert text(form) == f"elicitation/create does not exist in revision {self.server}"
        elif form.is_error:
            assert text(form) == "the client did not declare elicitation"
        has_pages = self.both >= "2025-11-25"
        page = await self.call("visit")
        assert (page.is_error, text(page) == "visited") == (not has_pages, has_pages)
        with_tools = await self.call("think_with_tools")
        assert (with_tools.is_error, text(with_tools) == "add") == (not has_pages, has_pages)
        if has_pages:
            assert self.asked[-2].url.startswith("https://desk.example/link/")
            assert [each.name for each in self.asked[-1].tools] == ["add"]
        if self.server >= "2025-11-25":
            await self.check_required_page(has_pages=has_pages)

    async def check_required_page(self, *, has_pages: bool) -> None:
        """Need a page before a call: by an error in one revision, as a question in another."""
        if not has_pages:
            refused = await self.call("balance")
            assert refused.is_error
            assert "no account is linked (Link your account: https://desk" in text(refused)
            return
        assert text(await self.call("balance")) == "12 EUR"
        assert self.asked[-1].message == "Link your account"

    async def check_progress_and_logs(self) -> None:
        steps: list[Any] = []
        await self.call(
            "steps", count=3, on_progress=lambda each: steps.append((each.progress, each.message))
        )
        has_text = self.both >= "2025-03-26"
        assert steps == [(n, f"step {n}" if has_text else None) for n in (1, 2, 3)]
        await self.client.set_log_level("warning")
        await self.call("speak")
        await self.client.ping()
        assert self.logs == [("warning", {"rows": 3}), ("error", "bad")]
        await self.client.set_log_level("emergency")
        await self.call("speak")
        await self.client.ping()
        assert len(self.logs) == 2

    async def check_cancellation(self, target: Watched) -> None:
        begun = asyncio.Event()
        waiting = asyncio.ensure_future(
            self.call("wait", name="w", on_progress=lambda each: begun.set())
        )
        await begun.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        if self.is_isolated:
            await until(lambda: target.messages("client", "notifications/cancelled"))
            return

        async def is_cancelled() -> bool:
            return text(await self.call("list_cancelled")) == '["w"]'

        while not await is_cancelled():
            await asyncio.sleep(0.005)

    async def check_tasks(self) -> None:
        assert text(await self.call("train")) == '{"epochs":3}'
        assert text(await self.call("build")) in ("built False", "built True")
        if self.revision == "2025-11-25" == self.server:
            task = await self.client.start_tool("train")
            assert task.status == "working"
            assert text(await task.result()) == '{"epochs":3}'

    async def check_content(self) -> None:
        found = await self.client.read_resource("note://index")
        assert [(each.uri, each.text) for each in found.contents] == [("note://index", "# Notes")]
        assert (await self.client.read_resource("note://tomorrow")).contents[0].text == "sell it"
        assert (await self.client.read_resource("blob://pixel")).contents[0].blob is not None
        greeting = await self.client.get_prompt("greet", {"name": "Ann"})
        assert [each.role for each in greeting.messages] == ["user", "assistant", "user"]
        assert greeting.messages[0].content.text == "Greet Ann"
        plan = await self.client.get_prompt("plan", {"days": "3"})
        assert plan.messages[0].content.text == "Plan 3 days in left."
        assert (await self.client.complete("greet", "name", "O")).values == ["Oslo", "Ottawa"]
        notes = await self.client.complete("note://{name}", "name", "to")
        assert notes.values == ["today", "tomorrow"]

    async def check_changes(self) -> None:
        await self.client.subscribe("note://index")

        async def change() -> bool:
            # The proxy subscribes there while the client has its answer already.
            await self.call("change", uri="note://index")
            await self.client.ping()
            return bool(self.updated)

        while not await change():
            await asyncio.sleep(0.005)
        assert set(self.updated) == {"note://index"}
        await self.client.unsubscribe("note://index")
        await self.call("grow")
        await until(lambda: {*self.changed} == {"tools", "prompts", "resources"})
        assert text(await self.call("added")) == "new"
        tools = (await self.client.list_tools(fresh=True)).tools
        assert "added" in [each.name for each in tools]


@asynccontextmanager
async def joined(pair: Pair, target: Watched, transport: Any) -> Any:
    hub = hub_of(target)
    served: Any = hub.asgi(grace=0, sse=True) if transport == "sse" else hub
    async with connected(served, transport=transport, **pair.options()) as pair.client:
        yield
    target.check()


def exercise(
    server: str,
    client: str,
    target: Watched,
    transport: str = "memory",
    *,
    is_isolated: bool = False,
) -> None:
    pair = Pair(server, client)
    pair.is_isolated = is_isolated

    async def main() -> None:
        async with joined(pair, target, transport):
            await pair.exercise(target)

    run(main())


def http_form(revision: str) -> str:
    return "sse" if revision == "2024-11-05" else "http"


@pytest.mark.parametrize(("server", "client"), PAIRS)
def test_each_revision_is_translated_into_each_other(server: str, client: str) -> None:
    exercise(server, client, watch_memory(everything.make(server)))


@pytest.mark.parametrize(("server", "client"), SOME)
def test_a_server_in_a_process_is_translated(server: str, client: str) -> None:
    exercise(server, client, watch_process(str(EVERYTHING), server))


@pytest.mark.parametrize(("server", "client"), SOME)
def test_a_server_over_http_is_translated_for_clients_over_http(server: str, client: str) -> None:
    target = watch_http(everything.make(server))
    exercise(server, client, target, http_form(client))


@pytest.mark.thorough
@pytest.mark.parametrize(("server", "client"), PAIRS)
def test_each_server_in_a_process_is_translated(server: str, client: str) -> None:
    exercise(
        server,
        client,
        watch_process(str(EVERYTHING), server),
        http_form(client),
        is_isolated=client == "2026-07-28" != server,
    )


@pytest.mark.thorough
@pytest.mark.parametrize(("server", "client"), PAIRS)
def test_each_server_over_http_is_translated(server: str, client: str) -> None:
    exercise(server, client, watch_http(everything.make(server)))

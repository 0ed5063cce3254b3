"""A session with everything in it, after which the monitor must have seen every rule hold."""

import asyncio
from contextlib import suppress
from typing import Annotated, Any

import pytest

from accord import Header, Server
from accord.errors import InvalidParams, MissingCapability, RequestError
from accord.protocol.catalogue import requirements
from accord.protocol.monitor import JUDGED_HERE
from accord.protocol.rules import complete
from accord.testing import Recording
from accord.types import (
    CreateMessageResult,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    ToolUseContent,
)
from interaction.servers import asking, content, tools, working
from support.links import HANDSHAKE, REVISIONS, in_this_process, is_stateless_http
from support.waiting import until

pytestmark = in_this_process(*REVISIONS)

NOT_MET = {
    "jsonrpc.batch.removed": "judged when a batch comes: see test_batches.py",
    "jsonrpc.batch.send-optional": "neither of our parties sends batches of its own accord",
    "lifecycle.initialize.not-in-batch": "judged when a batch comes: see test_batches.py",
    "lifecycle.initialize.client-waits": "judged when a request comes before the answer",
    "jsonrpc.notification.not-answered": "judged when an answer has no request",
    "jsonrpc.response.client-sends": "judged when an answer is missing for too long",
    "ping.periodic": "when to ping is the application's decision; it has `client.ping()`",
    "practice.tools.success-omits-is-error": "the documents demand isError, so it is always sent",
    "practice.capabilities.empty-object": "our servers announce changes, so they say listChanged",
    "elicitation.error.undeclared-mode": "judged when a server asks in an undeclared mode",
    "sampling.context.avoid": "judged when a server asks for context, which ours leave alone",
    "sampling.context.needs-capability": "judged when a server asks for context",
    "deprecated.include-context.not-used": "judged when a server asks for context",
    "cancellation.server-names-listen": "judged when a server ends a stream: test_changes.py",
    "cancellation.server-only-for-listen": "judged when a server ends a stream: test_changes.py",
    "subscriptions.graceful-end-carries-id": "judged when a server ends one: test_changes.py",
}
"""Rules that no message of a good session puts to the test, with the reason."""

# The end of its connection cancels a request that stands on its own.
OVER_STANDALONE_HTTP = {
    "cancellation.names-own-pending",
    "cancellation.reason.optional",
    "cancellation.request-id-required",
    "cancellation.request-id.previously-issued",
}
# Tasks have tests of their own, with the same monitor: test_tool_tasks.py and its neighbours.
TASKS = ("tasks.", "tasks-ext.", "progress.task.", "cancellation.not-for-tasks", "tools.task-")


LISTENS: dict[str, Any] = {
    "on_tools_changed": lambda: None,
    "on_prompts_changed": lambda: None,
    "on_resources_changed": lambda: None,
}


async def model(params: Any) -> CreateMessageResult:
    if params.tools and len(params.messages) == 1:
        use = ToolUseContent("u1", "weather", {"city": "Oslo"})
        return CreateMessageResult("assistant", [use], "tiny", stop_reason="toolUse")
    return CreateMessageResult("assistant", TextContent("yes"), "tiny")


def fill_in(params: Any) -> Any:
    if "city" in params.requested_schema["properties"]:
        return {"city": "Oslo"}
    if "sizes" in params.requested_schema["properties"]:
        return {"sizes": ["s", "l"]}
    return {"name": "Ann", "count": 2}


async def through_tools(client: Any) -> None:
    async for tool in client.tools():
        if tool.name not in (
            "typed",
            "add",
            "point",
            "greet",
            "refuse_request",
            "own_code",
            "reserved_code",
        ):
            await client.call_tool(tool.name, meta={"org.example/trace-id": "t-1"})
    await client.call_tool("add", {"a": 1})
    await client.call_tool("point", {"x": 1})
    with pytest.raises(InvalidParams):
        await client.call_tool("nowhere")
    with pytest.raises(RequestError):
        await client.call_tool("own_code")


async def through_content(client: Any, recording: Recording) -> None:
    for listed in (client.tools, client.prompts, client.resources, client.resource_templates):
        async for _ in listed():
            pass
    for uri in ("note://index", "blob://pixel", "note://today"):
        await client.read_resource(uri)
    await client.get_prompt("greet", {"name": "Ann"})
    await client.get_prompt("dialogue", {"topic": "tea"})
    await client.complete(PromptReference("travel"), "city", "c", context={"country": "France"})
    await client.complete(ResourceTemplateReference("note://{name}"), "name", "t")
    await client.subscribe("note://today")
    await client.call_tool("change", {"uri": "note://today"})
    await client.unsubscribe("note://today")
    await client.call_tool("burst")
    for kind in ("tools", "prompts", "resources"):
        reported = f"notifications/{kind}/list_changed"
        await until(lambda reported=reported: recording.messages("server", reported))


async def through_work(client: Any) -> None:
    await client.ping()
    await client.set_log_level("debug")
    for name in ("speak", "places", "order", "events"):
        await client.call_tool(name)
    await client.call_tool("think", {"question": "rain"})
    await client.call_tool("steps", {"values": [1, 2]}, on_progress=lambda each: None)
    await client.roots_changed(["/b"])
    waiting = asyncio.ensure_future(client.call_tool("wait", {"name": "a"}))
    await until(lambda: "waiting a" in working.seen)
    waiting.cancel()
    await asyncio.wait([waiting])


async def route(
    region: Annotated[str, Header("Region")], shard: Annotated[int, Header("Shard")]
) -> str:
    return f"{region} {shard}"


async def through_questions(client: Any) -> None:
    with suppress(MissingCapability):
        with suppress(RequestError):  # the user does not agree to the first page
            await client.call_tool("balance")
        for name in ("book", "pack", "all_at_once", "link", "finish", "forecast"):
            await client.call_tool(name)
        await client.get_prompt("plan", {"days": "3"})
        await client.read_resource("journey://summer")


@pytest.mark.requirement(
    "jsonrpc.response.result-member",
    "jsonrpc.error.id-echoed-or-unreadable",
    "elicitation.form.no-clickable-urls",
    "meta.key.reverse-dns-prefix",
    "meta.key.reserved-by-second-label",
    "tools.x-mcp-header.unique",
    "tools.x-mcp-header.primitive-only",
    "tools.x-mcp-header.safe-integers",
    "tools.x-mcp-header.statically-reachable",
    "errors.legacy-range.not-used",
    "result.type.from-known-set",
    "otel.value-formats",
    "extensions.identifier-format",
    "extensions.settings-object",
)
@pytest.mark.requirement(
    "jsonrpc.message.version-2-0",
    "jsonrpc.request.id-present",
    "jsonrpc.request.id-string-or-integer",
    "jsonrpc.request.id-not-null",
    "jsonrpc.request.method-string",
    "jsonrpc.request.params-object",
    "jsonrpc.notification.no-id",
    "jsonrpc.notification.method-string",
    "jsonrpc.notification.params-object",
    "practice.tools.descriptive-schemas",
    "practice.capabilities.tools-common",
    "practice.capabilities.resources-rare",
    "tools.embedded-resource.capability",
    "elicitation.enum.enum-names",
    "meta.field.reserved",
    "meta.key.two-segments",
    "meta.prefix.reserved",
    "meta.key.label-grammar",
    "meta.key.name-grammar",
)
async def test_every_rule_of_a_revision_holds_in_a_session_with_everything_in_it(
    accord_link: Any, connect_to: Any
) -> None:
    agrees = iter([False, True, True])
    recordings = [Recording() for _ in range(6)]
    async with connect_to(tools.make, recording=recordings[0]) as client:
        await through_tools(client)
    async with connect_to(content.make, recording=recordings[1], **LISTENS) as client:
        await through_content(client, recordings[1])
    async with connect_to(content.make_long, recording=recordings[3]) as client:
        async for _ in client.tools():
            pass
    bare: Server[None] = Server("bare")
    bare.add_tool(lambda: "x", name="x", description="The only one.")
    bare.add_tool(route, description="Routed by its region.")
    async with connect_to(bare, recording=recordings[4]) as client:
        await client.list_tools()
        trace = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
        meta = {} if client.revision in HANDSHAKE else {"traceparent": trace}
        await client.call_tool("route", {"region": "eu", "shard": 3}, meta=meta)
    async with connect_to(
        working.make, recording=recordings[2], on_sample=model, on_elicit=fill_in, roots=["/a"]
    ) as client:
        await through_work(client)
    async with connect_to(
        asking.make,
        recording=recordings[5],
        on_sample=model,
        sampling_tools=True,
        on_elicit=fill_in,
        on_elicit_url=lambda params: next(agrees),
        roots=["/a"],
    ) as client:
        await through_questions(client)
    verdicts = [each for recording in recordings for each in recording.verdicts()]
    held = {each.id for each in verdicts if each.verdict == "pass"}
    revision = accord_link.revision
    ruled = {rule.requirement for rule in complete(revision).rules} | JUDGED_HERE
    rows = {row.id for row in requirements(revision=revision, check="wire")} & ruled
    if not accord_link.transport.startswith("http"):
        rows = {row for row in rows if not row.startswith("http.")}
    rows = {row for row in rows if not row.startswith(TASKS)}
    if is_stateless_http(accord_link):
        rows -= OVER_STANDALONE_HTTP
    assert sorted(rows - held - NOT_MET.keys()) == []

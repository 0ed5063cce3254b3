"""What callers give is checked before anything is sent; `meta` reaches the server as it is."""

from typing import Any

import pytest

from accord import Client, Server, connect
from accord.client import blocking
from accord.testing import Recording, connected
from accord.types import (
    REVISION_IDS,
    ClientCapabilities,
    PromptReference,
    ResourceTemplateReference,
)
from client.stateless_server import META, StatelessServer, text
from support.running import to_the_end
from support.tables import cases


@pytest.fixture
def desk():
    server = Server("desk")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.resource("note://{name}")
    def note(name: str) -> str:
        """Read a note."""
        return name

    @server.resource("desk://top")
    def top() -> str:
        """Look at the desk."""
        return "tidy"

    @server.prompt
    def plan(city: str) -> str:
        """Plan a trip."""
        return city

    return server


def complete(desk: Server[Any], ref: Any) -> Any:
    with blocking.connect(desk) as client:
        return client.complete(ref, "name" if "note" in str(ref) else "city", "")


@pytest.mark.parametrize(
    "ref",
    ["plan", "note://{name}", PromptReference("plan"), ResourceTemplateReference("note://{name}")],
    ids=str,
)
def test_a_completion_is_about_a_name_a_template_or_a_reference(desk, ref):
    assert complete(desk, ref).values == []


@pytest.mark.parametrize("uri", ["note://{name}", "note://x"])
def test_a_uri_to_complete_is_that_of_a_resource(uri, run):
    completion = {"resultType": "complete", "completion": {"values": []}}
    target = StatelessServer({"completions": {}}, completion_complete=lambda message: completion)

    async def main():
        async with connect(target) as client:
            await client.complete(uri, "name", "")

    run(main())
    assert target.sent[-1]["params"]["ref"] == {"type": "ref/resource", "uri": uri}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda client: client.complete(5, "a", "b"), "what to complete is 5; expected the name"),
        (lambda client: client.complete("", "a", "b"), "what to complete is ''"),
        (lambda client: client.complete("plan", 5, "b"), "the name of the argument is 5"),
        (lambda client: client.complete("plan", "a", None), "what was typed is None"),
        (
            lambda client: client.complete("plan", "a", "b", context={"c": 1}),
            "argument 'c' of the context is 1, expected text",
        ),
        (lambda client: client.call_tool(5), "the name of the tool is 5, expected text"),
        (lambda client: client.start_tool(5), "the name of the tool is 5, expected text"),
        (lambda client: client.read_resource(None), "the URI is None, expected text"),
        (lambda client: client.get_prompt(b"plan"), "the name of the prompt is b'plan'"),
        (lambda client: client.get_prompt("plan", {"city": 1}), "argument 'city' of a prompt is 1"),
        (lambda client: client.ping(meta=5), "meta is 5, expected a dictionary"),
        (lambda client: client.ping(meta={1: 2}), "meta is {1: 2}, expected a dictionary"),
    ],
)
@to_the_end
async def test_a_mistake_of_the_caller_is_reported_before_anything_is_sent(desk, call, message):
    recording = Recording()
    async with connected(desk, recording=recording) as client:
        before = len(recording.messages("client"))
        with pytest.raises(TypeError) as raised:
            await call(client)
        assert message in str(raised.value)
        assert len(recording.messages("client")) == before


@pytest.mark.parametrize("revision", REVISION_IDS)
def test_meta_travels_with_every_request(desk, run, revision):
    recording = Recording()
    meta = {"com.example/tenant": "a", "traceparent": f"00-{1:032x}-{2:016x}-01"}

    async def main():
        async with connected(desk, recording=recording, revision=revision) as client:
            begun = len(recording.messages("client"))
            await client.list_tools(meta=meta)
            assert [each.name async for each in client.prompts(meta=meta)] == ["plan"]
            await client.list_resources(meta=meta)
            await client.list_resource_templates(meta=meta)
            await client.call_tool("add", {"a": 1, "b": 2}, meta=meta)
            await client.read_resource("desk://top", meta=meta)
            await client.get_prompt("plan", {"city": "Oslo"}, meta=meta)
            await client.complete("plan", "city", "", meta=meta)
            await client.ping(meta=meta)
            return recording.messages("client")[begun:]

    sent = run(main())
    assert len(sent) == 9
    for message in sent:
        found = message["params"]["_meta"]
        assert found.items() >= meta.items()
        assert (META + "protocolVersion" in found) is (revision == "2026-07-28")


@pytest.mark.parametrize(
    ("member", "advice"),
    [
        ("protocolVersion", "revision="),
        ("clientCapabilities", "callbacks"),
        ("clientInfo", "client_info="),
        ("logLevel", "set_log_level"),
    ],
)
@to_the_end
async def test_members_of_meta_that_the_client_sets_are_refused(desk, member, advice):
    async with connect(desk) as client:
        with pytest.raises(ValueError, match=f"{META}{member}.*{advice}"):
            await client.call_tool("add", meta={META + member: {}})


def test_single_rounds_declare_capabilities_beside_the_meta_of_the_caller(run):
    target = StatelessServer(tools_call=lambda message: text("done"))

    async def pass_on(request, proceed):
        return await proceed()

    async def main():
        for middleware in ([], [pass_on]):
            async with connect(target, middleware=middleware) as client:
                await client.rounds.call_tool(
                    "add", capabilities=ClientCapabilities(), meta={"trace": "t"}
                )
                with pytest.raises(ValueError, match="which the client sets"):
                    await client.rounds.call_tool(
                        "add", capabilities=ClientCapabilities(), meta={META + "clientInfo": {}}
                    )

    run(main())
    for message in target.sent:
        if message["method"] == "tools/call":
            assert message["params"]["_meta"]["trace"] == "t"
            assert message["params"]["_meta"][META + "clientCapabilities"] == {}


@cases(
    "make",
    [
        lambda: Client(),
        lambda: Client("https://a.example/mcp"),
        lambda: Client(["python", "desk.py"]),
        lambda: Client(Server("desk")),
        lambda: Client("https://a.example/mcp", auth="oauth"),
        lambda: blocking.Client(),
        lambda: blocking.Client("https://a.example/mcp"),
        lambda: blocking.Client("https://a.example/mcp", timeout=5),
    ],
)
def test_a_client_that_is_made_by_hand_names_connect(make):
    with pytest.raises(
        TypeError, match=r"what connect\(\) returns: write `(async )?with .*connect\("
    ):
        make()

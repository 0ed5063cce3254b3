"""Access: one decision for lists, calls, reading, subscribing and completing."""

import asyncio
from functools import partial

import pytest

from accord import Context, Principal, Server, connect
from accord.errors import InvalidParams, RequestError, ResourceNotFound
from accord.server.access import Access
from accord.types import PromptReference, ResourceTemplateReference

READER = Principal("ann", scopes=frozenset({"read"}))
WRITER = Principal("bob", scopes=frozenset({"read", "write"}))


def desk(**settings):
    server = Server("desk", **settings)

    @server.tool
    def look() -> str:
        return "seen"

    @server.tool(scopes=["write"])
    def change(ctx: Context) -> str:
        return f"changed by {ctx.principal.subject}"

    @server.resource("note://open")
    def open_note() -> str:
        return "open"

    @server.resource("note://closed", scopes="write")
    def closed_note() -> str:
        return "closed"

    @server.resource("secret://{name}", scopes=["write"])
    def secret(name: str) -> str:
        return name

    @server.prompt
    def greet() -> str:
        return "hello"

    @server.prompt(scopes=["write"])
    def order(tone: str) -> str:
        return tone

    server.add_completion("order", "tone", ["kind", "harsh"])
    server.add_completion("secret://{name}", "name", ["gold"])
    return server


def talk(scenario, server, principal=None):
    async def connected():
        target = server if principal is None else server.acting_as(principal)
        async with connect(target, revision="2025-11-25") as client:
            return await scenario(client)

    return asyncio.run(connected())


async def seen(client):
    """Everything that is listed."""
    return [
        [each.name async for each in client.tools()],
        [each.uri async for each in client.resources()],
        [each.uri_template async for each in client.resource_templates()],
        [each.name async for each in client.prompts()],
    ]


EVERYTHING = [
    ["look", "change"],
    ["note://open", "note://closed"],
    ["secret://{name}"],
    ["greet", "order"],
]
OPEN = [["look"], ["note://open"], [], ["greet"]]


async def forbidden(client):
    """Use everything that needs `write`; returns the errors."""
    prompt, template = PromptReference("order"), ResourceTemplateReference("secret://{name}")
    uses = [
        lambda: client.call_tool("change"),
        lambda: client.read_resource("note://closed"),
        lambda: client.read_resource("secret://gold"),
        lambda: client.subscribe("note://closed"),
        lambda: client.subscribe("secret://gold"),
        lambda: client.get_prompt("order", {"tone": "kind"}),
        lambda: client.complete(prompt, "tone", "k"),
        lambda: client.complete(template, "name", "g"),
    ]
    errors = []
    for use in uses:
        with pytest.raises(RequestError) as raised:
            await use()
        errors.append(raised.value)
    return errors


@pytest.mark.requirement("tools.server.access-controlled")
@pytest.mark.parametrize("principal", [None, READER], ids=["nobody", "reader"])
def test_entries_without_access_are_neither_listed_nor_usable(principal):
    async def scenario(client):
        assert await seen(client) == OPEN
        for error in await forbidden(client):
            assert isinstance(error, InvalidParams)
            assert error.data == {"error": "insufficient_scope", "scopes": ["write"]}
            assert "needs a token with the scopes: write" in error.message
        assert (await client.call_tool("look")).content[0].text == "seen"

    talk(scenario, desk(), principal)


@pytest.mark.requirement("tools.server.access-controlled")
def test_a_caller_with_the_scopes_sees_and_uses_everything():
    async def scenario(client):
        assert await seen(client) == EVERYTHING
        assert (await client.call_tool("change")).content[0].text == "changed by bob"
        assert (await client.read_resource("secret://gold")).contents[0].text == "gold"
        await client.subscribe("note://closed")
        assert (await client.get_prompt("order", {"tone": "kind"})).messages
        found = await client.complete(PromptReference("order"), "tone", "k")
        assert found.values[0] == "kind"

    talk(scenario, desk(), WRITER)


def test_without_step_up_a_forbidden_entry_does_not_exist():
    async def scenario(client):
        errors = await forbidden(client)
        assert not any("scope" in each.message for each in errors)
        tool, note, secret, *_, prompt, template = errors
        with pytest.raises(InvalidParams) as raised:
            await client.call_tool("nothing")
        assert raised.value.message.replace("nothing", "change") == tool.message
        assert isinstance(note, ResourceNotFound)
        assert isinstance(secret, ResourceNotFound)
        assert "unknown" in prompt.message
        assert "unknown" in template.message

    talk(scenario, desk(step_up=False), READER)


def test_a_policy_decides_beside_the_scopes_for_lists_and_calls_alike():
    asked = []

    def policy(principal, entry):
        asked.append((principal.subject, entry.key))
        return entry.key not in ("look", "note://open", "change")

    async def scenario(client):
        assert await seen(client) == [[], [], [], ["greet"]]
        for name in ("look", "change"):
            with pytest.raises(InvalidParams, match="unknown tool"):
                await client.call_tool(name)
        with pytest.raises(ResourceNotFound):
            await client.read_resource("note://open")
        # What the policy allows and the scopes do not may be asked for.
        with pytest.raises(InvalidParams, match="needs a token with the scopes"):
            await client.read_resource("note://closed")

    talk(scenario, desk(policy=policy), READER)
    assert ("ann", "look") in asked


def test_the_principal_setting_names_the_caller_over_stdio_and_in_memory():
    async def scenario(client):
        assert await seen(client) == EVERYTHING
        assert (await client.call_tool("change")).content[0].text == "changed by bob"

    talk(scenario, desk(principal=WRITER))


def test_callers_that_see_the_same_entries_get_the_same_bytes():
    async def scenario():
        server = desk()
        allows = Access().allows
        pages = [
            server._core.tools.page("2025-06-18", None, visible=partial(allows, principal))
            for principal in (READER, Principal("eve"), WRITER, None)
        ]
        assert pages[0] is pages[1] is pages[3]
        assert pages[2] is not pages[0]
        assert b"change" in pages[2]
        assert b"change" not in pages[0]
        server.tool(lambda: "x", name="third")
        again = server._core.tools.page("2025-06-18", None, visible=lambda entry: True)
        assert b"third" in again

    asyncio.run(scenario())


def test_scopes_of_files_and_directories_count(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    server = Server("desk")
    server.add_directory(tmp_path, scopes=["files"])
    server.add_file(tmp_path / "a.txt", "one://a", scopes=["files"])

    async def scenario(client):
        assert [each async for each in client.resources()] == []
        assert [each async for each in client.resource_templates()] == []
        for uri in ("one://a", "files://a.txt"):
            with pytest.raises(InvalidParams, match="scopes: files"):
                await client.read_resource(uri)

    talk(scenario, server, READER)


def test_paging_a_filtered_list_returns_every_visible_entry():
    server = Server("desk", page_size=2)
    for number in range(9):
        scopes = ["write"] if number % 2 else []
        server.add_tool(lambda: "x", name=f"tool{number}", scopes=scopes)

    async def scenario(client):
        return [each.name async for each in client.tools()]

    assert talk(scenario, server, READER) == [f"tool{number}" for number in range(0, 9, 2)]
    assert talk(scenario, server, WRITER) == [f"tool{number}" for number in range(9)]

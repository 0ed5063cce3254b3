"""Entries shown and hidden by name or tag, for every client or for one session."""

from typing import Any

import pytest

from accord import Context, Server
from accord.client import Client
from accord.errors import RequestError
from accord.testing import connected
from support.waiting import in_loop, until


def make(**settings: Any) -> Server:
    server = Server("desk", **settings)

    @server.tool(tags={"admin", "billing"})
    async def refund() -> str:
        """Refund."""
        return "refunded"

    @server.tool
    async def unlock(ctx: Context) -> str:
        """Show the tools for admins to this session."""
        ctx.session.show(tags="admin")
        return "unlocked"

    @server.tool
    async def lock(ctx: Context) -> str:
        """Hide them again."""
        ctx.session.hide(tags={"admin"})
        return "locked"

    @server.resource("note://secret", tags=["admin"])
    async def secret() -> str:
        return "s"

    @server.resource("note://{name}", tags=["other"])
    async def note(name: str) -> str:
        return name

    @server.prompt(tags=["admin"])
    async def greet() -> str:
        """Greet."""
        return "hello"

    return server


async def _names(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.parametrize("transport", ["memory", "http"])
@in_loop
async def test_a_session_shows_what_the_server_hides_and_is_notified(transport: Any) -> None:
    server = make()
    server.hide(tags={"admin"})
    heard: list[str] = []
    async with (
        connected(
            server,
            transport=transport,
            revision="2025-06-18",
            on_tools_changed=lambda: heard.append("tools"),
            on_prompts_changed=lambda: heard.append("prompts"),
            on_resources_changed=lambda: heard.append("resources"),
        ) as client,
        connected(server, transport=transport, revision="2025-06-18") as other,
    ):
        assert await _names(client) == ["unlock", "lock"]
        with pytest.raises(RequestError, match="unknown tool 'refund'"):
            await client.call_tool("refund")
        with pytest.raises(RequestError):
            await client.get_prompt("greet")
        await client.call_tool("unlock")
        await until(lambda: sorted(heard) == ["prompts", "resources", "tools"])
        assert await _names(client) == ["refund", "unlock", "lock"]
        assert (await client.call_tool("refund")).text == "refunded"
        assert (await client.read_resource("note://secret")).contents[0].text == "s"
        assert await _names(other) == ["unlock", "lock"]
        await client.call_tool("lock")
        await until(lambda: len(heard) == 6)
        assert await _names(client) == ["unlock", "lock"]


@in_loop
async def test_the_server_hides_and_shows_for_everyone() -> None:
    server = make()
    heard: list[str] = []
    async with connected(
        server, revision="2025-06-18", on_tools_changed=lambda: heard.append("tools")
    ) as client:
        server.hide("refund")
        await until(lambda: heard)
        assert await _names(client) == ["unlock", "lock"]
        server.show("refund", kind="tools")
        await until(lambda: len(heard) == 2)
        assert await _names(client) == ["refund", "unlock", "lock"]


@in_loop
async def test_a_kind_limits_a_rule_to_one_list() -> None:
    server = make()
    server.hide(tags=["admin"], kind="prompts")
    async with connected(server) as client:
        assert "refund" in await _names(client)
        assert (await client.list_prompts()).prompts == []


@in_loop
async def test_a_policy_decides_by_tags_and_principal() -> None:
    def policy(principal: Any, entry: Any) -> bool:
        return "billing" not in entry.tags

    async with connected(make(policy=policy)) as client:
        assert await _names(client) == ["unlock", "lock"]


@pytest.mark.requirement("tools.list.not-per-connection")
@in_loop
async def test_without_a_session_lists_do_not_depend_on_the_connection() -> None:
    server = make()
    server.hide(tags={"admin"})
    async with connected(server, revision="2026-07-28") as client:
        result = await client.call_tool("unlock")
        assert result.is_error
        assert "not part of a session" in result.text
        assert await _names(client) == ["unlock", "lock"]


def test_mistakes_are_named() -> None:
    server = make()
    with pytest.raises(ValueError, match="needs a name or tags"):
        server.hide()
    with pytest.raises(KeyError, match="no entry is registered as 'refnd'"):
        server.hide("refnd")
    with pytest.raises(KeyError, match="no prompts is registered as 'refund'"):
        server.show("refund", kind="prompts")
    with pytest.raises(ValueError, match="expected one of tools, prompts, resources"):
        server.show("refund", kind="tool")  # type: ignore[arg-type]


def test_clients_do_not_see_tags() -> None:
    assert "tags" not in repr(make().tool_entries.get("refund").item)  # type: ignore[union-attr]

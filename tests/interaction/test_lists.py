"""Lists: pages, cursors, and notifications of changes."""

from typing import Any

import pytest

from accord.errors import InvalidParams
from interaction.servers import content
from support.links import EVERYWHERE
from support.stored_apps import in_one_process
from support.waiting import until

pytestmark = EVERYWHERE


@pytest.mark.requirement(
    "pagination.next-cursor.optional",
    "pagination.cursor.continues",
    "pagination.cursor.opaque",
    "pagination.end.no-next-cursor",
    "pagination.operation.tools-list",
    "pagination.operation.prompts-list",
    "pagination.operation.resources-list",
    "pagination.operation.resources-templates-list",
    "pagination.client.both-flows",
    "pagination.page-size-not-assumed",
    "prompts.client.handles-pagination",
)
async def test_every_list_is_sent_in_pages_and_iteration_follows_them(connect_to: Any) -> None:
    async with connect_to(content.make_long) as client:
        first = await client.list_tools()
        assert len(first.tools) == 10
        second = await client.list_tools(first.next_cursor)
        third = await client.list_tools(second.next_cursor)
        assert third.next_cursor is None
        names = [tool.name for page in (first, second, third) for tool in page.tools]
        assert names == [f"tool_{number}" for number in range(25)]
        assert [tool.name async for tool in client.tools()] == names
        assert len([each async for each in client.prompts()]) == 25
        assert len([each async for each in client.resources()]) == 25
        assert len([each async for each in client.resource_templates()]) == 25


@in_one_process
@pytest.mark.requirement("pagination.bad-cursor-32602")
async def test_a_cursor_that_was_never_given_out_is_invalid(connect_to: Any) -> None:
    async with connect_to(content.make_long, allow=["pagination.cursor.opaque"]) as client:
        page = await client.list_prompts()
        for cursor in ("", "nonsense", page.next_cursor, page.next_cursor + "x"):
            with pytest.raises(InvalidParams, match="cursor") as caught:
                await client.list_tools(cursor)
            assert caught.value.code == -32602


@pytest.mark.requirement("pagination.cursor.stable")
async def test_a_cursor_can_be_used_again(connect_to: Any) -> None:
    async with connect_to(content.make_long) as client:
        page = await client.list_tools()
        once = await client.list_tools(page.next_cursor)
        again = await client.list_tools(page.next_cursor)
    assert once == again


@pytest.mark.requirement(
    "tools.list-changed.sent",
    "prompts.list-changed.sent",
    "resources.list-changed.sent",
    "tools.list-changed.capability-required",
    "prompts.list-changed.capability-required",
    "resources.list-changed.capability-required",
    "tools.capability.list-changed",
)
async def test_a_burst_of_changes_is_announced_once_per_list(
    accord_link: Any, connect_to: Any
) -> None:
    heard: list[str] = []
    async with connect_to(
        content.make,
        on_tools_changed=lambda: heard.append("tools"),
        on_prompts_changed=lambda: heard.append("prompts"),
        on_resources_changed=lambda: heard.append("resources"),
    ) as client:
        await client.call_tool("burst")
        await until(lambda: len(heard) >= 3)
        tools = [tool.name async for tool in client.tools()]
        assert "new_0" not in tools
        assert "new_1" not in tools
        assert "new_2" in tools
        assert len([each async for each in client.prompts()]) == 10
    assert sorted(heard) == ["prompts", "resources", "tools"]


async def test_a_disabled_tool_is_neither_listed_nor_called(connect_to: Any) -> None:
    async with connect_to(content.make) as client:
        await client.call_tool("burst")
        with pytest.raises(InvalidParams, match="unknown tool"):
            await client.call_tool("new_1")
        assert (await client.call_tool("new_2")).content[0].text == "new"

"""Views on sources: fewer entries, other names, descriptions and arguments."""

from datetime import datetime
from typing import Any

import pytest

from accord import Context, Server
from accord.client import Client
from accord.errors import RegistrationError, RequestError
from accord.testing import connected
from accord.types import (
    EmbeddedResource,
    ResourceContents,
    ResourceLink,
    TextContent,
    ToolAnnotations,
)
from support.tables import cases
from support.waiting import in_loop, until

ERAS = ["2025-06-18", "2026-07-28"]


def make() -> Server[Any]:
    child: Server[Any] = Server("crm")

    @child.tool(tags={"read"})
    async def find(name: str, limit: int = 10, token: str = "") -> str:
        """Find a customer."""
        return f"{name} {limit} {token}"

    @child.tool(tags={"write"})
    async def delete(id: int) -> str:
        """Delete a customer."""
        return f"deleted {id}"

    @child.tool(tags={"read"})
    async def report() -> Any:
        """Link to resources."""
        return [
            ResourceLink(uri="data://config", name="config"),
            ResourceLink(uri="https://example.com/", name="elsewhere"),
            EmbeddedResource(ResourceContents("data://customers/1", text="one")),
            TextContent("data://config"),
        ]

    @child.resource("data://config", tags={"read"})
    async def config() -> str:
        return "config"

    @child.resource("data://customers/{id}")
    async def customer(id: str) -> str:
        return id

    @child.prompt(tags={"write"})
    async def greet(name: str = "you") -> Any:
        """Greet."""
        return f"Greet {name}"

    return child


async def names(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


async def catalog(source: Any) -> set[str]:
    """Return all names and URIs that a source offers through a server."""
    hub = Server("hub")
    hub.mount(source)
    return {
        *(tool.name for tool in await hub.list_tools()),
        *(prompt.name for prompt in await hub.list_prompts()),
        *(each.uri for each in await hub.list_resources()),
        *(each.uri_template for each in await hub.list_resource_templates()),
    }


# -- choosing


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (lambda crm: crm.only("find", "greet"), {"find", "greet"}),
        (lambda crm: crm.only("*e*", kind="tools"), {"delete", "report"}),
        (lambda crm: crm.only("data://*"), {"data://config", "data://customers/{id}"}),
        (lambda crm: crm.only(tags={"write"}), {"delete", "greet"}),
        (lambda crm: crm.only("find", tags="write", kind="tools"), {"find", "delete"}),
        (lambda crm: crm.only(kind="resources"), {"data://config", "data://customers/{id}"}),
        (
            lambda crm: crm.without("find", tags={"write"}),
            {"report", "data://config", "data://customers/{id}"},
        ),
        (lambda crm: crm.without("*", kind="resources").only(tags="read"), {"find", "report"}),
        (lambda crm: crm.without(kind="tools").without(kind="resources"), {"greet"}),
    ],
)
@in_loop
async def test_entries_are_chosen_by_name_pattern_tag_and_kind(view: Any, expected: Any) -> None:
    assert await catalog(view(make())) == expected


@cases(
    ("mistake", "message"),
    [
        (lambda crm: crm.only(), r"only\(\) needs names, tags or a kind"),
        (lambda crm: crm.without(kind="tool"), "kind is 'tool', expected one of tools"),
        (lambda crm: crm.only(7), "expected text"),
        (lambda crm: crm.rename({"find": ""}), "the new name of 'find' is ''"),
        (lambda crm: crm.change("find"), "needs what to change"),
        (lambda crm: crm.change("find", descripton="x"), "descripton.*did you mean 'description'"),
        (lambda crm: crm.change("find", hide={"tokn": 1}), "did you mean 'token'"),
        (lambda crm: crm.change("delete", arguments={"x": "y"}), "no argument 'x' .* it has 'id'"),
        (lambda crm: crm.change("find", arguments={"name": "limit"}), "two arguments named"),
        (lambda crm: crm.change("find", arguments={"name": {"nam": "x"}}), "nam"),
        (lambda crm: crm.change("find", arguments={"name": 7}), "expected a name or a dictionary"),
        (lambda crm: crm.change("find", arguments={"name": {"name": ""}}), "expected text"),
        (
            lambda crm: crm.change("find", hide={"name": "x"}, arguments={"name": "y"}),
            "both hidden and changed",
        ),
    ],
)
def test_mistakes_in_a_view_are_found_when_it_is_made(mistake: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError, RegistrationError), match=message):
        mistake(make())


@pytest.mark.parametrize(
    "view",
    [
        lambda crm: crm.only("fimd"),
        lambda crm: crm.without("fimd").prefix("x"),
        lambda crm: crm.rename({"fimd": "x"}),
        lambda crm: crm.describe({"fimd": "x"}),
        lambda crm: crm.change("fimd", name="x"),
    ],
)
@in_loop
async def test_a_name_that_the_source_lacks_is_reported_at_the_start(view: Any) -> None:
    hub = Server("hub")
    hub.mount(view(make()))
    with pytest.raises(RegistrationError, match="named 'fimd'; did you mean 'find'"):
        await hub.list_tools()


# -- names and URIs


@pytest.mark.parametrize("revision", ERAS)
@in_loop
async def test_renamed_entries_are_known_by_their_new_names_alone(revision: Any) -> None:
    hub = Server("hub")
    hub.mount(
        make().rename({"find": "delete", "delete": "find", "greet": "hi", "data://config": "c://x"})
    )
    async with connected(hub, revision=revision) as client:
        assert (await client.call_tool("find", {"id": 7})).text == "deleted 7"
        assert (await client.call_tool("delete", {"name": "Ann"})).text == "Ann 10 "
        assert (await client.get_prompt("hi")).messages[0].content.text == "Greet you"
        found = await client.read_resource("c://x")
        assert found.contents[0].uri == "c://x"
        with pytest.raises(RequestError):
            await client.read_resource("data://config")
        with pytest.raises(RequestError):
            await client.get_prompt("greet")


def test_a_new_name_that_the_source_has_already_is_refused() -> None:
    with pytest.raises(RegistrationError, match="tool 'delete' is registered twice"):
        Server("hub").mount(make().rename({"find": "delete"}))


@in_loop
async def test_a_template_cannot_be_renamed_and_the_others_stay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    view = make().rename({"data://customers/{id}": "x://{id}"})
    assert await catalog(view) == {"find", "delete", "report", "greet", "data://config"}
    assert "cannot be renamed" in caplog.text


@in_loop
async def test_a_prefix_changes_links_in_results_to_resources_of_the_source_alone() -> None:
    middle, hub = Server("middle"), Server("hub")
    middle.mount(make(), prefix="b")
    hub.mount(middle.only("*report", kind="tools"), prefix="x")  # whose resources are not offered
    hub.mount(middle, prefix="a")
    async with connected(hub) as client:
        link, elsewhere, embedded, text = (await client.call_tool("a_b_report")).content
        assert link.uri == "data://a/b/config"
        assert elsewhere.uri == "https://example.com/"
        assert embedded.resource.uri == "data://a/b/customers/1"
        assert text.text == "data://config"
        assert (await client.read_resource(link.uri)).contents[0].text == "config"
        assert (await client.read_resource(embedded.resource.uri)).contents[0].text == "1"
        assert (await client.call_tool("x_b_report")).content[0].uri == "data://b/config"


@pytest.mark.parametrize(
    ("uri", "outer"),
    [
        ("data://config", "data://p/config"),
        ("file:///etc/x", "file://p//etc/x"),
        ("urn:isbn:1", "p+urn:isbn:1"),
        ("http://h/p/x", "http://p/h/p/x"),
        ("data://p/p/x", "data://p/p/p/x"),
    ],
)
@in_loop
async def test_any_uri_gets_the_prefix_and_is_found_by_it(uri: str, outer: str) -> None:
    hub, child = Server("hub"), Server("child")

    @child.resource(uri)
    async def read(ctx: Context) -> str:
        return str(ctx.params.uri)

    hub.mount(child, prefix="p")
    assert [each.uri for each in await hub.list_resources()] == [outer]
    found = (await hub.read_resource(outer)).contents[0]
    assert (found.uri, found.text) == (outer, uri)


# -- descriptions


@in_loop
async def test_descriptions_are_replaced() -> None:
    hub = Server("hub")
    hub.mount(
        make().describe(
            {
                "find": "Look for someone.",
                "greet": "Say hello.",
                "data://config": "The settings.",
                "data://customers/{id}": "One customer.",
            }
        )
    )
    said = [
        *(tool.description for tool in await hub.list_tools()),
        *(prompt.description for prompt in await hub.list_prompts()),
        *(each.description for each in await hub.list_resources()),
        *(each.description for each in await hub.list_resource_templates()),
    ]
    assert {"Look for someone.", "Say hello.", "The settings.", "One customer."} <= set(said)
    assert "Delete a customer." in said


@in_loop
async def test_all_details_of_a_tool_are_changed() -> None:
    hub = Server("hub")
    hub.mount(
        make()
        .change(
            "find",
            name="search",
            title="Search",
            description="Look for someone.",
            annotations=ToolAnnotations(read_only_hint=True),
            tags={"public"},
        )
        .only(tags="public")
    )
    (tool,) = await hub.list_tools()
    assert (tool.name, tool.title, tool.description) == ("search", "Search", "Look for someone.")
    assert tool.annotations is not None
    assert tool.annotations.read_only_hint
    assert (await hub.call_tool("search", {"name": "Ann"})).text == "Ann 10 "


# -- arguments


@pytest.mark.parametrize("revision", ERAS)
@in_loop
async def test_hidden_arguments_are_supplied_and_not_accepted(revision: Any) -> None:
    async def token(ctx: Context) -> str:
        return f"{ctx._session.server.name}-{ctx.params.name}"

    hub = Server("hub")
    view = make().change("find", hide={"token": token, "limit": lambda: 3})
    hub.mount(view.change("delete", hide={"id": 5}), prefix="x")
    async with connected(hub, revision=revision) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools["x_find"].input_schema["properties"]) == {"name"}
        assert tools["x_find"].input_schema["required"] == ["name"]
        assert not tools["x_delete"].input_schema["properties"]
        assert "required" not in tools["x_delete"].input_schema
        assert (await client.call_tool("x_find", {"name": "Ann"})).text == "Ann 3 hub-x_find"
        assert (await client.call_tool("x_delete")).text == "deleted 5"
        for hidden in ({"name": "a", "token": "mine"}, {"name": "a", "limit": 4}):
            refused = await client.call_tool("x_find", hidden)
            assert refused.is_error
            assert "unknown argument" in refused.text
        missing = await client.call_tool("x_find", {})
        assert missing.is_error
        assert "name" in missing.text


@in_loop
async def test_functions_with_defaults_of_their_own_supply_values() -> None:
    child, hub = Server("child"), Server("hub")

    @child.tool
    async def stamp(when: datetime, where: str) -> str:
        """Stamp."""
        return f"{when.year > 2000} {where}"

    hub.mount(child.change("stamp", hide={"when": datetime.now, "where": str}))
    assert (await hub.call_tool("stamp")).text == "True "


@in_loop
async def test_a_failing_supplier_fails_the_call_alone() -> None:
    def fail() -> str:
        raise OSError("/secret/path")

    hub = Server("hub")
    hub.mount(make().change("find", hide={"token": fail}))
    async with connected(hub) as client:
        result = await client.call_tool("find", {"name": "a"})
        assert result.is_error
        assert "/secret" not in result.text
        assert (await client.call_tool("delete", {"id": 1})).text == "deleted 1"


@in_loop
async def test_arguments_are_renamed_described_and_given_defaults_and_schemas() -> None:
    hub = Server("hub")
    hub.mount(
        make().change(
            "find",
            arguments={
                "name": {"name": "who", "description": "The name to find."},
                "limit": {"default": 2, "schema": {"type": "integer", "maximum": 5}},
                "token": "name",
            },
        )
    )
    (tool,) = [each for each in await hub.list_tools() if each.name == "find"]
    properties = tool.input_schema["properties"]
    assert list(properties) == ["who", "limit", "name"]
    assert properties["who"]["description"] == "The name to find."
    assert properties["limit"] == {"type": "integer", "maximum": 5, "default": 2}
    assert tool.input_schema["required"] == ["who"]
    assert (await hub.call_tool("find", {"who": "Ann"})).text == "Ann 2 "
    given = {"who": "Ann", "limit": 4, "name": "t"}
    assert (await hub.call_tool("find", given)).text == "Ann 4 t"
    for unknown in ({"who": "Ann", "token": "t"}, {"name": "Ann"}):
        assert (await hub.call_tool("find", unknown)).is_error


@in_loop
async def test_a_required_argument_with_a_default_becomes_optional() -> None:
    hub = Server("hub")
    hub.mount(make().change("delete", arguments={"id": {"default": 9}}))
    tool = next(each for each in await hub.list_tools() if each.name == "delete")
    assert "required" not in tool.input_schema
    assert (await hub.call_tool("delete")).text == "deleted 9"
    assert (await hub.call_tool("delete", {"id": 1})).text == "deleted 1"


@in_loop
async def test_changes_of_changes_apply_from_the_outside_in() -> None:
    hub = Server("hub")
    view = (
        make()
        .change("find", name="search", arguments={"name": "who"}, hide={"limit": 1})
        .change("search", arguments={"who": "whom"}, hide={"token": "t"})
        .prefix("x")
    )
    hub.mount(view)
    assert (await hub.call_tool("x_search", {"whom": "Ann"})).text == "Ann 1 t"
    assert (await hub.call_tool("x_search", {"who": "Ann"})).is_error


@in_loop
async def test_middleware_of_the_child_sees_the_changed_arguments() -> None:
    seen: list[Any] = []
    child, hub = make(), Server("hub")

    @child.middleware("tools/call")
    async def note(ctx: Context, proceed: Any) -> Any:
        seen.append(ctx.params.arguments)
        return await proceed()

    @hub.middleware("tools/call")
    async def note_outside(ctx: Context, proceed: Any) -> Any:
        result = await proceed()
        seen.append(ctx.params.arguments)
        return result

    hub.mount(child.change("find", hide={"token": "t"}))
    assert (await hub.call_tool("find", {"name": "Ann"})).text == "Ann 10 t"
    assert seen == [{"name": "Ann", "token": "t"}, {"name": "Ann"}]


# -- live


@in_loop
async def test_a_view_shows_what_changes_in_its_source(caplog: pytest.LogCaptureFixture) -> None:
    child, hub = make(), Server("hub")
    hub.mount(
        child.without(tags="write")
        .change("find", hide={"token": "t"})
        .rename({"report": "summary"})
        .prefix("x")
    )
    heard: list[int] = []
    async with connected(
        hub, revision="2025-06-18", on_tools_changed=lambda: heard.append(1)
    ) as client:
        assert await names(client) == ["x_find", "x_summary"]
        child.tool(name="new", tags=["read"])(lambda: "new")
        child.tool(name="hidden", tags=["write"])(lambda: "hidden")
        await until(lambda: heard)
        assert await names(client) == ["x_find", "x_summary", "x_new"]

        async def find(name: str) -> str:
            """Find otherwise: the argument that the view hides is gone."""
            return f"otherwise {name}"

        child.add_tool(find, replace=True)
        await until(lambda: len(heard) == 2)
        assert await names(client) == ["x_summary", "x_new"]
        assert "has no argument 'token' to change" in caplog.text

        async def find_again(name: str, token: str) -> str:
            """Find with the argument."""
            return f"again {name} {token}"

        child.add_tool(find_again, name="find", replace=True)
        await until(lambda: len(heard) == 3)
        assert (await client.call_tool("x_find", {"name": "Ann"})).text == "again Ann t"


@in_loop
async def test_views_leave_the_source_as_it_is() -> None:
    child = make()
    hub, other = Server("hub"), Server("other")
    hub.mount(child.change("find", name="search", hide={"token": "t"}).prefix("x"))
    other.mount(child)
    assert (await other.call_tool("find", {"name": "a", "token": "mine"})).text == "a 10 mine"
    assert "token" in (await child.list_tools())[0].input_schema["properties"]

"""Resources and templates: their contents, and notifications of changes."""

import asyncio
import base64
from typing import Any

import pytest

from accord import Server
from accord.errors import InvalidParams, RequestError, ResourceNotFound
from accord.protocol.revisions import REVISIONS
from interaction.servers import content
from support.links import EACH_ONCE, EVERYWHERE, IN_MEMORY, IN_PROCESS
from support.stored_apps import in_one_process
from support.waiting import until

pytestmark = EACH_ONCE


@pytest.mark.requirement("resources.list.answers-when-declared")
@pytest.mark.requirement(
    "resources.capability.declared",
    "resources.capability.subscribe",
    "resources.capability.list-changed",
    "resources.list.method",
    "resources.list.array",
    "resources.item.uri",
    "resources.item.name",
    "resources.item.description-and-mime",
    "resources.item.size",
    "resources.item.title",
    "resources.uri.custom-scheme",
    "practice.resources.custom-scheme",
    "practice.list.empty-params",
)
async def test_resources_are_listed_with_the_fields_of_the_revision(
    accord_link: Any, connect_to: Any
) -> None:
    async with connect_to(content.make) as client:
        assert client.capabilities.resources.subscribe
        assert client.capabilities.resources.list_changed
        listed = {each.uri: each async for each in client.resources()}
    index = listed["note://index"]
    assert (index.name, index.description) == ("index", "All notes.")
    assert (index.mime_type, index.size) == ("text/markdown", 9)
    assert index.annotations.priority == 1.0
    sent = str(accord_link.connections[0].recording.messages("server")[-1])
    assert ("'title'" in sent) == ("'_meta'" in sent) == (accord_link.revision >= "2025-06-18")


@pytest.mark.requirement(
    "resources.templates.method",
    "resources.templates.array",
    "resources.template.uri-template",
    "resources.template.name",
    "resources.template.description-and-mime",
)
async def test_templates_are_listed_apart(connect_to: Any) -> None:
    async with connect_to(content.make) as client:
        listed = {each.uri_template: each async for each in client.resource_templates()}
    assert set(listed) == {"note://{name}", "file://{+path}", "page://{number}{?lang}"}
    assert listed["note://{name}"].name == "note"


@pytest.mark.requirement(
    "resources.read.method",
    "resources.read.contents-array",
    "resources.contents.uri",
    "resources.contents.text-or-blob",
    "resources.contents.mime-type",
    "resources.binary.encoded",
)
async def test_text_bytes_json_and_several_contents_are_read(connect_to: Any) -> None:
    async with connect_to(content.make) as client:
        (index,) = (await client.read_resource("note://index")).contents
        (pixel,) = (await client.read_resource("blob://pixel")).contents
        (config,) = (await client.read_resource("json://config")).contents
        parts = (await client.read_resource("many://parts")).contents
    assert (index.uri, index.mime_type) == ("note://index", "text/markdown")
    assert index.text == "# Notes\n\n"
    assert (pixel.mime_type, base64.b64decode(pixel.blob)) == ("image/png", content.PIXEL)
    assert (config.mime_type, config.text) == ("application/json", '{"depth":3}')
    assert [each.text for each in parts] == ["one", "two"]


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("note://today", "buy milk (resources/read)"),
        ("note://a%2Fb", "nested (resources/read)"),
        ("file:///var/log", "/var/log"),
        ("page://7", "page 7 in en"),
        ("page://7?lang=de", "page 7 in de"),
    ],
)
@IN_MEMORY
async def test_a_template_passes_the_variables_of_the_uri(
    connect_to: Any, uri: str, expected: str
) -> None:
    async with connect_to(content.make) as client:
        (found,) = (await client.read_resource(uri)).contents
    assert (found.uri, found.text) == (uri, expected)


@pytest.mark.requirement("resources.uri.validated")
@pytest.mark.parametrize("uri", ["file:///a/../b", "file:///a/%2e%2e%2Fb", "file:///a%00"])
@IN_MEMORY
async def test_a_uri_that_leads_out_of_a_path_is_refused(connect_to: Any, uri: str) -> None:
    async with connect_to(content.make) as client:
        with pytest.raises(InvalidParams, match="allow_path_escapes"):
            await client.read_resource(uri)


@pytest.mark.requirement(
    "errors.code.resource-not-found",
    "errors.resource-not-found.data-uri",
    "resources.uri.validated",
)
@pytest.mark.parametrize("uri", ["nowhere://x", "note://missing", "not a uri"])
async def test_the_error_for_an_unknown_resource_names_its_uri(connect_to: Any, uri: str) -> None:
    async with connect_to(content.make) as client:
        with pytest.raises((ResourceNotFound, InvalidParams)) as caught:
            await client.read_resource(uri)
    assert caught.value.code == REVISIONS[client.revision].not_found_code
    assert caught.value.data == {"uri": uri}


@pytest.mark.requirement("errors.resource-not-found.data-uri")
@IN_MEMORY
async def test_the_uri_is_added_to_resource_not_found(connect_to: Any) -> None:
    server = Server("shelf")

    @server.resource("book://{title}")
    def book(title: str) -> str:
        raise ResourceNotFound(f"no book is called {title}")

    async with connect_to(server) as client:
        missing = (ResourceNotFound, InvalidParams)
        with pytest.raises(missing, match="no book is called Emma") as caught:
            await client.read_resource("book://Emma")
    assert caught.value.data == {"uri": "book://Emma"}


async def test_a_variable_that_does_not_fit_is_reported(connect_to: Any) -> None:
    async with connect_to(content.make) as client:
        with pytest.raises(InvalidParams, match="number"):
            await client.read_resource("page://seven")


@pytest.mark.requirement("resources.read.internal-32603")
@pytest.mark.requirement("errors.code.internal-error")
async def test_a_failing_resource_function_reveals_only_what_its_author_wants(
    connect_to: Any,
) -> None:
    async with connect_to(content.make) as client:
        with pytest.raises(RequestError) as caught:
            await client.read_resource("broken://file")
        assert (caught.value.code, caught.value.message) == (-32603, "internal error")
        with pytest.raises(RequestError, match="closed on Sundays"):
            await client.read_resource("closed://door")


# -- changes


@pytest.mark.requirement(
    "resources.subscribe.method",
    "resources.updated.sent",
    "resources.updated.uri-param",
    "resources.updated.subscribers-only",
    "resources.subscribe.capability-required",
)
@pytest.mark.parametrize("tool", ["change", "change_in_thread"])
@EVERYWHERE
async def test_only_subscribers_are_notified_of_a_change(connect_to: Any, tool: str) -> None:
    heard: list[str] = []
    async with connect_to(content.make, on_resource_updated=heard.append) as client:
        await client.call_tool(tool, {"uri": "note://today"})
        await client.subscribe("note://today")
        await client.call_tool(tool, {"uri": "note://index"})
        await client.call_tool(tool, {"uri": "note://today"})
        await until(lambda: heard)
        await client.unsubscribe("note://today")
        count = len(heard)
        await client.call_tool(tool, {"uri": "note://today"})
        await client.ping()
    assert set(heard) == {"note://today"}
    assert len(heard) == count


async def test_only_existing_resources_can_be_subscribed_to(connect_to: Any) -> None:
    async with connect_to(content.make) as client:
        with pytest.raises((ResourceNotFound, InvalidParams), match="nowhere://x"):
            await client.subscribe("nowhere://x")
        await client.unsubscribe("nowhere://x")


@in_one_process
@IN_PROCESS
async def test_each_client_has_its_own_subscriptions(connect_to: Any) -> None:
    server = content.make()
    one: list[str] = []
    two: list[str] = []
    async with (
        connect_to(server, on_resource_updated=one.append) as first,
        connect_to(server, on_resource_updated=two.append) as second,
    ):
        await first.subscribe("note://today")
        await second.subscribe("note://index")
        await asyncio.to_thread(server.resource_updated, "note://today")
        await until(lambda: one)
        await second.ping()
    assert (one, two) == (["note://today"], [])

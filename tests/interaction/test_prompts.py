"""Prompts and completion."""

from typing import Any

import pytest

from accord.errors import InvalidParams, LocalProtocolError, RequestError
from accord.types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
)
from interaction.servers import content
from support.links import EACH_ONCE, IN_MEMORY

pytestmark = EACH_ONCE


@pytest.mark.requirement("prompts.list.answers-when-declared", "prompts.declared-in-discover")
@pytest.mark.requirement(
    "prompts.capability.declared",
    "prompts.capability.list-changed",
    "prompts.list.method",
    "prompts.list.array",
    "prompts.item.name",
    "prompts.item.title",
    "prompts.item.description-and-arguments",
    "prompts.argument.fields",
)
async def test_prompts_are_listed_with_their_arguments(accord_link: Any, connect_to: Any) -> None:
    async with connect_to(content.make) as client:
        assert client.capabilities.prompts.list_changed
        listed = {each.name: each async for each in client.prompts()}
    greet = listed["greet"]
    assert greet.description == "Greet a person."
    assert greet.title == ("Greeting" if accord_link.revision >= "2025-06-18" else None)
    arguments = [(each.name, each.description, bool(each.required)) for each in greet.arguments]
    assert arguments == [("name", "the person", True), ("style", "how", False)]


@pytest.mark.requirement(
    "prompts.get.method",
    "prompts.get.messages-array",
    "prompts.get.description",
    "prompts.message.role",
    "prompts.message.content",
    "prompts.message.content-type",
    "prompts.image.base64",
    "prompts.audio.base64",
    "prompts.resource.members",
)
async def test_a_prompt_is_filled_in_with_every_kind_of_content(
    accord_link: Any, connect_to: Any
) -> None:
    async with connect_to(content.make) as client:
        one = await client.get_prompt("greet", {"name": "Ann", "style": "formal"})
        several = await client.get_prompt("dialogue", {"topic": "tea"})
        numbers = await client.get_prompt("repeat", {"times": "2"})
    (message,) = one.messages
    assert one.description == "Greet a person."
    assert (message.role, message.content.text) == ("user", "Please greet Ann in a formal way.")
    roles = [each.role for each in several.messages]
    assert roles == ["user", "assistant", "user", "user", "user"]
    kinds = [type(each.content) for each in several.messages]
    sound = AudioContent if accord_link.revision >= "2025-03-26" else TextContent
    assert kinds == [TextContent, TextContent, ImageContent, sound, EmbeddedResource]
    assert numbers.messages[0].content.text == "again again "


@pytest.mark.requirement("prompts.errors.codes", "prompts.arguments.validated")
@pytest.mark.parametrize(
    ("name", "arguments", "reported"),
    [
        ("nowhere", {}, "nowhere"),
        ("greet", {}, "name"),
        ("greet", {"name": "Ann", "style": "rude"}, "rude"),
        ("repeat", {"times": "often"}, "times"),
        ("greet", {"name": "Ann", "more": "x"}, "more"),
    ],
)
@IN_MEMORY
async def test_arguments_of_prompts_are_checked(
    connect_to: Any, name: str, arguments: Any, reported: str
) -> None:
    async with connect_to(content.make) as client:
        with pytest.raises(InvalidParams, match=reported) as caught:
            await client.get_prompt(name, arguments)
    assert caught.value.code == -32602


async def test_a_failing_prompt_is_an_internal_error(connect_to: Any) -> None:
    async with connect_to(content.make) as client:
        with pytest.raises(RequestError) as caught:
            await client.get_prompt("sad")
    assert (caught.value.code, caught.value.message) == (-32603, "internal error")


# -- completion


@pytest.mark.requirement(
    "completion.complete.method",
    "completion.ref.types",
    "completion.result.values",
    "completion.capability.declared",
)
async def test_arguments_of_prompts_and_templates_are_completed(connect_to: Any) -> None:
    async with connect_to(content.make) as client:
        countries = await client.complete(PromptReference("travel"), "country", "F")
        names = await client.complete(ResourceTemplateReference("note://{name}"), "name", "to")
        styles = await client.complete(PromptReference("greet"), "style", "f")
        nothing = await client.complete(PromptReference("greet"), "name", "A")
    assert countries.values == ["Finland", "France"]
    assert names.values == ["today"]
    assert styles.values == ["formal"]
    assert nothing.values == []


@pytest.mark.requirement("completion.result.max-100", "completion.result.total-and-has-more")
async def test_no_more_than_a_hundred_values_are_suggested(connect_to: Any) -> None:
    async with connect_to(content.make) as client:
        found = await client.complete(PromptReference("travel"), "city", "city")
    assert found.values == content.CITIES[:100]
    assert (found.total, found.has_more) == (250, True)


@pytest.mark.requirement("completion.request.context")
async def test_arguments_filled_in_before_guide_completion_if_the_revision_sends_them(
    accord_link: Any, connect_to: Any
) -> None:
    async with connect_to(content.make) as client:
        found = await client.complete(
            PromptReference("travel"), "city", "B", context={"country": "Germany"}
        )
    knows = accord_link.revision >= "2025-06-18"
    assert found.values == (["Berlin", "Bonn"] if knows else [])


@pytest.mark.requirement("completion.errors.codes")
@pytest.mark.parametrize(
    ("ref", "argument"),
    [
        (PromptReference("nowhere"), "x"),
        (PromptReference("travel"), "planet"),
        (ResourceTemplateReference("nowhere://{x}"), "x"),
    ],
)
@IN_MEMORY
async def test_completing_an_unknown_prompt_or_argument_fails(
    connect_to: Any, ref: Any, argument: str
) -> None:
    async with connect_to(content.make) as client:
        with pytest.raises(InvalidParams):
            await client.complete(ref, argument, "")


@IN_MEMORY
async def test_a_server_without_anything_to_complete_says_so_before_anything_is_sent(
    accord_link: Any, connect_to: Any
) -> None:
    from accord import Server

    async with connect_to(Server("bare")) as client:
        sent = len(accord_link.connections[0].recording.records)
        for ask in (
            client.complete(PromptReference("x"), "y", ""),
            client.list_tools(),
            client.read_resource("a://b"),
            client.get_prompt("x"),
        ):
            with pytest.raises((LocalProtocolError, RequestError)):
                await ask
        travelled = accord_link.connections[0].recording.messages()[sent:]
    before = "completion/complete" if accord_link.revision == "2024-11-05" else None
    assert [each.get("method") for each in travelled if "method" in each] == (
        [before] if before else []
    )

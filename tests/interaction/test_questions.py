"""Requests of servers to clients: sampling, elicitation, roots."""

import asyncio
from typing import Any

import pytest

from accord.errors import MissingCapability, RequestError
from accord.types import CreateMessageResult, ElicitResult, Root, TextContent
from interaction.servers import working
from support.links import EVERYWHERE, HANDSHAKE, IN_PROCESS, everywhere, over, text
from support.waiting import until

pytestmark = EVERYWHERE


async def model(params: Any) -> CreateMessageResult:
    assert params.system_prompt == "Be brief."
    assert params.max_tokens == 50
    assert params.temperature == 0.5
    assert params.stop_sequences == ["."]
    assert params.model_preferences.hints[0].name == "small"
    asked = params.messages[0].content.text
    assert params.messages[1].role == "assistant"
    return CreateMessageResult("assistant", TextContent(f"{asked}? No"), "tiny")


def asks_users(link: Any) -> bool:
    return bool(link.revision >= "2025-06-18")


@pytest.mark.requirement(
    "sampling.capability.declared",
    "sampling.create.method",
    "sampling.create.request-fields",
    "sampling.result.role",
    "sampling.result.content",
    "sampling.result.model",
    "sampling.result.stop-reason",
    "sampling.result.content-type",
)
async def test_a_tool_asks_the_model(connect_to: Any) -> None:
    async with connect_to(working.make, on_sample=model) as client:
        result = await client.call_tool("think", {"question": "rain"})
    assert text(result) == "tiny: rain? No (endTurn)"


@pytest.mark.requirement("sampling.errors")
@everywhere(*HANDSHAKE)
async def test_a_refusal_of_the_model_reaches_the_tool(connect_to: Any) -> None:
    def refuse(params: Any) -> CreateMessageResult:
        raise RequestError("the user says no", code=-1)

    async with connect_to(working.make, on_sample=refuse) as client:
        result = await client.call_tool("think", {"question": "rain"})
    assert result.is_error
    assert text(result) == "tool think failed: the user says no"


@pytest.mark.requirement("sampling.errors")
@pytest.mark.parametrize("nothing", [None, False])
@everywhere(*HANDSHAKE)
async def test_a_callback_that_returns_nothing_refuses_to_sample(
    connect_to: Any, nothing: Any
) -> None:
    async with connect_to(working.make, on_sample=lambda params: nothing) as client:
        result = await client.call_tool("think", {"question": "rain"})
    assert result.is_error
    assert text(result) == "tool think failed: the user refused the sampling request"


def refuse_to_sample(params: Any) -> Any:
    raise RequestError("the user says no", code=-1)


@pytest.mark.parametrize(
    ("callback", "reported"),
    [
        (refuse_to_sample, "the user says no"),
        (lambda params: None, "the user refused the sampling request"),
    ],
)
@everywhere("2026-07-28")
async def test_in_rounds_a_refusal_of_the_model_ends_the_call(
    accord_link: Any, connect_to: Any, callback: Any, reported: str
) -> None:
    async with connect_to(working.make, on_sample=callback) as client:
        with pytest.raises(RequestError, match=reported) as caught:
            await client.call_tool("think", {"question": "rain"})
        assert caught.value.code == -1
        assert not caught.value.is_received
        # Nothing waits for the answer: the server has forgotten its question.
        assert text(await client.call_tool("open_gate", {"name": "x"})) == "open"
    calls = accord_link.connections[0].recording.messages("client", "tools/call")
    assert [each["params"]["name"] for each in calls] == ["think", "open_gate"]


@pytest.mark.requirement(
    "elicitation.capability.declared",
    "elicitation.create.method",
    "elicitation.result.action-present",
    "elicitation.result.content-optional",
    "elicitation.schema.flat-primitive",
    "elicitation.answers.validated",
)
@pytest.mark.parametrize("tool", ["order", "order_in_thread"])
async def test_the_user_fills_in_a_form(accord_link: Any, connect_to: Any, tool: str) -> None:
    forms: list[Any] = []

    def answer(params: Any) -> Any:
        forms.append(params)
        return {"name": "Ann", "count": 3, "size": "large"}

    async with connect_to(working.make, on_elicit=answer) as client:
        result = await client.call_tool(tool)
    if not asks_users(accord_link):
        assert result.is_error
        assert "does not exist in revision" in text(result)
        return
    assert (
        text(result)
        == "Order(name='Ann', count=3, size=<Size.LARGE: 'large'>, gift=False, mail=None)"
    )
    (form,) = forms
    assert form.message == "What would you like?"
    properties = form.requested_schema["properties"]
    assert {name: field["type"] for name, field in properties.items()} == {
        "name": "string",
        "count": "integer",
        "size": "string",
        "gift": "boolean",
        "mail": "string",
    }
    assert (properties["count"]["minimum"], properties["count"]["maximum"]) == (1, 9)
    assert sorted(properties["size"]["enum"]) == ["large", "small"]
    assert form.requested_schema["required"] == ["name"]


@pytest.mark.requirement("elicitation.result.action-values")
@pytest.mark.parametrize(
    ("answer", "action"),
    [(False, "decline"), (None, "cancel"), (ElicitResult("decline"), "decline")],
)
@everywhere("2025-06-18", "2025-11-25", "2026-07-28")
async def test_the_user_may_refuse(connect_to: Any, answer: Any, action: str) -> None:
    async with connect_to(working.make, on_elicit=lambda params: answer) as client:
        assert text(await client.call_tool("order")) == f"refused: {action}"
        plain = await client.call_tool("order_plainly")
    assert plain.is_error
    assert "the user" in text(plain)


@over("memory", revisions=("2025-06-18", "2025-11-25"))
async def test_an_answer_that_does_not_fit_the_form_is_not_sent(connect_to: Any) -> None:
    async with connect_to(working.make, on_elicit=lambda params: {"count": 99}) as client:
        result = await client.call_tool("order_plainly")
    assert result.is_error
    assert "the user's answer does not fit the requested schema" in text(result)


@pytest.mark.requirement(
    "roots.capability.declared",
    "roots.capability.list-changed",
    "roots.list.method",
    "roots.list.array",
    "roots.item.uri",
    "roots.item.name",
    "roots.item.file-uri",
)
async def test_a_tool_learns_the_roots(connect_to: Any) -> None:
    roots = ["/srv/data", Root("file:///tmp/x", name="x")]
    async with connect_to(working.make, roots=roots) as client:
        found = await client.call_tool("places", result_type=list[str])
    assert found == ["file:///srv/data", "file:///tmp/x"]


@pytest.mark.requirement("roots.list-changed.sent", "roots.list-changed.capability-required")
@everywhere(*HANDSHAKE)
async def test_changed_roots_are_announced_and_asked_for_again(connect_to: Any) -> None:
    async with connect_to(working.make, roots=["/a"]) as client:
        assert await client.call_tool("places", result_type=list[str]) == ["file:///a"]
        await client.roots_changed(["/b"])
        assert await client.call_tool("places", result_type=list[str]) == ["file:///b"]
        changed = "roots changed to file:///b"
        while changed not in await client.call_tool("events", result_type=list[str]):
            pass


@pytest.mark.requirement("roots.asked-by-mrtr")
@everywhere("2026-07-28")
async def test_in_rounds_changed_roots_are_found_at_the_next_question(
    accord_link: Any, connect_to: Any
) -> None:
    async with connect_to(working.make, roots=["/a"]) as client:
        assert await client.call_tool("places", result_type=list[str]) == ["file:///a"]
        await client.roots_changed(["/b"])
        assert await client.call_tool("places", result_type=list[str]) == ["file:///b"]
    messages = accord_link.connections[0].recording.messages
    # A call, its repeat with the answer, and the same again; the change itself sends nothing.
    assert [each["method"] for each in messages("client")][1:] == ["tools/call"] * 4
    first = messages("server")[1]["result"]
    assert [each["method"] for each in first["inputRequests"].values()] == ["roots/list"]


@pytest.mark.requirement("lifecycle.capabilities.respected", "lifecycle.capabilities.only-declared")
@everywhere(*HANDSHAKE)
async def test_undeclared_client_capabilities_are_not_used(
    accord_link: Any, connect_to: Any
) -> None:
    async with connect_to(working.make) as client:
        missing = await client.call_tool("try_to_ask", result_type=list[str])
        failed = await client.call_tool("think", {"question": "rain"})
    elicitation = (
        "the client did not declare elicitation"
        if asks_users(accord_link)
        else f"elicitation/create does not exist in revision {accord_link.revision}"
    )
    assert missing == [
        "the client did not declare sampling",
        elicitation,
        "the client did not declare roots",
    ]
    assert failed.is_error
    assert text(failed) == "the client did not declare sampling"
    asked = accord_link.connections[0].recording.messages("server")
    assert [each for each in asked if "method" in each] == []


@pytest.mark.requirement(
    "capability.missing-error-code",
    "capability.undeclared-not-used",
    "capability.missing-error-data",
)
@everywhere("2026-07-28")
async def test_a_question_that_the_request_does_not_allow_is_an_error_that_says_what_it_needs(
    accord_link: Any, connect_to: Any
) -> None:
    async with connect_to(working.make) as client:
        missing = await client.call_tool("try_to_ask", result_type=list[str])
        with pytest.raises(MissingCapability, match="did not declare sampling") as caught:
            await client.call_tool("think", {"question": "rain"})
    assert missing == [
        f"the client did not declare {each}" for each in ("sampling", "elicitation", "roots")
    ]
    assert caught.value.data == {"requiredCapabilities": {"sampling": {}}}
    answered = accord_link.connections[0].recording.messages("server")
    assert not any("inputRequests" in each.get("result", {}) for each in answered)


@IN_PROCESS
async def test_questions_of_several_tools_do_not_mix(connect_to: Any) -> None:
    async def model(params: Any) -> CreateMessageResult:
        question = params.messages[0].content.text
        await asyncio.sleep(0.001 * (10 - int(question)))
        return CreateMessageResult("assistant", TextContent(question), "echo")

    async with connect_to(working.make, on_sample=model) as client:
        results = await asyncio.gather(
            *(client.call_tool("think", {"question": str(number)}) for number in range(10))
        )
    assert [text(each) for each in results] == [f"echo: {n} (endTurn)" for n in range(10)]


async def test_a_callback_may_call_the_server_meanwhile(connect_to: Any) -> None:
    heard: list[str] = []

    async def model(params: Any) -> CreateMessageResult:
        heard.append(text(await client.call_tool("open_gate", {"name": "x"})))
        return CreateMessageResult("assistant", TextContent("yes"), "tiny")

    async with connect_to(working.make, on_sample=model) as client:
        await client.call_tool("think", {"question": "nested"})
        await until(lambda: heard == ["open"])

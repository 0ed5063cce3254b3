"""Questions of every kind, from tools, prompts and resources, in every revision that has them."""

import asyncio
from typing import Any

import pytest

from accord.errors import MissingCapability, RequestError
from accord.types import CreateMessageResult, ElicitParams, TextContent, ToolUseContent
from interaction.servers import asking
from support.links import HANDSHAKE, each_once, everywhere, in_this_process, text
from support.stored_apps import in_one_process
from support.waiting import until

WITH_FORMS = ("2025-06-18", "2025-11-25", "2026-07-28")
WITH_PAGES = ("2025-11-25", "2026-07-28")

pytestmark = in_this_process(*WITH_FORMS)


def to_oslo(params: ElicitParams) -> dict[str, Any]:
    return {"city": "Oslo"}


async def model(params: Any) -> CreateMessageResult:
    return CreateMessageResult("assistant", TextContent("north"), "tiny")


def asked_in(recording: Any) -> list[tuple[str, Any]]:
    """Each question of the server with its params, however it travelled."""
    found: list[tuple[str, Any]] = []
    for message in recording.messages("server"):
        if "method" in message and "id" in message:
            found.append((message["method"], message.get("params")))
        inside = message.get("result", {}).get("inputRequests", {})
        found += [(each["method"], each.get("params")) for each in inside.values()]
    return found


@pytest.mark.requirement(
    "elicitation.asked-by-mrtr",
    "elicitation.create.method",
)
@each_once(*WITH_FORMS)
async def test_tools_prompts_and_resources_ask_the_user(accord_link: Any, connect_to: Any) -> None:
    async with connect_to(asking.make, on_elicit=to_oslo) as client:
        assert text(await client.call_tool("book")) == "1: Oslo s 2"
        prompt = await client.get_prompt("plan", {"days": "3"})
        assert prompt.messages[0].content.text == "Plan 3 days in Oslo."
        (journey,) = (await client.read_resource("journey://summer")).contents
        assert journey.text == "summer leads to Oslo"
    recording = accord_link.connections[0].recording
    assert [method for method, _ in asked_in(recording)] == ["elicitation/create"] * 3
    requests = [each for each in recording.messages("server") if "method" in each]
    assert len(requests) == (3 if accord_link.revision in HANDSHAKE else 0)


async def test_a_function_given_to_once_is_called_once_in_every_revision(connect_to: Any) -> None:
    async with connect_to(asking.make, on_elicit=to_oslo) as client:
        assert text(await client.call_tool("book")) == "1: Oslo s 2"
        assert text(await client.call_tool("book")) == "2: Oslo s 2"
    assert asking.ordered == ["order", "order"]


@pytest.mark.requirement("roots.asked-by-mrtr", "mrtr.client.new-id")
@each_once(*WITH_FORMS)
async def test_questions_to_user_model_and_client_are_asked_at_once(
    accord_link: Any, connect_to: Any
) -> None:
    asked: list[str] = []

    async def wait_for_both(kind: str, answer: Any) -> Any:
        asked.append(kind)
        await until(lambda: len(set(asked)) == 2)
        return answer

    async with connect_to(
        asking.make,
        on_elicit=lambda params: wait_for_both("form", {"city": "Oslo"}),
        on_sample=lambda params: wait_for_both(
            "model", CreateMessageResult("assistant", TextContent("north"), "tiny")
        ),
        roots=["/maps"],
    ) as client:
        found = await client.call_tool("all_at_once", result_type=list[str])
    assert found == ["Oslo", "north", "file:///maps"]
    assert sorted(asked) == ["form", "model"]
    recording = accord_link.connections[0].recording
    assert sorted(method for method, _ in asked_in(recording)) == [
        "elicitation/create",
        "roots/list",
        "sampling/createMessage",
    ]
    calls = recording.messages("client", "tools/call")
    # In rounds all three are one answer, which one repeat carries back.
    assert len(calls) == (1 if accord_link.revision in HANDSHAKE else 2)
    assert len({each["id"] for each in calls}) == len(calls)


async def test_questions_that_follow_each_other_keep_their_order(connect_to: Any) -> None:
    cities = iter(["Oslo", "Bergen", "Bodø"])
    messages: list[str] = []

    def answer(params: ElicitParams) -> dict[str, Any]:
        messages.append(params.message)
        return {"city": next(cities)}

    async with connect_to(asking.make, on_elicit=answer) as client:
        found = await client.call_tool("one_by_one", {"times": 3}, result_type=list[str])
    assert found == ["Oslo", "Bergen", "Bodø"]
    assert messages == ["Stop 0?", "Stop 1?", "Stop 2?"]


@pytest.mark.requirement("mrtr.client.state-not-shared")
@each_once(*WITH_FORMS)
async def test_questions_of_calls_at_the_same_time_do_not_mix(connect_to: Any) -> None:
    async def answer(params: ElicitParams) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"city": f"city {params.message}"}

    async with connect_to(asking.make, on_elicit=answer) as client:
        calls = [
            client.call_tool("one_by_one", {"times": times}, result_type=list[str])
            for times in (1, 2, 3)
        ]
        prompt, *found = await asyncio.gather(client.get_prompt("plan", {"days": "3"}), *calls)
    assert prompt.messages[0].content.text == "Plan 3 days in city Where to?."
    assert [len(each) for each in found] == [1, 2, 3]
    assert found[2] == [f"city Stop {n}?" for n in range(3)]


@pytest.mark.requirement("elicitation.form.enum-forms")
async def test_choices_have_titles_where_the_revision_knows_them(
    accord_link: Any, connect_to: Any
) -> None:
    forms: list[Any] = []

    def answer(params: ElicitParams) -> dict[str, Any]:
        forms.append(params.requested_schema["properties"]["size"])
        return {"city": "Oslo", "size": "l"}

    async with connect_to(asking.make, on_elicit=answer) as client:
        assert text(await client.call_tool("book")) == "1: Oslo l 2"
    titled = [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]
    (form,) = forms
    if accord_link.revision == "2025-06-18":
        assert form["enum"] == ["s", "l"]
        assert form["enumNames"] == ["Small", "Large"]
    else:
        assert (form["oneOf"], form["default"]) == (titled, "s")


async def test_a_choice_of_several_needs_a_revision_that_has_it(
    accord_link: Any, connect_to: Any
) -> None:
    async with connect_to(asking.make, on_elicit=lambda params: {"sizes": ["s", "l"]}) as client:
        if accord_link.revision == "2025-06-18":
            result = await client.call_tool("pack")
            assert result.is_error
            assert "2025-06-18 has no form for a choice of several" in text(result)
        else:
            assert await client.call_tool("pack", result_type=list[str]) == ["s", "l"]


# -- pages


@in_one_process
@pytest.mark.requirement(
    "elicitation.url.required-params",
    "elicitation.url.no-elicitation-id",
    "elicitation.url.elicitation-id",
    "elicitation.result.url-no-content",
)
@pytest.mark.parametrize(
    ("returned", "outcome"), [(True, "accept"), (False, "decline"), (None, "cancel")]
)
@in_this_process(*WITH_PAGES)
async def test_the_user_is_asked_to_visit_a_page(
    accord_link: Any, connect_to: Any, returned: Any, outcome: str
) -> None:
    shown: list[ElicitParams] = []

    def visit(params: ElicitParams) -> Any:
        shown.append(params)
        return returned

    async with connect_to(asking.make, on_elicit_url=visit) as client:
        assert text(await client.call_tool("link")) == outcome
        if outcome == "accept":
            assert await client.call_tool("finish", result_type=list[bool]) == [True]
    (page,) = shown
    assert (page.mode, page.message) == ("url", "Link your account")
    assert page.url.startswith("https://desk.example/link/")
    recording = accord_link.connections[0].recording
    ((_, params),) = asked_in(recording)
    has_handshake = accord_link.revision in HANDSHAKE
    assert ("elicitationId" in params) is has_handshake
    completed = recording.messages("server", "notifications/elicitation/complete")
    assert len(completed) == (has_handshake and outcome == "accept")


@each_once(*WITH_PAGES)
async def test_a_request_that_needs_a_page_succeeds_after_the_visit(
    accord_link: Any, connect_to: Any
) -> None:
    shown: list[str] = []

    async def visit(params: ElicitParams) -> bool:
        shown.append(params.url)
        # The user is done with the page before the client goes on.
        assert await client.call_tool("finish", result_type=list[bool]) == [True]
        return True

    async with connect_to(asking.make, on_elicit_url=visit) as client:
        assert text(await client.call_tool("balance")) == "12 EUR"
    assert len(shown) == 1
    # All that the client says is that the user agreed.
    recording = accord_link.connections[0].recording
    answers = recording.messages("client", "tools/call")
    given = [each["params"].get("inputResponses", {}) for each in answers]
    contents = [answer for each in given for answer in each.values()]
    assert all(answer == {"action": "accept"} for answer in contents)


@pytest.mark.requirement("elicitation.mode.supported-only")
async def test_a_client_that_shows_no_pages_gets_their_address_as_text(
    accord_link: Any, connect_to: Any
) -> None:
    async with connect_to(asking.make, on_elicit=to_oslo) as client:
        result = await client.call_tool("balance")
    assert result.is_error
    assert "no account is linked (Link your account: https://desk.example/link/" in text(result)
    assert asked_in(accord_link.connections[0].recording) == []


# -- sampling with tools


@pytest.mark.requirement(
    "sampling.tools.capability",
    "sampling.tool-use.server-answers-all",
    "sampling.tool-choice.values",
    "deprecated.include-context.not-used",
)
@each_once(*WITH_PAGES)
async def test_the_model_uses_tools_of_the_server(connect_to: Any) -> None:
    asked: list[Any] = []

    def think(params: Any) -> CreateMessageResult:
        asked.append(params)
        if len(params.messages) == 1:
            use = ToolUseContent("u1", "weather", {"city": "Oslo"})
            return CreateMessageResult("assistant", [use], "m")
        (result,) = params.messages[-1].content
        return CreateMessageResult("assistant", result.content[0], "m")

    async with connect_to(asking.make, on_sample=think, sampling_tools=True) as client:
        assert text(await client.call_tool("forecast")) == "4 C in Oslo"
    first, second = asked
    assert [tool.name for tool in first.tools] == ["weather"]
    assert first.tool_choice.mode == "required"
    assert [each.role for each in second.messages] == ["user", "assistant", "user"]
    assert (first.include_context, second.include_context) == (None, None)


@pytest.mark.requirement("sampling.tools.not-without-capability")
async def test_tools_are_not_offered_to_a_model_that_takes_none(
    accord_link: Any, connect_to: Any
) -> None:
    async with connect_to(asking.make, on_sample=model) as client:
        if accord_link.revision in HANDSHAKE:
            result = await client.call_tool("forecast")
            assert result.is_error
            known = accord_link.revision != "2025-06-18"
            missing = "sampling.tools" if known else "2025-06-18 has no tools in sampling"
            assert missing in text(result)
        else:
            with pytest.raises(MissingCapability, match=r"sampling\.tools"):
                await client.call_tool("forecast")
    assert asked_in(accord_link.connections[0].recording) == []


# -- what is not asked


@pytest.mark.requirement("mrtr.result.only-on-supported-methods")
@everywhere("2026-07-28")
async def test_completion_does_not_ask(accord_link: Any, connect_to: Any) -> None:
    async with connect_to(asking.make, on_elicit=to_oslo) as client:
        with pytest.raises(RequestError):
            await client.complete("plan", "days", "3")
        assert (await client.get_prompt("plan", {"days": "3"})).messages
    assert len(asked_in(accord_link.connections[0].recording)) == 1


@pytest.mark.requirement("progress.server-only")
@everywhere("2026-07-28")
async def test_in_rounds_progress_of_an_answer_is_not_sent(
    accord_link: Any, connect_to: Any
) -> None:
    async def answer(params: ElicitParams) -> dict[str, Any]:
        await client.report_progress(params, 1, 2)
        return {"city": "Oslo"}

    async with connect_to(asking.make, on_elicit=answer) as client:
        assert text(await client.call_tool("book")) == "1: Oslo s 2"
    sent = accord_link.connections[0].recording.messages("client")
    assert [each["method"] for each in sent] == ["server/discover", "tools/call", "tools/call"]


# -- endings


async def test_a_call_cancelled_while_the_user_thinks_leaves_nothing_behind(
    connect_to: Any,
) -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def never(params: ElicitParams) -> Any:
        asked.set()
        try:
            await asyncio.sleep(3600)
        finally:
            left.set()

    async with connect_to(asking.make, on_elicit=never) as client:
        waiting = asyncio.ensure_future(client.call_tool("book"))
        await asked.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await left.wait()
        assert text(await client.call_tool("weather", {"city": "Oslo"})) == "4 C in Oslo"


async def test_a_callback_that_fails_ends_the_call_and_not_the_connection(
    accord_link: Any, connect_to: Any
) -> None:
    def fail(params: ElicitParams) -> Any:
        raise OSError("the terminal is gone")

    async with connect_to(asking.make, on_elicit=fail) as client:
        if accord_link.revision in HANDSHAKE:
            assert (await client.call_tool("book")).is_error
        else:
            with pytest.raises((OSError, RequestError), match="terminal is gone"):
                await client.call_tool("book")
        assert text(await client.call_tool("weather", {"city": "Oslo"})) == "4 C in Oslo"

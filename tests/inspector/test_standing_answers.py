"""Standing answers: a person answers once, and later questions of the same kind get the same."""

import json

import pytest

from accord.types import CreateMessageParams, SamplingMessage, TextContent, Tool, ToolChoice
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.live.page_questions import AskedQuestions
from inspector.live_page import live_page, scripted
from support.running import on_a_loop


def text_of(call):
    return json.loads(call["response"])["content"][0]["text"]


async def start(page, name, **arguments):
    given = {"arguments": json.dumps(arguments), "confirmed": True}
    return (await page.ask("calls.tool", name=name, **given))["id"]


async def rules_of(page):
    return (await page.ask("questions.rules"))["rules"]


async def marked_rows(page, call):
    rows = [(await page.ask("log.detail", n=n))["row"] for n in call["rows"]]
    return [row for row in rows if row["rule"]]


@on_a_loop
async def test_a_form_with_the_same_schema_is_answered_by_the_rule():
    async with live_page(revision="2025-11-25") as page:
        first = await start(page, "book", city="Lima")
        question = await page.question()
        content = '{"row": 7, "side": "aisle"}'
        answer = {"id": question["id"], "action": "accept", "content": content, "always": True}
        with pytest.raises(ActionRefused, match="does not fit"):
            await page.ask("questions.answer", **answer | {"content": '{"row": 99}'})
        assert await rules_of(page) == []
        await page.ask("questions.answer", **answer)
        assert (await page.until_ended(first))["rule_answers"] == 0

        second = await page.call("book", '{"city": "Oslo"}')
        assert text_of(second) == "Booked Oslo, row 7, aisle."
        assert second["rule_answers"] == 1
        (rule,) = await rules_of(page)
        assert (rule["kind"], rule["uses"]) == ("elicitation", 1)
        assert rule["summary"] == "accept with row, side (Which seat to Lima?)"
        log = (await page.ask("log.rows", count=1000))["rows"]
        (row,) = [each for each in log if each["rule"]]
        assert (row["rule"], row["method"], row["from"]) == (
            rule["id"],
            "elicitation/create",
            "client",
        )

        await page.ask("questions.forget_rule", id=rule["id"])
        with pytest.raises(ActionRefused, match="ended already"):
            await page.ask("questions.forget_rule", id=rule["id"])
        await start(page, "book", city="Nara")
        await page.question()


@on_a_loop
async def test_questions_within_a_call_of_the_newest_revision_are_answered_by_the_rule():
    async with live_page(revision="2026-07-28") as page:
        first = await start(page, "advise", city="Nara")
        question = await page.question()
        answer = {"id": question["id"], "action": "accept", "text": "Deer.", "always": True}
        await page.ask("questions.answer", **answer)
        assert text_of(await page.until_ended(first)) == "Deer."
        second = await page.call("advise", '{"city": "Kyoto"}')
        assert (text_of(second), second["rule_answers"]) == ("Deer.", 1)
        (row,) = await marked_rows(page, second)
        assert (row["method"], row["kind"]) == ("tools/call", "request")
        (rule,) = await rules_of(page)
        assert (rule["kind"], rule["summary"], rule["uses"]) == ("sampling", "text: Deer.", 1)


@on_a_loop
async def test_a_newer_answer_replaces_the_rule_and_a_refusal_may_stand_too():
    async with live_page(**scripted()) as page:
        first = await start(page, "sample")
        question = await page.question()
        await page.ask("questions.answer", id=question["id"], action="decline", always=True)
        await page.until_ended(first)
        assert (await page.call("sample"))["rule_answers"] == 1
        (rule,) = await rules_of(page)
        assert (rule["summary"], rule["uses"]) == ("decline", 1)


@on_a_loop
async def test_a_page_of_the_server_is_never_opened_by_a_rule():
    async with live_page(**scripted(revision="2025-11-25")) as page:
        await start(page, "visit", url="https://example.org/a")
        question = await page.question()
        with pytest.raises(ActionRefused, match="look at each address"):
            await page.ask("questions.answer", id=question["id"], action="accept", always=True)
        await page.ask("questions.answer", id=question["id"], action="accept")
        assert await rules_of(page) == []


@on_a_loop
async def test_an_answer_that_breaks_the_tool_choice_waits_for_a_person():
    async with live_page(**scripted()) as page:
        first = await start(page, "sample")
        question = await page.question()
        answer = {"id": question["id"], "action": "accept", "text": "hi", "always": True}
        await page.ask("questions.answer", **answer)
        await page.until_ended(first)
        asked = CreateMessageParams(
            [SamplingMessage("user", TextContent("Use it."))],
            10,
            tools=[Tool("a", {"type": "object"})],
            tool_choice=ToolChoice("required"),
        )
        work = page.session.spawn(page.session.part(AskedQuestions).sample(asked))
        question = await page.question()
        await page.ask("questions.answer", id=question["id"], action="decline")
        assert await work is False

import asyncio
import json

import pytest

from accord_tools.inspector.definition import ActionRefused, InspectOptions
from inspector.live_page import LivePage, live_page, scripted
from support.running import on_a_loop


def structured(call):
    return json.loads(call["response"])["structuredContent"]


@on_a_loop
async def test_numbers_are_sent_as_they_were_typed():
    typed = '{"a": 9223372036854775808,\n "b": [0.1000, 1e400], "c": -0}'
    async with live_page(**scripted()) as page:
        call = await page.call("echo", typed)
        sent = json.loads(call["response"])["content"][0]["text"]
        assert sent == call["request"]
        assert '"a":9223372036854775808,"b":[0.1000, 1e400],"c":-0' in sent


@on_a_loop
async def test_arguments_that_are_not_an_object_are_refused():
    async with live_page(**scripted()) as page:
        for text in ("[1]", '{"a": 01}', "nonsense"):
            with pytest.raises(ActionRefused, match="arguments") as refused:
                await page.call("echo", text)
            assert refused.value.field == "arguments"
        with pytest.raises(ActionRefused, match="texts"):
            await page.ask("calls.prompt", name="x", arguments='{"days": 3}')


@on_a_loop
async def test_each_tool_that_does_not_say_that_it_only_reads_asks_once():
    async with live_page(**scripted()) as page:
        await page.until_listed()
        asked = await page.ask("calls.tool", name="remove")
        assert asked == {"confirm": "this tool says that it may change or delete things"}
        assert "confirm" in await page.ask("calls.tool", name="unmarked")
        asked = await page.ask("calls.tool", name="add_one")
        assert asked == {"confirm": "this tool says that it changes things, and deletes none"}
        assert "id" in await page.ask("calls.tool", name="echo")
        assert "id" in await page.ask("calls.tool", name="remove", confirmed=True)
        assert "id" in await page.ask("calls.tool", name="remove")


@on_a_loop
async def test_an_answer_after_cancellation_is_shown_as_late():
    async with live_page(**scripted()) as page:
        id = (await page.ask("calls.tool", name="late", confirmed=True))["id"]
        await page.until("calls.get", lambda got: got["request"], id=id)
        await page.ask("calls.cancel", id=id)
        call = await page.until("calls.get", lambda got: got["is_late"], id=id)
        assert call["state"] == "cancelled"
        assert "too late" in call["response"]
        with pytest.raises(ActionRefused, match="over already: cancelled"):
            await page.ask("calls.cancel", id=id)


@on_a_loop
async def test_a_call_that_was_answered_cannot_be_cancelled():
    async with live_page(**scripted()) as page:
        call = await page.call("echo")
        with pytest.raises(ActionRefused, match="over already: done"):
            await page.ask("calls.cancel", id=call["id"])


@on_a_loop
async def test_calls_end_by_timeouts_and_errors():
    async with live_page(**scripted()) as page:
        call = await page.call("late", timeout=0.05)
        assert (call["state"], call["error"]["code"]) == ("timeout", None)
        call = await page.call("missing")
        assert (call["state"], call["error"]["code"]) == ("error", -32602)
        assert json.loads(call["response"]) == {"code": -32602, "message": "no tool missing"}
        assert call["error"]["explanation"]
        id = (await page.ask("calls.request", method="org.example/x", params='{"a": 1.50}'))["id"]
        call = await page.until_ended(id)
        assert '"params":{"a":1.50' in call["request"]
        assert call["error"]["code"] == -32601
        id = (await page.ask("calls.request", method="tasks/list"))["id"]
        call = await page.until_ended(id)
        assert "not part of revision" in call["error"]["message"]
        assert call["request"] is None


@on_a_loop
async def test_several_calls_run_one_after_another_and_are_compared():
    async with live_page(**scripted()) as page:
        await page.until_listed()
        ids = (await page.ask("calls.tool", name="echo", times=5))["ids"]
        assert (await page.ask("calls.get", id=ids[4]))["state"] == "running"
        spread = await page.until("calls.spread", lambda got: got["count"] == 5, ids=ids)
        assert (spread["errors"], spread["pending"]) == (0, 0)
        assert spread["min"] <= spread["median"] <= spread["p90"] <= spread["max"]
        listed = (await page.ask("calls.list"))["calls"]
        assert [each["id"] for each in listed] == ids[::-1]
        with pytest.raises(ActionRefused):
            await page.ask("calls.tool", name="echo", times=101)


@on_a_loop
async def test_results_that_break_the_output_schema_are_shown_with_the_places():
    async with live_page(**scripted()) as page:
        await page.until_listed()
        call = await page.call("wrong")
        assert call["state"] == "done"
        assert [each["pointer"] for each in call["schema_errors"]] == ["/n"]
        assert structured(call) == {"n": "one"}


@on_a_loop
async def test_secrets_in_results_are_masked_until_a_person_asks_for_them():
    async with live_page(**scripted()) as page:
        call = await page.call("secret")
        assert call["is_masked"]
        assert "abcdef-123456" not in json.dumps(call)
        call = await page.ask("calls.get", id=call["id"], reveal=True)
        assert structured(call) == {"api_key": "abcdef-123456-ghijkl"}
    async with live_page(**scripted(), options=InspectOptions(shows_secrets=False)) as page:
        call = await page.call("secret")
        call = await page.ask("calls.get", id=call["id"], reveal=True)
        assert "abcdef-123456" not in json.dumps(call)


@on_a_loop
async def test_two_pages_show_the_same_calls_and_answer_a_question_once():
    async with live_page(**scripted()) as page:
        other = LivePage(page.session)
        id = (await page.ask("calls.tool", name="sample", confirmed=True))["id"]
        question = await other.question()
        assert (question["kind"], question["call"]) == ("sampling", id)
        assert question["message"] == "Be brief."
        answer = {"id": question["id"], "action": "accept", "text": "hi", "model": "me"}
        outcomes = await asyncio.gather(
            *(each.ask("questions.answer", **answer) for each in (page, other)),
            return_exceptions=True,
        )
        assert sum(isinstance(each, ActionRefused) for each in outcomes) == 1
        first, second = await page.until_ended(id), await other.until_ended(id)
        assert first == second
        said = json.loads(json.loads(first["response"])["content"][0]["text"])
        assert (said["content"]["text"], said["model"]) == ("hi", "me")
        with pytest.raises(ActionRefused, match="answered already"):
            await page.ask("questions.answer", **answer)


@on_a_loop
async def test_a_question_is_withdrawn_when_the_server_ends():
    async with live_page(**scripted()) as page:
        await page.ask("calls.tool", name="sample", confirmed=True)
        question = await page.question()
        await page.ask("session.disconnect")
        await page.until("questions.list", lambda got: not got["questions"])
        with pytest.raises(ActionRefused, match="withdrew"):
            await page.ask("questions.answer", id=question["id"], action="decline")


@on_a_loop
async def test_a_person_may_refuse_to_sample_or_give_a_whole_result():
    whole = {
        "role": "assistant",
        "content": {"type": "text", "text": "whole"},
        "model": "m",
        "stopReason": "maxTokens",
    }
    async with live_page(**scripted()) as page:
        for answer, expected in (
            ({"action": "decline"}, -1),
            ({"action": "accept", "result": json.dumps(whole)}, "maxTokens"),
        ):
            id = (await page.ask("calls.tool", name="sample", confirmed=True))["id"]
            question = await page.question()
            with pytest.raises(ActionRefused, match="not a result"):
                await page.ask("questions.answer", id=question["id"], action="accept", result="{}")
            await page.ask("questions.answer", id=question["id"], **answer)
            call = await page.until_ended(id)
            said = json.loads(json.loads(call["response"])["content"][0]["text"])
            assert expected in (said.get("code"), said.get("stopReason"))


@on_a_loop
async def test_a_series_ends_with_the_connection():
    async with live_page(**scripted()) as page:
        ids = (await page.ask("calls.tool", name="stop", times=3, confirmed=True))["ids"]
        spread = await page.until("calls.spread", lambda got: not got["pending"], ids=ids)
        assert (spread["count"], spread["errors"]) == (1, 1)


@on_a_loop
async def test_pages_are_shown_with_their_host_and_scripts_never():
    async with live_page(**scripted(revision="2025-11-25")) as page:
        typed = {"arguments": '{"url": "https://example.org/a?b=c"}', "confirmed": True}
        id = (await page.ask("calls.tool", name="visit", **typed))["id"]
        question = await page.question()
        shown = (question["kind"], question["url"], question["host"])
        assert shown == ("url", "https://example.org/a?b=c", "example.org")
        await page.ask("questions.answer", id=question["id"], action="accept")
        assert '\\"action\\": \\"accept\\"' in (await page.until_ended(id))["response"]
        call = await page.call("visit", '{"url": "javascript:alert(1)"}')
        assert "cannot be opened" in call["response"]


@on_a_loop
async def test_no_more_than_a_hundred_calls_are_under_way():
    async with live_page(**scripted()) as page:
        for _ in range(100):
            await page.ask("calls.tool", name="late", confirmed=True)
        with pytest.raises(ActionRefused, match="100 calls are under way"):
            await page.ask("calls.tool", name="late", confirmed=True)


@on_a_loop
async def test_a_result_without_what_the_output_schema_asks_for_is_shown():
    async with live_page(**scripted("bare")) as page:
        await page.until_listed()
        call = await page.call("bare")
        (error,) = call["schema_errors"]
        assert (call["state"], error["pointer"]) == ("done", "")
        assert "no structuredContent" in error["message"]


@on_a_loop
async def test_the_meta_and_the_timeout_of_a_call_are_checked_and_sent():
    async with live_page(**scripted()) as page:
        for wrong in ("[1]", "nonsense"):
            with pytest.raises(ActionRefused, match="meta") as refused:
                await page.call("echo", meta=wrong)
            assert refused.value.field == "meta"
        with pytest.raises(ActionRefused, match="above 0") as refused:
            await page.call("echo", timeout=0)
        assert refused.value.field == "timeout"
        call = await page.call("echo", meta='{"org.example/own": 1}')
        assert json.loads(call["request"])["params"]["_meta"]["org.example/own"] == 1


@on_a_loop
async def test_a_form_takes_an_object_or_is_declined():
    async with live_page(**scripted()) as page:
        for answer, expected in (
            (
                {"action": "accept", "content": '{"n": 1}'},
                {"action": "accept", "content": {"n": 1}},
            ),
            ({"action": "decline"}, {"action": "decline"}),
        ):
            id = (await page.ask("calls.tool", name="form", confirmed=True))["id"]
            question = (await page.question())["id"]
            with pytest.raises(ActionRefused, match="is an object"):
                await page.ask("questions.answer", id=question, action="accept", content="[1]")
            await page.ask("questions.answer", id=question, **answer)
            call = await page.until_ended(id)
            said = json.loads(json.loads(call["response"])["content"][0]["text"])
            assert said["result"] == expected


@on_a_loop
async def test_an_accepted_sampling_needs_what_the_model_says():
    async with live_page(**scripted()) as page:
        id = (await page.ask("calls.tool", name="sample", confirmed=True))["id"]
        question = (await page.question())["id"]
        with pytest.raises(ActionRefused, match="write what the model says"):
            await page.ask("questions.answer", id=question, action="accept")
        whole = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
        answer = {"action": "accept", "result": json.dumps(whole), "always": True}
        await page.ask("questions.answer", id=question, **answer)
        await page.until_ended(id)
        (rule,) = (await page.ask("questions.rules"))["rules"]
        assert rule["summary"] == "a whole result"

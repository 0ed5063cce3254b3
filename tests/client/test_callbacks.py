"""What the server asks and tells, and the callbacks that hear it."""

import asyncio
import logging
import threading

import msgspec
import pytest
from pydantic import BaseModel

from accord.client import connect
from accord.client.callbacks import FEED_LENGTH, Feed
from accord.errors import LocalProtocolError, RequestError
from accord.types import CreateMessageResult, ElicitResult, Root, TextContent
from support.running import to_the_end

FORM = {
    "message": "window or aisle?",
    "requestedSchema": {
        "type": "object",
        "properties": {"seat": {"type": "string", "enum": ["window", "aisle"]}},
        "required": ["seat"],
    },
}
SAMPLE = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "hello"}}],
    "maxTokens": 5,
}


async def ask(client, method, params=None):
    result = await client.call_tool("ask", {"method": method, "params": params})
    return result.structured_content


# -- questions


@to_the_end
async def test_a_ping_of_the_server_is_answered(wayward):
    async with connect(wayward()) as client:
        assert await ask(client, "ping") == {"result": {}}


class Seat(msgspec.Struct):
    seat: str


class SeatModel(BaseModel):
    seat: str
    row: int | None = None


@pytest.mark.parametrize(
    ("returned", "sent"),
    [
        ({"seat": "aisle"}, {"action": "accept", "content": {"seat": "aisle"}}),
        (Seat("window"), {"action": "accept", "content": {"seat": "window"}}),
        (SeatModel(seat="window"), {"action": "accept", "content": {"seat": "window"}}),
        ({"seat": "aisle", "row": None}, {"action": "accept", "content": {"seat": "aisle"}}),
        (
            ElicitResult("accept", {"seat": "aisle"}),
            {"action": "accept", "content": {"seat": "aisle"}},
        ),
        (False, {"action": "decline"}),
        (None, {"action": "cancel"}),
        (ElicitResult("decline"), {"action": "decline"}),
    ],
    ids=repr,
)
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
@to_the_end
async def test_the_answer_of_the_user_takes_the_simplest_form(returned, sent, revision, wayward):
    async def on_elicit(params):
        assert params.message == "window or aisle?"
        return returned

    async with connect(wayward(), on_elicit=on_elicit, revision=revision) as client:
        assert await ask(client, "elicitation/create", FORM) == {"result": sent}


def test_an_answer_that_breaks_the_form_never_leaves(wayward, run, caplog):
    async def main():
        async with connect(wayward(), on_elicit=lambda _: {"seat": "roof secret"}) as client:
            return await ask(client, "elicitation/create", FORM)

    answer = run(main())
    assert answer["error"]["code"] == -32603
    assert "secret" not in str(answer)
    assert "/seat" in caplog.text


@pytest.mark.parametrize("returned", [3, "window", True])
def test_an_answer_of_no_known_form_is_an_internal_error(returned, wayward, run, caplog):
    async def main():
        async with connect(wayward(), on_elicit=lambda _: returned) as client:
            return await ask(client, "elicitation/create", FORM)

    assert run(main())["error"] == {"code": -32603, "message": "internal error"}
    assert "on_elicit returned" in caplog.text


PAGE = {"mode": "url", "message": "sign in", "url": "https://example.com/", "elicitationId": "e"}
TOOL = {"name": "look", "inputSchema": {"type": "object"}}


@pytest.mark.requirement("elicitation.error.undeclared-mode")
def test_an_elicitation_by_url_is_refused_because_forms_alone_are_declared(wayward, run):
    asked = []

    async def main():
        async with connect(wayward(), on_elicit=asked.append) as client:
            return await ask(client, "elicitation/create", PAGE)

    error = run(main())["error"]
    assert error["code"] == -32602
    assert "did not declare elicitation.url" in error["message"]
    assert asked == []


@pytest.mark.requirement("sampling.tools.capability")
@pytest.mark.parametrize("members", [{"tools": [TOOL]}, {"toolChoice": {"mode": "auto"}}], ids=str)
def test_sampling_with_tools_is_refused_because_tools_are_not_declared(members, wayward, run):
    asked = []

    async def main():
        async with connect(wayward(), on_sample=asked.append) as client:
            return await ask(client, "sampling/createMessage", {**SAMPLE, **members})

    error = run(main())["error"]
    assert error["code"] == -32602
    assert "did not declare sampling.tools" in error["message"]
    assert asked == []


def test_the_model_answers(wayward, run):
    async def on_sample(params):
        assert params.messages[0].content == TextContent("hello")
        return CreateMessageResult("assistant", TextContent("hi"), "small-model")

    async def main():
        async with connect(wayward(), on_sample=on_sample) as client:
            return await ask(client, "sampling/createMessage", SAMPLE)

    assert run(main()) == {
        "result": {
            "role": "assistant",
            "content": {"type": "text", "text": "hi"},
            "model": "small-model",
            "stopReason": "endTurn",
        }
    }


def test_a_refusal_reaches_the_server_with_its_code(wayward, run):
    async def on_sample(params):
        raise RequestError("the user said no", code=-1)

    async def main():
        async with connect(wayward(), on_sample=on_sample) as client:
            return await ask(client, "sampling/createMessage", SAMPLE)

    assert run(main())["error"] == {"code": -1, "message": "the user said no"}


def test_a_callback_that_fails_reveals_nothing_and_breaks_nothing(wayward, run, caplog):
    async def on_sample(params):
        raise RuntimeError("password is hunter2")

    async def main():
        async with connect(wayward(), on_sample=on_sample) as client:
            answer = await ask(client, "sampling/createMessage", SAMPLE)
            await client.ping()
            return answer

    assert run(main())["error"] == {"code": -32603, "message": "internal error"}
    assert "hunter2" in caplog.text


@to_the_end
async def test_a_plain_function_may_wait_for_a_human_without_holding_anything_up(wayward):
    released = threading.Event()

    def on_elicit(params):
        assert threading.current_thread() is not threading.main_thread()
        assert released.wait(60)
        return {"seat": "aisle"}

    async with connect(wayward(), on_elicit=on_elicit) as client:
        asking = asyncio.ensure_future(ask(client, "elicitation/create", FORM))
        await client.ping()
        assert not asking.done()
        released.set()
        assert (await asking)["result"]["action"] == "accept"


def test_a_callback_may_call_the_server_back(wayward, run):
    client = None

    async def on_elicit(params):
        result = await client.call_tool("echo", {"seat": "aisle"})
        return result.structured_content

    async def main():
        nonlocal client
        async with connect(wayward(), on_elicit=on_elicit) as client:
            answer = await ask(client, "elicitation/create", FORM)
            assert answer["result"]["content"] == {"seat": "aisle"}

    run(main())


@to_the_end
async def test_a_question_that_is_withdrawn_is_dropped(wayward):
    async def on_elicit(params):
        await asyncio.sleep(60)

    async with connect(wayward(), on_elicit=on_elicit) as client:
        arguments = {"method": "elicitation/create", "params": FORM}
        await client.call_tool("ask_and_cancel", arguments)
        messages = (await client.call_tool("history")).structured_content["messages"]
        assert not [m for m in messages if m.get("id") == "withdrawn"]


@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create", "roots/list"])
def test_a_question_without_a_callback_is_refused_by_its_name(method, wayward, run):
    params = {"sampling/createMessage": SAMPLE, "elicitation/create": FORM}.get(method)

    async def main():
        async with connect(wayward()) as client:
            return await ask(client, method, params)

    assert run(main())["error"]["code"] == -32601


# -- roots


def test_roots_are_folders_however_they_are_given(wayward, run, tmp_path):
    given = [tmp_path, str(tmp_path / "a b"), "file:///srv/data", Root("file:///opt", name="tools")]

    async def main():
        async with connect(wayward(), roots=given) as client:
            return await ask(client, "roots/list")

    assert run(main())["result"]["roots"] == [
        {"uri": tmp_path.as_uri(), "name": tmp_path.name},
        {"uri": (tmp_path / "a b").as_uri(), "name": "a b"},
        {"uri": "file:///srv/data", "name": "data"},
        {"uri": "file:///opt", "name": "tools"},
    ]


@to_the_end
async def test_roots_may_come_from_a_function(wayward, tmp_path):
    async def current():
        return [tmp_path]

    for roots in (current, lambda: [tmp_path]):
        async with connect(wayward(), roots=roots) as client:
            answer = await ask(client, "roots/list")
            assert answer["result"]["roots"][0]["uri"] == tmp_path.as_uri()


@to_the_end
async def test_changed_roots_are_announced_and_answered_from_then_on(wayward, tmp_path):
    async with connect(wayward(), roots=[tmp_path]) as client:
        await client.roots_changed([tmp_path / "new"])
        answer = await ask(client, "roots/list")
        assert answer["result"]["roots"][0]["name"] == "new"
        messages = (await client.call_tool("history")).structured_content["messages"]
        names = [m.get("method") for m in messages]
        assert "notifications/roots/list_changed" in names
        with pytest.raises(ValueError, match="file://"):
            await client.roots_changed(["ftp://x"])


@to_the_end
async def test_roots_cannot_change_where_none_were_declared(wayward, tmp_path):
    async with connect(wayward()) as client:
        with pytest.raises(LocalProtocolError):
            await client.roots_changed([tmp_path])
        assert (await ask(client, "roots/list"))["error"]["code"] == -32601


# -- news

NEWS = [
    {"method": "notifications/message", "params": {"level": "info", "data": 1}},
    {"method": "notifications/message", "params": {"level": "error", "data": {"a": 2}}},
    {"method": "notifications/tools/list_changed"},
    {"method": "notifications/resources/list_changed"},
    {"method": "notifications/prompts/list_changed"},
    {"method": "notifications/resources/updated", "params": {"uri": "note://1"}},
]


def listeners(heard, *, asynchronous):
    def listen(name):
        def sync(*news):
            heard.append((name, *news))

        async def slow(*news):
            await asyncio.sleep(0)
            heard.append((name, *news))

        return slow if asynchronous else sync

    names = ("log", "tools_changed", "resources_changed", "prompts_changed", "resource_updated")
    return {f"on_{name}": listen(name) for name in names}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_news_reaches_its_callbacks(asynchronous, wayward, run):
    heard = []

    async def main():
        async with connect(wayward(), **listeners(heard, asynchronous=asynchronous)) as client:
            await client.call_tool("tell", {"notices": NEWS})
            await client.ping()

    run(main())
    logs = [entry[1].data for entry in heard if entry[0] == "log"]
    assert logs == [1, {"a": 2}]
    assert sorted(entry[0] for entry in heard) == sorted(
        ["log", "log", "tools_changed", "resources_changed", "prompts_changed", "resource_updated"]
    )
    assert ("resource_updated", "note://1") in heard


def test_callbacks_that_fail_are_logged_and_break_nothing(wayward, run, caplog):
    def broken(*_):
        raise RuntimeError("oh no")

    async def later(*_):
        raise RuntimeError("oh no, later")

    async def main():
        async with connect(wayward(), on_log=broken, on_tools_changed=later) as client:
            await client.call_tool("tell", {"notices": NEWS})
            await client.call_tool("advance", {"steps": 2}, on_progress=broken)
            await client.ping()

    run(main())
    assert "oh no, later" in caplog.text
    assert caplog.text.count("RuntimeError: oh no\n") == 4


def test_slow_callbacks_hear_everything_in_order(wayward, run):
    heard = []

    async def on_log(message):
        await asyncio.sleep(0.002 if message.data % 2 else 0)
        heard.append(message.data)

    notices = [
        {"method": "notifications/message", "params": {"level": "info", "data": n}}
        for n in range(50)
    ]

    async def main():
        async with connect(wayward(), on_log=on_log) as client:
            await client.call_tool("tell", {"notices": notices})
            while len(heard) < 50:
                await asyncio.sleep(0.01)

    run(main())
    assert heard == list(range(50))


def test_news_for_a_callback_that_never_ends_is_bounded(run, caplog):
    async def main():
        heard = []
        gate = asyncio.Event()

        async def slow(n):
            heard.append(n)
            await gate.wait()

        feed = Feed(slow, "news")
        for n in range(FEED_LENGTH + 50):
            feed.deliver(n)
        gate.set()
        while feed.task is not None:
            await asyncio.sleep(0)
        return heard

    with caplog.at_level(logging.WARNING, "accord.client"):
        heard = run(main())
    assert heard == list(range(FEED_LENGTH + 1))
    assert caplog.text.count("is too slow") == 1


# -- invalid messages


def test_invalid_lines_are_logged_and_skipped(wayward, run, caplog):
    noise = (
        'loading model...\n{"half": \n[]\n\x00\xff\n{"jsonrpc": "2.0", "method": "odd/thing"}\n\n'
    )

    async def main():
        async with connect(wayward(stdout=["hello from print"])) as client:
            await client.call_tool("raw", {"data": noise})
            await client.ping()

    run(main())
    assert "skipped a message of the server" in caplog.text


def test_noise_without_end_is_logged_only_for_a_while(wayward, run, caplog):
    async def main():
        async with connect(wayward()) as client:
            await client.call_tool("raw", {"data": "noise\n" * 1000})
            await client.ping()

    run(main())
    assert caplog.text.count("skipped a message") == 20


def test_an_answer_to_nothing_is_skipped(wayward, run, caplog):
    async def main():
        async with connect(wayward()) as client:
            await client.call_tool("raw", {"data": '{"jsonrpc": "2.0", "id": 999, "result": {}}\n'})
            await client.ping()

    run(main())
    assert "999" in caplog.text

"""Questions that a request is answered with (mrtr.client.*): answered, and the request repeated."""

import asyncio

import pytest

from accord import Context, Server, connect
from accord.client import blocking
from accord.errors import (
    ConnectionClosed,
    InternalError,
    InvalidParams,
    LocalProtocolError,
    MissingCapability,
    RemoteProtocolError,
    RequestError,
    RequestTimeout,
)
from accord.testing import run_in_virtual_time
from accord.types import (
    ClientCapabilities,
    CreateMessageResult,
    ElicitationCapability,
    ElicitResult,
    GetPromptResult,
    InputRequiredResult,
    ListRootsResult,
    ReadResourceResult,
    RootsCapability,
    TextContent,
)
from client.stateless_server import META, Failure, StatelessServer, ask, form, text
from support.running import in_virtual_time

SAMPLE = (
    "sampling/createMessage",
    {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 5},
)
PAGE = ("elicitation/create", {"mode": "url", "message": "sign in", "url": "https://example.com/"})
ROOTS = ("roots/list", None)


class Script:
    """Answers a method with one result after another; the last one again and again."""

    def __init__(self, *results):
        self.results = list(results)
        self.params = []
        self.ids = []

    def __call__(self, message):
        self.ids.append(message["id"])
        self.params.append(message["params"])
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, Exception):
            raise result
        return result


def modern(target, **options):
    return connect(target, revision="2026-07-28", **options)


def run(work):
    return run_in_virtual_time(work)


async def answer(params):
    return {"value": f"to {params.message}"}


# -- the repeat


@pytest.mark.requirement("mrtr.client.fulfil-before-retry")
@pytest.mark.requirement("mrtr.client.echo-state")
@pytest.mark.requirement("mrtr.client.new-id")
@pytest.mark.requirement("mrtr.client.response-keys-match")
def test_a_request_is_repeated_with_the_answers_and_the_state():
    script = Script(ask("s-1", a=form("A?"), b=form("B?")), ask("s-2", c=form("C?")), text("done"))

    async def main():
        async with modern(StatelessServer(tools_call=script), on_elicit=answer) as client:
            return await client.call_tool("book", {"city": "Oslo"})

    assert run(main()).text == "done"
    first, second, third = script.params
    assert len(set(script.ids)) == 3
    assert "inputResponses" not in first
    assert "requestState" not in first
    assert second["requestState"] == "s-1"
    assert second["inputResponses"] == {
        "a": {"action": "accept", "content": {"value": "to A?"}},
        "b": {"action": "accept", "content": {"value": "to B?"}},
    }
    assert third["requestState"] == "s-2"
    assert third["inputResponses"].keys() == {"c"}
    for params in script.params:
        assert params["name"] == "book"
        assert params["arguments"] == {"city": "Oslo"}


@pytest.mark.requirement("mrtr.client.no-invented-state")
def test_without_a_state_none_is_sent_even_if_an_earlier_round_had_one():
    script = Script(ask("s-1", a=form("A?")), ask(b=form("B?")), text("done"))

    async def main():
        async with modern(StatelessServer(tools_call=script), on_elicit=answer) as client:
            await client.call_tool("book")

    run(main())
    assert ["requestState" in params for params in script.params] == [False, True, False]


@pytest.mark.parametrize("method", ["tools_call", "prompts_get", "resources_read"])
def test_tools_prompts_and_resources_may_ask(method):
    results = {
        "tools_call": text("done"),
        "prompts_get": {"resultType": "complete", "messages": []},
        "resources_read": {"resultType": "complete", "contents": []},
    }
    script = Script(ask("s", a=form("A?")), results[method])

    async def main():
        async with modern(StatelessServer(**{method: script}), on_elicit=answer) as client:
            if method == "tools_call":
                await client.call_tool("book")
            elif method == "prompts_get":
                await client.get_prompt("plan", {"city": "Oslo"})
            else:
                await client.read_resource("note://1")

    run(main())
    first, second = script.params
    assert second["inputResponses"]["a"]["content"] == {"value": "to A?"}
    assert {key: first[key] for key in first if key != "_meta"}.items() <= second.items()


def test_all_kinds_of_questions_are_answered_by_their_callbacks():
    script = Script(ask(a=form("A?"), s=SAMPLE, r=ROOTS), text("done"))

    async def on_sample(params):
        return CreateMessageResult("assistant", TextContent("yes"), "m")

    async def main():
        async with modern(
            StatelessServer(tools_call=script),
            on_elicit=lambda params: False,
            on_sample=on_sample,
            roots=["file:///work"],
        ) as client:
            await client.call_tool("book")

    asyncio.run(main())  # a plain function answers in a thread, which takes real time
    assert script.params[1]["inputResponses"] == {
        "a": {"action": "decline"},
        "s": {
            "role": "assistant",
            "content": {"type": "text", "text": "yes"},
            "model": "m",
            "stopReason": "endTurn",
        },
        "r": {"roots": [{"uri": "file:///work", "name": "work"}]},
    }


def test_a_page_is_shown_by_its_callback_and_the_request_repeated():
    script = Script(ask("s", p=PAGE), text("done"))
    shown = []

    async def show(params):
        shown.append(params.url)
        return True

    async def main():
        async with modern(StatelessServer(tools_call=script), on_elicit_url=show) as client:
            await client.call_tool("book")

    run(main())
    assert shown == ["https://example.com/"]
    assert script.params[1]["inputResponses"] == {"p": {"action": "accept"}}


@in_virtual_time
async def test_questions_of_one_result_are_asked_at_the_same_time():
    both = asyncio.Barrier(2)

    async def meet(params):
        await both.wait()
        return {"value": "x"}

    target = StatelessServer(tools_call=Script(ask(a=form("A?"), b=form("B?")), text("done")))
    async with modern(target, on_elicit=meet) as client:
        await client.call_tool("book")


@pytest.mark.requirement("mrtr.client.state-not-shared")
def test_calls_under_way_at_the_same_time_keep_their_answers_and_states_apart():
    repeats = []

    def call(message):
        params = message["params"]
        name = params["arguments"]["who"]
        if "requestState" not in params:
            return ask(f"state of {name}", question=form(name))
        repeats.append((name, params["requestState"], params["inputResponses"]))
        return text(name)

    async def slow(params):
        await asyncio.sleep(5 if params.message == "ada" else 1)
        return {"value": params.message}

    async def main():
        async with modern(StatelessServer(tools_call=call), on_elicit=slow) as client:
            calls = [client.call_tool("book", {"who": who}) for who in ("ada", "bob")]
            return [result.text for result in await asyncio.gather(*calls)]

    assert run(main()) == ["ada", "bob"]
    for name, state, answers in repeats:
        assert state == f"state of {name}"
        assert answers == {"question": {"action": "accept", "content": {"value": name}}}


def test_handlers_of_a_real_server_ask_through_the_same_callbacks():
    server = Server("desk")

    @server.tool
    async def greet(ctx: Context) -> str:
        """Ask for two names at once, then ask again."""
        names = await asyncio.gather(
            ctx.elicit("first", str, key="first"), ctx.elicit("last", str, key="last")
        )
        return " ".join([*names, await ctx.elicit("title", str)])

    async def main():
        async with modern(server, on_elicit=answer) as client:
            return await client.call_tool("greet", result_type=str)

    assert run(main()) == "to first to last to title"


# -- what holds for a repeat


def test_progress_and_meta_hold_for_repeats():
    seen = []
    tokens = []

    def call(message):
        token = message["params"]["_meta"]["progressToken"]
        tokens.append(token)
        target.notify("progress", progressToken=token, progress=len(tokens))
        return ask("s", a=form("A?")) if len(tokens) < 3 else text("done")

    target = StatelessServer(tools_call=call)

    async def main():
        async with modern(target, on_elicit=answer) as client:
            await client.call_tool(
                "book",
                meta={"traceparent": "00-1"},
                on_progress=lambda params: seen.append(params.progress),
            )

    run(main())
    assert seen == [1, 2, 3]
    assert len(set(tokens)) == 3
    metas = [message["params"]["_meta"] for message in target.received("tools/call")]
    assert all(meta["traceparent"] == "00-1" for meta in metas)
    assert all(meta[META + "protocolVersion"] == "2026-07-28" for meta in metas)
    assert all("elicitation" in meta[META + "clientCapabilities"] for meta in metas)


def test_headers_of_a_call_hold_for_its_repeats_and_not_for_calls_of_its_callbacks():
    script = Script(ask("s", a=form("A?")), text("done"))
    listed = {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}
    target = StatelessServer(tools_call=script, tools_list=lambda message: listed)

    async def main():
        async def look(params):
            await client.list_tools()
            return {"value": "x"}

        async with modern(target, on_elicit=look) as client:
            await client.call_tool("book", headers={"X-Tenant": "a"})

    run(main())
    assert target.methods() == ["tools/call", "tools/list", "tools/call"]
    assert target.headers[1:] == [{"X-Tenant": "a"}, None, {"X-Tenant": "a"}]


def test_the_time_of_the_user_does_not_count_as_silence():
    async def slow(params):
        await asyncio.sleep(50)
        return {"value": "at last"}

    async def main():
        target = StatelessServer(tools_call=Script(ask("s", a=form("A?")), text("done")))
        async with modern(target, on_elicit=slow) as client:
            return await client.call_tool("book", timeout=2)

    assert run(main()).text == "done"


def test_the_cap_holds_while_the_user_is_asked():
    ended = []

    async def never(params):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def main():
        target = StatelessServer(tools_call=Script(ask("s", a=form("A?")), text("done")))
        async with modern(target, on_elicit=never) as client:
            loop = asyncio.get_running_loop()
            began = loop.time()
            with pytest.raises(RequestTimeout, match=r"'book'.*cap"):
                await client.call_tool("book", timeout=2, cap=30)
            assert loop.time() - began == pytest.approx(30)
        assert target.methods() == ["tools/call"]

    run(main())
    assert ended == [True]


@in_virtual_time
async def test_the_cap_holds_for_all_rounds_together():
    async def slow(params):
        await asyncio.sleep(9)
        return {"value": "x"}

    target = StatelessServer(tools_call=Script(ask("s", a=form("A?"))))
    async with modern(target, on_elicit=slow, rounds=100) as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("book", cap=30)
    assert len(target.methods()) == 4


# -- limits


@in_virtual_time
async def test_a_server_that_asks_without_end_is_stopped_by_an_error_with_the_tool_and_the_count():
    target = StatelessServer(tools_call=Script(ask("s", a=form("A?"))))
    async with modern(target, on_elicit=answer, rounds=3) as client:
        with pytest.raises(RemoteProtocolError, match=r"tools/call of 'book'.* 3 times"):
            await client.call_tool("book")
    assert len(target.methods()) == 4


def test_a_state_without_questions_means_to_come_again_after_a_pause():
    script = Script(ask("s-1"), ask("s-2"), text("done"))

    async def main():
        async with modern(StatelessServer(tools_call=script)) as client:
            began = asyncio.get_running_loop().time()
            result = await client.call_tool("book")
            return result.text, asyncio.get_running_loop().time() - began

    done, seconds = run(main())
    assert done == "done"
    assert 0 < seconds < 1
    assert [params.get("requestState") for params in script.params] == [None, "s-1", "s-2"]
    assert not any("inputResponses" in params for params in script.params)


@in_virtual_time
async def test_coming_again_has_an_end_too():
    target = StatelessServer(tools_call=Script(ask("s")))
    async with modern(target) as client:
        with pytest.raises(RemoteProtocolError, match="10 times"):
            await client.call_tool("book")
        with pytest.raises(RequestTimeout, match="cap"):
            await client.call_tool("book", cap=0.5)


@in_virtual_time
async def test_more_questions_at_once_than_a_user_can_answer_are_refused():
    questions = {f"q{number}": form("?") for number in range(101)}
    target = StatelessServer(tools_call=Script(ask("s", **questions)))
    async with modern(target, on_elicit=answer) as client:
        with pytest.raises(RemoteProtocolError, match="101 questions"):
            await client.call_tool("book")


# -- questions that may not be asked


@pytest.mark.requirement("mrtr.result.declared-capabilities-only")
@pytest.mark.parametrize(
    ("question", "needed"),
    [
        (form("?"), "elicitation"),
        (SAMPLE, "sampling"),
        (ROOTS, "roots"),
    ],
)
@in_virtual_time
async def test_a_question_of_an_undeclared_kind_breaks_the_protocol(question, needed):
    target = StatelessServer(tools_call=Script(ask("s", a=question)))
    async with modern(target) as client:
        with pytest.raises(RemoteProtocolError, match=rf"'a'.* needs {needed};") as caught:
            await client.call_tool("book")
    assert caught.value.violations[0].requirement == "mrtr.result.declared-capabilities-only"
    assert len(target.methods()) == 1


def test_a_question_of_an_undeclared_mode_breaks_the_protocol_and_nothing_is_asked():
    asked = []

    async def main():
        target = StatelessServer(tools_call=Script(ask("s", a=form("?"), b=PAGE)))
        async with modern(target, on_elicit=asked.append) as client:
            with pytest.raises(RemoteProtocolError, match=r"'b'.* needs elicitation\.url"):
                await client.call_tool("book")

    run(main())
    assert asked == []


@in_virtual_time
async def test_tools_for_sampling_that_were_not_declared_break_the_protocol():
    method, params = SAMPLE
    tools = [{"name": "look", "inputSchema": {"type": "object"}}]
    target = StatelessServer(tools_call=Script(ask(a=(method, {**params, "tools": tools}))))
    async with modern(target, on_sample=lambda params: None) as client:
        with pytest.raises(RemoteProtocolError, match=r"sampling\.tools"):
            await client.call_tool("book")


@pytest.mark.requirement("mrtr.result.has-requests-or-state")
@in_virtual_time
async def test_neither_questions_nor_a_state_break_the_protocol():
    async with modern(StatelessServer(tools_call=Script(ask()))) as client:
        with pytest.raises(RemoteProtocolError, match="neither questions nor state"):
            await client.call_tool("book")


@in_virtual_time
async def test_questions_in_place_of_a_list_break_the_protocol():
    # mrtr.result.only-on-supported-methods
    target = StatelessServer(tools_list=Script(ask("s", a=form("?"))))
    async with modern(target, on_elicit=answer) as client:
        with pytest.raises(RemoteProtocolError):
            await client.list_tools()


# -- failures


def test_a_refused_sampling_request_ends_the_call_with_its_error():
    async def main():
        target = StatelessServer(tools_call=Script(ask("s", a=SAMPLE)))
        async with modern(target, on_sample=lambda params: None) as client:
            with pytest.raises(RequestError, match="the user refused") as caught:
                await client.call_tool("book")
        assert caught.value.code == -1
        assert len(target.methods()) == 1

    asyncio.run(main())


@in_virtual_time
async def test_a_failed_lookup_of_roots_ends_the_call_with_its_error():
    async def lost_disk():
        raise OSError("the disk is gone")

    target = StatelessServer(tools_call=Script(ask("s", a=ROOTS)))
    async with modern(target, roots=lost_disk) as client:
        with pytest.raises(OSError, match="the disk is gone"):
            await client.call_tool("book")
        assert len(target.methods()) == 1


def test_a_failed_question_ends_the_others():
    ended = []

    async def mixed(params):
        if params.message == "B?":
            raise ValueError("no B")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(params.message)

    async def main():
        target = StatelessServer(tools_call=Script(ask("s", a=form("A?"), b=form("B?"))))
        async with modern(target, on_elicit=mixed) as client:
            with pytest.raises(ValueError, match="no B"):
                await client.call_tool("book")

    run(main())
    assert ended == ["A?"]


@in_virtual_time
async def test_an_error_that_answers_a_repeat_ends_the_call():
    script = Script(ask("s", a=form("A?")), Failure(-32602, "the state has expired"))
    async with modern(StatelessServer(tools_call=script), on_elicit=answer) as client:
        with pytest.raises(InvalidParams, match="the state has expired"):
            await client.call_tool("book")


@in_virtual_time
async def test_closing_the_client_ends_a_call_that_waits_for_the_user():
    waiting = asyncio.Event()

    async def never(params):
        waiting.set()
        await asyncio.Event().wait()

    target = StatelessServer(tools_call=Script(ask("s", a=form("A?"))))
    client = await modern(target, on_elicit=never)
    call = asyncio.create_task(client.call_tool("book"))
    await waiting.wait()
    await client.close()
    with pytest.raises(ConnectionClosed):
        await call
    assert asyncio.all_tasks() == {asyncio.current_task()}


@in_virtual_time
async def test_cancelling_a_call_ends_its_questions():
    waiting, ended = asyncio.Event(), asyncio.Event()

    async def never(params):
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    target = StatelessServer(tools_call=Script(ask("s", a=form("A?"))))
    async with modern(target, on_elicit=never) as client:
        call = asyncio.create_task(client.call_tool("book"))
        await waiting.wait()
        call.cancel()
        await ended.wait()
        with pytest.raises(asyncio.CancelledError):
            await call


# -- one round at a time


def test_a_host_may_ask_its_user_elsewhere_and_repeat_the_request_with_another_client():
    script = Script(ask("s-1", a=form("A?"), r=ROOTS), text("done"))
    target = StatelessServer(tools_call=script)
    can_ask = ClientCapabilities(
        elicitation=ElicitationCapability(form={}), roots=RootsCapability()
    )

    async def main():
        async with modern(target) as client:
            asked = await client.rounds.call_tool(
                "book", {"city": "Oslo"}, capabilities=can_ask, meta={"traceparent": "00-1"}
            )
        assert isinstance(asked, InputRequiredResult)
        assert asked.input_requests["a"].params.message == "A?"
        answers = {"a": ElicitResult("accept", {"value": "x"}), "r": ListRootsResult([])}
        async with modern(target) as client:
            return await client.rounds.call_tool(
                "book", {"city": "Oslo"}, answers=answers, state=asked.request_state
            )

    assert run(main()).text == "done"
    first, second = script.params
    declared = first["_meta"][META + "clientCapabilities"]
    assert declared == {"elicitation": {"form": {}}, "roots": {}}
    assert first["_meta"]["traceparent"] == "00-1"
    assert "inputResponses" not in first
    assert second["arguments"] == first["arguments"] == {"city": "Oslo"}
    assert second["requestState"] == "s-1"
    assert second["inputResponses"] == {
        "a": {"action": "accept", "content": {"value": "x"}},
        "r": {"roots": []},
    }


def test_prompts_and_resources_have_single_rounds_too():
    prompt = Script(ask("s"), {"resultType": "complete", "messages": []})
    note = Script(ask("s"), {"resultType": "complete", "contents": []})
    target = StatelessServer(prompts_get=prompt, resources_read=note)
    with blocking.connect(target, revision="2026-07-28") as client:
        for _ in range(2):
            found = client.rounds.get_prompt("plan", {"city": "Oslo"}, state="given")
            read = client.rounds.read_resource("note://1", state="given")
    assert isinstance(found, GetPromptResult)
    assert isinstance(read, ReadResourceResult)
    assert [each["requestState"] for each in prompt.params + note.params] == ["given"] * 4


@in_virtual_time
async def test_the_result_of_a_single_round_is_checked_as_any_other():
    schema = {"type": "object", "required": ["n"]}
    tool = {"name": "book", "inputSchema": {"type": "object"}, "outputSchema": schema}
    listed = {"resultType": "complete", "tools": [tool], "ttlMs": 0, "cacheScope": "private"}
    wrong = {"resultType": "complete", "content": [], "structuredContent": {"m": 1}}
    target = StatelessServer(tools_list=lambda _: listed, tools_call=lambda _: wrong)
    async with modern(target) as client:
        await client.list_tools()
        with pytest.raises(RemoteProtocolError, match="breaks its own schema"):
            await client.rounds.call_tool("book")
        with pytest.raises(TypeError, match="awnsers"):
            await client.rounds.call_tool("book", awnsers={})


@in_virtual_time
async def test_older_revisions_have_no_rounds():
    async with connect(Server("desk"), revision="2025-11-25") as client:
        with pytest.raises(LocalProtocolError, match="servers ask while a request is under way"):
            await client.rounds.call_tool("book")


@pytest.mark.parametrize(
    ("question", "given", "advice"),
    [
        ("form", {}, "give connect() on_elicit"),
        ("page", {"on_elicit": bool}, "give connect() on_elicit_url"),
        ("model", {}, "give connect() on_sample"),
    ],
)
def test_a_missing_capability_says_which_callback_declares_it(question, given, advice):
    server = Server("desk")

    @server.tool
    async def ask_user(ctx: Context, kind: str) -> None:
        if kind == "form":
            await ctx.elicit("Name?", str)
        elif kind == "page":
            await ctx.elicit_url("Sign in", "https://desk.example/")
        await ctx.sample("Hello?")

    async def main():
        async with modern(server, **given) as client:
            with pytest.raises(MissingCapability) as caught:
                await client.call_tool("ask_user", {"kind": question})
            assert caught.value.__notes__ == [f"to declare it, {advice}"]

    run(main())


@in_virtual_time
async def test_an_answer_that_does_not_fit_its_form_says_why():
    server = Server("desk")

    @server.tool
    async def ask_user(ctx: Context) -> None:
        await ctx.elicit("How many?", int)

    async with modern(server, on_elicit=lambda _: {"value": "many"}) as client:
        with pytest.raises(InternalError) as caught:
            await client.call_tool("ask_user")
        assert "many" in caught.value.__notes__[0]


def test_a_question_that_is_asked_again_at_once_is_put_after_a_pause():
    target = StatelessServer(tools_call=Script(ask(a=PAGE), ask(a=PAGE), ask(a=PAGE), text("done")))
    times = []

    async def main():
        loop = asyncio.get_running_loop()
        async with modern(
            target, on_elicit_url=lambda _: times.append(loop.time()) or True
        ) as client:
            assert (await client.call_tool("book")).text == "done"

    run_in_virtual_time(main())
    assert [round(each - times[0], 1) for each in times] == [0.0, 0.2, 0.6]

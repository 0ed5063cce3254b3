"""Questions through rounds: requests of 2026-07-28 that are answered with questions (mrtr.*)."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accord import Context, Server, connect
from accord.errors import (
    ElicitationRefused,
    RegistrationError,
    ToolError,
    UrlElicitationRequired,
)
from accord.principal import Principal
from accord.types import InputRequiredResult, SamplingMessage, TextContent, ToolAnnotations
from support.modern import ModernClient, accept
from support.tables import cases
from support.waiting import in_loop, run, until

KEY = "k" * 32
OTHER_KEY = "o" * 32


def server_with(*tools: Any, **settings: Any) -> Server[Any]:
    server = Server("desk", **settings)
    for tool in tools:
        server.add_tool(tool)
    return server


async def greet(ctx: Context) -> str:
    """Greet the user by name."""
    return f"Hello, {await ctx.elicit('What is your name?', str, key='user_name')}!"


async def plan(ctx: Context, city: str) -> str:
    """Ask twice, one after the other."""
    nights = await ctx.elicit("How many nights?", int)
    sure = await ctx.elicit(f"{nights} nights in {city}?", bool)
    return f"{city} {nights} {sure}"


def text_of(result: Any) -> str:
    assert result["resultType"] == "complete", result
    return str(result["content"][0]["text"])


@pytest.mark.requirement(
    "mrtr.server-asks-only-this-way",
    "mrtr.result.has-requests-or-state",
    "mrtr.result.input-request-kinds",
    "mrtr.result.no-cache-hints",
)
@in_loop
async def test_a_question_is_the_answer_and_the_repeated_request_gets_the_result() -> None:
    async with ModernClient(server_with(greet)) as raw:
        asked = await raw.call("greet")
        assert asked["resultType"] == "input_required"
        question = asked["inputRequests"]["user_name"]
        assert question["method"] == "elicitation/create"
        assert question["params"]["message"] == "What is your name?"
        assert set(question) == {"method", "params"}
        assert text_of(await raw.again("greet", asked, "Ada")) == "Hello, Ada!"


@in_loop
async def test_questions_one_after_the_other_take_a_round_each_and_keep_the_answers() -> None:
    async with ModernClient(server_with(plan)) as raw:
        arguments = {"city": "Oslo"}
        first = await raw.call("plan", arguments=arguments)
        second = await raw.again("plan", first, 3, arguments=arguments)
        (question,) = second["inputRequests"].values()
        assert question["params"]["message"] == "3 nights in Oslo?"
        assert second["requestState"] != first["requestState"]
        done = await raw.again("plan", second, True, arguments=arguments)
        assert text_of(done) == "Oslo 3 True"


async def gathered(ctx: Context) -> str:
    """Ask everything at once."""
    name, said, roots = await asyncio.gather(
        ctx.elicit("Name?", str, key="name"),
        ctx.sample("Capital of France?", key="capital"),
        ctx.roots(key="roots"),
    )
    return f"{name} {said.text} {roots[0].uri}"


async def grouped(ctx: Context) -> str:
    """Ask everything at once, in a group of tasks."""
    async with asyncio.TaskGroup() as tasks:
        name = tasks.create_task(ctx.elicit("Name?", str, key="name"))
        said = tasks.create_task(ctx.sample("Capital of France?", key="capital"))
        roots = tasks.create_task(ctx.roots(key="roots"))
    return f"{name.result()} {said.result().text} {roots.result()[0].uri}"


@pytest.mark.parametrize("tool", [gathered, grouped])
@pytest.mark.requirement("mrtr.result.input-request-keys-unique")
@in_loop
async def test_questions_at_the_same_time_are_one_round(tool: Any) -> None:
    async with ModernClient(server_with(tool)) as raw:
        asked = await raw.call(tool.__name__)
        assert set(asked["inputRequests"]) == {"name", "capital", "roots"}
        assert asked["inputRequests"]["roots"] == {"method": "roots/list"}
        answers = {
            "name": {"action": "accept", "content": {"value": "Ada"}},
            "capital": {
                "role": "assistant",
                "content": {"type": "text", "text": "Paris"},
                "model": "m",
                "stopReason": "endTurn",
            },
            "roots": {"roots": [{"uri": "file:///w"}]},
        }
        state = asked["requestState"]
        done = await raw.call(tool.__name__, inputResponses=answers, requestState=state)
        assert text_of(done) == "Ada Paris file:///w"


@pytest.mark.requirement("mrtr.server.ask-again-when-missing")
@in_loop
async def test_answers_may_arrive_one_by_one() -> None:
    async with ModernClient(server_with(gathered)) as raw:
        asked = await raw.call("gathered")
        name = {"name": {"action": "accept", "content": {"value": "Ada"}}}
        rest = await raw.call("gathered", inputResponses=name, requestState=asked["requestState"])
        assert set(rest["inputRequests"]) == {"capital", "roots"}


@pytest.mark.parametrize(
    ("answers", "missing"),
    [({"wrong": {"action": "accept", "content": {}}}, True), ({}, True)],
    ids=["another key", "none"],
)
@pytest.mark.requirement(
    "mrtr.server.ask-again-when-missing", "mrtr.server.ignore-unknown-responses"
)
@in_loop
async def test_a_missing_answer_is_asked_for_again(answers: Any, missing: bool) -> None:
    async with ModernClient(server_with(greet)) as raw:
        again = await raw.call("greet", inputResponses=answers)
        assert ("user_name" in again["inputRequests"]) is missing


@pytest.mark.requirement("mrtr.server.ignore-unknown-responses")
@in_loop
async def test_answers_to_no_question_are_ignored() -> None:
    async with ModernClient(server_with(greet)) as raw:
        asked = await raw.call("greet")
        answers = {**accept(asked, "Ada"), "other": {"action": "accept", "content": {"a": 1}}}
        done = await raw.call("greet", inputResponses=answers, requestState=asked["requestState"])
        assert text_of(done) == "Hello, Ada!"


@pytest.mark.parametrize("answer", [12345, {"action": "maybe"}, {"content": {}}])
@pytest.mark.requirement(
    "mrtr.server.validate-responses", "mrtr.server.protocol-error-on-malformed"
)
@in_loop
async def test_a_malformed_answer_is_refused_with_its_place(answer: Any) -> None:
    async with ModernClient(server_with(greet)) as raw:
        error = await raw.call("greet", inputResponses={"user_name": answer})
        assert error["code"] == -32602
        assert "inputResponses['user_name']" in error["message"]


@in_loop
async def test_a_refusal_of_the_user_reaches_the_handler() -> None:
    async def careful(ctx: Context) -> str:
        try:
            return await ctx.elicit("Name?", str, key="name")
        except ElicitationRefused as refused:
            return refused.action

    async with ModernClient(server_with(careful)) as raw:
        answer = {"name": {"action": "decline"}}
        assert text_of(await raw.call("careful", inputResponses=answer)) == "decline"


@in_loop
async def test_the_answer_to_a_question_never_reaches_another_one() -> None:
    names = iter(["Ada", "Bob"])

    async def fickle(ctx: Context) -> str:
        return await ctx.elicit(f"Delete {next(names)}?", str)

    async with ModernClient(server_with(fickle)) as raw:
        first = await raw.call("fickle")
        second = await raw.again("fickle", first, "yes")
        (question,) = second["inputRequests"].values()
        assert question["params"]["message"] == "Delete Bob?"


@in_loop
async def test_the_same_question_twice_has_two_answers() -> None:
    async def twice(ctx: Context) -> str:
        first, second = await asyncio.gather(ctx.elicit("Word?", str), ctx.elicit("Word?", str))
        return f"{first} {second}"

    async with ModernClient(server_with(twice)) as raw:
        asked = await raw.call("twice")
        assert text_of(await raw.again("twice", asked, "a", "b")) == "a b"


@in_loop
async def test_two_questions_with_one_key_are_a_mistake_of_the_author() -> None:
    async def confused(ctx: Context) -> str:
        await ctx.elicit("A?", str, key="same")
        return await ctx.elicit("B?", str, key="same")

    async with ModernClient(server_with(confused, debug=True)) as raw:
        answer = {"same": {"action": "accept", "content": {"value": "x"}}}
        failed = await raw.call("confused", inputResponses=answer)
        assert failed["isError"]
        assert "two questions of one request have the key 'same'" in failed["content"][0]["text"]


# -- what happens to the handler


def test_a_handler_is_ended_by_its_question_and_cleans_up() -> None:
    seen: list[str] = []

    async def tidy(ctx: Context) -> str:
        try:
            return await ctx.elicit("Name?", str)
        except Exception:
            seen.append("caught")
            raise
        finally:
            seen.append("cleaned up")

    async def main() -> None:
        async with ModernClient(server_with(tidy)) as raw:
            assert (await raw.call("tidy"))["resultType"] == "input_required"

    run(main())
    assert seen == ["cleaned up"]


@in_loop
async def test_a_handler_that_swallows_its_end_does_not_answer_without_the_user() -> None:
    async def greedy(ctx: Context) -> str:
        results = await asyncio.gather(ctx.elicit("Sure?", bool), return_exceptions=True)
        return f"done with {results}"

    async with ModernClient(server_with(greedy)) as raw:
        assert (await raw.call("greedy"))["resultType"] == "input_required"


@in_loop
async def test_a_failure_beside_a_question_is_the_outcome() -> None:
    async def mixed(ctx: Context) -> str:
        async def fail() -> None:
            raise ToolError("no flights")

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ctx.elicit("Sure?", bool))
            tasks.create_task(fail())
        return "never"

    async with ModernClient(server_with(mixed)) as raw:
        failed = await raw.call("mixed")
        assert failed["isError"]
        assert failed["content"][0]["text"] == "no flights"


@in_loop
async def test_questions_are_asked_from_threads() -> None:
    def blocking(ctx: Context) -> str:
        return ctx.wait(ctx.elicit("Name?", str, key="name"))

    async with ModernClient(server_with(blocking)) as raw:
        asked = await raw.call("blocking")
        assert text_of(await raw.again("blocking", asked, "Ada")) == "Ada"


@in_loop
async def test_prompts_and_resources_ask_too() -> None:
    server = Server("desk")

    @server.prompt
    async def letter(ctx: Context) -> str:
        return f"Write to {await ctx.elicit('To whom?', str, key='to')}"

    @server.resource("note://{name}")
    async def note(name: str, ctx: Context) -> str:
        return f"{name}: {await ctx.elicit('Password?', str, key='password')}"

    async with ModernClient(server) as raw:
        asked = await raw.send_modern("prompts/get", name="letter")
        answers = accept(asked["result"], "Bob")
        done = await raw.send_modern("prompts/get", name="letter", inputResponses=answers)
        assert done["result"]["messages"][0]["content"]["text"] == "Write to Bob"
        asked = await raw.send_modern("resources/read", uri="note://a")
        answers = accept(asked["result"], "x")
        state = asked["result"]["requestState"]
        done = await raw.send_modern(
            "resources/read", uri="note://a", inputResponses=answers, requestState=state
        )
        assert done["result"]["contents"][0]["text"] == "a: x"
        error = await raw.send_modern("resources/read", uri="note://b", requestState=state)
        assert "belongs to another request" in error["error"]["message"]


def test_middleware_sees_the_questions() -> None:
    seen: list[Any] = []

    async def watch(ctx: Any, proceed: Any) -> Any:
        result = await proceed()
        seen.append(result)
        return result

    async def main() -> None:
        async with ModernClient(server_with(greet, middleware=[watch])) as raw:
            await raw.call("greet")

    run(main())
    assert isinstance(seen[0], InputRequiredResult)


# -- once


@in_loop
async def test_once_calls_its_function_once_however_often_the_handler_runs() -> None:
    made: list[str] = []

    async def order(ctx: Context) -> str:
        async def create() -> dict[str, int]:
            made.append("order")
            return {"number": len(made)}

        created = await ctx.once("order", create, result_type=dict[str, int])
        await ctx.elicit("Pay now?", bool)
        await ctx.elicit("Really?", bool)
        return f"order {created['number']} of {len(made)}"

    async with ModernClient(server_with(order)) as raw:
        first = await raw.call("order")
        second = await raw.again("order", first, True)
        assert text_of(await raw.again("order", second, True)) == "order 1 of 1"


def test_a_result_of_once_that_is_not_json_is_named(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("desk")

    @server.tool
    async def hold(ctx: Context) -> None:
        await ctx.once("order", object)

    async def main() -> None:
        async with connect(server) as client:
            assert (await client.call_tool("hold")).is_error

    run(main())
    assert "once('order'): the result has to be JSON" in caplog.text


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@in_loop
async def test_once_calls_its_function_once_for_tasks_at_the_same_time(revision: Any) -> None:
    made: list[int] = []

    async def order(ctx: Context) -> int:
        async def create() -> int:
            made.append(1)
            await asyncio.sleep(0)
            return len(made)

        first, second = await asyncio.gather(ctx.once("order", create), ctx.once("order", create))
        assert first == second == 1
        return len(made)

    async with connect(server_with(order), revision=revision) as client:
        assert await client.call_tool("order", result_type=int) == 1


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
@in_loop
async def test_once_works_where_servers_ask_by_requests(revision: Any) -> None:
    made: list[int] = []

    async def order(ctx: Context) -> int:
        await ctx.once("order", lambda: made.append(1))
        await ctx.once("order", lambda: made.append(1))
        return len(made)

    async with connect(server_with(order), revision=revision) as client:
        assert await client.call_tool("order", result_type=int) == 1


# -- capabilities


@pytest.mark.requirement(
    "mrtr.result.declared-capabilities-only",
    "capability.undeclared-not-used",
    "capability.missing-error-code",
    "capability.missing-error-data",
    "stateless.no-prior-context",
)
@in_loop
async def test_a_question_that_the_client_cannot_answer_fails_and_names_the_capability() -> None:
    async with ModernClient(server_with(greet)) as raw:
        assert (await raw.call("greet"))["resultType"] == "input_required"
        error = await raw.call("greet", capabilities={"sampling": {}})
        assert error["code"] == -32021
        assert error["data"] == {"requiredCapabilities": {"elicitation": {}}}
        error = await raw.call("greet", capabilities={"elicitation": {"url": {}}})
        assert error["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}}}


# -- state


@pytest.mark.requirement(
    "mrtr.state.untrusted", "mrtr.state.integrity", "mrtr.state.reject-tampered"
)
@cases(
    ("alter", "why"),
    [
        (lambda state: f"{state}-TAMPERED", "it was altered"),
        (lambda state: state[:-2], "it was altered"),
        (lambda state: state.replace("v1.", "v2.", 1), "was not made by this server"),
        (
            lambda state: ".".join(["v1", "00000000", *state.split(".")[2:]]),
            "a key that is not known",
        ),
        (lambda state: "", "was not made by this server"),
        (lambda state: "ü.ü.ü.ü", "was not made by this server"),
        (lambda state: ".".join([*state.split(".")[:3], "ü"]), "it was altered"),
    ],
)
@in_loop
async def test_altered_state_is_refused(alter: Any, why: str) -> None:
    async with ModernClient(server_with(greet)) as raw:
        asked = await raw.call("greet")
        state = alter(asked["requestState"])
        error = await raw.call("greet", inputResponses=accept(asked, "A"), requestState=state)
        assert error["code"] == -32602
        assert why in error["message"]


@pytest.mark.requirement("mrtr.state.bind-request")
@in_loop
async def test_state_of_another_tool_or_of_other_arguments_is_refused() -> None:
    async with ModernClient(server_with(greet, plan)) as raw:
        asked = await raw.call("plan", arguments={"city": "Oslo"})
        for name, arguments in (("plan", {"city": "Rome"}), ("greet", {})):
            error = await raw.again(name, asked, 3, arguments=arguments)
            assert "it belongs to another request" in error["message"]


@in_loop
async def test_arguments_may_be_written_in_another_way() -> None:
    async def pair(ctx: Context, a: int, b: int) -> str:
        return f"{a} {b} {await ctx.elicit('?', str)}"

    async with ModernClient(server_with(pair)) as raw:
        asked = await raw.call("pair", arguments={"a": 1, "b": 2})
        assert text_of(await raw.again("pair", asked, "x", arguments={"b": 2, "a": 1})) == "1 2 x"


@in_loop
async def test_state_is_used_once() -> None:
    async with ModernClient(server_with(greet)) as raw:
        asked = await raw.call("greet")
        assert text_of(await raw.again("greet", asked, "Ada")) == "Hello, Ada!"
        error = await raw.again("greet", asked, "Eve")
        assert "it was used before" in error["message"]


@in_loop
async def test_state_whose_request_was_cancelled_may_be_used_again() -> None:
    started = asyncio.Event()

    async def slow(ctx: Context) -> str:
        name = await ctx.elicit("Name?", str)
        started.set()
        if name == "slow":
            await asyncio.sleep(3600)
        return name

    async with ModernClient(server_with(slow)) as raw:
        asked = await raw.call("slow")
        waiting = asyncio.create_task(raw.again("slow", asked, "slow"))
        await started.wait()
        raw.notify("notifications/cancelled", {"requestId": 2})
        await asyncio.sleep(0)
        waiting.cancel()
        assert text_of(await raw.again("slow", asked, "quick")) == "quick"


@pytest.mark.requirement("mrtr.state.expiry")
@in_loop
async def test_expired_state_is_refused(monkeypatch: Any) -> None:
    async with ModernClient(server_with(greet, state_lifetime=60)) as raw:
        asked = await raw.call("greet")
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 61)
        error = await raw.again("greet", asked, "Ada")
        assert "it has expired: answers are taken for 60 s" in error["message"]


@pytest.mark.requirement("mrtr.state.bind-principal")
@in_loop
async def test_state_of_another_user_is_refused() -> None:
    server = server_with(greet)
    async with ModernClient(server.acting_as(Principal("ada"))) as raw:
        asked = await raw.call("greet")
    async with ModernClient(server.acting_as(Principal("eve"))) as raw:
        error = await raw.again("greet", asked, "Eve")
        assert "it was made for another user" in error["message"]
    async with ModernClient(server) as raw:
        error = await raw.again("greet", asked, "Eve")
        assert "it was made for another user" in error["message"]
    async with ModernClient(server.acting_as(Principal("ada"))) as raw:
        assert text_of(await raw.again("greet", asked, "Ada")) == "Hello, Ada!"


@pytest.mark.requirement("stateless.no-connection-affinity")
@in_loop
async def test_servers_that_share_keys_take_each_others_state() -> None:
    async with ModernClient(server_with(greet, state_keys=[KEY])) as raw:
        asked = await raw.call("greet")
    rotated = server_with(greet, state_keys=[OTHER_KEY, KEY])
    async with ModernClient(rotated) as raw:
        assert text_of(await raw.again("greet", asked, "Ada")) == "Hello, Ada!"
    async with ModernClient(server_with(greet, state_keys=[OTHER_KEY])) as raw:
        error = await raw.again("greet", asked, "Ada")
        assert error["message"].endswith("it was sealed with a key that is not known here")
    async with ModernClient(server_with(greet)) as raw:
        error = await raw.again("greet", asked, "Ada")
        assert "processes that serve together share state_keys" in error["message"]


@in_loop
async def test_state_of_another_server_with_the_same_keys_is_refused() -> None:
    other = Server("other", state_keys=[KEY])
    other.add_tool(greet)
    async with ModernClient(other) as raw:
        asked = await raw.call("greet")
    async with ModernClient(server_with(greet, state_keys=[KEY])) as raw:
        error = await raw.again("greet", asked, "Ada")
        assert "it was made by another server" in error["message"]


@cases(
    "keys",
    [["short"], [b"x" * 31], "k" * 40, [5], []],
    ids=["short", "short bytes", "one text", "a number", "none"],
)
def test_keys_that_protect_nothing_are_refused_when_the_server_is_made(keys: Any) -> None:
    with pytest.raises(RegistrationError, match="state_keys"):
        Server("desk", state_keys=keys)


@pytest.mark.requirement("mrtr.server.no-assumed-retry")
@in_loop
async def test_a_client_that_never_comes_back_leaves_nothing_behind() -> None:
    server = server_with(greet)
    async with ModernClient(server) as raw:
        for _ in range(20):
            await raw.call("greet")
        session = next(iter(server._core.sessions))
        assert not session.dispatcher.running
        assert not session.client.open
        assert not server._core.state_seal._used


@in_loop
async def test_a_sampling_question_carries_all_that_was_asked() -> None:
    async def think(ctx: Context) -> str:
        messages = [SamplingMessage("user", TextContent("hi"))]
        return (await ctx.sample(messages, max_tokens=7, system_prompt="Be brief")).text

    async with ModernClient(server_with(think)) as raw:
        (question,) = (await raw.call("think"))["inputRequests"].values()
        assert question["params"]["maxTokens"] == 7
        assert question["params"]["systemPrompt"] == "Be brief"


@in_loop
async def test_a_question_outside_of_the_handler_of_its_request_is_not_sent() -> None:
    later: list[asyncio.Task[Any]] = []

    async def leave(ctx: Context) -> str:
        async def ask() -> Any:
            await asyncio.sleep(0.01)
            return await ctx.elicit("Late?", str)

        later.append(asyncio.create_task(ask()))
        return "done"

    async with ModernClient(server_with(leave)) as raw:
        assert text_of(await raw.call("leave")) == "done"
        await until(lambda: later[0].done())
        assert later[0].exception() is not None
        assert len(raw.received) == 1


# -- pages


@in_loop
async def test_the_page_of_a_question_is_the_same_in_every_round() -> None:
    pages: list[str] = []

    async def link(ctx: Context) -> str:
        page = await ctx.elicit_url("Link your account", "https://desk.example/{elicitation_id}")
        pages.append(page.url)
        name = await ctx.elicit("Name?", str)
        return f"{name} {page.url in pages}"

    async with ModernClient(server_with(link)) as raw:
        first = await raw.call("link")
        (question,) = first["inputRequests"].values()
        assert question["params"]["mode"] == "url"
        assert "elicitationId" not in question["params"]
        opened = {key: {"action": "accept"} for key in first["inputRequests"]}
        state = first["requestState"]
        second = await raw.call("link", inputResponses=opened, requestState=state)
        done = await raw.again("link", second, "Ada")
        assert text_of(done) == "Ada True"
        assert set(pages) == {question["params"]["url"]}


@in_loop
async def test_a_handler_waits_in_the_next_round_for_a_page_that_is_complete_already() -> None:
    async def link(ctx: Context) -> str:
        page = await ctx.elicit_url("Link your account", "https://desk.example/{elicitation_id}")
        await page.wait()
        return "linked"

    server = server_with(link)
    async with ModernClient(server) as raw:
        first = await raw.call("link")
        (question,) = first["inputRequests"].values()
        assert server.elicitation_completed(question["params"]["url"].rpartition("/")[2])
        opened = {key: {"action": "accept"} for key in first["inputRequests"]}
        state = first["requestState"]
        done = await raw.call("link", inputResponses=opened, requestState=state)
        assert text_of(done) == "linked"


@in_loop
async def test_pages_that_a_handler_requires_are_questions() -> None:
    linked: list[str] = []

    async def read(ctx: Context) -> str:
        if not linked:
            page = ctx.prepare_url("Link your account", "https://desk.example/{elicitation_id}")
            raise UrlElicitationRequired("an account is needed", elicitations=[page])
        return "mail"

    async with ModernClient(server_with(read)) as raw:
        asked = await raw.call("read")
        ((key, question),) = asked["inputRequests"].items()
        assert question["params"]["url"].startswith("https://desk.example/")
        state = asked["requestState"]
        again = await raw.call(
            "read", inputResponses={key: {"action": "accept"}}, requestState=state
        )
        assert again["resultType"] == "input_required"
        linked.append("yes")
        state = again["requestState"]
        done = await raw.call(
            "read", inputResponses={key: {"action": "accept"}}, requestState=state
        )
        assert text_of(done) == "mail"
        linked.clear()
        refused = await raw.call("read", inputResponses={key: {"action": "decline"}})
        assert refused["isError"]
        assert refused["content"][0]["text"] == "the user declined to answer"
        other = await raw.call("read", capabilities={"elicitation": {"form": {}}})
        assert other["isError"]
        assert "https://desk.example/" in other["content"][0]["text"]


# -- what happens again in a later round

done: list[str] = []


def act(what: str = "acted") -> None:
    done.append(what)


async def charge_first(ctx: Context) -> str:
    """Act, then ask."""
    await ctx.progress(1)
    done.append("charged")
    return f"{await ctx.elicit('Sure?', bool)}"


async def act_between(ctx: Context) -> str:
    """Act between two questions."""
    first = await ctx.elicit("One?", bool)
    act()
    return f"{first} {await ctx.elicit('Two?', bool)}"


def act_in_thread(ctx: Context) -> str:
    """Act, then ask from a thread."""
    act()
    return f"{ctx.wait(ctx.elicit('Sure?', bool))}"


async def set_member(ctx: Context) -> str:
    """Change an object, then ask two things at once."""
    ctx.state["seen"] = True
    both = await asyncio.gather(ctx.elicit("One?", bool), ctx.elicit("Two?", bool))
    return str(both)


async def ask_first(ctx: Context, city: str = "Lima") -> str:
    """Ask before anything happens, with what changes nothing."""
    message = f"Book {str(city).upper()}?"

    def later() -> None:
        act()

    sure = await ctx.elicit(
        message,
        bool,
    )
    later()
    return f"{sure}"


async def keep_first(ctx: Context) -> str:
    """Act once, then ask."""
    await ctx.once("charge", act)
    act("looked")
    return f"{await ctx.elicit('Sure?', bool)}"


async def ask_together(ctx: Context) -> str:
    """Ask two things at once, in two ways."""
    both = await asyncio.gather(
        ctx.elicit("One?", bool),
        ctx.elicit("Two?", bool),
    )
    async with asyncio.TaskGroup() as group:
        third = group.create_task(ctx.elicit("Three?", bool))
    return f"{both} {third.result()}"


REPEATED = {
    charge_first: 'done.append("charged")',
    act_between: "act()",
    act_in_thread: "act()",
    set_member: 'ctx.state["seen"]',
    ask_first: None,
    keep_first: None,
    ask_together: None,
}


@pytest.mark.parametrize("tool", REPEATED, ids=lambda tool: tool.__name__)
def test_a_tool_that_acts_before_its_question_is_named_once_in_the_log(
    tool: Any, caplog: pytest.LogCaptureFixture
) -> None:
    deed = REPEATED[tool]

    async def main(**details: Any) -> list[str]:
        server = Server("desk", lifespan=state)
        server.add_tool(tool, **details)
        caplog.clear()
        async with connect(server, revision="2026-07-28", on_elicit=lambda _: {"value": True}) as c:
            for _ in range(2):
                assert not (await c.call_tool(tool.__name__)).is_error
        return [each.getMessage() for each in caplog.records if "ctx.once" in each.getMessage()]

    warnings = run(main())
    assert len(warnings) == (0 if deed is None else 1)
    if deed is not None:
        assert warnings[0].startswith(f"tool {tool.__name__} ({__file__}:")
        assert f"`{deed}`" in warnings[0]
    for details in ({"read_only_hint": True}, {"idempotent_hint": True}):
        assert run(main(annotations=ToolAnnotations(**details))) == []
    assert run(main(idempotent=True)) == []


@asynccontextmanager
async def state(server: Any) -> AsyncIterator[dict[str, bool]]:
    yield {}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@in_loop
async def test_progress_of_an_earlier_round_is_not_reported_again(revision: Any) -> None:
    async def travel(ctx: Context) -> str:
        """Report, ask, and report more."""
        await ctx.progress(1, 4)
        await ctx.progress(2, 4)
        first = await ctx.elicit("One?", bool)
        await ctx.progress(3, 4)
        second = await ctx.elicit("Two?", bool)
        await ctx.progress(4, 4)
        return f"{first} {second}"

    heard: list[float] = []
    async with connect(
        server_with(travel),
        revision=revision,
        on_elicit=lambda _: {"value": True},
        on_progress=lambda params: heard.append(params.progress),
    ) as client:
        assert (await client.call_tool("travel")).text == "True True"
    assert heard == [1, 2, 3, 4]

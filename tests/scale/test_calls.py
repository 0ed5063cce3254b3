"""Calls of sessions whose requests go to any worker (scenarios 1 to 5)."""

import asyncio
import json

import pytest

from support.scale.balancer import Exchange, Fault
from support.scale.fleet import REVISIONS, WORKERS, Fleet, Scenario
from support.scale.raw_client import RawClient
from support.waiting import in_loop, until

pytestmark = pytest.mark.integration

ASKING = [
    (revision, kind)
    for revision in REVISIONS
    for kind in ("elicit", "sample", "roots")
    if (revision, kind) != ("2025-03-26", "elicit")  # which that revision does not have
]


async def call_everything(client: RawClient, rounds: int) -> None:
    """Call all kinds of tools, some at once."""
    for number in range(rounds):
        key = f"{client.name}/{number}"
        kind = ("sample", "roots")[number % 2]
        calls = [
            client.begin("quick", f"{key}q", a=number),
            client.begin("stream", f"{key}s", steps=4, pause=0.005),
            client.begin("repeatable", f"{key}r", steps=3, pause=0.005),
            client.begin("ask", f"{key}a", kind=kind, times=2),
        ]
        if number == 0:
            calls.append(client.begin("silent", f"{key}w", seconds=0.3))
        await asyncio.gather(*(call.task for call in calls if call.task is not None))
        counted = await client.call("count", f"{key}c")
        assert counted.text == str(number + 1), counted.excerpt()


async def use_sessions(scenario: Scenario, sessions: int, rounds: int) -> None:
    """Use sessions of all revisions side by side."""
    clients = [
        await scenario.open(REVISIONS[number % len(REVISIONS)]) for number in range(sessions)
    ]
    await asyncio.gather(*(call_everything(client, rounds) for client in clients))


@in_loop
async def test_each_call_is_answered_once_whichever_worker_gets_it(fleet: Fleet) -> None:
    async with fleet.scenario(policy="round robin") as scenario:
        await use_sessions(scenario, 6, 5)
        for client in scenario.clients:
            served = scenario.balancer.workers_of(client.session)
            assert served == set(range(WORKERS)), f"{client.name} was served by {served} only"


@in_loop
async def test_an_answer_reaches_a_question_of_another_worker(fleet: Fleet) -> None:
    async with fleet.scenario() as scenario:

        async def ask(revision: str, kind: str, number: int) -> None:
            asking, answering = number % WORKERS, (number + 1) % WORKERS
            client = await scenario.open(revision, worker=(number + 2) % WORKERS)
            client.extra_headers = {"X-Worker": str(answering)}
            call = await client.call(
                "ask", f"{client.name}/{kind}", worker=asking, kind=kind, times=3
            )
            assert len(json.loads(call.text)) == 3
            # The handler may be faster than the response to the answer.
            await until(lambda: all(each.statuses for each in client.answers))
            assert [each.statuses for each in client.answers] == [[202]] * 3
            posted = [each for each in client.attempts if each.what.startswith("answer")]
            assert {each.worker for each in posted} == {answering}
            assert {seen.worker for seen in call.view.seen} == {asking}

        await asyncio.gather(*(ask(*each, number) for number, each in enumerate(ASKING)))


@in_loop
async def test_an_answer_that_fits_no_open_question_is_refused_without_effect(
    fleet: Fleet,
) -> None:
    async with fleet.scenario() as scenario:
        client, stranger = await scenario.open(), await scenario.open()
        client.respond = stranger.respond = lambda question: None
        call = client.begin("ask", f"{client.name}/a", worker=0)
        other = stranger.begin("ask", f"{stranger.name}/a", worker=1)
        await until(lambda: client.answers and stranger.answers)
        question, theirs = client.answers[0].question, stranger.answers[0].question
        assert question["id"] != theirs["id"]

        async def answer(by: RawClient, id: object, worker: int, value: str = "wrong") -> int:
            result = {"action": "accept", "content": {"value": value}}
            message = {"jsonrpc": "2.0", "id": id, "result": result}
            return await by.post_notice(message, what="answer", worker=worker)

        refused = {400, 404}
        for worker in range(WORKERS):
            assert await answer(stranger, question["id"], worker) in refused
            assert await answer(client, "unknown", worker) in refused
            assert await answer(client, 123456, worker) in refused
        right = f"{question['params']['message']}@{client.name}"
        assert await answer(client, question["id"], 2, right) == 202
        assert call.task is not None
        await call.task
        assert json.loads(call.text) == [right]
        for worker in range(WORKERS):
            assert await answer(client, question["id"], worker) in refused

        right = f"{theirs['params']['message']}@{stranger.name}"
        assert await answer(stranger, theirs["id"], 3, right) == 202
        assert other.task is not None
        await other.task


@in_loop
async def test_a_second_answer_to_a_question_is_refused_while_the_first_counts(
    fleet: Fleet,
) -> None:
    async with fleet.scenario() as scenario:
        client = await scenario.open()
        client.respond = lambda question: None
        call = client.begin("ask", f"{client.name}/a", worker=0, times=2)
        await until(lambda: client.answers)
        question = client.answers[0].question
        result = client.usual_answer(question)
        # They differ: one that repeats another may be the second attempt of a client.
        messages = [
            {"jsonrpc": "2.0", "id": question["id"], "result": {**result, "_meta": {"number": n}}}
            for n in range(WORKERS)
        ]
        posts = [
            client.post_notice(message, what="answer", worker=n)
            for n, message in enumerate(messages)
        ]
        statuses = sorted(await asyncio.gather(*posts))
        assert statuses[0] == 202
        assert set(statuses[1:]) <= {400, 404}, statuses
        client.respond = client.usual_answer
        await until(lambda: len(client.answers) == 2)
        await client.answer(client.answers[1].question)
        assert call.task is not None
        await call.task
        assert len(json.loads(call.text)) == 2


@pytest.mark.parametrize("tool", ["stream", "silent", "ask"])
@in_loop
async def test_cancelling_on_one_worker_stops_a_call_on_another(fleet: Fleet, tool: str) -> None:
    arguments = {"stream": {"steps": 10_000}, "silent": {"seconds": 100}, "ask": {}}
    async with fleet.scenario() as scenario:
        client = await scenario.open(worker=0)
        client.respond = lambda question: None
        key = f"{client.name}/{tool}"
        call = client.begin(tool, key, worker=1, **arguments[tool])
        await until(lambda: fleet.ledger.has(key, "begin"))
        if tool == "silent":
            # Until then the call may be unknown to the other workers.
            await until(lambda: call.status == 200)
        else:
            await until(lambda: call.view.seen)
        assert await client.cancel(call, worker=2) == 202
        await until(lambda: fleet.ledger.has(key, "cancel"))
        assert call.task is not None
        await call.task
        assert call.outcome == "cancelled", call.excerpt()


EVENTS = 5


@pytest.mark.parametrize("revision", REVISIONS)
@in_loop
async def test_a_stream_cut_after_any_event_is_resumed_whole_by_another_worker(
    fleet: Fleet, revision: str
) -> None:
    async with fleet.scenario() as scenario:
        client = await scenario.open(revision)
        is_primed = revision == "2025-11-25"
        cuts = {f"{client.name}/{'abcdefgh'[cut]}": cut for cut in range(1, EVENTS + 1 + is_primed)}

        def inject(exchange: Exchange) -> Fault | None:
            for key, cut in cuts.items():
                if f'"{key}"'.encode() in exchange.body:
                    return Fault(cut_after_events=cut)
            return None

        def choose(exchange: Exchange) -> int | None:
            return 0 if exchange.method == "POST" else 1 + exchange.number % (WORKERS - 1)

        scenario.balancer.inject, scenario.balancer.choose = inject, choose
        calls = await asyncio.gather(
            *(client.call("stream", key, steps=EVENTS, pause=0.01) for key in cuts)
        )
        for call, cut in zip(calls, cuts.values(), strict=True):
            assert call.outcome == "answered", call.excerpt()
            first = [seen for seen in call.view.seen if seen.worker == 0]
            assert len(first) == cut, call.excerpt()
            assert len(call.view.attempts) == 2, call.excerpt()


@in_loop
async def test_a_stream_cut_within_any_event_is_resumed_whole(fleet: Fleet) -> None:
    async with fleet.scenario() as scenario:
        client = await scenario.open()
        keys = {f"{client.name}/{size:04}": size for size in range(60, 700, 53)}

        def inject(exchange: Exchange) -> Fault | None:
            for key, size in keys.items():
                if f'"{key}"'.encode() in exchange.body:
                    return Fault(cut_after_bytes=size)
            # Also while it is resumed, now and then.
            is_resume = exchange.method == "GET" and exchange.number % 2
            return Fault(cut_after_bytes=200) if is_resume else None

        scenario.balancer.inject = inject
        await asyncio.gather(*(client.call("stream", key, steps=EVENTS) for key in keys))
        assert all(call.outcome == "answered" for call in client.calls), client.calls


@in_loop
async def test_a_stream_is_resumed_after_its_end_by_every_worker(fleet: Fleet) -> None:
    async with fleet.scenario() as scenario:
        client = await scenario.open()
        call = await client.call("stream", f"{client.name}/s", steps=EVENTS, worker=0)
        ids = [seen.id for seen in call.view.seen]
        for worker in range(WORKERS):
            for at, id in enumerate(ids):
                assert id is not None
                sent = await client.send("GET", what="again", worker=worker, Last_Event_ID=id)
                body = (await sent.body()).decode()
                found = [line[4:] for line in body.splitlines() if line.startswith("id: ")]
                assert found == ids[at + 1 :], f"after {id} of {ids}"

"""Workers that are lost or stand still: each request has one outcome, which clients can fetch."""

import asyncio

import pytest

from accord import Context, Principal
from accord.sharing.sessions.takeover import SentMessages
from accord.sharing.workers import names
from accord.sharing.workers.event_logs import parse_stream_event
from support.http_talk import call, request
from support.shared import LEASE, add_app, eventually, in_virtual_time, serve_shared
from support.shared_tools import Desk


def by_header(scope):
    user = dict(scope["headers"]).get(b"x-user")
    return None if user is None else Principal(user.decode(), issuer="https://issuer.test")


def errors(messages):
    return [message["error"] for message in messages if "error" in message]


def progress(messages):
    return [each["params"]["progress"] for each in messages if "progress" in each.get("params", {})]


def numbers(*answers):
    """The numbers of the events in their stream."""
    found = [each.id for answer in answers for each in answer.all_events]
    return [parse_stream_event(id)[1] for id in found]


async def begin(client, at, message):
    """Begin a call; return its response once something was seen of it."""
    answer = client.begin(at, message)
    await eventually(lambda: answer.sent and answer.all_events)
    return answer


def cut(answer):
    """Break the connection; return the last event that the client has."""
    answer.disconnect()
    return answer.all_events[-1].id


# -- calls that cannot run again


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
@in_virtual_time
async def test_a_call_of_a_killed_worker_ends_with_one_error(revision):
    desk = Desk()
    async with serve_shared(desk.make, 3) as crew:
        client = await crew.open(revision)
        first = await begin(client, 0, call(7, "hold", token="t", name="gate"))
        last = cut(first)
        crew[0].kill()
        began = asyncio.get_running_loop().time()
        again = await client.listen(1, last=last)
        await again.done()
        assert asyncio.get_running_loop().time() - began < LEASE + 2
        (answer,) = [each for each in again.messages if "method" not in each]
        assert answer["id"] == 7
        assert answer["error"]["code"] == -32603
        assert answer["error"]["data"] == {"reason": "worker-lost"}
        assert "may have taken effect" in answer["error"]["message"]
        assert numbers(first, again) == [*range(1, len(numbers(first, again)) + 1)]
        assert again.is_whole
        for at in (1, 2):
            ended = client.start(at, "GET", last_event_id=again.all_events[-1].id)
            await ended.done()
            assert ended.status == 405
            repeated = client.start(at, "GET", last_event_id=last)
            await repeated.done()
            assert repeated.all_events == again.all_events
        assert desk.trail == ["gate at 0 waits"]


@in_virtual_time
async def test_many_calls_of_a_killed_worker_end_each_with_its_error():
    desk = Desk()
    async with serve_shared(desk.make, 3) as crew:
        clients = [await crew.open(at=number % 3) for number in range(4)]
        calls = [
            (client, id, await begin(client, 0, call(id, "hold", name="gate", token=id)))
            for client in clients
            for id in range(5)
        ]
        kept = await begin(clients[0], 1, call("kept", "hold", name="other", token="kept"))
        crew[0].kill()
        for client, id, answer in calls:
            again = await client.listen(1 + id % 2, last=cut(answer))
            await again.done()
            (error,) = errors(again.messages)
            assert error["data"]["reason"] == "worker-lost"
            assert again.messages[-1]["id"] == id
        desk.gates["other"].set()
        await kept.done()
        assert errors(kept.messages) == []


@in_virtual_time
async def test_a_silent_call_of_a_killed_worker_that_became_a_stream_ends_with_an_error():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-11-25")
        answer = client.begin(0, call(1, "wait", name="gate"))
        await eventually(lambda: answer.sent and answer.all_events)
        last = cut(answer)
        crew[0].kill()
        again = await client.listen(1, last=last)
        await again.done()
        (error,) = errors(again.messages)
        assert error["data"]["reason"] == "worker-lost"


@in_virtual_time
async def test_a_batch_of_a_killed_worker_ends_with_an_error_for_each_request():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-03-26")
        batch = [
            call(1, "add", a=1, b=2),  # answered at once, but answers of a batch leave together
            call(2, "hold", token="t", name="gate"),
            request(3, "ping"),
            call(4, "wait", name="gate"),
        ]
        answer = await begin(client, 0, batch)
        last = cut(answer)
        crew[0].kill()
        again = await client.listen(1, last=last)
        await again.done()
        ids = sorted(each["id"] for each in again.messages if "method" not in each)
        assert ids == [1, 2, 3, 4]
        assert len(errors(again.messages)) == 4


@in_virtual_time
async def test_a_call_whose_answer_was_not_saved_yet_ends_with_an_error():
    desk = Desk()
    async with serve_shared(desk.make, 3) as crew:
        client = await crew.open()
        await client.call(1, "count")
        answer = await begin(client, 0, call(1, "hold", token="t", name="first"))
        # The answer waits until another worker, which stands still, has the new values.
        crew[1].backend.stall()
        writing = client.begin(0, call(2, "put", key="k", value=1))
        desk.gates["first"].set()
        await asyncio.sleep(0.2)
        last = cut(answer)
        crew[0].kill()
        crew[1].backend.move_on()
        again = await client.listen(2, last=last)
        await again.done()
        answers = [each for each in again.messages if each.get("id") == 1]
        assert len(answers) == 1
        writing.disconnect()


@in_virtual_time
async def test_two_killed_workers_are_survived():
    desk = Desk()
    async with serve_shared(desk.make, 4) as crew:
        client = await crew.open(at=3)
        answers = [
            await begin(client, at, call(at, "hold", token=at, name="gate")) for at in range(2)
        ]
        crew[0].kill()
        crew[1].kill()
        await add_app(crew, desk.make)
        for at, answer in enumerate(answers):
            again = await client.listen(2 + at, last=cut(answer))
            await again.done()
            assert errors(again.messages)[0]["data"]["reason"] == "worker-lost"


@in_virtual_time
async def test_a_worker_that_joins_after_all_were_killed_ends_their_calls():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        answer = await begin(client, 0, call(1, "hold", token="t", name="gate"))
        last = cut(answer)
        crew[0].kill()
        crew[1].kill()
        await asyncio.sleep(30)
        await add_app(crew, desk.make)
        again = await client.listen(2, last=last)
        await again.done()
        assert errors(again.messages)[0]["data"]["reason"] == "worker-lost"


@in_virtual_time
async def test_calls_that_no_client_has_seen_anything_of_leave_nothing():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-06-18")
        crew[0].backend.fail("append", "}l", times=100)
        answer = client.begin(0, call(1, "hold", token="t", name="gate"))
        await asyncio.sleep(0.5)
        answer.disconnect()
        crew[0].kill()
        await asyncio.sleep(10)
        assert await crew.store.backend.members(names.recovery_records_of(crew[0].worker.id)) == []
        assert [key for key in crew.store.backend._records if "}r" in key] == []


# -- calls that may run again


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
@in_virtual_time
async def test_a_call_that_may_run_again_goes_on_with_unbroken_numbers(revision):
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open(revision)
        first = await begin(client, 0, call(7, "repeat", token="t", name="gate", n=6))
        await eventually(lambda: progress(first.messages) == [1, 2, 3])
        last = cut(first)
        crew[0].kill()
        again = await client.listen(1, last=last)
        await eventually(lambda: "gate at 1 waits" in desk.trail)
        desk.gates["gate"].set()
        await again.done()
        assert errors(again.messages) == []
        assert again.messages[-1]["id"] == 7
        assert again.messages[-1]["result"]["content"][0]["text"] == "gate by 1"
        found = numbers(first, again)
        assert found == [*range(1, len(found) + 1)]
        # What clients have seen of progress is not repeated.
        assert progress([*first.messages, *again.messages]) == [1, 2, 3, 4, 5, 6]


@in_virtual_time
async def test_a_call_may_run_again_after_several_losses():
    desk = Desk()
    async with serve_shared(desk.make, 4) as crew:
        client = await crew.open(at=3)
        first = await begin(client, 0, call(7, "repeat", token="t", name="gate", n=6))
        await eventually(lambda: progress(first.messages) == [1, 2, 3])
        last = cut(first)
        crew[0].kill()

        def running():
            return [step for step in desk.trail if step.endswith("waits")]

        for count in (2, 3):
            await eventually(lambda count=count: len(running()) == count)
            crew[int(running()[-1].split()[2])].kill()
        await eventually(lambda: len(running()) == 4)
        desk.gates["gate"].set()
        survivor = next(at for at, app in enumerate(crew) if not app.is_killed)
        again = await client.listen(survivor, last=last)
        await again.done()
        assert again.messages[-1]["result"]["content"][0]["text"] == f"gate by {survivor}"
        found = numbers(first, again)
        assert found == [*range(1, len(found) + 1)]
        shown = progress([*first.messages, *again.messages])
        assert shown == sorted(set(shown))


@in_virtual_time
async def test_a_second_run_whose_answer_is_not_stored_is_taken_over_too():
    desk = Desk()
    async with serve_shared(desk.make, 3) as crew:
        client = await crew.open(at=2)
        first = await begin(client, 0, call(7, "repeat", token="t", name="gate", n=4))
        await eventually(lambda: progress(first.messages) == [1, 2])
        last = cut(first)
        crew[0].kill()
        await eventually(lambda: sum("waits" in step for step in desk.trail) == 2)
        second = int(desk.trail[-1].split()[2])
        crew[second].backend.fail("append", "}l", times=1000)
        desk.gates["gate"].set()  # the second run ends, but none of its events is stored
        await eventually(lambda: f"gate at {second} passes" in desk.trail)
        await asyncio.sleep(0.3)
        crew[second].kill()
        third = 3 - second
        again = await client.listen(third, last=last)
        await again.done()
        assert again.messages[-1]["id"] == 7
        assert again.messages[-1]["result"]["content"][0]["text"] == f"gate by {third}"


def by_number(scope):
    """The caller of a request as a number, as databases know users."""
    return int(dict(scope["headers"])[b"x-user"])


@pytest.mark.parametrize(("find", "user"), [(by_header, "ada"), (by_number, "7")])
@in_virtual_time
async def test_a_call_that_runs_again_has_its_caller_and_its_session(find, user):
    desk = Desk()

    def make():
        server = desk.make()

        @server.tool(idempotent=True)
        async def remember(ctx: Context, word: str) -> str:
            """Wait, and say what is known."""
            await ctx.progress(1)
            await desk.pass_gate("gate", "remember")
            return f"{ctx.principal.subject} {ctx.session.state.get('k')} {word}"

        return server

    async with serve_shared(make, 2, principal=find) as crew:
        client = await crew.open(user=user)
        await client.call(0, "put", key="k", value=5)
        first = await begin(client, 0, call(1, "remember", token="t", word="x"))
        last = cut(first)
        crew[0].kill()
        await eventually(lambda: desk.trail.count("remember waits") == 2)
        desk.gates["gate"].set()
        again = await client.listen(1, last=last)
        await again.done()
        assert again.messages[-1]["result"]["content"][0]["text"] == f"{user} 5 x"
        # The caller is the same one also where its session was adopted.
        assert await client.call(1, "caller") == user


@in_virtual_time
async def test_a_call_that_runs_again_is_cancelled_from_any_worker():
    desk = Desk()
    async with serve_shared(desk.make, 3) as crew:
        client = await crew.open(at=2)
        first = await begin(client, 0, call(7, "repeat", token="t", name="gate"))
        last = cut(first)
        crew[0].kill()
        await eventually(lambda: sum("waits" in step for step in desk.trail) == 2)
        again = await client.listen(2, last=last)
        assert (await client.notify(2, "notifications/cancelled", requestId=7)).status == 202
        await again.done()
        assert [each for each in again.messages if each.get("id") == 7] == []
        assert any("is cancelled" in step for step in desk.trail)


@in_virtual_time
async def test_a_batch_that_may_run_again_does():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-03-26")
        batch = [call(id, "repeat", token=id, name="gate", n=4) for id in (1, 2)]
        first = await begin(client, 0, batch)
        await eventually(lambda: desk.trail.count("gate at 0 waits") == 2)
        last = cut(first)
        crew[0].kill()
        await eventually(lambda: desk.trail.count("gate at 1 waits") == 2)
        desk.gates["gate"].set()
        again = await client.listen(1, last=last)
        await again.done()
        answers = [
            each
            for message in again.messages
            for each in (message if isinstance(message, list) else [message])
            if "method" not in each
        ]
        assert sorted(each["id"] for each in answers) == [1, 2]
        assert all("result" in each for each in answers)


@in_virtual_time
async def test_a_call_that_speaks_much_in_its_second_run_is_whole_and_costs_no_memory():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        first = await begin(client, 0, call(7, "repeat", token="t", name="gate", n=4))
        last = cut(first)
        crew[0].kill()
        await eventually(lambda: "gate at 1 waits" in desk.trail)
        (stream,) = crew[1].session(client).logged.values()
        text = "x" * 100_000
        for number in range(120):  # more than any backlog
            stream.append(
                b'{"jsonrpc":"2.0","method":"x","params":{"n":%d,"t":"%b"}}'
                % (number, text.encode())
            )
            await stream.writer.flush()
            assert sum(map(len, stream._unread)) == 0
        assert stream.unread == 0
        desk.gates["gate"].set()
        again = await client.listen(1, last=last)
        await again.done()
        assert again.messages[-1]["result"]["content"][0]["text"] == "gate by 1"
        assert sum(each.get("method") == "x" for each in again.messages) == 120


@in_virtual_time
async def test_a_call_whose_id_is_in_use_at_the_new_worker_is_not_run_twice_there():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        first = await begin(client, 0, call(7, "repeat", token="t", name="gate"))
        other = client.begin(1, call(7, "wait", name="other"))
        await eventually(lambda: "other at 1 waits" in desk.trail)
        last = cut(first)
        crew[0].kill()
        again = await client.listen(1, last=last)
        await again.done()
        assert errors(again.messages)[0]["data"]["reason"] == "worker-lost"
        desk.gates["other"].set()
        await other.done()
        assert other.messages[-1]["result"]["content"][0]["text"] == "other"


@in_virtual_time
async def test_a_call_of_a_deleted_session_is_not_run_again():
    desk = Desk()
    async with serve_shared(desk.make, 3) as crew:
        client = await crew.open(at=2)
        await begin(client, 0, call(7, "repeat", token="t", name="gate"))
        crew[0].backend.cut()
        for task in crew[0].worker._tasks:
            task.cancel()
        assert (await client.delete(2)).status == 204
        await asyncio.sleep(10)
        assert sum("waits" in step for step in desk.trail) == 1


# -- questions


@in_virtual_time
async def test_questions_of_a_lost_worker_are_cancelled():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-06-18", elicitation={})
        asking = await begin(client, 0, call(1, "ask"))
        question = asking.messages[-1]["id"]
        last = cut(asking)
        crew[0].kill()
        again = await client.listen(1, last=last)
        await again.done()
        cancelled, answer = again.messages
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == question
        assert answer["error"]["data"]["reason"] == "worker-lost"
        late = {"jsonrpc": "2.0", "id": question, "result": {"action": "decline"}}
        assert (await client.post(1, late)).status == 400


@in_virtual_time
async def test_an_answer_to_a_worker_that_has_just_died_is_accepted_and_ignored():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-06-18", elicitation={})
        asking = await begin(client, 0, call(1, "ask"))
        question = asking.messages[-1]["id"]
        last = cut(asking)
        crew[0].kill()
        reply = {"action": "accept", "content": {"name": "Ada"}}
        accepted = await client.post(1, {"jsonrpc": "2.0", "id": question, "result": reply})
        assert accepted.status == 202
        again = await client.listen(1, last=last)
        await again.done()
        assert again.messages[-1]["error"]["data"]["reason"] == "worker-lost"
        # It was answered, so it is not cancelled.
        assert [each.get("method") for each in again.messages] == [None]


# -- stalled workers


@in_virtual_time
async def test_a_stalled_worker_s_events_are_refused_and_its_handler_is_cancelled():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        first = await begin(client, 0, call(7, "hold", token="t", name="gate", n=3))
        crew[0].backend.stall()
        desk.gates["gate"].set()  # it would go on
        last = first.all_events[-1].id
        again = await client.listen(1, last=last)
        await again.done()
        crew[0].backend.move_on()
        await eventually(lambda: first.is_over)
        # Its connection breaks off: the outcome is the other worker's.
        assert not first.is_whole
        assert all(each.get("id") != 7 for each in first.messages)
        assert crew[0].worker.metrics.fenced_appends >= 1
        repeated = client.start(0, "GET", last_event_id=last)
        await repeated.done()
        assert repeated.all_events == again.all_events
        assert len(errors(again.messages)) == 1


@in_virtual_time
async def test_a_handler_of_a_stalled_worker_is_cancelled_though_it_says_nothing():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        first = await begin(client, 0, call(7, "hold", token="t", name="gate"))
        crew[0].backend.stall()
        await eventually(lambda: crew[1].worker.metrics.takeovers)
        await asyncio.sleep(1)
        crew[0].backend.move_on()
        await eventually(lambda: "gate at 0 is cancelled" in desk.trail)
        await eventually(lambda: first.is_over)


@in_virtual_time
async def test_a_call_of_a_stalled_worker_that_may_run_again_has_one_outcome():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        first = await begin(client, 0, call(7, "repeat", token="t", name="gate"))
        await eventually(lambda: progress(first.messages) == [1, 2])
        crew[0].backend.stall()
        await eventually(lambda: "gate at 1 waits" in desk.trail)
        desk.gates["gate"].set()
        crew[0].backend.move_on()
        last = first.all_events[-1].id
        again = await client.listen(1, last=last)
        await again.done()
        await eventually(lambda: first.is_over)
        outcomes = [each for each in (*first.messages, *again.messages) if each.get("id") == 7]
        assert len(outcomes) == 1
        assert outcomes[0]["result"]["content"][0]["text"] == "gate by 1"


@in_virtual_time
async def test_a_worker_that_stood_still_for_less_than_its_lease_goes_on():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        id = crew[0].worker.id
        first = await begin(client, 0, call(7, "hold", token="t", name="gate"))
        crew[0].backend.stall()
        await asyncio.sleep(0.5 * LEASE)
        crew[0].backend.move_on()
        desk.gates["gate"].set()
        await first.done()
        assert first.messages[-1]["result"]["content"][0]["text"] == "gate"
        assert crew[0].worker.id == id


@in_virtual_time
async def test_a_worker_that_was_taken_over_serves_again():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        await client.call(0, "count")
        id = crew[0].worker.id
        crew[0].backend.stall()
        await eventually(lambda: crew[1].worker.metrics.takeovers)
        assert await client.call(1, "count") == "2"
        crew[0].backend.move_on()
        await eventually(lambda: crew[0].worker.id != id)
        assert await client.call(0, "count") == "3"
        whole = await client.post(0, call("s", "steps", token="t", n=3))
        assert progress(whole.messages) == [1, 2, 3]
        # It is looked after under its new id.
        answer = await begin(client, 0, call("h", "hold", token="u", name="gate"))
        last = cut(answer)
        crew[0].kill()
        again = await client.listen(1, last=last)
        await again.done()
        assert errors(again.messages)[0]["data"]["reason"] == "worker-lost"


@in_virtual_time
async def test_a_call_that_begins_while_its_worker_is_taken_over_is_looked_after():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        await client.call(0, "add", a=1, b=1)
        crew[0].backend.stall()
        answer = client.begin(0, call(1, "hold", token="t", name="gate"))
        await eventually(lambda: crew[1].worker.metrics.takeovers)
        crew[0].backend.move_on()
        await eventually(lambda: answer.sent and answer.all_events)
        await asyncio.sleep(5)
        last = cut(answer)
        crew[0].kill()
        again = await client.listen(1, last=last)
        await again.done()
        outcomes = [each for each in again.messages if each.get("id") == 1]
        assert len(outcomes) == 1


# -- takers


@in_virtual_time
async def test_of_two_takers_one_gets_a_stream():
    desk = Desk()
    async with serve_shared(desk.make, 3) as crew:
        client = await crew.open(at=2)
        first = await begin(client, 0, call(7, "repeat", token="t", name="gate"))
        await eventually(lambda: "gate at 0 waits" in desk.trail)
        last = cut(first)
        lost = crew[0].worker.id
        crew[0].kill()
        takers = [app.app._shared._takeover for app in crew[1:]]
        await asyncio.gather(*(taker.take_over(lost) for taker in takers))
        await asyncio.sleep(5)
        assert sum("waits" in step for step in desk.trail) == 2
        desk.gates["gate"].set()
        again = await client.listen(2, last=last)
        await again.done()
        assert len([each for each in again.messages if each.get("id") == 7]) == 1
        await asyncio.sleep(0.5)
        recovery = [
            each
            for app in crew
            for each in await crew.store.backend.members(names.recovery_records_of(app.worker.id))
        ]
        assert recovery == []


@in_virtual_time
async def test_a_taker_that_was_too_late_is_not_taken_for_the_owner():
    """When it is lost itself, the stream must stay with the worker that runs the call."""
    desk = Desk()
    async with serve_shared(desk.make, 4) as crew:
        client = await crew.open(at=3)
        first = await begin(client, 0, call(7, "repeat", token="t", name="gate"))
        last = cut(first)
        lost = crew[0].worker.id
        crew[0].kill()
        one, two = (app.app._shared._takeover for app in crew[1:3])
        await asyncio.gather(one.take_over(lost), two.take_over(lost))
        await eventually(lambda: sum("waits" in step for step in desk.trail) == 2)
        owner = int(next(s for s in desk.trail if "waits" in s and " 0 " not in s).split()[2])
        loser = 3 - owner
        crew[loser].kill()
        await asyncio.sleep(8)
        assert sum("waits" in step for step in desk.trail) == 2
        desk.gates["gate"].set()
        again = await client.listen(3, last=last)
        await again.done()
        assert again.messages[-1]["result"]["content"][0]["text"] == f"gate by {owner}"


@pytest.mark.parametrize("operation", ["get", "read", "seize", "put", "append", "delete", "remove"])
@pytest.mark.parametrize("is_carried_out", [True, False])
@in_virtual_time
async def test_a_takeover_that_the_store_interrupts_ends_the_call_once(operation, is_carried_out):
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-06-18", elicitation={})
        first = await begin(client, 0, call(7, "ask"))
        last = cut(first)
        crew[0].kill()
        await asyncio.sleep(0.9 * LEASE)
        crew[1].backend.fail(operation, "}", is_carried_out=is_carried_out)
        crew[1].backend.fail(operation, client.sid, is_carried_out=is_carried_out)
        await asyncio.sleep(10)
        again = await client.listen(1, last=last)
        await again.done()
        outcomes = [each for each in again.messages if each.get("id") == 7]
        assert len(outcomes) == 1
        cancelled = [each for each in again.messages if "method" in each]
        assert len(cancelled) == 1
        assert await crew.store.backend.members(names.recovery_records_of(crew[1].worker.id)) == []


@in_virtual_time
async def test_recovery_of_other_kinds_are_left_to_others():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        lost = crew[0].worker.id
        await crew[0].worker.keep_recovery_record("odd/thing")
        crew[0].kill()
        taken = []

        async def take(id):
            taken.extend(await crew.store.backend.members(names.recovery_records_of(id)))

        crew[1].worker.on_worker_lost(take)
        await eventually(lambda: taken)
        assert set(taken) == {"odd/thing"}
        assert lost


@in_virtual_time
async def test_a_call_record_that_cannot_be_read_does_not_stop_other_takeovers(caplog):
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        answers = [
            await begin(client, 0, call(id, "hold", token=id, name="gate")) for id in range(3)
        ]
        (broken, *_) = [key for key in crew.store.backend._records if "}r" in key]
        await crew.store.backend.put(broken, b"\xc1", ttl=600)
        lasts = [cut(answer) for answer in answers]
        crew[0].kill()
        await asyncio.sleep(5)
        ended = 0
        for last in lasts:
            again = await client.listen(1, last=last)
            await asyncio.sleep(1)
            ended += bool(errors(again.messages))
        assert ended == 2
        assert "cannot be taken over" in caplog.text


# -- workers that end in good order


@in_virtual_time
async def test_calls_of_a_draining_worker_go_on_while_their_clients_follow_elsewhere():
    desk = Desk()
    async with serve_shared(desk.make, 2, grace=30.0) as crew:
        client = await crew.open("2025-11-25")
        first = await begin(client, 0, call(1, "hold", token="t", name="gate", n=3))
        stopping = asyncio.create_task(crew[0].stop())
        await eventually(lambda: first.is_over)
        assert first.is_whole
        assert b"retry: 1000" in first.body
        again = await client.listen(1, last=first.all_events[-1].id)
        desk.gates["gate"].set()
        await again.done()
        assert again.messages[-1]["result"]["content"][0]["text"] == "gate"
        assert progress([*first.messages, *again.messages]) == [1, 2, 3, 4]
        await stopping
        await asyncio.sleep(5)
        assert crew[1].worker.metrics.takeovers == 0
        assert desk.trail == ["gate at 0 waits", "gate at 0 passes"]


@in_virtual_time
async def test_calls_of_clients_that_cannot_be_sent_away_are_finished():
    desk = Desk()
    async with serve_shared(desk.make, 2, grace=30.0) as crew:
        client = await crew.open("2025-06-18")
        first = await begin(client, 0, call(1, "hold", token="t", name="gate"))
        stopping = asyncio.create_task(crew[0].stop())
        await asyncio.sleep(2)
        assert not first.is_over
        desk.gates["gate"].set()
        await first.done()
        assert first.messages[-1]["result"]["content"][0]["text"] == "gate"
        await stopping


@pytest.mark.parametrize(("tool", "expected"), [("hold", "error"), ("repeat", "result")])
@in_virtual_time
async def test_calls_that_a_worker_cannot_finish_are_taken_over_at_once(tool, expected):
    desk = Desk()
    async with serve_shared(desk.make, 2, grace=1.0) as crew:
        await asyncio.sleep(2 * LEASE)
        client = await crew.open("2025-11-25")
        first = await begin(client, 0, call(1, tool, token="t", name="gate"))
        await crew[0].stop()
        began = asyncio.get_running_loop().time()
        again = await client.listen(1, last=first.all_events[-1].id)
        if tool == "repeat":
            await eventually(lambda: "gate at 1 waits" in desk.trail)
            desk.gates["gate"].set()
        await again.done()
        assert asyncio.get_running_loop().time() - began < 1.5
        (outcome,) = [each for each in again.messages if each.get("id") == 1]
        assert expected in outcome


@in_virtual_time
async def test_questions_of_a_draining_worker_can_be_answered_elsewhere():
    desk = Desk()
    async with serve_shared(desk.make, 2, grace=30.0) as crew:
        client = await crew.open("2025-11-25", elicitation={})
        first = await begin(client, 0, call(1, "ask"))
        await eventually(lambda: first.messages)
        question = first.messages[-1]["id"]
        stopping = asyncio.create_task(crew[0].stop())
        await eventually(lambda: first.is_over)
        reply = {"action": "accept", "content": {"name": "Ada"}}
        accepted = await client.post(1, {"jsonrpc": "2.0", "id": question, "result": reply})
        assert accepted.status == 202
        again = await client.listen(1, last=first.all_events[-1].id)
        await again.done()
        assert again.messages[-1]["result"]["content"][0]["text"] == "hello Ada"
        await stopping


# -- what clients have seen


def test_messages_on_a_stream_are_read_for_their_meaning():
    sent = SentMessages()
    for entry in (
        b"p",
        b"r500",
        b'm{"jsonrpc":"2.0","id":1,"result":{}}',
        b'm[{"jsonrpc":"2.0","id":2,"result":{}},{"jsonrpc":"2.0","id":"x","error":{}}]',
        b'm{"jsonrpc":"2.0","id":77,"method":"roots/list"}',
        b'm{"method":"notifications/progress","params":{"progressToken":"t","progress":2}}',
        b'm{"method":"notifications/progress","params":{"progressToken":"t","progress":1}}',
        b'm{"method":"notifications/progress","params":[]}',
        b"m{",
        b"m" + b"[" * 5000,
    ):
        sent.add(entry)
    assert sent.answered == {1, 2, "x"}
    assert sent.asked == [77]
    assert sent.progress == {"t": 2.0}

"""A store that is away, slow, full or has lost its data: what clients of several workers see."""

import asyncio
import json
import random

import pytest

from accord import Context
from accord.errors import StoreError, StoreFull
from accord.sharing.workers import names
from support.faulty_backend import FaultyBackend
from support.http_talk import call, initialize, notification
from support.shared import LEASE, App, add_app, eventually, in_virtual_time, serve_shared
from support.shared_tools import Desk

PATIENCE = 5.0


def cut_all(crew):
    for app in crew:
        app.backend.cut()


def mend_all(crew):
    for app in crew:
        app.backend.mend()


def text_of(message):
    return message["result"]["content"][0]["text"]


async def begin(client, at, message):
    answer = client.begin(at, message)
    await eventually(lambda: answer.sent and answer.messages)
    return answer


# -- away for a moment


@in_virtual_time
async def test_streams_wait_for_a_store_that_is_away_for_a_moment():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        answer = await begin(client, 0, call(1, "hold", token="t", name="gate", n=3))
        again = await client.listen(1, last=answer.all_events[0].id)
        await eventually(lambda: again.messages)
        cut_all(crew)
        desk.gates["gate"].set()
        await asyncio.sleep(0.8 * LEASE)
        assert len(answer.messages) == 1
        mend_all(crew)
        await eventually(lambda: again.is_over)
        assert text_of(again.messages[-1]) == "gate"
        assert [each["params"]["progress"] for each in again.messages[:-1]] == [1, 2, 3, 4]


@in_virtual_time
async def test_calls_that_change_the_session_wait_for_a_store_that_is_away_for_a_moment():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        assert await client.call(0, "count") == "1"
        assert await client.call(1, "count") == "2"
        cut_all(crew)
        counting = client.begin(0, call("c", "count"))
        await asyncio.sleep(0.8 * LEASE)
        assert not counting.sent
        mend_all(crew)
        await counting.done()
        assert text_of(counting.messages[-1]) == "3"
        assert await client.call(1, "count") == "4"


@pytest.mark.parametrize("operation", ["put", "append", "get"])
@pytest.mark.parametrize("is_carried_out", [True, False])
@in_virtual_time
async def test_a_single_failure_while_a_session_is_saved_is_not_noticed(operation, is_carried_out):
    async with serve_shared(Desk().make, 3) as crew:
        client = await crew.open()
        for at in range(3):
            await client.call(at, "count")
        crew[0].backend.fail(operation, "", is_carried_out=is_carried_out)
        assert await client.call(0, "count") == "4"
        assert await client.call(1, "count") == "5"
        assert await client.call(2, "count") == "6"


@in_virtual_time
async def test_connections_that_listen_survive_a_store_that_is_away():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-06-18")
        listening = await client.listen(1)
        for seconds in (0.5, 3.0, 30.0):
            before = len(listening.messages)
            cut_all(crew)
            crew[0].server.list_changed("tools")
            await asyncio.sleep(seconds)
            assert len(listening.messages) == before
            mend_all(crew)
            await eventually(lambda before=before: len(listening.messages) > before)
            await asyncio.sleep(3)
            assert not listening.is_over
        await client.call(0, "note_later", name="later")
        desk.gates["later"].set()
        await eventually(lambda: listening.messages[-1].get("params", {}).get("data"))


# -- away for longer


@in_virtual_time
async def test_plain_calls_go_on_by_the_sealed_id_while_the_store_is_away():
    async with serve_shared(Desk().make, 3) as crew:
        client = await crew.open()
        await client.call(1, "add", a=1, b=1)
        cut_all(crew)
        await asyncio.sleep(10)
        for at in range(3):  # the last one has never seen the session
            assert await client.call(at, "add", a=at, b=1) == str(at + 1)
            assert "tools" in (await client.ask(at, "tools/list"))["result"]
        mend_all(crew)
        await asyncio.sleep(3)
        for at in range(3):
            assert await client.call(at, "count") == str(at + 1)


@in_virtual_time
async def test_new_sessions_are_refused_while_the_store_is_away():
    async with serve_shared(Desk().make, 2) as crew:
        cut_all(crew)
        await asyncio.sleep(10)
        for at in (0, 1):
            refused = await crew.client().post(at, initialize("2025-11-25"))
            assert refused.status == 503
            assert refused.headers["retry-after"] == "1"
            assert "the store does not answer" in refused.reason
            assert "mcp-session-id" not in refused.headers
        mend_all(crew)
        await eventually(lambda: all(app.worker.is_connected for app in crew))
        await crew.open()


@in_virtual_time
async def test_requests_that_need_the_store_are_refused_while_it_is_away():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open("2025-06-18")
        whole = await client.post(0, call(1, "steps", token="t", n=2))
        cut_all(crew)
        await asyncio.sleep(3)
        answers = [
            await client.listen(0),
            await client.listen(1, last=whole.all_events[0].id),
            await client.listen(1, last="o1b1"),
            await client.delete(0),
            await client.post(1, notification("notifications/cancelled", requestId=7)),
            await client.post(1, {"jsonrpc": "2.0", "id": 5, "result": {}}),
        ]
        for answer in answers:
            assert answer.status == 503
            assert answer.headers["retry-after"] == "1"


@in_virtual_time
async def test_a_worker_is_not_ready_while_the_store_is_away_for_long():
    async with serve_shared(Desk().make, 2, store_patience=PATIENCE) as crew:
        crew[0].backend.cut()
        await asyncio.sleep(PATIENCE + 3)
        assert "does not answer" in str(crew[0].app.unready_reason)
        assert crew[1].app.unready_reason is None
        crew[0].backend.mend()
        await eventually(lambda: crew[0].app.unready_reason is None)


@in_virtual_time
async def test_values_of_a_session_that_cannot_be_read_are_not_made_up():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        await client.call(0, "put", key="k", value=1)
        crew[1].backend.cut()
        error = await client.call(1, "count")
        assert error["code"] == -32603
        assert error["message"] == "session.state cannot be read now: the store does not answer"
        crew[1].backend.mend()
        await asyncio.sleep(2)
        assert json.loads(await client.call(1, "values")) == {"k": 1}
        assert json.loads(await client.call(0, "values")) == {"k": 1}


@in_virtual_time
async def test_a_single_failure_while_a_session_is_read_does_not_lose_its_values():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        await client.call(0, "count")
        crew[1].backend.fail("get", client.sid)
        found = await client.call(1, "count")
        assert found == "2" or found["code"] == -32603
        assert await client.call(1, "count") in ("2", "3")
        total = int(await client.call(0, "count"))
        assert total == (4 if found == "2" else 3)


@in_virtual_time
async def test_a_change_that_cannot_be_saved_in_time_is_an_error_and_is_saved_later():
    async with serve_shared(Desk().make, 2, store_patience=2.0) as crew:
        client = await crew.open()
        await client.call(0, "count")
        await client.call(1, "count")
        cut_all(crew)
        error = await client.call(0, "count")
        assert error["code"] == -32603
        assert error["message"] == "the session could not be saved: the store does not answer"
        mend_all(crew)
        await asyncio.sleep(3)
        # The tool has run, so its change stays.
        assert await client.call(0, "count") == "4"
        assert await client.call(1, "count") == "5"


@in_virtual_time
async def test_a_worker_that_was_cut_off_alone_is_taken_over_and_comes_back():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        await client.call(0, "count")
        answer = await begin(client, 0, call("h", "hold", token="t", name="gate"))
        id = crew[0].worker.id
        crew[0].backend.cut()
        again = await client.listen(1, last=answer.all_events[-1].id)
        await again.done()
        assert again.messages[-1]["error"]["data"]["reason"] == "worker-lost"
        assert await client.call(1, "count") == "2"
        crew[0].backend.mend()
        await eventually(lambda: crew[0].worker.id != id)
        await eventually(lambda: "gate at 0 is cancelled" in desk.trail)
        assert await client.call(0, "count") == "3"


@in_virtual_time
async def test_an_app_does_not_start_without_its_store_and_starts_when_it_is_there():
    desk = Desk()
    async with serve_shared(desk.make, 1) as crew:
        app = await add_app(crew, desk.make)
        await app.stop()
        late = App(desk.make(), FaultyBackend(crew.store))
        late.backend.cut()
        crew.append(late)
        refused = await crew.client().post(2, initialize("2025-11-25"))
        assert refused.status == 500
        late.backend.mend()
        client = await crew.open(at=2)
        assert await client.call(0, "count") == "1"


# -- slow


@in_virtual_time
async def test_a_slow_store_delays_and_breaks_nothing():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-11-25", elicitation={})
        for app in crew:
            for operation in ("get", "put", "append", "read"):
                app.backend.fail(operation, client.sid, times=10_000, seconds=0.05)
        assert await client.call(0, "count") == "1"
        assert await client.call(1, "count") == "2"
        whole = await client.post(0, call("s", "steps", token="t", n=5))
        assert [each["params"]["progress"] for each in whole.messages[:-1]] == [1, 2, 3, 4, 5]
        asking = await begin(client, 0, call("a", "ask"))
        question = asking.messages[-1]["id"]
        reply = {"action": "accept", "content": {"name": "Ada"}}
        await client.post(1, {"jsonrpc": "2.0", "id": question, "result": reply})
        await asking.done()
        assert text_of(asking.messages[-1]) == "hello Ada"


@in_virtual_time
async def test_an_answer_that_cannot_be_passed_on_can_be_sent_again():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open("2025-06-18", elicitation={})
        asking = await begin(client, 0, call(1, "ask"))
        question = asking.messages[-1]["id"]
        crew[1].backend.fail("append", names.inbox_of(crew[0].worker.id))
        reply = {
            "jsonrpc": "2.0",
            "id": question,
            "result": {"action": "accept", "content": {"name": "Ada"}},
        }
        assert (await client.post(1, reply)).status == 503
        assert (await client.post(1, reply)).status == 202
        await asking.done()
        assert text_of(asking.messages[-1]) == "hello Ada"


@in_virtual_time
async def test_a_question_that_cannot_be_noted_is_asked_when_the_store_is_back():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open("2025-06-18", elicitation={})
        crew[0].backend.fail("put", "}q", times=3)
        asking = client.begin(0, call(1, "ask"))
        await eventually(lambda: asking.messages, seconds=10)
        question = asking.messages[-1]["id"]
        reply = {"action": "accept", "content": {"name": "Ada"}}
        accepted = await client.post(1, {"jsonrpc": "2.0", "id": question, "result": reply})
        assert accepted.status == 202
        await asking.done()
        assert text_of(asking.messages[-1]) == "hello Ada"


# -- full, or failing for good


@in_virtual_time
async def test_a_full_store_refuses_new_sessions_and_says_why():
    async with serve_shared(Desk().make, 1) as crew:
        crew[0].backend.fail("put", "}s", error=StoreFull("no room"))
        refused = await crew.client().post(0, initialize("2025-11-25"))
        assert refused.status == 503
        assert refused.headers["retry-after"] == "30"
        assert "full" in refused.reason


@in_virtual_time
async def test_a_stream_that_the_store_refuses_for_good_breaks_off_and_no_other(caplog):
    desk = Desk()
    async with serve_shared(desk.make, 1) as crew:
        client = await crew.open()
        answer = await begin(client, 0, call(1, "hold", token="t", name="gate"))
        other = await begin(client, 0, call(2, "hold", token="u", name="other"))
        label = answer.all_events[0].id.partition("-")[0]
        crew[0].backend.fail("append", label, error=StoreError("too large"))
        desk.gates["gate"].set()
        await eventually(lambda: answer.is_over)
        assert not answer.is_whole
        assert "a stream cannot be written" in caplog.text
        desk.gates["other"].set()
        await other.done()
        assert text_of(other.messages[-1]) == "other"


@in_virtual_time
async def test_a_corrupt_entry_ends_the_response_that_reads_it_and_no_other(caplog):
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        whole = await client.post(0, call(1, "steps", token="t", n=3))
        other = await client.post(0, call(2, "steps", token="u", n=3))
        label = whole.all_events[0].id.partition("-")[0]
        log = crew.store.backend._logs[names.stream_of(client.sid, label)]
        log.items[2] = b"r not a number"
        broken = await client.listen(1, last=whole.all_events[0].id)
        await eventually(lambda: broken.is_over)
        assert not broken.is_whole
        again = client.start(1, "GET", last_event_id=other.all_events[0].id)
        await again.done()
        assert text_of(again.messages[-1]) == "3 steps"
        assert "a stream cannot be followed" in caplog.text


# -- lost data


@in_virtual_time
async def test_sessions_go_on_without_their_state_when_the_store_has_lost_its_data():
    async with serve_shared(Desk().make, 3) as crew:
        client = await crew.open()
        for at in range(2):
            await client.call(at, "count")
        crew.store.lose_data()
        await asyncio.sleep(2 * LEASE)
        for at in range(3):
            assert await client.call(at, "add", a=1, b=1) == "2"
        counted = [await client.call(at, "count") for at in (2, 1, 0, 2)]
        assert counted == ["1", "2", "3", "4"]
        assert (await crew.record(client)).revision == "2025-11-25"


@in_virtual_time
async def test_sessions_go_on_at_once_after_lost_data():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        for at in range(2):
            await client.call(at, "count")
        crew.store.lose_data()
        for _ in range(20):
            for at in (0, 1):
                assert await client.call(at, "add", a=1, b=1) == "2"
                assert int(await client.call(at, "count")) > 0
            await asyncio.sleep(0.1)
        # By now all of them agree.
        first = int(await client.call(0, "count"))
        assert int(await client.call(1, "count")) == first + 1


@in_virtual_time
async def test_streams_from_before_lost_data_are_refused():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        whole = await client.post(0, call(1, "steps", token="t", n=3))
        running = await begin(client, 0, call(2, "hold", token="u", name="gate"))
        crew.store.lose_data()
        await asyncio.sleep(2 * LEASE)
        for last in (whole.all_events[0].id, running.all_events[0].id):
            for at in (0, 1):
                refused = await client.listen(at, last=last)
                assert refused.status == 400
        desk.gates["gate"].set()
        await eventually(lambda: running.is_over)
        assert all(each.get("id") != 2 for each in running.messages)
        fresh = await client.post(1, call(3, "steps", token="v", n=3))
        assert text_of(fresh.messages[-1]) == "3 steps"


@in_virtual_time
async def test_clients_listen_again_after_lost_data():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-06-18")
        old = await client.listen(1)
        await client.call(0, "note_later", name="before")
        desk.gates["before"].set()
        await eventually(lambda: old.messages)
        crew.store.lose_data()
        await asyncio.sleep(3 * LEASE)
        await client.call(0, "add", a=1, b=1)
        new = await client.listen(1)
        await client.call(0, "note_later", name="after")
        desk.gates["after"].set()

        def heard():
            texts = [each.get("params", {}).get("data") for each in new.messages]
            return texts.count("later after")

        await eventually(heard, seconds=10)
        await asyncio.sleep(3)
        assert heard() == 1
        late = [each.get("params", {}).get("data") for each in old.messages]
        assert "later after" not in late


@in_virtual_time
async def test_questions_that_are_open_when_data_is_lost_can_be_answered_where_they_were_asked():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open("2025-06-18", elicitation={})
        asking = await begin(client, 0, call(1, "ask"))
        question = asking.messages[-1]["id"]
        crew.store.lose_data()
        await asyncio.sleep(2 * LEASE)
        reply = {"action": "accept", "content": {"name": "Ada"}}
        answer = await client.post(0, {"jsonrpc": "2.0", "id": question, "result": reply})
        assert answer.status in (202, 400)
        await client.post(0, notification("notifications/cancelled", requestId=1))
        await eventually(lambda: asking.is_over, seconds=10)
        assert await client.call(0, "add", a=1, b=1) == "2"


@in_virtual_time
async def test_sessions_that_were_deleted_long_ago_do_not_come_back_after_lost_data():
    async with serve_shared(Desk().make, 2, session_idle=30.0) as crew:
        client = await crew.open()
        await client.delete(0)
        crew.store.lose_data()
        await asyncio.sleep(100)
        for at in (0, 1):
            assert (await client.post(at, call(1, "add", a=1, b=1))).status == 404


@in_virtual_time
async def test_an_idle_session_of_an_earlier_epoch_has_ended():
    async with serve_shared(Desk().make, 2, session_idle=30.0) as crew:
        client, active = await crew.open(), await crew.open()
        crew.store.lose_data()
        for _ in range(10):
            await asyncio.sleep(10)
            assert await active.call(1, "add", a=1, b=1) == "2"
        assert (await client.post(1, call(1, "add", a=1, b=1))).status == 404


# -- at random


async def disturb(crew, dice, *, times=25, make=None) -> None:
    """Let connections to the store fail at random; kill workers, and start others."""
    for _ in range(times):
        await asyncio.sleep(dice.uniform(0.05, 0.4))
        at = dice.choice(crew.alive)
        app = crew[at]
        kind = dice.randrange(6)
        if kind == 5 and make is not None:
            crew.kill(at)
            await add_app(crew, make)
            continue
        if kind == 0:
            app.backend.stall()
            await asyncio.sleep(dice.uniform(0.1, 3 * LEASE))
            app.backend.move_on()
        elif kind == 1:
            app.backend.cut()
            await asyncio.sleep(dice.uniform(0.1, 2 * LEASE))
            app.backend.mend()
        else:
            app.backend.fail(
                dice.choice(["append", "put", "read", "get", "add", "remove", "delete"]),
                times=dice.randrange(1, 4),
                is_carried_out=dice.random() < 0.5,
            )
    for app in crew:
        app.backend.faults.clear()


class RepeatingDesk(Desk):
    """Has a tool with steps that may run again."""

    def make(self):
        server = super().make()

        @server.tool(idempotent=True)
        async def repeat_steps(ctx: Context, n: int) -> str:
            """Report steps; may run again."""
            for step in range(1, n + 1):
                await ctx.progress(step)
                await asyncio.sleep(0.1)
            return f"{n} steps"

        return server


async def follow(crew, client, dice, id):
    """Call, and come back until there is an outcome; return the events of the stream."""
    seen = []
    tool = dice.choice(["steps", "repeat_steps"])
    answer = client.begin(dice.choice(crew.alive), call(id, tool, token=id, n=8))
    for _ in range(200):
        await eventually(lambda answer=answer: answer.is_over, seconds=300)
        if answer.sent and answer.status == 200:
            seen += answer.all_events
            messages = [json.loads(each.data) for each in seen if each.data]
            if any(each.get("id") == id for each in messages):
                return seen
        if not seen:
            return None  # refused, or broken off, before the client had anything of it
        await asyncio.sleep(0.2)
        answer = client.start(dice.choice(crew.alive), "GET", last_event_id=seen[-1].id)
    raise AssertionError(f"call {id} has no outcome")


def check_stream(id, seen):
    """A stream has one outcome, numbers without gaps, and progress that only grows."""
    messages = [json.loads(each.data) for each in seen if each.data]
    outcomes = [each for each in messages if "method" not in each]
    assert [each["id"] for each in outcomes] == [id]
    numbers = [int(each.id.rpartition("-")[2]) for each in seen]
    assert numbers == [*range(1, len(numbers) + 1)]
    assert len({each.id.partition("-")[0] for each in seen}) == 1
    steps = [each["params"]["progress"] for each in messages if "method" in each]
    assert steps == sorted(set(steps))
    if "result" in outcomes[0]:
        assert steps == [*range(1, 9)]
    else:
        assert outcomes[0]["error"]["data"]["reason"] == "worker-lost"


@pytest.mark.parametrize("has_kills", [False, True])
@pytest.mark.parametrize("seed", range(12))
@in_virtual_time
async def test_calls_have_one_outcome_whatever_fails(seed, has_kills):
    """Faults at random in all workers: no call is lost, doubled or answered to another client."""
    dice, desk = random.Random(seed), RepeatingDesk()
    async with serve_shared(desk.make, 3) as crew:
        clients = [await crew.open("2025-11-25", at=at) for at in range(3)]
        make = desk.make if has_kills else None
        disturbing = asyncio.create_task(disturb(crew, dice, make=make))
        calls = []
        for number in range(30):
            work = follow(crew, clients[number % 3], dice, f"c{number}")
            calls.append(asyncio.create_task(work))
            await asyncio.sleep(dice.uniform(0, 0.3))
        await disturbing
        for number, work in enumerate(calls):
            seen = await work
            if seen is not None:
                check_stream(f"c{number}", seen)


@pytest.mark.parametrize("seed", range(12))
@in_virtual_time
async def test_changes_that_were_acknowledged_survive_whatever_fails(seed):
    """Faults at random: what a client was promised is there, on all workers, and the same."""
    dice = random.Random(seed)
    async with serve_shared(Desk().make, 3) as crew:
        clients = [await crew.open("2025-06-18", at=at) for at in range(3)]
        promised = [{} for _ in clients]
        levels = [set() for _ in clients]

        async def change(number) -> None:
            client, at = clients[number % 3], dice.randrange(3)
            kind = dice.randrange(3)
            if kind == 0:
                uri = f"note://{number}"
                message = {
                    "jsonrpc": "2.0",
                    "id": number,
                    "method": "resources/subscribe",
                    "params": {"uri": uri},
                }
                answer = await client.post(at, message)
                if answer.status == 200 and "result" in answer.messages[-1]:
                    levels[number % 3].add(uri)
                return
            answer = await client.post(at, call(number, "put", key=f"k{number}", value=number))
            if answer.status == 200 and "result" in answer.messages[-1]:
                promised[number % 3][f"k{number}"] = number

        disturbing = asyncio.create_task(disturb(crew, dice))
        work = []
        for number in range(60):
            work.append(asyncio.create_task(change(number)))
            await asyncio.sleep(dice.uniform(0, 0.2))
        await disturbing
        for each in work:
            await each
        await asyncio.sleep(10)
        for client, values, uris in zip(clients, promised, levels, strict=True):
            found = [json.loads(await client.call(at, "values")) for at in range(3)]
            assert found[0] == found[1] == found[2]
            assert found[0].items() >= values.items()
            record = await crew.record(client)
            assert record.subscriptions >= uris
            for app in crew:
                assert app.session(client).session.subscriptions == record.subscriptions


@pytest.mark.parametrize("seed", range(12))
@in_virtual_time
async def test_questions_have_their_own_answers_whatever_fails(seed):
    """Faults at random: an answer reaches the call that asked, and no other."""
    dice = random.Random(seed)
    async with serve_shared(Desk().make, 3) as crew:
        clients = [await crew.open("2025-11-25", at=at, elicitation={}) for at in range(3)]

        async def converse(number) -> None:
            client, id = clients[number % 3], f"c{number}"
            answer = client.begin(dice.randrange(3), call(id, "ask"))
            seen, answered = [], set()
            for _ in range(300):
                await asyncio.sleep(0.1)
                events = answer.all_events if answer.sent and answer.status == 200 else []
                messages = [json.loads(each.data) for each in (*seen, *events) if each.data]
                for each in messages:
                    if each.get("method") == "elicitation/create" and each["id"] not in answered:
                        reply = {
                            "jsonrpc": "2.0",
                            "id": each["id"],
                            "result": {"action": "accept", "content": {"name": id}},
                        }
                        posted = await client.post(dice.randrange(3), reply)
                        if posted.status != 503:
                            answered.add(each["id"])
                outcomes = [each for each in messages if each.get("id") == id]
                if outcomes:
                    assert len(outcomes) == 1
                    if "result" in outcomes[0]:
                        assert text_of(outcomes[0]) == f"hello {id}"
                    else:
                        assert outcomes[0]["error"]["data"]["reason"] == "worker-lost"
                    return
                if answer.is_over:
                    if answer.sent and answer.status == 200:
                        seen += answer.all_events
                    if not seen:
                        return  # refused before it began
                    last = seen[-1].id
                    answer = client.start(dice.randrange(3), "GET", last_event_id=last)
            raise AssertionError(f"call {id} has no outcome")

        disturbing = asyncio.create_task(disturb(crew, dice))
        work = []
        for number in range(20):
            work.append(asyncio.create_task(converse(number)))
            await asyncio.sleep(dice.uniform(0, 0.4))
        await disturbing
        for each in work:
            await each

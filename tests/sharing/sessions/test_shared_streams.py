"""Streams of calls that any worker goes on with: no event is lost, doubled or sent elsewhere."""

import asyncio
import json

import pytest

from accord.sharing.workers import names
from accord.sharing.workers.event_logs import parse_stream_event
from support.http_talk import call, notification, request
from support.shared import App, Crew, eventually, in_virtual_time, serve_shared
from support.shared_tools import Desk

RESUMABLE = ["2025-06-18", "2025-11-25"]


def steps(messages):
    """The progress and the text of the answer, in the order of arrival."""
    return [
        each["params"]["progress"] if "method" in each else each["result"]["content"][0]["text"]
        for each in messages
    ]


def events(answer):
    return [(each.id, each.data) for each in answer.all_events]


async def read_log(crew: Crew, client, event_id):
    label, _ = parse_stream_event(event_id)
    return await crew.store.backend.read(names.stream_of(client.sid, label))


def lose_readers(app: App) -> None:
    """Let the notifications of a worker be lost: it finds what is new by looking."""
    for topic, on_notify in app.backend.followed:
        app.backend.store.backend._followers.discard(topic, on_notify)


# -- resuming


@pytest.mark.parametrize("revision", RESUMABLE)
@in_virtual_time
async def test_a_stream_is_resumed_at_every_event_on_every_worker(revision):
    async with serve_shared(Desk().make, 3) as crew:
        client = await crew.open(revision)
        whole = await client.post(0, call(1, "steps", token="t", n=5))
        sent = events(whole)
        assert steps(whole.messages) == [1, 2, 3, 4, 5, "5 steps"]
        assert len({id for id, _ in sent}) == len(sent) == 6 + (revision == "2025-11-25")
        for at in range(3):
            for cut in range(len(sent) - 1):
                again = client.start(at, "GET", last_event_id=sent[cut][0])
                await again.done()
                assert again.status == 200
                assert events(again) == sent[cut + 1 :]


@pytest.mark.parametrize("revision", RESUMABLE)
@pytest.mark.parametrize("cut", [0, 1, 2])
@in_virtual_time
async def test_a_stream_that_goes_on_is_resumed_on_another_worker(revision, cut):
    desk = Desk()
    async with serve_shared(desk.make, 3) as crew:
        client = await crew.open(revision)
        first = client.begin(0, call(1, "hold", token="t", name="gate", n=5))
        await eventually(lambda: first.messages)
        last = first.all_events[min(cut, len(first.all_events) - 1)].id
        first.disconnect()
        await first.done()
        seen = {id for id, _ in events(first)}
        again = await client.listen(1, last=last)
        desk.gates["gate"].set()
        await again.done()
        assert steps(again.messages)[-6:] == [2, 3, 4, 5, 6, "gate"]
        assert again.is_whole
        if cut:
            assert not seen & {id for id, _ in events(again)}
        assert desk.trail == ["gate at 0 waits", "gate at 0 passes"]


@in_virtual_time
async def test_a_client_may_wander_through_workers_while_a_call_runs():
    async with serve_shared(Desk().make, 3) as crew:
        client = await crew.open()
        answer = client.begin(0, call(1, "steps", token="t", n=40, pause=0.05))
        found = []
        for hop in range(1, 200):
            await eventually(lambda answer=answer: answer.all_events or answer.is_over)
            await asyncio.sleep(0.07)
            answer.disconnect()
            await answer.done()
            found += answer.all_events
            if answer.is_whole and found and b'"result"' in found[-1].data:
                break
            answer = await client.listen(hop % 3, last=found[-1].id)
            assert answer.status == 200
        ids = [each.id for each in found]
        assert len(ids) == len(set(ids))
        numbers = [parse_stream_event(id)[1] for id in ids]
        assert numbers == [*range(numbers[0], numbers[0] + len(numbers))]
        assert steps([json.loads(each.data) for each in found if each.data]) == [
            *range(1, 41),
            "40 steps",
        ]


@in_virtual_time
async def test_events_reach_a_resumed_response_also_when_notifications_are_lost():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        first = client.begin(0, call(1, "hold", token="t", name="gate"))
        await eventually(lambda: first.messages)
        first.disconnect()
        again = await client.listen(1, last=first.all_events[0].id)
        await eventually(lambda: again.messages)
        await asyncio.sleep(0.1)
        lose_readers(crew[1])
        desk.gates["gate"].set()
        await eventually(lambda: again.is_over, seconds=3)
        assert steps(again.messages) == [1, 2, "gate"]
        assert crew[1].worker.metrics.missed_notifications >= 1


@in_virtual_time
async def test_several_clients_of_one_session_resume_their_own_streams():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        sent = [await client.post(id % 2, call(id, "steps", token=id, n=3)) for id in range(6)]
        for number, answer in enumerate(sent):
            again = client.start((number + 1) % 2, "GET", last_event_id=answer.all_events[1].id)
            await again.done()
            assert events(again) == events(answer)[2:]
            assert again.messages[-1]["id"] == number


@pytest.mark.parametrize("at", [0, 1])
@in_virtual_time
async def test_a_stream_that_was_read_to_its_end_has_nothing_more(at):
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        whole = await client.post(0, call(1, "steps", token="t", n=2))
        again = client.start(at, "GET", last_event_id=whole.all_events[-1].id)
        await again.done()
        assert again.status == 405
        assert "the stream has ended" in again.reason
        assert "GET" in again.headers["allow"]


@pytest.mark.parametrize(
    "last", ["", "x", "1-0", "0123456789-1", "0123456789-", "o1b", "{label}-99", "{label}--1"]
)
@in_virtual_time
async def test_an_unknown_event_id_is_refused(last):
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        whole = await client.post(0, call(1, "steps", token="t", n=2))
        label, _ = parse_stream_event(whole.all_events[0].id)
        for at in (0, 1):
            again = client.start(at, "GET", last_event_id=last.format(label=label))
            await again.done()
            assert again.status == 400
            assert "Last-Event-ID" in again.reason


@in_virtual_time
async def test_events_of_another_session_are_unknown():
    async with serve_shared(Desk().make, 2) as crew:
        client, other = await crew.open(), await crew.open()
        whole = await client.post(0, call(1, "steps", token="t", n=2))
        for at in (0, 1):
            foreign = other.start(at, "GET", last_event_id=whole.all_events[0].id)
            await foreign.done()
            assert foreign.status == 400


@in_virtual_time
async def test_events_that_were_dropped_are_not_skipped_in_silence():
    async with serve_shared(Desk().make, 2, stream_entries=5) as crew:
        client = await crew.open()
        whole = await client.post(0, call(1, "steps", token="t", n=20))
        sent = events(whole)
        assert len(sent) == 22
        for at in (0, 1):
            lost = client.start(at, "GET", last_event_id=sent[3][0])
            await lost.done()
            assert lost.status == 400
            assert "no longer kept" in lost.reason
            kept = client.start(at, "GET", last_event_id=sent[-6][0])
            await kept.done()
            assert events(kept) == sent[-5:]


@in_virtual_time
async def test_a_reader_that_falls_behind_a_short_log_is_cut_off_and_then_refused():
    desk = Desk()
    async with serve_shared(desk.make, 2, stream_entries=5) as crew:
        client = await crew.open()
        first = client.begin(0, call(1, "hold", token="t", name="gate", n=50))
        await eventually(lambda: first.messages)
        again = await client.listen(1, last=first.all_events[0].id)
        await eventually(lambda: again.messages)
        crew[1].backend.stall()
        desk.gates["gate"].set()
        await first.done()
        crew[1].backend.move_on()
        await eventually(lambda: again.is_over)
        assert not again.is_whole
        last = again.all_events[-1].id
        refused = client.start(1, "GET", last_event_id=last)
        await refused.done()
        assert refused.status == 400


@in_virtual_time
async def test_streams_are_forgotten_after_the_retention():
    async with serve_shared(Desk().make, 2, retention=30.0) as crew:
        client = await crew.open()
        whole = await client.post(0, call(1, "steps", token="t", n=2))
        last = whole.all_events[0].id
        await asyncio.sleep(25)
        kept = client.start(1, "GET", last_event_id=last)
        assert (await kept.done()).status == 200
        await asyncio.sleep(10)
        gone = client.start(1, "GET", last_event_id=last)
        assert (await gone.done()).status == 400
        assert await read_log(crew, client, last) is None


@in_virtual_time
async def test_resuming_on_the_same_worker_ends_the_earlier_response():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        first = client.begin(0, call(1, "hold", token="t", name="gate"))
        await eventually(lambda: first.messages)
        second = await client.listen(0, last=first.all_events[-1].id)
        await eventually(lambda: first.is_over)
        assert first.is_whole
        third = await client.listen(0, last=first.all_events[-1].id)
        await eventually(lambda: second.is_over)
        desk.gates["gate"].set()
        await third.done()
        assert second.messages == []
        assert steps(third.messages) == [2, "gate"]


@in_virtual_time
async def test_streams_need_not_be_resumable():
    async with serve_shared(Desk().make, 2, resumable=False) as crew:
        client = await crew.open("2025-06-18", elicitation={})
        whole = await client.post(1, call(1, "steps", token="t", n=3))
        assert steps(whole.messages) == [1, 2, 3, "3 steps"]
        assert {each.id for each in whole.all_events} == {None}
        assert crew[1].backend.times("append", "}l") == 0
        asking = client.begin(0, call(2, "ask"))
        await eventually(lambda: asking.messages)
        reply = {"action": "accept", "content": {"name": "Ada"}}
        id = asking.messages[0]["id"]
        assert (await client.post(1, {"jsonrpc": "2.0", "id": id, "result": reply})).status == 202
        await asking.done()
        assert steps(asking.messages[1:]) == ["hello Ada"]


# -- events are stored before they are seen


@in_virtual_time
async def test_no_event_is_seen_before_the_store_has_it():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        answer = client.begin(0, call(1, "hold", token="t", name="gate", n=3))
        await eventually(lambda: answer.messages)
        crew[0].backend.fail("append", "}l", times=1, seconds=3.0)
        desk.gates["gate"].set()
        await asyncio.sleep(2)
        page = await read_log(crew, client, answer.all_events[0].id)
        assert len(page.items) == len(answer.all_events)
        await answer.done()
        page = await read_log(crew, client, answer.all_events[0].id)
        assert len(page.items) == len(answer.all_events)
        assert page.is_closed


@in_virtual_time
async def test_each_event_that_a_client_has_seen_is_in_the_store_at_every_moment():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        answer = client.begin(0, call(1, "steps", token="t", n=30, pause=0.003))
        await eventually(lambda: answer.all_events)
        while not answer.is_over:
            seen = len(answer.all_events)
            page = await read_log(crew, client, answer.all_events[0].id)
            assert len(page.items) >= seen
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("times", [1, 2, 5])
@in_virtual_time
async def test_an_append_whose_answer_was_lost_is_not_doubled(times):
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        crew[0].backend.fail("append", "}l", times=times, is_carried_out=True)
        whole = await client.post(0, call(1, "steps", token="t", n=4))
        assert steps(whole.messages) == [1, 2, 3, 4, "4 steps"]
        again = client.start(1, "GET", last_event_id=whole.all_events[0].id)
        await again.done()
        assert events(again) == events(whole)[1:]


@in_virtual_time
async def test_a_message_outside_of_requests_whose_answer_was_lost_arrives_once():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-06-18")
        listening = await client.listen(1)
        crew[0].backend.fail("append", "}o", times=2, is_carried_out=True)
        await client.call(0, "note_later", name="then")
        desk.gates["then"].set()
        await asyncio.sleep(5)
        assert [each["params"]["data"] for each in listening.messages] == ["later then"]


@in_virtual_time
async def test_a_copy_of_a_message_is_not_sent_again_after_a_cut():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-06-18")
        listening = await client.listen(1)
        await client.call(0, "note_later", name="then")
        desk.gates["then"].set()
        await eventually(lambda: listening.messages)
        # A second copy of the same entry, as a lost answer leaves it.
        name = names.outbox_of(client.sid)
        page = await crew.store.backend.read(name)
        listening.disconnect()
        await listening.done()
        await crew.store.backend.append(name, page.items, ttl=60, notify=(name,))
        again = await client.listen(0, last=listening.all_events[-1].id)
        await asyncio.sleep(3)
        assert again.messages == []


# -- forms of answers


@in_virtual_time
async def test_an_answer_without_messages_before_it_is_json_and_not_stored():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        answer = await client.post(1, call(1, "add", a=1, b=2))
        assert answer.headers["content-type"] == "application/json"
        assert crew[1].backend.times("append", "}l") == 0


@in_virtual_time
async def test_a_silent_call_becomes_a_stream_that_can_be_resumed_elsewhere():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-11-25")
        answer = client.begin(0, call(1, "wait", name="gate"))
        await eventually(lambda: answer.sent and answer.all_events, seconds=5)
        primed = answer.all_events[0]
        assert primed.data == b""
        answer.disconnect()
        again = await client.listen(1, last=primed.id)
        desk.gates["gate"].set()
        await again.done()
        assert steps(again.messages) == ["gate"]


@pytest.mark.parametrize("revision", RESUMABLE)
@in_virtual_time
async def test_answers_that_are_always_streams_can_be_resumed_if_clients_can_know(revision):
    async with serve_shared(Desk().make, 2, answers="stream") as crew:
        client = await crew.open(revision)
        answer = await client.post(0, call(1, "add", a=1, b=2))
        assert answer.is_streamed
        assert steps(answer.messages) == ["3"]
        if revision == "2025-11-25":
            first, second = answer.all_events
            again = client.start(1, "GET", last_event_id=first.id)
            await again.done()
            assert events(again) == [(second.id, second.data)]
        else:
            assert crew[0].backend.times("append", "}l") == 0


@in_virtual_time
async def test_answers_that_are_always_json_are_whole():
    async with serve_shared(Desk().make, 2, answers="json") as crew:
        client = await crew.open()
        answer = await client.post(1, call(1, "steps", token="t", n=3))
        assert answer.headers["content-type"] == "application/json"
        assert steps(answer.messages) == ["3 steps"]


@in_virtual_time
async def test_a_cancelled_stream_ends_without_an_answer_on_all_workers():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        answer = client.begin(0, call(1, "hold", token="t", name="gate"))
        await eventually(lambda: answer.messages)
        again = await client.listen(1, last=answer.all_events[0].id)
        await eventually(lambda: again.messages)
        await client.notify(1, "notifications/cancelled", requestId=1)
        await again.done()
        assert again.is_whole
        assert steps(again.messages) == [1]
        ended = client.start(1, "GET", last_event_id=again.all_events[-1].id)
        await ended.done()
        assert ended.status == 405


@in_virtual_time
async def test_a_batch_with_progress_is_one_stream_that_is_resumed_elsewhere():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open("2025-03-26")
        batch = [call(1, "steps", token="a", n=2), call(2, "steps", token="b", n=2)]
        whole = await client.post(0, [*batch, request(3, "ping")])
        answers = [each for each in whole.messages if isinstance(each, list)]
        assert sorted(each["id"] for each in answers[0]) == [1, 2, 3]
        again = client.start(1, "GET", last_event_id=whole.all_events[0].id)
        await again.done()
        assert events(again) == events(whole)[1:]


# -- flow


@in_virtual_time
async def test_a_long_stream_is_whole_at_the_first_response_and_at_a_resumed_one():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        whole = await client.post(0, call(1, "steps", token="t", n=1500, size=500, pause=0))
        assert steps(whole.messages) == [*range(1, 1501), "1500 steps"]
        again = client.start(1, "GET", last_event_id=whole.all_events[0].id)
        await again.done()
        assert events(again) == events(whole)[1:]


@in_virtual_time
async def test_a_stream_whose_client_is_gone_costs_no_memory_where_it_runs():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        answer = client.begin(0, call(1, "hold", token="t", name="gate", n=0))
        await eventually(lambda: answer.messages)
        answer.disconnect()
        await answer.done()
        (stream,) = crew[0].session(client).logged.values()
        for number in range(200):
            stream.append(json.dumps(notification("x", n=number, text="x" * 1000)).encode())
            await asyncio.sleep(0.001)
        await stream.writer.flush()
        assert sum(map(len, stream._unread)) == 0
        assert stream.unread == 0
        assert crew[0].session(client).session.client.open
        desk.gates["gate"].set()
        await eventually(lambda: not crew[0].session(client).logged)


@in_virtual_time
async def test_a_log_without_news_for_hours_is_kept_for_its_call():
    desk = Desk()
    async with serve_shared(desk.make, 1, lease=60.0, keep_alive=1000.0) as crew:
        client = await crew.open()
        answer = client.begin(0, call(1, "hold", token="t", name="gate"))
        await eventually(lambda: answer.messages)
        await asyncio.sleep(4500)
        desk.gates["gate"].set()
        await answer.done()
        assert steps(answer.messages) == [1, 2, "gate"]

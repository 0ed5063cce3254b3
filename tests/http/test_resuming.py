"""Streams that break and are resumed: no event is lost, doubled or sent to another session."""

import asyncio
import contextlib
import json

import pytest

from accord.http.rules.sse import Decoder
from accord.server import MemoryEventStore
from support.http_offer import offer
from support.http_server import bounded, served
from support.http_talk import call, notification, request, text_of
from support.stored_apps import in_one_process
from support.waiting import in_loop, run, until


def steps(messages):
    """The counts and the answer's text, in the order of arrival."""
    return [each["params"]["progress"] if "method" in each else text_of(each) for each in messages]


@in_one_process
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_a_stream_may_be_cut_at_every_byte(port, talk, revision):
    async def scenario():
        async with talk(port, revision=revision) as client:
            await client.open()
            length, resumed, cut = 1, 0, 0
            message = json.dumps(call(1, "count", token="t", to=3)).encode()
            while cut < length:
                response = await client.send("POST", message)
                length = int(response.headers["content-length"])
                part = await response._reader.readexactly(cut)
                response.abort()
                decoder = Decoder()
                found = [json.loads(event.data) for event in decoder.feed(part)]
                if decoder.last_id is not None:
                    resumed += 1
                    again = await client.get(Last_Event_ID=decoder.last_id)
                    assert again.status == 200
                    again.talk = None  # the monitor has not seen the beginning
                    found += await again.rest()
                    assert steps(found) == [1, 2, 3, "3"]
                else:
                    # Only events before the first id cannot be resumed.
                    assert cut <= part.find(b"\n\n") + 2 or b"\n\n" not in part
                cut += 1
            assert resumed > length * (0.9 if revision == "2025-11-25" else 0.6)

    run(scenario(), seconds=200)


@pytest.mark.requirement("http.disconnect.not-cancel")
@pytest.mark.parametrize("how", ["close", "abort"])
@in_loop
async def test_work_goes_on_when_the_client_is_gone(port, talk, how):
    async with talk(port) as client:
        await client.open()
        response = await client.post(call(1, "hold", token="t", name=how, steps=3))
        assert (await response.event())["params"]["progress"] == 1
        getattr(response, how)()
        await asyncio.sleep(0.05)  # clock: time in which a wrong cancellation would arrive
        await client.answer(call(2, "free", name=how))
        history = text_of(await client.answer(call(3, "history")))
        assert f"{how} is cancelled" not in history
        again = await client.get(Last_Event_ID=response.last_id)
        assert steps(await again.rest()) == [2, 3, 4, how]


@in_loop
async def test_a_client_may_come_back_before_there_is_anything_new(port, talk):
    async with talk(port) as client:
        await client.open()
        response = await client.post(call(1, "hold", token="t", name="early"))
        first = await response.event()
        response.abort()
        last, found = response.last_id, [first]
        for _ in range(3):
            again = await client.get(Last_Event_ID=last)
            assert again.status == 200
            again.abort()
        again = await client.get(Last_Event_ID=last)
        await client.answer(call(2, "free", name="early"))
        found += await again.rest()
        assert steps(found) == [1, 2, "early"]


@in_loop
async def test_resuming_a_stream_ends_its_earlier_response(port, talk):
    async with talk(port) as client:
        await client.open()
        first = await client.post(call(1, "hold", token="t", name="alone"))
        await first.event()
        second = await client.get(Last_Event_ID=first.last_id)
        assert await first.rest() == []
        await client.answer(call(2, "free", name="alone"))
        assert steps(await second.rest()) == [2, "alone"]


@pytest.mark.requirement("http.sse.event-id-names-stream")
@pytest.mark.requirement("http.sse.no-foreign-replay", "http.sse.event-id-unique")
@in_loop
async def test_resuming_replays_only_missed_events_of_that_stream(port, talk):
    async with talk(port) as client, talk(port) as other:
        await client.open()
        await other.open()
        streams = [await client.post(call(id, "count", token=id, to=4)) for id in range(4)]
        await asyncio.gather(*(each.rest() for each in streams))
        ids = [id for each in streams for id in each.ids]
        assert None not in ids
        assert len(set(ids)) == len(ids) == 20
        for stream in streams:
            for seen in range(4):
                again = await client.get(Last_Event_ID=stream.ids[seen])
                assert again.status == 200
                await again.rest()
                assert again.ids == stream.ids[seen + 1 :]
        foreign = await other.get(Last_Event_ID=ids[0])
        assert foreign.status == 400


@in_loop
async def test_a_stream_that_was_read_to_its_end_has_nothing_more(port, talk):
    async with talk(port) as client:
        await client.open()
        response = await client.post(call(1, "count", token="t", to=2))
        await response.rest()
        again = await client.get(Last_Event_ID=response.last_id)
        assert again.status == 405
        assert "the stream has ended" in await again.error()


@pytest.mark.parametrize("last", ["", "x", "1", "1-", "99-0", "1-99", "-1-0", "1-" + "9" * 300])
@in_loop
async def test_an_unknown_event_id_is_refused(port, talk, last):
    async with talk(port) as client:
        await client.open()
        await client.answer(call(1, "count", token="t", to=2))
        response = await client.get(Last_Event_ID=last)
        assert response.status == 400
        assert "Last-Event-ID" in await response.error()


def test_resuming_is_refused_when_missed_events_were_dropped(talk):
    async def scenario(port):
        async with talk(port) as client:
            await client.open()
            response = await client.post(call(1, "count", token="t", to=50))
            await response.rest()
            lost = await client.get(Last_Event_ID=response.ids[0])
            assert lost.status == 400
            assert "no longer kept" in await lost.error()
            kept = await client.get(Last_Event_ID=response.ids[-3])
            await kept.rest()
            assert kept.ids == response.ids[-2:]

    store = MemoryEventStore(session_bytes=2_000)
    with bounded(offer().asgi(events=store)) as port:
        run(scenario(port))


@in_loop
async def test_a_listening_stream_is_resumed_where_it_broke(port, talk):
    async with talk(port) as client:
        await client.open()
        for id, uri in enumerate(("note://a", "note://b", "note://c", "note://d")):
            await client.answer(request(f"s{id}", "resources/subscribe", uri=uri))
        listening = await client.get()
        await client.answer(call(1, "touch", uri="note://a"))
        assert (await listening.event())["params"]["uri"] == "note://a"
        listening.abort()
        await client.answer(call(2, "touch", uri="note://b"))
        await client.answer(call(3, "touch", uri="note://c"))
        again = await client.get(Last_Event_ID=listening.last_id)
        await client.answer(call(4, "touch", uri="note://d"))
        found = [(await again.event())["params"]["uri"] for _ in range(3)]
        assert found == ["note://b", "note://c", "note://d"]


@in_loop
async def test_messages_from_before_the_first_listener_reach_it(port, talk):
    async with talk(port) as client:
        await client.open()
        await client.answer(request(1, "resources/subscribe", uri="note://a"))
        await client.answer(call(2, "touch", uri="note://a"))
        listening = await client.get()
        assert (await listening.event())["params"]["uri"] == "note://a"


@in_loop
async def test_a_slow_reader_loses_nothing(port, talk):
    async with talk(port) as client, talk(port) as other:
        await client.open()
        await other.open()
        response = await client.post(call(1, "count", token="t", to=3_000, size=2_000))
        await asyncio.sleep(0.3)  # clock: by now the server has filled every buffer
        assert text_of(await other.answer(call(1, "add", a=1, b=2))) == "3"
        *counted, answer = steps(await response.rest())
        assert counted == list(range(1, 3_001))
        assert answer == "3000"


@in_loop
async def test_a_log_message_after_the_answer_arrives_on_the_listening_stream(port, talk):
    async with talk(port) as client:
        await client.open()
        listening = await client.get()
        assert text_of(await client.answer(call(1, "note_later", name="then"))) == "soon"
        await client.answer(call(2, "free", name="then"))
        assert (await listening.event())["params"]["data"] == "later then"


@served(keep_alive=0.1)
async def test_a_silent_call_becomes_a_stream_with_comments(port, talk):
    async with talk(port) as client:
        await client.open()
        listening = await client.get()
        response = await client.post(call(1, "wait", name="silent"))
        assert response.kind == "text/event-stream"
        while response.raw.count(b": keep-alive\n") < 3:
            await response.chunk()
        while listening.raw.count(b": keep-alive\n") < 3:
            await listening.chunk()
        await client.answer(call(2, "free", name="silent"))
        assert [text_of(each) for each in await response.rest()] == ["silent"]


@in_loop
async def test_a_long_call_becomes_a_stream_early_if_clients_can_resume_it(port, talk):
    async with talk(port, revision="2025-11-25") as client:
        await client.open()
        response = await client.post(call(1, "wait", name="long"))
        reading = asyncio.create_task(response.event())
        while response.events.last_id is None:
            await asyncio.sleep(0.02)
        reading.cancel()
        response.abort()
        await client.answer(call(2, "free", name="long"))
        again = await client.get(Last_Event_ID=response.events.last_id)
        assert [text_of(each) for each in await again.rest()] == ["long"]


@served(resumable=False)
async def test_streams_need_not_be_resumable(port, talk):
    async with talk(port) as client:
        await client.open()
        response = await client.post(call(1, "count", token="t", to=2))
        assert steps(await response.rest()) == [1, 2, "2"]
        assert response.ids == [None, None, None]
        listening = await client.get(Last_Event_ID="1-0")
        assert listening.status == 400


@pytest.mark.parametrize("answers", ["json", "stream"])
def test_answers_may_always_have_one_form(talk, answers):
    async def scenario(port):
        async with talk(port) as client:
            await client.open(elicitation={})
            kind = "application/json" if answers == "json" else "text/event-stream"
            for message in (call(1, "add", a=1, b=2), call(2, "count", token="t", to=2)):
                assert (await client.post(message)).kind == kind
            answer = await client.post(call(3, "ask"))
            if answers == "json":
                said = text_of(await answer.json())
                assert "nothing can be asked" in said
                refused = await client.post(call(4, "add", a=1, b=2), Accept="text/event-stream")
            else:
                question = await answer.event()
                declined = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
                await client.post(declined)
                await answer.rest()
                refused = await client.post(call(4, "add", a=1, b=2), Accept="application/json")
            assert refused.status == 406
            assert "(answers)" in await refused.error()

    with bounded(offer().asgi(answers=answers)) as port:
        run(scenario(port))


@served(answers="json")
async def test_a_cancelled_call_that_may_only_be_json_ends_without_a_body(port, talk):
    async with talk(port) as client:
        await client.open()
        posting = asyncio.create_task(client.post(call(1, "wait", name="never")))
        while "never begins" not in text_of(await client.answer(call(2, "history"))):
            await asyncio.sleep(0.01)
        await client.post(notification("notifications/cancelled", requestId=1))
        response = await posting
        assert (response.status, await response.body()) == (202, b"")


def test_streams_without_a_reader_cost_no_more_than_the_store(talk):
    store = MemoryEventStore(session_bytes=500_000, bytes=2_000_000)
    app = offer().asgi(events=store)

    counting = call(1, "count", token="t", to=700, size=10_000, pause=0.0001)

    async def scenario(port):
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(talk(port)) for _ in range(4)]
            for client in clients:
                await client.open()
                response = await client.post(counting)
                await response.event()
                response.abort()
            await until(lambda: not any(each.session.dispatcher.running for each in app.sessions))
            streams = [each for one in app.sessions for each in (one.streams or {}).values()]
            assert len(streams) == 4
            assert sum(len(event) for each in streams for event in each._unread) == 0
            assert store.size <= 2_000_000

    with bounded(app) as port:
        run(scenario(port))

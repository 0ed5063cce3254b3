"""Clients that listen, on any worker: the newest connection gets each message, once."""

import asyncio

import pytest

from accord.sharing.workers import names
from support.http_talk import call
from support.shared import add_app, eventually, in_virtual_time, serve_shared
from support.shared_tools import Desk

LISTS = [f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")]


def heard(*answers):
    """What was heard: the URIs of updates, the texts of logs, the methods of the rest."""
    found = []
    for answer in answers:
        for message in answer.messages:
            params = message.get("params", {})
            found.append(params.get("uri") or params.get("data") or message["method"])
    return found


async def log_later(desk, client, at, text):
    """Let a worker send a message outside of any request."""
    await client.call(at, "note_later", name=text)
    desk.gates[text].set()


# -- changes


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("changed", [0, 1, 2])
@in_virtual_time
async def test_a_change_of_a_list_on_any_worker_is_heard(revision, changed):
    async with serve_shared(Desk().make, 3) as crew:
        client = await crew.open(revision)
        listening = await client.listen(1)
        await client.call(changed, "change", kind="tools")
        await eventually(lambda: heard(listening) == [LISTS[0]], seconds=0.5)
        await client.call(changed, "change", kind="resources")
        await eventually(lambda: heard(listening) == [LISTS[0], LISTS[2]], seconds=0.5)


@in_virtual_time
async def test_a_burst_of_changes_is_one_message():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        listening = await client.listen(1)
        for _ in range(10):
            crew[0].server.list_changed("tools")
        await asyncio.sleep(1)
        assert heard(listening) == [LISTS[0]]


@in_virtual_time
async def test_an_update_of_a_resource_is_heard_by_its_subscribers_alone():
    async with serve_shared(Desk().make, 3) as crew:
        subscriber, other = await crew.open(), await crew.open()
        await subscriber.ask(0, "resources/subscribe", uri="note://a")
        await other.ask(0, "resources/subscribe", uri="note://b")
        listening, elsewhere = await subscriber.listen(2), await other.listen(2)
        await subscriber.call(1, "touch", uri="note://a")
        await eventually(lambda: heard(listening) == ["note://a"], seconds=0.5)
        await subscriber.ask(1, "resources/unsubscribe", uri="note://a")
        await subscriber.call(1, "touch", uri="note://a")
        await subscriber.call(1, "touch", uri="note://b")
        await eventually(lambda: heard(elsewhere) == ["note://b"])
        await asyncio.sleep(2)
        assert heard(listening) == ["note://a"]


@in_virtual_time
async def test_updates_that_follow_each_other_closely_are_not_late():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        for uri in ("note://a", "note://b", "note://c"):
            await client.ask(0, "resources/subscribe", uri=uri)
        listening = await client.listen(1)
        began = asyncio.get_running_loop().time()
        for uri in ("note://a", "note://b", "note://c"):
            await client.call(0, "touch", uri=uri)
        await eventually(lambda: len(heard(listening)) == 3)
        assert asyncio.get_running_loop().time() - began < 0.2
        assert heard(listening) == ["note://a", "note://b", "note://c"]


@in_virtual_time
async def test_all_sessions_of_all_workers_hear_of_each_change_once():
    async with serve_shared(Desk().make, 3) as crew:
        clients = [await crew.open(at=number % 3) for number in range(30)]
        listening = [await each.listen(number % 3) for number, each in enumerate(clients)]
        for number in range(12):
            crew[number % 3].server.list_changed(("tools", "prompts")[number % 2])
            await asyncio.sleep(0.2)
        await asyncio.sleep(1)
        for answer in listening:
            assert heard(answer) == [LISTS[0], LISTS[1]] * 6


@in_virtual_time
async def test_changes_from_before_the_first_connection_reach_it():
    async with serve_shared(Desk().make, 2) as crew:
        earlier = await crew.open()
        await earlier.call(0, "change")
        await asyncio.sleep(1)
        client = await crew.open()
        await client.ask(0, "resources/subscribe", uri="note://a")
        await client.call(0, "touch", uri="note://a")
        await asyncio.sleep(1)
        listening = await client.listen(1)
        await eventually(lambda: heard(listening) == ["note://a"])


# -- messages of one session


@pytest.mark.parametrize("at", [0, 1])
@in_virtual_time
async def test_a_message_outside_of_requests_reaches_the_connection_wherever_it_is(at):
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client, other = await crew.open("2025-06-18"), await crew.open("2025-06-18")
        listening, elsewhere = await client.listen(1), await other.listen(1)
        await log_later(desk, client, at, "later")
        await eventually(lambda: heard(listening) == ["later later"], seconds=0.5)
        assert heard(elsewhere) == []


@in_virtual_time
async def test_messages_without_a_connection_wait_for_one():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-06-18")
        for text in "abc":
            await log_later(desk, client, 0, text)
        await asyncio.sleep(1)
        listening = await client.listen(1)
        await eventually(lambda: heard(listening) == ["later a", "later b", "later c"])


@in_virtual_time
async def test_a_connection_begins_with_the_oldest_message_that_is_kept():
    desk = Desk()
    async with serve_shared(desk.make, 2, stream_entries=3) as crew:
        client = await crew.open("2025-06-18")
        for number in range(8):
            await log_later(desk, client, 0, str(number))
            await asyncio.sleep(0.1)
        listening = await client.listen(1)
        await eventually(lambda: heard(listening) == ["later 5", "later 6", "later 7"])
        await log_later(desk, client, 0, "8")
        await eventually(lambda: heard(listening)[-1] == "later 8")


@in_virtual_time
async def test_notifications_that_are_lost_delay_messages_by_seconds():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-06-18")
        listening = await client.listen(1)
        await asyncio.sleep(0.1)
        crew.store.backend._followers._by_topic.clear()
        await log_later(desk, client, 0, "a")
        crew[0].server.list_changed("tools")
        await eventually(lambda: sorted(heard(listening)) == ["later a", LISTS[0]], seconds=5)


# -- several connections


@in_virtual_time
async def test_of_several_connections_the_newest_gets_the_messages():
    desk = Desk()
    async with serve_shared(desk.make, 3) as crew:
        client = await crew.open("2025-06-18")
        first = await client.listen(0)
        await client.call(2, "change")
        await eventually(lambda: heard(first) == [LISTS[0]])
        second = await client.listen(1)
        await client.call(2, "change", kind="prompts")
        await log_later(desk, client, 0, "a")
        await eventually(lambda: len(heard(second)) == 2)
        third = await client.listen(1)
        await client.call(2, "change", kind="resources")
        await log_later(desk, client, 2, "b")
        await eventually(lambda: len(heard(third)) == 2)
        await asyncio.sleep(2)
        assert heard(first) == [LISTS[0]]
        assert sorted(heard(second)) == ["later a", LISTS[1]]
        assert sorted(heard(third)) == ["later b", LISTS[2]]
        assert await crew.listeners(client) == 3


@in_virtual_time
async def test_an_older_connection_goes_on_when_the_newest_has_left():
    desk = Desk()
    async with serve_shared(desk.make, 3) as crew:
        client = await crew.open("2025-06-18")
        first, second = await client.listen(0), await client.listen(1)
        await log_later(desk, client, 2, "a")
        await client.call(2, "change")
        await eventually(lambda: len(heard(second)) == 2)
        second.disconnect()
        await second.done()
        await eventually(lambda: not crew[1].session(client).followed)
        await log_later(desk, client, 2, "b")
        await client.call(2, "change", kind="prompts")
        await eventually(lambda: sorted(heard(first)) == ["later b", LISTS[1]])
        await asyncio.sleep(2)
        assert len(heard(first)) == 2
        assert await crew.listeners(client) == 1


@in_virtual_time
async def test_messages_that_come_while_connections_change_arrive_once():
    desk = Desk()
    async with serve_shared(desk.make, 3) as crew:
        client = await crew.open("2025-06-18")
        answers = [await client.listen(0)]
        for number in range(40):
            await client.call(number % 3, "note_later", name=str(number))
        for number in range(40):
            desk.gates[str(number)].set()
            if number % 3 == 0:
                answers.append(await client.listen(number % 2 + 1))
            if number % 4 == 1:
                answers[number // 5].disconnect()
            await asyncio.sleep(0.003 * (number % 5))
        await asyncio.sleep(3)
        got = heard(*answers)
        assert sorted(got) == sorted(f"later {number}" for number in range(40))


@in_virtual_time
async def test_connections_of_one_session_are_limited_over_all_workers():
    async with serve_shared(Desk().make, 2, listeners=3) as crew:
        client = await crew.open()
        answers = [await client.listen(number % 2) for number in range(3)]
        for at in (0, 1):
            refused = await client.listen(at)
            assert refused.status == 429
            assert refused.reason == "3 streams of this session are open (listeners)"
        answers[0].disconnect()
        await answers[0].done()
        await eventually(lambda: not crew[0].session(client).followed[1:])
        await asyncio.sleep(0.5)
        assert (await client.listen(1)).status == 200
        for app in crew:
            recovery = await crew.store.backend.members(names.recovery_records_of(app.worker.id))
            assert len(recovery) == len(app.session(client).followed)


# -- going on elsewhere


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
@in_virtual_time
async def test_changes_and_messages_are_resumed_on_another_worker(revision):
    desk = Desk()
    async with serve_shared(desk.make, 3) as crew:
        client = await crew.open(revision)
        await client.ask(0, "resources/subscribe", uri="note://a")
        listening = await client.listen(1)
        await client.call(0, "change")
        await log_later(desk, client, 0, "a")
        await eventually(lambda: len(heard(listening)) == 2)
        listening.disconnect()
        await listening.done()
        await client.call(2, "change", kind="prompts")
        await client.call(2, "touch", uri="note://a")
        await log_later(desk, client, 0, "b")
        await asyncio.sleep(1)
        again = await client.listen(2, last=listening.all_events[-1].id)
        await eventually(lambda: len(heard(again)) == 3)
        await asyncio.sleep(2)
        assert sorted(heard(again)) == sorted(["later b", "note://a", LISTS[1]])
        ids = [each.id for each in (*listening.all_events, *again.all_events) if each.data]
        assert len(set(ids)) == len(ids) == 5


@in_virtual_time
async def test_every_event_can_be_resumed_from():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-06-18")
        listening = await client.listen(0)
        for number in range(4):
            await client.call(1, "change", kind=("tools", "prompts")[number % 2])
            await log_later(desk, client, 1, str(number))
            await asyncio.sleep(0.1)
        await eventually(lambda: len(heard(listening)) == 8)
        whole = heard(listening)
        sent = [each for each in listening.all_events if each.data]
        for cut, event in enumerate(sent):
            again = await client.listen(cut % 2, last=event.id)
            await eventually(lambda again=again, cut=cut: len(heard(again)) == 7 - cut)
            assert sorted(heard(again)) == sorted(whole[cut + 1 :])
            again.disconnect()
            await again.done()


@in_virtual_time
async def test_events_that_were_dropped_are_not_skipped_in_silence():
    desk = Desk()
    async with serve_shared(desk.make, 2, stream_entries=3) as crew:
        client = await crew.open("2025-06-18")
        listening = await client.listen(0)
        await log_later(desk, client, 0, "first")
        await eventually(lambda: heard(listening))
        listening.disconnect()
        await listening.done()
        for number in range(6):
            await log_later(desk, client, 0, str(number))
            await asyncio.sleep(0.05)
        refused = await client.listen(1, last=listening.all_events[-1].id)
        assert refused.status == 400


@in_virtual_time
async def test_a_client_that_knows_more_than_a_late_worker_hears_of_nothing_twice():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open("2025-06-18")
        listening = await client.listen(0)
        await client.call(0, "change")
        await eventually(lambda: heard(listening))
        listening.disconnect()
        await listening.done()
        broadcasts = crew[1].worker.broadcasts
        await eventually(lambda: broadcasts.position == 1)
        broadcasts.position = 0  # as if it had been stalled since then
        again = await client.listen(1, last=listening.all_events[-1].id)
        await eventually(lambda: broadcasts.position == 1)
        await client.call(0, "change", kind="prompts")
        await eventually(lambda: heard(again))
        assert heard(again) == [LISTS[1]]


@in_virtual_time
async def test_a_client_that_was_away_for_too_many_changes_hears_of_everything(monkeypatch):
    monkeypatch.setattr("accord.sharing.workers.messages._KEEP", 5)
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        await client.ask(0, "resources/subscribe", uri="note://a")
        listening = await client.listen(0)
        await client.call(1, "change")
        await eventually(lambda: heard(listening))
        last = listening.all_events[-1].id
        listening.disconnect()
        await listening.done()
        # A worker with little memory of the past.
        crew[1].worker.broadcasts._tail = type(crew[1].worker.broadcasts._tail)(maxlen=5)
        for _ in range(10):
            await client.call(0, "change")
            await asyncio.sleep(0.1)
        again = await client.listen(1, last=last)
        await eventually(lambda: len(heard(again)) >= 4)
        await asyncio.sleep(2)
        assert sorted(heard(again)) == sorted([*LISTS, "note://a"])
        # A client that is cut off in between gets all of it again.
        ids = [each.id for each in again.all_events if each.data]
        assert len({id for id in ids if id is not None}) == 1


@in_virtual_time
async def test_after_lost_data_each_list_is_reported_once():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        listening = await client.listen(1)
        for kind in ("tools", "prompts"):
            await client.call(0, "change", kind=kind)
        await eventually(lambda: len(heard(listening)) == 2)
        before = len(heard(listening))
        crew.store.lose_data()
        await asyncio.sleep(5)
        # The record is gone, so the connection ends; the client comes back.
        if listening.is_over:
            listening = await client.listen(0)
            before = 0
        await client.call(1, "change", kind="tools")
        await eventually(lambda: LISTS[0] in heard(listening)[before:])


# -- leaving


@in_virtual_time
async def test_a_client_that_leaves_at_any_moment_leaves_no_connection_behind():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-06-18")
        await client.call(1, "add", a=1, b=1)
        for turns in range(40):
            answer = client.start(turns % 2, "GET")
            for _ in range(turns):
                await asyncio.sleep(0)
            if turns % 4 < 2:
                answer.task.cancel()
            answer.disconnect()
            await asyncio.wait((answer.task,))
        await asyncio.sleep(1)
        assert await crew.listeners(client) == 0
        assert not any(app.session(client).followed for app in crew)
        for app in crew:
            assert await crew.store.backend.members(names.recovery_records_of(app.worker.id)) == []
            assert app.app.state.listening == 0
            assert app.worker.metrics.streams_followed == 0
        listening = await client.listen(0)
        await log_later(desk, client, 1, "a")
        await eventually(lambda: heard(listening) == ["later a"])


@pytest.mark.parametrize("operation", ["add", "put", "append", "remove"])
@pytest.mark.parametrize("is_carried_out", [True, False])
@in_virtual_time
async def test_a_store_that_fails_while_a_client_begins_to_listen_leaves_nothing(
    operation, is_carried_out
):
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-06-18")
        await client.call(1, "add", a=1, b=1)
        crew[0].backend.fail(operation, "", is_carried_out=is_carried_out)
        first = await client.listen(0)
        assert first.status in (200, 503)
        first.disconnect()
        await first.done()
        await asyncio.sleep(10)
        assert await crew.listeners(client) == 0
        second = await client.listen(1)
        await log_later(desk, client, 0, "a")
        await eventually(lambda: heard(second) == ["later a"])


@in_virtual_time
async def test_a_client_that_leaves_while_the_store_is_away_is_forgotten_later():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-06-18")
        older = await client.listen(1)
        newest = await client.listen(0)
        crew[0].backend.cut()
        newest.disconnect()
        await newest.done()
        await asyncio.sleep(0.5)
        crew[0].backend.mend()
        await asyncio.sleep(3)
        assert await crew.listeners(client) == 1
        await log_later(desk, client, 1, "a")
        await eventually(lambda: heard(older) == ["later a"])


@in_virtual_time
async def test_the_connections_of_a_killed_worker_are_forgotten():
    desk = Desk()
    async with serve_shared(desk.make, 3) as crew:
        client = await crew.open("2025-06-18")
        older = await client.listen(1)
        await client.listen(0)
        crew[0].kill()
        await log_later(desk, client, 1, "a")
        await eventually(lambda: heard(older) == ["later a"], seconds=5)
        assert await crew.listeners(client) == 1


@in_virtual_time
async def test_a_stalled_worker_that_was_taken_over_sends_nothing_beside_its_successor():
    desk = Desk()
    async with serve_shared(desk.make, 3) as crew:
        client = await crew.open("2025-06-18")
        old = await client.listen(0)
        id = crew[0].worker.id
        crew[0].backend.stall()
        await asyncio.sleep(5)
        new = await client.listen(1)
        crew[0].backend.move_on()
        await eventually(lambda: crew[0].worker.id != id)
        await asyncio.sleep(2)
        for text in "abc":
            await log_later(desk, client, 2, text)
            await client.call(2, "change")
            await asyncio.sleep(0.2)
        await eventually(lambda: len(heard(new)) == 6)
        await asyncio.sleep(2)
        assert heard(old) == []
        assert old.is_over


@in_virtual_time
async def test_a_client_of_a_stalled_worker_may_come_back_to_it():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-06-18")
        old = await client.listen(0)
        id = crew[0].worker.id
        crew[0].backend.stall()
        await asyncio.sleep(5)
        crew[0].backend.move_on()
        await eventually(lambda: crew[0].worker.id != id and old.is_over)
        again = await client.listen(0)
        await log_later(desk, client, 1, "a")
        await eventually(lambda: heard(again) == ["later a"])


# -- ending


@in_virtual_time
async def test_connections_end_when_their_session_is_deleted_elsewhere():
    async with serve_shared(Desk().make, 3) as crew:
        client = await crew.open()
        answers = [await client.listen(at) for at in (0, 1, 1)]
        await client.delete(2)
        for answer in answers:
            await eventually(lambda answer=answer: answer.is_over)
            assert answer.is_whole
        await asyncio.sleep(1)
        for app in crew:
            assert await crew.store.backend.members(names.recovery_records_of(app.worker.id)) == []


@in_virtual_time
async def test_a_worker_that_stops_sends_listening_clients_to_the_others():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-11-25")
        listening = await client.listen(0)
        await client.call(1, "change")
        await eventually(lambda: heard(listening))
        stopping = asyncio.create_task(crew[0].stop())
        await eventually(lambda: listening.is_over)
        assert listening.is_whole
        assert b"retry: 1000" in listening.body
        await client.call(1, "change", kind="prompts")
        again = await client.listen(1, last=listening.all_events[-1].id)
        await eventually(lambda: heard(again) == [LISTS[1]])
        await stopping
        await asyncio.sleep(3)
        assert await crew.listeners(client) == 1
        assert crew[1].worker.metrics.takeovers == 0


@in_virtual_time
async def test_a_worker_that_an_operator_drains_sends_listening_clients_away():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-11-25")
        listening = await client.listen(0)
        await crew[1].worker.send(crew[0].worker.id, "drain", b"")
        await eventually(lambda: listening.is_over)
        assert listening.is_whole
        assert crew[0].app.unready_reason == "the worker is draining"
        assert crew[1].app.unready_reason is None


@in_virtual_time
async def test_a_new_worker_knows_the_changes_from_before_it_joined():
    desk = Desk()
    async with serve_shared(desk.make, 1) as crew:
        client = await crew.open("2025-06-18")
        listening = await client.listen(0)
        await client.call(0, "change")
        await eventually(lambda: heard(listening))
        listening.disconnect()
        await listening.done()
        await client.call(0, "change", kind="prompts")
        await asyncio.sleep(0.5)
        await add_app(crew, desk.make)
        again = await client.listen(1, last=listening.all_events[-1].id)
        await eventually(lambda: heard(again) == [LISTS[1]])


@in_virtual_time
async def test_a_call_is_not_answered_on_a_connection_that_listens():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        listening = await client.listen(1)
        for id in range(5):
            await client.post(id % 2, call(id, "steps", token=id, n=2))
        await asyncio.sleep(2)
        assert heard(listening) == []

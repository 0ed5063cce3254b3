import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from accord.http.rules.sse import Decoder
from accord.http.server.exchange import AsgiExchange, AsgiReader
from accord.http.server.stream import Stream, parse_event_id
from accord.http.settings import read_http_settings
from accord.server import MemoryEventStore
from support.waiting import in_loop, run, until

HEAD = {"type": "http.response.start", "status": 200, "headers": []}
SCOPE = {"type": "http", "method": "GET", "path": "/mcp", "headers": []}


class Client:
    """The client of a response: the test decides how fast it reads and when it leaves."""

    def __init__(self, stream, among=None):
        self.sent = []
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.is_gone = asyncio.Event()
        self.fails = None
        self.among = set() if among is None else among
        exchange = AsgiExchange(read_http_settings({}), SCOPE, self.receive, self.send)
        self.reader = AsgiReader(stream, self.among, exchange, [])
        stream.attach(self.reader)
        self.task = asyncio.create_task(self.reader.follow())

    async def send(self, message):
        await self.may_read.wait()
        if self.fails is not None:
            raise self.fails
        self.sent.append(message)

    async def receive(self):
        await self.is_gone.wait()
        return {"type": "http.disconnect"}

    @property
    def body(self):
        return b"".join(each.get("body", b"") for each in self.sent)

    @property
    def is_complete(self):
        return bool(self.sent) and self.sent[-1].get("more_body") is False

    def messages(self):
        return [json.loads(event.data) for event in Decoder().feed(self.body)]

    def ids(self):
        return [event.id for event in Decoder().feed(self.body)]


def kept(name=1, **options):
    store = options.pop("store", None) or MemoryEventStore()
    return Stream(name, session="s", store=store, retry=7, **options)


def say(stream, *numbers):
    for number in numbers:
        stream.append(b"%d" % number)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("1-0", (1, 0)),
        ("12-345", (12, 345)),
        ("", None),
        ("1", None),
        ("1-0\n", None),
        ("١-٠", None),
    ],
)
def test_event_ids_name_their_stream_and_number(text, place):
    assert parse_event_id(text) == place


@in_loop
async def test_a_reader_writes_unread_events_and_then_no_task_runs():
    stream = kept()
    say(stream, 1, 2)
    client = Client(stream)
    await until(lambda: client.messages() == [1, 2])
    assert client.sent[0] == HEAD
    assert client.body.startswith(b"retry: 7\nevent: message\nid: 1-0\ndata: 1\n\n")
    assert client.reader._task is None
    say(stream, 3)
    await until(lambda: client.messages() == [1, 2, 3])
    stream.end()
    await client.task
    assert client.is_complete
    assert client.among == set()
    assert client.ids() == ["1-0", "1-1", "1-2"]


@in_loop
async def test_the_head_is_sent_before_any_message():
    client = Client(kept())
    await until(lambda: client.body)
    assert (client.sent[0], client.body) == (HEAD, b": keep-alive\n")
    client.is_gone.set()
    await client.task


@in_loop
async def test_a_stream_that_is_not_kept_has_no_ids():
    stream = Stream()
    stream.prime()
    say(stream, 1)
    client = Client(stream)
    stream.end()
    await client.task
    assert client.body == b"event: message\ndata: 1\n\n"
    assert stream.resume(0) is False


@in_loop
async def test_events_wait_while_no_response_follows():
    stream = kept()
    client = Client(stream)
    say(stream, 1)
    await until(lambda: client.messages() == [1])
    client.is_gone.set()
    await client.task
    assert stream.reader is None
    say(stream, 2, 3)
    again = Client(stream)
    stream.end()
    await again.task
    assert again.messages() == [2, 3]


@settings(max_examples=60, deadline=None)
@given(some.lists(some.sampled_from(["say", "cut", "turn"]), max_size=40))
def test_a_resumed_stream_loses_and_doubles_no_event_wherever_it_was_cut(steps):
    async def scenario():
        stream = kept()
        stream.prime()
        found, said, last = [], 0, None
        client = Client(stream)
        for step in steps:
            if step == "say":
                said += 1
                say(stream, said)
            elif step == "turn":
                await asyncio.sleep(0)
            elif client.ids():
                found += client.messages()
                last = client.ids()[-1]
                client.is_gone.set()
                assert stream.resume(parse_event_id(last)[1])
                client = Client(stream)
        stream.end()
        await client.task
        assert found + client.messages() == list(range(1, said + 1))

    run(scenario())


@in_loop
async def test_the_newest_reader_has_the_stream_alone():
    stream = kept()
    first = Client(stream)
    say(stream, 1)
    await until(lambda: first.messages() == [1])
    assert stream.resume(0)
    second = Client(stream)
    await first.task
    assert first.is_complete
    say(stream, 2)
    stream.end()
    await second.task
    assert (first.messages(), second.messages()) == ([1], [2])


@in_loop
async def test_resuming_needs_all_later_events():
    stream = kept(store=MemoryEventStore(session_bytes=300))
    say(stream, *range(20))
    assert [stream.resume(number) for number in (0, 17, 19, 20)] == [False, True, True, False]


class ForgetfulStore(MemoryEventStore):
    """Fails once."""

    def append(self, session, stream, number, event):
        if number == 1:
            raise OSError("the disk is full")
        super().append(session, stream, number, event)


@in_loop
async def test_a_stream_with_a_dropped_event_cannot_be_resumed():
    stream = kept(store=ForgetfulStore())
    say(stream, *range(4))
    assert not any(stream.resume(number) for number in range(4))


@in_loop
async def test_resuming_after_the_last_event_works_with_an_empty_store():
    store = MemoryEventStore()
    stream = kept(store=store)
    say(stream, 1, 2)
    store.forget("s")
    assert (stream.resume(1), stream.resume(0)) == (True, False)


@in_loop
async def test_a_slow_reader_slows_down_a_writer_that_waits():
    stream = kept()
    client = Client(stream)
    await until(lambda: client.body)
    client.may_read.clear()
    stream.append(b"1" * 50_000)
    await until(lambda: not stream.unread)  # it is being written, and not read
    await stream.writable()
    while not stream.is_congested:
        stream.append(b"1" * 50_000)
    assert stream.unread > 64 * 1024
    waiting = asyncio.create_task(stream.writable())
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    client.may_read.set()
    await waiting
    client.is_gone.set()
    await client.task


@in_loop
async def test_a_writer_does_not_wait_for_a_reader_that_is_gone():
    stream = kept()
    client = Client(stream)
    client.may_read.clear()
    stream.append(b"1" * 100_000)
    stream.append(b"1" * 100_000)
    await asyncio.sleep(0)
    waiting = asyncio.create_task(stream.writable())
    await asyncio.sleep(0.01)  # clock: time in which a wrong writer would go on
    assert not waiting.done()
    client.is_gone.set()
    await client.task
    await waiting
    await stream.writable()


@in_loop
async def test_events_for_a_reader_that_left_are_only_in_the_store():
    stream = kept()
    client = Client(stream)
    await until(lambda: client.body)
    client.may_read.clear()
    for number in range(100):
        stream.append(b'"%d%s"' % (number, b"x" * 10_000))
        await asyncio.sleep(0)
    client.is_gone.set()
    await client.task
    assert held(stream) == 0
    for number in range(100, 200):
        stream.append(b'"%d%s"' % (number, b"x" * 10_000))
    assert held(stream) == 0
    stream.end()
    assert stream.resume(9)
    assert held(stream) < 300_000
    again = Client(stream)
    await again.task
    assert [int(each.strip("x")) for each in again.messages()] == list(range(10, 200))
    assert again.is_complete


@in_loop
async def test_without_a_store_events_for_a_reader_that_left_are_dropped():
    stream = Stream()
    client = Client(stream)
    await until(lambda: client.body)
    client.is_gone.set()
    await client.task
    for _ in range(100):
        stream.append(b'"%s"' % (b"x" * 10_000))
    assert held(stream) == 0


@in_loop
async def test_few_events_are_held_for_a_stalled_reader():
    store = MemoryEventStore(session_bytes=100_000_000, bytes=100_000_000)
    stream = kept(store=store)
    client = Client(stream)
    await until(lambda: client.body)
    client.may_read.clear()
    stream.append(b'"0"')
    await until(lambda: client.reader.is_stalled())
    for number in range(1, 500):
        stream.append(b'"%d%s"' % (number, b"x" * 10_000))
    assert held(stream) < 400_000
    client.may_read.set()
    stream.end()
    await client.task
    assert [int(each.strip("x")) for each in client.messages()] == list(range(500))
    assert client.is_complete


@in_loop
async def test_a_reader_stalled_for_too_long_is_disconnected_instead_of_losing_events():
    stream = kept(store=MemoryEventStore(session_bytes=500_000))
    client = Client(stream)
    await until(lambda: client.body)
    client.may_read.clear()
    stream.append(b'"0"')
    await until(lambda: client.reader.is_stalled())
    for number in range(1, 500):
        stream.append(b'"%d%s"' % (number, b"x" * 10_000))
    client.may_read.set()
    await client.task
    found = [int(each.strip("x")) for each in client.messages()]
    assert found == list(range(len(found)))
    assert not client.is_complete
    assert not stream.resume(len(found) - 1)


@in_loop
async def test_a_listener_begins_with_the_oldest_event_in_the_store():
    stream = kept(store=MemoryEventStore(session_bytes=100_000), is_lossy=True)
    for number in range(100):
        stream.append(b'"%d%s"' % (number, b"x" * 5_000))
    assert held(stream) == 0
    stream.skip_lost()
    client = Client(stream)
    await until(lambda: b'"99' in client.body)
    found = [int(each.strip("x")) for each in client.messages()]
    assert found == list(range(found[0], 100))
    assert len(found) >= 18
    client.is_gone.set()
    await client.task


@in_loop
async def test_a_listener_whose_events_were_all_dropped_gets_the_next():
    store = MemoryEventStore()
    stream = kept(store=store, is_lossy=True)
    say(stream, 1, 2, 3)
    store.forget("s")
    stream.skip_lost()
    client = Client(stream)
    await until(lambda: client.body)
    say(stream, 4)
    await until(lambda: client.messages() == [4])
    client.is_gone.set()
    await client.task


class Failing(MemoryEventStore):
    is_broken = False

    def append(self, *args):
        if self.is_broken:
            raise OSError("disk full")
        super().append(*args)


@pytest.mark.parametrize("is_lossy", [True, False], ids=["listening", "answer"])
def test_a_store_that_fails_without_a_reader_loses_only_its_own_events(is_lossy, caplog):
    async def scenario():
        store = Failing()
        stream = kept(store=store, is_lossy=is_lossy)
        client = Client(stream)
        await until(lambda: client.body)
        client.is_gone.set()
        await client.task
        say(stream, 1)
        store.is_broken = True
        say(stream, 2, 3)
        assert not stream.resume(-1)
        stream.skip_lost()
        again = Client(stream)
        stream.end()
        await again.task
        assert again.messages() == ([2, 3] if is_lossy else [])

    run(scenario())
    assert "the event store failed" in caplog.text


def held(stream):
    """How many bytes a stream itself keeps."""
    return sum(map(len, stream._unread))


@in_loop
async def test_the_response_to_a_listener_is_completed_if_its_session_ends_before_it_reads():
    store = MemoryEventStore()
    stream = kept(store=store, is_lossy=True)
    stream.prime()
    client = Client(stream)
    stream.end()
    store.forget("s")
    await client.task
    assert client.is_complete


@in_loop
async def test_many_bytes_are_written_in_chunks():
    stream = kept()
    for number in range(100):
        stream.append(b'"%d%s"' % (number, b"x" * 5_000))
    client = Client(stream)
    stream.end()
    await client.task
    assert len(client.messages()) == 100
    assert max(len(each.get("body", b"")) for each in client.sent) < 80_000


def test_take_all_returns_all_unread_events():
    stream = Stream()
    for _ in range(100):
        stream.append(b"1" * 5_000)
    assert (len(stream.take_all()) > 500_000, stream.unread, stream.take_all()) == (True, 0, b"")


@in_loop
async def test_a_lossy_stream_keeps_a_limited_number_of_bytes():
    stream = kept(is_lossy=True)
    for number in range(300):
        stream.append(b'"%d%s"' % (number, b"x" * 10_000))
    assert stream.unread <= 1024 * 1024
    client = Client(stream)
    stream.end()
    await client.task
    assert client.messages()[-1].startswith("299")


@in_loop
async def test_a_listener_that_misses_events_is_disconnected():
    stream = kept(is_lossy=True)
    client = Client(stream)
    await until(lambda: client.body)
    client.may_read.clear()
    for number in range(300):
        stream.append(b'"%d%s"' % (number, b"x" * 10_000))
        await asyncio.sleep(0)
    await client.task
    assert not client.is_complete
    assert stream.reader is None


@pytest.mark.parametrize("error", [OSError("gone"), RuntimeError("gone")])
@in_loop
async def test_any_error_of_send_means_that_the_client_is_gone(error):
    stream = kept()
    client = Client(stream)
    await until(lambda: client.body)
    client.fails = error
    say(stream, 1)
    await client.task
    assert (stream.reader, client.among) == (None, set())
    assert stream.resume(-1)


@in_loop
async def test_a_silent_stream_gets_comments():
    stream = kept()
    client = Client(stream)
    await until(lambda: client.body)
    await asyncio.sleep(0)  # the write is noted after it was made
    written = client.reader.last_write
    client.reader.tick(written + 14, keep_alive=15, write_timeout=60)
    await asyncio.sleep(0)
    assert client.body.count(b"keep-alive") == 1
    client.reader.tick(client.reader.last_write + 15, keep_alive=15, write_timeout=60)
    await until(lambda: client.body.count(b"keep-alive") >= 2)
    client.is_gone.set()
    await client.task


@in_loop
async def test_a_client_that_reads_nothing_is_disconnected():
    stream = kept()
    client = Client(stream)
    client.may_read.clear()
    say(stream, 1)
    await asyncio.sleep(0)
    written = client.reader.last_write
    client.reader.tick(written + 59, keep_alive=15, write_timeout=60)
    assert not client.reader.is_done
    client.reader.tick(written + 60, keep_alive=15, write_timeout=60)
    await client.task
    assert stream.resume(-1)
    again = Client(stream)
    stream.end()
    await again.task
    assert again.messages() == [1]


@in_loop
async def test_a_response_may_end_before_its_stream():
    stream = kept()
    client = Client(stream)
    say(stream, 1)
    client.reader.end()
    await client.task
    assert (client.messages(), client.is_complete, stream.is_ended) == ([1], True, False)


@in_loop
async def test_cancelling_the_request_ends_its_response_but_not_the_stream():
    stream = kept()
    client = Client(stream)
    await until(lambda: client.body)
    client.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await client.task
    assert stream.reader is None
    say(stream, 1)
    again = Client(stream)
    stream.end()
    await again.task
    assert again.messages() == [1]


@in_loop
async def test_a_stream_is_primed_so_that_it_can_be_resumed_from_the_start():
    stream = kept()
    stream.prime()
    client = Client(stream)
    await until(lambda: client.body)
    assert client.body.startswith(b"retry: 7\nid: 1-0\ndata: \n\n")
    client.is_gone.set()
    await client.task
    say(stream, 1)
    assert stream.resume(0)
    again = Client(stream)
    stream.end()
    await again.task
    assert again.messages() == [1]

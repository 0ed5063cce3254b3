import pytest

from accord.http.rules import sse
from accord.http.rules.sse import Decoder, Event, EventIdTooLong, EventTooLong
from support.tables import cases

STREAM = (
    b"\xef\xbb\xbf: hello\n"
    b"retry: 700\n\n"
    b"id: 1\ndata:\n\n"
    b'event: message\nid: 2\ndata: {"a": 1}\n\n'
    b"event: endpoint\ndata: /messages?x=1\n\n"
    b"id: 3\r\ndata: one\r\ndata: two\r\n\r\n"
    b"data: no id\n\n"
    b"id\rdata: end\r\r"
)
EVENTS = [
    Event(b'{"a": 1}', "message", "2"),
    Event(b"/messages?x=1", "endpoint"),
    Event(b"one\ntwo", "message", "3"),
    Event(b"no id"),
    Event(b"end", "message", ""),
]


@cases("size", [1, 2, 3, 5, 7, len(STREAM)])
def test_events_are_the_same_however_the_bytes_are_cut(size):
    decoder = Decoder()
    found = []
    for start in range(0, len(STREAM), size):
        found += decoder.feed(STREAM[start : start + size])
    assert found == EVENTS
    assert decoder.last_id == ""
    assert decoder.retry == 700


def test_an_event_is_written_field_by_field():
    written = sse.encode(b"{}", name="endpoint", id="1", retry=700)
    assert written == b"retry: 700\nevent: endpoint\nid: 1\ndata: {}\n\n"


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"], ids=["newline", "return", "both"])
def test_data_of_several_lines_is_written_line_by_line(end):
    assert sse.encode(b"a" + end + b"b") == b"data: a\ndata: b\n\n"


def test_an_encoded_event_is_decoded():
    written = sse.encode(b"a\r\nb\rc\nd", name="message", id="x") + sse.encode(b"{}")
    assert list(Decoder().feed(written)) == [Event(b"a\nb\nc\nd", "message", "x"), Event(b"{}")]


def test_an_end_of_line_may_be_cut_and_nothing_come_between():
    chunks = [b"data: a\r", b"", b"\ndata: b\r\n\r\n"]
    decoder = Decoder()
    assert [event for chunk in chunks for event in decoder.feed(chunk)] == [Event(b"a\nb")]


@pytest.mark.parametrize(
    ("before", "events"),
    [(b"", [Event(b"x")]), (b"\n", []), (b": comment\n", [])],
    ids=["first", "after a blank line", "after a comment"],
)
def test_a_byte_order_mark_is_one_only_at_the_beginning(before, events):
    assert list(Decoder().feed(before + b"\xef\xbb\xbfdata: x\n\n")) == events


def test_invalid_utf8_is_replaced_in_names_and_ids():
    written = b"event: \xff\nid: \xff\ndata: x\n\n"
    assert list(Decoder().feed(written)) == [Event(b"x", "\ufffd", "\ufffd")]


def test_an_event_without_id_leaves_where_to_resume():
    decoder = Decoder()
    list(decoder.feed(b"id: 1\ndata: a\n\ndata: b\n\n"))
    assert decoder.last_id == "1"


def test_a_recorder_also_gets_events_without_data():
    text = b"id: 1\n\nid: 2\ndata:\n\n: comment\n\nretry: 5\n\nevent: ping\n\ndata: x\n\n"
    decoder = Decoder(with_empty=True)
    assert list(decoder.feed(text)) == [
        Event(b"", id="1"),
        Event(b"", id="2"),
        Event(b"", "ping"),
        Event(b"x"),
    ]
    assert decoder.retry == 5
    assert list(Decoder().feed(text)) == [Event(b"x")]


def test_an_event_without_data_names_where_to_resume():
    decoder = Decoder()
    assert list(decoder.feed(b"id: prime\nretry: 5\n\n")) == []
    assert (decoder.last_id, decoder.retry) == ("prime", 5)


def test_the_id_of_an_incomplete_event_is_not_where_to_resume():
    decoder = Decoder()
    list(decoder.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b\n"))
    assert decoder.last_id == "1"


def test_a_stream_taken_up_again_forgets_what_was_incomplete():
    decoder = Decoder()
    list(decoder.feed(b"id: 1\ndata: a\n\nevent: other\nid: 2\ndata: b"))
    decoder.restart()
    assert list(decoder.feed(b"id: 2\ndata: b\n\n")) == [Event(b"b", "message", "2")]


def test_another_response_begins_like_a_first_one():
    decoder = Decoder(limit=10)
    list(decoder.feed(b"data: 12345\ndata: "))
    decoder.restart()
    assert list(decoder.feed(b"\xef\xbb\xbfdata: 1234567890\n\n")) == [Event(b"1234567890")]
    list(decoder.feed(b"data: "))
    decoder.restart()
    assert list(decoder.feed(b"data: 1234")) == []


def test_a_retry_may_last_for_years():
    decoder = Decoder()
    list(decoder.feed(b"retry: 999999999999\n\n"))
    assert decoder.retry == 999_999_999_999


@cases("line", [b"retry: soon", b"retry: -1", b"retry: 9999999999999999", b"other: 5"])
def test_a_retry_that_is_not_a_time_is_ignored(line):
    decoder = Decoder()
    list(decoder.feed(line + b"\n\n"))
    assert decoder.retry is None


def test_an_id_with_a_null_character_is_ignored():
    decoder = Decoder()
    assert list(decoder.feed(b"id: a\0b\ndata: x\n\n")) == [Event(b"x")]
    assert decoder.last_id is None


@pytest.mark.parametrize("chunk", [b"data: 1234567890", b"data: 123456\ndata: 7890123\n"])
def test_an_event_that_outgrows_the_limit_is_refused(chunk):
    with pytest.raises(EventTooLong, match="message_bytes"):
        list(Decoder(limit=10).feed(chunk))


def test_events_up_to_the_limit_are_read_one_after_another():
    decoder = Decoder(limit=10)
    for chunk in (b"data: 1234", b"\n\n", b"data: 5678", b"\n\n"):
        list(decoder.feed(chunk))
    found = list(decoder.feed(b"data: 1234567890\n\ndata: 0987654321\n\n"))
    assert found == [Event(b"1234567890"), Event(b"0987654321")]


@pytest.mark.parametrize("line", [b"data:\n", b"data\n", b"data: \n"], ids=str)
def test_data_lines_without_text_count_towards_the_limit(line):
    with pytest.raises(EventTooLong, match=r"1000 bytes; limits=Limits\(message_bytes=\.\.\.\)"):
        list(Decoder(limit=1_000).feed(line * 1_000))


def test_short_data_lines_are_held_in_few_objects():
    decoder = Decoder()
    for _ in range(10_000):
        list(decoder.feed(b"data: ab\n"))
    assert isinstance(decoder._data, bytearray)
    assert list(decoder.feed(b"\n")) == [Event(b"\n".join([b"ab"] * 10_000))]


def test_a_line_sent_byte_by_byte_is_held_in_few_objects():
    decoder = Decoder()
    for _ in range(100_000):
        list(decoder.feed(b"x"))
    assert len(decoder._rest) <= 100_000 / 4_096 + 1


def test_an_event_id_of_1024_bytes_is_kept():
    id = "x" * 1_024
    assert list(Decoder().feed(f"id: {id}\ndata: 1\n\n".encode())) == [Event(b"1", "message", id)]


def test_a_longer_event_id_is_refused():
    with pytest.raises(EventIdTooLong, match="event id exceeds the limit of 1024 bytes"):
        list(Decoder().feed(b"id: " + b"x" * 1_025 + b"\n"))


def test_a_long_event_name_is_cut():
    (event,) = Decoder().feed(b"event: " + b"x" * 10_000 + b"\ndata: 1\n\n")
    assert len(event.name) == 100


@cases("size", [1, 7, 100, 10_000, 1_000_000])
@cases("break_", [b"\n", b"\r\n"])
def test_an_event_that_is_too_long_is_passed_over_with_its_ends_however_it_is_cut(size, break_):
    long = b'{"id":1,"result":"%b"}' % (b"x" * 20_000)
    lines = [b"data: a", b"", b"id: 5", b"data: " + long, b"data: more", b"", b"data: b", b"", b""]
    text = break_.join(lines)
    decoder = Decoder(10_000, with_lost=True)
    found = [
        event
        for start in range(0, len(text), size)
        for event in decoder.feed(text[start : start + size])
    ]
    first, *begun, lost, last = found
    assert [event.lost for event in begun] in ([], [(long[:4096], b"")])
    assert (first.data, last.data, lost.id, decoder.last_id) == (b"a", b"b", "5", "5")
    assert lost.lost == (long[:4096], (long + b"more")[-4096:])


def test_an_event_without_end_is_refused():
    decoder = Decoder(100, with_lost=True)
    with pytest.raises(EventTooLong):
        [event for _ in range(1_000) for event in decoder.feed(b"data: " + b"x" * 200)]


def test_an_event_that_is_too_long_is_forgotten_with_its_response():
    decoder = Decoder(100, with_lost=True)
    (begun,) = decoder.feed(b"data: " + b"x" * 200)
    assert begun.lost == (b"x" * 200, b"")
    decoder.restart()
    assert [event.data for event in decoder.feed(b"data: b\n\n")] == [b"b"]

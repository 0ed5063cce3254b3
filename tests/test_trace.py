import io
import os
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from accord.errors import TraceError
from accord.trace import HttpFacts, Record, read, write
from support.tables import cases

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def lines(*texts: bytes) -> io.BytesIO:
    return io.BytesIO(b"".join(text + b"\n" for text in texts))


def line_of(message: bytes, sender: bytes = b"client") -> bytes:
    return b'{"from":"%s","message":%s}' % (sender, message)


def refusal(data: bytes, **options) -> str:
    with pytest.raises(TraceError) as caught:
        list(read(io.BytesIO(data), **options))
    return str(caught.value)


def test_a_full_line_becomes_a_record():
    [record] = read(
        lines(
            b'{"t":1.5,"from":"server","transport":"http","message":{"jsonrpc":"2.0"},'
            b'"http":{"status":200,"headers":{"Content-Type":"application/json"},"stream":"a"}}'
        )
    )
    assert (record.t, record.sender, record.transport, record.number) == (1.5, "server", "http", 1)
    assert bytes(record.message) == b'{"jsonrpc":"2.0"}'
    assert record.raw is None
    assert record.http == HttpFacts(
        status=200, headers={"content-type": "application/json"}, stream="a"
    )


def test_members_that_are_not_known_are_skipped():
    [record] = read(lines(b'{"from":"client","message":1,"note":"later versions may say more"}'))
    assert bytes(record.message) == b"1"


def test_the_text_of_a_message_is_kept_as_it_travelled():
    text = b'{"a": 1,  "a":2, "n":1.0, "s":"\\u00e9"}'
    [record] = read(lines(line_of(text)))
    assert bytes(record.message) == text


def test_half_a_surrogate_pair_can_still_be_judged():
    [record] = read(lines(line_of(b'{"text":"\\ud83d"}', b"server")))
    assert bytes(record.message) == b'{"text": "\\ud83d"}'


def test_bytes_that_are_not_text_survive_a_recording():
    text = b"caf\xe9\n".decode(errors="surrogateescape")
    file = io.BytesIO()
    write(file, Record(sender="server", raw=text))
    file.seek(0)
    [record] = read(file)
    assert record.raw.encode(errors="surrogateescape") == b"caf\xe9\n"


def test_blank_lines_are_skipped_and_counted():
    records = list(read(lines(b"", line_of(b"1"), b"  \t", line_of(b"2"))))
    assert [record.number for record in records] == [2, 4]


def test_windows_line_ends_and_a_byte_order_mark_are_accepted():
    data = b"\xef\xbb\xbf" + line_of(b"1") + b"\r\n" + line_of(b"2") + b"\r\n"
    assert len(list(read(io.BytesIO(data)))) == 2


def test_a_byte_order_mark_may_have_the_first_line_for_itself():
    (record,) = read(io.BytesIO(b"\xef\xbb\xbf\n" + line_of(b"1") + b"\n"))
    assert record.number == 2


def test_the_last_line_may_lack_its_newline():
    assert len(list(read(io.BytesIO(line_of(b"1") + b"\n" + line_of(b"2"))))) == 2


def test_text_and_http_can_travel_without_a_message():
    records = list(
        read(
            lines(
                b'{"from":"server","raw":"Starting up","message":null}',
                b'{"from":"client","transport":"http","http":{"method":"GET"}}',
            )
        )
    )
    assert [record.message for record in records] == [None, None]
    assert records[0].raw == "Starting up"
    assert records[1].http == HttpFacts(method="GET")


def test_header_names_are_found_in_any_case():
    facts = HttpFacts(headers={"Mcp-Session-Id": "x"})
    assert facts.header("MCP-SESSION-ID") == "x"
    assert facts.header("accept") is None
    assert facts == HttpFacts(headers={"mcp-session-id": "x"})


def test_a_header_that_was_not_recorded_is_unknown_not_absent():
    unknown = HttpFacts(headers={"Accept": "*/*"})
    assert (unknown.knows("ACCEPT"), unknown.lacks("accept")) == (True, False)
    assert (unknown.knows("mcp-session-id"), unknown.lacks("mcp-session-id")) == (False, False)
    partly = HttpFacts(recorded=("Mcp-Session-Id",))
    assert (partly.knows("mcp-session-id"), partly.lacks("MCP-SESSION-ID")) == (True, True)
    assert (partly.knows("accept"), partly.lacks("accept")) == (False, False)
    assert HttpFacts(recorded="all").lacks("accept")


def test_facts_of_http_are_read_as_they_were_written():
    facts = HttpFacts(
        *("GET", 200, {"accept": "x"}, "s"),
        recorded="all",
        exchange="e",
        path="/mcp",
        query="",
        event="message",
        id="1",
        retry=5,
        data="d",
        size=0,
        ended="server",
    )
    line = Record(sender="server", transport="http", http=facts).encode()
    (record,) = read(lines(line))
    assert record.http == facts


@cases(
    ("status", "is_refusal"), [(None, False), (200, False), (399, False), (400, True), (503, True)]
)
def test_a_request_is_refused_from_400_on(status, is_refusal):
    assert HttpFacts(status=status).is_refusal is is_refusal


@cases(
    ("data", "reason"),
    [
        (b"", "the recording is empty"),
        (b"\n \n", "the recording is empty"),
        (b"\xef\xbb\xbf", "the recording is empty"),
        (line_of(b"1") + b"\nnope\n", "line 2: not JSON at byte 0: expecting value"),
        (line_of(b"01") + b"\n", "line 1: not JSON at byte 28: expecting ',' delimiter"),
        ('{"é": x}\n'.encode(), "line 1: not JSON at byte 7: expecting value"),
        (b'{"from":"client","mess', "line 1: not JSON at byte 17: unterminated string starting at"),
        (b'{"from":"client","mess', "the line has no end: the recording may be cut off"),
        (b"[1]\n", "line 1: expected `object`, got `array`"),
        (b'{"message":1}\n', "line 1: object missing required field `from`"),
        (b'{"from":"proxy","message":1}\n', 'expected "client" or "server"'),
        (b'{"from":"client","message":1,"transport":"x"}\n', 'expected "stdio", "http" or "sse"'),
        (b'{"from":"client","message":1,"t":"x"}\n', "expected `float | null`, got `str`"),
        (b'{"from":"client"}\n', 'line 1: neither "message" nor "raw" nor "http" is given'),
        (b'{"from":"client","message":null}\n', 'neither "message" nor "raw" nor "http" is given'),
        (line_of(b'"\xff"') + b"\n", "line 1: not UTF-8 at byte 28"),
        (line_of(b"NaN") + b"\n", "line 1: cannot be decoded: the constant NaN is not JSON"),
        (b'["\\ud800"]\n', "line 1: expected `object`, got `array`"),
        (b'{"from":"\\ud800","message":1}\n', "line 1: cannot be decoded: "),
        (b'{"raw":"\\ud800","from":"proxy"}\n', "line 1: invalid enum value 'proxy'"),
        (b'{"raw":"\\ud800","from":"proxy"}\n', 'expected "client" or "server"'),
        (line_of(b"[" * 100_000 + b"]" * 100_000) + b"\n", "line 1: nested too deeply"),
    ],
)
def test_a_broken_record_is_reported_with_its_line(data, reason):
    assert reason in refusal(data)


def test_a_line_that_has_an_end_is_not_said_to_be_cut_off():
    assert refusal(b"nope\n") == "line 1: not JSON at byte 0: expecting value"


def test_the_error_carries_the_line():
    with pytest.raises(TraceError) as caught:
        list(read(lines(line_of(b"1"), b"{")))
    assert caught.value.line == 2


def test_records_before_a_broken_line_still_come():
    records = read(lines(line_of(b"1"), b"{"))
    assert bytes(next(records).message) == b"1"
    with pytest.raises(TraceError):
        next(records)


def test_a_line_at_the_limit_is_read_and_one_above_is_refused():
    line = line_of(b'"aaaa"') + b"\n"
    assert len(list(read(io.BytesIO(line), line_limit=len(line)))) == 1
    assert refusal(line, line_limit=len(line) - 1) == f"line 1: longer than {len(line) - 1} bytes"


def test_a_line_without_end_does_not_eat_memory():
    endless = io.BufferedReader(Endless(), buffer_size=1 << 16)
    tracemalloc.start()
    with pytest.raises(TraceError, match="line 1: longer than 1000000 bytes"):
        list(read(endless, line_limit=1_000_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8_000_000


class Endless(io.RawIOBase):
    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        buffer[:] = b"a" * len(buffer)
        return len(buffer)


def test_a_path_is_opened_and_closed(tmp_path):
    path = tmp_path / "session.jsonl"
    path.write_bytes(line_of(PING) + b"\n")
    assert [bytes(record.message) for record in read(path)] == [PING]
    assert [record.number for record in read(str(path))] == [1]


@pytest.mark.parametrize(
    ("name", "reason"), [("missing.jsonl", "no such file or directory"), ("", "is a directory")]
)
def test_a_path_that_cannot_be_opened_is_a_trace_error(tmp_path, name, reason):
    with pytest.raises(TraceError, match=reason):
        list(read(tmp_path / name))


def test_a_file_that_cannot_be_read_is_a_trace_error():
    read_end, write_end = os.pipe()
    os.close(read_end)
    with open(write_end, "wb") as file, pytest.raises(TraceError):
        list(read(file))


def test_a_record_without_extras_is_a_short_line():
    record = Record(sender="client", message=msgspec.Raw(PING))
    assert record.encode() == b'{"from":"client","transport":"stdio","message":' + PING + b"}"


def test_a_message_written_over_several_lines_stays_one_record():
    file = io.BytesIO()
    write(file, Record(sender="client", message=msgspec.Raw(b'{\r\n "a": 1\n}')))
    assert file.getvalue().count(b"\n") == 1
    file.seek(0)
    [record] = read(file)
    assert msgspec.json.decode(record.message) == {"a": 1}


texts = some.text(some.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    some.lists(
        some.builds(
            Record,
            sender=some.sampled_from(["client", "server"]),
            t=some.none() | some.floats(allow_nan=False, allow_infinity=False),
            transport=some.sampled_from(["stdio", "http", "sse"]),
            message=some.dictionaries(texts, texts).map(msgspec.json.encode).map(msgspec.Raw),
            raw=some.none() | texts,
            http=some.none()
            | some.builds(
                HttpFacts,
                method=some.none() | texts,
                status=some.none() | some.integers(100, 599),
                headers=some.dictionaries(texts, texts),
                stream=some.none() | texts,
            ),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_reading_gives_back_what_was_written(records):
    file = io.BytesIO()
    for record in records:
        write(file, record)
    file.seek(0)
    again = list(read(file))
    assert [record.number for record in again] == list(range(1, len(records) + 1))
    assert [record.encode() for record in again] == [record.encode() for record in records]


def test_a_record_of_mere_text_has_a_null_message():
    record = Record(sender="server", raw="ready\n")
    assert (
        record.encode() == b'{"from":"server","transport":"stdio","message":null,"raw":"ready\\n"}'
    )

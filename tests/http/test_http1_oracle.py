"""The same bytes to the listener and to h11: what the listener accepts, h11 reads in the same way.

h11 is a parser by others. It is more lenient in some ways, which do not matter here: where the
listener refuses, nothing is executed. It must never be stricter, except as `TOLERATED` says.
"""

import asyncio
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.http1_answers import answers
from support.http1_memory import EchoApp, Read, memory
from support.http1_oracle import is_tolerated, read_by_h11
from support.http_server import on_listener

pytestmark = on_listener


def plain(read):
    """A request as both can describe it: a target without its host and its fragment."""
    target = read.target.partition(b"#")[0]
    if b"://" in target:
        target = b"/" + target.partition(b"://")[2].partition(b"/")[2]
    # h11 writes the coding in lower case.
    codings = (b"transfer-encoding",)
    headers = tuple(
        (name, value.lower() if name in codings else value) for name, value in read.headers
    )
    return Read(read.method, target, read.version, headers, read.body)


def difference(data, ours, raw):
    """Say where the listener has read something that h11 has not; None if nowhere."""
    statuses = [answer.status for answer in answers(raw, [])] if raw else []
    theirs, why = read_by_h11(data)
    for number, read in enumerate(ours):
        if number >= len(theirs):
            is_kept_1_0 = why == "ends" and ours[number - 1].version == b"1.0"
            if is_kept_1_0 or is_tolerated(why):
                return None
            return f"request {number} is served ({read}), and h11 says {why!r}"
        if plain(read) != plain(theirs[number]):
            return f"request {number} is {read}, and for h11 {theirs[number]}"
    if len([status for status in statuses if status == 200]) != len(ours):
        return f"{len(ours)} requests are served, and the responses are {statuses}"
    return None


# -- requests


TARGETS = [
    b"/",
    b"/mcp",
    b"/a/b?c=d",
    b"/a?b=c?d",
    b"/%20%zz",
    b"http://localhost/x?y",
    b"*",
    b"//x",
]
LINES = [
    b"X: y", b"x:", b"X-Y:  a b\t", b"Accept: */*", b"Connection: keep-alive", b"Connection: close",
    b"Connection: Upgrade\r\nUpgrade: h2c", b"X: \xff\xe9", b"X: a\r\n b", b"X : y", b": y", b"X",
    b"X: \x01", b"X: a\0b", b"Expect: 100-continue", b"Transfer-Encoding: identity",
    b"Transfer-Encoding: gzip, chunked", b"Content-Length: 3", b"Content-Length: 3, 3",
    b"Content-Length: +3", b"Host: other", b"TE: trailers", b"Trailer: X", b"Content-Length:",
    b"Transfer-Encoding:\tchunked", b"Transfer-Encoding: Chunked", b"X: a\rb", b"X: a\nb",
]  # fmt: skip
EXTENSIONS = [
    b"", b"", b";a", b";a=b", b';a="b"', b";", b" ", b";a\nb", b" ;a", b"; a=b", b";a\rb",
]  # fmt: skip
SCRAPS = [
    b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b";", b",", b"0", b"f", b"\xff", b"\x0b", b"-",
    b"+", b"x", b"_", b"#", b"%", b"\x7f", b"\x80",
    b"HTTP/1.1", b"chunked", b"0\r\n\r\n", b"\r\n\r\n",
]  # fmt: skip


@st.composite
def bodies(draw):
    """A body with the line that frames it."""
    body = draw(st.sampled_from([b"", b"abc", b"GET / HTTP/1.1\r\n\r\n", b"x" * 300, b"\r\n\0"]))
    kind = draw(st.sampled_from(["none", "length", "length", "chunks", "chunks", "both"]))
    if kind == "none":
        return b"", b""
    if kind == "length":
        return b"Content-Length: %d\r\n" % len(body), body
    parts = []
    for at in range(0, len(body), 7):
        part = body[at : at + 7]
        form = draw(st.sampled_from([b"%x", b"%X", b"0%x"]))
        parts.append(
            form % len(part) + draw(st.sampled_from(EXTENSIONS)) + b"\r\n" + part + b"\r\n"
        )
    trailers = draw(st.sampled_from([b"", b"", b"X: y\r\n", b"Content-Length: 3\r\n", b"X\r\n"]))
    lines = b"Transfer-Encoding: chunked\r\n" + (
        b"Content-Length: 3\r\n" if kind == "both" else b""
    )
    return lines, b"".join(parts) + b"0\r\n" + trailers + b"\r\n"


@st.composite
def requests(draw):
    method = draw(
        st.sampled_from([b"POST", b"POST", b"GET", b"PUT", b"OPTIONS", b"get", b"CONNECT"])
    )
    version = draw(st.sampled_from([b"1.1", b"1.1", b"1.1", b"1.0", b"1.2", b"2.0"]))
    line = b"%b %b HTTP/%b\r\nHost: localhost\r\n" % (
        method,
        draw(st.sampled_from(TARGETS)),
        version,
    )
    lines = draw(st.lists(st.sampled_from(LINES), max_size=2))
    framing, body = draw(bodies())
    return line + b"".join(each + b"\r\n" for each in lines) + framing + b"\r\n" + body


@st.composite
def streams(draw):
    """Some requests, some of their bytes replaced."""
    data = b"".join(draw(st.lists(requests(), min_size=1, max_size=3)))
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2]))):
        start = draw(st.integers(0, len(data)))
        end = start + draw(st.sampled_from([0, 0, 1, 2]))
        data = data[:start] + draw(st.sampled_from([b"", *SCRAPS])) + data[end:]
    return data


def cut(data, seed):
    dice = random.Random(seed)
    cuts = sorted(dice.randrange(len(data) + 1) for _ in range(seed % 5))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


class Reader:
    """A listener in a loop of its own, for all examples of a test."""

    def __init__(self):
        self.runner = asyncio.Runner()
        self.app = EchoApp()
        self._opened = memory(self.app)
        self.memory = self.runner.run(self._opened.__aenter__())

    def read(self, data, seed):
        self.app.reads = []
        raw, _ = self.runner.run(self.memory.send(cut(data, seed)))
        return self.app.reads, raw

    def close(self):
        self.runner.run(self._opened.__aexit__(None, None, None))
        self.runner.close()


@pytest.fixture(scope="module")
def reader():
    made = Reader()
    yield made
    assert len(made.memory.listener) == 0
    assert made.memory.listener.held == 0
    made.close()


few = settings(
    max_examples=400,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@given(data=streams(), seed=st.integers(0, 99))
@few
def test_the_listener_reads_as_h11_does_or_refuses(reader, data, seed):
    assert difference(data, *reader.read(data, seed)) is None


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@given(data=streams(), seed=st.integers(0, 99))
@settings(few, max_examples=30_000, derandomize=False)
def test_the_listener_reads_as_h11_does_or_refuses_in_many_more_cases(reader, data, seed):
    assert difference(data, *reader.read(data, seed)) is None


@given(
    body=st.binary(max_size=300),
    lines=st.lists(st.sampled_from(LINES[:4]), max_size=3),
    count=st.integers(1, 4),
    seed=st.integers(0, 99),
)
@settings(few, max_examples=100)
def test_valid_requests_are_accepted_by_both(reader, body, lines, count, seed):
    start = b"".join(line + b"\r\n" for line in (b"POST /x?y HTTP/1.1", b"Host: localhost", *lines))
    sized = b"%bContent-Length: %d\r\n\r\n%b" % (start, len(body), body)
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    chunked = b"%bTransfer-Encoding: chunked\r\n\r\n%b0\r\n\r\n" % (start, chunk)
    data = (sized + chunked) * count
    ours, raw = reader.read(data, seed)
    theirs, _ = read_by_h11(data)
    assert ours == theirs
    assert len(ours) == 2 * count
    assert [answer.status for answer in answers(raw, [])] == [200] * len(ours)

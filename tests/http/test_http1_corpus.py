"""HTTP/1.1 as others read it: each case of the corpus, whole and cut into parts."""

import asyncio

import httptools
import pytest
import uvloop

from accord.http.parser import KnownHead
from support.http1_answers import answers
from support.http1_corpus import CASES
from support.http1_requests import (
    CANARY,
    MARK,
    OK,
    PROBE,
    Case,
    Expected,
    chunked,
    get,
    note,
    sized,
)
from support.http1_runs import CUTS, bench, fault
from support.http_server import on_listener
from support.tables import cases
from support.waiting import LONG

pytestmark = on_listener

# Older parsers refuse these, which does no harm: tabs are legal there, and hardly ever sent.
STRICTER = (
    {"length with tabs around", "Connection: Close, with a tab"}
    if httptools.__version__.startswith(("0.6.", "0.7."))
    else set()
)
# How many connections are open at once.
WIDTH = 40


def played(pairs, loop_factory=uvloop.new_event_loop):
    """Play cases, some at once; return what is wrong with each, and with the server after them."""

    async def scenario():
        room = asyncio.Semaphore(WIDTH)
        async with bench() as made:

            async def play(case, cut, parts=None):
                async with room:
                    outcome = await made.play(case, cut, parts=parts)
                    await asyncio.sleep(0)
                return fault(case, outcome)

            found = await asyncio.gather(*(play(*pair) for pair in pairs))
            app = made.app
            left = (app.under_way, len(app.bodies), app.bodies.size)
            return dict(zip(pairs, found, strict=True)), made.canaries, left

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(scenario())


@pytest.fixture(scope="module")
def outcomes():
    """All cases, cut in all ways, at one server."""
    return played([(case, cut) for case in CASES for cut in CUTS])


@cases("case", CASES, ids=[case.name for case in CASES])
def test_a_request_has_the_outcome_that_http_asks_for_however_it_is_cut(outcomes, case):
    if case.name in STRICTER:
        pytest.skip("this version of httptools refuses tabs here")
    wrong = {cut: found for cut in CUTS if (found := outcomes[0][case, cut]) is not None}
    assert not wrong, (case.section, case.finding, wrong)


def test_no_byte_of_a_refused_request_is_executed_as_another_request(outcomes):
    assert outcomes[1] == []


def test_nothing_is_left_under_way_after_all_these_requests(outcomes):
    assert outcomes[2] == (0, 0, 0)


@pytest.fixture(scope="module")
def halves():
    """A pipeline of three requests, cut in two at every place; on the loop of asyncio."""
    data = get(b"X-Case: " + MARK) * 2 + CASES[0].data
    case = Case("three", data, Expected((OK, OK, OK), 1), "9.3.2")
    pairs = [(case, "whole", place) for place in range(len(data) + 1)]
    return played(pairs, asyncio.new_event_loop)


def test_a_pipeline_is_served_in_order_wherever_it_is_cut_in_two(halves):
    assert {pair[2]: found for pair, found in halves[0].items() if found is not None} == {}


# -- in turn with the server


async def talking(made, scenario):
    reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
    try:
        async with asyncio.timeout(LONG):
            await scenario(reader, writer)
    finally:
        writer.close()


def alone(scenario):
    async def work():
        async with bench() as made:
            await talking(made, scenario)

    asyncio.run(work())


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_client_that_waits_before_it_sends_its_body_is_asked_for_it(framing):
    async def scenario(reader, writer):
        make = sized if framing == "length" else chunked
        start, _, body = make(note(), b"Expect: 100-continue").partition(b"\r\n\r\n")
        writer.write(start + b"\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        writer.write(body)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")

    alone(scenario)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_client_that_waits_is_refused_before_its_body_and_the_connection_ends(version):
    async def scenario(reader, writer):
        first = f"POST /nowhere HTTP/{version}".encode()
        start = sized(CANARY, b"Expect: 100-continue", first=first).partition(b"\r\n\r\n")[0]
        writer.write(start + b"\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 404 ")
        # It sends its body all the same, as it may.
        writer.write(CANARY)
        (answer,) = answers(b"HTTP/1.1 404 Not Found\r\n\r\n" + await reader.read(), [])
        assert b"HTTP/" not in answer.body

    alone(scenario)


def test_http_1_0_is_never_sent_an_interim_response():
    async def scenario(reader, writer):
        writer.write(sized(note(), b"Expect: 100-continue", first=b"POST /mcp HTTP/1.0"))
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")

    alone(scenario)


def test_a_response_to_head_has_no_body():
    async def scenario(reader, writer):
        writer.write(get().replace(b"GET", b"HEAD") + PROBE)
        (first, second) = answers(await reader.read(), ["HEAD", "GET"])
        assert first.body == b""
        assert (first.status, first.headers[b"content-length"]) == (200, b"15")
        assert second.status == 200

    alone(scenario)


def test_a_trace_is_not_reflected():
    async def scenario(reader, writer):
        writer.write(get(b"X-Secret: hidden", b"Connection: close").replace(b"GET", b"TRACE"))
        assert b"hidden" not in await reader.read()

    alone(scenario)


# -- heads that repeat: the listener recognises them without its parser


def named(body):
    """A request of a kind that the listener expects to be repeated."""
    return sized(body, b"Mcp-Name: note")


BODY = note(2)
START, _, _ = named(BODY).partition(b"%d" % len(BODY))
REPEATED = {
    "the same": (named(BODY), [200]),
    "another length": (named(BODY + b" " * 50), [200]),
    "a length of fewer digits": (START + b"2\r\n\r\n{}", [400]),
    "zeros before the length": (START + b"0%d\r\n\r\n" % len(BODY) + BODY, [200]),
    "many zeros before the length": (START + b"%09d\r\n\r\n" % len(BODY) + BODY, [200]),
    "a plus before the length": (START + b"+%d\r\n\r\n" % len(BODY) + BODY, [400]),
    "a minus before the length": (START + b"-%d\r\n\r\n" % len(BODY) + BODY, [400]),
    "an underscore in the length": (START + b"1_0\r\n\r\n" + BODY, [400]),
    "no length": (START + b"\r\n\r\n" + BODY, [400]),
    "other digits": (START + b"\xd9\xa1\r\n\r\n" + BODY, [400]),
    "a bare CR after the length": (START + b"2\r\r\n\r\n{}", [400]),
    "a bare LF after the length": (START + b"2\n\r\n{}", [400]),
    "a second length": (START + b"2\r\nContent-Length: 2\r\n\r\n{}", [400]),
    "a coding": (START + b"2\r\nTransfer-Encoding: chunked\r\n\r\n{}", [400]),
    "a folded line": (named(BODY).replace(b"\r\n\r\n", b"\r\n x\r\n\r\n"), [400]),
    "two at once": (named(BODY) + named(note(3)), [200, 200]),
    "a byte too many": (named(BODY) + b"\0", [200, 400]),
    "an empty line first": (b"\r\n" + named(BODY), [200]),
    "lower case": (START.lower().replace(b"post ", b"POST ").replace(b"http/", b"HTTP/")
                   + b"%d\r\n\r\n" % len(BODY) + BODY, [200]),
    "a request as the body": (named(CANARY), [400]),
    "a request after a short length": (START + b"2\r\n\r\n{}" + PROBE, [400, 200]),
}  # fmt: skip


@pytest.fixture(scope="module")
def repeats():
    """Each of them after three requests with one head, whole and cut in two; then another."""
    matched = []
    match = KnownHead.find

    def counted(self, data):
        found = match(self, data)
        matched.append(found is not None)
        return found

    async def exchange(made, parts):
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        async with asyncio.timeout(LONG):
            for _ in range(3):
                writer.write(named(note(1)))
                start = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(start.partition(b"content-length: ")[2].split()[0]))
            for part in parts:
                writer.write(part)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            writer.write(PROBE)
            found = answers(await reader.read(), [])
        writer.close()
        return [answer.status for answer in found]

    async def scenario():
        found = {}
        async with bench() as made:
            for name, (data, _) in REPEATED.items():
                for place in (None, 10, len(data) // 2, len(data) - 1):
                    parts = [data] if place is None else [data[:place], data[place:]]
                    found[name, place] = await exchange(made, parts)
            return found, made.canaries

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KnownHead, "find", counted)
        found, canaries = asyncio.run(scenario())
    return found, canaries, matched


def test_heads_that_repeat_are_recognised(repeats):
    assert sum(repeats[2]) > len(REPEATED) * 4


@pytest.mark.parametrize("name", REPEATED)
def test_a_head_that_repeats_is_read_as_strictly_as_the_first(repeats, name):
    statuses = REPEATED[name][1]
    for (each, place), found in repeats[0].items():
        if each == name:
            goes_on = found[len(statuses) :] in ([], [200])
            # A refusal of what follows may be left out where the answer before it says so.
            assert (found[: len(statuses)] == statuses and goes_on) or found == statuses[:1], place


def test_no_byte_after_a_head_that_repeats_is_executed_as_another_request(repeats):
    assert repeats[1] == []


def test_the_corpus_says_why():
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
    assert len(names) > 400
    assert all(case.section for case in CASES)

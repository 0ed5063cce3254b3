"""HTTP/1.1 as others read it: each case of the corpus, whole and cut into parts."""

import asyncio

import pytest
import uvloop

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
from support.waiting import LONG

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


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_request_has_the_outcome_that_http_asks_for_however_it_is_cut(outcomes, case):
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


def test_the_corpus_says_why():
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
    assert len(names) > 400
    assert all(case.section for case in CASES)

"""Long-running search for bytes that the HTTP listener reads wrongly, without sockets.

    python fuzz/http_listener.py --seconds 60 --seed 7     mutations of the corpus of HTTP requests
    python fuzz/http_listener.py --repeat FILE             run one saved case again

A case is a few connections and what arrives on each, in which parts, and how it ends. All parts go
to the listener in its own loop, a part of each connection in turn, some hundred times faster than
over sockets. Most requests carry another one that must never be executed. The first call of that,
an exception, an error in the log, a response that h11 cannot read, a well-formed request that is
not answered as ever, or something that is left behind, ends the search: the case is made smaller,
saved and reported. `fuzz/http_server.py` does the same over sockets. Exit codes: 0 nothing found,
1 found.
"""

import asyncio
import json
import logging
import random
import sys
from pathlib import Path
from typing import Any, Final

import search
from search import (
    Errors,
    Mutation,
    Search,
    cut,
    flip,
    insert,
    insert_line,
    pieces,
    repeat_part,
    shorten,
    splice,
)

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from http_server import SCRAPS, WITNESS, Case, Talk, corpus, message, post

from accord import Server
from accord.http.server.listener_request import ReceivedHead
from accord.http.settings import HttpLimits
from support.http1_answers import NotHttp, answers
from support.http1_corpus import CASES
from support.http1_memory import Memory, MemoryTransport
from support.http1_oracle import is_tolerated, read_by_h11
from support.http1_requests import CANARY, FORBIDDEN

# What a test replaces to see that a mistake of the listener is found.
__all__ = ["ReceivedHead"]
# How many turns of the loop everything may take that does not wait for a clock.
TURNS: Final = 200
THOROUGH_EVERY: Final = 50


class Target:
    """A listener, an app without sessions behind it, and a request that is always answered."""

    def __init__(self) -> None:
        server = Server("fuzzed")
        self.canaries: list[str] = []

        @server.tool
        async def note(case: str, number: int) -> int:
            """Do nothing."""
            return number

        @server.tool
        async def canary(case: str) -> str:
            """Note a call that stands inside another request."""
            self.canaries.append(case)
            return case

        self.app = server.asgi(sessions=False, limits=HttpLimits(body_timeout=3_600.0), grace=0.0)
        self.errors = Errors()
        self.memory: Memory
        self._number = 0

    async def start(self) -> None:
        logging.getLogger().addHandler(self.errors)
        asyncio.get_running_loop().set_exception_handler(self._note)
        await self.app.start()
        self.memory = Memory(self.app, self.app.options["limits"])

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.errors.found.append(f"{context.get('message')}: {context.get('exception')!r}")

    async def close(self) -> None:
        await self.memory.listener.stop()
        await self.app.stop()
        logging.getLogger().removeHandler(self.errors)

    async def check(self) -> None:
        """See that a well-formed request is served as ever, and that nothing was complained of."""
        self._number += 1
        asked = post(message("ping", id=self._number), WITNESS, b"Connection: close")
        raw, _ = await self.memory.send([asked])
        found = answers(raw, [])
        expected = {"jsonrpc": "2.0", "id": self._number, "result": {}}
        if len(found) != 1 or found[0].status != 200 or json.loads(found[0].body) != expected:
            raise AssertionError(f"a ping is answered by {raw[:500]!r}")
        complaints = [*self.errors.found]
        self.errors.found.clear()
        if complaints:
            raise AssertionError(f"the server complains: {complaints[0]}")

    async def check_counters(self) -> None:
        """See that nothing is left behind."""
        app, listener = self.app, self.memory.listener
        for _ in range(TURNS):
            left = {
                "connections": len(listener),
                "bytes": listener.held,
                "requests": app.under_way,
                "bodies": len(app.bodies),
                "bytes of bodies": app.bodies.size,
                "streams": len(app.state.readers),
            }
            if not any(left.values()):
                return
            await asyncio.sleep(0)
        raise AssertionError(f"something is left behind: {left}")


async def play(case: Case, target: Target) -> None:
    """Let everything arrive, a part of each connection in turn; raises where something is wrong."""
    wires: list[tuple[Any, MemoryTransport, Talk]] = []
    for talk in case.talks:
        connection, transport = target.memory.connect()
        wires.append((connection, transport, talk))
    for number in range(max((len(talk.parts) for talk in case.talks), default=0)):
        for connection, transport, talk in wires:
            if number < len(talk.parts):
                await _arrive(connection, transport, talk.parts[number])
    for _ in range(8):
        await asyncio.sleep(0)
    for connection, transport, talk in wires:
        if talk.end == "half" and not transport.is_closing() and not connection.eof_received():
            transport.close()
        raw, ended = bytes(transport.written), transport.has_ended
        transport.abort()
        check_responses(raw, b"".join(talk.parts), has_ended=ended)
    await asyncio.sleep(0)
    check_calls(case, target.canaries)
    await target.check_counters()
    await target.check()


async def _arrive(connection: Any, transport: MemoryTransport, data: bytes) -> None:
    for _ in range(TURNS):
        if not transport.is_paused:
            break
        await asyncio.sleep(0)
    if not transport.is_paused and not transport.is_closing():
        connection.data_received(data)
        await asyncio.sleep(0)


def check_responses(raw: bytes, sent: bytes, *, has_ended: bool) -> None:
    """See that everything that was sent back is HTTP, to its end."""
    if b"HEAD" in sent:
        return  # its response has a length and no body; only its requester knows that
    found = answers(raw, [])
    if any(answer.is_last for answer in found[:-1]):
        raise NotHttp(f"a response follows the last: {raw[:500]!r}")
    if has_ended and found and not found[-1].is_whole:
        raise NotHttp(f"a response has no end: {raw[:500]!r}")


def check_calls(case: Case, canaries: list[str]) -> None:
    """See that the canary was called only where a mutation has made it a request of its own.

    h11 tells: it reads the same bytes, and is stricter in one way only that matters here.
    """
    count = len(canaries)
    canaries.clear()
    if not count:
        return
    most = 0
    for talk in case.talks:
        data = b"".join(talk.parts)
        found, why = read_by_h11(data)
        most += sum(b'"canary"' in read.body for read in found)
        if is_tolerated(why):
            return
        if why == "ends" and found[-1].version == b"1.0":
            return
    if count > most:
        raise AssertionError("a request was executed that stands inside another one")


# -- making cases


MUTATIONS: Final[list[Mutation]] = [
    flip, cut, repeat_part, splice, insert_line(SCRAPS), *[insert(SCRAPS)] * 2,
]  # fmt: skip


def random_case(seeds: list[bytes], dice: random.Random) -> Case:
    talks = []
    for _ in range(dice.choice((1, 1, 2, 4))):
        requests = []
        for _ in range(dice.choice((1, 1, 2, 3, 10))):
            data = dice.choice(seeds)
            for _ in range(dice.choice((0, 0, 1, 1, 1, 2, 3))):
                data = dice.choice(MUTATIONS)(data, seeds, dice)
            requests.append(data[:100_000])
        parts = requests
        if dice.random() < 0.2:
            talks.append(Talk(repeats(seeds, dice), dice.choice(("close", "reset", "half"))))
            continue
        if dice.random() < 0.7:
            data = b"".join(requests)[:300_000]
            parts = pieces(data, dice.choice((0, 0, 1, 2, 7, 40)), dice)
        talks.append(Talk(parts, dice.choice(("close", "reset", "half"))))
    return Case(talks)


def repeats(seeds: list[bytes], dice: random.Random) -> list[bytes]:
    """Return requests with one head, which the listener recognises, and some that differ."""
    about = dice.choice((b"Mcp-Name: note", b"Mcp-Session-Id: x"))
    parts = []
    for number in range(dice.choice((3, 4, 8))):
        body = dice.choice((message("ping"), FORBIDDEN, CANARY, b"{}", b""))
        data = post(body, about)
        if number > 1 and dice.random() < 0.5:
            data = dice.choice(MUTATIONS)(data, seeds, dice)
        parts += pieces(data, dice.choice((0, 0, 0, 1)), dice)
    return parts


def all_seeds() -> list[bytes]:
    return [case.data for case in CASES if case.data and len(case.data) < 20_000] + corpus()


# -- the search


class Loop:
    """Runs cases in a loop of its own."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.target = Target()
        self.runner.run(self.target.start())

    def run(self, case: Case) -> None:
        self.runner.run(self._bounded(case))

    async def _bounded(self, case: Case) -> None:
        async with asyncio.timeout(30):
            await play(case, self.target)

    def close(self) -> None:
        self.runner.run(self.target.close())
        self.runner.close()


def fails_alone(case: Case) -> str | None:
    """Run a case against a listener of its own."""
    loop = Loop()
    try:
        return search.failure_of(loop.run, case)
    finally:
        loop.close()


def smaller(case: Case) -> Case:
    """Leave away connections, parts and bytes as long as the case still fails."""
    if fails_alone(case) is None:
        return case
    case = Case(shorten(case.talks, lambda talks: fails_alone(Case(talks))))
    for number in range(len(case.talks)):
        case = with_fewer_parts(case, number)
    return case


def with_fewer_parts(case: Case, number: int) -> Case:
    def with_parts(parts: list[bytes]) -> Case:
        talks = [*case.talks]
        talks[number] = Talk(parts, talks[number].end)
        return Case(talks)

    parts = case.talks[number].parts
    return with_parts(shorten(parts, lambda parts: fails_alone(with_parts(parts))))


def make_search(loop: Loop) -> Search[Case]:
    seeds = all_seeds()
    return Search(
        "http_listener",
        Case,
        make=lambda dice: random_case(seeds, dice),
        attempt=lambda case, number: search.failure_of(loop.run, case),
        alone=fails_alone,
        smaller=smaller,
    )


def main(arguments: list[str] | None = None) -> int:
    parser = search.parser("search for bytes that the HTTP listener reads wrongly")
    given = parser.parse_args(arguments)
    loop = Loop()
    try:
        return make_search(loop).run(given)
    finally:
        loop.close()


if __name__ == "__main__":
    sys.exit(main())

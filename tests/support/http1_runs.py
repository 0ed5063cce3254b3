"""Cases of the corpus, sent to a server in the same event loop, cut wherever the test wants.

Client and server take turns in one thread, so that each part arrives by itself, however short.
"""

import asyncio
import random
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from accord import Server
from accord.http.server.running import serve_in_loop
from accord.http.server.sockets import listen
from accord.http.settings import HttpLimits
from support.http1_answers import Answer, NotHttp, answers
from support.http1_requests import AFTER, MARK, PROBE, Case
from support.waiting import LONG

# Seconds without a byte after which a server counts as waiting for more. It runs in our thread, so
# that a busy machine does not matter.
WAIT = 5.0

Cut = Callable[[bytes, random.Random], list[bytes]]


def whole(data: bytes, dice: random.Random) -> list[bytes]:
    return [data]


def in_bytes(data: bytes, dice: random.Random) -> list[bytes]:
    """Cut into bytes; what is long, such as a header that is too long, into more of them."""
    step = 1 if len(data) < 3_000 else len(data) // 100
    return [data[at : at + step] for at in range(0, len(data), step)]


def in_pieces(data: bytes, dice: random.Random) -> list[bytes]:
    cuts = sorted(dice.randrange(len(data) + 1) for _ in range(dice.choice((1, 3, 8))))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def in_lines(data: bytes, dice: random.Random) -> list[bytes]:
    """Cut between CR and LF."""
    parts = data[:3_000].split(b"\r")
    return [part + b"\r" for part in parts[:-1]] + [parts[-1] + data[3_000:]]


CUTS: dict[str, Cut] = {
    "whole": whole,
    "byte by byte": in_bytes,
    "in pieces": in_pieces,
    "between CR and LF": in_lines,
}


@dataclass
class Outcome:
    """What came back, and what was called meanwhile."""

    raw: bytes
    answers: list[Answer]
    calls: list[int]
    canaries: int
    was_reset: bool
    waits: bool
    not_http: str | None


class Bench:
    """A server whose calls are counted."""

    def __init__(self) -> None:
        self.calls: dict[str, list[int]] = defaultdict(list)
        self.canaries: list[str] = []
        self.port = 0
        self._runs = 0
        server = Server("corpus")

        @server.tool
        async def note(case: str, number: int) -> int:
            """Note a call."""
            self.calls[case].append(number)
            return number

        @server.tool
        async def canary(case: str) -> str:
            """Note a call that stands inside another request."""
            self.canaries.append(case)
            return case

        self.app = server.asgi(sessions=False, limits=HttpLimits(body_timeout=LONG))

    async def play(self, case: Case, cut: str = "whole", *, parts: int | None = None) -> Outcome:
        """Send a case, then the request that shows whether the connection goes on.

        Args:
            case: the case.
            cut: how its bytes are cut.
            parts: where they are cut in two instead.
        """
        self._runs += 1
        mark = f"{self._runs:04x}"
        data = case.data.replace(MARK, mark.encode())
        dice = random.Random(f"{case.name} {cut}")
        sent = CUTS[cut](data, dice) if parts is None else [data[:parts], data[parts:]]
        expected = case.expected
        if not expected.is_incomplete:
            last = AFTER if expected.goes_on is False else PROBE
            sent[-1:] = [sent[-1] + last.replace(MARK, mark.encode())]
        raw, was_reset, waits = await self._exchange(sent, half_close=expected.is_incomplete)
        methods = ["HEAD"] if data.startswith(b"HEAD ") else []
        found, not_http = [], None
        try:
            found = answers(raw, methods)
        except NotHttp as error:
            not_http = str(error)
        canaries = self.canaries.count(mark)
        return Outcome(raw, found, self.calls.pop(mark, []), canaries, was_reset, waits, not_http)

    async def _exchange(self, parts: list[bytes], *, half_close: bool) -> tuple[bytes, bool, bool]:
        loop = asyncio.get_running_loop()
        wire = socket.socket()
        wire.setblocking(False)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found: list[bytes] = []
        was_reset = waits = False
        try:
            async with asyncio.timeout(LONG):
                await loop.sock_connect(wire, ("127.0.0.1", self.port))
                with suppress(OSError):
                    for part in parts:
                        await loop.sock_sendall(wire, part)
                        await asyncio.sleep(0)
                        await asyncio.sleep(0)
                    if half_close:
                        wire.shutdown(socket.SHUT_WR)
                try:
                    while data := await asyncio.wait_for(loop.sock_recv(wire, 1 << 16), WAIT):
                        found.append(data)
                except ConnectionError:
                    was_reset = True
                except TimeoutError:
                    waits = True
        finally:
            wire.close()
        return b"".join(found), was_reset, waits


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    """Serve as `await server.serve("http")` does, in the running loop."""
    made = Bench()
    (listening,) = listen("127.0.0.1", 0)
    made.port = listening.getsockname()[1]
    task = asyncio.create_task(serve_in_loop(made.app, [listening]))
    try:
        yield made
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def fault(case: Case, found: Outcome) -> str | None:
    """Say what is wrong with an outcome; None if nothing is."""
    expected, statuses = case.expected, [answer.status for answer in found.answers]
    seen = f"{statuses}, calls {found.calls}: {found.raw[:300]!r}"
    if found.canaries:
        return f"a request was executed that is not one; {seen}"
    if found.not_http is not None:
        return f"a response is not HTTP: {found.not_http}"
    if found.waits:
        return f"the server neither answers nor ends the connection; {seen}"
    if found.was_reset and not found.raw:
        return "the connection was reset before a response"
    if not all(answer.is_whole for answer in found.answers):
        return f"a response is cut off; {seen}"
    if any(answer.is_last for answer in found.answers[:-1]):
        return f"a response follows one that was said to be the last; {seen}"
    served = found.calls
    if served != list(range(1, len(served) + 1)):
        return f"calls are served out of order; {seen}"
    if len(served) != expected.calls and not (expected.fewer and len(served) <= expected.calls):
        return f"{expected.calls} calls are to be served; {seen}"
    return _fault_of_statuses(case, statuses, seen)


def _fault_of_statuses(case: Case, statuses: list[int], seen: str) -> str | None:
    expected = case.expected
    if expected.fewer and len(statuses) < len(expected.statuses):
        return None if set(statuses) <= {200} else f"a status is not right; {seen}"
    first, rest = statuses[: len(expected.statuses)], statuses[len(expected.statuses) :]
    if len(first) < len(expected.statuses):
        return f"{len(expected.statuses)} responses are missing; {seen}"
    if any(one not in known for one, known in zip(first, expected.statuses, strict=True)):
        return f"a status is not right; {seen}"
    if expected.refusal:
        if not rest:
            return f"no refusal; {seen}" if expected.needs_refusal else None
        is_right = len(rest) == 1 and rest[0] in expected.refusal
        return None if is_right else f"not refused once as it should be; {seen}"
    if expected.goes_on is None:
        return None if rest in ([], [200]) else f"the connection goes on wrongly; {seen}"
    if expected.goes_on:
        return None if rest == [200] else f"the connection does not go on; {seen}"
    return f"the connection goes on; {seen}" if rest else None

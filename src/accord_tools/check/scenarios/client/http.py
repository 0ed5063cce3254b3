"""Streamable HTTP: JSON and streams, broken streams, lost sessions, fallback to SSE."""

import asyncio
from typing import Final

from accord.http.rules import headers as names
from accord.types import JsonObject
from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.http_transport import CannedResponse, ReceivedRequest
from accord_tools.check.fake_server.server import FakeServer, client_scenario
from accord_tools.check.probing.messages import is_request, params_of
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.scenarios.client.answers import PagedLists

_RETRY: Final = 200
# Two processes read two clocks, and timers are rounded.
_TOLERANCE: Final = 0.02
# A client that listens opens its stream about when it sends its first request.
_LOOK: Final = 0.02
_LOOKS: Final = 50
_LOG: Final = {
    "jsonrpc": "2.0",
    "method": "notifications/message",
    "params": {"level": "info", "data": "before the stream breaks"},
}


@client_scenario("http.client.supports-both-forms", on=("http",), era="both")
class AnswersWithEventStreams(FakeServer):
    """Answers everything with event streams."""

    streams = True


@client_scenario(on=("http",), shows=("http.get.",))
class RefusesGetStreams(FakeServer):
    """Offers no stream by GET."""

    listens = False


@client_scenario(
    "http.sse.resume-header",
    "http.sse.client-polls-after-close",
    "http.sse.resume-by-get-any-origin",
    "http.sse.client-honours-retry",
    on=("http",),
)
class DropsStreams(FakeServer):
    """Drops the connection before it answers; a client that resumes gets the answer."""

    streams = True
    retry = _RETRY
    dropped_at: float | None = None

    async def before_first_answer(self, connection: RawConnection, request: JsonObject) -> None:
        await self.send(connection, _LOG, beside=request)
        # Give the event time to be sent.
        await asyncio.sleep(0.05)
        self.dropped_at = asyncio.get_running_loop().time()
        connection.carrier.drop(request.get("id"))

    async def judge(self, run: ClientRun) -> None:
        if self.dropped_at is None:
            return
        gets = [each for each in run.requests if each.method == "GET"]
        resumed = [each for each in gets if "last-event-id" in each.headers]
        polls, any_origin = self.ids[1:3]
        why = "does not resume a stream that broke before the answer"
        for id in (polls, any_origin):
            run.holds(id, resumed, why)
        if not resumed:
            run.skip("http.sse.resume-header", "the client does not resume")
            return
        run.passes("http.sse.resume-header")
        waited = resumed[0].at - self.dropped_at
        is_right = waited >= _RETRY / 1000 - _TOLERANCE
        why = f"reconnects after {waited * 1000:.0f} ms, the server asked for {_RETRY} ms"
        run.holds("http.sse.client-honours-retry", is_right, why, request=resumed[0])


@client_scenario("http.sse.resume-header", on=("http",))
class DropsGetStreams(FakeServer):
    """Drops the GET stream of a client."""

    retry = 20
    is_dropped = False

    async def before_first_answer(self, connection: RawConnection, request: JsonObject) -> None:
        for _ in range(_LOOKS):
            if self.fake_transport.streaming:
                await connection.send(_LOG)
                await asyncio.sleep(0.05)
                connection.carrier.drop()
                self.is_dropped = True
                # Time for a client that reconnects at once.
                await asyncio.sleep(0.3)
                return
            await asyncio.sleep(_LOOK)

    async def judge(self, run: ClientRun) -> None:
        id = "http.sse.resume-header"
        gets = [each for each in run.requests if each.method == "GET"]
        if not self.is_dropped:
            run.skip(id, "the client does not listen")
            return
        for each in gets[1:]:
            why = "listens again after its stream broke, without Last-Event-ID"
            run.holds(id, "last-event-id" in each.headers, why, request=each)


class _ForgetsSessions(FakeServer):
    """Forgets the session when a certain request arrives for the first time."""

    has_forgotten = False

    def is_fatal(self, request: ReceivedRequest) -> bool:
        """Return whether the session is forgotten with this request."""
        raise NotImplementedError

    def http(self, request: ReceivedRequest) -> CannedResponse | None:
        if not self.has_forgotten and self.is_fatal(request) and self.lines:
            self.has_forgotten = True
            self.fake_transport.end_session(self.lines[0])
        return None


@client_scenario("http.session.client-restarts-on-404", on=("http",))
class ForgetsTheSession(_ForgetsSessions):
    """Forgets the session before the first request in it."""

    def is_fatal(self, request: ReceivedRequest) -> bool:
        return _is_work(request)

    async def judge(self, run: ClientRun) -> None:
        id = "http.session.client-restarts-on-404"
        lost = next((each for each in run.requests if _is_work(each) and each.status == 404), None)
        if lost is None:
            return
        later = [each for each in run.requests[run.requests.index(lost) :] if _opens(each)]
        if not later:
            run.holds(id, later, "starts no new session after status 404", request=lost)
            return
        why = "opens a new session with the id of the lost one"
        run.holds(id, names.SESSION not in later[0].headers, why, request=later[0])


@client_scenario("pagination.no-cross-session-cursors", on=("http",), is_judged=False)
class ForgetsTheSessionBetweenPages(_ForgetsSessions, PagedLists):
    """Forgets the session when the client asks for the second page of a list."""

    def is_fatal(self, request: ReceivedRequest) -> bool:
        return isinstance(request.message, dict) and "cursor" in params_of(request.message)

    async def judge(self, run: ClientRun) -> None:
        id = "pagination.no-cross-session-cursors"
        if not self.has_forgotten or len(self.lines) < 2:
            run.skip(id, "the client had no cursor when a new session began")
        else:
            method = self.foreign[0] if self.foreign else ""
            why = f"continues {method} in a new session with a cursor of the old one"
            run.holds(id, not self.foreign, why)


def _is_work(request: ReceivedRequest) -> bool:
    """Return whether this is a request within a session."""
    message = request.message
    is_post = request.method == "POST" and isinstance(message, dict) and is_request(message)
    return is_post and request.name not in ("initialize", "ping")


def _opens(request: ReceivedRequest) -> bool:
    return request.method == "POST" and request.name == "initialize"


# -- servers with only HTTP and SSE

_FALLBACK: Final = ("http.compat.sse-fallback-any-4xx", "http.compat.sse-fallback-statuses")


@client_scenario(*_FALLBACK, on=("http",))
class SpeaksOnlySseWith405(FakeServer):
    """Speaks only HTTP with SSE, and refuses Streamable HTTP with 405."""

    is_older = True


@client_scenario(*_FALLBACK, on=("http",))
class SpeaksOnlySseWith404(SpeaksOnlySseWith405):
    """Speaks only HTTP with SSE, and refuses Streamable HTTP with 404."""

    refusal = 404


@client_scenario(*_FALLBACK, on=("http",))
class SpeaksOnlySseWith400(SpeaksOnlySseWith405):
    """Speaks only HTTP with SSE, and refuses Streamable HTTP with 400."""

    refusal = 400

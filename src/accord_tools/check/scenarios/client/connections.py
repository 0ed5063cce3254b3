"""How a client opens a connection and ends it; Streamable HTTP, lost sessions, fallback to SSE.

Also headers that repeat parts of requests, for a client of a revision without a handshake.
"""

import asyncio
import signal
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from accord.errors import HeaderMismatch, RequestError, UnsupportedRevision
from accord.http.rules import headers as names
from accord.protocol.exchange import META_VERSION, meta_of
from accord.protocol.mirroring import (
    ANNOTATION,
    NAME_HEADER,
    NAME_MEMBERS,
    MirroredArgument,
    decode_header,
    encode_header,
    mirrored_arguments,
)
from accord.protocol.revisions import BEFORE_HANDSHAKE, REVISIONS
from accord.types import JsonObject
from accord_tools.check.fake_server.client_run import ClientRun, cross_run_check
from accord_tools.check.fake_server.server import (
    LISTS,
    STATELESS,
    FakeServer,
    Result,
    client_scenario,
    names_own_revision,
)
from accord_tools.check.fake_server.transports import CannedResponse, ReceivedRequest
from accord_tools.check.probing.messages import is_request, params_of
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.scenarios.client.answers import PagedLists

# A client without an agreed revision may still send these.
_OPENING: Final = ("initialize", "ping", "server/discover")
_LATE: Final = 0.3
_NEWEST: Final = BEFORE_HANDSHAKE.id


class _AgreesOnNothing(FakeServer):
    """Leaves the client without an agreed revision: it must disconnect."""

    continues: str
    stays: str

    async def judge(self, run: ClientRun) -> None:
        if not self.lines:
            return
        (id,) = self.ids
        methods = [
            str(each.get("method")) for connection in self.lines for each in connection.received
        ]
        later = [each for each in methods if each not in (*_OPENING, "notifications/cancelled")]
        if later:
            run.fail(id, f"sends {later[0]} {self.continues}")
        else:
            run.holds(id, not run.was_connected, self.stays)


@client_scenario("lifecycle.version.client-disconnects", is_judged=False)
class ChoosesUnknownRevision(_AgreesOnNothing):
    """Answers initialize with a revision that does not exist."""

    continues = "under a revision that does not exist"
    stays = "stays connected to a server that chose a revision that does not exist"

    def initialize_result(self, connection: RawConnection, params: JsonObject) -> JsonObject:
        return {**super().initialize_result(connection, params), "protocolVersion": "1999-12-31"}


@client_scenario("lifecycle.errors.handled", is_judged=False)
class RefusesInitialize(_AgreesOnNothing):
    """Answers initialize with an error."""

    continues = "although initialize was refused"
    stays = "neither exits nor disconnects after initialize was refused"

    def initialize_result(self, connection: RawConnection, params: JsonObject) -> JsonObject:
        super().initialize_result(connection, params)
        raise RequestError("unsupported protocol version", code=-32602)


@client_scenario("lifecycle.initialize.client-waits")
class AnswersInitializeLate(FakeServer):
    """Answers initialize late."""

    async def result(self, connection: RawConnection, method: str, params: JsonObject) -> Result:
        if method == "initialize":
            await asyncio.sleep(_LATE)
        return await super().result(connection, method, params)

    async def judge(self, run: ClientRun) -> None:
        if run.is_initialized:
            run.passes("lifecycle.initialize.client-waits")  # unless a monitor found a violation


@client_scenario("cancellation.initialize.excluded", on=("stdio",))
class NeverAnswersInitialize(FakeServer):
    """Never answers initialize."""

    async def respond(self, connection: RawConnection, request: JsonObject) -> None:
        if request.get("method") != "initialize":
            await super().respond(connection, request)

    async def judge(self, run: ClientRun) -> None:
        if run.exit_code is None:
            why = "the client did not give up initialize before the time limit of the check"
            run.skip("cancellation.initialize.excluded", why)
        else:
            run.passes("cancellation.initialize.excluded")  # unless a monitor found a violation


@client_scenario("ping.response.prompt", on=("stdio", "sse"))
class PingsBeforeInitialize(FakeServer):
    """Pings before it answers initialize."""

    is_answered = False

    async def result(self, connection: RawConnection, method: str, params: JsonObject) -> Result:
        if method == "initialize":
            self.is_answered = await self.ask(connection, "ping") is not None
        return await super().result(connection, method, params)

    async def judge(self, run: ClientRun) -> None:
        if self.is_answered:
            run.passes("ping.response.prompt")


@client_scenario("lifecycle.version.client-prefers-latest", is_judged=False)
class ChoosesNewestRevision(FakeServer):
    """Answers initialize with the newest revision, whatever the client asks for."""

    def initialize_result(self, connection: RawConnection, params: JsonObject) -> JsonObject:
        asked = str(params.get("protocolVersion"))
        answer = super().initialize_result(connection, params)
        # Judged by the revision that the client asked for.
        connection.revision = REVISIONS[asked].id if asked in REVISIONS else connection.revision
        return {**answer, "protocolVersion": _NEWEST}

    async def judge(self, run: ClientRun) -> None:
        asked = next(iter(self.requested_revisions), None)
        if asked is not None:
            goes_on = run.is_initialized and asked in REVISIONS and asked < _NEWEST
            why = f"asks for {asked}, and continues when the server answers with {_NEWEST}"
            run.holds("lifecycle.version.client-prefers-latest", not goes_on, why)


_ID: Final = "stdio.shutdown.escalates"


@client_scenario(_ID, on=("stdio",), era="both")
class IgnoresShutdown(FakeServer):
    """Keeps running after its input was closed, and ignores SIGTERM."""

    relay_commands = ("stubborn",)

    async def judge(self, run: ClientRun) -> None:
        if run.exit_code is None:
            run.skip(_ID, "the client did not end by itself")
        elif run.left_servers_running:
            told = " after SIGTERM" if signal.SIGTERM in self.signals else ""
            run.fail(_ID, f"leaves a server running that does not end by itself{told}")
        else:
            why = "kills a server without SIGTERM first"
            run.holds(_ID, signal.SIGTERM in self.signals, why)


@client_scenario("stdio.stderr-not-an-error-signal", on=("stdio",), era="both")
class WritesToStderr(FakeServer):
    """Writes harmless errors and warnings to stderr."""

    relay_commands = ("stderr ERROR: this is only a check",)

    async def judge(self, run: ClientRun) -> None:
        if run.went_on and run.usual_exit_code is not None:
            why = "fails when the server writes to stderr"
            run.holds("stdio.stderr-not-an-error-signal", run.ended_as_usual, why)


_RETRIES: Final = "versioning.unsupported.client-retries"
_NOT_LEGACY: Final = "versioning.modern-error-is-not-legacy"
_READS_BODY: Final = "http.compat.sse-fallback-checks-body"
_INSPECTS: Final = "http.compat.client-inspects-400"
_NOT_ONE_CODE: Final = "stdio.fallback.not-one-code"
_UNKNOWN: Final = "2099-01-01"
# A client may repeat a request once or twice before it gives up.
_OFTEN: Final = 5


@client_scenario(_RETRIES, _NOT_LEGACY, _READS_BODY, era="stateless", on=("stdio", "http"))
class SpeaksOnlyAnUnknownRevision(FakeServer):
    """Refuses every request, and names a revision that does not exist yet."""

    async def stateless_result(self, line: RawConnection, request: JsonObject) -> Result:
        if request.get("method") == "initialize":
            return await super().stateless_result(line, request)
        named = meta_of(request.get("params")).get(META_VERSION)
        data = {"supported": [_UNKNOWN], "requested": named}
        raise UnsupportedRevision(f"this server speaks {_UNKNOWN}", data=data)

    async def judge(self, run: ClientRun) -> None:
        if not run.stateless:
            return
        opened = run.messages("initialize")
        why = "sends initialize although -32022 shows a server without a handshake"
        evidence = run.evidence_of(run.stateless[0], *opened[:1])
        run.holds(_NOT_LEGACY, not opened, why, evidence=evidence)
        later = [str(each.get("method")) for each in run.stateless]
        going_on = sorted({each for each in later if each != "server/discover"})
        why = f"goes on with {going_on} under a revision that the server refused"
        if run.holds(_RETRIES, len(later) == 1 or not going_on or len(going_on) < 2, why):
            most = max(map(later.count, later))
            why = f"sends a request {most} times under a revision that the server refused"
            run.holds(_RETRIES, most < _OFTEN, why)
        if run.transport == "http":
            gets = [each for each in run.requests if each.method == "GET"]
            why = "looks for the older form of HTTP although -32022 shows a newer server"
            run.holds(_READS_BODY, not gets, why, request=gets[0] if gets else None)


@client_scenario(_NOT_LEGACY, _INSPECTS, _READS_BODY, era="stateless", on=("http",))
class RefusesFirstHeaders(FakeServer):
    """Refuses the first request because of its headers."""

    has_refused = False

    async def stateless_result(self, line: RawConnection, request: JsonObject) -> Result:
        if not self.has_refused:
            self.has_refused = True
            raise HeaderMismatch("a header differs from the body")
        return await super().stateless_result(line, request)

    async def judge(self, run: ClientRun) -> None:
        if self.has_refused and run.stateless:
            opened = run.messages("initialize")
            why = "sends initialize although -32020 shows a server without a handshake"
            evidence = run.evidence_of(run.stateless[0], *opened[:1])
            run.holds(_NOT_LEGACY, not opened, why, evidence=evidence)
            gets = [each for each in run.requests if each.method == "GET"]
            why = "looks for the older form of HTTP although -32020 shows a newer server"
            if opened or gets:
                run.holds(_READS_BODY, not gets, why, request=gets[0] if gets else None)
            if len(run.stateless) > 1:
                run.passes(_INSPECTS)


# -- servers with a handshake, as seen by a client that speaks both eras


class _KnowsNoDiscovery(FakeServer):
    """Has a handshake, and answers what stands on its own in an unusual way."""

    needs_both: ClassVar[bool] = True

    async def judge(self, run: ClientRun) -> None:
        """Leave it to `check_fallbacks`, which knows what the client does elsewhere."""


@client_scenario(_NOT_ONE_CODE, _INSPECTS, on=("stdio", "http"))
class RefusesDiscoveryWithAnotherCode(_KnowsNoDiscovery):
    """Has a handshake, and refuses server/discover with a code of its own."""

    def http(self, request: ReceivedRequest) -> CannedResponse | None:
        if request.method == "POST" and names_own_revision(request.message):
            body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}'
            return CannedResponse(400, {"content-type": "application/json"}, body)
        return None

    async def result(self, line: RawConnection, method: str, params: JsonObject) -> Result:
        if method == "server/discover":
            raise RequestError("the server is not initialized", code=-32000)
        return await super().result(line, method, params)


@client_scenario(_NOT_ONE_CODE, _INSPECTS, on=("stdio", "http"))
class RefusesDiscoveryWithInvalidParams(RefusesDiscoveryWithAnotherCode):
    """Has a handshake, and refuses server/discover as an invalid request, or in plain text."""

    def http(self, request: ReceivedRequest) -> CannedResponse | None:
        if request.method == "POST" and names_own_revision(request.message):
            return CannedResponse(400, {"content-type": "text/plain"}, b"Bad Request")
        return None

    async def result(self, line: RawConnection, method: str, params: JsonObject) -> Result:
        if method == "server/discover":
            raise RequestError("invalid request parameters", code=-32602)
        return await super().result(line, method, params)


@client_scenario(_NOT_ONE_CODE, on=("stdio",))
class IgnoresDiscovery(_KnowsNoDiscovery):
    """Has a handshake, and does not answer server/discover."""

    async def result(self, line: RawConnection, method: str, params: JsonObject) -> Result:
        if method == "server/discover":
            await asyncio.Event().wait()
        return await super().result(line, method, params)


@cross_run_check()
def check_fallbacks(runs: Sequence[ClientRun]) -> None:
    """Judge whether a client that falls back to a handshake does so on every refusal."""
    home = _home(runs)
    plain = [each for each in runs if type(each.server) is FakeServer and not each.server.is_dual]
    falls_back = any(each.stateless and each.is_initialized for each in plain)
    for run in runs:
        if not isinstance(run.server, _KnowsNoDiscovery):
            continue
        id = _NOT_ONE_CODE if run.transport == "stdio" else _INSPECTS
        first = next(iter(run.all_messages), {})
        if not falls_back or (run.lines and not names_own_revision(first)):
            home.not_applicable(run.server.ids, "the client does not fall back to a handshake")
        elif isinstance(run.server, IgnoresDiscovery) and not run.messages("initialize"):
            home.skip(run.server.ids, "the client did not give up server/discover in time")
        else:
            did = run.server.name[0].lower() + run.server.name[1:]
            why = f"does not fall back to initialize when the server {did}"
            proof = run.last_evidence()
            home.holds(id, run.messages("initialize"), why, evidence=proof)


def _home(runs: Sequence[ClientRun]) -> ClientRun:
    """Return a run under a revision without a handshake, whose requirements these are."""
    return next((each for each in runs if each.revision == STATELESS.id), runs[0])


# -- what all runs show together

_PROBE: Final = "discover.stdio-probe"
_FIRST: Final = "versioning.modern-client.stdio-discover-first"
_CACHED: Final = "versioning.era.cached"


@cross_run_check(_PROBE, _FIRST, _CACHED)
def check_openings(runs: Sequence[ClientRun]) -> None:
    """Judge whether a client over stdio sends server/discover first, and once."""
    speaks_both = any(each.is_initialized for each in runs) and any(
        each.server.fulfilled for each in runs
    )
    for run in runs:
        if not run.server.is_judged or not run.stateless:
            continue
        # A server that is started again is known.
        for line in run.lines[:1]:
            asked = [each for each in line.received if is_request(each)]
            is_probe = bool(asked) and (speaks_both or names_own_revision(asked[0]))
            if run.transport == "stdio" and is_probe:
                first = asked[0].get("method")
                why = f"sends {first} first, not server/discover"
                id = _PROBE if speaks_both else _FIRST
                proof = line.log.evidence_of(asked[:1])
                run.holds(id, first == "server/discover", why, evidence=proof)
        if not speaks_both:
            run.not_applicable(_PROBE, "the client speaks one era alone")
            run.not_applicable(_CACHED, "the client speaks one era alone")
        elif run.transport == "stdio":
            run.not_applicable(_FIRST, "the client speaks both eras")
        _check_memory(run, _home(runs))


def _check_memory(run: ClientRun, home: ClientRun) -> None:
    """versioning.era.cached: after a handshake the same process probes no more."""
    found = [str(each.get("method")) for each in run.all_messages]
    if not run.is_initialized or "server/discover" not in found:
        return
    ready = found.index("notifications/initialized")
    again = "server/discover" in found[ready:]
    why = "sends server/discover again to a server that it opened by initialize"
    home.holds(_CACHED, not again, why, evidence=run.last_evidence())


# -- Streamable HTTP

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


_P: Final = "http.param-headers."
_NAME: Final = "http.headers.mcp-name.encoded-when-unsafe"
_CASE: Final = "http.headers.names-case-insensitive"
_DROPS: Final = "tools.x-mcp-header.client-drops-invalid-tool"
_RELISTS: Final = f"{_P}mismatch-client-relists"
_ENCODED: Final = "=?base64?eA==?="
_TEXT: Final = {"type": "string", ANNOTATION: "Text"}


def _schema(text: str, *required: str) -> JsonObject:
    """Return an input schema whose text is fixed, and that has other arguments to repeat."""
    return {
        "type": "object",
        "properties": {
            "text": {**_TEXT, "enum": [text]},
            # A header has the name of the annotation, not of the property.
            "times": {"type": "integer", ANNOTATION: "Count", "minimum": 1},
            "loud": {"type": "boolean", ANNOTATION: "Loud"},
            "city": {"type": "string"},
            "place": {
                "type": "object",
                "properties": {"city": {"type": "string", ANNOTATION: "City", "enum": ["Oslo"]}},
                "required": ["city"],
            },
            "note": {"type": "string", ANNOTATION: "Note"},
        },
        "required": ["text", *required],
    }


_TOOLS: Final[tuple[JsonObject, ...]] = (
    {
        "name": "echo",
        "description": "Say the same again.",
        "inputSchema": _schema("eu-1", "times", "loud", "city", "place"),
    },
    {
        "name": "sing",
        "description": "Sing a text.",
        "inputSchema": _schema("tv\u00e5 ord", "times", "loud"),
    },
    {"name": "spell", "description": "Spell a text.", "inputSchema": _schema(_ENCODED)},
    {
        "name": "add",
        "description": "Add two numbers; the annotation may not stand on a number.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "a": {"type": "number", ANNOTATION: "First"},
                "b": {"type": "number"},
            },
            "required": ["a", "b"],
        },
    },
)
_MIRRORED: Final = {
    str(each["name"]): mirrored_arguments(each["inputSchema"])
    for each in _TOOLS
    if each["name"] != "add"
}


@client_scenario(
    f"{_P}client-support",
    f"{_P}omitted-without-value",
    f"{_P}exact-path",
    f"{_P}value.string-forms",
    f"{_P}value.base64-when-unsafe",
    f"{_P}value.sentinel-escaped",
    f"{_P}value.markers-exact",
    _NAME,
    _CASE,
    _DROPS,
    era="stateless",
    on=("http",),
    shows=("http.headers.", "http.post.metadata", "tools.x-mcp-header"),
)
class WantsArgumentsInHeaders(FakeServer):
    """Wants arguments repeated in headers, and lists a tool that says so in a wrong way."""

    async def result(self, line: RawConnection, method: str, params: JsonObject) -> Result:
        if method == "tools/list":
            return {"tools": list(_TOOLS)}
        if method == "prompts/list":
            return {"prompts": [*LISTS[method][1], {"name": "gr\u00fc\u00dfen"}]}
        return await super().result(line, method, params)

    async def judge(self, run: ClientRun) -> None:
        if self.fulfilled:
            # The names of our headers are in small letters.
            run.passes(_CASE)
        listed = [each.ended or 0.0 for each in run.requests if each.name == "tools/list"]
        for request in run.requests:
            message = request.message
            if request.method != "POST" or not isinstance(message, dict):
                continue
            _judge_name(run, request, message)
            # A client that has not yet seen the list repeats nothing.
            is_known = bool(listed) and min(listed) <= request.at
            if message.get("method") != "tools/call" or not is_known:
                continue
            name = params_of(message).get("name")
            why = "calls a tool whose x-mcp-header stands on a number, which it must leave out"
            run.holds(_DROPS, name != "add", why, request=request)
            for each in _MIRRORED.get(str(name), ()):
                _judge_argument(run, request, each, params_of(message).get("arguments"))


def _judge_name(run: ClientRun, request: ReceivedRequest, message: JsonObject) -> None:
    member = NAME_MEMBERS.get(str(message.get("method")))
    name = params_of(message).get(member) if member else None
    given = request.headers.get(NAME_HEADER.lower())
    if isinstance(name, str) and given is not None and encode_header(name) != name:
        why = f"sends the name {name!r:.60} as {given!r:.60}, not in base64"
        run.holds(_NAME, given == encode_header(name), why, request=request)


def _judge_argument(
    run: ClientRun, request: ReceivedRequest, mirrored: MirroredArgument, arguments: Any
) -> None:
    value, header = mirrored.value(arguments), mirrored.header
    given = request.headers.get(header.lower())
    if value is None:
        why = f"sends {header} for an argument without a value"
        run.holds(f"{_P}omitted-without-value", given is None, why, request=request)
        return
    if not isinstance(value, str | int):
        return
    if not run.holds(
        f"{_P}client-support", given is not None, f"leaves {header} out", request=request
    ):
        return
    id = _form_of(mirrored, value, str(given))
    why = f"sends {header}: {given!r:.60} for the argument {value!r:.60}"
    run.holds(id, _is_right(value, str(given)), why, request=request)


def _is_right(value: str | int, given: str) -> bool:
    expected = encode_header(value)
    if given == expected:
        return True
    # What could be sent as it is may be sent in base64 too.
    return expected == str(value) and decode_header(given) == expected


def _form_of(mirrored: MirroredArgument, value: str | int, given: str) -> str:
    """Return the requirement that a value in a header puts to the test."""
    expected = encode_header(value)
    if expected not in (str(value), "true", "false"):
        if value == _ENCODED:
            return f"{_P}value.sentinel-escaped"
        wrong = given != expected and given.lower().startswith("=?base64")
        return f"{_P}value.markers-exact" if wrong else f"{_P}value.base64-when-unsafe"
    # Another spelling of the right value is a matter of its form, anything else of its place.
    is_spelled = given != expected and given.strip("'\"").lower() == expected.lower()
    is_place = len(mirrored.names) > 1 and not is_spelled
    return f"{_P}exact-path" if is_place else f"{_P}value.string-forms"


@client_scenario(_RELISTS, era="stateless", on=("http",))
class ChangesArgumentsInHeaders(FakeServer):
    """Refuses the first call because a header is missing, which only its newer list names."""

    refused: JsonObject | None = None

    async def result(self, line: RawConnection, method: str, params: JsonObject) -> Result:
        if method == "tools/list" and self.refused is not None:
            echo, *rest = LISTS[method][1]
            schema = {"type": "object", "properties": {"text": _TEXT}, "required": ["text"]}
            return {"tools": [{**echo, "inputSchema": schema}, *rest]}
        return await super().result(line, method, params)

    async def work_result(self, line: RawConnection, request: JsonObject) -> Result:
        if request.get("method") == "tools/call" and self.refused is None:
            self.refused = request
            raise HeaderMismatch("Mcp-Param-Text is missing")
        return await super().work_result(line, request)

    async def judge(self, run: ClientRun) -> None:
        if self.refused is None:
            run.skip(_RELISTS, "the client calls no tool")
            return
        asked = [str(each.get("method")) for each in run.stateless]
        later = asked[asked.index("tools/call") + 1 :]
        if "tools/list" in later:
            again = "tools/call" in later[later.index("tools/list") :]
            why = "lists the tools again, but does not repeat its call"
            if run.holds(_RELISTS, again, why):
                self._judge_repeats(run)
        elif run.exit_code is not None:
            why = "does not list the tools again after -32020 for a missing Mcp-Param header"
            run.fail(_RELISTS, why)

    def _judge_repeats(self, run: ClientRun) -> None:
        """A call that is repeated after the new list has the header that the list names."""
        messages = [each.message for each in run.requests]
        known: float | None = None
        for each in run.requests[messages.index(self.refused) + 1 :]:
            if each.name == "tools/list" and known is None:
                known = each.ended
            elif each.name == "tools/call" and known is not None and each.at >= known:
                given = params_of(each.message) if isinstance(each.message, dict) else {}
                arguments = given.get("arguments")
                text = arguments.get("text") if isinstance(arguments, dict) else None
                if given.get("name") == "echo" and isinstance(text, str):
                    why = "repeats its call without the header that the newer list names"
                    has_header = "mcp-param-text" in each.headers
                    run.holds(_RELISTS, has_header, why, request=each)

"""How a client opens a connection, with a handshake or without one, and ends it."""

import asyncio
import signal
from collections.abc import Sequence
from typing import ClassVar, Final

from accord.errors import HeaderMismatch, RequestError, UnsupportedRevision
from accord.protocol.exchange import META_VERSION, meta_of
from accord.protocol.revisions import BEFORE_HANDSHAKE, REVISIONS
from accord.types import JsonObject
from accord_tools.check.fake_server.client_run import ClientRun, cross_run_check
from accord_tools.check.fake_server.http_transport import CannedResponse, ReceivedRequest
from accord_tools.check.fake_server.server import (
    STATELESS,
    FakeServer,
    Result,
    client_scenario,
    names_own_revision,
)
from accord_tools.check.probing.messages import is_request
from accord_tools.check.probing.raw_connection import RawConnection

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

"""How a client opens a connection and ends it."""

import asyncio
import signal
from typing import Final

from accord.errors import RequestError
from accord.protocol.revisions import BEFORE_HANDSHAKE, REVISIONS
from accord.types import JsonObject
from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.server import FakeServer, Result, client_scenario
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

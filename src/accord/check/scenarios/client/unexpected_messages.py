"""Unexpected messages: malformed text, unrequested answers, errors, invalid results."""

from collections.abc import Mapping
from typing import Final

from accord.check.fake_server.client_run import ClientRun
from accord.check.fake_server.server import LISTS, FakeServer, client_scenario
from accord.check.probing.raw_connection import RawConnection
from accord.errors import RequestError
from accord.types import JsonObject, RevisionId

_GARBAGE: Final[tuple[bytes, ...]] = (
    b"this is not a message",
    b'{"jsonrpc": "2.0", "method":',
    b"42",
    b"[]",
    b'{"jsonrpc": "1.0", "method": "notifications/message"}',
    b'{"jsonrpc": "2.0", "method": 7}',
    b'{"jsonrpc": "2.0", "method": "notifications/message", "params": "none"}',
    b'{"jsonrpc": "2.0", "id": {}, "result": {}}',
)


class _UnexpectedMessages(FakeServer):
    """Sends unexpected messages, and then pings."""

    streams = True
    said: tuple[object, ...] = ()

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.answers: bool | None = None

    async def before_first_answer(self, connection: RawConnection, request: JsonObject) -> None:
        for each in self.unexpected_messages(connection):
            await self.send(connection, each, beside=request)
        self.answers = await self.ask(connection, "ping", beside=request) is not None

    def unexpected_messages(self, connection: RawConnection) -> tuple[object, ...]:
        """Return the messages to send."""
        return self.said

    async def judge(self, run: ClientRun) -> None:
        id = "ping.response.prompt"
        if self.answers is None:
            run.skip(id, "the client left")
        else:
            why = f"stays connected but answers no ping after the server {self._did}"
            run.holds(id, self.answers, why)

    @property
    def _did(self) -> str:
        return self.name[0].lower() + self.name[1:]


@client_scenario("ping.response.prompt", is_judged=False)
class SendsMalformedMessages(_UnexpectedMessages):
    """Sends text that is not a message, and malformed messages."""

    said = _GARBAGE


@client_scenario("ping.response.prompt", is_judged=False)
class SendsUnrequestedAnswers(_UnexpectedMessages):
    """Sends answers to requests that were never sent, and one answer twice."""

    def unexpected_messages(self, connection: RawConnection) -> tuple[object, ...]:
        opening = next(
            (each for each in connection.received if each.get("method") == "initialize"), {}
        )
        error = {"code": -32603, "message": "a check"}
        return (
            {"jsonrpc": "2.0", "id": "never-sent", "result": {}},
            {"jsonrpc": "2.0", "id": 999_999, "error": error},
            {"jsonrpc": "2.0", "id": None, "error": error},
            {"jsonrpc": "2.0", "id": opening.get("id"), "result": {}},
        )


@client_scenario()
class AnswersWithErrors(FakeServer):
    """Answers with errors: failed tools, missing resources, failed prompts."""

    async def result(
        self, connection: RawConnection, method: str, params: JsonObject
    ) -> Mapping[str, object] | None:
        if method == "tools/call":
            return {"content": [{"type": "text", "text": "it failed"}], "isError": True}
        if method == "resources/read":
            raise RequestError("resource not found", code=-32002)
        if method in ("prompts/get", "completion/complete"):
            raise RequestError("invalid params", code=-32602)
        return await super().result(connection, method, params)


@client_scenario("lifecycle.capabilities.only-declared", "lifecycle.capabilities.respected")
class DeclaresNoCapabilities(FakeServer):
    """Declares no capabilities."""

    capabilities: Mapping[str, object] = {}

    async def result(
        self, connection: RawConnection, method: str, params: JsonObject
    ) -> Mapping[str, object] | None:
        if method not in ("initialize", "ping"):
            raise RequestError(f"there is no method {method[:80]}", code=-32601)
        return await super().result(connection, method, params)

    async def judge(self, run: ClientRun) -> None:
        if run.is_initialized:
            # Unless a monitor found a violation.
            run.passes("lifecycle.capabilities.only-declared", "lifecycle.capabilities.respected")


@client_scenario("tools.structured-content.client-validates", is_judged=False)
class ReturnsInvalidStructuredContent(FakeServer):
    """Returns structured results that do not match their schemas."""

    async def result(
        self, connection: RawConnection, method: str, params: JsonObject
    ) -> Mapping[str, object] | None:
        schema = {
            "type": "object",
            "properties": {"sum": {"type": "number"}},
            "required": ["sum"],
        }
        if method == "tools/list":
            tools = [{**tool, "outputSchema": schema} for tool in LISTS[method][1]]
            return {"tools": tools}
        if method == "tools/call":
            text = {"type": "text", "text": '{"sum": "many"}'}
            return {"content": [text], "structuredContent": {"sum": "many"}, "isError": False}
        return await super().result(connection, method, params)

    async def judge(self, run: ClientRun) -> None:
        id = "tools.structured-content.client-validates"
        if not run.messages("tools/call"):
            run.skip(id, "the client calls no tool")
        elif run.exit_code is not None and run.exit_code != run.usual_exit_code:
            run.passes(id)
        else:
            run.skip(id, "the client ends as usual, so that validation cannot be observed")

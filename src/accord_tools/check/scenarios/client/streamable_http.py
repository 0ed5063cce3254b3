"""Streamable HTTP: JSON and streams, broken streams, lost sessions, fallback to SSE.

Also headers that repeat parts of requests, for a client of a revision without a handshake.
"""

import asyncio
from typing import Any, Final

from accord.errors import HeaderMismatch
from accord.http.rules import headers as names
from accord.protocol.mirroring import (
    ANNOTATION,
    NAME_HEADER,
    NAME_MEMBERS,
    MirroredArgument,
    decode_header,
    encode_header,
    mirrored_arguments,
)
from accord.types import JsonObject
from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.http_transport import CannedResponse, ReceivedRequest
from accord_tools.check.fake_server.server import LISTS, FakeServer, Result, client_scenario
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

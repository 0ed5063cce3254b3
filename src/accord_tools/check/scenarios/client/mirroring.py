"""Headers that repeat parts of requests, for a client of a revision without a handshake."""

from typing import Any, Final

from accord.errors import HeaderMismatch
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
from accord_tools.check.fake_server.http_transport import ReceivedRequest
from accord_tools.check.fake_server.server import LISTS, FakeServer, Result, client_scenario
from accord_tools.check.probing.messages import params_of
from accord_tools.check.probing.raw_connection import RawConnection

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

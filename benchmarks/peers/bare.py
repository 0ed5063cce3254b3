"""The least that could answer: msgspec, a blocking read, a blocking write; no rules, no library."""

import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec

INTEGER, STRING, BOOLEAN = {"type": "integer"}, {"type": "string"}, {"type": "boolean"}


def tool(name: str, result: dict[str, str] | None, **arguments: dict[str, str]) -> dict[str, Any]:
    listed: dict[str, Any] = {
        "name": name,
        "description": "Search a collection of documents and return the best matches.",
        "inputSchema": {"type": "object", "properties": arguments, "required": [*arguments][:1]},
    }
    if result is not None:
        listed["outputSchema"] = {
            "type": "object",
            "properties": {"result": result},
            "required": ["result"],
        }
    return listed


class Request(msgspec.Struct):
    method: str
    id: int | str | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")


class CallParams(msgspec.Struct):
    name: str
    arguments: msgspec.Raw
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class Add(msgspec.Struct):
    a: int
    b: int


class Echo(msgspec.Struct):
    text: str


class Count(msgspec.Struct):
    to: int


class Text(msgspec.Struct, tag="text", tag_field="type"):
    text: str


class CallResult(msgspec.Struct, rename="camel"):
    content: list[Text]
    structured_content: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    is_error: bool = False


class Response(msgspec.Struct):
    id: int | str | None
    result: Any
    jsonrpc: str = "2.0"


class Fault(msgspec.Struct):
    id: int | str | None
    error: dict[str, Any]
    jsonrpc: str = "2.0"


class Progress(msgspec.Struct, rename="camel"):
    progress_token: int | str
    progress: int


class Notification(msgspec.Struct):
    params: Progress
    jsonrpc: str = "2.0"
    method: str = "notifications/progress"


read_request = msgspec.json.Decoder(Request).decode
read_call = msgspec.json.Decoder(CallParams).decode
read_add = msgspec.json.Decoder(Add).decode
read_echo = msgspec.json.Decoder(Echo).decode
read_count = msgspec.json.Decoder(Count).decode
encode = msgspec.json.Encoder().encode


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def add(call: CallParams) -> CallResult:
    given = read_add(call.arguments)
    total = given.a + given.b
    return CallResult([Text(str(total))], {"result": total})


def echo(call: CallParams) -> CallResult:
    # As accord does: a text is sent once. The peers send it a second time as structured content.
    return CallResult([Text(read_echo(call.arguments).text)])


def count(call: CallParams) -> CallResult:
    token = (call.meta or {})["progressToken"]
    number = read_count(call.arguments).to
    for step in range(1, number + 1):
        write(encode(Notification(Progress(token, step))) + b"\n")
    return CallResult([Text(str(number))], {"result": number})


TOOLS: dict[str, Callable[[CallParams], CallResult]] = {"add": add, "echo": echo, "count": count}


def initialize() -> Any:
    return {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "bare", "version": "1"},
    }


def answer(line: bytes, listing: msgspec.Raw) -> bytes:
    """Answer one message; the answer to a notification is empty."""
    request = read_request(line)
    result: Any
    if request.method == "tools/call":
        call = read_call(request.params)
        result = TOOLS[call.name](call)
    elif request.id is None:
        return b""
    elif request.method == "tools/list":
        result = listing
    elif request.method == "initialize":
        result = initialize()
    else:
        return encode(Fault(request.id, {"code": -32601, "message": "no such method"}))
    return encode(Response(request.id, result))


def listing(count: int) -> msgspec.Raw:
    described = {"query": STRING, "limit": INTEGER, "exact": BOOLEAN}
    tools = [
        tool("add", INTEGER, a=INTEGER, b=INTEGER),
        tool("echo", None, text=STRING),
        tool("count", INTEGER, to=INTEGER),
        *(tool(f"search_{number}", STRING, **described) for number in range(count)),
    ]
    return msgspec.Raw(encode({"tools": tools}))


def main() -> None:
    listed = listing(int(sys.argv[1]))
    rest: list[bytes] = []
    while chunk := os.read(0, 65_536):
        *lines, last = chunk.split(b"\n")
        if lines and rest:
            lines[0] = b"".join((*rest, lines[0]))
            rest = []
        if last:
            rest.append(last)
        answers = [reply for line in lines if (reply := answer(line, listed))]
        if answers:
            write(b"\n".join((*answers, b"")))


if __name__ == "__main__":
    main()

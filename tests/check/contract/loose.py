"""A server over stdio, written in bytes, that keeps its contract or breaks it by one habit."""

import json
import sys
import time

HABIT = sys.argv[1] if len(sys.argv) > 1 else "good"
INPUT = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "minimum": 0, "maximum": 100},
        "tag": {"type": "string", "maxLength": 5},
    },
    "required": ["a"],
    "additionalProperties": False,
}
OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = [
    {
        "name": "count",
        "inputSchema": INPUT,
        "outputSchema": OUTPUT,
        "annotations": {"readOnlyHint": True},
    },
    {"name": "delete_all", "inputSchema": {"type": "object"}},
]


class Refused(Exception):
    pass


class Fault(Exception):
    pass


def wrong(arguments):
    a, tag = arguments.get("a"), arguments.get("tag", "")
    if HABIT == "optional" and "a" not in arguments:
        return False
    if HABIT == "additional" and set(arguments) - {"a", "tag"}:
        return False
    if HABIT == "typeless" and isinstance(a, str):
        return False
    if HABIT == "boundless" and isinstance(a, int) and a > 100:
        return False
    is_number = (isinstance(a, int) and not isinstance(a, bool)) or a == 12.0
    return (
        not is_number
        or not 0 <= a <= 100
        or not isinstance(tag, str)
        or len(tag) > 5
        or bool(set(arguments) - {"a", "tag"})
    )


def count(arguments):
    if wrong(arguments):
        if HABIT == "internal":
            raise Fault("traceback")
        if HABIT == "invalid-params":
            raise Refused("bad arguments")
        return {"content": [{"type": "text", "text": "no"}], "isError": True}
    a = arguments.get("a", 0)
    if not isinstance(a, int):
        a = 0
    if HABIT == "faulty" and a >= 7:
        raise Fault("boom")
    if HABIT == "misfit" and a >= 40:
        return {"content": [], "structuredContent": {"n": "forty"}}
    if HABIT == "unstructured" and arguments.get("tag"):
        return {"content": []}
    if HABIT == "dies" and a >= 13:
        sys.exit(3)
    if HABIT == "hangs" and a >= 13:
        time.sleep(600)
    if HABIT == "image":
        block = {"type": "image", "data": "not base64!", "mimeType": "image/png"}
        return {"content": [block], "structuredContent": {"n": a}}
    if HABIT == "block":
        return {"content": [{"type": "hologram"}], "structuredContent": {"n": a}}
    text = json.dumps({"n": a})
    return {"content": [{"type": "text", "text": text}], "structuredContent": {"n": a}}


def prompt(params):
    arguments = params.get("arguments") or {}
    if HABIT == "prompt":
        raise Fault("boom")
    if "name" not in arguments and HABIT != "lax-prompt":
        raise Refused("name is missing")
    text = f"hello {arguments.get('name')}"
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}


def read(params):
    if HABIT == "unreadable":
        raise Fault("disk")
    if params["uri"] not in ("note://1", "note://text"):
        raise Refused("no such note")
    return {"contents": [{"uri": params["uri"], "text": "a note"}]}


def complete(_params):
    if HABIT == "completion":
        raise Fault("boom")
    return {"completion": {"values": ["Ada"]}}


def initialize(params):
    able = {"tools": {}, "prompts": {}, "resources": {}, "completions": {}}
    return {
        "protocolVersion": params["protocolVersion"],
        "capabilities": able,
        "serverInfo": {"name": "loose", "version": "1"},
    }


ANSWERS = {
    "initialize": initialize,
    "ping": lambda _: {},
    "tools/list": lambda _: {"tools": TOOLS},
    "tools/call": lambda params: count(params.get("arguments") or {}),
    "resources/list": lambda _: {"resources": [{"uri": "note://1", "name": "one"}]},
    "resources/templates/list": lambda _: {
        "resourceTemplates": [{"uriTemplate": "note://{id}", "name": "any"}]
    },
    "resources/read": read,
    "prompts/list": lambda _: {
        "prompts": [{"name": "hello", "arguments": [{"name": "name", "required": True}]}]
    },
    "prompts/get": prompt,
    "completion/complete": complete,
}

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        answer = ANSWERS[message["method"]]
        reply["result"] = answer(message.get("params") or {})
    except KeyError:
        reply["error"] = {"code": -32601, "message": "there is no such method"}
    except Refused as error:
        reply["error"] = {"code": -32602, "message": str(error)}
    except Fault as error:
        reply["error"] = {"code": -32603, "message": str(error)}
    print(json.dumps(reply), flush=True)

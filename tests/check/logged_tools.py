"""A server over stdio whose tools do nothing but write their name into a log, one line per call.

It imports nothing of accord: a check launches it a dozen times. The variable TOOLS has the tools as
JSON, by name with their annotations; the variable LOG names the file.
"""

import json
import os
import sys

TOOLS = json.loads(os.environ["TOOLS"])
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18")
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
METHOD_NOT_FOUND, INVALID_PARAMS = -32601, -32602


class Refusal(Exception):
    pass


def initialize(params):
    asked = params["protocolVersion"]
    return {
        "protocolVersion": asked if asked in REVISIONS else REVISIONS[-1],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "logged", "version": "1"},
    }


def list_tools(params):
    if "cursor" in params:
        raise Refusal(INVALID_PARAMS, "unknown cursor")
    return {"tools": [describe(name, annotations) for name, annotations in TOOLS.items()]}


def describe(name, annotations):
    tool = {"name": name, "description": f"Log {name}.", "inputSchema": SCHEMA}
    return tool if annotations is None else {**tool, "annotations": annotations}


def call_tool(params):
    if params.get("name") not in TOOLS:
        raise Refusal(INVALID_PARAMS, "unknown tool")
    text = params.get("arguments", {}).get("text", "")
    if not isinstance(text, str):
        return {"content": [{"type": "text", "text": "text: not a string"}], "isError": True}
    with open(os.environ["LOG"], "a") as log:
        log.write(f"{params['name']}\n")
    return {"content": [{"type": "text", "text": "done"}]}


METHODS = {
    "initialize": initialize,
    "ping": lambda _: {},
    "tools/list": list_tools,
    "tools/call": call_tool,
}


def answer(request):
    reply = {"jsonrpc": "2.0", "id": request["id"]}
    try:
        if request["method"] not in METHODS:
            raise Refusal(METHOD_NOT_FOUND, "no such method")
        return {**reply, "result": METHODS[request["method"]](request.get("params", {}))}
    except Refusal as refusal:
        return {**reply, "error": dict(zip(("code", "message"), refusal.args, strict=True))}


for line in sys.stdin:
    try:
        message = json.loads(line)
    except ValueError:
        continue
    frames = message if isinstance(message, list) else [message]
    replies = [answer(each) for each in frames if "id" in each and "method" in each]
    if replies:
        print(json.dumps(replies if isinstance(message, list) else replies[0]), flush=True)

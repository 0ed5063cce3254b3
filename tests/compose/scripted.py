"""A server made of plain lines, to misbehave behind a proxy: `python scripted.py MANNER [FILE]`.

Revision 2025-06-18 over stdio. Each line that it starts with is appended to FILE: its process id.
"""

import json
import os
import sys
import time

MANNER = sys.argv[1]
TOOL = {"name": "work", "description": "Work.", "inputSchema": {"type": "object"}}


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def reply(request, result):
    send({"id": request["id"], "result": result})


def list_tools(params):
    if MANNER == "hostile":
        evil = [
            {"name": "\x1b[31mred\n", "inputSchema": {"type": "object"}},
            {"name": "n" * 5000, "inputSchema": {"type": "object"}},
            {"name": "", "inputSchema": {"type": "object"}},
            {"name": "own", "inputSchema": {"type": "object"}},
            {"name": "twice", "inputSchema": {"type": "object"}},
            {"name": "twice", "inputSchema": {"type": "object"}},
        ]
        return {"tools": [*evil, TOOL]}
    if MANNER == "many":
        number = int(params.get("cursor", "0"))
        names = range(number * 1000, number * 1000 + 1000)
        tools = [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in names]
        return {"tools": tools, "nextCursor": str(number + 1)}
    if MANNER == "endless":
        return {"tools": [], "nextCursor": os.urandom(8).hex()}
    return {"tools": [TOOL]}


def call(request):
    if MANNER == "dies":
        os._exit(3)
    if MANNER == "hangs":
        return
    if MANNER == "wrong":
        send({"id": request["id"], "result": {"content": "not a list"}})
        return
    if MANNER == "floods":
        for number in range(3000):
            send({"method": "notifications/tools/list_changed"})
            data = {"level": "info", "data": f"line {number}"}
            send({"method": "notifications/message", "params": data})
    if MANNER == "asks":
        asked = {"messages": [], "maxTokens": 1}
        send({"id": "q", "method": "sampling/createMessage", "params": asked})
        answer = json.loads(sys.stdin.readline())
        text = json.dumps(answer.get("error", answer.get("result")))
        reply(request, {"content": [{"type": "text", "text": text}]})
        return
    reply(request, {"content": [{"type": "text", "text": str(os.getpid())}]})


def main():
    if len(sys.argv) > 2:
        with open(sys.argv[2], "a") as file:
            file.write(f"{os.getpid()}\n")
    if MANNER == "silent":
        time.sleep(600)
    for line in sys.stdin:
        request = json.loads(line)
        method = request.get("method")
        if method == "initialize":
            capabilities = {"tools": {"listChanged": True}, "logging": {}}
            info = {"name": "scripted", "version": "1"}
            answer = {"protocolVersion": "2025-06-18", "capabilities": capabilities}
            reply(request, {**answer, "serverInfo": info})
        elif method == "tools/list":
            reply(request, list_tools(request.get("params", {})))
        elif method == "tools/call":
            call(request)
        elif "id" in request and method is not None:
            fault = {"code": -32601, "message": "not here"}
            send({"id": request["id"], "error": fault})


main()

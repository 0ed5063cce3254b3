"""A small server of 2026-07-28 over stdio with one bad habit, named on its command line.

It uses nothing but the standard library, so that launching it is cheap.
"""

import json
import os
import sys
import threading
import time

HABIT = sys.argv[1] if len(sys.argv) > 1 else "none"
VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
TOOL = {
    "name": "get_time",
    "description": "Tell the time.",
    "inputSchema": {"type": "object", "properties": {}},
    "annotations": {"readOnlyHint": True},
}
OPEN = []


def write(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(method, params):
    hints = {"ttlMs": 0, "cacheScope": "public"}
    if method == "server/discover":
        return {"supportedVersions": [VERSION], "capabilities": {"tools": {}}, **hints}
    if method == "tools/list":
        return {"tools": [TOOL], **hints}
    if method == "tools/call" and params.get("name") == TOOL["name"]:
        return {"content": [{"type": "text", "text": "noon"}], "isError": False}
    return None


def refusal(meta, method, params):
    version = meta.get(f"{PREFIX}protocolVersion")
    if version is None or f"{PREFIX}clientCapabilities" not in meta:
        return {"code": -32602, "message": "_meta is incomplete"}
    if version != VERSION:
        data = {"supported": [VERSION], "requested": version}
        return {"code": -32022, "message": "unsupported", "data": data}
    code = -32602 if method == "tools/call" else -32601
    return {"code": code, "message": "unknown"}


def serve(message):
    params = message.get("params") or {}
    meta, method = params.get("_meta") or {}, message.get("method")
    found = answer(method, params)
    refused = refusal(meta, method, params)
    OPEN.append(method)
    if found is not None and refused["message"] == "unknown":
        info = {f"{PREFIX}serverInfo": {"name": "process", "version": "1"}}
        result = {"resultType": "complete", "_meta": info, **found}
        write({"jsonrpc": "2.0", "id": message["id"], "result": result})
    else:
        write({"jsonrpc": "2.0", "id": message["id"], "error": refused})


def refuse(id, code):
    write({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": f"speak {VERSION}"}})


def read(line):
    try:
        message = json.loads(line)
    except ValueError:
        refuse(None, -32700)
        return
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        refuse(message.get("id") if isinstance(message, dict) else None, -32600)
    elif message.get("method") == "initialize":
        refuse(message["id"], -32022)
    elif "id" in message:
        if isinstance(message.get("method"), str):
            serve(message)
        else:
            refuse(message["id"], -32600)


def main():
    for line in sys.stdin.buffer:
        read(line)
    if HABIT == "stays":
        time.sleep(60)
    if HABIT == "lets a thread hold it":
        threading.Thread(target=time.sleep, args=(60,)).start()
    if HABIT == "stays after a call" and "tools/call" in OPEN:
        time.sleep(60)


if __name__ == "__main__":
    main()
    if HABIT != "lets a thread hold it":
        os._exit(0)

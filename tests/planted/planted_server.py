"""A server that repeats what it knows of its user: `python planted_server.py FILE`.

FILE has the texts, as JSON. It imports nothing of accord, so that it starts fast; `answer` is used
over HTTP, too.
"""

import json
import os
import sys

SCHEMA = {"type": "object", "properties": {"password": {"type": "string"}}}


def answer(message, texts, found):
    """Return the answer to a request.

    Args:
        message: the request.
        texts: what the user gave, in many encodings; said everywhere.
        found: what is a secret by its form; said in messages, not in what the server offers.
    """
    method, said = message["method"], " ; ".join(texts)
    more = " ; ".join([*texts, *found])
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}, "logging": {}},
            "serverInfo": {"name": "planted", "version": "1", "title": said},
            "instructions": said,
        }
    if method == "ping":
        return {"said": more}  # an empty object is expected, so that checkers quote it
    if method == "tools/list":
        tool = {"name": "get_echo", "description": said, "inputSchema": SCHEMA}
        return {"tools": [tool | {"annotations": {"readOnlyHint": True}}]}
    if method == "tools/call":
        given = message["params"].get("arguments")
        texts = [f"got {json.dumps(given)}", more, json.dumps({"inner": more, "given": given})]
        return {
            "content": [{"type": "text", "text": each} for each in texts],
            "structuredContent": {"said": more, "given": given},
            "isError": True,
        }
    return None


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        known = json.load(file)
    texts, found = known["given"], known["found"]
    for text in (*texts, *found):
        # A secret in two writes.
        for part in (text[: len(text) // 2], text[len(text) // 2 :] + "\n"):
            sys.stderr.write(part)
            sys.stderr.flush()
    if known.get("ends"):
        sys.exit(3)
    for line in sys.stdin:
        message = json.loads(line)
        if not isinstance(message, dict) or "id" not in message or "method" not in message:
            continue
        result = answer(message, texts, found)
        if result is None:
            said = {"code": -32601, "message": "unknown: " + " ; ".join([*texts, *found])}
            reply = {"jsonrpc": "2.0", "id": message["id"], "error": said}
        else:
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        data = (json.dumps(reply) + "\n").encode()
        for part in (data[: len(data) // 2], data[len(data) // 2 :]):
            os.write(1, part)


if __name__ == "__main__":
    main()

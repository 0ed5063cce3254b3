"""A server whose answers name their id at the end, as those of other libraries do."""

import json
import sys

for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        info = {"name": "last", "version": "1"}
        result = {
            "protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": info,
        }
    elif asked.get("method") == "tools/call":
        size = asked["params"]["arguments"]["size"]
        result = {"content": [{"type": "text", "text": '"id":1}' + "x" * size}]}
    else:
        result = {}
    if "id" in asked:
        answer = {"result": result, "jsonrpc": "2.0", "id": asked["id"]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()

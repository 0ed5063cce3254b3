"""A server over stdio whose output schemas are made to stop those that validate against them."""

import json
import sys


def ref(number):
    return {"$ref": f"#/$defs/a{number}"}


def nested(depth):
    value = {}
    for _ in range(depth):
        value = {"x": value}
    return value


DOUBLING = {f"a{n}": {"allOf": [ref(n + 1), ref(n + 1)]} for n in range(40)}
LONG = {f"a{n}": {"allOf": [ref(n + 1)]} for n in range(20_000)}
SCHEMAS = {
    "doubling": {"type": "object", **ref(0), "$defs": {**DOUBLING, "a40": {"type": "object"}}},
    "loop": {"type": "object", "allOf": [{"$ref": "#"}]},
    "long": {"type": "object", **ref(0), "$defs": {**LONG, "a20000": {}}},
    "levels": {"type": "object", "allOf": [{"properties": {"x": {"$ref": "#"}}}] * 2},
}
TOOLS = [
    {"name": name, "inputSchema": {"type": "object"}, "outputSchema": schema}
    for name, schema in SCHEMAS.items()
]


def result(request):
    method = request["method"]
    if method == "initialize":
        return {
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "hostile", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return {"content": [], "structuredContent": nested(60)}
    return {}


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            answer = {"jsonrpc": "2.0", "id": request["id"], "result": result(request)}
            print(json.dumps(answer), flush=True)

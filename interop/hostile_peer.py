"""A server over stdio whose every text tries to be more than text: markup, addresses, controls."""

import json
import sys
from base64 import b64encode
from typing import Any, Final

MARKUP: Final = "<img src=x onerror=\"document.title='owned'\"><script>alert(1)</script>"
ADDRESS: Final = "javascript:document.title='owned'"
HIDDEN: Final = "\x1b[31mred\x1b[0m \u202egnp.exe\u202c zero\u200bwidth \U000e0041tag"
SVG: Final = b64encode(
    b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
).decode()
EVERYTHING: Final = f"{MARKUP} {HIDDEN}"


def tool(name: str) -> dict[str, Any]:
    field = {"type": "string", "title": EVERYTHING, "description": EVERYTHING}
    schema = {"type": "object", "properties": {MARKUP: field, "__proto__": field, "": field}}
    return {
        "name": name,
        "title": EVERYTHING,
        "description": EVERYTHING * 3,
        "inputSchema": schema,
        "annotations": {"readOnlyHint": True, "title": MARKUP},
        "icons": [{"src": ADDRESS}, {"src": "https://tracker.test/icon.png"}],
    }


CONTENT: Final[list[dict[str, Any]]] = [
    {"type": "text", "text": EVERYTHING},
    {"type": "image", "mimeType": "image/svg+xml", "data": SVG},
    {"type": "image", "mimeType": "text/html", "data": SVG},
    {"type": "audio", "mimeType": MARKUP, "data": "not base64 !"},
    {"type": "resource_link", "uri": ADDRESS, "name": MARKUP, "title": EVERYTHING},
    {"type": "resource", "resource": {"uri": ADDRESS, "text": MARKUP, "mimeType": "text/html"}},
    {"type": MARKUP, MARKUP: [MARKUP]},
]
CAPABILITIES: Final[dict[str, Any]] = {
    "tools": {},
    "resources": {},
    "prompts": {},
    "logging": {},
    MARKUP: {},
}
ANSWERS: Final[dict[str, Any]] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": CAPABILITIES,
        "serverInfo": {
            "name": EVERYTHING,
            "title": EVERYTHING,
            "version": MARKUP,
            "websiteUrl": ADDRESS,
        },
        "instructions": EVERYTHING,
    },
    "tools/list": {"tools": [tool("plain"), tool(MARKUP), tool(HIDDEN)]},
    "resources/list": {"resources": [{"uri": ADDRESS, "name": MARKUP, "mimeType": MARKUP}]},
    "resources/templates/list": {"resourceTemplates": []},
    "prompts/list": {"prompts": [{"name": MARKUP, "description": EVERYTHING}]},
    "tools/call": {"content": CONTENT, "structuredContent": {MARKUP: EVERYTHING}},
}


def main() -> None:
    """Answer until the input ends."""
    print(EVERYTHING, file=sys.stderr, flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        found = ANSWERS.get(message.get("method"))
        body = {"error": {"code": -32601, "message": EVERYTHING}}
        answer = body if found is None else {"result": found}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()

"""Parts of recordings: the records of a short session that keeps every rule."""

import io
import json

from accord.trace import read
from accord.types import REVISION_IDS

NEW = REVISION_IDS[2]


def line(sender, message=None, **facts):
    return {"from": sender, "transport": "stdio", "message": message, **facts}


def request(id_, method, sender="client", **params):
    body = {"jsonrpc": "2.0", "id": id_, "method": method}
    return line(sender, {**body, "params": params} if params else body)


def result(id_, sender="server", **members):
    return line(sender, {"jsonrpc": "2.0", "id": id_, "result": members})


def opening(revision=NEW):
    return [
        request(
            1,
            "initialize",
            protocolVersion=revision,
            capabilities={},
            clientInfo={"name": "a client", "version": "1"},
        ),
        result(
            1,
            protocolVersion=revision,
            capabilities={"tools": {}},
            serverInfo={"name": "a server", "version": "1"},
        ),
        line("client", {"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ]


def text_of(lines):
    return "".join(json.dumps(each) + "\n" for each in lines)


def records_of(lines):
    return read(io.BytesIO(text_of(lines).encode()))

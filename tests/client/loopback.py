"""A wire whose other end is a function of the test: what it returns is received at once."""

import json


class Loopback:
    """A target for `connect`, and the wire to it."""

    is_congested = False
    # The answer to server/discover; None: it is unknown.
    discovered = None

    def __init__(self, answer):
        self.answer = answer
        self.sent = []
        self.aborted = False

    async def connect_memory(self):
        return self

    async def open(self, receive, lost):
        self.receive, self.lost = receive, lost

    def write(self, data, exchange):
        message = json.loads(data)
        self.sent.append(message)
        if message.get("method") == "initialize":
            self.put(
                id=message["id"],
                result={
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "loopback", "version": "1"},
                },
            )
        elif message.get("method") == "server/discover" and self.discovered is None:
            self.put(id=message["id"], error={"code": -32601, "message": "unknown method"})
        elif message.get("method") == "server/discover":
            self.put(id=message["id"], result=self.discovered)
        elif "method" in message and "id" in message:
            self.answer(self, message)

    def put(self, **message):
        self.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def writable(self):
        pass

    async def close(self):
        pass

    def abort(self):
        self.aborted = True

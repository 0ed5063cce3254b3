"""A server of 2026-07-28 in plain JSON whose answers are functions of the test, on a wire."""

import json

from accord.runtime.wire import CALL_HEADERS

META = "io.modelcontextprotocol/"
EVERYTHING = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}


def ask(state=None, **questions):
    """Return a result that asks: by key, the method and the params of each question."""
    result = {"resultType": "input_required"}
    if questions:
        result["inputRequests"] = {
            key: {"method": method} if params is None else {"method": method, "params": params}
            for key, (method, params) in questions.items()
        }
    return result if state is None else {**result, "requestState": state}


def form(message):
    schema = {"type": "object", "properties": {"value": {"type": "string"}}}
    return "elicitation/create", {"message": message, "requestedSchema": schema}


def text(value):
    return {"resultType": "complete", "content": [{"type": "text", "text": value}]}


class Failure(Exception):
    """The error that a request is answered with."""

    def __init__(self, code, message="no"):
        super().__init__(message)
        self.body = {"code": code, "message": message}


class StatelessServer:
    """A target for `connect`, and the wire to it.

    Args:
        capabilities: those of the server.
        answers: by method with an underscore in place of the slash, what is called with each
            message and returns the result; None: there is no answer yet.
    """

    is_congested = False

    def __init__(self, capabilities=None, **answers):
        self.capabilities = EVERYTHING if capabilities is None else capabilities
        self.answers = answers
        self.sent = []
        self.headers = []

    async def connect_memory(self):
        return self

    async def open(self, receive, lost):
        self.receive, self.lost = receive, lost

    def write(self, data, exchange):
        message = json.loads(data)
        self.sent.append(message)
        self.headers.append(CALL_HEADERS.get())
        if "id" not in message:
            return
        method = message["method"].replace("/", "_")
        answer = self.answers.get(method, getattr(self, method, None))
        try:
            result = answer(message)
        except Failure as failure:
            self.put(id=message["id"], error=failure.body)
            return
        if result is not None:
            self.put(id=message["id"], result=result)

    def put(self, **message):
        self.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def server_discover(self, message):
        return {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": self.capabilities,
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {META + "serverInfo": {"name": "scripted", "version": "1"}},
        }

    # -- listening

    def acknowledge(self, message, **served):
        """Acknowledge a listen request: all of it, or what is given."""
        wanted = served or message["params"]["notifications"]
        self.notify("subscriptions/acknowledged", message["id"], notifications=wanted)

    def notify(self, name, subscription=None, **params):
        if subscription is not None:
            params["_meta"] = {META + "subscriptionId": subscription}
        self.put(method=f"notifications/{name}", params=params)

    # -- what reached it

    def received(self, method):
        return [each for each in self.sent if each["method"] == method]

    def methods(self):
        """The requests after the opening."""
        return [each["method"] for each in self.sent if each["method"] != "server/discover"]

    async def writable(self):
        pass

    async def close(self):
        pass

    def abort(self):
        pass

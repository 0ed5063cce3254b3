"""Client, server and monitor in one process, without any I/O: messages are bytes in variables.

Run it: python examples/without_io.py
"""

from msgspec import Raw

from accord import types as t
from accord.protocol import Endpoint, Monitor, RequestReceived, ResultReceived
from accord.trace import Party, Record

REVISION = "2025-06-18"


class Wire:
    """Hands messages to the other side, past a monitor."""

    def __init__(self) -> None:
        self.client, self.server = Endpoint("client"), Endpoint("server")
        self.monitor = Monitor()

    def deliver(self, sender: Party, message: bytes) -> None:
        self.monitor.observe(Record(sender=sender, message=Raw(message)))
        receiver = self.server if sender == "client" else self.client
        for event in receiver.receive(message):
            if isinstance(event, RequestReceived):
                reply = self.server.respond(event.exchange, serve(event))
                if reply is not None:
                    self.deliver("server", reply)
            elif isinstance(event, ResultReceived):
                print(f"{event.exchange.name}: {event.result}")

    def ask(self, name: str, params: object = None) -> None:
        _, message = self.client.request(name, params)
        self.deliver("client", message)


def serve(event: RequestReceived) -> object:
    """Return the result of a request."""
    if event.exchange.name == "initialize":
        offered = t.ServerCapabilities(tools=t.ToolsCapability())
        return t.InitializeResult(REVISION, offered, t.Implementation("adder", "1"))
    if event.exchange.name == "tools/list":
        return t.ListToolsResult([t.Tool("add", {"type": "object"})])
    return t.EmptyResult()


def main() -> None:
    wire = Wire()
    wire.ask(
        "initialize",
        t.InitializeParams(REVISION, t.ClientCapabilities(), t.Implementation("desk", "1")),
    )
    wire.deliver("client", wire.client.notify("notifications/initialized"))
    wire.ask("tools/list", t.PageParams())
    broken = [each for each in wire.monitor.verdicts() if each.verdict in ("fail", "warn")]
    print(f"the monitor saw {wire.monitor.messages} messages, {len(broken)} requirements broken")


if __name__ == "__main__":
    main()

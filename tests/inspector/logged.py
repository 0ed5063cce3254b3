"""Sessions with a log, for tests: messages go in as a tap hands them over."""

import json

import msgspec

from accord.client.server_spec import ServerSpec
from accord_tools.inspector.actions import load_actions, perform
from accord_tools.inspector.definition import InspectOptions
from accord_tools.inspector.log.message_log import InspectedLog
from accord_tools.inspector.session import Changes, InspectedSession

REVISION = "2025-06-18"


def make_session(kind="live", *, target=None, **options):
    target = target or ServerSpec(name="a server")
    return InspectedSession(0, target, kind, options=InspectOptions(**options), changes=Changes())


async def ask(session, action, /, **params):
    """Run an action as the page does; the answer has travelled as JSON."""
    made = await perform(session, load_actions()[action], json.dumps(params).encode())
    return json.loads(msgspec.json.encode(made))


async def rows_of(session, count=100, start=0, **chosen):
    made = {"with_http": True, "with_stderr": True, **chosen}
    return (await ask(session, "log.rows", start=start, count=count, filter=made))["rows"]


def message(**members):
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def opening(revision=REVISION):
    """The three messages that open a conversation, with their senders."""
    client = {"name": "a client", "version": "1"}
    server = {"name": "a server", "version": "2"}
    asked = {"protocolVersion": revision, "capabilities": {}, "clientInfo": client}
    said = {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": server}
    return [
        ("client", message(id=0, method="initialize", params=asked)),
        ("server", message(id=0, result=said)),
        ("client", message(method="notifications/initialized")),
    ]


def opened(session, transport="stdio", name="main"):
    """Return a conversation that has begun."""
    conversation = session.part(InspectedLog).conversation(name, transport)
    for sender, data in opening():
        conversation.observe(sender, data)
    return conversation


def call(id=1, name="add", **params):
    return message(id=id, method="tools/call", params={"name": name, "arguments": {}, **params})


def answer(id=1, text="3"):
    return message(id=id, result={"content": [{"type": "text", "text": text}]})

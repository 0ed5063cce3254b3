"""Output schemas made to stop a client: the call fails with the reason, in a process of its own.

A client that validates for ever cannot be interrupted, so it runs where it can be killed.
"""

import json
import subprocess
import sys

import msgspec
import pytest

from accord.protocol.monitor import Monitor
from accord.trace import Record
from support import hostile_schemas
from support.hostile_schemas import SCHEMAS, TOOLS, nested
from support.tables import cases

SERVER = hostile_schemas.__file__
CLIENT = """
import asyncio, sys
from accord import connect
from accord.errors import RemoteProtocolError

async def main():
    async with connect([sys.executable, sys.argv[1]]) as client:
        await client.list_tools()
        try:
            await client.call_tool(sys.argv[2])
        except RemoteProtocolError as error:
            print(error)
        await client.ping()

asyncio.run(main())
"""
WHY = {
    "doubling": "names an output schema of doubling that cannot be used: it is refused: its "
    "references expand to more than 1000000 subschemas that apply to one value",
    "loop": "cannot be used: it is refused: the reference '#' leads back to itself",
    "long": "cannot be used: it is refused: refers to more than 1000 definitions",
    "levels": "structured content that cannot be validated: the schema and the size of the value "
    "make it take too long",
}


@pytest.mark.requirement("schema.bounds")
@pytest.mark.parametrize("name", SCHEMAS)
def test_a_hostile_output_schema_fails_the_call_and_leaves_the_client_alive(name):
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, SERVER, name],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert WHY[name] in done.stdout


@cases("name", SCHEMAS)
def test_a_monitor_judges_a_hostile_schema_without_using_it(name):
    tool = next(each for each in TOOLS if each["name"] == name)
    info = {"name": "x", "version": "1"}
    opening = {"protocolVersion": "2025-06-18", "capabilities": {}}
    messages = [
        ("client", {"id": 1, "method": "initialize", "params": {**opening, "clientInfo": info}}),
        (
            "server",
            {
                "id": 1,
                "result": {**opening, "capabilities": {"tools": {}}, "serverInfo": info},
            },
        ),
        ("client", {"method": "notifications/initialized"}),
        ("client", {"id": 2, "method": "tools/list"}),
        ("server", {"id": 2, "result": {"tools": [tool]}}),
        ("client", {"id": 3, "method": "tools/call", "params": {"name": name}}),
        ("server", {"id": 3, "result": {"content": [], "structuredContent": nested(60)}}),
    ]
    monitor = Monitor()
    violations = []
    for number, (sender, message) in enumerate(messages):
        raw = msgspec.Raw(json.dumps({"jsonrpc": "2.0", **message}).encode())
        record = Record(sender=sender, message=raw, t=float(number), number=number)
        violations += monitor.observe(record)
    found = [each for each in violations if "it is refused" in each.why]
    assert bool(found) is (name != "levels")

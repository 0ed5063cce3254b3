"""Everything the client sends is judged by a monitor."""

import json

import msgspec
import pytest

from accord.client import connect
from accord.errors import RequestTimeout
from accord.protocol.monitor import Monitor
from accord.stdio.client import Process
from accord.trace import Record
from accord.types import CreateMessageResult, PromptReference, TextContent

FORM = {"message": "name?", "requestedSchema": {"type": "object", "properties": {}}}
SAMPLE = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "hello"}}],
    "maxTokens": 5,
}


class Tapped:
    """A target whose wire is listened to."""

    is_congested = False

    def __init__(self, command):
        self.inner = Process(command)
        self.monitor = Monitor()
        self.violations = []
        self.sent = []

    async def connect_memory(self):
        return self

    async def open(self, receive, lost):
        def tapped(data):
            self.observe("server", data)
            receive(data)

        await self.inner.open(tapped, lost)

    def observe(self, sender, data):
        record = Record(sender=sender, transport="stdio", message=msgspec.Raw(data))
        self.violations += self.monitor.observe(record)

    def write(self, data, exchange):
        self.observe("client", data)
        self.sent.append(json.loads(data))
        self.inner.write(data, exchange)

    async def writable(self):
        await self.inner.writable()

    async def close(self):
        await self.inner.close()
        self.violations += self.monitor.close()

    def abort(self):
        self.inner.abort()


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_no_message_of_the_client_breaks_a_rule(revision, wayward, run, tmp_path):
    async def ask(client, method, params=None):
        result = await client.call_tool("ask", {"method": method, "params": params})
        return json.loads(result.content[0].text)

    async def main():
        tapped = Tapped(wayward())
        async with connect(
            tapped,
            revision=revision,
            roots=[tmp_path],
            on_elicit=lambda _: {},
            on_sample=lambda _: CreateMessageResult("assistant", TextContent("hi"), "m"),
        ) as client:
            await client.ping()
            assert [each async for each in client.tools()]
            assert [each async for each in client.resources()]
            assert [each async for each in client.resource_templates()]
            assert [each async for each in client.prompts()]
            await client.read_resource("note://1")
            await client.subscribe("note://1")
            await client.unsubscribe("note://1")
            await client.get_prompt("prompt1", {"a": "b"})
            await client.complete(PromptReference("plan"), "city", "Ha", context={"a": "b"})
            await client.set_log_level("debug")
            await client.call_tool("advance", {"steps": 3}, on_progress=print)
            await client.roots_changed([tmp_path / "new"])
            assert "result" in await ask(client, "roots/list")
            assert "result" in await ask(client, "ping")
            assert "result" in await ask(client, "sampling/createMessage", SAMPLE)
            await ask(client, "elicitation/create", FORM)
            with pytest.raises(RequestTimeout):
                await client.call_tool("never", timeout=0.05)
            await client.ping()
        return tapped

    tapped = run(main())
    assert [str(v) for v in tapped.violations if v.party == "client"] == []


@pytest.mark.requirement("progress.value.increases", "progress.notification.active-only")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18"])
def test_progress_on_an_answer_goes_to_a_server_that_wants_it_and_rises(revision, wayward, run):
    async def main():
        asked = []

        async def on_sample(params):
            asked.append(params)
            for value in (1, 3, 2):
                await client.report_progress(params, value, 4, message="thinking")
            return CreateMessageResult("assistant", TextContent("hi"), "m")

        tapped = Tapped(wayward())
        async with connect(tapped, revision=revision, on_sample=on_sample) as client:
            for meta in ({}, {"_meta": {"progressToken": "how far"}}):
                params = {"method": "sampling/createMessage", "params": SAMPLE | meta}
                await client.call_tool("ask", params)
            await client.report_progress(asked[-1], 4)
        return tapped

    tapped = run(main())
    told = [each["params"] for each in tapped.sent if each.get("method", "").endswith("progress")]
    message = {} if revision == "2024-11-05" else {"message": "thinking"}
    expected = {"progressToken": "how far", "total": 4} | message
    assert told == [expected | {"progress": 1}, expected | {"progress": 3}]
    assert [str(v) for v in tapped.violations if v.party == "client"] == []

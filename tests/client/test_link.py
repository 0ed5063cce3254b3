"""What holds on any wire, shown on one that the test itself plays."""

import asyncio
import sys

import pytest

from accord.client import connect
from accord.client.results import OutputSchema, decode_output
from accord.errors import ConnectFailed, ConnectionClosed, RequestTimeout
from accord.types import CallToolResult
from client.loopback import Loopback
from support.running import to_the_end
from support.waiting import until

DONE = {"content": [], "isError": False}


def obliging(wire, message):
    wire.put(id=message["id"], result=DONE)


@to_the_end
async def test_a_request_that_the_server_does_not_read_is_given_up_unsent():
    class Clogged(Loopback):
        async def writable(self):
            await asyncio.Event().wait()

    wire = Clogged(obliging)
    async with connect(wire) as client:
        wire.is_congested = True
        with pytest.raises(RequestTimeout, match="not sent"):
            await client.call_tool("any", timeout=0.05)
    assert wire.sent[-1]["method"] == "notifications/initialized"


@to_the_end
async def test_a_wire_that_is_lost_fails_what_waits_and_what_comes():
    wire = Loopback(lambda *_: None)
    client = await connect(wire)
    call = asyncio.ensure_future(client.call_tool("any"))
    await asyncio.sleep(0)
    wire.lost("the cable was cut")
    with pytest.raises(ConnectionClosed, match="the cable was cut"):
        await call
    with pytest.raises(ConnectionClosed, match="the cable was cut"):
        await client.ping()
    wire.put(method="notifications/message", params={"level": "info", "data": "late"})
    await client.close()
    assert wire.aborted


def test_a_wire_that_does_not_close_cleanly_is_logged_and_aborted(run, caplog):
    class Rusty(Loopback):
        async def close(self):
            raise OSError("stuck")

    async def main():
        wire = Rusty(obliging)
        async with connect(wire):
            pass
        assert wire.aborted

    run(main())
    assert "stuck" in caplog.text


@to_the_end
async def test_a_wire_without_a_process_still_explains_its_failure():
    class Outdated(Loopback):
        def put(self, **message):
            if "result" in message:
                message["result"]["protocolVersion"] = "1999-01-01"
            super().put(**message)

    with pytest.raises(ConnectFailed, match="1999-01-01"):
        await connect(Outdated(obliging))


@to_the_end
async def test_a_wire_that_opens_for_ever_is_given_up():
    class Endless(Loopback):
        async def open(self, receive, lost):
            await asyncio.Event().wait()

    wire = Endless(obliging)
    with pytest.raises(ConnectFailed, match=r"within 0\.05 s"):
        await connect(wire, connect_timeout=0.05)
    assert wire.aborted


def test_callbacks_that_do_not_stop_are_left_behind(run, caplog, monkeypatch):
    monkeypatch.setattr("accord.client.link._CALLBACK_GRACE", 0.05)
    release = asyncio.Event()
    ended = []

    async def stubborn(message):
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        ended.append(True)

    async def main():
        wire = Loopback(obliging)
        async with connect(wire, on_log=stubborn):
            wire.put(method="notifications/message", params={"level": "info", "data": 1})
            await asyncio.sleep(0)
        release.set()
        await until(lambda: ended)

    run(main())
    assert "go on although the client is closed" in caplog.text


@pytest.mark.parametrize("ending", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_a_callback_in_a_thread_that_ends_the_thread_is_an_internal_error(ending, run, caplog):
    def on_elicit(params):
        raise ending

    async def main():
        wire = Loopback(obliging)
        async with connect(wire, on_elicit=on_elicit):
            form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
            wire.put(id="q", method="elicitation/create", params=form)
            while "method" in wire.sent[-1]:
                await asyncio.sleep(0.01)
        assert wire.sent[-1]["error"]["code"] == -32603

    run(main())
    assert type(ending).__name__ in caplog.text


@to_the_end
async def test_objects_with_an_async_call_are_callbacks_too():
    class Answering:
        async def __call__(self, params):
            return False

    wire = Loopback(obliging)
    async with connect(wire, on_elicit=Answering()):
        form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
        wire.put(id="q", method="elicitation/create", params=form)
        while "method" in wire.sent[-1]:
            await asyncio.sleep(0)
    assert wire.sent[-1]["result"] == {"action": "decline"}


def test_without_the_extra_structured_results_are_taken_as_they_come(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    schema = {"type": "object", "$comment": "seen by no other test", "required": ["x"]}
    OutputSchema("give", schema).check(CallToolResult([], structured_content={}))


def test_types_that_validate_themselves_are_asked_to():
    class Model:
        def __init__(self, value):
            self.value = value

        @classmethod
        def model_validate(cls, value):
            return cls(value)

    result = CallToolResult([], structured_content={"x": 1})
    assert decode_output("give", result, Model).value == {"x": 1}

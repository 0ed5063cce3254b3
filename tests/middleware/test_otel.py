"""`trace` and `client_trace`, with the real SDK of OpenTelemetry."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context
from opentelemetry import trace as api
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from accord import Context, Server, ToolError, connect
from accord.client import ClientRequest
from accord.errors import RequestError
from accord.middleware import client_trace, trace
from accord.server import CacheHints
from accord.testing import connected
from accord.types import CallToolParams
from support.http_server import bounded
from support.waiting import in_loop, run, until

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


class Telemetry:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.tracer_provider = TracerProvider(shutdown_on_exit=False)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meter_provider = MeterProvider([self.reader], shutdown_on_exit=False)

    @property
    def providers(self) -> dict[str, Any]:
        return {"tracer_provider": self.tracer_provider, "meter_provider": self.meter_provider}

    def spans(self, method: str | None = None) -> list[Any]:
        return [
            span
            for span in self.exporter.get_finished_spans()
            if method in (None, (span.attributes or {}).get("mcp.method.name"))
        ]

    def points(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else [])
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    made = Telemetry()
    yield made
    made.tracer_provider.shutdown()
    made.meter_provider.shutdown()


def traceparent(span: Any) -> str:
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-0"


def make(telemetry: Telemetry, **settings: Any) -> Server:
    server = Server("desk", middleware=[trace(**telemetry.providers, **settings)])

    @server.tool
    async def add(a: int = 0) -> int:
        """Add."""
        return a

    @server.tool
    async def refuse() -> str:
        """Refuse."""
        raise ToolError("not today")

    @server.tool
    async def crash() -> str:
        """Crash."""
        raise ValueError("broken")

    @server.resource("note://{name}")
    async def note(name: str) -> str:
        if name == "lost":
            raise ConnectionError("down")
        return name

    @server.prompt
    async def greet(name: str) -> str:
        """Greet."""
        return name

    return server


@in_loop
async def test_a_span_of_a_tool_call_follows_the_conventions(telemetry: Telemetry) -> None:
    async with connected(make(telemetry), revision="2025-06-18") as client:
        await client.call_tool("add", {"a": 1})
    (span,) = telemetry.spans("tools/call")
    assert (span.name, span.kind) == ("tools/call add", SpanKind.SERVER)
    assert span.attributes == {
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "add",
        "gen_ai.operation.name": "execute_tool",
        "jsonrpc.request.id": span.attributes["jsonrpc.request.id"],
        "mcp.protocol.version": "2025-06-18",
    }
    assert span.status.status_code is StatusCode.UNSET
    assert span.instrumentation_scope.name == "accord"
    assert [span.name for span in telemetry.spans()] == ["initialize", "tools/call add"]


@in_loop
async def test_over_http_spans_name_session_transport_and_client(telemetry: Telemetry) -> None:
    async with connected(make(telemetry), transport="http", revision="2025-06-18") as client:
        await client.get_prompt("greet", {"name": "ada"})
        await client.read_resource("note://today")
    (prompt,), (read,) = telemetry.spans("prompts/get"), telemetry.spans("resources/read")
    found = prompt.attributes
    assert prompt.name == "prompts/get greet"
    assert found["gen_ai.prompt.name"] == "greet"
    assert (found["network.transport"], found["network.protocol.name"]) == ("tcp", "http")
    assert found["client.address"] == "127.0.0.1"
    assert found["mcp.session.id"] == read.attributes["mcp.session.id"]
    assert (read.name, read.attributes["mcp.resource.uri"]) == ("resources/read", "note://today")


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@in_loop
async def test_the_context_in_meta_is_the_parent_and_reaches_the_handler(
    telemetry: Telemetry, revision: Any
) -> None:
    server, seen = make(telemetry), []

    @server.tool
    def look() -> str:
        """Look, in a thread."""
        seen.append((api.get_current_span().get_span_context(), baggage.get_baggage("user")))
        return ""

    meta = {"traceparent": PARENT, "tracestate": "rojo=1", "baggage": "user=ada"}
    async with connected(server, revision=revision) as client:
        await client.call_tool("look", meta=meta)
    (span,) = telemetry.spans("tools/call")
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == SPAN
    assert span.parent.trace_state.get("rojo") == "1"
    assert seen == [(span.context, "ada")]
    assert not api.get_current_span().get_span_context().is_valid


@in_loop
async def test_the_span_around_is_linked(telemetry: Telemetry) -> None:
    server = make(telemetry)
    tracer = telemetry.tracer_provider.get_tracer("test")
    async with connected(server) as client:
        with tracer.start_as_current_span("transport") as around:
            await client.call_tool("add", meta={"traceparent": PARENT})
            await client.call_tool("add")
    linked, child = telemetry.spans("tools/call")
    assert [link.context.span_id for link in linked.links] == [around.get_span_context().span_id]
    assert child.parent.span_id == around.get_span_context().span_id
    assert not child.links


@in_loop
async def test_errors_of_tools_and_of_the_server_are_errors_of_the_span(
    telemetry: Telemetry,
) -> None:
    async with connected(make(telemetry)) as client:
        for tool in ("refuse", "crash"):
            assert (await client.call_tool(tool)).is_error
        with pytest.raises(RequestError):
            await client.read_resource("note://lost")
    refused, crashed = telemetry.spans("tools/call")
    (lost,) = telemetry.spans("resources/read")
    for span in (refused, crashed):
        assert span.attributes["error.type"] == "tool_error"
        assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in refused.events] == []
    (event,) = crashed.events
    assert event.attributes["exception.type"] == "ValueError"
    assert lost.attributes["error.type"] == lost.attributes["rpc.response.status_code"] == "-32603"
    assert (lost.status.status_code, lost.status.description) == (
        *(StatusCode.ERROR, "internal error"),
    )


@in_loop
async def test_a_fault_of_the_caller_is_not_an_error_and_names_no_span(
    telemetry: Telemetry,
) -> None:
    async with connected(make(telemetry)) as client:
        with pytest.raises(RequestError, match="unknown tool"):
            await client.call_tool("invented")
    (span,) = telemetry.spans("tools/call")
    assert span.name == "tools/call"
    assert span.attributes["gen_ai.tool.name"] == "invented"
    assert span.attributes["rpc.response.status_code"] == "-32602"
    assert "error.type" not in span.attributes
    assert span.status.status_code is StatusCode.UNSET
    (point,) = [
        point
        for point in telemetry.points("mcp.server.operation.duration")
        if point.attributes["mcp.method.name"] == "tools/call"
    ]
    assert "gen_ai.tool.name" not in point.attributes


@in_loop
async def test_durations_are_measured_with_the_advised_buckets(telemetry: Telemetry) -> None:
    async with connected(make(telemetry), revision="2025-06-18") as client:
        for tool in ("add", "add", "refuse"):
            await client.call_tool(tool)
    points = {
        (point.attributes.get("gen_ai.tool.name"), point.attributes.get("error.type")): point
        for point in telemetry.points("mcp.server.operation.duration")
    }
    assert {key: point.count for key, point in points.items()} == {
        (None, None): 1,  # initialize
        ("add", None): 2,
        ("refuse", "tool_error"): 1,
    }
    point = points["add", None]
    assert point.explicit_bounds[:3] == (0.01, 0.02, 0.05)
    assert point.explicit_bounds[-1] == 300
    assert dict(point.attributes) == {
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "add",
        "gen_ai.operation.name": "execute_tool",
        "mcp.protocol.version": "2025-06-18",
    }


@in_loop
async def test_a_cancelled_request_ends_its_span(telemetry: Telemetry) -> None:
    server, begun = make(telemetry), asyncio.Event()

    @server.tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.sleep(60)
        return ""

    async with connected(server) as client:
        call = asyncio.create_task(client.call_tool("wait"))
        await begun.wait()
        call.cancel()
        (span,) = await until(lambda: telemetry.spans("tools/call"))
    assert span.attributes["error.type"] == "cancelled"


@in_loop
async def test_arguments_and_results_are_recorded_only_if_asked(telemetry: Telemetry) -> None:
    async with connected(make(telemetry, arguments=True, results=True)) as client:
        await client.call_tool("add", {"a": 5})
        await client.get_prompt("greet", {"name": "ada"})
    (call,), (prompt,) = telemetry.spans("tools/call"), telemetry.spans("prompts/get")
    assert call.attributes["gen_ai.tool.call.arguments"] == '{"a":5}'
    assert '"result":5' in call.attributes["gen_ai.tool.call.result"]
    assert prompt.attributes["gen_ai.prompt.variable.name"] == "ada"


@in_loop
async def test_questions_of_a_handler_carry_its_span(telemetry: Telemetry) -> None:
    server, asked = make(telemetry), []

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask."""
        await ctx.elicit("name?", {"type": "object", "properties": {}})
        return ""

    async def on_elicit(params: Any) -> Any:
        asked.append(params.meta)
        return {}

    async with connected(server, revision="2025-11-25", on_elicit=on_elicit) as client:
        await client.call_tool("ask")
    (span,) = telemetry.spans("tools/call")
    assert asked[0]["traceparent"].startswith(traceparent(span))
    async with connected(server, revision="2026-07-28", on_elicit=on_elicit) as client:
        assert not (await client.call_tool("ask")).is_error


def sending() -> ClientRequest:
    return ClientRequest("tools/call", CallToolParams("add"), {"own": 1})


@in_loop
async def test_the_half_of_the_client_sends_its_span_along(telemetry: Telemetry) -> None:
    layer, request = client_trace(**telemetry.providers), sending()

    async def proceed(**_: Any) -> str:
        return "sent"

    token = context.attach(baggage.set_baggage("user", "ada"))
    assert await layer(request, proceed) == "sent"
    context.detach(token)

    async def refuse(**_: Any) -> str:
        raise RequestError("no", code=-32602)

    async def lose(**_: Any) -> str:
        raise TimeoutError("late")

    for failing in (refuse, lose):
        with pytest.raises((RequestError, TimeoutError)):
            await layer(sending(), failing)
    sent, refused, lost = telemetry.spans()
    assert (sent.name, sent.kind) == ("tools/call add", SpanKind.CLIENT)
    assert request.meta.pop("traceparent").startswith(traceparent(sent))
    assert request.meta == {"own": 1, "baggage": "user=ada"}
    assert refused.attributes["error.type"] == "-32602"
    assert lost.attributes["error.type"] == "TimeoutError"
    assert sum(point.count for point in telemetry.points("mcp.client.operation.duration")) == 3


@in_loop
async def test_a_client_and_a_server_share_a_trace(telemetry: Telemetry) -> None:
    layers = [client_trace(**telemetry.providers)]
    async with connected(make(telemetry), transport="http", middleware=layers) as client:
        await client.call_tool("add")
        assert (await client.call_tool("refuse")).is_error
    served, sent, refused, sent_refused = telemetry.spans("tools/call")
    assert (served.kind, sent.kind) == (SpanKind.SERVER, SpanKind.CLIENT)
    for inner, outer in ((served, sent), (refused, sent_refused)):
        assert inner.parent.span_id == outer.context.span_id
        assert inner.context.trace_id == outer.context.trace_id
    assert sent_refused.attributes["error.type"] == "tool_error"


def test_without_opentelemetry_the_extra_is_named_and_nothing_is_imported() -> None:
    code = """
import sys
import accord.middleware.otel
assert not any(name.startswith("opentelemetry") for name in sys.modules)
sys.modules["opentelemetry"] = None
from accord.errors import MissingExtra
for make in (accord.middleware.trace, accord.middleware.client_trace):
    try:
        make()
    except MissingExtra as error:
        assert error.extra == "otel" and f"{make.__name__}() needs the extra 'otel'" in str(error)
    else:
        raise SystemExit("not refused")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@in_loop
async def test_a_traced_client_keeps_what_the_server_lets_it_keep(telemetry: Telemetry) -> None:
    server = Server("desk", cache=CacheHints(tools=60), middleware=[trace(**telemetry.providers)])

    @server.tool
    async def add() -> int:
        """Add."""
        return 1

    async with connected(server, middleware=[client_trace(**telemetry.providers)]) as client:
        for _ in range(3):
            await client.list_tools()
    sides = [span.kind for span in telemetry.spans("tools/list")]
    assert sides.count(SpanKind.SERVER) == 1


STDIO = """
from opentelemetry import trace as api
from opentelemetry.sdk.trace import TracerProvider
from accord import Server
from accord.middleware import trace

server = Server("desk", middleware=[trace(tracer_provider=TracerProvider())])


@server.tool
def look() -> dict[str, str]:
    \"\"\"Return the attributes of the span.\"\"\"
    return {key: str(value) for key, value in api.get_current_span().attributes.items()}


server.run()
"""


@in_loop
async def test_over_stdio_the_transport_is_a_pipe(tmp_path: Path) -> None:
    file = tmp_path / "desk.py"
    file.write_text(f"import sys; sys.path[:] = {sys.path!r}\n{STDIO}")
    async with connected(file, transport="stdio") as client:
        found = (await client.call_tool("look")).structured_content
    assert found["network.transport"] == "pipe"
    assert "network.protocol.name" not in found


@pytest.mark.parametrize("transport", ["memory", "http"])
@in_loop
async def test_the_duration_of_a_session_is_measured_at_its_end(
    telemetry: Telemetry, transport: Any
) -> None:
    server = make(telemetry)
    async with connected(server, transport=transport, revision="2025-06-18") as client:
        await client.ping()
        assert telemetry.points("mcp.server.session.duration") == []
    async with connected(server, transport=transport, revision="2026-07-28") as client:
        await client.call_tool("add")
    (point,) = await until(lambda: telemetry.points("mcp.server.session.duration"))
    assert point.count == 1
    assert point.attributes["mcp.protocol.version"] == "2025-06-18"
    assert point.attributes.get("network.transport") == {"http": "tcp"}.get(transport)
    assert telemetry.spans("initialize")[0].attributes["mcp.protocol.version"] == "2025-06-18"


# -- workers


def test_the_counts_of_a_worker_are_observed_while_there_is_one(telemetry: Telemetry) -> None:
    server = make(telemetry)
    with bounded(server.asgi(store="memory:")) as port:
        run(call_over_http(port))
        (point,) = telemetry.points("accord.store.operations")
        assert point.value > 0
        assert server._core.worker is not None
        assert point.attributes == {"accord.worker.id": server._core.worker.id}
        (taken,) = telemetry.points("accord.worker.takeovers")
        assert taken.value == 0
        (time,) = telemetry.points("accord.store.time")
        assert time.value > 0
        assert telemetry.points("accord.worker.lease_margin")
    assert not telemetry.points("accord.store.operations")


def test_servers_with_one_meter_are_observed_together(telemetry: Telemetry) -> None:
    first, second = make(telemetry), make(telemetry)
    with (
        bounded(first.asgi(store="memory:")) as port,
        bounded(second.asgi(store="memory:")) as other,
    ):
        for each in (port, other):
            run(call_over_http(each))
        points = telemetry.points("accord.store.operations")
        assert len({point.attributes["accord.worker.id"] for point in points}) == 2


def test_without_a_worker_there_are_no_counts_of_one(telemetry: Telemetry) -> None:
    with bounded(make(telemetry).asgi()) as port:
        run(call_over_http(port))
    assert not telemetry.points("accord.store.operations")


async def call_over_http(port: int) -> None:
    async with connect(f"http://127.0.0.1:{port}/mcp", revision="2025-06-18") as client:
        assert (await client.call_tool("add", {"a": 1})).structured_content == {"result": 1}

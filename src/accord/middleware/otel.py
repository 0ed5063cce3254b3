"""Spans and metrics of OpenTelemetry, by its semantic conventions for the protocol.

The context of a trace travels in the `_meta` of requests. Nothing of OpenTelemetry is imported
before `trace` or `client_trace` is called.
"""

import asyncio
import time
import weakref
from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.errors import InternalError, InvalidParams, MissingExtra, RequestError, ToolError
from accord.middleware.requests import (
    AnyContext,
    is_failed,
    mark_passing,
    params_of,
    server_of,
    target_of,
)
from accord.server import Middleware, Proceed
from accord.server.questions.channels import QUESTION_META
from accord.types import InitializeResult
from accord.version import __version__

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import Span, TracerProvider

    from accord.client import ClientMiddleware, ClientProceed, ClientRequest
    from accord.server.session import Session
    from accord.sharing.serving.otel import WorkerObserver

_SCOPE: Final = "accord"
_BUCKETS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
# By these codes a server says that the request was wrong; it did not fail itself.
_CALLERS_FAULT: Final = frozenset({-32700, -32600, -32601, -32602, -32002})
# The attributes that metrics have too: those with few values.
_OF_METRICS: Final = frozenset(
    {
        "error.type",
        "gen_ai.operation.name",
        "gen_ai.prompt.name",
        "gen_ai.tool.name",
        "mcp.method.name",
        "mcp.protocol.version",
        "network.protocol.name",
        "network.transport",
        "rpc.response.status_code",
    }
)
_OF_SESSIONS: Final[tuple[str, ...]] = (
    "mcp.protocol.version",
    "network.protocol.name",
    "network.transport",
)

Attributes = dict[str, Any]


def trace(
    *,
    tracer_provider: "TracerProvider | None" = None,
    meter_provider: "MeterProvider | None" = None,
    propagator: "TextMapPropagator | None" = None,
    arguments: bool = False,
    results: bool = False,
) -> Middleware:
    """Return middleware that makes a span of each request, and measures its duration.

    The span continues the trace that the `_meta` of the request names. It is the current span in
    the handler, whose questions to the client carry it further.

    Args:
        tracer_provider: takes the spans; the global one by default.
        meter_provider: takes the histograms `mcp.server.operation.duration` and
            `mcp.server.session.duration`, and with a store the counts of the worker,
            `accord.worker.*` and `accord.store.*`; the global one by default.
        propagator: reads and writes `_meta`; by default the global one: traceparent, tracestate and
            baggage.
        arguments: whether spans have the arguments of tools and prompts, which may be secret.
        results: whether spans have the results of tools, which may be secret.

    Raises:
        MissingExtra: OpenTelemetry is not installed.
    """
    kit = _Kit("trace()", "server", tracer_provider, meter_provider, propagator)

    async def trace_request(ctx: AnyContext, proceed: Proceed) -> Any:
        kit.workers.add(server_of(ctx))
        attributes = _describe_request(ctx)
        name, is_known = _span_name(ctx)
        if arguments:
            attributes |= _describe_arguments(ctx)
        context, links = kit.extract(_meta_of(ctx))
        span = kit.tracer.start_span(
            name, context=context, kind=kit.kind, attributes=attributes, links=links
        )
        started = time.perf_counter()
        QUESTION_META.set(kit.inject)
        ending: Attributes = {}
        try:
            with kit.use(span, context):
                result = await proceed()
            if results and ctx.method == "tools/call" and not is_failed(result):
                span.set_attribute("gen_ai.tool.call.result", _encode(result))
            ending = kit.describe_result(span, result, ctx.failure)
            if isinstance(result, InitializeResult):
                kit.begin_session(ctx._session, started, attributes | ending)
        except BaseException as error:
            ending = kit.describe_error(span, error, _CALLERS_FAULT)
            raise
        finally:
            span.end()
            # A client could invent any number of names.
            seen = attributes if is_known else _without_names(attributes)
            kit.measure(time.perf_counter() - started, seen | ending, context)
        return result

    return mark_passing(trace_request)


def client_trace(
    *,
    tracer_provider: "TracerProvider | None" = None,
    meter_provider: "MeterProvider | None" = None,
    propagator: "TextMapPropagator | None" = None,
) -> "ClientMiddleware":
    """Return middleware of a client that makes a span of each request, and sends its context along.

    Args:
        tracer_provider: takes the spans; the global one by default.
        meter_provider: takes the histogram `mcp.client.operation.duration`; the global one by
            default.
        propagator: writes the `_meta` of requests, as that of `trace`.

    Raises:
        MissingExtra: OpenTelemetry is not installed.
    """
    kit = _Kit("client_trace()", "client", tracer_provider, meter_provider, propagator)

    async def trace_sending(request: "ClientRequest", proceed: "ClientProceed") -> Any:
        attributes = _describe(request.method, request.params)
        target = attributes.get("gen_ai.tool.name") or attributes.get("gen_ai.prompt.name")
        name = f"{request.method} {target}" if target else request.method
        span = kit.tracer.start_span(name, kind=kit.kind, attributes=attributes)
        started = time.perf_counter()
        ending: Attributes = {}
        try:
            with kit.use(span, None):
                request.meta.update(kit.inject())
                result = await proceed()
            ending = kit.describe_result(span, result, None)
        except BaseException as error:
            ending = kit.describe_error(span, error, frozenset())
            raise
        finally:
            span.end()
            kit.measure(time.perf_counter() - started, attributes | ending, None)
        return result

    return trace_sending


# -- facts about requests


def _describe(method: str, params: Any) -> Attributes:
    attributes: Attributes = {"mcp.method.name": method}
    if method == "tools/call":
        attributes["gen_ai.tool.name"] = params.name
        attributes["gen_ai.operation.name"] = "execute_tool"
    elif method == "prompts/get":
        attributes["gen_ai.prompt.name"] = params.name
    elif isinstance(uri := getattr(params, "uri", None), str):
        attributes["mcp.resource.uri"] = uri
    return attributes


def _describe_request(ctx: AnyContext) -> Attributes:
    attributes = _describe(ctx.method, params_of(ctx))
    attributes["jsonrpc.request.id"] = str(ctx.request_id)
    if ctx.method != "initialize":  # which negotiates it
        attributes["mcp.protocol.version"] = ctx.revision
    facts = ctx.request
    if facts.session_id is not None:
        attributes["mcp.session.id"] = facts.session_id
    if ctx._exchange.origin is not None:
        attributes["network.transport"] = "tcp"
        attributes["network.protocol.name"] = "http"
    elif ctx._session.flow is not None:  # set over stdio, not in memory
        attributes["network.transport"] = "pipe"
    if facts.peer is not None:
        attributes["client.address"], attributes["client.port"] = facts.peer
    return attributes


def _meta_of(ctx: AnyContext) -> Mapping[str, Any]:
    try:
        return ctx.meta
    except InvalidParams:  # which is for the handler to say
        return {}


def _span_name(ctx: AnyContext) -> tuple[str, bool]:
    """Return the name of the span, and whether the request is about something that exists."""
    method, server = ctx.method, server_of(ctx)
    if method == "tools/call":
        entry: object = server.tool_entries.get(params_of(ctx).name)
    elif method == "prompts/get":
        entry = server.prompt_entries.get(params_of(ctx).name)
    else:
        return method, True
    # Names that a client invents would be as many names of spans.
    return (method, False) if entry is None else (f"{method} {target_of(ctx)}", True)


def _without_names(attributes: Attributes) -> Attributes:
    names = ("gen_ai.tool.name", "gen_ai.prompt.name")
    return {key: value for key, value in attributes.items() if key not in names}


def _describe_arguments(ctx: AnyContext) -> Attributes:
    given = getattr(params_of(ctx), "arguments", None)
    if given is None or given is msgspec.UNSET:
        return {}
    if ctx.method == "prompts/get":
        return {f"gen_ai.prompt.variable.{name}": str(value) for name, value in given.items()}
    return {"gen_ai.tool.call.arguments": _encode(given)}


def _encode(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return str(value)


# -- OpenTelemetry


class _Kit:
    """The parts of OpenTelemetry that both sides use.

    Raises:
        MissingExtra: it is not installed.
    """

    def __init__(
        self,
        call: str,
        side: str,
        tracer_provider: "TracerProvider | None",
        meter_provider: "MeterProvider | None",
        propagator: "TextMapPropagator | None",
    ) -> None:
        try:
            from opentelemetry import context, metrics, propagate
            from opentelemetry import trace as api
        except ImportError:
            raise MissingExtra("otel", needed_for=call) from None
        self._api = api
        self._contexts = context
        self._propagator = propagator
        self._propagate = propagate
        self.kind = api.SpanKind.SERVER if side == "server" else api.SpanKind.CLIENT
        self.tracer = api.get_tracer(_SCOPE, __version__, tracer_provider)
        meter = metrics.get_meter(_SCOPE, __version__, meter_provider)
        self._histogram, self._session_histogram = (
            meter.create_histogram(
                f"mcp.{side}.{what}.duration",
                unit="s",
                description=f"The duration of an MCP {what} as observed on the {side}.",
                explicit_bucket_boundaries_advisory=_BUCKETS,
            )
            for what in ("operation", "session")
        )
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._meter = meter

    @cached_property
    def workers(self) -> "WorkerObserver":
        """Reports the counts of workers; for servers."""
        find_observer = import_module("accord.sharing.serving.otel").find_observer
        observer: WorkerObserver = find_observer(self._meter)
        return observer

    def extract(self, meta: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        """Return the context that a request names, and links to the one around it."""
        api = self._api
        around = api.get_current_span().get_span_context()
        texts = {key: value for key, value in meta.items() if isinstance(value, str)}
        propagator = self._propagator or self._propagate.get_global_textmap()
        context = propagator.extract(texts, self._contexts.get_current())
        parent = api.get_current_span(context).get_span_context()
        # That of the transport, such as the span of an HTTP request.
        is_other = around.is_valid and parent.span_id != around.span_id
        return context, [api.Link(around)] if is_other else []

    def inject(self) -> dict[str, str]:
        """Return what `_meta` says of the current context."""
        carrier: dict[str, str] = {}
        propagator = self._propagator or self._propagate.get_global_textmap()
        propagator.inject(carrier)
        return carrier

    def use(self, span: "Span", context: Any) -> Any:
        """Make a span the current one, with the baggage of its context, for a block."""
        return _Current(self._contexts, self._api.set_span_in_context(span, context))

    def describe_result(
        self, span: "Span", result: object, cause: BaseException | None
    ) -> Attributes:
        """Note on a span how the request was answered; return the attributes."""
        if isinstance(result, InitializeResult):
            ending = {"mcp.protocol.version": result.protocol_version}
            span.set_attributes(ending)
            return ending
        if not is_failed(result):
            return {}
        ending = {"error.type": "tool_error"}
        self.fail(span, ending, None, cause)
        return ending

    def describe_error(
        self, span: "Span", error: BaseException, harmless: frozenset[int]
    ) -> Attributes:
        """Note on a span that the request failed; return the attributes."""
        if isinstance(error, asyncio.CancelledError | GeneratorExit):
            ending = {"error.type": "cancelled"}
            self.fail(span, ending, None, None)
            return ending
        if isinstance(error, RequestError):
            code, message = error.code, error.message
        elif self.kind is self._api.SpanKind.SERVER:
            code, message = InternalError.default_code, "internal error"
        else:  # a time-out, or a lost connection
            ending = {"error.type": type(error).__qualname__}
            self.fail(span, ending, None, error)
            return ending
        ending = {"rpc.response.status_code": str(code)}
        if code in harmless:
            span.set_attributes(ending)
            return ending
        ending["error.type"] = str(code)
        self.fail(span, ending, message, error)
        return ending

    def fail(
        self,
        span: "Span",
        ending: Attributes,
        message: str | None,
        cause: BaseException | None,
    ) -> None:
        """Give a span the status of an error, and record an exception that was not expected."""
        span.set_attributes(ending)
        span.set_status(self._api.StatusCode.ERROR, message)
        if isinstance(cause, Exception) and not isinstance(cause, RequestError | ToolError):
            span.record_exception(cause)

    def begin_session(self, session: "Session", started: float, attributes: Attributes) -> None:
        """Measure the duration of a session when it ends."""
        if session in self._sessions or not session.is_lasting:
            return
        self._sessions.add(session)
        few = {key: attributes[key] for key in _OF_SESSIONS if key in attributes}

        def measure() -> None:
            self._session_histogram.record(time.perf_counter() - started, few)

        session.closers = (*session.closers, measure)

    def measure(self, seconds: float, attributes: Attributes, context: Any) -> None:
        """Record the duration of a request."""
        few = {key: value for key, value in attributes.items() if key in _OF_METRICS}
        self._histogram.record(seconds, few, context)


class _Current:
    """Makes a context the current one for a block."""

    def __init__(self, contexts: Any, context: Any) -> None:
        self._contexts = contexts
        self._context = context

    def __enter__(self) -> None:
        self._token = self._contexts.attach(self._context)

    def __exit__(self, *_: object) -> None:
        self._contexts.detach(self._token)

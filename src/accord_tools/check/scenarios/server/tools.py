"""Tools: calls with valid and with invalid arguments, unknown tools, and their JSON Schemas."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from accord.protocol.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND
from accord.protocol.verdict import Tally
from accord.types import JsonObject
from accord_tools.arguments.samples import (
    dialect_of,
    nested_arguments,
    plain_mistake,
    refused_by_dialect,
)
from accord_tools.check.probing.messages import Reply, decode_json
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import ConnectionEnded, MessageTimeout, RawConnection
from accord_tools.check.probing.server_facts import ServerFacts, list_all
from accord_tools.check.probing.task_calls import task_id
from accord_tools.check.probing.tool_calls import ToolCall
from accord_tools.check.scenarios._scenario import (
    SURVIVES,
    bare_scenario,
    call,
    call_all,
    has_failed,
    is_alive,
    scenario,
    text_of,
)
from accord_tools.check.verdicts import NO_PROBE

_CALL: Final = "tools/call"
_STRUCTURED: Final = "tools.structured-content.required-with-schema"
_CONFORMS: Final = "tools.call.structured-conforms"
_VALIDATES: Final = "tools.server.validates-inputs"
_VALIDATES_TWIN: Final = "practice.server.validates-inputs"
_AS_PROTOCOL_ERROR: Final = "tools.errors.invalid-arguments-protocol"
_AS_RESULT: Final = "tools.errors.input-validation-in-result"
_AS_RESULT_TWIN: Final = "practice.tools.validation-failure-as-result"
_WITHOUT_ARGUMENTS: Final = "practice.tools.missing-arguments-as-result"
_FAILURE: Final = "practice.tools.error-as-result"
_JSON_FAILURE: Final = "practice.tools.structured-errors"
_EXECUTION: Final = "practice.tools.execution-error-as-result"
_UNKNOWN: Final = "practice.tools.unknown-tool-as-result"
_CASE: Final = "tools.name.case-sensitive"
_HEALTH: Final = "practice.tools.health-check"
_RATE: Final = "tools.server.rate-limited"

_HEADER_MISMATCH: Final = -32020
_HEALTH_WORDS: Final = ("health", "status", "ping", "alive", "diagnos", "version")
_LATER: Final = "the calls become tasks, which may refuse their arguments later"
_PROTOCOL_ERROR: Final = "it is reported as a protocol error, which the specification lists"
# Invalid calls of this many tools show how the server handles them.
_WRONGED: Final = 8
_NO_VALUE: Final = "accord-check-no-such-value"
_SCALARS: Final = ("integer", "number", "boolean", "string")
_JSON_TYPES: Final = (*_SCALARS, "array", "object")


def _none_may_be_called(facts: ServerFacts) -> str | None:
    if facts.callable_tools():
        return None
    reasons = dict.fromkeys(facts.refusal_for(tool) for tool in facts.tools)
    told = next((str(reason) for reason in reasons if reason), "none is listed")
    return f"no tool may be called: {told}"


_CALLED: Final = (_STRUCTURED, _CONFORMS, _FAILURE, _JSON_FAILURE, _EXECUTION)


@scenario(*_CALLED, needs="tools", when=_none_may_be_called, sends=(_CALL, "tools/list"))
async def calls_every_tool(probe: Probe, connection: RawConnection) -> None:
    # The monitor compares results with the schemas that it saw on this connection.
    await list_all(connection, "tools/list", "tools")
    made = await call_all(probe, connection)
    for tool, reply in made:
        _judge_failure(probe, reply, f"a call of {tool.name}")
        if reply.code == METHOD_NOT_FOUND and _is_task_only(tool):
            continue
        if reply.is_error:
            # A tool may refuse arguments that its schema allows.
            is_right = reply.code not in (INTERNAL_ERROR, METHOD_NOT_FOUND, -32000, 0, 1)
            why = f"answers a failing call of {tool.name} with {reply}, expected a"
            probe.holds(_EXECUTION, is_right, f"{why} result with isError")
        elif reply.is_failed_call:
            probe.passes(_EXECUTION)
    await _judge_structured(probe, connection, made)
    probe.skip((_FAILURE, _JSON_FAILURE, _EXECUTION), "no call of a tool fails")


def _is_task_only(tool: ToolCall) -> bool:
    """Return whether a tool may be called as a task only, and else is an unknown method."""
    execution = tool.tool.get("execution")
    return isinstance(execution, dict) and execution.get("taskSupport") == "required"


async def _judge_structured(
    probe: Probe, connection: RawConnection, made: list[tuple[ToolCall, Reply]]
) -> None:
    due = [
        (tool, reply)
        for tool, reply in made
        if isinstance(tool.tool.get("outputSchema"), dict)
        and not reply.is_error
        and not reply.is_failed_call
    ]
    if not due:
        why = "no tool that may be called has an outputSchema and succeeds"
        probe.skip((_STRUCTURED, _CONFORMS), why)
        return
    # If the list changed meanwhile, the monitor has dropped the schemas.
    names = {tool.name for tool, _ in due}
    for tool in probe.facts.callable_tools():
        if tool.name in names and _tally(connection) is None:
            await list_all(connection, "tools/list", "tools")
            await call(probe, connection, tool)
    tally = _tally(connection)
    if tally is not None and tally.breaches:
        probe.skip(_STRUCTURED, f"the breach is reported as {_CONFORMS}")
    elif all("structuredContent" in reply.result for _, reply in due):
        probe.passes(_STRUCTURED)


def _tally(connection: RawConnection) -> Tally | None:
    """Return how results conformed to their schemas; None if none was compared with one."""
    tally = connection.log.tally(_CONFORMS)
    return tally if tally is not None and tally.exercised + tally.breaches else None


def _judge_failure(probe: Probe, reply: Reply, what: str) -> None:
    """Judge how a failure is reported as a result."""
    if not reply.is_failed_call or not isinstance(reply.result.get("content"), list):
        return
    text = text_of(reply)
    probe.holds(_FAILURE, text.strip(), f"answers {what} with isError and no text that explains it")
    if isinstance(decode_json(text), dict | list):
        probe.passes(_JSON_FAILURE)
    else:
        probe.skip(_JSON_FAILURE, "failures are reported as plain text, which the protocol allows")


def _distinct_tools(facts: ServerFacts) -> list[ToolCall]:
    """Return some tools that may be called, of which each name has one schema."""
    counts = Counter(tool.get("name") for tool in facts.tools)
    return [tool for tool in facts.callable_tools() if counts[tool.name] == 1][:_WRONGED]


_REFUSED: Final = (
    _VALIDATES,
    _VALIDATES_TWIN,
    _AS_PROTOCOL_ERROR,
    _AS_RESULT,
    _AS_RESULT_TWIN,
    _FAILURE,
    _WITHOUT_ARGUMENTS,
)


@bare_scenario(*_REFUSED, needs="tools", when=_none_may_be_called, sends=(_CALL,))
async def calls_tools_with_wrong_arguments(probe: Probe) -> None:
    tried = [
        ToolCall(tool.tool, wrong)
        for tool in _distinct_tools(probe.facts)
        for wrong in _wrong_arguments(tool)
    ]
    if not tried:
        why = "no tool that may be called says which arguments it needs"
        probe.skip((_VALIDATES, _VALIDATES_TWIN, _WITHOUT_ARGUMENTS), why)
        return
    async with probe.borrow() as connection:
        for tool in tried:
            reply = await call(probe, connection, tool)
            if reply is not None:
                what = f"{tool.name} with {msgspec.json.encode(tool.arguments).decode()}"
                _judge_refusal(probe, reply, tool.name, what)
        reply = await connection.ask(_CALL, {"name": tried[0].name})
        if reply.is_failed_call:
            probe.passes(_WITHOUT_ARGUMENTS)
        elif reply.is_error:
            probe.skip(_WITHOUT_ARGUMENTS, _PROTOCOL_ERROR)
        await is_alive(probe, connection, "calls with wrong arguments")


def _judge_refusal(probe: Probe, reply: Reply, name: str, what: str) -> None:
    if reply.is_failed_call:
        _judge_failure(probe, reply, f"a call of {what}")
        probe.passes(_AS_RESULT_TWIN, _AS_RESULT)
        why = "it is reported as a result, which the specification lists too"
        probe.skip(_AS_PROTOCOL_ERROR, why)
    elif task_id(reply) is not None:
        probe.skip((_VALIDATES, _VALIDATES_TWIN), _LATER)
        return
    elif reply.is_error:
        probe.passes(_AS_PROTOCOL_ERROR)
        # A tool that refuses all calls does not refuse these arguments.
        # An argument of a wrong type has no header, so a server may miss the header first.
        if name not in probe.facts.refusing and reply.code != _HEADER_MISMATCH:
            probe.fail(_AS_RESULT, f"answers {what} with {reply}, not a result")
        probe.skip(_AS_RESULT_TWIN, _PROTOCOL_ERROR)
    elif has_failed(reply):
        if not isinstance(reply.result.get("isError", False), bool):
            # tools.call.is-error-flag, which the monitor reports.
            return
        probe.fail(_FAILURE, f"reports in text that {what} failed, without isError")
        return
    else:
        probe.fail(_VALIDATES, f"calls {what}, which its inputSchema does not allow")
        probe.skip(_VALIDATES_TWIN, f"the breach is reported as {_VALIDATES}")
        return
    probe.passes(_VALIDATES, _VALIDATES_TWIN)


def _wrong_arguments(call: ToolCall) -> list[JsonObject]:
    """Return arguments without a required one, and with one of another type."""
    schema = call.tool.get("inputSchema")
    schema = schema if isinstance(schema, dict) else {}
    required, properties = schema.get("required"), schema.get("properties")
    if not isinstance(required, list) or not isinstance(properties, dict):
        return []
    made: list[JsonObject] = []
    for name in required[:1]:
        made.append({key: value for key, value in call.arguments.items() if key != name})
        rule = properties.get(name)
        kind = rule.get("type") if isinstance(rule, dict) else None
        if kind in _SCALARS:
            made.append(call.arguments | {name: {"accord-check": []}})
    return made


class _Excluded(msgspec.Struct, frozen=True):
    """Arguments that a schema excludes.

    Attributes:
        arguments: all of them.
        value: the one that is excluded; None has the wrong type.
        allowed: what may stand in its place.
    """

    arguments: JsonObject
    value: str | float | None = None
    allowed: Sequence[object] = ()

    def is_used(self, reply: Reply) -> bool:
        """Return whether a successful answer shows that the value was taken as it is.

        A server may also put another in its place, such as the maximum; then it does not repeat
        the value, or it names the other too.
        """
        if self.value is None:
            return True
        said = text_of(reply) + msgspec.json.encode(reply.result.get("structuredContent")).decode()
        return _names(said, self.value) and not any(_names(said, each) for each in self.allowed)


def _names(text: str, value: object) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(str(value))}(?!\w|\.\d)", text) is not None


@scenario(_VALIDATES, needs="tools", when=_none_may_be_called, is_once=True, sends=(_CALL,))
async def calls_tools_with_values_out_of_range(probe: Probe, connection: RawConnection) -> None:
    for tool in _distinct_tools(probe.facts):
        for wrong in _excluded_arguments(tool):
            reply = await call(probe, connection, ToolCall(tool.tool, wrong.arguments))
            if reply is None or task_id(reply) is not None:
                continue
            if has_failed(reply):
                probe.passes(_VALIDATES)
            elif wrong.is_used(reply):
                what = f"{tool.name} with {msgspec.json.encode(wrong.arguments).decode()}"
                probe.fail(_VALIDATES, f"calls {what}, which its inputSchema does not allow")
    probe.skip(_VALIDATES, "no call shows what becomes of a value that the inputSchema excludes")
    await is_alive(probe, connection, "calls with arguments out of range")


def _excluded_arguments(call: ToolCall) -> list[_Excluded]:
    """Return arguments that a schema excludes: null, a value not in an enum, and a large number.

    Additional arguments are not tried: many servers take no notice of them.
    """
    schema = call.tool.get("inputSchema")
    schema = schema if isinstance(schema, dict) else {}
    required, properties = schema.get("required"), schema.get("properties")
    made: dict[str, _Excluded] = {}
    for name, rule in properties.items() if isinstance(properties, dict) else ():
        if not isinstance(rule, dict):
            continue
        kind, enum, most = rule.get("type"), rule.get("enum"), rule.get("maximum")
        if isinstance(required, list) and name in required and kind in _JSON_TYPES:
            made["null"] = _Excluded(call.arguments | {name: None})
        if kind == "string" and isinstance(enum, list) and enum:
            made["enum"] = _Excluded(call.arguments | {name: _NO_VALUE}, _NO_VALUE, enum)
        if kind in ("integer", "number") and isinstance(most, int | float):
            made["maximum"] = _Excluded(call.arguments | {name: most + 1}, most + 1, [most])
    return list(made.values())


@scenario(_UNKNOWN, SURVIVES, needs="tools", sends=(_CALL,))
async def calls_an_unknown_tool(probe: Probe, connection: RawConnection) -> None:
    params = {"name": "accord-check-no-such-tool", "arguments": {}}
    reply = await connection.ask(_CALL, params)
    why = f"answers a call of an unknown tool with {reply}, expected error -32602"
    # The specification calls an unknown tool a protocol error.
    probe.holds(_UNKNOWN, reply.is_error, why)
    await is_alive(probe, connection, "a call of an unknown tool")


@scenario(_CASE, needs="tools", when=_none_may_be_called, sends=(_CALL,))
async def calls_a_tool_in_other_case(probe: Probe, connection: RawConnection) -> None:
    listed = {str(tool.get("name")) for tool in probe.facts.tools}
    tools = [each for each in probe.facts.callable_tools() if each.name.swapcase() not in listed]
    for tool in tools[:1]:
        other = tool.name.swapcase()
        reply = await connection.ask(_CALL, tool.params | {"name": other})
        probe.holds(_CASE, has_failed(reply), f"treats {other!r} as {tool.name!r}: {reply}")


@bare_scenario(_HEALTH, _RATE, needs="tools")
async def looks_for_a_health_check(probe: Probe) -> None:
    names = [str(tool.get("name")).lower() for tool in probe.facts.tools]
    if any(word in name for name in names for word in _HEALTH_WORDS):
        probe.passes(_HEALTH)
    else:
        probe.skip(_HEALTH, "no tool looks like a health check; ping serves the same purpose")
    probe.skip(_RATE, f"{NO_PROBE}: a careful check does not reach a rate limit")


_DEFAULT: Final = "schema.dialect.default-2020-12"
_SUPPORTS: Final = "schema.dialect.supports-2020-12"
_AS_DECLARED: Final = "schema.dialect.validated-as-declared"
_BOUNDS: Final = "schema.bounds"
_DIALECTS: Final = (_DEFAULT, _SUPPORTS, _AS_DECLARED)
_TOOLS: Final = 20
_CANDIDATES: Final = 3


@scenario(*_DIALECTS, needs="tools", sends=("tools/call",))
async def sends_arguments_that_only_one_dialect_refuses(
    probe: Probe, connection: RawConnection
) -> None:
    for tool in probe.facts.callable_tools()[:_TOOLS]:
        schema = tool.tool.get("inputSchema")
        dialect = dialect_of(schema)
        if not isinstance(schema, dict) or dialect is None:
            continue
        refused = [*refused_by_dialect(schema, tool.arguments)][:_CANDIDATES]
        if not refused or not await _refuses_plain_mistakes(probe, connection, tool):
            continue
        ids = _ids_of(schema, dialect)
        for arguments in refused:
            reply = await call(probe, connection, ToolCall(tool.tool, arguments))
            if reply is not None:
                _judge(probe, ids, reply, f"{tool.name} with {arguments}", dialect)
    probe.skip(_DIALECTS, "no tool that may be called has a schema that dialects read differently")


def _ids_of(schema: JsonObject, dialect: str) -> tuple[str, ...]:
    if "$schema" not in schema:
        return (_DEFAULT, _SUPPORTS)
    return (_SUPPORTS, _AS_DECLARED) if dialect == "2020-12" else (_AS_DECLARED,)


def _judge(probe: Probe, ids: tuple[str, ...], reply: Reply, what: str, dialect: str) -> None:
    why = f"calls {what}, which its inputSchema refuses in JSON Schema {dialect}"
    for id in ids:
        probe.holds(id, has_failed(reply), why)


async def _refuses_plain_mistakes(probe: Probe, connection: RawConnection, tool: ToolCall) -> bool:
    """Return whether arguments are validated at all: tools.server.validates-inputs judges that."""
    wrong = plain_mistake(tool.tool["inputSchema"], tool.arguments)
    if wrong is None:
        return False
    reply = await call(probe, connection, ToolCall(tool.tool, wrong))
    return reply is not None and has_failed(reply)


# -- schemas that refer to themselves

_DEPTH: Final = 300


@scenario(_BOUNDS, needs="tools", sends=("tools/call",))
async def nests_arguments_deeply(probe: Probe, connection: RawConnection) -> None:
    for tool in probe.facts.callable_tools()[:_TOOLS]:
        arguments = nested_arguments(tool.tool["inputSchema"], tool.arguments, _DEPTH)
        if arguments is None:
            continue
        what = f"arguments of {tool.name} that nest {_DEPTH} deep"
        try:
            await connection.ask("tools/call", ToolCall(tool.tool, arguments).params)
        except ConnectionEnded as error:
            probe.fail(_BOUNDS, f"ends after {what}: {error}")
            raise
        except MessageTimeout:
            if not await is_alive(probe, connection, what):
                probe.fail(_BOUNDS, f"answers nothing more after {what}")
                return
        probe.passes(_BOUNDS)
    probe.skip(_BOUNDS, "no tool that may be called has a schema that refers to itself")

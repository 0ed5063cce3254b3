"""Tools: calls with valid arguments, with invalid ones, and of unknown tools."""

from typing import Final

import msgspec

from accord.check.probing.messages import Reply
from accord.check.probing.probe import Probe
from accord.check.probing.raw_connection import RawConnection
from accord.check.probing.server_facts import ServerFacts, list_all
from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._requests import call, call_all, has_failed, is_alive, text_of
from accord.check.verdicts import NO_PROBE
from accord.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from accord.types import JsonObject

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

_HEALTH_WORDS: Final = ("health", "status", "ping", "alive", "diagnos", "version")
# Invalid calls of this many tools show how the server handles them.
_WRONGED: Final = 8


def _none_may_be_called(facts: ServerFacts) -> str | None:
    if facts.callable_tools():
        return None
    reasons = dict.fromkeys(facts.refusal_for(tool) for tool in facts.tools)
    told = next((str(reason) for reason in reasons if reason), "none is listed")
    return f"no tool may be called: {told}"


@scenario(
    _STRUCTURED,
    _CONFORMS,
    _FAILURE,
    _JSON_FAILURE,
    _EXECUTION,
    needs="tools",
    when=_none_may_be_called,
)
async def calls_every_tool(probe: Probe) -> None:
    async with probe.borrow() as connection:
        # The monitor compares results with the schemas that it saw on this connection.
        await list_all(connection, "tools/list", "tools")
        made = await call_all(probe, connection)
        for tool, reply in made:
            _judge_failure(probe, reply, f"a call of {tool['name']}")
            if reply.is_error:
                # A tool may refuse arguments that its schema allows.
                is_told_apart = reply.code != INVALID_PARAMS
                probe.holds(
                    _EXECUTION,
                    not is_told_apart or reply.code not in (INTERNAL_ERROR, -32000, 0, 1),
                    f"answers a failing call of {tool['name']} with {reply}, expected a"
                    " result with isError",
                )
            elif reply.result.get("isError") is True:
                probe.holds(_EXECUTION, condition=True, why="")
        await _judge_structured(probe, connection, made)
        for id in (_FAILURE, _JSON_FAILURE, _EXECUTION):
            probe.skip(id, "no call of a tool fails")


async def _judge_structured(
    probe: Probe, connection: RawConnection, made: list[tuple[JsonObject, Reply]]
) -> None:
    due = {
        str(tool["name"]): reply
        for tool, reply in made
        if isinstance(tool.get("outputSchema"), dict)
        and not reply.is_error
        and reply.result.get("isError") is not True
    }
    if not due:
        for id in (_STRUCTURED, _CONFORMS):
            probe.skip(id, "no tool that may be called has an outputSchema and succeeds")
        return
    # If the list changed meanwhile, the monitor has dropped the schemas.
    for tool, arguments in probe.facts.callable_tools():
        if tool["name"] in due and not _was_held_to_schemas(connection):
            await list_all(connection, "tools/list", "tools")
            await call(probe, connection, tool, arguments)
    tally = connection.log.monitor.tallies.get(_CONFORMS) if connection.log.monitor else None
    if tally is not None and tally.breaches:
        probe.skip(_STRUCTURED, f"the breach is reported as {_CONFORMS}")
    elif all("structuredContent" in reply.result for reply in due.values()):
        probe.holds(_STRUCTURED, condition=True, why="")


def _was_held_to_schemas(connection: RawConnection) -> bool:
    tally = connection.log.monitor.tallies.get(_CONFORMS) if connection.log.monitor else None
    return tally is not None and tally.exercised + tally.breaches > 0


def _judge_failure(probe: Probe, reply: Reply, what: str) -> None:
    """Judge how a failure is reported as a result."""
    if reply.result.get("isError") is not True:
        return
    text = text_of(reply)
    probe.holds(_FAILURE, text.strip(), f"answers {what} with isError and no text that explains it")
    if _is_json(text):
        probe.holds(_JSON_FAILURE, condition=True, why="")
    else:
        probe.skip(_JSON_FAILURE, "failures are reported as plain text, which the protocol allows")


def _is_json(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict | list)
    except (ValueError, RecursionError):
        return False


@scenario(
    _VALIDATES,
    _VALIDATES_TWIN,
    _AS_PROTOCOL_ERROR,
    _AS_RESULT,
    _AS_RESULT_TWIN,
    _FAILURE,
    _WITHOUT_ARGUMENTS,
    needs="tools",
    when=_none_may_be_called,
)
async def calls_tools_with_wrong_arguments(probe: Probe) -> None:
    tried = [
        (tool, wrong)
        for tool, args in probe.facts.callable_tools()[:_WRONGED]
        for wrong in _wrong_arguments(tool, args)
    ]
    if not tried:
        for id in (_VALIDATES, _VALIDATES_TWIN, _WITHOUT_ARGUMENTS):
            probe.skip(id, "no tool that may be called says which arguments it needs")
        return
    async with probe.borrow() as connection:
        for tool, arguments in tried:
            reply = await call(probe, connection, tool, arguments)
            if reply is not None:
                what = f"{tool['name']} with {msgspec.json.encode(arguments).decode()}"
                _judge_refusal(probe, reply, what)
        tool = tried[0][0]
        reply = await connection.ask(_CALL, {"name": tool["name"]})
        if reply.result.get("isError") is True:
            probe.holds(_WITHOUT_ARGUMENTS, condition=True, why="")
        elif reply.is_error:
            probe.skip(
                _WITHOUT_ARGUMENTS,
                "it is reported as a protocol error, which the specification lists",
            )
        await is_alive(probe, connection, "calls with wrong arguments")


def _judge_refusal(probe: Probe, reply: Reply, what: str) -> None:
    if reply.result.get("isError") is True:
        _judge_failure(probe, reply, f"a call of {what}")
        probe.holds(_AS_RESULT_TWIN, condition=True, why="")
        probe.holds(_AS_RESULT, condition=True, why="")
        probe.skip(
            _AS_PROTOCOL_ERROR, "it is reported as a result, which the specification lists too"
        )
    elif reply.is_error:
        probe.holds(_AS_PROTOCOL_ERROR, condition=True, why="")
        probe.holds(_AS_RESULT, condition=False, why=f"answers {what} with {reply}, not a result")
        probe.skip(
            _AS_RESULT_TWIN, "it is reported as a protocol error, which the specification lists"
        )
    elif has_failed(reply):
        probe.fail(_FAILURE, f"reports in text that {what} failed, without isError")
        return
    elif not probe.holds(
        _VALIDATES, condition=False, why=f"calls {what}, which its inputSchema does not allow"
    ):
        probe.skip(_VALIDATES_TWIN, f"the breach is reported as {_VALIDATES}")
        return
    probe.holds(_VALIDATES, condition=True, why="")
    probe.holds(_VALIDATES_TWIN, condition=True, why="")


def _wrong_arguments(tool: JsonObject, arguments: JsonObject) -> list[JsonObject]:
    """Return arguments without a required one, and with one of another type."""
    schema = tool.get("inputSchema")
    schema = schema if isinstance(schema, dict) else {}
    required = schema.get("required")
    properties = schema.get("properties")
    if not isinstance(required, list) or not isinstance(properties, dict):
        return []
    made: list[JsonObject] = []
    for name in required[:1]:
        made.append({key: value for key, value in arguments.items() if key != name})
        rule = properties.get(name)
        kind = rule.get("type") if isinstance(rule, dict) else None
        if kind in ("integer", "number", "boolean", "string"):
            made.append(arguments | {name: {"accord-check": []}})
    return made


@scenario(_UNKNOWN, "practice.server.survives-errors", needs="tools")
async def calls_an_unknown_tool(probe: Probe) -> None:
    async with probe.borrow() as connection:
        reply = await connection.ask(_CALL, {"name": "accord-check-no-such-tool", "arguments": {}})
        probe.holds(
            _UNKNOWN,
            # The specification calls an unknown tool a protocol error.
            reply.is_error,
            f"answers a call of an unknown tool with {reply}, expected error -32602",
        )
        await is_alive(probe, connection, "a call of an unknown tool")


@scenario(_CASE, needs="tools", when=_none_may_be_called)
async def calls_a_tool_in_other_case(probe: Probe) -> None:
    listed = {str(tool.get("name")) for tool in probe.facts.tools}
    found = [
        (tool, arguments)
        for tool, arguments in probe.facts.callable_tools()
        if str(tool["name"]).swapcase() not in listed
    ]
    async with probe.borrow() as connection:
        for tool, arguments in found[:1]:
            other = str(tool["name"]).swapcase()
            reply = await connection.ask(_CALL, {"name": other, "arguments": arguments})
            probe.holds(_CASE, has_failed(reply), f"treats {other!r} as {tool['name']!r}: {reply}")


@scenario(_HEALTH, _RATE, needs="tools")
async def looks_for_a_health_check(probe: Probe) -> None:
    names = [str(tool.get("name")).lower() for tool in probe.facts.tools]
    if any(word in name for name in names for word in _HEALTH_WORDS):
        probe.holds(_HEALTH, condition=True, why="")
    else:
        probe.skip(_HEALTH, "no tool looks like a health check; ping serves the same purpose")
    probe.skip(_RATE, f"{NO_PROBE}: a careful check does not reach a rate limit")

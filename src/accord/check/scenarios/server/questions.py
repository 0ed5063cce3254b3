"""Questions of the server: answered well, refused, answered wrongly, and by a client with less."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from accord.check.probing.client_answers import answer_to
from accord.check.probing.raw_connection import EVERYTHING
from accord.check.probing.samples import sample
from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._asking import is_alive
from accord.check.scenarios.server._calling import asking_tools, call, text_of
from accord.protocol.json_schema import compile_schema
from accord.protocol.jsonrpc import INVALID_PARAMS

if TYPE_CHECKING:
    from accord.check.probing.probe import Probe
    from accord.check.probing.raw_connection import RawConnection, Respond

__all__: list[str] = []

_ELICIT: Final = "elicitation/create"
_METHODS: Final = {
    "roots.list.method": "roots/list",
    "sampling.create.method": "sampling/createMessage",
    "elicitation.create.method": _ELICIT,
}
_VALIDATED: Final = "elicitation.answers.validated"
_MODES: Final = "elicitation.mode.supported-only"
_TOOLS: Final = "sampling.tools.not-without-capability"
_TOOL_USE: Final = "sampling.tool-use.server-answers-all"
# An answer that a form refuses: a text where it asks for something else, a number for a text.
_WRONG: Final = ("accord-check-wrong", 918273645)
_OBJECTION: Final = re.compile(
    r"error|invalid|expected|must|fail|not a|wrong answer", re.IGNORECASE
)


@scenario(*_METHODS, _MODES, _TOOLS)
async def answers_what_the_server_asks(probe: "Probe") -> None:
    async with probe.borrow() as line:
        for tool, arguments in probe.facts.callable_tools():
            await call(probe, line, tool, arguments)
        questions = [each for each in line.received if "method" in each and "id" in each]
        methods = {str(each["method"]) for each in questions}
        for id, method in _METHODS.items():
            area = method.partition("/")[0]
            strange = [name for name in methods if name.startswith(f"{area}/") and name != method]
            if strange:
                probe.fail(id, f"asks by {strange[0]}, expected {method}")
            elif method in methods:
                probe.holds(id, condition=True, why="")
            probe.skip(id, f"no tool that may be called asks by {method}")
        for question in questions:
            _judge_question(probe, question)
        probe.skip(_MODES, "no tool that may be called asks the user")
        probe.skip(_TOOLS, "no tool that may be called asks for a model")


def _judge_question(probe: "Probe", question: Mapping[str, Any]) -> None:
    params = question.get("params")
    params = params if isinstance(params, dict) else {}
    if question["method"] == _ELICIT:
        mode = _mode_of(question)
        probe.holds(_MODES, mode == "form", f"asks in mode {mode!r}, which was not declared")
    elif question["method"] == "sampling/createMessage":
        has_tools = "tools" in params or "toolChoice" in params
        probe.holds(_TOOLS, not has_tools, "offers tools to a model that was declared without")


@scenario(_MODES)
async def declares_pages_and_no_forms(probe: "Probe") -> None:
    if not probe.facts.is_asking:
        probe.skip(_MODES, "no tool that may be called asks the user")
        return

    async def respond(line: "RawConnection", question: dict[str, Any]) -> None:
        answer = answer_to(question, line.client_capabilities)
        if question.get("method") == _ELICIT:
            if _mode_of(question) == "url":
                answer["result"] = {"action": "decline"}
            else:
                answer.pop("result", None)
                answer["error"] = {"code": INVALID_PARAMS, "message": "forms were not declared"}
        await line.say(answer)

    capabilities = {**EVERYTHING, "elicitation": {"url": {}}}
    async with probe.open(capabilities=capabilities) as line:
        line.respond = respond
        for tool, arguments in probe.facts.callable_tools():
            since = len(line.received)
            await call(probe, line, tool, arguments)
            asked = [each for each in line.received[since:] if each.get("method") == _ELICIT]
            for mode in map(_mode_of, asked):
                why = f"asks in mode {mode!r} a client that declared only 'url'"
                probe.holds(_MODES, mode == "url", f"{why}, in a call of {tool['name']}")


def _mode_of(question: Mapping[str, Any]) -> Any:
    params = question.get("params")
    return params.get("mode", "form") if isinstance(params, dict) else "form"


@scenario("practice.server.survives-errors")
async def refuses_what_the_server_asks(probe: "Probe") -> None:
    asking = await asking_tools(probe)
    if not asking:
        return
    for respond in (_refusing("decline"), _refusing("cancel"), _failing):
        async with probe.borrow() as line:
            line.respond = respond
            for tool, arguments in asking:
                await call(probe, line, tool, arguments)
            await is_alive(probe, line, "questions that were refused")


def _refusing(action: str) -> "Respond":
    async def respond(line: "RawConnection", question: dict[str, Any]) -> None:
        answer = answer_to(question, line.client_capabilities)
        if question.get("method") == _ELICIT:
            answer["result"] = {"action": action}
        await line.say(answer)

    return respond


async def _failing(line: "RawConnection", question: dict[str, Any]) -> None:
    error = {"code": -1, "message": "refused by the user"}
    await line.say({"jsonrpc": "2.0", "id": question.get("id"), "error": error})


@scenario(_VALIDATED)
async def answers_the_server_wrongly(probe: "Probe") -> None:
    refutable: list[Any] = []

    async def respond(line: "RawConnection", question: dict[str, Any]) -> None:
        answer = answer_to(question, line.client_capabilities)
        wrong = _wrong_content(question)
        if wrong is not None:
            refutable.append(question.get("id"))
            answer["result"] = {"action": "accept", "content": wrong}
        await line.say(answer)

    async with probe.borrow() as line:
        line.respond = respond
        for tool, arguments in probe.facts.callable_tools():
            refutable.clear()
            reply = await call(probe, line, tool, arguments)
            if reply is None or not refutable:
                continue
            text = text_of(reply)
            is_taken = not reply.is_error and reply.result.get("isError") is not True
            used = next((wrong for wrong in _WRONG if str(wrong) in text), None)
            probe.holds(
                _VALIDATED,
                not is_taken or used is None or _OBJECTION.search(text),
                f"takes {used!r} for what its form asks for, in a call of {tool['name']}",
            )
        probe.skip(_VALIDATED, "no tool that may be called asks the user by a form")


def _wrong_content(question: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an answer that the schema of a form refuses; None where none is known."""
    params = question.get("params")
    schema = params.get("requestedSchema") if isinstance(params, dict) else None
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if question.get("method") != _ELICIT or not isinstance(properties, dict):
        return None
    content = {}
    for name, rule in properties.items():
        refused = (wrong for wrong in _WRONG if _is_refused(rule, wrong))
        content[name] = next(refused, sample(rule))
    return content if _is_refused(schema, content) else None


def _is_refused(schema: Any, value: Any) -> bool:
    try:
        return compile_schema(schema)(value) is not None
    except ValueError:
        # What a schema means that is none is not known; the monitor reports it.
        return False


@scenario(_TOOL_USE)
async def lets_the_model_use_tools(probe: "Probe") -> None:
    used: list[str] = []
    answered: list[str] = []

    async def respond(line: "RawConnection", question: dict[str, Any]) -> None:
        answer = answer_to(question, line.client_capabilities)
        params = question.get("params")
        tools = params.get("tools") if isinstance(params, dict) else None
        if isinstance(tools, list) and tools and not used:
            use = {"type": "tool_use", "id": "accord-check-1", "input": {}}
            used.append("accord-check-1")
            answer["result"]["content"] = [use | {"name": str(tools[0].get("name"))}]
            answer["result"]["stopReason"] = "toolUse"
        elif used and isinstance(params, dict):
            answered.append(str(params.get("messages")))
        await line.say(answer)

    capabilities = {**EVERYTHING, "sampling": {"tools": {}}}
    async with probe.open(capabilities=capabilities) as line:
        line.respond = respond
        for tool, arguments in probe.facts.callable_tools():
            await call(probe, line, tool, arguments)
        if answered:
            told = any("accord-check-1" in text for text in answered)
            probe.holds(_TOOL_USE, told, "asks on without a result of the tool that was used")
        probe.skip(_TOOL_USE, "no tool that may be called lets a model use tools")

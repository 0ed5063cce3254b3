"""Requests of the server to the client: answered, refused, answered wrongly, or never.

Also the error of 2025-11-25 that sends the user to a page before a request can go on, and which
questions follow from what a client declares, once or with each request.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from accord.protocol.catalogue import catalogue
from accord.protocol.revisions import REVISIONS
from accord.types import JsonObject, RevisionId
from accord_tools.arguments.samples import refuses, sample
from accord_tools.check.probing.messages import (
    CAPABILITY_OF,
    Reply,
    answer_to,
    is_question,
    objects_in,
    params_of,
    progress_token_of,
    questions_in,
)
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import (
    EVERYTHING,
    ConnectionEnded,
    MessageTimeout,
    RawConnection,
    Respond,
)
from accord_tools.check.probing.task_calls import (
    POLL_SECONDS,
    TASKS,
    ClientTasks,
    has_extension,
    shortest_wait,
)
from accord_tools.check.probing.tool_calls import ToolCall
from accord_tools.check.scenarios._scenario import (
    MISSING_URI,
    SURVIVES,
    answer_pings_only,
    arrives,
    asking_tools,
    bare_scenario,
    call,
    call_all,
    harmless_method,
    is_alive,
    replies,
    scenario,
    text_of,
)
from accord_tools.check.scenarios.server.asked_rounds import (
    ASKING_METHODS,
    NO_QUESTIONS,
    AskingRequest,
    call_and_answer,
    find_asking,
    is_asking,
    missing_capability,
    mode_of,
    open_rounds,
    questions_of,
)

_ELICIT: Final = "elicitation/create"
_CREATE: Final = "elicitation.create.method"
_METHODS: Final = {
    "roots.list.method": "roots/list",
    "sampling.create.method": "sampling/createMessage",
    _CREATE: _ELICIT,
}
_VALIDATED: Final = "elicitation.answers.validated"
_MODES: Final = "elicitation.mode.supported-only"
_TOOLS: Final = "sampling.tools.not-without-capability"
_TOOL_USE: Final = "sampling.tool-use.server-answers-all"
# Judged by the monitor, in what follows the use of a tool.
_TOOL_MESSAGES: Final = (
    "sampling.tool-results.alone",
    "sampling.tool-use.balanced",
    "sampling.tool-result.id-matches",
)
# Models use several tools at once.
_USES: Final = {f"accord-check-{number}": number for number in (1, 2)}
# Every form refuses this, except in a field for free text.
_WRONG: Final = "accord-check-wrong"
# How many members of a form are answered wrongly, one at a time.
_MEMBERS: Final = 3


@scenario(*_METHODS, _MODES, _TOOLS, sends=("tools/call",))
async def answers_requests_of_the_server(probe: Probe, connection: RawConnection) -> None:
    await call_all(probe, connection)
    questions = [each for message in connection.received for each in questions_in(message)]
    methods = {str(each["method"]) for each in questions}
    for id, method in _METHODS.items():
        area = method.partition("/")[0]
        strange = [name for name in methods if name.startswith(f"{area}/") and name != method]
        if strange:
            probe.fail(id, f"sends {strange[0]}, expected {method}")
        elif method in methods:
            probe.passes(id)
        probe.skip(id, f"no tool that may be called sends {method}")
    for question in questions:
        params = params_of(question)
        if question["method"] == _ELICIT:
            _judge_message(probe, connection, question)
            mode = mode_of(question)
            # An unknown mode is elicitation.form.mode-and-schema.
            if mode in ("form", "url"):
                why = f"asks in mode {mode!r}, which was not declared"
                probe.holds(_MODES, mode == "form", why)
        elif question["method"] == "sampling/createMessage":
            has_tools = "tools" in params or "toolChoice" in params
            why = "offers tools to a client that did not declare sampling.tools"
            probe.holds(_TOOLS, not has_tools, why)
    probe.skip(_MODES, "no tool that may be called asks the user")
    probe.skip(_TOOLS, "no tool that may be called asks for a model")


def _judge_message(probe: Probe, connection: RawConnection, question: JsonObject) -> None:
    """Judge whether a question has a message for the user."""
    if catalogue()[_CREATE].holds_in(probe.revision):
        connection.point_at(question)
        is_text = isinstance(params_of(question).get("message"), str)
        probe.holds(_CREATE, is_text, f"sends {_ELICIT} without message, a string")


@bare_scenario(SURVIVES, sends=("tools/call",))
async def refuses_requests_of_the_server(probe: Probe) -> None:
    asking = await asking_tools(probe)
    if not asking:
        return
    for respond in (_refuse_with("decline"), _refuse_with("cancel"), _answer_with_error):
        async with probe.borrow() as connection:
            connection.respond = respond
            for tool in asking:
                await call(probe, connection, tool)
            await is_alive(probe, connection, "questions that were refused")


def _refuse_with(action: str) -> Respond:
    async def respond(connection: RawConnection, question: JsonObject) -> None:
        answer = answer_to(question, connection.client_capabilities)
        if question.get("method") == _ELICIT:
            answer["result"] = {"action": action}
        await connection.send(answer)

    return respond


async def _answer_with_error(connection: RawConnection, question: JsonObject) -> None:
    error = {"code": -1, "message": "refused by the user"}
    await connection.send({"jsonrpc": "2.0", "id": question.get("id"), "error": error})


@scenario(_VALIDATED, is_once=True, sends=("tools/call",))
async def sends_invalid_answers(probe: Probe, connection: RawConnection) -> None:
    for tool in probe.facts.callable_tools():
        valid = await _call_with_answer(probe, connection, tool, None)
        if valid is None:
            continue
        for member in _refutable_members(valid.schema):
            invalid = await _call_with_answer(probe, connection, tool, member)
            if invalid is None:
                continue
            is_refused = invalid.reply.is_error or invalid.reply.is_failed_call
            known = str(valid.content.get(member, ""))
            is_used = not is_refused and _is_used_alike(
                text_of(valid.reply), known, text_of(invalid.reply)
            )
            why = f"uses {_WRONG!r} as {member!r:.40}, which its form refuses ({tool.name})"
            probe.holds(_VALIDATED, not is_used, why)
    probe.skip(_VALIDATED, "no tool that may be called asks by a form that refuses some text")


class _Answered(msgspec.Struct, frozen=True):
    """The result of a tool, the schema of its form, and the content of the answer."""

    reply: Reply
    schema: Any
    content: JsonObject


async def _call_with_answer(
    probe: Probe, connection: RawConnection, tool: ToolCall, wrong: str | None
) -> _Answered | None:
    """Call a tool and answer its first form, with one member wrong; None if it has no form."""
    answered: list[tuple[Any, JsonObject]] = []

    def make(question: JsonObject) -> JsonObject | None:
        answer = answer_to(question, connection.client_capabilities)
        content = answer.get("result", {}).get("content")
        if question.get("method") != _ELICIT or not isinstance(content, dict) or answered:
            return None
        schema = params_of(question).get("requestedSchema")
        # Members that may be left out are answered too.
        content |= {name: sample(rule) for name, rule in _rules(schema) if name not in content}
        content |= {} if wrong is None else {wrong: _WRONG}
        answered.append((schema, content))
        return {"action": "accept", "content": content}

    reply = await call_and_answer(probe, connection, tool, make)
    return _Answered(reply, *answered[0]) if reply is not None and answered else None


def _refutable_members(schema: Any) -> list[str]:
    """Return the members of a form that refuse a text; a free text field takes any."""
    return [name for name, rule in _rules(schema) if refuses(rule, _WRONG)][:_MEMBERS]


def _rules(schema: Any) -> list[tuple[str, Any]]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return [*properties.items()] if isinstance(properties, dict) else []


def _is_used_alike(with_valid: str, valid: str, with_invalid: str) -> bool:
    """Return whether a tool says of an invalid value just what it said of a valid one.

    >>> _is_used_alike("row 3, window", "3", "row accord-check-wrong, window")
    True
    >>> _is_used_alike("row 3, window", "3", "not a row: accord-check-wrong")
    False
    """
    before, found, _ = with_invalid.partition(_WRONG)
    return bool(found and before and valid) and with_valid.startswith(before + valid)


@scenario(
    _TOOL_USE,
    *_TOOL_MESSAGES,
    opens=partial(Probe.open, capabilities={**EVERYTHING, "sampling": {"tools": {}}}),
    sends=("tools/call",),
)
async def lets_the_model_use_tools(probe: Probe, connection: RawConnection) -> None:
    uses = [{"type": "tool_use", "id": each, "input": {}} for each in _USES]
    for tool in probe.facts.callable_tools():
        later: list[JsonObject] = []

        def make(question: JsonObject, later: list[JsonObject] = later) -> JsonObject | None:
            tools = params_of(question).get("tools")
            is_first = not later
            if isinstance(tools, list) and tools:
                later.append(question)
                if is_first:
                    usual: JsonObject = answer_to(question, connection.client_capabilities)[
                        "result"
                    ]
                    content = [use | {"name": str(tools[0].get("name"))} for use in uses]
                    return usual | {"content": content, "stopReason": "toolUse"}
            return None

        await call_and_answer(probe, connection, tool, make)
        # Another question may have nothing to do with the tool that was used.
        for question in [each for each in later[1:] if _blocks(each, "id") & _USES.keys()][:1]:
            connection.point_at(question)
            lacking = _USES.keys() - _blocks(question, "toolUseId")
            why = f"asks again without a result of {len(lacking)} of {len(_USES)} uses of tools"
            probe.holds(_TOOL_USE, not lacking, why)
    probe.skip(_TOOL_USE, "no tool that may be called lets a model use tools")


def _blocks(question: Mapping[str, object], member: str) -> set[object]:
    """Return the values of a member of all blocks in the messages of a question."""
    params = params_of(question)
    contents = [each.get("content") for each in objects_in(params.get("messages"))]
    blocks = [block for content in contents for block in objects_in(content)]
    return {block[member] for block in blocks if isinstance(block.get(member), str)}


# -- requests that stay unanswered

_ESTABLISHED: Final = "timeouts.established"
_TOLD: Final = "timeouts.cancel-by-notification"
_MAXIMUM: Final = "timeouts.maximum-despite-progress"
_LATE: Final = "cancellation.sender.ignores-late"
_ALL: Final = (_ESTABLISHED, _TOLD, _MAXIMUM, _LATE)
_PINGED: Final = "ping.response.prompt"
# This many tools show how a server waits.
_WAITING_TOOLS: Final = 4
# How many settling times are waited for: enough for an impatient server.
_WAITS: Final = 4


class _Question(msgspec.Struct):
    """A request of the server that stays unanswered for a while.

    Attributes:
        call: the id of the tool call during which it was sent.
        message: the request.
        waits: how many times the settling time passed without an answer of that call.
    """

    call: Any
    message: JsonObject
    waits: int = 0

    def is_given_up(self, connection: RawConnection) -> bool:
        """Return whether the server cancelled the request."""
        id = self.message.get("id")
        cancelled = connection.messages("notifications/cancelled")
        return any(params_of(each).get("requestId") == id for each in cancelled)

    def is_over(self, connection: RawConnection) -> bool:
        """Return whether the call was answered anyway."""
        return any(each.id == self.call for each in replies(connection.received))


@bare_scenario(*_ALL, era="stateless")
async def looks_for_requests_of_the_server(probe: Probe) -> None:
    # One that sends them nevertheless breaks mrtr.server-asks-only-this-way.
    probe.not_applicable(_ALL, "a server without a handshake sends no requests")


@bare_scenario(*_ALL, _PINGED, era="handshake", sends=("tools/call",))
async def leaves_requests_of_the_server_unanswered(probe: Probe) -> None:
    asking = (await asking_tools(probe))[:_WAITING_TOOLS]
    if not asking:
        probe.skip(_ALL, "no tool that may be called sends a request to the client")
        return
    async with probe.open() as connection:
        # Requests at the beginning belong to no call, and are answered.
        await connection.collect(probe.target.settling)
        connection.respond = answer_pings_only
        questions: list[_Question] = []
        for tool in asking:
            try:
                found = await _requests_to(connection, tool)
            except MessageTimeout:
                # The server may hold all calls until it gets its answer.
                break
            if found is not None:
                questions.append(found)
        ping = await connection.start("ping") if questions else None
        await _wait(probe, connection, questions)
        if ping is not None and any(each.waits == _WAITS for each in questions):
            # A user may take minutes to answer, and the client has to know that the server lives.
            why = "answers no ping while a tool waits for the client"
            probe.holds(_PINGED, await arrives(connection, ping, probe.target.patience), why)
        for question in questions:
            _judge_waiting(probe, connection, question)
        for question in questions:
            if not question.is_over(connection):
                params = {"requestId": question.call, "reason": "a check"}
                await connection.notify("notifications/cancelled", params)
        await connection.collect(probe.target.settling)
        given_up = [each for each in questions if each.is_given_up(connection)]
        await _answer_late(probe, connection, given_up)
    probe.skip((_ESTABLISHED, _TOLD), "the server waits longer for answers than the check")
    probe.skip(_MAXIMUM, "the server asks for no progress, or waits longer than the check")


async def _requests_to(connection: RawConnection, tool: ToolCall) -> _Question | None:
    """Call a tool and return its request to the client; None if it sends none.

    Raises:
        MessageTimeout: it neither sends a request nor ends.
    """
    since = len(connection.received)
    call = await connection.start("tools/call", tool.params)

    def is_next(message: JsonObject) -> bool:
        if "method" in message:
            # Malformed requests and notifications with an id are not waited for.
            name, id = message["method"], message.get("id")
            is_request = isinstance(name, str) and isinstance(id, str | int)
            return is_request and name != "ping" and not name.startswith("notifications/")
        return bool(message.get("id") == call)

    message = await connection.until(is_next, f"a question of {tool.name}", since=since)
    return _Question(call, message) if "method" in message else None


async def _wait(probe: Probe, connection: RawConnection, questions: list[_Question]) -> None:
    """Wait until an impatient server gives up; send progress if it asked for that."""
    for step in range(_WAITS):
        for question in questions:
            token = progress_token_of(question.message)
            if token is not None:
                params = {"progressToken": token, "progress": step + 1}
                await connection.notify("notifications/progress", params)
        await connection.collect(probe.target.settling)
        for question in questions:
            question.waits += not question.is_over(connection)


def _judge_waiting(probe: Probe, connection: RawConnection, question: _Question) -> None:
    is_told = question.is_given_up(connection)
    # A call that is answered at once never waited for the client; one that is not may still wait.
    if not is_told and not (question.waits and question.is_over(connection)):
        return
    probe.passes(_ESTABLISHED)
    if progress_token_of(question.message) is not None:
        probe.passes(_MAXIMUM)
    method = question.message.get("method")
    probe.holds(_TOLD, is_told, f"gives up {method} without cancelling it")


async def _answer_late(probe: Probe, connection: RawConnection, questions: list[_Question]) -> None:
    """Answer requests that the server gave up: it must ignore the answers."""
    if not questions:
        probe.skip(_LATE, "the server cancels none of its requests")
        return
    try:
        for question in questions:
            await connection.send(answer_to(question.message, connection.client_capabilities))
        await connection.ask(harmless_method(probe.facts))
    except (ConnectionEnded, MessageTimeout) as error:
        if getattr(error, "is_garbled", False):
            raise
        probe.fail(_LATE, f"fails after an answer to a request that it had cancelled: {error}")
        connection.end("the server answers no further request")
    else:
        probe.passes(_LATE)


_ONLY: Final = "elicitation.required-error.only-for-url"
_USED: Final = "elicitation.required-error.used"
_REQUIRED: Final = -32042
_BOTH_MODES: Final[JsonObject] = {"form": {}, "url": {}}


@scenario(
    _ONLY,
    _USED,
    opens=partial(Probe.open, capabilities={**EVERYTHING, "elicitation": _BOTH_MODES}),
    era="handshake",
    sends=("tools/call", "resources/read", "prompts/get"),
)
async def looks_for_pages_that_come_first(probe: Probe, connection: RawConnection) -> None:
    for tool, reply in await call_all(probe, connection):
        connection.point_at(reply.message)
        _judge_refusal(probe, reply, f"a call of {tool.name}")
    for method, params in _mistakes(probe):
        reply = await connection.ask(method, params)
        if reply.code == _REQUIRED:
            _judge_refusal(probe, reply, f"{method} with {params}")
    probe.skip((_ONLY, _USED), "no request needs a page that the user visits first")


def _mistakes(probe: Probe) -> list[tuple[str, JsonObject]]:
    found: list[tuple[str, JsonObject]] = [("accord-check/no-such-method", {})]
    if probe.facts.declares("tools"):
        found.append(("tools/call", {"name": "accord-check-no-such-tool", "arguments": {}}))
    if probe.facts.declares("resources"):
        found.append(("resources/read", {"uri": MISSING_URI}))
    if probe.facts.declares("prompts"):
        found.append(("prompts/get", {"name": "accord-check-no-such-prompt"}))
    return found


def _judge_refusal(probe: Probe, reply: Reply, what: str) -> None:
    pages = [each for each in _elicitations(reply) if isinstance(each, dict) and "url" in each]
    if reply.code == _REQUIRED:
        why = f"answers {what} with {reply}, which names no page to visit"
        if probe.holds(_ONLY, pages, why):
            probe.passes(_USED)
    elif pages:
        why = f"answers {what} with {reply}, which names a page to visit first"
        probe.fail(_USED, f"{why}, expected error {_REQUIRED}")


def _elicitations(reply: Reply) -> list[Any]:
    data = reply.error.get("data")
    found = data.get("elicitations") if isinstance(data, dict) else None
    return found if isinstance(found, list) else []


# -- declared capabilities

_DECLARED_ONLY: Final = "mrtr.result.declared-capabilities-only"
_NOT_USED: Final = "capability.undeclared-not-used"
_CODE: Final = "capability.missing-error-code"
_DATA: Final = "capability.missing-error-data"
_PRIOR: Final = "stateless.no-prior-context"
_MISSING: Final = -32021


@bare_scenario(
    *(_DECLARED_ONLY, _NOT_USED, _CODE, _DATA, _PRIOR), era="stateless", sends=ASKING_METHODS
)
async def declares_other_capabilities_each_time(probe: Probe) -> None:
    asking = await find_asking(probe)
    async with open_rounds(probe) as connection:
        for request in asking:
            # What this request declares must not serve the next ones.
            reply = await connection.ask(request.method, request.params)
            modes = {mode for each in questions_of(reply).values() for mode in _modes_of(each)}
            for declared in _lesser(connection.client_capabilities, request, modes):
                await _declare(probe, connection, request, declared)
    if not asking:
        probe.skip((_DECLARED_ONLY, _NOT_USED, _CODE, _DATA), NO_QUESTIONS)
    probe.skip((_CODE, _DATA), "no request fails for lack of a capability")


def _modes_of(question: Mapping[str, Any]) -> Iterator[str]:
    if question.get("method") == "elicitation/create":
        yield str((question.get("params") or {}).get("mode", "form"))


def _lesser(
    everything: Mapping[str, object], request: AskingRequest, modes: set[str]
) -> Iterator[JsonObject]:
    """Return capabilities that lack something that the questions of a request need."""
    yield {}
    for kind in sorted(request.kinds & CAPABILITY_OF.keys()):
        yield {name: value for name, value in everything.items() if name != CAPABILITY_OF[kind]}
    if modes:
        other = "url" if "form" in modes else "form"
        yield {**everything, "elicitation": {other: {}}}


async def _declare(
    probe: Probe, connection: RawConnection, request: AskingRequest, declared: JsonObject
) -> None:
    reply = await connection.ask(request.method, request.params, capabilities=declared)
    questions = questions_of(reply).values()
    missing = [need for each in questions if (need := missing_capability(each, declared))]
    why = f"answers {request}, which declares {declared}, with {reply}"
    probe.holds(_DECLARED_ONLY, not missing, why)
    probe.holds(_NOT_USED, not missing, why)
    if missing:
        await _compare_with_a_new_connection(probe, request, declared, reply)
    if reply.code == _MISSING:
        probe.passes(_CODE)
        _judge_data(probe, reply, declared)
    elif reply.is_error:
        # If it still asks a client that declares everything, only the capability was missing.
        again = await connection.ask(request.method, request.params)
        connection.point_at(reply.message)
        probe.holds(_CODE, not is_asking(again), f"{why}, expected error {_MISSING}")


async def _compare_with_a_new_connection(
    probe: Probe, request: AskingRequest, declared: JsonObject, used: Reply
) -> None:
    """Look whether the questions come from what earlier requests declared."""
    async with probe.open(is_judged=False, begins=False) as fresh:
        fresh.be_stateless(probe.revision, declared)
        fresh.follows_rounds = False
        first = await fresh.ask(request.method, request.params)
        why = f"answers {request}, which declares {declared}, with {first}, but with {used}"
        probe.holds(_PRIOR, is_asking(first), f"{why} after requests that declared more")


def _judge_data(probe: Probe, reply: Reply, declared: Mapping[str, Any]) -> None:
    data = reply.error.get("data")
    needed = data.get("requiredCapabilities") if isinstance(data, dict) else None
    if not isinstance(needed, dict) or not needed:
        probe.fail(_DATA, f"refuses with {reply}, which has no requiredCapabilities")
        return
    has_all = all(_has(declared, name, value) for name, value in needed.items())
    probe.holds(_DATA, not has_all, f"refuses with {reply}, which names only what was declared")


def _has(declared: Mapping[str, Any], name: str, needed: object) -> bool:
    """Return whether declared capabilities include one."""
    if name not in declared:
        return False
    settings = declared[name]
    if not isinstance(needed, dict) or not isinstance(settings, dict):
        return True
    # A client that declares elicitation without a mode supports forms.
    if name == "elicitation" and not settings:
        settings = {"form": {}}
    return all(_has(settings, inner, value) for inner, value in needed.items())


# What a client can declare at most; extensions have scenarios of their own.
_MOST: Final[JsonObject] = {
    "roots": {},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}},
}


@scenario(_MODES, era="stateless", needs="tools", sends=("tools/call",))
async def declares_all_that_a_client_can(probe: Probe, connection: RawConnection) -> None:
    # The monitor judges the questions, such as those that only such a client is asked.
    usual, connection.client_capabilities = connection.client_capabilities, _MOST
    try:
        await call_all(probe, connection)
    finally:
        connection.client_capabilities = usual
    probe.skip(_MODES, "no tool that may be called asks the user")


# -- extensions

_ONE_SIDED: Final = "extensions.one-sided-fallback"
_CORE: Final = (None, "complete", "input_required")
_EXTENSION: Final = {"org.example/accord-check": {"level": 1}}


@scenario(_ONE_SIDED, era="stateless", sends=("tools/call", "tools/list"))
async def declares_extensions_that_the_server_lacks(
    probe: Probe, connection: RawConnection
) -> None:
    method = harmless_method(probe.facts)
    requests: list[tuple[str, JsonObject]] = [("server/discover", {}), (method, {})]
    requests += [("tools/call", tool.params) for tool in probe.facts.callable_tools()]
    usual = dict(connection.client_capabilities)
    connection.client_capabilities = usual | {"extensions": _EXTENSION}
    try:
        replies = [await connection.ask(name, params) for name, params in requests]
    finally:
        connection.client_capabilities = usual
    for (name, params), reply in zip(requests, replies, strict=True):
        if reply.is_error:
            plain = await connection.ask(name, params)
            why = f"answers {name} with {reply} to a client that has an extension"
            probe.holds(_ONE_SIDED, plain.is_error, f"{why}, and with {plain} to one that has none")
            continue
        kind = reply.result.get("resultType")
        if kind == "task" and has_extension(probe.facts):
            # tasks-ext.create.only-to-declaring says more of it.
            continue
        # Without extensions result.type.from-known-set is broken, which the monitor reports.
        is_core = kind in _CORE or not probe.facts.declares("extensions")
        why = f"answers {name} with a result of type {kind!r}, which the client did not declare"
        probe.holds(_ONE_SIDED, is_core, why)


_NO_QUESTIONS: Final = "no tool that may be called asks the client"
_DECLARED: Final = (
    "lifecycle.capabilities.respected",
    "elicitation.mode.supported-only",
    "sampling.tools.not-without-capability",
    "sampling.context.needs-capability",
    "tasks.capability.none-no-tasks",
    "tasks.capability.requestor-respects",
)
# Judged in all questions; pages and tools are asked for only where they were declared.
_OF_QUESTIONS: Final = (
    "elicitation.form.mode-and-schema",
    "elicitation.form.flat-primitives",
    "elicitation.form.enum-forms",
    "elicitation.form.formats",
    "elicitation.form.no-secrets",
    "elicitation.form.no-clickable-urls",
    "elicitation.url.required-params",
    "elicitation.url.valid-url",
    "elicitation.url.https",
    "elicitation.url.no-personal-data",
    "elicitation.url.elicitation-id",
    "sampling.tool-choice.values",
    "sampling.context.avoid",
)
# What a client may declare: nothing, or one thing alone.
_FEW: Final[tuple[JsonObject, ...]] = (
    {},
    {"roots": {}},
    {"sampling": {}},
    {"elicitation": {}},
)
# Since there are modes of elicitation, tools in sampling and tasks: one of each.
_MORE: Final[tuple[JsonObject, ...]] = (
    {
        "roots": {},
        "elicitation": {"form": {}},
        "sampling": {"context": {}},
        "tasks": {"requests": {"elicitation": {"create": {}}}},
    },
    {
        "roots": {},
        "elicitation": {"url": {}},
        "sampling": {"tools": {}},
        "tasks": {"requests": {"sampling": {"createMessage": {}}}},
    },
)


def _declarations(revision: RevisionId) -> Iterator[JsonObject]:
    yield from _FEW
    if REVISIONS[revision].tasks:
        yield from _MORE


# What a client can declare at most.
_MOST_ASKING: Final[JsonObject] = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}},
    "tasks": TASKS,
}
_NOT_RELIED_ON: Final = "tasks.notify.not-relied-on"
_INTERVAL: Final = "tasks.poll-interval-respected"
_UNTIL_END: Final = "tasks.poll-until-terminal"
_REQUESTED: Final = (_NOT_RELIED_ON, _INTERVAL, _UNTIL_END)
# On a busy machine a request may be read a little late, and the next one in time.
_EARLY: Final = 0.5


@bare_scenario(
    *_DECLARED, *_OF_QUESTIONS, *_REQUESTED, era="handshake", is_once=True, sends=("tools/call",)
)
async def declares_more_and_less(probe: Probe) -> None:
    if not probe.facts.callable_tools():
        probe.skip((*_DECLARED, *_OF_QUESTIONS, *_REQUESTED), "no tool may be called")
        return
    has_tasks = REVISIONS[probe.revision].tasks
    asking = await (_call_with_most(probe) if has_tasks else asking_tools(probe))
    for capabilities in _declarations(probe.revision) if asking else ():
        async with probe.open(capabilities=capabilities) as connection:
            connection.respond = ClientTasks().respond
            for tool in asking:
                await call(probe, connection, tool)
    probe.skip(_DECLARED, "the server asks only if it may" if asking else _NO_QUESTIONS)
    probe.skip(_OF_QUESTIONS, "the server asks in other ways" if asking else _NO_QUESTIONS)
    why = "no tool that may be called asks the client for a task"
    probe.skip(_REQUESTED, why if asking else _NO_QUESTIONS)


async def _call_with_most(probe: Probe) -> list[ToolCall]:
    """Call all tools with everything declared; return those that ask."""
    found: list[ToolCall] = []
    async with probe.open(capabilities=_MOST_ASKING) as connection:
        for tool in probe.facts.callable_tools():
            tasks = ClientTasks()
            connection.respond = tasks.respond
            since = len(connection.received)
            if await call(probe, connection, tool) is not None:
                _judge_requestor(probe, connection, tasks)
            if any(map(is_question, connection.received[since:])):
                found.append(tool)
    return found


def _judge_requestor(probe: Probe, connection: RawConnection, tasks: ClientTasks) -> None:
    """Judge how the server follows tasks that the client keeps."""
    for task in tasks.kept.values():
        if task.is_fetched:
            # No status was ever announced.
            probe.passes(_NOT_RELIED_ON)
        wait = shortest_wait(task)
        if wait is not None:
            looks = connection.messages("tasks/get")
            connection.point_at(*looks[-2:])
            why = f"asks for the state of a task after {wait:.3f} s, although its pollInterval is "
            probe.holds(_INTERVAL, wait >= POLL_SECONDS * _EARLY, f"{why}{POLL_SECONDS:g} s")
        if task.is_fetched and len(task.looks) > 1:
            probe.passes(_UNTIL_END)
        probe.skip((_INTERVAL, _UNTIL_END), "the server waits for results, and does not poll")

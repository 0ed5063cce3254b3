"""Capabilities that clients declare, once or with each request: fewer, other ones, extensions.

A server asks only for what was declared.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from accord.protocol.revisions import REVISIONS
from accord.types import JsonObject, RevisionId
from accord_tools.check.probing.messages import CAPABILITY_OF, Reply, is_question
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.probing.task_calls import (
    POLL_SECONDS,
    TASKS,
    ClientTasks,
    has_extension,
    shortest_wait,
)
from accord_tools.check.probing.tool_calls import ToolCall
from accord_tools.check.scenarios._scenario import (
    asking_tools,
    bare_scenario,
    call,
    call_all,
    harmless_method,
    scenario,
)
from accord_tools.check.scenarios.server._rounds import (
    ASKING_METHODS,
    NO_QUESTIONS,
    AskingRequest,
    find_asking,
    is_asking,
    missing_capability,
    open_rounds,
    questions_of,
)

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
_BY_MODE: Final = "elicitation.mode.supported-only"


@scenario(_BY_MODE, era="stateless", needs="tools", sends=("tools/call",))
async def declares_all_that_a_client_can(probe: Probe, connection: RawConnection) -> None:
    # The monitor judges the questions, such as those that only such a client is asked.
    usual, connection.client_capabilities = connection.client_capabilities, _MOST
    try:
        await call_all(probe, connection)
    finally:
        connection.client_capabilities = usual
    probe.skip(_BY_MODE, "no tool that may be called asks the user")


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


_CALL: Final = "tools/call"
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
    *_DECLARED, *_OF_QUESTIONS, *_REQUESTED, era="handshake", is_once=True, sends=(_CALL,)
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

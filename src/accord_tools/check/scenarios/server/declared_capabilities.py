"""Clients that declare less, or something else: a server asks only for what was declared.

The monitor judges the questions. Without a handshake `capabilities` tries the same per request.
"""

from collections.abc import Iterator
from typing import Final

from accord.protocol.revisions import REVISIONS
from accord.types import JsonObject, RevisionId
from accord_tools.check.probing.messages import is_question
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.probing.task_calls import POLL_SECONDS, TASKS, ClientTasks, shortest_wait
from accord_tools.check.probing.tool_calls import ToolCall
from accord_tools.check.scenarios._scenario import asking_tools, bare_scenario, call

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
_MOST: Final[JsonObject] = {
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
    async with probe.open(capabilities=_MOST) as connection:
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

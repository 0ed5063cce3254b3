"""Servers with faulty tasks of 2025-11-25: area tasks."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from accord_tools.check.probing.target import ServerTarget
from check.faults import faults, hook_at, hook_maker, named
from check.mutants.foundation import (
    MUTANTS,
    Between,
    Change,
    Message,
    Sent,
    elsewhere,
    in_memory,
    params_of,
)
from check.mutants.spoiling import ABSENT, Spoil, put, results_of, spoiling
from check.mutants.task_server import make_known

RELATED = "io.modelcontextprotocol/related-task"
TERMINAL = ("completed", "failed", "cancelled")
Hook: TypeAlias = Callable[[Between], None]


def task_interloper(
    id: str,
    *,
    of: str = "",
    make: Callable[[], Any] = make_known,
    revision: str = "2025-11-25",
    **settings: Any,
) -> Callable[[Any], Any]:
    """Register a server with tasks and a hook into both directions."""

    def register(fault: Any) -> Any:
        @asynccontextmanager
        async def making() -> AsyncIterator[ServerTarget]:
            # A new one for each check: a server keeps its tasks.
            async with in_memory(hook_at(of, fault), make())() as target:
                yield target

        making.__name__ = fault.__name__
        elsewhere(id, revision=revision, is_thorough=has_mutants(id, 2), **settings)(making)
        return fault

    return register


def has_mutants(id: str, count: int) -> bool:
    """Return whether a requirement has this many mutants already, which are enough for the gate."""
    return sum(each.id == id for each in MUTANTS.values()) >= count


def task_mutant(id: str, **settings: Any) -> Callable[[Change], Change]:
    """Register a server with tasks whose messages a function changes."""
    return task_interloper(id, of="from_server", **settings)


def tasks_in(message: Message, request: Message, *methods: str) -> Iterator[dict[str, Any]]:
    """Yield the tasks in a message: new ones, and those that are reported."""
    result = message.get("result") or {}
    method = message.get("method") or request.get("method")
    if methods and method not in methods:
        return
    if method == "notifications/tasks/status":
        yield params_of(message)
    elif method == "tools/call" and isinstance(result.get("task"), dict):
        yield result["task"]
    elif method in ("tasks/get", "tasks/cancel") and "taskId" in result:
        yield result
    elif method == "tasks/list":
        yield from result.get("tasks") or ()


def task_spoiler(id: str, *methods: str, **settings: Any) -> Callable[[Spoil], Spoil]:
    """Register a server that spoils the tasks in its messages, of all methods by default."""

    def parts(message: Message, request: Message) -> Iterator[dict[str, Any]]:
        return tasks_in(message, request, *methods)

    return spoiling(parts, task_mutant(id, **settings))


def task_answer(id: str, method: str, **settings: Any) -> Callable[[Spoil], Spoil]:
    """Register a server that spoils its results of a method."""
    return spoiling(results_of(method), task_mutant(id, **settings))


def is_tasked(request: Message, name: str = "") -> bool:
    params = params_of(request)
    return "task" in params and name in ("", params.get("name"))


@hook_maker
def in_place_of(wire: Between, replies: Callable[[Message], Message | None]) -> None:
    """Answer some requests in place of the server."""

    def from_client(message: Message) -> Sent:
        body = replies(message) if "method" in message else None
        if body is not None:
            wire.to_client({"jsonrpc": "2.0", "id": message["id"]} | body)
        return message if body is None else None

    wire.from_client = from_client


def error(code: int, text: str = "no") -> Message:
    return {"error": {"code": code, "message": text}}


def text(said: str, **more: Any) -> Message:
    return {"result": {"content": [{"type": "text", "text": said}], **more}}


# -- how tasks begin

NEITHER = {
    "tools.call.content-array": "it is no plain result either",
    "progress.notification.active-only": "progress follows the result",
}


@task_interloper("tasks.create.returns-task", of="from_client")
def answers_at_once_with_the_result(message: Message) -> Sent:
    if is_tasked(message, "get_film"):
        del message["params"]["task"]
    return message


@task_answer("tasks.create.returns-task", "tools/call", also=NEITHER)
def does_not_nest_the_task(result: dict[str, Any]) -> None:
    result.update(result.pop("task", {}))


@task_answer("tasks.create.returns-task", "tools/call", also=NEITHER)
def names_the_task_by_its_id_alone(result: dict[str, Any]) -> None:
    if "task" in result:
        result["task"] = result["task"]["taskId"]


@task_answer("tasks.create.returns-task", "tools/call", also=NEITHER)
def puts_the_task_into_a_list(result: dict[str, Any]) -> None:
    if "task" in result:
        result["task"] = [result["task"]]


def starting(status: str, **also: str) -> None:
    """Register a server whose tasks begin in another status."""

    def starts_otherwise(task: dict[str, Any]) -> None:
        task["status"] = status

    starts_otherwise.__name__ = f"starts_as_{status}"
    settings = {"also": {f"tasks.{key}": why for key, why in also.items()}}
    task_spoiler("tasks.status.starts-working", "tools/call", **settings)(starts_otherwise)


LATER = {"status.terminal-final": "and works later"}
starting("completed", **LATER)
starting("input_required")
starting("failed", **LATER, **{"errors.status-message": "and does not say why"})


@task_spoiler("tasks.status.valid-transitions")
def invents_a_status(task: dict[str, Any]) -> None:
    task["status"] = "running" if task["status"] == "working" else task["status"]


@task_spoiler("tasks.status.valid-transitions", "tasks/get")
def does_not_tell_the_status(task: dict[str, Any]) -> None:
    del task["status"]


@task_spoiler("tasks.status.valid-transitions", "tasks/list")
def lists_numbers_of_statuses(task: dict[str, Any]) -> None:
    task["status"] = 2


@task_interloper("tasks.status.terminal-final")
def takes_up_a_task_again(wire: Between) -> None:
    seen: dict[str, int] = {}

    def from_server(message: Message, request: Message) -> Sent:
        for task in tasks_in(message, request, "tasks/get"):
            count = seen[task["taskId"]] = seen.get(task["taskId"], 0) + (
                task["status"] in ("completed", "failed")
            )
            if count > 1:
                task["status"] = "working"
        return message

    wire.from_server = from_server


@task_mutant("tasks.status.terminal-final")
def announces_work_after_the_end(message: Message, request: Message) -> Sent:
    if message.get("method") == "notifications/tasks/status":
        params = params_of(message)
        if params["status"] == "completed":
            return [message, message | {"params": params | {"status": "working"}}]
    return message


@task_spoiler("tasks.status.terminal-final", "tasks/list")
def lists_ended_tasks_as_working(task: dict[str, Any]) -> None:
    task["status"] = "working"


faults(
    task_spoiler("tasks.id.string", "tools/call"),
    numbers_its_tasks=put("taskId", 7),
    does_not_name_its_tasks=put("taskId", ABSENT),
)


@task_spoiler("tasks.id.string", "notifications/tasks/status")
def announces_tasks_without_their_id(task: dict[str, Any]) -> None:
    task["taskId"] = None


def renaming(wire: Between, rename: Callable[[str, Message], str]) -> None:
    """Let tasks have other ids for the client; the server knows them by its own."""
    names: dict[str, str] = {}
    own: dict[str, str] = {}

    def from_server(message: Message, request: Message) -> Sent:
        for task in tasks_in(message, request):
            id = task["taskId"]
            if request.get("method") == "tools/call":
                names.setdefault(id, rename(id, request))
                own[names[id]] = id
            task["taskId"] = names.get(id, id)
        meta = (message.get("result") or params_of(message)).get("_meta") or {}
        if RELATED in meta:
            meta[RELATED]["taskId"] = names.get(meta[RELATED]["taskId"])
        return message

    def from_client(message: Message) -> Sent:
        params = params_of(message)
        if params.get("taskId") in own:
            message = message | {"params": params | {"taskId": own[params["taskId"]]}}
        return message

    wire.from_server, wire.from_client = from_server, from_client


@task_interloper("tasks.id.receiver-generated")
def takes_ids_from_requests(wire: Between) -> None:
    renaming(wire, lambda own, request: request["params"]["task"].get("taskId", own))


@task_interloper("tasks.id.receiver-generated")
def takes_the_ttl_for_an_id(wire: Between) -> None:
    def rename(id: str, request: Message) -> str:
        offered = request["params"]["task"]
        return next((each for each in offered.values() if isinstance(each, str)), id)

    renaming(wire, rename)


def reusing(wire: Between, *, is_of: Callable[[str], bool]) -> None:
    """Let a task have the id of an earlier one, which stays what the id stands for."""
    first: dict[str, str] = {}

    def from_server(message: Message, request: Message) -> Sent:
        name = params_of(request).get("name", "")
        for task in tasks_in(message, request, "tools/call"):
            if is_of(name):
                task["taskId"] = first.setdefault("", task["taskId"])
        return message

    wire.from_server = from_server


@task_interloper("tasks.id.unique")
def reuses_the_ids_of_lost_films(wire: Between) -> None:
    reusing(wire, is_of=lambda name: name == "find_lost_film")


@task_interloper("tasks.id.unique", also={"tasks.result.exact": "of another tool"})
def gives_two_tools_one_id(wire: Between) -> None:
    reusing(wire, is_of=lambda name: name in ("find_lost_film", "get_film"))


@task_interloper("tasks.id.unique")
def reuses_every_second_id(wire: Between) -> None:
    ids: list[str] = []

    def from_server(message: Message, request: Message) -> Sent:
        if params_of(request).get("name") == "find_lost_film":
            for task in tasks_in(message, request, "tools/call"):
                ids.append(task["taskId"])
                task["taskId"] = ids[len(ids) // 2 - 1] if len(ids) % 2 == 0 else ids[-1]
        return message

    wire.from_server = from_server


for _member, _id in (("createdAt", "created-at"), ("lastUpdatedAt", "last-updated-at")):

    def _without_time(task: dict[str, Any], member: str = _member) -> None:
        del task[member]

    def _in_seconds(task: dict[str, Any], member: str = _member) -> None:
        task[member] = 1764064800

    def _in_words(task: dict[str, Any], member: str = _member) -> None:
        task[member] = "25 November 2025"

    _without_time.__name__ = "does_not_tell_the_time"
    _in_seconds.__name__ = "tells_the_time_in_seconds"
    _in_words.__name__ = "tells_the_time_in_words"
    task_spoiler(f"tasks.times.{_id}", "tools/call")(_without_time)
    task_spoiler(f"tasks.times.{_id}", "tasks/get")(_in_seconds)
    task_spoiler(f"tasks.times.{_id}", "notifications/tasks/status")(_in_words)


faults(task_spoiler("tasks.ttl.in-get", "tasks/get"), does_not_tell_the_ttl=put("ttl", ABSENT))


@task_spoiler("tasks.ttl.in-get", "tools/call")
def does_not_tell_the_ttl_of_new_tasks(task: dict[str, Any]) -> None:
    del task["ttl"]


faults(task_spoiler("tasks.ttl.in-get"), tells_the_ttl_in_words=put("ttl", "60 s"))


@task_interloper("tasks.create.promptly")
def answers_with_the_task_when_it_is_done(wire: Between) -> None:
    held: dict[str, Message] = {}

    def from_server(message: Message, request: Message) -> Sent:
        if is_tasked(request, "get_frames") and "result" in message:
            held[message["result"]["task"]["taskId"]] = message
            return None
        if message.get("method") == "notifications/tasks/status":
            params = params_of(message)
            if params["taskId"] in held and params["status"] in TERMINAL:
                return [held.pop(params["taskId"]), message]
        return message

    wire.from_server = from_server


@task_interloper("tasks.create.promptly")
def waits_as_long_as_the_work_takes(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        if is_tasked(request, "get_frames"):
            wire.later(0.25, lambda: wire.to_client(message))
            return None
        return message

    wire.from_server = from_server


@task_interloper("tasks.create.promptly")
def is_slow_to_answer_every_call(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        if is_tasked(request):
            wire.later(0.3, lambda: wire.to_client(message))
            return None
        return message

    wire.from_server = from_server


# -- results


@task_interloper("tasks.result.blocks-until-terminal")
def refuses_results_that_are_not_there_yet(wire: Between) -> None:
    status: dict[str, str] = {}

    def from_server(message: Message, request: Message) -> Sent:
        for task in tasks_in(message, request):
            status[task["taskId"]] = task["status"]
        return message

    def from_client(message: Message) -> Sent:
        if message.get("method") == "tasks/result":
            id = params_of(message)["taskId"]
            if status.get(id) == "working":
                error = {"code": -32602, "message": "the task is not finished"}
                wire.to_client({"jsonrpc": "2.0", "id": message["id"], "error": error})
                return None
        return message

    wire.from_server, wire.from_client = from_server, from_client


@task_interloper(
    "tasks.result.blocks-until-terminal",
    also={
        "tasks.result.exact": "it is empty",
        "progress.task.stops-at-terminal": "who has a result has ended",
    },
)
def returns_an_empty_result_at_once(wire: Between) -> None:
    ended: set[str] = set()

    def from_server(message: Message, request: Message) -> Sent:
        for task in tasks_in(message, request):
            if task["status"] in TERMINAL:
                ended.add(task["taskId"])
        return message

    def from_client(message: Message) -> Sent:
        if message.get("method") == "tasks/result":
            id = params_of(message)["taskId"]
            if id not in (*ended, "accord-check-no-such-task"):
                result = {"content": [], "_meta": {RELATED: {"taskId": id}}}
                wire.to_client({"jsonrpc": "2.0", "id": message["id"], "result": result})
                return None
        return message

    wire.from_server, wire.from_client = from_server, from_client


@task_mutant("tasks.result.blocks-until-terminal")
def calls_the_task_unfinished_after_its_result(message: Message, request: Message) -> Sent:
    for task in tasks_in(message, request):
        if task["status"] in ("completed", "failed"):
            task["status"] = "working"
            task.pop("statusMessage", None)
    return message


@task_answer("tasks.result.exact", "tasks/result")
def leaves_out_structured_content(result: dict[str, Any]) -> None:
    result.pop("structuredContent", None)


@task_answer("tasks.result.exact", "tasks/result")
def wraps_the_result(result: dict[str, Any]) -> None:
    inner = {key: result.pop(key) for key in [*result] if key != "_meta"}
    result["result"] = inner


@task_answer("tasks.result.exact", "tasks/result")
def says_only_that_it_is_done(result: dict[str, Any]) -> None:
    result["content"] = [{"type": "text", "text": "done"}]


@task_interloper("tasks.result.exact")
def returns_something_else_the_second_time(wire: Between) -> None:
    fetched: set[str] = set()

    def from_server(message: Message, request: Message) -> Sent:
        if request.get("method") == "tasks/result" and "result" in message:
            id = params_of(request)["taskId"]
            if id in fetched:
                message["result"]["content"] = []
            fetched.add(id)
        return message

    wire.from_server = from_server


faults(
    task_answer("tasks.result.related-task", "tasks/result"),
    does_not_relate_results=put("_meta", ABSENT),
    relates_results_to_another_task=put("_meta", {RELATED: {"taskId": "another"}}),
)


@task_answer("tasks.result.related-task", "tasks/result")
def relates_results_by_another_key(result: dict[str, Any]) -> None:
    result["_meta"] = {"related-task": result["_meta"][RELATED]}


@task_spoiler("tasks.errors.tool-error-is-failed")
def completes_failed_tasks(task: dict[str, Any]) -> None:
    task["status"] = "completed" if task["status"] == "failed" else task["status"]


@task_mutant("tasks.errors.tool-error-is-failed")
def says_completed_when_asked_about_failed_tasks(message: Message, request: Message) -> Sent:
    for task in tasks_in(message, request):
        if task["status"] == "failed":
            task.update(status="completed", statusMessage="with errors")
    return message


@task_spoiler("tasks.errors.status-message")
def does_not_say_why_a_task_failed(task: dict[str, Any]) -> None:
    if task["status"] == "failed":
        task.pop("statusMessage", None)


@task_spoiler("tasks.errors.status-message", "notifications/tasks/status")
def announces_a_failure_by_a_number(task: dict[str, Any]) -> None:
    if task["status"] == "failed":
        task["statusMessage"] = 500


@task_spoiler("tasks.errors.status-message", "tasks/get")
def shows_null_for_why_a_task_failed(task: dict[str, Any]) -> None:
    if task["status"] == "failed":
        task["statusMessage"] = None


# -- related-task


@task_interloper("tasks.related.param-wins", of="from_client")
def believes_the_metadata(message: Message) -> Sent:
    params = params_of(message)
    related = (params.get("_meta") or {}).get(RELATED)
    if message.get("method") == "tasks/get" and related:
        return message | {"params": {"taskId": related["taskId"]}}
    return message


@task_interloper("tasks.related.param-wins")
def refuses_two_names_for_a_task(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        params = params_of(message)
        if str(message.get("method")).startswith("tasks/") and RELATED in params.get("_meta", {}):
            error = {"code": -32602, "message": "which task?"}
            wire.to_client({"jsonrpc": "2.0", "id": message["id"], "error": error})
            return None
        return message

    wire.from_client = from_client


@task_interloper(
    "tasks.related.param-wins",
    also={"tasks.result.related-task": "it names the other task"},
    of="from_client",
)
def returns_the_result_of_the_related_task(message: Message) -> Sent:
    params = params_of(message)
    related = (params.get("_meta") or {}).get(RELATED)
    if message.get("method") == "tasks/result" and related:
        return message | {"params": {"taskId": related["taskId"]}}
    return message


for _method in ("tasks/get", "tasks/list", "tasks/cancel"):

    def _relates(result: dict[str, Any]) -> None:
        result["_meta"] = {RELATED: {"taskId": "x"}}

    _relates.__name__ = f"relates_{_method.replace('/', '_')}"
    task_answer("tasks.related.not-on-task-ops", _method)(_relates)


def asking(id: str, name: str, spoil: Callable[[Message], Sent], **settings: Any) -> None:
    """Register a server whose questions of tasks are spoiled."""

    def change(message: Message, request: Message) -> Sent:
        return spoil(message) if message.get("method") == "elicitation/create" else message

    task_mutant(id, **settings)(named(name, change))


def _unrelated(message: Message) -> Sent:
    message["params"].pop("_meta")
    return message


def _related_to_nothing(message: Message) -> Sent:
    message["params"]["_meta"] = {RELATED: {}}
    return message


def _related_by_text(message: Message) -> Sent:
    message["params"]["_meta"] = {RELATED: "task"}
    return message


asking("tasks.input.related-task", "asks_without_naming_the_task", _unrelated)
asking("tasks.input.related-task", "asks_for_a_task_without_id", _related_to_nothing)
asking("tasks.input.related-task", "names_the_task_by_a_text", _related_by_text)


def _progress(id: str, name: str, meta: Any) -> None:
    def change(message: Message, request: Message) -> Sent:
        if message.get("method") == "notifications/progress":
            params = params_of(message)
            if RELATED in params.get("_meta", {}):
                params.pop("_meta")
                if meta is not None:
                    params["_meta"] = meta
        return message

    task_mutant(id)(named(name, change))


_progress("tasks.related.everywhere", "does_not_relate_progress", None)
_progress("tasks.related.everywhere", "relates_progress_to_another", {RELATED: {"taskId": "x"}})
_progress("tasks.related.everywhere", "relates_progress_by_text", {RELATED: "x"})


# -- questions


@task_spoiler("tasks.input.status-set")
def works_while_it_waits(task: dict[str, Any]) -> None:
    task["status"] = "working" if task["status"] == "input_required" else task["status"]


@task_spoiler("tasks.input.status-set", "tasks/get")
def shows_work_while_it_waits(task: dict[str, Any]) -> None:
    task["status"] = "working" if task["status"] == "input_required" else task["status"]


@task_interloper("tasks.input.leaves-status")
def waits_for_ever_by_its_status(wire: Between) -> None:
    waited: set[str] = set()

    def from_server(message: Message, request: Message) -> Sent:
        for task in tasks_in(message, request):
            if task["status"] == "input_required":
                waited.add(task["taskId"])
            elif task["taskId"] in waited and task["status"] == "working":
                task["status"] = "input_required"
        return message

    wire.from_server = from_server


@task_interloper("tasks.input.leaves-status")
def shows_that_it_waits_after_the_answer(wire: Between) -> None:
    waited: set[str] = set()

    def from_server(message: Message, request: Message) -> Sent:
        for task in tasks_in(message, request, "tasks/get"):
            if task["status"] == "input_required":
                waited.add(task["taskId"])
            elif task["taskId"] in waited and task["status"] == "working":
                task["status"] = "input_required"
        return message

    wire.from_server = from_server


@task_interloper("tasks.input.status-set")
def asks_before_it_says_so(wire: Between) -> None:
    answered: list[Any] = []

    def from_server(message: Message, request: Message) -> Sent:
        for task in tasks_in(message, request):
            if task["status"] == "input_required" and not answered:
                task["status"] = "working"
        return message

    def from_client(message: Message) -> Sent:
        answered.extend([1] if "method" not in message else [])
        return message

    wire.from_server, wire.from_client = from_server, from_client

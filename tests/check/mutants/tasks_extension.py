"""Servers with a faulty tasks extension: area tasks-ext."""

from collections.abc import Callable
from itertools import count
from typing import Any

from check.faults import faults, named
from check.mutants.foundation import Between, Message, Sent, few, params_of
from check.mutants.spoiling import put, results_of, spoiling
from check.mutants.task_server import make_server
from check.mutants.tasks import error, in_place_of, task_interloper

EXTENSION = "io.modelcontextprotocol/tasks"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
NEW = "2026-07-28"
Hook = Callable[[Between], None]
Spoil = Callable[[dict[str, Any]], None]


def extended(id: str, **settings: Any) -> Callable[[Hook], Hook]:
    """Register a server with the extension and a hook into both directions."""
    return task_interloper(id, make=make_server, revision=NEW, **settings)


def spoiler(id: str, *methods: str, **settings: Any) -> Callable[[Spoil], Spoil]:
    """Register a server that spoils its results of some methods."""
    return spoiling(results_of(*methods), extended(id, of="from_server", **settings))


def spoil_tasks(id: str, *methods: str, **settings: Any) -> Callable[[Spoil], Spoil]:
    """Register a server that spoils tasks, as handles or in answers to tasks/get."""

    def tasks(message: Message, request: Message) -> list[dict[str, Any]]:
        results = results_of(*methods or ("tools/call", "tasks/get"))(message, request)
        return [each for each in results if "taskId" in each]

    return spoiling(tasks, extended(id, of="from_server", **settings))


def declared(message: Message) -> dict[str, Any]:
    """Return the capabilities that a request declares; changing them changes the request."""
    found: dict[str, Any] = params_of(message).get("_meta", {}).get(CAPABILITIES, {})
    return found


def has_extension(message: Message) -> bool:
    return EXTENSION in declared(message).get("extensions", {})


def believing(
    id: str, name: str, believe: Callable[[Between, Message], bool], **settings: Any
) -> None:
    """Register a server that takes some clients for such that handle tasks."""

    def hook(wire: Between) -> None:
        def from_client(message: Message) -> Sent:
            if "method" in message and believe(wire, message):
                declared(message)["extensions"] = {EXTENSION: {}}
            return message

        wire.from_client = from_client

    extended(id, **settings)(named(name, hook))


# -- which calls become tasks

ONLY_TO, OLD = "tasks-ext.create.only-to-declaring", "tasks-ext.legacy.only-old-capability-is-none"
ALSO_OLD = {OLD: "nor does it know the older capability from the newer"}


def _remembers(wire: Between, message: Message) -> bool:
    wire.shared["seen"] = wire.shared.get("seen") or has_extension(message)
    return message["method"] == "tools/call" and bool(wire.shared["seen"])


# Other scenarios take the tasks for results.
ONLY = ("tasks-ext.create", OLD, "result.type")
NO_TYPE = {"result.type.from-known-set": "the type of result is not known"}
believing(
    ONLY_TO,
    "makes_tasks_for_everybody",
    lambda wire, message: message["method"] == "tools/call",
    also=ALSO_OLD | NO_TYPE,
    only=ONLY,
)
believing(ONLY_TO, "remembers_what_was_declared", _remembers, also=ALSO_OLD | NO_TYPE, only=ONLY)
believing(
    ONLY_TO,
    "makes_tasks_of_one_tool_for_everybody",
    lambda wire, message: params_of(message).get("name") == "get_choice",
    also=ALSO_OLD | NO_TYPE,
    only=ONLY,
)
believing(
    OLD,
    "takes_the_older_tasks_for_the_newer",
    lambda wire, message: "tasks" in declared(message) and message["method"] == "tools/call",
)
believing(
    OLD,
    "takes_older_tasks_of_tools_for_newer_ones",
    lambda wire, message: "tools" in declared(message).get("tasks", {}).get("requests", {}),
)
NEEDS = "tasks-ext.create.needs-task-32021"


def refusing(name: str, spoil: Callable[[dict[str, Any]], None]) -> None:
    """Register a server that refuses clients without tasks in another way."""

    def hook(wire: Between) -> None:
        def from_server(message: Message, request: Message) -> Sent:
            fault = message.get("error")
            if fault and request.get("method") == "tools/call" and fault["code"] == -32021:
                spoil(fault)
            return message

        wire.from_server = from_server

    extended(NEEDS)(named(name, hook))


refusing("refuses_as_an_unknown_method", lambda fault: fault.update(code=-32601))
refusing("does_not_name_the_extension", lambda fault: fault.pop("data"))
refusing(
    "names_another_capability",
    lambda fault: fault.update(data={"requiredCapabilities": {"tasks": {}}}),
)

PARAM = "tasks-ext.legacy.task-param-ignored"


def on_task_param(name: str, body: Callable[[Message], Message]) -> None:
    """Register a server that does not ignore the parameter `task`."""

    def hook(wire: Between) -> None:
        in_place_of(lambda asked: body(asked) if "task" in params_of(asked) else None)(wire)

    extended(PARAM)(named(name, hook))


TIME = "2026-07-28T10:00:00Z"
TASK = {"taskId": "a", "status": "working", "createdAt": TIME, "lastUpdatedAt": TIME, "ttl": 1}
on_task_param("refuses_the_older_parameter", lambda asked: error(-32602))
on_task_param("answers_with_an_older_task", lambda asked: {"result": {"task": TASK}})
on_task_param(
    "answers_with_a_newer_task",
    lambda asked: {"result": {"resultType": "task", **TASK, "ttlMs": 1}},
)

UNDER = "tasks-ext.legacy.not-under-2025"


@extended(UNDER)
def makes_newer_tasks_in_older_sessions(wire: Between) -> None:
    state: dict[str, Any] = {}

    def replies(asked: Message) -> Message | None:
        if asked["method"] == "initialize":
            state.update(params_of(asked)["capabilities"].get("extensions", {}))
        if asked["method"] == "tools/call" and EXTENSION in state:
            return {"result": {"resultType": "task", **TASK, "ttlMs": 1}}
        return None

    in_place_of(replies)(wire)


@extended(UNDER)
def makes_tasks_without_a_type_in_older_sessions(wire: Between) -> None:
    state: dict[str, Any] = {}

    def replies(asked: Message) -> Message | None:
        if asked["method"] == "initialize":
            state.update(params_of(asked)["capabilities"].get("extensions", {}))
        if params_of(asked).get("name") == "get_film" and EXTENSION in state:
            return {"result": {**TASK, "ttlMs": 1}}
        return None

    in_place_of(replies)(wire)


# -- the task


@extended("tasks-ext.create.durable-first")
def does_not_know_its_newest_task(wire: Between) -> None:
    looked: set[str] = set()

    def replies(asked: Message) -> Message | None:
        id = params_of(asked).get("taskId")
        if asked["method"] != "tasks/get" or id in looked or id == "accord-check-no-such-task":
            return None
        if has_extension(asked):
            looked.add(str(id))
            return error(-32602, "there is no such task")
        return None

    in_place_of(replies)(wire)


@spoil_tasks("tasks-ext.create.durable-first", "tools/call")
def returns_an_id_that_does_not_exist(task: dict[str, Any]) -> None:
    task["taskId"] = task["taskId"][::-1]


@extended("tasks-ext.create.durable-first")
def knows_its_tasks_a_moment_later(wire: Between) -> None:
    fresh: set[str] = set()

    def from_server(message: Message, request: Message) -> Sent:
        result = message.get("result") or {}
        if result.get("resultType") == "task":
            id = result["taskId"]
            fresh.add(id)
            wire.later(0.02, lambda: fresh.discard(id))
        return message

    def replies(asked: Message) -> Message | None:
        is_fresh = params_of(asked).get("taskId") in fresh and has_extension(asked)
        return error(-32602) if asked["method"] == "tasks/get" and is_fresh else None

    in_place_of(replies)(wire)
    wire.from_server = from_server


faults(
    spoil_tasks("tasks-ext.create.mrtr-first", "tools/call"),
    returns_tasks_that_wait_already=put("status", "input_required"),
    asks_in_the_handle=put("inputRequests", {"q": {"method": "roots/list"}}),
)


def ending(id: str, name: str, spoil: Spoil, **settings: Any) -> None:
    """Register a server that shows tasks with a failed tool in another way."""

    def change(task: dict[str, Any]) -> None:
        if (task.get("result") or {}).get("isError"):
            spoil(task)

    spoil_tasks(id, "tasks/get", **settings)(named(name, change))


FAILED = {"code": -32000, "message": "no film"}
HAS_RESULT = "tasks-ext.get.completed-has-result"
TOOL_ERROR = "tasks-ext.status.tool-error-is-completed"


def _fails(task: dict[str, Any]) -> None:
    del task["result"]
    task.update(status="failed", error=FAILED, statusMessage="no film")


def _fails_with_result(task: dict[str, Any]) -> None:
    task.update(status="failed", error=FAILED, statusMessage="no film")


ending(TOOL_ERROR, "fails_tasks_whose_tool_failed", _fails)
ending(TOOL_ERROR, "fails_tasks_and_keeps_the_result", _fails_with_result)
ending(TOOL_ERROR, "cancels_tasks_whose_tool_failed", lambda task: task.update(status="cancelled"))
ending(HAS_RESULT, "hides_that_the_tool_failed", lambda task: task["result"].pop("isError"))

for _member in ("taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"):

    def _lacking(task: dict[str, Any], member: str = _member) -> None:
        del task[member]

    _lacking.__name__ = f"leaves_out_{_member}"
    spoil_tasks("tasks-ext.task.required-fields", "tasks/get")(_lacking)


@spoil_tasks("tasks-ext.task.required-fields")
def tells_the_time_to_live_in_words(task: dict[str, Any]) -> None:
    task["ttlMs"] = "an hour"


@spoil_tasks("tasks-ext.task.status-values")
def invents_a_status(task: dict[str, Any]) -> None:
    task["status"] = "running" if task["status"] == "working" else task["status"]


@spoil_tasks("tasks-ext.task.status-values", "tasks/get")
def spells_a_status_otherwise(task: dict[str, Any]) -> None:
    if task["status"] == "completed":
        task["status"] = "complete"


@spoil_tasks("tasks-ext.task.status-values", "tools/call")
def queues_its_tasks(task: dict[str, Any]) -> None:
    task["status"] = "queued"


COMPLETE = "tasks-ext.get.result-type-complete"
faults(spoil_tasks(COMPLETE, "tasks/get"), calls_every_look_a_task=put("resultType", "task"))
faults(spoiler(COMPLETE, "tasks/update"), calls_updates_tasks=put("resultType", "task"))
faults(spoiler(COMPLETE, "tasks/cancel"), calls_cancellations_tasks=put("resultType", "task"))


def at_end(id: str, status: str, name: str, spoil: Spoil, **settings: Any) -> None:
    """Register a server that shows ended tasks in another way."""

    def change(task: dict[str, Any]) -> None:
        if task["status"] == status:
            spoil(task)

    spoil_tasks(id, "tasks/get", **settings)(named(name, change))


HAS_ERROR = "tasks-ext.get.failed-has-error"
at_end(
    HAS_RESULT,
    "completed",
    "keeps_results_for_itself",
    lambda task: task.pop("result"),
)
at_end(HAS_RESULT, "completed", "says_results_in_words", lambda t: t.update(result="done"))
at_end(HAS_RESULT, "completed", "lists_results", lambda t: t.update(result=[]))
at_end(HAS_ERROR, "failed", "keeps_errors_for_itself", lambda task: task.pop("error"))
at_end(HAS_ERROR, "failed", "says_errors_in_words", lambda task: task.update(error="closed"))
at_end(HAS_ERROR, "failed", "leaves_out_the_code", lambda task: task["error"].pop("code"))
MESSAGE = "tasks-ext.status.failed-message"
at_end(MESSAGE, "failed", "does_not_say_why", lambda task: task.pop("statusMessage", None))


# -- questions


@spoil_tasks("tasks-ext.get.input-requests", "tasks/get")
def waits_without_a_question(task: dict[str, Any]) -> None:
    task.pop("inputRequests", None)


@spoil_tasks("tasks-ext.get.input-requests", "tasks/get")
def waits_for_nothing(task: dict[str, Any]) -> None:
    if "inputRequests" in task:
        task["inputRequests"] = {}


@spoil_tasks("tasks-ext.get.input-requests", "tasks/get")
def lists_its_questions(task: dict[str, Any]) -> None:
    if "inputRequests" in task:
        task["inputRequests"] = [*task["inputRequests"].values()]


KEYS = "tasks-ext.input.keys-unique-for-life"
NUMBERS = count()


@spoil_tasks(KEYS, "tasks/get")
def asks_otherwise_under_one_key(task: dict[str, Any]) -> None:
    for question in (task.get("inputRequests") or {}).values():
        question["params"]["message"] = f"Which film, number {next(NUMBERS)}?"


UPDATED, CANCELLED = "tasks-ext.update.ack-empty", "tasks-ext.cancel.ack-empty"
faults(
    spoiler(UPDATED, "tasks/update"),
    returns_the_status_after_an_update=put("status", "working"),
    returns_the_answers_after_an_update=put("accepted", ["a"]),
)


@spoiler(UPDATED, "tasks/update")
def returns_the_task_after_an_update(result: dict[str, Any]) -> None:
    result.update(TASK, ttlMs=1)


@spoiler(CANCELLED, "tasks/cancel")
def returns_the_cancelled_task(result: dict[str, Any]) -> None:
    result.update(TASK, ttlMs=1)


faults(
    spoiler(CANCELLED, "tasks/cancel"),
    says_that_it_cancelled=put("cancelled", True),
    returns_the_status_of_a_cancellation=put("status", "cancelled"),
)


def on_keys(name: str, body: Message) -> None:
    def hook(wire: Between) -> None:
        def replies(asked: Message) -> Message | None:
            given = params_of(asked).get("inputResponses") or {}
            return body if "accord-check-no-such-key" in given else None

        in_place_of(replies)(wire)

    extended("tasks-ext.update.unknown-keys-ignored")(named(name, hook))


on_keys("refuses_keys_that_nobody_asked_for", error(-32602))
on_keys("fails_over_keys_that_nobody_asked_for", error(-32603))
on_keys("does_not_find_keys", error(-32601))


# -- what is refused


def answering(id: str, name: str, is_meant: Callable[[Message], bool], body: Message) -> None:
    def hook(wire: Between) -> None:
        in_place_of(lambda asked: body if is_meant(asked) else None)(wire)

    extended(id)(named(name, hook))


def is_unknown(*methods: str) -> Callable[[Message], bool]:
    def is_meant(asked: Message) -> bool:
        is_odd = params_of(asked).get("taskId") == "accord-check-no-such-task"
        return asked["method"] in methods and is_odd and has_extension(asked)

    return is_meant


GET_UNKNOWN = "tasks-ext.errors.get-unknown-32602"
answering(GET_UNKNOWN, "does_not_find_tasks", is_unknown("tasks/get"), error(-32002))
answering(GET_UNKNOWN, "fails_over_unknown_tasks", is_unknown("tasks/get"), error(-32603))
answering(
    GET_UNKNOWN,
    "says_that_unknown_tasks_were_cancelled",
    is_unknown("tasks/get"),
    {"result": {"resultType": "complete", **TASK, "status": "cancelled", "ttlMs": None}},
)
OTHERS_UNKNOWN = "tasks-ext.errors.update-cancel-unknown-32602"
DONE = {"result": {"resultType": "complete"}}
answering(OTHERS_UNKNOWN, "cancels_unknown_tasks", is_unknown("tasks/cancel"), DONE)
answering(OTHERS_UNKNOWN, "updates_unknown_tasks", is_unknown("tasks/update"), DONE)
answering(OTHERS_UNKNOWN, "fails_to_cancel", is_unknown("tasks/cancel"), error(-32603))


def is_undeclared(*methods: str) -> Callable[[Message], bool]:
    return lambda asked: asked["method"] in methods and not has_extension(asked)


UNDECLARED = "tasks-ext.errors.undeclared-32021"
ALL = ("tasks/get", "tasks/update", "tasks/cancel")
answering(UNDECLARED, "does_not_know_the_method", is_undeclared(*ALL), error(-32601))
answering(UNDECLARED, "cancels_for_everybody", is_undeclared("tasks/cancel"), DONE)
believing(
    UNDECLARED,
    "shows_tasks_to_everybody",
    lambda wire, message: message["method"] == "tasks/get",
)
believing(
    UNDECLARED,
    "lets_everybody_listen_to_tasks",
    lambda wire, message: message["method"] == "subscriptions/listen",
)
REMOVED = "tasks-ext.errors.result-removed-32601"


def is_result(asked: Message) -> bool:
    return bool(asked["method"] == "tasks/result")


answering(REMOVED, "still_returns_results", is_result, DONE)
answering(REMOVED, "refuses_results_as_bad_params", is_result, error(-32602))
answering(REMOVED, "lacks_a_capability_for_results", is_result, error(-32021))


# -- capabilities, ids, users


def declaring(id: str, name: str, spoil: Spoil, **settings: Any) -> None:
    def change(result: dict[str, Any]) -> None:
        spoil(result["capabilities"])

    spoiler(id, "server/discover", **settings)(named(name, change))


OLDER = "tasks-ext.legacy.capabilities-not-advertised"
for _name in ("list", "cancel", "requests"):
    declaring(
        OLDER,
        f"advertises_{_name}",
        lambda capabilities, name=_name: capabilities.update(tasks={name: {}}),
    )


def naming(name: str, make: Callable[[int], str]) -> None:
    """Register a server that names its tasks in another way."""

    def hook(wire: Between) -> None:
        numbers = wire.shared.setdefault("numbers", count(7))
        own: dict[str, str] = {}
        names: dict[str, str] = {}

        def from_server(message: Message, request: Message) -> Sent:
            result = message.get("result") or {}
            id = result.get("taskId")
            if isinstance(id, str):
                if id not in names:
                    names[id] = make(next(numbers))
                    own[names[id]] = id
                result["taskId"] = names[id]
            return message

        def from_client(message: Message) -> Sent:
            params = params_of(message)
            if params.get("taskId") in own:
                return message | {"params": params | {"taskId": own[params["taskId"]]}}
            return message

        wire.from_server, wire.from_client = from_server, from_client

    extended("tasks-ext.security.entropy")(named(name, hook))


naming("counts_its_tasks", lambda number: f"task-{number}")
naming("names_tasks_by_the_time", lambda number: f"task-{1764064800000 + number * 31}")
naming("takes_few_random_digits", lambda number: f"{number * 7919 % 10000:04d}")


ADVERTISED = "tasks-ext.capability.server"
declaring(ADVERTISED, "does_not_advertise_tasks", lambda found: found["extensions"].pop(EXTENSION))
declaring(ADVERTISED, "advertises_no_extensions", lambda found: found.pop("extensions"))
declaring(
    ADVERTISED,
    "advertises_tasks_under_an_older_name",
    lambda found: found.update(extensions={"io.modelcontextprotocol/task": {}}),
)

TYPED = "tasks-ext.create.result-type-task"
PLAIN = {"tools.call.content-array": "nor is it a plain result"}


@spoil_tasks(TYPED, "tools/call", also=PLAIN)
def calls_a_task_complete(task: dict[str, Any]) -> None:
    task["resultType"] = "complete"


@spoil_tasks(TYPED, "tools/call", also=PLAIN | {"result.type.present": "it has no type"})
def does_not_say_that_it_is_a_task(task: dict[str, Any]) -> None:
    del task["resultType"]


@spoiler(TYPED, "tools/call", also=NO_TYPE, only=(TYPED, *NO_TYPE))
def calls_plain_results_tasks(result: dict[str, Any]) -> None:
    if "content" in result:
        result["resultType"] = "task"


few("a session has the extension, or it has not", UNDER, OLD)
few("the first status is one of two that wait", "tasks-ext.create.mrtr-first")
few("a message is there, or it is not", MESSAGE)
few("one key stands for two questions", KEYS)

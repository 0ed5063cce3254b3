"""Servers that are wrong about tasks: refused, listed, cancelled, of other users."""

from collections.abc import Callable
from typing import Any

from check.mutants.foundation import Between, Message, Sent, params_of
from check.mutants.task_server import make_plain
from check.mutants.tasks import (
    TERMINAL,
    error,
    in_place_of,
    is_tasked,
    task_answer,
    task_interloper,
    task_spoiler,
    tasks_in,
    text,
)

# -- calls that cannot become tasks


@task_interloper("tasks.tool.forbidden-error")
def ignores_a_task_that_is_not_supported(wire: Between) -> None:
    in_place_of(wire, lambda asked: text("none") if is_tasked(asked, "count_tickets") else None)


@task_interloper("tasks.tool.forbidden-error")
def refuses_unsupported_tasks_as_bad_params(wire: Between) -> None:
    in_place_of(wire, lambda asked: error(-32602) if is_tasked(asked, "count_tickets") else None)


@task_interloper("tasks.tool.forbidden-error")
def reports_unsupported_tasks_in_a_result(wire: Between) -> None:
    said = text("no tasks", isError=True)
    in_place_of(wire, lambda asked: said if is_tasked(asked, "count_tickets") else None)


def is_plain_choice(asked: Message) -> bool:
    return params_of(asked).get("name") == "get_choice" and "task" not in params_of(asked)


@task_interloper("tasks.tool.required-error")
def runs_a_required_task_plainly(wire: Between) -> None:
    in_place_of(wire, lambda asked: text("film 1") if is_plain_choice(asked) else None)


@task_interloper("tasks.tool.required-error")
def refuses_a_missing_task_as_bad_params(wire: Between) -> None:
    in_place_of(wire, lambda asked: error(-32602) if is_plain_choice(asked) else None)


@task_interloper("tasks.tool.required-error")
def reports_a_missing_task_in_a_result(wire: Between) -> None:
    said = text("call it as a task", isError=True)
    in_place_of(wire, lambda asked: said if is_plain_choice(asked) else None)


@task_interloper("tasks.undeclared.ignored", make=make_plain)
def refuses_a_task_without_tasks(wire: Between) -> None:
    in_place_of(wire, lambda asked: error(-32601) if is_tasked(asked) else None)


@task_interloper("tasks.undeclared.ignored", make=make_plain)
def does_not_know_the_parameter_task(wire: Between) -> None:
    in_place_of(wire, lambda asked: error(-32602, "unknown: task") if is_tasked(asked) else None)


@task_interloper("tasks.undeclared.ignored", make=make_plain)
def fails_over_the_parameter_task(wire: Between) -> None:
    in_place_of(wire, lambda asked: error(-32603) if is_tasked(asked) else None)


UNASKED = {"tasks.undeclared.ignored": "it should have answered plainly"}


def undeclared(wire: Between, path: tuple[str, ...]) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        if request.get("method") == "initialize":
            place = message["result"]["capabilities"]
            for name in path[:-1]:
                place = place[name]
            del place[path[-1]]
        return message

    wire.from_server = from_server


@task_interloper("tasks.capability.declared", also=UNASKED)
def does_not_declare_its_tasks(wire: Between) -> None:
    undeclared(wire, ("tasks",))


@task_interloper("tasks.undeclared.ignored")
def declares_tasks_but_none_of_tools(wire: Between) -> None:
    undeclared(wire, ("tasks", "requests", "tools"))


@task_interloper("tasks.capability.declared", also=UNASKED, make=make_plain)
def makes_tasks_of_everything(wire: Between) -> None:
    time = "2025-11-25T10:00:00Z"
    task = {"taskId": "a", "status": "working", "createdAt": time, "lastUpdatedAt": time}
    made = {"result": {"task": task | {"ttl": None}}}
    in_place_of(wire, lambda asked: made if is_tasked(asked) else None)


@task_interloper("tasks.capability.declared", also=UNASKED)
def declares_tasks_in_an_older_place(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        if request.get("method") == "initialize":
            place = message["result"]["capabilities"]
            place["experimental"] = {"tasks": place.pop("tasks")}
        return message

    wire.from_server = from_server


# -- tasks that do not exist


def refusing(id: str, name: str, methods: tuple[str, ...], body: Message, **settings: Any) -> None:
    """Register a server that answers otherwise about tasks that do not exist."""

    def hook(wire: Between) -> None:
        def replies(asked: Message) -> Message | None:
            is_unknown = params_of(asked).get("taskId") == "accord-check-no-such-task"
            return body if is_unknown and asked["method"] in methods else None

        in_place_of(wire, replies)

    hook.__name__ = name
    task_interloper(id, **settings)(hook)


UNKNOWN = "tasks.errors.unknown-id"
refusing(UNKNOWN, "does_not_find_tasks", ("tasks/get",), error(-32002))
refusing(UNKNOWN, "does_not_find_results", ("tasks/result",), error(-32603))
refusing(UNKNOWN, "cancels_what_does_not_exist", ("tasks/cancel",), {"result": {}})
refusing(UNKNOWN, "says_null_for_unknown_tasks", ("tasks/get", "tasks/result"), {"result": None})


def is_bad_cursor(asked: Message) -> bool:
    is_list = asked.get("method") == "tasks/list"
    return is_list and params_of(asked).get("cursor") == "accord-check-no-such-cursor"


@task_interloper("tasks.errors.bad-cursor")
def starts_again_at_a_bad_cursor(wire: Between) -> None:
    in_place_of(wire, lambda asked: {"result": {"tasks": []}} if is_bad_cursor(asked) else None)


@task_interloper("tasks.errors.bad-cursor")
def fails_at_a_bad_cursor(wire: Between) -> None:
    in_place_of(wire, lambda asked: error(-32603) if is_bad_cursor(asked) else None)


@task_interloper("tasks.errors.bad-cursor")
def calls_a_bad_cursor_an_unknown_method(wire: Between) -> None:
    in_place_of(wire, lambda asked: error(-32601) if is_bad_cursor(asked) else None)


# -- lists


def listing(id: str, name: str, spoil: Callable[[list[Any]], list[Any]], **settings: Any) -> None:
    """Register a server that lists its tasks otherwise."""

    def change(result: dict[str, Any]) -> None:
        result["tasks"] = spoil(result["tasks"])

    change.__name__ = name
    task_answer(id, "tasks/list", **settings)(change)


CONSISTENT = "tasks.list.consistent-with-get"
listing(CONSISTENT, "lists_nothing", lambda tasks: [])
listing(
    CONSISTENT,
    "lists_unfinished_tasks",
    lambda tasks: [each for each in tasks if each["status"] not in TERMINAL][:0],
)
listing(CONSISTENT, "does_not_list_the_second_task", lambda tasks: tasks[:-4] + tasks[-3:])
listing("tasks.list.next-cursor", "ends_after_a_page", lambda tasks: tasks[:-3])
listing("tasks.list.next-cursor", "shows_the_last_two", lambda tasks: tasks[-2:])


def paging(wire: Between, *, size: int, follow: Callable[[str, list[Any]], Message]) -> None:
    """Cut the list of tasks into pages."""

    def from_server(message: Message, request: Message) -> Sent:
        if request.get("method") == "tasks/list" and "result" in message:
            tasks = message["result"]["tasks"]
            cursor = params_of(wire.requests_seen[message["id"]]).get("cursor")
            if cursor is None:
                message["result"] = {"tasks": tasks[:size], "nextCursor": "accord-1"}
            else:
                return {"jsonrpc": "2.0", "id": message["id"]} | follow(cursor, tasks)
        return message

    def from_client(message: Message) -> Sent:
        if message.get("method") == "tasks/list":
            wire.requests_seen[message["id"]] = message
            if str(params_of(message).get("cursor")).startswith("accord-1"):
                return message | {"params": {}}
        return message

    wire.requests_seen = {}
    wire.from_server, wire.from_client = from_server, from_client


PAGINATED = "tasks.list.paginated"


@task_interloper(PAGINATED)
def refuses_its_own_cursor(wire: Between) -> None:
    paging(wire, size=2, follow=lambda cursor, tasks: error(-32602))


@task_interloper(PAGINATED)
def shows_the_first_page_again(wire: Between) -> None:
    again = "accord-1"
    paging(
        wire,
        size=2,
        follow=lambda cursor, tasks: {"result": {"tasks": tasks[:2], "nextCursor": again}},
    )


@task_interloper(PAGINATED)
def never_ends_its_pages(wire: Between) -> None:
    again = "accord-1"
    paging(
        wire,
        size=2,
        follow=lambda cursor, tasks: {"result": {"tasks": tasks[2:], "nextCursor": again}},
    )


@task_interloper("tasks.list.next-cursor")
def ends_after_its_second_page(wire: Between) -> None:
    paging(wire, size=1, follow=lambda cursor, tasks: {"result": {"tasks": tasks[1:-3]}})


# -- cancelled


@task_interloper("tasks.cancel.terminal-32602")
def cancels_what_has_ended(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        if request.get("method") == "tasks/cancel" and (message.get("error") or {}).get("code"):
            message["error"]["code"] = -32600
        return message

    wire.from_server = from_server


def ended(wire: Between) -> dict[str, dict[str, Any]]:
    """Return the tasks that ended, as they come to be known; questions about them stay."""
    known: dict[str, dict[str, Any]] = {}
    usual = wire.from_server

    def from_server(message: Message, request: Message) -> Sent:
        for task in tasks_in(message, request):
            if task["status"] in TERMINAL:
                known[task["taskId"]] = task
        return usual(message, request)

    wire.from_server = from_server
    return known


@task_interloper("tasks.cancel.terminal-32602")
def shows_an_ended_task_as_it_is(wire: Between) -> None:
    known = ended(wire)

    def replies(asked: Message) -> Message | None:
        task = known.get(params_of(asked).get("taskId", ""))
        return {"result": task} if task and asked["method"] == "tasks/cancel" else None

    in_place_of(wire, replies)


@task_interloper(
    "tasks.cancel.terminal-32602", also={"tasks.status.terminal-final": "and is cancelled then"}
)
def says_that_an_ended_task_is_cancelled(wire: Between) -> None:
    known = ended(wire)

    def replies(asked: Message) -> Message | None:
        task = known.get(params_of(asked).get("taskId", ""))
        if task is None or asked["method"] != "tasks/cancel":
            return None
        return {"result": task | {"status": "cancelled"}}

    in_place_of(wire, replies)


BEFORE = "tasks.cancel.cancelled-before-response"


@task_spoiler(BEFORE, "tasks/cancel", also={"tasks.status.terminal-final": "it announced the end"})
def says_working_when_it_cancels(task: dict[str, Any]) -> None:
    task["status"] = "working"


@task_interloper(BEFORE)
def refuses_to_cancel(wire: Between) -> None:
    known = ended(wire)

    def replies(asked: Message) -> Message | None:
        is_open = params_of(asked).get("taskId") not in (*known, "accord-check-no-such-task")
        return error(-32603) if asked["method"] == "tasks/cancel" and is_open else None

    in_place_of(wire, replies)


@task_interloper(BEFORE, also={"tasks.status.terminal-final": "what was cancelled works"})
def cancels_only_in_its_answer(wire: Between) -> None:
    known = ended(wire)
    time = "2025-11-25T10:00:00Z"

    def replies(asked: Message) -> Message | None:
        id = params_of(asked).get("taskId")
        if asked["method"] != "tasks/cancel" or id in (*known, "accord-check-no-such-task"):
            return None
        times = {"createdAt": time, "lastUpdatedAt": time, "ttl": None}
        return {"result": {"taskId": id, "status": "cancelled", **times}}

    in_place_of(wire, replies)

"""Servers that are wrong about tasks: refused, listed, cancelled, of other users."""

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, TypeAlias

from accord import Principal
from accord.auth import Protected, StaticTokens
from accord.http.rules.sse import encode
from accord_tools.check.probing.target import ServerTarget
from check.faults import faults, named
from check.mutants.between_http import Asked, Head, Headers, Web, serving
from check.mutants.foundation import Between, Making, Message, Sent, elsewhere, few, params_of
from check.mutants.protected import JSON, OTHER, OWN, token_of
from check.mutants.task_server import make_plain, make_server
from check.mutants.tasks import (
    TERMINAL,
    error,
    in_place_of,
    is_tasked,
    renaming,
    task_interloper,
    task_mutant,
    task_spoiler,
    tasks_in,
    text,
)
from support.check_targets import check_target

# -- calls that cannot become tasks


@task_interloper("tasks.tool.forbidden-error")
def ignores_a_task_that_is_not_supported(wire: Between) -> None:
    in_place_of(lambda asked: text("none") if is_tasked(asked, "count_tickets") else None)(wire)


@task_interloper("tasks.tool.forbidden-error")
def refuses_unsupported_tasks_as_bad_params(wire: Between) -> None:
    in_place_of(lambda asked: error(-32602) if is_tasked(asked, "count_tickets") else None)(wire)


@task_interloper("tasks.tool.forbidden-error")
def reports_unsupported_tasks_in_a_result(wire: Between) -> None:
    said = text("no tasks", isError=True)
    in_place_of(lambda asked: said if is_tasked(asked, "count_tickets") else None)(wire)


def is_plain_choice(asked: Message) -> bool:
    return params_of(asked).get("name") == "get_choice" and "task" not in params_of(asked)


@task_interloper("tasks.tool.required-error")
def runs_a_required_task_plainly(wire: Between) -> None:
    in_place_of(lambda asked: text("film 1") if is_plain_choice(asked) else None)(wire)


@task_interloper("tasks.tool.required-error")
def refuses_a_missing_task_as_bad_params(wire: Between) -> None:
    in_place_of(lambda asked: error(-32602) if is_plain_choice(asked) else None)(wire)


@task_interloper("tasks.tool.required-error")
def reports_a_missing_task_in_a_result(wire: Between) -> None:
    said = text("call it as a task", isError=True)
    in_place_of(lambda asked: said if is_plain_choice(asked) else None)(wire)


faults(
    task_interloper("tasks.undeclared.ignored", make=make_plain),
    refuses_a_task_without_tasks=in_place_of(
        lambda asked: error(-32601) if is_tasked(asked) else None
    ),
    does_not_know_the_parameter_task=in_place_of(
        lambda asked: error(-32602, "unknown: task") if is_tasked(asked) else None
    ),
    fails_over_the_parameter_task=in_place_of(
        lambda asked: error(-32603) if is_tasked(asked) else None
    ),
)


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
    in_place_of(lambda asked: made if is_tasked(asked) else None)(wire)


@task_mutant("tasks.capability.declared", also=UNASKED)
def declares_tasks_in_an_older_place(message: Message, request: Message) -> Sent:
    if request.get("method") == "initialize":
        place = message["result"]["capabilities"]
        place["experimental"] = {"tasks": place.pop("tasks")}
    return message


# -- tasks that do not exist


def refusing(id: str, name: str, methods: tuple[str, ...], body: Message, **settings: Any) -> None:
    """Register a server that answers otherwise about tasks that do not exist."""

    def hook(wire: Between) -> None:
        def replies(asked: Message) -> Message | None:
            is_unknown = params_of(asked).get("taskId") == "accord-check-no-such-task"
            return body if is_unknown and asked["method"] in methods else None

        in_place_of(replies)(wire)

    task_interloper(id, **settings)(named(name, hook))


UNKNOWN = "tasks.errors.unknown-id"
refusing(UNKNOWN, "does_not_find_tasks", ("tasks/get",), error(-32002))
refusing(UNKNOWN, "does_not_find_results", ("tasks/result",), error(-32603))
refusing(UNKNOWN, "cancels_what_does_not_exist", ("tasks/cancel",), {"result": {}})
refusing(UNKNOWN, "says_null_for_unknown_tasks", ("tasks/get", "tasks/result"), {"result": None})


def is_bad_cursor(asked: Message) -> bool:
    is_list = asked.get("method") == "tasks/list"
    return is_list and params_of(asked).get("cursor") == "accord-check-no-such-cursor"


faults(
    task_interloper("tasks.errors.bad-cursor"),
    starts_again_at_a_bad_cursor=in_place_of(
        lambda asked: {"result": {"tasks": []}} if is_bad_cursor(asked) else None
    ),
    fails_at_a_bad_cursor=in_place_of(
        lambda asked: error(-32603) if is_bad_cursor(asked) else None
    ),
    calls_a_bad_cursor_an_unknown_method=in_place_of(
        lambda asked: error(-32601) if is_bad_cursor(asked) else None
    ),
)


# -- lists


# As many as a scenario starts before it looks for them in the list.
STARTED = 5
Keep: TypeAlias = Callable[[str, list[str]], bool]


def new_tasks(wire: Between) -> list[str]:
    """Return the ids of the tasks that this connection made, as they are made."""
    made: list[str] = []
    usual = wire.from_server

    def from_server(message: Message, request: Message) -> Sent:
        made.extend(task["taskId"] for task in tasks_in(message, request, "tools/call"))
        return usual(message, request)

    wire.from_server = from_server
    return made


def listing(id: str, name: str, keep: Keep, *, size: int = 0) -> None:
    """Register a server that lists only some tasks, by their ids and the last few that were made.

    With a size, the first page has this many, and the second one the rest.
    """

    def hook(wire: Between) -> None:
        def from_server(message: Message, request: Message) -> Sent:
            if request.get("method") == "tasks/list" and "result" in message:
                last = made[-STARTED:]
                tasks = [each for each in message["result"]["tasks"] if keep(each["taskId"], last)]
                is_second = "cursor" in params_of(request)
                rest = {"tasks": tasks[size:]} if is_second or not size else None
                message["result"] = rest or {"tasks": tasks[:size], "nextCursor": "accord-1"}
            return message

        wire.from_server = from_server
        made = new_tasks(wire)
        wire.from_client = without_own_cursor

    task_interloper(id)(named(name, hook))


def without_own_cursor(message: Message) -> Sent:
    is_own = params_of(message).get("cursor") == "accord-1"
    return {**message, "params": {}} if is_own else message


CONSISTENT, NEXT = "tasks.list.consistent-with-get", "tasks.list.next-cursor"
listing(CONSISTENT, "lists_nothing", lambda task, last: False)
listing(CONSISTENT, "does_not_list_the_second_task", lambda task, last: task != last[1])
listing(CONSISTENT, "lists_every_second_task", lambda task, last: task not in last[::2])
listing(NEXT, "ends_after_a_page", lambda task, last: task not in last[-3:])
listing(NEXT, "shows_the_last_two", lambda task, last: task in last[-2:])
listing(NEXT, "ends_after_its_second_page", lambda task, last: task not in last[-2:], size=1)


PAGINATED = "tasks.list.paginated"


def paging(name: str, follow: Callable[[list[Any]], Message]) -> None:
    """Register a server whose second page is wrong."""

    def hook(wire: Between) -> None:
        def from_server(message: Message, request: Message) -> Sent:
            if request.get("method") == "tasks/list" and "result" in message:
                tasks = message["result"]["tasks"]
                if "cursor" in params_of(request):
                    return {"jsonrpc": "2.0", "id": message["id"]} | follow(tasks)
                message["result"] = {"tasks": tasks[:2], "nextCursor": "accord-1"}
            return message

        wire.from_server, wire.from_client = from_server, without_own_cursor

    task_interloper(PAGINATED)(named(name, hook))


def page(tasks: list[Any]) -> Message:
    return {"result": {"tasks": tasks, "nextCursor": "accord-1"}}


paging("refuses_its_own_cursor", lambda tasks: error(-32602))
paging("shows_the_first_page_again", lambda tasks: page(tasks[:2]))
paging("never_ends_its_pages", lambda tasks: page(tasks[2:]))


# -- cancelled


@task_mutant("tasks.cancel.terminal-32602")
def cancels_what_has_ended(message: Message, request: Message) -> Sent:
    fault = message.get("error") or {}
    if request.get("method") == "tasks/cancel" and "cannot be" in fault.get("message", ""):
        fault["code"] = -32600
    return message


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

    in_place_of(replies)(wire)


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

    in_place_of(replies)(wire)


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

    in_place_of(replies)(wire)


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

    in_place_of(replies)(wire)


STAYS = "tasks.cancel.stays-cancelled"
REPORTED = {"tasks.status.terminal-final": "the status changes"}


def resuming(status: str, **settings: Any) -> None:
    """Register a server that takes up a task which it had cancelled."""

    def takes_up_what_was_cancelled(wire: Between) -> None:
        told: Counter[str] = Counter()

        def from_server(message: Message, request: Message) -> Sent:
            for task in tasks_in(message, request, "tasks/get"):
                if task["status"] == "cancelled":
                    told[task["taskId"]] += 1
                    if told[task["taskId"]] > 1:
                        task.update(status=status, statusMessage="after all")
            return message

        wire.from_server = from_server

    takes_up_what_was_cancelled.__name__ = f"calls_a_cancelled_task_{status}"
    task_interloper(STAYS, also=REPORTED, **settings)(takes_up_what_was_cancelled)


resuming("completed")
resuming("working")
resuming("failed")


def continuing(id: str, name: str, messages: Callable[[Message], list[Message]]) -> None:
    """Register a server that goes on with a task after its cancellation."""

    def hook(wire: Between) -> None:
        calls: dict[str, Message] = {}

        def from_server(message: Message, request: Message) -> Sent:
            for task in tasks_in(message, request, "tools/call"):
                calls[task["taskId"]] = request
            for task in tasks_in(message, request, "tasks/cancel"):
                call = calls.get(task["taskId"])
                if call is not None and params_of(call)["name"] == "get_frames":
                    token = params_of(call)["_meta"]["progressToken"]
                    for step, each in enumerate(messages({"token": token, **task})):
                        wire.later(0.08 + step * 0.02, lambda each=each: wire.to_client(each))  # type: ignore[misc]
            return message

        def from_client(message: Message) -> Sent:
            return None if str(message.get("id")).startswith("late-") else message

        wire.from_server, wire.from_client = from_server, from_client

    task_interloper(id, also=AFTER_END if "progress" in name else {})(named(name, hook))


AFTER_END = {"progress.task.stops-at-terminal": "the task had ended"}


def related(task: Message) -> Message:
    return {"io.modelcontextprotocol/related-task": {"taskId": task["taskId"]}}


def reports(task: Message) -> list[Message]:
    params = {"progressToken": task["token"], "_meta": related(task)}
    return [
        {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": params | {"progress": 40 + step},
        }
        for step in range(60)
    ]


NUMBERS = count(1)


def questions(task: Message) -> list[Message]:
    schema = {"type": "object", "properties": {"value": {"type": "integer"}}}
    params = {"message": "Still there?", "requestedSchema": schema, "_meta": related(task)}
    return [
        {"jsonrpc": "2.0", "id": f"late-{number}", "method": "elicitation/create", "params": params}
        for number in range(next(NUMBERS) * 100, next(NUMBERS) * 100, 2)
    ]


STOPS = "tasks.cancel.attempt-stop"
continuing(STOPS, "reports_progress_of_a_cancelled_task", reports)
continuing(STOPS, "reports_progress_at_times", lambda task: reports(task)[:40])
continuing(STOPS, "asks_for_a_cancelled_task", questions)


# -- whose tasks they are

GUESSED = "tasks.security.unguessable-ids"


def naming(name: str, make: Callable[[int], str]) -> None:
    """Register a server that names its tasks in another way."""

    def hook(wire: Between) -> None:
        numbers = wire.shared.setdefault("numbers", count(7))
        renaming(wire, lambda own, request: make(next(numbers)))

    task_interloper(GUESSED)(named(name, hook))


naming("counts_its_tasks", lambda number: f"task-{number}")
naming("names_tasks_by_the_time", lambda number: f"task-{1764064800000 + number * 31}")
naming("counts_in_hexadecimal", lambda number: f"{number * 4096 + 0xABCDEF0123456789:032x}-t")
naming("takes_four_random_digits", lambda number: f"{number * 7919 % 10000:04d}")


# -- over HTTP


def served(hook: Callable[[Web], None], *, is_guarded: bool) -> Making:
    """Return what makes a server with tasks over HTTP."""

    @asynccontextmanager
    async def making() -> AsyncIterator[ServerTarget]:
        web = Web(None)
        async with serving(web) as port:
            origin = f"http://127.0.0.1:{port}"
            # Answers to tasks/get are plain JSON unless the server has something to add.
            app = make_server().asgi()
            tokens = StaticTokens({OWN: Principal("ada"), OTHER: Principal("grace")})
            web.app = Protected(tokens, issuer=origin).guard(app) if is_guarded else app
            hook(web)
            yield check_target(
                name="mutant",
                url=f"{origin}/mcp",
                headers={"authorization": f"Bearer {OWN}"} if is_guarded else {},
                is_launched=True,
                other_token=OTHER,
                patience=10.0,
                settling=0.15,
                at_once=32,
            )

    return making


def served_mutant(
    id: str,
    *,
    is_guarded: bool = False,
    revision: str = "2025-11-25",
    only: Sequence[str] = ("tasks.security", "tasks.http"),
    also: dict[str, str] | None = None,
) -> Callable[[Callable[[Web], None]], Callable[[Web], None]]:
    """Register a server with tasks over HTTP, with a hook into all that passes."""

    def register(hook: Callable[[Web], None]) -> Callable[[Web], None]:
        making = served(hook, is_guarded=is_guarded)
        elsewhere(id, revision=revision, also=also, only=only)(named(hook.__name__, making))
        return hook

    return register


@served_mutant("tasks.http.no-sse-for-get")
def streams_what_is_known_of_a_task(web: Web) -> None:
    streaming(web, ("tasks/get",))


@served_mutant("tasks.http.no-sse-for-get")
def streams_every_answer(web: Web) -> None:
    streaming(web, ("tasks/get", "tasks/list", "tasks/cancel", "ping", "tools/list"))


def streaming(web: Web, methods: tuple[str, ...]) -> None:
    """Answer these methods with event streams."""

    def head(asked: Asked, status: int, headers: Headers) -> Head:
        if asked.method in methods and status == 200:
            headers["content-type"] = "text/event-stream"
        return status, headers

    def body(asked: Asked, data: bytes) -> bytes:
        is_whole = asked.method in methods and data.startswith(b"{")
        return encode(data) if is_whole else data

    web.head, web.body = head, body


def foreign(id: str, name: str, *methods: str, **settings: Any) -> None:
    """Register a protected server that does not look whose task it is in some methods."""

    def hook(web: Web) -> None:
        # Sessions belong to users as well.
        def is_served(asked: Asked) -> bool:
            return token_of(asked) == OTHER and asked.method in methods

        def before(asked: Asked) -> Any:
            if is_served(asked) and "owner" in web.shared:
                asked.headers["authorization"] = f"Bearer {OWN}"
                asked.headers["mcp-session-id"] = web.shared["owner"]
            elif token_of(asked) == OWN and "mcp-session-id" in asked.headers:
                web.shared["owner"] = asked.headers["mcp-session-id"]
            return None

        web.before = before

    served_mutant(id, is_guarded=True, **settings)(named(name, hook))


BOUND, REJECTED = "tasks.security.bound-to-context", "tasks.security.foreign-rejected"
ALSO_BOUND = {BOUND: "the same seen from the other side"}
ALSO_REJECTED = {REJECTED: "the same seen from the other side"}
foreign(REJECTED, "shows_tasks_to_anybody", "tasks/get", also=ALSO_BOUND)
foreign(REJECTED, "hands_results_to_anybody", "tasks/result", also=ALSO_BOUND)
foreign(BOUND, "shows_and_hands_out_everything", "tasks/get", "tasks/result", also=ALSO_REJECTED)
foreign("tasks.security.list-own-only", "lists_the_tasks_of_others", "tasks/list")


def listing_all(id: str, name: str, newest: int) -> None:
    """Register a server without authorization that lists the tasks of all sessions."""

    def hook(web: Web) -> None:
        known: list[bytes] = []

        def body(asked: Asked, data: bytes) -> bytes:
            if asked.method == "initialize":
                return data.replace(b'"tasks":{', b'"tasks":{"list":{},')
            if asked.method == "tools/call":
                known.extend(re.findall(rb'"task":(\{[^{}]*\})', data))
            return data

        def before(asked: Asked) -> tuple[int, Headers, bytes] | None:
            if asked.method != "tasks/list":
                return None
            tasks = [json.loads(each) for each in known[-newest:]]
            answer = {"jsonrpc": "2.0", "id": asked.message["id"], "result": {"tasks": tasks}}
            return 200, JSON, json.dumps(answer).encode()

        web.body, web.before = body, before

    served_mutant(id)(named(name, hook))


UNIDENTIFIED = "tasks.security.no-list-unidentified"
listing_all(UNIDENTIFIED, "lists_all_tasks_to_anybody", 1000)
listing_all(UNIDENTIFIED, "lists_the_newest_tasks_to_anybody", 60)

few("the tool failed, or it did not", "tasks.errors.tool-error-is-failed")
few("an id is taken from the request, or it is not", "tasks.id.receiver-generated")
few("the status is shown by one method, or announced", "tasks.input.leaves-status")
few("an answer is a stream, or it is not", "tasks.http.no-sse-for-get")
few(
    "a method looks at the owner of a task, or it does not",
    BOUND,
    REJECTED,
    "tasks.security.list-own-only",
    UNIDENTIFIED,
)

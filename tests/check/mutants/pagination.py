"""Servers that give out cursors, and do not know them again."""

from collections.abc import Callable
from typing import Any

from check.faults import named
from check.mutants.foundation import (
    Between,
    Message,
    Sent,
    interloper,
    mutant,
    params_of,
)
from check.mutants.spoiling import LATER, refusal, wrong

MADE_UP = "accord-check-no-such-cursor"


@mutant("pagination.next-cursor.optional")
def says_that_there_is_no_more(message: Message, request: Message) -> Message:
    if request.get("method") == "prompts/list" and "result" in message:
        message["result"].setdefault("nextCursor", None)
    return message


def forgetting(id: str, method: str) -> None:
    """Register a server that does not know its own cursors."""

    def does_not_know_its_own_cursors(message: Message, request: Message) -> Message:
        if request.get("method") == method and "cursor" in params_of(request):
            message.pop("result", None)
            message["error"] = {"code": -32602, "message": "unknown cursor"}
        return message

    mutant(id)(does_not_know_its_own_cursors)


forgetting("pagination.operation.tools-list", "tools/list")
forgetting("pagination.operation.resources-list", "resources/list")
forgetting("pagination.operation.prompts-list", "prompts/list")


@mutant("pagination.operation.prompts-list")
def lists_the_same_page_for_ever(message: Message, request: Message) -> Message:
    if request.get("method") == "prompts/list" and "result" in message:
        message["result"]["nextCursor"] = "again"
    return message


@interloper("pagination.cursor.stable")
def takes_a_cursor_once(wire: Between) -> None:
    used: list[str] = []

    def from_server(message: Message, request: Message) -> Sent:
        cursor = params_of(request).get("cursor")
        if request.get("method") == "prompts/list" and cursor is not None and "result" in message:
            used.append(cursor)
            message["result"]["prompts"] = message["result"]["prompts"][: len(used) % 2]
        return message

    wire.from_server = from_server


@mutant("pagination.bad-cursor-32602")
def begins_anew_at_an_unknown_cursor(message: Message, request: Message) -> Message:
    if params_of(request).get("cursor") == MADE_UP and request["method"] == "prompts/list":
        del message["error"]
        message["result"] = {"prompts": []}
    return message


refusal("pagination.bad-cursor-32602", "tools/list", -32602)

# -- the same rows, broken in other ways

LISTS = {
    "tools": ("tools/list", "tools"),
    "resources": ("resources/list", "resources"),
    "resources-templates": ("resources/templates/list", "resourceTemplates"),
    "prompts": ("prompts/list", "prompts"),
}
NEXT = "pagination.next-cursor.optional"
wrong(NEXT, "tools/list", "nextCursor", 3, {"where": lambda result: "nextCursor" not in result})
wrong(NEXT, "resources/list", "nextCursor", {"page": 2}, LATER)
wrong(NEXT, "resources/templates/list", "nextCursor", False, LATER)


def ignoring(id: str, method: str) -> None:
    """Register a server that answers its own cursors with its first page."""

    def answers_every_cursor_with_the_first_page(wire: Between) -> None:
        firsts: dict[str, Any] = {}

        def from_server(message: Message, request: Message) -> Sent:
            cursor = params_of(request).get("cursor")
            if request.get("method") == method and "result" in message:
                if cursor is None:
                    firsts.update(message["result"])
                elif cursor != MADE_UP:
                    message["result"] = {k: v for k, v in firsts.items() if k != "nextCursor"}
            return message

        wire.from_server = from_server

    interloper(id)(answers_every_cursor_with_the_first_page)


def repeating(id: str, method: str, member: str) -> None:
    """Register a server whose pages never end, each with another cursor."""

    def gives_out_cursors_without_end(wire: Between) -> None:
        def from_client(message: Message) -> Sent:
            if str(params_of(message).get("cursor")).startswith("more-"):
                return message | {"params": {}}
            return message

        def from_server(message: Message, request: Message) -> Sent:
            if request.get("method") == method and "result" in message:
                number = str(params_of(request).get("cursor", "more-0")).rpartition("-")[2]
                message["result"]["nextCursor"] = f"more-{int(number) + 1}"
                message["result"][member] = message["result"][member][:1]
            return message

        wire.from_client = from_client
        wire.from_server = from_server

    interloper(id, is_thorough=True)(gives_out_cursors_without_end)


for _name, (_method, _member) in LISTS.items():
    _id = f"pagination.operation.{_name}-list"
    ignoring(_id, _method)
    repeating(_id, _method, _member)
forgetting("pagination.operation.resources-templates-list", "resources/templates/list")


def spending(name: str, change_: Callable[[Message], None]) -> None:
    """Register a server that answers a cursor otherwise when it is used again."""

    def hook(wire: Between) -> None:
        used: list[str] = []

        def from_server(message: Message, request: Message) -> Sent:
            cursor = params_of(request).get("cursor")
            if request.get("method") == "prompts/list" and cursor and "result" in message:
                if cursor in used:
                    change_(message)
                used.append(cursor)
            return message

        wire.from_server = from_server

    interloper("pagination.cursor.stable")(named(name, hook))


def _forget(message: Message) -> None:
    del message["result"]
    message["error"] = {"code": -32602, "message": "the cursor was used before"}


spending("forgets_a_cursor_once_it_was_used", _forget)
spending("answers_a_used_cursor_with_nothing", lambda message: message["result"].update(prompts=[]))


@mutant("pagination.bad-cursor-32602")
def calls_a_bad_cursor_a_missing_resource(message: Message, request: Message) -> Message:
    if params_of(request).get("cursor") == MADE_UP and request["method"] == "resources/list":
        message["error"]["code"] = -32002
    return message

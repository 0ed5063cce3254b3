"""Servers that give out cursors, and do not know them again."""

from check.mutants.foundation import (
    Between,
    Message,
    Sent,
    interloper,
    mutant,
    params_of,
    unbreakable,
)
from check.mutants.spoiling import refusal

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
unbreakable(
    "the correct server has one template; the other lists stand for this one",
    "pagination.operation.resources-templates-list",
)

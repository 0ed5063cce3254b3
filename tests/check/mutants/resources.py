"""Servers whose resources are listed wrongly, read wrongly or change in silence."""

from collections.abc import Callable
from typing import Any

from check.faults import faults, named
from check.mutants.foundation import (
    Between,
    Message,
    Sent,
    interloper,
    mutant,
    params_of,
    saying,
)
from check.mutants.spoiling import (
    ABSENT,
    FIRST,
    LATER,
    NULL,
    SECOND,
    Circumstances,
    answer,
    entry,
    misdeclared,
    notice,
    put,
    undeclared,
    wrong,
)

LIST, READ, TEMPLATES = "resources/list", "resources/read", "resources/templates/list"
UPDATED = "notifications/resources/updated"

undeclared(
    "resources.capability.declared",
    "resources",
    also={
        "tools.embedded-resource.capability": "its tools embed resources",
        "resources.list-changed.capability-required": "it tells of them all the same",
    },
)
misdeclared(
    "resources.capability.subscribe",
    "resources",
    "subscribe",
    also={"resources.subscribe.capability-required": "an invalid flag declares nothing"},
    areas=["resources"],
)
misdeclared(
    "resources.capability.list-changed",
    "resources",
    "listChanged",
    also={"resources.list-changed.capability-required": "an invalid flag declares nothing"},
)
undeclared("resources.list-changed.capability-required", "resources", "listChanged")


@answer("resources.list.array", LIST)
def lists_resources_by_name(result: dict[str, Any]) -> None:
    result["resources"] = {each["name"]: each for each in result["resources"]}


wrong("resources.item.uri", LIST, "resources.0.uri", ABSENT)
wrong("resources.item.name", LIST, "resources.0.name", ABSENT)
wrong("resources.item.description-and-mime", LIST, "resources.0.mimeType", ["text", "plain"])
wrong("resources.item.size", LIST, "resources.0.size", "small")
wrong("resources.item.title", LIST, "resources.0.title", 7)
wrong("resources.uri.custom-scheme", LIST, "resources.0.uri", "my_desk://rules")
wrong("resources.templates.array", TEMPLATES, "resourceTemplates", ABSENT)
wrong(
    "resources.template.uri-template",
    TEMPLATES,
    "resourceTemplates.0.uriTemplate",
    "city://{country",
)
wrong("resources.template.name", TEMPLATES, "resourceTemplates.0.name", ABSENT)
wrong("resources.template.description-and-mime", TEMPLATES, "resourceTemplates.0.description", 7)


# -- contents


@answer("resources.read.contents-array", READ)
def reads_one_piece_of_contents(result: dict[str, Any]) -> None:
    result["contents"] = result["contents"][0]


wrong("resources.contents.uri", READ, "contents.0.uri", ABSENT)
wrong("resources.contents.text-or-blob", READ, "contents.0.text", ABSENT)
wrong("resources.contents.mime-type", READ, "contents.0.mimeType", ["text", "plain"])


@entry("resources.binary.encoded", READ, "contents")
def reads_a_blob_that_is_no_base64(contents: dict[str, Any]) -> None:
    if "blob" in contents:
        contents["blob"] = "no base64!"


@mutant("resources.uri.validated")
def reads_what_is_no_uri(message: Message, request: Message) -> Message:
    if request.get("method") == READ and " " in str(params_of(request).get("uri")):
        message.pop("error")
        message["result"] = {"contents": [{"uri": "memo://any", "text": "anything"}]}
    return message


# -- updates


@interloper("resources.updated.sent")
def does_not_tell_of_changes(wire: Between) -> None:
    # The clock of the check may be slow: only what surely changes is a change.
    readings = wire.shared.setdefault("readings", [])

    def from_server(message: Message, request: Message) -> Sent:
        if message.get("method") == UPDATED:
            return None
        if request.get("method") == READ and params_of(request).get("uri") == "desk://board":
            readings.append(1)
            subscribed = [
                each for each in wire.requests.values() if each["method"] == "resources/subscribe"
            ]
            count = sum(
                params_of(each).get("uri") == "desk://board" and each["method"] == READ
                for each in wire.requests.values()
            )
            if subscribed and "result" in message:
                message["result"]["contents"][0]["text"] = "new" if count > 3 else "old"
        return message

    wire.from_server = from_server


@interloper("resources.updated.sent")
def does_not_tell_of_changes_by_tools(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        if message.get("method") == UPDATED:
            return None
        is_board = params_of(request).get("uri") == "desk://board"
        if request.get("method") == READ and is_board and "result" in message:
            called = sum(each["method"] == "tools/call" for each in wire.requests.values())
            message["result"]["contents"][0]["text"] = f"after {called} calls"
        return message

    wire.from_server = from_server


faults(notice("resources.updated.uri-param", UPDATED), does_not_say_what_changed=put("uri", ABSENT))


@notice("resources.updated.subscribers-only", UPDATED)
def tells_of_what_nobody_watches(params: dict[str, Any]) -> None:
    params["uri"] = "desk://secret"


@mutant("resources.subscribe.capability-required")
def tells_of_changes_without_declaring_it(message: Message, request: Message) -> Sent:
    if request.get("method") == "initialize" and "result" in message:
        del message["result"]["capabilities"]["resources"]["subscribe"]
    if request.get("method") == LIST:
        update = {"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": "desk://board"}}
        return [update, message]
    return message


@mutant("resources.subscribe.capability-required")
def accepts_subscriptions_without_declaring_it(message: Message, request: Message) -> Sent:
    if request.get("method") == "initialize" and "result" in message:
        del message["result"]["capabilities"]["resources"]["subscribe"]
    return None if message.get("method") == UPDATED else message


# -- the same rows, broken in other ways

FLAG = "resources.list-changed.capability-required"
SUBSCRIBE_FLAG = "resources.subscribe.capability-required"
INVALID = "an invalid flag declares nothing"
UNDECLARED = {
    "tools.embedded-resource.capability": "its tools embed resources",
    "resources.list-changed.capability-required": "it tells of them all the same",
}
PIXEL: Circumstances = {"asked": {"uri": "desk://pixel.png"}}
BOARD: Circumstances = {"asked": {"uri": "desk://board"}}
OWN: Circumstances = {"of": "params"}


wrong(
    "resources.capability.declared",
    "initialize",
    "capabilities.resources",
    None,
    also={**NULL, **UNDECLARED},
)


@answer("resources.capability.declared", "initialize", also=UNDECLARED)
def declares_its_resources_beside_the_capabilities(result: dict[str, Any]) -> None:
    result["resources"] = result["capabilities"].pop("resources")


wrong(
    "resources.capability.subscribe",
    "initialize",
    "capabilities.resources.subscribe",
    1,
    also={SUBSCRIBE_FLAG: INVALID},
    areas=["resources"],
)
wrong(
    "resources.capability.subscribe",
    "initialize",
    "capabilities.resources.subscribe",
    ["desk://board"],
    also={SUBSCRIBE_FLAG: INVALID},
    areas=["resources"],
)
wrong(
    "resources.capability.list-changed",
    "initialize",
    "capabilities.resources.listChanged",
    1,
    also={FLAG: INVALID},
)
wrong(
    "resources.capability.list-changed",
    "initialize",
    "capabilities.resources.listChanged",
    {"enabled": True},
)
wrong(FLAG, "initialize", "capabilities.resources.listChanged", False)
wrong(FLAG, "initialize", "capabilities.resources", {"list_changed": True, "subscribe": True})
wrong("resources.list.array", LIST, "resources", None, LATER)
wrong("resources.list.array", LIST, "resources", ABSENT, SECOND)
wrong("resources.list.array", LIST, "resources.1", "desk://pixel.png")
wrong("resources.item.uri", LIST, "resources.1.uri", None)
wrong("resources.item.uri", LIST, "resources.0.uri", "hours.txt", LATER)
wrong("resources.item.uri", LIST, "resources.0.uri", "file:///my notes.txt", FIRST)
wrong("resources.item.name", LIST, "resources.1.name", None)
wrong("resources.item.name", LIST, "resources.-1.name", 7, LATER)
wrong("resources.item.description-and-mime", LIST, "resources.1.description", {"en": "Pixel"})
wrong("resources.item.description-and-mime", LIST, "resources.0.mimeType", None, LATER)
wrong("resources.item.size", LIST, "resources.1.size", 1.5)
wrong("resources.item.size", LIST, "resources.0.size", None, LATER)
wrong("resources.item.title", LIST, "resources.1.title", None)
wrong("resources.item.title", LIST, "resources.0.title", ["Hours"], LATER)
wrong("resources.templates.array", TEMPLATES, "resourceTemplates", None, LATER)
wrong("resources.templates.array", TEMPLATES, "resourceTemplates", {"city": "city://{city}"})
wrong("resources.templates.array", TEMPLATES, "resourceTemplates.1", "gate://{gate}")
wrong("resources.template.uri-template", TEMPLATES, "resourceTemplates.1.uriTemplate", ABSENT)
wrong("resources.template.uri-template", TEMPLATES, "resourceTemplates.0.uriTemplate", None, LATER)
wrong(
    "resources.template.uri-template", TEMPLATES, "resourceTemplates.0.uriTemplate", "city://{a b}"
)
wrong("resources.template.name", TEMPLATES, "resourceTemplates.1.name", None)
wrong("resources.template.name", TEMPLATES, "resourceTemplates.0.name", 7, LATER)
wrong(
    "resources.template.description-and-mime", TEMPLATES, "resourceTemplates.1.mimeType", ["text"]
)
wrong(
    "resources.template.description-and-mime",
    TEMPLATES,
    "resourceTemplates.0.description",
    None,
    LATER,
)
wrong("resources.read.contents-array", READ, "contents", ABSENT)
wrong("resources.read.contents-array", READ, "contents", None, PIXEL)
wrong("resources.read.contents-array", READ, "contents.0", "always", SECOND)
wrong("resources.contents.uri", READ, "contents.0.uri", None, PIXEL)
wrong("resources.contents.uri", READ, "contents.0.uri", "rules", SECOND)
wrong("resources.contents.text-or-blob", READ, "contents.0.text", None, SECOND)
wrong("resources.contents.text-or-blob", READ, "contents.0.blob", [137, 80], PIXEL)
wrong("resources.contents.text-or-blob", READ, "contents.0.text", {"departed": 1}, BOARD)
wrong("resources.contents.mime-type", READ, "contents.0.mimeType", None, PIXEL)
wrong("resources.contents.mime-type", READ, "contents.0.mimeType", {"type": "text"}, SECOND)
wrong("resources.binary.encoded", READ, "contents.0.blob", "iVBORw0KGgo", PIXEL)
wrong("resources.binary.encoded", READ, "contents.0.blob", "_-_-", PIXEL)
BLOB = {"uri": "desk://rules", "mimeType": "image/png", "blob": "89504e470d0a1a0"}
wrong(
    "resources.binary.encoded",
    "tools/call",
    "content.4.resource",
    BLOB,
    {"asked": {"name": "show_pass"}},
    areas=["tools"],
)
wrong("resources.uri.custom-scheme", LIST, "resources.1.uri", "1desk://pixel.png", FIRST)
wrong(
    "resources.uri.custom-scheme",
    READ,
    "contents.0.uri",
    "desk://the rules",
    {"since": 1},
    areas=["resources"],
)
wrong("resources.uri.custom-scheme", LIST, "resources.0.uri", "desk://100%", LATER)
wrong("resources.updated.uri-param", UPDATED, "uri", None, OWN)
wrong("resources.updated.uri-param", UPDATED, "uri", "board", OWN)
wrong("resources.updated.subscribers-only", UPDATED, "uri", "desk://boards", OWN)


@interloper("resources.updated.subscribers-only")
def tells_of_changes_after_the_client_unsubscribed(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        if request.get("method") == "resources/unsubscribe":
            uri = params_of(request).get("uri")
            update = {"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": uri}}
            wire.later(0.01, lambda: wire.to_client(update))
        return message

    wire.from_server = from_server


@interloper("resources.updated.subscribers-only")
def tells_all_clients_of_changes(wire: Between) -> None:
    wires = wire.shared.setdefault("wires", [])
    wires.append(wire)

    def from_server(message: Message, request: Message) -> Sent:
        if message.get("method") == UPDATED:
            for each in wires:
                if each is not wire and each.connection.ended is None:
                    each.to_client(message)
        return message

    wire.from_server = from_server


def announcing(method: str) -> None:
    """Register a server that tells of changes by another name."""

    def tells_of_changes_by_another_name(wire: Between) -> None:
        does_not_tell_of_changes(wire)
        usual = wire.from_server

        def from_server(message: Message, request: Message) -> Sent:
            if message.get("method") == UPDATED:
                return message | {"method": method}
            return usual(message, request)

        wire.from_server = from_server

    tells_of_changes_by_another_name.__name__ = f"tells_of_changes_by_{method}"
    interloper("resources.updated.sent")(tells_of_changes_by_another_name)


announcing("resources/updated")
announcing("notifications/resources/update")


def declaring(name: str, after: str, value: Any) -> None:
    """Register a server that tells of changes although it declared no subscriptions."""

    def hook(wire: Between) -> None:
        update = {"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": "desk://board"}}
        saying(update, after=after)(wire)

        def from_server(message: Message, request: Message) -> Sent:
            if request.get("method") == "initialize" and "result" in message:
                message["result"]["capabilities"]["resources"]["subscribe"] = value
            return message

        wire.from_server = from_server

    interloper(SUBSCRIBE_FLAG)(named(name, hook))


declaring("tells_of_changes_at_once", "notifications/initialized", value=False)
declaring("tells_of_changes_while_tools_are_called", "tools/call", value=False)


def reading(name: str, is_meant: Callable[[str], bool]) -> None:
    """Register a server that reads something under an address that is not a URI."""

    def change(message: Message, request: Message) -> Message:
        if request.get("method") == READ and is_meant(str(params_of(request).get("uri"))):
            message.pop("error", None)
            uri = params_of(request)["uri"]
            message["result"] = {"contents": [{"uri": uri, "text": "something"}]}
        return message

    mutant("resources.uri.validated")(named(name, change))


reading("reads_two_colons", lambda uri: uri == "::")
reading("reads_backslashes", lambda uri: "\\" in uri)

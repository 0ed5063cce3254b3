"""Servers whose resources are listed wrongly, read wrongly or change in silence."""

from typing import Any

from check.mutants.foundation import Between, Message, Sent, interloper, mutant, params_of
from check.mutants.spoiling import answer, entry, misdeclared, notice, undeclared

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


@entry("resources.item.uri", LIST, "resources")
def lists_a_resource_without_uri(resource: dict[str, Any]) -> None:
    del resource["uri"]


@entry("resources.item.name", LIST, "resources")
def lists_a_resource_without_name(resource: dict[str, Any]) -> None:
    del resource["name"]


@entry("resources.item.description-and-mime", LIST, "resources")
def lists_a_mime_type_that_is_a_list(resource: dict[str, Any]) -> None:
    resource["mimeType"] = ["text", "plain"]


@entry("resources.item.size", LIST, "resources")
def lists_a_size_in_words(resource: dict[str, Any]) -> None:
    resource["size"] = "small"


@entry("resources.item.title", LIST, "resources")
def lists_a_resource_whose_title_is_a_number(resource: dict[str, Any]) -> None:
    resource["title"] = 7


@entry("resources.uri.custom-scheme", LIST, "resources")
def lists_a_scheme_with_an_underscore(resource: dict[str, Any]) -> None:
    resource["uri"] = "my_desk://rules"


@answer("resources.templates.array", TEMPLATES)
def lists_no_templates_at_all(result: dict[str, Any]) -> None:
    del result["resourceTemplates"]


@entry("resources.template.uri-template", TEMPLATES, "resourceTemplates")
def lists_a_template_that_never_ends(template: dict[str, Any]) -> None:
    template["uriTemplate"] = "city://{country"


@entry("resources.template.name", TEMPLATES, "resourceTemplates")
def lists_a_template_without_name(template: dict[str, Any]) -> None:
    del template["name"]


@entry("resources.template.description-and-mime", TEMPLATES, "resourceTemplates")
def describes_a_template_by_a_number(template: dict[str, Any]) -> None:
    template["description"] = 7


# -- contents


@answer("resources.read.contents-array", READ)
def reads_one_piece_of_contents(result: dict[str, Any]) -> None:
    result["contents"] = result["contents"][0]


@entry("resources.contents.uri", READ, "contents")
def reads_contents_without_uri(contents: dict[str, Any]) -> None:
    del contents["uri"]


@entry("resources.contents.text-or-blob", READ, "contents")
def reads_neither_text_nor_blob(contents: dict[str, Any]) -> None:
    contents.pop("text", None)


@entry("resources.contents.mime-type", READ, "contents")
def reads_a_mime_type_that_is_a_list(contents: dict[str, Any]) -> None:
    contents["mimeType"] = ["text", "plain"]


@entry("resources.binary.encoded", READ, "contents")
def reads_a_blob_that_is_no_base64(contents: dict[str, Any]) -> None:
    if "blob" in contents:
        contents["blob"] = "no base64!"


@mutant("resources.uri.validated")
def reads_what_is_no_uri(message: Message, request: Message) -> Message:
    if request.get("method") == READ and " " in str(params_of(request).get("uri")):
        message.pop("error")
        message["result"] = {"contents": []}
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


@notice("resources.updated.uri-param", UPDATED)
def does_not_say_what_changed(params: dict[str, Any]) -> None:
    params.pop("uri", None)


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

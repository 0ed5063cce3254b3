"""Servers that ask for what their client did not declare."""

from collections.abc import Callable
from typing import Any

from check.faults import named
from check.mutants.foundation import (
    Between,
    Message,
    Sent,
    elsewhere,
    few,
    in_memory,
    params_of,
)
from check.mutants.question_server import server
from check.mutants.tasks import has_mutants

SAMPLE, ELICIT = "sampling/createMessage", "elicitation/create"
RESPECTED = "lifecycle.capabilities.respected"
MODES = "elicitation.mode.supported-only"
TOOLS = "sampling.tools.not-without-capability"
CONTEXT = "sampling.context.needs-capability"


def question_interloper(
    id: str,
    name: str,
    hook: Callable[[Between], None],
    *,
    revision: str = "2025-11-25",
    **more: Any,
) -> None:
    """Register a server that asks, with a hook into both directions."""
    making = in_memory(hook, server)
    elsewhere(id, revision=revision, is_thorough=has_mutants(id, 1), **more)(named(name, making))


def believing(
    id: str, name: str, believe: Callable[[dict[str, Any]], None], **settings: Any
) -> None:
    """Register a server that believes something else than its client declared."""

    def hook(wire: Between) -> None:
        def from_client(message: Message) -> Sent:
            if message.get("method") == "initialize":
                believe(params_of(message)["capabilities"])
            return message

        wire.from_client = from_client

    question_interloper(id, name, hook, **settings)


def needing(name: str, needed: str, believed: str) -> Callable[[dict[str, Any]], None]:
    def believe(declared: dict[str, Any]) -> None:
        if needed == "" or needed in declared:
            declared.setdefault(believed, {})

    return believe


for _revision in ("2024-11-05", "2025-06-18", "2025-11-25"):
    believing(
        RESPECTED,
        f"asks_any_model_{_revision}",
        needing("", "", "sampling"),
        revision=_revision,
    )
believing(RESPECTED, "asks_anybody_for_folders", needing("", "", "roots"))
believing(RESPECTED, "takes_a_model_for_a_user", needing("", "sampling", "elicitation"))
believing(RESPECTED, "takes_a_user_for_a_model", needing("", "elicitation", "sampling"))


def _forms(declared: dict[str, Any]) -> None:
    if declared.get("elicitation"):
        declared["elicitation"] = {"form": {}, "url": declared["elicitation"].get("url", {})}


def _pages(declared: dict[str, Any]) -> None:
    if "elicitation" in declared:
        declared["elicitation"] = {"form": {}, "url": {}, **declared["elicitation"]}


def _pages_with_forms(declared: dict[str, Any]) -> None:
    if "form" in declared.get("elicitation", {}):
        declared["elicitation"] = {"form": {}, "url": {}}


believing(MODES, "asks_by_form_who_opens_pages_alone", _forms)
believing(MODES, "sends_everybody_to_pages", _pages)
believing(MODES, "sends_to_pages_who_has_forms", _pages_with_forms)


def _tools(declared: dict[str, Any]) -> None:
    if "sampling" in declared:
        declared["sampling"] = {"tools": {}}


def _tools_with_context(declared: dict[str, Any]) -> None:
    if "context" in declared.get("sampling", {}):
        declared["sampling"]["tools"] = {}


believing(TOOLS, "offers_tools_to_every_model", _tools)
believing(TOOLS, "offers_tools_to_models_with_context", _tools_with_context)


def asking(
    id: str, name: str, method: str, spoil: Callable[[dict[str, Any]], None], **settings: Any
) -> None:
    """Register a server whose questions are spoiled."""

    def hook(wire: Between) -> None:
        def from_server(message: Message, request: Message) -> Sent:
            if message.get("method") == method:
                spoil(message["params"])
            return message

        wire.from_server = from_server

    question_interloper(id, name, hook, **settings)


asking(
    TOOLS,
    "chooses_tools_of_every_model",
    SAMPLE,
    lambda params: params.update(toolChoice={"mode": "auto"}),
)
for _name, _context in (("asks_for_its_context", "thisServer"), ("asks_for_all", "allServers")):
    asking(
        CONTEXT,
        _name,
        SAMPLE,
        lambda params, context=_context: params.update(includeContext=context),
        also={"sampling.context.avoid": "also where it may"},
    )


NONE, SOME = "tasks.capability.none-no-tasks", "tasks.capability.requestor-respects"
MORE = {SOME: "nor if it keeps other tasks"}
asking(NONE, "asks_every_user_by_tasks", ELICIT, lambda p: p.update(task={}), also=MORE)
asking(NONE, "asks_every_model_by_tasks", SAMPLE, lambda p: p.update(task={"ttl": 9}), also=MORE)


def with_other_tasks(kind: str, method: str) -> Callable[[Between], None]:
    """Return a hook that asks for tasks where the client keeps those of another kind."""

    def hook(wire: Between) -> None:
        declared: dict[str, Any] = {}

        def from_client(message: Message) -> Sent:
            if message.get("method") == "initialize":
                declared.update(params_of(message)["capabilities"].get("tasks", {}))
            return message

        def from_server(message: Message, request: Message) -> Sent:
            if message.get("method") == method and [*declared.get("requests", {})] == [kind]:
                message["params"]["task"] = {}
            return message

        wire.from_client, wire.from_server = from_client, from_server

    return hook


question_interloper(SOME, "asks_users_by_tasks_for_models", with_other_tasks("sampling", ELICIT))
question_interloper(SOME, "asks_models_by_tasks_for_users", with_other_tasks("elicitation", SAMPLE))
few("a request has a task, or it has none", NONE, SOME)
few("there are two values", CONTEXT)


# -- tasks that the client keeps


def polling(name: str, seconds: float) -> None:
    """Register a server that looks at tasks before it fetches their results."""

    def hook(wire: Between) -> None:
        held: dict[str, Message] = {}

        def look(id: str, count: int) -> None:
            number = f"look-{id}-{count}"
            params = {"taskId": id}
            if count == 3:
                wire.to_client(held.pop(id))
            else:
                asked = {"jsonrpc": "2.0", "id": number, "method": "tasks/get", "params": params}
                wire.to_client(asked)
                wire.later(seconds, lambda: look(id, count + 1))

        def from_server(message: Message, request: Message) -> Sent:
            if message.get("method") == "tasks/result":
                id = params_of(message)["taskId"]
                held[id] = message
                look(id, 0)
                return None
            return message

        def from_client(message: Message) -> Sent:
            return None if str(message.get("id")).startswith("look-") else message

        wire.from_server, wire.from_client = from_server, from_client

    question_interloper("tasks.poll-interval-respected", name, hook)


polling("looks_all_the_time", 0.001)
polling("looks_every_hundredth_second", 0.01)
polling("looks_three_times_as_often", 0.03)

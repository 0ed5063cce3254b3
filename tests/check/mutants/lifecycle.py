"""Servers that open conversations wrongly, and answer pings wrongly: areas lifecycle and ping."""

from collections.abc import Callable
from itertools import count
from typing import Any

from check.faults import named
from check.mutants.foundation import (
    Between,
    Message,
    Sent,
    few,
    interloper,
    mutant,
    params_of,
    saying,
)
from check.mutants.spoiling import ABSENT, wrong

UNKNOWN = "1999-12-31"
ROOTS = {"jsonrpc": "2.0", "id": "own", "method": "roots/list"}
PING = {"jsonrpc": "2.0", "id": "own", "method": "ping"}


def opening(message: Message, request: Message) -> dict[str, Any] | None:
    return message.get("result") if request.get("method") == "initialize" else None


def asked_for(request: Message) -> Any:
    return params_of(request).get("protocolVersion")


@mutant("lifecycle.initialize-result.protocol-version")
def names_no_revision(message: Message, request: Message) -> Message:
    if (result := opening(message, request)) and asked_for(request) != UNKNOWN:
        del result["protocolVersion"]
    return message


@mutant("lifecycle.initialize-result.server-capabilities")
def declares_nothing_at_all(message: Message, request: Message) -> Message:
    # Only where nothing is asked for afterwards: else it offers what it did not declare, too.
    if (result := opening(message, request)) and asked_for(request) == UNKNOWN:
        del result["capabilities"]
    return message


@mutant("lifecycle.initialize-result.server-info")
def does_not_introduce_itself(message: Message, request: Message) -> Message:
    if result := opening(message, request):
        del result["serverInfo"]
    return message


@mutant("lifecycle.implementation.name-and-version")
def has_no_version(message: Message, request: Message) -> Message:
    if result := opening(message, request):
        del result["serverInfo"]["version"]
    return message


@interloper("lifecycle.initialized.server-waits")
def cannot_wait(wire: Between) -> None:
    saying(ROOTS, after="initialize")(wire)
    usual = wire.from_client
    wire.from_client = lambda message: (
        usual(message) if "roots" in params_of(message).get("capabilities", "roots") else message
    )


@interloper("lifecycle.version.server-echoes")
def insists_on_another_revision(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        # It speaks 2025-06-18, as it shows when it is asked for what it does not know.
        changed = {"2025-06-18": "2025-03-26", "2025-11-25": "2025-06-18", UNKNOWN: "2025-06-18"}
        if message.get("method") == "initialize" and asked_for(message) in changed:
            message["params"]["protocolVersion"] = changed[asked_for(message)]
        return message

    wire.from_client = from_client


@mutant("lifecycle.version.server-offers-other")
def agrees_to_any_revision(message: Message, request: Message) -> Message:
    if (result := opening(message, request)) and asked_for(request) == UNKNOWN:
        result["protocolVersion"] = UNKNOWN
    return message


@mutant("lifecycle.version.server-offers-latest")
def offers_what_is_oldest(message: Message, request: Message) -> Message:
    if (result := opening(message, request)) and asked_for(request) == UNKNOWN:
        result["protocolVersion"] = "2024-11-05"
    return message


@mutant("lifecycle.version.identifier")
def numbers_revisions(message: Message, request: Message) -> Message:
    if (result := opening(message, request)) and asked_for(request) == UNKNOWN:
        result["protocolVersion"] = "v2"
    return message


@mutant("lifecycle.capabilities.declared")
def declares_with_a_boolean(message: Message, request: Message) -> Message:
    if result := opening(message, request):
        result["capabilities"]["logging"] = True
    return message


@interloper("lifecycle.capabilities.respected")
def asks_for_what_the_client_did_not_declare(wire: Between) -> None:
    saying(ROOTS)(wire)
    usual = wire.from_client

    def from_client(message: Message) -> Sent:
        if message.get("method") == "initialize":
            declared = params_of(message).get("capabilities")
            wire.shared[id(wire)] = declared == {}
        is_opened = message.get("method") == "notifications/initialized"
        if is_opened and not wire.shared.get(id(wire)):
            return message
        return usual(message)

    wire.from_client = from_client


@interloper("lifecycle.capabilities.only-declared", revision="2025-03-26")
def elicits_before_there_was_elicitation(wire: Between) -> None:
    params = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    saying({"jsonrpc": "2.0", "id": "own", "method": "elicitation/create", "params": params})(wire)


@interloper("lifecycle.shutdown.no-message")
def says_farewell(wire: Between) -> None:
    saying({"jsonrpc": "2.0", "method": "notifications/shutdown"})(wire)


@interloper("lifecycle.errors.handled", of="from_client")
def accepts_any_opening(message: Message) -> Sent:
    if message.get("method") == "initialize" and not isinstance(asked_for(message), str):
        message["params"] = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "somebody", "version": "1"},
        }
    return message


# -- ping


@mutant("ping.response.empty")
def says_pong(message: Message, request: Message) -> Message:
    if request.get("method") == "ping":
        message["result"] = {"pong": True}
    return message


@mutant("ping.response.prompt")
def hears_no_ping(message: Message, request: Message) -> Sent:
    return None if request.get("method") == "ping" and "result" in message else message


@interloper("ping.request.either-party")
def pings_with_parameters(wire: Between) -> None:
    saying(PING | {"params": {"payload": "x"}})(wire)


@interloper("ping.periodic")
def pings_without_end(wire: Between) -> None:
    saying(*(PING | {"id": f"own-{number}"} for number in range(30)))(wire)


# -- the same rows, broken in other ways

INIT = "initialize"
DIFFERENT = {"lifecycle.version.server-offers-other": "null is no other revision"}


def opens(id: str, name: str, change: Callable[[dict[str, Any]], None], **settings: Any) -> None:
    """Register a server that spoils its answer to an initialize of an unknown revision."""

    def changed(message: Message, request: Message) -> Message:
        if (result := opening(message, request)) and asked_for(request) == UNKNOWN:
            change(result)
        return message

    mutant(id, **settings)(named(name, changed))


VERSION = "lifecycle.initialize-result.protocol-version"
opens(
    VERSION,
    "names_null_as_revision",
    lambda result: result.update(protocolVersion=None),
    also=DIFFERENT,
)
opens(
    VERSION,
    "names_a_number_as_revision",
    lambda result: result.update(protocolVersion=20250618),
    also=DIFFERENT,
)
opens(
    "lifecycle.initialize-result.server-capabilities",
    "declares_null",
    lambda result: result.update(capabilities=None),
)
opens(
    "lifecycle.initialize-result.server-capabilities",
    "declares_a_list",
    lambda result: result.update(capabilities=["tools"]),
)
wrong("lifecycle.initialize-result.server-info", INIT, "serverInfo", None)
wrong("lifecycle.initialize-result.server-info", INIT, "serverInfo", "everything 1.0")
wrong("lifecycle.implementation.name-and-version", INIT, "serverInfo.version", 1.0)
wrong("lifecycle.implementation.name-and-version", INIT, "serverInfo.name", None)
wrong("lifecycle.implementation.name-and-version", INIT, "serverInfo.name", ABSENT)
opens(
    "lifecycle.version.identifier",
    "writes_dates_without_zeros",
    lambda result: result.update(protocolVersion="2025-6-18"),
)
opens(
    "lifecycle.version.identifier",
    "writes_a_time",
    lambda result: result.update(protocolVersion="2025-06-18T00:00:00Z"),
)
opens(
    "lifecycle.version.server-offers-latest",
    "offers_the_last_but_one",
    lambda result: result.update(protocolVersion="2025-06-18"),
)
opens(
    "lifecycle.version.server-offers-latest",
    "offers_the_second",
    lambda result: result.update(protocolVersion="2025-03-26"),
)
wrong(
    "lifecycle.capabilities.declared",
    INIT,
    "capabilities.completions",
    [],
    also={"completion.capability.declared": "a list declares nothing"},
    areas=["completion"],
)
wrong("lifecycle.capabilities.declared", INIT, "capabilities.experimental", {"org.example/x": True})
wrong(
    "lifecycle.capabilities.declared",
    INIT,
    "capabilities.logging",
    "debug",
    also={"logging.capability.declared": "text declares nothing"},
)


def offering(name: str, answer_: dict[str, Any]) -> None:
    """Register a server that refuses an unknown revision."""

    def change(message: Message, request: Message) -> Message:
        if asked_for(request) == UNKNOWN and request.get("method") == INIT:
            return {"jsonrpc": "2.0", "id": message["id"], **answer_}
        return message

    mutant("lifecycle.version.server-offers-other")(named(name, change))


offering("refuses_unknown_revisions", {"error": {"code": -32600, "message": "unsupported"}})
offering(
    "fails_at_unknown_revisions", {"error": {"code": -32603, "message": "KeyError: '1999-12-31'"}}
)


def early(name: str, message: Message, seconds: float = 0.0) -> None:
    """Register a server that asks something before the opening is over."""

    def hook(wire: Between) -> None:
        def from_client(sent: Message) -> Sent:
            if sent.get("method") == INIT and "sampling" in params_of(sent)["capabilities"]:
                wire.later(seconds, lambda: wire.to_client(message))
            return None if sent.get("id") == message["id"] else sent

        wire.from_client = from_client

    interloper("lifecycle.initialized.server-waits")(named(name, hook))


SAMPLE = {
    "jsonrpc": "2.0",
    "id": "own",
    "method": "sampling/createMessage",
    "params": {"messages": [], "maxTokens": 1},
}
ELICIT = {
    "jsonrpc": "2.0",
    "id": "own",
    "method": "elicitation/create",
    "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
}
early("samples_at_once", SAMPLE)


@interloper("lifecycle.initialized.server-waits")
def asks_a_while_after_the_answer(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        if message.get("method") == "notifications/initialized":
            wire.shared[id(wire)] = True
        return None if message.get("id") == "own" else message

    def from_server(message: Message, request: Message) -> Sent:
        def ask() -> None:
            if id(wire) not in wire.shared:
                wire.to_client(ROOTS)

        if request.get("method") == INIT and "roots" in params_of(request)["capabilities"]:
            wire.later(0.02, ask)
        return message

    wire.from_client, wire.from_server = from_client, from_server


def undeclared_question(name: str, question: Message) -> None:
    """Register a server that asks a client that declared nothing, while a tool is called."""

    def hook(wire: Between) -> None:
        def from_client(message: Message) -> Sent:
            if message.get("method") == INIT:
                wire.shared[id(wire)] = params_of(message).get("capabilities") == {}
            if message.get("method") == "tools/call" and wire.shared.get(id(wire)):
                number = next(NUMBERS)
                wire.later(0, lambda: wire.to_client(question | {"id": f"own-{number}"}))
            return None if str(message.get("id")).startswith("own-") else message

        wire.from_client = from_client

    interloper("lifecycle.capabilities.respected")(named(name, hook))


NUMBERS = count()
undeclared_question("samples_without_being_allowed_to", SAMPLE)
undeclared_question("asks_users_without_being_allowed_to", ELICIT)


def unknowing(name: str, method: str) -> None:
    """Register a server that does not know a method of a capability that it declared."""

    def change(message: Message, request: Message) -> Sent:
        is_update = message.get("method") == "notifications/resources/updated"
        if is_update and method == "resources/subscribe":
            return None
        if request.get("method") == method:
            message.pop("result", None)
            message["error"] = {"code": -32601, "message": "method not found"}
        return message

    mutant("lifecycle.capabilities.respected")(named(name, change))


unknowing("cannot_list_its_prompts", "prompts/list")
unknowing("cannot_read_its_resources", "resources/read")
unknowing("cannot_watch_its_resources", "resources/subscribe")
unknowing("cannot_complete_what_it_declares", "completion/complete")
unknowing("cannot_set_its_log_level", "logging/setLevel")

ONLY = "lifecycle.capabilities.only-declared"


def speaks(
    id_: str, name: str, message: Message, after: str = "tools/list", **settings: Any
) -> None:
    """Register a server that says something of its own."""

    def hook(wire: Between) -> None:
        saying(message, after=after)(wire)

    interloper(id_, **settings)(named(name, hook))


speaks(ONLY, "calls_tools_of_the_client", {"jsonrpc": "2.0", "id": "own", "method": "tools/list"})
speaks(
    ONLY, "says_that_it_is_initialized", {"jsonrpc": "2.0", "method": "notifications/initialized"}
)
speaks(
    ONLY,
    "announces_roots",
    {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
    after="tools/call",
)
speaks(
    "lifecycle.shutdown.no-message",
    "asks_to_shut_down",
    {"jsonrpc": "2.0", "id": "own", "method": "shutdown"},
)
speaks(
    "lifecycle.shutdown.no-message",
    "says_exit",
    {"jsonrpc": "2.0", "method": "exit"},
    after="tools/call",
)


@interloper("lifecycle.errors.handled")
def falls_over_a_malformed_opening(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        if message.get("method") == INIT and not isinstance(asked_for(message), str):
            wire.crash()
            return None
        return message

    wire.from_client = from_client


@mutant("lifecycle.errors.handled")
def opens_without_the_name_of_the_client(message: Message, request: Message) -> Sent:
    if request.get("method") == INIT and "clientInfo" not in params_of(request):
        result = {
            "protocolVersion": "2024-11-05",
            "capabilities": {},
            "serverInfo": {"name": "everything", "version": "1"},
        }
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}
    return message


@interloper(
    "lifecycle.version.server-echoes",
    revision="2025-03-26",
    also={"completion.capability.declared": "the revision before has no such capability"},
    of="from_client",
)
def answers_with_the_revision_before(message: Message) -> Sent:
    changed = {"2025-03-26": "2024-11-05", "2025-06-18": "2025-03-26"}
    if message.get("method") == INIT and asked_for(message) in changed:
        message["params"]["protocolVersion"] = changed[asked_for(message)]
    return message


# -- ping, broken in other ways


def pongs(id_: str, name: str, **reply: Any) -> None:
    """Register a server with another answer to pings."""

    def change(message: Message, request: Message) -> Message:
        if request.get("method") == "ping" and "result" in message:
            return {"jsonrpc": "2.0", "id": message["id"], **reply}
        return message

    mutant(id_)(named(name, change))


pongs("ping.response.empty", "answers_pings_with_null", result=None)
pongs("ping.response.empty", "answers_pings_with_text", result="pong")
pongs("ping.response.empty", "answers_pings_with_a_time", result={"timestamp": 1})


@interloper("ping.response.prompt")
def answers_no_ping_before_the_opening(wire: Between) -> None:
    is_open: list[bool] = []

    def from_client(message: Message) -> Sent:
        if message.get("method") == INIT:
            is_open.append(True)
        return message if is_open or message.get("method") != "ping" else None

    wire.from_client = from_client


@interloper("ping.response.prompt")
def answers_a_ping_once(wire: Between) -> None:
    pings: list[int] = []

    def from_client(message: Message) -> Sent:
        if message.get("method") == "ping" and message.get("jsonrpc") == "2.0":
            pings.append(1)
            return (
                message
                if len(pings) == 1 and wire.shared.setdefault("line", wire) is wire
                else None
            )
        return message

    wire.from_client = from_client


speaks(
    "ping.request.either-party",
    "pings_with_a_time",
    PING | {"params": {"timestamp": 7}},
    after="tools/call",
)
speaks(
    "ping.request.either-party",
    "pings_with_the_name_of_a_client",
    PING | {"params": {"_meta": {}, "to": "you"}},
)


@interloper("ping.periodic")
def pings_with_every_answer(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        if request.get("method") == "tools/list":
            return [PING | {"id": f"own-{next(NUMBERS)}"} for _ in range(12)] + [message]
        return message

    wire.from_client = lambda message: (
        None if str(message.get("id")).startswith("own-") else message
    )
    wire.from_server = from_server


@interloper("ping.periodic")
def pings_every_few_milliseconds(wire: Between) -> None:
    def ping() -> None:
        wire.to_client(PING | {"id": f"own-{next(NUMBERS)}"})
        if wire.connection.ended is None and wire.shared.setdefault("pings", []) is not None:
            wire.shared["pings"].append(1)
            if len(wire.shared["pings"]) < 60:
                wire.later(0.002, ping)

    def from_client(message: Message) -> Sent:
        if message.get("method") == "tools/call":
            wire.later(0, ping)
        return None if str(message.get("id")).startswith("own-") else message

    wire.from_client = from_client


few(
    "a server that answers with another revision may not speak the one that it was asked for",
    "lifecycle.version.server-echoes",
)

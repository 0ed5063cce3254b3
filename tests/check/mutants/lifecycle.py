"""Servers that open conversations wrongly, and answer pings wrongly: areas lifecycle and ping."""

from typing import Any

from check.mutants.foundation import Between, Message, Sent, interloper, mutant, params_of, saying

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
        message if params_of(message).get("capabilities") == {} else usual(message)
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


@interloper("lifecycle.errors.handled")
def accepts_any_opening(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        if message.get("method") == "initialize" and not isinstance(asked_for(message), str):
            message["params"] = {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "somebody", "version": "1"},
            }
        return message

    wire.from_client = from_client


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

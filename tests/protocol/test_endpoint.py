"""One party: what it answers, what it ignores, what it refuses to send."""

import re
from itertools import permutations

import msgspec
import pytest

from accord import types as t
from accord.errors import (
    InternalError,
    InvalidParams,
    LocalProtocolError,
    MessageTooLarge,
    RemoteProtocolError,
    RequestError,
    ResourceNotFound,
)
from accord.protocol import codec
from accord.protocol.codec import Limits
from accord.protocol.endpoint import Endpoint
from accord.protocol.exchange import (
    FaultReceived,
    NotificationReceived,
    Refused,
    RequestReceived,
    ResultReceived,
)
from accord.protocol.jsonrpc import REQUEST, MalformedMessage
from accord.protocol.revisions import REVISIONS, Phase
from support.endpoints import (
    ALL_OF_SERVER,
    HANDSHAKE,
    INFO,
    META,
    MODERN,
    NOTHING_OF_CLIENT,
    NOTHING_OF_SERVER,
    STATELESS,
    asked,
    batch,
    error,
    error_of,
    initialize,
    initialized,
    notification,
    only,
    opened,
    plain,
    request,
    result,
)
from support.tables import cases

LATEST = HANDSHAKE[-1]
NEWEST = REVISIONS[STATELESS[-1]]
WITHOUT_BATCHES = [id for id in HANDSHAKE if not REVISIONS[id].batching]
WITH_BATCHES = next(id for id in HANDSHAKE if REVISIONS[id].batching)
EMPTY = t.EmptyResult()
TEXT = t.CallToolResult([t.TextContent("done")])
HELLO = [t.SamplingMessage("user", t.TextContent("hello"))]


def requirements(violations) -> list[str]:
    return [violation.requirement for violation in violations]


def breach(call, *args, **options) -> list[str]:
    with pytest.raises(LocalProtocolError) as caught:
        call(*args, **options)
    assert all(id in str(caught.value) for id in requirements(caught.value.violations))
    return requirements(caught.value.violations)


# The opening


@cases("revision", HANDSHAKE)
def test_the_opening_leads_both_parties_to_the_same_revision(revision):
    client, server = Endpoint("client"), Endpoint("server")
    exchange, data = client.request("initialize", initialize(revision))
    event = only(server.receive(data))
    assert isinstance(event, RequestReceived)
    assert event.params.protocol_version == revision
    assert event.params.client_info == INFO
    assert server.conversation.phase is client.conversation.phase is Phase.NEGOTIATING

    answer = server.respond(event.exchange, initialized(revision))
    event = only(client.receive(answer))
    assert isinstance(event, ResultReceived)
    assert event.exchange is exchange
    assert event.result.protocol_version == revision
    assert server.conversation.phase is client.conversation.phase is Phase.NEGOTIATED

    event = only(server.receive(client.notify("notifications/initialized")))
    assert isinstance(event, NotificationReceived)
    assert server.conversation.phase is client.conversation.phase is Phase.READY
    assert server.revision is client.revision is REVISIONS[revision]


@pytest.mark.requirement("lifecycle.version.server-offers-other")
def test_the_revision_of_the_answer_counts_not_the_one_asked_for():
    client, server = Endpoint("client"), Endpoint("server")
    _, data = client.request("initialize", initialize(LATEST))
    answer = server.respond(only(server.receive(data)).exchange, initialized("2024-11-05"))
    client.receive(answer)
    assert client.revision is server.revision is REVISIONS["2024-11-05"]


@pytest.mark.requirement("lifecycle.initialize.first")
@cases("revision", HANDSHAKE)
def test_a_request_before_initialize_is_refused_by_the_server(revision):
    server = Endpoint("server", revisions=[revision])
    event = only(server.receive(request(1, "tools/list")))
    assert error_of(event) == (1, -32600)
    assert requirements(event.violations) == ["lifecycle.initialize.first"]
    assert "before initialize" in event.why


@pytest.mark.requirement("lifecycle.initialize.first")
def test_a_client_does_not_ask_before_initialize():
    client = Endpoint("client")
    assert breach(client.request, "tools/list") == ["lifecycle.initialize.first"]


@pytest.mark.requirement("lifecycle.initialize.client-waits")
def test_a_request_before_the_answer_to_initialize_is_refused():
    client, server = Endpoint("client"), Endpoint("server")
    _, data = client.request("initialize", initialize(LATEST))
    server.receive(data)
    assert breach(client.request, "tools/list") == ["lifecycle.initialize.client-waits"]
    event = only(server.receive(request(5, "tools/list")))
    assert error_of(event) == (5, -32600)


@pytest.mark.requirement("lifecycle.initialized.sent")
def test_a_request_before_initialized_is_reported_but_served():
    client, server = Endpoint("client"), Endpoint("server")
    _, data = client.request("initialize", initialize(LATEST))
    client.receive(server.respond(only(server.receive(data)).exchange, initialized(LATEST)))
    assert breach(client.request, "tools/list") == ["lifecycle.initialized.sent"]
    event = only(server.receive(request(5, "tools/list")))
    assert isinstance(event, RequestReceived)
    assert requirements(event.violations) == ["lifecycle.initialized.sent"]


def opened_again(server, revision, *, id=0, capabilities=NOTHING_OF_CLIENT):
    """Send a further initialize, answer it, and return the answer."""
    params = msgspec.to_builtins(initialize(revision, capabilities))
    event = only(server.receive(request(id, "initialize", params)))
    assert isinstance(event, RequestReceived), event
    assert event.violations == ()
    return plain(server.respond(event.exchange, initialized(revision)))


@cases("revision", HANDSHAKE)
@cases("other", HANDSHAKE)
def test_a_second_initialize_is_answered_and_what_it_agrees_on_counts(revision, other):
    server = opened(revision).server
    assert opened_again(server, other)["result"]["protocolVersion"] == other
    assert server.revision is REVISIONS[other]
    assert server.conversation.phase is Phase.READY
    assert server.conversation.parties["client"].capabilities == frozenset()
    assert breach(server.request, "roots/list") == ["lifecycle.capabilities.respected"]
    assert isinstance(only(server.receive(notification("initialized"))), NotificationReceived)
    assert isinstance(only(server.receive(request(1, "tools/list"))), RequestReceived)


def test_a_second_initialize_may_declare_more_than_the_first():
    server = opened(LATEST, client=NOTHING_OF_CLIENT).server
    declared = t.ClientCapabilities(roots=t.RootsCapability())
    opened_again(server, LATEST, capabilities=declared)
    assert plain(server.request("roots/list")[1])["method"] == "roots/list"


def test_requests_in_flight_go_on_over_a_second_initialize():
    client, server = opened("2024-11-05")
    ours, theirs = asked(server, client, "roots/list"), asked(client, server, "tools/list")
    opened_again(server, LATEST, id="other")
    assert isinstance(
        only(server.receive(client.respond(ours, t.ListRootsResult([])))), ResultReceived
    )
    answer = server.respond(theirs, t.ListToolsResult([]))
    assert isinstance(only(client.receive(answer)), ResultReceived)


def test_a_refused_second_initialize_changes_nothing():
    server = opened(LATEST).server
    known = server.conversation.parties["client"].capabilities
    params = msgspec.to_builtins(initialize("2024-11-05", NOTHING_OF_CLIENT))
    exchange = only(server.receive(request("again", "initialize", params))).exchange
    server.fail(exchange, InvalidParams("not today"))
    assert server.revision is REVISIONS[LATEST]
    assert server.conversation.parties["client"].capabilities == known
    assert server.conversation.phase is Phase.READY


def test_an_id_in_flight_is_not_taken_by_a_second_initialize():
    server = opened(LATEST).server
    server.receive(request(5, "tools/list"))
    params = msgspec.to_builtins(initialize(LATEST))
    assert error_of(only(server.receive(request(5, "initialize", params)))) == (5, -32600)


def test_two_clients_may_open_at_the_same_time():
    server = Endpoint("server")
    first, second = (
        only(
            server.receive(request(id, "initialize", msgspec.to_builtins(initialize(revision))))
        ).exchange
        for id, revision in ((1, "2024-11-05"), (2, LATEST))
    )
    assert plain(server.respond(first, initialized("2024-11-05")))["id"] == 1
    assert plain(server.respond(second, initialized(LATEST)))["id"] == 2
    assert server.revision is REVISIONS[LATEST]
    server.receive(notification("initialized"))
    server.receive(notification("initialized"))
    assert server.conversation.phase is Phase.READY


def test_a_client_may_open_again_before_it_says_that_it_is_initialized():
    server = Endpoint("server")
    opened_again(server, "2024-11-05", id=1)
    opened_again(server, LATEST, id=2)
    assert server.conversation.phase is Phase.NEGOTIATED
    assert server.revision is REVISIONS[LATEST]


def test_initialized_out_of_turn_is_ignored():
    server = Endpoint("server")
    event = only(server.receive(notification("initialized")))
    assert isinstance(event, Refused)
    assert (event.reply, server.conversation.phase) == (None, Phase.OPENING)
    assert breach(Endpoint("client").notify, "notifications/initialized") == [
        "lifecycle.initialized.sent"
    ]


def test_a_refused_opening_can_be_tried_again():
    client, server = Endpoint("client"), Endpoint("server")
    _, data = client.request("initialize", initialize(LATEST))
    answer = server.fail(only(server.receive(data)).exchange, InvalidParams("not today"))
    assert isinstance(only(client.receive(answer)), FaultReceived)
    _, data = client.request("initialize", initialize("2024-11-05"))
    answer = server.respond(only(server.receive(data)).exchange, initialized("2024-11-05"))
    assert isinstance(only(client.receive(answer)), ResultReceived)


@pytest.mark.requirement("lifecycle.initialize.first")
@cases("role", ["client", "server"])
@cases("steps", range(4), ids=["opening", "negotiating", "negotiated", "ready"])
def test_ping_is_answered_in_every_phase(role, steps):
    pair = opened(LATEST) if steps == 3 else None
    client, server = pair or (Endpoint("client"), Endpoint("server"))
    if 0 < steps < 3:
        _, data = client.request("initialize", initialize(LATEST))
        exchange = only(server.receive(data)).exchange
        if steps == 2:
            client.receive(server.respond(exchange, initialized(LATEST)))
    asker, answerer = (server, client) if role == "client" else (client, server)
    answer = answerer.respond(asked(asker, answerer, "ping"), EMPTY)
    assert isinstance(only(asker.receive(answer)), ResultReceived)


@pytest.mark.requirement("lifecycle.initialized.server-waits")
def test_a_server_asks_nothing_but_ping_before_the_opening_is_over():
    server = Endpoint("server")
    assert breach(server.request, "roots/list") == ["lifecycle.initialized.server-waits"]
    event = only(Endpoint("client").receive(request(1, "roots/list")))
    assert isinstance(event, RequestReceived)
    assert "lifecycle.initialized.server-waits" in requirements(event.violations)


# Methods and capabilities


@cases("revision", HANDSHAKE)
@cases("role", ["client", "server"])
def test_an_unknown_method_is_not_found(revision, role):
    pair = opened(revision)
    endpoint = getattr(pair, role)
    event = only(endpoint.receive(request("x", "no/such")))
    assert error_of(event) == ("x", -32601)
    assert "no/such" in event.why
    assert event.violations == ()


@pytest.mark.requirement("lifecycle.capabilities.only-declared")
@cases(
    ("revision", "sender", "name"),
    [
        ("2024-11-05", "client", "server/discover"),
        ("2025-03-26", "server", "elicitation/create"),
        ("2025-06-18", "client", "tasks/list"),
        ("2025-11-25", "client", "subscriptions/listen"),
        ("2025-11-25", "client", "sampling/createMessage"),
        ("2025-11-25", "server", "tools/list"),
    ],
)
def test_a_method_outside_its_revision_or_from_the_wrong_party_is_not_found(revision, sender, name):
    pair = opened(revision)
    sends, receives = (
        (pair.client, pair.server) if sender == "client" else (pair.server, pair.client)
    )
    assert "lifecycle.capabilities.only-declared" in breach(sends.request, name)
    event = only(receives.receive(request(9, name, {})))
    assert error_of(event) == (9, -32601)
    assert requirements(event.violations) == ["lifecycle.capabilities.only-declared"]


@pytest.mark.requirement("lifecycle.capabilities.respected")
@cases("revision", HANDSHAKE)
@cases(
    ("sender", "name", "params"),
    [
        ("client", "tools/call", t.CallToolParams("add")),
        ("client", "resources/subscribe", t.SubscribeParams("a://b")),
        ("client", "prompts/list", None),
        ("client", "logging/setLevel", t.SetLevelParams("info")),
        ("server", "roots/list", None),
        ("server", "sampling/createMessage", t.CreateMessageParams(HELLO, 10)),
    ],
)
def test_an_undeclared_method_is_not_found_and_not_sent(revision, sender, name, params):
    pair = opened(revision, client=NOTHING_OF_CLIENT, server=NOTHING_OF_SERVER)
    sends, receives = (
        (pair.client, pair.server) if sender == "client" else (pair.server, pair.client)
    )
    assert breach(sends.request, name, params) == ["lifecycle.capabilities.respected"]
    body = None if params is None else msgspec.to_builtins(params)
    event = only(receives.receive(request(9, name, body)))
    assert error_of(event) == (9, -32601)
    assert requirements(event.violations) == ["lifecycle.capabilities.respected"]
    assert "did not declare" in event.why


@cases("revision", HANDSHAKE)
@cases(
    ("sender", "name", "params", "requirement"),
    [
        ("server", "tools/list_changed", None, "tools.list-changed.capability-required"),
        ("server", "message", t.LogMessageParams("info", "x"), "logging.capability.declared"),
        ("client", "roots/list_changed", None, "roots.list-changed.capability-required"),
    ],
)
def test_a_notification_that_was_not_declared_is_not_sent_but_heard(
    revision, sender, name, params, requirement
):
    pair = opened(revision, client=NOTHING_OF_CLIENT, server=NOTHING_OF_SERVER)
    sends, receives = (
        (pair.client, pair.server) if sender == "client" else (pair.server, pair.client)
    )
    assert breach(sends.notify, f"notifications/{name}", params) == [requirement]
    body = None if params is None else msgspec.to_builtins(params)
    event = only(receives.receive(notification(name, body)))
    assert isinstance(event, NotificationReceived)
    assert requirements(event.violations) == [requirement]


def test_an_unknown_notification_is_ignored():
    pair = opened(LATEST)
    event = only(pair.server.receive(notification("no/such")))
    assert isinstance(event, Refused)
    assert event.reply is None
    assert event.is_ignored


def test_a_notification_of_the_wrong_party_is_ignored():
    pair = opened(LATEST)
    event = only(pair.server.receive(notification("tools/list_changed")))
    assert isinstance(event, Refused)
    assert event.reply is None
    assert requirements(event.violations) == ["lifecycle.capabilities.only-declared"]


@pytest.mark.requirement("jsonrpc.notification.no-id")
def test_a_notification_with_an_id_is_refused():
    pair = opened(LATEST)
    event = only(pair.server.receive(request(4, "notifications/progress", {})))
    assert error_of(event) == (4, -32600)


@pytest.mark.requirement("jsonrpc.request.id-present")
def test_a_request_without_an_id_is_ignored():
    pair = opened(LATEST)
    event = only(pair.server.receive(b'{"jsonrpc":"2.0","method":"tools/list"}'))
    assert isinstance(event, Refused)
    assert event.reply is None
    assert requirements(event.violations) == ["jsonrpc.request.id-present"]


# Params


UNFIT = {
    "missing": ("tools/call", None, -32602, "tools/call: params are missing"),
    "name missing": ("tools/call", {}, -32602, "object missing required field `name`"),
    "name a number": ("tools/call", {"name": 1}, -32602, "expected `str`, got `int` - at `$.name`"),
    "array": ("tools/call", [1], -32602, "expected `object`, got `array`"),
    "empty array": ("tools/list", [], -32602, "expected `object`, got `array`"),
    "string": ("tools/list", "x", -32600, "expected `object`, got `str`"),
    "number": ("tools/list", 5, -32600, "expected `object`, got `int`"),
    "null": ("tools/list", msgspec.Raw(b"null"), -32600, "expected `object`, got `null`"),
    "meta a number": ("tools/list", {"_meta": 1}, -32602, "at `$._meta`"),
    "cursor a number": ("tools/list", {"cursor": 1}, -32602, "at `$.cursor`"),
    "token a fraction": (
        "tools/call",
        {"name": "x", "_meta": {"progressToken": 1.5}},
        -32602,
        "progressToken is neither a string nor an integer",
    ),
    "token true": (
        "tools/call",
        {"name": "x", "_meta": {"progressToken": True}},
        -32602,
        "progressToken is neither a string nor an integer",
    ),
    "5,000 digits": (
        "tools/list",
        {"_meta": {"progressToken": msgspec.Raw(b"9" * 5000)}},
        -32602,
        "out of range",
    ),
    "beyond every float": (
        "tools/list",
        {"_meta": {"progressToken": msgspec.Raw(b"1e400")}},
        -32602,
        "out of range",
    ),
}


@cases(("name", "params", "code", "why"), UNFIT.values(), ids=UNFIT)
def test_params_that_do_not_fit_are_refused_with_where_and_why(name, params, code, why):
    pair = opened(LATEST)
    event = only(pair.server.receive(request("p", name, params)))
    assert error_of(event) == ("p", code)
    assert why in event.why
    # The id is free again.
    assert isinstance(only(pair.server.receive(request("p", "ping"))), RequestReceived)


def test_arguments_that_only_the_tool_understands_are_left_alone():
    pair = opened(LATEST)
    arguments = msgspec.Raw(b'{"n":%b,"x":1e400}' % (b"9" * 5000))
    event = only(
        pair.server.receive(request(1, "tools/call", {"name": "a", "arguments": arguments}))
    )
    assert bytes(event.params.arguments) == bytes(arguments)


@pytest.mark.parametrize("number", [b"1e400", b"9" * 5000])
def test_meta_that_the_protocol_does_not_know_is_read_on_demand(number):
    pair = opened(LATEST)
    known = {"progressToken": 1, "com.example/trace": {"span": [1]}}
    event = only(pair.server.receive(request(1, "tools/list", {"_meta": known})))
    assert (event.exchange.token, event.exchange.meta) == (1, known)
    event = only(pair.server.receive(request(2, "ping", {"_meta": {"n": msgspec.Raw(number)}})))
    with pytest.raises(InvalidParams, match=r"ping: .* out of range"):
        event.exchange.meta  # noqa: B018  # which reads it
    for params in (None, {}, {"_meta": {}}):
        event = only(pair.server.receive(request("e", "tools/list", params)))
        assert event.exchange.meta == {}
        pair.server.respond(event.exchange, b"{}")


@cases("body", [b"5", b"[1]", b"{}", b'{"progressToken":1}', b"null"])
def test_params_of_a_notification_that_do_not_fit_are_ignored(body):
    pair = opened(LATEST)
    data = b'{"jsonrpc":"2.0","method":"notifications/progress","params":%b}' % body
    event = only(pair.client.receive(data))
    assert isinstance(event, Refused)
    assert event.reply is None


@cases("name", ["message", "progress", "resources/updated", "elicitation/complete"])
def test_a_notification_that_lacks_its_params_is_ignored(name):
    pair = opened(LATEST)
    event = only(pair.client.receive(notification(name)))
    assert isinstance(event, Refused)
    assert "params are missing" in event.why


def test_members_that_an_older_revision_lacks_cannot_spoil_a_message():
    pair = opened("2024-11-05")
    event = only(pair.server.receive(request(1, "tools/call", {"name": "a", "task": "yes"})))
    assert isinstance(event, RequestReceived)
    assert event.params == t.CallToolParams("a")


# Ids


@pytest.mark.requirement("jsonrpc.request.id-unique")
@cases("revision", HANDSHAKE)
def test_an_id_in_flight_is_refused_and_its_first_request_still_answered(revision):
    pair = opened(revision)
    first = only(pair.server.receive(request("a", "tools/call", {"name": "x"})))
    second = only(pair.server.receive(request("a", "tools/list")))
    assert error_of(second) == ("a", -32600)
    assert requirements(second.violations) == ["jsonrpc.request.id-unique"]
    assert plain(pair.server.respond(first.exchange, TEXT))["id"] == "a"
    again = only(pair.server.receive(request("a", "tools/list")))
    assert isinstance(again, RequestReceived)


def test_ids_of_two_types_are_two_ids():
    pair = opened(LATEST)
    events = [only(pair.server.receive(request(id, "ping"))) for id in (1, "1", "01")]
    assert [event.exchange.id for event in events] == [1, "1", "01"]
    replies = [plain(pair.server.respond(event.exchange, EMPTY))["id"] for event in events]
    assert replies == [1, "1", "01"]


def test_both_parties_count_their_own_requests():
    pair = opened(LATEST)
    ours, _ = pair.client.request("ping")
    theirs, _ = pair.server.request("ping")
    assert (ours.id, theirs.id) == (1, 0)
    exchange = asked(pair.client, pair.server, "ping")
    assert exchange.id == 2


# Replies


@pytest.mark.requirement("jsonrpc.response.id-echo")
@cases("revision", HANDSHAKE)
@cases("reply", [result(77, {}), error(77)], ids=["result", "error"])
def test_an_answer_to_nothing_is_ignored(revision, reply):
    pair = opened(revision)
    event = only(pair.client.receive(reply))
    assert isinstance(event, Refused)
    assert event.reply is None
    assert not event.is_ignored
    assert len(event.violations) == 1


def test_an_answer_of_another_type_of_id_is_ignored():
    pair = opened(LATEST)
    exchange, _ = pair.client.request("ping")
    assert isinstance(only(pair.client.receive(result(str(exchange.id), {}))), Refused)
    assert isinstance(only(pair.client.receive(result(exchange.id, {}))), ResultReceived)


@pytest.mark.requirement("tools.capability.declared")
def test_an_answer_that_was_not_declared_is_reported_and_delivered():
    pair = opened(LATEST, server=NOTHING_OF_SERVER, enforce=False)
    exchange, _ = pair.client.request("tools/list")
    event = only(pair.client.receive(result(exchange.id, {"tools": []})))
    assert isinstance(event, ResultReceived)
    assert requirements(event.violations) == ["tools.capability.declared"]


@pytest.mark.parametrize(
    ("more", "data"), [(b"", None), (b',"data":null', None), (b',"data":{"a":1}', {"a": 1})]
)
def test_an_error_arrives_with_all_that_it_says(more, data):
    pair = opened(LATEST)
    ours, _ = pair.client.request("ping")
    body = b'{"code":-5,"message":"no"%b}' % more
    event = only(pair.client.receive(b'{"jsonrpc":"2.0","id":%d,"error":%b}' % (ours.id, body)))
    assert isinstance(event, FaultReceived)
    assert event.exchange is ours
    assert (event.error.code, event.error.message, event.error.data) == (-5, "no", data)
    assert event.error.is_received


def test_a_second_answer_is_ignored():
    pair = opened(LATEST)
    exchange, _ = pair.client.request("ping")
    assert isinstance(only(pair.client.receive(result(exchange.id, {}))), ResultReceived)
    assert isinstance(only(pair.client.receive(result(exchange.id, {}))), Refused)


def test_an_error_without_id_tells_that_something_of_ours_was_unreadable():
    pair = opened(LATEST)
    event = only(pair.client.receive(error(None, -32700)))
    assert isinstance(event, FaultReceived)
    assert event.exchange is None
    assert event.error.code == -32700


def test_an_error_reaches_the_caller_with_code_message_and_data():
    pair = opened(LATEST)
    ours, data = pair.client.request("tools/call", t.CallToolParams("x"))
    exchange = only(pair.server.receive(data)).exchange
    answer = pair.server.fail(exchange, RequestError("no", code=7, data={"a": None}))
    event = only(pair.client.receive(answer))
    assert event.exchange is ours
    assert (event.error.code, event.error.message, event.error.data) == (7, "no", {"a": None})


@cases("revision", HANDSHAKE)
@cases(
    ("body", "why"),
    [
        ({}, "missing required field `tools`"),
        ({"tools": [{"name": "x"}]}, "missing required field `inputSchema` - at `$.tools[0]`"),
        ([], "expected `object`, got `array`"),
        (msgspec.Raw(b"null"), "got `null`"),
        ({"tools": [], "_meta": {"n": msgspec.Raw(b"9" * 5000)}}, "out of range"),
    ],
    ids=["no tools", "no schema", "array", "null", "huge number"],
)
def test_a_result_that_does_not_fit_fails_the_request_with_what_is_wrong(revision, body, why):
    pair = opened(revision)
    exchange, _ = pair.client.request("tools/list")
    event = only(pair.client.receive(result(exchange.id, body)))
    assert isinstance(event, FaultReceived)
    assert event.exchange is exchange
    assert isinstance(event.error, RemoteProtocolError)
    assert f"result of tools/list does not fit {revision}" in str(event.error)
    assert why in str(event.error)
    assert isinstance(only(pair.client.receive(result(exchange.id, {}))), Refused)


def test_an_answer_to_initialize_that_does_not_fit_leaves_the_opening_open():
    client = Endpoint("client")
    exchange, _ = client.request("initialize", initialize(LATEST))
    event = only(client.receive(result(exchange.id, {"protocolVersion": 5})))
    assert isinstance(event.error, RemoteProtocolError)
    assert client.conversation.phase is Phase.OPENING
    client.request("initialize", initialize(LATEST))


def test_an_answer_that_names_no_known_revision_leaves_the_choice_to_the_client():
    client = Endpoint("client")
    exchange, _ = client.request("initialize", initialize(LATEST))
    body = msgspec.to_builtins(initialized("1999-01-01"))
    event = only(client.receive(result(exchange.id, body)))
    assert event.result.protocol_version == "1999-01-01"
    assert client.conversation.revision is None


def test_a_request_is_answered_once():
    pair = opened(LATEST)
    for answer in (
        lambda e: pair.server.respond(e, EMPTY),
        lambda e: pair.server.fail(e, InternalError("x")),
    ):
        exchange = asked(pair.client, pair.server, "ping")
        assert answer(exchange)
        assert breach(pair.server.respond, exchange, EMPTY) == ["jsonrpc.request.answered"]
        assert breach(pair.server.fail, exchange, InternalError("x")) == [
            "jsonrpc.request.answered"
        ]


def test_a_result_may_be_encoded_already():
    pair = opened(LATEST)
    exchange = asked(pair.client, pair.server, "tools/list")
    answer = pair.server.respond(exchange, b'{"tools":[]}')
    assert only(pair.client.receive(answer)).result == t.ListToolsResult([])


@pytest.mark.parametrize("token", [None, "t"], ids=["plain", "with progress"])
def test_a_result_that_cannot_be_encoded_can_still_be_failed(token):
    pair = opened(LATEST)
    meta = None if token is None else {"progressToken": token}
    exchange = asked(pair.client, pair.server, "tools/call", t.CallToolParams("x", meta=meta))
    unfit = t.CallToolResult([], structured_content={"a": object()})
    with pytest.raises(TypeError):
        pair.server.respond(exchange, unfit)
    with pytest.raises(TypeError):
        pair.server.fail(exchange, RequestError("x", data=object()))
    assert plain(pair.server.fail(exchange, InternalError("x")))["error"]["code"] == -32603


# Malformed input

MALFORMED = {
    "no JSON": (b"nope", None, -32700),
    "not UTF-8": (b'"\xff"', None, -32700),
    "no object": (b"5", None, -32600),
    "no version": (b'{"id":"m","method":"ping"}', "m", -32600),
    "no method": (b'{"jsonrpc":"2.0","id":"m"}', "m", -32600),
    "null id": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, -32600),
    "method a number in a notification": (b'{"jsonrpc":"2.0","method":1}', None, -32600),
}


@cases(("data", "id", "code"), MALFORMED.values(), ids=MALFORMED)
def test_a_server_answers_malformed_input_and_goes_on(data, id, code):
    pair = opened(LATEST)
    waiting = asked(pair.client, pair.server, "tools/call", t.CallToolParams("x"))
    event = only(pair.server.receive(data))
    assert error_of(event) == (id, code)
    assert len(event.violations) == 1
    assert pair.server.respond(waiting, TEXT)


@cases(("data", "id", "code"), MALFORMED.values(), ids=MALFORMED)
def test_a_client_never_answers_malformed_input(data, id, code):
    pair = opened(LATEST)
    event = only(pair.client.receive(data))
    assert isinstance(event, Refused)
    assert event.reply is None
    assert len(event.violations) == 1


BROKEN_REPLIES = {
    "both result and error": b'{"jsonrpc":"2.0","id":%d,"result":{},"error":null}',
    "error without message": b'{"jsonrpc":"2.0","id":%d,"error":{"code":1}}',
    "no version": b'{"id":%d,"result":{}}',
    "neither": b'{"jsonrpc":"2.0","id":%d}',
}


@cases("text", BROKEN_REPLIES.values(), ids=BROKEN_REPLIES)
@cases("role", ["client", "server"])
def test_a_reply_that_cannot_be_read_fails_its_request_and_is_not_answered(role, text):
    pair = opened(LATEST)
    endpoint = getattr(pair, role)
    exchange, _ = endpoint.request("ping")
    event = only(endpoint.receive(text % exchange.id))
    assert isinstance(event, FaultReceived)
    assert event.exchange is exchange
    assert isinstance(event.error, RemoteProtocolError)
    assert len(event.error.violations) == 1
    assert endpoint.close() == []


@pytest.mark.parametrize("role", ["client", "server"])
def test_a_broken_reply_to_nothing_is_not_answered_either(role):
    pair = opened(LATEST)
    event = only(getattr(pair, role).receive(BROKEN_REPLIES["both result and error"] % 99))
    assert isinstance(event, Refused)
    assert event.reply is None


def test_limits_are_those_that_were_given():
    server = Endpoint("server", limits=Limits(message_bytes=50))
    event = only(server.receive(request(1, "ping", {"_meta": {"padding": "x" * 50}})))
    assert error_of(event) == (1, -32600)
    assert "message_bytes" in event.why


def test_a_line_that_the_transport_dropped_is_answered_by_its_id():
    server = opened(LATEST).server
    malformed = MalformedMessage("too large", code=-32600, requirement="any", id=7, kind=REQUEST)
    assert error_of(only(server.receive_malformed(malformed))) == (7, -32600)


def test_a_message_above_the_limit_is_not_sent():
    pair = opened(LATEST, limits=Limits(message_bytes=500))
    ours, data = pair.client.request("tools/call", t.CallToolParams("x"))
    large = "x" * 600
    for send in (
        lambda: pair.client.request("tools/call", t.CallToolParams(large)),
        lambda: pair.client.notify(
            "notifications/cancelled", t.CancelledParams(ours.id, reason=large)
        ),
    ):
        with pytest.raises(MessageTooLarge, match=r"500 \(message_bytes\)") as caught:
            send()
        assert caught.value.size > 600
        assert caught.value.limit == 500
    exchange = only(pair.server.receive(data)).exchange
    with pytest.raises(MessageTooLarge, match="tools/call"):
        pair.server.respond(exchange, t.CallToolResult([t.TextContent(large)]))
    with pytest.raises(MessageTooLarge, match="tools/call"):
        pair.server.fail(exchange, InternalError(large))
    # Neither counts as the answer.
    reply = pair.server.respond(exchange, TEXT)
    assert isinstance(only(pair.client.receive(reply)), ResultReceived)


BEYOND = {
    "values": (Limits(message_values=200), [0] * 200, r"more than 200 values \(message_values\)"),
    "depth": (Limits(depth=12), None, r"deeper than 12 levels \(depth\)"),
}


def beyond(kind: str) -> tuple[Limits, t.CallToolResult, str]:
    limits, value, why = BEYOND[kind]
    for _ in range(12 if value is None else 0):
        value = [value]
    return limits, t.CallToolResult([], structured_content={"a": value}), why


@pytest.mark.parametrize("kind", BEYOND)
def test_a_result_beyond_a_limit_of_its_sender_is_not_sent_and_the_request_stays_open(kind):
    limits, result, _ = beyond(kind)
    pair = opened(LATEST, limits=limits)
    _, data = pair.client.request("tools/call", t.CallToolParams("x"))
    exchange = only(pair.server.receive(data)).exchange
    with pytest.raises(MessageTooLarge, match=r"tools/call: the message .* limits=Limits\("):
        pair.server.respond(exchange, result)
    assert isinstance(
        only(pair.client.receive(pair.server.respond(exchange, TEXT))), ResultReceived
    )


def test_a_page_of_a_list_is_sent_again_unless_the_id_of_its_request_is_too_long():
    server = opened(LATEST, limits=Limits(message_bytes=2_000, message_values=200)).server
    pages = [b'{"tools":[],"nextCursor":"%s"}' % (b"%x" % n * 300) for n in range(17)]

    def ask(id):
        return only(server.receive(request(id, "tools/list"))).exchange

    for number, page in enumerate((*pages, pages[-1], pages[0])):
        assert page in server.respond(ask(number), page)
    with pytest.raises(MessageTooLarge, match=r"2000 \(message_bytes\)"):
        server.respond(ask("x" * 1_800), pages[0])
    with pytest.raises(MessageTooLarge, match=r"200 \(message_values\)"):
        server.respond(ask("values"), b'{"tools":[' + b",".join([b"1"] * 201) + b"]}")


@pytest.mark.parametrize("kind", BEYOND)
def test_a_result_beyond_a_limit_of_its_receiver_fails_its_request(kind):
    limits, result, why = beyond(kind)
    pair = opened(LATEST)
    client = opened(LATEST, limits=limits).client
    ours, data = client.request("tools/call", t.CallToolParams("x"))
    exchange = only(pair.server.receive(data)).exchange
    event = only(client.receive(pair.server.respond(exchange, result)))
    assert isinstance(event, FaultReceived)
    assert event.exchange is ours
    setting = "message_values" if kind == "values" else kind
    advice = rf"connect\(\.\.\., limits=Limits\({setting}=\.\.\.\)\) raises it"
    assert re.search(f"tools/call: the answer .*{why}; {advice}", str(event.error))


def test_a_question_beyond_a_limit_of_the_client_is_answered_by_its_id():
    client = opened(LATEST, limits=Limits(message_values=50)).client
    error = error_of(only(client.receive(request("q", "ping", {"a": [0] * 60}))))
    assert error == ("q", -32600)
    # Nothing waits for an answer to what is malformed otherwise, or has no id.
    for data in (b'{"jsonrpc":"2.0","id":1,"method":3}', notification("x", {"a": [0] * 60})):
        assert only(client.receive(data)).reply is None


def test_an_endpoint_that_may_misbehave_sends_what_is_too_large():
    client = Endpoint("client", limits=Limits(message_bytes=10), enforce=False)
    _, data = client.request("ping")
    assert len(data) > 10


def test_the_answers_to_a_batch_are_bounded_together():
    server = opened(WITH_BATCHES, limits=Limits(message_bytes=500)).server
    first, second = server.receive(
        batch(*(request(id, "tools/call", {"name": "x"}) for id in (1, 2)))
    )
    text = t.CallToolResult([t.TextContent("x" * 300)])
    assert server.respond(first.exchange, text) is None
    with pytest.raises(MessageTooLarge):
        server.respond(second.exchange, text)
    whole = plain(server.fail(second.exchange, InternalError("too large")))
    assert [each["id"] for each in whole] == [1, 2]


# Cancellation


@cases("revision", HANDSHAKE)
def test_a_cancelled_request_is_not_answered(revision):
    pair = opened(revision)
    ours, data = pair.client.request("tools/call", t.CallToolParams("x"))
    exchange = only(pair.server.receive(data)).exchange
    notice = pair.client.notify("notifications/cancelled", t.CancelledParams(ours.id, "late"))
    event = only(pair.server.receive(notice))
    assert isinstance(event, NotificationReceived)
    assert event.exchange is exchange
    assert event.reply is None
    assert exchange.cancelled
    assert ours.cancelled
    assert pair.server.respond(exchange, TEXT) is None
    assert pair.server.fail(exchange, InternalError("x")) is None


@pytest.mark.parametrize("reply", [result, error], ids=["result", "error"])
def test_an_answer_that_crossed_its_cancellation_is_ignored(reply):
    pair = opened(LATEST)
    ours, _ = pair.client.request("tools/list")
    pair.client.notify("notifications/cancelled", t.CancelledParams(ours.id))
    late = reply(ours.id) if reply is error else reply(ours.id, {"tools": []})
    event = only(pair.client.receive(late))
    assert isinstance(event, Refused)
    assert "which was cancelled" in event.why
    assert event.is_ignored
    assert event.violations == ()
    assert len(only(pair.client.receive(late)).violations) == 1


def test_a_cancellation_of_an_unknown_request_is_ignored():
    pair = opened(LATEST)
    for id in (99, "x", None):
        event = only(pair.server.receive(notification("cancelled", {"requestId": id})))
        assert isinstance(event, NotificationReceived | Refused)
        assert getattr(event, "exchange", None) is None
        assert event.reply is None


@pytest.mark.requirement("cancellation.initialize.excluded")
def test_initialize_cannot_be_cancelled():
    client, server = Endpoint("client"), Endpoint("server")
    ours, data = client.request("initialize", initialize(LATEST))
    exchange = only(server.receive(data)).exchange
    assert breach(client.notify, "notifications/cancelled", t.CancelledParams(ours.id)) == [
        "cancellation.initialize.excluded"
    ]
    event = only(server.receive(notification("cancelled", {"requestId": ours.id})))
    assert isinstance(event, Refused)
    assert server.respond(exchange, initialized(LATEST))


def test_a_server_cancels_its_own_requests():
    pair = opened(LATEST)
    ours, data = pair.server.request("roots/list")
    exchange = only(pair.client.receive(data)).exchange
    notice = pair.server.notify("notifications/cancelled", t.CancelledParams(ours.id))
    assert only(pair.client.receive(notice)).exchange is exchange
    assert pair.client.respond(exchange, t.ListRootsResult([])) is None


# Progress


@cases("revision", HANDSHAKE)
@cases("token", ["t", 7, 0])
def test_progress_reaches_the_request_that_asked_for_it(revision, token):
    pair = opened(revision)
    params = t.CallToolParams("x", meta={"progressToken": token})
    ours, data = pair.client.request("tools/call", params)
    exchange = only(pair.server.receive(data)).exchange
    assert exchange.token == token
    for value in (0, 0.5, 3):
        notice = pair.server.notify("notifications/progress", t.ProgressParams(token, value))
        event = only(pair.client.receive(notice))
        assert event.exchange is ours
        assert event.params.progress == value
    assert pair.server.respond(exchange, TEXT)
    assert breach(pair.server.notify, "notifications/progress", t.ProgressParams(token, 4)) == [
        "progress.notification.active-only"
    ]


@pytest.mark.requirement("progress.value.increases")
@pytest.mark.parametrize("value", [0.5, 0.4, -1])
def test_progress_of_ours_must_rise(value):
    pair = opened(LATEST)
    asked(pair.client, pair.server, "tools/call", t.CallToolParams("x", meta={"progressToken": 1}))
    pair.server.notify("notifications/progress", t.ProgressParams(1, 0.5))
    assert breach(pair.server.notify, "notifications/progress", t.ProgressParams(1, value)) == [
        "progress.value.increases"
    ]
    pair.server.notify("notifications/progress", t.ProgressParams(1, 0.6))


@pytest.mark.requirement("progress.value.increases")
def test_progress_of_the_peer_that_falls_is_reported_and_delivered():
    pair = opened(LATEST)
    pair.client.request("tools/call", t.CallToolParams("x", meta={"progressToken": 1}))
    for value, broken in (
        (0, []),
        (-1, ["progress.value.increases"]),
        (0, ["progress.value.increases"]),
    ):
        body = {"progressToken": 1, "progress": value}
        event = only(pair.client.receive(notification("progress", body)))
        assert isinstance(event, NotificationReceived)
        assert requirements(event.violations) == broken


@pytest.mark.requirement("progress.notification.active-only")
def test_progress_on_an_unknown_request_is_ignored():
    pair = opened(LATEST)
    event = only(pair.client.receive(notification("progress", {"progressToken": 1, "progress": 1})))
    assert isinstance(event, Refused)
    assert requirements(event.violations) == ["progress.notification.active-only"]


@pytest.mark.parametrize("token", [1, "t"])
def test_progress_that_crossed_a_cancellation_is_ignored_and_is_not_a_breach(token):
    pair = opened(LATEST)
    params = t.CallToolParams("x", meta={"progressToken": token})
    ours, data = pair.client.request("tools/call", params)
    pair.server.receive(data)
    progress = pair.server.notify("notifications/progress", t.ProgressParams(token, 1))
    cancel = pair.client.notify("notifications/cancelled", t.CancelledParams(ours.id))
    event = only(pair.client.receive(progress))
    assert isinstance(event, Refused)
    assert event.is_ignored
    assert event.violations == ()
    pair.server.receive(cancel)
    assert breach(pair.server.notify, "notifications/progress", t.ProgressParams(token, 2)) == [
        "progress.notification.active-only"
    ]


def test_a_token_of_a_cancelled_request_may_name_the_next():
    pair = opened(LATEST)
    params = t.CallToolParams("x", meta={"progressToken": "t"})
    first, _ = pair.client.request("tools/call", params)
    pair.client.notify("notifications/cancelled", t.CancelledParams(first.id))
    second, _ = pair.client.request("tools/call", params)
    report = notification("progress", {"progressToken": "t", "progress": 1})
    event = only(pair.client.receive(report))
    assert isinstance(event, NotificationReceived)
    assert event.exchange is second


@pytest.mark.requirement("progress.token.unique")
def test_a_token_in_use_is_not_used_again():
    pair = opened(LATEST)
    params = t.CallToolParams("x", meta={"progressToken": "t"})
    exchange = asked(pair.client, pair.server, "tools/call", params)
    assert breach(pair.client.request, "tools/call", params) == ["progress.token.unique"]
    body = {"name": "x", "_meta": {"progressToken": "t"}}
    event = only(pair.server.receive(request("again", "tools/call", body)))
    assert requirements(event.violations) == ["progress.token.unique"]
    pair.client.receive(pair.server.respond(exchange, TEXT))
    pair.client.request("tools/call", params)


def test_a_client_reports_progress_too():
    pair = opened(LATEST)
    params = t.CreateMessageParams(HELLO, 10, meta={"progressToken": "s"})
    ours, data = pair.server.request("sampling/createMessage", params)
    pair.client.receive(data)
    notice = pair.client.notify("notifications/progress", t.ProgressParams("s", 1))
    assert only(pair.server.receive(notice)).exchange is ours


def test_a_message_that_cannot_be_narrowed_was_not_sent():
    pair = opened("2024-11-05")
    asked(pair.client, pair.server, "tools/call", t.CallToolParams("x", meta={"progressToken": 1}))
    with pytest.raises(TypeError):
        pair.server.notify(
            "notifications/progress", t.ProgressParams(1, 5, meta={"unfit": object()})
        )
    pair.server.notify("notifications/progress", t.ProgressParams(1, 2))


def test_a_notification_that_the_revision_cannot_express_raises():
    pair = opened("2024-11-05")
    with pytest.raises(LocalProtocolError, match="request_id is required in 2024-11-05"):
        pair.client.notify("notifications/cancelled", t.CancelledParams())


# Batches


@pytest.mark.requirement("jsonrpc.batch.receive")
@cases("order", list(permutations(range(3))), ids=str)
def test_a_batch_is_answered_as_one_array_when_the_last_answer_is_there(order):
    pair = opened(WITH_BATCHES)
    events = pair.server.receive(
        batch(
            request(0, "ping"),
            notification("roots/list_changed"),
            request(1, "tools/list"),
            request(2, "tools/call", {"name": "x"}),
        )
    )
    served = [event.exchange for event in events if isinstance(event, RequestReceived)]
    answers = [EMPTY, t.ListToolsResult([]), None]
    replies = []
    for number in order:
        if answers[number] is None:
            replies.append(pair.server.fail(served[number], InternalError("x")))
        else:
            replies.append(pair.server.respond(served[number], answers[number]))
    assert replies[:2] == [None, None]
    assert [answer["id"] for answer in plain(replies[2])] == list(order)


def test_refusals_are_part_of_the_answer_to_a_batch():
    pair = opened(WITH_BATCHES)
    events = pair.server.receive(
        batch(request(0, "no/such"), b"5", request(1, "ping"), b'{"jsonrpc":"2.0","id":9}')
    )
    assert [type(event) for event in events] == [Refused, Refused, RequestReceived, Refused]
    assert [getattr(event, "reply", None) for event in events] == [None] * 4
    answers = plain(pair.server.respond(events[2].exchange, EMPTY))
    found = [(answer["id"], answer.get("error", {}).get("code")) for answer in answers]
    assert found == [(0, -32601), (None, -32600), (9, -32600), (1, None)]


def test_a_batch_of_refusals_is_answered_at_once():
    pair = opened(WITH_BATCHES)
    events = pair.server.receive(batch(b"1", notification("no/such"), request(0, "no/such"), b"2"))
    replies = [event.reply for event in events if event.reply]
    assert len(replies) == 1
    assert [answer["error"]["code"] for answer in plain(replies[0])] == [-32600, -32601, -32600]


def test_a_batch_of_notifications_and_answers_is_not_answered():
    pair = opened(WITH_BATCHES)
    exchange, _ = pair.server.request("roots/list")
    events = pair.server.receive(
        batch(notification("roots/list_changed"), result(exchange.id, {"roots": []}))
    )
    assert [type(event) for event in events] == [NotificationReceived, ResultReceived]


def test_a_cancelled_request_does_not_hold_up_the_rest_of_its_batch():
    pair = opened(WITH_BATCHES)
    first, second = pair.server.receive(batch(request(0, "ping"), request(1, "tools/list")))
    assert pair.server.respond(first.exchange, EMPTY) is None
    event = only(pair.server.receive(notification("cancelled", {"requestId": 1})))
    assert [answer["id"] for answer in plain(event.reply)] == [0]
    assert pair.server.respond(second.exchange, t.ListToolsResult([])) is None


def test_a_cancelled_request_may_come_before_the_last_answer_of_its_batch():
    pair = opened(WITH_BATCHES)
    first, _ = pair.server.receive(batch(request(0, "ping"), request(1, "tools/list")))
    event = only(pair.server.receive(notification("cancelled", {"requestId": 1})))
    assert event.reply is None
    assert [answer["id"] for answer in plain(pair.server.respond(first.exchange, EMPTY))] == [0]


def test_a_batch_may_cancel_its_own_requests():
    pair = opened(WITH_BATCHES)
    cancel = notification("cancelled", {"requestId": 1})
    events = pair.server.receive(batch(request(1, "tools/list"), cancel))
    assert [event.reply for event in events[1:]] == [None]
    events = pair.server.receive(batch(b"5", request(1, "tools/list"), cancel))
    assert [answer["id"] for answer in plain(events[0].reply)] == [None]


def test_an_id_twice_in_a_batch_is_refused_once():
    pair = opened(WITH_BATCHES)
    first, second = pair.server.receive(batch(request(1, "ping"), request(1, "ping")))
    assert isinstance(second, Refused)
    answers = plain(pair.server.respond(first.exchange, EMPTY))
    assert ["error" in answer for answer in answers] == [True, False]


def test_a_client_answers_the_requests_of_a_batch_whatever_else_is_in_it():
    pair = opened(WITH_BATCHES)
    ours, _ = pair.client.request("tools/list")
    events = pair.client.receive(
        batch(b"5", request("s", "ping"), BROKEN_REPLIES["neither"] % ours.id)
    )
    assert [type(event) for event in events] == [Refused, RequestReceived, FaultReceived]
    assert [answer["id"] for answer in plain(pair.client.respond(events[1].exchange, EMPTY))] == [
        "s"
    ]


@pytest.mark.requirement("jsonrpc.batch.removed")
@pytest.mark.parametrize("revision", WITHOUT_BATCHES)
def test_where_there_are_no_batches_a_server_refuses_each_request_of_one(revision):
    pair = opened(revision)
    events = pair.server.receive(batch(request(1, "ping"), request("b", "ping")))
    assert [error_of(event) for event in events] == [(1, -32600), ("b", -32600)]
    assert {id for event in events for id in requirements(event.violations)} == {
        "jsonrpc.batch.removed"
    }
    assert isinstance(only(pair.server.receive(request(1, "ping"))), RequestReceived)


def test_a_refused_batch_without_a_readable_id_is_answered_once_without_one():
    pair = opened(WITHOUT_BATCHES[0])
    parts = notification("roots/list_changed"), b"5", error(9), b'{"id":8,"result":{}}'
    event = only(pair.server.receive(batch(*parts)))
    assert error_of(event) == (None, -32600)


@pytest.mark.parametrize("role", ["client", "server"])
def test_answers_in_a_refused_batch_fail_their_requests(role):
    pair = opened(LATEST)
    endpoint = getattr(pair, role)
    exchange, _ = endpoint.request("ping")
    reply = result(exchange.id, {})
    refused, failed = endpoint.receive(batch(reply, result(99, {}), reply, b"5"))
    assert isinstance(refused, Refused)
    assert (refused.reply is None) is (role == "client")
    assert isinstance(failed, FaultReceived)
    assert failed.exchange is exchange
    assert requirements(failed.error.violations) == ["jsonrpc.batch.removed"]


def test_a_malformed_request_does_not_answer_ours():
    pair = opened(LATEST)
    ours, _ = pair.server.request("ping")
    message = b'{"jsonrpc":"2.0","id":%d,"method":"ping","params":5}' % ours.id
    refused = only(pair.server.receive(message))
    assert error_of(refused) == (ours.id, -32600)
    assert b'"data"' not in refused.reply
    assert pair.server.close() == [ours]


def test_requests_in_a_refused_batch_do_not_answer_ours():
    pair = opened(WITHOUT_BATCHES[0])
    ours, _ = pair.server.request("ping")
    refused = only(pair.server.receive(batch(request(ours.id, "ping"))))
    assert isinstance(refused, Refused)
    assert pair.server.close() == [ours]


@pytest.mark.requirement("lifecycle.initialize.not-in-batch")
@pytest.mark.parametrize("ready", [False, True], ids=["before the opening", "after it"])
def test_every_readable_id_in_a_batch_with_initialize_is_answered(ready):
    server = opened(WITH_BATCHES).server if ready else Endpoint("server")
    message = request(1, "initialize", msgspec.to_builtins(initialize(WITH_BATCHES)))
    parts = message, request("p", "ping"), b'{"jsonrpc":"1.0","id":7,"method":"ping"}'
    events = server.receive(batch(*parts, notification("initialized"), result(8, {}), b"{}"))
    assert [error_of(event) for event in events] == [(1, -32600), ("p", -32600), (7, -32600)]
    assert {id for event in events for id in requirements(event.violations)} == {
        "lifecycle.initialize.not-in-batch"
    }


def test_an_empty_batch_is_refused():
    event = only(opened(WITH_BATCHES).server.receive(b"[]"))
    assert error_of(event) == (None, -32600)


def test_a_request_that_names_its_revision_may_not_be_part_of_a_batch():
    pair = opened(WITH_BATCHES)
    event = only(pair.server.receive(batch(request(1, "tools/list", {"_meta": MODERN}))))
    assert [(each["id"], each["error"]["code"]) for each in plain(event.reply)] == [(1, -32600)]


# What we let pass on purpose


def test_without_enforcement_our_own_breaches_pass():
    pair = opened(LATEST, client=NOTHING_OF_CLIENT, server=NOTHING_OF_SERVER, enforce=False)
    exchange, data = pair.client.request("tools/list")
    assert error_of(only(pair.server.receive(data))) == (exchange.id, -32601)
    assert pair.client.notify("notifications/initialized")
    assert pair.server.request("roots/list")
    assert pair.server.notify("notifications/tools/list_changed")
    assert pair.server.notify("notifications/progress", t.ProgressParams("x", 1))
    served = asked(pair.client, pair.server, "ping")
    first = pair.server.respond(served, EMPTY)
    assert pair.server.respond(served, EMPTY) == first
    assert plain(pair.server.fail(served, InternalError("x")))["id"] == served.id


def test_without_enforcement_a_second_answer_does_not_close_what_came_after_it():
    pair = opened(LATEST, enforce=False)
    first = only(pair.server.receive(request(5, "ping"))).exchange
    pair.server.respond(first, EMPTY)
    second = only(pair.server.receive(request(5, "ping"))).exchange
    pair.server.respond(first, EMPTY)
    assert pair.server.conversation.open_exchange("client", 5) is second


def test_without_enforcement_a_request_may_have_any_method_and_any_result():
    pair = opened(LATEST, enforce=False)
    exchange, _ = pair.client.request("no/such", t.EmptyParams())
    assert exchange.method is None
    assert only(pair.client.receive(result(exchange.id, [1, 2]))).result == [1, 2]


# Shapes


def test_members_that_an_older_peer_lacks_are_not_sent():
    result_ = t.ListToolsResult(
        [t.Tool("x", {"type": "object"}, title="X", icons=[t.Icon("a://b")])]
    )
    sent = {}
    for revision in HANDSHAKE:
        pair = opened(revision)
        exchange = asked(pair.client, pair.server, "tools/list")
        sent[revision] = sorted(plain(pair.server.respond(exchange, result_))["result"]["tools"][0])
    assert sent == {
        "2024-11-05": ["inputSchema", "name"],
        "2025-03-26": ["inputSchema", "name"],
        "2025-06-18": ["inputSchema", "name", "title"],
        "2025-11-25": ["icons", "inputSchema", "name", "title"],
    }


@cases("revision", HANDSHAKE)
def test_the_opening_is_shaped_by_the_revision_it_names(revision):
    info = t.Implementation("someone", "1", title="Someone")
    knows_titles = revision not in ("2024-11-05", "2025-03-26")
    client, server = Endpoint("client"), Endpoint("server")
    _, data = client.request(
        "initialize", t.InitializeParams(revision, t.ClientCapabilities(), info)
    )
    assert ("title" in plain(data)["params"]["clientInfo"]) is knows_titles
    exchange = only(server.receive(data)).exchange
    answer = t.InitializeResult(revision, t.ServerCapabilities(completions={}), info)
    sent = plain(server.respond(exchange, answer))["result"]
    assert ("title" in sent["serverInfo"]) is knows_titles
    assert ("completions" in sent["capabilities"]) is (revision != "2024-11-05")


@cases("revision", HANDSHAKE)
def test_both_parties_know_the_same_capabilities(revision):
    everything = msgspec.structs.replace(ALL_OF_SERVER, tasks=t.ServerTasksCapability(list={}))
    pair = opened(revision, server=everything)
    for party in ("client", "server"):
        ours = pair.client.conversation.capabilities(party)
        assert ours == pair.server.conversation.capabilities(party)
    server = pair.server.conversation.capabilities("server")
    assert ("completions" in server) is (revision != "2024-11-05")
    assert ("tasks.list" in server) is (revision == "2025-11-25")


def test_requests_and_notifications_are_narrowed_too():
    pair = opened("2024-11-05")
    meta = {"progressToken": 1}
    _, data = pair.client.request(
        "completion/complete",
        t.CompleteParams(
            t.PromptReference("p"),
            t.CompletionArgument("a", "b"),
            context=t.CompletionContext({"c": "d"}),
            meta=meta,
        ),
    )
    assert "context" not in plain(data)["params"]
    pair.server.receive(data)
    notice = pair.server.notify("notifications/progress", t.ProgressParams(1, 1, message="so far"))
    assert "message" not in plain(notice)["params"]


@pytest.mark.requirement("errors.code.resource-not-found")
@cases("revision", REVISIONS)
def test_the_revision_decides_the_code_of_a_missing_resource(revision):
    meta = None if REVISIONS[revision].handshake else MODERN
    server = opened(revision).server if REVISIONS[revision].handshake else Endpoint("server")
    body = {"uri": "a://b"} | ({} if meta is None else {"_meta": meta})
    exchange = only(server.receive(request(5, "resources/read", body))).exchange
    code = plain(server.fail(exchange, ResourceNotFound("no such resource")))["error"]["code"]
    assert code == (-32002 if REVISIONS[revision].handshake else -32602)


@pytest.mark.requirement("errors.reserved-range.only-defined-codes")
@cases(
    ("raised", "sent"),
    [(-32019, -32019), (-32020, -32020), (-32023, -32603), (-32099, -32603), (-32100, -32100)],
)
def test_a_reserved_code_without_meaning_becomes_an_internal_error(raised, sent):
    server = Endpoint("server")
    exchange = only(server.receive(request(5, "tools/list", {"_meta": MODERN}))).exchange
    error = plain(server.fail(exchange, RequestError("why", code=raised, data=1)))["error"]
    assert error == {"code": sent, "message": "why", "data": 1}


# Revisions without handshake


def modern(**more) -> dict:
    return {"_meta": {**MODERN, **more}}


def test_a_request_that_names_its_revision_needs_no_opening():
    server = Endpoint("server")
    event = only(server.receive(request(1, "tools/list", modern())))
    assert isinstance(event, RequestReceived)
    assert event.exchange.revision is NEWEST
    reply = plain(server.respond(event.exchange, t.ListToolsResult([])))
    assert reply["result"] == {
        "tools": [],
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
    }
    assert server.conversation.phase is Phase.OPENING


@cases("revision", HANDSHAKE)
def test_both_ways_live_side_by_side_on_one_endpoint(revision):
    pair = opened(revision)
    with_handshake = only(pair.server.receive(request(50, "tools/list")))
    without = only(pair.server.receive(request(51, "tools/list", modern())))
    assert with_handshake.exchange.revision is REVISIONS[revision]
    assert without.exchange.revision is NEWEST
    answer = t.ListToolsResult([])
    assert "resultType" in plain(pair.server.respond(without.exchange, answer))["result"]
    assert "resultType" not in plain(pair.server.respond(with_handshake.exchange, answer))["result"]
    assert isinstance(only(pair.server.receive(request(52, "ping"))), RequestReceived)
    assert error_of(only(pair.server.receive(request(53, "ping", modern())))) == (53, -32601)


def test_an_endpoint_may_serve_its_session_alone():
    server = opened(LATEST).server
    server.serve_session_only()
    event = only(server.receive(request(1, "tools/list", modern())))
    assert isinstance(event, RequestReceived)
    assert event.exchange.revision.id == LATEST


def test_an_exchange_knows_the_error_that_answered_it():
    server = opened(LATEST).server
    event = only(server.receive(request(1, "tools/list", {})))
    assert event.exchange.fault is None
    server.fail(event.exchange, InvalidParams("no"))
    assert event.exchange.fault == -32602


def test_an_opening_may_follow_requests_without_one():
    server = Endpoint("server")
    listing = only(server.receive(request(1, "tools/list", modern())))
    opening = only(
        server.receive(request(2, "initialize", msgspec.to_builtins(initialize(LATEST))))
    )
    server.respond(opening.exchange, initialized(LATEST))
    server.receive(notification("initialized"))
    assert server.revision.id == LATEST
    assert "resultType" in plain(server.respond(listing.exchange, t.ListToolsResult([])))["result"]


@cases("named", ["2027-01-01", "2025-06-18", "", 5, None, ["2026-07-28"]])
@cases("ready", [False, True], ids=["before an opening", "after it"])
def test_a_revision_that_is_not_spoken_is_refused_with_those_that_are(named, ready):
    server = opened(LATEST).server if ready else Endpoint("server")
    body = modern(**{f"{META}protocolVersion": named})
    event = only(server.receive(request("v", "tools/list", body)))
    assert error_of(event) == ("v", -32022)
    data = plain(event.reply)["error"]["data"]
    assert data == {"supported": list(REVISIONS), "requested": named}


@pytest.mark.requirement("versioning.modern-error-is-not-legacy")
def test_a_server_without_a_modern_revision_answers_as_servers_did_before_there_was_one():
    server = Endpoint("server", revisions=["2025-06-18", "2025-11-25"])
    discover = only(server.receive(request("d", "server/discover", modern())))
    assert error_of(discover) == ("d", -32601)
    early = only(server.receive(request("v", "tools/list", modern())))
    assert error_of(early) == ("v", -32600)
    body = msgspec.to_builtins(initialize("2025-11-25")) | modern()
    event = only(server.receive(request("i", "initialize", body)))
    assert isinstance(event, RequestReceived)
    server.respond(event.exchange, initialized("2025-11-25"))
    server.receive(notification("initialized"))
    event = only(server.receive(request("t", "tools/list", modern())))
    assert isinstance(event, RequestReceived)
    assert event.exchange.revision is REVISIONS["2025-11-25"]


@cases("capabilities", [None, 5, [], "all"])
def test_a_request_without_capabilities_in_its_meta_is_refused(capabilities):
    server = Endpoint("server")
    body = modern(**{f"{META}clientCapabilities": capabilities})
    event = only(server.receive(request("c", "tools/list", body)))
    assert error_of(event) == ("c", -32602)
    assert f"{META}clientCapabilities" in event.why


@pytest.mark.parametrize(
    ("declared", "settings"),
    [
        ({"a/b": {"x": [1]}, "c/d": {}, "e/f": 5}, {"a/b": {"x": [1]}, "c/d": {}}),
        (["a/b"], {}),
        (None, {}),
    ],
)
def test_settings_of_extensions_are_those_that_a_request_declares(declared, settings):
    body = modern(**{f"{META}clientCapabilities": {"extensions": declared}})
    event = only(Endpoint("server").receive(request(1, "tools/list", body)))
    assert event.exchange.peer.extensions == settings


MODERN_FAULTS = {
    "unknown method": ("no/such", {}, -32601),
    "method of older revisions": ("logging/setLevel", {"level": "info"}, -32601),
    "method of older revisions without its params": ("logging/setLevel", {}, -32601),
    "method of older revisions with wrong params": ("logging/setLevel", {"level": 5}, -32601),
    "method of older revisions with a bad token": (
        "ping",
        {"_meta": {"progressToken": True}},
        -32601,
    ),
    "method of older revisions without capabilities": (
        "ping",
        {"_meta": {f"{META}clientCapabilities": None}},
        -32601,
    ),
    "initialize": ("initialize", msgspec.to_builtins(initialize(LATEST)), -32601),
    "params that do not fit": ("tools/call", {}, -32602),
    "an invalid progress token": ("tools/list", {"_meta": {"progressToken": []}}, -32602),
}


@cases(("name", "params", "code"), MODERN_FAULTS.values(), ids=MODERN_FAULTS)
@cases("ready", [False, True], ids=["before an opening", "after it"])
def test_each_fault_of_a_request_without_handshake_has_its_own_code(name, params, code, ready):
    server = opened("2024-11-05").server if ready else Endpoint("server")
    body = {**params, "_meta": MODERN | params.get("_meta", {})}
    event = only(server.receive(request("f", name, body)))
    assert error_of(event) == ("f", code)


@pytest.mark.requirement("jsonrpc.id.distinct-among-pending")
def test_without_handshake_an_id_is_refused_only_while_it_is_in_flight():
    server = Endpoint("server")
    first = only(server.receive(request(1, "tools/list", modern())))
    assert error_of(only(server.receive(request(1, "tools/list", modern())))) == (1, -32600)
    server.respond(first.exchange, t.ListToolsResult([]))
    assert isinstance(only(server.receive(request(1, "tools/list", modern()))), RequestReceived)


def stateless_client() -> Endpoint:
    return Endpoint("client", request_meta=MODERN)


def test_the_meta_of_every_request_is_added():
    client = stateless_client()
    _, data = client.request("tools/list", revision=NEWEST)
    assert plain(data)["params"]["_meta"] == MODERN
    own = {"progressToken": 1, f"{META}clientInfo": {"name": "other", "version": "2"}}
    _, data = client.request("tools/call", t.CallToolParams("x", meta=own), revision=NEWEST)
    assert plain(data)["params"]["_meta"] == MODERN | own
    _, data = client.request("initialize", initialize(LATEST))
    assert "_meta" not in plain(data)["params"]


def test_the_meta_of_every_result_is_added():
    about = {f"{META}serverInfo": {"name": "someone", "version": "1"}}
    server = Endpoint("server", result_meta=about)
    exchange = only(server.receive(request(1, "tools/call", {"name": "x", **modern()}))).exchange
    answer = t.CallToolResult([], meta={"mine": 1})
    assert plain(server.respond(exchange, answer))["result"]["_meta"] == about | {"mine": 1}
    exchange = only(server.receive(request(2, "tools/call", {"name": "x", **modern()}))).exchange
    assert "_meta" not in plain(server.respond(exchange, b'{"content":[]}'))["result"]
    exchange = only(server.receive(request(3, "tools/call", {"name": "x", **modern()}))).exchange
    answer = t.CallToolResult([], result_type="complete")
    assert plain(server.respond(exchange, answer))["result"]["_meta"] == about
    assert answer.meta is None


def test_each_request_that_stands_on_its_own_has_the_client_that_it_names():
    # stateless.interleaved-conversations
    server = Endpoint("server")
    declared = [{}, {"roots": {}}, {"roots": {}}, {}, {"sampling": {}}]
    for id, capabilities in enumerate(declared):
        params = {"_meta": MODERN | {f"{META}clientCapabilities": capabilities}}
        event = only(server.receive(request(id, "tools/list", params)))
        assert event.exchange.peer.capabilities == set(capabilities)
    known = request(9, "tools/list", {"_meta": MODERN | {f"{META}clientCapabilities": []}})
    assert error_of(only(server.receive(known))) == (9, -32602)


def test_a_known_client_does_not_get_around_the_rules_for_its_requests():
    server = Endpoint("server", revisions=["2025-03-26", "2026-07-28"])
    assert isinstance(only(server.receive(request(1, "ping", modern()))), Refused)
    event = only(server.receive(request(1, "tools/list", modern())))
    assert event.exchange.revision is NEWEST
    server.conversation.begin(REVISIONS["2025-03-26"], server={"tools": {}})
    refused = only(server.receive(b"[%b]" % request(2, "tools/list", modern())))
    assert plain(refused.reply)[0]["error"]["code"] == -32600
    server.serve_session_only()
    event = only(server.receive(request(3, "tools/list", modern())))
    assert event.exchange.revision is REVISIONS["2025-03-26"]


def test_a_request_without_a_revision_is_refused_where_each_has_to_name_one():
    # meta.request.missing-field-rejected
    server = Endpoint("server")
    server.conversation.begin(NEWEST, server={"tools": {}})
    for params in ({}, {"_meta": {}}, {"_meta": {"progressToken": 1}}):
        event = only(server.receive(request(1, "tools/list", params)))
        assert error_of(event) == (1, -32602)


def test_without_anything_to_add_params_stay_as_they_are():
    client = Endpoint("client")
    _, data = client.request("tools/list", revision=NEWEST)
    assert "params" not in plain(data)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("tools/call", t.CallToolParams("x")),
        ("prompts/get", t.GetPromptParams("x")),
        ("resources/read", t.ReadResourceParams("a://b")),
    ],
)
def test_questions_instead_of_a_result_are_recognized(name, params):
    client = stateless_client()
    exchange, _ = client.request(name, params, revision=NEWEST)
    questions = {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}}
    event = only(client.receive(result(exchange.id, questions)))
    assert isinstance(event.result, t.InputRequiredResult)
    assert event.result.input_requests == {"r": t.ListRootsRequest()}


def test_a_complete_result_that_does_not_fit_its_method_is_lost():
    client = stateless_client()
    exchange, _ = client.request("tools/call", t.CallToolParams("x"), revision=NEWEST)
    body = {"resultType": "complete", "content": 5}
    event = only(client.receive(result(exchange.id, body)))
    assert isinstance(event, FaultReceived)
    assert "result of tools/call does not fit 2026-07-28" in str(event.error)


def test_a_token_stays_in_use_when_its_request_becomes_a_task():
    # progress.task.same-token
    client = Endpoint("client", enforce=False)
    params = t.CallToolParams("x", task=t.TaskMetadata(), meta={"progressToken": 7})
    exchange, _ = client.request("tools/call", params, revision=REVISIONS["2025-11-25"])
    moment = "2025-11-25T00:00:00Z"
    task = {"taskId": "1", "status": "working", "ttl": None}
    task |= {"createdAt": moment, "lastUpdatedAt": moment}
    event = only(client.receive(result(exchange.id, {"task": task})))
    assert isinstance(event.result, t.CreateTaskResult)
    assert client.conversation.parties["client"].tokens == {7: exchange}


def test_a_complete_result_is_read_as_that_of_its_method():
    client = stateless_client()
    exchange, _ = client.request("tools/call", t.CallToolParams("x"), revision=NEWEST)
    body = {"resultType": "complete", "content": []}
    assert isinstance(only(client.receive(result(exchange.id, body))).result, t.CallToolResult)


@pytest.mark.parametrize(
    "body",
    [{"resultType": 5, "content": []}, [], {"resultType": "input_required", "inputRequests": 5}],
)
def test_a_result_of_no_known_type_fails_the_request(body):
    client = stateless_client()
    exchange, _ = client.request("tools/call", t.CallToolParams("x"), revision=NEWEST)
    event = only(client.receive(result(exchange.id, body)))
    assert isinstance(event.error, RemoteProtocolError)


@pytest.mark.requirement("result.type.absent-means-complete")
def test_a_result_without_type_is_complete():
    client = stateless_client()
    exchange, _ = client.request("tools/call", t.CallToolParams("x"), revision=NEWEST)
    event = only(client.receive(result(exchange.id, {"content": []})))
    assert isinstance(event.result, t.CallToolResult)


@pytest.mark.requirement("result.type.unknown-is-invalid")
@cases("more", [{}, {"tools": []}], ids=["other shape", "shape of the method"])
@cases("named", ["moonlight", "input_required"])
def test_a_result_of_an_unknown_type_fails_the_request_and_is_named(named, more):
    client = stateless_client()
    exchange, _ = client.request("tools/list", revision=NEWEST)
    event = only(client.receive(result(exchange.id, {"resultType": named, **more})))
    assert isinstance(event.error, RemoteProtocolError)
    assert f"resultType '{named}' is unknown" in str(event.error)


@pytest.mark.requirement("jsonrpc.client-no-responses")
def test_without_handshake_a_client_answers_nothing():
    client = stateless_client()
    client.conversation.begin(NEWEST, server={})
    for name in ("ping", "roots/list", "anything"):
        event = only(client.receive(request(1, name, modern())))
        assert isinstance(event, Refused)
        assert event.reply is None


@pytest.mark.requirement("jsonrpc.client-only-initiates")
def test_without_handshake_a_server_asks_nothing():
    server = Endpoint("server")
    assert "jsonrpc.client-only-initiates" in breach(server.request, "roots/list", revision=NEWEST)


@pytest.mark.parametrize("is_begun", [False, True], ids=["unopened", "opened elsewhere"])
def test_capabilities_learned_by_discovery_are_remembered(is_begun):
    client = stateless_client()
    if is_begun:
        client.conversation.begin(NEWEST, server={"prompts": {}})
    exchange, _ = client.request("server/discover", revision=NEWEST)
    body = {
        "resultType": "complete",
        "supportedVersions": [],
        "capabilities": {"tools": {"listChanged": True}},
    }
    client.receive(result(exchange.id, body | {"ttlMs": 0, "cacheScope": "public"}))
    assert client.conversation.capabilities("server") == {"tools", "tools.listChanged"}


# Subscriptions


def listening() -> tuple:
    client, server = stateless_client(), Endpoint("server")
    ours, data = client.request(
        "subscriptions/listen",
        t.ListenParams(t.SubscriptionFilter(tools_list_changed=True)),
        revision=NEWEST,
    )
    return client, server, ours, only(server.receive(data)).exchange


def test_notifications_of_a_subscription_belong_to_its_request():
    client, server, ours, exchange = listening()
    tag = {f"{META}subscriptionId": exchange.id}
    accepted = t.SubscriptionsAcknowledgedParams(
        t.SubscriptionFilter(tools_list_changed=True), meta=tag
    )
    event = only(
        client.receive(server.notify("notifications/subscriptions/acknowledged", accepted))
    )
    assert isinstance(event, NotificationReceived)
    assert event.exchange is ours
    changed = server.notify("notifications/tools/list_changed", t.EmptyParams(meta=tag))
    assert only(client.receive(changed)).exchange is ours


def test_a_tag_that_names_no_subscription_means_nothing():
    client, _, ours, _ = listening()
    for tag in (99, "x", True, None, [ours.id]):
        meta = {"_meta": {f"{META}subscriptionId": tag}}
        event = only(client.receive(notification("tools/list_changed", meta)))
        assert event.exchange is None


def test_a_server_may_say_that_it_ends_a_subscription_and_still_answer_it():
    client, server, ours, exchange = listening()
    notice = server.notify("notifications/cancelled", t.CancelledParams(exchange.id, "restarting"))
    event = only(client.receive(notice))
    assert event.exchange is ours
    assert not ours.cancelled
    answer = server.respond(exchange, t.ListenResult(meta={f"{META}subscriptionId": exchange.id}))
    assert only(client.receive(answer)).exchange is ours


def test_a_client_ends_its_subscription():
    client, server, ours, exchange = listening()
    server.receive(client.notify("notifications/cancelled", t.CancelledParams(ours.id)))
    assert exchange.cancelled
    assert server.respond(exchange, t.ListenResult()) is None


def test_a_notification_is_shaped_by_the_request_during_which_it_is_said():
    server = Endpoint("server")
    exchange = only(server.receive(request(1, "tools/list", modern()))).exchange
    accepted = t.SubscriptionsAcknowledgedParams(t.SubscriptionFilter())
    assert breach(server.notify, "notifications/subscriptions/acknowledged", accepted) == [
        "lifecycle.capabilities.only-declared"
    ]
    name = "notifications/subscriptions/acknowledged"
    assert plain(server.notify(name, accepted, within=exchange))["method"] == name


# The end


@pytest.mark.parametrize("role", ["client", "server"])
def test_closing_returns_the_requests_that_will_never_be_answered(role):
    pair = opened(LATEST)
    endpoint, other = (pair.client, pair.server) if role == "client" else (pair.server, pair.client)
    answered, data = endpoint.request("ping")
    cancelled, _ = endpoint.request("ping")
    open_ = [endpoint.request("ping")[0] for _ in range(2)]
    endpoint.receive(other.respond(only(other.receive(data)).exchange, EMPTY))
    endpoint.notify("notifications/cancelled", t.CancelledParams(cancelled.id))
    asked(other, endpoint, "ping")
    assert endpoint.close() == open_
    assert endpoint.conversation.phase is Phase.CLOSED
    assert answered not in open_


def test_a_request_whose_answer_was_lost_on_the_way_is_forgotten():
    client, _ = opened(LATEST)
    exchange, _ = client.request("tools/list", t.PageParams())
    assert client.give_up(exchange.id) is exchange
    assert client.give_up(exchange.id) is None
    late = only(client.receive(result(exchange.id, {"tools": []})))
    assert isinstance(late, Refused)


def test_an_opening_whose_answer_was_lost_on_the_way_can_be_tried_again():
    client = Endpoint("client")
    exchange, _ = client.request("initialize", initialize(LATEST))
    client.give_up(exchange.id)
    client.request("initialize", initialize(LATEST))
    assert client.conversation.phase is Phase.NEGOTIATING


# Parts of capabilities: modes of elicitation, tools in sampling

FORM = t.ElicitParams("where to?", {"type": "object", "properties": {}})
PAGE = t.ElicitParams("sign in", mode="url", url="https://example.com/", elicitation_id="e1")
WITH_TOOLS = t.CreateMessageParams(HELLO, 10, tools=[t.Tool("look", {"type": "object"})])
WITH_CHOICE = t.CreateMessageParams(HELLO, 10, tool_choice=t.ToolChoice("none"))
UNDECLARED = [
    ("elicitation.mode.supported-only", {"elicitation": {"url": {}}}, "elicitation/create", FORM),
    ("elicitation.mode.supported-only", {"elicitation": {"form": {}}}, "elicitation/create", PAGE),
    ("elicitation.mode.supported-only", {"elicitation": {}}, "elicitation/create", PAGE),
    (
        "sampling.tools.not-without-capability",
        {"sampling": {}},
        "sampling/createMessage",
        WITH_TOOLS,
    ),
    (
        "sampling.tools.not-without-capability",
        {"sampling": {"context": {}}},
        "sampling/createMessage",
        WITH_CHOICE,
    ),
]


@cases(("requirement", "capabilities", "name", "params"), UNDECLARED)
def test_a_question_beyond_what_the_client_declared_raises_before_it_is_sent(
    requirement, capabilities, name, params
):
    declared = msgspec.convert(capabilities, t.ClientCapabilities)
    pair = opened(LATEST, client=declared)
    assert breach(pair.server.request, name, params) == [requirement]


@cases(("requirement", "capabilities", "name", "params"), UNDECLARED)
def test_a_question_beyond_what_the_client_declared_is_refused_by_the_client(
    requirement, capabilities, name, params
):
    declared = msgspec.convert(capabilities, t.ClientCapabilities)
    client, server = opened(LATEST, client=declared, enforce=False)
    _, data = server.request(name, params)
    event = only(client.receive(data))
    assert error_of(event) == (0, -32602)
    assert requirements(event.violations) == [requirement]


@cases(
    ("capabilities", "name", "params"),
    [
        ({"elicitation": {}}, "elicitation/create", FORM),
        ({"elicitation": {"form": {}}}, "elicitation/create", FORM),
        ({"elicitation": {"url": {}}}, "elicitation/create", PAGE),
        ({"elicitation": {"url": {}, "form": {}}}, "elicitation/create", FORM),
        ({"sampling": {"tools": {}}}, "sampling/createMessage", WITH_TOOLS),
        ({"sampling": {"tools": {}}}, "sampling/createMessage", WITH_CHOICE),
        ({"sampling": {}}, "sampling/createMessage", t.CreateMessageParams(HELLO, 10)),
    ],
)
def test_a_question_within_what_the_client_declared_is_asked(capabilities, name, params):
    pair = opened(LATEST, client=msgspec.convert(capabilities, t.ClientCapabilities))
    assert asked(pair.server, pair.client, name, params).name == name


# -- one session, several endpoints


def test_an_endpoint_that_goes_on_with_a_session_waits_for_the_confirmation_of_its_client():
    server = Endpoint("server")
    server.conversation.begin(
        REVISIONS[LATEST], server={"tools": {}}, client={"roots": {}}, ready=False
    )
    assert server.conversation.phase is Phase.NEGOTIATED
    with pytest.raises(LocalProtocolError):
        server.request("roots/list")
    only(server.receive(notification("initialized")))
    assert server.conversation.phase is Phase.READY
    server.request("roots/list")


def test_a_request_that_is_decoded_already_is_received_like_its_bytes():
    server = Endpoint("server")
    server.conversation.begin(REVISIONS[LATEST], server={"tools": {}}, client={})
    frame = codec.decode(request(7, "tools/list"))
    event = server.receive_request(frame)
    assert isinstance(event, RequestReceived)
    assert event.exchange.id == 7
    again = server.receive_request(codec.decode(request(7, "tools/list")))
    assert isinstance(again, Refused)


def test_requests_are_numbered_from_where_the_driver_says():
    server = Endpoint("server")
    server.conversation.begin(REVISIONS[LATEST], server={}, client={"roots": {}})
    server.next_id = 1 << 40
    ids = [server.request("roots/list")[0].id for _ in range(2)]
    assert ids == [1 << 40, (1 << 40) + 1]

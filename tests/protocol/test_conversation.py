"""The state that both parties share, and that does not know which of them we are."""

import pytest
from msgspec import UNSET

from accord import types as t
from accord.protocol.conversation import TRANSITIONS, Conversation
from accord.protocol.exchange import Exchange, Step
from accord.protocol.jsonrpc import FAULT, NOTIFICATION, REQUEST, RESULT, ErrorBody, Frame
from accord.protocol.party import Memory, capability_paths
from accord.protocol.revisions import BEFORE_HANDSHAKE, REVISIONS, Phase
from accord.protocol.violation import CLIENT, OTHER, SERVER
from support.endpoints import ALL_OF_CLIENT, ALL_OF_SERVER, HANDSHAKE, META, opened
from support.tables import cases

LATEST = REVISIONS[HANDSHAKE[-1]]
NEWEST = REVISIONS["2026-07-28"]
PHASES = [Phase.OPENING, Phase.NEGOTIATING, Phase.NEGOTIATED, Phase.READY]

OPENING = {"protocolVersion": LATEST.id, "capabilities": {"roots": {}}, "clientInfo": {"name": "c"}}
ANSWER = {"protocolVersion": LATEST.id, "capabilities": {"tools": {}}, "serverInfo": {"name": "s"}}


def ask(sender, id, name, *, body=None, token=None, revision=LATEST) -> Step:
    method = revision.requests[sender].get(name)
    exchange = Exchange(id, name, sender, revision, method, token, params=body)
    return Step(sender, REQUEST, name, revision, id, body, exchange=exchange)


def answer(conversation, sender, id, kind=RESULT, body=None) -> Step:
    error = ErrorBody(-32603, "no") if kind == FAULT else UNSET
    return conversation.step(sender, Frame("2.0", id, error=error), body)


def tell(conversation, sender, name, body=None) -> Step:
    return conversation.step(sender, Frame("2.0", method=f"notifications/{name}"), body)


def walk(steps: int, conversation: Conversation | None = None) -> Conversation:
    """A conversation that many steps into its opening."""
    conversation = conversation or Conversation()
    makers = [
        lambda: ask(CLIENT, "open", "initialize", body=OPENING),
        lambda: answer(conversation, SERVER, "open", body=ANSWER),
        lambda: tell(conversation, CLIENT, "initialized"),
    ]
    for make in makers[:steps]:
        assert not conversation.apply(make())
    return conversation


def requirements(violations) -> list[str]:
    return [violation.requirement for violation in violations]


@cases("steps", range(4))
def test_the_opening_passes_through_every_phase(steps):
    assert walk(steps).phase is PHASES[steps]


@cases("key", list(TRANSITIONS), ids=lambda key: f"{key[1]}-{key[2]}-{key[3]}")
def test_every_transition_is_taken_by_its_party_alone(key):
    phase, sender, name, kind = key
    for party in (CLIENT, SERVER):
        conversation = walk(PHASES.index(phase))
        exchange = conversation.open_exchange(CLIENT, "open")
        if kind == REQUEST:
            step = ask(party, "open", name, body=OPENING)
        else:
            step = Step(party, kind, name, LATEST, "open", ANSWER, exchange=exchange)
        conversation.apply(step)
        assert conversation.phase is (TRANSITIONS[key] if party == sender else phase)


@cases("phase", range(4), ids=lambda number: PHASES[number].value)
@cases("sender", [CLIENT, SERVER])
@cases("kind", [REQUEST, NOTIFICATION, RESULT, FAULT])
@cases("name", ["initialize", "notifications/initialized", "ping", "tools/list"])
def test_nothing_else_moves_the_phase(phase, sender, kind, name):
    if (PHASES[phase], sender, name, kind) in TRANSITIONS:
        return
    conversation = walk(phase)
    if kind == REQUEST:
        conversation.apply(ask(sender, 5, name))
    else:
        conversation.apply(Step(sender, kind, name, LATEST, 5))
    assert conversation.phase is PHASES[phase]


def test_a_request_that_names_a_revision_without_handshake_opens_none():
    conversation = Conversation()
    conversation.apply(ask(CLIENT, 1, "initialize", body=OPENING, revision=NEWEST))
    assert conversation.phase is Phase.OPENING


def test_an_error_returns_to_the_beginning():
    conversation = walk(1)
    conversation.apply(answer(conversation, SERVER, "open", FAULT))
    assert conversation.phase is Phase.OPENING
    assert walk(3, conversation).phase is Phase.READY


def test_closing_ends_it():
    conversation = walk(3)
    conversation.close()
    assert conversation.phase is Phase.CLOSED


def test_the_opening_teaches_the_capabilities_of_the_parties():
    conversation = walk(2)
    assert conversation.capabilities(CLIENT) == {"roots"}
    assert conversation.capabilities(SERVER) == {"tools"}


@cases(
    ("named", "agreed"),
    [(id, id) for id in HANDSHAKE]
    + [("2026-07-28", None), ("1999-01-01", None), (None, None), (5, None), ([], None)],
    ids=str,
)
def test_only_a_known_revision_with_a_handshake_is_agreed_on(named, agreed):
    conversation = walk(1)
    conversation.apply(
        answer(conversation, SERVER, "open", body=ANSWER | {"protocolVersion": named})
    )
    assert conversation.revision is (None if agreed is None else REVISIONS[agreed])
    assert conversation.current is (conversation.revision or BEFORE_HANDSHAKE)


@cases(
    ("named", "revision"),
    [
        ("2026-07-28", NEWEST),
        ("2025-06-18", LATEST),
        ("2027-01-01", LATEST),
        (5, LATEST),
        (None, LATEST),
    ],
    ids=str,
)
def test_a_request_belongs_to_the_revision_that_its_meta_names(named, revision):
    assert walk(3).revision_for(named) is revision


# One set of rules for both


def everyday(conversation) -> list[Step]:
    """Steps that either party may take, legal or not."""
    return [
        ask(sender, id, name, body={}, token=token)
        for sender in (CLIENT, SERVER)
        for id in (1, "new")
        for name in ("ping", "tools/list", "roots/list", "no/such", "notifications/cancelled")
        for token in (None, "in use")
    ] + [
        tell(conversation, sender, name, body)
        for sender in (CLIENT, SERVER)
        for name in ("cancelled", "progress", "tools/list_changed", "roots/list_changed")
        for body in (
            None,
            {"requestId": 1},
            {"requestId": 99},
            {"progressToken": "in use", "progress": 5},
            {"progressToken": "in use", "progress": 0},
            {"progressToken": "none", "progress": 1},
        )
    ]


def busy(revision) -> Conversation:
    pair = opened(revision.id, client=t.ClientCapabilities(), server=t.ServerCapabilities())
    conversation = pair.server.conversation
    for sender in (CLIENT, SERVER):
        conversation.apply(ask(sender, 1, "ping", token="in use", revision=revision))
        body = {"progressToken": "in use", "progress": 3}
        conversation.apply(tell(conversation, OTHER[sender], "progress", body))
    return conversation


@cases("revision", HANDSHAKE)
def test_the_same_step_breaks_the_same_rules_in_any_conversation(revision):
    row = REVISIONS[revision]
    first, second = busy(row), busy(row)
    for one, other in zip(everyday(first), everyday(second), strict=True):
        assert first.judge(one) == second.judge(other)


@cases("revision", HANDSHAKE)
@cases(
    ("name", "body", "requirement"),
    [
        ("ping", None, "jsonrpc.request.id-unique"),
        ("cancelled", {"requestId": []}, "cancellation.request-id.previously-issued"),
        ("progress", {"progressToken": "none", "progress": 1}, "progress.notification.active-only"),
        ("progress", {"progressToken": "in use", "progress": 3}, "progress.value.increases"),
    ],
)
def test_both_parties_are_held_to_the_same_rules(revision, name, body, requirement):
    conversation = busy(REVISIONS[revision])
    for sender in (CLIENT, SERVER):
        if name == "ping":
            step = ask(sender, 1, name, revision=REVISIONS[revision])
        else:
            step = tell(conversation, sender, name, body)
        violations = conversation.judge(step)
        assert requirements(violations) == [requirement]
        assert violations[0].party == sender


def test_judging_changes_nothing():
    conversation = walk(3)
    step = ask(CLIENT, 1, "tools/list")
    assert conversation.judge(step) == conversation.judge(step)
    assert conversation.open_exchange(CLIENT, 1) is None


def test_applying_judges_and_takes_the_step_whatever_the_verdict():
    conversation = walk(3)
    assert requirements(conversation.apply(ask(CLIENT, 1, "prompts/list"))) == [
        "lifecycle.capabilities.respected"
    ]
    assert conversation.open_exchange(CLIENT, 1) is not None


def test_a_step_may_break_several_rules():
    conversation = walk(3)
    conversation.apply(ask(CLIENT, 1, "ping"))
    assert set(requirements(conversation.judge(ask(CLIENT, 1, "prompts/list")))) == {
        "jsonrpc.request.id-unique",
        "lifecycle.capabilities.respected",
    }


# Exchanges


def test_an_exchange_is_open_until_it_is_answered():
    conversation = walk(3)
    conversation.apply(ask(SERVER, 1, "ping"))
    assert conversation.find_answered(CLIENT, 1) is conversation.open_exchange(SERVER, 1)
    assert conversation.find_answered(SERVER, 1) is None
    assert conversation.find_answered(CLIENT, None) is None
    conversation.apply(answer(conversation, CLIENT, 1))
    assert conversation.open_exchange(SERVER, 1) is None


def test_of_two_requests_under_one_id_the_first_is_answered():
    conversation = walk(3)
    first = ask(CLIENT, 1, "tools/list", token="a")
    conversation.apply(first)
    conversation.apply(ask(CLIENT, 1, "ping", token="b"))
    assert conversation.open_exchange(CLIENT, 1) is first.exchange
    assert first.exchange.duplicates == 1
    conversation.apply(answer(conversation, SERVER, 1, FAULT))
    assert conversation.open_exchange(CLIENT, 1) is first.exchange
    conversation.apply(answer(conversation, SERVER, 1))
    assert conversation.open_exchange(CLIENT, 1) is None
    assert conversation.parties[CLIENT].tokens == {}


def test_the_refusal_of_the_second_request_may_come_after_the_answer_to_the_first():
    conversation = walk(3)
    first = ask(CLIENT, 1, "tools/list")
    conversation.apply(first)
    conversation.apply(ask(CLIENT, 1, "ping"))
    conversation.apply(answer(conversation, SERVER, 1))
    assert conversation.open_exchange(CLIENT, 1) is None
    assert conversation.find_answered(SERVER, 1) is first.exchange
    conversation.apply(answer(conversation, SERVER, 1, FAULT))
    assert first.exchange.duplicates == 0


@pytest.mark.requirement("cancellation.initialize.excluded")
def test_an_opening_cannot_be_cancelled():
    conversation = walk(1)
    conversation.apply(tell(conversation, CLIENT, "cancelled", {"requestId": "open"}))
    assert conversation.open_exchange(CLIENT, "open") is not None


def test_the_answer_to_a_cancelled_request_is_known_once():
    conversation = walk(3)
    step = ask(CLIENT, 1, "ping", token="t")
    conversation.apply(step)
    conversation.apply(tell(conversation, CLIENT, "cancelled", {"requestId": 1}))
    assert conversation.open_exchange(CLIENT, 1) is None
    assert conversation.parties[CLIENT].tokens == {}
    assert conversation.find_answered(SERVER, 1) is step.exchange
    conversation.apply(answer(conversation, SERVER, 1))
    assert conversation.find_answered(SERVER, 1) is None


def test_a_request_that_is_given_up_may_still_report_progress():
    conversation = walk(3)
    step = ask(CLIENT, 1, "ping", token="t")
    conversation.apply(step)
    conversation.abandon(step.exchange)
    assert tell(conversation, SERVER, "progress", {"progressToken": "t"}).exchange is step.exchange
    conversation.apply(answer(conversation, SERVER, 1))
    assert conversation.parties[CLIENT].tokens == {}


def test_only_so_many_cancelled_requests_are_remembered():
    conversation = walk(3)
    for id in range(2_000):
        conversation.apply(ask(CLIENT, id, "ping"))
        conversation.apply(tell(conversation, CLIENT, "cancelled", {"requestId": id}))
    assert len(conversation.parties[CLIENT].cancelled) == 1024
    assert conversation.find_answered(SERVER, 1_999) is not None


@cases("key", [True, 1.0, None, [1], {}], ids=str)
def test_a_value_that_is_not_an_id_finds_no_exchange(key):
    conversation = walk(3)
    conversation.apply(ask(CLIENT, 1, "ping", token=1))
    conversation.apply(ask(SERVER, 1, "ping", token=1))
    assert tell(conversation, CLIENT, "cancelled", {"requestId": key}).exchange is None
    assert tell(conversation, SERVER, "progress", {"progressToken": key}).exchange is None


@cases(
    ("values", "kept"),
    [((1, 2), 2), ((2, 1), 2), ((0, -1), 0), ((0.5, "x"), 0.5), ((0, True), 0), ((None,), None)],
    ids=str,
)
def test_the_highest_progress_is_kept(values, kept):
    conversation = walk(3)
    step = ask(CLIENT, 1, "ping", token="t")
    conversation.apply(step)
    for value in values:
        body = {"progressToken": "t", "progress": value}
        conversation.apply(tell(conversation, SERVER, "progress", body))
    assert step.exchange.progress == kept


@cases(("token", "found"), [("t", 0), (1, 1), ("1", None), (True, None), (None, None), ([], None)])
def test_progress_that_crossed_a_cancellation_is_recognised(token, found):
    conversation = walk(3)
    asked = [ask(CLIENT, 1, "ping", token="t"), ask(CLIENT, 2, "ping", token=1)]
    for each in (*asked, ask(CLIENT, 3, "ping")):
        conversation.apply(each)
        conversation.apply(tell(conversation, CLIENT, "cancelled", {"requestId": each.id}))
    body = {"progressToken": token, "progress": 1}
    assert conversation.find_subject(SERVER, "notifications/progress", body) is None
    crossed = conversation.find_crossed(SERVER, "notifications/progress", body)
    assert crossed is (None if found is None else asked[found].exchange)
    assert conversation.find_crossed(SERVER, "notifications/message", body) is None


def test_a_subscription_is_what_its_notices_are_about():
    conversation = Conversation(revision=NEWEST)
    listen = ask(CLIENT, "l", "subscriptions/listen", revision=NEWEST)
    conversation.apply(listen)
    conversation.apply(ask(CLIENT, "c", "tools/call", revision=NEWEST))

    def about(sender, name, id):
        body = {"requestId": id, "_meta": {f"{META}subscriptionId": id}}
        return conversation.find_subject(sender, f"notifications/{name}", body)

    for name in ("cancelled", "tools/list_changed", "resources/updated"):
        assert about(SERVER, name, "l") is listen.exchange
        assert about(SERVER, name, "c") is None
    assert about(CLIENT, "tools/list_changed", "l") is None


def test_a_request_stays_open_when_the_other_party_cancels_it():
    conversation = Conversation(revision=NEWEST)
    listen = ask(CLIENT, "l", "subscriptions/listen", revision=NEWEST)
    conversation.apply(listen)
    conversation.apply(tell(conversation, SERVER, "cancelled", {"requestId": "l"}))
    assert conversation.open_exchange(CLIENT, "l") is listen.exchange
    conversation.apply(tell(conversation, CLIENT, "cancelled", {"requestId": "l"}))
    assert conversation.open_exchange(CLIENT, "l") is None


# The short way of requests and replies


class Counting(Conversation):
    """Counts the messages that the rules are asked about."""

    judged = 0

    def apply(self, *args, **more):
        self.judged += 1
        return super().apply(*args, **more)


def ready():
    conversation = Counting()
    conversation.begin(LATEST, server={"tools": {}}, client={})
    return conversation


def test_a_request_to_which_no_rule_can_object_passes_without_being_judged():
    conversation = ready()
    exchange = ask(CLIENT, 9, "tools/call").exchange
    assert conversation.request(exchange) == ()
    assert conversation.open_exchange(CLIENT, 9) is exchange
    assert conversation.reply(exchange) == ()
    assert conversation.open_exchange(CLIENT, 9) is None
    assert conversation.judged == 0


def test_a_reused_id_is_judged_and_a_second_reply_is_refused():
    conversation = ready()
    exchange = ask(CLIENT, 9, "tools/call").exchange
    conversation.request(exchange)
    again = conversation.request(ask(CLIENT, 9, "tools/call").exchange, None, bool)
    assert requirements(again) == ["jsonrpc.request.id-unique"]
    assert conversation.judged == 1
    conversation.reply(exchange)
    assert requirements(conversation.reply(exchange, None, bool)) == ["jsonrpc.request.answered"]


def test_a_progress_token_is_free_again_after_the_short_way():
    conversation = ready()
    exchange = ask(CLIENT, 9, "tools/call", token="t").exchange
    assert conversation.request(exchange) == ()
    second = conversation.request(ask(CLIENT, 10, "tools/call", token="t").exchange, None, bool)
    assert requirements(second) == ["progress.token.unique"]
    conversation.reply(exchange)
    assert conversation.request(ask(CLIENT, 11, "tools/call", token="t").exchange) == ()
    assert conversation.judged == 1


@cases(
    ("name", "token", "revision"),
    [
        ("initialize", None, LATEST),
        ("tasks/list", None, LATEST),
        ("no/such", None, LATEST),
        ("tools/call", "taken", LATEST),
        ("tools/call", None, REVISIONS["2025-06-18"]),
    ],
    ids=["opening", "undeclared", "unknown", "token in use", "other revision"],
)
def test_other_requests_are_judged(name, token, revision):
    conversation = ready()
    conversation.request(ask(CLIENT, 8, "tools/call", token="taken").exchange)
    conversation.request(ask(CLIENT, 9, name, token=token, revision=revision).exchange)
    assert conversation.judged == 1


@pytest.mark.parametrize(
    ("name", "revision"),
    [
        ("no/such", LATEST),
        ("tools/call", REVISIONS["2025-06-18"]),
        ("server/discover", NEWEST),
    ],
    ids=["unknown", "other revision", "discovery"],
)
def test_other_replies_are_judged(name, revision):
    conversation = ready()
    step = ask(CLIENT, 9, name, revision=revision)
    conversation.apply(step)
    conversation.reply(step.exchange)
    assert conversation.judged == 2


def test_messages_that_stand_on_their_own_take_the_short_way_beside_a_session():
    conversation = ready()
    step = ask(CLIENT, 9, "tools/call", revision=NEWEST)
    assert conversation.request(step.exchange) == ()
    assert conversation.reply(step.exchange) == ()
    assert conversation.judged == 0


def test_an_error_reply_is_judged():
    conversation = ready()
    exchange = ask(CLIENT, 9, "tools/call").exchange
    conversation.request(exchange)
    conversation.reply(exchange, error=ErrorBody(-32603, "no"))
    assert conversation.judged == 1
    assert conversation.open_exchange(CLIENT, 9) is None


def test_a_conversation_with_memory_judges_every_request():
    conversation = Counting(memory=Memory())
    walk(3, conversation)
    before = conversation.judged
    conversation.request(ask(CLIENT, 9, "tools/list").exchange)
    assert conversation.judged == before + 1


def test_a_refused_step_changes_nothing():
    conversation = walk(3)
    refused = conversation.apply(ask(CLIENT, 1, "prompts/list"), bool)
    assert requirements(refused) == ["lifecycle.capabilities.respected"]
    assert conversation.open_exchange(CLIENT, 1) is None


def test_a_lost_answer_closes_the_request_and_reopens_the_opening():
    conversation = Conversation()
    opening = ask(CLIENT, "open", "initialize", body=OPENING)
    conversation.apply(opening)
    conversation.lose(opening.exchange)
    assert conversation.open_exchange(CLIENT, "open") is None
    assert conversation.phase is Phase.OPENING


# What a monitor knows beyond that


def test_a_conversation_with_memory_knows_every_used_id():
    conversation = walk(3, Conversation(memory=Memory()))
    conversation.apply(ask(CLIENT, 1, "ping"))
    conversation.apply(answer(conversation, SERVER, 1))
    assert requirements(conversation.judge(ask(CLIENT, 1, "ping"))) == ["jsonrpc.request.id-unique"]
    assert requirements(conversation.judge(answer(conversation, SERVER, 1))) == [
        "jsonrpc.request.answered"
    ]
    cancel = tell(conversation, CLIENT, "cancelled", {"requestId": 77})
    assert requirements(conversation.judge(cancel)) == ["cancellation.request-id.previously-issued"]


def test_requests_without_answers_do_not_grow_a_memory_without_end():
    conversation = walk(3, Conversation(memory=Memory()))
    for state in conversation.parties.values():
        state.open.limit = state.tokens.limit = 10
    for id in range(100):
        conversation.apply(ask(CLIENT, id, "ping", token=id))
    assert len(conversation.parties[CLIENT].open) == len(conversation.parties[CLIENT].tokens) == 10
    late = Exchange(3, "ping", CLIENT, LATEST, None)
    conversation.reply(late)


def test_invented_capabilities_cost_no_new_rules():
    def opened_with(name: str) -> Conversation:
        conversation = Conversation()
        conversation.begin(LATEST, server={"tools": {}}, client={"experimental": {name: {}}})
        return conversation

    first, second = opened_with("a"), opened_with("b")
    assert first.capabilities(CLIENT) != second.capabilities(CLIENT)
    assert first._index is second._index


def test_an_opening_may_have_been_elsewhere():
    conversation = Conversation()
    conversation.begin(LATEST, server={"tools": {}})
    assert conversation.phase is Phase.READY
    assert conversation.revision is LATEST
    assert conversation.capabilities(SERVER) == {"tools"}
    assert conversation.capabilities(CLIENT) is None
    conversation.begin(LATEST, server={"tools": {}}, client={"roots": {}})
    assert conversation.capabilities(CLIENT) == {"roots"}
    assert conversation.request(ask(CLIENT, 1, "tools/list").exchange) == ()


# Capabilities


DECLARED = [
    (None, set()),
    ([], set()),
    ("tools", set()),
    ({}, set()),
    ({"tools": {}}, {"tools"}),
    ({"tools": True}, {"tools"}),
    ({"tools": False}, set()),
    ({"tools": None}, set()),
    ({"tools": {"listChanged": True}}, {"tools", "tools.listChanged"}),
    ({"tools": {"listChanged": False}}, {"tools"}),
    ({"tools": {"listChanged": "yes"}}, {"tools"}),
    (
        {"tasks": {"requests": {"tools": {"call": {}}}}},
        {"tasks", "tasks.requests", "tasks.requests.tools", "tasks.requests.tools.call"},
    ),
    (
        {"a": {"b": {"c": {"d": {"e": {"f": {}}}}}}},
        {"a", "a.b", "a.b.c", "a.b.c.d", "a.b.c.d.e"},
    ),
    (
        t.ServerCapabilities(resources=t.ResourcesCapability(subscribe=True)),
        {"resources", "resources.subscribe"},
    ),
]


@cases(("declared", "paths"), DECLARED, ids=[str(declared) for declared, _ in DECLARED])
def test_capabilities_become_dotted_paths(declared, paths):
    assert capability_paths(declared) == paths


def test_all_that_can_be_declared_is_found():
    assert {"roots.listChanged", "sampling", "elicitation"} <= capability_paths(ALL_OF_CLIENT)
    assert {"tools", "completions", "logging"} <= capability_paths(ALL_OF_SERVER)


def test_without_handshake_a_client_declares_in_each_request():
    conversation = walk(3)
    meta = {f"{META}clientCapabilities": {"sampling": {}}}
    step = ask(CLIENT, 1, "tools/call", body={"_meta": meta}, revision=NEWEST)
    assert conversation.capabilities(CLIENT, step.exchange) == {"sampling"}
    assert conversation.capabilities(SERVER, step.exchange) == {"tools"}
    assert conversation.capabilities(CLIENT, ask(CLIENT, 2, "tools/call").exchange) == {"roots"}


def test_a_discovery_teaches_what_a_server_can_do():
    conversation = Conversation(revision=NEWEST)
    conversation.apply(ask(CLIENT, 1, "server/discover", revision=NEWEST))
    body = {"capabilities": {"prompts": {}}}
    conversation.apply(answer(conversation, SERVER, 1, body=body))
    assert conversation.capabilities(SERVER) == {"prompts"}
    assert conversation.capabilities(CLIENT) is None


def test_a_discovery_that_fails_teaches_nothing():
    conversation = Conversation(revision=NEWEST)
    conversation.apply(ask(CLIENT, 1, "server/discover", revision=NEWEST))
    conversation.apply(answer(conversation, SERVER, 1, FAULT))
    assert conversation.capabilities(SERVER) is None


def test_paths_that_were_flattened_before_are_taken_as_they_are():
    paths = frozenset({"tools", "tools.listChanged"})
    assert capability_paths(paths) is paths


def test_a_conversation_is_blank_until_something_is_open_in_it():
    conversation = Conversation()
    conversation.begin(LATEST, server={"tools": {}})
    assert conversation.is_blank
    conversation.apply(ask(CLIENT, 1, "tools/list", token=5))
    assert not conversation.is_blank


@pytest.mark.parametrize("sender", [CLIENT, SERVER])
def test_a_conversation_is_not_blank_after_a_request_or_a_cancellation(sender):
    conversation = walk(3)
    conversation.apply(ask(sender, 1, "ping"))
    assert not conversation.is_blank
    conversation.apply(answer(conversation, OTHER[sender], 1))
    assert conversation.is_blank
    conversation.apply(ask(sender, 2, "ping"))
    conversation.apply(tell(conversation, sender, "cancelled", {"requestId": 2}))
    assert not conversation.is_blank


def test_a_request_without_a_record_gets_an_exchange():
    step = walk(3).step(CLIENT, Frame("2.0", 7, "ping"))
    assert (step.exchange.id, step.exchange.name) == (7, "ping")


@pytest.mark.requirement("jsonrpc.request.answered")
@pytest.mark.parametrize("is_refused", [True, False])
def test_a_second_answer_is_judged_by_the_caller_that_may_refuse_it(is_refused):
    conversation = walk(3)
    exchange = ask(CLIENT, 7, "ping").exchange
    found = []

    def refuse(violations):
        found.extend(violations)
        return is_refused

    conversation.reply(exchange, t.EmptyResult(), refuse)
    assert requirements(found)[0] == "jsonrpc.request.answered"

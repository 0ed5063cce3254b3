"""The bystander: what it finds, what it holds back, what it forgets."""

import gc
import sys

import msgspec
import pytest

from accord.protocol.monitor import JUDGED_HERE, Monitor
from accord.protocol.revisions import REVISIONS
from accord.trace import Record
from support.tables import cases
from support.traces import INFO, META, C, S, judge, opening, records

LATEST = "2025-11-25"
MODERN = "2026-07-28"
HANDSHAKE = [row.id for row in REVISIONS.values() if row.handshake]
VERSION = "jsonrpc.message.version-2-0"
TOOLS = {"tools": {}}


def watched(monitor: Monitor, said, revision: str = LATEST, **options) -> list:
    found = []
    for record in records(said, revision, **options):
        found += monitor.observe(record)
    return found


def requirements(violations) -> list[str]:
    return [violation.requirement for violation in violations]


def verdict(monitor: Monitor, id: str):
    (found,) = (each for each in monitor.verdicts() if each.id == id)
    return found


def modern(**meta) -> dict:
    return {
        "_meta": {
            f"{META}protocolVersion": MODERN,
            f"{META}clientCapabilities": {},
            f"{META}clientInfo": INFO,
            **meta,
        }
    }


@pytest.mark.requirement("cancellation.request-id.previously-issued")
@pytest.mark.parametrize("misses", [True, False])
def test_a_request_may_have_been_among_the_messages_that_were_missed(misses):
    monitor = Monitor(revision=LATEST)
    assert watched(monitor, opening(LATEST)) == []
    if misses:
        monitor.miss("server")
    found = requirements(watched(monitor, [S.notify("cancelled", {"requestId": 11})]))
    assert found == ([] if misses else ["cancellation.request-id.previously-issued"])


# The revision


@cases("revision", HANDSHAKE)
def test_the_revision_is_found_in_the_handshake(revision):
    monitor, found = judge([], revision)
    assert monitor.revision == revision
    assert found == []


def test_the_revision_is_the_one_the_server_chose():
    monitor = Monitor()
    client, _, _ = opening(LATEST)
    _, server, ready = opening("2025-03-26")
    assert watched(monitor, [client, server, ready]) == []
    assert monitor.close() == []
    assert monitor.revision == "2025-03-26"


def test_without_an_answer_the_revision_is_the_one_that_the_client_asked_for():
    monitor = Monitor()
    client, _, _ = opening("2025-03-26")
    watched(monitor, [client, C.request(2, "ping", {})])
    monitor.close()
    assert monitor.revision == "2025-03-26"


def test_a_fallback_to_an_unknown_revision_changes_nothing():
    monitor = Monitor()
    unknown = C.request(2, "initialize", {"protocolVersion": "2027-01-01"})
    watched(monitor, [C.request(1, "tools/list", modern()), unknown])
    monitor.close()
    assert monitor.revision == MODERN


def test_the_revision_is_found_in_meta():
    monitor, found = judge([C.request(1, "tools/list")], MODERN)
    assert monitor.revision == MODERN
    assert found == []


@cases("revision", REVISIONS)
def test_the_revision_may_be_given(revision):
    monitor = Monitor(revision=revision)
    assert monitor.revision == revision
    watched(monitor, opening("2024-11-05"))
    assert monitor.revision == revision
    assert monitor.conversation.current is REVISIONS[revision]


def test_with_a_given_revision_nothing_is_held_back():
    found = watched(Monitor(revision=LATEST), [C.request(1, "tools/list")])
    assert requirements(found) == ["lifecycle.initialize.first"]


def test_there_is_a_revision_only_after_it_was_named():
    monitor = Monitor()
    assert watched(monitor, [C.request(1, "ping"), S.result(1, {})]) == []
    assert monitor.revision is None


@cases("named", ["2027-01-01", 5, None, ["2026-07-28"], "2025-06-18"])
def test_a_name_in_meta_that_no_revision_without_handshake_has_decides_nothing(named):
    monitor = Monitor()
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "x",
        "params": {"_meta": {f"{META}protocolVersion": named}},
    }
    watched(monitor, [C.json(message)])
    assert monitor.revision is None


@cases("named", ["2027-01-01", "2026-07-28", 5, None, []])
def test_an_answer_that_names_no_revision_with_handshake_decides_nothing(named):
    monitor = Monitor()
    client, _, _ = opening(LATEST)
    watched(monitor, [client, S.result("open", {"protocolVersion": named})])
    assert monitor.revision is None
    monitor.close()
    assert monitor.revision == LATEST


def test_a_client_answers_no_opening():
    monitor = Monitor()
    watched(monitor, [C.result(1, {"protocolVersion": LATEST})])
    monitor.close()
    assert monitor.revision is None


def test_the_opening_is_judged_by_the_revision_it_leads_to():
    # Clients have declared elicitation since 2025-06-18, and the name did not exist before.
    client, server, ready = opening("2024-11-05")
    monitor = Monitor()
    assert monitor.observe(*records([client], LATEST)) == []
    assert monitor.messages == 0
    assert watched(monitor, [server, ready]) == []
    assert monitor.messages == 3


def test_violations_of_the_opening_come_when_it_is_released():
    _, server, _ = opening(LATEST)
    client = C.request("open", "initialize", {"protocolVersion": LATEST, "capabilities": {}})
    monitor = Monitor()
    assert watched(monitor, [client]) == []
    found = watched(monitor, [server])
    assert found
    assert {violation.party for violation in found} == {"client"}
    assert {violation.number for violation in found} == {1}


def test_an_end_releases_what_was_held_back():
    monitor = Monitor()
    assert watched(monitor, [C.request(1, "tools/list")]) == []
    assert requirements(monitor.close()) == ["lifecycle.initialize.first"]
    assert monitor.close() == []


def test_the_number_of_records_held_back_is_limited():
    monitor = Monitor()
    said = [C.request(number, "tools/list") for number in range(64)]
    assert watched(monitor, said[:63]) == []
    assert len(watched(monitor, said[63:])) == 64
    assert monitor.revision is None
    assert watched(monitor, [C.request(99, "tools/list")])


def test_text_that_is_not_a_message_is_not_held_back():
    monitor = Monitor()
    assert watched(monitor, [S.text("Starting up")] * 100)
    assert watched(monitor, [C.request(1, "tools/list")], MODERN) == []
    assert monitor.revision == MODERN


def test_a_client_that_falls_back_to_the_handshake_is_followed():
    monitor = Monitor()
    probe = C.request("probe", "server/discover", modern())
    assert watched(monitor, [probe, S.error("probe", -32601, "what?")]) == []
    assert monitor.revision == MODERN
    said = [
        *opening("2025-06-18", server=TOOLS),
        C.request(1, "tools/list"),
        S.result(1, {"tools": []}),
    ]
    assert watched(monitor, said) == []
    assert monitor.revision == "2025-06-18"


def test_a_handshake_that_is_refused_is_not_judged_by_a_revision_without_one():
    monitor = Monitor()
    client, _, _ = opening("2025-06-18")
    said = [
        C.request("probe", "server/discover", modern()),
        S.error("probe", -32601, "what?"),
        client,
        S.error(client.message["id"], -32022, "no", data={"supported": [MODERN], "requested": "x"}),
        C.request(7, "tools/list", modern()),
    ]
    found = watched(monitor, said)
    assert monitor.revision == MODERN
    assert [each for each in found if each.party == "client"] == []


def test_a_handshake_that_is_asked_for_twice_is_judged_whole():
    monitor = Monitor()
    client, server, ready = opening("2025-06-18")
    watched(monitor, [C.request(1, "tools/list", modern()), client, client, server, ready])
    assert monitor.messages == 5


def test_messages_beside_the_handshake_are_judged_by_their_own_revision():
    monitor = Monitor()
    client, server, ready = opening("2025-06-18", server=TOOLS)
    said = [
        client,
        S.request("open", "ping"),
        S.error("other"),
        C.request(1, "tools/list", modern()),
        server,
        ready,
        S.result(1, {"tools": []}),
    ]
    found = watched(monitor, said)
    assert monitor.revision == "2025-06-18"
    assert "result.type.present" in requirements(found)


def test_a_refused_handshake_leaves_the_choice_open():
    monitor = Monitor()
    client, _, _ = opening(LATEST)
    said = [client, S.error("other"), S.error("open", -32601, "modern only")]
    watched(monitor, said)
    assert monitor.revision is None
    watched(monitor, [C.request(1, "tools/list", modern())])
    assert monitor.revision == MODERN


def test_a_given_revision_is_not_given_up_for_one_in_meta():
    monitor = Monitor(revision="2025-06-18")
    said = [C.request(1, "tools/list", modern()), S.result(1, {"tools": []})]
    found = watched(monitor, [*opening("2025-06-18", server=TOOLS), *said], "2025-06-18")
    assert "result.type.present" not in requirements(found)


def test_a_given_revision_is_not_given_up_for_a_handshake():
    monitor = Monitor(revision=MODERN)
    found = watched(monitor, opening(LATEST))
    assert monitor.revision == MODERN
    assert found


@pytest.mark.parametrize("text", ['"initialize"', '{"method":"initialized"}', "{"])
def test_the_mere_word_opens_nothing(text):
    monitor = Monitor()
    watched(monitor, [C.request(1, "tools/list", modern()), C.text(text)])
    assert monitor.revision == MODERN
    assert monitor.messages == 2


@pytest.mark.parametrize(
    ("told", "before", "speaker"),
    [
        (MODERN, [], C),
        (None, [C.request(1, "tools/list", modern())], S),
    ],
    ids=["with a given revision", "by a server"],
)
def test_an_opening_that_opens_nothing_anew_is_judged_at_once(told, before, speaker):
    monitor = Monitor(revision=told)
    watched(monitor, before)
    params = {"protocolVersion": LATEST, "capabilities": {}, "clientInfo": INFO, "_meta": {}}
    assert watched(monitor, [speaker.request(9, "initialize", params)])
    assert monitor.messages == len(before) + 1


@cases(
    "params",
    [None, {"protocolVersion": "2030-01-01"}, {}, {"protocolVersion": MODERN}],
)
def test_a_second_opening_that_names_no_known_revision_is_judged_by_the_first(params):
    monitor = Monitor()
    watched(monitor, opening("2024-11-05"))
    watched(monitor, [C.request(9, "initialize", params)])
    assert monitor.conversation.parties["client"].open[9].revision.id == "2024-11-05"


def test_initialize_that_names_a_revision_without_handshake_opens_none():
    monitor = Monitor()
    watched(monitor, [C.request(1, "tools/list", modern()), C.request(2, "initialize", modern())])
    assert monitor.messages == 2


# Batches


def test_a_batch_is_judged_message_by_message():
    said = [
        C.batch(C.request(1, "tools/list"), C.request(2, "tools/list"), C.request(1, "ping")),
        S.batch(S.result(1, {"tools": []}), S.result(2, {"tools": []}), S.error(1)),
    ]
    _, found = judge(said, "2025-03-26", server=TOOLS)
    assert requirements(found) == ["jsonrpc.request.id-unique"]


@pytest.mark.requirement("jsonrpc.batch.removed")
@cases("revision", [id for id in REVISIONS if not REVISIONS[id].batching])
def test_a_batch_in_a_revision_without_batches_is_reported(revision):
    _, found = judge([C.batch(C.request("b", "ping"))], revision)
    assert "jsonrpc.batch.removed" in requirements(found)


def test_a_batch_may_be_refused_as_a_whole():
    said = [
        C.batch(C.request(1, "ping"), C.notify("roots/list_changed")).at(1.0),
        S.error(None, -32600, "no batches here").at(2.0),
        C.request(2, "ping").at(900.0),
    ]
    _, found = judge(said, LATEST, client={"roots": {"listChanged": True}})
    assert requirements(found) == ["jsonrpc.batch.removed"]


def test_a_batch_that_opens_may_be_refused_as_a_whole():
    client, _, _ = opening("2025-03-26")
    monitor = Monitor(revision="2025-03-26")
    said = [
        C.batch(client, C.request(1, "ping")).at(1.0),
        S.error(None, -32600, "not in a batch").at(2.0),
        C.request(2, "ping").at(900.0),
    ]
    found = watched(monitor, said)
    assert requirements(found) == ["lifecycle.initialize.not-in-batch"]


def test_a_batch_that_opens_may_be_refused_message_by_message():
    client, _, _ = opening("2025-03-26")
    said = [
        C.batch(client, C.request(1, "ping")),
        S.error("open", -32600, "not in a batch"),
        S.error(1, -32600, "not in a batch"),
        *opening("2025-03-26"),
    ]
    monitor = Monitor(revision="2025-03-26")
    found = requirements(watched(monitor, said))
    assert found == ["lifecycle.initialize.not-in-batch", "jsonrpc.request.id-unique"]


def test_an_http_refusal_of_a_batch_may_have_an_array_as_its_body():
    facts = {"method": "POST", "status": 400, "headers": {"content-type": "application/json"}}
    refusals = [S.error(id, -32600, "no batches").message for id in (1, 2)]
    said = [C.batch(C.request(1, "ping"), C.request(2, "ping")), S.json(refusals).over(**facts)]
    _, found = judge(said, LATEST)
    assert [str(violation) for violation in found if violation.party == "server"] == []


def test_a_batch_of_answers_leaves_the_requests_of_its_sender_open():
    said = [
        C.request(1, "ping").at(1.0),
        S.request(1, "ping").at(1.0),
        C.batch(C.result(1, {})).at(2.0),
        C.notify("roots/list_changed").at(900.0),
    ]
    _, found = judge(said, LATEST, client={"roots": {"listChanged": True}})
    assert requirements(found) == ["jsonrpc.batch.removed", "jsonrpc.request.answered"]


def test_a_batch_may_be_answered_all_the_same():
    said = [C.batch(C.request(1, "ping")), S.result(1, {})]
    _, found = judge(said, LATEST)
    assert requirements(found) == ["jsonrpc.batch.removed"]


def test_a_malformed_element_is_reported_beside_the_others():
    said = [
        C.json([{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"id": 2}, 5]),
        S.result(1, {}),
        S.error(None, -32600, "what?"),
        S.error(None, -32600, "what?"),
    ]
    _, found = judge(said, "2025-03-26")
    assert requirements(found) == ["jsonrpc.message.version-2-0"] * 2


# Malformed messages


@cases(
    ("said", "requirement"),
    [
        (S.text("Starting up"), "stdio.server.stdout-only-messages"),
        (C.text("hello?"), "stdio.client.stdin-only-messages"),
    ],
    ids=["server", "client"],
)
@cases("revision", REVISIONS)
def test_text_on_stdio_that_is_not_a_message_is_reported(said, requirement, revision):
    _, found = judge([C.request(1, "ping")] * (revision in HANDSHAKE) + [said], revision)
    assert found[-1].party == said.sender
    assert found[-1].requirement == requirement


def test_text_over_http_is_a_malformed_message():
    monitor = Monitor(revision=LATEST)
    (violation,) = watched(monitor, [S.text("oops")], transport="http")
    assert violation.requirement == "jsonrpc.message.version-2-0"
    assert "not JSON at byte 0" in violation.why


@pytest.mark.parametrize("raw", [None, "", " \n"])
def test_records_without_any_text_say_nothing(raw):
    monitor = Monitor()
    assert monitor.observe(Record(sender="client", transport="http", raw=raw)) == []
    assert monitor.messages == 0


def test_bytes_that_are_not_text_are_reported_as_such():
    monitor = Monitor(revision=LATEST)
    text = b"caf\xe9".decode(errors="surrogateescape")
    (violation,) = monitor.observe(Record(sender="server", transport="sse", raw=text))
    assert violation.requirement == "jsonrpc.encoding.utf8"
    assert violation.evidence.startswith("caf")


def test_a_reply_whose_text_breaks_a_rule_of_responses_is_judged_by_it():
    _, found = judge([C.request(1, "ping"), S.json({"jsonrpc": "2.0", "id": 1})], LATEST)
    assert requirements(found) == ["jsonrpc.response.result-xor-error"]


def test_a_requirement_that_was_replaced_is_reported_as_its_successor():
    _, found = judge([C.request(1, "ping"), S.error(None)], LATEST)
    assert requirements(found) == ["jsonrpc.error.id-echoed-or-unreadable"]


def test_a_requirement_that_does_not_hold_yet_is_reported_as_the_general_one():
    text = b'"\xff"'.decode(errors="surrogateescape")
    monitor = Monitor(revision="2024-11-05")
    (violation,) = monitor.observe(Record(sender="server", transport="sse", raw=text))
    assert violation.requirement == "jsonrpc.message.version-2-0"


# Errors without id


def test_an_error_without_id_may_follow_what_could_not_be_read():
    _, found = judge([C.text("nope"), S.error(None, -32700, "no JSON")], LATEST)
    assert requirements(found) == ["stdio.client.stdin-only-messages"]


def test_one_unreadable_message_excuses_one_error():
    error = S.error(None, -32700, "no JSON")
    _, found = judge([C.text("nope"), error, error], "2025-06-18")
    assert requirements(found)[1:] == ["jsonrpc.notification.not-answered"]


@pytest.mark.requirement("jsonrpc.notification.not-answered")
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_an_error_without_id_must_not_answer_a_notification(revision):
    _, found = judge(
        [C.notify("roots/list_changed"), S.error(None)],
        revision,
        client={"roots": {"listChanged": True}},
    )
    assert requirements(found) == ["jsonrpc.notification.not-answered"]
    assert found[0].party == "server"


@pytest.mark.requirement("jsonrpc.response.id-echo")
@pytest.mark.parametrize(("asker", "other"), [(C, S), (S, C)], ids=["server", "client"])
def test_an_error_without_id_must_not_answer_a_readable_request(asker, other):
    _, found = judge([asker.request(1, "ping"), other.error(None)], "2025-06-18")
    assert requirements(found) == ["jsonrpc.response.id-echo"]


@pytest.mark.parametrize(("status", "is_breach"), [(200, True), (400, False)])
def test_an_error_without_id_may_refuse_a_request_of_http_as_such(status, is_breach):
    said = [C.request(1, "ping").over(method="POST"), S.error(None).over(status=status)]
    found = watched(Monitor(revision="2025-06-18"), said, "2025-06-18", transport="http")
    assert ("jsonrpc.response.id-echo" in requirements(found)) is is_breach


@pytest.mark.parametrize("party", [C, S], ids=["client", "server"])
def test_an_error_without_id_that_is_said_first_answers_nothing(party):
    found = watched(Monitor(revision="2025-06-18"), [party.error(None)])
    assert "jsonrpc.response.id-echo" in requirements(found)


@pytest.mark.parametrize("number", ["1e400", "9" * 5000])
def test_a_number_that_is_too_large_may_be_refused_and_may_be_answered(number):
    text = '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"com.example/n":N}}}'
    said = C.text(text.replace("N", number))
    for reply in (S.error(None, -32700, "too large"), S.result(1, {})):
        _, found = judge([said, reply], LATEST)
        assert requirements(found) == ["jsonrpc.message.version-2-0"]
        assert found[0].party == "client"


# Time


def overdue(said, patience: float = 10.0, revision: str = LATEST, **options):
    monitor = Monitor(patience=patience)
    before = [each.at(0.0) for each in opening(revision, server=TOOLS, client={"roots": {}})]
    return watched(monitor, [*before, *said], revision, **options)


@pytest.mark.requirement("jsonrpc.request.answered")
def test_an_answer_is_overdue_when_patience_is_over():
    request = C.request(1, "tools/list").at(1.0)
    assert overdue([request, C.request(2, "ping").at(11.0)]) == []
    found = overdue([request, C.request(2, "ping").at(11.5)])
    assert requirements(found) == ["jsonrpc.request.answered"]
    assert found[0].party == "server"
    assert found[0].why == "leaves tools/list (id 1) unanswered for 10 s"


def test_patience_lasts_five_minutes_by_default():
    said = [*opening(LATEST), C.request(1, "ping").at(1.0), S.request(2, "ping").at(301.0)]
    monitor = Monitor()
    assert watched(monitor, said) == []
    assert requirements(watched(monitor, [S.request(3, "ping").at(301.5)])) == [
        "jsonrpc.request.answered"
    ]


@pytest.mark.parametrize("patience", [0.0, -5.0])
def test_without_patience_an_answer_has_to_come_before_the_next_moment(patience):
    request = C.request(1, "tools/list").at(1.0)
    assert overdue([request, C.request(2, "ping").at(1.0)], patience) == []
    found = overdue([request, C.request(2, "ping").at(1.5)], patience)
    assert requirements(found) == ["jsonrpc.request.answered"]


@pytest.mark.requirement("jsonrpc.response.client-sends")
def test_a_client_owes_answers_too():
    found = overdue([S.request(1, "roots/list").at(1.0), S.request(2, "ping").at(20.0)])
    assert [violation.party for violation in found] == ["client"]


def test_each_missing_answer_is_reported_once():
    said = [C.request(number, "tools/list").at(1.0) for number in range(1, 4)]
    found = overdue([*said, C.request(8, "ping").at(20.0), C.request(9, "ping").at(21.0)])
    assert requirements(found) == ["jsonrpc.request.answered"] * 3


def test_an_overdue_answer_that_comes_after_all_is_known():
    said = [C.request(1, "tools/list").at(1.0), C.request(2, "ping").at(20.0)]
    late = [S.result(1, {"tools": []}).at(21.0), S.result(2, {}).at(21.0)]
    assert requirements(overdue([*said, *late])) == ["jsonrpc.request.answered"]


def test_progress_renews_patience():
    meta = {"_meta": {"progressToken": "t"}}
    said = [
        C.request(1, "tools/call", {"name": "x", "arguments": {}, **meta}).at(1.0),
        C.request(2, "tools/list").at(2.0),
        S.notify("progress", {"progressToken": "t", "progress": 1}).at(9.0),
        C.request(3, "ping").at(15.0),
    ]
    found = overdue(said)
    assert [violation.why for violation in found] == [
        "leaves tools/list (id 2) unanswered for 10 s"
    ]


def test_progress_without_a_time_renews_nothing():
    meta = {"_meta": {"progressToken": "t"}}
    said = [
        C.request(1, "tools/call", {"name": "x", "arguments": {}, **meta}).at(1.0),
        S.notify("progress", {"progressToken": "t", "progress": 1}),
        C.request(3, "ping").at(15.0),
    ]
    assert requirements(overdue(said)) == ["jsonrpc.request.answered"]


def test_progress_that_crossed_a_cancellation_is_not_a_breach():
    params = {"name": "x", "arguments": {}, "_meta": {"progressToken": "t"}}
    said = [
        C.request(1, "tools/call", params),
        C.notify("cancelled", {"requestId": 1}),
        S.notify("progress", {"progressToken": "t", "progress": 1}),
    ]
    _, found = judge(said, LATEST, server=TOOLS)
    assert found == []


def test_late_progress_of_an_overdue_request_is_not_a_second_breach():
    meta = {"_meta": {"progressToken": "t"}}
    said = [
        C.request(1, "tools/call", {"name": "x", "arguments": {}, **meta}).at(1.0),
        C.request(2, "ping").at(15.0),
        S.notify("progress", {"progressToken": "t", "progress": 1}).at(16.0),
    ]
    assert requirements(overdue(said)) == ["jsonrpc.request.answered"]


def test_a_request_without_a_time_waits_from_the_first_time_there_is():
    said = [
        C.request(1, "tools/list"),
        C.request(2, "ping").at(50.0),
        C.request(3, "ping").at(55.0),
    ]
    assert overdue(said) == []
    said.append(C.notify("roots/list_changed").at(61.0))
    assert requirements(overdue(said))[:2] == ["jsonrpc.request.answered"] * 2


def test_a_subscription_is_never_overdue_and_hides_nothing():
    filter_ = {"notifications": {"toolsListChanged": True}}
    tag = {"_meta": {f"{META}subscriptionId": "l"}}
    said = [
        C.request("l", "subscriptions/listen", filter_).at(0.0),
        S.notify("subscriptions/acknowledged", filter_ | tag).at(0.0),
        C.request(1, "tools/list").at(1.0),
        C.request(2, "tools/list").at(100.0),
    ]
    found = overdue(said, revision=MODERN)
    assert [violation.why for violation in found] == [
        "leaves tools/list (id 1) unanswered for 10 s"
    ]


@cases("t", [float("nan"), float("inf"), -1e300, 1e300])
@cases("patience", [0.0, -5.0, float("inf")])
def test_strange_times_come_to_an_end(t, patience):
    monitor = Monitor(revision=MODERN, patience=patience)
    said = [
        C.request("l", "subscriptions/listen", {"notifications": {}}).at(t),
        C.request(1, "tools/list").at(t),
        C.request(2, "tools/list").at(5.0),
        C.request(3, "tools/list").at(t),
    ]
    watched(monitor, said, MODERN)
    assert monitor.messages == 4


# Counting and verdicts


def test_breaches_are_counted_and_the_first_are_kept():
    said = [C.request(1, "ping")] * 8
    monitor, _ = judge(said, LATEST)
    tally = monitor.tallies["jsonrpc.request.id-unique"]
    assert (tally.breaches, len(tally.kept), tally.worst) == (7, 5, "fail")
    assert [violation.number for violation in tally.kept] == [5, 6, 7, 8, 9]
    result = verdict(monitor, "jsonrpc.request.id-unique")
    assert result.verdict == "fail"
    assert result.message == "sends id 1 while it is in flight (and 6 more)"
    assert [evidence.number for evidence in result.evidence] == [5, 6, 7, 8, 9]
    assert result.evidence[0].party == "client"
    assert '"method":"ping"' in result.evidence[0].message


def test_nothing_need_be_kept():
    monitor = Monitor(kept=0)
    watched(
        monitor,
        [*opening(LATEST), C.request(1, "ping"), C.request(1, "ping"), C.request(1, "ping")],
    )
    result = verdict(monitor, "jsonrpc.request.id-unique")
    assert (result.verdict, result.message, result.evidence) == ("fail", "broken 2 times", [])


def test_a_single_breach_is_reported_as_it_is():
    monitor, _ = judge([C.request(1, "ping"), C.request(1, "ping")], LATEST)
    assert (
        verdict(monitor, "jsonrpc.request.id-unique").message == "sends id 1 while it is in flight"
    )


def test_long_evidence_is_cut():
    _, found = judge(
        [C.request(1, "ping"), C.request(1, "ping", {"_meta": {"x": "y" * 999}})], LATEST
    )
    assert found[0].evidence == '{"jsonrpc":"2.0","id":1,"method":"ping","params":{...}}'
    assert (found[0].place, found[0].mark) == ("/id", (22, 23))


def test_a_requirement_that_held_passes_with_its_count():
    monitor, _ = judge([C.request(1, "ping"), S.result(1, {})], LATEST)
    result = verdict(monitor, "jsonrpc.request.id-unique")
    assert (result.verdict, result.message) == ("pass", "held 2 times")
    assert verdict(monitor, "lifecycle.initialized.sent").message == "held"


@cases("revision", HANDSHAKE)
@cases(
    ("method", "params", "result", "areas"),
    [
        ("ping", None, {}, {"ping"}),
        (
            "tools/list",
            None,
            {"tools": [{"name": "x", "description": "y", "inputSchema": {"type": "object"}}]},
            {"schema", "tools"},
        ),
        ("tools/call", {"name": "x"}, {"content": [{"type": "text", "text": "y"}]}, {"tools"}),
        ("resources/list", None, {"resources": [{"uri": "a:b", "name": "x"}]}, {"resources"}),
        ("resources/read", {"uri": "a:b"}, {"contents": []}, {"resources"}),
        ("prompts/list", None, {"prompts": [{"name": "x"}]}, {"prompts"}),
        ("prompts/get", {"name": "x"}, {"messages": []}, {"prompts"}),
        ("logging/setLevel", {"level": "info"}, {}, {"logging"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_requirement_without_messages_is_not_exercised(method, params, result, areas, revision):
    from accord.protocol.catalogue import catalogue

    offers = {"tools": {}, "resources": {}, "prompts": {}, "logging": {}}
    said = [C.request(1, method, params), S.result(1, result)]
    monitor, _ = judge(said, revision, server=offers)
    found = {catalogue()[id].area for id, tally in monitor.tallies.items() if tally.exercised}
    assert found - {"jsonrpc", "lifecycle", "practice"} <= areas


def test_the_absence_of_an_optional_member_is_reported_and_breaks_nothing():
    tool = {"name": "x", "inputSchema": {"type": "object"}}
    said = [C.request(1, "tools/list"), S.result(1, {"tools": [tool, {**tool, "name": "y"}]})]
    monitor, found = judge(said, "2025-06-18", server=TOOLS)
    assert found == []
    told = verdict(monitor, "tools.item.description")
    assert (told.verdict, told.level, told.evidence) == ("pass", "MAY", [])
    assert told.message.startswith("held; sends ")
    assert told.message.endswith("without description, which is optional")


def test_a_failure_outweighs_warnings_whatever_comes_first():
    monitor = Monitor(revision=LATEST)
    record = Record(sender="client", message=msgspec.Raw(b"{}"))
    from accord.protocol.violation import Violation

    for severity in ("warn", "fail", "warn"):
        monitor._report(
            record, [Violation("ping.response.empty", "client", "x", severity=severity)]
        )
    assert monitor.tallies["ping.response.empty"].worst == "fail"


def test_a_requirement_that_cannot_apply_says_why():
    monitor, _ = judge([], LATEST)
    by_area = {each.id: each for each in monitor.verdicts()}
    sampling = [each for id, each in by_area.items() if id.startswith("sampling.")]
    assert {each.verdict for each in sampling} <= {"not-applicable", "not-exercised"}
    undeclared = [each.message for each in sampling if each.verdict == "not-applicable"]
    assert "the client did not declare sampling" in undeclared
    over_http = next(each for id, each in by_area.items() if id.startswith("http."))
    assert over_http.message == "the conversation does not run over http"


def test_a_requirement_that_was_not_exercised_says_why():
    monitor, _ = judge([], LATEST, client={"roots": {}})
    found = {each.id: each for each in monitor.verdicts()}
    assert found["progress.value.increases"].verdict == "not-exercised"
    assert found["progress.value.increases"].message == "no message put this to the test"
    reasons = {each.message for each in found.values() if each.verdict == "not-exercised"}
    assert "no recording can show this; it takes a person" in reasons
    assert "no recording can show this; it takes a check of kind server-probe" in reasons


@cases("revision", REVISIONS)
def test_every_requirement_of_the_revision_has_a_verdict(revision):
    from accord.protocol.catalogue import catalogue

    monitor = Monitor(revision=revision)
    verdicts = monitor.verdicts()
    held = {row.id for row in catalogue().values() if row.holds_in(revision)}
    assert {each.id for each in verdicts} == held
    assert {each.verdict for each in verdicts} == {"not-applicable", "not-exercised"} or {
        each.verdict for each in verdicts
    } == {"not-exercised"}
    assert all(each.message and each.revisions and revision in each.revisions for each in verdicts)


def test_a_breach_of_another_revision_is_reported_as_well():
    # The batch breaks a rule of later revisions, which 2024-11-05 shares without saying so.
    monitor, _ = judge([C.batch(C.request(1, "ping"))], "2024-11-05")
    assert verdict(monitor, "jsonrpc.batch.removed").verdict == "fail"


def test_every_requirement_judged_without_a_rule_exists():
    from accord.protocol.catalogue import catalogue

    assert set(catalogue()) >= JUDGED_HERE


# Memory and hostility


def exchange_of(number: int) -> list[Record]:
    return records([C.request(number, "ping").at(number), S.result(number, {}).at(number)], LATEST)


def test_a_long_conversation_needs_no_more_memory_than_a_short_one():
    monitor = Monitor()
    watched(monitor, opening(LATEST))

    def blocks_after(numbers: range) -> int:
        for number in numbers:
            for record in exchange_of(number):
                monitor.observe(record)
        gc.collect()
        return sys.getallocatedblocks()

    before = blocks_after(range(1, 1_001))
    assert blocks_after(range(1_001, 6_001)) - before < 1_000
    assert monitor.messages == 12_003
    for state in monitor.conversation.parties.values():
        assert len(state.open) == len(state.tokens) == len(state.cancelled) == 0


def test_requests_without_answers_are_forgotten_by_time():
    monitor = Monitor(patience=10)
    watched(monitor, opening(LATEST))
    for number in range(2_000):
        monitor.observe(*records([C.request(number, "ping").at(float(number))], LATEST))
    assert len(monitor.conversation.parties["client"].open) == 11
    assert monitor.tallies["jsonrpc.request.answered"].breaches == 1_989
    assert len(monitor.tallies["jsonrpc.request.answered"].kept) == 5


HOSTILE = [
    b"",
    b"\x00",
    b"null",
    b"[]",
    b"[[[]]]",
    b"[null,1,{}]",
    b"[" * 5_000,
    b"[" * 900 + b"]" * 900,
    b'{"jsonrpc":"2.0","id":1,"result":%b}' % (b"[" * 900 + b"]" * 900),
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%b}}'
    % (b"[" * 120 + b"]" * 120),
    b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":{}}}',
    b'{"jsonrpc":"2.0","id":"open","result":null}',
    b'{"jsonrpc":"2.0","id":"open","result":{"protocolVersion":"2025-06-18","capabilities":7}}',
    b'{"jsonrpc":"2.0","id":2,"method":"initialize"}',
    b'{"jsonrpc":"2.0","id":2,"method":"initialize","params":[]}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":[]}}',
    b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"_meta":{"progressToken":{}}}}',
    b'{"jsonrpc":"2.0","id":3,"method":"","params":{"_meta":[]}}',
    b'{"jsonrpc":"2.0","id":3,"error":{"code":1e400,"message":""}}',
    b'{"jsonrpc":"2.0","id":3,"error":{"code":-32022,"message":"","data":[1]}}',
    b'{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{"_meta":{"a":1e999}}}',
    "{\"jsonrpc\":\"2.0\",\"method\":\"\ud800\"}".encode(errors="surrogatepass"),
]  # fmt: skip


def test_the_refusal_of_a_message_of_which_only_the_id_was_readable_is_not_a_breach():
    monitor = Monitor()
    said = [*opening(LATEST), C.json({"jsonrpc": "1.0", "id": 7, "method": "ping"})]
    refusal = S.error(7, -32600)
    found = watched(monitor, [*said, refusal, refusal])
    assert [(each.party, each.requirement) for each in found] == [
        ("client", "jsonrpc.message.version-2-0"),
        ("server", "jsonrpc.error.id-echoed-or-unreadable"),
    ]


@pytest.mark.parametrize("reply", [S.result(7, {}), S.error(None)], ids=["result", "second error"])
def test_a_message_of_which_only_the_id_was_readable_excuses_one_error_and_no_result(reply):
    half_read = C.json({"jsonrpc": "1.0", "id": 7, "method": "ping"})
    refused = [] if "result" in reply.message else [S.error(7, -32600)]
    found = watched(Monitor(), [*opening(LATEST), half_read, *refused, reply])
    assert [each.party for each in found] == ["client", "server"]


@cases("revision", [None, *REVISIONS])
@cases("opens", [False, True], ids=["from the start", "after the opening"])
def test_hostile_input_never_raises(revision, opens):
    monitor = Monitor(revision=revision)
    if opens:
        watched(monitor, opening(LATEST))
    for sender in ("client", "server"):
        for data in HOSTILE:
            text = data.decode(errors="surrogateescape")
            monitor.observe(Record(sender=sender, raw=text, t=1.0))
            monitor.observe(Record(sender=sender, message=msgspec.Raw(data), transport="http"))
    monitor.close()
    assert monitor.verdicts()


# One party alone


def test_where_one_party_is_judged_the_other_may_break_what_it_likes():
    monitor = Monitor(judged="server")
    broken = C.request(2, "tools/list", {"cursor": 5})
    found = watched(monitor, [*opening(LATEST, server=TOOLS), C.text("no message"), broken])
    assert found == []
    assert all(each.verdict not in ("fail", "warn") for each in monitor.verdicts())


def test_where_one_party_is_judged_what_the_other_does_well_proves_nothing():
    both, server = Monitor(), Monitor(judged="server")
    for monitor in (both, server):
        watched(monitor, opening(LATEST)[:1])
        monitor.close()
    assert verdict(both, "jsonrpc.request.id-not-null").verdict == "pass"
    assert verdict(server, "jsonrpc.request.id-not-null").verdict == "not-exercised"


@pytest.mark.requirement("jsonrpc.message.version-2-0")
@cases("text", ["unknown method", '{"detail": "unknown method"}'])
@cases(("status", "broken"), [(400, []), (503, []), (200, [VERSION])])
def test_the_body_of_an_error_status_may_be_anything(text, status, broken):
    said = [C.request(1, "tools/list"), S.text(text).over(status=status)]
    _, found = judge(said, "2025-06-18", server=TOOLS)
    assert [violation.requirement for violation in found] == broken


LISTED = {"tools": []}


@pytest.mark.requirement(
    "jsonrpc.request.id-unique",
    "lifecycle.initialize-result.protocol-version",
    "lifecycle.initialize-result.server-capabilities",
    "lifecycle.initialize-result.server-info",
    "tools.list.array",
)
@cases("is_reversed", [False, True])
@cases("second", [S.result("open", LISTED), S.error("open", -32600)])
def test_an_id_that_a_client_uses_twice_in_flight_is_not_held_against_the_server(
    second, is_reversed
):
    asked, opened, ready = opening("2025-06-18", server=TOOLS)
    answers = [second, opened] if is_reversed else [opened, second]
    said = [asked, C.request("open", "tools/list"), *answers, ready]
    said += [C.request(2, "tools/list"), S.result(2, LISTED)]
    monitor, found = judge(said, "2025-06-18", opened=False)
    assert {(each.party, each.requirement) for each in found} <= {
        ("client", "jsonrpc.request.id-unique"),
        ("client", "lifecycle.initialize.client-waits"),
    }
    assert "jsonrpc.request.id-unique" in {each.requirement for each in found}
    assert monitor.revision == "2025-06-18"
    assert monitor.conversation.parties["server"].capabilities == frozenset({"tools"})


@pytest.mark.requirement("jsonrpc.request.id-unique", "ping.response.empty", "tools.list.array")
def test_answers_to_an_id_used_twice_in_flight_are_not_distinguished():
    said = [C.request(1, "ping"), C.request(1, "tools/list")]
    said += [S.result(1, LISTED), S.result(1, {})]
    _, found = judge(said, "2025-06-18", server=TOOLS)
    assert [(each.party, each.requirement) for each in found] == [
        ("client", "jsonrpc.request.id-unique")
    ]


@pytest.mark.requirement("ping.response.empty")
@pytest.mark.parametrize(("status", "is_breach"), [(400, False), (200, True)])
def test_an_error_may_answer_a_ping_whose_http_request_is_refused(status, is_breach):
    said = [*opening("2025-06-18"), C.request(7, "ping").over(method="POST")]
    said += [S.error(7, -32600).over(status=status)]
    found = watched(Monitor(), said, "2025-06-18", transport="http")
    assert ("ping.response.empty" in requirements(found)) is is_breach


# -- a client that uses an id twice at the same time

_CALL = {"name": "a", "arguments": {}}
_DONE = {"content": []}
_TWICE = [C.request(5, "tools/call", _CALL), C.request(5, "tools/list")]
_PROGRESS_1 = S.notify("progress", {"progressToken": 1, "progress": 1})
_PROGRESS_2 = S.notify("progress", {"progressToken": 2, "progress": 1})


@cases(
    "said",
    [
        [*_TWICE, S.result(5, _DONE), S.result(5, {"tools": []})],
        [*_TWICE, S.result(5, {"tools": []}), S.result(5, _DONE)],
        [*_TWICE, S.error(5, -32600), S.result(5, _DONE)],
        [*_TWICE, S.error(None, -32600), S.result(5, _DONE)],
        [
            *_TWICE,
            C.notify("cancelled", {"requestId": 5}),
            S.result(5, {"tools": []}),
            S.result(5, _DONE),
        ],
        [
            C.request(5, "tools/call", {**_CALL, "_meta": {"progressToken": 1}}),
            C.request(5, "tools/call", {**_CALL, "_meta": {"progressToken": 2}}),
            _PROGRESS_2,
            S.result(5, _DONE),
            _PROGRESS_1,
            S.result(5, _DONE),
        ],
    ],
    ids=["in-order", "crossed", "refused", "refused-without-id", "cancelled", "progress"],
)
@cases("revision", [LATEST, MODERN])
def test_server_is_not_blamed_for_an_id_that_the_client_uses_twice(said, revision):
    _, found = judge(said, revision, client={}, server={"tools": {}})
    assert {each.party for each in found} == {"client"}

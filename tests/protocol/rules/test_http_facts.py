"""What recordings show of HTTP: clean sessions raise no alarm, each mutant just its own."""

from collections import Counter
from collections.abc import Callable

from msgspec.structs import replace

import protocol.rules.http_mutants_later  # noqa: F401  # registers mutants
from accord.protocol.catalogue import catalogue
from accord.protocol.rules.http import HTTP_RULES, NEEDED_BY_MESSAGES
from accord.trace import HttpFacts
from protocol.rules.http_mutants import MUTANTS
from protocol.rules.http_sessions import (
    CALL,
    EVENTS,
    HANDSHAKE_OVER_HTTP,
    PROGRESS,
    STATELESS,
    Session,
    add,
    all_of,
    drop,
    error,
    finished,
    header,
    judge,
    locked,
    notice,
    older,
    opened,
    put,
    request,
    result,
    resumed,
    stamped,
    stateless,
    streamable,
)
from support.tables import cases


def _clean() -> dict[str, Session]:
    found = {"older": older(), "stateless": stateless(), "locked": locked(STATELESS)}
    found["stateless as JSON"] = stateless(is_streamed=False)
    found["stateless with a token"] = stateless(token="masked-3")
    for revision in HANDSHAKE_OVER_HTTP:
        found[revision] = streamable(revision)
        found[f"{revision} as JSON"] = streamable(revision, is_streamed=False)
        found[f"{revision} without session"] = streamable(revision, session=None)
        found[f"{revision} with a token"] = streamable(revision, token="masked-3")
        found[f"{revision} resumed"] = resumed(revision)
        found[f"{revision} locked"] = locked(revision)
        found[f"{revision} older"] = older(revision)
    return found


@cases("name", _clean())
def test_a_session_that_keeps_the_rules_raises_no_alarm(name: str) -> None:
    _, found = judge(_clean()[name])
    assert [str(each) for each in found] == []


@cases("name", _clean())
def test_a_recording_without_facts_accuses_no_party(name: str) -> None:
    session = _clean()[name]
    for label, record in session.items():
        session[label] = replace(record, http=None)
    bare = {label: each for label, each in session.items() if each.message or each.raw}
    monitor, found = judge(bare)
    assert [str(each) for each in found] == []
    assert "not-recorded" in {each.verdict for each in monitor.verdicts()}


ROWS = sorted({each.requirement for each in MUTANTS})
HTTP = frozenset(rule.requirement for rule in HTTP_RULES)


@cases("row", ROWS)
def test_every_mutant_is_found_under_its_requirement_alone(row: str) -> None:
    for mutant in [each for each in MUTANTS if each.requirement == row]:
        session = mutant.session()
        _, before = judge(session)
        mutant.spoil(session)
        _, found = judge(session)
        told = f"{mutant}: {[str(each) for each in found]}"
        # What messages break beside it, such as an answer without a request, is not HTTP.
        fresh = {each.requirement for each in found} & HTTP - {each.requirement for each in before}
        assert row in fresh, told
        assert fresh <= {row} | mutant.also, told
        breach = next(each for each in found if each.requirement == row)
        assert breach.severity in (catalogue()[row].severity_in(mutant.revision), "warn"), told
        assert breach.evidence, told


def test_every_rule_on_http_has_three_mutants_in_each_of_its_revisions() -> None:
    count = Counter((each.requirement, each.revision) for each in MUTANTS)
    judged = {rule.requirement for rule in HTTP_RULES}
    mutated = {each.requirement for each in MUTANTS}
    assert judged - mutated == set()
    assert {key: many for key, many in count.items() if many < 3} == {}


def _changed(session: Session, change: Callable[[HttpFacts], HttpFacts]) -> Session:
    return {
        label: replace(each, http=None if each.http is None else change(each.http))
        for label, each in session.items()
    }


@cases("row", ROWS)
def test_a_recording_without_marked_headers_accuses_no_party_of_missing_ones(row: str) -> None:
    """What is not marked as recorded is unknown: only what is there can be wrong."""
    for mutant in [each for each in MUTANTS if each.requirement == row][:4]:
        session = mutant.session()
        mutant.spoil(session)
        _, found = judge(_changed(session, lambda facts: replace(facts, recorded=())))
        assert [
            each.why for each in found if " without " in each.why and "header" in each.why
        ] == []
        _, found = judge(_changed(session, lambda facts: HttpFacts(method=facts.method)))
        # The method and the body are all that these need.
        sure = {
            "http.client.post-messages",
            "http.post.body-message-or-batch",
            "http.post.each-message",
        }
        assert {each.requirement for each in found} & HTTP <= sure


def _verdict(session: Session, id: str) -> tuple[str, str]:
    monitor, _ = judge(session)
    [found] = [each for each in monitor.verdicts() if each.id == id]
    return found.verdict, found.message


def test_rows_without_facts_have_another_verdict_than_rows_without_occasion() -> None:
    session = streamable("2025-06-18")
    id = "http.client.protocol-version-header"
    assert _verdict(session, id)[0] == "pass"
    bare = _changed(session, lambda facts: HttpFacts(facts.method, facts.status))
    assert _verdict(bare, id) == (
        "not-recorded",
        "the recording does not show the header MCP-Protocol-Version of requests",
    )
    opening = {label: session[label] for label in ("init", "init-answer")}
    assert _verdict(opening, id)[0] == "not-exercised"
    without = _changed(session, lambda facts: facts)
    for label, record in without.items():
        without[label] = replace(record, http=None)
    kept = {label: each for label, each in without.items() if each.message}
    assert _verdict(kept, id) == ("not-recorded", "the recording does not show what HTTP said")
    local = {label: replace(each, transport="stdio") for label, each in kept.items()}
    assert _verdict(local, id)[0] == "not-applicable"


def test_only_the_headers_that_are_marked_are_missed() -> None:
    session = streamable("2025-06-18")
    header("list", "accept", None)(session)
    header("list", "mcp-protocol-version", None)(session)
    partly = _changed(
        session,
        lambda facts: replace(facts, recorded=("Accept", "mcp-session-id")),
    )
    _, found = judge(partly)
    assert [each.requirement for each in found] == ["http.client.accept-both"]


_DROPPED = {
    "name": "add",
    "inputSchema": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "not a token"}},
    },
}

# -- odd, but allowed

_ALLOWED: dict[str, tuple[Session, Callable[[Session], None]]] = {
    "parameters of Accept": (
        streamable("2025-06-18"),
        header("list", "accept", "text/event-stream;q=0.5, application/json;q=1, */*"),
    ),
    "types in capitals": (
        streamable("2025-06-18"),
        header("list", "accept", "Application/JSON,TEXT/event-stream"),
    ),
    "names in capitals": (
        streamable("2025-11-25"),
        put(
            "list",
            headers={
                "ACCEPT": "application/json, text/event-stream",
                "Mcp-Session-Id": "s-1",
                "MCP-PROTOCOL-VERSION": "2025-11-25",
            },
        ),
    ),
    "charset": (
        streamable("2025-06-18"),
        header("list-answer", "content-type", "application/json; charset=utf-8"),
    ),
    "a version twice, joined": (
        streamable("2025-06-18"),
        header("list", "mcp-protocol-version", "2025-06-18, 2025-06-18"),
    ),
    "GET refused": (
        streamable("2025-06-18", session=None),
        all_of(put("get-answer", status=405, headers={}), drop("get-change")),
    ),
    "a notification refused": (
        streamable("2025-06-18"),
        put("ready-answer", status=400, message=error(None, -32600), size=9),
    ),
    "a redirect": (
        streamable("2025-06-18"),
        all_of(
            put("ping-answer", status=307, headers={"location": "/mcp/"}, message=None, size=0),
            add("ping-answer", "ping", "again", exchange="again", stream="again", path="/mcp/"),
            put("again", message=None),
        ),
    ),
    "the session id in every answer": (
        streamable("2025-06-18"),
        all_of(*(header(f"{each}-answer", "mcp-session-id", "s-1") for each in ("list", "ping"))),
    ),
    "a batch": (
        streamable("2025-03-26"),
        all_of(
            put("ping", message=[request(3, "ping"), request(33, "ping")]),
            put("ping-answer", message=[result(3), result(33)]),
        ),
    ),
    "a batch on a stream, answered one by one": (
        streamable("2025-03-26"),
        all_of(
            put("call", message=[CALL, request(33, "ping")]),
            add("call-progress", "call-result", "first", message=result(33), id="c-8"),
        ),
    ),
    "a batch of notifications": (
        streamable("2025-03-26"),
        put("late", message=[request(4, "ping")]),
    ),
    "no end recorded": (streamable("2025-06-18"), drop("call-end")),
    "an end without an answer when the server is over": (
        streamable("2025-06-18"),
        all_of(
            drop("call-result", "ping", "ping-answer", "delete", "delete-answer"),
            drop("late", "late-answer"),
        ),
    ),
    "an end without an answer to a cancelled request": (
        streamable("2025-06-18"),
        all_of(
            put("ready", message=notice("initialized")),
            drop("call-result"),
            add(
                "call-progress",
                "ready",
                "cancel",
                exchange="x",
                stream="x",
                message=notice("cancelled", requestId=2),
            ),
            header("cancel", "mcp-session-id", "s-1"),
        ),
    ),
    "the client leaves a stream": (
        streamable("2025-06-18"),
        all_of(drop("call-result"), put("call-end", ended="client")),
    ),
    "no event ids": (streamable("2025-11-25", has_ids=False), put("call")),
    "a version of tomorrow": (
        streamable("2025-06-18"),
        header("init", "mcp-protocol-version", "2031-01-01"),
    ),
    "a token of another scheme": (
        locked("2025-06-18"),
        all_of(
            header("list", "authorization", "DPoP masked-7"),
            header("again", "authorization", "dpop masked-7"),
        ),
    ),
    "bearer in small letters": (
        locked("2025-06-18"),
        header("list", "authorization", "bearer masked-7"),
    ),
    "a challenge after another": (
        locked("2025-06-18"),
        header(
            "first-answer",
            "www-authenticate",
            'Basic realm="a, Bearer b", Bearer resource_metadata="https://x/m"',
        ),
    ),
    "a session id in the query, by the older form": (older(), put("ping")),
    "an absolute endpoint": (
        older(),
        put("endpoint", data="http://127.0.0.1:80/messages?session_id=masked-1"),
    ),
    "a relative endpoint": (older(), put("endpoint", data="messages?session_id=masked-1")),
    "200 for a POST of the older form": (older(), put("list-answer", status=200)),
    "other events of the older form": (
        older(),
        add("init-result", "endpoint", "beat", event="ping", data="2026-01-01"),
    ),
    "a masked header": (
        stateless(),
        all_of(
            header("call", "mcp-name", "masked-1"), header("call", "mcp-param-region", "masked-2")
        ),
    ),
    "invalid params with any status": (
        stateless(),
        put("odd-answer", message=error(3, -32602), status=200),
    ),
    "an unsafe name that is masked": (
        stateless(),
        all_of(
            put("call", message=stamped(2, "tools/call", name="é", arguments={"region": "eu"})),
            header("call", "mcp-name", "masked-1"),
        ),
    ),
    "a tool that clients drop": (
        stateless(),
        all_of(
            put("list-answer", message=finished(1, tools=[_DROPPED], ttlMs=0, cacheScope="public")),
            header("call", "mcp-param-region", None),
        ),
    ),
    "an older recording of a resumed stream": (
        streamable("2025-06-18"),
        put("get-change", message=PROGRESS, headers={"last-event-id": "x"}),
    ),
    "progress on a resumed stream": (
        resumed("2025-06-18"),
        add("get-answer", "call-progress", "more", exchange="get", method="GET", id="c-1b"),
    ),
    "a retry field alone": (
        resumed("2025-11-25"),
        all_of(
            put("call-progress", retry=None),
            add("call-progress", "call-progress", "wait", event=None, id=None, message=None),
            put("wait", retry=100),
        ),
    ),
    "no retry field where the client left": (
        resumed("2025-11-25"),
        all_of(put("call-progress", retry=None), put("call-end", ended="client")),
    ),
    "a client that left comes back at once": (
        resumed("2025-11-25"),
        all_of(put("call-progress", retry=60_000), put("call-end", ended="client")),
    ),
    "an end at an unknown time": (
        resumed("2025-11-25"),
        all_of(put("call-progress", retry=60_000), put("call-end", t=None)),
    ),
    "metadata without a token": (
        locked("2025-06-18"),
        add("again-answer", "metadata", "more", exchange="more", stream="more"),
    ),
    "metadata that fail": (locked("2025-06-18"), put("metadata-answer", status=500, data=None)),
    "an answer recorded before its head": (
        streamable("2025-06-18"),
        all_of(
            put("init-answer", exchange=None, stream=None, status=None, headers={}),
            add("init-answer", "list-answer", "head", exchange="init", stream="x", message=None),
            header("head", "mcp-session-id", "s-1"),
        ),
    ),
    "a path that is unknown": (older(), put("ping", path=None)),
    "an event without data, by the older form": (
        older(),
        add("init-result", "endpoint", "beat", event="message", data=None),
    ),
    "an event about messages": (
        older(),
        add("init-result", "endpoint", "beat", event="log", data='"jsonrpc" is what we speak'),
    ),
    "a notice beside a refusal": (
        streamable("2025-06-18"),
        put("ready-answer", status=400, message=notice("tools/list_changed"), size=9),
    ),
    "404 for a GET whose session is unknown": (
        streamable("2025-06-18"),
        all_of(
            header("get", "mcp-session-id", None),
            put("get", recorded=()),
            put("get-answer", status=404, headers={}),
            drop("get-change"),
        ),
    ),
    "a handshake that is answered by a stream without a priming event": (
        streamable("2025-11-25"),
        all_of(
            put("init-answer", headers={"content-type": EVENTS, "mcp-session-id": "s-1"}),
            put("init-answer", message=None, size=None),
            add("init-answer", "get-change", exchange="init", message=opened("2025-11-25")),
            put("added", method="POST", stream="init-stream", id="i-1"),
        ),
    ),
    "a GET stream that begins with a message": (streamable("2025-11-25"), drop("get-prime")),
    "a session ended twice": (
        streamable("2025-06-18"),
        all_of(put("late", method="DELETE", message=None), put("late-answer", status=204)),
    ),
    "events that may be a replay": (
        streamable("2025-06-18"),
        all_of(put("get", recorded=(), headers={}), add("get-change", "get-change", "again")),
    ),
    "another reason to refuse": (
        stateless(),
        all_of(
            put("odd", message=request(3, "tools/list", _meta={})),
            header("odd", "mcp-method", "tools/list"),
            put("odd-answer", status=200, message=error(3, -32603)),
        ),
    ),
    "an encoded name": (
        stateless(),
        header("call", "mcp-name", "=?base64?YWRk?="),
    ),
}


@cases("name", _ALLOWED)
def test_odd_forms_that_the_text_allows_raise_no_alarm(name: str) -> None:
    session, change = _ALLOWED[name]
    change(session)
    _, found = judge(session)
    judged = {rule.requirement for rule in HTTP_RULES} | NEEDED_BY_MESSAGES.keys()
    assert [str(each) for each in found if each.requirement in judged] == []


def test_a_listener_of_the_older_form_needs_no_token_at_once() -> None:
    session = older()
    for label, record in session.items():
        if record.sender == "client" and record.message:
            header(label, "authorization", "Bearer masked-4")(session)
    add("ping-answer", "get", "listener", exchange="listener", stream="listener")(session)
    _, found = judge(session)
    assert found == []
    header("ping", "authorization", None)(session)
    _, found = judge(session, "2025-06-18")
    assert "auth.every-request" in {each.requirement for each in found}


def test_a_fault_that_is_refused_for_another_reason_is_not_held_against_the_server() -> None:
    session = stateless()
    header("odd", "mcp-method", "tools/list")(session)
    put("odd-answer", status=400, message=error(3, -32602))(session)
    _, found = judge(session)
    assert {each.requirement for each in found} == {"http.headers.mcp-method"}

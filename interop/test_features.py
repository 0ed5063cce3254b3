"""Every feature, in both roles, against every foreign peer, under every revision it can speak.

The scenario is the same for all. Where a foreign library deviates, the expectation says so: what it
does otherwise stands in the tables at the top, and is tested too.
"""

import json
from typing import Any

import pytest
from sessions import (
    AS_CLIENT,
    AS_HTTP_CLIENT,
    AS_HTTP_SERVER,
    AS_SERVER,
    STDIO,
    Pairing,
    Session,
)

PAIRINGS = [*AS_SERVER, *AS_CLIENT, *AS_HTTP_SERVER, *AS_HTTP_CLIENT]
pytestmark = pytest.mark.parametrize("pairing", PAIRINGS, ids=str)

TOOLS = {
    *("add", "weather", "fail", "count", "wait", "cancelled", "say"),
    *("ask_model", "ask_user", "folders", "ask_together", "media", "grow"),
}
CODE_INVALID = -32602
CODE_INTERNAL = -32603
CODE_NOT_FOUND = -32002
# They answer a missing resource as only 2026-07-28 has it; the second SDK also reads it so.
NOT_FOUND_AS_INVALID = {"mcp server", "fastmcp server", "sdk-1 server", "sdk-2 server"} | {
    "sdk-2 client"
}
# They report an unknown tool as the failure of a tool.
UNKNOWN_TOOL_AS_RESULT = {"mcp server", "fastmcp server", "sdk-1 server"}
# They lose progress that they read together with the answer.
LOSES_PROGRESS = {"sdk-1 client", "sdk-2 client"}
NO_LOG_LEVEL = {"mcp server"}
# Of the revisions with a handshake they leave these out.
NO_SUBSCRIPTIONS = {"mcp server", "fastmcp server"}
# Of the one without they leave these out: to listen, and to choose what is logged.
NO_LISTENING = {"fastmcp server"}
HEARS_ALL_LOGS = {"fastmcp client"}
# It ties every notification to the call that causes it, and drops those where answers are JSON.
TELLS_NOTHING_AS_JSON = {"fastmcp server"}
# They have no pages, or their clients put pages together themselves.
ONE_PAGE = {"mcp server", "sdk-1 server", "sdk-2 server", "sdk-2 client"}
# FastMCP chooses the model's name itself.
SAMPLING_MODEL = {"fastmcp client": "fastmcp-slim"}
WRONG_PROMPT_CODES = {"mcp server": (0, 0), "fastmcp server": (CODE_INVALID, CODE_INTERNAL)}
MODERN_PROMPT_CODES = WRONG_PROMPT_CODES | {"mcp server": (CODE_INTERNAL, CODE_INTERNAL)}


def has(pairing: Pairing, since: str) -> bool:
    return pairing.agreed >= since


def raised(outcome: Any) -> dict[str, Any]:
    assert isinstance(outcome, dict), outcome
    assert isinstance(outcome["error"], dict), outcome
    return outcome["error"]


def answered(outcome: Any) -> str:
    assert outcome["error"] is False, outcome
    return outcome["text"]


def test_both_agree_on_the_revision(session: Session, pairing: Pairing) -> None:
    opened = session["opened"]
    assert opened["revision"] == pairing.agreed
    assert opened["server"] == ["interop", "1.2.3"]
    assert opened["instructions"] == "Call anything."
    assert {"prompts", "resources", "tools"} <= set(opened["capabilities"])


def test_all_tools_are_listed_page_by_page(session: Session, pairing: Pairing) -> None:
    listed = session["tools"]
    assert set(listed["names"]) >= TOOLS
    assert len(set(listed["names"])) == len(listed["names"])
    if "pages" in listed:
        assert (listed["pages"] == 1) is (pairing.peer in ONE_PAGE)


def test_a_listed_tool_has_what_its_revision_allows(session: Session, pairing: Pairing) -> None:
    first = session["tools"].get("first")
    if pairing.foreign == "server":
        assert first is None
        return
    assert first["name"] == "add"
    assert first["inputSchema"]["required"] == ["a", "b"]
    assert ("outputSchema" in first) is has(pairing, "2025-06-18")
    assert (first.get("title") == "Addition") is has(pairing, "2025-06-18")
    assert ("annotations" in first) is has(pairing, "2025-03-26")


def test_a_tool_answers(session: Session, pairing: Pairing) -> None:
    assert answered(session["add"]) == "3"
    if pairing.foreign == "client":
        structured = {"result": 3} if has(pairing, "2025-06-18") else None
        assert session["add"]["structured"] == structured


def test_structured_results_arrive(session: Session, pairing: Pairing) -> None:
    weather = session["weather"]
    if pairing.foreign == "server":
        # Typed by the caller, from structured content or, without it, from the text.
        assert weather == ["Oslo", 21.5, "clear"]
        assert session["typed result"] == 3
    elif has(pairing, "2025-06-18"):
        assert weather["structured"] == {"city": "Oslo", "celsius": 21.5, "sky": "clear"}
    else:
        assert weather["structured"] is None
        assert weather["text"] == '{"city":"Oslo","celsius":21.5,"sky":"clear"}'


def test_a_tool_that_fails_tells_why(session: Session) -> None:
    assert session["fail"]["error"] is True
    assert "the tool says no" in session["fail"]["text"]
    if "raised" in session.outcomes:
        assert "the tool says no" in session["raised"]


def test_arguments_that_do_not_fit_are_explained(session: Session) -> None:
    assert session["bad arguments"]["error"] is True
    assert "a" in session["bad arguments"]["text"]


def test_an_unknown_tool_is_refused(session: Session, pairing: Pairing) -> None:
    outcome = session["unknown tool"]
    if pairing.peer in UNKNOWN_TOOL_AS_RESULT:
        assert outcome["error"] is True
    else:
        assert raised(outcome)["code"] == CODE_INVALID


def test_content_of_every_kind_arrives(session: Session, pairing: Pairing) -> None:
    audio = "audio" if has(pairing, "2025-03-26") else "text"
    link = "resource_link" if has(pairing, "2025-06-18") else "text"
    if pairing.foreign == "server":
        audio, link = "audio", "resource_link"  # they send it in every revision
    assert session["media"]["types"] == ["text", "image", audio, "resource", link]


@pytest.mark.needs_stream
def test_progress_arrives_in_order(session: Session, pairing: Pairing) -> None:
    counted(session["progress"], pairing, 3)


@pytest.mark.needs_stream
def test_a_stream_that_breaks_is_taken_up_again(session: Session, pairing: Pairing) -> None:
    counted(session["counted on"], pairing, 5)
    cut = [each for each in session.exchanges if each.was_cut]
    resumed = [each for each in session.exchanges if "last-event-id" in each.headers]
    assert len(cut) == pairing.is_cut
    assert not cut or any(each.status == 200 for each in resumed)


def counted(outcome: Any, pairing: Pairing, to: int) -> None:
    assert answered(outcome) == f"counted to {to}"
    steps = [[step, to, f"step {step}"] for step in range(1, to + 1)]
    if pairing.foreign == "client" and not has(pairing, "2025-03-26"):
        steps = [[step, to, None] for step in range(1, to + 1)]
    if pairing.peer in LOSES_PROGRESS:
        assert [step for step in steps if step in outcome["seen"]] == outcome["seen"]
    else:
        assert outcome["seen"] == steps


@pytest.mark.needs_session
def test_a_cancelled_call_stops_on_the_server(session: Session) -> None:
    assert session["cancel"]["gave up"] is True
    assert answered(session["cancel"]) == "1"


@pytest.mark.needs_session
def test_a_call_that_takes_too_long_stops_on_the_server(session: Session) -> None:
    assert session["time-out"]["raised"]
    assert answered(session["time-out"]) == "2"


@pytest.mark.needs_session
@pytest.mark.needs_stream
def test_the_log_level_is_respected(session: Session, pairing: Pairing) -> None:
    if pairing.peer in NO_LOG_LEVEL:
        assert "did not declare" in raised(session["log"])["text"]
        return
    *unwanted, (level, data, logger) = session["log"]
    assert bool(unwanted) is (pairing.is_modern and pairing.peer in HEARS_ALL_LOGS)
    assert (level, logger) == ("error", "interop")
    assert data in ("heard", {"msg": "heard", "extra": None})


@pytest.mark.needs_session
def test_a_new_tool_is_announced_and_callable(session: Session, pairing: Pairing) -> None:
    if pairing.is_modern and pairing.peer in NO_LISTENING:
        assert raised(session["grow"])
        return
    quiet = pairing.form == "json" and pairing.peer in TELLS_NOTHING_AS_JSON
    assert session["grow"]["changes"] == ([] if quiet else ["tools"])
    assert session["grow"]["new"] is True
    assert answered(session["grow"]) == "new"


def test_a_message_larger_than_a_pipe_survives_both_ways(session: Session) -> None:
    assert session["large"] is True


def test_calls_at_once_get_their_own_answers(session: Session) -> None:
    assert session["at once"] == [str(2 * number) for number in range(20)]


def test_an_unknown_cursor_is_refused(session: Session, pairing: Pairing) -> None:
    if pairing.foreign == "client":
        assert raised(session["invalid cursor"])["code"] == CODE_INVALID
    else:
        # Only well-behaved clients are played against foreign servers.
        assert "invalid cursor" not in session.outcomes


def test_ping_is_answered(session: Session, pairing: Pairing) -> None:
    if pairing.is_modern:
        assert "ping" not in session.outcomes
    else:
        assert session["ping"] in ({}, None)


def test_a_server_that_answers_as_json_says_that_it_cannot_ask(
    session: Session, pairing: Pairing
) -> None:
    if pairing.form == "json" and pairing.server == "accord":
        for step in ("sample", "elicit accept", "roots"):
            assert session[step]["error"] is True
            assert "plain JSON" in session[step]["text"]


@pytest.mark.needs_session
@pytest.mark.needs_stream
def test_the_model_of_the_client_answers(session: Session, pairing: Pairing) -> None:
    model = SAMPLING_MODEL.get(pairing.peer, "parrot")
    assert answered(session["sample"]) == f"{model}: echo hello"


@pytest.mark.needs_session
@pytest.mark.needs_stream
@pytest.mark.parametrize(
    ("step", "answer"),
    [
        ("elicit accept", "Ada is 36"),
        ("elicit decline", "decline"),
        ("elicit cancel", "cancel"),
    ],
)
def test_the_user_of_the_client_answers(
    session: Session, pairing: Pairing, step: str, answer: str
) -> None:
    outcome = session[step]
    if has(pairing, "2025-06-18"):
        assert answered(outcome) == answer
    else:
        # The method does not exist yet, and a call of it is refused.
        assert outcome["error"]


@pytest.mark.needs_session
@pytest.mark.needs_stream
def test_the_server_learns_the_roots_of_the_client(session: Session, pairing: Pairing) -> None:
    assert answered(session["roots"]) == "file:///work"
    if not pairing.is_modern:
        assert session["roots changed"] is None


@pytest.mark.needs_session
def test_several_questions_are_answered_at_once(session: Session, pairing: Pairing) -> None:
    if not pairing.is_modern:
        assert "together" not in session.outcomes
        return
    assert answered(session["together"]) == "Ada is 36 in file:///work"
    sent = [json.loads(bytes(each.message)) for each in session.records if each.message]
    rounds = [each["result"].get("inputRequests", ()) for each in sent if "result" in each]
    assert 2 in map(len, rounds)


def test_resources_are_listed_and_read(session: Session) -> None:
    assert session["resources"] == [["memo://today", "text/plain"], ["memo://logo", "image/png"]]
    assert session["templates"] == ["memo://notes/{name}"]
    assert session["read text"] == ["memo://today", "text/plain", "sunny"]
    assert session["read blob"] == ["memo://logo", "image/png", "iVBORw0KGgo="]
    assert session["read template"] == ["memo://notes/monday", "text/plain", "note monday"]


def test_a_missing_resource_is_an_error(session: Session, pairing: Pairing) -> None:
    is_invalid = pairing.is_modern or pairing.peer in NOT_FOUND_AS_INVALID
    expected = CODE_INVALID if is_invalid else CODE_NOT_FOUND
    assert raised(session["read missing"])["code"] == expected


@pytest.mark.needs_session
def test_updates_reach_subscribers_only(session: Session, pairing: Pairing) -> None:
    if pairing.is_modern and pairing.peer in NO_LISTENING:
        assert raised(session["subscribe"])
    elif pairing.peer in NO_SUBSCRIPTIONS and not pairing.is_modern:
        assert "did not declare" in raised(session["subscribe"])["text"]
    else:
        assert session["subscribe"] == ["memo://today"]


def test_prompts_are_listed_and_filled_in(session: Session) -> None:
    assert session["prompts"] == [["greet", [["name", True], ["mood", False]]], ["tour", []]]
    assert session["prompt"] == [["user", "Greet Ada, who is happy."]]
    assert session["long prompt"] == [
        ["user", "Look."],
        ["assistant", "At what?"],
        ["user", "resource"],
        ["user", "image"],
    ]


def test_a_prompt_that_cannot_be_filled_in_is_an_error(session: Session, pairing: Pairing) -> None:
    wrong = MODERN_PROMPT_CODES if pairing.is_modern else WRONG_PROMPT_CODES
    unknown, missing = wrong.get(pairing.peer, (CODE_INVALID, CODE_INVALID))
    assert raised(session["unknown prompt"])["code"] == unknown
    assert raised(session["missing argument"])["code"] == missing


def test_arguments_are_completed(session: Session) -> None:
    assert session["complete prompt"] == ["happy", "hungry"]
    assert session["complete template"] == ["monday", "moon"]


def test_completion_knows_the_other_arguments(session: Session, pairing: Pairing) -> None:
    if pairing.foreign == "server":
        # The everything server is asked instead.
        assert "complete in context" not in session.outcomes
    elif has(pairing, "2025-06-18"):
        assert session["complete in context"] == ["depressed"]


def test_the_connection_ends_in_peace(session: Session, pairing: Pairing) -> None:
    assert session["closed"] is True
    if pairing.form == STDIO:
        assert session.exit == {"status": 0, "signals": []}
    elif pairing.server == "accord":
        assert session.exit["status"] == 0
        assert "Traceback" not in session.exit["said"]

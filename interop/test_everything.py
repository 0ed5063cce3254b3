"""The accord client against the official everything server."""

import pytest
from sessions import STDIO, WITH_EVERYTHING, WITH_HTTP_EVERYTHING, Pairing, Session

PAIRINGS = [*WITH_EVERYTHING, *WITH_HTTP_EVERYTHING]
pytestmark = pytest.mark.parametrize("pairing", PAIRINGS, ids=str)


def test_both_agree_on_the_revision(session: Session, pairing: Pairing) -> None:
    assert session["opened"] == {"revision": pairing.agreed, "server": "mcp-servers/everything"}


def test_tools_are_offered_by_what_the_client_declared(session: Session, pairing: Pairing) -> None:
    names = session["tools"]
    assert {"echo", "get-sum", "get-roots-list", "trigger-sampling-request"} <= set(names)
    assert ("trigger-elicitation-request" in names) is (pairing.agreed >= "2025-06-18")


def test_tools_answer(session: Session) -> None:
    assert session["echo"] == {"error": False, "text": "Echo: hello", "types": ["text"]}
    assert session["sum"]["text"] == "The sum of 1 and 2 is 3."
    assert session["bad arguments"]["error"] is True


def test_content_of_every_kind_arrives(session: Session) -> None:
    assert session["image"]["types"] == ["text", "image", "text"]
    assert session["links"]["types"] == ["text", "resource_link", "resource_link"]
    assert session["reference"]["types"] == ["text", "resource", "text"]


def test_a_structured_result_is_decoded(session: Session) -> None:
    assert session["structured"] == {
        "temperature": 36,
        "conditions": "Light rain / drizzle",
        "humidity": 82,
    }


def test_progress_arrives_in_order(session: Session) -> None:
    assert session["progress"]["seen"] == [[1, 3], [2, 3], [3, 3]]
    assert session["progress"]["error"] is False


def test_a_cancelled_call_is_over(session: Session) -> None:
    assert session["cancel"] is True


def test_the_model_of_the_client_answers(session: Session) -> None:
    assert "echo Resource trigger-sampling-request context: hello" in session["sample"]["text"]


def test_the_user_of_the_client_answers(session: Session, pairing: Pairing) -> None:
    if pairing.agreed >= "2025-06-18":
        assert "- Name: Ada" in session["elicit"]["text"]
    else:
        assert session["elicit"]["error"] is True


def test_the_server_learns_the_roots_of_the_client(session: Session) -> None:
    assert "URI: file:///work" in session["roots"]["text"]


def test_resources_are_listed_and_read(session: Session) -> None:
    assert "demo://resource/static/document/features.md" in session["resources"]
    assert "demo://resource/dynamic/text/{resourceId}" in session["templates"]
    assert session["read text"] == ["demo://resource/dynamic/text/1", True, False]
    assert session["read blob"] == ["demo://resource/dynamic/blob/1", False, True]
    assert session["read missing"]["error"]["code"] == -32602


def test_updates_and_log_messages_arrive(session: Session) -> None:
    assert session["subscribe"] == {"updates": ["demo://resource/dynamic/text/1"], "logged": True}


def test_prompts_are_filled_in(session: Session) -> None:
    assert "completable-prompt" in session["prompts"]
    assert session["prompt"] == "What's weather in Oslo?"


def test_arguments_are_completed(session: Session, pairing: Pairing) -> None:
    assert session["complete prompt"] == ["Sales", "Support"]
    assert session["complete template"] == ["1"]
    # Only 2025-06-18 and later carry the arguments that are already known.
    known = ["David", "Eve", "Frank"] if pairing.agreed >= "2025-06-18" else []
    assert session["complete in context"] == known


def test_the_connection_ends_in_peace(session: Session, pairing: Pairing) -> None:
    assert session["closed"] is True
    if pairing.form == STDIO:
        assert session.exit == {"status": 0, "signals": []}

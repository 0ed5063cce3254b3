"""Tools that run as tasks, with the foreign peers that have them: those of 2025-11-25 with the
first TypeScript SDK, those of the extension to 2026-07-28 with FastMCP.
"""

from typing import Any

import pytest
from sessions import TASKS, Pairing, Session

import conftest

pytestmark = pytest.mark.parametrize("pairing", TASKS, ids=str)

# It declares that its tools run as tasks alone.
ALWAYS_A_TASK = {"sdk-1-tasks server"}
# For a tool that fails, 2025-11-25 has the status `failed`, on which it asks for no result.
RAISES_ON_FAILURE = {"sdk-1-tasks client"}
# To ask in a task it needs a queue of messages, which is not played.
ASKS_NOTHING = {"sdk-1-tasks server"}


def outcome(final: str, text: str, *, is_error: bool = False) -> dict[str, Any]:
    return {"first": "working", "final": final, "error": is_error, "text": text}


def test_both_agree_on_the_revision(session: Session, pairing: Pairing) -> None:
    assert session["opened"]["revision"] == pairing.agreed


def test_a_task_has_a_result(session: Session) -> None:
    assert session["result"] == outcome("completed", "slowly on")


def test_a_task_whose_tool_fails_says_why(session: Session, pairing: Pairing) -> None:
    told = session["failure"]
    if pairing.peer in RAISES_ON_FAILURE:
        assert "failed" in told["error"]["text"]
        return
    assert told | {"text": ""} == outcome("completed", "", is_error=True)
    assert "the task says no" in told["text"]


def test_a_task_asks_the_user(session: Session, pairing: Pairing) -> None:
    if pairing.peer in ASKS_NOTHING:
        assert session["question"]["error"]
    else:
        assert session["question"] == outcome("completed", "Ada is 36")


def test_a_task_can_be_cancelled(session: Session) -> None:
    assert session["cancel"] == "cancelled"


def test_tasks_are_listed_where_the_revision_has_that(session: Session, pairing: Pairing) -> None:
    if pairing.is_modern:
        assert "list" not in session.outcomes or session["list"]["error"]
    elif pairing.server == "accord-tasks":
        # A server without authorization does not know whose tasks they are.
        assert session["list"] == "not declared"
    else:
        assert {"cancelled", "completed"} <= set(session["list"])


def test_a_tool_runs_without_a_task_where_it_may(session: Session, pairing: Pairing) -> None:
    if pairing.peer in ALWAYS_A_TASK:
        assert session["without"]["error"]
    else:
        assert session["without"]["text"] == "slowly on"


def test_the_connection_ends_in_peace(session: Session) -> None:
    assert session["closed"] is True


def test_breaches_of_the_foreign_peer_are_in_the_table(
    session: Session, findings: dict[str, dict[str, str]]
) -> None:
    conftest.note_unknown(session, findings)


def test_accord_breaks_no_requirement(session: Session, pairing: Pairing) -> None:
    ours = [str(each) for each in session.breaches if each.party != pairing.foreign]
    assert not ours

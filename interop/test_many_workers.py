"""Foreign clients against three processes that share a store: each request goes to the next one.

The scenario is that of every pairing. Left out are the steps whose outcome is kept in the memory of
one process: how many calls were cancelled there, and a tool that was added there.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from http_sessions import House
from many_workers import WORKERS, Balanced, balanced
from sessions import NEWEST_HANDSHAKE, Pairing, Session
from test_features import LOSES_PROGRESS, SAMPLING_MODEL

from accord.trace import Record

FOREIGN = ("mcp", "fastmcp", "sdk-1", "sdk-2")
# A stream is cut at the fourth step, and resumed by the client at another process.
SEEN = [[step, 5, f"step {step}"] for step in range(1, 6)]


class BalancedHouse(House):
    """Where sessions are played with servers that run already."""

    def __init__(self, folder: Path, place: Balanced) -> None:
        super().__init__(folder)
        self._place = place

    @contextmanager
    def _serving(self, pairing: Pairing) -> Iterator[tuple[int, str, dict[str, Any]]]:
        yield self._place.port, "/mcp", {}


@pytest.fixture(scope="module", params=FOREIGN)
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Session, Counter[str]]:
    """A session of a foreign client, and how many of its requests each process has answered."""
    folder = tmp_path_factory.mktemp(request.param)
    with balanced("accord", folder) as place:
        house = BalancedHouse(folder, place)
        try:
            session = house.play(Pairing(request.param, "accord", NEWEST_HANDSHAKE, "auto"))
        finally:
            house.close()
        return session, place.count_requests()


def text_of(session: Session, step: str) -> str:
    outcome = session[step]
    assert outcome["error"] is False, (step, outcome)
    return str(outcome["text"])


def is_change_of_tools(record: Record) -> bool:
    return record.message is not None and b"tools/list_changed" in bytes(record.message)


def test_a_foreign_client_finishes_whichever_worker_gets_its_requests(
    played: tuple[Session, Counter[str]],
) -> None:
    session, served = played
    assert len(served) == WORKERS, served
    assert all(count > 5 for count in served.values()), served

    assert session["opened"]["revision"] == NEWEST_HANDSHAKE
    assert "ask_user" in session["tools"]["names"]
    assert text_of(session, "add") == "3"
    assert session["at once"] == [str(2 * each) for each in range(20)]
    assert session["large"] is True
    # Known to all workers: the level of logs, subscriptions, changes of lists and resources.
    assert session["log"] == [["error", "heard", "interop"]]
    assert session["subscribe"] == ["memo://today"]
    changes = [each for each in session.records if is_change_of_tools(each)]
    assert len(changes) == 1
    # Answers to questions of one worker arrive at another.
    model = SAMPLING_MODEL.get(session.pairing.peer, "parrot")
    assert text_of(session, "sample") == f"{model}: echo hello"
    assert text_of(session, "elicit accept") == "Ada is 36"
    assert text_of(session, "elicit decline") == "decline"
    assert text_of(session, "elicit cancel") == "cancel"
    assert text_of(session, "roots") == "file:///work"
    assert session.outcomes["closed"] is True


def test_a_foreign_client_resumes_a_stream_at_another_worker(
    played: tuple[Session, Counter[str]],
) -> None:
    session, _ = played
    assert any(each.was_cut for each in session.exchanges)
    assert text_of(session, "counted on") == "counted to 5"
    seen = session["counted on"]["seen"]
    if session.pairing.peer in LOSES_PROGRESS:
        assert seen == SEEN[: len(seen)]
    else:
        assert seen == SEEN


def test_several_workers_break_no_rule_of_the_protocol(
    played: tuple[Session, Counter[str]],
) -> None:
    session, _ = played
    assert [each for each in session.breaches if each.party == "server"] == []

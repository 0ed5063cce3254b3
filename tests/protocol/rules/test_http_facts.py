"""What recordings show of HTTP: clean sessions raise no alarm, each mutant just its own."""

import msgspec
import pytest

from protocol.rules.http_sessions import (
    HANDSHAKE_OVER_HTTP,
    STANDALONE,
    Session,
    judge,
    locked,
    older,
    resumed,
    standalone,
    streamable,
)


def _clean() -> dict[str, Session]:
    found = {"older": older(), "standalone": standalone(), "locked": locked(STANDALONE)}
    found["standalone as JSON"] = standalone(is_streamed=False)
    found["standalone with a token"] = standalone(token="masked-3")
    for revision in HANDSHAKE_OVER_HTTP:
        found[revision] = streamable(revision)
        found[f"{revision} as JSON"] = streamable(revision, is_streamed=False)
        found[f"{revision} without session"] = streamable(revision, session=None)
        found[f"{revision} with a token"] = streamable(revision, token="masked-3")
        found[f"{revision} resumed"] = resumed(revision)
        found[f"{revision} locked"] = locked(revision)
        found[f"{revision} older"] = older(revision)
    return found


@pytest.mark.parametrize("name", _clean())
def test_a_session_that_keeps_the_rules_raises_no_alarm(name: str) -> None:
    _, found = judge(_clean()[name])
    assert [str(each) for each in found] == []


@pytest.mark.parametrize("name", _clean())
def test_without_recorded_facts_nobody_is_accused(name: str) -> None:
    session = _clean()[name]
    for label, record in session.items():
        session[label] = msgspec.structs.replace(record, http=None)
    bare = {label: each for label, each in session.items() if each.message or each.raw}
    monitor, found = judge(bare)
    assert [str(each) for each in found] == []
    assert "not-recorded" in {each.verdict for each in monitor.verdicts()}

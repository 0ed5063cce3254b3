"""A monitor on every wire: accord breaks nothing; what foreign peers break is known by name."""

import pytest
from sessions import (
    AS_CLIENT,
    AS_HTTP_CLIENT,
    AS_HTTP_SERVER,
    AS_SERVER,
    STDIO,
    WITH_EVERYTHING,
    WITH_HTTP_EVERYTHING,
    Pairing,
    Session,
)

import conftest

OVER_STDIO = [*AS_SERVER, *AS_CLIENT, *WITH_EVERYTHING]
OVER_HTTP = [*AS_HTTP_SERVER, *AS_HTTP_CLIENT, *WITH_HTTP_EVERYTHING]
PAIRINGS = [*OVER_STDIO, *OVER_HTTP]
pytestmark = pytest.mark.parametrize("pairing", PAIRINGS, ids=str)


def test_accord_breaks_no_requirement(session: Session, pairing: Pairing) -> None:
    ours = [str(each) for each in session.breaches if each.party != pairing.foreign]
    assert not ours


def test_every_line_on_the_wire_is_a_message(session: Session, pairing: Pairing) -> None:
    assert len(session.records) > 40
    strange = [each for each in session.records if each.message is None and not each.http]
    strange += [each for each in session.records if each.raw is not None]
    assert strange == []


def test_http_says_what_the_session_is_and_ends_it(session: Session, pairing: Pairing) -> None:
    if pairing.is_modern and pairing.form != STDIO:
        assert {each.method for each in session.exchanges} == {"POST"}
        assert not any("mcp-session-id" in each.answer_headers for each in session.exchanges)
        return
    if pairing.form in (STDIO, "sse"):
        assert not any(each.method == "DELETE" for each in session.exchanges)
        return
    assert {each.method for each in session.exchanges} <= {"POST", "GET", "DELETE"}
    given = {each.answer_headers.get("mcp-session-id") for each in session.exchanges} - {None}
    ends = [each.status for each in session.exchanges if each.method == "DELETE"]
    if pairing.is_stateless:
        assert (given, ends) == (set(), [])
    else:
        assert len(given) == len(ends) == 1
        assert ends[0] in (200, 204)


def test_a_server_answers_in_the_configured_form(session: Session, pairing: Pairing) -> None:
    streams = [each.is_stream for each in session.exchanges if each.status == 200 and each.sent]
    if pairing.form == "json":
        assert not any(streams)
    elif pairing.form == "stream":
        assert all(streams)
    elif pairing.form == "auto":
        assert 0 < sum(streams) < len(streams)


def test_breaches_of_the_foreign_peer_are_in_the_table(
    session: Session, pairing: Pairing, findings: dict[str, dict[str, str]]
) -> None:
    conftest.note_unknown(session, findings)

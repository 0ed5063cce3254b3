"""A watch and its recording give the same verdicts on the same session."""

import pytest

import protocol.rules.http_mutants_later  # noqa: F401  # registers mutants
from accord.trace import read
from accord_tools.check.trace_check import replay
from accord_tools.watch.http_proxy import serve_proxy
from accord_tools.watch.watcher import Watcher
from check.watching.played import PlayedServer, decoded, play
from protocol.rules.http_mutants import MUTANTS
from protocol.rules.http_sessions import locked, older, resumed, stateless, streamable
from support.http_server import serving_within


def watched(session, path):
    """Play a session through a watch; returns the watcher, closed."""
    server = PlayedServer()
    watcher = Watcher("it", recording=path)
    url = f"http://127.0.0.1:{server.port}/mcp"
    with (
        server.running(),
        serving_within(lambda sockets: serve_proxy(url, sockets, watcher)) as port,
    ):
        play(session, server, port)
    watcher.close()
    return watcher


def verdicts(report):
    return {each.id: (each.verdict, each.message) for each in report.results}


def compare(watcher):
    """Check that each recording has the verdicts of the watch."""
    reports = watcher.reports()
    assert len(reports) == len(watcher.recordings)
    for report, path in zip(reports, watcher.recordings, strict=True):
        assert verdicts(replay(read(path), target="it")) == verdicts(report)
    assert (watcher.dropped, watcher.trouble) == (0, "")
    return [group.violation for report in reports for group in report.violations]


CLEAN = {
    "2024-11-05, older form": older,
    "2025-03-26": lambda: streamable("2025-03-26"),
    "2025-06-18 with a token": lambda: streamable("2025-06-18", token="t-1-secret"),
    "2025-06-18 without session": lambda: streamable("2025-06-18", session=None),
    "2025-11-25": lambda: streamable("2025-11-25"),
    "2025-11-25, older form": lambda: older("2025-11-25"),
    "2025-06-18 resumed": lambda: resumed("2025-06-18"),
    "2026-07-28": stateless,
    "2026-07-28 as JSON": lambda: stateless(is_streamed=False),
    "2026-07-28 locked": lambda: locked("2026-07-28"),
}


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_session_has_the_same_verdicts_watched_and_recorded(name, tmp_path):
    watcher = watched(CLEAN[name](), tmp_path / "session.jsonl")
    assert [str(each) for each in compare(watcher)] == []


FAULTY = [
    each
    for each in MUTANTS
    if str(each)
    in {
        "http.client.protocol-version-header-missing-2025-06-18",
        "http.client.accept-both-any-2025-11-25",
        "session.id.client-echo-missing-2025-06-18",
        "http.post.accepted-202-200-2025-03-26",
        "http.sse.event-id-unique-on two streams-2025-06-18",
        "http.sse.no-event-ids-one-2026-07-28",
        "http.method-not-found.404-200-2026-07-28",
        "http.headers.required-missing-rejected-served-2026-07-28",
        "sse.client.posts-to-endpoint-another query-2024-11-05",
        "sse.server.message-event-as data-2024-11-05",
        "auth.token.not-in-query-by its name-2025-11-25",
        "auth.challenge.www-authenticate-none-2025-06-18",
        "auth.prm.lists-as-empty-2025-06-18",
    }
]


@pytest.mark.parametrize("mutant", FAULTY, ids=str)
def test_a_fault_is_found_alike_by_a_watch_and_in_its_recording(mutant, tmp_path):
    session = mutant.session()
    mutant.spoil(session)
    found = compare(watched(session, tmp_path / "session.jsonl"))
    assert mutant.requirement in {each.requirement for each in found}


def test_secrets_are_masked_and_ids_over_time_stay_comparable(tmp_path):
    path = tmp_path / "session.jsonl"
    watcher = watched(streamable("2025-06-18", session="id-5f0c", token="t-secret"), path)
    compare(watcher)
    text = b"".join(each.read_bytes() for each in watcher.recordings)
    assert b"id-5f0c" not in text
    assert b"t-secret" not in text
    heads = [each["http"].get("headers", {}) for each in decoded(watcher.recordings[0])]
    sessions = {each["mcp-session-id"] for each in heads if "mcp-session-id" in each}
    assert len(sessions) == 1
    tokens = {each["authorization"] for each in heads if "authorization" in each}
    assert len(tokens) == 1
    assert tokens.pop().startswith("Bearer masked-")


def test_a_session_id_of_wrong_characters_is_seen_in_the_recording_too(tmp_path):
    watcher = watched(streamable("2025-06-18", session="id 5"), tmp_path / "session.jsonl")
    found = {each.requirement for each in compare(watcher)}
    assert "session.id.visible-ascii" in found

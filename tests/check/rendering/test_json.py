import json

from accord import __version__
from accord.check.rendering.machine_readable import as_json
from accord.check.report import SCORE_RULE, build_report
from check.reports import NASTY, NEW, OLD, hostile_report, server_report


def test_json_has_the_agreed_members():
    shown = json.loads(as_json(hostile_report()))
    assert shown["target"] == f"{NASTY}.jsonl"
    assert (shown["revision"], shown["score"]) == (NEW, 50)
    assert shown["coverage"] == {"applicable": 5, "exercised": 4}
    agreed = {"id", "level", "party", "revisions", "verdict", "message", "evidence"}
    for each in shown["results"]:
        assert set(each) == agreed | {"by_revision", "clause", "anchor", "repeat"}
    assert shown["results"][2]["evidence"] == [
        {"why": f"sends {NASTY}", "party": "server", "number": 3, "message": NASTY}
    ]
    assert shown["results"][2]["clause"].startswith("The result of tools/call has")
    assert shown["results"][2]["repeat"] is None


def test_json_has_how_a_server_was_checked():
    shown = json.loads(as_json(server_report()))
    assert (shown["party"], shown["transport"]) == ("server", "stdio")
    assert shown["revisions"] == [OLD, NEW]
    assert (shown["at"], shown["seconds"]) == ("2025-07-01 12:00 UTC", 12.345)
    assert (shown["accord"], shown["score_rule"]) == (__version__, SCORE_RULE)
    first = shown["results"][0]
    assert set(first["by_revision"]) == set(first["revisions"]) == {OLD, NEW}
    assert first["repeat"] == (
        f"accord check server 'my server.py' --only {first['id']} --revision {NEW}"
    )


def test_json_has_null_for_unknown_values():
    report = build_report([], target="x", revision=None, judged_by=NEW, decidable=())
    shown = json.loads(as_json(report))
    assert (shown["revision"], shown["score"]) == (None, None)

"""Differences between two results, each at its place; numbers are compared exactly."""

import json

import pytest

from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.differences import DIFFERENCES_MOST, find_differences
from inspector.reached_servers import ask, call_of, make_server, session_of, url_target
from support.http_server import serving
from support.running import on_a_loop
from support.tables import cases


def found(left, right):
    made = find_differences(left, right)
    return [(each.pointer, each.change, each.left, each.right) for each in made]


@cases(
    ("left", "right"),
    [
        ('{"a": 1, "b": [1, 2]}', '{ "b": [1, 2], "a": 1 }'),
        ("1", "1.0"),
        ("0.1", "0.10"),
        ("100", "1e2"),
        ("not JSON", "not JSON"),
        ("[" * 500 + "]" * 500, " " + "[" * 500 + "]" * 500),
    ],
)
def test_equal_values_have_no_difference(left, right):
    assert found(left, right) == []


@cases(
    ("left", "right", "expected"),
    [
        ('{"a": 1}', '{"a": 2}', [("/a", "changed", "1", "2")]),
        ('{"a": 1}', "{}", [("/a", "removed", "1", "")]),
        ("{}", '{"a/b": null}', [("/a~1b", "added", "", "null")]),
        ("9007199254740993", "9007199254740992", [("", "changed")]),
        ("0.30000000000000004", "0.3", [("", "changed")]),
        ("[1]", '["1"]', [("/0", "changed", "1", '"1"')]),
        ("1", "true", [("", "changed", "1", "true")]),
        ("[1, 2, 3]", "[2, 3]", [("/0", "removed", "1", "")]),
        ("[1, 3]", "[1, 2, 3]", [("/1", "added", "", "2")]),
        ("[1, 2]", "[2, 1]", [("/0", "changed", "1", "2"), ("/1", "changed", "2", "1")]),
        ('{"a": [{"b": 1}]}', '{"a": [{"b": 2}]}', [("/a/0/b", "changed", "1", "2")]),
        ("not JSON", "{}", [("", "changed", '"not JSON"', '"{}"')]),
        ("NaN", "1", [("", "changed", '"NaN"', '"1"')]),
        ("1", '{"a": {"b": 1.50}}', [("", "changed", "1", '{"a": {"b": 1.50}}')]),
        ('{"a": [1, [2]]}', "{}", [("/a", "removed", "[1, [2]]", "")]),
        ("1e9999999999999999999", "2e9999999999999999999", [("", "changed")]),
        ("[" * 200_000, "1", [("", "changed")]),
    ],
)
def test_a_difference_has_its_place(left, right, expected):
    assert [each[: len(expected[0])] for each in found(left, right)] == expected


def test_differences_are_bounded_and_long_values_cut():
    left = json.dumps({str(each): each for each in range(3_000)})
    right = json.dumps({str(each): "x" * 2_000 for each in range(3_000)})
    made = find_differences(left, right)
    assert len(made) == DIFFERENCES_MOST
    assert len(made[0].right) < 600


@on_a_loop
async def test_the_results_of_two_calls_are_compared():
    with serving(make_server().asgi()) as port:
        async with session_of(url_target(port), is_connected=True) as session:
            one = await call_of(session, "calls.tool", name="add", arguments='{"a": 1, "b": 2}')
            two = await call_of(session, "calls.tool", name="add", arguments='{"a": 1, "b": 3}')
            history = (await ask(session, "history.list"))["entries"][0]["id"]
            made = await ask(
                session, "compare.results", left={"call": one}, right={"history": history}
            )
            assert not made["is_same"]
            assert "/structuredContent/value" in {each["pointer"] for each in made["differences"]}
            same = await ask(session, "compare.results", left={"call": two}, right={"call": two})
            assert same["is_same"]
            with pytest.raises(ActionRefused, match="c99"):
                await ask(session, "compare.results", left={"call": "c99"}, right={"call": two})


@on_a_loop
async def test_revisions_are_asked_one_after_another():
    from accord_tools.inspector.comparison import RevisionSurvey
    from accord_tools.inspector.log.message_log import InspectedLog
    from inspector.reached_servers import until

    with serving(make_server().asgi()) as port:
        async with session_of(url_target(port)) as session:
            await ask(session, "revisions.run")
            with pytest.raises(ActionRefused, match="already"):
                await ask(session, "revisions.run")
            survey = session.part(RevisionSurvey)
            await until(lambda: survey.state == "done")
            shown = await ask(session, "revisions.get")
            assert session.part(InspectedLog).is_empty
    states = {row["revision"]: row["state"] for row in shown["rows"]}
    assert states == {
        "2026-07-28": "ok",
        "2025-11-25": "ok",
        "2025-06-18": "ok",
        "2025-03-26": "ok",
        # Over Streamable HTTP this revision is refused or spoken, as the server decides.
        "2024-11-05": states["2024-11-05"],
    }
    assert shown["rows"][0]["counts"] == {
        "tools": 3,
        "resources": 1,
        "templates": 0,
        "prompts": 1,
    }
    assert shown["rows"][0]["differences"] == []
    oldest = next(row for row in shown["rows"] if row["revision"] == "2025-03-26")
    assert any("outputSchema" in each for each in oldest["differences"])


@on_a_loop
async def test_a_server_that_does_not_listen_has_no_revision():
    from accord_tools.inspector.comparison import RevisionSurvey
    from inspector.reached_servers import until

    async with session_of(url_target(1)) as session:
        await ask(session, "revisions.run")
        await until(lambda: session.part(RevisionSurvey).state == "done")
        rows = (await ask(session, "revisions.get"))["rows"]
    assert len(rows) > 4
    assert {row["state"] for row in rows} <= {"refused", "failed"}
    assert all("127.0.0.1" in row["detail"] for row in rows)
    assert all(row["differences"] == [] for row in rows)

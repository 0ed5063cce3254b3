"""Rules of directories: which of them a server does not fulfil."""

from datetime import date

import pytest

from accord.protocol.catalogue import catalogue
from accord_tools.fleet.catalogs import LINT_RULES
from accord_tools.fleet.catalogs.readiness import (
    DIRECTORIES,
    UNDECIDED,
    check_readiness,
    known_findings,
    readiness_rules,
)
from accord_tools.fleet.results import CatalogChange
from support.tables import cases

URL = "https://desk.example/mcp"
BOTH = ("claude", "openai")
ALL_PASS = {id: "pass" for each in readiness_rules() for id in each.requirements}


def tool(name="get_weather", **members):
    """A tool that both directories accept."""
    return {
        "name": name,
        "title": "Weather",
        "description": "Return the weather of a city for the next days.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
        "annotations": {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False},
        **members,
    }


def takes(**properties):
    return tool(inputSchema={"type": "object", "properties": properties})


def check(*tools, directories=BOTH, url=URL, verdicts=ALL_PASS, changes=()):
    return check_readiness(
        directories,
        catalog={"server": "desk", "tools": list(tools)},
        url=url,
        verdicts=verdicts,
        changes=changes,
        server="desk",
    )


def ids(found):
    return sorted(each.id.removeprefix("directory.") for each in found)


def test_a_server_that_fulfils_all_rules_has_no_findings():
    assert check(tool()) == ()
    assert check(tool(annotations={}), directories=()) == ()


def test_every_rule_names_its_page_and_the_day_of_its_reading():
    rules = readiness_rules()
    assert len({each.id for each in rules}) == len(rules)
    for each in rules:
        assert each.id.startswith(f"directory.{each.directory}-")
        assert each.page.startswith("https://")
        assert each.read == date(2026, 8, 19)
        assert sum(map(bool, (each.lint, each.requirements, each.check))) == 1
        assert set(each.lint) <= set(LINT_RULES)
        assert set(each.requirements) <= set(catalogue())
    assert {each.directory for each in rules} == set(DIRECTORIES)
    assert known_findings() >= {*LINT_RULES, "directory.claude-titles", UNDECIDED}


@cases(
    ("entry", "claude", "openai", "text"),
    [
        (tool("x" * 65), ["claude-name-length"], ["openai-name-length"], "shorten xxx"),
        (tool(title=" "), ["claude-titles"], [], "without title: get_weather"),
        (
            tool(annotations={}),
            ["claude-hints"],
            ["openai-hints"],
            "get_weather",
        ),
        (
            tool(annotations={"readOnlyHint": True}),
            [],
            ["openai-hints"],
            "get_weather (destructiveHint, openWorldHint)",
        ),
        (
            tool(
                annotations={"readOnlyHint": True, "destructiveHint": True, "openWorldHint": False}
            ),
            ["claude-hints-agree"],
            [],
            "these say both: get_weather",
        ),
        (
            takes(action={"enum": ["list_items", "deleteItem"]}),
            ["claude-separate-writes"],
            [],
            "split get_weather (by action)",
        ),
        (
            takes(action={"oneOf": [{"const": "get"}, {"const": "put"}]}),
            ["claude-separate-writes"],
            [],
            "split get_weather (by action)",
        ),
        (
            takes(operation={"type": "string"}),
            ["claude-named-operations"],
            [],
            "give an enum to operation of get_weather",
        ),
        (tool(description=""), [], ["openai-descriptions"], "not so: tool get_weather"),
        (tool(inputSchema={}), [], ["openai-object-schema"], "not so: get_weather"),
    ],
)
def test_a_tool_that_breaks_a_rule_is_named(entry, claude, openai, text):
    found = check(entry)
    assert ids(found) == sorted([*claude, *openai])
    assert ids(check(entry, directories=("claude",))) == claude
    for each in found:
        assert each.server == "desk"
        assert "get_weather" in each.text or "xxx" in each.text
        assert each.source.endswith("read 2026-08-19")
        assert each.source.startswith(("Claude directory, https", "ChatGPT directory, https"))
    assert any(text in each.text for each in found)


@cases(
    "entry",
    [
        takes(state={"enum": ["open", "closed"]}),
        takes(action={"enum": ["list", "search"]}),
        takes(action={"type": "string", "enum": ["create", "update"]}),
        takes(query={"type": "string"}, mode={"type": "integer"}),
        tool(title="", annotations={**tool()["annotations"], "title": "Weather"}),
    ],
)
def test_ordinary_tools_are_accepted(entry):
    assert check(entry) == ()


def test_advice_is_a_hint():
    (finding,) = check(takes(operation={"type": "string"}))
    assert finding.severity == "info"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (URL, []),
        ("http://desk.example/mcp", ["claude-https", "openai-https"]),
        ("", ["openai-remote"]),
    ],
)
def test_the_endpoint_is_judged_by_its_url(url, expected):
    assert ids(check(tool(), url=url)) == expected


def test_a_failed_requirement_breaks_the_rules_that_rest_on_it():
    found = check(tool(), verdicts={**ALL_PASS, "auth.iss.as-sends": "fail"})
    assert ids(found) == ["openai-issuer"]
    assert "auth.iss.as-sends" in found[0].text
    found = check(tool(), verdicts={**ALL_PASS, "auth.prm.server": "fail"})
    assert ids(found) == ["claude-resource-metadata", "openai-resource-metadata"]


def test_one_way_to_get_a_client_is_enough():
    no_registration = {"auth.dcr.authorization-server": "fail", "auth.dcr.implementations": "fail"}
    assert check(tool(), verdicts={**ALL_PASS, **no_registration}) == ()
    neither = {**ALL_PASS, **no_registration, "auth.cimd.supported": "warn"}
    assert ids(check(tool(), verdicts=neither)) == ["claude-registration", "openai-registration"]


def test_rules_that_were_not_put_to_the_test_are_undecided_and_not_fulfilled():
    found = check(tool(), verdicts={"auth.prm.server": "not-exercised"}, directories=("openai",))
    (finding,) = found
    assert (finding.id, finding.severity) == (UNDECIDED, "info")
    assert "rules about authorization could not be decided" in finding.text
    # Without a check, and for programs, they are left out.
    assert check(tool(), verdicts=None) == ()
    assert ids(check(tool(), verdicts={}, url="", directories=("claude",))) == []


def test_changes_need_a_new_scan():
    changes = [
        CatalogChange(kind="text", subject="tool b", what="description changed"),
        CatalogChange(kind="breaking", subject="tool a", what="removed"),
    ]
    (finding,) = check(tool(), changes=changes)
    assert finding.id == "directory.openai-changes"
    assert "breaking changes since the lock or the run before: tool a" in finding.text
    (finding,) = check(tool(), changes=changes[:1])
    assert "changes since the lock or the run before: tool b" in finding.text


def test_names_of_hostile_servers_are_escaped():
    found = check(tool("\x1b[2J" + "x" * 70 + "\u202e"))
    assert found
    assert all(each.text.isprintable() for each in found)

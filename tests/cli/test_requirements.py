import json

import pytest

from accord.protocol.catalogue import (
    AREAS,
    LEVELS,
    RULE_SET,
    RULE_SET_DIGEST,
    catalogue,
    requirements,
)
from accord.types import REVISION_IDS

NEW = REVISION_IDS[2]


def ids_of(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()]


def test_without_conditions_all_requirements_are_listed_one_per_line(accord):
    done = accord("requirements")
    assert (done.returncode, done.stderr) == (0, "")
    assert ids_of(done.stdout) == list(catalogue())


def test_conditions_combine(accord):
    done = accord(
        "requirements", "--revision", NEW, "--level", "must", "--area", "tools", "--party", "server"
    )
    rows = requirements(revision=NEW, level="MUST", area="tools", party="server")
    assert ids_of(done.stdout) == [row.id for row in rows]


def test_requirements_can_be_filtered_by_check(accord):
    done = accord("requirements", "--check", "human")
    assert ids_of(done.stdout) == [row.id for row in requirements(check="human")]


@pytest.mark.parametrize("spelling", ["must not", "must-not", "MUST NOT"])
def test_a_level_is_known_in_several_spellings(accord, spelling):
    done = accord("requirements", "--level", spelling)
    assert ids_of(done.stdout) == [row.id for row in requirements(level="MUST NOT")]


def test_a_list_shows_the_level_of_the_one_revision_asked_for(accord):
    row = "lifecycle.capabilities.respected"
    for revision, level in ((REVISION_IDS[0], "SHOULD"), (NEW, "MUST")):
        done = accord("requirements", "--revision", revision, "--area", "lifecycle")
        [line] = [line for line in done.stdout.splitlines() if line.startswith(row)]
        assert line.split()[1] == level


def test_several_revisions_give_the_rows_of_any_of_them(accord):
    done = accord("requirements", "--revision", REVISION_IDS[0], "--revision", REVISION_IDS[1])
    either = {row.id for each in REVISION_IDS[:2] for row in requirements(revision=each)}
    assert set(ids_of(done.stdout)) == either


def test_an_id_gives_a_full_card(accord):
    done = accord("requirements", "roots.item.name", "jsonrpc.request.id-unique")
    assert done.returncode == 0
    for expected in (
        "roots.item.name\n  text         A root has a name for display.\n",
        "  mend         Send name of a root as a string, or leave it out",
        "2024-11-05 MAY (a breach is a failure)",
        "2025-06-18 MAY (its absence is reported, and is not a breach)",
        "official     2025-06-18 MAY",
        "source       2024-11-05: 3.1.2",
        "\n\njsonrpc.request.id-unique\n",
        "removed in   2026-07-28",
        "replaced by  jsonrpc.id.distinct-among-pending",
        "change       Scope shrinks",
    ):
        assert expected in done.stdout


def test_a_card_shows_an_official_level_and_a_later_form(accord):
    done = accord("requirements", "tools.call.is-error-flag", "http.post.accepted-202")
    assert "official     MAY" in done.stdout
    assert "changed in   2026-07-28" in done.stdout


def test_json_has_every_field_and_the_revisions(accord):
    done = accord("requirements", "--area", "roots", "--format", "json")
    rows = {row["id"]: row for row in json.loads(done.stdout)}
    assert list(rows) == [row.id for row in requirements(area="roots")]
    name = rows["roots.item.name"]
    assert name["holds"][NEW] == {"level": "MAY", "severity": None}
    assert name["source"][0] == "2024-11-05: 3.1.2"
    assert {"id", "area", "text", "party", "check", "level", "revisions", "note"} <= set(name)


def test_markdown_is_a_table(accord):
    done = accord("requirements", "--area", "ping", "--format", "markdown")
    lines = done.stdout.splitlines()
    assert lines[:2] == ["| id | level | party | check | requirement |", "|---|---|---|---|---|"]
    assert len(lines) == 2 + len(list(requirements(area="ping")))
    assert all(line.count(" | ") == 4 for line in lines[2:])


@pytest.mark.parametrize(
    ("option", "known"),
    [
        ("--revision", REVISION_IDS),
        ("--level", LEVELS),
        ("--area", AREAS),
        ("--party", ("client", "server")),
        ("--check", ("wire", "human")),
        ("--format", ("text", "json", "markdown")),
    ],
)
def test_an_unknown_value_is_refused_with_the_known_ones(accord, option, known):
    done = accord("requirements", option, "nope")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"accord: unknown {option[2:]} 'nope'; known: ")
    assert all(each in done.stderr for each in known)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("tools.call.iserror-flag", "did you mean tools.call.is-error-flag"),
        ("roots.item", "did you mean roots.item.uri or roots.item.name or"),
        ("xxxxxxxx", "`accord requirements` lists all"),
    ],
)
def test_an_unknown_id_is_refused_with_a_hint(accord, given, hint):
    done = accord("requirements", given)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"accord: unknown requirement '{given}'; ")
    assert hint in done.stderr


def test_no_matching_requirement_is_reported(accord):
    done = accord("requirements", "--area", "ping", "--level", "must-not")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "accord: no requirement matches these options\n"


def test_a_terminal_gets_wrapped_columns_and_colours(on_terminal):
    code, shown = on_terminal("requirements", "--area", "ping", COLUMNS="110")
    assert code == 0
    assert "\x1b[1m" in shown
    plain = shown.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert max(map(len, plain.splitlines())) <= 110
    assert len(plain.splitlines()) > len(list(requirements(area="ping")))


def test_a_terminal_without_colours_stays_plain(on_terminal):
    _, shown = on_terminal("requirements", "ping.response.prompt", NO_COLOR="1")
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_narrow_terminal_gets_the_text_below(on_terminal):
    _, shown = on_terminal("requirements", "--area", "ping", NO_COLOR="1", COLUMNS="60")
    assert "\n    Either side may send ping, a request without parameters.\n" in shown


def test_the_date_of_the_rule_set_is_printed(accord):
    done = accord("requirements", "--rules")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"rules {RULE_SET}\n", "")
    shown = json.loads(accord("requirements", "--rules", "--format", "json").stdout)
    counted = {"digest": RULE_SET_DIGEST, "requirements": len(catalogue())}
    assert shown == {"rules": RULE_SET, **counted}
    assert "  accord requirements --rules  " in accord("requirements", "--help").stdout


@pytest.mark.parametrize("more", [["--area", "tools"], ["tools.call.content-array"]])
def test_the_rule_set_is_that_of_all_requirements(accord, more):
    done = accord("requirements", "--rules", *more)
    assert (done.returncode, done.stdout) == (2, "")
    assert "leave ids and filters out" in done.stderr

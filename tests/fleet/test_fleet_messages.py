"""Mistakes of beginners: each message names the cause, the place and what to do."""

import json
import os
from pathlib import Path

import pytest

from accord_tools.contract.lock_file import read_lock
from accord_tools.fleet.commands.run import write_locks
from accord_tools.fleet.file.reader import read_fleet
from accord_tools.fleet.history import open_history
from accord_tools.fleet.rendering import render_fleet
from accord_tools.fleet.rendering.markdown import as_markdown
from accord_tools.fleet.rendering.text import as_text
from accord_tools.fleet.rendering.wording import group_findings
from accord_tools.fleet.results import CatalogChange, CatalogFinding, ServerDocuments
from fleet.past_runs import SMALL, result, rule, view

ONE = '[mcpServers.notes]\ncommand = "x"\n'


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("f.toml", f'{ONE}[servers.notes]\nowner = "a"\n', "f.toml:3: [servers.notes] has neither"),
        ("f.toml", f"{ONE}{ONE}", "f.toml:3: the table mcpServers.notes appears twice; keep one"),
        (
            "f.json",
            '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}',
            "f.json:1: the key 'a' appears twice in this object",
        ),
        ("f.json", " \n", "f.json is empty; accord fleet add NAME -- COMMAND adds a server"),
        (
            "f.toml",
            f"{ONE}[defaults]\nmax_age = 1e300\n",
            "f.toml:4: defaults: max_age is 1e+300, expected a number of hours, 87600 at the most",
        ),
        ("f.tml", "", "f.tml: the ending is not known; expected .toml, .json or .yaml"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_line(accord, name, text, said):
    Path(name).write_text(text)
    code, out, err = accord(name, "--yes")
    assert (code, out) == (2, "")
    assert err.startswith(f"accord: {said}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["histroy"], "there is no file histroy; did you mean accord fleet history?"),
        (["fleets.tml"], "fleets.tml: there is no such file; there is fleet.toml"),
        (["--tag", "x"], "no server of fleet.toml has the tag x; there are internal, python"),
        (["--owner", "x"], "no server of fleet.toml has the owner x; no server has any owner"),
        (["--tag", "python", "--shard", "2/2"], "no server of fleet.toml fits --tag and --shard"),
        (
            ["--output", "a.csv"],
            "--output a.csv: accord fleet does not write this form any more; use JSON",
        ),
        (["--output", "a.prom"], "or --output fleet.json"),
        (
            ["--format", "openmetrics"],
            "--format openmetrics: accord fleet does not write this form",
        ),
        (["--format", "ndjson"], "--format json, or --output fleet.json"),
        (["--output", "a.pdf"], "its ending stands for no form; known: .txt, .json, .xml, .sarif"),
        (["--output", "fleet.toml/"], "fleet.toml is a file; name another folder for the pages"),
        (["--output", "pages/"], "pages/index.html exists, and accord fleet did not write it"),
    ],
)
def test_a_mistake_on_the_command_line_costs_no_run(accord, words, said):
    Path("fleet.toml").write_text(f'{ONE}[server.notes]\ntags = ["python", "internal"]\n')
    Path("pages").mkdir()
    Path("pages/index.html").touch()
    file = [] if len(words) == 1 else ["fleet.toml"]
    code, out, err = accord("run", *file, "--yes", "--no-history", *words)
    assert (code, out) == (2, "")
    assert said in err


def test_a_missing_variable_or_program_is_described_in_words(accord):
    Path("f.json").write_text(
        json.dumps(
            {
                "mcpServers": {
                    "both": {"command": "x", "env": {"A": "${NOT_SET}", "B": "${env:NOR_THIS}"}},
                    "words": {"command": "env a.py --fast"},
                }
            }
        )
    )
    code, out, err = accord("f.json", "--yes", "--no-history")
    assert code == 2
    assert "both: skipped (0.0 s): needs the variables NOT_SET, NOR_THIS, which are not set" in err
    assert 'needs args: write command = "env" and args = ["a.py", "--fast"]' in out


def test_a_report_is_printed_even_if_a_file_cannot_be_written(accord):
    Path("f.toml").write_text(ONE)
    Path("pages").mkdir()
    Path("pages/servers").symlink_to("/")
    code, out, err = accord("f.toml", "--yes", "--no-history", "--output", "pages/")
    assert code == 2
    assert "pages/servers is a link" in err
    assert "needs the program x, which is not on the PATH" in out


@pytest.mark.parametrize("kind", ["", "run", "import", "merge"])
def test_help_breaks_no_name_at_a_hyphen(accord, kind, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = accord(*filter(None, [kind, "--help"]))
    assert code == 0
    assert not [line for line in out.splitlines() if line.endswith("-")]


def test_init_without_servers_says_how_to_add_one(accord):
    code, out, _ = accord("init")
    assert code == 0
    assert "next: add a server: accord fleet add NAME -- COMMAND, or accord fleet import\n" in out


def test_importing_a_folder_leaves_out_files_of_accord(accord):
    Path("accord-fleet.toml").write_text(ONE)
    Path("mcp.json").write_text('{"mcpServers": {"other": {"command": "x"}}}')
    assert accord("import", ".")[0] == 0
    assert [each.name for each in read_fleet(Path("accord-fleet.toml")).servers] == [
        *("notes", "other"),
    ]


def test_add_says_which_urls_there_are(accord):
    said = "accord: ftp://x: the URL of a server begins with http:// or https://\n"
    assert accord("add", "a", "ftp://x")[::2] == (2, said)


# -- locks


def test_a_lock_replaces_only_a_lock(accord, capsys):
    Path("f.toml").write_text(f'{ONE}[server.notes]\nlock = "locks/notes.json"\n')
    servers = read_fleet(Path("f.toml")).servers
    catalog = {"server": "notes", "tools": []}
    given = view(result("notes"), documents={"notes": ServerDocuments(catalog=catalog)})
    assert write_locks(servers, given)
    assert write_locks(servers, given)
    assert read_lock(Path("locks/notes.json"))["server"] == "notes"
    Path("locks/notes.json").write_text("mine")
    assert not write_locks(servers, given)
    assert Path("locks/notes.json").read_text() == "mine"
    assert "exists and is not a lock file; remove it, or name another" in capsys.readouterr().err
    Path("locks/notes.json").unlink()
    Path("locks").rmdir()
    Path("locks").touch()
    assert not write_locks(servers, given)
    assert "no lock was written: " in capsys.readouterr().err
    assert write_locks([], given)
    assert 'write lock = "locks/{name}.lock.json" into [defaults]' in capsys.readouterr().err


def test_every_change_against_the_lock_is_in_the_report():
    changes = (
        CatalogChange(kind="breaking", subject="tool add", what="removed"),
        CatalogChange(kind="text", subject="tool sub", what="description changed"),
    )
    found = view(result("a", "failed", changes=changes, changed_since="lock"))
    assert "  breaking change: tool add: removed\n  text change: tool sub: desc" in as_text(found)
    assert "- **breaking change** tool add: removed\n" in as_markdown(found)


# -- findings


def finding(subject, text, id="surface.x", server="a", **more):
    given = {"severity": "warn", **more}
    return CatalogFinding(id=id, subject=subject, text=text, server=server, **given)


SEVERAL = (
    finding("tool one", "has no hint; say what it does"),
    finding("tool two", "has no hint; say what it does"),
    finding("tool one", "1 of 2 without a text: p; say what each means", "surface.y"),
    finding("tool two", "2 of 2 without a text: p, q; say what each means", "surface.y"),
    finding("tool one", "accepted", accepted="later"),
    finding("tool one", "is a hint only", severity="info"),
    finding("", "uses http; use https", "safety.z"),
)


def test_equal_findings_of_a_server_are_one_line():
    found = view(result("a", findings=SEVERAL))
    text = as_text(found)
    assert (
        "findings (5):\n"
        "  surface.x: a: tool one, tool two: has no hint; say what it does\n"
        "  surface.y: a: tool one (1 of 2 without a text: p), tool two (2 of 2 without a text: p,"
        " q): say what each means\n"
        "  safety.z: a: uses http; use https\n\n"
    ) in text
    assert "**a** tool one, tool two: has no hint; say what it does\n" in as_markdown(found)
    assert "<summary>5 findings</summary>" in as_markdown(found)


def test_every_report_counts_the_same_findings():
    found = view(result("a", findings=SEVERAL))
    summary = json.loads(render_fleet(found, "json"))["summary"]
    assert (summary["findings"], summary["hints"]) == (5, 1)
    page = render_fleet(found, "html")
    assert '<h2 id="findings">Findings <span class="quiet count">5</span></h2>' in page
    assert "5 findings, 1 hint" in page


def test_limits_that_are_too_loose_are_one_line():
    def better(name, limit, number, state="ok"):
        remark = f"better than expected: lower expect.{limit} to {number}"
        return result(name, state, remarks=(remark, "another remark"))

    text = as_text(
        view(better("a", "failures", 1), better("b", "failures", 0), better("c", "tests", 2))
    )
    line = (
        "note: better than expected: lower expect.failures of a (to 1), b (to 0);"
        " expect.tests of c (to 2)\n"
    )
    assert line in text
    assert text.count("better than expected") == 1
    assert text.count("note: another remark") == 3


def test_a_server_without_numbers_has_its_reason_in_the_table_of_markdown():
    down = result("a", "unreachable", verdicts={}, reasons=("it said: KEY is not set",))
    assert "| a | \u274c unreachable: it said: KEY is not set |" in as_markdown(view(down))


def test_findings_of_two_servers_stay_apart_and_long_lists_are_counted():
    many = [finding(f"tool {number}", "bad", server=name) for name in "ab" for number in range(9)]
    assert [len(each.subjects) for each in group_findings(many)] == [9, 9]
    text = as_text(view(result("a", findings=tuple(many[:9]))))
    assert "surface.x: a: tool 0, tool 1, tool 2, tool 3, tool 4, and 4 more: bad\n" in text
    text = as_text(view(result("a", findings=tuple(many[:9]))), is_verbose=True)
    assert "tool 7, tool 8: bad\n" in text


# -- comparisons


def test_a_run_without_checks_does_not_hide_a_new_failure(tmp_path):
    good = result("a", applicable=8, exercised=2)
    bad = result("a", "failed", applicable=8, verdicts={rule(0): "fail", rule(1): "pass"})
    with open_history(tmp_path / "h.sqlite") as history:
        first = history.save_run(view(good), SMALL)
        history.save_run(view(result("a", verdicts={})), SMALL)
        before = history.last_run("desk")
        assert before.id == first
        compared = history.compare(before, view(bad), SMALL)
        assert [each.kind for each in compared.regressions] == ["new-failure"]
        # One in which it could not be reached is compared with: it may be reachable again.
        down = history.save_run(view(result("a", "unreachable", verdicts={})), SMALL)
        assert history.last_run("desk").id == down


def test_an_unreadable_place_is_named(accord):
    Path("f.toml").write_text(ONE)
    os.mkdir("dir.sqlite")
    code, _, err = accord("f.toml", "--yes", "--history", "dir.sqlite")
    assert code == 2
    assert "dir.sqlite" in err

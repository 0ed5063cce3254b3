import argparse
import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from accord.cli.main import main
from accord.cli.options import add_options
from accord.secrets.filter import display_target
from accord_tools.reports import delivery
from check.sessions import NEW, opening, request, result, text_of
from support.tables import cases

BAD = [*opening(), request(2, "ping"), result(2), {**request(2, "ping"), "t": 1}]
BEGINNINGS = {
    "report.txt": "{target}: revision ",
    "report.json": '{{\n  "target": ',
    "report.xml": "<?xml ",
    "report.sarif": '{{\n  "$schema": ',
    "report.sarif.json": '{{\n  "$schema": ',
    "report.md": "### accord: ",
    "report.HTML": "<!doctype html>",
    "report.svg": "<svg ",
    "report.unknown": "{target}: revision ",
}
SERVER = """
from accord import Server

server = Server("small")
"""


@pytest.fixture
def bad(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text(text_of(BAD))
    return path


@pytest.fixture
def server(tmp_path):
    path = tmp_path / "small.py"
    path.write_text(SERVER)
    return path


def beginning(name, target):
    return BEGINNINGS[name].format(target=target)


@pytest.mark.parametrize("name", BEGINNINGS)
def test_the_ending_of_a_file_chooses_the_form(bad, tmp_path, name, capsys):
    path = tmp_path / name
    assert main(["check", "trace", str(bad), "--output", str(path)]) == 1
    assert path.read_text().startswith(beginning(name, bad))
    assert capsys.readouterr().out.count("\n") == 1


def test_several_files_are_written_each_in_its_form(bad, tmp_path, capsys):
    outputs = [word for name in BEGINNINGS for word in ("--output", str(tmp_path / name))]
    assert main(["check", "trace", str(bad), *outputs]) == 1
    for name in BEGINNINGS:
        assert (tmp_path / name).read_text().startswith(beginning(name, bad))
    assert capsys.readouterr().out.count("\n") == 1


def test_a_named_form_is_used_for_one_file_and_for_unknown_endings(bad, tmp_path):
    command = ["check", "trace", str(bad), "--format", "sarif", "--output"]
    assert main([*command, str(tmp_path / "one.json")]) == 1
    assert "$schema" in json.loads((tmp_path / "one.json").read_text())
    assert main([*command, str(tmp_path / "a.json"), "--output", str(tmp_path / "b.log")]) == 1
    assert "$schema" not in json.loads((tmp_path / "a.json").read_text())
    assert "$schema" in json.loads((tmp_path / "b.log").read_text())


def test_reports_are_dated(bad, capsys):
    main(["check", "trace", str(bad), "--format", "json"])
    assert json.loads(capsys.readouterr().out)["at"].endswith(" UTC")


@pytest.mark.parametrize("form", ["html", "badge", "sarif"])
def test_every_form_can_be_printed(bad, form, capsys):
    assert main(["check", "trace", str(bad), "--format", form]) == 1
    assert len(capsys.readouterr().out) > 100


@pytest.fixture
def no_templates(monkeypatch):
    for name in [each for each in sys.modules if each.split(".")[0] in ("jinja2", "markupsafe")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.setitem(sys.modules, "markupsafe", None)


def test_forms_but_html_need_no_library_for_templates(no_templates, bad, tmp_path, capsys):
    names = [name for name in BEGINNINGS if not name.endswith("HTML")]
    outputs = [word for name in names for word in ("--output", str(tmp_path / name))]
    assert main(["check", "trace", str(bad), *outputs]) == 1
    for name in names:
        assert (tmp_path / name).read_text().startswith(beginning(name, bad))


@pytest.mark.parametrize(
    "words",
    [
        ("check", "trace", "{bad}", "--format", "html"),
        ("check", "trace", "{bad}", "--output", "report.html"),
        ("check", "trace", "{bad}", "--output", "a.json", "--output", "report.html"),
        ("fleet", "run", "{fleet}", "--yes", "--no-history", "--output", "fleet.html"),
        ("fleet", "run", "{fleet}", "--yes", "--no-history", "--output", "site/"),
    ],
)
def test_html_without_templates_names_the_extra_before_the_work(
    no_templates, bad, tmp_path, monkeypatch, capsys, words
):
    monkeypatch.chdir(tmp_path)
    Path("fleet.toml").write_text("[mcpServers.small]\ncommand = 'small'\n")
    given = [each.format(bad=bad, fleet="fleet.toml") for each in words]
    assert main(given) == 2
    assert "a report as HTML needs the extra 'cli': run pip install" in capsys.readouterr().err
    assert {each.name for each in tmp_path.iterdir()} <= {"bad.jsonl", "fleet.toml"}


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("small.py", "small.py"),
        ("./small.py:server", "small.py"),
        ("python small.py --flag", "small.py"),
        ("https://example.com/mcp", "pyproject.toml"),
        ("../outside.py", "pyproject.toml"),
        ("nul\0byte", "pyproject.toml"),
    ],
)
def test_the_file_to_show_breaches_in_is_one_of_the_project(
    server, monkeypatch, tmp_path, target, shown
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    assert delivery.artifact_file(target) == shown


@cases(
    ("target", "shown"),
    [
        ("https://example.com/mcp", "https://example.com/mcp"),
        ("https://me:w@rd@example.com/mcp", "https://masked-0@example.com/mcp"),
        ("http://h/mcp?a=1&key=2#part", "http://h/mcp?a=masked-0&key=masked-0#part"),
        ("desk.py:server", "desk.py:server"),
        ("", ""),
    ],
)
def test_urls_are_shown_without_secrets(target, shown):
    assert display_target(target) == shown


def test_a_target_without_a_file_has_no_file_to_show(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert delivery.artifact_file("https://example.com/mcp") is None


def test_a_report_that_cannot_be_written_is_exit_code_2(bad, tmp_path, capsys):
    assert main(["check", "trace", str(bad), "--output", "/dev/full"]) == 2
    assert capsys.readouterr().err.startswith("accord: /dev/full: ")
    with pytest.raises(SystemExit):
        main(["check", "trace", str(bad), "--output", str(tmp_path)])
    assert f"{tmp_path} is a folder" in capsys.readouterr().err


def test_options_have_the_agreed_defaults():
    parser = argparse.ArgumentParser()
    add_options(parser, delivery.OPTIONS)
    defaults = {"format": None, "output": [], "quiet": False, "verbose": False}
    assert vars(parser.parse_args([])) == defaults
    assert parser.parse_args(["--output", "a"]).output == [Path("a")]


ONE = "errors.code.method-not-found"
CHECK = ("--only", ONE, "--revision", NEW)


def test_the_report_of_a_server_check_has_its_command_without_secrets(accord, server):
    secrets = ("--env", "KEY=hidden-1", "--header", "X-Key: hidden-2", "--bearer", "hidden-3")
    done = accord("check", "server", server, *CHECK, *secrets, "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    shown = json.loads(done.stdout)
    assert (shown["target"], shown["party"], shown["transport"]) == (str(server), "server", "stdio")
    assert shown["revisions"] == [NEW]
    assert shown["seconds"] > 0
    assert {each["repeat"] for each in shown["results"]} == {
        f"accord check server {server} --header 'x-key: ...' --bearer \"$TOKEN\" --env KEY=..."
        f" --only {each['id']} --revision {NEW}"
        for each in shown["results"]
    }
    assert "hidden" not in done.stdout


def test_the_command_to_repeat_ends_with_the_command_of_the_server(accord, server):
    words = (sys.executable, "-m", "accord.cli.main", "run", server)
    command = " ".join(map(str, words))
    done = accord("check", "server", *CHECK, "--format", "junit", "--", *words)
    assert done.returncode == 0, done.stderr
    assert ET.fromstring(done.stdout).get("name") == f"accord: {command}"
    done = accord("check", "server", *CHECK, "--format", "json", "--", *words)
    repeat = json.loads(done.stdout)["results"][0]["repeat"]
    assert repeat.startswith(f"accord check server --only {ONE}")
    assert repeat.endswith(f" --revision {NEW} -- {command}")


def test_a_terminal_shows_the_revision_and_the_scenario(on_terminal, server):
    code, shown = on_terminal("check", "server", server, "--only", ONE, COLUMNS="120")
    assert code == 0
    assert "checking" in shown
    assert re.search(r"\d{4}-\d\d-\d\d \(\d of \d\)", shown)
    assert "100%" in shown


def test_progress_is_not_shown_without_a_terminal(accord, server):
    done = accord("check", "server", server, *CHECK)
    assert done.stderr == ""
    assert "checking" not in done.stdout

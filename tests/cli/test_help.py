import re
import shlex

import pytest

from accord.cli.main import _parse, main
from accord_tools.check.probing.tool_calls import DEFAULT_CALLS
from support.tables import cases

COMMANDS = (
    *(
        "",
        "run",
        "proxy",
        "list",
        "call",
        "inspect",
        "check",
        "check server",
        "check client",
        "check trace",
        "watch",
    ),
    *("test", "lock", "verify", "doctor", "auth", "exec", "bundle", "requirements"),
    *("add", "remove", "hosts", "hosts list", "hosts check", "hosts repair", "hosts sync"),
    "hosts undo",
    *("fleet", "fleet run", "fleet lint", "fleet history", "fleet merge", "fleet prune"),
    *("fleet init", "fleet add", "fleet import", "fleet export", "fleet trust"),
)


def outcome(*words):
    try:
        return main(words)
    except SystemExit as end:
        return end.code


@cases("command", COMMANDS)
def test_the_help_of_every_command_has_usage_and_exit_codes(command, capsys):
    assert outcome(*command.split(), "--help") == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: accord {command}".rstrip())
    assert "Exit code: " in shown
    assert "\nexamples:\n  accord " in shown


@cases("command", COMMANDS)
def test_the_examples_in_help_can_be_parsed(command, capsys):
    outcome(*command.split(), "--help")
    examples = capsys.readouterr().out.partition("\nexamples:\n")[2].partition("\n\n")[0]
    for line in examples.splitlines():
        given = re.search(r"accord [^|>]*", re.split(r" {3,}", line.strip())[0])
        assert _parse(shlex.split(given[0], comments=True)[1:]).run, line


@cases("command", COMMANDS)
def test_help_fits_a_narrow_terminal_except_for_examples(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    outcome(*command.split(), "--help")
    about, _, examples = capsys.readouterr().out.partition("\nexamples:\n")
    paragraphs = about.split("\n\n")[1:] + examples.split("\n\n")[1:]
    lines = [line for each in paragraphs if each[0] != " " for line in each.splitlines()]
    assert max(map(len, lines)) < 60


def headings(shown):
    return re.findall(r"^ *([a-z ]+):$", shown.partition("\nexamples:")[0], re.MULTILINE)


def test_help_has_the_commands_in_groups(capsys):
    outcome("--help")
    shown = capsys.readouterr().out
    titles = ["options", "commands", "build and use", "check", "hosts", "operate"]
    assert headings(shown) == titles
    assert shown.index("    verify ") < shown.index("  hosts:\n") < shown.index("    add ")


@pytest.mark.parametrize(
    ("command", "groups"),
    [
        ("list", ["connection", "authorization"]),
        ("test", ["output", "connection", "authorization"]),
        ("check server", ["connection", "authorization", "output"]),
    ],
)
def test_help_has_the_options_of_a_command_in_groups(command, groups, capsys):
    outcome(*command.split(), "--help")
    shown = capsys.readouterr().out
    assert headings(shown)[-len(groups) :] == groups
    connection = shown.partition("\nconnection:\n")[2].partition("\n\n")[0]
    assert "--cwd DIR" in connection
    assert "--oauth" not in connection


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "accord needs a COMMAND: run, proxy, list, call, "),
        ("lst x.py", "there is no COMMAND lst; did you mean list? (see accord --help)"),
        ("zzz", "there is no COMMAND zzz; there are run, proxy, list, call, inspect, "),
        ("check servr x.py", "there is no WHAT servr; did you mean server? (see accord check"),
        ("check desk.py", "there is no WHAT desk.py; did you mean accord check server desk.py?"),
        ("check http://x/mcp", "did you mean accord check server http://x/mcp?"),
        ("list --fromat=json x.py", "no option --fromat; did you mean --format? (see accord list"),
        ("check server --zzz x.py", "there is no option --zzz (see accord check server --help)"),
        ("--fromat list x.py", "there is no option --fromat"),
        ("check trace a b", "unexpected b"),
        (
            "run x.py --http --port 65536",
            "argument --port: '65536' is not a port, expected 0 to 65535",
        ),
        ("watch --listen x http://y/", "argument --listen: 'x' is not a port, expected 0 to 65535"),
        ("check server", "check server needs a TARGET: a URL, a Python file, a module, or -- and"),
        ("check server http://x/ y", "check server takes one TARGET; unexpected y"),
        ("lock http://x/ y", "lock takes one TARGET; unexpected y"),
        ("verify http://x/ -- y", "either http://x/ or the command after --, not both"),
        ("test http://x/ --seed 1 y", "test takes one TARGET; unexpected y"),
        ("check client a {url}", "write the client's command after --: -- a {url}"),
        ("check server http://x/ --bearer -", "--bearer - reads the variable ACCORD_BEARER, which"),
        ("doctor http://x/ --format poem", "unknown format 'poem'; known: text, json"),
    ],
)
def test_a_mistake_is_one_line_with_a_hint(words, said, capsys, monkeypatch):
    monkeypatch.delenv("ACCORD_BEARER", raising=False)
    assert outcome(*words.split()) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert shown.err.startswith("accord: ")
    assert said in shown.err


@pytest.mark.parametrize("command", [("check", "server"), ("test",)])
def test_the_help_names_the_default_number_of_calls(command, capsys):
    outcome(*command, "--help")
    assert f"(default: {DEFAULT_CALLS}" in " ".join(capsys.readouterr().out.split())

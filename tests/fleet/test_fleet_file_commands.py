"""The commands that make and change fleet files."""

import json
import os
import pty
import tomllib

import pytest

from accord_tools.fleet.definition import DEFAULT_TIME
from accord_tools.fleet.file.reader import read_fleet
from accord_tools.fleet.file.trust import TrustStore

SECRET = "Zq9-hidden-value-77"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "accord-fleet.toml"


def test_init_writes_the_servers_of_a_repository(accord, path, tmp_path):
    (tmp_path / "desk.py").write_text("from accord import Server\nserver = Server('desk')\n")
    (tmp_path / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"git": {"command": "git-mcp", "env": {"GIT_TOKEN": SECRET}}}})
    )
    code, out, err = accord("init")
    assert (code, err) == (0, "")
    assert "wrote accord-fleet.toml with 2 servers" in out
    assert "set these variables before a run: GIT_TOKEN" in out
    assert "add accord-fleet.sqlite* to .gitignore" in out
    assert "next: look at the file, then: accord fleet trust, accord fleet\n" in out
    assert SECRET not in out + path.read_text()
    fleet = read_fleet(path)
    assert [each.name for each in fleet.servers] == ["git", "desk"]
    assert fleet.rules == "2026-11"
    assert {each.time for each in fleet.servers} == {DEFAULT_TIME}
    with_locks = tmp_path / "with-locks.toml"
    with_locks.write_text(path.read_text().replace("# lock =", "lock ="))
    assert [each.lock.name for each in read_fleet(with_locks).servers] == [
        "git.lock.json",
        "desk.lock.json",
    ]
    before = path.read_bytes()
    assert accord("init")[::2] == (
        *(2, "accord: accord-fleet.toml exists already; accord fleet add and import extend it\n"),
    )
    assert path.read_bytes() == before


def test_init_without_servers_writes_an_example(accord, path, tmp_path):
    (tmp_path / ".gitignore").write_text("accord-fleet.sqlite*\n")
    code, out, _ = accord("init")
    assert (code, out.count(".gitignore")) == (0, 0)
    assert "with 0 servers" in out
    commented = [line[2:] for line in path.read_text().splitlines() if line.startswith("# ")][1:]
    path.write_text(path.read_text() + "\n".join(commented))
    assert [each.name for each in read_fleet(path).servers] == ["tickets"]


def test_init_takes_the_servers_of_hosts_only_if_asked(accord, path, tmp_path):
    (tmp_path / "home" / ".cursor").mkdir(parents=True)
    entry = {"command": "x", "env": {"K_TOKEN": SECRET}}
    for name in (".cursor/mcp.json", ".claude.json"):
        (tmp_path / "home" / name).write_text(json.dumps({"mcpServers": {"mine": entry}}))
    (tmp_path / "home" / ".gemini").mkdir()
    (tmp_path / "home" / ".gemini" / "settings.json").write_text("{ broken")
    assert "with 0 servers" in accord("init", "--output", "one.toml")[1]
    code, out, err = accord("init", "--hosts", "--output", "fleet.toml")
    assert code == 0
    assert "wrote fleet.toml with 1 server\n" in out
    assert "then: accord fleet trust fleet.toml, accord fleet fleet.toml\n" in out
    assert "left out: " in err
    assert SECRET not in out + err + (tmp_path / "fleet.toml").read_text()
    assert "# from Claude Code: " in (tmp_path / "fleet.toml").read_text()


def test_add_writes_a_command(accord, path):
    path.write_text("# mine\n[mcpServers.a]\ncommand = 'x'\n")
    code, out, err = accord(
        *("add", "tickets", "--env", f"API_KEY={SECRET}", "--env", "MODE=dev", "--tag", "t"),
        *(
            "--owner",
            "team-a",
            "--lock",
            "locks/t.json",
            "--need",
            "DB_URL",
            "--cwd",
            "sub",
            "--",
            "python",
            "-m",
            "x y",
        ),
    )
    assert (code, err) == (0, "")
    assert out == (
        "added to accord-fleet.toml:\n  tickets  python -m 'x y'\n"
        "set these variables before a run: API_KEY\n"
    )
    assert path.read_text().startswith("# mine\n[mcpServers.a]\ncommand = 'x'\n\n")
    assert tomllib.loads(path.read_text()) == {
        "mcpServers": {
            "a": {"command": "x"},
            "tickets": {
                "command": "python",
                "args": ["-m", "x y"],
                "env": {"API_KEY": "${env:API_KEY}", "MODE": "dev"},
                "cwd": "sub",
            },
        },
        "server": {
            "tickets": {
                "owner": "team-a",
                "tags": ["t"],
                "lock": "locks/t.json",
                "needs": ["DB_URL"],
            }
        },
    }


def test_add_writes_a_url(accord, path):
    header = f"Authorization: Bearer {SECRET}"
    code, out, _ = accord("add", "search", "https://s.example/mcp", "--header", header, "--oauth")
    assert code == 0
    assert "set these variables before a run: SEARCH_TOKEN" in out
    assert SECRET not in out + path.read_text()
    assert read_fleet(path).servers[0].entry == {
        "url": "https://s.example/mcp",
        "headers": {"authorization": "Bearer ${env:SEARCH_TOKEN}"},
        "auth": "oauth",
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("add a", "fleet add needs a TARGET: a URL, a Python file, a module, or -- and a command"),
        ("add a http://x -- y", "either http://x or the command after --, not both"),
        ("add a x.py", "there is no file x.py"),
        ("add a http://x --env A=b", "--env and --cwd are for a command; a URL has --header"),
        ("add a --oauth -- x", "--header and --oauth are for a URL; a command has --env"),
        ("add one -- x", "has a server 'one' already; choose another name"),
        ("add two --file gone/x.toml -- x", "gone/x.toml cannot be written: No such file"),
        ("import gone.json", "gone.json: there is no such file"),
        ("import two.json --name x", "--name is for one server, and two.json has a, b"),
        ("import one.json", "has a server 'one' already; choose another name"),
        ("import jest.json", "cases/calc.accord.toml exists already; move it away, or choose a"),
        ("export --host curser", "unknown host 'curser'; known: mcpServers, claude-desktop, "),
        ("export --format x", "unknown format 'x'; known: mcpServers, servers, context_servers"),
        ("export --host zed --format servers", "either --host or --format"),
        ("trust gone.toml", "gone.toml: there is no such file; there is accord-fleet.toml"),
        ("init gone", "gone is not a folder"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(words, said, accord, path, tmp_path):
    path.write_text("[mcpServers.one]\ncommand = 'x'\n")
    for name, servers in {"one": ["one"], "two": ["a", "b"]}.items():
        entries = {each: {"command": "x"} for each in servers}
        (tmp_path / f"{name}.json").write_text(json.dumps({"mcpServers": entries}))
    jest = {"server": {"command": "node", "args": ["calc.js"]}, "tests": {"tools": ["x"]}}
    (tmp_path / "jest.json").write_text(json.dumps({**jest, "server": {"command": "calc"}}))
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "calc.accord.toml").write_text("mine")
    if "jest" in words:
        words += " --name calc"
    before = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
    code, out, err = accord(*words.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()} == before


def test_import_writes_servers_and_cases(accord, path, tmp_path):
    (tmp_path / "calc.json").write_text(
        json.dumps(
            {
                "server": {"command": "node", "args": ["calc.js"], "env": {"API_KEY": SECRET}},
                "tests": {"tools": {"add": {"expect": "exists"}, "sub": {"expect": "length > 1"}}},
            }
        )
    )
    code, shown, _ = accord("import", "calc.json", "--dry-run")
    assert code == 0
    assert not path.exists()
    assert "[mcpServers.calc]" in shown
    assert "# cases/calc.accord.toml\n" in shown
    assert "[[case]]" in shown
    code, out, err = accord("import", "calc.json", "--name", "calculator")
    assert (code, err) == (0, "")
    assert "wrote cases/calculator.accord.toml\nadded to accord-fleet.toml:\n" in out
    assert "1 case translated, 1 not: see cases/calculator.accord.toml" in out
    assert "set these variables before a run: API_KEY" in out
    (server,) = read_fleet(path).servers
    assert server.name == "calculator"
    assert server.cases == (tmp_path / "cases" / "calculator.accord.toml",)
    assert SECRET not in shown + out + path.read_text()


def test_a_file_that_accord_cannot_change_gets_a_text_to_paste(accord, tmp_path):
    (tmp_path / "f.yaml").write_text("mcpServers: {}\n")
    code, out, err = accord("add", "a", "--file", "f.yaml", "--", "x")
    assert (code, out) == (2, "")
    assert '"command": "x"' in err
    assert err.endswith("accord: accord does not change YAML; add this to f.yaml\n")


def test_export_prints_entries_for_a_host(accord, path):
    path.write_text("[mcpServers.a]\ncommand = 'x'\nenv = { K = '${env:K}' }\n")
    code, out, err = accord("export", "--host", "claude-code")
    assert (code, err) == (0, "")
    entry = {"type": "stdio", "command": "x", "args": [], "env": {"K": "${K}"}}
    assert json.loads(out) == {"mcpServers": {"a": entry}}
    code, out, err = accord("export", "--host", "claude-desktop")
    assert "server 'a': claude-desktop does not fill in K there: write the value yourself" in err
    assert list(json.loads(accord("export", "--format", "servers")[1])) == ["servers"]


def test_trust_is_given_with_yes_and_withdrawn(accord, path):
    path.write_text(
        "[mcpServers.a]\ncommand = 'x'\nargs = ['${env:T}']\nenv = { B = '1' }\n"
        "[server.a]\nversion = { command = ['x', '-V'] }\n"
    )
    code, out, err = accord("trust")
    assert (code, err) == (
        2,
        "accord: there is no terminal to ask on; --yes answers the question\n",
    )
    shown = "  a  x '${env:T}'  (sets B)\n     for its version: x -V\n"
    assert out == shown
    assert accord("trust", "--yes") == (0, f"{shown}accord-fleet.toml is trusted\n", "")
    assert TrustStore().is_trusted(read_fleet(path))
    assert accord("trust") == (0, "accord-fleet.toml is trusted already\n", "")
    path.write_text(path.read_text().replace("'x'", "'y'"))
    assert accord("trust", "--yes")[2] == "accord-fleet.toml has changed since you trusted it\n"
    assert accord("trust", "--remove") == (0, "accord-fleet.toml is no longer trusted\n", "")
    assert accord("trust", "--remove") == (0, "accord-fleet.toml was not trusted\n", "")


@pytest.mark.parametrize(("typed", "code"), [(b"y\n", 0), (b"n\n", 1), (b"\x04", 1)])
def test_trust_asks_on_a_terminal(typed, code, accord, path, monkeypatch):
    path.write_text('[mcpServers.a]\ncommand = "x"\nargs = ["\\u001b"]\n')
    main_end, terminal = pty.openpty()
    os.write(main_end, typed)
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        got, out, err = accord("trust")
    os.close(main_end)
    assert (got, "\x1b" in out + err) == (code, False)
    assert "trust accord-fleet.toml to launch and contact these? [y/N] " in out
    assert TrustStore().is_trusted(read_fleet(path)) == (not code)

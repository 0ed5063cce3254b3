"""`--config` and `--host`: a server of a configuration, in every command that connects to one."""

import json
import sys

import pytest

SERVER = '''
import os
from accord import Server

server = Server("desk")


@server.tool(annotations={"readOnlyHint": True})
def greet(name: str = "Bob") -> str:
    """Greet a user."""
    return f"{name} with {os.environ.get('DESK_KEY')} in {os.path.basename(os.getcwd())}"


server.run()
'''
# Each command with what it needs, and what stands in its output.
COMMANDS = {
    "list": (["list"], [], "greet"),
    "call": (["call"], ["greet", "name=Ada"], "Ada with of the shell in here"),
    "lock": (["lock", "--output", "-"], [], '"name": "greet"'),
    "verify": (["verify"], [], "nothing changed since"),
    "test": (["test", "--examples", "2"], [], "greet succeeds for some arguments"),
    "check": (
        ["check", "server", "--only", "tools.list", "--revision", "2025-06-18"],
        [],
        "result: passed",
    ),
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "desk.py").write_text(SERVER)
    entry = {
        "command": sys.executable,
        "args": ["../desk.py"],
        "cwd": "here",
        "env": {"DESK_KEY": "${env:KEY_OF_SHELL}"},
    }
    mine = tmp_path / "mcp.json"
    mine.write_text(json.dumps({"mcpServers": {"desk": entry, "other": {"command": "none"}}}))
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_the_entry_of_a_configuration(accord, folder, name):
    words, after, said = COMMANDS[name]
    env = {"KEY_OF_SHELL": "of the shell"}
    entry = ["--config", "mcp.json", "desk"]
    if name == "verify":
        assert accord("lock", *entry, cwd=folder, **env).returncode == 0
    done = accord(*words, *entry, *after, cwd=folder, **env)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_an_entry_that_is_not_there_or_lacks_a_variable_is_an_error(accord, folder, name):
    words, after, _ = COMMANDS[name]
    if name == "verify":
        (folder / "accord.lock").write_text("{}")
    done = accord(*words, "--config", "mcp.json", "desks", *after, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "desks" in done.stderr
    done = accord(*words, "--config", "mcp.json", "desk", *after, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "asks for KEY_OF_SHELL" in done.stderr


def test_the_server_of_a_host_is_found_by_its_name(accord, folder):
    home = folder / "home"
    (home / ".cursor").mkdir(parents=True)
    servers = json.loads((folder / "mcp.json").read_text())
    servers["mcpServers"]["desk"] |= {"args": [str(folder / "desk.py")]}
    (home / ".cursor" / "mcp.json").write_text(json.dumps(servers))
    env = {"HOME": str(home), "KEY_OF_SHELL": "k"}
    done = accord("call", "--host", "cursor", "desk", "greet", cwd=folder / "here", **env)
    assert (done.returncode, done.stdout) == (0, "Bob with k in here\n")


def test_a_failing_test_is_repeated_by_the_name_of_the_entry(accord, folder):
    desk = folder / "desk.py"
    desk.write_text(desk.read_text().replace("return f", "os._exit(3)\n    return f"))
    env = {"KEY_OF_SHELL": "k"}
    done = accord("test", "--config", "mcp.json", "desk", cwd=folder, **env)
    assert done.returncode == 1
    assert "again:    accord call desk greet --unchecked --json '{}' --config mcp.json" in (
        done.stdout
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--config", "mcp.json", "--host", "cursor", "desk"], "either --config or --host"),
        (["--config", "mcp.json", "desk", "--", "node"], "TARGET is the name of a server in it"),
        (["--config", "mcp.json", "desk", "other"], "list takes one TARGET; unexpected other"),
        (["--config", "none.json", "desk"], "none.json"),
    ],
)
def test_a_wrong_combination_is_refused(accord, folder, words, said):
    done = accord("list", *words, cwd=folder, KEY_OF_SHELL="k")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_an_entry_of_a_projects_file_of_a_host_is_launched_only_with_consent(accord, folder):
    (folder / ".cursor").mkdir()
    text = (folder / "mcp.json").read_text().replace("../desk.py", str(folder / "desk.py"))
    (folder / ".cursor" / "mcp.json").write_text(text)
    words = ("call", "--host", "cursor", "desk", "greet")
    home = {"HOME": str(folder / "none"), "KEY_OF_SHELL": "k"}
    done = accord(*words, cwd=folder, **home)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no terminal to ask on; --yes answers the question" in done.stderr
    done = accord(*words, "--yes", cwd=folder, **home)
    assert "--env NAME=VALUE lets it have a value" in done.stderr
    done = accord(*words, "--yes", "--env", "KEY_OF_SHELL=given", cwd=folder, **home)
    assert (done.returncode, done.stdout) == (0, f"Bob with given in {folder.name}\n")

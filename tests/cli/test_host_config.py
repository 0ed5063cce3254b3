"""The output of `accord run --print-config` launches the server without PATH and HOME, anywhere."""

import json
import os
import subprocess
import sys

import pytest

from accord import connect
from cli.conftest import ACCORD
from support.waiting import LONG, run

SERVER = """\
from accord import Server
from {helper} import answer

print("printed at import")
server = Server("desk")
other = Server("other")

@server.tool
def ask() -> int:
    "Ask."
    return answer()

@other.tool
def ask_other() -> int:
    "Ask."
    return -answer()
"""


@pytest.fixture
def project(tmp_path):
    """A folder with a file, a package and a namespace package; each imports a neighbour."""
    (tmp_path / "helper.py").write_text("def answer(): return 42\n")
    (tmp_path / "my desk.py").write_text(SERVER.format(helper="helper"))
    (tmp_path / "desk.py").write_text(SERVER.format(helper="helper"))
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "helper.py").write_text("def answer(): return 42\n")
    (package / "desk.py").write_text(SERVER.format(helper="package.helper"))
    space = tmp_path / "space"
    space.mkdir()
    (space / "helper.py").write_text("def answer(): return 42\n")
    (space / "desk.py").write_text(SERVER.format(helper="space.helper"))
    return tmp_path


def printed(accord, *words, **options):
    done = accord("run", *words, "--print-config", **options)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)["mcpServers"]


def ask(entry):
    """Launch the printed command as a host does: in /, with only the printed variables."""

    async def main():
        command = [entry["command"], *entry["args"]]
        # `connect` would pass these on; the next test has no variable at all.
        env = {"PATH": "/nowhere", "HOME": "/nowhere", **entry.get("env", {})}
        async with connect(command, env=env, cwd="/") as client:
            (tool,) = [each async for each in client.tools()]
            return await client.call_tool(tool.name, {}, result_type=int)

    return run(main())


TARGETS = [
    ("desk.py:server", 42),
    ("my desk.py:server", 42),
    ("desk.py:other", -42),
    ("desk:server", 42),
    ("package/desk.py:server", 42),
    ("package.desk:other", -42),
    ("space.desk:server", 42),
]


@pytest.mark.parametrize(("target", "answer"), TARGETS, ids=[target for target, _ in TARGETS])
def test_the_entry_launches_the_server_from_any_folder(accord, project, target, answer):
    (entry,) = printed(accord, target, cwd=project).values()
    assert os.path.isabs(entry["command"])
    assert ask(entry) == answer


def test_the_entry_works_in_an_empty_environment(accord, project):
    (entry,) = printed(accord, "package.desk:server", cwd=project).values()
    opening = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "host", "version": "1"},
        },
    }
    done = subprocess.run(
        [entry["command"], *entry["args"]],
        input=json.dumps(opening) + "\n",
        capture_output=True,
        encoding="utf-8",
        env=entry.get("env", {}),
        cwd="/",
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "desk"


def test_options_and_the_name_of_the_file_are_in_the_entry(accord, project):
    entries = printed(accord, "desk.py:server", "--grace", "10", cwd=project)
    assert list(entries) == ["desk"]
    assert entries["desk"]["args"] == [
        *("-P", "-m", "accord", "run", f"{project / 'desk.py'}:server", "--grace", "10")
    ]
    assert ask(entries["desk"]) == 42


def test_folders_of_the_environment_are_kept(accord, project, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "remote.py").write_text("def answer(): return 7\n")
    (project / "far.py").write_text(SERVER.format(helper="remote"))
    (entry,) = printed(accord, "far.py:server", cwd=project, PYTHONPATH="elsewhere").values()
    assert str(elsewhere) in entry["env"]["PYTHONPATH"].split(os.pathsep)
    assert ask(entry) == 7


@pytest.mark.parametrize(
    ("words", "url"),
    [
        ([], "http://127.0.0.1:8000/mcp"),
        (["--port", "9000", "--host", "0.0.0.0"], "http://127.0.0.1:9000/mcp"),
        (["--host", "::1"], "http://[::1]:8000/mcp"),
        (["--host", "desk.local", "--sse"], "http://desk.local:8000/mcp"),
    ],
)
def test_over_http_the_entry_has_the_url(accord, project, words, url):
    entries = printed(accord, "desk.py", "--http", *words, cwd=project)
    assert entries == {"desk": {"type": "http", "url": url}}


def test_the_file_is_not_run(accord, project):
    (project / "desk.py").write_text("raise SystemExit('it was run')")
    assert list(printed(accord, "desk.py", cwd=project)) == ["desk"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gone.py"], "there is no file gone.py"),
        (["desk.py", "--http", "--port", "0"], "--print-config needs the port"),
    ],
)
def test_a_target_that_cannot_be_launched_is_explained_in_one_line(accord, project, words, said):
    done = accord("run", *words, "--print-config", cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"accord: {said}")
    assert done.stderr.count("\n") == 1


def test_the_folder_of_accord_is_included_if_python_does_not_find_it(project):
    from accord import __file__ as home

    source = os.path.dirname(os.path.dirname(home))
    done = subprocess.run(
        [*ACCORD, "run", "desk.py:server", "--print-config"],
        capture_output=True,
        encoding="utf-8",
        cwd=project,
        env={"PYTHONPATH": source},
        timeout=LONG,
        check=True,
    )
    (entry,) = json.loads(done.stdout)["mcpServers"].values()
    assert os.path.samefile(entry["command"], sys.executable)
    assert ask(entry) == 42

"""Programs, interpreters and scripts of entries, as their host finds them."""

import os
import sys

import pytest
from msgspec.structs import replace

from accord_tools.hosts.definition import LaunchModel
from accord_tools.hosts.repairing import find_repairs
from support.checked_hosts import DESKTOP, TERMINAL, config_at, inspect, machine_at


def make_program(path, text="#!/bin/sh\n", mode=0o755):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def repaired(finding, entry, folder, host=DESKTOP):
    """The entry after the repair of a finding."""
    import json

    file = config_at(folder, {"desk": entry}, host)
    return json.loads(finding.repair.compute(file.path.read_bytes()))["mcpServers"]["desk"]


def test_a_program_that_only_the_shell_finds_gets_its_full_path(tmp_path):
    program = make_program(tmp_path / "tools" / "my-tool")
    machine = machine_at(tmp_path, PATH=f"{program.parent}:/usr/bin:/bin")
    entry = {"command": "my-tool", "args": ["serve"]}
    finding = inspect(tmp_path, entry, machine=machine)["program-path"]
    assert finding.blame == "host"
    assert repaired(finding, entry, tmp_path) == {"command": str(program), "args": ["serve"]}
    assert inspect(tmp_path, entry, TERMINAL, machine=machine) == {}


def test_a_program_of_a_throw_away_environment_gets_no_path(tmp_path):
    program = make_program(tmp_path / "uv" / "archive-v0" / "abc" / "my-tool")
    machine = machine_at(tmp_path, PATH=str(program.parent))
    assert inspect(tmp_path, {"command": "my-tool"}, machine=machine)["program-path"].repair is None


def test_a_bare_program_stays_in_a_file_of_a_project(tmp_path):
    program = make_program(tmp_path / "tools" / "my-tool")
    machine = machine_at(tmp_path, PATH=str(program.parent))
    found = inspect(tmp_path, {"command": "my-tool"}, machine=machine, scope="project")
    assert found["program-path"].repair is None


def test_a_program_that_exists_nowhere_is_to_be_installed(tmp_path):
    finding = inspect(tmp_path, {"command": "uvx", "args": ["x"]})["program-missing"]
    assert finding.blame == "machine"
    assert finding.change == "install uv, or write the full path of uvx"


def test_the_host_may_find_another_program_than_the_shell(tmp_path):
    program = make_program(tmp_path / "tools" / "sh")
    machine = machine_at(tmp_path, PATH=f"{program.parent}:/bin")
    finding = inspect(tmp_path, {"command": "sh"}, machine=machine)["program-differs"]
    assert str(program) in finding.message


def test_a_program_that_may_not_be_executed_is_named(tmp_path):
    program = make_program(tmp_path / "tool", mode=0o644)
    finding = inspect(tmp_path, {"command": str(program)})["program-mode"]
    assert "chmod +x" in finding.change


def test_a_folder_is_not_a_program(tmp_path):
    assert "is a folder" in inspect(tmp_path, {"command": str(tmp_path)})["program-missing"].message


# -- interpreters


def test_a_python_of_an_environment_that_was_made_again_is_replaced(tmp_path):
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "python3.9").symlink_to("/no/such/python3.9")
    (folder / "python").symlink_to(sys.executable)
    entry = {"command": str(folder / "python3.9"), "args": ["-c", "pass"]}
    finding = inspect(tmp_path, entry)["interpreter-dead"]
    assert "which is gone" in finding.message
    assert repaired(finding, entry, tmp_path)["command"] == str(folder / "python")
    (folder / "python3.9").unlink()
    assert inspect(tmp_path, entry)["interpreter-dead"].repair is not None


def test_an_environment_without_its_base_is_dead(tmp_path):
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    (tmp_path / ".venv" / "pyvenv.cfg").write_text("home = /no/such/python/bin\nversion = 3.9\n")
    finding = inspect(tmp_path, {"command": str(folder / "python")})["interpreter-dead"]
    assert "/no/such/python/bin" in finding.message
    assert finding.repair is None


def test_a_script_whose_interpreter_is_gone_is_dead(tmp_path):
    program = make_program(tmp_path / "tool", "#!/no/such/python\n")
    finding = inspect(tmp_path, {"command": str(program)})["interpreter-dead"]
    assert "/no/such/python" in finding.message


def test_a_script_whose_interpreter_only_the_shell_finds_gets_a_path(tmp_path):
    folder = tmp_path / "nvm" / "bin"
    make_program(folder / "my-node")
    program = make_program(folder / "my-npx", "#!/usr/bin/env my-node\n")
    machine = machine_at(tmp_path, PATH=f"{folder}:/bin")
    entry = {"command": "my-npx", "args": ["x"]}
    finding = inspect(tmp_path, entry, machine=machine)["program-path"]
    mended = repaired(finding, entry, tmp_path)
    assert mended == {"command": f"{folder}/my-node", "args": [str(program), "x"]}
    assert inspect(tmp_path, mended, machine=machine) == {}
    entry = {"command": str(program)}
    finding = inspect(tmp_path, entry, machine=machine)["interpreter-path"]
    mended = repaired(finding, entry, tmp_path)
    assert mended["env"]["PATH"].startswith(f"{folder}:/usr/local/sbin")
    assert inspect(tmp_path, mended, machine=machine) == {}
    deaf = replace(DESKTOP, launch=LaunchModel(ignores=("PATH",)))
    assert inspect(tmp_path, entry, deaf, machine=machine)["interpreter-path"].repair is None


@pytest.mark.parametrize("words", [["-P", "-m", "accord"], ["-m", "accord"]])
def test_an_accord_that_is_gone_is_replaced_by_this_one(tmp_path, words):
    entry = {"command": "/no/such/venv/bin/python", "args": [*words, "run", "/bin/sh"]}
    finding = inspect(tmp_path, entry)["interpreter-dead"]
    mended = repaired(finding, entry, tmp_path)
    assert os.path.exists(mended["command"])
    assert mended["args"] == ["-P", "-m", "accord", "run", "/bin/sh"]


# -- scripts and folders


def test_a_script_that_moved_within_its_project_is_found(tmp_path):
    project = tmp_path / "code"
    (project / ".git").mkdir(parents=True)
    (project / "src").mkdir()
    (project / "src" / "server.py").touch()
    entry = {"command": "/bin/sh", "args": [str(project / "old" / "server.py"), "x"]}
    finding = inspect(tmp_path, entry)["script-missing"]
    assert repaired(finding, entry, tmp_path)["args"] == [str(project / "src" / "server.py"), "x"]
    (project / "copy").mkdir()
    (project / "copy" / "server.py").touch()
    assert inspect(tmp_path, entry)["script-missing"].repair is None
    (project / "copy" / "server.py").unlink()
    (project / ".git").rmdir()
    assert inspect(tmp_path, entry)["script-missing"].repair is None


def test_a_moved_script_is_not_looked_for_in_the_whole_home(tmp_path):
    machine = machine_at(tmp_path)
    (machine.home / "elsewhere").mkdir()
    (machine.home / "elsewhere" / "server.py").touch()
    entry = {"command": "/bin/sh", "args": [str(machine.home / "gone" / "server.py")]}
    assert inspect(tmp_path, entry, machine=machine)["script-missing"].repair is None


def test_a_relative_script_gets_its_full_path(tmp_path):
    machine = machine_at(tmp_path)
    (machine.project / "server.py").touch()
    entry = {"command": "/bin/sh", "args": ["./server.py:app"]}
    finding = inspect(tmp_path, entry, machine=machine)["path-relative"]
    assert finding.severity == "error"
    assert repaired(finding, entry, tmp_path)["args"] == [f"{machine.project}/server.py:app"]
    found = inspect(tmp_path, entry, TERMINAL, machine=machine)
    assert (found["path-relative"].severity, found["path-relative"].repair) == ("warning", None)
    assert inspect(tmp_path, entry, TERMINAL, machine=machine, scope="project") == {}
    assert inspect(tmp_path, {**entry, "cwd": str(machine.project)}, machine=machine) == {}


def test_words_of_a_module_are_not_looked_for_unless_it_is_accord(tmp_path):
    machine = machine_at(tmp_path)
    args = ["-m", "other", "run", "server.py"]
    assert inspect(tmp_path, {"command": "/bin/sh", "args": args}, machine=machine) == {}
    args[1] = "accord"
    found = inspect(tmp_path, {"command": "/bin/sh", "args": args}, machine=machine)
    assert [*found] == ["script-missing"]


def test_a_relative_program_is_looked_for_where_the_host_runs(tmp_path):
    machine = machine_at(tmp_path)
    program = make_program(machine.project / "bin" / "tool")
    entry = {"command": "bin/tool"}
    finding = inspect(tmp_path, entry, machine=machine)["path-relative"]
    assert repaired(finding, entry, tmp_path) == {"command": str(program)}
    assert "program-missing" in inspect(tmp_path, {"command": "bin/none"}, machine=machine)


def test_a_tilde_is_written_out(tmp_path):
    machine = machine_at(tmp_path)
    entry = {"command": "~/tool", "args": ["~/data", "a~b"]}
    file = config_at(tmp_path, {"desk": entry})
    finding = inspect(tmp_path, entry, machine=machine)["path-tilde"]
    assert "Desk does not expand" in finding.message
    make_program(machine.home / "tool")
    repairs = find_repairs(file, machine)
    data = file.path.read_bytes()
    for each in repairs:
        data = each.compute(data)
    assert str(machine.home / "tool").encode() in data
    assert str(machine.home / "data").encode() in data
    with_shell = replace(DESKTOP, launch=LaunchModel(has_shell=True))
    assert "path-tilde" not in inspect(tmp_path, entry, with_shell, machine=machine)


def test_folders_that_the_entry_names_must_exist(tmp_path):
    found = inspect(tmp_path, {"command": "/bin/sh", "cwd": "/no/such/folder"})
    assert "folder-missing" in found
    args = ["--directory", "/no/such/folder", "run", "server.py"]
    assert "folder-missing" in inspect(tmp_path, {"command": "/bin/sh", "args": args})
    args = ["--directory", str(tmp_path), "run", "server.py"]
    assert "script-missing" in inspect(tmp_path, {"command": "/bin/sh", "args": args})


def test_paths_within_a_container_are_not_looked_for(tmp_path):
    make_program(tmp_path / "docker")
    entry = {"command": str(tmp_path / "docker"), "args": ["run", "image", "/app/server.py"]}
    assert inspect(tmp_path, entry) == {}


@pytest.mark.parametrize(
    "place", ["cache/uv/archive-v0/abc", "pipx/.cache/abc", "npm/_npx/abc", "temporary/abc"]
)
def test_a_throw_away_environment_is_a_warning(tmp_path, place):
    program = make_program(tmp_path / place / "bin" / "tool")
    machine = machine_at(tmp_path, TMPDIR=str(tmp_path / "temporary"))
    finding = inspect(tmp_path, {"command": str(program)}, machine=machine)["throw-away"]
    assert finding.severity == "warning"


# -- variables


def test_variables_are_checked_with_those_of_the_host(tmp_path):
    from accord_tools.hosts.definition import PlaceholderForms

    host = replace(
        DESKTOP,
        placeholders=PlaceholderForms(env="${env:NAME}", input="${input:NAME}"),
        launch=LaunchModel(ignores=("PATH",)),
    )
    env = {"A": "${env:NONE}", "B": "${env:MINE}", "C": "${input:token}", "PATH": "/x"}
    machine = machine_at(tmp_path, MINE="1")
    found = inspect(tmp_path, {"command": "/bin/sh", "env": env}, host, machine=machine)
    assert {code: each.severity for code, each in found.items()} == {
        "variable-missing": "error",
        "variable-shell": "warning",
        "variable-ignored": "warning",
        "input-asked": "note",
    }

"""Commands with full paths, which work wherever a host runs."""

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.launching.command import find_program, settle_command
from hosts.launch_machine import make_machine, make_program


def settle(machine, *words, scope="user", cwd=None):
    return settle_command(words, machine, scope=scope, cwd=cwd)


def test_a_program_and_the_files_after_it_get_full_paths(tmp_path):
    machine = make_machine(tmp_path)
    program = make_program(tmp_path / "bin" / "desk")
    (machine.project / "data").mkdir()
    (machine.project / "server.py").touch()
    (machine.project / "run").touch()
    words = ("desk", "run", "server.py", "./data", "--config=server.py", ".", "gone.py", "~/x")
    project = str(machine.project)
    assert settle(machine, *words).words == (
        *(str(program), "run", f"{project}/server.py", f"{project}/data"),
        *(f"--config={project}/server.py", project, "gone.py", f"{machine.home}/x"),
    )


def test_urls_and_packages_are_not_taken_for_paths(tmp_path):
    machine = make_machine(tmp_path)
    make_program(tmp_path / "bin" / "npx")
    words = ("-y", "@scope/server@1.2", "https://example.com/x", "", "a\0b.py", "x" * 5000 + ".py")
    assert settle(machine, "npx", *words).words[1:] == words


def test_relative_paths_start_from_the_folder_of_the_entry(tmp_path):
    machine = make_machine(tmp_path)
    make_program(tmp_path / "other" / "serve.sh")
    found = settle(machine, "./serve.sh", cwd=tmp_path / "other")
    assert found.words == (str(tmp_path / "other" / "serve.sh"),)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "the command is empty"),
        (("",), "the command is empty"),
        (("gone",), "there is no program gone in PATH: install it, or write its full path"),
        (("./gone",), "gone does not exist"),
        (("./plain.txt",), "is not executable: make it so with chmod"),
        (("./",), "is a folder"),
    ],
)
def test_a_command_that_cannot_be_launched_is_refused(tmp_path, words, said):
    machine = make_machine(tmp_path)
    (machine.project / "plain.txt").touch()
    with pytest.raises(HostsError, match=said):
        settle(machine, *words)


def test_a_module_of_the_current_folder_is_remarked(tmp_path):
    machine = make_machine(tmp_path)
    make_program(tmp_path / "bin" / "python3")
    (machine.project / "desk").mkdir()
    assert "--cwd" in settle(machine, "python3", "-m", "desk.server").remarks[0]
    assert settle(machine, "python3", "-m", "installed").remarks == ()


@pytest.mark.parametrize(
    ("words", "file", "is_remarked"),
    [
        ("uv run server.py", "pyproject.toml", True),
        ("uv run --directory=/x server.py", "pyproject.toml", False),
        ("uv run server.py", "other.toml", False),
        ("uv tool", "pyproject.toml", False),
        ("npm start", "package.json", True),
        ("npm --prefix x start", "package.json", False),
        ("uv", "pyproject.toml", False),
    ],
)
def test_a_tool_that_needs_its_folder_is_remarked(tmp_path, words, file, is_remarked):
    machine = make_machine(tmp_path)
    make_program(tmp_path / "bin" / words.split()[0])
    (machine.project / file).touch()
    found = settle(machine, *words.split()).remarks
    assert bool(found) == is_remarked
    assert not found or "finds its project in" in found[0]


# -- files of projects


def test_a_project_keeps_words_that_others_have_too(tmp_path):
    machine = make_machine(tmp_path)
    make_program(tmp_path / "bin" / "npx")
    (machine.project / "server.py").touch()
    found = settle(machine, "npx", "-y", "pkg", "server.py", scope="project")
    assert found.words == ("npx", "-y", "pkg", "server.py")
    assert found.remarks == (
        "the file is shared, so that npx has no path: every user needs it in the PATH of the host",
    )


def test_a_project_with_a_path_of_this_machine_is_remarked(tmp_path):
    machine = make_machine(tmp_path)
    program = make_program(machine.home / "bin" / "serve")
    found = settle(machine, str(program), scope="project")
    assert found.remarks == (f"the file is shared, and {program} is a path of this machine",)
    assert (
        "there is no program gone in PATH here" in settle(machine, "gone", scope="project").remarks
    )


# -- scripts and version managers


def test_a_script_of_node_is_run_by_the_node_beside_it(tmp_path):
    machine = make_machine(tmp_path)
    node = make_program(tmp_path / "bin" / "node")
    script = make_program(tmp_path / "bin" / "some-server", "#!/usr/bin/env node\n")
    found = settle(machine, "some-server", "x")
    assert (found.words, found.env) == ((str(node), str(script), "x"), {})


def test_npx_gets_a_path_in_which_it_finds_node_and_a_shell(tmp_path):
    machine = make_machine(tmp_path)
    node = make_program(tmp_path / "bin" / "node")
    npx = make_program(tmp_path / "bin" / "npx", "#!/usr/bin/env node\n")
    found = settle(machine, "npx", "-y", "pkg")
    assert found.words == (str(node), str(npx), "-y", "pkg")
    assert found.env["PATH"].split(":")[0] == str(tmp_path / "bin")
    assert "/bin" in found.env["PATH"].split(":")


def test_arguments_in_the_first_line_of_a_script_are_kept(tmp_path):
    machine = make_machine(tmp_path)
    uv = make_program(tmp_path / "bin" / "uv")
    script = make_program(tmp_path / "bin" / "tool", "#!/usr/bin/env -S uv run --script\n")
    assert settle(machine, "tool").words == (str(uv), "run", "--script", str(script))


def test_a_script_whose_interpreter_is_missing_is_refused(tmp_path):
    machine = make_machine(tmp_path)
    make_program(tmp_path / "bin" / "tool", "#!/usr/bin/env gone-lang\n")
    with pytest.raises(HostsError, match="is run by gone-lang, which is not in PATH"):
        settle(machine, "tool")


def test_the_commands_of_the_system_stay_as_they_are(tmp_path):
    machine = make_machine(tmp_path, PATH="/usr/bin:/bin")
    found = settle(machine, "env")
    assert found.words in (("/usr/bin/env",), ("/bin/env",))
    assert found.env == {}


@pytest.mark.parametrize(
    ("place", "manager"),
    [
        (".nvm/versions/node/v20.1.0/bin", "nvm"),
        (".local/share/fnm/node-versions/v20/installation/bin", "fnm"),
        (".local/share/mise/installs/node/20/bin", "mise"),
        (".asdf/installs/nodejs/20/bin", "asdf"),
        (".pyenv/versions/3.11.7/bin", "pyenv"),
    ],
)
def test_a_program_of_one_version_is_remarked(tmp_path, place, manager):
    machine = make_machine(tmp_path, PATH=str(tmp_path / "home" / place))
    program = make_program(tmp_path / "home" / place / "tool")
    found = settle(machine, "tool")
    assert found.words == (str(program),)
    assert f"belongs to one version in {manager}" in found.remarks[0]


def test_the_folder_of_one_terminal_is_replaced_by_the_one_that_stays(tmp_path):
    real = tmp_path / "fnm" / "node-versions" / "v20" / "bin"
    make_program(real / "node")
    shell = tmp_path / "run" / "fnm_multishells" / "77_1"
    shell.mkdir(parents=True)
    (shell / "bin").symlink_to(real)
    found = settle(make_machine(tmp_path, PATH=str(shell / "bin")), "node")
    assert found.words == (str(real / "node"),)


@pytest.mark.parametrize("manager", ["pyenv", "asdf", "mise", "volta"])
def test_a_version_manager_is_asked_for_the_real_program(tmp_path, manager):
    inside = {"volta": ".volta/bin", "mise": "mise/shims"}.get(manager, f".{manager}/shims")
    shims = tmp_path / "home" / inside
    make_program(shims / "tool")
    machine = make_machine(tmp_path, PATH=f"{shims}:{tmp_path / 'bin'}")
    assert f"needs {manager} itself in PATH" in settle(machine, "tool").remarks[0]
    real = make_program(tmp_path / "real" / "tool")
    make_program(tmp_path / "bin" / manager, f"#!/bin/sh\n[ $1 = which ] && echo {real}\n")
    found = settle(machine, "tool")
    assert found.words == (str(real),)
    assert f"belongs to one version in {manager}" in found.remarks[0]


# -- Windows, with folders that are made up


@pytest.fixture
def windows(tmp_path):
    return make_machine(tmp_path, "windows", PATHEXT=".COM;.EXE;.BAT;.CMD")


def test_a_batch_file_is_run_by_cmd(tmp_path, windows):
    program = make_program(tmp_path / "bin" / "npx.cmd")
    assert settle(windows, "npx", "-y", "x").words == ("cmd", "/c", str(program), "-y", "x")


def test_an_executable_is_preferred_to_a_batch_file(tmp_path, windows):
    make_program(tmp_path / "bin" / "uvx.cmd")
    program = make_program(tmp_path / "bin" / "uvx.exe")
    assert settle(windows, "uvx").words == (str(program),)


def test_several_folders_of_windows_are_searched(tmp_path, windows):
    environ = {**windows.environ, "PATH": f'{tmp_path / "gone"};"{tmp_path / "my bin"}"'}
    machine = msgspec.structs.replace(windows, environ=environ)
    program = make_program(tmp_path / "my bin" / "node.exe")
    assert find_program("node", machine) == program
    assert find_program("node.exe", machine) == program
    assert find_program("gone", machine) is None


def test_a_script_of_powershell_is_refused(windows):
    make_program(windows.project / "npx.ps1")
    with pytest.raises(HostsError, match=r"script of PowerShell.*name the \.cmd"):
        settle(windows, "./npx.ps1")


def test_blanks_that_cmd_would_garble_are_remarked(tmp_path, windows):
    make_program(tmp_path / "my bin" / "npx.cmd")
    environ = {**windows.environ, "PATH": str(tmp_path / "my bin")}
    machine = msgspec.structs.replace(windows, environ=environ)
    assert settle(machine, "npx", "plain").remarks == ()
    found = settle(machine, "npx", "a secret value")
    assert "garbles a path with blanks" in found.remarks[0]
    assert "secret" not in found.remarks[0]


def test_a_settled_command_stays_as_it_is(tmp_path):
    machine = make_machine(tmp_path)
    make_program(tmp_path / "bin" / "node")
    make_program(tmp_path / "bin" / "npx", "#!/usr/bin/env node\n")
    once = settle(machine, "npx", "x").words
    assert settle(machine, *once).words == once


def test_a_settled_npx_finds_a_server_without_path(tmp_path):
    """The real Node.js of this machine, if it has one, and a package in a folder."""
    machine = make_machine(tmp_path, PATH=os.environ["PATH"])
    if find_program("npx", machine) is None:
        pytest.skip("there is no npx")
    found = settle(machine, "npx", "--offline", "hello")
    bin_folder = machine.project / "node_modules" / ".bin"
    make_program(bin_folder / "hello", "#!/usr/bin/env node\nconsole.log('hello')\n")
    env = {"HOME": str(machine.home), "PATH": "/usr/bin:/bin", **found.env}
    done = subprocess.run(
        found.words, capture_output=True, cwd=machine.project, env=env, timeout=60, check=False
    )
    assert done.stdout == b"hello\n", done.stderr
    assert Path(found.words[0]).is_absolute()

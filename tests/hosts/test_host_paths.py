"""Where the files of hosts are, on all three systems."""

import json
import os
import stat
import tomllib
from pathlib import Path

import msgspec
import pytest

from accord_tools.hosts.definition import HostsError, Machine
from accord_tools.hosts.table import (
    config_files,
    default_file,
    expand,
    file_at,
    is_installed,
    load_hosts,
    other_readers,
)
from support.tables import cases

EXPECTED = tomllib.loads(Path(__file__).with_name("host_paths.toml").read_text())
HOMES = {"linux": "/home/ada", "macos": "/Users/ada", "windows": "C:/Users/ada"}
HOSTS = load_hosts()


@pytest.fixture
def machine(tmp_path):
    home, project = tmp_path / "home", tmp_path / "home" / "repository"
    (project / ".git").mkdir(parents=True)
    return Machine(system="linux", environ={}, home=home, project=project)


def change(machine, **members):
    return msgspec.structs.replace(machine, **members)


def write(path, text="{}"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def paths(files):
    return [file.path for file in files]


@cases("id", HOSTS)
def test_the_file_of_each_host_is_where_the_list_says(id):
    found = {}
    for system, home in HOMES.items():
        machine = Machine(system=system, environ={}, home=Path(home), project=Path("/code"))
        file = default_file(HOSTS[id], machine, "user")
        found[system] = file.path.as_posix() if file else ""
    project = default_file(HOSTS[id], machine, "project")
    found["project"] = project.path.as_posix() if project else ""
    assert found == EXPECTED[id]


def test_the_list_of_paths_names_no_other_hosts():
    assert set(EXPECTED) == set(HOSTS)


@cases(
    ("id", "system", "environ", "expected"),
    [
        ("claude-code", "linux", {"CLAUDE_CONFIG_DIR": "/c"}, "/c/.claude.json"),
        ("codex", "macos", {"CODEX_HOME": "/c/"}, "/c/config.toml"),
        ("copilot-cli", "linux", {"COPILOT_HOME": "/c"}, "/c/mcp-config.json"),
        ("vscode", "linux", {"XDG_CONFIG_HOME": "/x"}, "/x/Code/User/mcp.json"),
        ("goose", "macos", {"XDG_CONFIG_HOME": "/x"}, "/x/goose/config.yaml"),
        ("goose", "windows", {"GOOSE_PATH_ROOT": "D:\\g"}, "D:/g/config/config.yaml"),
        ("zed", "linux", {"FLATPAK_XDG_CONFIG_HOME": "/f"}, "/f/zed/settings.json"),
        ("zed", "windows", {"APPDATA": "D:\\data"}, "D:/data/Zed/settings.json"),
        ("cline", "linux", {"CLINE_MCP_SETTINGS_PATH": "/s.json", "CLINE_DIR": "/d"}, "/s.json"),
        (
            *("cline", "linux", {"CLINE_DATA_DIR": "/d"}),
            "/d/settings/cline_mcp_settings.json",
        ),
        (
            *("cline", "linux", {"CLINE_DIR": "/d"}),
            "/d/data/settings/cline_mcp_settings.json",
        ),
        ("amp", "macos", {"AMP_SETTINGS_FILE": "/a.json"}, "/a.json"),
        (
            *("copilot-jetbrains", "windows", {"LOCALAPPDATA": "D:\\local"}),
            "D:/local/github-copilot/intellij/mcp.json",
        ),
    ],
)
def test_a_variable_of_the_environment_moves_the_file(id, system, environ, expected):
    machine = Machine(system=system, environ=environ, home=Path("/h"), project=Path("/code"))
    assert default_file(HOSTS[id], machine, "user").path.as_posix() == expected


def test_a_relative_path_in_a_variable_is_one_of_the_project(machine):
    moved = change(machine, environ={"CODEX_HOME": "here"})
    found = default_file(HOSTS["codex"], moved, "user").path
    assert found == machine.project / "here" / "config.toml"


def test_a_folder_in_place_of_the_file_does_not_count(machine):
    (machine.home / ".cursor/mcp.json").mkdir(parents=True)
    assert config_files(HOSTS["cursor"], machine) == []


@pytest.mark.skipif(os.name != "posix", reason="links need a right on Windows")
def test_a_link_to_nothing_counts_as_the_file(machine):
    link = machine.home / ".cursor/mcp.json"
    link.parent.mkdir()
    link.symlink_to("nothing")
    assert paths(config_files(HOSTS["cursor"], machine)) == [link]


def test_the_file_of_a_variable_is_used_although_the_usual_one_exists(machine, tmp_path):
    write(machine.home / ".claude.json")
    moved = change(machine, environ={"CLAUDE_CONFIG_DIR": str(tmp_path / "other")})
    assert default_file(HOSTS["claude-code"], moved, "user").path.parent == tmp_path / "other"
    assert config_files(HOSTS["claude-code"], moved) == []


def test_the_first_file_that_exists_is_written(machine):
    old = write(machine.home / ".gemini/antigravity/mcp_config.json")
    assert default_file(HOSTS["antigravity"], machine, "user").path == old
    new = write(machine.home / ".gemini/config/mcp_config.json")
    assert default_file(HOSTS["antigravity"], machine, "user").path == new
    assert paths(config_files(HOSTS["antigravity"], machine)) == [new, old]


def test_the_packaged_claude_desktop_of_windows_has_its_own_file(machine):
    windows = change(machine, system="windows")
    usual = write(machine.home / "AppData/Roaming/Claude/claude_desktop_config.json")
    host = HOSTS["claude-desktop"]
    assert default_file(host, windows, "user").path == usual
    package = machine.home / "AppData/Local/Packages/Claude_pzs8sxrjxfjjc"
    packaged = write(package / "LocalCache/Roaming/Claude/claude_desktop_config.json")
    assert default_file(host, windows, "user").path == packaged
    assert paths(config_files(host, windows)) == [packaged, usual]


def test_profiles_and_remote_files_of_vscode_are_read_but_not_written(machine):
    host = HOSTS["vscode"]
    profile = write(machine.home / ".config/Code/User/profiles/-5a/mcp.json")
    remote = write(machine.home / ".vscode-server/data/User/mcp.json")
    assert paths(config_files(host, machine)) == [profile, remote]
    assert default_file(host, machine, "user").path.parent.name == "User"
    assert default_file(host, machine, "user").path.parts[-3] == "Code"


def test_files_of_folders_around_the_project_are_found_up_to_the_repository(machine):
    outside = write(machine.home / ".mcp.json")
    root = write(machine.project / ".mcp.json")
    inside = change(machine, project=machine.project / "a" / "b")
    inside.project.mkdir(parents=True)
    host = HOSTS["claude-code"]
    assert paths(config_files(host, inside)) == [root]
    assert default_file(host, inside, "project").path == root
    own = write(inside.project / ".mcp.json")
    assert paths(config_files(host, inside, "project")) == [own, root]
    assert outside not in paths(config_files(host, inside))


def test_a_host_that_does_not_look_upwards_has_the_file_of_the_folder_alone(machine):
    write(machine.project / ".cursor/mcp.json")
    inside = change(machine, project=machine.project / "a")
    assert config_files(HOSTS["cursor"], inside) == []


def test_without_a_repository_only_the_folder_itself_counts(machine):
    write(machine.home / ".mcp.json")
    alone = change(machine, project=machine.home / "plain" / "folder")
    assert config_files(HOSTS["claude-code"], alone) == []


def test_servers_of_one_project_in_the_file_of_the_user_are_read_too(machine):
    user = write(machine.home / ".claude.json", json.dumps({"projects": {}}))
    inside = change(machine, project=machine.project / "a")
    found = config_files(HOSTS["claude-code"], inside)
    assert [(file.scope, file.path, file.key) for file in found] == [
        ("user", user, ("mcpServers",)),
        ("project", user, ("projects", str(inside.project), "mcpServers")),
        ("project", user, ("projects", str(machine.project), "mcpServers")),
    ]
    assert default_file(HOSTS["claude-code"], inside, "project").path.name == ".mcp.json"


@pytest.mark.parametrize("is_linked", [False, True])
def test_in_the_home_folder_the_file_of_the_user_is_not_one_of_a_project(
    machine, tmp_path, is_linked
):
    path = write(machine.home / ".cursor" / "mcp.json")
    other = write(machine.home / ".vscode" / "mcp.json")
    (tmp_path / "linked").symlink_to(machine.home)
    machine = change(machine, project=tmp_path / "linked" if is_linked else machine.home)
    (file,) = config_files(HOSTS["cursor"], machine)
    assert (file.path, file.scope) == (path, "user")
    assert config_files(HOSTS["cursor"], machine, "project") == []
    assert default_file(HOSTS["cursor"], machine, "project").scope == "user"
    found = [(each.path, each.scope) for each in config_files(HOSTS["vscode"], machine, "project")]
    assert found == [(machine.project / other.relative_to(machine.home), "project")]


def test_a_link_in_a_project_to_the_file_of_the_user_is_of_the_project(machine):
    path = write(machine.home / ".cursor" / "mcp.json")
    link = machine.project / ".cursor" / "mcp.json"
    link.parent.mkdir()
    link.symlink_to(path)
    (file,) = config_files(HOSTS["cursor"], machine, "project")
    assert (file.path, file.is_shared) == (link, True)
    assert default_file(HOSTS["cursor"], machine, "project").is_shared


def test_servers_of_one_project_in_the_file_of_the_user_are_not_shared(machine):
    host = HOSTS["claude-code"]
    write(machine.home / ".claude.json")
    found = [file for file in config_files(host, machine, "project") if file.key != host.key]
    assert found
    assert not any(file.is_shared for file in found)


def test_one_file_has_another_key_for_each_host_that_reads_it(machine):
    path = machine.project / ".mcp.json"
    ids = ("claude-code", "copilot-cli", "vscode", "visual-studio")
    keys = {id: file_at(HOSTS[id], path, machine).key for id in ids}
    assert keys == {
        "claude-code": ("mcpServers",),
        "copilot-cli": ("mcpServers",),
        "vscode": ("mcpServers",),
        "visual-studio": ("servers",),
    }
    readers = other_readers(file_at(HOSTS["claude-code"], path, machine), HOSTS.values())
    assert readers == ["Visual Studio"]
    readers = other_readers(file_at(HOSTS["visual-studio"], path, machine), HOSTS.values())
    assert readers == [
        *("Claude Code", "VS Code", "VS Code Insiders", "GitHub Copilot CLI", "Qoder CLI"),
        "Pi",
    ]
    user = default_file(HOSTS["cursor"], machine, "user")
    assert other_readers(user, HOSTS.values()) == []


def test_a_named_file_gets_the_key_and_the_format_of_its_kind(machine, tmp_path):
    vscode = HOSTS["vscode"]
    assert file_at(vscode, Path(".vscode/mcp.json"), machine).scope == "project"
    elsewhere = file_at(vscode, tmp_path / "elsewhere.json", machine)
    assert (elsewhere.scope, elsewhere.key) == ("user", ("servers",))
    block = file_at(HOSTS["continue"], Path(".continue/mcpServers/x.json"), machine)
    assert block.format == "json"
    local = file_at(HOSTS["claude-code"], write(machine.home / ".claude.json"), machine)
    assert local.key == ("mcpServers",)


def test_a_host_without_files_takes_no_file(machine):
    with pytest.raises(HostsError, match="Raycast keeps its servers in the application"):
        file_at(HOSTS["raycast"], Path("x.json"), machine)


def test_a_program_a_folder_or_a_file_shows_that_a_host_is_installed(machine, tmp_path):
    assert is_installed(HOSTS["cursor"], machine) == ""
    assert is_installed(HOSTS["claude-code"], machine) == ""
    program = write(tmp_path / "bin" / "codex")
    found = change(machine, environ={"PATH": f"{tmp_path / 'none'}:{program.parent}"})
    if os.name == "posix":
        assert is_installed(HOSTS["codex"], found) == ""  # not executable
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        assert is_installed(HOSTS["codex"], found) == str(program)
    (machine.home / ".cursor").mkdir()
    assert is_installed(HOSTS["cursor"], machine) == str(machine.home / ".cursor")
    write(machine.home / ".claude.json")
    assert is_installed(HOSTS["claude-code"], machine) == str(machine.home / ".claude.json")


def test_programs_of_windows_are_found_by_their_endings(machine, tmp_path):
    program = write(tmp_path / "bin" / "code.cmd")
    windows = change(machine, system="windows", environ={"PATH": f"relative;{program.parent}"})
    assert is_installed(HOSTS["vscode"], windows) == str(program)


def test_folders_that_every_user_has_are_not_a_trace(machine):
    (machine.home / ".config").mkdir()
    assert [host.id for host in HOSTS.values() if is_installed(host, machine)] == []


def test_a_pattern_whose_variable_is_not_set_is_left_out(machine):
    assert expand("{env:NOT_SET}/x", machine) == []
    assert expand("{appdata}/x", machine) == []
    assert expand("{home}/*/none/x", machine) == [machine.project / "none/x"]
    assert expand("{home}/absent/*/x", machine) == []

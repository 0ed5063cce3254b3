"""Targets of `accord add`: each becomes an entry."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from accord.client.server_spec import ServerSpec
from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.launching.installation import AccordCommand
from accord_tools.hosts.targets import TargetReader, read_target
from hosts.launch_machine import make_machine, make_program

ACCORD = AccordCommand(words=("/venv/bin/python", "-P", "-m", "accord"), kind="venv")
SERVER = 'from accord import Server\nserver = Server("desk")\n'


@pytest.fixture
def reader(tmp_path, monkeypatch):
    machine = make_machine(tmp_path)
    monkeypatch.chdir(machine.project)
    return TargetReader(machine=machine, accord=ACCORD)


def read(reader, text="", **more):
    return read_target(text, (), reader, **more)


def plain(target):
    """Return what a host needs of a server, without what is said about it."""
    return replace(target, title="", needed=(), remarks=(), is_foreign=False)


def write(reader, name, data):
    path = reader.machine.project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


# -- URLs and commands


@pytest.mark.parametrize(
    ("url", "name", "transport"),
    [
        ("https://mcp.example.com/mcp", "example", "http"),
        ("https://example.co.uk/", "example", "http"),
        ("https://api.githubcopilot.com/mcp/", "githubcopilot", "http"),
        ("http://localhost:8000/mcp", "localhost", "http"),
        ("http://127.0.0.1:8000/sse", "localhost", "sse"),
        ("https://10.1.2.3/mcp?key=a=b", "10-1-2-3", "http"),
    ],
)
def test_a_url_is_named_by_its_host(reader, url, name, transport):
    entry = read(reader, url)
    assert (entry.name, entry.transport, entry.url) == (name, transport, url)


def test_a_url_without_encryption_is_remarked(reader):
    assert "can be read on the way" in read(reader, "http://example.com/mcp").remarks[0]
    assert read(reader, "http://localhost/mcp").remarks == ()


@pytest.mark.parametrize(
    ("text", "name", "command"),
    [
        ("@scope/server-notes", "notes", ("npx", "-y", "@scope/server-notes")),
        ("@scope/notes@1.2.3-beta.1", "notes", ("npx", "-y", "@scope/notes@1.2.3-beta.1")),
        ("npm:@scope/notes@^1", "notes", ("npx", "-y", "@scope/notes@^1")),
        ("npm:mcp-notes", "notes", ("npx", "-y", "mcp-notes")),
        ("pypi:mcp-server-time", "time", ("uvx", "mcp-server-time")),
        ("pypi:Notes[http]==1.2", "Notes", ("uvx", "Notes[http]==1.2")),
        ("mine=pypi:notes==1.2", "mine", ("uvx", "notes==1.2")),
        ("mine=@scope/notes", "mine", ("npx", "-y", "@scope/notes")),
    ],
)
def test_a_package_is_launched_by_the_runner_of_its_registry(reader, text, name, command):
    found = read(reader, text)
    assert (found.name, found.command) == (name, command)
    assert found.is_foreign


@pytest.mark.parametrize("text", ["npm:", "npm:a b", "npm:-y", "pypi:--from", "pypi:a;b", "npm:@a"])
def test_a_wrong_name_of_a_package_is_refused(reader, text):
    with pytest.raises(HostsError, match="is not a package of"):
        read(reader, text)


def test_a_file_with_the_name_of_a_package_is_the_file(reader):
    path = write(reader, "@scope/notes.mjs", "")
    assert read(reader, "@scope/notes.mjs").command == ("node", str(path))


@pytest.mark.parametrize("url", ["http://", "http://x:99999/", "http://x y/", "https://[::/"])
def test_a_wrong_url_is_refused(reader, url):
    with pytest.raises(HostsError, match="the URL is wrong"):
        read(reader, url)


@pytest.mark.parametrize("url", ["https://x.example/a.mcpb", "https://x.example/server.json?a"])
def test_the_url_of_a_file_is_not_taken_for_a_server(reader, url):
    with pytest.raises(HostsError, match="download it, and name the file"):
        read(reader, url)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("npx -y @modelcontextprotocol/server-memory@1.2", "memory"),
        ("uvx --from accord[cli]==1 mcp-server-git --repository x", "git"),
        ("uvx mcp-server-time==1.0", "time"),
        ("docker run -i --rm -e TOKEN ghcr.io/github/github-mcp-server:v1", "github"),
        ("python -m desk.server", "desk"),
        ("python /code/desk/server.py", "desk"),
        ("node dist/index.js", "index"),
        ("/opt/some-server", "some"),
        ("C:\\tools\\desk.exe", "desk"),
        ("cmd /c npx x-mcp", "x"),
        ("npx", "npx"),
    ],
)
def test_a_command_is_named_by_what_it_runs(reader, command, name):
    target = read(reader, command=command.split())
    assert plain(target) == ServerSpec(name=name, command=tuple(command.split()))


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("desk=https://example.com/mcp?a=b", {}),
        ("https://example.com/mcp?a=b", {"name": "desk"}),
        ("other=https://example.com/mcp?a=b", {"name": "desk"}),
    ],
)
def test_a_name_can_be_given(reader, text, more):
    entry = read(reader, text, **more)
    assert (entry.name, entry.url) == ("desk", "https://example.com/mcp?a=b")


def test_the_name_of_a_command_stands_before_it(reader):
    assert read(reader, "desk", command=["x"]).name == "desk"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("my desk", "has a blank; names have letters, digits, - and _ alone, such as my-desk"),
        ("a.b", "has '.'"),
        ("ä", "has 'ä'"),
        ("x" * 65, "is longer than 64"),
    ],
)
def test_a_name_that_hosts_refuse_is_explained(reader, name, said):
    with pytest.raises(HostsError, match=said):
        read(reader, "https://example.com/", name=name)


# -- Python


def test_a_python_file_is_run_by_accord(reader):
    path = write(reader, "desk.py", SERVER)
    entry = read(reader, "desk.py:server")
    assert plain(entry) == ServerSpec(name="desk", command=(*ACCORD.words, "run", f"{path}:server"))


def test_a_file_with_a_common_name_is_named_by_its_folder(reader):
    write(reader, "my desk/src/server.py", SERVER)
    assert read(reader, "my desk/src/server.py").name == "my-desk"


def test_a_module_is_found_from_anywhere(reader):
    write(reader, "desk/__init__.py", "")
    write(reader, "desk/main.py", SERVER)
    entry = read(reader, "desk.main:server")
    assert entry.name == "desk"
    assert entry.command[-1] == "desk.main:server"
    assert str(reader.machine.project) in entry.env["PYTHONPATH"].split(":")


def test_a_file_of_another_library_is_run_by_python(reader):
    path = write(reader, "desk.py", "from mcp.server.fastmcp import FastMCP\n")
    python = make_program(reader.machine.project / ".venv/bin/python")
    write(reader, ".venv/pyvenv.cfg", "")
    target = read(reader, "desk.py")
    assert target.command == (str(python), str(path))
    assert "serves with mcp" in target.remarks[0]


def test_the_environment_of_a_project_is_used_if_accord_is_installed_apart(reader, tmp_path):
    import msgspec

    write(reader, "desk.py", SERVER)
    apart = AccordCommand(words=("/pipx/bin/python", "-P", "-m", "accord"), kind="pipx")
    reader = msgspec.structs.replace(reader, accord=apart)
    found = read(reader, "desk.py")
    assert found.command[0] == "/pipx/bin/python"
    assert "packages that pipx installed" in found.remarks[0]
    python = make_program(reader.machine.project / ".venv/bin/python")
    write(reader, ".venv/pyvenv.cfg", "")
    write(reader, ".venv/lib/python3.11/site-packages/accord/__init__.py", "")
    assert read(reader, "desk.py").command[:4] == (str(python), "-P", "-m", "accord")


def test_a_script_of_javascript_is_run_by_node(reader):
    path = write(reader, "weather/index.js", "")
    assert plain(read(reader, "weather/index.js")) == ServerSpec(
        name="weather", command=("node", str(path))
    )


def test_an_unknown_target_gets_the_advice_of_the_command_line(reader):
    from accord.cli.options import UsageError

    with pytest.raises(UsageError, match=r"there is no file gone\.py"):
        read(reader, "gone.py")


# -- files with servers


def test_the_one_server_of_a_configuration_is_taken(reader):
    (reader.machine.project / "data").mkdir()
    write(
        reader,
        ".vscode/mcp.json",
        """{// of VS Code
        "servers": {"my desk": {"type": "stdio", "command": "node", "args": ["./data", "x"],
                             "env": {"API_KEY": "${input:key}", "N": 3}}},}""",
    )
    target = read(reader, ".vscode/mcp.json")
    project = reader.machine.project
    assert plain(target) == ServerSpec(
        name="my-desk",
        command=("node", f"{project}/data", "x"),
        env={"API_KEY": "${env:KEY}", "N": "3"},
    )
    assert [(each.name, each.is_secret) for each in target.needed] == [("KEY", True)]
    assert target.remarks == ("hosts refuse 'my desk': it has another name",)


SEVERAL = {"mcpServers": {"a": {"command": "x"}, "b": {"url": "https://b.example/mcp"}}}


def test_one_of_several_servers_is_chosen_by_name(reader):
    write(reader, "mcp.json", SEVERAL)
    assert read(reader, "mcp.json#b").url == "https://b.example/mcp"
    assert read(reader, "c=mcp.json#a").name == "c"
    with pytest.raises(HostsError, match=r"has 2 servers; say which, as in mcp.json#a: a, b"):
        read(reader, "mcp.json")
    with pytest.raises(HostsError, match="has no server 'c'; it has a, b"):
        read(reader, "mcp.json#c")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("mcp.json", "{", "mcp.json:1:2: "),
        ("mcp.json", "[]", "is not an object with servers"),
        ("mcp.json", "{}", "names no servers"),
        ("mcp.json", '{"mcpServers": {}}', "names no servers"),
        ("mcp.json", '{"mcpServers": {"x": {"command": "a", "args": [1]}}}', "args is not a list"),
        (
            "mcp.json",
            '{"mcpServers": {"x": {"command": "a", "env": ["y"]}}}',
            "env is not an object",
        ),
        ("mcp.json", '{"mcpServers": {"x": {"url": "ftp://a"}}}', "begins with neither"),
        ("mcp.json", '{"mcpServers": {"x": 3}}', "is not an object"),
        ("mcp.json", '{"mcpServers": {"x": {"command": "a", "env": {"A": []}}}}', "A is not a"),
        ("mcp.json", '{"mcpServers": {"x": {"type": "stdio", "command": ""}}}', "has neither"),
        ("mcp.toml", "[x", "mcp.toml:1:3: "),
        ("mcp.yaml", "a: [", "mcp.yaml:2:"),
        ("gone.json", None, "there is no file"),
    ],
)
def test_a_file_without_usable_servers_is_refused(reader, name, text, said):
    if text is not None:
        write(reader, name, text)
    with pytest.raises(HostsError, match=said):
        read(reader, name)


def test_a_file_of_codex_is_read(reader):
    write(
        reader,
        "config.toml",
        '[mcp_servers.x]\nurl = "https://x.example/mcp"\nbearer_token_env_var = "TOKEN"\n',
    )
    entry = read(reader, "config.toml")
    assert entry.headers == {"Authorization": "Bearer ${env:TOKEN}"}


@pytest.mark.parametrize(
    "text",
    [
        "mcpServers:\n  - name: x\n    command: y\n    env: {LEVEL: true}\n",
        "extensions:\n  x: {type: stdio, cmd: y, envs: {LEVEL: true}, enabled: true}\n",
    ],
    ids=["Continue", "Goose"],
)
def test_files_of_yaml_are_read(reader, text):
    write(reader, "config.yaml", text)
    entry = read(reader, "config.yaml")
    assert (entry.name, entry.command, entry.env) == ("x", ("y",), {"LEVEL": "true"})


def test_a_token_becomes_a_header(reader):
    members = {"url": "https://x.example/mcp", "auth": "${env:TOKEN}", "headers": {"A": None}}
    write(reader, "mcp.json", {"mcpServers": {"x": members}})
    target = read(reader, "mcp.json")
    assert target.headers == {"Authorization": "Bearer ${env:TOKEN}"}
    assert target.needed[0].is_secret


def test_a_file_that_is_not_text_is_refused(reader):
    (reader.machine.project / "mcp.json").write_bytes(b"{\xff}")
    with pytest.raises(HostsError, match=r"mcp.json: byte 1 is not UTF-8"):
        read(reader, "mcp.json")


def test_a_file_with_variables_is_passed_on_by_accord(reader):
    write(reader, "mcp.json", {"mcpServers": {"x": {"command": "x", "envFile": ".env"}}})
    entry = read(reader, "mcp.json")
    file = str(reader.machine.project / ".env")
    assert entry.command == (*ACCORD.words, "exec", "--env-file", file, "--", "x")


def test_an_agent_plugin_gets_its_folders(reader):
    plugin = reader.machine.project / "plugin"
    write(reader, "plugin/plugin.json", {"name": "p"})
    write(reader, "plugin/run.sh", "")
    members = {
        "type": "stdio",
        "command": "${PLUGIN_ROOT}/run.sh",
        "args": ["--data", "${PLUGIN_DATA}/x", "./run.sh"],
        "cwd": "./",
    }
    write(reader, "plugin/mcp.json", {"mcpServers": {"p": members}})
    entry = read(reader, "plugin")
    assert entry.command[0] == f"{plugin}/run.sh"
    assert entry.command[2].endswith("accord/plugins/p/x")
    assert entry.command[3] == f"{plugin}/run.sh"
    assert entry.cwd == str(plugin)


REGISTRY = {
    "name": "io.github.me/weather",
    "title": "Weather",
    "version": "1.2.0",
    "description": "Weather",
    "packages": [
        {
            "registryType": "npm",
            "identifier": "@me/weather",
            "version": "1.2.0",
            "transport": {"type": "stdio"},
            "environmentVariables": [{"name": "API_KEY", "isRequired": True, "isSecret": True}],
        }
    ],
    "remotes": [{"type": "streamable-http", "url": "https://weather.example/mcp"}],
}


def test_a_server_of_the_registry_is_read(reader):
    write(reader, "server.json", REGISTRY)
    target = read(reader, "server.json#weather")
    assert plain(target) == ServerSpec(
        name="weather",
        command=("npx", "-y", "@me/weather@1.2.0"),
        env={"API_KEY": "${env:API_KEY}"},
    )
    assert target.title == "Weather"
    assert [each.name for each in target.needed] == ["API_KEY"]
    assert read(reader, "server.json#weather-remote").url == "https://weather.example/mcp"
    with pytest.raises(HostsError, match="weather, weather-remote"):
        read(reader, "server.json")


def test_a_bundle_of_the_registry_is_downloaded_by_the_user(reader):
    package = {"registryType": "mcpb", "identifier": "https://x.example/a.mcpb"}
    write(reader, "server.json", {**REGISTRY, "packages": [package], "remotes": []})
    with pytest.raises(HostsError, match="weather is a bundle: download it"):
        read(reader, "server.json")


def test_accord_is_looked_for_only_if_it_is_needed(reader):
    """A URL can be added by an accord that will be deleted."""
    import msgspec

    machine = msgspec.structs.replace(reader.machine, environ={})
    lazy = TargetReader(machine=machine)
    assert read(lazy, "https://example.com/mcp").url
    write(reader, "desk.py", SERVER)
    assert "accord" in read(lazy, "desk.py").command


def test_a_bundle_that_is_missing_is_refused(reader):
    with pytest.raises(HostsError, match="does not exist; expected a bundle"):
        read(reader, "gone.mcpb")
    assert not Path("gone.mcpb").exists()

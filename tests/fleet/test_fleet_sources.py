"""Servers found in repositories and hosts, and imported from other files."""

import json
from pathlib import Path

import pytest

from accord_tools.contract.cases import read_cases
from accord_tools.fleet.definition import Fleet, FleetError, FleetServer
from accord_tools.fleet.file.reader import read_fleet
from accord_tools.fleet.sources.export import HOSTS, export_fleet
from accord_tools.fleet.sources.host_files import find_host_files, read_host_file
from accord_tools.fleet.sources.insertion import add_servers, hide_literals, make_unique
from accord_tools.fleet.sources.repository import find_servers
from accord_tools.fleet.sources.source_file import read_docker_server, read_source
from accord_tools.hosts.definition import Machine
from accord_tools.hosts.sources.entry_forms import FoundServer, is_server_json, read_server_json
from accord_tools.hosts.table import load_hosts
from support.tables import cases

SECRET = "Zq9-hidden-value-77"


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return path

    return write


def lines(found):
    """Return name and command line of each server."""
    return {
        each.name: " ".join([each.entry.get("command", ""), *each.entry.get("args", ())]).strip()
        or each.entry["url"]
        for each in found
    }


# -- the repository

PYTHON = [
    ("from accord import Server\nserver = Server('desk')", {"desk": "-m accord run a.py:server"}),
    ("from accord import Server as S\nx: S = S(name='Desk One')", {"desk-one": "run a.py:x"}),
    ("import accord\nserver = accord.Server(title)", {"a": "-m accord run a.py:server"}),
    ("from accord import Server\na = Server[int]('x')\nb = Server('y')", {"x": ":a", "y": ":b"}),
    ("from accord import Server\ns = Server('d')\ns.run()", {"d": "a.py"}),
    ("from mcp.server.fastmcp import FastMCP\nm = FastMCP('w')\nm.run()", {"w": "a.py"}),
    ("from fastmcp import FastMCP\nm = FastMCP('w')\nm.run('stdio')", {"w": "a.py"}),
    ("from mcp.server.stdio import stdio_server\nstdio_server()", {"a": "a.py"}),
    ("from fastmcp import FastMCP\nm = FastMCP('w')", {}),
    ("from accord import Server\ns = Server('d')\ns.run('http')", {"d": "accord run a.py:s"}),
    ("import asyncio\nfrom accord import Server\ns = Server('d')\nasyncio.run(1)", {"d": "a.py:s"}),
    ("import asyncio\nfrom fastmcp import FastMCP\nasyncio.run(FastMCP('w'))", {}),
    ("from fastmcp import FastMCP\nm = FastMCP('w')\nm.run(transport='http')", {"w": "a.py"}),
    ("from accord import connect\nconnect('x')", {}),
    ("from flask import Server\nserver = Server('mcp')\nserver.run()", {}),
    ("def broken(: mcp", {}),
    ("raise SystemExit('imported')  # accord mcp", {}),
]


@pytest.mark.parametrize(("text", "expected"), PYTHON, ids=range(len(PYTHON)))
def test_servers_are_found_in_python_files(text, expected, write, tmp_path):
    write("a.py", text)
    found = lines(find_servers(tmp_path))
    assert list(found) == list(expected)
    for name, end in expected.items():
        assert found[name].startswith("python")
        assert found[name].endswith(end)


def test_a_module_that_imports_its_neighbours_is_launched_by_name(write, tmp_path):
    write("src/pkg/__init__.py", "")
    write("src/pkg/server.py", "from .x import y\nimport fastmcp\nfastmcp.FastMCP('w').run()")
    write("src/pkg/__main__.py", "import fastmcp\nfastmcp.FastMCP('v').run()")
    found = {each.entry["args"][1]: each for each in find_servers(tmp_path)}
    assert list(found) == ["pkg", "pkg.server"]
    assert {each.entry["cwd"] for each in found.values()} == {"src"}


def test_installed_packages_and_tests_are_left_out(write, tmp_path):
    for folder in ("node_modules/x", ".venv/lib", "own/lib", "tests", "a/site-packages", ".git"):
        write(f"{folder}/s.py", "from accord import Server\nserver = Server('x')")
    write("own/pyvenv.cfg", "")
    write("test_s.py", "from accord import Server\nserver = Server('x')")
    assert find_servers(tmp_path) == []
    assert len(find_servers(tmp_path, has_tests=True)) == 2


def test_other_sources_of_a_repository_are_found(write, tmp_path):
    package = {"name": "@x/web", "bin": "dist/i.js", "dependencies": {}}
    write("plain/package.json", package)
    package["dependencies"]["@modelcontextprotocol/sdk"] = "1"
    write("web/package.json", package)
    write("server.json", {"name": "a/b", "remotes": [{"type": "sse", "url": "https://b.example"}]})
    write(".mcp.json", {"mcpServers": {"m": {"command": "python", "args": ["own.py"]}}})
    write(".cursor/mcp.json", {"mcpServers": {"m": {"url": "https://m.example"}}})
    write(".gemini/settings.json", {"theme": "x"})
    write(".vscode/mcp.json", "{ broken")
    write("own.py", "from accord import Server\nserver = Server('x')\nserver.run()")
    found = find_servers(tmp_path)
    assert lines(found) == {
        "m": "python own.py",
        "m-2": "https://m.example",
        "b": "https://b.example",
        "web": "node web/dist/i.js",
    }
    assert found[-1].remarks == ("its program is not built yet: npm run build",)


@pytest.mark.parametrize(
    ("members", "script"),
    [
        ({"main": "dist/a.js", "scripts": {"start": "node dist/index.js"}}, "desk/dist/index.js"),
        ({"scripts": {"start": "node --enable-source-maps ./b.mjs --stdio"}}, "desk/b.mjs"),
        ({"main": "dist/a.js", "scripts": {"start": "tsx src/index.ts"}}, "desk/dist/a.js"),
        ({"bin": {"desk": "c.js"}, "scripts": {"start": "node d.js"}}, "desk/c.js"),
        ({"main": "dist/a.js"}, None),  # a library
        ({"scripts": {"start": "tsx src/index.ts"}}, None),
        ({"main": "dist/a.js", "scripts": {"start": ["node"]}}, None),
    ],
)
def test_a_package_of_node_without_a_program_is_found_by_its_start(
    write, tmp_path, members, script
):
    needed = {"@modelcontextprotocol/sdk": "^1.0.0"}
    write("desk/package.json", {"name": "@x/desk", "dependencies": needed, **members})
    found = [(each.name, each.entry) for each in find_servers(tmp_path)]
    expected = [("desk", {"command": "node", "args": [script]})] if script else []
    assert found == expected


def test_paths_are_relative_to_the_fleet_file(write, tmp_path):
    write("repo/a.py", "import fastmcp\nfastmcp.FastMCP('w').run()")
    write("repo/.vscode/mcp.json", {"servers": {"m": {"command": "x"}}})
    m, w = find_servers(tmp_path / "repo", base=tmp_path)
    assert (m.entry["cwd"], w.entry["args"]) == ("repo", ["repo/a.py"])
    (tmp_path / "other").mkdir()
    m, w = find_servers(tmp_path / "repo", base=tmp_path / "other")
    assert m.entry["cwd"] == str(tmp_path / "repo")


# -- hosts


def test_the_configurations_of_hosts_that_exist_are_found(write, tmp_path):
    home = tmp_path / "home"
    for name in ("home/.cursor/mcp.json", "home/.config/Code/User/profiles/p1/mcp.json"):
        write(name, "{}")
    write("elsewhere/config.toml", "")
    environ = {"CODEX_HOME": str(tmp_path / "elsewhere")}
    machine = Machine(system="linux", environ=environ, home=home, project=home)
    found = {path.relative_to(tmp_path).as_posix(): host for host, path in find_host_files(machine)}
    assert found == {
        "home/.cursor/mcp.json": "Cursor",
        "home/.config/Code/User/profiles/p1/mcp.json": "VS Code",
        "elsewhere/config.toml": "Codex",
    }


SHAPES = [
    ("c.json", {"mcpServers": {"a": {"command": "x", "alwaysAllow": []}}}, {"command": "x"}),
    (
        "v.json",
        {"servers": {"a": {"type": "stdio", "command": "x", "env": {"K": "${input:my-key}"}}}},
        {"command": "x", "env": {"K": "${env:MY_KEY}"}},
    ),
    (
        "w.json",
        {"mcpServers": {"a": {"serverUrl": "https://a.example"}}},
        {"url": "https://a.example"},
    ),
    (
        "g.json",
        {"mcpServers": {"a": {"httpUrl": "https://a.example"}}},
        {"url": "https://a.example", "type": "http"},
    ),
    (
        "z.json",
        {"context_servers": {"a": {"command": {"path": "x", "args": ["1"], "env": {"B": "2"}}}}},
        {"command": "x", "args": ["1"], "env": {"B": "2"}},
    ),
    (
        "o.json",
        {"mcp": {"a": {"type": "local", "command": ["x", "1"], "environment": {"B": "{env:C}"}}}},
        {"command": "x", "args": ["1"], "env": {"B": "${env:C}"}},
    ),
    (
        "codex.toml",
        "[mcp_servers.a]\nurl = 'https://a.example'\nbearer_token_env_var = 'T'\n",
        {"url": "https://a.example", "headers": {"Authorization": "Bearer ${env:T}"}},
    ),
    (
        "codex.toml",
        "[mcp_servers.a]\ncommand = 'x'\nenv_vars = ['T']\n",
        {"command": "x", "env": {"T": "${env:T}"}},
    ),
    (
        "goose.yaml",
        "extensions:\n  a: {cmd: x, args: ['1'], type: stdio, envs: {B: c}}\n  b: {type: x}\n",
        {"command": "x", "args": ["1"], "env": {"B": "c"}},
    ),
    (
        "continue.yaml",
        "mcpServers:\n  - name: a\n    command: x\n    env: {K: '${{ secrets.K }}'}\n",
        {"command": "x", "env": {"K": "${env:K}"}},
    ),
    (
        "claude.json",
        {"projects": {"/work": {"mcpServers": {"a": {"command": "x"}}}}, "theme": 1},
        {"command": "x", "cwd": "/work"},
    ),
]


@pytest.mark.parametrize(("name", "text", "entry"), SHAPES, ids=range(len(SHAPES)))
def test_the_entry_of_every_host_is_understood(name, text, entry, write):
    (found,) = read_host_file(write(name, text))
    assert (found.name, found.entry) == ("a", entry)


def test_disabled_servers_are_left_out(write):
    path = write("c.json", {"mcpServers": {"a": {"command": "x", "disabled": True}}})
    assert read_host_file(path) == []
    with pytest.raises(FleetError, match="names no servers"):
        read_host_file(write("d.json", {"theme": 1}))


def test_secrets_become_variables_and_are_shared_only_if_they_are_equal():
    def server(name, value):
        return FoundServer(name=name, entry={"command": "x", "env": {"API_KEY": value}})

    found = hide_literals([server("a", SECRET), server("b", SECRET), server("c", "other-Value-1")])
    assert [each.entry["env"]["API_KEY"] for each in found] == [
        *("${env:API_KEY}", "${env:API_KEY}", "${env:C_API_KEY}"),
    ]
    assert [each.variables for each in found] == [("API_KEY",), ("API_KEY",), ("C_API_KEY",)]


@pytest.mark.parametrize(
    ("entry", "hidden"),
    [
        (
            {"url": f"https://me:{SECRET}@a.example/?key={SECRET}&x=1&token=abc"},
            {
                "url": "https://me:${env:A_PASSWORD}@a.example/?key=${env:A_KEY}&x=1&token=${env:A_T}"
            },
        ),
        (
            {
                "command": "x",
                "args": ["--token", SECRET, f"--api-key={SECRET}", "-e", "T_TOKEN=ab"],
            },
            {
                "command": "x",
                "args": [
                    *("--token", "${env:A_TOKEN}", "--api-key=${env:A_API_KEY}"),
                    *("-e", "T_TOKEN=${env:T_TOKEN}"),
                ],
            },
        ),
        (
            {"url": "https://a.example", "headers": {"Authorization": f"Bearer {SECRET}"}},
            {"url": "https://a.example", "headers": {"Authorization": "Bearer ${env:A_TOKEN}"}},
        ),
    ],
)
def test_every_literal_secret_is_replaced(entry, hidden):
    (found,) = hide_literals([FoundServer(name="a", entry=entry)])
    assert json.dumps(found.entry).replace("A_TOKEN}&", "") == json.dumps(hidden).replace(
        "${env:A_T}", "${env:A_TOKEN}"
    )
    assert SECRET not in json.dumps(found.entry)


def test_names_are_made_unique_with_their_files():
    server = FoundServer(
        name="a",
        entry={},
        settings={"cases": ["cases/a.accord.toml"]},
        files={"cases/a.accord.toml": "x"},
    )
    first, second = make_unique([server, server])
    assert (first.name, second.name) == ("a", "a-2")
    assert second.settings == {"cases": ["cases/a-2.accord.toml"]}
    assert list(second.files) == ["cases/a-2.accord.toml"]


# -- server.json


def registry(**members):
    document = {"name": "io.github.me/weather", "version": "1.2.0", "description": "d", **members}
    assert is_server_json(document)
    return read_server_json(document, "server.json")


PACKAGES = [
    ({"registryType": "npm", "identifier": "@me/w", "version": "1.2.0"}, "npx -y @me/w@1.2.0"),
    ({"registryType": "pypi", "identifier": "w", "version": "1.2.0"}, "uvx w==1.2.0"),
    ({"registry_type": "pypi", "identifier": "w", "runtime_hint": "uvx"}, "uvx w"),
    (
        {
            "registryType": "oci",
            "identifier": "ghcr.io/me/w",
            "version": "1.2.0",
            "environmentVariables": [{"name": "A", "value": "b"}],
        },
        "docker run -i --rm -e A ghcr.io/me/w:1.2.0",
    ),
    ({"registryType": "oci", "identifier": "me/w:9", "version": "1"}, "docker run -i --rm me/w:9"),
    (
        {
            "registryType": "nuget",
            "identifier": "W",
            "version": "1.2.0",
            "packageArguments": [{"type": "positional", "value": "serve"}],
        },
        "dnx W@1.2.0 --yes -- serve",
    ),
    (
        {
            "registryType": "npm",
            "identifier": "w",
            "runtimeArguments": [{"type": "named", "name": "--yes"}],
            "packageArguments": [
                {"type": "named", "name": "--mode", "default": "fast"},
                {"type": "named", "name": "--verbose"},
                {"type": "named", "name": "--key", "isRequired": True, "isSecret": True},
                {"type": "positional", "valueHint": "folder", "isRequired": True},
                {"type": "positional", "value": "{x}/y", "variables": {"x": {"default": "z"}}},
            ],
        },
        "npx --yes w --mode fast --key ${env:WEATHER_KEY} ${env:WEATHER_FOLDER} z/y",
    ),
]


@cases(("package", "line"), PACKAGES, ids=range(len(PACKAGES)))
def test_a_package_becomes_its_launch_line(package, line):
    (found,) = registry(packages=[package])
    assert lines([found]) == {"weather": line}


def test_required_inputs_become_needs():
    (found,) = registry(
        packages=[
            {
                "registryType": "npm",
                "identifier": "w",
                "environmentVariables": [
                    {"name": "API_KEY", "isRequired": True, "isSecret": True},
                    {"name": "REGION", "default": "eu"},
                    {"name": "LEVEL", "value": "{level}", "variables": {"level": {"default": 3}}},
                    {"name": "OPTIONAL", "description": "x"},
                    {"name": "DEFAULT_SECRET", "isSecret": True, "default": SECRET},
                ],
            }
        ]
    )
    assert found.entry["env"] == {"API_KEY": "${env:API_KEY}", "REGION": "eu", "LEVEL": "3"}
    assert found.settings == {"needs": ["API_KEY"]}
    assert found.variables == ("API_KEY",)
    assert found.remarks == ()


def test_remotes_become_urls():
    first, second = registry(
        remotes=[
            {
                "type": "streamable-http",
                "url": "https://{region}.w.example/{tenant}/mcp",
                "variables": {"region": {"default": "eu"}, "tenant": {"isRequired": True}},
                "headers": [
                    {"name": "Authorization", "value": "Bearer {token}", "isSecret": True},
                    {"name": "X-Key", "isRequired": True, "isSecret": True},
                    {"name": "X-Mode", "value": "fast"},
                    {"name": "X-Optional"},
                ],
            },
            {"type": "sse", "url": "https://w.example/sse"},
        ]
    )
    assert first.name == "weather-remote"
    assert first.entry == {
        "type": "http",
        "url": "https://eu.w.example/${env:WEATHER_TENANT}/mcp",
        "headers": {
            "Authorization": "Bearer ${env:WEATHER_TOKEN}",
            "X-Key": "${env:WEATHER_X_KEY}",
            "X-Mode": "fast",
        },
    }
    assert first.settings["needs"] == ["WEATHER_TENANT", "WEATHER_TOKEN", "WEATHER_X_KEY"]
    assert (second.name, second.entry["type"]) == ("weather-sse", "sse")


def test_faults_of_a_server_json_are_remarks():
    document = {
        "name": "weather",
        "version": "latest",
        "packages": [
            {"registryType": "mcpb", "identifier": "https://x.example/a.mcpb"},
            {"registryType": "npm", "identifier": "w", "transport": {"type": "sse", "url": "u"}},
            {"registryType": "cargo", "identifier": "w"},
            "nonsense",
        ],
    }
    bundle, sse, cargo = read_server_json({"server": document}, "x")
    said = " / ".join((*bundle.remarks, *sse.remarks, *cargo.remarks))
    for each in (
        *("namespace/name", "version is missing or not exact", "description is missing"),
        *("unpack it", "it speaks sse once it is launched", "registryType 'cargo' is not known"),
    ):
        assert each in said
    assert [each.name for each in (bundle, sse, cargo)] == [
        *("weather-mcpb", "weather-npm", "weather-cargo"),
    ]


def test_an_answer_of_the_registry_has_many_servers():
    rows = [{"server": {"name": f"a/s{n}", "remotes": [{"url": "https://x"}]}} for n in range(2)]
    assert is_server_json({"servers": rows})
    assert [each.name for each in read_server_json({"servers": rows}, "x")] == ["s0", "s1"]


# -- mcp-jest

JEST = {
    "server": {"command": "node", "args": ["./calc.js"], "env": {"API_KEY": SECRET}},
    "tests": {
        "timeout": 2500,
        "tools": {
            "add": {"args": {"a": 1, "b": None}, "expect": "content[0].text === '4'"},
            "greet": {"args": {"name": 'A "B"'}, "expect": "contains:Hello && contains:B"},
            "fail": {"shouldThrow": True},
            "ping": {"expect": "exists"},
            "plain": {},
            "many": {"expect": "length > 3"},
            "snap": {"snapshot": True},
            "mixed": {"expect": "exists && count >= 2\n[[case]]"},
        },
        "resources": {"note://a": {"expect": "contains:x"}, "note://*": {"expect": "count > 2"}},
        "prompts": ["hello"],
        "skip": "slow",
    },
}


def test_a_configuration_of_mcp_jest_becomes_an_entry_and_cases(write, tmp_path):
    write("calc.mcp-jest.json", JEST)
    (found,), remarks = read_source(tmp_path / "calc.mcp-jest.json", tmp_path)
    assert remarks == []
    assert (found.name, found.entry["args"]) == ("calc", ["./calc.js"])
    assert found.entry["env"] == {"API_KEY": "${env:API_KEY}"}
    assert found.settings == {
        "cases": ["cases/calc.accord.toml"],
        "lock": "locks/calc.lock.json",
    }
    assert found.remarks[0] == "8 cases translated, 4 not: see cases/calc.accord.toml"
    path = write("cases/calc.accord.toml", found.files["cases/calc.accord.toml"])
    file = read_cases(path)
    assert file.timeout == 2.5
    cases = {each.name: each for each in file.case}
    assert len(cases) == 8
    assert cases["prompt hello is offered"].offers == "prompt hello"
    assert cases["call add"].arguments == {"a": 1}
    assert cases["call add"].expect.text == "4"
    assert cases["call greet"].expect.contains == ["Hello", "B"]
    assert cases["call fail"].expect.error is True
    assert cases["read note://a"].expect.contains == "x"
    assert cases["call plain"].expect == cases["call ping"].expect == cases["call snap"].expect
    text = path.read_text()
    for each in ("length > 3", "count >= 2", "note://*", "skip: slow"):
        assert next(line for line in text.splitlines() if each in line).startswith("# ")


def test_variants_of_mcp_jest_call_the_tool_and_keep_what_they_expect(write, tmp_path):
    filled = "content && content.length > 0"
    tools = {
        "echo:valid": {"args": {"message": "a"}, "expect": filled},
        "echo:missing-message": {"args": {}, "shouldThrow": True},
        "echo:typed": {"expect": "content[0].type === 'text' && isError === false"},
        "echo:long": {"expect": "content[0].text.length > 0"},
    }
    test = {"server": {"command": "x"}, "tests": {"tools": tools, "prompts": {}}}
    write("echo.mcp-jest.json", test)
    (found,), _ = read_source(tmp_path / "echo.mcp-jest.json", tmp_path)
    assert found.remarks[0].startswith("4 cases translated, 0 not")
    path = write("cases/echo.accord.toml", found.files["cases/echo.accord.toml"])
    cases = read_cases(path).case
    assert [each.call for each in cases] == ["echo"] * 4
    assert [each.name for each in cases] == [f"call {name}" for name in tools]
    valid, missing, typed, long = (each.expect for each in cases)
    assert (valid.not_empty, missing.error) == (True, True)
    assert typed.at == {"content[0].type": "text", "isError": False}
    assert long.not_empty == "content[0].text"


def test_lists_of_names_of_mcp_jest_become_cases_that_look_for_them(write, tmp_path):
    tests = {"tools": ["add"], "resources": ["note://a", "note://*"]}
    write("mcp-jest.json", {"server": {"command": "x", "args": ["calc.js"]}, "tests": tests})
    (found,), _ = read_source(tmp_path / "mcp-jest.json", tmp_path)
    assert found.name == "calc"
    assert found.remarks == ("2 cases translated, 1 not: see cases/calc.accord.toml",)


# -- files and folders


def test_a_folder_of_any_files_is_imported(write, tmp_path):
    write("in/jest/a.json", JEST)
    write("in/registry/server.json", {"name": "x/b", "remotes": [{"url": "https://b.example"}]})
    write("in/hosts/mcp.json", {"mcpServers": {"c": {"command": "./c"}}})
    write("in/docker/server.yaml", "name: d\nimage: mcp/d\nconfig: {secrets: [{env: D_KEY}]}\n")
    write("in/broken.json", "{")
    write("in/other.json", {"x": 1})
    found, remarks = read_source(tmp_path / "in", tmp_path)
    assert {each.name for each in found} == {"a", "b", "c", "d"}
    assert next(each for each in found if each.name == "c").entry["cwd"] == "in/hosts"
    assert [Path(each.partition(":")[0]).name.split()[0] for each in remarks] == [
        *("broken.json", "other.json"),
    ]
    path = tmp_path / "accord-fleet.toml"
    for each in found:
        for name, text in each.files.items():
            write(name, text)
    add_servers(path, found)
    assert {each.name for each in read_fleet(path).servers} == {"a", "b", "c", "d"}


def test_nothing_to_import_is_an_error(write, tmp_path):
    with pytest.raises(FleetError, match="has no file with servers to import"):
        read_source(tmp_path, tmp_path)
    with pytest.raises(FleetError, match="there is no such file"):
        read_source(tmp_path / "gone.json", tmp_path)


def test_a_server_of_the_docker_catalogue_becomes_an_entry():
    found = read_docker_server(
        {
            "name": "files",
            "image": "mcp/files@sha256:0",
            "config": {
                "secrets": [{"name": "files.key", "env": "FILES_KEY"}],
                "env": [{"name": "MODE", "value": "fast"}, {"name": "ROOT", "value": "{{x}}"}],
            },
            "run": {
                "command": ["--a", "{{files.b}}"],
                "volumes": ["/d:/d"],
                "disableNetwork": True,
            },
        },
        "server.yaml",
    )
    assert lines([found]) == {
        "files": "docker run -i --rm -e FILES_KEY -e MODE -e ROOT --network none -v /d:/d "
        "mcp/files@sha256:0 --a"
    }
    assert found.settings == {"needs": ["FILES_KEY", "ROOT"]}
    assert found.remarks == ("the argument {{files.b}} has to be written by hand",)


# -- export


@pytest.fixture
def fleet(tmp_path):
    (tmp_path / "a.py").touch()
    entries = {
        "a": {
            "command": "python",
            "args": ["a.py", "${fleet}/x"],
            "env": {"KEY": "${env:KEY}", "MODE": "fast", "B": "${env:C:-d}"},
        },
        "b": {
            "url": "https://b.example",
            "headers": {"Authorization": "Bearer ${env:T}", "X": "${Y}", "Z": "z"},
        },
    }
    servers = tuple(FleetServer(name=name, entry=entry) for name, entry in entries.items())
    return Fleet(path=tmp_path / "accord-fleet.toml", folder=tmp_path, servers=servers)


@cases("id", HOSTS)
def test_exported_entries_are_understood_again(id, fleet, write):
    exported = export_fleet(fleet, id)
    host = load_hosts().get(id)
    ending = {"toml": "toml", "yaml": "yaml"}.get(host.format if host else "", "json")
    a, *others = read_host_file(write(f"out.{ending}", exported.text))
    assert a.entry["command"] == "python"
    assert (fleet.folder / a.entry.get("cwd", "") / a.entry["args"][0]).is_file()
    assert a.entry["args"][1] == f"{fleet.folder}/x"
    assert a.entry["env"]["MODE"] == "fast"
    assert a.entry["env"]["KEY"] in ("${env:KEY}", "${KEY}")
    remarks = " ".join(exported.remarks)
    has_url = host is None or host.http is not None
    assert ("server 'b': left out: " in remarks) == (not has_url)
    if has_url:
        (b,) = others
        assert b.entry["url"] == "https://b.example"
        assert b.entry["headers"]["Authorization"] in ("Bearer ${env:T}", "Bearer ${T}")
    has_variables = host is None or bool(host.placeholders.env or host.placeholders.input)
    assert ("write the value yourself" in remarks) == (not has_variables or id == "goose")


def test_hosts_have_members_of_their_own(fleet):
    assert json.loads(export_fleet(fleet).text)["mcpServers"]["b"]["type"] == "http"
    assert json.loads(export_fleet(fleet, "vscode").text)["servers"]["a"]["type"] == "stdio"
    assert "serverUrl" in json.loads(export_fleet(fleet, "windsurf").text)["mcpServers"]["b"]
    assert list(json.loads(export_fleet(fleet, "zed").text)) == ["context_servers"]
    code = json.loads(export_fleet(fleet, "claude-code").text)["mcpServers"]
    assert code["a"]["env"] == {"KEY": "${KEY}", "MODE": "fast", "B": "${C:-d}"}
    codex = export_fleet(fleet, "codex")
    assert 'bearer_token_env_var = "T"' in codex.text
    assert codex.remarks == (
        "server 'a': codex does not fill in C there: write the value yourself",
    )
    with pytest.raises(FleetError, match="there is no host 'curser'; did you mean cursor"):
        export_fleet(fleet, "curser")

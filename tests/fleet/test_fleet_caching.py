"""When an earlier result may be reused: the key covers all that a server consists of."""

import os
import sys
from pathlib import Path

import pytest

from accord.client.server_spec import ServerSpec
from accord_tools.fleet.caching import make_key, read_version
from accord_tools.fleet.definition import FleetError, FleetServer, VersionSource
from accord_tools.fleet.results import RuleSetStamp

RULES = RuleSetStamp(version="1", digest="abc")
KEY = {"ACCORD_FLEET_KEY": "k"}


def key_of(folder: Path, *command: str, environ=KEY, rules=RULES, version="", **given):
    env = given.pop("env", {})
    resolved = ServerSpec(name="desk", command=(sys.executable, *command), cwd=str(folder), env=env)
    server = FleetServer(name="desk", entry={}, **given)
    return make_key(server, resolved, rules, version=version, environ=environ)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text("import helper\nfrom pack import inner\n")
    (tmp_path / "helper.py").write_text("X = 1\n")
    (tmp_path / "other.py").write_text("X = 1\n")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "inner.py").write_text("from . import deep\n")
    (tmp_path / "pack" / "deep.py").write_text("")
    return tmp_path


def test_the_same_server_has_the_same_key(folder):
    first = key_of(folder, "server.py")
    assert first.key
    assert first == key_of(folder, "server.py")


@pytest.mark.parametrize(
    "changed", ["server.py", "helper.py", "pack/inner.py", "pack/deep.py", "pack/__init__.py"]
)
def test_one_byte_of_a_file_that_is_imported_changes_the_key(folder, changed):
    before = key_of(folder, "server.py")
    (folder / changed).write_text((folder / changed).read_text() + "\n")
    assert key_of(folder, "server.py") != before


def test_a_file_that_is_not_imported_does_not_change_the_key(folder):
    before = key_of(folder, "server.py")
    (folder / "other.py").write_text("X = 2\n")
    assert key_of(folder, "server.py") == before


@pytest.mark.parametrize(
    "words",
    [
        ("-m", "accord.cli.main", "run", "server.py"),
        ("-P", "-X", "dev", "server.py"),
        ("-m", "accord.cli.main", "run", "server.py:app"),
        ("-m", "pack"),
    ],
)
def test_the_file_is_found_however_python_runs_it(folder, words):
    (folder / "pack" / "__main__.py").write_text("import helper\n")
    before = key_of(folder, *words)
    (folder / "server.py").write_text("import other\n")
    (folder / "pack" / "__main__.py").write_text("import other\n")
    assert before.key
    assert key_of(folder, *words) != before


def test_everything_asked_of_a_server_is_part_of_the_key(folder):
    cases = folder / "cases.toml"
    cases.write_text("a = 1")
    before = key_of(folder, "server.py", cases=(cases,))
    others = [
        key_of(folder, "server.py"),
        key_of(folder, "server.py", "--flag", cases=(cases,)),
        key_of(folder, "server.py", cases=(cases,), revisions=("2025-06-18",)),
        key_of(folder, "server.py", cases=(cases,), only=("tools",)),
        key_of(folder, "server.py", cases=(cases,), env={"A": "1"}),
        key_of(folder, "server.py", cases=(cases,), version="2"),
        key_of(folder, "server.py", cases=(cases,), rules=RuleSetStamp(version="1", digest="d")),
    ]
    cases.write_text("a = 2")
    others.append(key_of(folder, "server.py", cases=(cases,)))
    # Results that the cases are compared with.
    (folder / "cases.snapshots.json").write_text("{}")
    others.append(key_of(folder, "server.py", cases=(cases,)))
    assert len({before.key, *(each.key for each in others)}) == 10


def test_owner_tags_and_limits_are_judged_anew_and_not_part_of_the_key(folder):
    before = key_of(folder, "server.py")
    assert key_of(folder, "server.py", owner="us", tags=("a",)) == before


def test_values_of_variables_enter_the_key_only_with_the_secret_of_the_user(folder):
    one = key_of(folder, "server.py", env={"TOKEN": "a"})
    assert one != key_of(folder, "server.py", env={"TOKEN": "b"})
    other = {"ACCORD_FLEET_KEY": "another"}
    assert one != key_of(folder, "server.py", env={"TOKEN": "a"}, environ=other)


@pytest.mark.skipif(sys.platform != "linux", reason="the folder of the user is elsewhere")
def test_the_secret_of_the_user_is_made_once_and_private(folder):
    environ = {"XDG_CONFIG_HOME": str(folder / "config")}
    first = key_of(folder, "server.py", environ=environ)
    file = folder / "config" / "accord" / "fleet-key"
    assert len(file.read_bytes()) == 32
    assert file.stat().st_mode & 0o077 == 0
    assert key_of(folder, "server.py", environ=environ) == first


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("/usr/bin/npx", "-y", "some-server"), "npx runs whichever version is the newest"),
        (("/usr/bin/uvx", "some-server"), "uvx runs whichever version is the newest"),
        (("/bin/bash", "run.sh"), "bash may run anything"),
        ((sys.executable, "-c", "print(1)"), "python -c and code from standard input"),
        (("/no/such/program",), "/no/such/program cannot be read"),
    ],
)
def test_a_command_whose_files_are_unknown_is_not_kept(folder, command, why):
    resolved = ServerSpec(name="desk", command=command, cwd=str(folder))
    found = make_key(FleetServer(name="desk", entry={}), resolved, RULES, environ=KEY)
    assert not found.key
    assert why in found.why_not


@pytest.mark.parametrize(
    "command",
    [
        ("/usr/bin/npx", "-y", "@scope/server@1.2.3"),
        ("/usr/bin/uvx", "server==1.2.3"),
        ("/usr/bin/docker", "run", "-i", "image@sha256:" + "a" * 64),
    ],
)
def test_a_fetched_program_with_an_exact_version_is_kept(folder, command):
    resolved = ServerSpec(name="desk", command=command, cwd=str(folder))
    assert make_key(FleetServer(name="desk", entry={}), resolved, RULES, environ=KEY).key


def test_a_script_of_node_is_known_by_all_code_of_its_package(folder):
    (folder / "package.json").write_text("{}")
    (folder / "index.js").write_text("import './lib.mjs'")
    (folder / "lib.mjs").write_text("1")
    program = folder / "node"
    program.write_bytes(b"\x7fELF")

    def key():
        resolved = ServerSpec(name="d", command=(str(program), "index.js"), cwd=str(folder))
        return make_key(FleetServer(name="d", entry={}), resolved, RULES, environ=KEY)

    before = key()
    assert before.key
    (folder / "lib.mjs").write_text("2")
    assert key() != before


def test_an_upgraded_package_changes_the_key(folder):
    home = folder / "venv"
    site = home / "lib" / "python3.11" / "site-packages"
    (site / "desk").mkdir(parents=True)
    (site / "desk" / "__init__.py").write_text("")
    (site / "desk-1.0.dist-info").mkdir()
    (home / "bin").mkdir()
    os.symlink(sys.executable, home / "bin" / "python")
    script = home / "bin" / "desk"
    script.write_text(f"#!{home}/bin/python\nfrom desk import main\nmain()\n")

    def key():
        resolved = ServerSpec(name="d", command=(str(script),), cwd=str(folder))
        return make_key(FleetServer(name="d", entry={}), resolved, RULES, environ=KEY)

    before = key()
    assert before.key
    (site / "desk-1.0.dist-info").rename(site / "desk-1.1.dist-info")
    assert key() != before


def version(source: VersionSource, folder: Path, *command: str) -> str:
    resolved = ServerSpec(name="d", command=command, cwd=str(folder))
    return read_version(FleetServer(name="d", entry={}, version=source), resolved, folder)


def test_the_version_is_read_from_files_packages_and_commands(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2"\n')
    (tmp_path / "package.json").write_text('{"version": "3.4"}')
    (tmp_path / "VERSION").write_text("5.6\n")
    (tmp_path / "node_modules" / "@a" / "b").mkdir(parents=True)
    (tmp_path / "node_modules" / "@a" / "b" / "package.json").write_text('{"version": "7"}')
    (tmp_path / "lib" / "python3.12" / "site-packages" / "My_Desk-8.9.dist-info").mkdir(
        parents=True
    )
    assert version(VersionSource(file=tmp_path / "pyproject.toml"), tmp_path) == "1.2"
    assert version(VersionSource(file=tmp_path / "package.json"), tmp_path) == "3.4"
    assert version(VersionSource(file=tmp_path / "VERSION"), tmp_path) == "5.6"
    assert version(VersionSource(package="npm:@a/b"), tmp_path) == "7"
    python = str(tmp_path / "bin" / "python")
    assert version(VersionSource(package="pypi:my-desk"), tmp_path, python) == "8.9"
    prints = (sys.executable, "-c", "print('10.11')")
    assert version(VersionSource(command=prints), tmp_path) == "10.11"
    assert read_version(FleetServer(name="d", entry={}), ServerSpec(name="d"), tmp_path) == ""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (VersionSource(file=Path("/no/file")), "No such file"),
        (VersionSource(package="pypi:none"), "'pypi:none' is not installed where the server runs"),
        (VersionSource(command=(sys.executable, "-c", "raise SystemExit(3)")), "ended with 3"),
        (VersionSource(command=("/no/program",)), "No such file"),
        (VersionSource(), "version needs package, command or file"),
    ],
)
def test_a_version_that_cannot_be_found_is_an_error(source, said, tmp_path):
    with pytest.raises(FleetError, match=said):
        version(source, tmp_path)
